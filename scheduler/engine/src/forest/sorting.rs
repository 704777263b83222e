//! Sorts the rows of a level by name, in slices of work, for [`super::growing`]: short sorted runs, then merges of two parts each.
//!
//! The result does not depend on the slices. Every call of `sort` must get the same order. The rows must be distinct, because `merge_one`
//! tells the two parts apart by the row that it takes.

use std::cmp::Ordering;

use crate::work::{WorkBudget, shed};

/// Number of rows in a run, which is sorted in one step: some tens of microseconds.
const RUN: usize = 256;
/// Nanoseconds to compare two names, one of which is in no cache.
const COMPARE_COST: u64 = 150;

#[derive(Clone, Debug)]
pub(super) struct Sorting {
    /// Invariant: while `width` is 0, the first `at` rows are sorted in runs. Afterwards each part of `width` rows is sorted.
    from: Vec<u32>,
    /// The merged rows.
    to: Vec<u32>,
    /// Length of the sorted parts; 0 while runs are sorted.
    width: usize,
    /// Number of rows that are sorted in runs.
    at: usize,
    /// Number of rows taken from each of the two parts that are being merged.
    taken: (usize, usize),
}

impl Sorting {
    pub(super) fn new(rows: Vec<u32>) -> Self {
        Sorting {
            to: Vec::with_capacity(rows.len()),
            from: rows,
            width: 0,
            at: 0,
            taken: (0, 0),
        }
    }

    /// Continues the sort. Returns whether all is sorted and the other half of the memory is freed.
    pub(super) fn sort(
        &mut self,
        work: &mut WorkBudget,
        compare: impl Fn(u32, u32) -> Ordering,
    ) -> bool {
        while self.width == 0 {
            if !work.is_left() {
                return false;
            }
            let end = self.from.len().min(self.at + RUN);
            let run = &mut self.from[self.at..end];
            work.spend(COMPARE_COST * (run.len() * RUN.ilog2() as usize) as u64);
            run.sort_unstable_by(|a, b| compare(*a, *b));
            self.at = end;
            if end == self.from.len() {
                self.width = RUN;
            }
        }
        while self.width < self.from.len() {
            while self.to.len() < self.from.len() {
                if !work.is_left() {
                    return false;
                }
                work.spend(COMPARE_COST);
                self.merge_one(&compare);
            }
            std::mem::swap(&mut self.from, &mut self.to);
            self.to.clear();
            self.width *= 2;
        }
        shed(&mut self.to, work)
    }

    /// Moves the next row of the current pair of parts to `to`.
    fn merge_one(&mut self, compare: &impl Fn(u32, u32) -> Ordering) {
        let pair = self.to.len() / (2 * self.width) * 2 * self.width;
        let (middle, end) = (pair + self.width, pair + 2 * self.width);
        let left = self.from[..middle.min(self.from.len())].get(pair + self.taken.0);
        let right = self.from[..end.min(self.from.len())].get(middle + self.taken.1);
        let next = match (left, right) {
            (Some(left), Some(right)) if compare(*left, *right) == Ordering::Greater => right,
            (Some(left), _) => left,
            // Invariant: `to` is shorter than `from`.
            (None, right) => right.expect("one of two parts has a row left"),
        };
        let next = *next;
        if Some(next) == left.copied() {
            self.taken.0 += 1;
        } else {
            self.taken.1 += 1;
        }
        self.to.push(next);
        if self.to.len().is_multiple_of(2 * self.width) || self.to.len() == self.from.len() {
            self.taken = (0, 0);
        }
    }

    pub(super) fn into_sorted(self) -> Vec<u32> {
        self.from
    }

    /// Returns both buffers, so that their memory is freed in slices. Their content has no order.
    pub(super) fn into_buffers(self) -> [Vec<u32>; 2] {
        [self.from, self.to]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    integration_tests_properties::properties! {
        256;

        #[test]
        fn sorts_in_whatever_slices(
            rows in proptest::collection::vec(0u32..50_000, 0..3000),
            slice in 1u64..10_000_000,
        ) {
            // Rows are distinct.
            let mut seen = BTreeSet::new();
            let rows: Vec<u32> = rows.into_iter().filter(|row| seen.insert(*row)).collect();
            let mut sorting = Sorting::new(rows);
            while !sorting.sort(&mut WorkBudget::new(slice), |a, b| b.cmp(&a)) {}
            prop_assert_eq!(sorting.to.capacity(), 0, "what sorting needed is given back");
            prop_assert_eq!(sorting.into_sorted(), seen.into_iter().rev().collect::<Vec<_>>());
        }
    }
}
