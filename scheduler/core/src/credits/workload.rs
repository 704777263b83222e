//! Simulations of whether a worker's tasks keep their deadlines with one more. They use the tasks that the worker listed and those that
//! were sent since.
//!
//! Only tasks with deadlines are simulated. The others come after all of these, and are never late.
//!
//! Two features of BOINC's servers do not exist here: the reserve of three tenths for jobs that are marked as hard, and the exclusion of
//! hosts without any credit from these jobs. No job is marked so, and workers are trusted.

use brasserie_common::edf::{Candidate, EdfEnd, EdfJob, edf};
use brasserie_common::{InvocationId, KnownTask, Processor, Time, WorkDemand, WorkRequest};
use brasserie_scheduler_engine::{Due, Judged, Timeliness};

use super::TaskWork;
use super::amounts::sound;

/// The most tasks that are simulated, which takes some tens of microseconds. With more tasks the worker's own estimate of its delay is
/// used.
const MAX_SIMULATED: usize = 256;
/// The number of simulated tasks that takes as long as one failed placement.
const SIMULATED_A_TRY: usize = 8;
/// The most remembered rejections. Each saves simulations, and none is needed.
const MAX_REJECTIONS: usize = 16;
/// The most CPUs, more than any worker has.
const MAX_CPUS: f64 = 4096.0;

/// The tasks with deadlines on a worker's CPUs, each on one CPU.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DeadlineWorkload {
    pub cpus: usize,
    /// The seconds by which tasks should end before their deadlines. The deadlines in `jobs` are earlier by this, as in the worker's own
    /// simulation.
    pub low_water: f64,
    /// The time from which the times of the jobs count.
    pub at: Time,
    pub jobs: Vec<EdfJob>,
    /// The run of each job, in the order of the jobs.
    pub runs: Vec<InvocationId>,
    /// Tasks that were too late beside these jobs at that time. A task that takes as long and has as near a deadline is too late, too.
    pub rejected: Vec<EdfJob>,
    /// The ends of the jobs without another task, if they were simulated.
    pub ends: Option<Vec<EdfEnd>>,
}

/// The effect of the end of a run on tasks that would have been late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relief {
    Nothing,
    /// Some of them may meet their deadlines now.
    MoreTime,
}

/// A run that the worker has listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedRun {
    pub run: InvocationId,
    pub share: CpuShare,
}

/// Whether a task uses a whole CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CpuShare {
    All,
    Part,
}

impl CpuShare {
    pub(super) fn of(task_work: &TaskWork<'_>) -> Self {
        match task_work.usage() < 1.0 {
            true => CpuShare::Part,
            false => CpuShare::All,
        }
    }
}

/// Whether a workload contains all tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkloadRoom {
    Left,
    /// There are more tasks than are simulated.
    Over,
}

impl DeadlineWorkload {
    /// Creates a workload without tasks. `None`: the worker does not report the remaining times of its tasks.
    pub(super) fn of(now: Time, request: &WorkRequest) -> Option<Self> {
        let known = request.known.as_ref()?;
        if known.iter().any(|task| task.remaining.is_none()) {
            return None;
        }
        let cpus = demand_for_cpu(request).map_or(1.0, |cpu| sound(cpu.there).clamp(1.0, MAX_CPUS));
        Some(DeadlineWorkload {
            // The number is within bounds.
            cpus: cpus as usize,
            low_water: sound(request.low_water),
            at: now,
            jobs: Vec::new(),
            runs: Vec::new(),
            rejected: Vec::new(),
            ends: None,
        })
    }

    /// Adds a task, as its worker reports it or as it was sent.
    pub(super) fn count(
        &mut self,
        now: Time,
        (run, task_work): (InvocationId, &TaskWork<'_>),
        told: Option<&KnownTask>,
    ) -> WorkloadRoom {
        if *task_work.processor() != Processor::Cpu {
            return WorkloadRoom::Left;
        }
        let (remaining, deadline) = match told {
            Some(told) => (sound(told.remaining.unwrap_or(0.0)), told.deadline),
            None => (task_work.estimate(), task_work.bound()),
        };
        let Some(deadline) = deadline.filter(|deadline| deadline.is_finite()) else {
            return WorkloadRoom::Left;
        };
        if self.jobs.len() >= MAX_SIMULATED {
            return WorkloadRoom::Over;
        }
        self.age(now);
        self.jobs.push(EdfJob {
            remaining,
            deadline: deadline - self.low_water,
        });
        self.runs.push(run);
        self.ends = None;
        WorkloadRoom::Left
    }

    /// Drops a run that is over.
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

    /// Advances the jobs to `now`, as if they had run in the order of their deadlines. A job that has used its time and is not over is
    /// assumed to end at any moment.
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

    /// Returns whether these listed runs alone cause the delay that the worker reports. It may also have tasks of other schedulers, which
    /// are unknown here. Counts as the worker does: tasks that take whole CPUs and would be late, each on the CPU that is free first.
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
        // This job comes last, and begins when the first CPU is free.
        late.push(EdfJob {
            remaining: 0.0,
            deadline: f64::INFINITY,
        });
        let first_free = edf(self.cpus, &late).pop();
        first_free.is_some_and(|end| end.completion >= delay)
    }

    /// Returns whether all jobs keep their deadlines with this task, or are no later than before. The task must also meet its own deadline,
    /// if it can be met at all.
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
