//! Law `left_in_one_commit`: The record that lets a worker go holds the end of each of its tasks, with the safety backoff that its cause
//! asks for.
//!
//! Source: thrift/PROTOCOL.md, B7, R4 and R26. After a crash between two records, tasks would start too early or never.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{RecordSeq, SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Violation};
use crate::event_log::{Fact, Happening, TaskId};
use crate::model::runs::Runs;
use crate::view::World;

const NAME: &str = "left_in_one_commit";

/// A record whose ends are being reported.
struct Leaving {
    scheduler: SchedulerId,
    seq: RecordSeq,
    worker: WorkerId,
    least: Duration,
    told: u16,
    missing: BTreeSet<TaskId>,
}

#[derive(Default)]
pub struct LeftInOneCommit {
    runs: Runs,
    leaving: Option<Leaving>,
}

impl Law for LeftInOneCommit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "The record that lets a worker go holds the end of each of its tasks, with the safety backoff that its cause asks for."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::EndWritten {
                scheduler,
                seq,
                run,
                safety_seconds,
                ..
            } => {
                self.end(scheduler, seq, run.task, safety_seconds)?;
            }
            Happening::RecordWritten {
                scheduler,
                seq,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause,
                        tasks,
                        ..
                    },
                ..
            } => {
                self.close()?;
                let least = match cause {
                    LeftCause::Lost | LeftCause::Replaced => {
                        world.shortest.lost_task_min_backoff(Duration::ZERO)
                    }
                    LeftCause::CleanExit | LeftCause::DidNotReturn | LeftCause::Forgotten => {
                        Duration::ZERO
                    }
                };
                self.leaving = Some(Leaving {
                    scheduler,
                    seq,
                    worker,
                    least,
                    told: tasks,
                    missing: self.runs.on_worker(scheduler, worker).collect(),
                });
            }
            _ => self.close()?,
        }
        self.runs.note(happening);
        Ok(())
    }
}

impl LeftInOneCommit {
    fn end(
        &mut self,
        scheduler: SchedulerId,
        seq: RecordSeq,
        task: TaskId,
        safety_seconds: u32,
    ) -> Result<(), Violation> {
        let Some(leaving) = &mut self.leaving else {
            return Ok(());
        };
        if (leaving.scheduler, leaving.seq) != (scheduler, seq) {
            return Ok(());
        }
        leaving.missing.remove(&task);
        leaving.told = leaving.told.saturating_sub(1);
        if Duration::from_secs(u64::from(safety_seconds)) >= leaving.least {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "worker {} leaves with {task}, which gets {safety_seconds} s of safety backoff instead of {:?}",
                leaving.worker, leaving.least
            ),
        ))
    }

    fn close(&mut self) -> Result<(), Violation> {
        let Some(leaving) = self.leaving.take() else {
            return Ok(());
        };
        if leaving.missing.is_empty() && leaving.told == 0 {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "worker {} leaves, but its record lacks the ends of {:?} ({} announced ones)",
                leaving.worker, leaving.missing, leaving.told
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn with_every_task_and_its_wait() {
        let mut trial = Trial::of(LeftInOneCommit::default());
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
        trial.sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial
            .sees(end_written(1, 2, run(1), LOST, SAFE, SAFE))
            .sees(scheduler_turn());
        trial.sees(sent(1, 2, 2, ask_run(run(2))));
        trial.sees(left(1, 3, 2, LeftCause::CleanExit, 1));
        trial
            .sees(end_written(1, 3, run(2), LOST, 0, 0))
            .sees(scheduler_turn());
    }

    #[test]
    fn a_task_in_another_record_is_caught() {
        let mut trial = Trial::of(LeftInOneCommit::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(left(1, 2, 1, LeftCause::Lost, 0));
        trial.breaks(wrote(1, 3, Fact::TaskEnded), "lacks the ends");
    }

    #[test]
    fn a_configured_backoff_is_not_enough() {
        let mut trial = Trial::of(LeftInOneCommit::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.breaks(
            end_written(1, 2, run(1), LOST, 15, 0),
            "0 s of safety backoff",
        );
    }
}
