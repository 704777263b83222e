//! A storm: many workers want work from one scheduler that is away for a while and returns.
//!
//! The experiment measures how many requests come at once after the return, and how soon all workers have work again. It compares the
//! policies of a Brasserie worker with a fixed wait between requests, and with no wait at all. The scheduler serves a limited number of
//! requests per second and defers all others.

mod askers;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

use brasserie_common::Time;
use serde::Serialize;

use crate::client::{seconds, span};
use crate::dice::{Dice, Stream};
use crate::output::{quoted, text};
use askers::Asker;

/// The parameters of a storm. Spans are seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Storm {
    pub workers: usize,
    /// When the scheduler goes away, and below: for how long.
    pub goes: f64,
    pub outage: f64,
    /// How long the simulation continues after the return.
    pub after: f64,
    /// Number of requests that the scheduler serves in a second.
    pub rate_limit: u32,
    /// Delay before the workers that it does not serve ask again.
    pub defer: f64,
    /// Run time of each task.
    pub task: f64,
    /// The wait between requests of workers with a fixed one.
    pub fixed_retry: f64,
    pub seed: u64,
}

impl Default for Storm {
    fn default() -> Self {
        Storm {
            workers: 1000,
            goes: 300.0,
            outage: 600.0,
            after: 600.0,
            rate_limit: 50,
            defer: 10.0,
            task: 300.0,
            fixed_retry: 5.0,
            seed: 1,
        }
    }
}

/// How workers wait between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestWait {
    /// Two requests a second, as often as a worker decides.
    None,
    Fixed,
    Ours,
}

impl RequestWait {
    pub const ALL: [RequestWait; 3] = [RequestWait::None, RequestWait::Fixed, RequestWait::Ours];

    fn name(self, storm: &Storm) -> String {
        match self {
            RequestWait::None => "no backoff".to_owned(),
            RequestWait::Fixed => format!("fixed retry, {} s", storm.fixed_retry),
            RequestWait::Ours => "ours".to_owned(),
        }
    }
}

/// The result of a storm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StormOutcome {
    pub waiting: RequestWait,
    pub name: String,
    /// Maximum number of requests within any second after the return.
    pub peak_rate: usize,
    /// Requests during the outage, and below: requests that were deferred outside it.
    pub in_vain: usize,
    pub deferred: usize,
    /// Seconds from the return until all workers had work; `None` if they never all had.
    pub full_after: Option<f64>,
    /// Longest wait after the return of a worker without work until it was served, in seconds. Below: workers that were never served.
    pub longest_wait: f64,
    pub starved: usize,
    /// Idle fraction of the possible work after the return.
    pub idle_after: f64,
    /// Requests in each second.
    #[serde(skip)]
    pub rate: Vec<u32>,
}

/// Plays the storm with workers that wait in this way.
pub fn play(storm: &Storm, waiting: RequestWait) -> StormOutcome {
    let mut course = Course::new(storm, waiting);
    course.run();
    course.finish(waiting)
}

struct StormWorker {
    asker: Asker,
    begins: Time,
    /// The time at which the worker's tasks are done.
    busy_until: Time,
}

struct Course<'a> {
    storm: &'a Storm,
    workers: Vec<StormWorker>,
    /// Requests that may be served now, and below: the time of this count.
    tokens: f64,
    filled_at: Time,
    requests: Vec<Time>,
    in_vain: usize,
    deferred: usize,
    /// The time at which each worker was first served after the return.
    served: Vec<Option<Time>>,
    /// Spans in which a worker had no work, after the return.
    idle: Vec<(Time, Time)>,
}

impl<'a> Course<'a> {
    fn new(storm: &'a Storm, waiting: RequestWait) -> Self {
        let mut dice = Dice::new(storm.seed, Stream::Storm, 0);
        let worker = |place: usize| {
            // The workers do not start together, which would be a storm of its own.
            let begins = Time::ZERO + span(dice.unit() * storm.goes / 2.0);
            let left = dice.unit() * storm.task;
            let seed = storm
                .seed
                .wrapping_mul(1_000_003)
                .wrapping_add(place as u64);
            StormWorker {
                asker: Asker::new(waiting, storm, seed, (begins, left)),
                busy_until: begins + span(left),
                begins,
            }
        };
        Course {
            workers: (0..storm.workers).map(worker).collect(),
            tokens: f64::from(storm.rate_limit),
            filled_at: Time::ZERO,
            requests: Vec::new(),
            in_vain: 0,
            deferred: 0,
            served: vec![None; storm.workers],
            idle: Vec::new(),
            storm,
        }
    }

    fn goes(&self) -> Time {
        Time::ZERO + span(self.storm.goes)
    }

    fn is_back(&self) -> Time {
        Time::ZERO + span(self.storm.goes + self.storm.outage)
    }

    fn end(&self) -> Time {
        self.is_back() + span(self.storm.after)
    }

    fn run(&mut self) {
        let end = self.end();
        let workers = self.workers.iter().enumerate();
        let begins = workers.map(|(at, worker)| Reverse((worker.begins, at)));
        let mut due: BinaryHeap<_> = begins.collect();
        while let Some(Reverse((now, at))) = due.pop() {
            if now >= end {
                continue;
            }
            let next = self.look(now, at);
            // No worker decides twice within a millisecond.
            due.push(Reverse((next.max(now + span(0.001)), at)));
        }
    }

