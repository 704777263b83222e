//! Law `must_die_is_final`: A worker that is MUST_DIE, or has said goodbye, stays so, starts nothing, and had no process when it said
//! goodbye.
//!
//! Source: thrift/PROTOCOL.md, R4 and Worker's life. The scheduler may start the instance's tasks elsewhere, at once after a goodbye.

use std::collections::BTreeSet;

use brasserie_common::{Health, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::executions::Executions;
use crate::view::World;

const NAME: &str = "must_die_is_final";

#[derive(Default)]
pub struct MustDieIsFinal {
    executions: Executions,
    ending: BTreeSet<WorkerId>,
}

impl Law for MustDieIsFinal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that is MUST_DIE, or has said goodbye, stays so, starts nothing, and had no process when it said goodbye."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        match *happening {
            Happening::WorkerHealth {
                worker, from, to, ..
            } => {
                if from == Health::MustDie {
                    return Err(Violation::new(
                        NAME,
                        format_args!("worker {worker} goes from MUST_DIE to {}", to.as_str()),
                    ));
                }
                if to == Health::MustDie {
                    self.ending.insert(worker);
                }
            }
            Happening::HeartbeatSent {
                worker,
                goodbye: true,
                ..
            } => {
                if let Some((_, execution)) = self.executions.of_worker(worker).next() {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "worker {worker} says goodbye while run {} of {} lives",
                            execution.run.invocation, execution.run.task
                        ),
                    ));
                }
                self.ending.insert(worker);
            }
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } if self.ending.contains(&worker) => {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "worker {worker} accepts {} while it is ending itself",
                        run.task
                    ),
                ));
            }
            Happening::WorkerStopped { worker, .. } => {
                self.ending.remove(&worker);
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
    fn no_way_back() {
        let mut trial = Trial::of(MustDieIsFinal::default());
        trial.sees(worker_health(1, Health::Healthy, Health::Unhealthy));
        trial.sees(worker_health(1, Health::Unhealthy, Health::MustDie));
        trial.breaks(served(1, 1, ask_run(run(1)), None), "while it is ending");
        trial.breaks(
            worker_health(1, Health::MustDie, Health::Unhealthy),
            "from MUST_DIE",
        );
    }

    #[test]
    fn a_goodbye_is_true() {
        let mut trial = Trial::of(MustDieIsFinal::default());
        trial.sees(begins(1, 1, run(1)));
        trial.breaks(heartbeat_sent(1, set(1, 1, &[1]), true), "while run");
        trial
            .sees(dies(1, 1, run(1)))
            .sees(heartbeat_sent(1, set(1, 1, &[1]), true));
    }
}
