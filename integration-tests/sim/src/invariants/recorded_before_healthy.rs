//! Law `recorded_before_healthy`: A worker instance is on the disk before it is told to be HEALTHY and before a task is sent to it.
//!
//! Source: R3. After a crash the next scheduler must know that this instance may run tasks.

use brasserie_common::{Health, SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::directories::Directories;
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
            } => self.judge(scheduler, worker, "is told to be HEALTHY"),
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { .. },
                ..
            } => self.judge(scheduler, worker, "gets a task"),
            _ => Ok(()),
        }
    }
}

impl RecordedBeforeHealthy {
    fn judge(&self, scheduler: SchedulerId, worker: WorkerId, what: &str) -> Result<(), Violation> {
        let contents = self.directories.contents_of(scheduler);
        if contents.is_some_and(|c| c.synced().instances.contains(&worker)) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "worker {worker} {what} by scheduler {scheduler}, but no synced record names it"
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
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
}
