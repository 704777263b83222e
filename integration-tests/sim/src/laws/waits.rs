//! Laws about the initial wait of a scheduler.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{SchedulerId, Standing, Time, WorkerId};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, Fact, Happening, OutcomeKind, RunSent, SetMark, WaitExit};
use crate::model::worker_sets::Sums;

#[cfg(test)]
mod tests;

law! {
    /// No task is sent before the initial wait of its scheduler instance is over.
    ///
    /// Source: R8 and Initial wait. Until then an unknown worker may run the task.
        pub struct WaitIsKept = "wait_is_kept" {

        /// A run sent in this turn. The end of the turn shows whether the wait had ended in it.
                early: Option<RunSent>,
    }
}

impl Law for WaitIsKept {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let waits = |sent: &RunSent| !now.model.past_wait.contains(&sent.scheduler);
        self.early = self.early.or(happening.run_sent().filter(waits));
        let is_over = matches!(happening, Happening::SchedulerTurn { .. });
        match self.early.take_if(|_| is_over).filter(waits) {
            None => Ok(()),
            Some(RunSent { scheduler, run, .. }) => Err(format!(
                "scheduler {scheduler} sends {} in its initial wait",
                run.task
            )),
        }
    }
}

law! {
    /// The initial wait ends for a reason that is true: the record is trusted and complete, no record is trusted and the sets agree after the kill
    /// margin, the directory is new, or the safe wait is over.
    ///
    /// Source: R5, R7, R8, R9 and R11. With a wrong reason, a task could start that an unknown worker still runs.
    pub struct WaitEndsRightly = "wait_ends_rightly" {
        waits: BTreeMap<SchedulerId, ModelWait>,
    }
}

impl Law for WaitEndsRightly {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                let found = now.model.directories.get(directory).map(|c| c.synced());
                let wait = ModelWait {
                    since: now.when,
                    schedulers: found.map(|s| s.schedulers.clone()).unwrap_or_default(),
                    missing: found.map(|s| s.instances.clone()).unwrap_or_default(),
                    stale: false,
                    came_with: BTreeMap::new(),
                };
                self.waits.insert(scheduler, wait);
            }
            Happening::HeartbeatHeard {
                scheduler,
                worker,
                set,
                ..
            } => self.witness(now, scheduler, worker, set),
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Fetch,
                outcome: OutcomeKind::Done,
                ..
            }
            | Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerLeft { worker, .. },
                ..
            } => {
                if let Some(wait) = self.waits.get_mut(&scheduler) {
                    wait.missing.remove(&worker);
                }
            }
            Happening::WaitEnded { scheduler, why, .. } => {
                if let Some(wait) = self.waits.get(&scheduler)
                    && let Some(what) = wait.wrong(now, why).or_else(|| {
                        let disagreed = self.disagreement(now, scheduler, wait);
                        disagreed
                            .filter(|_| why == WaitExit::Consensus)
                            .map(str::to_owned)
                    })
                {
                    return Err(format!(
                        "the wait of scheduler {scheduler} ends by {why:?}, but {what}"
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.waits.remove(&scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl WaitEndsRightly {
    fn witness(
        &mut self,
        now: &Moment<'_>,
        scheduler: SchedulerId,
        worker: WorkerId,
        set: SetMark,
    ) {
        let Some(wait) = self.waits.get_mut(&scheduler) else {
            return;
        };
        let sets = now.model.worker_sets.get(scheduler);
        if !sets.is_some_and(|sets| sets.members().any(|member| member == worker)) {
            wait.came_with.insert(worker, set);
        }
        if ![scheduler, SchedulerId::default()].contains(&set.scheduler) {
            wait.stale |= !wait.schedulers.contains(&set.scheduler);
        }
    }

    /// Returns why the workers that came do not agree. They agree if all came with one settled id and are exactly its members.
    fn disagreement(
        &self,
        now: &Moment<'_>,
        scheduler: SchedulerId,
        wait: &ModelWait,
    ) -> Option<&'static str> {
        let sets = now.model.worker_sets.get(scheduler)?;
        let mut agreed = None;
        for worker in sets.members() {
            let Some(set) = wait.came_with.get(&worker) else {
                return Some("somebody is here who never came");
            };
            if set.standing != Standing::Settled || set.scheduler == scheduler {
                return Some("somebody came without a set that counts");
            }
            if *agreed.get_or_insert(*set) != *set {
                return Some("they came with different sets");
            }
        }
        match agreed {
            None => Some("nobody is here"),
            Some(set) if Sums::from(&set.hash) == sets.now() => None,
            Some(_) => Some("they are not the members of their set"),
        }
    }
}

impl ModelWait {
    fn wrong(&self, now: &Moment<'_>, why: WaitExit) -> Option<String> {
        let waited = now.when.since(self.since);
        let is_new = self.schedulers.is_empty();
        let kill_margin = now
            .world
            .shortest
            .lost_task_min_backoff(now.world.shortest.suicide_task_kill_wait);
        match why {
            WaitExit::RecordComplete if is_new => Some("the directory had no record".to_owned()),
            WaitExit::RecordComplete if self.stale => Some("the record is stale".to_owned()),
            WaitExit::RecordComplete => self
                .missing
                .first()
                .map(|worker| format!("recorded worker {worker} is neither back nor dead")),
            WaitExit::Consensus if !is_new && !self.stale => self.missing.first().map(|worker| {
                format!("the record is trusted and worker {worker} is neither back nor dead")
            }),
            WaitExit::Consensus if waited < now.world.at_least(kill_margin) => Some(format!(
                "after {waited:?} somebody may still be killing its tasks"
            )),
            WaitExit::NewCluster if !is_new => Some("the directory has a record".to_owned()),
            WaitExit::NewCluster if self.stale => {
                Some("a worker knows an earlier scheduler".to_owned())
            }
            WaitExit::SafeWait
                if waited < now.world.at_least(now.world.shortest.min_safe_wait()) =>
            {
                Some(format!("only {waited:?} have passed"))
            }
            WaitExit::Consensus
            | WaitExit::NewCluster
            | WaitExit::SafeWait
            | WaitExit::Override
            | WaitExit::Other => None,
        }
    }
}

/// The initial wait of a scheduler: the content of its directory, and the workers it has met since.
struct ModelWait {
    since: Time,
    schedulers: BTreeSet<SchedulerId>,
    /// Recorded instances whose fate is not known yet.
    missing: BTreeSet<WorkerId>,
    /// A worker named a scheduler that the directory does not remember.
    stale: bool,
    /// The set id that each worker named when it came.
    came_with: BTreeMap<WorkerId, SetMark>,
}
