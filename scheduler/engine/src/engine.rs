//! The engine: its tables, and the names that it hands out ids for.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use brasserie_common::collections::IdSet;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{JobId, JobName, NodeId, NodeName, Time};
use brasserie_common_config::{Config, JobConfig};

use crate::forest::NodeTable;
use crate::forest::index::Forest;
use crate::names::{Names, NodeNames};
use crate::placement::Runs;
use crate::placement::needs::Needs;
use crate::placement::policy::{self, Policy};
use crate::placement::resources::{Ledger, SlotPlan};
use crate::placement::wait_lists::WaitLists;
use crate::placement::workers::Pool;
use crate::reclaim::Reclaim;
use crate::refresh::{Patience, Refresh, Rubbish, Side};
use crate::statuses::columns::Columns;
use crate::statuses::job::Job;
use crate::statuses::waits::Waits;
use crate::types::{NodesOf, Task};

/// What may run where. Pure: time comes in, nothing goes out but answers.
///
/// Events touch only the part of the forest that they change: a task is *ready*, or waits in the list of one node whose
/// slots it lacks, or is no candidate at all; see [`Engine::place`] for the invariant that makes this complete. A changed
/// configuration rebuilds the columns of the jobs that it concerns, a node table those of all jobs, beside those in force.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) job_names: Names<JobName>,
    pub(crate) node_names: NodeNames,
    pub(crate) resource_names: Names<Arc<str>>,
    pub(crate) config: Option<Arc<Config>>,
    /// The node table in force.
    pub(crate) nodes: Option<Arc<NodeTable>>,
    /// Whose nodes those in force are.
    pub(crate) nodes_of: NodesOf,
    /// The table in force under the configuration; absent until there are both.
    pub(crate) forest: Option<Box<Forest>>,
    /// The newest node table, if nothing has been made of it yet.
    pub(crate) waiting: Option<Arc<NodeTable>>,
    /// How many tables have come in force.
    pub(crate) put_in_force: u64,
    /// The node table that is to come in force next.
    pub(crate) refresh: Option<Box<Refresh>>,
    /// Whose forest and columns stand here at the moment.
    pub(crate) side: Side,
    pub(crate) rubbish: Rubbish,
    pub(crate) patience: Patience,
    pub(crate) reclaim: Reclaim,
    pub(crate) plan: SlotPlan,
    pub(crate) ledger: Ledger,
    /// By job id.
    pub(crate) jobs: Vec<Job>,
    /// By job id; empty for one that is not configured.
    pub(crate) columns: Vec<Columns>,
    /// Configured jobs, in file order.
    pub(crate) configured: Vec<JobId>,
    /// Configured jobs, those that others depend on first; jobs of a circle in between.
    pub(crate) by_dependency: Vec<JobId>,
    /// How many links there are between jobs and those that they wait for as a whole.
    pub(crate) gates: usize,
    pub(crate) running: Runs,
    pub(crate) held: IdSet<Task>,
    pub(crate) waits: Waits,
    /// Nothing starts before.
    pub(crate) barrier: Option<Time>,
    pub(crate) needs: Needs,
    pub(crate) lists: WaitLists,
    pub(crate) pool: Pool,
    pub(crate) policy: Box<dyn Policy>,
    /// Jobs that are configured again after they were noted as missing, until [`Engine::take_returned_jobs`].
    pub(crate) returned_jobs: Vec<JobId>,
    /// Jobs that are configured twice.
    pub(crate) config_problems: Vec<String>,
    pub(crate) rng: Rng,
    pub(crate) seed: u64,
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
            nodes_of: NodesOf::default(),
            forest: None,
            waiting: None,
            put_in_force: 0,
            refresh: None,
            side: Side::InForce,
            rubbish: Rubbish::default(),
            patience: Patience::default(),
            reclaim: Reclaim::default(),
            plan: SlotPlan::default(),
            ledger: Ledger::default(),
            jobs: Vec::new(),
            columns: Vec::new(),
            configured: Vec::new(),
            by_dependency: Vec::new(),
            gates: 0,
            running: Runs::default(),
            held: IdSet::default(),
            waits: Waits::default(),
            barrier: None,
            needs: Needs::default(),
            lists: WaitLists::default(),
            pool: Pool::default(),
            policy: policy::make(brasserie_common_config::SchedulerPolicy::default(), seed),
            returned_jobs: Vec::new(),
            config_problems: Vec::new(),
            rng: Rng::new(seed, Purpose::Placement),
            seed,
            sources_shape: OnceLock::new(),
        }
    }

    pub fn config(&self) -> Option<&Arc<Config>> {
        self.config.as_ref()
    }

    /// Tells whose nodes those in force are, and looks at every gate if that is news: whether all of a job is done can be said of its
    /// own nodes only.
    pub fn set_nodes_of(&mut self, of: NodesOf) {
        let before = std::mem::replace(&mut self.nodes_of, of);
        if before != of && self.gates > 0 {
            self.rebuild_jobs(BTreeSet::new(), &BTreeSet::new());
        }
    }

    /// The table in force: not one that waits for a configuration, or is being worked on.
    pub fn nodes(&self) -> Option<&Arc<NodeTable>> {
        self.nodes.as_ref()
    }

    pub fn intern_job(&mut self, name: &JobName) -> JobId {
        let id = JobId(self.job_names.intern(name));
        if self.jobs.len() <= id.index() {
            self.jobs.resize_with(id.index() + 1, Job::default);
            self.columns.resize_with(id.index() + 1, Columns::default);
            if let Some(refresh) = &mut self.refresh {
                refresh.expect_jobs(self.jobs.len());
            }
        }
        id
    }

    pub fn intern_node(&mut self, name: &NodeName) -> NodeId {
        NodeId(self.node_names.intern(name))
    }

    /// So many node names will be interned.
    pub fn expect_nodes(&mut self, count: usize) {
        self.node_names.expect(count);
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
        self.jobs.get(job.index())?.config.as_deref()
    }

    /// The configured jobs, in file order.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.configured.iter().copied()
    }
}
