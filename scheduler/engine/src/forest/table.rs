//! A node table: what the node sources gave, as columns and one arena of names; parents come before children.

use brasserie_common_config::LevelId;

/// Position of a node in a [`NodeTable`]. Replicas have a row each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Row(pub u32);

impl Row {
    /// The instance node.
    pub const ROOT: Row = Row(0);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// All nodes of one refresh. Immutable; crosses into the engine as one `Arc`.
///
/// Invariant: row 0 is the instance node, alone at level 0; every other row's parent is an earlier row, one level above.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeTable {
    /// Names of the levels that rows refer to, as of the configuration that the sources ran under.
    pub(crate) level_names: Vec<String>,
    pub(crate) levels: Vec<u16>,
    pub(crate) parents: Vec<u32>,
    pub(crate) enabled: Vec<bool>,
    pub(crate) name_ends: Vec<u32>,
    pub(crate) arena: String,
}

impl NodeTable {
    /// Number of rows, at least 1.
    pub fn len(&self) -> usize {
        self.levels.len()
    }

    /// Never: there is always an instance node.
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }

    pub fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        (0..u32::try_from(self.levels.len()).unwrap_or(u32::MAX)).map(Row)
    }

    /// Level by the numbering of [`NodeTable::level_names`].
    pub fn level(&self, row: Row) -> LevelId {
        LevelId(self.levels[row.index()])
    }

    pub fn level_names(&self) -> &[String] {
        &self.level_names
    }

    /// `None` for the instance node.
    pub fn parent(&self, row: Row) -> Option<Row> {
        (row != Row::ROOT).then(|| Row(self.parents[row.index()]))
    }

    /// Whether the node itself is enabled; its ancestors may not be.
    pub fn enabled(&self, row: Row) -> bool {
        self.enabled[row.index()]
    }

    pub fn name(&self, row: Row) -> &str {
        let start = match row.index().checked_sub(1) {
            Some(before) => self.name_ends[before] as usize,
            None => 0,
        };
        &self.arena[start..self.name_ends[row.index()] as usize]
    }
}
