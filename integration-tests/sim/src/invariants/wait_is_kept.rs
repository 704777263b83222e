//! Law `wait_is_kept`: No task is sent before the initial wait of its scheduler instance is over.
//!
//! Source: thrift/PROTOCOL.md, R8 and Initial wait. Until then an unknown worker may run the task.

use std::collections::BTreeSet;

use brasserie_common::{SchedulerId, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run};
use crate::view::World;

const NAME: &str = "wait_is_kept";

#[derive(Default)]
pub struct WaitIsKept {
    over: BTreeSet<SchedulerId>,
    /// A run sent in this turn. The end of the turn shows whether the wait had ended in it.
    early: Option<(SchedulerId, Run)>,
}

impl Law for WaitIsKept {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "No task is sent before the initial wait of its scheduler instance is over."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } if !self.over.contains(&scheduler) => {
                self.early = self.early.or(Some((scheduler, run)));
            }
            Happening::WaitEnded { scheduler, .. } => {
                self.over.insert(scheduler);
            }
            Happening::WaitsAgain { scheduler, .. } => {
                self.over.remove(&scheduler);
            }
            Happening::SchedulerTurn { .. } => {
                if let Some((scheduler, run)) = self.early.take()
                    && !self.over.contains(&scheduler)
                {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} sends {} in its initial wait",
                            run.task
                        ),
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.over.remove(&scheduler);
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
    use crate::event_log::WaitExit;

    #[test]
    fn nothing_before_the_end_of_the_wait() {
        let mut trial = Trial::of(WaitIsKept::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(wait_ended(1, WaitExit::SafeWait))
            .sees(scheduler_turn());
        trial
            .sees(sent(1, 1, 2, ask_run(run(2))))
            .sees(scheduler_turn());
        trial.sees(sent(2, 1, 3, ask_run(run(3))));
        trial.breaks(scheduler_turn(), "in its initial wait");
    }
}
