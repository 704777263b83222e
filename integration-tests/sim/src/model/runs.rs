//! The runs that each scheduler instance started itself: from `runTask` until it has recorded the end or received a refusal. Adopted runs
//! are not included.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{SchedulerId, WorkerId};

use crate::event_log::{Ask, Happening, OutcomeKind, Run, TaskId};

/// Runs under way. Where the log is ambiguous, a run may end here slightly before the scheduler ends it.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    under_way: BTreeMap<(SchedulerId, TaskId), (Run, WorkerId)>,
    on_worker: BTreeMap<(SchedulerId, WorkerId), BTreeSet<TaskId>>,
}

impl Runs {
    pub fn get(&self, scheduler: SchedulerId, task: TaskId) -> Option<(Run, WorkerId)> {
        self.under_way.get(&(scheduler, task)).copied()
    }

    pub fn on_worker(
        &self,
        scheduler: SchedulerId,
        worker: WorkerId,
    ) -> impl Iterator<Item = TaskId> + '_ {
        self.on_worker
            .get(&(scheduler, worker))
            .into_iter()
            .flatten()
            .copied()
    }

    /// Returns the runs of all tasks of a job.
    pub fn of_job(&self, scheduler: SchedulerId, job: u16) -> impl Iterator<Item = Run> + '_ {
        let task = |node| TaskId { job, node };
        let of_job = (scheduler, task(0))..=(scheduler, task(u16::MAX));
        self.under_way.range(of_job).map(|(_, (run, _))| *run)
    }

    pub fn note(&mut self, happening: &Happening) {
        match *happening {
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { run, sequence: _ },
                ..
            } => {
                self.end(scheduler, run.task);
                self.under_way.insert((scheduler, run.task), (run, worker));
                let tasks = self.on_worker.entry((scheduler, worker)).or_default();
                tasks.insert(run.task);
            }
            Happening::CallOver {
                scheduler,
                ask: Ask::Run { run, sequence: _ },
                outcome: OutcomeKind::Refused(_) | OutcomeKind::NotSent,
                ..
            } if self.get(scheduler, run.task).is_some_and(|(r, _)| r == run) => {
                self.end(scheduler, run.task);
            }
            Happening::EndWritten { scheduler, run, .. } => self.end(scheduler, run.task),
            Happening::SchedulerStopped { scheduler, .. } => self.forget(scheduler),
            _ => {}
        }
    }

    fn end(&mut self, scheduler: SchedulerId, task: TaskId) {
        let Some((_, worker)) = self.under_way.remove(&(scheduler, task)) else {
            return;
        };
        if let Some(tasks) = self.on_worker.get_mut(&(scheduler, worker)) {
            tasks.remove(&task);
            if tasks.is_empty() {
                self.on_worker.remove(&(scheduler, worker));
            }
        }
    }

    fn forget(&mut self, scheduler: SchedulerId) {
        self.under_way.retain(|(owner, _), _| *owner != scheduler);
        self.on_worker.retain(|(owner, _), _| *owner != scheduler);
    }
}
