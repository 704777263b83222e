//! The recent work of each scheduler (REC): an exponential average of the processors that its tasks kept busy.
//!
//! The unit is instances, each weighted with its speed relative to a CPU: a scheduler that has always kept two CPUs busy has 2. Only
//! quotients of these averages matter.

use std::f64::consts::LN_2;

use brasserie_common::Time;
use serde::{Deserialize, Serialize};

use super::amounts::{DAY, amount};
use super::profile::Profile;
use super::types::{Processors, Task, TaskStage};

/// Half-life in seconds, if none is given.
const DEFAULT_HALF_LIFE: f64 = 10.0 * DAY;
/// If less than this fraction of an average is new, it grows as if no time had passed: the difference of two close numbers would lose
/// precision.
const HARDLY_NEW: f64 = 1e-6;
/// Intervals up to this fraction of a period are extended: a second if the period is a minute.
const SHORTEST_INTERVAL: f64 = 1.0 / 60.0;
/// Intervals of more than this many periods are dropped, because it is unknown which tasks ran: the machine slept, or its clock was set.
const LONGEST_INTERVAL: f64 = 2.0;
/// Intervals up to this many seconds count, however short the period is. This is two periods of BOINC, so that a worker with short periods
/// loses nothing when it stalls for a moment.
const ALWAYS_LOOKED_AT: f64 = 120.0;

/// Returns an average of work per day, updated after `since_average` seconds in which `work` was done. A new average starts at 0. In BOINC
/// the first interval determines the whole average, so a new scheduler would count as if it had always received as much.
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

/// The part of an association's average that survives a restart of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRec {
    pub average: f64,
    /// Seconds since the average was correct.
    #[serde(rename = "age_secs")]
    pub age: f64,
}

impl SavedRec {
    /// Limits the average to the peak of these processors. A larger one would take too long to decay.
    pub fn within(self, processors: &Processors) -> Self {
        SavedRec {
            average: amount(self.average).min(amount(processors.peak())),
            ..self
        }
    }

    /// Returns the average `by` seconds later.
    pub fn older(self, by: f64) -> Self {
        let age = amount(self.age) + amount(by);
        SavedRec { age, ..self }
    }
}

/// The averages of all associations, and the work since the last update.
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
    /// Starts from saved averages, by association.
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

    /// Returns the averages by association.
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

    /// Counts the part of the interval in which a stopping task executed, because it will be unknown later.
    pub fn stopped(&mut self, now: Time, task: &Task, processors: &Processors) {
        let part = self.part(now, task, processors);
        if let Some(stopped) = self.stopped.get_mut(task.association.0) {
            *stopped += part;
        }
    }

    /// Updates the averages with the work of the interval, including that of tasks that still execute. Must be called at least once a
    /// period.
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

    /// Returns the length beyond which an interval is discarded, because the machine slept or the caller stalled.
    fn longest_interval(&self) -> f64 {
        (LONGEST_INTERVAL * self.period).max(ALWAYS_LOOKED_AT)
    }

    /// Returns the task's instance-seconds within the interval.
    fn part(&self, now: Time, task: &Task, processors: &Processors) -> f64 {
        match task.stage {
            TaskStage::Executing { since } => {
                let seconds = now.since(since.max(self.interval_start)).as_secs_f64();
                seconds * amount(task.usage.peak(processors))
            }
            TaskStage::Queued
            | TaskStage::WaitingForInputs { .. }
            | TaskStage::Preempted { .. } => 0.0,
        }
    }

    fn restart(&mut self, now: Time) {
        self.interval_start = now;
        self.stopped.fill(0.0);
    }
}

#[cfg(test)]
mod tests;
