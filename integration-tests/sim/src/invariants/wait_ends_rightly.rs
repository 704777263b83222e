//! Law `wait_ends_rightly`: The initial wait ends for a reason that is true: the record is trusted and complete, nobody is trusted and the
//! sets agree after the kill margin, the directory is new, or the safe wait is over.
//!
//! Source: thrift/PROTOCOL.md, R5, R7, R8, R9 and R11. With a wrong reason, a task could start that an unknown worker still runs.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{SchedulerId, Standing, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Fact, Happening, SetMark, WaitExit};
use crate::model::directories::Directories;
use crate::model::drift;
use crate::model::worker_sets::{Sums, WorkerSets};
use crate::view::World;

const NAME: &str = "wait_ends_rightly";

/// The initial wait of a scheduler: the content of its directory, and the workers it has met since.
struct Wait {
    since: Time,
    schedulers: BTreeSet<SchedulerId>,
    /// Recorded instances whose fate is not known yet.
    missing: BTreeSet<WorkerId>,
    /// A worker named a scheduler that the directory does not remember.
    stale: bool,
    /// The set id that each worker named when it came.
    came_with: BTreeMap<WorkerId, SetMark>,
}

#[derive(Default)]
pub struct WaitEndsRightly {
    directories: Directories,
    sets: WorkerSets,
    waits: BTreeMap<SchedulerId, Wait>,
}

impl Law for WaitEndsRightly {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "The initial wait ends for a reason that is true: the record is trusted and complete, nobody is trusted and the sets agree after the kill margin, the directory is new, or the safe wait is over."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        self.sets.note(happening);
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                let found = self.directories.get(directory).map(|c| c.synced());
                let wait = Wait {
                    since: when,
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
            } => self.witness(scheduler, worker, set),
            Happening::CallOver {
                scheduler,
                worker,
                ask: crate::event_log::Ask::Fetch,
                outcome: crate::event_log::OutcomeKind::Done,
                ..
            } => {
                if let Some(wait) = self.waits.get_mut(&scheduler) {
                    wait.missing.remove(&worker);
                }
            }
            Happening::RecordWritten {
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
                    && let Some(what) = wait.wrong(when, why, world).or_else(|| {
                        let disagreed = self.disagreement(scheduler, wait);
                        disagreed
                            .filter(|_| why == WaitExit::Consensus)
                            .map(str::to_owned)
                    })
                {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "the wait of scheduler {scheduler} ends by {why:?}, but {what}"
                        ),
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
    fn witness(&mut self, scheduler: SchedulerId, worker: WorkerId, set: SetMark) {
        let is_member = self.is_member(scheduler, worker);
        if let Some(wait) = self.waits.get_mut(&scheduler)
            && !is_member
        {
            wait.came_with.insert(worker, set);
        }
        let nobody = set.scheduler == SchedulerId::default();
        if let Some(wait) = self.waits.get_mut(&scheduler)
            && !nobody
            && set.scheduler != scheduler
        {
            wait.stale |= !wait.schedulers.contains(&set.scheduler);
        }
    }
}

impl WaitEndsRightly {
    fn is_member(&self, scheduler: SchedulerId, worker: WorkerId) -> bool {
        let sets = self.sets.get(scheduler);
        sets.is_some_and(|sets| sets.members().any(|member| member == worker))
    }

    /// Returns why the workers that came do not agree. They agree if all came with one settled id and are exactly its members.
    fn disagreement(&self, scheduler: SchedulerId, wait: &Wait) -> Option<&'static str> {
        let sets = self.sets.get(scheduler)?;
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

impl Wait {
    fn wrong(&self, when: Time, why: WaitExit, world: &World<'_>) -> Option<String> {
        let waited = when.since(self.since);
        let is_new = self.schedulers.is_empty();
        let kill_margin = world
            .shortest
            .lost_task_min_backoff(world.shortest.suicide_task_kill_wait);
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
            WaitExit::Consensus if waited < drift::at_least(world, kill_margin) => Some(format!(
                "after {waited:?} somebody may still be killing its tasks"
            )),
            WaitExit::NewCluster if !is_new => Some("the directory has a record".to_owned()),
            WaitExit::NewCluster if self.stale => {
                Some("a worker knows an earlier scheduler".to_owned())
            }
            WaitExit::SafeWait
                if waited < drift::at_least(world, world.shortest.min_safe_wait()) =>
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

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    /// Scheduler 2 on a directory where scheduler 1 recorded worker 1.
    fn second() -> Trial<WaitEndsRightly> {
        let mut trial = Trial::of(WaitEndsRightly::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(associated(1, 2, 1))
            .sees(synced(1, 2));
        trial.sees(stopped(1)).at(1000).sees(started(2));
        trial
    }

    #[test]
    fn the_record_must_be_complete_and_trusted() {
        let mut trial = second();
        trial.breaks(
            wait_ended(2, WaitExit::RecordComplete),
            "neither back nor dead",
        );
        trial
            .sees(heard(2, 1, set(1, 1, &[1])))
            .sees(fetched(2, 1, 1));
        trial.sees(wait_ended(2, WaitExit::RecordComplete));
        trial.sees(heard(2, 1, set(9, 1, &[1])));
        trial.breaks(wait_ended(2, WaitExit::RecordComplete), "stale");
    }

    #[test]
    fn consensus_neither_overrules_a_record_nor_ends_before_the_kill_margin() {
        let mut trial = second();
        trial
            .at(1500)
            .breaks(wait_ended(2, WaitExit::Consensus), "the record is trusted");
        let mut trial = Trial::of(WaitEndsRightly::default());
        trial.sees(started(1));
        trial
            .at(65)
            .breaks(wait_ended(1, WaitExit::Consensus), "may still be killing");
        let of_nine = settled_set(9, 2, &[1, 2]);
        trial.sees(heard(1, 1, of_nine)).sees(associated(1, 2, 1));
        trial
            .at(66)
            .breaks(wait_ended(1, WaitExit::Consensus), "not the members of");
        trial.sees(heard(1, 2, of_nine)).sees(associated(1, 3, 2));
        trial.sees(wait_ended(1, WaitExit::Consensus));
        trial.sees(heard(1, 3, set(9, 2, &[1, 2])));
        trial.sees(associated(1, 4, 3));
        trial.breaks(wait_ended(1, WaitExit::Consensus), "a set that counts");
    }

    #[test]
    fn a_safe_wait_takes_its_time_and_a_new_cluster_knows_nobody() {
        let mut trial = second();
        trial
            .at(1695)
            .breaks(wait_ended(2, WaitExit::SafeWait), "only 695s");
        trial.at(1696).sees(wait_ended(2, WaitExit::SafeWait));
        trial.breaks(wait_ended(2, WaitExit::NewCluster), "has a record");
        let mut trial = Trial::of(WaitEndsRightly::default());
        trial.sees(started(1)).sees(heard(1, 1, set(0, 0, &[])));
        trial.sees(wait_ended(1, WaitExit::NewCluster));
        trial.sees(heard(1, 2, set(9, 1, &[2])));
        trial.breaks(
            wait_ended(1, WaitExit::NewCluster),
            "knows an earlier scheduler",
        );
    }
}
