//! The engine: the coordinator, which alone sees all components. Its files follow the events and queries of its interface.

mod credit;
mod explain;
mod fingerprint;
mod histogram;
mod place;
mod presence;
mod reconfigure;
mod refresh;
mod standby;
#[cfg(test)]
#[path = "tests/mod.rs"]
mod tests;
mod transitions;
mod view;
mod wake;
mod workers;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{JobId, JobName, NodeId, NodeName};
use brasserie_common_config::{Config, JobConfig};

use crate::forest::{Forest, NodeTable};
use crate::names::NodeNames;
use crate::placement::needs::Needs;
use crate::placement::policy::{self, Policy};
use crate::pool::Pool;
use crate::queues::Queues;
use crate::reclaim::Reclaim;
use crate::refresh::Refresh;
use crate::refresh::disposal::Disposal;
use crate::refresh::slice_length::SliceLength;
use crate::slots::Slots;
use crate::tasks::Tasks;
use crate::types::NodesOwner;
pub use place::Advice;
pub use presence::NodePresence;
pub use standby::{HasBegun, TakeBackReasons};

/// Decides which tasks may run where. Pure: callers pass the time in, and the only output is what methods return.
///
/// An event touches only the part of the forest that it changes. A task is *ready*, or waits in the list of one node whose slots it lacks,
/// or is no candidate; [`Engine::place`] states the invariant that makes this complete. A changed configuration rebuilds the columns of the
/// affected jobs. A node table builds new columns of all jobs beside those in force.
#[derive(Clone, Debug)]
pub struct Engine {
    config: Option<Arc<Config>>,
    /// Messages about jobs that are configured twice.
    config_problems: Vec<String>,
    node_names: NodeNames,
    /// The node table in force under the configuration; absent until both exist.
    forest: Option<Box<Forest>>,
    slots: Slots,
    pool: Pool,
    tasks: Tasks,
    queues: Queues,
    needs: Needs,
    policy: Box<dyn Policy>,
    /// Jobs that were noted as missing and are configured again, until [`Engine::take_returned_jobs`].
    returned_jobs: Vec<JobId>,
    /// The newest node table, if its processing has not begun.
    waiting: Option<Arc<NodeTable>>,
    /// The node table that comes into force next.
    refresh: Option<Box<Refresh>>,
    /// Number of tables that have come into force.
    put_in_force: u64,
    slice_length: SliceLength,
    disposal: Disposal,
    reclaim: Reclaim,
    rng: Rng,
    seed: u64,
    /// Whether tasks may be placed at workers without room.
    places_on_standby: bool,
    /// Hash of the configuration and the node tables for fingerprints, computed on first use.
    sources_shape: OnceLock<u64>,
}

impl Engine {
    /// Creates an engine without a configuration. `seed` fixes the hashing of names, the shuffle of nodes and random policies.
    pub fn new(seed: u64) -> Self {
        Engine {
            node_names: NodeNames::new(seed),
            config: None,
            forest: None,
            waiting: None,
            put_in_force: 0,
            refresh: None,
            disposal: Disposal::default(),
            slice_length: SliceLength::default(),
            reclaim: Reclaim::default(),
            slots: Slots::new(seed),
            tasks: Tasks::new(seed),
            queues: Queues::default(),
            needs: Needs::default(),
            pool: Pool::default(),
            policy: policy::make(brasserie_common_config::SchedulerPolicy::default(), seed),
            returned_jobs: Vec::new(),
            config_problems: Vec::new(),
            rng: Rng::new(seed, Purpose::Placement),
            seed,
            places_on_standby: true,
            sources_shape: OnceLock::new(),
        }
    }

    pub fn config(&self) -> Option<&Arc<Config>> {
        self.config.as_ref()
    }

    pub fn nodes_owner(&self) -> NodesOwner {
        self.tasks.nodes_owner()
    }

    /// Sets the configuration that the nodes in force belong to. Re-evaluates every gate if that changed, because a job can be done as a
    /// whole only on its own nodes.
    pub fn set_nodes_owner(&mut self, owner: NodesOwner) {
        let before = self.tasks.set_nodes_owner(owner);
        if before != owner && self.tasks.has_gates() {
            self.rebuild_jobs(BTreeSet::new(), &BTreeSet::new());
        }
    }

    /// Returns the node table in force, not one that waits or is being processed.
    pub fn nodes(&self) -> Option<&Arc<NodeTable>> {
        let forest = self.forest.as_ref();
        forest.map(|forest| forest.table())
    }

    pub fn intern_job(&mut self, name: &JobName) -> JobId {
        let id = self.tasks.intern(name);
        self.expect_jobs();
        id
    }

    /// Makes room for the columns of all known jobs.
    fn expect_jobs(&mut self) {
        let known = self.tasks.len();
        if self.queues.columns().len() < known {
            self.queues.expect_jobs(known);
            if let Some(refresh) = &mut self.refresh {
                refresh.expect_jobs(known);
            }
        }
    }

    pub fn intern_node(&mut self, name: &NodeName) -> NodeId {
        NodeId(self.node_names.intern(name))
    }

    /// Prepares for `count` more node names.
    pub fn expect_nodes(&mut self, count: usize) {
        self.node_names.expect(count);
    }

    /// Returns the job's name, or the empty name for an id that this engine did not assign.
    pub fn job_name(&self, job: JobId) -> &JobName {
        self.tasks.name(job)
    }

    /// Returns the node's name, or the empty name for an id that this engine did not assign.
    pub fn node_name(&self, node: NodeId) -> NodeName {
        // Invariant: only valid names get an id.
        NodeName::try_from(self.node_text(node)).expect("a name that was checked")
    }

    /// Returns the same name as [`Engine::node_name`], without a copy.
    pub fn node_text(&self, node: NodeId) -> &str {
        self.node_names.get(node.0)
    }

    pub fn find_job(&self, name: &str) -> Option<JobId> {
        self.tasks.find(name)
    }

    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        self.node_names.find(name).map(NodeId)
    }

    /// Returns `None` for a job that is not configured.
    pub fn job_config(&self, job: JobId) -> Option<&JobConfig> {
        self.tasks.settings(job)
    }

    /// Iterates over the configured jobs, in file order.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.tasks.configured().iter().copied()
    }
}
