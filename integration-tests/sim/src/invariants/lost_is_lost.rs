//! Law `lost_is_lost`: A worker instance that a scheduler instance, or an earlier one of its directory, has let go hears MUST_DIE from it
//! for ever, and gets no task any more.
//!
//! Source: thrift/PROTOCOL.md, R20. Its tasks are given away, so an instance that returned would run them a second time.

use std::collections::BTreeSet;

use brasserie_common::{Health, SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Fact, Happening};
use crate::model::directories::Directories;
use crate::view::World;

const NAME: &str = "lost_is_lost";

#[derive(Default)]
pub struct LostIsLost {
    directories: Directories,
    gone: BTreeSet<(SchedulerId, WorkerId)>,
}

impl Law for LostIsLost {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker instance that a scheduler instance, or an earlier one of its directory, has let go hears MUST_DIE from it for ever, and gets no task any more."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                let found = self.directories.get(directory).map(|c| &c.synced().left);
                let found = found.into_iter().flatten();
                self.gone.extend(found.map(|worker| (scheduler, *worker)));
            }
            Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerLeft { worker, .. },
                ..
            } => {
                self.gone.insert((scheduler, worker));
            }
            Happening::RecordWritten {
                scheduler,
                fact: Fact::WorkerAssociated { worker, .. },
                ..
            } => self.judge(scheduler, worker, "associates it again")?,
            // An answer that was decided before may wait for the disk. The worker counts from its own sending and obeys its own timers.
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if state != Health::MustDie => self.judge(scheduler, worker, state.as_str())?,
            Happening::CallSent {
                scheduler,
                worker,
                ask,
                ..
            } => match ask {
                // A fetch or a healthcheck may have waited for the disk since before. Neither gives the instance a task.
                Ask::Suicide | Ask::Fetch | Ask::Healthcheck { .. } => {}
                Ask::Run { .. } => self.judge(scheduler, worker, "sends it a task")?,
                Ask::Notify { .. } => self.judge(scheduler, worker, "asks about its tasks")?,
                Ask::Kill { .. } => self.judge(scheduler, worker, "has a task of it killed")?,
            },
            Happening::SchedulerStopped { scheduler, .. } => {
                self.gone.retain(|(owner, _)| *owner != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl LostIsLost {
    fn judge(&self, scheduler: SchedulerId, worker: WorkerId, what: &str) -> Result<(), Violation> {
        if !self.gone.contains(&(scheduler, worker)) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!("scheduler {scheduler} had let worker {worker} go, and now: {what}"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_scheduler_core::LeftCause;

    #[test]
    fn it_hears_nothing_else() {
        let mut trial = Trial::of(LostIsLost::default());
        trial
            .sees(associated(1, 2, 1))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(left(1, 3, 1, LeftCause::Lost, 0));
        trial
            .sees(answered(1, 1, Health::MustDie, set(1, 2, &[])))
            .sees(sent(1, 1, 1, Ask::Suicide));
        // A scheduler of another directory may accept the instance; one of the same directory must not.
        trial.sees(associated(2, 2, 1));
        trial.breaks(associated(1, 4, 1), "associates it again");
        trial.sees(answered(1, 1, Health::New, set(1, 1, &[1])));
        trial.breaks(
            decided(1, 1, Health::Unhealthy, set(1, 2, &[])),
            "UNHEALTHY",
        );
        // The answer was decided before.
        trial.sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.sees(sent(1, 1, 2, Ask::Fetch));
        trial.breaks(sent(1, 1, 3, ask_run(run(1))), "sends it a task");
    }

    #[test]
    fn a_successor_remembers() {
        let mut trial = Trial::of(LostIsLost::default());
        trial.sees(started(1)).sees(associated(1, 1, 1));
        trial.sees(left(1, 2, 1, LeftCause::DidNotReturn, 0));
        trial.sees(synced(1, 2)).sees(stopped(1)).sees(started(2));
        trial.breaks(associated(2, 1, 1), "associates it again");
        trial.sees(associated(2, 1, 2));
    }
}
