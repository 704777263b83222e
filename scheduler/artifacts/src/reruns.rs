//! The repeated runs of tasks whose outputs are lost, and the bound on them.
//!
//! The count of a task begins anew when a consumer has read its outputs, and when it has run for another reason. A repeated run with other
//! content does not restart the count: many tasks write the time into their outputs, and would be repeated for ever.

use std::collections::BTreeMap;

use brasserie_common::{JobName, NodeName, TaskKey};

/// The answer to the request for another run of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rerun {
    /// The task may run again, for this many times because its outputs were lost.
    Granted(u32),
    /// The task does not run again, and its consumers fail.
    GivenUp(GiveUpReason),
}

/// The reason why a lost output is not made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUpReason {
    /// The outputs were lost again after this many repeated runs.
    TooManyReruns(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RerunStage {
    /// A repeated run was granted and has not succeeded.
    Running,
    /// The last repeated run has succeeded, or failed.
    Over,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TaskReruns {
    granted: u32,
    stage: RerunStage,
}

/// The counts of all tasks that have any. A job without such a task has no entry.
#[derive(Clone, Debug)]
pub struct Reruns {
    most: u32,
    jobs: BTreeMap<JobName, BTreeMap<NodeName, TaskReruns>>,
}

impl Reruns {
    pub fn new(most: u32) -> Self {
        Reruns {
            most,
            jobs: BTreeMap::new(),
        }
    }

    /// Counts another run, or gives the task up.
    pub fn request(&mut self, key: &TaskKey) -> Rerun {
        let job = self.jobs.entry(key.job.clone()).or_default();
        let task = job.entry(key.node.clone()).or_insert(TaskReruns {
            granted: 0,
            stage: RerunStage::Over,
        });
        if task.granted >= self.most {
            task.stage = RerunStage::GivenUp;
            return Rerun::GivenUp(GiveUpReason::TooManyReruns(task.granted));
        }
        task.granted += 1;
        task.stage = RerunStage::Running;
        Rerun::Granted(task.granted)
    }

    /// Notes that a run has succeeded. Only a run that was not granted here restarts the count.
    pub fn run_succeeded(&mut self, key: &TaskKey) {
        let job = self.jobs.get_mut(&key.job);
        let Some(task) = job.and_then(|job| job.get_mut(&key.node)) else {
            return;
        };
        match task.stage {
            RerunStage::Running => task.stage = RerunStage::Over,
            RerunStage::Over | RerunStage::GivenUp => self.reset(key),
        }
    }

    /// Notes that a granted run has ended without success, so that another one may be requested.
    pub fn run_failed(&mut self, key: &TaskKey) {
        let job = self.jobs.get_mut(&key.job);
        if let Some(task) = job.and_then(|job| job.get_mut(&key.node)) {
            task.stage = match task.stage {
                RerunStage::Running | RerunStage::Over => RerunStage::Over,
                RerunStage::GivenUp => RerunStage::GivenUp,
            };
        }
    }

    /// Restarts the count of a task.
    pub fn reset(&mut self, key: &TaskKey) {
        if let Some(job) = self.jobs.get_mut(&key.job) {
            job.remove(&key.node);
            if job.is_empty() {
                self.jobs.remove(&key.job);
            }
        }
    }

    /// Restarts the counts of all tasks of a job.
    pub fn reset_job(&mut self, job: &JobName) {
        self.jobs.remove(job);
    }

    /// Returns whether another run may be requested: none is in progress, and the task is not given up.
    pub fn may_request(&self, key: &TaskKey) -> bool {
        self.task(key).is_none_or(|task| match task.stage {
            RerunStage::Running | RerunStage::GivenUp => false,
            RerunStage::Over => true,
        })
    }

    /// Returns the number of granted runs if no more of them would be granted.
    pub fn exhausted(&self, key: &TaskKey) -> Option<u32> {
        let task = self.task(key)?;
        (task.granted >= self.most).then_some(task.granted)
    }

    /// Returns whether a granted run is in progress.
    pub fn is_in_progress(&self, key: &TaskKey) -> bool {
        self.task(key)
            .is_some_and(|task| task.stage == RerunStage::Running)
    }

    /// Returns why the task is given up, if it is.
    pub fn given_up(&self, key: &TaskKey) -> Option<GiveUpReason> {
        self.task(key).and_then(|task| match task.stage {
            RerunStage::Running | RerunStage::Over => None,
            RerunStage::GivenUp => Some(GiveUpReason::TooManyReruns(task.granted)),
        })
    }

    fn task(&self, key: &TaskKey) -> Option<&TaskReruns> {
        self.jobs.get(&key.job)?.get(&key.node)
    }
}
