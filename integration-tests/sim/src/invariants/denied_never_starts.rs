//! Law `denied_never_starts`: A run that a worker has refused, or reported as not running, never starts there.
//!
//! Source: thrift/PROTOCOL.md, B4, R18 and R19. The scheduler relies on the denial and starts the task elsewhere.

use std::collections::BTreeSet;

use brasserie_common::collections::IdSet;
use brasserie_common::{InvocationId, StatusBits, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run};
use crate::model::executions::Executions;
use crate::view::World;

const NAME: &str = "denied_never_starts";

#[derive(Default)]
pub struct DeniedNeverStarts {
    executions: Executions,
    accepted: IdSet<(WorkerId, InvocationId)>,
    denied: IdSet<(WorkerId, InvocationId)>,
    /// Runs that were accepted and have neither begun nor ended.
    starting: BTreeSet<(WorkerId, InvocationId)>,
}

impl Law for DeniedNeverStarts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A run that a worker has refused, or reported as not running, never starts there."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal,
                ..
            } => {
                let id = (worker, run.invocation);
                match refusal {
                    Some(_) if !self.accepted.contains(&id) => {
                        self.denied.insert(id);
                    }
                    Some(_) => {}
                    None => {
                        self.not_denied(worker, run)?;
                        self.accepted.insert(id);
                        self.starting.insert(id);
                    }
                }
            }
            Happening::StatusSent {
                worker, run, bits, ..
            } if bits.has(StatusBits::OVERWRITEABLE) => {
                self.says_not_running(worker, run)?;
            }
            // The worker reported the completion of a queued run that never began.
            Happening::StatusSent { worker, run, .. } => {
                self.starting.remove(&(worker, run.invocation));
            }
            Happening::ProcessStarted { worker, run, .. } if !run.task.is_healthcheck() => {
                self.starting.remove(&(worker, run.invocation));
                self.not_denied(worker, run)?;
                if !self.accepted.contains(&(worker, run.invocation)) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "worker {worker} starts run {} of {}, which it never accepted",
                            run.invocation, run.task
                        ),
                    ));
                }
            }
            Happening::SpawnFailed { worker, run, .. } => {
                self.starting.remove(&(worker, run.invocation));
            }
            _ => {}
        }
        Ok(())
    }
}

impl DeniedNeverStarts {
    fn not_denied(&self, worker: WorkerId, run: Run) -> Result<(), Violation> {
        if !self.denied.contains(&(worker, run.invocation)) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "worker {worker} starts run {} of {}, which it denied before",
                run.invocation, run.task
            ),
        ))
    }

    fn says_not_running(&mut self, worker: WorkerId, run: Run) -> Result<(), Violation> {
        let mut live = self.executions.of_worker(worker);
        let id = (worker, run.invocation);
        if live.any(|(_, e)| e.run == run) || self.starting.contains(&id) {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "worker {worker} says that run {} of {} does not run, but it does",
                    run.invocation, run.task
                ),
            ));
        }
        self.denied.insert(id);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::RefusalCode;

    #[test]
    fn what_was_refused_stays_refused() {
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial.sees(served(
            1,
            1,
            ask_run(run(1)),
            Some(RefusalCode::OldSequence),
        ));
        trial.sees(served(1, 2, ask_run(run(1)), None));
        trial.breaks(served(1, 1, ask_run(run(1)), None), "denied before");
    }

    #[test]
    fn not_running_is_a_promise() {
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(begins(1, 1, run(1))).sees(dies(1, 1, run(1)));
        trial.sees(status_sent(1, 1, run(1), NOT_RUNNING));
        trial.breaks(begins(1, 2, run(1)), "denied before");
    }

    #[test]
    fn not_running_is_true_when_it_is_said() {
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial
            .sees(served(1, 1, ask_run(run(1)), None))
            .sees(begins(1, 1, run(1)));
        trial.breaks(status_sent(1, 1, run(1), NOT_RUNNING), "but it does");
        let mut trial = Trial::of(DeniedNeverStarts::default());
        trial.breaks(begins(1, 1, run(1)), "never accepted");
    }
}
