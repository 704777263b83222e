//! A simulated scheduler: where its tasks come from, to whom it sends them, and what it says.

mod sending;
mod supply;

use std::collections::BTreeMap;

use crate::availability::Process;
use crate::dice::{Dice, Stream};
use crate::scenario::{Dispatch, Jobs, Scenario, Scheduler};
pub use sending::{Answer, Asked, Known, Verdict};
pub use supply::Pool;

/// How long a worker that was full is left alone.
const BUSY: f64 = 0.15;

/// A task as its scheduler knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub job: usize,
    pub version: usize,
    /// What it takes in truth, in operations.
    pub work: f64,
    /// Seconds that it is said to take.
    pub estimate: Option<f64>,
    /// By when it must be reported.
    pub deadline: Option<f64>,
    /// After so much of its work it fails.
    pub fails_at: Option<f64>,
}

/// What is wanted of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Want {
    pub secs: f64,
    pub instances: f64,
    pub idle: f64,
    pub delay: f64,
    /// For how many tasks wait there; `None`: no instance is idle again by the end of a task.
    pub waiting: Option<f64>,
}

impl Want {
    fn wants_something(&self) -> bool {
        self.secs > 0.0 || self.instances > 0.0 || self.idle > 0.0
    }

    /// A task has ended that used so many of these instances: those who wait have them, or they are idle again.
    fn give_back(&mut self, usage: f64, there: f64) {
        if let Some(waiting) = &mut self.waiting {
            let left = (usage - *waiting).max(0.0);
            *waiting = (*waiting - usage).max(0.0);
            self.idle = self.idle.max((self.idle + left).min(there));
        }
    }
}

/// What is left of a request.
#[derive(Clone, Debug, PartialEq)]
struct Credit {
    wants: Vec<Want>,
    /// How many instances there are, by type.
    there: Vec<f64>,
    known: Vec<Known>,
    until: f64,
    /// So many more tasks it may bring.
    left: u32,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its place in the scenario.
    place: usize,
    up: Process,
    pools: Vec<Pool>,
    chance: Dice,
    sizes: Dice,
    credit: Option<Credit>,
    last_request: Option<f64>,
    /// The worker was full: it is sent nothing unasked before.
    busy_until: f64,
    /// What the worker has of it, by the numbers of its tasks, with the instances that each keeps of its type.
    held: BTreeMap<u64, (usize, f64)>,
}

impl Server {
    pub fn new(scenario: &Scenario, place: usize, now: f64) -> Self {
        let dice = |stream| Dice::new(scenario.seed, stream, place);
        let own = &scenario.schedulers[place];
        let pools = own.jobs.iter().enumerate().map(|(job, of)| {
            // Apart from the choices among jobs, so that the same tasks come whoever asks.
            let number = (place + 1) * 10_000 + job;
            let dice = Dice::new(scenario.seed, Stream::Supply, number);
            Pool::new(of.supply, scenario.policy.supply, dice, now + of.after)
        });
        Server {
            place,
            up: Process::new(own.available, dice(Stream::Schedulers), now),
            pools: pools.collect(),
            chance: dice(Stream::Supply),
            sizes: dice(Stream::Tasks),
            credit: None,
            last_request: None,
            busy_until: now,
            held: BTreeMap::new(),
        }
    }

    /// Whether it answers now.
    pub fn is_up(&mut self, now: f64) -> bool {
        self.up.at(now)
    }

    /// When it may have something to send that it had not before, unasked.
    pub fn wakes(&self, scenario: &Scenario, now: f64) -> f64 {
        let waits = match scenario.policy.dispatch {
            Dispatch::Push => true,
            Dispatch::Pull => self
                .credit
                .as_ref()
                .is_some_and(|credit| credit.until > now),
        };
        match waits {
            true if self.busy_until > now => self.busy_until,
            true => self.next_arrival(),
            false => f64::INFINITY,
        }
    }

    /// When the next task is there that was not before.
    pub fn next_arrival(&self) -> f64 {
        let arrivals = self.pools.iter().map(Pool::next_arrival);
        arrivals.fold(f64::INFINITY, f64::min)
    }

    /// The worker has the task.
    pub fn has_sent(&mut self, scenario: &Scenario, number: u64, sent: &Sent) {
        let version = self.own(scenario).jobs[sent.job].versions[sent.version];
        let held = (version.of_type(), version.of_its_type());
        self.held.insert(number, held);
    }

    /// The worker has too much to do: the task is there again, and the worker is left alone for a moment.
    pub fn is_refused(&mut self, job: usize, now: f64) {
        self.pools[job].give_back();
        self.busy_until = now + BUSY;
    }

    /// Its end was reported: what it used may be idle there, as far as a request is still good.
    pub fn has_ended(&mut self, number: u64, job: usize, well: bool) {
        let held = self.held.remove(&number);
        if let Some(credit) = &mut self.credit
            && let Some((of_type, usage)) = held
        {
            credit.wants[of_type].give_back(usage, credit.there[of_type]);
        }
        if !well {
            self.pools[job].give_back();
        }
    }

    /// A task that is at the worker when it all begins.
    pub fn queued(&mut self, scenario: &Scenario, job: usize, now: f64) -> Sent {
        self.draw(scenario, job, 0, now)
    }

    fn own<'s>(&self, scenario: &'s Scenario) -> &'s Scheduler {
        &scenario.schedulers[self.place]
    }

    fn advance(&mut self, now: f64) {
        self.pools.iter_mut().for_each(|pool| pool.advance(now));
    }
}

impl Scenario {
    /// Whether its schedulers have anything to send.
    pub(crate) fn has_supply(&self) -> bool {
        self.policy.supply == Jobs::AsListed
    }
}

#[cfg(test)]
mod tests;
