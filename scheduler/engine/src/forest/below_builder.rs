//! Builds the index of the tasks below each node of a level, in slices.

use brasserie_common_config::LevelId;

use super::Forest;
use super::below::BelowIndex;
use crate::work::{WorkBudget, fill, shed};

/// Nanoseconds to find the node above a row, when rows are read in order.
const ROW_COST: u64 = 50;
/// Nanoseconds to find the node above a row that is anywhere in memory.
const POSITION_COST: u64 = 300;
/// The most tasks of a node that are sorted in one step: some tenths of a millisecond.
const MOST_SORTED: u32 = 4096;
const SORT_COST: u64 = 40;
const SUM_COST: u64 = 5;

/// The order in which rows are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScanOrder {
    /// Row by row, where children of a node are close to each other. The tasks found below a node must be sorted.
    Rows,
    /// Position by position, with a cache miss for each. The tasks found below a node are sorted.
    Positions,
}

/// ```text
///   New --> Count --> Sum --> Allocate --> Fill --------------> Shed --> Built
///                                            |                   ^
///                                            +-----> Sort -------+     row by row
/// ```
/// The index is built by position if a node has replicas or very many tasks.
#[derive(Clone, Copy, Debug)]
enum BuildStage {
    /// `starts` and `next` are being allocated.
    New,
    /// `starts` has, one place late, the number of tasks below each node, counted up to this step.
    Count(ScanOrder, ScanStep),
    /// `starts` has the start of the tasks of each node, up to this node.
    Sum(usize),
    /// `positions` is being allocated.
    Allocate,
    /// Tasks up to this step are stored below their nodes; `next` is behind the last one of each node.
    Fill(ScanOrder, ScanStep),
    /// Tasks of the nodes before this one are sorted.
    Sort(usize),
    /// The index is complete, and `next` is being freed.
    Shed,
    /// Nothing is left to do.
    Built,
}

/// A row or a position, depending on the `ScanOrder`.
#[derive(Clone, Copy, Debug, Default)]
struct ScanStep {
    at: usize,
    /// Rows of this position before this row are done.
    row: Option<u32>,
}

/// Builds the index of these levels for [`Forest::below`] if it is missing.
pub(crate) fn index_below(forest: &mut Forest, tasks: LevelId, above: LevelId) {
    if forest.lacks_below(tasks, above) {
        let mut builder = BelowBuilder::new(forest, tasks, above);
        builder.build(forest, &mut WorkBudget::endless());
        forest.put_below(tasks, above, builder.finish());
    }
}

/// A [`BelowIndex`] under construction.
#[derive(Clone, Debug)]
pub(crate) struct BelowBuilder {
    tasks: LevelId,
    above: LevelId,
    stage: BuildStage,
    /// Number of nodes of the upper level.
    nodes: usize,
    index: BelowIndex,
    /// While tasks are counted: the last task of each node, plus one. While tasks are stored: the next free index of each node.
    next: Vec<u32>,
    /// The most tasks below a node.
    most: u32,
    counted: ScanOrder,
}

impl BelowBuilder {
    pub(crate) fn new(forest: &Forest, tasks: LevelId, above: LevelId) -> Self {
        let way = match forest.has_replicas() {
            true => ScanOrder::Positions,
            false => ScanOrder::Rows,
        };
        BelowBuilder {
            tasks,
            above,
            stage: BuildStage::New,
            nodes: forest.order(above).len(),
            index: BelowIndex::default(),
            next: Vec::new(),
            most: 0,
            counted: way,
        }
    }

    /// Returns the level of the tasks and the level of the nodes above.
    pub(crate) fn levels(&self) -> (LevelId, LevelId) {
        (self.tasks, self.above)
    }

    pub(crate) fn finish(self) -> BelowIndex {
        self.index
    }

    /// Leaves the unfinished index to a forest that is being freed, too.
    pub(crate) fn give_up(self, forest: &mut Forest) {
        let BelowIndex { starts, positions } = self.index;
        forest.take_rest([starts, positions, self.next]);
    }

    /// Continues the construction. Returns whether the index is complete.
    pub(crate) fn build(&mut self, forest: &Forest, work: &mut WorkBudget) -> bool {
        while work.is_left() {
            self.stage = match self.stage {
                BuildStage::New => self.make_places(work),
                BuildStage::Count(way, first) => self.count(forest, way, first, work),
                BuildStage::Sum(node) => self.sum(node, work),
                BuildStage::Allocate => self.make_room(work),
                BuildStage::Fill(way, first) => self.fill(forest, way, first, work),
                BuildStage::Sort(node) => self.sort(node, work),
                BuildStage::Shed if shed(&mut self.next, work) => BuildStage::Built,
                BuildStage::Shed => BuildStage::Shed,
                BuildStage::Built => return true,
            };
        }
        matches!(self.stage, BuildStage::Built)
    }

