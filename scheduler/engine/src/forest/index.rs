//! A node table under a configuration: order of the tasks of each level, replicas, disabled branches, ids of names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::NodeId;
use brasserie_common::collections::IdMap;
use brasserie_common::rng::Rng;
use brasserie_common_config::{Config, LevelId, NodeOrder};

use super::below::{Below, BelowIndex};
use super::table::{NodeTable, Row};
use crate::names::NodeNames;

const NONE: u32 = u32::MAX;

/// What is asked of a row at every turn, in one place: at millions of nodes each look at another column is a look at memory.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: NodeId,
    /// `NONE` for the instance node.
    parent: u32,
    /// In its level's order.
    position: u32,
    /// `NO_LEVEL` if the configuration does not have it.
    level: LevelId,
    branch: Branch,
}

/// Whether tasks below may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    /// The node and all ancestors are enabled.
    Open,
    Disabled,
}

const NO_LEVEL: LevelId = LevelId(u16::MAX);

/// Invariant: of all rows with one name at one level (replicas), the first is the canonical one; it stands for their common
/// slots and status. It stands in its level's order at the position of each of them.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    table: Arc<NodeTable>,
    /// By row.
    places: Vec<Place>,
    /// Canonical rows by level, in the order in which their tasks are tried.
    orders: Vec<Vec<u32>>,
    /// Further rows of a canonical row.
    replicas: IdMap<u32, Vec<u32>>,
    /// By node id: a canonical row of that name.
    rows: Vec<u32>,
    /// Further canonical rows of a name, at other levels.
    more_rows: IdMap<NodeId, Vec<u32>>,
    /// By level of tasks and level above, between them and the root; where tasks may wait.
    below: BTreeMap<(LevelId, LevelId), BelowIndex>,
}

impl Forest {
    pub(crate) fn new(
        config: &Config,
        table: Arc<NodeTable>,
        names: &mut NodeNames,
        rng: &mut Rng,
    ) -> Self {
        let level_map = table.level_names().iter().map(|name| {
            let level = config.level(name).unwrap_or(NO_LEVEL);
            if level == config.worker_level() {
                NO_LEVEL
            } else {
                level
            }
        });
        let level_map: Vec<LevelId> = level_map.collect();
        let mut forest = Forest {
            places: Vec::with_capacity(table.len()),
            orders: vec![Vec::new(); config.levels.len()],
            replicas: IdMap::default(),
            rows: Vec::new(),
            more_rows: IdMap::default(),
            below: BTreeMap::new(),
            table,
        };
        forest.add_rows(&level_map, names);
        forest.arrange(config.node_order, rng);
        forest
    }

    fn add_rows(&mut self, level_map: &[LevelId], names: &mut NodeNames) {
        let table = Arc::clone(&self.table);
        names.expect(table.len());
        for row in table.rows() {
            let id = NodeId(names.intern_text(table.name(row)));
            let parent = table.parent(row);
            let above = parent.is_none_or(|p| self.is_open(p.0));
            self.places.push(Place {
                node: id,
                parent: parent.map_or(NONE, |p| p.0),
                position: NONE,
                level: level_map[table.level(row).index()],
                branch: if above && table.enabled(row) {
                    Branch::Open
                } else {
                    Branch::Disabled
                },
            });
            let Some(level) = self.level(row.0) else {
                continue;
            };
            match self.row_of(level, id) {
                Some(canonical) => {
                    self.replicas.entry(canonical).or_default().push(row.0);
                    self.places[row.index()].position = self.position(canonical);
                }
                None => self.add_canonical(level, id, row.0),
            }
        }
    }

    fn add_canonical(&mut self, level: LevelId, id: NodeId, row: u32) {
        if self.rows.len() <= id.index() {
            self.rows.resize(id.index() + 1, NONE);
        }
        if self.rows[id.index()] == NONE {
            self.rows[id.index()] = row;
        } else {
            self.more_rows.entry(id).or_default().push(row);
        }
        let order = &mut self.orders[level.index()];
        self.places[row as usize].position = u32::try_from(order.len()).unwrap_or(NONE);
        order.push(row);
    }

    /// Sorts or shuffles each level; the first starts first.
    fn arrange(&mut self, order: NodeOrder, rng: &mut Rng) {
        let mut orders = std::mem::take(&mut self.orders);
        for rows in &mut orders {
            match order {
                NodeOrder::Original => continue,
                NodeOrder::Lexicographic => {
                    rows.sort_by(|a, b| self.table.name(Row(*a)).cmp(self.table.name(Row(*b))));
                }
                NodeOrder::Random => rng.shuffle(rows),
            }
            for (i, &row) in rows.iter().enumerate() {
                let position = u32::try_from(i).unwrap_or(NONE);
                self.places[row as usize].position = position;
                for &replica in self.replicas.get(&row).into_iter().flatten() {
                    self.places[replica as usize].position = position;
                }
            }
        }
        self.orders = orders;
    }

    /// The configuration's number of the row's level; `None` if it has none of that name.
    pub(crate) fn level(&self, row: u32) -> Option<LevelId> {
        let level = self.places[row as usize].level;
        (level != NO_LEVEL).then_some(level)
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

    /// Canonical rows of a level, in the order in which they are fastest to look at.
    pub(crate) fn canonical_rows(&self, level: LevelId) -> impl Iterator<Item = u32> + '_ {
        // Most rows are of the level: from one end of the memory to the other. Else only those that are.
        let is_most = self.order(level).len() * 8 > self.len();
        let rows = (0..self.len() as u32)
            .take_while(move |_| is_most)
            .filter(move |row| self.level(*row) == Some(level) && self.canonical(*row) == *row);
        let order = if is_most { &[][..] } else { self.order(level) };
        rows.chain(order.iter().copied())
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
        let more = if self.replicas.is_empty() {
            None
        } else {
            self.replicas.get(&canonical)
        };
        std::iter::once(canonical).chain(more.into_iter().flatten().copied())
    }

    /// The canonical row of a name at a level.
    pub(crate) fn row_of(&self, level: LevelId, node: NodeId) -> Option<u32> {
        let first = self
            .rows
            .get(node.index())
            .copied()
            .filter(|r| *r != NONE)?;
        if self.level(first) == Some(level) {
            return Some(first);
        }
        self.more_rows
            .get(&node)?
            .iter()
            .copied()
            .find(|r| self.level(*r) == Some(level))
    }

    /// A canonical row of a name at any level.
    pub(crate) fn any_row_of(&self, node: NodeId) -> Option<u32> {
        self.rows.get(node.index()).copied().filter(|r| *r != NONE)
    }

    /// Sees to it that [`Forest::below`] knows the tasks of a level below the nodes of another.
    pub(crate) fn index_below(&mut self, tasks: LevelId, above: LevelId) {
        if above == LevelId::INSTANCE || above >= tasks || self.below.contains_key(&(tasks, above))
        {
            return;
        }
        // Row by row, as children of a node are near each other there, and in the order they are not.
        let index = BelowIndex::new(self.order(above).len(), |found| {
            for row in (0..self.len() as u32).filter(|row| self.level(*row) == Some(tasks)) {
                let over = self.upward(row).find(|r| self.level(*r) == Some(above));
                if let Some(over) = over {
                    found(self.position(over), self.position(row));
                }
            }
        });
        self.below.insert((tasks, above), index);
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
        let more = self.more_rows.get(&node).into_iter().flatten().copied();
        let mut canonical = self.any_row_of(node).into_iter().chain(more);
        canonical.any(|row| self.rows(row).any(|replica| self.own_enabled(replica)))
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}
