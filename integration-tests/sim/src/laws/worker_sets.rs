//! Laws about worker sets, on which consensus relies.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::worker_set::version_order;
use brasserie_common::{Health, SchedulerId, Standing, WorkerId, WorkerSetId};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, Fact, Happening, SetMark};
use crate::model::worker_sets::Sums;
use crate::view::Contract;

#[cfg(test)]
mod tests;

law! {
    /// A set id says that it counts for consensus only if its scheduler has left its initial wait.
    ///
    /// Source: R10. Until then workers that run tasks may be missing from the set.
    pub struct SettledAfterWait = "settled_after_wait" {

        /// A set id decided in this turn. The end of the turn shows whether the wait was over in it.
        early: Option<SchedulerId>,
    }
}

impl Law for SettledAfterWait {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let past_wait = &now.model.past_wait;
        match *happening {
            Happening::HeartbeatDecided { scheduler, set, .. }
                if set.standing == Standing::Settled && !past_wait.contains(&scheduler) =>
            {
                self.early = Some(scheduler);
            }
            Happening::SchedulerTurn { .. } => {
                if let Some(scheduler) = self.early.take()
                    && !past_wait.contains(&scheduler)
                {
                    return Err(format!(
                        "scheduler {scheduler} gives it in its initial wait"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// The set id that a worker sends never goes back: not to an earlier scheduler, and of one scheduler not to an earlier version.
    ///
    /// Source: Worker-set consensus. Consensus takes the id that a worker sends for the latest that it received.
    pub struct SetsGoForward = "sets_go_forward" {
        last: BTreeMap<WorkerId, SetMark>,
    }
}

impl Law for SetsGoForward {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::HeartbeatSent { worker, set, .. } => {
                if let Some(last) = self.last.insert(worker, set) {
                    let goes_back = match set.scheduler.cmp(&last.scheduler) {
                        Ordering::Less => true,
                        Ordering::Greater => false,
                        Ordering::Equal => {
                            version_order(set.version, last.version) == Some(Ordering::Less)
                                || (set.version == last.version && set.hash != last.hash)
                        }
                    };
                    if goes_back {
                        return Err(format!(
                            "worker {worker} sends version {} of scheduler {} after version {} of {}",
                            set.version, set.scheduler, last.version, last.scheduler
                        ));
                    }
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.last.remove(&worker);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A set id that a scheduler gives is the sum of a set of live instances that it really had. Later versions belong to later sets, and the set
    /// contains the worker to which the id is given.
    ///
    /// Source: Worker-set consensus. Consensus compares these numbers with the set of a later scheduler.
    pub struct SetsAreTrue = "sets_are_true" {
        /// The sums of each version, and the number of changes before it.
        given: BTreeMap<(SchedulerId, i64), (Sums, u64)>,
    }
}

impl Law for SetsAreTrue {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                set,
                ..
            } => {
                let step = self.step(now, scheduler, set)?;
                let history = now.model.worker_sets.get(scheduler);
                let contains = history.is_some_and(|h| h.contains_at(worker, step));
                if state != Health::MustDie && !contains {
                    return Err(wrong(
                        scheduler,
                        worker,
                        set,
                        "does not contain this worker",
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.given.retain(|(of, _), _| *of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl SetsAreTrue {
    /// Returns the number of changes after which the set was this one.
    fn step(
        &mut self,
        now: &Moment<'_>,
        scheduler: SchedulerId,
        set: SetMark,
    ) -> Result<u64, String> {
        let sums = Sums::from(&set.hash);
        let nobody = WorkerId::default();
        if let Some((known, step)) = self.given.get(&(scheduler, set.version)) {
            if *known != sums {
                return Err(wrong(
                    scheduler,
                    nobody,
                    set,
                    "stood for another set before",
                ));
            }
            return Ok(*step);
        }
        let history = now.model.worker_sets.get(scheduler);
        let Some(step) = history.and_then(|h| h.step_of(sums)) else {
            return Err(wrong(
                scheduler,
                nobody,
                set,
                "adds up to no set that it ever had",
            ));
        };
        let before = self
            .given
            .range((scheduler, i64::MIN)..(scheduler, set.version));
        if before
            .last()
            .is_some_and(|(_, (_, earlier))| *earlier > step)
        {
            return Err(wrong(
                scheduler,
                nobody,
                set,
                "is a set before that of an earlier version",
            ));
        }
        self.given.insert((scheduler, set.version), (sums, step));
        Ok(step)
    }
}

fn wrong(scheduler: SchedulerId, worker: WorkerId, set: SetMark, what: &str) -> String {
    let to = if worker == WorkerId::default() {
        String::new()
    } else {
        format!(" for worker {worker}")
    };
    format!(
        "version {} of scheduler {scheduler}{to}, with {} members, {what}",
        set.version, set.members
    )
}

law! {
    /// A worker receives HEALTHY for the first time only after it has sent back a set of this scheduler that contains it.
    ///
    /// Source: R12 and Worker-set consensus. Otherwise a later scheduler could find consensus among the other workers.
    pub struct FirstHealthAfterEcho = "first_health_after_echo" {
        echoed: BTreeSet<(SchedulerId, WorkerId)>,
    }
}

impl Law for FirstHealthAfterEcho {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::HeartbeatHeard {
                scheduler,
                worker,
                set,
                ..
            } if set.scheduler == scheduler => {
                if let Some(history) = now.model.worker_sets.get(scheduler)
                    && let Some(step) = history.step_of(Sums::from(&set.hash))
                    && history.contains_at(worker, step)
                {
                    self.echoed.insert((scheduler, worker));
                }
            }
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state: Health::Healthy,
                ..
            } if !self.echoed.contains(&(scheduler, worker)) => {
                return Err(format!(
                    "scheduler {scheduler} tells worker {worker} to be HEALTHY, which has not sent back a set with itself"
                ));
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.echoed.retain(|(of, _)| *of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// When a task starts on a worker, no settled set id without that worker is held by exactly its living members.
    ///
    /// Source: R12 and Worker-set consensus. Such a set could end the wait of a later scheduler, which would start the task again.
    pub struct EveryViableSet = "every_viable_set" {
        /// Instances that a scheduler let go. Their own timers have ended them, or their tasks are held back until then.
        gone: BTreeSet<WorkerId>,
    }
}

impl Law for EveryViableSet {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
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
            } if now.world.contract == Contract::Whole => {
                let holders = self.holders(now);
                if let Some(set) = viable_without(worker, &holders) {
                    return Err(format!(
                        "scheduler {scheduler} starts {} on worker {worker}, and exactly the members of a set without it hold {:?}",
                        run.task,
                        SetMark::from(&set)
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
    fn holders(&self, now: &Moment<'_>) -> Vec<(WorkerId, WorkerSetId)> {
        let alive = now.world.workers.iter().filter_map(|host| {
            let (core, worker) = (host.core()?, host.worker()?);
            let may_come = core.health() != Health::MustDie
                && !self.gone.contains(&worker)
                && !now.cannot_read_clock(host.place());
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
