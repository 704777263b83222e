//! Whether a worker's tasks stay in time with one more, by a simulation of those that it listed and of those that were sent since.
//!
//! Only tasks with deadlines are simulated: the others come after all of these, and are never late.

use brasserie_common::edf::{EdfEnd, EdfJob, edf};
use brasserie_common::{KnownTask, Processor, WorkDemand, WorkRequest};
use brasserie_scheduler_engine::Due;

use super::amounts::{Piece, sound};

/// Beyond so many tasks nothing is simulated: two simulations of them take some tens of microseconds, and a turn has up to a thousand
/// such looks. Then the worker's own estimate of its delay has to do.
const MAX_SIMULATED: usize = 256;
/// Rejections that are remembered: each spares simulations, and none is needed.
const MAX_REJECTIONS: usize = 16;
/// More than any worker has.
const MAX_CPUS: f64 = 4096.0;

/// What a worker has to do in time on its CPUs, a CPU a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) cpus: usize,
    pub(super) jobs: Vec<EdfJob>,
    /// Tasks that were too late: one that takes as long, with as near a deadline, is too.
    pub(super) rejected: Vec<EdfJob>,
}

/// Whether a workload tells all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Left,
    /// There are more tasks than are simulated.
    Over,
}

impl Workload {
    /// Without tasks yet. `None`: the worker does not tell what they take.
    pub(super) fn of(request: &WorkRequest) -> Option<Self> {
        let known = request.known.as_ref()?;
        if known.iter().any(|task| task.remaining.is_none()) {
            return None;
        }
        let cpus = demand_for_cpu(request).map_or(1.0, |cpu| sound(cpu.there).clamp(1.0, MAX_CPUS));
        Some(Workload {
            // Within bounds.
            cpus: cpus as usize,
            jobs: Vec::new(),
            rejected: Vec::new(),
        })
    }

    /// A task is there: as its worker tells it, or as it was sent.
    pub(super) fn count(&mut self, piece: &Piece<'_>, told: Option<&KnownTask>) -> Room {
        if *piece.processor() != Processor::Cpu {
            return Room::Left;
        }
        let (remaining, deadline) = match told {
            Some(told) => (sound(told.remaining.unwrap_or(0.0)), told.deadline),
            None => (piece.estimate(), piece.bound()),
        };
        let Some(deadline) = deadline.filter(|deadline| deadline.is_finite()) else {
            return Room::Left;
        };
        if self.jobs.len() >= MAX_SIMULATED {
            return Room::Over;
        }
        self.jobs.push(EdfJob {
            remaining,
            deadline,
        });
        Room::Left
    }

    /// Whether all that the worker says of its delay is here. It may have tasks of other schedulers, too, of which nobody tells.
    pub(super) fn explains_delay(&self, request: &WorkRequest) -> bool {
        let delay = demand_for_cpu(request).map_or(0.0, |cpu| sound(cpu.estimated_delay));
        let remaining: f64 = self.jobs.iter().map(|job| job.remaining).sum();
        remaining / self.cpus as f64 >= delay
    }

    /// Whether all stay as they are with this task, and it makes its own deadline, if it can be made at all.
    pub(super) fn takes(&mut self, due: Due) -> bool {
        let candidate = EdfJob {
            remaining: due.estimate,
            deadline: due.bound,
        };
        let is_no_better = |than: &EdfJob| {
            candidate.remaining >= than.remaining && candidate.deadline <= than.deadline
        };
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
        // One that would be late anywhere is not kept waiting for ever: an estimate may be wrong.
        let can_be_made = due.estimate <= due.bound;
        let is_late = can_be_made && after.last().is_some_and(|own| own.misses);
        let is_rejected = is_late || before.iter().zip(&after).any(is_worse);
        if is_rejected && can_be_made && self.rejected.len() < MAX_REJECTIONS {
            self.rejected.push(candidate);
        }
        !is_rejected
    }
}

fn demand_for_cpu(request: &WorkRequest) -> Option<&WorkDemand> {
    let mut demands = request.demands.iter();
    demands.find(|demand| demand.processor == Processor::Cpu)
}
