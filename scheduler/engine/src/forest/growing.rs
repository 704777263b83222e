//! Builds a forest in slices: row by row, then the order of each level.

use std::sync::Arc;

use brasserie_common::NodeId;
use brasserie_common::rng::Rng;
use brasserie_common_config::{Config, LevelId, NodeOrder};

use super::sorting::Sorting;
use super::{Branch, Forest, NO_LEVEL, NONE, NodeTable, Row, RowPlace};
use crate::names::NodeNames;
use crate::work::{HUGE_PAGE, WorkBudget, cost_to_touch, fill};

/// Nanoseconds to look up a name among all names and to add its row.
const ROW_COST: u64 = 800;
/// Rows whose places are written ahead: those of one huge page, so that the page is cleared in a slice of its own.
const AHEAD: usize = HUGE_PAGE / size_of::<RowPlace>();
/// Nanoseconds to add a new name and to rehash some others.
const NEW_NAME_COST: u64 = 1200;
/// Nanoseconds to put a replica behind its canonical row.
const REPLICA_COST: u64 = 200;
/// Nanoseconds to swap two places of an order.
const SWAP_COST: u64 = 150;
/// Nanoseconds to store a row's position.
const POSITION_COST: u64 = 150;

/// ```text
///   Rows --> Replicas --> Order(level) --> Positions(level) --> Order(next level) ... --> Grown
/// ```
#[derive(Clone, Copy, Debug)]
enum GrowthStage {
    /// All rows before this one exist. Replicas only have the position of their canonical row.
    Rows(usize),
    /// Replicas from this row on are behind their canonical rows.
    Replicas(usize),
    /// Levels before this one are ordered, and this one is being shuffled or sorted.
    Order(usize, Shuffle),
    /// Rows of this level know their positions, up to this position of the level and, at this position, up to this row.
    Positions(usize, usize, Option<u32>),
    /// Nothing is left to do.
    Grown,
}

#[derive(Clone, Copy, Debug)]
enum Shuffle {
    /// Not begun.
    New,
    /// Places from here on have their final rows.
    From(usize),
}

/// The place of a row that does not exist yet.
const UNKNOWN: RowPlace = RowPlace {
    node: NodeId(NONE),
    parent: NONE,
    position: NONE,
    level: NO_LEVEL,
    branch: Branch::Disabled,
};

#[derive(Clone, Debug)]
pub(crate) struct Growing {
    forest: Box<Forest>,
    /// The configuration's level for each level of the table.
    levels: Vec<LevelId>,
    order: NodeOrder,
    has_replicas: bool,
    sorting: Option<Sorting>,
    stage: GrowthStage,
}

impl Growing {
    pub(crate) fn new(config: &Config, table: Arc<NodeTable>, names: &mut NodeNames) -> Self {
        let levels = table.level_names().iter().map(|name| {
            let level = config.level(name).unwrap_or(NO_LEVEL);
            if level == config.worker_level() {
                NO_LEVEL
            } else {
                level
            }
        });
        let levels = levels.collect();
        names.expect(table.len());
        let mut forest = Box::new(Forest::empty(table, config.levels.len()));
        // Reserved memory costs nothing until it is used, and growing step by step may copy everything.
        forest.rows.reserve(names.end() + forest.table.len());
        let rows = forest.table.len();
        forest
            .orders
            .iter_mut()
            .for_each(|order| order.reserve(rows));
        Growing {
            forest,
            levels,
            order: config.node_order,
            has_replicas: false,
            sorting: None,
            stage: GrowthStage::Rows(0),
        }
    }

    pub(crate) fn table(&self) -> &Arc<NodeTable> {
        &self.forest.table
    }

    /// Continues the construction. Returns whether the forest is complete.
    pub(crate) fn grow(
        &mut self,
        names: &mut NodeNames,
        rng: &mut Rng,
        work: &mut WorkBudget,
    ) -> bool {
        while work.is_left() {
            self.stage = match self.stage {
                GrowthStage::Rows(next) => self.add_rows(next, names, work),
                GrowthStage::Replicas(from) => self.chain_replicas(from, work),
                GrowthStage::Order(level, shuffle) => self.arrange(level, shuffle, rng, work),
                GrowthStage::Positions(level, next, row) => {
                    self.store_positions(level, (next, row), work)
                }
                GrowthStage::Grown => return true,
            };
        }
        matches!(self.stage, GrowthStage::Grown)
    }

    #[cfg(test)]
    pub(super) fn is_sorting(&self) -> bool {
        self.sorting.is_some()
    }

    /// Returns the forest, complete or not.
    pub(crate) fn into_forest(mut self) -> Box<Forest> {
        let sorting = self.sorting.into_iter();
        self.forest
            .take_rest(sorting.flat_map(Sorting::into_buffers));
        self.forest
    }

