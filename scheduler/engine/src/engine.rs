//! The engine: its tables, and how a configuration and a node table come into force.

use std::sync::{Arc, OnceLock};

use brasserie_common::collections::{IdMap, IdSet};
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{JobId, JobName, NodeId, NodeName, Time};
use brasserie_common_config::{Config, JobConfig, LevelId};

use crate::forest::NodeTable;
use crate::forest::filter::JobFilters;
use crate::forest::index::Forest;
use crate::names::{Names, NodeNames};
use crate::placement::Run;
use crate::placement::policy::{self, Policy};
use crate::placement::resources::{Ledger, SlotPlan, need_of};
use crate::placement::wait_lists::WaitLists;
use crate::placement::workers::Pool;
use crate::statuses::job::Job;
use crate::statuses::waits::Waits;
use crate::types::{Task, WorkerIndex};

/// What may run where. Pure: time comes in, nothing goes out but answers.
///
/// Events touch only the part of the forest that they change: a task is *ready*, or waits in the list of one node whose
/// slots it lacks, or is no candidate at all; see [`Engine::place`] for the invariant that makes this complete. A changed
/// configuration or node table rebuilds the columns of all jobs.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) job_names: Names<JobName>,
    pub(crate) node_names: NodeNames,
    pub(crate) resource_names: Names<Arc<str>>,
    pub(crate) config: Option<Arc<Config>>,
    pub(crate) nodes: Option<Arc<NodeTable>>,
    /// The node table under the configuration; absent until there are both.
    pub(crate) forest: Option<Forest>,
    pub(crate) plan: SlotPlan,
    pub(crate) ledger: Ledger,
    /// By job id.
    pub(crate) jobs: Vec<Job>,
    /// Configured jobs, in file order.
    pub(crate) configured: Vec<JobId>,
    /// Configured jobs, those that others depend on first; jobs of a circle in between.
    pub(crate) by_dependency: Vec<JobId>,
    pub(crate) running: IdMap<Task, Run>,
    pub(crate) held: IdSet<Task>,
    pub(crate) waits: Waits,
    /// Nothing starts before.
    pub(crate) barrier: Option<Time>,
    pub(crate) lists: WaitLists,
    pub(crate) pool: Pool,
    pub(crate) policy: Box<dyn Policy>,
    /// What is wrong with the configuration in the engine's eyes.
    pub(crate) config_problems: Vec<String>,
    rng: Rng,
    seed: u64,
    /// For fingerprints: of the configuration and the nodes, once somebody asks.
    pub(crate) sources_shape: OnceLock<u64>,
}

/// How far a refresh goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The task; those that depend on it only if it has become, or no longer is, without hope.
    Own,
    /// Also those that depend on it.
    Dependents,
}

impl Engine {
    /// `seed` fixes the hashing of names, the shuffle of nodes and random policies.
    pub fn new(seed: u64) -> Self {
        Engine {
            job_names: Names::new(seed),
            node_names: NodeNames::new(seed),
            resource_names: Names::new(seed),
            config: None,
            nodes: None,
            forest: None,
            plan: SlotPlan::default(),
            ledger: Ledger::default(),
            jobs: Vec::new(),
            configured: Vec::new(),
            by_dependency: Vec::new(),
            running: IdMap::default(),
            held: IdSet::default(),
            waits: Waits::default(),
            barrier: None,
            lists: WaitLists::default(),
            pool: Pool::default(),
            policy: policy::make(brasserie_common_config::SchedulerPolicy::default(), seed),
            config_problems: Vec::new(),
            rng: Rng::new(seed, Purpose::Placement),
            seed,
            sources_shape: OnceLock::new(),
        }
    }

    pub fn config(&self) -> Option<&Arc<Config>> {
        self.config.as_ref()
    }

    pub fn nodes(&self) -> Option<&Arc<NodeTable>> {
        self.nodes.as_ref()
    }

