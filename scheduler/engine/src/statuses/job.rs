//! One job: what the configuration makes of it, and its tasks' last statuses.

use brasserie_common::{JobId, NodeId, StatusBits};
use brasserie_common_config::{JobConfig, LevelId, ResourceId, Shared};

use crate::forest::filter::JobFilters;
use crate::placement::credit::LearnedStep;
use crate::statuses::column::Statuses;

#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// `None`: it is not configured, and its name is known for other reasons.
    pub(crate) config: Option<Shared<JobConfig>>,
    pub(crate) level: Option<LevelId>,
    pub(crate) can_run: bool,
    pub(crate) filters: JobFilters,
    /// Why a filter cannot be used.
    pub(crate) filter_problems: Vec<String>,
    /// Position in the pool's demands.
    pub(crate) demand: usize,
    /// How long its tasks took, as far as anybody has learned.
    pub(crate) learned: Option<LearnedStep>,
    /// A resource of the path that no node has enough of.
    pub(crate) unmeetable: Option<ResourceId>,
    /// `unmeetable`, or no worker could ever serve it.
    pub(crate) infeasible: bool,
    pub(crate) depends_on: Vec<JobId>,
    pub(crate) dependents: Vec<JobId>,
    /// Jobs all of whose tasks must be done before one of this job starts.
    pub(crate) after_all: Vec<JobId>,
    /// Jobs that have this one in `after_all`.
    pub(crate) followers: Vec<JobId>,
    /// Its tasks run on workers of the host that is named as the node above them of this level.
    pub(crate) host_level: Option<LevelId>,
    /// It depends on itself, by whatever way round.
    pub(crate) cyclic: bool,
    /// What the last run of each task ended in.
    pub(crate) statuses: Statuses,
    /// How many tasks run, also on nodes that are no longer in the forest.
    pub(crate) running: u32,
    /// Since when the job has been missing, if somebody noted it.
    pub(crate) missing_since: Option<u32>,
}

impl Job {
    /// Some job waits for this one, node by node or as a whole.
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
