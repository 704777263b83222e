//! Law `first_health_after_echo`: A worker is told to be HEALTHY for the first time only after it has sent back a set of this scheduler
//! that contains it.
//!
//! Source: thrift/PROTOCOL.md, R12 and Worker-set consensus. Otherwise a later scheduler could find consensus among the other workers.

use std::collections::BTreeSet;

use brasserie_common::{Health, SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::model::worker_sets::{Sums, WorkerSets};
use crate::view::World;

const NAME: &str = "first_health_after_echo";

#[derive(Default)]
pub struct FirstHealthAfterEcho {
    sets: WorkerSets,
    echoed: BTreeSet<(SchedulerId, WorkerId)>,
}

impl Law for FirstHealthAfterEcho {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker is told to be HEALTHY for the first time only after it has sent back a set of this scheduler that contains it."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.sets.note(happening);
        match *happening {
            Happening::HeartbeatHeard {
                scheduler,
                worker,
                set,
                ..
            } if set.scheduler == scheduler => {
                if let Some(history) = self.sets.get(scheduler)
                    && let Some(step) = history.step_of(Sums::from(&set.hash))
                    && history.contains_at(worker, step)
                {
                    self.echoed.insert((scheduler, worker));
                }
            }
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state: Health::Healthy,
                ..
            } if !self.echoed.contains(&(scheduler, worker)) => {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "scheduler {scheduler} tells worker {worker} to be HEALTHY, which has not sent back a set with itself"
                    ),
                ));
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.echoed.retain(|(of, _)| *of != scheduler);
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
    fn the_echo_comes_first() {
        let mut trial = Trial::of(FirstHealthAfterEcho::default());
        trial
            .sees(started(1))
            .sees(associated(1, 2, 1))
            .sees(associated(1, 3, 2));
        trial.sees(heard(1, 1, set(9, 1, &[1])));
        trial.breaks(
            decided(1, 1, Health::Healthy, set(1, 2, &[1, 2])),
            "has not sent back",
        );
        trial.sees(heard(1, 1, set(1, 2, &[1, 2]))).sees(decided(
            1,
            1,
            Health::Healthy,
            set(1, 2, &[1, 2]),
        ));
    }
}