    /// Lets one worker decide, and returns the time of its next decision.
    fn look(&mut self, now: Time, at: usize) -> Time {
        let busy_until = self.workers[at].busy_until;
        if !self.workers[at].asker.wants_to_ask(now, busy_until) {
            return self.workers[at].asker.wakes(now, busy_until);
        }
        self.requests.push(now);
        let is_away = now >= self.goes() && now < self.is_back();
        if is_away {
            self.in_vain += 1;
            self.workers[at].asker.failed(now);
        } else if self.is_served(now) {
            self.serve(now, at);
        } else {
            self.deferred += 1;
            self.workers[at].asker.deferred(now, self.storm.defer);
        }
        let worker = &self.workers[at];
        worker.asker.wakes(now, worker.busy_until)
    }

    /// Returns whether the scheduler serves a request now: a token bucket with a capacity of one second's requests.
    fn is_served(&mut self, now: Time) -> bool {
        let limit = f64::from(self.storm.rate_limit);
        let passed = now.since(self.filled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * limit).min(limit);
        self.filled_at = now;
        let has = self.tokens >= 1.0;
        if has {
            self.tokens -= 1.0;
        }
        has
    }

    fn serve(&mut self, now: Time, at: usize) {
        let (is_back, task) = (self.is_back(), span(self.storm.task));
        let worker = &mut self.workers[at];
        let idle_since = worker.busy_until;
        worker.busy_until = idle_since.max(now) + task;
        worker.asker.served(now, self.storm.task, idle_since);
        if now >= is_back {
            self.served[at].get_or_insert(now);
        }
        if idle_since < now && now > is_back {
            self.idle.push((idle_since.max(is_back), now));
        }
    }

    fn finish(mut self, waiting: RequestWait) -> StormOutcome {
        let (is_back, end) = (self.is_back(), self.end());
        for worker in &self.workers {
            if worker.busy_until < end {
                self.idle.push((worker.busy_until.max(is_back), end));
            }
        }
        let had_nothing = self.idle.iter().filter(|(from, _)| *from == is_back);
        let waits = had_nothing.map(|(from, to)| to.since(*from).as_secs_f64());
        let longest_wait = waits.fold(0.0, f64::max);
        let starved = self.workers.iter().zip(&self.served);
        let starved =
            starved.filter(|(worker, served)| served.is_none() && worker.busy_until < end);
        let starved = starved.count();
        let idle: f64 = self
            .idle
            .iter()
            .map(|(from, to)| to.since(*from).as_secs_f64())
            .sum();
        let could = self.storm.after * self.storm.workers as f64;
        let seconds_of = self.storm.goes + self.storm.outage + self.storm.after;
        let mut rate = vec![0_u32; seconds_of.ceil() as usize];
        for request in &self.requests {
            if let Some(count) = rate.get_mut(seconds(*request) as usize) {
                *count += 1;
            }
        }
        StormOutcome {
            waiting,
            name: waiting.name(self.storm),
            peak_rate: self.peak(),
            in_vain: self.in_vain,
            deferred: self.deferred,
            full_after: self.full_after(),
            longest_wait,
            starved,
            idle_after: idle / could,
            rate,
        }
    }

    /// Returns the maximum number of requests within any second after the return.
    fn peak(&self) -> usize {
        let first = self.requests.partition_point(|at| *at < self.is_back());
        let after = &self.requests[first..];
        let within = |(place, from): (usize, &Time)| {
            after[place..].partition_point(|at| *at < *from + span(1.0))
        };
        after.iter().enumerate().map(within).max().unwrap_or(0)
    }

    /// Returns the seconds from the return to the first instant at which all workers have work.
    fn full_after(&self) -> Option<f64> {
        let mut spans = self.idle.clone();
        spans.sort_unstable();
        let mut full = self.is_back();
        for (from, to) in spans {
            if from > full {
                break;
            }
            full = full.max(to);
        }
        (full < self.end()).then(|| full.since(self.is_back()).as_secs_f64())
    }
}

/// Returns a table that compares the three ways to wait.
pub fn table(storm: &Storm, outcomes: &[StormOutcome]) -> String {
    let mut lines = format!(
        "{} workers, their scheduler is away for {}; it serves {} requests a second, the others are to come again after {} s\n\n",
        storm.workers,
        text::span(storm.outage),
        storm.rate_limit,
        storm.defer
    );
    lines += &format!(
        "{:<20} {:>8} {:>9} {:>9} {:>11} {:>11} {:>8} {:>8}\n",
        "waiting", "peak/s", "in vain", "deferred", "all busy", "longest", "starved", "idle"
    );
    for outcome in outcomes {
        let full = outcome.full_after;
        let full = full.map_or_else(|| "never".to_owned(), |full| format!("{full:.1} s"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "{:<20} {:>8} {:>9} {:>9} {:>11} {:>11} {:>8} {:>8}",
            outcome.name,
            outcome.peak_rate,
            outcome.in_vain,
            outcome.deferred,
            full,
            format!("{:.1} s", outcome.longest_wait),
            outcome.starved,
            text::percent(outcome.idle_after),
        );
    }
    lines
}

/// Returns the requests in each second as CSV, with one column for each way to wait.
pub fn rates_csv(outcomes: &[StormOutcome]) -> String {
    let names: String = outcomes
        .iter()
        .map(|it| format!(",{}", quoted(&it.name)))
        .collect();
    let mut lines = format!("second{names}\n");
    let seconds = outcomes.iter().map(|it| it.rate.len()).max().unwrap_or(0);
    for second in 0..seconds {
        let _ = write!(lines, "{second}");
        for outcome in outcomes {
            let _ = write!(lines, ",{}", outcome.rate.get(second).unwrap_or(&0));
        }
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests;
