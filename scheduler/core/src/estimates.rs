//! Estimates of how long tasks run, learned for jobs whose config gives no duration.
//!
//! Estimates are not recorded. After a restart, the first task of a job that succeeds sets the estimate at once, and until then the job
//! counts as unknown. A record would add one more fact on which a restart depends, for little benefit.

use std::collections::BTreeMap;

use brasserie_common::estimate::learned;
use brasserie_common::{Estimate, JobId, ReportedStatus, Story};
use brasserie_common_config::JobConfig;

/// The learned durations in seconds, of configured jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimates {
    learned: BTreeMap<JobId, f64>,
    learning: Learning,
}

/// Whether durations are learned.
///
/// ```text
///   NoUse --a worker requests work, or takes tasks that stand by--> On
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Learning {
    /// No worker uses estimates.
    #[default]
    NoUse,
    On,
}

impl Estimates {
    /// Starts to learn durations, because a worker has requested work, or takes tasks that stand by.
    pub(crate) fn begin_learning(&mut self) {
        self.learning = Learning::On;
    }

    /// Returns the estimate for a task of the job that has not begun. `config` is the job's, if it is configured.
    pub(crate) fn estimate(&self, job: JobId, config: Option<&JobConfig>) -> Estimate {
        let given = config.and_then(|config| config.est_duration);
        let learned = self.learned.get(&job).copied();
        Estimate::of(given.map(|given| given.as_secs_f64()), learned)
    }

    /// Learns from a completed run of a configured job. The time that the run was queued on its worker does not count. Runs that were killed
    /// are ignored. Returns the new estimate in seconds.
    pub(crate) fn learn(
        &mut self,
        job: JobId,
        status: &ReportedStatus,
        story: Option<&Story>,
    ) -> Option<f64> {
        let ran = story.filter(|story| story.ended_by.is_none() && status.is_done());
        let story = ran.filter(|_| self.is_learning())?;
        let before = self.learned.get(&job).copied();
        let seconds = learned(before, story.ran?.as_secs_f64());
        self.learned.insert(job, seconds);
        Some(seconds)
    }

    /// Forgets the estimates of jobs that are no longer configured, and returns these jobs.
    pub(crate) fn keep_jobs(&mut self, is_configured: impl Fn(JobId) -> bool) -> Vec<JobId> {
        let known = self.learned.keys().copied();
        let gone: Vec<JobId> = known.filter(|job| !is_configured(*job)).collect();
        for job in &gone {
            self.learned.remove(job);
        }
        gone
    }

    /// Returns the learned durations as bits, for fingerprints.
    pub(crate) fn learned(&self) -> impl Iterator<Item = (JobId, u64)> {
        let all = self.learned.iter();
        all.map(|(job, seconds)| (*job, seconds.to_bits()))
    }

    pub(crate) fn is_learning(&self) -> bool {
        self.learning == Learning::On
    }
}
