//! Sets of dense ids, one bit each: ids that are in use, and ids that are unused.

use std::ops::Range;

const WORD: usize = u64::BITS as usize;

/// A set of ids that finds its lowest member quickly.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    count: usize,
    /// Words before this one are empty.
    first: usize,
}

impl Bits {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn contains(&self, id: usize) -> bool {
        let word = self.words.get(id / WORD);
        word.is_some_and(|word| word & bit(id) != 0)
    }

    pub(super) fn insert(&mut self, id: usize) {
        let place = id / WORD;
        if self.words.len() <= place {
            self.words.resize(place + 1, 0);
        }
        if self.words[place] & bit(id) == 0 {
            self.words[place] |= bit(id);
            self.count += 1;
            self.first = self.first.min(place);
        }
    }

    pub(super) fn remove(&mut self, id: usize) {
        if self.contains(id) {
            self.words[id / WORD] &= !bit(id);
            self.count -= 1;
        }
    }

    /// Removes and returns the lowest id.
    pub(super) fn take_first(&mut self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        while self.words[self.first] == 0 {
            self.first += 1;
        }
        let id = self.first * WORD + self.words[self.first].trailing_zeros() as usize;
        self.remove(id);
        Some(id)
    }
}

fn bit(id: usize) -> u64 {
    1 << (id % WORD)
}

/// The ids that a reclaim knows to be in use.
#[derive(Clone, Debug)]
pub(super) struct NameMarks {
    /// Marks of the ids that existed at the beginning. Later ids are in use.
    marked: Vec<u64>,
    len: usize,
    phase: MarkPhase,
}

/// ```text
///   Marking ---all that anybody has is marked---> Sweeping ---the rest is given back---> no marks
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MarkPhase {
    /// An id without a mark may be in use.
    Marking,
    /// An id without a mark is unused. Interning its name marks it.
    Sweeping {
        /// Blocks of names that are not scanned yet.
        rest: usize,
    },
}

impl NameMarks {
    pub(super) fn new(len: usize) -> Self {
        NameMarks {
            marked: vec![0; len.div_ceil(WORD)],
            len,
            phase: MarkPhase::Marking,
        }
    }

    pub(super) fn phase(&self) -> MarkPhase {
        self.phase
    }

    /// Notes that every id in use is marked, and that the blocks before `rest` are not scanned yet.
    pub(super) fn sweep(&mut self, rest: usize) {
        self.phase = MarkPhase::Sweeping { rest };
    }

    pub(super) fn mark(&mut self, id: u32) {
        if let Some(word) = self.marked.get_mut(id as usize / WORD) {
            *word |= bit(id as usize);
        }
    }

    fn is_marked(&self, id: usize) -> bool {
        id >= self.len || self.marked[id / WORD] & bit(id) != 0
    }

    /// Returns whether an id is unused and will be released.
    pub(super) fn is_unused(&self, id: u32) -> bool {
        match self.phase {
            MarkPhase::Marking => false,
            MarkPhase::Sweeping { .. } => !self.is_marked(id as usize),
        }
    }

    /// Returns the ids of the range that have no mark.
    pub(super) fn unused(&self, ids: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        // Nearly always all of these ids are in use.
        let are_all_marked = self.marked.get(ids.start / WORD) == Some(&u64::MAX);
        let ids = if are_all_marked { 0..0 } else { ids };
        ids.filter(|id| !self.is_marked(*id))
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
        fn bits_are_a_set(steps in proptest::collection::vec((0u8..3, 0usize..300), 0..200)) {
            let (mut bits, mut model) = (Bits::default(), BTreeSet::new());
            for (kind, id) in steps {
                match kind {
                    0 => {
                        bits.insert(id);
                        model.insert(id);
                    }
                    1 => {
                        bits.remove(id);
                        model.remove(&id);
                    }
                    _ => prop_assert_eq!(bits.take_first(), model.pop_first()),
                }
                prop_assert_eq!(bits.count(), model.len());
                prop_assert_eq!(bits.contains(id), model.contains(&id));
            }
        }
    }
}
