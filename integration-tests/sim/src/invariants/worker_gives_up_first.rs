//! Law `worker_gives_up_first`: When a scheduler loses a worker by its timers, that worker does not hold itself HEALTHY, and gives up
//! within the safety margin at the latest.
//!
//! Source: thrift/PROTOCOL.md, B9 and R29. Otherwise its processes could be alive when their tasks run again.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{Health, SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;
use brasserie_worker_core::LifeStage;

use super::{Law, Violation};
use crate::event_log::{Ask, Fact, Happening, WorkerPlace};
use crate::model::drift;
use crate::model::executions::Sleepers;
use crate::view::{Contract, World};

const NAME: &str = "worker_gives_up_first";

/// A live worker process.
struct Alive {
    place: WorkerPlace,
    health: Health,
    /// The scheduler whose answers count.
    scheduler: Option<SchedulerId>,
}

/// Tells a loss by timers from an early replacement by the happenings just before it.
#[derive(Default)]
pub struct WorkerGivesUpFirst {
    sleepers: Sleepers,
    alive: BTreeMap<WorkerId, Alive>,
    contested: BTreeSet<WorkerId>,
    lost: BTreeSet<(Time, WorkerId)>,
}

impl Law for WorkerGivesUpFirst {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "When a scheduler loses a worker by its timers, that worker does not hold itself HEALTHY, and gives up within the safety margin at the latest."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.sleepers.note(when, happening);
        match *happening {
            Happening::WorkerStarted { place, worker, .. } => {
                let alive = Alive {
                    place,
                    health: Health::New,
                    scheduler: None,
                };
                self.alive.insert(worker, alive);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.alive.remove(&worker);
            }
            Happening::WorkerHealth { worker, to, .. } => {
                if let Some(alive) = self.alive.get_mut(&worker)
                    && alive.health != Health::MustDie
                {
                    alive.health = to;
                }
            }
            // The worker ends itself, whatever its health.
            Happening::Served {
                worker,
                ask: Ask::Suicide,
                refusal: None,
                ..
            } => {
                if let Some(alive) = self.alive.get_mut(&worker) {
                    alive.health = Health::MustDie;
                }
            }
            Happening::HeartbeatAnswerHeard {
                worker, scheduler, ..
            } => {
                if let Some(alive) = self.alive.get_mut(&worker) {
                    alive.scheduler = alive.scheduler.max(Some(scheduler));
                }
            }
            Happening::ShardContested { incumbent, .. } => {
                self.contested.insert(incumbent);
            }
            Happening::SchedulerTurn { .. } => self.contested.clear(),
            Happening::RecordWritten {
                scheduler,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause: LeftCause::Lost,
                        ..
                    },
                ..
            } if world.contract == Contract::Whole => self.lost(when, scheduler, worker, world)?,
            _ => {}
        }
        self.judge(when, world)
    }
}

impl WorkerGivesUpFirst {
    fn lost(
        &mut self,
        when: Time,
        scheduler: SchedulerId,
        worker: WorkerId,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let Some(alive) = self.alive.get(&worker) else {
            return Ok(());
        };
        let is_early = self.contested.contains(&worker);
        let is_asleep = self.sleepers.cannot_look(when, alive.place, world);
        let core = world.workers.get(usize::from(alive.place.0));
        let core = core.and_then(|host| host.core());
        // Other timers apply to a worker that never had an answer of this scheduler, or already has one of a later scheduler. It ignores an
        // answer to a call that it abandoned.
        let is_other = alive.scheduler != Some(scheduler)
            || core.is_some_and(|core| core.scheduler() != Some(scheduler));
        // A worker that was told to leave is already ending its tasks.
        let is_leaving = core.is_some_and(|core| match core.life_stage() {
            LifeStage::Running | LifeStage::Draining => false,
            LifeStage::Leaving | LifeStage::Dying | LifeStage::Gone => true,
        });
        if is_early || is_asleep || is_other || is_leaving {
            return Ok(());
        }
        match alive.health {
            Health::Healthy => Err(Violation::new(
                NAME,
                format_args!(
                    "scheduler {scheduler} loses worker {worker}, which holds itself HEALTHY"
                ),
            )),
            Health::New | Health::Unhealthy => {
                let margin = drift::at_least(world, world.timeouts.suicide_backoff_safety_margin);
                self.lost.insert((when + margin, worker));
                Ok(())
            }
            Health::MustDie => Ok(()),
        }
    }

    fn judge(&mut self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        while let Some(&(deadline, worker)) = self.lost.first() {
            if deadline >= when {
                return Ok(());
            }
            self.lost.pop_first();
            let Some(alive) = self.alive.get(&worker) else {
                continue;
            };
            let is_asleep = self.sleepers.cannot_look(when, alive.place, world);
            if alive.health != Health::MustDie && !is_asleep {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "worker {worker} is still {}, and was lost longer ago than the safety margin",
                        alive.health.as_str()
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    fn joined() -> Trial<WorkerGivesUpFirst> {
        let mut trial = Trial::of(WorkerGivesUpFirst::default());
        trial
            .sees(worker_started(1))
            .sees(answer_heard(1, 1, Health::Healthy));
        trial.sees(worker_health(1, Health::New, Health::Healthy));
        trial
    }

    #[test]
    fn it_is_must_die_when_it_is_lost() {
        let mut trial = joined();
        trial.sees(worker_health(1, Health::Healthy, Health::Unhealthy));
        trial
            .at(495)
            .sees(worker_health(1, Health::Unhealthy, Health::MustDie));
        trial.at(500).sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.at(900).sees(Happening::FaultsOver);
    }

    #[test]
    fn a_healthy_one_is_not_lost() {
        joined().breaks(left(1, 2, 1, LeftCause::Lost, 0), "holds itself HEALTHY");
    }

    #[test]
    fn one_that_hesitates_too_long() {
        let mut trial = joined();
        trial.sees(worker_health(1, Health::Healthy, Health::Unhealthy));
        trial.at(500).sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.at(560).sees(Happening::FaultsOver);
        trial
            .at(561)
            .breaks(Happening::FaultsOver, "still UNHEALTHY");
    }

    #[test]
    fn one_that_stands_still_is_not_asked() {
        let place = place(1);
        let mut trial = joined();
        trial.sees(Happening::WorkerPaused { place });
        trial.sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.sees(Happening::WorkerResumed { place });
        trial.breaks(left(1, 3, 1, LeftCause::Lost, 0), "holds itself HEALTHY");
    }

    #[test]
    fn one_that_is_killed_as_it_stands_still_excuses_no_successor() {
        let mut trial = joined();
        let place = place(1);
        trial
            .sees(Happening::WorkerPaused { place })
            .sees(Happening::WorkerStopped {
                place,
                worker: wid(1),
                how: crate::event_log::WorkerStop::Killed,
            });
        // The new worker starts in the same place.
        trial
            .sees(worker_started(101))
            .sees(answer_heard(1, 101, Health::Healthy))
            .sees(worker_health(101, Health::New, Health::Healthy));
        trial.breaks(left(1, 2, 101, LeftCause::Lost, 0), "holds itself HEALTHY");
    }

    #[test]
    fn an_early_replacement_is_no_timer() {
        let mut trial = joined();
        trial.sees(Happening::ShardContested {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(1),
            newcomer: wid(2),
            incumbent: wid(1),
            incumbent_health: Health::Unhealthy,
            same_lock: false,
        });
        trial
            .sees(left(1, 2, 1, LeftCause::Lost, 0))
            .sees(scheduler_turn());
    }
}
