//! Whether a worker's tasks stay in time with one more, by a simulation of those that it listed and of those that were sent since.

use brasserie_common::edf::{EdfEnd, EdfJob, edf};
use brasserie_common::{KnownTask, Processor, WorkRequest};

use super::amounts::{Piece, sound};

/// Beyond so many tasks nothing is simulated, as it takes too long: then the worker's own estimate of its delay has to do.
const MAX_SIMULATED: usize = 1024;
/// Rejections that are remembered: each spares simulations, and none is needed.
const MAX_REJECTIONS: usize = 16;
/// More than any worker has.
const MAX_CPUS: f64 = 4096.0;

/// What a worker has to do on its CPUs, a CPU a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) cpus: usize,
    pub(super) jobs: Vec<EdfJob>,
    /// Tasks that were too late: one that takes as long, with as near a deadline, is too.
    pub(super) rejected: Vec<EdfJob>,
}

impl Workload {
    /// Without tasks yet. `None`: the worker does not tell what they take.
    pub(super) fn of(request: &WorkRequest) -> Option<Self> {
        let known = request.known.as_ref()?;
        if known.iter().any(|task| task.remaining.is_none()) {
            return None;
        }
        let mut demands = request.demands.iter();
        let cpu = demands.find(|demand| demand.processor == Processor::Cpu);
        let cpus = cpu.map_or(1.0, |cpu| sound(cpu.there).clamp(1.0, MAX_CPUS));
        Some(Workload {
            // Within bounds.
            cpus: cpus as usize,
            jobs: Vec::with_capacity(known.len().min(MAX_SIMULATED)),
            rejected: Vec::new(),
        })
    }

    /// A task is there: as its worker tells it, or as it was sent.
    pub(super) fn count(&mut self, piece: &Piece<'_>, told: Option<&KnownTask>) {
        if *piece.processor() != Processor::Cpu || self.jobs.len() > MAX_SIMULATED {
            return;
        }
        let bound = |seconds: Option<f64>| seconds.unwrap_or(f64::INFINITY);
        self.jobs.push(match told {
            Some(told) => EdfJob {
                remaining: sound(told.remaining.unwrap_or(0.0)),
                deadline: bound(told.deadline),
            },
            None => EdfJob {
                remaining: piece.estimate(),
                deadline: bound(piece.bound()),
            },
        });
    }

    /// Whether all stay as they are with this task, and it makes its own deadline. Without a deadline it comes after all that have one.
    pub(super) fn takes(&mut self, piece: &Piece<'_>) -> bool {
        let Some(deadline) = piece.bound() else {
            return true;
        };
        if *piece.processor() != Processor::Cpu || self.jobs.len() > MAX_SIMULATED {
            return true;
        }
        let candidate = EdfJob {
            remaining: piece.estimate(),
            deadline,
        };
        let is_no_better =
            |than: &EdfJob| candidate.remaining >= than.remaining && deadline <= than.deadline;
        if self.rejected.iter().any(is_no_better) {
            return false;
        }
        let before = edf(self.cpus, &self.jobs);
        self.jobs.push(candidate);
        let after = edf(self.cpus, &self.jobs);
        self.jobs.pop();
        // One that was late already may not come later.
        let is_worse = |(before, after): (&EdfEnd, &EdfEnd)| {
            after.misses && (!before.misses || after.completion > before.completion)
        };
        let is_late = after.last().is_some_and(|own| own.misses);
        let is_rejected = is_late || before.iter().zip(&after).any(is_worse);
        if is_rejected && self.rejected.len() < MAX_REJECTIONS {
            self.rejected.push(candidate);
        }
        !is_rejected
    }
}
