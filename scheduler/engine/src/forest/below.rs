//! Which tasks of a level are below which nodes of a level above: what all jobs share, so that a job that waits at a node keeps one bit
//! for each task there.

/// For each node of the upper level, in its order: the positions of the tasks below it, ascending.
#[derive(Clone, Debug)]
pub(crate) struct BelowIndex {
    starts: Vec<u32>,
    positions: Vec<u32>,
}

impl BelowIndex {
    /// `pairs` calls back with each node and a task below it; always the same, in any order. A pair may come several times.
    pub(crate) fn new(nodes: usize, pairs: impl Fn(&mut dyn FnMut(u32, u32))) -> Self {
        let mut starts = vec![0_u32; nodes + 1];
        pairs(&mut |node, _| starts[node as usize + 1] += 1);
        for i in 0..nodes {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut positions = vec![0_u32; starts[nodes] as usize];
        pairs(&mut |node, position| {
            let slot = &mut next[node as usize];
            positions[*slot as usize] = position;
            *slot += 1;
        });
        let mut kept = 0;
        for node in 0..nodes {
            let range = starts[node] as usize..next[node] as usize;
            positions[range.clone()].sort_unstable();
            starts[node] = kept as u32;
            for i in range {
                let is_new = kept == starts[node] as usize || positions[kept - 1] != positions[i];
                if is_new {
                    positions[kept] = positions[i];
                    kept += 1;
                }
            }
        }
        starts[nodes] = kept as u32;
        positions.truncate(kept);
        BelowIndex { starts, positions }
    }

    fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.positions[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    pub(crate) fn below(&self, node: u32) -> Below<'_> {
        Below::Some(self.of(node))
    }
}

/// The tasks below one node. Their ranks, from 0 on, follow their positions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Below<'a> {
    /// The node is the task's own.
    One(u32),
    /// The node is the root of as many tasks.
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

    /// `None` if the task is not below the node.
    pub(crate) fn rank(self, position: u32) -> Option<usize> {
        match self {
            Below::One(own) => (own == position).then_some(0),
            Below::All(len) => (position < len).then_some(position as usize),
            Below::Some(positions) => positions.binary_search(&position).ok(),
        }
    }
}
