//! Law `zombies_end`: The processes of a worker whose tasks were given away end before those may run again.
//!
//! Source: thrift/PROTOCOL.md, B9, R4 and R22. A zombie that outlives the safety backoff overlaps with the next run of its task.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{RecordSeq, SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Violation};
use crate::event_log::{Fact, Happening, ProcessId};
use crate::model::drift;
use crate::model::executions::{Executions, Sleepers};
use crate::view::{Contract, World};

const NAME: &str = "zombies_end";

#[derive(Clone, Copy)]
struct GivenAway {
    by: SchedulerId,
    seq: RecordSeq,
    deadline: Time,
}

#[derive(Default)]
pub struct ZombiesEnd {
    executions: Executions,
    sleepers: Sleepers,
    given_away: BTreeMap<WorkerId, GivenAway>,
    /// The last worker whose tasks were given away; its ends follow.
    latest: Option<WorkerId>,
    zombies: BTreeSet<(Time, ProcessId)>,
}

impl Law for ZombiesEnd {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "The processes of a worker whose tasks were given away end before those may run again."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        self.sleepers.note(when, happening);
        if world.contract == Contract::Obedience {
            return Ok(());
        }
        match *happening {
            Happening::RecordWritten {
                scheduler,
                seq,
                ref fact,
                ..
            } => {
                self.recorded(when, (scheduler, seq), fact, world);
            }
            Happening::EndWritten {
                scheduler,
                seq,
                safety_seconds,
                ..
            } => {
                self.longer(when, (scheduler, seq), safety_seconds, world);
            }
            Happening::TailLost {
                scheduler, after, ..
            } => {
                self.forgive(|given| given.by == scheduler && given.seq > after);
            }
            Happening::BackupRestored { .. } | Happening::DirectoryLost { .. } => {
                self.forgive(|_| true)
            }
            // The worker starts nothing more. Its remaining processes are in the list.
            Happening::WorkerStopped { worker, .. } => {
                self.given_away.remove(&worker);
            }
            Happening::ProcessStarted {
                worker, process, ..
            } => {
                if let Some(given) = self.given_away.get(&worker) {
                    self.zombies.insert((given.deadline, process));
                }
            }
            _ => {}
        }
        self.judge(when, world)
    }
}

impl ZombiesEnd {
    fn recorded(
        &mut self,
        when: Time,
        (by, seq): (SchedulerId, RecordSeq),
        fact: &Fact,
        world: &World<'_>,
    ) {
        match *fact {
            Fact::WorkerLeft {
                worker,
                cause,
                hold_back,
                ..
            } => {
                let backoff = world.timeouts.lost_task_min_backoff(Duration::ZERO);
                let wait = match cause {
                    LeftCause::Lost | LeftCause::Replaced => backoff.max(hold_back),
                    LeftCause::CleanExit | LeftCause::DidNotReturn | LeftCause::Forgotten => {
                        Duration::ZERO
                    }
                };
                let deadline = when + drift::at_least(world, wait);
                self.give_away(worker, GivenAway { by, seq, deadline });
            }
            // The worker associated with another scheduler, which knows its tasks.
            Fact::WorkerAssociated { worker, .. } => {
                self.forgive_worker(worker);
            }
            Fact::SchedulerStarted { .. }
            | Fact::HoldBack { .. }
            | Fact::HoldBackOver
            | Fact::TaskEnded
            | Fact::Jobs => {}
        }
    }

    fn give_away(&mut self, worker: WorkerId, given: GivenAway) {
        self.given_away.insert(worker, given);
        self.latest = Some(worker);
        for (process, _) in self.executions.of_worker(worker) {
            self.zombies.insert((given.deadline, process));
        }
    }

    /// Extends the wait of these tasks by the record.
    fn longer(
        &mut self,
        when: Time,
        (by, seq): (SchedulerId, RecordSeq),
        safety_seconds: u32,
        world: &World<'_>,
    ) {
        let wait = Duration::from_secs(u64::from(safety_seconds));
        let deadline = when + drift::at_least(world, wait);
        if let Some(worker) = self.latest
            && let Some(given) = self.given_away.get(&worker)
            && (given.by, given.seq) == (by, seq)
            && given.deadline < deadline
        {
            self.forgive_worker(worker);
            self.give_away(worker, GivenAway { by, seq, deadline });
        }
    }

    fn forgive(&mut self, which: impl Fn(&GivenAway) -> bool) {
        let workers = self.given_away.iter().filter(|(_, given)| which(given));
        let workers: Vec<WorkerId> = workers.map(|(worker, _)| *worker).collect();
        for worker in workers {
            self.forgive_worker(worker);
        }
    }

    fn forgive_worker(&mut self, worker: WorkerId) {
        let Some(given) = self.given_away.remove(&worker) else {
            return;
        };
        for (process, _) in self.executions.of_worker(worker) {
            self.zombies.remove(&(given.deadline, process));
        }
    }

    fn judge(&mut self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        while let Some(&(deadline, process)) = self.zombies.first() {
            if deadline >= when {
                return Ok(());
            }
            self.zombies.pop_first();
            let Some(execution) = self.executions.get(process) else {
                continue;
            };
            match self.sleepers.excused_until(when, execution.place, world) {
                Some(Time::NEVER) => {
                    // A sleeping process is checked once a second until it wakes.
                    self.zombies
                        .insert((when + Duration::from_secs(1), process));
                }
                Some(until) => {
                    self.zombies.insert((until, process));
                }
                None => {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "run {} of {} on worker {} lives on, though it was given away and may run again",
                            execution.run.invocation, execution.run.task, execution.worker
                        ),
                    ));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn a_zombie_must_end_within_the_backoff_of_its_task() {
        let mut trial = Trial::of(ZombiesEnd::default());
        trial.sees(begins(1, 1, run(1)));
        trial.at(100).sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, SAFE, SAFE));
        trial
            .at(150)
            .sees(begins(1, 2, run(2)))
            .sees(dies(1, 1, run(1)));
        trial.at(166).sees(Happening::FaultsOver);
        trial.at(167).breaks(Happening::FaultsOver, "lives on");
    }

    #[test]
    fn a_longer_wait_gives_more_time_and_a_forgotten_loss_forgives() {
        let mut trial = Trial::of(ZombiesEnd::default());
        trial.sees(begins(1, 1, run(1)));
        trial.sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, 696, 696));
        trial.at(690).sees(Happening::FaultsOver);
        trial.sees(tail_lost(1, 1));
        trial.at(2000).sees(Happening::FaultsOver);
        trial.sees(left(2, 2, 1, LeftCause::DidNotReturn, 0));
        trial.at(2001).breaks(Happening::FaultsOver, "lives on");
    }
}
