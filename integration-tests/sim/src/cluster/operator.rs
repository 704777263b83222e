//! What operators want of a scheduler at any time.

use brasserie_common::{JobName, TaskKey};

use super::{Cluster, FIRST};
use crate::event_log::{HistoryOf, TaskId};
use crate::hosts::scheduler::SchedulerInput;

/// Jobs whose history may be deleted: as many as there are at once, and some that are gone.
const RECENT_JOBS: usize = 7;

impl Cluster {
    pub(super) fn operator_forgives(&mut self) -> bool {
        let jobs = &self.workload.config().jobs;
        let names: Vec<JobName> = jobs.iter().map(|job| job.name.clone()).collect();
        let Some(job) = self.chance.pick(&names).cloned() else {
            return false;
        };
        self.drive_scheduler(FIRST, SchedulerInput::Forgive(job));
        true
    }

    pub(super) fn operator_kill(&mut self) -> bool {
        let mut keys: Vec<TaskKey> = Vec::new();
        for at in 0..self.workers.len() {
            let place = self.workers[at].place();
            let tasks = self.processes.of(place);
            keys.extend(
                tasks
                    .filter(|p| !p.run.task.is_healthcheck())
                    .map(|p| p.key.clone()),
            );
        }
        let Some(key) = self.chance.pick(&keys).cloned() else {
            return false;
        };
        self.drive_scheduler(FIRST, SchedulerInput::Kill(key));
        true
    }

    /// Of a job that is there or was lately, mostly of all of its tasks.
    pub(super) fn operator_forgets(&mut self) -> bool {
        let jobs = self.workload.config().jobs.iter();
        let number = |name: &JobName| TaskId::from_names(name.as_str(), "n0").job;
        let last = jobs.map(|job| number(&job.name)).max().unwrap_or(0);
        let back = self.chance.below(RECENT_JOBS);
        let job = last.saturating_sub(u16::try_from(back).unwrap_or(0));
        let node = match self.chance.per_mille(300) {
            true => self.chance.pick(self.workload.node_numbers()).copied(),
            false => None,
        };
        let of = HistoryOf { job, node };
        self.drive_scheduler(FIRST, SchedulerInput::Forget(of));
        true
    }
}
