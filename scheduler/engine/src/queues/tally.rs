//! One job's histogram, kept up to date from its first query on.

use std::collections::BTreeMap;

use brasserie_common::StatusBits;
use brasserie_common::collections::IdMap;

use crate::forest::Forest;
use crate::work::{WorkBudget, cost_to_shed, shed};

/// Number of status bits.
const BITS: usize = 12;

type Children = IdMap<u32, [u32; BITS]>;

/// Rows whose children are counted in one map. A map takes a megabyte at most, so it is freed in one step.
const ROWS: usize = 8192;

/// The value of a row without bits; no real set of bits has it.
const ABSENT: StatusBits = StatusBits(u16::MAX);

/// Invariant: a row above tasks has the union of its children's bits and counts how many children have each bit. `levels` counts the rows
/// of each level by their bits.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    /// Indexed by row; `ABSENT` for rows that neither are tasks nor have tasks below.
    bits: Vec<StatusBits>,
    /// Indexed by row divided by `ROWS`.
    children: Vec<Children>,
    levels: Vec<BTreeMap<StatusBits, u64>>,
}

impl Tally {
    pub(crate) fn new(rows: usize, levels: usize) -> Self {
        Tally {
            bits: vec![ABSENT; rows],
            children: vec![Children::default(); rows.div_ceil(ROWS)],
            levels: vec![BTreeMap::new(); levels],
        }
    }

    /// Returns about how many bytes a copy takes.
    pub(crate) fn bytes(&self) -> usize {
        let children: usize = self.children.iter().map(bytes_of).sum();
        self.bits.len() * size_of::<StatusBits>() + children
    }

    /// Gives the memory back, step by step. Returns whether all of it is gone. The tally must not be used afterwards.
    pub(crate) fn shed(&mut self, work: &mut WorkBudget) -> bool {
        while let Some(children) = self.children.pop() {
            work.spend(cost_to_shed(bytes_of(&children)));
            if !work.is_left() {
                return false;
            }
        }
        shed(&mut self.bits, work)
    }

    pub(crate) fn of(&self, row: u32) -> Option<StatusBits> {
        Some(self.bits[row as usize]).filter(|bits| *bits != ABSENT)
    }

    /// Returns how many rows have which bits, by level.
    pub(crate) fn levels(&self) -> &[BTreeMap<StatusBits, u64>] {
        &self.levels
    }

    /// Sets the bits of a task's row.
    pub(crate) fn set(&mut self, forest: &Forest, row: u32, bits: StatusBits) {
        let mut before = self.replace(forest, row, bits);
        let (mut row, mut now) = (row, bits);
        while before != Some(now)
            && let Some(parent) = forest.parent(row)
        {
            let above = self.of(parent);
            let union = self.count(parent, before.unwrap_or_default(), now);
            (row, now) = (parent, union);
            before = above;
            self.replace(forest, row, now);
        }
    }

    /// Counts a child's new bits instead of its old ones. Returns the union of all children's bits.
    fn count(&mut self, parent: u32, old: StatusBits, new: StatusBits) -> StatusBits {
        let counts = &mut self.children[parent as usize / ROWS];
        let counts = counts.entry(parent).or_default();
        let mut union = StatusBits::EMPTY;
        for (i, count) in counts.iter_mut().enumerate() {
            let bit = StatusBits(1 << i);
            *count = *count + u32::from(new.has(bit)) - u32::from(old.has(bit));
            if *count > 0 {
                union = union.with(bit);
            }
        }
        union
    }

    fn replace(&mut self, forest: &Forest, row: u32, bits: StatusBits) -> Option<StatusBits> {
        let before = self.of(row);
        self.bits[row as usize] = bits;
        let level = forest.level(row).map_or(usize::MAX, |level| level.index());
        let Some(buckets) = self.levels.get_mut(level) else {
            return before;
        };
        if before == Some(bits) {
            return before;
        }
        if let Some(before) = before
            && let Some(count) = buckets.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                buckets.remove(&before);
            }
        }
        *buckets.entry(bits).or_default() += 1;
        before
    }
}

fn bytes_of(children: &Children) -> usize {
    children.capacity() * (size_of::<(u32, [u32; BITS])>() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queues::columns::Columns;

    #[test]
    fn a_tally_goes_piece_by_piece_and_before_its_columns() {
        let parts = 40;
        let mut tally = Tally::new(parts * ROWS, 2);
        for row in (0..parts * ROWS).step_by(ROWS) {
            tally.count(row as u32, StatusBits::EMPTY, StatusBits::DONE);
        }
        assert_eq!(tally.children.len(), parts, "of so many rows each");
        let mut columns = Columns::default();
        columns.tally = Box::new(tally).into();
        let mut slices = 1;
        while !columns.shed(&mut WorkBudget::new(1)) {
            slices += 1;
        }
        assert!(slices > parts, "{slices}");
        let tally = columns.tally.get().unwrap();
        assert_eq!((tally.bytes(), columns.len()), (0, 0));
    }
}
