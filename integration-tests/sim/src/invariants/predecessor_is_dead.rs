//! Law `predecessor_is_dead`: A worker instance sends no heartbeat while a process of an earlier instance at its place is alive.
//!
//! Source: thrift/PROTOCOL.md, R23. By its heartbeat the scheduler knows that the earlier holder of the machine lock is dead.

use std::collections::BTreeMap;

use brasserie_common::{Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Happening, WorkerPlace};
use crate::model::executions::Executions;
use crate::view::World;

const NAME: &str = "predecessor_is_dead";

#[derive(Default)]
pub struct PredecessorIsDead {
    executions: Executions,
    /// Earlier instances of each place that may have left processes behind.
    earlier: BTreeMap<WorkerPlace, Vec<WorkerId>>,
}

impl Law for PredecessorIsDead {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker instance sends no heartbeat while a process of an earlier instance at its place is alive."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        match *happening {
            Happening::WorkerStopped { place, worker, .. } => {
                self.earlier.entry(place).or_default().push(worker);
            }
            Happening::HeartbeatSent { place, worker, .. } => {
                let Some(earlier) = self.earlier.remove(&place) else {
                    return Ok(());
                };
                for old in earlier {
                    if let Some((_, execution)) = self.executions.of_worker(old).next() {
                        return Err(Violation::new(
                            NAME,
                            format_args!(
                                "worker {worker} sends a heartbeat while run {} of {} of its predecessor {old} lives",
                                execution.run.invocation, execution.run.task
                            ),
                        ));
                    }
                }
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
    use crate::event_log::WorkerStop;

    fn killed(w: i64) -> Happening {
        Happening::WorkerStopped {
            place: place(w % 100),
            worker: wid(w),
            how: WorkerStop::Killed,
        }
    }

    #[test]
    fn nothing_is_left_behind() {
        let mut trial = Trial::of(PredecessorIsDead::default());
        trial
            .sees(begins(1, 1, run(1)))
            .sees(heartbeat_sent(1, set(0, 0, &[]), false));
        trial
            .sees(killed(1))
            .sees(dies(1, 1, run(1)))
            .sees(heartbeat_sent(101, set(0, 0, &[]), false));
        trial.sees(begins(101, 2, run(2))).sees(killed(101));
        trial.breaks(
            heartbeat_sent(201, set(0, 0, &[]), false),
            "of its predecessor",
        );
    }
}
