//! Estimates of how long tasks run, learned for jobs whose config gives no duration.
//!
//! Estimates are not recorded. After a restart, the first task of a job that succeeds sets the estimate at once, and until then the job
//! counts as unknown. A record would add one more fact on which a restart depends, for little benefit.

use std::collections::BTreeMap;

use brasserie_common::estimate::learned;
use brasserie_common::{Estimate, JobId, ReportedStatus, Story};

use crate::scheduler::Scheduler;

/// The learned durations in seconds, of configured jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimates {
    learned: BTreeMap<JobId, f64>,
    learning: Learning,
}

/// Whether durations are learned.
///
/// ```text
///   NoUse --a worker asks for work--> On
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Learning {
    /// No worker uses estimates.
    #[default]
    NoUse,
    On,
}

impl Estimates {
    /// Returns the learned durations as bits, for fingerprints.
    pub(crate) fn learned(&self) -> impl Iterator<Item = (JobId, u64)> {
        let all = self.learned.iter();
        all.map(|(job, seconds)| (*job, seconds.to_bits()))
    }

    pub(crate) fn is_learning(&self) -> bool {
        self.learning == Learning::On
    }
}

impl Scheduler {
    /// Starts to learn durations, because a worker has requested work.
    pub(crate) fn begin_learning(&mut self) {
        self.estimates_mut().learning = Learning::On;
    }

    /// Returns the estimate for a task of the job that has not begun.
    pub(crate) fn estimate(&self, job: JobId) -> Estimate {
        let config = self.engine().job_config(job);
        let given = config.and_then(|config| config.est_duration);
        let learned = self.estimates().learned.get(&job).copied();
        Estimate::of(given.map(|given| given.as_secs_f64()), learned)
    }

    /// Learns from a completed run. The time that the run was queued on its worker does not count. Runs that were killed are ignored.
    pub(crate) fn learn(&mut self, job: JobId, status: &ReportedStatus, story: Option<&Story>) {
        let ran = story.filter(|story| story.ended_by.is_none() && status.is_done());
        let is_known = self.engine().job_config(job).is_some();
        let Some(story) = ran.filter(|_| is_known && self.estimates().is_learning()) else {
            return;
        };
        let before = self.estimates().learned.get(&job).copied();
        let seconds = learned(before, story.ran.as_secs_f64());
        self.estimates_mut().learned.insert(job, seconds);
        self.engine_mut().set_learned(job, Some(seconds));
    }

    /// Forgets the estimates of jobs that are no longer configured, after a new configuration has come into force.
    pub(crate) fn forget_estimates(&mut self) {
        let known = self.estimates().learned.keys().copied();
        let is_gone = |job: &JobId| self.engine().job_config(*job).is_none();
        let gone: Vec<JobId> = known.filter(is_gone).collect();
        for job in gone {
            self.estimates_mut().learned.remove(&job);
            self.engine_mut().set_learned(job, None);
        }
    }
}
