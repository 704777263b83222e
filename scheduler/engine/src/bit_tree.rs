//! A set of small numbers, one bit each, with summary levels, so that finding the next member costs one word for each level.

use crate::work::{WorkBudget, fill, shed};

/// Invariant: bit `i` of a summary is set exactly if word `i` of the level below is not 0. The top level is one word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BitTree {
    levels: Vec<Vec<u64>>,
}

const WORD: usize = 64;

impl Default for BitTree {
    fn default() -> Self {
        BitTree::with_room(0)
    }
}

impl BitTree {
    /// Creates an empty set with room for `0..len`. It grows as needed.
    pub(crate) fn with_room(len: usize) -> Self {
        let mut words = len.div_ceil(WORD).max(1);
        let mut levels = vec![vec![0; words]];
        while words > 1 {
            words = words.div_ceil(WORD);
            levels.push(vec![0; words]);
        }
        BitTree { levels }
    }

    /// Extends an unused set to room for `0..len`, step by step. Returns whether the room is there. Nothing may be inserted before.
    pub(crate) fn make_room(&mut self, len: usize, work: &mut WorkBudget) -> bool {
        let mut words = len.div_ceil(WORD).max(1);
        for level in &mut self.levels {
            if !fill(level, words, 0, work) {
                return false;
            }
            words = words.div_ceil(WORD);
        }
        while self.levels.last().is_some_and(|top| top.len() > 1) {
            let mut level = Vec::new();
            let is_whole = fill(&mut level, words, 0, work);
            self.levels.push(level);
            if !is_whole {
                return false;
            }
            words = words.div_ceil(WORD);
        }
        true
    }

    /// Gives the memory back, step by step. Returns whether all of it is gone. The set must not be used afterwards.
    pub(crate) fn shed(&mut self, work: &mut WorkBudget) -> bool {
        self.levels.iter_mut().all(|level| shed(level, work))
    }

    fn grow(&mut self, len: usize) {
        let mut words = len.div_ceil(WORD).max(1);
        for level in &mut self.levels {
            if level.len() < words {
                level.resize(words, 0);
            }
            words = words.div_ceil(WORD);
        }
        while let Some(top) = self.levels.last()
            && top.len() > 1
        {
            let mut summary = vec![0; top.len().div_ceil(WORD)];
            for (i, _) in top.iter().enumerate().filter(|(_, word)| **word != 0) {
                summary[i / WORD] |= 1 << (i % WORD);
            }
            self.levels.push(summary);
        }
    }

    pub(crate) fn insert(&mut self, index: usize) {
        if index / WORD >= self.levels[0].len() {
            self.grow(index + 1);
        }
        let mut i = index;
        for level in &mut self.levels {
            let word = &mut level[i / WORD];
            let summarised = *word != 0;
            *word |= 1 << (i % WORD);
            if summarised {
                return;
            }
            i /= WORD;
        }
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let mut i = index;
        for level in &mut self.levels {
            let Some(word) = level.get_mut(i / WORD) else {
                return;
            };
            *word &= !(1 << (i % WORD));
            if *word != 0 {
                return;
            }
            i /= WORD;
        }
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.levels[0]
            .get(index / WORD)
            .is_some_and(|word| word & (1 << (index % WORD)) != 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.levels
            .last()
            .is_none_or(|top| top.iter().all(|w| *w == 0))
    }

    pub(crate) fn first(&self) -> Option<usize> {
        self.next_from(0)
    }

    /// Returns the smallest member from `start` on.
    pub(crate) fn next_from(&self, start: usize) -> Option<usize> {
        let mut i = start;
        for (depth, level) in self.levels.iter().enumerate() {
            let word = level.get(i / WORD)? & (u64::MAX << (i % WORD));
            if word != 0 {
                let found = (i / WORD) * WORD + word.trailing_zeros() as usize;
                return Some(self.descend(depth, found));
            }
            i = i / WORD + 1;
        }
        None
    }

    /// Returns the smallest member from `start` on, or else the smallest of all.
    pub(crate) fn next_cyclic(&self, start: usize) -> Option<usize> {
        self.next_from(start).or_else(|| self.first())
    }

    fn descend(&self, depth: usize, found: usize) -> usize {
        let mut i = found;
        for level in self.levels[..depth].iter().rev() {
            i = i * WORD + level[i].trailing_zeros() as usize;
        }
        i
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(self.first(), |i| self.next_from(i + 1))
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
        fn agrees_with_an_ordered_set(
            room in 0usize..9000,
            steps in proptest::collection::vec((0u8..3, 0usize..300_000), 1..200),
        ) {
            let mut tree = BitTree::with_room(room);
            let mut model = BTreeSet::new();
            for (kind, i) in steps {
                if kind == 0 {
                    tree.remove(i);
                    model.remove(&i);
                } else {
                    tree.insert(i);
                    model.insert(i);
                }
                prop_assert_eq!(tree.contains(i), model.contains(&i));
                prop_assert_eq!(tree.next_from(i / 2), model.range(i / 2..).next().copied());
                prop_assert_eq!(tree.is_empty(), model.is_empty());
            }
            prop_assert_eq!(tree.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