    fn add_rows(
        &mut self,
        first: usize,
        names: &mut NodeNames,
        work: &mut WorkBudget,
    ) -> GrowthStage {
        let forest = &mut *self.forest;
        let table = Arc::clone(&forest.table);
        // There must be room for all ids that exist, because the ids of new names may be far behind.
        if !fill(&mut forest.rows, names.end(), NONE, work) {
            return GrowthStage::Rows(first);
        }
        for index in first..table.len() {
            if !work.is_left() {
                return GrowthStage::Rows(index);
            }
            let ahead = table.len().min((index / AHEAD + 1) * AHEAD);
            if !fill(&mut forest.places, ahead, UNKNOWN, work) {
                return GrowthStage::Rows(index);
            }
            let row = Row(index as u32);
            let known = names.count();
            let id = NodeId(names.intern_text(table.name(row)));
            if names.count() > known {
                work.spend(NEW_NAME_COST);
            }
            let level = self.levels[table.level(row).index()];
            let canonical = forest.row_of(level, id);
            let is_first = level != NO_LEVEL && canonical.is_none();
            let is_elsewhere = is_first && forest.any_row_of(id).is_some();
            if is_elsewhere && !forest.more_rows.make_room(table.len(), work) {
                return GrowthStage::Rows(index);
            }
            work.spend(ROW_COST);
            let parent = table.parent(row);
            let above = parent.is_none_or(|p| forest.is_open(p.0));
            forest.places[index] = RowPlace {
                node: id,
                parent: parent.map_or(NONE, |p| p.0),
                position: NONE,
                level,
                branch: if above && table.enabled(row) {
                    Branch::Open
                } else {
                    Branch::Disabled
                },
            };
            let Some(level) = forest.level(row.0) else {
                continue;
            };
            match canonical {
                Some(canonical) => {
                    forest.places[index].position = forest.position(canonical);
                    // The replicas are chained later, because their list follows the order of the table.
                    self.has_replicas = true;
                }
                None => add_canonical(forest, (level, id), row.0, work),
            }
        }
        forest.rows.shrink_to_fit();
        forest.orders.iter_mut().for_each(Vec::shrink_to_fit);
        match self.has_replicas {
            true => GrowthStage::Replicas(table.len()),
            false => GrowthStage::Order(0, Shuffle::New),
        }
    }

    /// Chains the replicas, from the last row to the first, each directly behind its canonical row.
    fn chain_replicas(&mut self, end: usize, work: &mut WorkBudget) -> GrowthStage {
        let forest = &mut *self.forest;
        if !forest.replicas.make_room(forest.table.len(), work) {
            return GrowthStage::Replicas(end);
        }
        for index in (0..end).rev() {
            if !work.is_left() {
                return GrowthStage::Replicas(index + 1);
            }
            work.spend(REPLICA_COST);
            let row = index as u32;
            let canonical = forest.level(row).and_then(|level| {
                let position = forest.position(row) as usize;
                forest.order(level).get(position).copied()
            });
            if let Some(canonical) = canonical.filter(|canonical| *canonical != row) {
                forest.replicas.put_behind(canonical, row);
            }
        }
        GrowthStage::Order(0, Shuffle::New)
    }

    /// Sorts or shuffles a level. Tasks on the first rows start first.
    fn arrange(
        &mut self,
        level: usize,
        from: Shuffle,
        rng: &mut Rng,
        work: &mut WorkBudget,
    ) -> GrowthStage {
        let Some(rows) = self.forest.orders.get_mut(level) else {
            return GrowthStage::Grown;
        };
        match self.order {
            NodeOrder::Original => return GrowthStage::Order(level + 1, Shuffle::New),
            NodeOrder::Lexicographic => {
                let taken = self.sorting.take();
                let mut sorting = taken.unwrap_or_else(|| Sorting::new(std::mem::take(rows)));
                let table = &self.forest.table;
                if !sorting.sort(work, |a, b| table.name(Row(a)).cmp(table.name(Row(b)))) {
                    self.sorting = Some(sorting);
                    return GrowthStage::Order(level, from);
                }
                self.forest.orders[level] = sorting.into_sorted();
            }
            NodeOrder::Random => {
                let end = match from {
                    Shuffle::New => rows.len(),
                    Shuffle::From(end) => end,
                };
                for i in (1..end).rev() {
                    if !work.is_left() {
                        return GrowthStage::Order(level, Shuffle::From(i + 1));
                    }
                    work.spend(SWAP_COST);
                    rows.swap(i, rng.below(i + 1));
                }
            }
        }
        GrowthStage::Positions(level, 0, None)
    }

    fn store_positions(
        &mut self,
        level: usize,
        (first, mut from): (usize, Option<u32>),
        work: &mut WorkBudget,
    ) -> GrowthStage {
        let Forest {
            orders,
            places,
            replicas,
            ..
        } = &mut *self.forest;
        let rows = orders[level].iter().enumerate().skip(first);
        for (position, &canonical) in rows {
            for row in replicas.from(from.take().unwrap_or(canonical)) {
                if !work.is_left() {
                    return GrowthStage::Positions(level, position, Some(row));
                }
                work.spend(POSITION_COST);
                places[row as usize].position = position as u32;
            }
        }
        GrowthStage::Order(level + 1, Shuffle::New)
    }
}

fn add_canonical(
    forest: &mut Forest,
    (level, id): (LevelId, NodeId),
    row: u32,
    work: &mut WorkBudget,
) {
    if forest.rows.len() <= id.index() {
        forest.rows.resize(id.index() + 1, NONE);
    }
    match forest.rows[id.index()] {
        NONE => forest.rows[id.index()] = row,
        first => forest.more_rows.put_behind(first, row),
    }
    let order = &mut forest.orders[level.index()];
    if order.is_empty() {
        // The first rows of several levels are close to each other, so each level is charged for its first page.
        work.spend(cost_to_touch(order.capacity() * size_of::<u32>()));
    }
    forest.places[row as usize].position = order.len() as u32;
    order.push(row);
}
