//! Law `settled_after_wait`: A set id says that it counts for consensus only if its scheduler has left its initial wait.
//!
//! Source: thrift/PROTOCOL.md, R10. Until then workers that run tasks may be missing from the set.

use std::collections::BTreeSet;

use brasserie_common::{SchedulerId, Standing, Time};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::view::World;

const NAME: &str = "settled_after_wait";

#[derive(Default)]
pub struct SettledAfterWait {
    over: BTreeSet<SchedulerId>,
    /// A set id decided in this turn. The end of the turn shows whether the wait was over in it.
    early: Option<SchedulerId>,
}

impl Law for SettledAfterWait {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A set id says that it counts for consensus only if its scheduler has left its initial wait."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::HeartbeatDecided { scheduler, set, .. }
                if set.standing == Standing::Settled && !self.over.contains(&scheduler) =>
            {
                self.early = Some(scheduler);
            }
            Happening::WaitEnded { scheduler, .. } => {
                self.over.insert(scheduler);
            }
            Happening::WaitsAgain { scheduler, .. } => {
                self.over.remove(&scheduler);
            }
            Happening::SchedulerTurn { .. } => {
                if let Some(scheduler) = self.early.take()
                    && !self.over.contains(&scheduler)
                {
                    let what = format_args!("scheduler {scheduler} gives it in its initial wait");
                    return Err(Violation::new(NAME, what));
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
    use brasserie_common::Health;

    #[test]
    fn not_in_a_wait() {
        let mut trial = Trial::of(SettledAfterWait::default());
        let id = settled_set(1, 1, &[1]);
        trial
            .sees(decided(1, 1, Health::New, set(1, 1, &[1])))
            .sees(scheduler_turn())
            .sees(wait_ended(1, WaitExit::SafeWait));
        trial
            .sees(decided(1, 1, Health::New, id))
            .sees(scheduler_turn())
            .sees(waits_again(1))
            .sees(decided(1, 1, Health::New, id));
        trial.breaks(scheduler_turn(), "in its initial wait");
    }
}
