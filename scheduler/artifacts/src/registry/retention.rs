//! The sets of jobs and their owners, as the scheduler's core reports them.

use std::collections::BTreeSet;

use brasserie_common::{JobName, TaskKey, Time, WallTime};

use super::super::artifact_table::ArtifactName;
use super::super::owners::OwnerHeartbeat;
use super::super::sets::SetTerms;
use super::super::types::{Clocks, OwnerId};
use super::Registry;

impl Registry {
    /// Creates the set of a job, or changes its terms. The first set of a session counts as its heartbeat. A set that was never defined
    /// belongs to the scheduler and is kept forever.
    ///
    /// A deleted job has returned by this. A set whose owner has expired stays so, unless another owner takes it over.
    pub fn define_set(&mut self, job: &JobName, terms: SetTerms, now: Clocks) {
        self.sets.define(job, terms, now);
    }

    /// Sets when the set of a job was last written or consumed, as the stored completions say. Ignores unknown sets.
    pub fn restore_use(&mut self, job: &JobName, last_use: WallTime, now: Clocks) {
        self.sets.restore_use(job, last_use, now);
    }

    /// Sets the jobs that consume the outputs of a job.
    pub fn set_consumers(&mut self, job: &JobName, consumers: BTreeSet<JobName>, now: Clocks) {
        self.sets.set_consumers(job, consumers, now);
    }

    /// Sets how many tasks of the job run or wait. A set never expires while this or the number of consumers is unknown or not zero.
    pub fn set_unfinished_producers(&mut self, job: &JobName, tasks: u64, now: Clocks) {
        self.sets.set_unfinished_producers(job, tasks, now);
    }

    /// Sets how many tasks of the jobs that consume the set run or wait.
    pub fn set_unfinished_consumers(&mut self, job: &JobName, tasks: u64, now: Clocks) {
        self.sets.set_unfinished_consumers(job, tasks, now);
    }

    /// Notes that a task has succeeded that read outputs of the task `key`.
    pub fn consumed(&mut self, key: &TaskKey, now: Clocks) {
        self.reruns.reset(key);
        self.sets.consumed(&key.job, now);
    }

    /// Notes that a task has succeeded that read outputs of all tasks of a job.
    pub fn consumed_job(&mut self, job: &JobName, now: Clocks) {
        self.reruns.reset_job(job);
        self.sets.consumed(job, now);
    }

    /// Notes that a job is not configured any more. Its set expires after a grace, once it has no unfinished tasks.
    pub fn delete_job(&mut self, job: &JobName, now: Clocks) {
        self.sets.delete_job(job, now);
    }

    /// Accepts a heartbeat of a session. A late one revives no data: the session begins anew, and owns nothing.
    pub fn owner_heartbeat(&mut self, owner: &OwnerId, now: Time) -> OwnerHeartbeat {
        self.sets.owner_heartbeat(owner, now)
    }

    /// Returns when a session expires without another heartbeat; `None` if it has expired.
    pub fn owner_expiry(&self, owner: &OwnerId) -> Option<Time> {
        self.sets.owner_expiry(owner)
    }

    /// Ends a session that needs its sets no more.
    pub fn end_owner(&mut self, owner: &OwnerId, now: Clocks) {
        self.sets.end_owner(owner, now);
    }

    /// Returns the time at which [`Registry::expire`] may have an effect. Returns none while not all running tasks are known.
    pub fn next_expiry(&self) -> Option<Time> {
        self.settled_since?;
        self.sets.next_expiry()
    }

    /// Makes sessions and sets expire that are due, and returns the jobs of these sets. Their outputs keep no artifact any more. Has no
    /// effect while not all running tasks are known. A set that had expired before a restart may be returned once more.
    pub fn expire(&mut self, now: Clocks) -> Vec<JobName> {
        if self.settled_since.is_none() {
            return Vec::new();
        }
        let expired = self.sets.expire(now);
        for job in &expired {
            let artifacts = &mut self.artifacts;
            self.outputs.expire_job(job, |task, outputs| {
                let replicas = outputs.replicas;
                for id in outputs.artifacts().into_keys() {
                    let name = ArtifactName { replicas, task };
                    artifacts.remove_name(id, job, name, now.time);
                }
            });
        }
        expired
    }
}
