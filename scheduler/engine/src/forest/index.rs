//! A node table under a configuration: order of the tasks of each level, replicas, disabled branches, ids of names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::NodeId;
use brasserie_common_config::LevelId;

use super::below::{Below, BelowBuilder, BelowIndex};
use super::table::{NodeTable, Row};
use crate::work::{Work, fill, shed};

pub(super) const NONE: u32 = u32::MAX;

/// What is asked of a row at every turn, in one place: at millions of nodes each look at another column is a look at memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) node: NodeId,
    /// `NONE` for the instance node.
    pub(super) parent: u32,
    /// In its level's order.
    pub(super) position: u32,
    /// `NO_LEVEL` if the configuration does not have it.
    pub(super) level: LevelId,
    pub(super) branch: Branch,
}

/// Whether tasks below may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    /// The node and all ancestors are enabled.
    Open,
    Disabled,
}

pub(super) const NO_LEVEL: LevelId = LevelId(u16::MAX);

/// Lists of rows: of each row, which one comes next in its list. No row comes after another in two lists, and the instance node in none.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains(Vec<u32>);

impl Chains {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn next(&self, row: u32) -> Option<u32> {
        self.0.get(row as usize).copied().filter(|next| *next != 0)
    }

    /// Makes room for so many rows, piece by piece; whether there is.
    pub(super) fn make_room(&mut self, rows: usize, work: &mut Work) -> bool {
        fill(&mut self.0, rows, 0, work)
    }

    /// Puts a row behind another one; there is room for all.
    pub(super) fn put_behind(&mut self, row: u32, new: u32) {
        self.0[new as usize] = self.0[row as usize];
        self.0[row as usize] = new;
    }

    /// The row and those behind it.
    pub(super) fn from(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(row), |row| self.next(*row))
    }
}

/// Invariant: of all rows with one name at one level (replicas), the first is the canonical one; it stands for their common
/// slots and status. It stands in its level's order at the position of each of them.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    pub(super) table: Arc<NodeTable>,
    /// By row.
    pub(super) places: Vec<Place>,
    /// Canonical rows by level, in the order in which their tasks are tried.
    pub(super) orders: Vec<Vec<u32>>,
    /// Behind a canonical row the further ones, in the order of the table.
    pub(super) replicas: Chains,
    /// By node id: a canonical row of that name.
    pub(super) rows: Vec<u32>,
    /// Behind it further canonical rows of the name, at other levels.
    pub(super) more_rows: Chains,
    /// By level of tasks and level above, between them and the root; where tasks may wait.
    below: BTreeMap<(LevelId, LevelId), BelowIndex>,
}

impl Forest {
    /// Without rows.
    pub(super) fn empty(table: Arc<NodeTable>, levels: usize) -> Self {
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

    /// The configuration's number of the row's level; `None` if it has none of that name.
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

    /// The row, its parent, and so on up to the instance node.
    pub(crate) fn upward(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(row), |r| self.parent(*r))
    }

    /// Root first.
    pub(crate) fn path(&self, row: u32) -> Box<[NodeId]> {
        let mut path: Vec<NodeId> = self.upward(row).map(|r| self.node(r)).collect();
        path.reverse();
        path.into()
    }

    pub(crate) fn order(&self, level: LevelId) -> &[u32] {
        self.orders.get(level.index()).map_or(&[], Vec::as_slice)
    }

    /// How to look at all canonical rows of a level fastest.
    pub(crate) fn scan(&self, level: LevelId) -> Scan {
        // Most rows are of the level: from one end of the memory to the other. Else only those that are.
        if self.order(level).len() * 8 > self.len() {
            Scan::Rows(level)
        } else {
            Scan::Order(level)
        }
    }

    /// Steps of a scan.
    pub(crate) fn scan_len(&self, scan: Scan) -> usize {
        match scan {
            Scan::Rows(_) => self.len(),
            Scan::Order(level) => self.order(level).len(),
        }
    }

    /// The canonical row at a step of a scan, if there is one.
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

    /// A canonical row and its replicas.
    pub(crate) fn rows(&self, canonical: u32) -> impl Iterator<Item = u32> + '_ {
        self.replicas.from(canonical)
    }

    /// The canonical row of a name at a level.
    pub(crate) fn row_of(&self, level: LevelId, node: NodeId) -> Option<u32> {
        let mut rows = self.more_rows.from(self.any_row_of(node)?);
        rows.find(|row| self.level(*row) == Some(level))
    }

    /// A canonical row of a name at any level.
    pub(crate) fn any_row_of(&self, node: NodeId) -> Option<u32> {
        self.rows.get(node.index()).copied().filter(|r| *r != NONE)
    }

    /// Whether [`Forest::below`] does not know yet the tasks of a level below the nodes of another.
    pub(crate) fn lacks_below(&self, tasks: LevelId, above: LevelId) -> bool {
        above != LevelId::INSTANCE && above < tasks && !self.below.contains_key(&(tasks, above))
    }

    /// Takes something that nobody needs, to give its memory back with that of all else.
    pub(super) fn take_rest(&mut self, rest: impl IntoIterator<Item = Vec<u32>>) {
        self.orders.extend(rest);
    }

    pub(crate) fn put_below(&mut self, tasks: LevelId, above: LevelId, index: BelowIndex) {
        self.below.insert((tasks, above), index);
    }

    /// Sees to it that [`Forest::below`] knows the tasks of a level below the nodes of another.
    pub(crate) fn index_below(&mut self, tasks: LevelId, above: LevelId) {
        if self.lacks_below(tasks, above) {
            let mut builder = BelowBuilder::new(self, tasks, above);
            builder.build(self, &mut Work::endless());
            self.put_below(tasks, above, builder.finish());
        }
    }

    /// The tasks of a level at or below a node, over all its replicas and theirs.
    pub(crate) fn below(&self, tasks: LevelId, canonical: u32) -> Below<'_> {
        match self.level(canonical) {
            Some(level) if level == tasks => Below::One(self.position(canonical)),
            Some(level) if level != LevelId::INSTANCE => {
                let index = self.below.get(&(tasks, level));
                // Invariant: `Engine::index_forest` follows each change of the jobs, the resources and the forest.
                let index = index.expect("an index of each level where tasks wait");
                index.below(self.position(canonical))
            }
            Some(_) | None => Below::All(self.order(tasks).len() as u32),
        }
    }

    /// Whether a node of this name, at whatever level and whichever replica, is enabled itself.
    pub(crate) fn has_enabled(&self, node: NodeId) -> bool {
        let canonical = self.any_row_of(node).into_iter();
        let mut canonical = canonical.flat_map(|row| self.more_rows.from(row));
        canonical.any(|row| self.rows(row).any(|replica| self.own_enabled(replica)))
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Gives the memory back, little by little; the node table, when all else is gone.
    pub(crate) fn shed(&mut self, work: &mut Work) -> Option<Arc<NodeTable>> {
        let columns = [&mut self.rows, &mut self.replicas.0, &mut self.more_rows.0];
        let mut columns = columns.into_iter().chain(&mut self.orders);
        let is_gone = shed(&mut self.places, work) && columns.all(|column| shed(column, work));
        let mut below = self.below.values_mut();
        let is_gone = is_gone && below.all(|index| index.shed(work));
        is_gone.then(|| Arc::clone(&self.table))
    }
}

/// See [`Forest::scan`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scan {
    /// Row by row.
    Rows(LevelId),
    /// In the order of the level.
    Order(LevelId),
}
