//! Law `recorded_before_healthy`: A worker instance is on the disk before it is told to be HEALTHY and before a task is sent to it.
//!
//! Source: thrift/PROTOCOL.md, R3. After a crash the next scheduler must know that this instance may run tasks.

use brasserie_common::{Health, SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::directories::{Contents, Directories};
use crate::view::World;

const NAME: &str = "recorded_before_healthy";

#[derive(Default)]
pub struct RecordedBeforeHealthy {
    directories: Directories,
}

impl Law for RecordedBeforeHealthy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker instance is on the disk before it is told to be HEALTHY and before a task is sent to it."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        match *happening {
            Happening::HeartbeatAnswered {
                scheduler,
                worker,
                state: Health::Healthy,
                ..
            } => {
                // The same sync may record that the instance joined and that it left. An answer from in between is late, not early.
                let state = self
                    .directories
                    .contents_of(scheduler)
                    .map(Contents::synced);
                let is_recorded = state
                    .is_some_and(|s| s.instances.contains(&worker) || s.left.contains(&worker));
                judge(is_recorded, scheduler, worker, "is told to be HEALTHY")
            }
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { .. },
                ..
            } => {
                let state = self
                    .directories
                    .contents_of(scheduler)
                    .map(Contents::synced);
                let is_recorded = state.is_some_and(|s| s.instances.contains(&worker));
                judge(is_recorded, scheduler, worker, "gets a task")
            }
            _ => Ok(()),
        }
    }
}

fn judge(
    is_recorded: bool,
    scheduler: SchedulerId,
    worker: WorkerId,
    what: &str,
) -> Result<(), Violation> {
    if is_recorded {
        return Ok(());
    }
    Err(Violation::new(
        NAME,
        format_args!(
            "worker {worker} {what} by scheduler {scheduler}, but no synced record names it"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_scheduler_core::LeftCause;

    #[test]
    fn the_record_comes_first() {
        let mut trial = Trial::of(RecordedBeforeHealthy::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(associated(1, 2, 1));
        trial.sees(answered(1, 1, Health::New, set(1, 1, &[1])));
        trial.breaks(
            answered(1, 1, Health::Healthy, set(1, 1, &[1])),
            "is told to be HEALTHY",
        );
        trial.breaks(sent(1, 1, 1, ask_run(run(1))), "gets a task");
        trial
            .sees(synced(1, 2))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(sent(1, 1, 1, ask_run(run(1))));
    }

    #[test]
    fn an_answer_that_a_sync_holds_up_until_the_worker_has_left_is_late_but_a_task_is_not_sent() {
        let mut trial = Trial::of(RecordedBeforeHealthy::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.sees(associated(1, 2, 1));
        trial.sees(left(1, 3, 1, LeftCause::Lost, 0));
        trial.sees(synced(1, 3));
        trial.sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.breaks(sent(1, 1, 1, ask_run(run(1))), "gets a task");
    }
}
