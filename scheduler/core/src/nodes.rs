//! The nodes in force: since when they are, and which configuration's sources gave them.

use std::sync::{Arc, Weak};

use brasserie_common::WallTime;
use brasserie_common_config::Config;
use brasserie_scheduler_engine::{NodeTable, NodesOwner};

/// A node table and the configuration whose sources gave it.
#[derive(Clone, Debug)]
pub struct SourceNodes {
    pub nodes: Arc<NodeTable>,
    pub config: Arc<Config>,
}

/// The node tables that are or may come into force.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodesInForce {
    /// When the nodes came into force; for people.
    since: Option<WallTime>,
    /// The tables, with the configurations whose sources gave them. A table may be dropped without notice.
    tables: Vec<(Weak<NodeTable>, Arc<Config>)>,
}

impl NodesInForce {
    /// Notes a table that may come into force.
    pub(crate) fn note_table(&mut self, SourceNodes { nodes, config }: &SourceNodes) {
        self.tables.retain(|(table, _)| table.strong_count() > 0);
        self.tables
            .push((Arc::downgrade(nodes), Arc::clone(config)));
    }

    /// Returns whether the table is from the sources of this configuration.
    pub(crate) fn owner_of(&self, nodes: &Arc<NodeTable>, config: &Config) -> NodesOwner {
        // The same table may have been loaded twice; the last entry counts.
        let mut tables = self.tables.iter().rev();
        let of = tables.find(|(table, _)| table.as_ptr() == Arc::as_ptr(nodes));
        match of.is_some_and(|(_, of)| has_same_nodes(config, of)) {
            true => NodesOwner::ThisConfig,
            false => NodesOwner::OtherConfig,
        }
    }

    pub(crate) fn since(&self) -> Option<WallTime> {
        self.since
    }

    pub(crate) fn note_in_force(&mut self, since: WallTime) {
        self.since = Some(since);
    }
}

/// Returns whether both configurations give the same nodes: they have the same sources on the same levels.
pub fn has_same_nodes(one: &Config, other: &Config) -> bool {
    std::ptr::eq(one, other)
        || (one.levels == other.levels && one.node_sources == other.node_sources)
}
