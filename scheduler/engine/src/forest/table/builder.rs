//! Builds a node table from the nodes of the node sources, one source after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;

use brasserie_common::NodeName;
use brasserie_common::collections::SeededState;
use brasserie_common::ids::NameError;
use brasserie_common_config::{
    AddTime, Config, DueTime, LevelId, ManualNodes, NodeNaming, RangeLabel,
};
use hashbrown::HashTable;

use super::{NodeTable, Row, TagColumn, TagSet, TimesGiven};

/// The most nodes of one table: twice the ten million that one scheduler is built for. So a mistyped range ends in an error and not in
/// swapping.
pub const MAX_NODES: usize = 20_000_000;

/// The most bytes of all names together, because the offsets of names have 32 bits.
const MAX_ARENA_BYTES: usize = u32::MAX as usize;

/// The reason why a node cannot be added. Each of them fails the refresh as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error("node {name:?} under {parent:?}: {source}")]
    Name {
        name: String,
        parent: String,
        source: NameError,
    },
    #[error("a node under {parent:?} has an empty name")]
    EmptyName { parent: String },
    #[error(
        "node {name:?} cannot be a child of {parent:?}: there is no level for it below `{level}`; add one to `nodes.levels`"
    )]
    NoLevelBelow {
        name: String,
        parent: String,
        level: String,
    },
    #[error("node {name:?} names a parent that does not come before it")]
    NoSuchParent { name: String },
    #[error("node {name:?} is said to be at level {said} but its parent puts it at level {actual}")]
    WrongLevel {
        name: String,
        said: u16,
        actual: u16,
    },
    #[error(transparent)]
    NameTaken(Box<NameTaken>),
    #[error("more than {MAX_NODES} nodes, or more than 4 GiB of names")]
    TooMany,
    #[error("more than {} different sets of tags", u16::MAX)]
    TooManyTagSets,
}

/// Two nodes of one level with the same name, whose source does not allow that.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name {name:?} occurs twice at level `{level}`: {}; {}",
    self.places(),
    self.remedy()
)]
pub struct NameTaken {
    pub name: String,
    pub level: String,
    /// The parent of the first node.
    pub first: String,
    /// The position of the first node's source, from 1, if the second node has another source.
    pub first_source: Option<usize>,
    /// The parent of the second node.
    pub second: String,
}

impl NameTaken {
    fn places(&self) -> String {
        let Self { first, second, .. } = self;
        let by = self.first_source;
        let by = by.map(|position| format!(" (by node source {position})"));
        match by {
            None if first == second => format!("both under {first:?}"),
            by => format!(
                "under {first:?}{} and under {second:?}",
                by.unwrap_or_default()
            ),
        }
    }

    fn remedy(&self) -> &'static str {
        match self.first == self.second {
            true => {
                "name it once, or set \"names\": \"shared\" on the later source if it is one node"
            }
            false => {
                "set \"names\": \"path\" on the sources, which puts the parent's name and a slash before each name, or \"shared\" if it is one node with several parents"
            }
        }
    }
}

/// The first row of each name at each level. A lookup fills it, so that tables without lookups cost nothing.
#[derive(Clone, Debug, Default)]
struct RowsByName {
    rows: HashTable<u32>,
    /// Number of rows that the index has.
    indexed: usize,
}

/// A [`NodeTable`] under construction.
#[derive(Clone, Debug)]
pub struct NodeTableBuilder {
    table: NodeTable,
    tag_sets: BTreeMap<BTreeSet<String>, TagSet>,
    by_name: RowsByName,
    /// The first row of each source.
    sources: Vec<usize>,
    /// The rows of each `add_time` source.
    timed: Vec<Range<usize>>,
}

impl NodeTableBuilder {
    /// Creates a table with the instance node alone. An invalid `instance_name` is replaced by `instance`.
    pub fn new(instance_name: &str, config: &Config) -> Self {
        let name = match NodeName::try_from(instance_name) {
            Ok(name) if !instance_name.is_empty() => name.as_str().to_owned(),
            Ok(_) | Err(_) => "instance".to_owned(),
        };
        NodeTableBuilder {
            table: NodeTable {
                level_names: config.levels.clone(),
                levels: vec![0],
                parents: vec![u32::MAX],
                enabled: vec![true],
                name_ends: vec![u32::try_from(name.len()).unwrap_or(0)],
                arena: name,
                tags: TagColumn::default(),
                times: TimesGiven::default(),
            },
            tag_sets: BTreeMap::from([(BTreeSet::new(), TagSet::EMPTY)]),
            by_name: RowsByName::default(),
            sources: Vec::new(),
            timed: Vec::new(),
        }
    }

    /// Begins the next source, so that errors name the source of each node.
    pub fn begin_source(&mut self) {
        self.sources.push(self.table.len());
    }

