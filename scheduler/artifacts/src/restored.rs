//! The state that the scheduler's core stores and gives back after a restart.

use std::collections::BTreeSet;

use brasserie_common::{InvocationId, JobName, TaskKey, TaskOutput, WallTime};

use super::sets::{SetEnding, SetTerms};
use super::types::{Liveness, Replicas};

/// The outputs of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredTask {
    pub key: TaskKey,
    pub invocation: InvocationId,
    pub outputs: Vec<TaskOutput>,
    pub replicas: Replicas,
    pub liveness: Liveness,
}

/// The set of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredSet {
    pub job: JobName,
    pub terms: SetTerms,
    pub consumers: BTreeSet<JobName>,
    /// The time at which the set was last written or consumed.
    pub touched: WallTime,
    pub ending: Option<SetEnding>,
}

/// Everything that a registry does not learn from workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredState {
    pub sets: Vec<RestoredSet>,
    pub tasks: Vec<RestoredTask>,
}
