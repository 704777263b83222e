//! How long tasks are taken to run: what was learned of jobs that do not say it themselves.
//!
//! None of it is recorded: the first task of a job that ends well after a restart is believed at once, and until then its job is as one of
//! which nothing is known. A record would be one more that a restart rests on, to spare that.

use std::collections::BTreeMap;

use brasserie_common::estimate::learned;
use brasserie_common::{Estimate, JobId, ReportedStatus, Story};

use crate::scheduler::Scheduler;

/// What was learned, of jobs that are configured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Estimates {
    learned: BTreeMap<JobId, f64>,
    learning: Learning,
}

/// ```text
///   NoUse --a worker asks for work--> On
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Learning {
    /// Nobody would hear of it.
    #[default]
    NoUse,
    On,
}

impl Estimates {
    /// For fingerprints: what it rests on.
    pub(crate) fn learned(&self) -> impl Iterator<Item = (JobId, u64)> {
        let all = self.learned.iter();
        all.map(|(job, seconds)| (*job, seconds.to_bits()))
    }

    pub(crate) fn is_learning(&self) -> bool {
        self.learning == Learning::On
    }
}

impl Scheduler {
    /// A worker has asked for work: from now on it matters how long tasks take.
    pub(crate) fn begin_learning(&mut self) {
        self.estimates_mut().learning = Learning::On;
    }

    /// Of a task of the job that has not begun.
    pub(crate) fn estimate(&self, job: JobId) -> Estimate {
        let config = self.engine().job_config(job);
        let given = config.and_then(|config| config.est_duration);
        let learned = self.estimates().learned.get(&job).copied();
        Estimate::of(given.map(|given| given.as_secs_f64()), learned)
    }

    /// A run has ended so. How long it waited at its worker is no part of what is learned; nor is one that somebody ended.
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

    /// Another configuration is in force: jobs that are gone are forgotten.
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
