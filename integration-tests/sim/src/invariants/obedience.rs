//! Law `obedience`: A worker accepts tasks only from the scheduler instance that it is bound to, and only those meant for it.
//!
//! Source: thrift/PROTOCOL.md, R13. The bound instance has the worker's list of running tasks; any other may have given its tasks away.

use brasserie_common::Time;

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::view::World;

const NAME: &str = "obedience";

#[derive(Default)]
pub struct Obedience;

impl Law for Obedience {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker accepts tasks only from the scheduler instance that it is bound to, and only those meant for it."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        let Happening::Served {
            worker,
            scheduler,
            meant,
            ask: Ask::Run { run, .. },
            bound,
            refusal: None,
            ..
        } = *happening
        else {
            return Ok(());
        };
        if bound != Some(scheduler) {
            let bound = bound.map_or("nobody".to_owned(), |id| format!("scheduler {id}"));
            return Err(Violation::new(
                NAME,
                format_args!(
                    "worker {worker}, bound to {bound}, accepts {} from scheduler {scheduler}",
                    run.task
                ),
            ));
        }
        if meant != worker {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "worker {worker} accepts {}, which was meant for {meant}",
                    run.task
                ),
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::{Health, RefusalCode};

    #[test]
    fn only_the_bound_instance_is_obeyed() {
        let mut trial = Trial::of(Obedience);
        trial.sees(served(1, 1, ask_run(run(1)), None));
        let of_another = (1, Health::Healthy, 2);
        trial.sees(served_by(
            of_another,
            (1, 1),
            ask_run(run(2)),
            Some(RefusalCode::WrongId),
        ));
        trial.breaks(
            served_by(of_another, (1, 1), ask_run(run(2)), None),
            "bound to scheduler 2",
        );
    }

    #[test]
    fn a_task_for_a_predecessor_is_refused() {
        let mut trial = Trial::of(Obedience);
        let own = (2, Health::Healthy, 1);
        trial.breaks(
            served_by(own, (1, 1), ask_run(run(1)), None),
            "was meant for",
        );
    }
}
