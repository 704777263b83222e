//! Ids by the hashes of their names, at no step in a time that grows with their number.

use hashbrown::HashTable;

/// Names of one part of the index: looking at each of them, when the part is divided, takes a tenth of a millisecond.
pub(super) const SHARD: usize = 400;
/// Room in each part: those that are to be divided next have twice as many names as those that have been.
const ROOM: usize = 2 * SHARD;
/// So few names are put in order anew when many are expected: half a millisecond.
const FEW: usize = 4096;

/// Ids by the hashes of their names, in parts that are divided one after the other as names are added (linear hashing): a single
/// table would be hashed anew as a whole, which takes seconds for ten million names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameIndex {
    /// Invariant: with `n` of them, those below `n - m` are divided by one bit more than the others, `m` being the greatest power of
    /// two up to `n`.
    pub(super) shards: Vec<HashTable<u32>>,
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

    /// About as many as its tables take: they are half full or more, with a byte beside each id.
    pub(super) fn bytes(&self) -> usize {
        2 * self.len * (size_of::<u32>() + 1)
    }

    pub(super) fn shard(&self, hash: u64) -> Option<&HashTable<u32>> {
        self.shards.get(self.place(hash))
    }

    /// Divides at once while that costs nothing, to save it later.
    pub(super) fn expect(&mut self, count: usize, hash_of: impl Fn(u32) -> u64) {
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

    pub(super) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
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

    /// `hash`: of the name that has the id.
    pub(super) fn remove(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        let place = self.place(hash);
        let shard = self.shards.get_mut(place);
        let Some(entry) = shard.and_then(|shard| shard.find_entry(hash, |known| *known == id).ok())
        else {
            return;
        };
        entry.remove();
        self.len -= 1;
        if self.shards.len() > 1 && self.len < self.shards.len() * SHARD / 2 {
            self.unite(&hash_of);
        }
    }

    /// The reverse of the last division.
    fn unite(&mut self, hash_of: &impl Fn(u32) -> u64) {
        let Some(last) = self.shards.pop() else {
            return;
        };
        let part = self.shards.len() - (1 << self.shards.len().ilog2());
        for id in last {
            self.shards[part].insert_unique(hash_of(id), id, |id| hash_of(*id));
        }
    }
}
