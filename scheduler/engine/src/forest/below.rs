//! Indexes of the tasks of a level below each node of a level above. All jobs share them, so that a job that waits at a node keeps one bit
//! for each task there.

use crate::work::{WorkBudget, shed};

/// Positions of the tasks below each node of the upper level, in the order of that level; ascending for each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct BelowIndex {
    pub starts: Vec<u32>,
    pub positions: Vec<u32>,
}

impl BelowIndex {
    pub(super) fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.positions[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    pub(crate) fn below(&self, node: u32) -> Below<'_> {
        Below::Some(self.of(node))
    }

    /// Gives the memory back, step by step. Returns whether all of it is gone.
    pub(super) fn shed(&mut self, work: &mut WorkBudget) -> bool {
        shed(&mut self.starts, work) && shed(&mut self.positions, work)
    }
}

/// The tasks below one node. Their ranks, from 0 on, follow their positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Below<'a> {
    /// The node is the task's own.
    One(u32),
    /// The node is the root. The number is that of all tasks of the level.
    All(u32),
    Some(&'a [u32]),
}

impl Below<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Below::One(_) => 1,
            Below::All(len) => len as usize,
            Below::Some(positions) => positions.len(),
        }
    }

    pub(crate) fn position(self, rank: usize) -> u32 {
        match self {
            Below::One(position) => position,
            Below::All(_) => rank as u32,
            Below::Some(positions) => positions[rank],
        }
    }

    /// Returns the task's rank; `None` if the task is not below the node.
    pub(crate) fn rank(self, position: u32) -> Option<usize> {
        match self {
            Below::One(own) => (own == position).then_some(0),
            Below::All(len) => (position < len).then_some(position as usize),
            Below::Some(positions) => positions.binary_search(&position).ok(),
        }
    }
}
