//! Maps names to small ids and back. Hashing is keyed, because peers and scripts choose the names.

mod index;
mod marks;

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, Hasher};

use brasserie_common::NodeName;
use brasserie_common::collections::{IdMap, SeededMap, SeededState};
use brasserie_common::fingerprint::Shape;
use brasserie_common::ids::MAX_NAME_BYTES;

use index::NameIndex;
use marks::{Bits, MarkPhase, NameMarks};

use crate::work::WorkBudget;

/// Ids of names, in order of first appearance.
#[derive(Clone, Debug)]
pub(crate) struct Names<N> {
    names: Vec<N>,
    /// The name for ids that were never assigned.
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
        // Invariant: 2^32 names need more memory than any supported machine has.
        let id = u32::try_from(self.names.len()).expect("fewer than 2^32 names");
        self.names.push(name.clone());
        self.ids.insert(name.clone(), id);
        id
    }

    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// Returns the empty name for an id that was never assigned.
    pub(crate) fn get(&self, id: u32) -> &N {
        self.names.get(id as usize).unwrap_or(&self.nobody)
    }

    /// Returns all names in the order of their ids.
    pub(crate) fn all(&self) -> &[N] {
        &self.names
    }
}

/// Number of names that share one text. Few enough that an insertion or removal moves only a few hundred bytes, and many beside the text's
/// own overhead. Even with the longest names, offsets fit into 16 bits.
const BLOCK: usize = 32;
const _: () = assert!(BLOCK * MAX_NAME_BYTES <= u16::MAX as usize);

#[derive(Clone, Debug)]
struct Block {
    text: String,
    /// End of each name in the text.
    ends: [u16; BLOCK],
}

impl Block {
    fn new() -> Self {
        Block {
            text: String::new(),
            ends: [0; BLOCK],
        }
    }

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
            // Invariant: names are checked to be short before they get here.
            *end = u16::try_from(moved).expect("a block of short names");
        }
    }
}

/// Blocks in one list. A list is copied while it grows, which takes some tens of microseconds at most.
const LIST: usize = 1024;

/// Blocks by number. No step takes time that grows with the number of blocks.
#[derive(Clone, Debug, Default)]
struct Blocks {
    /// Invariant: every list but the last has `LIST` blocks, and the last has at least one.
    lists: Vec<Vec<Block>>,
}

impl Blocks {
    fn len(&self) -> usize {
        let last = self.lists.last().map_or(LIST, Vec::len);
        self.lists.len() * LIST + last - LIST
    }

    fn push(&mut self, block: Block) {
        match self.lists.last_mut() {
            Some(list) if list.len() < LIST => list.push(block),
            Some(_) | None => self.lists.push(vec![block]),
        }
    }

    fn pop(&mut self) {
        if let Some(list) = self.lists.last_mut() {
            list.pop();
            self.lists.pop_if(|list| list.is_empty());
        }
    }

    fn at(&self, block: usize) -> &Block {
        &self.lists[block / LIST][block % LIST]
    }

    fn at_mut(&mut self, block: usize) -> &mut Block {
        &mut self.lists[block / LIST][block % LIST]
    }
}

/// Nanoseconds to scan a block whose names are all kept.
const LOOK_COST: u64 = 20;
/// Nanoseconds to rebuild the text of a block.
const BLOCK_COST: u64 = 200;
/// Nanoseconds to hash a name and to find it in cold memory.
const FREE_COST: u64 = 450;

/// Node names, packed into shared texts: ten million separate strings would take more memory than the rest of the engine.
///
/// No step takes time that grows with the number of names, because names are added, found and released while tasks run.
#[derive(Clone, Debug)]
pub(crate) struct NodeNames {
    blocks: Blocks,
    /// Bytes of all names together.
    text_bytes: usize,
    /// Ids from here on are unassigned.
    end: usize,
    /// Released ids below `end`. The lowest ones are assigned first.
    free: Bits,
    ids: NameIndex,
    keys: SeededState,
    /// The ids that are known to be in use, during a reclaim.
    marks: Option<NameMarks>,
    /// Nodes that a caller has noted as missing, and the time since which each is missing.
    missing: IdMap<u32, u32>,
}

