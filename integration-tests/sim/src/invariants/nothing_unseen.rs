//! Law `nothing_unseen`: No scheduler starts a task while one of its live processes is on a worker whose running tasks that scheduler has
//! not fetched.
//!
//! Source: thrift/PROTOCOL.md, R3, R8, R9, R10 and R21. A second copy of a task starts in this way: the first one runs on an unknown
//! worker.

use brasserie_common::Time;

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::associations::Associations;
use crate::model::executions::{Executions, Sleepers};
use crate::view::{Contract, World};

const NAME: &str = "nothing_unseen";

#[derive(Default)]
pub struct NothingUnseen {
    pairs: Associations,
    executions: Executions,
    sleepers: Sleepers,
}

impl Law for NothingUnseen {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "No scheduler starts a task while one of its live processes is on a worker whose running tasks that scheduler has not fetched."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.pairs.note(when, happening);
        self.executions.note(happening);
        self.sleepers.note(when, happening);
        let Happening::CallSent {
            scheduler,
            ask: Ask::Run { run, .. },
            ..
        } = *happening
        else {
            return Ok(());
        };
        if world.contract == Contract::Obedience {
            return Ok(());
        }
        for (_, execution) in self.executions.of_task(run.task) {
            let is_seen = self.pairs.has_fetched(scheduler, execution.worker);
            let is_excused = self
                .sleepers
                .excused_until(when, execution.place, world)
                .is_some();
            if !is_seen && !is_excused {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "scheduler {scheduler} starts {}, of which run {} lives on worker {}, whose tasks it has not fetched",
                        run.task, execution.run.invocation, execution.worker
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn who_runs_the_task_is_known_or_nobody_does() {
        let mut trial = Trial::of(NothingUnseen::default());
        trial.sees(begins(1, 1, run(1))).sees(dies(1, 1, run(1)));
        trial.sees(sent(1, 2, 1, ask_run(run(2))));
        trial.sees(begins(1, 2, run(2)));
        trial.breaks(sent(1, 2, 2, ask_run(run(3))), "has not fetched");
    }

    #[test]
    fn a_fetch_of_another_instance_is_no_sight() {
        let mut trial = Trial::of(NothingUnseen::default());
        trial
            .sees(fetched(1, 1, 1))
            .sees(begins(1, 1, run(1)))
            .sees(stopped(1));
        trial.breaks(sent(2, 2, 2, ask_run(run(2))), "has not fetched");
    }
}
