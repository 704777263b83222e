//! Ids by the hashes of their names. No step takes time that grows with their number.

use hashbrown::HashTable;

/// Average number of names in a shard. Dividing a shard visits each of them, which takes a tenth of a millisecond.
pub(super) const SHARD: usize = 400;
/// Capacity of a shard: shards that are divided next have twice as many names as divided ones.
const ROOM: usize = 2 * SHARD;
/// The most names that are rehashed at once when many are expected: half a millisecond.
const FEW: usize = 4096;

/// Ids by the hashes of their names, in shards that are divided one after the other as names are added (linear hashing). A single table
/// would rehash all names at once, which takes seconds for ten million names.
#[derive(Clone, Debug, Default)]
pub(super) struct NameIndex {
    /// Invariant: with `n` shards, and `m` as the greatest power of two up to `n`, the shards below `n - m` and from `m` on are divided by
    /// one bit more than the others.
    shards: Vec<HashTable<u32>>,
    len: usize,
}

impl NameIndex {
    /// Returns the number of shards.
    #[cfg(test)]
    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Returns the shard of a hash, from bits that the tables themselves do not use.
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

    /// Returns about how many bytes the tables take: they are at least half full, with one byte beside each id.
    pub(super) fn bytes(&self) -> usize {
        2 * self.len * (size_of::<u32>() + 1)
    }

    pub(super) fn shard(&self, hash: u64) -> Option<&HashTable<u32>> {
        self.shards.get(self.place(hash))
    }

    /// Divides the shards now if few names must be rehashed, which saves divisions later.
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
            // The shard will fill up, and growing step by step rehashes each name again.
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

    /// Removes an id. `hash` is the hash of its name.
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

    /// Undoes the last division.
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
