//! The contract, checked in each state: a task never has two processes, and an acknowledged completion is never forgotten or run again.
//! The judge's memory is part of the state.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{InvocationId, StatusBits, TaskKey};
use brasserie_scheduler_core::Durable;

use crate::event_log::{Ask, Happening, Run, TaskId};

/// How the contract is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken(pub String);

/// The latest acknowledged completion of a task, and whether any was DONE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Promise {
    pub invocation: InvocationId,
    pub done: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Judge {
    /// Completions may be lost in this world.
    only_twice: bool,
    pub promises: BTreeMap<TaskId, Promise>,
    /// Runs with an acknowledged completion.
    pub over: BTreeSet<InvocationId>,
    pub broken: Option<Broken>,
}

impl Judge {
    pub fn new(only_twice: bool) -> Self {
        Judge {
            only_twice,
            promises: BTreeMap::new(),
            over: BTreeSet::new(),
            broken: None,
        }
    }

    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(Broken(what));
    }

    pub fn observe(&mut self, happening: &Happening) {
        match happening {
            Happening::StatusAcknowledged { run, bits, .. }
                if !run.task.is_healthcheck() && !bits.has(StatusBits::OVERWRITEABLE) =>
            {
                self.promise(*run, *bits);
            }
            Happening::CallSent {
                ask: Ask::Run { run, .. },
                ..
            } => {
                let promise = self.promises.get(&run.task);
                if promise.is_some_and(|promise| promise.done) {
                    let task = run.task;
                    self.breaks(format!(
                        "LOST: {task} is run again, though its DONE was acknowledged"
                    ));
                }
            }
            _ => {}
        }
    }

    fn promise(&mut self, run: Run, bits: StatusBits) {
        if self.only_twice {
            return;
        }
        self.over.insert(run.invocation);
        let promise = self.promises.entry(run.task).or_insert(Promise {
            invocation: run.invocation,
            done: false,
        });
        promise.invocation = promise.invocation.max(run.invocation);
        promise.done |= bits.has(StatusBits::DONE);
    }

    /// Checks a process that starts while these runs of its task are alive.
    pub fn starts(&mut self, run: Run, alive: usize) {
        if alive > 0 {
            self.breaks(format!("TWICE: two processes of {} are alive", run.task));
        }
        if self.over.contains(&run.invocation) {
            self.breaks(format!(
                "LOST: a run of {} whose end was acknowledged starts again",
                run.task
            ));
        }
        if self.promises.get(&run.task).is_some_and(|p| p.done) {
            self.breaks(format!(
                "LOST: {} starts, though its DONE was acknowledged",
                run.task
            ));
        }
    }

    /// Notes a process that starts on a worker whose only slot is in use.
    pub fn starts_without_slot(&mut self, run: Run) {
        self.breaks(format!(
            "FULL: {} starts on a worker without a free slot",
            run.task
        ));
    }

    /// Forgets all promises: the operator lost the directory or restored an old copy, which loses completions as documented.
    pub fn forgives(&mut self) {
        self.promises.clear();
        self.over.clear();
    }

    /// Checks the directory on which a scheduler starts.
    pub fn reads(&mut self, durable: &Durable) {
        let mut lost = None;
        for (task, promise) in &self.promises {
            let key = TaskKey {
                job: format!("j{}", task.job)
                    .try_into()
                    .expect("Invariant: a short name without NUL"),
                node: format!("n{}", task.node)
                    .try_into()
                    .expect("Invariant: a short name without NUL"),
            };
            let kept = durable.statuses.get(&key).is_some_and(|(of, status)| {
                let is_final = !status.bits.has(StatusBits::OVERWRITEABLE);
                let same = *of == promise.invocation && is_final;
                status.is_done() || (!promise.done && (same || *of > promise.invocation))
            });
            if !kept {
                lost = Some(*task);
            }
        }
        if let Some(task) = lost {
            self.breaks(format!(
                "LOST: the acknowledged end of {task} is not in the directory after a restart"
            ));
        }
    }
}
