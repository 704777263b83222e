//! A node table under a configuration: order of the tasks of each level, replicas, disabled branches, ids of names.

use std::sync::Arc;

use brasserie_common::collections::IdMap;
use brasserie_common::rng::Rng;
use brasserie_common::NodeId;
use brasserie_common_config::{Config, LevelId, NodeOrder};

use super::table::{NodeTable, Row};
use crate::names::NodeNames;

const NONE: u32 = u32::MAX;

/// Invariant: of all rows with one name at one level (replicas), the first is the canonical one; it stands for their common
/// slots and status. `orders[level][position[row]]` is the canonical row of `row`.
#[derive(Clone, Debug)]
pub(crate) struct Forest {
    table: Arc<NodeTable>,
    /// By the table's level numbers; `None` if the configuration no longer has the level.
    level_map: Vec<Option<LevelId>>,
    nodes: Vec<NodeId>,
    /// The node and all ancestors are enabled.
    open: Vec<bool>,
    position: Vec<u32>,
    /// Canonical rows by level, in the order in which their tasks are tried.
    orders: Vec<Vec<u32>>,
    /// Further rows of a canonical row.
    replicas: IdMap<u32, Vec<u32>>,
    /// By node id: a canonical row of that name.
    rows: Vec<u32>,
    /// Further canonical rows of a name, at other levels.
    more_rows: IdMap<NodeId, Vec<u32>>,
}

impl Forest {
    pub(crate) fn new(
        config: &Config,
        table: Arc<NodeTable>,
        names: &mut NodeNames,
        rng: &mut Rng,
    ) -> Self {
        let level_map = table.level_names().iter().map(|name| {
            let level = config.level(name)?;
            (level != config.worker_level()).then_some(level)
        });
        let mut forest = Forest {
            level_map: level_map.collect(),
            nodes: Vec::with_capacity(table.len()),
            open: Vec::with_capacity(table.len()),
            position: vec![NONE; table.len()],
            orders: vec![Vec::new(); config.levels.len()],
            replicas: IdMap::default(),
            rows: Vec::new(),
            more_rows: IdMap::default(),
            table,
        };
        forest.add_rows(names);
        forest.arrange(config.node_order, rng);
        forest
    }

    fn add_rows(&mut self, names: &mut NodeNames) {
        let table = Arc::clone(&self.table);
        for row in table.rows() {
            let id = NodeId(names.intern_text(table.name(row)));
            self.nodes.push(id);
            let above = table.parent(row).is_none_or(|p| self.open[p.index()]);
            self.open.push(above && table.enabled(row));
            let Some(level) = self.level(row.0) else {
                continue;
            };
            match self.row_of(level, id) {
                Some(canonical) => {
                    self.replicas.entry(canonical).or_default().push(row.0);
                    self.position[row.index()] = self.position[canonical as usize];
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
        self.position[row as usize] = u32::try_from(order.len()).unwrap_or(NONE);
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
                self.position[row as usize] = position;
                for &replica in self.replicas.get(&row).into_iter().flatten() {
                    self.position[replica as usize] = position;
                }
            }
        }
        self.orders = orders;
    }

    /// The configuration's number of the row's level.
    pub(crate) fn level(&self, row: u32) -> Option<LevelId> {
        *self.level_map.get(self.table.level(Row(row)).index())?
    }

    pub(crate) fn node(&self, row: u32) -> NodeId {
        self.nodes[row as usize]
    }

    pub(crate) fn name(&self, row: u32) -> &str {
        self.table.name(Row(row))
    }

    pub(crate) fn own_enabled(&self, row: u32) -> bool {
        self.table.enabled(Row(row))
    }

    pub(crate) fn is_open(&self, row: u32) -> bool {
        self.open[row as usize]
    }

    pub(crate) fn parent(&self, row: u32) -> Option<u32> {
        self.table.parent(Row(row)).map(|r| r.0)
    }

    /// The row, its parent, and so on up to the instance node.
    pub(crate) fn upward(&self, row: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(Some(row), |r| self.parent(*r))
    }

    pub(crate) fn order(&self, level: LevelId) -> &[u32] {
        self.orders.get(level.index()).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn position(&self, row: u32) -> u32 {
        self.position[row as usize]
    }

    pub(crate) fn canonical(&self, row: u32) -> u32 {
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

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}
