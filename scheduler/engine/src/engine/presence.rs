//! Presence of nodes and jobs: which nodes are in the forest in force, since when others are missing, and which names may be released.

use brasserie_common::{JobId, JobName, NodeId, NodeName};

use super::Engine;

/// The presence of a node in the forest in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePresence {
    InForce,
    /// The node is missing, since this time on the caller's clock if a caller has noted it.
    Missing(Option<u32>),
}

impl Engine {
    /// Returns whether nodes are loaded, so that a missing node is known to be missing.
    pub fn has_nodes_in_force(&self) -> bool {
        self.forest.is_some()
    }

    pub fn presence(&self, node: NodeId) -> NodePresence {
        let forest = self.forest.as_ref();
        match forest.and_then(|forest| forest.any_row_of(node)) {
            Some(_) => NodePresence::InForce,
            None => NodePresence::Missing(self.node_names.missing_since(node.0)),
        }
    }

    /// Notes that a node is missing. The node's release, or the completion of a task on it, removes the note.
    pub fn note_missing(&mut self, node: NodeId, since: u32) {
        self.node_names.note_missing(node.0, since);
    }

    /// Removes the notes of missing nodes that are in the forest in force. Returns the nodes' names.
    pub fn note_returned(&mut self) -> Vec<NodeName> {
        let Some(forest) = &self.forest else {
            return Vec::new();
        };
        let is_back = |id: u32| forest.any_row_of(NodeId(id)).is_some();
        let returned = self.node_names.take_missing(is_back);
        let names = returned.into_iter().map(|id| self.node_name(NodeId(id)));
        names.collect()
    }

    /// Returns the jobs that were noted as missing and have been configured since the last call. Their notes are gone.
    pub fn take_returned_jobs(&mut self) -> Vec<JobName> {
        let returned = std::mem::take(&mut self.returned_jobs);
        returned
            .into_iter()
            .map(|job| self.job_name(job).clone())
            .collect()
    }

    /// Returns since when the job has been missing, if a caller noted it. The caller decides which jobs are missing.
    pub fn job_missing_since(&self, job: JobId) -> Option<u32> {
        self.tasks.get(job)?.missing_since
    }

    /// Notes that a job is missing, until it is configured or a task of it completes; `None` drops the note.
    pub fn note_job_missing(&mut self, job: JobId, since: Option<u32>) {
        self.tasks.note_missing(job, since);
    }

    /// Returns the nodes of one page of the job's statuses; `None` behind the last page.
    pub fn ended_nodes_of_page(&self, job: JobId, page: usize) -> Option<Vec<NodeId>> {
        let statuses = &self.tasks.get(job)?.statuses;
        Some(statuses.page(page)?.collect())
    }

    /// Returns whether a job has this id.
    pub fn has_job(&self, job: JobId) -> bool {
        job.index() < self.tasks.len()
    }

    /// Notes that up to `names` node names may have become unused, so that the engine releases them soon.
    pub fn names_were_let_go(&mut self, names: usize) {
        self.reclaim.expect_fewer(names);
    }

    /// Returns whether a reclaim of unused names must begin.
    pub(super) fn is_reclaim_due(&self) -> bool {
        let is_idle = self.refresh.is_none() && self.forest.is_some();
        is_idle && self.reclaim.is_due(&self.node_names)
    }

    pub(super) fn begin_reclaim(&mut self) {
        self.reclaim.begin(&mut self.node_names);
    }

    pub(super) fn abandon_reclaim(&mut self) {
        self.reclaim.abandon(&mut self.node_names);
    }

    /// Returns the number of the reclaim that waits for the nodes held outside this engine, if one does. The caller passes them to
    /// [`Engine::hold_nodes`], then calls [`Engine::all_nodes_are_held`]. The number distinguishes one reclaim from the next.
    pub fn wants_held_nodes(&self) -> Option<u64> {
        self.reclaim.waits_for_caller()
    }

    /// Keeps the names of these nodes. The caller passes every node that it holds when the reclaim asks, and every node that it finds by
    /// name and keeps while the reclaim waits.
    pub fn hold_nodes(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        if !self.node_names.is_marking() {
            return;
        }
        for node in nodes {
            self.node_names.mark(node.0);
        }
    }

    /// Ends the report. Every node held outside was reported, or has a task of which this engine was notified while the reclaim waited.
    pub fn all_nodes_are_held(&mut self) {
        if self.wants_held_nodes().is_none() {
            return;
        }
        let workers = self.pool.nodes();
        let held = self.tasks.waits().held().map(|task| task.node);
        self.reclaim
            .end_wait(&mut self.node_names, workers.chain(held));
    }
}