    pub fn intern_job(&mut self, name: &JobName) -> JobId {
        let id = JobId(self.job_names.intern(name));
        if self.jobs.len() <= id.index() {
            self.jobs.resize_with(id.index() + 1, Job::default);
        }
        id
    }

    pub fn intern_node(&mut self, name: &NodeName) -> NodeId {
        NodeId(self.node_names.intern(name))
    }

    /// The empty name for an id that this engine did not hand out.
    pub fn job_name(&self, job: JobId) -> &JobName {
        self.job_names.get(job.0)
    }

    /// The empty name for an id that this engine did not hand out.
    pub fn node_name(&self, node: NodeId) -> NodeName {
        // Invariant: only checked names get an id.
        NodeName::try_from(self.node_text(node)).expect("a name that was checked")
    }

    /// As [`Engine::node_name`], to look at.
    pub fn node_text(&self, node: NodeId) -> &str {
        self.node_names.get(node.0)
    }

    pub fn find_job(&self, name: &str) -> Option<JobId> {
        self.job_names.find(name).map(JobId)
    }

    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        self.node_names.find(name).map(NodeId)
    }

    /// `None` for a job that is not configured.
    pub fn job_config(&self, job: JobId) -> Option<&JobConfig> {
        let index = self.jobs.get(job.index())?.config_index?;
        self.config.as_ref()?.jobs.get(index)
    }

    /// The configured jobs, in file order.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.configured.iter().copied()
    }

    /// Puts a configuration in force for everything that starts from now on; what runs keeps its charges.
    pub fn apply_config(&mut self, now: Time, config: Arc<Config>) {
        let before = self.config.replace(Arc::clone(&config));
        self.sources_shape = OnceLock::new();
        let same_order = before
            .as_ref()
            .is_some_and(|b| b.levels == config.levels && b.node_order == config.node_order);
        if before.is_none_or(|b| b.policy != config.policy) {
            self.policy = policy::make(config.policy, self.seed);
        }
        self.plan = SlotPlan::new(&config, &mut self.resource_names);
        self.config_problems.clear();
        self.adopt_jobs(&config);
        self.link_dependencies(&config);
        self.rebuild_pool(&config);
        if !same_order {
            self.forest = None;
        }
        self.rebuild(now);
    }

    /// Puts a node table in force; what runs on nodes that are gone goes on.
    pub fn apply_nodes(&mut self, now: Time, nodes: Arc<NodeTable>) {
        self.nodes = Some(nodes);
        self.sources_shape = OnceLock::new();
        self.forest = None;
        self.rebuild(now);
    }

    fn adopt_jobs(&mut self, config: &Config) {
        for job in &mut self.jobs {
            job.config_index = None;
            job.can_run = false;
            job.depends_on.clear();
            job.dependents.clear();
        }
        self.configured.clear();
        for (index, job_config) in config.jobs.iter().enumerate() {
            let id = self.intern_job(&job_config.name);
            let (filters, errors) = JobFilters::new(job_config);
            self.config_problems
                .extend(errors.iter().map(ToString::to_string));
            let unmeetable = (0..=job_config.level_for_tasks.0)
                .flat_map(|level| self.plan.at(LevelId(level)))
                .copied()
                .find(|r| {
                    let need = need_of(&job_config.resources, *r);
                    need > 0 && need > self.plan.limit(*r)
                });
            let job = &mut self.jobs[id.index()];
            if job.config_index.is_some() {
                self.config_problems
                    .push(format!("job `{}` is configured twice", job_config.name));
                continue;
            }
            job.config_index = Some(index);
            job.level = Some(job_config.level_for_tasks);
            job.can_run = job_config.can_run();
            job.filters = filters;
            job.unmeetable = unmeetable;
            self.configured.push(id);
        }
    }

    fn link_dependencies(&mut self, config: &Config) {
        for i in 0..self.configured.len() {
            let id = self.configured[i];
            let Some(index) = self.jobs[id.index()].config_index else {
                continue;
            };
            for name in &config.jobs[index].depends_on {
                let on = self.intern_job(name);
                if self.jobs[on.index()].config_index.is_none() {
                    self.config_problems.push(format!(
                        "job `{}` depends on `{name}`, which is not configured",
                        config.jobs[index].name
                    ));
                }
                if !self.jobs[id.index()].depends_on.contains(&on) {
                    self.jobs[id.index()].depends_on.push(on);
                    self.jobs[on.index()].dependents.push(id);
                }
            }
        }
        self.sort_by_dependency();
    }

    /// Kahn's algorithm from both ends: what neither end reaches is in a circle, or between two.
    fn sort_by_dependency(&mut self) {
        let mut open: Vec<JobId> = self.configured.clone();
        let mut first = Vec::new();
        let mut last = Vec::new();
        self.peel(&mut open, &mut first, |job| &job.depends_on);
        self.peel(&mut open, &mut last, |job| &job.dependents);
        last.reverse();
        for job in &mut self.jobs {
            job.cyclic = false;
        }
        for &id in &open {
            self.jobs[id.index()].cyclic = true;
            self.config_problems.push(format!(
                "job `{}` depends on itself through `depends_on`",
                self.job_names.get(id.0)
            ));
        }
        self.by_dependency = [first, open, last].concat();
    }

    /// Moves jobs that lack nothing from `open` to `done`, in order.
    fn peel(&self, open: &mut Vec<JobId>, done: &mut Vec<JobId>, needs: fn(&Job) -> &Vec<JobId>) {
        let mut left: IdMap<JobId, usize> = IdMap::default();
        let members: IdSet<JobId> = open.iter().copied().collect();
        let mut users: IdMap<JobId, Vec<JobId>> = IdMap::default();
        for &id in open.iter() {
            let within = needs(&self.jobs[id.index()])
                .iter()
                .filter(|on| members.contains(on));
            let mut count = 0;
            for on in within {
                users.entry(*on).or_default().push(id);
                count += 1;
            }
            left.insert(id, count);
        }
        let mut free: std::collections::VecDeque<JobId> =
            open.iter().copied().filter(|id| left[id] == 0).collect();
        let mut peeled: IdSet<JobId> = IdSet::default();
        while let Some(id) = free.pop_front() {
            peeled.insert(id);
            done.push(id);
            for user in users.remove(&id).unwrap_or_default() {
                if let Some(count) = left.get_mut(&user) {
                    *count -= 1;
                    if *count == 0 {
                        free.push_back(user);
                    }
                }
            }
        }
        open.retain(|id| !peeled.contains(id));
    }

    fn rebuild_pool(&mut self, config: &Config) {
        let worker_level = config.worker_level();
        let jobs = self.configured.iter().filter_map(|id| {
            let job = &self.jobs[id.index()];
            let job_config = config.jobs.get(job.config_index?)?;
            Some((job_config, job.filters.at(worker_level)))
        });
        let groups = self.pool.set_demands(config, &self.plan, jobs);
        for (id, group) in self.configured.iter().zip(groups) {
            self.jobs[id.index()].demand = group as usize;
        }
        let workers: Vec<WorkerIndex> = self.pool.present().map(|(index, _)| index).collect();
        for worker in workers {
            self.pool.set_limits(worker, config, &self.plan);
            self.pool
                .update(worker, &self.plan, self.plan.at(worker_level), &self.ledger);
        }
    }

    /// Computes the columns of all jobs anew, and with them who is ready; nobody waits in a list until tried.
    pub(crate) fn rebuild(&mut self, now: Time) {
        let (Some(config), Some(nodes)) = (&self.config, &self.nodes) else {
            return;
        };
        if self.forest.is_none() {
            self.forest = Some(Forest::new(
                config,
                Arc::clone(nodes),
                &mut self.node_names,
                &mut self.rng,
            ));
        }
        self.expire_quietly(now);
        self.lists.clear();
        self.rebuild_columns();
    }
}
