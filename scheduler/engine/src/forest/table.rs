//! A node table: the nodes of the node sources as columns, with one text for all names. Parents come before children.

mod builder;

use std::collections::BTreeSet;

use brasserie_common::collections::SeededSet;
use brasserie_common_config::{Config, LevelId, NextTime, ScheduleMemory};

use crate::work::{WorkBudget, cost_to_shed, shed, shed_text};
pub use builder::{MAX_NODES, NameTaken, NodeError, NodeTableBuilder};

/// Index of a node in a [`NodeTable`]. Replicas have a row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

impl Row {
    /// The instance node.
    pub const ROOT: Row = Row(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// All nodes of one refresh. Immutable; the engine receives it as one `Arc`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTable {
    /// Names of the levels that rows refer to, from the configuration under which the sources ran.
    level_names: Vec<String>,
    levels: Vec<u16>,
    parents: Vec<u32>,
    enabled: Vec<bool>,
    name_ends: Vec<u32>,
    arena: String,
    tags: TagColumn,
    times: TimesGiven,
}

/// The times that schedules gave with the nodes of a table. The engine only carries them until the nodes come into force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimesGiven {
    /// Everything that the schedules have given so far.
    pub memory: ScheduleMemory,
    /// Messages for people about times that will never be given.
    pub given_up: Vec<String>,
    /// The next time of each `add_time` source, for people.
    pub next: Vec<SourceTime>,
}

/// The next time of one `add_time` source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceTime {
    /// Number of the source in `node_sources`, from 1.
    pub source: usize,
    /// The level of its nodes.
    pub level: LevelId,
    /// `None` if no more time comes.
    pub next: Option<NextTime>,
}

/// One of the sets of tags that nodes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TagSet(u16);

impl TagSet {
    const EMPTY: TagSet = TagSet(0);
}

/// The tags of nodes. Most nodes have none, and there are few different sets: as many as combinations of schedule items that share a time.
/// So a set is stored once, and nodes behind the last one with tags take no memory.
#[derive(Clone, Debug, PartialEq)]
struct TagColumn {
    /// Different sets. The first is empty.
    sets: Vec<BTreeSet<String>>,
    /// Indexed by row.
    of_row: Vec<TagSet>,
}

impl Default for TagColumn {
    fn default() -> Self {
        TagColumn {
            sets: vec![BTreeSet::new()],
            of_row: Vec::new(),
        }
    }
}

impl TagColumn {
    /// Adds a new set; `None` if there are too many.
    fn add_set(&mut self, tags: BTreeSet<String>) -> Option<TagSet> {
        let new = u16::try_from(self.sets.len()).ok().map(TagSet)?;
        self.sets.push(tags);
        Some(new)
    }

    /// Replaces the tags of a row.
    fn put(&mut self, row: Row, set: TagSet) {
        if let Some(of_row) = self.of_row.get_mut(row.index()) {
            *of_row = set;
        } else if set != TagSet::EMPTY {
            self.of_row.resize(row.index(), TagSet::EMPTY);
            self.of_row.push(set);
        }
    }

    fn of(&self, row: Row) -> &BTreeSet<String> {
        let set = self.of_row.get(row.index()).map_or(0, |set| set.0);
        &self.sets[usize::from(set)]
    }

    fn shrink_to_fit(&mut self) {
        self.of_row.shrink_to_fit();
    }
}

impl NodeTable {
    /// Returns the number of rows, at least 1.
    pub fn len(&self) -> usize {
        self.levels.len()
    }

    /// Returns false, because there is always an instance node.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        (0..u32::try_from(self.levels.len()).unwrap_or(u32::MAX)).map(Row)
    }

    /// Attaches the times that schedules gave.
    pub fn with_times(self, times: TimesGiven) -> NodeTable {
        NodeTable { times, ..self }
    }

    pub fn times(&self) -> &TimesGiven {
        &self.times
    }

    /// Returns the row's level, as an index into [`NodeTable::level_names`].
    pub fn level(&self, row: Row) -> LevelId {
        LevelId(self.levels[row.index()])
    }

    pub fn level_names(&self) -> &[String] {
        &self.level_names
    }

    /// Returns the row's parent; `None` for the instance node.
    pub fn parent(&self, row: Row) -> Option<Row> {
        (row != Row::ROOT).then(|| Row(self.parents[row.index()]))
    }

    /// Returns whether the node itself is enabled. Its ancestors may be disabled.
    pub fn enabled(&self, row: Row) -> bool {
        self.enabled[row.index()]
    }

    /// Returns the node's tags, which filters may require; usually none.
    pub fn tags(&self, row: Row) -> &BTreeSet<String> {
        self.tags.of(row)
    }

    pub fn name(&self, row: Row) -> &str {
        let start = match row.index().checked_sub(1) {
            Some(before) => self.name_ends[before] as usize,
            None => 0,
        };
        &self.arena[start..self.name_ends[row.index()] as usize]
    }

    /// Returns the names for which [`crate::Engine::has_enabled_node`] would be true under this configuration, without an engine.
    pub fn enabled_among<'a>(
        &self,
        config: &Config,
        names: impl Iterator<Item = &'a str>,
    ) -> SeededSet<&'a str> {
        let wanted: SeededSet<&'a str> = names.collect();
        let is_known = |name: &String| {
            let level = config.level(name);
            level.is_some_and(|level| level != config.worker_level())
        };
        let known: Vec<bool> = self.level_names.iter().map(is_known).collect();
        let enabled = self
            .rows()
            .filter(|row| self.enabled(*row) && known.get(self.level(*row).index()) == Some(&true));
        let found = enabled.filter_map(|row| wanted.get(self.name(row)).copied());
        found.collect()
    }

    /// Returns the cost of [`NodeTable::shed`], from the sizes of the columns.
    pub(crate) fn cost_to_shed(&self) -> u64 {
        let NodeTable {
            level_names: _,
            levels,
            parents,
            enabled,
            name_ends,
            arena,
            tags,
            times: _,
        } = self;
        let columns = [
            arena.len(),
            size_of_val(&name_ends[..]),
            size_of_val(&parents[..]),
            size_of_val(&levels[..]),
            size_of_val(&enabled[..]),
            size_of_val(&tags.of_row[..]),
        ];
        cost_to_shed(columns.into_iter().sum())
    }

    /// Gives the memory back, step by step. Returns whether all of it is gone. The table must not be used afterwards.
    pub(crate) fn shed(&mut self, work: &mut WorkBudget) -> bool {
        shed_text(&mut self.arena, work)
            && shed(&mut self.name_ends, work)
            && shed(&mut self.parents, work)
            && shed(&mut self.levels, work)
            && shed(&mut self.enabled, work)
            && shed(&mut self.tags.of_row, work)
    }
}