    /// Calls `found` with each node and a task below it, from a step on. Returns the step to continue with if the budget is spent. A pair
    /// may come several times, one after the other if rows are scanned by position.
    fn pairs(
        &self,
        forest: &Forest,
        (way, first): (ScanOrder, ScanStep),
        work: &mut WorkBudget,
        mut found: impl FnMut(usize, u32),
    ) -> Option<ScanStep> {
        let over = |row: u32| {
            let over = forest
                .upward(row)
                .find(|r| forest.level(*r) == Some(self.above));
            over.map(|over| forest.position(over) as usize)
        };
        match way {
            ScanOrder::Rows => {
                for row in first.at..forest.len() {
                    if !work.is_left() {
                        return Some(ScanStep { at: row, row: None });
                    }
                    work.spend(ROW_COST);
                    let row = row as u32;
                    if forest.level(row) == Some(self.tasks)
                        && let Some(over) = over(row)
                    {
                        found(over, forest.position(row));
                    }
                }
            }
            ScanOrder::Positions => {
                let order = forest.order(self.tasks).iter().enumerate();
                let mut from = first.row;
                for (position, &canonical) in order.skip(first.at) {
                    for row in forest.rows(from.take().unwrap_or(canonical)) {
                        if !work.is_left() {
                            return Some(ScanStep {
                                at: position,
                                row: Some(row),
                            });
                        }
                        work.spend(POSITION_COST);
                        if let Some(over) = over(row) {
                            found(over, position as u32);
                        }
                    }
                }
            }
        }
        None
    }

    fn make_places(&mut self, work: &mut WorkBudget) -> BuildStage {
        let len = self.nodes + 1;
        if fill(&mut self.index.starts, len, 0, work) && fill(&mut self.next, len, 0, work) {
            BuildStage::Count(self.counted, ScanStep::default())
        } else {
            BuildStage::New
        }
    }

    fn count(
        &mut self,
        forest: &Forest,
        way: ScanOrder,
        first: ScanStep,
        work: &mut WorkBudget,
    ) -> BuildStage {
        let mut starts = std::mem::take(&mut self.index.starts);
        let mut last = std::mem::take(&mut self.next);
        let rest = self.pairs(forest, (way, first), work, |node, position| {
            if way == ScanOrder::Rows || last[node] != position + 1 {
                last[node] = position + 1;
                starts[node + 1] += 1;
            }
        });
        self.index.starts = starts;
        self.next = last;
        rest.map_or(BuildStage::Sum(0), |step| BuildStage::Count(way, step))
    }

    fn sum(&mut self, first: usize, work: &mut WorkBudget) -> BuildStage {
        let starts = &mut self.index.starts;
        for node in first..starts.len() - 1 {
            if !work.is_left() {
                return BuildStage::Sum(node);
            }
            work.spend(SUM_COST);
            self.most = self.most.max(starts[node + 1]);
            starts[node + 1] += starts[node];
            self.next[node] = starts[node];
        }
        BuildStage::Allocate
    }

    fn make_room(&mut self, work: &mut WorkBudget) -> BuildStage {
        let found = self.index.starts.last().map_or(0, |end| *end as usize);
        if !fill(&mut self.index.positions, found, 0, work) {
            return BuildStage::Allocate;
        }
        if self.most <= MOST_SORTED && self.counted == ScanOrder::Rows {
            BuildStage::Fill(ScanOrder::Rows, ScanStep::default())
        } else {
            BuildStage::Fill(ScanOrder::Positions, ScanStep::default())
        }
    }

    fn fill(
        &mut self,
        forest: &Forest,
        way: ScanOrder,
        first: ScanStep,
        work: &mut WorkBudget,
    ) -> BuildStage {
        let mut positions = std::mem::take(&mut self.index.positions);
        let mut next = std::mem::take(&mut self.next);
        let starts = &self.index.starts;
        let rest = self.pairs(forest, (way, first), work, |node, position| {
            let slot = next[node];
            let is_again = slot > starts[node] && positions[slot as usize - 1] == position;
            if way == ScanOrder::Rows || !is_again {
                positions[slot as usize] = position;
                next[node] += 1;
            }
        });
        self.index.positions = positions;
        self.next = next;
        match (rest, way) {
            (Some(step), _) => BuildStage::Fill(way, step),
            (None, ScanOrder::Rows) => BuildStage::Sort(0),
            (None, ScanOrder::Positions) => BuildStage::Shed,
        }
    }

    fn sort(&mut self, first: usize, work: &mut WorkBudget) -> BuildStage {
        let starts = &self.index.starts;
        for node in first..starts.len() - 1 {
            if !work.is_left() {
                return BuildStage::Sort(node);
            }
            let below = starts[node] as usize..starts[node + 1] as usize;
            work.spend(SUM_COST + SORT_COST * below.len() as u64);
            self.index.positions[below].sort_unstable();
        }
        BuildStage::Shed
    }
}

#[cfg(test)]
mod tests;