    /// Returns whether the current source has given no nodes so far.
    pub fn source_is_empty(&self) -> bool {
        self.sources.last() == Some(&self.table.len())
    }

    /// Adds the nodes of a `manual` source: parents before children.
    pub fn add_manual(&mut self, manual: &ManualNodes) -> Result<(), NodeError> {
        let ManualNodes { nodes, naming } = manual;
        let mut rows: Vec<Row> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let parent = match node.parent {
                None => Row::ROOT,
                Some(index) => *rows.get(index).ok_or_else(|| NodeError::NoSuchParent {
                    name: node.name.clone(),
                })?,
            };
            let actual = self.table.level(parent).0 + 1;
            if node.level.0 != actual {
                return Err(NodeError::WrongLevel {
                    name: node.name.clone(),
                    said: node.level.0,
                    actual,
                });
            }
            self.check_name(*naming, parent, &node.name)?;
            rows.push(self.add_child(parent, &node.name, node.enabled)?);
        }
        Ok(())
    }

    /// Adds numbered children to every node that is now at the parent level.
    pub fn add_range_label(&mut self, range: &RangeLabel) -> Result<(), NodeError> {
        if range.start > range.end {
            return Ok(());
        }
        let parents = self.rows_at(range.parent_level);
        // This check comes before any node is built, because i64 bounds can ask for more than any memory holds.
        let each = i128::from(range.end) - i128::from(range.start) + 1;
        let room = MAX_NODES.saturating_sub(self.table.len());
        if each.saturating_mul(parents.len() as i128) > room as i128 {
            return Err(NodeError::TooMany);
        }
        let name_of = range.names();
        for parent in parents {
            let parent_name = self.name(parent).to_owned();
            for i in range.start..=range.end {
                let name = name_of(&parent_name, i);
                self.add_named(range.naming, parent, &name, range.enabled)?;
            }
        }
        Ok(())
    }

    /// Adds the children of an `add_time` source, one for each of `times`, to every node that is now at the parent level. A child that an
    /// earlier `add_time` source gave to the same parent is the same node. It is enabled only if each source enables it, and has all their
    /// tags.
    pub fn add_time(&mut self, source: &AddTime, times: &[DueTime]) -> Result<(), NodeError> {
        let parents = self.rows_at(source.parent_level);
        let room = MAX_NODES.saturating_sub(self.table.len());
        if parents.len().saturating_mul(times.len()) > room {
            return Err(NodeError::TooMany);
        }
        let mut labels = Vec::with_capacity(times.len());
        for time in times {
            let label = source
                .format
                .replace("{time}", &time.at.as_secs().to_string());
            labels.push((label, time, self.tag_set(&time.tags)?));
        }
        let begin = self.table.len();
        for parent in parents {
            let parent_name = self.name(parent).to_owned();
            for (label, time, tags) in &labels {
                let name = label.replace("{parent}", &parent_name);
                if let Some(row) = self.timed_before(source.naming, parent, &name) {
                    self.table.enabled[row.index()] &= time.enabled;
                    let both: BTreeSet<String> = self.table.tags(row) | &time.tags;
                    let both = self.tag_set(&both)?;
                    self.table.tags.put(row, both);
                } else {
                    let row = self.add_named(source.naming, parent, &name, time.enabled)?;
                    self.table.tags.put(row, *tags);
                }
            }
        }
        self.timed.push(begin..self.table.len());
        Ok(())
    }

    /// Finds the child that an earlier `add_time` source gave to `parent` under the name that a source with this naming gives.
    fn timed_before(&mut self, naming: NodeNaming, parent: Row, name: &str) -> Option<Row> {
        if naming == NodeNaming::Shared || self.timed.is_empty() {
            return None;
        }
        let named = self.full_name(naming, parent, name);
        let level = LevelId(self.table.level(parent).0 + 1);
        let row = self.by_name.first(&self.table, level, &named)?;
        let is_timed = self.timed.iter().any(|rows| rows.contains(&row.index()));
        (is_timed && self.table.parent(row) == Some(parent)).then_some(row)
    }

    fn tag_set(&mut self, tags: &BTreeSet<String>) -> Result<TagSet, NodeError> {
        if let Some(known) = self.tag_sets.get(tags) {
            return Ok(*known);
        }
        let new = self.table.tags.add_set(tags.clone());
        let new = new.ok_or(NodeError::TooManyTagSets)?;
        self.tag_sets.insert(tags.clone(), new);
        Ok(new)
    }

    /// Returns all nodes that are now at a level, in the order in which they were added.
    pub fn rows_at(&self, level: LevelId) -> Vec<Row> {
        self.table
            .rows()
            .filter(|&row| self.table.level(row) == level)
            .collect()
    }

    pub fn name(&self, row: Row) -> &str {
        self.table.name(row)
    }

    /// Adds one node below `parent`, which must be a row of this builder. `naming` makes its full name from `name`.
    pub fn add_named(
        &mut self,
        naming: NodeNaming,
        parent: Row,
        name: &str,
        enabled: bool,
    ) -> Result<Row, NodeError> {
        let named = self.full_name(naming, parent, name);
        self.check_name(naming, parent, &named)?;
        self.add_child(parent, &named, enabled)
    }

    fn full_name(&self, naming: NodeNaming, parent: Row, name: &str) -> String {
        // An empty name stays empty, so that it is refused.
        let above = (parent != Row::ROOT && !name.is_empty() && parent.index() < self.table.len())
            .then(|| self.table.name(parent));
        naming.name(above, name).into_owned()
    }

    /// Errors if another node of the level below `parent` has the name, unless `naming` allows that.
    fn check_name(&mut self, naming: NodeNaming, parent: Row, name: &str) -> Result<(), NodeError> {
        if naming == NodeNaming::Shared || parent.index() >= self.table.len() {
            return Ok(());
        }
        let level = LevelId(self.table.level(parent).0 + 1);
        let Some(first) = self.by_name.first(&self.table, level, name) else {
            return Ok(());
        };
        let name_of = |row: Row| self.table.name(row).chars().take(100).collect();
        // Row 0 is the root, so the first source begins at row 1.
        let source = self
            .sources
            .partition_point(|&begin| begin <= first.index());
        Err(NodeError::NameTaken(Box::new(NameTaken {
            name: name_of(first),
            level: self.table.level_names[level.index()].clone(),
            first: name_of(self.table.parent(first).unwrap_or(Row::ROOT)),
            first_source: Some(source).filter(|&source| source < self.sources.len()),
            second: name_of(parent),
        })))
    }

    /// Adds one node below `parent`, which must be a row of this builder. Nodes of one level with the same name are replicas.
    pub fn add_child(&mut self, parent: Row, name: &str, enabled: bool) -> Result<Row, NodeError> {
        if parent.index() >= self.table.len() {
            return Err(NodeError::NoSuchParent {
                name: name.to_owned(),
            });
        }
        let parent_name = || self.table.name(parent).to_owned();
        if name.is_empty() {
            return Err(NodeError::EmptyName {
                parent: parent_name(),
            });
        }
        if let Err(source) = NodeName::try_from(name) {
            return Err(NodeError::Name {
                name: name.chars().take(100).collect(),
                parent: parent_name(),
                source,
            });
        }
        let level = self.table.levels[parent.index()] + 1;
        // The last level is `worker`, which has no nodes.
        if usize::from(level) + 1 >= self.table.level_names.len() {
            let above = usize::from(level - 1);
            return Err(NodeError::NoLevelBelow {
                name: name.to_owned(),
                parent: parent_name(),
                level: self
                    .table
                    .level_names
                    .get(above)
                    .cloned()
                    .unwrap_or_default(),
            });
        }
        let end = self.table.arena.len() + name.len();
        if self.table.len() >= MAX_NODES || end > MAX_ARENA_BYTES {
            return Err(NodeError::TooMany);
        }
        let row = Row(u32::try_from(self.table.len()).map_err(|_| NodeError::TooMany)?);
        self.table.arena.push_str(name);
        self.table
            .name_ends
            .push(u32::try_from(end).map_err(|_| NodeError::TooMany)?);
        self.table.levels.push(level);
        self.table.parents.push(parent.0);
        self.table.enabled.push(enabled);
        Ok(row)
    }

    pub fn finish(mut self) -> NodeTable {
        self.table.arena.shrink_to_fit();
        self.table.levels.shrink_to_fit();
        self.table.parents.shrink_to_fit();
        self.table.enabled.shrink_to_fit();
        self.table.name_ends.shrink_to_fit();
        self.table.tags.shrink_to_fit();
        self.table
    }
}

impl RowsByName {
    /// Returns the first row with this name at this level.
    fn first(&mut self, table: &NodeTable, level: LevelId, name: &str) -> Option<Row> {
        let keys = SeededState::default();
        let hash_of = |row: Row| keys.hash_one((table.level(row), table.name(row)));
        for index in self.indexed..table.len() {
            let row = Row(u32::try_from(index).unwrap_or(u32::MAX));
            let is_same = |&other: &u32| {
                let other = Row(other);
                table.level(other) == table.level(row) && table.name(other) == table.name(row)
            };
            let rehash = |&row: &u32| hash_of(Row(row));
            // The first of several rows with one name counts.
            if self.rows.find(hash_of(row), is_same).is_none() {
                self.rows.insert_unique(hash_of(row), row.0, rehash);
            }
        }
        self.indexed = table.len();
        let is_wanted = |&row: &u32| table.level(Row(row)) == level && table.name(Row(row)) == name;
        let found = self.rows.find(keys.hash_one((level, name)), is_wanted);
        found.copied().map(Row)
    }
}

#[cfg(test)]
mod tests;
