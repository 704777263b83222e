//! Names to small ids and back; keyed hashing, because peers and scripts choose the names.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use brasserie_common::NodeName;
use brasserie_common::collections::{SeededMap, SeededState};
use brasserie_common::ids::MAX_NAME_BYTES;
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

/// Names that share one text. Small, so that taking one out or putting one in moves a few hundred bytes, and large beside the text's
/// own costs; as many of the longest names as there may be end below what 16 bits hold.
const BLOCK: usize = 32;
const _: () = assert!(BLOCK * MAX_NAME_BYTES <= u16::MAX as usize);

#[derive(Clone, Debug)]
struct Block {
    text: String,
    /// Where each name ends.
    ends: [u16; BLOCK],
}

impl Block {
    fn range(&self, place: usize) -> std::ops::Range<usize> {
        let start = match place {
            0 => 0,
            _ => usize::from(self.ends[place - 1]),
        };
        start..usize::from(self.ends[place])
    }

    fn put(&mut self, place: usize, name: &str) {
        let old = self.range(place);
        if old.start == self.text.len() {
            self.text.push_str(name);
        } else {
            self.text.replace_range(old.clone(), name);
        }
        for end in &mut self.ends[place..] {
            let moved = usize::from(*end) - old.len() + name.len();
            // Invariant: names are checked to be short before they come here.
            *end = u16::try_from(moved).expect("a block of short names");
        }
    }
}

/// Node names in texts of many. Ten million of them as values of their own would take more memory than all the rest.
///
/// No step takes time that grows with the number of names: they are added and found while tasks run.
#[derive(Clone, Debug)]
pub(crate) struct NodeNames {
    #[expect(clippy::vec_box, reason = "a longer list of them must soon be copied")]
    blocks: Vec<Box<Block>>,
    /// Ids from here on were never handed out.
    end: usize,
    ids: NameIndex,
    keys: SeededState,
}

impl NodeNames {
    pub(crate) fn new(seed: u64) -> Self {
        NodeNames {
            blocks: Vec::new(),
            end: 0,
            ids: NameIndex::default(),
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

    /// There will be about as many names.
    pub(crate) fn expect(&mut self, count: usize) {
        let mut ids = std::mem::take(&mut self.ids);
        ids.expect(count, |id| self.keys.hash_one(self.get(id)));
        self.ids = ids;
    }

    fn intern_checked(&mut self, text: &str) -> u32 {
        let hash = self.keys.hash_one(text);
        if let Some(id) = self.find_hashed(hash, text) {
            return id;
        }
        // Invariant: 2^32 names would need more memory than any machine that we run on has.
        let id = u32::try_from(self.end).expect("fewer than 2^32 names");
        let (block, place) = (self.end / BLOCK, self.end % BLOCK);
        if place == 0 {
            let (text, ends) = (String::new(), [0; BLOCK]);
            self.blocks.push(Box::new(Block { text, ends }));
        }
        self.end += 1;
        self.blocks[block].put(place, text);
        if place + 1 == BLOCK {
            self.blocks[block].text.shrink_to_fit();
        }
        let mut ids = std::mem::take(&mut self.ids);
        ids.insert(hash, id, |id| self.keys.hash_one(self.get(id)));
        self.ids = ids;
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.find_hashed(self.keys.hash_one(name), name)
    }

    fn find_hashed(&self, hash: u64, name: &str) -> Option<u32> {
        let shard = self.ids.shard(hash)?;
        shard.find(hash, |id| self.get(*id) == name).copied()
    }

    /// Empty for an id that was never handed out.
    pub(crate) fn get(&self, id: u32) -> &str {
        let index = id as usize;
        if index >= self.end {
            return "";
        }
        let block = &self.blocks[index / BLOCK];
        &block.text[block.range(index % BLOCK)]
    }

    /// In the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.end as u32).map(|id| self.get(id))
    }

    /// Ids that were handed out are below.
    pub(crate) fn len(&self) -> usize {
        self.end
    }
}

/// Names of one part of the index: looking at each of them, when the part is divided, takes a tenth of a millisecond.
const SHARD: usize = 400;
/// Room in each part: those that are to be divided next have twice as many names as those that have been.
const ROOM: usize = 2 * SHARD;
/// So few names are put in order anew when many are expected: half a millisecond.
const FEW: usize = 4096;

/// Ids by the hashes of their names, in parts that are divided one after the other as names are added (linear hashing): a single
/// table would be hashed anew as a whole, which takes seconds for ten million names.
#[derive(Clone, Debug, Default)]
struct NameIndex {
    /// Invariant: with `n` of them, those below `n - m` are divided by one bit more than the others, `m` being the greatest power of
    /// two up to `n`.
    shards: Vec<HashTable<u32>>,
    len: usize,
}

impl NameIndex {
    /// Bits of a hash that the tables themselves do not go by.
    fn place(&self, hash: u64) -> usize {
        let bits = (hash >> 24) as usize & 0xffff_ffff;
        let half = self.half();
        match bits & (2 * half - 1) {
            place if place < self.shards.len() => place,
            place => place & (half - 1),
        }
    }

    fn half(&self) -> usize {
        1 << self.shards.len().max(1).ilog2()
    }

    fn shard(&self, hash: u64) -> Option<&HashTable<u32>> {
        self.shards.get(self.place(hash))
    }

    /// Divides at once while that costs nothing, to save it later.
    fn expect(&mut self, count: usize, hash_of: impl Fn(u32) -> u64) {
        let shards = count.div_ceil(SHARD);
        if self.len > FEW || shards <= self.shards.len() {
            return;
        }
        let former = std::mem::take(&mut self.shards);
        self.shards.resize(shards, HashTable::new());
        self.len = 0;
        for id in former.into_iter().flatten() {
            self.insert(hash_of(id), id, &hash_of);
        }
    }

    fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        if self.len >= self.shards.len() * SHARD {
            self.divide(&hash_of);
        }
        let place = self.place(hash);
        let is_large = self.shards.len() > 1;
        let shard = &mut self.shards[place];
        if is_large && shard.is_empty() {
            // It will be full, and growing step by step hashes each name again.
            shard.reserve(ROOM, |id| hash_of(*id));
        }
        shard.insert_unique(hash, id, |id| hash_of(*id));
        self.len += 1;
    }

    fn divide(&mut self, hash_of: &impl Fn(u32) -> u64) {
        self.shards.push(HashTable::new());
        if self.shards.len() == 1 {
            return;
        }
        let new = self.shards.len() - 1;
        let half = 1 << new.ilog2();
        let old = std::mem::take(&mut self.shards[new - half]);
        for place in [new - half, new] {
            self.shards[place].reserve(ROOM, |id| hash_of(*id));
        }
        for id in old {
            let hash = hash_of(id);
            let place = self.place(hash);
            self.shards[place].insert_unique(hash, id, |id| hash_of(*id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_growing_index_finds_every_name() {
        for expected in [0, 10 * SHARD] {
            let mut names = NodeNames::new(1);
            names.expect(expected);
            let count = 9 * SHARD as u32;
            for i in 0..count {
                assert_eq!(names.intern_text(&format!("n{i}")), i);
            }
            assert!(names.ids.shards.len() >= 9);
            for i in 0..count {
                assert_eq!(names.find(&format!("n{i}")), Some(i));
            }
            assert_eq!(names.find("n"), None);
        }
    }

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
