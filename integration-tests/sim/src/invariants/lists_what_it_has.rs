//! Law `lists_what_it_has`: A worker that asks a scheduler for work lists every run that it has accepted from it, until the end of that run
//! is acknowledged; and no scheduler says otherwise of it.
//!
//! Source: thrift/PROTOCOL.md, Requests for work. An unlisted run counts as under way, and nobody may give it away. A list with gaps means
//! that a worker lost a task, or that a scheduler kept one.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{InvocationId, SchedulerId, Time, WorkRequestSeq, WorkerId};
use brasserie_scheduler_core::WorkCounts;

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::view::World;

const NAME: &str = "lists_what_it_has";

type Runs = BTreeSet<InvocationId>;

#[derive(Default)]
pub struct ListsWhatItHas {
    /// The accepted runs of each worker and scheduler.
    accepted: BTreeMap<(WorkerId, SchedulerId), Runs>,
    /// The runs that a request under way must list.
    asked: BTreeMap<(WorkerId, SchedulerId, WorkRequestSeq), Runs>,
}

impl Law for ListsWhatItHas {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that asks a scheduler for work lists every run that it has accepted from it, until the end of that run is acknowledged; and no scheduler says otherwise of it."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match happening {
            Happening::Served {
                worker,
                scheduler,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => {
                let runs = self.accepted.entry((*worker, *scheduler)).or_default();
                runs.insert(run.invocation);
            }
            Happening::StatusSettled { worker, run, .. } => {
                let of_worker = self.accepted.iter_mut().filter(|((of, _), _)| of == worker);
                for (_, runs) in of_worker {
                    runs.remove(&run.invocation);
                }
            }
            Happening::WorkAsked {
                worker,
                scheduler,
                seq,
            } => {
                let runs = self.accepted.get(&(*worker, *scheduler));
                let runs = runs.cloned().unwrap_or_default();
                // The same request may be sent again with a newer list, and the older one may arrive later.
                let asked = self.asked.entry((*worker, *scheduler, *seq));
                let asked = asked.or_insert_with(|| runs.clone());
                asked.retain(|run| runs.contains(run));
            }
            Happening::WorkHeard {
                worker,
                meant,
                seq,
                known: Some(known),
                ..
            } => return self.heard((*worker, *meant, *seq), known),
            Happening::WorkerStopped { worker, .. } => {
                self.accepted.retain(|(of, _), _| of != worker);
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.accepted.retain(|(_, by), _| by != scheduler);
                self.asked.retain(|(_, of, _), _| of != scheduler);
            }
            Happening::SchedulerTurn { place } => {
                let core = world.scheduler(*place);
                return core.map_or(Ok(()), |core| judge(&core.work_counts()));
            }
            _ => {}
        }
        Ok(())
    }
}

impl ListsWhatItHas {
    /// A request may arrive several times.
    fn heard(
        &mut self,
        of: (WorkerId, SchedulerId, WorkRequestSeq),
        known: &[InvocationId],
    ) -> Result<(), Violation> {
        let Some(runs) = self.asked.get(&of) else {
            return Ok(());
        };
        let known: BTreeSet<&InvocationId> = known.iter().collect();
        match runs.iter().find(|run| !known.contains(run)) {
            None => Ok(()),
            Some(run) => {
                let (worker, scheduler, seq) = of;
                Err(Violation::new(
                    NAME,
                    format_args!(
                        "worker {worker} asks scheduler {scheduler} for work with request {} and does not list run {run}, which it has accepted",
                        seq.0
                    ),
                ))
            }
        }
    }
}

/// A scheduler compares each list with its own runs and counts the missing ones. The count must stay zero.
fn judge(counts: &WorkCounts) -> Result<(), Violation> {
    match counts.missing_runs {
        0 => Ok(()),
        missing => Err(Violation::new(
            NAME,
            format_args!("a scheduler misses {missing} runs in requests for work"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    fn asked(seq: u64) -> Happening {
        Happening::WorkAsked {
            worker: wid(1),
            scheduler: sid(1),
            seq: WorkRequestSeq(seq),
        }
    }

    fn heard(seq: u64, known: &[i64]) -> Happening {
        Happening::WorkHeard {
            scheduler: sid(1),
            worker: wid(1),
            meant: sid(1),
            seq: WorkRequestSeq(seq),
            demands: Vec::new(),
            known: Some(known.iter().map(|n| run(*n).invocation).collect()),
            over: Vec::new(),
            linger: std::time::Duration::ZERO,
        }
    }

    #[test]
    fn what_was_accepted_is_listed_until_its_end_is_acknowledged() {
        let mut trial = Trial::of(ListsWhatItHas::default());
        trial.sees(asked(1));
        trial.sees(served(1, 1, ask_run(run(1)), None));
        // The list was written before the acceptance.
        trial.sees(heard(1, &[]));
        trial.sees(asked(2)).sees(heard(2, &[1]));
        trial.sees(settled(1, 1, run(1), DONE));
        trial.sees(asked(3)).sees(heard(3, &[]));
        // An old request arrives again, unchanged.
        trial.sees(heard(2, &[1]));
        // The list contains only runs of the scheduler that receives it.
        trial.sees(served(2, 1, ask_run(run(2)), None));
        trial.sees(asked(4)).sees(heard(4, &[]));
        trial.sees(served(1, 1, ask_run(run(3)), None));
        trial.sees(asked(5));
        trial.breaks(heard(5, &[2]), "does not list run");
    }

    #[test]
    fn what_a_scheduler_counts_is_told() {
        let counts = WorkCounts {
            requests: 5,
            looked_at: 3,
            too_soon: 2,
            ..WorkCounts::default()
        };
        assert_eq!(judge(&counts), Ok(()));
        let missing_runs = 2;
        let counts = WorkCounts {
            missing_runs,
            ..counts
        };
        let violation = judge(&counts).unwrap_err();
        assert!(violation.what.contains("misses 2 runs"), "{violation}");
    }
}
