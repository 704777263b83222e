//! Whether a worker's tasks stay in time with one more, by a simulation of those that it listed and of those that were sent since.
//!
//! Only tasks with deadlines are simulated: the others come after all of these, and are never late.
//!
//! Of the volunteers' servers there is neither the reserve of three tenths for jobs that are marked as hard nor that hosts without any
//! credit get none of these: no job is marked so here, and workers are nobody's guests.

use brasserie_common::edf::{Candidate, EdfEnd, EdfJob, edf};
use brasserie_common::{InvocationId, KnownTask, Processor, Time, WorkDemand, WorkRequest};
use brasserie_scheduler_engine::{Due, Judged, Timeliness};

use super::amounts::{Piece, sound};

/// Beyond so many tasks nothing is simulated: a simulation of them takes some tens of microseconds. Then the worker's own estimate of its
/// delay has to do.
const MAX_SIMULATED: usize = 256;
/// A simulation of so many takes as long as trying one task in vain.
const SIMULATED_A_TRY: usize = 8;
/// Rejections that are remembered: each spares simulations, and none is needed.
const MAX_REJECTIONS: usize = 16;
/// More than any worker has.
const MAX_CPUS: f64 = 4096.0;

/// What a worker has to do in time on its CPUs, a CPU a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) cpus: usize,
    /// Its tasks should end so long before their deadlines: those of the jobs are so much earlier, as the worker itself reckons.
    pub(super) low_water: f64,
    /// The times of the jobs count from here.
    pub(super) at: Time,
    pub(super) jobs: Vec<EdfJob>,
    /// Whose they are, in the order of the jobs.
    pub(super) runs: Vec<InvocationId>,
    /// Tasks that were too late at that time, beside these jobs: one that takes as long, with as near a deadline, is too.
    pub(super) rejected: Vec<EdfJob>,
    /// When the jobs end without another one, once that was simulated.
    pub(super) ends: Option<Vec<EdfEnd>>,
}

/// What the end of a run is to tasks that would have been late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    Nothing,
    /// Some of them may be in time now.
    MoreTime,
}

/// A run that the worker has listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedRun {
    pub(super) run: InvocationId,
    pub(super) share: CpuShare,
}

/// Whether a task keeps a CPU from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CpuShare {
    All,
    Part,
}

impl CpuShare {
    pub(super) fn of(piece: &Piece<'_>) -> Self {
        match piece.usage() < 1.0 {
            true => CpuShare::Part,
            false => CpuShare::All,
        }
    }
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
    pub(super) fn of(now: Time, request: &WorkRequest) -> Option<Self> {
        let known = request.known.as_ref()?;
        if known.iter().any(|task| task.remaining.is_none()) {
            return None;
        }
        let cpus = demand_for_cpu(request).map_or(1.0, |cpu| sound(cpu.there).clamp(1.0, MAX_CPUS));
        Some(Workload {
            // Within bounds.
            cpus: cpus as usize,
            low_water: sound(request.low_water),
            at: now,
            jobs: Vec::new(),
            runs: Vec::new(),
            rejected: Vec::new(),
            ends: None,
        })
    }

    /// A task is there: as its worker tells it, or as it was sent.
    pub(super) fn count(
        &mut self,
        now: Time,
        (run, piece): (InvocationId, &Piece<'_>),
        told: Option<&KnownTask>,
    ) -> Room {
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
        self.age(now);
        self.jobs.push(EdfJob {
            remaining,
            deadline: deadline - self.low_water,
        });
        self.runs.push(run);
        self.ends = None;
        Room::Left
    }

    /// A run is over.
    pub(super) fn drop(&mut self, now: Time, run: InvocationId) -> Relief {
        let Some(place) = self.runs.iter().position(|other| *other == run) else {
            return Relief::Nothing;
        };
        self.age(now);
        self.runs.remove(place);
        self.jobs.remove(place);
        self.forget_looks();
        Relief::MoreTime
    }

    /// The jobs as they are now, if they ran by their deadlines since. What took its time and is not over is taken to end at any moment.
    fn age(&mut self, now: Time) {
        let passed = now.since(self.at).as_secs_f64();
        if passed <= 0.0 {
            return;
        }
        let ends = self.ends();
        for (job, end) in self.jobs.iter_mut().zip(&ends) {
            let began = end.completion - job.remaining;
            job.remaining = sound(end.completion - began.max(passed));
            job.deadline -= passed;
        }
        self.at = now;
        self.forget_looks();
    }

    fn forget_looks(&mut self) {
        self.rejected.clear();
        self.ends = None;
    }

    fn ends(&mut self) -> Vec<EdfEnd> {
        let (cpus, jobs) = (self.cpus, &self.jobs);
        self.ends.get_or_insert_with(|| edf(cpus, jobs)).clone()
    }

    /// Whether these runs alone, which the worker has listed, delay others for as long as it says. It may have tasks of other schedulers,
    /// too, of which nobody tells. As the worker counts: tasks that take whole CPUs and would be late, each on the one that is free first.
    pub(super) fn explains_delay(&self, request: &WorkRequest, listed: &[ListedRun]) -> bool {
        let delay = demand_for_cpu(request).map_or(0.0, |cpu| sound(cpu.estimated_delay));
        if delay <= 0.0 {
            return true;
        }
        let all = self.runs.iter().zip(&self.jobs);
        let (jobs, shares): (Vec<EdfJob>, Vec<CpuShare>) = all
            .filter_map(|(run, job)| {
                let place = listed.binary_search_by_key(run, |listed| listed.run).ok()?;
                Some((*job, listed[place].share))
            })
            .unzip();
        let ends = edf(self.cpus, &jobs);
        let is_counted = |(end, share): &(&EdfEnd, CpuShare)| end.misses && *share == CpuShare::All;
        let ends = ends.iter().zip(shares);
        let late = ends.zip(jobs).filter(|(of, _)| is_counted(of));
        let mut late: Vec<EdfJob> = late.map(|(_, job)| job).collect();
        // It comes last, and begins where all are busy no longer.
        late.push(EdfJob {
            remaining: 0.0,
            deadline: f64::INFINITY,
        });
        let first_free = edf(self.cpus, &late).pop();
        first_free.is_some_and(|end| end.completion >= delay)
    }

    /// Whether all stay as they are with this task, and it makes its own deadline, if it can be made at all.
    pub(super) fn judge(&mut self, now: Time, due: Due) -> Judged {
        self.age(now);
        let candidate = Candidate::new(due.estimate, due.bound, self.low_water);
        let is_no_better = |than: &EdfJob| {
            let EdfJob {
                remaining,
                deadline,
            } = candidate.job;
            remaining >= than.remaining && deadline <= than.deadline
        };
        if self.rejected.iter().any(is_no_better) {
            return Judged {
                timeliness: Timeliness::Late,
                tries: 1,
            };
        }
        let before = self.ends();
        let is_rejected = !candidate.fits(self.cpus, &self.jobs, &before);
        if is_rejected && candidate.can_be_made && self.rejected.len() < MAX_REJECTIONS {
            self.rejected.push(candidate.job);
        }
        Judged {
            timeliness: match is_rejected {
                true => Timeliness::Late,
                false => Timeliness::InTime,
            },
            // A few hundred at most.
            tries: 1 + (self.jobs.len() / SIMULATED_A_TRY) as u32,
        }
    }
}

fn demand_for_cpu(request: &WorkRequest) -> Option<&WorkDemand> {
    let mut demands = request.demands.iter();
    demands.find(|demand| demand.processor == Processor::Cpu)
}
