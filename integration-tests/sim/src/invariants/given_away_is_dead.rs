//! Law `given_away_is_dead`: A task that was given away starts again only when the worker that had it is dead or is ending itself.
//!
//! Source: thrift/PROTOCOL.md, R22 and R29. An instance that was replaced early obeys its own timers, whatever its scheduler believes. Its
//! tasks wait until those timers have expired.

use std::collections::BTreeMap;

use brasserie_common::{Health, RecordSeq, SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Violation};
use crate::event_log::{Ask, Fact, Happening, TaskId, WorkerPlace};
use crate::model::executions::Sleepers;
use crate::view::{Contract, World};

const NAME: &str = "given_away_is_dead";

/// The worker that had a task when it was given away, and the record of that.
#[derive(Clone, Copy)]
struct Had {
    worker: WorkerId,
    by: SchedulerId,
    seq: RecordSeq,
}

#[derive(Default)]
pub struct GivenAwayIsDead {
    sleepers: Sleepers,
    /// Workers that have not begun to end themselves.
    alive: BTreeMap<WorkerId, WorkerPlace>,
    /// The record whose ends follow.
    latest: Option<Had>,
    had: BTreeMap<TaskId, BTreeMap<WorkerId, Had>>,
}

impl Law for GivenAwayIsDead {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task that was given away starts again only when the worker that had it is dead or is ending itself."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.sleepers.note(when, happening);
        self.note_worker(happening);
        match *happening {
            Happening::RecordWritten {
                scheduler,
                seq,
                ref fact,
                ..
            } => {
                self.latest = given_away(fact).map(|worker| Had {
                    worker,
                    by: scheduler,
                    seq,
                })
            }
            Happening::EndWritten {
                scheduler,
                seq,
                run,
                ..
            } => {
                if let Some(had) = self.latest
                    && (had.by, had.seq) == (scheduler, seq)
                    && self.alive.contains_key(&had.worker)
                {
                    let of_task = self.had.entry(run.task).or_default();
                    of_task.insert(had.worker, had);
                }
            }
            Happening::TailLost {
                scheduler, after, ..
            } => self.forgive(|had| had.by == scheduler && had.seq > after),
            Happening::BackupRestored { .. } | Happening::DirectoryLost { .. } => {
                self.forgive(|_| true);
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } if world.contract == Contract::Whole => {
                if let Some(had) = self.who_lives(when, run.task, world) {
                    let worker = had.worker;
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} starts {}, and worker {worker}, which had it, is not ending itself",
                            run.task
                        ),
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Returns the worker whose tasks were given away. After a clean exit, a worker's failure to return or an operator's declaration there is
/// nothing to wait for; other laws check these.
fn given_away(fact: &Fact) -> Option<WorkerId> {
    match *fact {
        Fact::WorkerLeft { worker, cause, .. } => match cause {
            LeftCause::Lost | LeftCause::Replaced => Some(worker),
            LeftCause::CleanExit | LeftCause::DidNotReturn | LeftCause::Forgotten => None,
        },
        Fact::SchedulerStarted { .. }
        | Fact::WorkerAssociated { .. }
        | Fact::HoldBack { .. }
        | Fact::HoldBackOver
        | Fact::TaskEnded
        | Fact::Jobs => None,
    }
}

impl GivenAwayIsDead {
    fn note_worker(&mut self, happening: &Happening) {
        match *happening {
            Happening::WorkerStarted { place, worker, .. } => {
                self.alive.insert(worker, place);
            }
            Happening::WorkerStopped { worker, .. }
            | Happening::WorkerHealth {
                worker,
                to: Health::MustDie,
                ..
            }
            | Happening::Served {
                worker,
                ask: Ask::Suicide,
                refusal: None,
                ..
            } => self.is_over(worker),
            _ => {}
        }
    }

    fn is_over(&mut self, worker: WorkerId) {
        self.alive.remove(&worker);
        self.forgive(|had| had.worker == worker);
    }

    fn forgive(&mut self, which: impl Fn(&Had) -> bool) {
        for had in self.had.values_mut() {
            had.retain(|_, had| !which(had));
        }
        self.had.retain(|_, had| !had.is_empty());
    }

    fn who_lives(&self, when: Time, task: TaskId, world: &World<'_>) -> Option<&Had> {
        let had = self.had.get(&task)?;
        had.values().find(|had| {
            self.alive
                .get(&had.worker)
                .is_some_and(|place| !self.sleepers.cannot_look(when, *place, world))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    fn bumped() -> Trial<GivenAwayIsDead> {
        let mut trial = Trial::of(GivenAwayIsDead::default());
        trial.sees(worker_started(1)).sees(worker_started(2));
        trial.sees(left(1, 5, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 5, run(1), ERROR, 0, 60));
        trial
    }

    #[test]
    fn its_tasks_wait_for_its_end() {
        bumped().breaks(sent(1, 2, 1, ask_run(run(1))), "is not ending itself");
        let mut trial = bumped();
        let mut other = run(2);
        other.task.node += 1;
        trial.sees(sent(1, 2, 1, ask_run(other)));
        trial.sees(worker_health(1, Health::Unhealthy, Health::MustDie));
        trial.sees(sent(1, 2, 1, ask_run(run(1))));
    }

    #[test]
    fn a_record_that_a_crash_took_gave_nothing_away() {
        let mut trial = bumped();
        trial.sees(tail_lost(1, 4));
        trial.sees(sent(2, 2, 1, ask_run(run(1))));
    }
}
