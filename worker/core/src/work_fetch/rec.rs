//! What each scheduler got lately: an exponential average of what its tasks kept busy.
//!
//! The unit is instances, each weighed with its speed beside one of the CPU: a scheduler that has always kept two of the CPU busy has 2.
//! Only quotients of them matter.

use std::f64::consts::LN_2;

use brasserie_common::Time;

use super::amounts::{DAY, amount};
use super::profile::Profile;
use super::types::{Processors, Stage, Task};

/// Where none is given.
const DEFAULT_HALF_LIFE: f64 = 10.0 * DAY;
/// With less than this of it new, an average grows as if no time had passed: the difference of two close numbers says nothing.
const HARDLY_NEW: f64 = 1e-6;
/// An interval of this part of a period or less waits for more: a second where the period is a minute.
const SHORTEST_INTERVAL: f64 = 1.0 / 60.0;
/// In longer ones of so many periods nobody knows what ran: the machine slept, or its clock was set.
const LONGEST_INTERVAL: f64 = 2.0;
/// An interval of so many seconds is believed however short the period is: two periods of the volunteers' system, so that a worker that
/// looks often loses nothing when it stands still for a moment.
const ALWAYS_LOOKED_AT: f64 = 120.0;

/// An average of work a day, as it is `since_average` seconds later, in which `work` was done.
pub fn update_average(average: f64, since_average: f64, work: f64, half_life: f64) -> f64 {
    let half_life = or_default(half_life);
    let since = amount(since_average);
    let weight = (-since * LN_2 / half_life).exp();
    let fresh = 1.0 - weight;
    let old = amount(average) * weight;
    let work = amount(work);
    amount(if fresh > HARDLY_NEW {
        old + fresh * (work / (since / DAY))
    } else {
        old + LN_2 * work * DAY / half_life
    })
}

fn or_default(half_life: f64) -> f64 {
    match amount(half_life) {
        0.0 => DEFAULT_HALF_LIFE,
        given => given,
    }
}

/// What of an association outlives its worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SavedRec {
    pub average: f64,
    /// Seconds since it was right.
    pub age: f64,
}

impl SavedRec {
    /// No more than these processors ever make of it: else it would take for ever until it is what it should be.
    pub fn within(self, processors: &Processors) -> Self {
        SavedRec {
            average: amount(self.average).min(amount(processors.peak())),
            ..self
        }
    }

    /// So many seconds later.
    pub fn older(self, by: f64) -> Self {
        let age = amount(self.age) + amount(by);
        SavedRec { age, ..self }
    }
}

/// The averages of all associations, and what was done since.
///
/// ```text
///                  .-- too short: goes on --.
///                  v                        |
/// averaged --> interval --(adjust)----------+--> averaged
///                  |                        |
///                  '-- too long, or ends before it begins: dropped --> interval
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Accounting {
    half_life: f64,
    period: f64,
    averages: Vec<f64>,
    averaged_at: Time,
    /// Instance-seconds of tasks that stopped within the interval.
    stopped: Vec<f64>,
    interval_start: Time,
}

impl Accounting {
    /// By association; new ones have the default.
    pub fn new(saved: &[SavedRec], now: Time, profile: &Profile) -> Self {
        let half_life = or_default(profile.rec_half_life);
        let averages = saved
            .iter()
            .map(|one| update_average(one.average, one.age, 0.0, half_life));
        Accounting {
            half_life,
            period: amount(profile.schedule_period),
            averages: averages.collect(),
            averaged_at: now,
            stopped: vec![0.0; saved.len()],
            interval_start: now,
        }
    }

    /// By association.
    pub fn averages(&self) -> &[f64] {
        &self.averages
    }

    pub fn save(&self, now: Time) -> Vec<SavedRec> {
        let age = now.since(self.averaged_at).as_secs_f64();
        let save = |average: &f64| SavedRec {
            average: *average,
            age,
        };
        self.averages.iter().map(save).collect()
    }

    /// A task that executed stops: its part of the interval counts, as nobody will know of it later.
    pub fn stopped(&mut self, now: Time, task: &Task, processors: &Processors) {
        let part = self.part(now, task, processors);
        if let Some(stopped) = self.stopped.get_mut(task.association.0) {
            *stopped += part;
        }
    }

    /// Averages what was done, those tasks among it that execute still. To be called at least once a period.
    pub fn adjust(&mut self, now: Time, tasks: &[Task], processors: &Processors) {
        let interval = now.since(self.interval_start).as_secs_f64();
        if now < self.interval_start || interval > self.longest_interval() {
            self.restart(now);
            return;
        }
        if interval < SHORTEST_INTERVAL * self.period {
            return;
        }
        for task in tasks {
            self.stopped(now, task, processors);
        }
        let since = now.since(self.averaged_at).as_secs_f64();
        for (average, done) in self.averages.iter_mut().zip(&self.stopped) {
            *average = update_average(*average, since, done / DAY, self.half_life);
        }
        self.averaged_at = now;
        self.restart(now);
    }

    /// Beyond this the machine slept, or nobody looked: what was done is not known.
    fn longest_interval(&self) -> f64 {
        (LONGEST_INTERVAL * self.period).max(ALWAYS_LOOKED_AT)
    }

    /// Instance-seconds of the interval.
    fn part(&self, now: Time, task: &Task, processors: &Processors) -> f64 {
        match task.stage {
            Stage::Executing { since } => {
                let seconds = now.since(since.max(self.interval_start)).as_secs_f64();
                seconds * amount(task.usage.peak(processors))
            }
            Stage::Queued | Stage::WaitingForInputs { .. } | Stage::Preempted { .. } => 0.0,
        }
    }

    fn restart(&mut self, now: Time) {
        self.interval_start = now;
        self.stopped.fill(0.0);
    }
}

#[cfg(test)]
mod tests;
