//! Law `never_twice`: At most one process of a task is alive, on all workers together.
//!
//! Source: thrift/PROTOCOL.md, B6. This law is the contract with users: two copies of a task could both write what only one may write.

use std::collections::BTreeMap;

use brasserie_common::Time;

use super::{Law, Violation};
use crate::event_log::{Happening, TaskId};
use crate::model::executions::{Executions, Sleepers};
use crate::view::{Contract, World};

const NAME: &str = "never_twice";

/// Overlaps with a process on a sleeping machine are checked once the machine had time to end that process.
#[derive(Default)]
pub struct NeverTwice {
    executions: Executions,
    sleepers: Sleepers,
    /// Tasks with an excused overlap.
    excused: BTreeMap<TaskId, Time>,
}

impl Law for NeverTwice {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "At most one process of a task is alive, on all workers together."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        self.sleepers.note(when, happening);
        if world.contract == Contract::Obedience {
            return Ok(());
        }
        if let Happening::ProcessStarted { run, .. } = happening {
            self.judge(when, run.task, world)?;
        }
        if self.excused.is_empty() {
            return Ok(());
        }
        let due: Vec<TaskId> = self.excused.keys().copied().collect();
        due.into_iter()
            .try_for_each(|task| self.judge(when, task, world))
    }
}

impl NeverTwice {
    fn judge(&mut self, when: Time, task: TaskId, world: &World<'_>) -> Result<(), Violation> {
        let mut until = None;
        let mut alive = Vec::new();
        for (process, execution) in self.executions.of_task(task) {
            match self.sleepers.excused_until(when, execution.place, world) {
                Some(at) => until = until.max(Some(at)),
                None => alive.push((process, *execution)),
            }
        }
        match until.filter(|_| !alive.is_empty()) {
            Some(at) => self.excused.insert(task, at),
            None => self.excused.remove(&task),
        };
        match alive.as_slice() {
            [(_, one), (_, other), ..] => Err(Violation::new(
                NAME,
                format_args!(
                    "{task} runs twice: run {} on worker {} and run {} on worker {}",
                    one.run.invocation, one.worker, other.run.invocation, other.worker
                ),
            )),
            [] | [_] => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::MachineId;

    #[test]
    fn one_after_the_other_is_fine_and_together_is_not() {
        let mut trial = Trial::of(NeverTwice::default());
        trial.sees(begins(1, 1, run(1))).sees(dies(1, 1, run(1)));
        trial.sees(begins(2, 2, run(2)));
        trial
            .sees(begins(1, 3, check(1)))
            .sees(begins(2, 4, check(1)));
        trial.breaks(begins(1, 5, run(3)), "j0/n0 runs twice");
    }

    #[test]
    fn nothing_is_promised_with_two_schedulers_on_copies() {
        let mut trial = Trial::of(NeverTwice::default());
        trial.contract = Contract::Obedience;
        trial.sees(begins(1, 1, run(1))).sees(begins(2, 2, run(2)));
    }

    #[test]
    fn a_machine_that_slept_gets_the_time_to_end_its_tasks_and_no_more() {
        let mut trial = Trial::of(NeverTwice::default());
        let machine = MachineId(7);
        trial.sees(Happening::WorkerInstalled {
            place: place(1),
            machine,
        });
        trial.sees(begins(1, 1, run(1)));
        trial.sees(Happening::MachineSuspended { machine });
        trial.at(900).sees(begins(2, 2, run(2)));
        trial.at(1000).sees(Happening::MachineWoke { machine });
        trial.at(1005).sees(Happening::FaultsOver);
        trial.at(1009).breaks(Happening::FaultsOver, "runs twice");
    }
}
