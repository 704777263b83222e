//! The forest: a node table under a configuration, with the task order of each level, replicas, disabled branches, and rows by node id.
//!
//! Nobody changes a forest that is in force, except that indexes are added to it.

pub(crate) mod below;
pub(crate) mod below_builder;
pub(crate) mod filter;
pub(crate) mod growing;
mod sorting;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::NodeId;
use brasserie_common_config::LevelId;

use crate::work::{WorkBudget, fill, shed};
use below::{Below, BelowIndex};
pub use table::{
    MAX_NODES, NameTaken, NodeError, NodeTable, NodeTableBuilder, Row, SourceTime, TimesGiven,
};

const NONE: u32 = u32::MAX;

/// The data of a row that is read in every turn, in one place: with millions of nodes, each access to another column is a cache miss.
#[derive(Clone, Copy, Debug)]
struct RowPlace {
    node: NodeId,
    /// `NONE` for the instance node.
    parent: u32,
    /// Position in its level's order.
    position: u32,
    /// `NO_LEVEL` if the configuration does not have the level.
    level: LevelId,
    branch: Branch,
}

/// Whether tasks on or below a node may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// The node and all ancestors are enabled.
    Open,
    Disabled,
}

const NO_LEVEL: LevelId = LevelId(u16::MAX);

/// Linked lists of rows: for each row, the next one in its list. A row follows at most one other row, and the instance node follows none.
#[derive(Clone, Debug, Default)]
struct Chains(Vec<u32>);

impl Chains {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn next(&self, row: u32) -> Option<u32> {
        self.0.get(row as usize).copied().filter(|next| *next != 0)
    }

    /// Makes room for `rows` rows, step by step. Returns whether it is there.
    fn make_room(&mut self, rows: usize, work: &mut WorkBudget) -> bool {
        fill(&mut self.0, rows, 0, work)
    }

    /// Inserts a row behind another one. Needs room for both.
    fn put_behind(&mut self, row: u32, new: u32) {
        self.0[new as usize] = self.0[row as usize];
        self.0[row as usize] = new;
    }

    /// Iterates over the row and those behind it.
    fn from(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(row), |row| self.next(*row))
    }
}

/// Invariant: of all rows with one name at one level (replicas), the first is the canonical one. It stands for their common slots and
/// status, and its level's order has it at the position of each of them.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    table: Arc<NodeTable>,
    /// Indexed by row.
    places: Vec<RowPlace>,
    /// Canonical rows of each level, in scheduling order.
    orders: Vec<Vec<u32>>,
    /// Replicas behind their canonical row, in the order of the table.
    replicas: Chains,
    /// A canonical row for each node id.
    rows: Vec<u32>,
    /// Further canonical rows of the same name, at other levels.
    more_rows: Chains,
    /// Tasks below nodes, by level of the tasks and level of the nodes. The latter are levels below the root where tasks may wait.
    below: BTreeMap<(LevelId, LevelId), BelowIndex>,
}

impl Forest {
    /// Creates a forest without rows.
    fn empty(table: Arc<NodeTable>, levels: usize) -> Self {
        Forest {
            places: Vec::with_capacity(table.len()),
            orders: vec![Vec::new(); levels],
            replicas: Chains::default(),
            rows: Vec::new(),
            more_rows: Chains::default(),
            below: BTreeMap::new(),
            table,
        }
    }

    /// Returns the configuration's number of the row's level; `None` if the configuration does not have the level.
    pub(crate) fn level(&self, row: u32) -> Option<LevelId> {
        let level = self.places[row as usize].level;
        (level != NO_LEVEL).then_some(level)
    }

    pub(crate) fn table(&self) -> &Arc<NodeTable> {
        &self.table
    }

    pub(crate) fn node(&self, row: u32) -> NodeId {
        self.places[row as usize].node
    }

    pub(crate) fn name(&self, row: u32) -> &str {
        self.table.name(Row(row))
    }

    pub(crate) fn tags(&self, row: u32) -> &BTreeSet<String> {
        self.table.tags(Row(row))
    }

    pub(crate) fn own_enabled(&self, row: u32) -> bool {
        self.table.enabled(Row(row))
    }

    pub(crate) fn is_open(&self, row: u32) -> bool {
        self.places[row as usize].branch == Branch::Open
    }

    pub(crate) fn parent(&self, row: u32) -> Option<u32> {
        let parent = self.places[row as usize].parent;
        (parent != NONE).then_some(parent)
    }