impl NodeNames {
    pub(crate) fn new(seed: u64) -> Self {
        NodeNames {
            blocks: Blocks::default(),
            text_bytes: 0,
            end: 0,
            free: Bits::default(),
            ids: NameIndex::default(),
            keys: SeededState(seed),
            marks: None,
            missing: IdMap::default(),
        }
    }

    pub(crate) fn intern(&mut self, name: &NodeName) -> u32 {
        self.intern_checked(name.as_str())
    }

    /// Interns a name from a node table, which has checked it.
    pub(crate) fn intern_text(&mut self, text: &str) -> u32 {
        debug_assert!(NodeName::try_from(text).is_ok());
        self.intern_checked(text)
    }

    /// Prepares for about `count` names.
    pub(crate) fn expect(&mut self, count: usize) {
        let mut ids = std::mem::take(&mut self.ids);
        ids.expect(count, |id| self.keys.hash_one(self.get(id)));
        self.ids = ids;
    }

    fn intern_checked(&mut self, text: &str) -> u32 {
        let hash = self.keys.hash_one(text);
        if let Some(id) = self.find_hashed(hash, text) {
            self.mark(id);
            return id;
        }
        let index = self.free.take_first().unwrap_or(self.end);
        // Invariant: 2^32 names need more memory than any supported machine has.
        let id = u32::try_from(index).expect("fewer than 2^32 names");
        let (block, place) = (index / BLOCK, index % BLOCK);
        if block == self.blocks.len() {
            self.blocks.push(Block::new());
        }
        self.end = self.end.max(index + 1);
        self.blocks.at_mut(block).put(place, text);
        self.text_bytes += text.len();
        if place + 1 == BLOCK {
            self.blocks.at_mut(block).text.shrink_to_fit();
        }
        let mut ids = std::mem::take(&mut self.ids);
        ids.insert(hash, id, |id| self.keys.hash_one(self.get(id)));
        self.ids = ids;
        self.mark(id);
        id
    }

