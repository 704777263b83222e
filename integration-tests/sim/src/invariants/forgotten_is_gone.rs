//! Law `forgotten_is_gone`: A worker that an operator has declared dead had been silent for the loss time, without a pause of the
//! scheduler, and is gone from the directory when the operator is answered and when the next task starts.
//!
//! Source: thrift/PROTOCOL.md, R38. A later scheduler would wait again for a worker that was forgotten in memory only. The law
//! `lost_is_lost` checks that the worker stays away.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{Health, SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Violation};
use crate::event_log::{Ask, DirectoryId, Fact, Happening, Run, SchedulerPlace};
use crate::model::directories::Directories;
use crate::model::drift;
use crate::view::World;

const NAME: &str = "forgotten_is_gone";

#[derive(Default)]
pub struct ForgottenIsGone {
    directories: Directories,
    /// When a scheduler of the directory last answered the worker.
    answered: BTreeMap<(DirectoryId, WorkerId), Time>,
    declared: BTreeSet<(SchedulerId, WorkerId)>,
    runs_at: BTreeMap<SchedulerPlace, SchedulerId>,
    paused: BTreeMap<SchedulerPlace, Time>,
    /// The end of the last pause that is long enough to hide a heartbeat.
    awake_since: BTreeMap<SchedulerId, Time>,
}

impl Law for ForgottenIsGone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that an operator has declared dead had been silent for the loss time, without a pause of the scheduler, and is gone from the directory when the operator is answered and when the next task starts."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        self.note_pause(when, happening, world);
        match *happening {
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if state != Health::MustDie => {
                if let Some(directory) = self.directories.directory_of(scheduler) {
                    self.answered.insert((directory, worker), when);
                }
            }
            Happening::RecordWritten {
                directory,
                scheduler,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause: LeftCause::Forgotten,
                        ..
                    },
                ..
            } => {
                self.judge_silence(when, (directory, scheduler), worker, world)?;
                self.declared.insert((scheduler, worker));
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => return self.sends(scheduler, run),
            Happening::WorkerDeclaredDead {
                scheduler, worker, ..
            } => {
                let contents = self.directories.contents_of(scheduler);
                if contents.is_some_and(|c| c.synced().instances.contains(&worker)) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} told the operator that worker {worker} is forgotten, and a crash now would have it \
                             waited for"
                        ),
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.declared.retain(|(by, _)| *by != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl ForgottenIsGone {
    fn note_pause(&mut self, when: Time, happening: &Happening, world: &World<'_>) {
        match *happening {
            Happening::SchedulerStarted {
                place, scheduler, ..
            } => {
                self.runs_at.insert(place, scheduler);
                self.paused.remove(&place);
            }
            Happening::SchedulerPaused { place } => {
                self.paused.insert(place, when);
            }
            Happening::SchedulerResumed { place } => {
                let paused = self.paused.remove(&place);
                let longest = world.timeouts.lose_unhealthy_worker_after / 3;
                if paused.is_some_and(|paused| when.since(paused) > longest)
                    && let Some(scheduler) = self.runs_at.get(&place)
                {
                    self.awake_since.insert(*scheduler, when);
                }
            }
            _ => {}
        }
    }

    fn judge_silence(
        &self,
        when: Time,
        (directory, scheduler): (DirectoryId, SchedulerId),
        worker: WorkerId,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let loss = world.shortest.lose_unhealthy_worker_after;
        let awake = self.awake_since.get(&scheduler);
        if awake.is_some_and(|&awake| when < awake + drift::at_least(world, loss)) {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "scheduler {scheduler} took worker {worker} for dead soon after a pause, in which it heard nobody"
                ),
            ));
        }
        let answered = self.answered.get(&(directory, worker));
        if let Some(&answered) = answered
            && when < answered + drift::at_least(world, loss)
        {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "scheduler {scheduler} took worker {worker} for dead, which was answered {:?} before",
                    when.since(answered)
                ),
            ));
        }
        Ok(())
    }

    fn sends(&mut self, scheduler: SchedulerId, run: Run) -> Result<(), Violation> {
        let Some(contents) = self.directories.contents_of(scheduler) else {
            return Ok(());
        };
        let is_known = |worker: &WorkerId| contents.synced().instances.contains(worker);
        let mut declared = self.declared.iter().filter(|(by, _)| *by == scheduler);
        if let Some((_, worker)) = declared.find(|(_, worker)| is_known(worker)) {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "scheduler {scheduler} starts {} after worker {worker} was declared dead, and a crash now would have the next one \
                     take that worker back",
                    run.task
                ),
            ));
        }
        self.declared.retain(|(by, _)| *by != scheduler);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    fn declared(s: i64, w: i64) -> Happening {
        Happening::WorkerDeclaredDead {
            place: crate::event_log::SchedulerPlace(0),
            scheduler: sid(s),
            worker: wid(w),
        }
    }

    #[test]
    fn the_record_is_durable_before_the_answer() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.sees(synced(1, 1)).sees(stopped(1)).sees(started(2));
        trial.sees(left(2, 1, 1, LeftCause::Forgotten, 0));
        trial.breaks(declared(2, 1), "would have it waited for");
        trial.sees(synced(2, 1)).sees(declared(2, 1));
    }

    #[test]
    fn nothing_starts_before_the_record_is_durable() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.sees(synced(1, 1));
        trial.sees(sent(1, 2, 1, ask_run(run(1))));
        trial.sees(left(1, 2, 1, LeftCause::Forgotten, 0));
        trial.breaks(sent(1, 2, 1, ask_run(run(2))), "take that worker back");
        trial
            .sees(synced(1, 2))
            .sees(sent(1, 2, 1, ask_run(run(2))));
    }

    #[test]
    fn one_that_has_just_answered_is_not_taken_for_dead() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial
            .at(100)
            .sees(decided(1, 1, Health::Unhealthy, set(1, 1, &[1])));
        trial
            .at(599)
            .breaks(left(1, 2, 1, LeftCause::Forgotten, 0), "which was answered");
        trial.at(601).sees(left(1, 3, 1, LeftCause::Forgotten, 0));
    }

    #[test]
    fn nor_is_anybody_soon_after_a_pause() {
        let place = SchedulerPlace(0);
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.at(1000).sees(Happening::SchedulerPaused { place });
        trial.at(1200).sees(Happening::SchedulerResumed { place });
        trial
            .at(1699)
            .breaks(left(1, 2, 1, LeftCause::Forgotten, 0), "after a pause");
        trial.at(1701).sees(left(1, 3, 1, LeftCause::Forgotten, 0));
    }

    #[test]
    fn nor_is_one_that_an_earlier_scheduler_has_just_answered() {
        let mut trial = Trial::of(ForgottenIsGone::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial
            .at(100)
            .sees(decided(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(stopped(1)).sees(started(2));
        trial
            .at(599)
            .breaks(left(2, 1, 1, LeftCause::Forgotten, 0), "which was answered");
        trial.at(601).sees(left(2, 2, 1, LeftCause::Forgotten, 0));
    }
}