    /// Iterates over the row, its parent, and so on up to the instance node.
    pub(crate) fn upward(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(row), |r| self.parent(*r))
    }

    /// Returns the nodes on the path to a row, root first.
    pub(crate) fn path(&self, row: u32) -> Box<[NodeId]> {
        let mut path: Vec<NodeId> = self.upward(row).map(|r| self.node(r)).collect();
        path.reverse();
        path.into()
    }

    pub(crate) fn order(&self, level: LevelId) -> &[u32] {
        self.orders.get(level.index()).map_or(&[], Vec::as_slice)
    }

    /// Returns the fastest way to visit all canonical rows of a level.
    pub(crate) fn scan(&self, level: LevelId) -> Scan {
        // Many rows are of this level, so all memory is scanned in order. Otherwise only the rows of the level are visited.
        if self.order(level).len() * 8 > self.len() {
            Scan::Rows(level)
        } else {
            Scan::Order(level)
        }
    }

    /// Returns the number of steps of a scan.
    pub(crate) fn scan_len(&self, scan: Scan) -> usize {
        match scan {
            Scan::Rows(_) => self.len(),
            Scan::Order(level) => self.order(level).len(),
        }
    }

    /// Returns the canonical row at a step of a scan, if there is one.
    pub(crate) fn scanned(&self, scan: Scan, step: usize) -> Option<u32> {
        match scan {
            Scan::Rows(level) => {
                let row = step as u32;
                let is_wanted = self.level(row) == Some(level) && self.canonical(row) == row;
                is_wanted.then_some(row)
            }
            Scan::Order(level) => Some(self.order(level)[step]),
        }
    }

    pub(crate) fn position(&self, row: u32) -> u32 {
        self.places[row as usize].position
    }

    pub(crate) fn canonical(&self, row: u32) -> u32 {
        if self.replicas.is_empty() {
            return row;
        }
        self.level(row)
            .and_then(|level| self.order(level).get(self.position(row) as usize).copied())
            .unwrap_or(row)
    }

    pub(crate) fn has_replicas(&self) -> bool {
        !self.replicas.is_empty()
    }

    /// Iterates over a canonical row and its replicas.
    pub(crate) fn rows(&self, canonical: u32) -> impl Iterator<Item = u32> + '_ {
        self.replicas.from(canonical)
    }

    /// Returns the replica behind a row of the same name.
    pub(crate) fn next_replica(&self, row: u32) -> Option<u32> {
        self.replicas.next(row)
    }

    /// Returns the canonical row of a name at a level.
    pub(crate) fn row_of(&self, level: LevelId, node: NodeId) -> Option<u32> {
        let mut rows = self.more_rows.from(self.any_row_of(node)?);
        rows.find(|row| self.level(*row) == Some(level))
    }

    /// Returns a canonical row of a name at any level.
    pub(crate) fn any_row_of(&self, node: NodeId) -> Option<u32> {
        self.rows.get(node.index()).copied().filter(|r| *r != NONE)
    }

    /// Returns whether [`Forest::below`] lacks the index of these levels.
    pub(crate) fn lacks_below(&self, tasks: LevelId, above: LevelId) -> bool {
        above != LevelId::INSTANCE && above < tasks && !self.below.contains_key(&(tasks, above))
    }

    /// Takes memory that is no longer needed, to free it with the rest.
    fn take_rest(&mut self, rest: impl IntoIterator<Item = Vec<u32>>) {
        self.orders.extend(rest);
    }

    pub(crate) fn put_below(&mut self, tasks: LevelId, above: LevelId, index: BelowIndex) {
        self.below.insert((tasks, above), index);
    }

    /// Returns the tasks of a level at or below a node and its replicas.
    pub(crate) fn below(&self, tasks: LevelId, canonical: u32) -> Below<'_> {
        match self.level(canonical) {
            Some(level) if level == tasks => Below::One(self.position(canonical)),
            Some(level) if level != LevelId::INSTANCE => {
                let index = self.below.get(&(tasks, level));
                // Invariant: `Engine::index_forest` runs after each change of the jobs, the resources and the forest.
                let index = index.expect("an index of each level where tasks wait");
                index.below(self.position(canonical))
            }
            Some(_) | None => Below::All(self.order(tasks).len() as u32),
        }
    }

    /// Returns the tasks of a level below a node above that level; `None` without an index of them, because no task waits there then.
    pub(crate) fn indexed_below(&self, tasks: LevelId, canonical: u32) -> Option<Below<'_>> {
        let index = self.below.get(&(tasks, self.level(canonical)?))?;
        Some(index.below(self.position(canonical)))
    }

    /// Returns whether a node of this name is itself enabled, at any level and as any replica.
    pub(crate) fn has_enabled(&self, node: NodeId) -> bool {
        let canonical = self.any_row_of(node).into_iter();
        let mut canonical = canonical.flat_map(|row| self.more_rows.from(row));
        canonical.any(|row| self.rows(row).any(|replica| self.own_enabled(replica)))
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Gives the memory back, step by step. Returns the node table when all else is gone.
    pub(crate) fn shed(&mut self, work: &mut WorkBudget) -> Option<Arc<NodeTable>> {
        let columns = [&mut self.rows, &mut self.replicas.0, &mut self.more_rows.0];
        let mut columns = columns.into_iter().chain(&mut self.orders);
        let is_gone = shed(&mut self.places, work) && columns.all(|column| shed(column, work));
        let mut below = self.below.values_mut();
        let is_gone = is_gone && below.all(|index| index.shed(work));
        is_gone.then(|| Arc::clone(&self.table))
    }
}

/// A way to visit the rows of a level, see [`Forest::scan`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scan {
    /// All rows of the forest, in memory order.
    Rows(LevelId),
    /// The rows of the level, in its order.
    Order(LevelId),
}