    /// Returns the id of a name. Ignores an unused name even if it is not released yet.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let found = self.find_hashed(self.keys.hash_one(name), name);
        found.filter(|id| {
            !self
                .marks
                .as_ref()
                .is_some_and(|marks| marks.is_unused(*id))
        })
    }

    fn find_hashed(&self, hash: u64, name: &str) -> Option<u32> {
        let shard = self.ids.shard(hash)?;
        shard.find(hash, |id| self.get(*id) == name).copied()
    }

    /// Returns the empty text for an id that was never assigned.
    pub(crate) fn get(&self, id: u32) -> &str {
        let index = id as usize;
        if index >= self.end {
            return "";
        }
        let block = self.blocks.at(index / BLOCK);
        &block.text[block.range(index % BLOCK)]
    }

    /// Returns about how many bytes a copy takes.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * size_of::<Block>() + self.text_bytes + self.ids.bytes()
    }

    /// Iterates over all names in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.end as u32).map(|id| self.get(id))
    }

    /// Writes names and ids into a hash, and during a reclaim also the marks.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(self.iter(), |s, name| s.put(name));
        s.put(format!("{:?}", self.marks));
    }

    pub(crate) fn missing_since(&self, id: u32) -> Option<u32> {
        self.missing.get(&id).copied()
    }

    /// Notes that the node is missing, until [`NodeNames::note_present`] or until the id is released.
    pub(crate) fn note_missing(&mut self, id: u32, since: u32) {
        if self.has(id) {
            self.missing.insert(id, since);
        }
    }

    /// Removes the note that the node is missing.
    pub(crate) fn note_present(&mut self, id: u32) {
        if !self.missing.is_empty() {
            self.missing.remove(&id);
        }
    }

    /// Removes the notes of the nodes that are back. Returns their ids in ascending order.
    pub(crate) fn take_missing(&mut self, is_back: impl Fn(u32) -> bool) -> Vec<u32> {
        let noted = self.missing.keys().copied();
        let mut back: Vec<u32> = noted.filter(|id| is_back(*id)).collect();
        for id in &back {
            self.missing.remove(id);
        }
        back.sort_unstable();
        back
    }

    /// Returns a bound for ids: every assigned id is lower.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Returns how many names have an id.
    pub(crate) fn count(&self) -> usize {
        self.end - self.free.count()
    }

    /// Returns whether a name has this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        (id as usize) < self.end && !self.free.contains(id as usize)
    }

    /// Begins to note which ids are in use: every interned name, and every id passed to [`NodeNames::mark`].
    pub(crate) fn begin_marking(&mut self) {
        self.marks = Some(NameMarks::new(self.end));
    }

    /// Returns whether a reclaim is finding out which ids are in use.
    pub(crate) fn is_marking(&self) -> bool {
        self.marks.is_some()
    }

    /// Notes that an id is in use.
    pub(crate) fn mark(&mut self, id: u32) {
        if let Some(marks) = &mut self.marks {
            marks.mark(id);
        }
    }

    /// Ends the marking. Ids without a mark are unused from now on, and [`NodeNames::sweep`] releases them.
    pub(crate) fn begin_sweeping(&mut self) {
        if let Some(marks) = &mut self.marks {
            marks.sweep(self.blocks.len());
        }
    }

    /// Abandons the reclaim. Names that are not released yet stay.
    pub(crate) fn forget_marks(&mut self) {
        self.marks = None;
    }

    /// Releases unused names, from the last one to the first, then drops empty blocks at the end. Returns whether everything is released.
    pub(crate) fn sweep(&mut self, work: &mut WorkBudget) -> bool {
        let Some(mut marks) = self.marks.take() else {
            return true;
        };
        let MarkPhase::Sweeping { mut rest } = marks.phase() else {
            self.marks = Some(marks);
            return false;
        };
        while work.is_left() && rest > 0 {
            rest -= 1;
            work.spend(LOOK_COST);
            let unused = marks.unused(rest * BLOCK..(rest + 1) * BLOCK);
            let unused: Vec<usize> = unused.filter(|id| self.has(*id as u32)).collect();
            if !unused.is_empty() {
                self.give_back(rest, &unused, work);
            }
        }
        let mut has_more = true;
        while work.is_left() && rest == 0 && has_more {
            work.spend(BLOCK_COST);
            has_more = self.drop_last_block();
        }
        marks.sweep(rest);
        self.marks = Some(marks).filter(|_| has_more);
        !has_more
    }

    fn give_back(&mut self, block: usize, unused: &[usize], work: &mut WorkBudget) {
        work.spend(BLOCK_COST);
        for &id in unused {
            work.spend(FREE_COST);
            self.missing.remove(&(id as u32));
            let text = self.get(id as u32);
            let (hash, len) = (self.keys.hash_one(text), text.len());
            self.text_bytes -= len;
            let mut ids = std::mem::take(&mut self.ids);
            ids.remove(hash, id as u32, |id| self.keys.hash_one(self.get(id)));
            self.ids = ids;
            self.blocks.at_mut(block).put(id % BLOCK, "");
            self.free.insert(id);
        }
        self.blocks.at_mut(block).text.shrink_to_fit();
    }

    /// Drops unused ids at the end of the last block. Returns whether the block is gone, so that the one before may follow.
    fn drop_last_block(&mut self) -> bool {
        let Some(last) = self.blocks.len().checked_sub(1) else {
            return false;
        };
        while self.end > last * BLOCK && self.free.contains(self.end - 1) {
            self.end -= 1;
            self.free.remove(self.end);
        }
        let is_empty = self.end == last * BLOCK;
        if is_empty {
            self.blocks.pop();
        }
        is_empty
    }
}

#[cfg(test)]
mod tests;
