//! Law `within_processors`: On a worker that asks for work a task that may wait begins only while a processor is free: of the CPU while any
//! is, of cards while no more than one CPU too many is taken with it.
//!
//! Source: thrift/PROTOCOL.md, What our worker does with it. Queued tasks are running for schedulers; the machine bounds the tasks that
//! execute.

use std::collections::BTreeMap;

use brasserie_common::{Time, WorkTerms, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Happening, Run};
use crate::model::executions::Executions;
use crate::view::World;

const NAME: &str = "within_processors";
/// Tolerance for sums of processors as floats.
const ROUNDING: f64 = 1e-6;

#[derive(Default)]
pub struct WithinProcessors {
    executions: Executions,
    cpus: BTreeMap<WorkerId, f64>,
    terms: BTreeMap<Run, WorkTerms>,
    /// Whether each run has GPUs.
    cards: BTreeMap<Run, bool>,
}

impl Law for WithinProcessors {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "On a worker that asks for work a task that may wait begins only while a processor is free: of the CPU while any is, of cards while no more than one CPU too many is taken with it."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        let verdict = match happening {
            Happening::FetchesWork { worker, cpus } => {
                self.cpus.insert(*worker, cpus.max(1.0));
                Ok(())
            }
            Happening::WantsCards { run, .. } => {
                self.cards.insert(*run, true);
                Ok(())
            }
            Happening::Charged { run, gpus, .. } => {
                *self.cards.entry(*run).or_default() |= !gpus.is_empty();
                Ok(())
            }
            Happening::SentAsWork { run, terms, .. } => {
                self.terms.insert(*run, *terms);
                Ok(())
            }
            Happening::ProcessStarted { worker, run, .. } => self.judge(*worker, *run),
            _ => Ok(()),
        };
        self.executions.note(happening);
        verdict
    }
}

impl WithinProcessors {
    fn usage(&self, run: Run) -> f64 {
        self.terms
            .get(&run)
            .and_then(|terms| terms.cpus)
            .unwrap_or(1.0)
    }

    /// Checks a run that begins against all other live runs of its worker.
    fn judge(&self, worker: WorkerId, run: Run) -> Result<(), Violation> {
        let terms = self.terms.get(&run).filter(|terms| terms.bufferable);
        let (Some(_), Some(cpus)) = (terms, self.cpus.get(&worker)) else {
            return Ok(());
        };
        let live = self.executions.of_worker(worker);
        let busy: f64 = live.map(|(_, e)| self.usage(e.run)).sum();
        let fits = match self.cards.get(&run) {
            Some(true) => busy < ROUNDING || busy + self.usage(run) <= cpus + 1.0 + ROUNDING,
            Some(false) | None => busy < *cpus - ROUNDING,
        };
        match fits {
            true => Ok(()),
            false => Err(Violation::new(
                NAME,
                format_args!(
                    "worker {worker} starts {}, which may wait, while {busy} of its {cpus} processors are busy",
                    run.task
                ),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    fn sent_as(number: i64, bufferable: bool, cpus: f64) -> Happening {
        Happening::SentAsWork {
            scheduler: sid(1),
            worker: wid(1),
            run: run(number),
            terms: WorkTerms {
                cpus: Some(cpus),
                bufferable,
                ..WorkTerms::default()
            },
        }
    }

    #[test]
    fn who_may_wait_waits_until_a_processor_is_free() {
        let mut trial = Trial::of(WithinProcessors::default());
        trial.sees(Happening::FetchesWork {
            worker: wid(1),
            cpus: 3.0,
        });
        // The last task may need more than is left; otherwise it would wait forever.
        for n in 1..=2 {
            trial.sees(sent_as(n, true, 2.0));
            trial.sees(begins(1, u32::try_from(n).unwrap(), run(n)));
        }
        // A task that may not wait was sent for an idle processor. Another law checks that.
        trial
            .sees(sent_as(3, false, 1.0))
            .sees(begins(1, 3, run(3)));
        trial.sees(dies(1, 3, run(3))).sees(sent_as(4, true, 1.0));
        trial.breaks(begins(1, 4, run(4)), "while 4 of its 3 processors are busy");
    }
}
