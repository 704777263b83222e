//! Names to small ids and back; keyed hashing, because peers and scripts choose the names.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use brasserie_common::NodeName;
use brasserie_common::collections::{SeededMap, SeededState};
use hashbrown::HashTable;

/// Ids in order of first appearance.
#[derive(Clone, Debug)]
pub(crate) struct Names<N> {
    names: Vec<N>,
    /// Answers for ids that nobody handed out.
    nobody: N,
    ids: SeededMap<N, u32>,
}

impl<N: Clone + Default + Eq + Hash + Borrow<str>> Names<N> {
    pub(crate) fn new(seed: u64) -> Self {
        Names {
            names: Vec::new(),
            nobody: N::default(),
            ids: SeededMap::with_hasher(SeededState(seed)),
        }
    }

    pub(crate) fn intern(&mut self, name: &N) -> u32 {
        if let Some(&id) = self.ids.get(name.borrow()) {
            return id;
        }
        // Invariant: 2^32 names would need more memory than any machine that we run on has.
        let id = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// The empty name for an id that was never handed out.
    pub(crate) fn get(&self, id: u32) -> &N {
        self.names.get(id as usize).unwrap_or(&self.nobody)
    }

    /// In the order of their ids.
    pub(crate) fn all(&self) -> &[N] {
        &self.names
    }
}

/// Names whose text begins one place after the other: as many as their first position is kept for, in 64 bits.
const BLOCK: usize = 256;

/// Node names in one text. Ten million of them as values of their own would take more memory than all the rest.
#[derive(Clone, Debug)]
pub(crate) struct NodeNames {
    text: String,
    /// Where every [`BLOCK`]th name begins.
    blocks: Vec<u64>,
    /// Where each name ends, from the beginning of its block: a block holds at most [`BLOCK`] times the longest name.
    ends: Vec<u32>,
    ids: HashTable<u32>,
    keys: SeededState,
}

impl NodeNames {
    pub(crate) fn new(seed: u64) -> Self {
        NodeNames {
            text: String::new(),
            blocks: Vec::new(),
            ends: Vec::new(),
            ids: HashTable::new(),
            keys: SeededState(seed),
        }
    }

    pub(crate) fn intern(&mut self, name: &NodeName) -> u32 {
        self.intern_checked(name.as_str())
    }

    /// `text` comes from a node table, which checked it.
    pub(crate) fn intern_text(&mut self, text: &str) -> u32 {
        debug_assert!(NodeName::try_from(text).is_ok());
        self.intern_checked(text)
    }

    /// There will be as many names: tables that grow step by step are hashed anew at each.
    pub(crate) fn expect(&mut self, count: usize) {
        let more = count.saturating_sub(self.len());
        let mut ids = std::mem::take(&mut self.ids);
        ids.reserve(more, |id| self.keys.hash_one(self.get(*id)));
        self.ids = ids;
        self.ends.reserve(more);
    }

    fn intern_checked(&mut self, text: &str) -> u32 {
        let hash = self.keys.hash_one(text);
        if let Some(&id) = self.ids.find(hash, |id| self.get(*id) == text) {
            return id;
        }
        let index = self.ends.len();
        // Invariant: 2^32 names would need more memory than any machine that we run on has.
        let id = u32::try_from(index).expect("fewer than 2^32 names");
        if index.is_multiple_of(BLOCK) {
            self.blocks.push(self.text.len() as u64);
        }
        self.text.push_str(text);
        let end = self.text.len() as u64 - self.blocks[index / BLOCK];
        // Invariant: names are checked to be short before they come here.
        self.ends
            .push(u32::try_from(end).expect("a block of short names"));
        let mut ids = std::mem::take(&mut self.ids);
        ids.insert_unique(hash, id, |id| self.keys.hash_one(self.get(*id)));
        self.ids = ids;
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let hash = self.keys.hash_one(name);
        self.ids.find(hash, |id| self.get(*id) == name).copied()
    }

    /// Empty for an id that was never handed out.
    pub(crate) fn get(&self, id: u32) -> &str {
        let index = id as usize;
        let Some(&end) = self.ends.get(index) else {
            return "";
        };
        // Invariant: a text of ours fits the memory.
        let block = self.blocks[index / BLOCK] as usize;
        let start = match index % BLOCK {
            0 => 0,
            _ => self.ends[index - 1] as usize,
        };
        &self.text[block + start..block + end as usize]
    }

    /// In the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).map(|id| self.get(id))
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_names_keep_their_ids_over_many_blocks() {
        let mut names = NodeNames::new(5);
        let name = |i: usize| format!("{}{i}", "x".repeat(i % 7));
        for i in 0..3 * BLOCK {
            assert_eq!(names.intern_text(&name(i)), i as u32);
        }
        assert_eq!(names.intern(&NodeName::default()), 3 * BLOCK as u32);
        for i in 0..3 * BLOCK {
            assert_eq!(names.get(i as u32), name(i));
            assert_eq!(names.find(&name(i)), Some(i as u32));
            assert_eq!(names.intern_text(&name(i)), i as u32);
        }
        assert_eq!(names.len(), 3 * BLOCK + 1);
        assert_eq!(names.find("nobody"), None);
        assert_eq!(names.get(u32::MAX), "");
        assert_eq!(names.iter().nth(BLOCK), Some(name(BLOCK).as_str()));
    }
}
