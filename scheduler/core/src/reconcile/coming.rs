//! The transition to new nodes: when they come into force, and which configuration they belong to.

use std::sync::Arc;

use brasserie_common::{Time, WallTime};
use brasserie_common_config::Config;
use brasserie_scheduler_engine::NodeTable;

use super::{Nodes, has_same_nodes};
use crate::jobs::NodesOf;
use crate::scheduler::Scheduler;

/// The most nodes that are reported to the engine in one turn: about a millisecond.
const TOLD_A_TURN: usize = 10_000;

impl Scheduler {
    /// Begins to put nodes in force. Until they are, the nodes in force decide.
    pub(crate) fn begin_nodes(&mut self, NodesOf { nodes, config: of }: NodesOf) {
        let tables = &mut self.orphans_mut().tables;
        tables.retain(|(table, _)| table.strong_count() > 0);
        tables.push((Arc::downgrade(&nodes), of));
        self.engine_mut().begin_nodes(nodes);
    }

    /// Continues to put nodes in force. Called once a turn.
    pub(crate) fn continue_refresh(&mut self, now: Time) {
        let before = self.engine().tables_put_in_force();
        self.engine_mut().continue_refresh();
        if self.engine().tables_put_in_force() != before {
            self.nodes_came_in_force(now);
        }
        if let Some(cycle) = self.engine().wants_held_nodes() {
            self.tell_nodes(cycle);
        }
    }

    /// Reports to the engine which nodes this crate still refers to. Nodes that bulk changes name come first, because their deletions may
    /// be moved to the second list meanwhile.
    fn tell_nodes(&mut self, cycle: u64) {
        let mut nodes = self.jobs_mut().next_nodes_of_wishes(cycle, TOLD_A_TURN);
        if nodes.is_empty() {
            nodes = self.tasks_mut().next_nodes_beside(cycle, TOLD_A_TURN);
        }
        if nodes.is_empty() {
            // The engine itself knows the running tasks and the completions.
            self.engine_mut().all_nodes_are_held();
        } else {
            self.engine_mut().hold_nodes(nodes);
        }
    }

    /// Returns whether new nodes are coming into force, or runs are still to be checked after such a change.
    pub(crate) fn is_settling(&self) -> bool {
        self.engine().is_refreshing() || self.looks_for_orphans()
    }

    /// Puts all coming nodes in force without waiting for turns; for a copy of the scheduler.
    pub(crate) fn finish_refresh(&mut self, now: Time) {
        while self.is_settling() {
            self.continue_refresh(now);
            self.look_for_orphans(now);
        }
    }

    fn nodes_came_in_force(&mut self, now: Time) {
        let (Some(nodes), Some(config)) = (self.engine().nodes(), self.engine().config()) else {
            return;
        };
        let (of, nodes) = (self.whose(nodes, config), Arc::clone(nodes));
        self.set_nodes_of(of);
        self.orphans_mut().nodes_since = Some(self.wall());
        self.record_times(now, nodes.times());
        self.orphans_mut().unseen.everything();
    }

    pub(crate) fn nodes_in_force_since(&self) -> Option<WallTime> {
        self.orphans().nodes_since
    }

    /// Returns whether the table is from the sources of this configuration.
    pub(super) fn whose(&self, nodes: &Arc<NodeTable>, config: &Config) -> Nodes {
        // The same table may have been loaded twice; the last entry counts.
        let mut tables = self.orphans().tables.iter().rev();
        let of = tables.find(|(table, _)| table.as_ptr() == Arc::as_ptr(nodes));
        match of.is_some_and(|(_, of)| has_same_nodes(config, of)) {
            true => Nodes::OfTheConfiguration,
            false => Nodes::OfAnother,
        }
    }
}
