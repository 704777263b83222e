//! Explains obstacles that no wait removes: a need above every limit, no worker big enough in the whole pool, no node to run on.

use brasserie_common_config::{Config, JobConfig, ResourceId};

use super::super::Engine;
use crate::forest::Forest;
use crate::forest::filter::JobFilters;
use crate::pool::demand::{Demand, Load};
use crate::pool::work_need::{OutputNeed, Refusal};
use crate::queues::states::{Structure, structure_of};
use crate::reason::{CardList, Reason};
use crate::slots::need_of;
use crate::tasks::job::Job;

/// The most nodes that are checked for one on which a job, which is not configured yet, could run. A filter takes about 100 ns for a node,
/// so a person who saves a job waits for 10 ms at most. With more nodes, nothing is reported if none of these fits.
const MAX_LOOKED_AT: usize = 100_000;

impl Engine {
    /// Returns why no task of a job could ever start with the present configuration, nodes and workers; empty if one could, apart from
    /// other jobs. The job need not be configured. It must have been read under settings that read jobs as those in force do, see
    /// [`Config::reads_jobs_as`].
    pub fn infeasible(&self, job: &JobConfig) -> Vec<Reason> {
        let (Some(config), Some(forest)) = (&self.config, &self.forest) else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        if let Some(id) = self.slots.above_limit(job) {
            reasons.push(self.above_limit_reason(config, job, id));
        }
        let (filters, _) = JobFilters::new(job);
        let filter = filters.at(config.worker_level());
        let demand = Demand::new(
            config,
            &self.slots,
            (job, None, &OutputNeed::default()),
            filter,
        );
        let present = self.pool.present().map(|(_, worker)| worker);
        let mut able = present.filter(|worker| {
            let refusal = demand.refusal(worker, &self.slots, Load::Idle);
            matches!(
                refusal,
                None | Some(
                    Refusal::Ineligible
                        | Refusal::Draining
                        | Refusal::Barred
                        | Refusal::Full
                        | Refusal::NotAsked
                        | Refusal::Late
                        | Refusal::TurnedDown
                        | Refusal::NoSpace
                )
            )
        });
        let first = able.next();
        let host_level = job
            .level_for_host_placement
            .filter(|_| demand.host.is_none());
        if self.pool.is_empty() {
            if demand.over_fixed_limits {
                reasons.push(self.explain_pool(config, &demand, job));
            }
        } else if first.is_none() {
            reasons.push(self.explain_pool(config, &demand, job));
        } else if let Some(hosts) = host_level
            && !first
                .into_iter()
                .chain(able)
                .any(|worker| forest.row_of(hosts, worker.host).is_some())
        {
            let level = &config.levels[hosts.index()];
            let why = format!("none that could is on a host that a node of level `{level}` names");
            reasons.push(Reason::NoWorkerEver { why });
        }
        reasons.extend(self.no_node_for(config, forest, job, &filters));
        reasons
    }

    /// Iterates over messages about enabled jobs that can never run as things are, in file order.
    pub(in crate::engine) fn infeasible_jobs(&self) -> impl Iterator<Item = String> + '_ {
        let (config, forest) = (self.config.as_ref(), self.forest.as_ref());
        let of_job = move |id: &brasserie_common::JobId| {
            let (job, settings, _) = (self.tasks.job(*id), self.job_config(*id)?, forest?);
            let mut reasons = Vec::new();
            if job.can_run && job.infeasible {
                self.explain_limits(config?, job, settings, &mut reasons);
            }
            let reason = reasons.first()?;
            Some(format!("job `{}`: {reason}", settings.name))
        };
        self.tasks.configured().iter().filter_map(of_job)
    }

    fn above_limit_reason(&self, config: &Config, job: &JobConfig, id: ResourceId) -> Reason {
        let resource = &config.resources[id.index()];
        Reason::AboveLimit {
            level: config.levels[resource.level.index()].clone(),
            resource: resource.name.clone(),
            need: need_of(&job.resources, id),
            limit: self.slots.limit(id),
        }
    }

    pub(super) fn explain_limits(
        &self,
        config: &Config,
        job: &Job,
        job_config: &JobConfig,
        reasons: &mut Vec<Reason>,
    ) {
        if let Some(id) = job.unmeetable {
            reasons.push(self.above_limit_reason(config, job_config, id));
        }
        if self.pool.is_infeasible(job.demand)
            && let Some(demand) = self.pool.demand(job.demand)
        {
            reasons.push(self.explain_pool(config, demand, job_config));
        }
    }

    /// Returns why no connected worker could ever take the job.
    fn explain_pool(&self, config: &Config, demand: &Demand, job_config: &JobConfig) -> Reason {
        let mut only_command = !self.pool.is_empty();
        let mut why = None;
        for (_, worker) in self.pool.present() {
            let refusal = demand.refusal(worker, &self.slots, Load::Idle);
            only_command &= refusal == Some(Refusal::NoCommand);
            let shard = &worker.shard;
            why = why.or(match refusal {
                Some(
                    Refusal::OtherHost
                    | Refusal::Ineligible
                    | Refusal::Draining
                    | Refusal::Barred
                    | Refusal::Full
                    | Refusal::NotAsked
                    | Refusal::Late
                    | Refusal::TurnedDown
                    | Refusal::NoSpace,
                )
                | None => None,
                Some(Refusal::Filtered) => Some(format!("its filter does not pass `{shard}`")),
                Some(Refusal::NoCommand) => Some(format!("`{shard}` has no command for it")),
                Some(Refusal::Short(id, limit)) => Some(format!(
                    "it needs {} of `{}`, and `{shard}` has {limit}",
                    need_of(&job_config.resources, id),
                    config.resources[id.index()].name,
                )),
                Some(Refusal::Cards) => Some(format!(
                    "it needs {}, and `{shard}` has {}",
                    demand.cards,
                    CardList(&worker.resources.cards),
                )),
            });
        }
        if only_command {
            return Reason::NoCommand;
        }
        let host = job_config.host_placement.as_deref().unwrap_or_default();
        let why = why.unwrap_or_else(|| match host {
            "" => "it needs more than the configured limit of a worker resource".to_owned(),
            host => format!("none is on host `{host}`"),
        });
        Reason::NoWorkerEver { why }
    }

    fn no_node_for(
        &self,
        config: &Config,
        forest: &Forest,
        job: &JobConfig,
        filters: &JobFilters,
    ) -> Option<Reason> {
        let level = config.levels.get(job.level_for_tasks.index())?;
        let order = forest.order(job.level_for_tasks);
        let is_open =
            |row| structure_of(forest, filters, job.name.as_str(), row) == Structure::Open;
        let mut looked_at = order.iter().take(MAX_LOOKED_AT);
        if looked_at.any(|canonical| forest.rows(*canonical).any(is_open)) {
            return None;
        }
        let nodes = order.len();
        (nodes <= MAX_LOOKED_AT).then(|| Reason::NoNode {
            level: level.clone(),
            nodes: nodes as u64,
        })
    }
}
