//! Law `dead_by_silence`: A worker that does not return counts as dead no earlier than the safe wait after any scheduler has decided to
//! answer it.
//!
//! Source: thrift/PROTOCOL.md, R8 and R37. By then, and no earlier, the worker's own timers have ended it. They count from the heartbeat
//! that was answered.

use std::collections::BTreeMap;

use brasserie_common::{Health, StatusBits, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Violation};
use crate::event_log::{Fact, Happening};
use crate::model::drift;
use crate::view::{Contract, World};

const NAME: &str = "dead_by_silence";

#[derive(Default)]
pub struct DeadBySilence {
    answered: BTreeMap<WorkerId, Time>,
}

impl Law for DeadBySilence {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that does not return counts as dead no earlier than the safe wait after any scheduler has decided to answer it."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::HeartbeatDecided { worker, state, .. } if state != Health::MustDie => {
                self.answered.insert(worker, when);
            }
            Happening::StatusAcknowledged {
                worker, run, bits, ..
            } if run.task.is_healthcheck() && bits.has(StatusBits::DONE) => {
                self.answered.insert(worker, when);
            }
            Happening::RecordWritten {
                scheduler,
                fact:
                    Fact::WorkerLeft {
                        worker,
                        cause: LeftCause::DidNotReturn,
                        ..
                    },
                ..
            } if world.contract == Contract::Whole => {
                let wait = drift::at_least(world, world.shortest.min_safe_wait());
                let answered = self.answered.get(&worker);
                if let Some(&answered) = answered
                    && when < answered + wait
                {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} takes worker {worker} for dead, which was answered {:?} before",
                            when.since(answered)
                        ),
                    ));
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

    #[test]
    fn it_counts_from_the_last_answer() {
        let mut trial = Trial::of(DeadBySilence::default());
        let answer = || decided(1, 1, Health::Healthy, set(1, 1, &[1]));
        trial.at(100).sees(answer()).at(200).sees(answer());
        trial
            .at(895)
            .breaks(left(2, 1, 1, LeftCause::DidNotReturn, 0), "answered 695s");
        trial
            .at(896)
            .sees(left(2, 2, 1, LeftCause::DidNotReturn, 0));
        trial.sees(left(2, 3, 2, LeftCause::DidNotReturn, 0));
    }
}
