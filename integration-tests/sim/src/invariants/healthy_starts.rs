//! Law `healthy_starts`: A task starts only on a worker that both sides hold HEALTHY, and whose running tasks the scheduler has fetched.
//!
//! Source: thrift/PROTOCOL.md, B5. Only then do both sides know when the other takes the task for lost.

use brasserie_common::{Health, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::associations::Associations;
use crate::view::World;

const NAME: &str = "healthy_starts";

#[derive(Default)]
pub struct HealthyStarts {
    pairs: Associations,
}

impl Law for HealthyStarts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task starts only on a worker that both sides hold HEALTHY, and whose running tasks the scheduler has fetched."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.pairs.note(when, happening);
        match *happening {
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                ..
            } => {
                let pair = self.pairs.get(scheduler, worker);
                let what = match pair {
                    None => "that it never heard of",
                    Some(pair) if pair.left => "that has left",
                    Some(pair) if !pair.fetched => "whose running tasks it has not fetched",
                    Some(pair) if pair.told != Some(Health::Healthy) => {
                        "that it has not told to be HEALTHY"
                    }
                    Some(_) => return Ok(()),
                };
                Err(Violation::new(
                    NAME,
                    format_args!(
                        "scheduler {scheduler} sends {} to worker {worker}, {what}",
                        run.task
                    ),
                ))
            }
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                health,
                ..
            } if health != Health::Healthy => Err(Violation::new(
                NAME,
                format_args!(
                    "worker {worker} accepts {} while it is {}",
                    run.task,
                    health.as_str()
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::RefusalCode;
    use brasserie_scheduler_core::LeftCause;

    #[test]
    fn both_sides_hold_the_worker_healthy() {
        let mut trial = Trial::of(HealthyStarts::default());
        trial
            .sees(heard(1, 1, set(0, 0, &[])))
            .sees(associated(1, 2, 1));
        trial
            .sees(fetched(1, 1, 1))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial
            .sees(sent(1, 1, 2, ask_run(run(1))))
            .sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(left(1, 3, 1, LeftCause::Lost, 0));
        trial.breaks(sent(1, 1, 3, ask_run(run(2))), "that has left");
    }

    #[test]
    fn neither_an_unfetched_nor_an_unhealthy_one_gets_a_task() {
        let mut trial = Trial::of(HealthyStarts::default());
        trial
            .sees(associated(1, 2, 1))
            .sees(answered(1, 1, Health::Healthy, set(1, 1, &[1])));
        trial.breaks(sent(1, 1, 2, ask_run(run(1))), "not fetched");
        trial
            .sees(fetched(1, 1, 1))
            .sees(answered(1, 1, Health::Unhealthy, set(1, 1, &[1])));
        trial.breaks(sent(1, 1, 2, ask_run(run(1))), "not told to be HEALTHY");
    }

    #[test]
    fn an_answer_that_waited_for_the_disk_is_older_than_those_that_did_not() {
        let mut trial = Trial::of(HealthyStarts::default());
        let (old, new) = (set(1, 1, &[1]), set(1, 2, &[1]));
        trial.sees(associated(1, 2, 1)).sees(fetched(1, 1, 1));
        trial
            .sees(decided(1, 1, Health::Unhealthy, old))
            .sees(decided(1, 1, Health::Healthy, new))
            .sees(answered(1, 1, Health::Healthy, new))
            .sees(answered(1, 1, Health::Unhealthy, old));
        trial.sees(sent(1, 1, 2, ask_run(run(1))));
        trial
            .sees(decided(1, 1, Health::Unhealthy, new))
            .sees(answered(1, 1, Health::Unhealthy, new));
        trial.breaks(sent(1, 1, 3, ask_run(run(2))), "not told to be HEALTHY");
    }

    #[test]
    fn a_worker_that_is_not_healthy_refuses() {
        let mut trial = Trial::of(HealthyStarts::default());
        let refused = Some(RefusalCode::Unhealthy);
        let unhealthy = (1, Health::Unhealthy, 1);
        trial.sees(served_by(unhealthy, (1, 1), ask_run(run(1)), refused));
        trial.breaks(
            served_by(unhealthy, (1, 1), ask_run(run(1)), None),
            "while it is UNHEALTHY",
        );
    }
}
