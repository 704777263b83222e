//! The set of live worker instances of each scheduler, from its records, and the sums of each state of the set. Computed independently of
//! the schedulers' code.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{SchedulerId, WorkerId, WorkerSetHash};

use crate::event_log::{Fact, Happening};

/// The identity of a set, without its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sums {
    start_add: i64,
    start_xor: i64,
    rand_add: i64,
    rand_xor: i64,
    pub members: i32,
}

impl Sums {
    /// Returns the sums of exactly these members.
    pub fn of(members: impl Iterator<Item = WorkerId>) -> Sums {
        members.fold(Sums::default(), |sums, worker| sums.change(worker, 1))
    }

    fn change(self, worker: WorkerId, sign: i64) -> Sums {
        let (start, rand) = (worker.0.start_time, worker.0.rand);
        Sums {
            start_add: self.start_add.wrapping_add(start.wrapping_mul(sign)),
            start_xor: self.start_xor ^ start,
            rand_add: self.rand_add.wrapping_add(rand.wrapping_mul(sign)),
            rand_xor: self.rand_xor ^ rand,
            members: if sign > 0 {
                self.members + 1
            } else {
                self.members - 1
            },
        }
    }
}

impl From<&WorkerSetHash> for Sums {
    fn from(hash: &WorkerSetHash) -> Self {
        Sums {
            start_add: hash.start_time.add_all,
            start_xor: hash.start_time.xor_all,
            rand_add: hash.rand.add_all,
            rand_xor: hash.rand.xor_all,
            members: hash.num_workers,
        }
    }
}

/// The history of one scheduler's set. A *step* is the number of changes before a state.
#[derive(Clone, Debug, Default)]
pub struct History {
    members: BTreeSet<WorkerId>,
    now: Sums,
    step: u64,
    /// The latest step at which the set had these sums.
    steps: BTreeMap<Sums, u64>,
    joined: BTreeMap<WorkerId, u64>,
    left: BTreeMap<WorkerId, u64>,
}

impl History {
    pub fn step_of(&self, sums: Sums) -> Option<u64> {
        if sums == Sums::default() && self.step == 0 {
            return Some(0);
        }
        self.steps.get(&sums).copied()
    }

    /// Returns the sums of the present set.
    pub fn now(&self) -> Sums {
        self.now
    }

    pub fn members(&self) -> impl Iterator<Item = WorkerId> + '_ {
        self.members.iter().copied()
    }

    pub fn contains_at(&self, worker: WorkerId, step: u64) -> bool {
        self.joined.get(&worker).is_some_and(|at| *at <= step)
            && self.left.get(&worker).is_none_or(|at| *at > step)
    }

    fn change(&mut self, worker: WorkerId, sign: i64) {
        self.now = self.now.change(worker, sign);
        self.step += 1;
        self.steps.insert(self.now, self.step);
    }
}

/// The set of each living scheduler.
#[derive(Clone, Debug, Default)]
pub struct WorkerSets {
    of: BTreeMap<SchedulerId, History>,
}

impl WorkerSets {
    pub fn get(&self, scheduler: SchedulerId) -> Option<&History> {
        self.of.get(&scheduler)
    }

    pub fn note(&mut self, happening: &Happening) {
        match happening {
            Happening::RecordWritten {
                scheduler, fact, ..
            } => self.recorded(*scheduler, fact),
            Happening::SchedulerStarted { scheduler, .. } => {
                self.of.insert(*scheduler, History::default());
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.of.remove(scheduler);
            }
            _ => {}
        }
    }

    fn recorded(&mut self, scheduler: SchedulerId, fact: &Fact) {
        let history = self.of.entry(scheduler).or_default();
        match *fact {
            Fact::WorkerAssociated { worker, .. } => {
                if history.members.insert(worker) {
                    history.change(worker, 1);
                    history.left.remove(&worker);
                    history.joined.insert(worker, history.step);
                }
            }
            Fact::WorkerLeft { worker, .. } => {
                // Recorded instances of an earlier scheduler that never returned are in no set of this one.
                if history.members.remove(&worker) {
                    history.change(worker, -1);
                    history.left.insert(worker, history.step);
                }
            }
            Fact::SchedulerStarted { .. }
            | Fact::HoldBack { .. }
            | Fact::HoldBackOver
            | Fact::TaskEnded
            | Fact::Jobs => {}
        }
    }
}
