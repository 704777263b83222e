//! Law `running_until_acknowledged`: A worker lists every run that it accepted until the scheduler it is bound to has acknowledged the end.
//!
//! Source: thrift/PROTOCOL.md, B2 and R17. The scheduler takes an unlisted run for lost or never started, and runs the task again.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run, WorkerPlace};
use crate::model::executions::Executions;
use crate::view::World;

const NAME: &str = "running_until_acknowledged";

/// A list that the happenings are reporting.
struct Listing {
    place: WorkerPlace,
    worker: WorkerId,
    missing: BTreeSet<Run>,
}

#[derive(Default)]
pub struct RunningUntilAcknowledged {
    executions: Executions,
    accepted: BTreeMap<WorkerId, BTreeSet<Run>>,
    bound: BTreeMap<WorkerId, SchedulerId>,
    listing: Option<Listing>,
}

impl Law for RunningUntilAcknowledged {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker lists every run that it accepted until the scheduler it is bound to has acknowledged the end."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.executions.note(happening);
        match *happening {
            Happening::Listed { worker, run, ended } => return self.listed(worker, run, ended),
            Happening::WorkerStopped { worker, .. } => {
                self.accepted.remove(&worker);
                self.bound.remove(&worker);
                self.listing = None;
            }
            _ => self.close()?,
        }
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => {
                self.accepted.entry(worker).or_default().insert(run);
            }
            Happening::Served {
                place,
                worker,
                ask: Ask::Fetch,
                refusal: None,
                ..
            } => {
                let missing = self.accepted.get(&worker).cloned().unwrap_or_default();
                self.listing = Some(Listing {
                    place,
                    worker,
                    missing,
                });
            }
            Happening::WorkerBound {
                worker,
                to: Some(to),
                ..
            } => {
                self.bound.insert(worker, to);
            }
            Happening::StatusSettled {
                worker,
                scheduler,
                run,
                ..
            } => {
                self.settled(worker, scheduler, run);
            }
            _ => {}
        }
        Ok(())
    }
}

impl RunningUntilAcknowledged {
    fn listed(&mut self, worker: WorkerId, run: Run, ended: bool) -> Result<(), Violation> {
        if let Some(listing) = &mut self.listing {
            listing.missing.remove(&run);
        }
        let lives = |(_, e): (_, &crate::model::executions::Execution)| e.run == run;
        if ended && self.executions.of_worker(worker).any(lives) {
            return Err(Violation::new(
                NAME,
                format_args!(
                    "worker {worker} lists run {} of {} as ended, but it lives",
                    run.invocation, run.task
                ),
            ));
        }
        Ok(())
    }

    /// Checks the list. Any happening but a listed task ends a list.
    fn close(&mut self) -> Result<(), Violation> {
        let Some(listing) = self.listing.take() else {
            return Ok(());
        };
        let Some(run) = listing.missing.first() else {
            return Ok(());
        };
        Err(Violation::new(
            NAME,
            format_args!(
                "worker {} at place {} does not list run {} of {}, which it accepted and whose end nobody has acknowledged",
                listing.worker, listing.place.0, run.invocation, run.task
            ),
        ))
    }

    /// Forgets a settled run. The word of a scheduler that the worker is not bound to is no reason to forget.
    fn settled(&mut self, worker: WorkerId, scheduler: SchedulerId, run: Run) {
        if self.bound.get(&worker) == Some(&scheduler)
            && let Some(runs) = self.accepted.get_mut(&worker)
        {
            runs.remove(&run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn listed_until_acknowledged_by_the_bound_one() {
        let mut trial = Trial::of(RunningUntilAcknowledged::default());
        trial
            .sees(bound(1, 1))
            .sees(served(1, 1, ask_run(run(1)), None));
        trial
            .sees(served(1, 1, Ask::Fetch, None))
            .sees(listed(1, run(1), false))
            .sees(worker_turn(1));
        trial.sees(settled(1, 1, run(1), DONE));
        trial
            .sees(served(1, 1, Ask::Fetch, None))
            .sees(worker_turn(1));
    }

    #[test]
    fn the_word_of_another_scheduler_settles_nothing() {
        let mut trial = Trial::of(RunningUntilAcknowledged::default());
        trial
            .sees(bound(1, 2))
            .sees(served(2, 1, ask_run(run(1)), None));
        trial.sees(settled(1, 1, run(1), DONE));
        trial.sees(served(2, 1, Ask::Fetch, None));
        trial.breaks(worker_turn(1), "does not list");
    }

    #[test]
    fn what_lives_has_not_ended() {
        let mut trial = Trial::of(RunningUntilAcknowledged::default());
        trial
            .sees(begins(1, 1, run(1)))
            .sees(served(1, 1, Ask::Fetch, None));
        trial.breaks(listed(1, run(1), true), "but it lives");
    }
}
