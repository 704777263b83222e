//! Law `every_viable_set`: When a task starts on a worker, no settled set id without that worker is held by exactly its living members.
//!
//! Source: thrift/PROTOCOL.md, R12 and Worker-set consensus. Such a set could end the wait of a later scheduler, which would start the task
//! again.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{Health, SchedulerId, Standing, Time, WorkerId, WorkerSetId};

use super::{Law, Violation};
use crate::event_log::{Ask, Fact, Happening, SetMark};
use crate::model::executions::Sleepers;
use crate::model::worker_sets::Sums;
use crate::view::{Contract, World};

const NAME: &str = "every_viable_set";

#[derive(Default)]
pub struct EveryViableSet {
    sleepers: Sleepers,
    /// Instances that a scheduler let go. Their own timers have ended them, or their tasks are held back until then.
    gone: BTreeSet<WorkerId>,
}

impl Law for EveryViableSet {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "When a task starts on a worker, no settled set id without that worker is held by exactly its living members."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.sleepers.note(when, happening);
        match *happening {
            Happening::RecordWritten {
                fact: Fact::WorkerLeft { worker, .. },
                ..
            } => {
                self.gone.insert(worker);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.gone.remove(&worker);
            }
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                ..
            } if world.contract == Contract::Whole => {
                let holders = self.holders(when, world);
                if let Some(set) = viable_without(worker, &holders) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} starts {} on worker {worker}, and exactly the members of a set without it hold {:?}",
                            run.task,
                            SetMark::from(&set)
                        ),
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl EveryViableSet {
    /// Returns the set id of each worker that may still come to a scheduler. Leaves out stopped workers, which their keepers may have to
    /// kill.
    fn holders(&self, when: Time, world: &World<'_>) -> Vec<(WorkerId, WorkerSetId)> {
        let alive = world.workers.iter().filter_map(|host| {
            let (core, worker) = (host.core()?, host.worker()?);
            let may_come = core.health() != Health::MustDie
                && !self.gone.contains(&worker)
                && !self.sleepers.cannot_look(when, host.place(), world);
            may_come.then(|| (worker, core.worker_set()))
        });
        alive.collect()
    }
}

/// Returns a set that could form consensus and does not contain this worker.
fn viable_without(worker: WorkerId, holders: &[(WorkerId, WorkerSetId)]) -> Option<WorkerSetId> {
    let nobody = SchedulerId::default();
    let mut sets: BTreeMap<(SchedulerId, i64), Vec<&(WorkerId, WorkerSetId)>> = BTreeMap::new();
    for held in holders {
        let (_, set) = held;
        if set.standing == Standing::Settled && set.scheduler != nobody {
            sets.entry((set.scheduler, set.version))
                .or_default()
                .push(held);
        }
    }
    sets.into_values().find_map(|held| {
        let (_, set) = held.first()?;
        let is_without = held.iter().all(|(member, _)| *member != worker);
        let sums = Sums::of(held.iter().map(|(member, _)| *member));
        (is_without && sums == Sums::from(&set.hash)).then_some(*set)
    })
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::WorkerSetHash;

    fn id(standing: Standing, members: &[i64]) -> WorkerSetId {
        let mut hash = WorkerSetHash::default();
        members.iter().for_each(|member| hash.add(wid(*member)));
        let (scheduler, version) = (sid(1), members.len() as i64);
        WorkerSetId {
            scheduler,
            version,
            hash,
            standing,
        }
    }

    #[test]
    fn a_set_is_viable_while_all_its_members_live_and_hold_it() {
        let pair = id(Standing::Settled, &[1, 2]);
        let three = id(Standing::Settled, &[1, 2, 3]);
        let all = [(wid(1), pair), (wid(2), pair), (wid(3), three)];
        assert_eq!(viable_without(wid(3), &all), Some(pair));
        assert_eq!(viable_without(wid(1), &all), None);
        // One member has moved on, or is dead.
        let moved = [(wid(1), three), (wid(2), pair), (wid(3), three)];
        assert_eq!(viable_without(wid(3), &moved), None);
        assert_eq!(viable_without(wid(3), &all[1..]), None);
    }

    #[test]
    fn only_settled_ids_count() {
        let waiting = id(Standing::Unsettled, &[1]);
        assert_eq!(viable_without(wid(2), &[(wid(1), waiting)]), None);
        let nothing = WorkerSetId::default();
        assert_eq!(viable_without(wid(2), &[(wid(1), nothing)]), None);
    }
}
