//! Law `no_status_in_new`: No status of a task is taken from a worker whose running tasks are not fetched yet.
//!
//! Source: thrift/PROTOCOL.md, B8 and R16. The list that comes later would contradict the status.

use std::collections::BTreeSet;

use brasserie_common::{SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Happening, Run};
use crate::model::associations::Associations;
use crate::view::World;

const NAME: &str = "no_status_in_new";

#[derive(Default)]
pub struct NoStatusInNew {
    pairs: Associations,
    /// Statuses that arrived before the fetch succeeded and were not repeated since.
    too_early: BTreeSet<(SchedulerId, WorkerId, Run)>,
}

impl Law for NoStatusInNew {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "No status of a task is taken from a worker whose running tasks are not fetched yet."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.pairs.note(when, happening);
        match *happening {
            Happening::StatusHeard {
                scheduler,
                worker,
                run,
                ..
            } if !run.task.is_healthcheck() => {
                let key = (scheduler, worker, run);
                // A lost instance is no longer NEW, and no list follows.
                let pair = self.pairs.get(scheduler, worker);
                if pair.is_some_and(|pair| pair.fetched || pair.left) {
                    self.too_early.remove(&key);
                } else {
                    self.too_early.insert(key);
                }
            }
            Happening::StatusAcknowledged {
                scheduler,
                worker,
                run,
                ..
            } if self.too_early.contains(&(scheduler, worker, run))
                // The instance may have been lost in the same turn, before its status was handled.
                && self.pairs.get(scheduler, worker).is_none_or(|pair| !pair.left) =>
            {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "scheduler {scheduler} takes the status of {} from worker {worker}, which was NEW when it came",
                        run.task
                    ),
                ));
            }
            Happening::StatusRejected {
                scheduler,
                worker,
                run,
                ..
            } => {
                self.too_early.remove(&(scheduler, worker, run));
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.too_early.retain(|(owner, _, _)| *owner != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn only_after_the_fetch() {
        let mut trial = Trial::of(NoStatusInNew::default());
        trial
            .sees(associated(1, 2, 1))
            .sees(status_heard(1, 1, check(1), DONE));
        trial.sees(acknowledged(1, 1, check(1), DONE));
        trial.sees(status_heard(1, 1, run(1), DONE));
        trial.breaks(acknowledged(1, 1, run(1), DONE), "which was NEW");
        trial
            .sees(fetched(1, 1, 1))
            .sees(status_heard(1, 1, run(1), DONE));
        trial.sees(acknowledged(1, 1, run(1), DONE));
        trial
            .sees(associated(1, 3, 2))
            .sees(left(1, 4, 2, brasserie_scheduler_core::LeftCause::Lost, 0))
            .sees(status_heard(1, 2, run(2), DONE))
            .sees(acknowledged(1, 2, run(2), DONE));
        trial
            .sees(associated(1, 5, 3))
            .sees(status_heard(1, 3, run(3), DONE))
            .sees(left(1, 6, 3, brasserie_scheduler_core::LeftCause::Lost, 0))
            .sees(acknowledged(1, 3, run(3), DONE));
    }
}
