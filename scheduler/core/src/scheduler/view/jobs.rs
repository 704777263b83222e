//! The jobs' part of a status answer: counts of all jobs, and a bounded list of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::cluster_view::{JobFacts, JobState, TaskCounts, Urgency, most_urgent};
use brasserie_common::{Estimate, Hold, JobId, JobName, Time};
use brasserie_common_config::JobConfig;
use brasserie_scheduler_engine::Counts;

use crate::record::JobVersion;
use crate::scheduler::View;

/// The most jobs that one answer lists: a few hundred KiB, and more rows than a person reads.
pub const MAX_LISTED_JOBS: usize = 1000;
/// The most errors of one job that are listed.
const MAX_ERRORS: usize = 20;

/// The status of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    pub name: JobName,
    pub enabled: bool,
    /// `None` unless an operator has paused or cancelled the job.
    pub hold: Option<Hold>,
    /// `None` for a job of the config file.
    pub version: Option<JobVersion>,
    /// The submitter who owns the job. `None`: only operators and administrators change it.
    pub owner: Option<Arc<str>>,
    pub counts: Counts,
    /// Whether every task is DONE, FAILED or can never run, and every completion is durable.
    pub settled: bool,
    /// The time until the first backoff ends.
    pub next_backoff_end: Option<Duration>,
    pub errors: Vec<String>,
    /// The time from the first start to the last completion, or to now while a task runs.
    pub elapsed: Option<Duration>,
    /// The estimated run time of one task, which decides where pull workers get tasks.
    pub estimate: Estimate,
}

/// The counts over all jobs, listed or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobTotals {
    pub jobs: u64,
    pub by_state: BTreeMap<JobState, u64>,
    /// Includes the running tasks of jobs and nodes that are gone.
    pub tasks: TaskCounts,
    /// Enabled jobs that are not settled.
    pub unsettled: u64,
}

impl View<'_> {
    /// Returns the counts, and the [`MAX_LISTED_JOBS`] jobs that need attention most, in the order of the configuration.
    pub(super) fn jobs_at_a_glance(&self, now: Time) -> (JobTotals, Vec<JobStatus>) {
        let mut totals = JobTotals::default();
        let ids: Vec<JobId> = self.engine.jobs().collect();
        let urgencies: Vec<Urgency> = ids
            .iter()
            .filter_map(|id| {
                let job = self.engine.job_config(*id)?;
                let facts = self.job_facts(*id, job);
                totals.add(&facts);
                let is_open = job.can_run() && !self.is_job_settled(*id);
                totals.unsettled += u64::from(is_open);
                Some(facts.urgency())
            })
            .collect();
        for (_, running) in self.uncounted_runs() {
            totals.tasks.running += running;
            totals.tasks.total += running;
        }
        let listed = most_urgent(urgencies.into_iter(), MAX_LISTED_JOBS).into_iter();
        let listed = listed.filter_map(|place| self.job_status(now, ids[place]));
        let listed = listed.collect();
        (totals, listed)
    }

    /// Returns the status of the named jobs, and omits unknown ones.
    pub(super) fn listed_jobs(&self, now: Time, names: &[String]) -> Vec<JobStatus> {
        let ids = names.iter().take(MAX_LISTED_JOBS);
        let ids = ids.filter_map(|name| self.engine.find_job(name));
        ids.filter_map(|id| self.job_status(now, id)).collect()
    }

    pub(super) fn job_facts(&self, id: JobId, job: &JobConfig) -> JobFacts {
        let counts = self.engine.counts(id);
        JobFacts {
            is_broken: !job.errors.is_empty(),
            hold: job.hold,
            is_enabled: job.can_run(),
            nodes_loaded: self.engine.nodes().is_some(),
            tasks: TaskCounts {
                total: counts.total,
                unstarted: counts.unstarted,
                running: counts.running,
                done: counts.done,
                incomplete: counts.incomplete,
                error: counts.error,
                in_backoff: counts.in_backoff,
                failed: counts.failed,
                never: counts.never,
                held: 0,
            },
        }
    }

    fn is_job_settled(&self, id: JobId) -> bool {
        self.engine.is_settled(id) && !self.runs.has_pending_end(id)
    }

    /// Returns the status of a job; `None` if the job is not configured.
    pub(super) fn job_status(&self, now: Time, id: JobId) -> Option<JobStatus> {
        let job = self.engine.job_config(id)?;
        let mut errors: Vec<String> = job.errors.iter().take(MAX_ERRORS).cloned().collect();
        if job.errors.len() > MAX_ERRORS {
            let more = job.errors.len() - MAX_ERRORS;
            errors.push(format!(
                "and {more} more errors: see `brasserie config check`"
            ));
        }
        let counts = self.engine.counts(id);
        // No task of a job that is paused, cancelled or disabled starts at the end of its backoff. Tasks that lack an input wait without one.
        let next_backoff_end = self.engine.next_backoff_end(id);
        let next_backoff_end = next_backoff_end.filter(|_| job.can_run() && counts.in_backoff > 0);
        Some(JobStatus {
            name: job.name.clone(),
            enabled: job.can_run(),
            hold: job.hold,
            version: self.jobs.version(&job.name),
            owner: self.jobs.submitter(&job.name).cloned(),
            settled: self.is_job_settled(id),
            next_backoff_end: next_backoff_end.map(|at| at.since(now)),
            errors,
            elapsed: self.runs.elapsed(id, now),
            estimate: self.estimates.estimate(id, Some(job)),
            counts,
        })
    }
}

impl JobTotals {
    fn add(&mut self, job: &JobFacts) {
        self.jobs += 1;
        *self.by_state.entry(job.state()).or_default() += 1;
        self.tasks.add(&job.counts());
    }
}
