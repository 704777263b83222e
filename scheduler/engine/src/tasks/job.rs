//! One job: its settings from the configuration, and its tasks' last statuses.

use brasserie_common::{JobId, NodeId, StatusBits};
use brasserie_common_config::{JobConfig, LevelId, ResourceId, Shared};

use super::statuses::Statuses;
use crate::forest::filter::JobFilters;
use crate::pool::work_need::{LearnedStep, OutputNeed};

/// A job. [`super::Tasks`] alone changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// `None` if the job is not configured and only its name is known.
    pub config: Option<Shared<JobConfig>>,
    pub level: Option<LevelId>,
    pub can_run: bool,
    pub filters: JobFilters,
    /// Messages about filters that cannot be used.
    pub filter_problems: Vec<String>,
    /// Index into the pool's demands.
    pub demand: usize,
    /// Learned run time of its tasks, if any.
    pub learned: Option<LearnedStep>,
    /// The knowledge of the outputs of its tasks.
    pub outputs: OutputNeed,
    /// A resource of the path of which no node has enough.
    pub unmeetable: Option<ResourceId>,
    /// Whether `unmeetable` is set or no worker could ever run the job.
    pub infeasible: bool,
    pub depends_on: Vec<JobId>,
    pub dependents: Vec<JobId>,
    /// Jobs all of whose tasks must be done before one of this job starts.
    pub after_all: Vec<JobId>,
    /// Jobs that have this one in `after_all`.
    pub followers: Vec<JobId>,
    /// The job's tasks run on workers of the host that the node above them at this level names.
    pub host_level: Option<LevelId>,
    /// Whether the job is in a dependency cycle, or between two.
    pub cyclic: bool,
    /// The last status of each task.
    pub statuses: Statuses,
    /// Number of running tasks, including those on nodes that are no longer in the forest.
    pub running: u32,
    /// Time since which the job has been missing, if a caller noted it.
    pub missing_since: Option<u32>,
}

impl Job {
    pub(super) fn remove_settings(&mut self) {
        self.config = None;
        self.can_run = false;
    }

    /// Returns whether another job waits for this one, node by node or as a whole.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.dependents.is_empty() || !self.followers.is_empty()
    }

    /// Returns how many more of the job's tasks may run by `max_running`.
    pub(crate) fn may_start(&self) -> u32 {
        let most = self.config.as_ref().and_then(|config| config.max_running);
        most.map_or(u32::MAX, |most| most.saturating_sub(self.running))
    }

    pub(crate) fn is_done_on(&self, node: NodeId) -> bool {
        let bits = self.statuses.bits(node);
        bits.is_some_and(|bits| bits.has(StatusBits::DONE))
    }
}
