//! What jobs demand of workers: jobs that demand the same are one group, so that a look at a worker serves all of them.

use brasserie_common_config::{Config, JobConfig, LevelId, ResourceId};

use super::bit_tree::BitTree;
use super::resources::{Ledger, SlotPlan, is_met, need_of};
use super::worker_limits::over_fixed_limits;
use super::workers::Worker;
use crate::forest::filter::CompiledFilter;
use crate::types::Eligibility;

/// What a group of jobs demands of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// By position in the plan's list of worker resources.
    pub(crate) needs: Vec<i32>,
    /// By position in the plan's list of resources of the root.
    pub(super) root_needs: Vec<i32>,
    /// The root has them now.
    pub(super) root_has_room: bool,
    filter: Option<CompiledFilter>,
    /// The filter's outcome may depend on it.
    job: String,
    pub(crate) host: Option<String>,
    pub(crate) needs_worker_command: bool,
    /// Eligible workers with room. Empty: no job of the group can start anything.
    pub(crate) fits: BitTree,
    /// Workers that would have room if they were idle and eligible.
    pub(crate) feasible: BitTree,
    /// Even the limits of the configuration are too low for it.
    pub(crate) over_fixed_limits: bool,
    /// Jobs of the group with a task that is ready.
    pub(crate) active: BitTree,
}

/// Why a worker cannot take a task now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Ineligible,
    Filtered,
    OtherHost,
    NoCommand,
    /// First resource that is short, and its limit there.
    Short(ResourceId, i32),
}

impl Demand {
    /// Conditions that do not depend on what runs or on health.
    pub(super) fn accepts(&self, worker: &Worker) -> Result<(), Refusal> {
        let hostname = &*worker.resources.hostname;
        if self.host.as_ref().is_some_and(|h| h != hostname) {
            return Err(Refusal::OtherHost);
        }
        if let Some(filter) = &self.filter
            && !filter.passes_name(&self.job, hostname)
        {
            return Err(Refusal::Filtered);
        }
        if self.needs_worker_command && !worker.resources.has_worker_command {
            return Err(Refusal::NoCommand);
        }
        Ok(())
    }

    /// Of one job; nobody has looked at workers for it.
    pub(crate) fn new(
        config: &Config,
        plan: &SlotPlan,
        job: &JobConfig,
        filter: Option<&CompiledFilter>,
    ) -> Self {
        let needs_at = |level| -> Vec<i32> {
            let ids = plan.at(level).iter();
            ids.map(|id| need_of(&job.resources, *id)).collect()
        };
        let needs = needs_at(config.worker_level());
        Demand {
            over_fixed_limits: over_fixed_limits(config, plan.at(config.worker_level()), &needs),
            needs,
            root_needs: needs_at(LevelId::INSTANCE),
            root_has_room: true,
            filter: filter.cloned(),
            job: job.name.to_string(),
            host: job.host_placement.clone().filter(|h| !h.is_empty()),
            needs_worker_command: job.command.is_empty(),
            fits: BitTree::default(),
            feasible: BitTree::default(),
            active: BitTree::default(),
        }
    }

    /// Why a worker cannot take a task now, from the same conditions as [`super::workers::Pool::update`].
    pub(crate) fn refusal(
        &self,
        worker: &Worker,
        plan: &SlotPlan,
        level: &[ResourceId],
        ledger: &Ledger,
    ) -> Option<Refusal> {
        if let Err(refusal) = self.accepts(worker) {
            return Some(refusal);
        }
        let slots = level.iter().zip(&worker.limits).zip(&self.needs);
        for ((id, limit), need) in slots {
            if !is_met(*need, *limit, ledger.used(worker.node, plan.name(*id))) {
                return Some(Refusal::Short(*id, *limit));
            }
        }
        (worker.eligibility == Eligibility::Ineligible).then_some(Refusal::Ineligible)
    }
}
