//! Policies, which choose the job whose task is tried next. A policy is one file: implement [`Policy`] and name it in `make`;
//! CONTRIBUTING.md has the steps.

mod long_tail;
mod randomized_priority;
mod ranked_priority;
mod round_robin;

use std::fmt::Debug;

use brasserie_common::JobId;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common_config::{JobConfig, SchedulerPolicy};

use crate::pool::{Pool, Tier};
use crate::queues::columns::Columns;
use crate::tasks::Tasks;

/// Jobs that have a ready task and for which some worker has room.
pub(crate) struct Candidates<'a> {
    pub pool: &'a Pool,
    pub tier: Tier<'a>,
    pub tasks: &'a Tasks,
    pub columns: &'a [Columns],
}

impl<'a> Candidates<'a> {
    /// Returns the first candidate from `start` on by id, or else the first of all.
    pub(crate) fn next_from(&self, start: JobId) -> Option<JobId> {
        self.pool.next_job(self.tier, start)
    }

    /// Iterates over all candidates, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = JobId> + '_ {
        let next = |from| self.pool.next_job_from(self.tier, JobId(from));
        std::iter::successors(next(0), move |job| next(job.0 + 1))
    }

    /// Returns the job's configuration, with priority and owner.
    pub(crate) fn job(&self, job: JobId) -> Option<&'a JobConfig> {
        self.tasks.settings(job)
    }

    /// Returns a priority that can be compared and added up; one that is not finite counts as 0.
    pub(crate) fn priority(&self, job: JobId) -> f64 {
        let priority = self.job(job).map_or(0.0, |j| j.priority);
        if priority.is_finite() { priority } else { 0.0 }
    }

    /// Returns how many tasks of the job lack nothing but slots.
    pub(crate) fn eligible(&self, job: JobId) -> u32 {
        self.columns.get(job.index()).map_or(0, |c| c.eligible)
    }
}

/// Chooses the job whose next task is tried.
///
/// A policy sees the whole configuration of each candidate, with owner and priority ([`Candidates::job`]), and how many tasks it has left
/// to start. A policy may keep state: the same one is used from event to event, until the configuration names another.
pub(crate) trait Policy: Debug + Send + Sync {
    /// Returns one of the candidates, or `None` if there are none. Called again after each task that started. Also called again after each
    /// job whose ready tasks all failed to start, which is then no candidate any more.
    fn pick(&mut self, candidates: &Candidates<'_>) -> Option<JobId>;
    /// Returns where the next pick begins, for fingerprints, if earlier picks matter.
    fn cursor(&self) -> u32;
    /// Returns the job from which the next pick begins, for policies that always take the first candidate from that job on by id, then from
    /// the beginning. The engine then need not wake every job that might start.
    fn in_turn(&self) -> Option<JobId> {
        None
    }
    /// Notes that a task of the job has started.
    fn started(&mut self, job: JobId);
    fn boxed_clone(&self) -> Box<dyn Policy>;
}

impl Clone for Box<dyn Policy> {
    fn clone(&self) -> Self {
        self.boxed_clone()
    }
}

pub(crate) fn make(policy: SchedulerPolicy, seed: u64) -> Box<dyn Policy> {
    match policy {
        SchedulerPolicy::RoundRobin => Box::new(round_robin::RoundRobin::default()),
        SchedulerPolicy::RankedPriority => Box::new(ranked_priority::RankedPriority),
        SchedulerPolicy::RandomizedPriority => Box::new(
            randomized_priority::RandomizedPriority::new(Rng::new(seed, Purpose::Policy)),
        ),
        SchedulerPolicy::LongTail => Box::new(long_tail::LongTail),
    }
}
