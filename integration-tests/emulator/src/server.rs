//! A simulated scheduler: the supply of its tasks, the tasks that it sends, and its answers.

mod sending;
mod supply;

use std::collections::BTreeMap;

use crate::availability::OnOffProcess;
use crate::dice::{Dice, Stream};
use crate::scenario::{Dispatch, JobSupply, Scenario, Scheduler};
pub use sending::{ArrivedRequest, RequestAnswer, TaskAtWorker, TypeVerdict};
pub use supply::TaskSupply;

/// Seconds for which a scheduler sends nothing to a worker that refused a task.
const BUSY: f64 = 0.15;

/// A task as its scheduler knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub job: usize,
    pub version: usize,
    /// True work, in operations.
    pub work: f64,
    /// Estimated run time in seconds.
    pub estimate: Option<f64>,
    /// The time by which it must be reported.
    pub deadline: Option<f64>,
    /// The work after which it fails, in operations; `None` for a task that succeeds.
    pub fails_at: Option<f64>,
}

/// The credit of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Want {
    pub secs: f64,
    pub instances: f64,
    pub idle: f64,
    pub delay: f64,
    /// Instances for which tasks wait at the worker; `None` if the end of a task restores no idle instance.
    pub waiting: Option<f64>,
}

impl Want {
    fn wants_something(&self) -> bool {
        self.secs > 0.0 || self.instances > 0.0 || self.idle > 0.0
    }

    /// Restores the instances of a task that has ended: waiting tasks take them first, and the rest is idle again.
    fn give_back(&mut self, usage: f64, there: f64) {
        if let Some(waiting) = &mut self.waiting {
            let left = (usage - *waiting).max(0.0);
            *waiting = (*waiting - usage).max(0.0);
            self.idle = self.idle.max((self.idle + left).min(there));
        }
    }
}

/// The credit of a request.
#[derive(Clone, Debug, PartialEq)]
struct RequestCredit {
    wants: Vec<Want>,
    /// The number of instances, by type.
    there: Vec<f64>,
    known: Vec<TaskAtWorker>,
    until: f64,
    /// The number of tasks that it may still bring.
    left: u32,
}

/// A simulated scheduler.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its index in the scenario.
    place: usize,
    up: OnOffProcess,
    pools: Vec<TaskSupply>,
    chance: Dice,
    sizes: Dice,
    credit: Option<RequestCredit>,
    last_request: Option<f64>,
    /// The time before which the worker gets no tasks without a request, because it refused one.
    busy_until: f64,
    /// The tasks at the worker by number, with the type and number of instances that each occupies.
    held: BTreeMap<u64, (usize, f64)>,
}

impl Server {
    pub fn new(scenario: &Scenario, place: usize, now: f64) -> Self {
        let dice = |stream| Dice::new(scenario.seed, stream, place);
        let own = &scenario.schedulers[place];
        let pools = own.jobs.iter().enumerate().map(|(job, of)| {
            // Each job has its own stream, so that arrivals do not depend on requests.
            let number = (place + 1) * 10_000 + job;
            let dice = Dice::new(scenario.seed, Stream::Supply, number);
            TaskSupply::new(of.supply, scenario.policy.supply, dice, now + of.after)
        });
        Server {
            place,
            up: OnOffProcess::new(own.available, dice(Stream::Schedulers), now),
            pools: pools.collect(),
            chance: dice(Stream::Supply),
            sizes: dice(Stream::Tasks),
            credit: None,
            last_request: None,
            busy_until: now,
            held: BTreeMap::new(),
        }
    }

    /// Returns whether the scheduler answers now.
    pub fn is_up(&mut self, now: f64) -> bool {
        self.up.at(now)
    }

    /// Returns the next time at which it may have another task to send without a new request.
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

    /// Returns the arrival time of the next task.
    pub fn next_arrival(&self) -> f64 {
        let arrivals = self.pools.iter().map(TaskSupply::next_arrival);
        arrivals.fold(f64::INFINITY, f64::min)
    }

    /// Notes that the worker has the task.
    pub fn has_sent(&mut self, scenario: &Scenario, number: u64, sent: &Sent) {
        let version = self.own(scenario).jobs[sent.job].versions[sent.version];
        let held = (version.of_type(), version.of_its_type());
        self.held.insert(number, held);
    }

    /// Notes that the worker refused a task. The task is ready again, and the worker gets none for a moment.
    pub fn is_refused(&mut self, job: usize, now: f64) {
        self.pools[job].give_back();
        self.busy_until = now + BUSY;
    }

    /// Notes that a completion was reported. The task's instances return to the credit of a lingering request.
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

    /// Creates a task that is at the worker at the start.
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
    /// Returns whether its schedulers have tasks to send.
    pub(crate) fn has_supply(&self) -> bool {
        self.policy.supply == JobSupply::AsListed
    }
}

#[cfg(test)]
mod tests;
