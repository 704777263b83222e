//! The sparse index of a segment: the ids, streams and tasks that each stretch of about 64 KiB can hold.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use brasserie_common::logs::{LineId, LogStream};
use brasserie_common_runtime::files;
use siphasher::sip::SipHasher13;

use super::codes::{checksum, stream_code};

/// The smallest stretch of one entry: fine enough to seek within a millisecond's reading, coarse enough that the index is a quarter of a
/// per cent of the log.
const BLOCK_BYTES: u64 = 64 * 1024;
const BLOOM_WORDS: usize = 16;
const BLOOM_PROBES: u32 = 3;
const INDEX_MAGIC: u64 = 0x3158_4449_5353_5242;

/// Set of names with false positives and no false negatives. With 1024 bits and three probes, a block of short lines from a hundred tasks
/// answers wrongly for one name in sixty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bloom([u64; BLOOM_WORDS]);

impl Bloom {
    const EMPTY: Bloom = Bloom([0; BLOOM_WORDS]);

    pub(super) fn of_job(name: &[u8]) -> Self {
        Bloom::of(1, name)
    }

    pub(super) fn of_node(name: &[u8]) -> Self {
        Bloom::of(2, name)
    }

    fn of(kind: u8, name: &[u8]) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write_u8(kind);
        hasher.write(name);
        let hash = hasher.finish();
        let mut bloom = Bloom::EMPTY;
        for probe in 0..BLOOM_PROBES {
            let bit = (hash >> (probe * 10)) as usize % (BLOOM_WORDS * 64);
            bloom.0[bit / 64] |= 1 << (bit % 64);
        }
        bloom
    }

    fn merge(&mut self, other: &Bloom) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine |= theirs;
        }
    }

    pub(super) fn may_contain(&self, name: &Bloom) -> bool {
        self.0
            .iter()
            .zip(name.0)
            .all(|(have, want)| have & want == want)
    }
}

/// The lines that a stretch of a segment can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub offset: u64,
    pub first: LineId,
    pub last: LineId,
    /// Bit `n` is set if a line of the stream with code `n` is inside.
    pub streams: u64,
    pub names: Bloom,
}

impl Block {
    pub(super) const EMPTY: Block = Block {
        offset: 0,
        first: LineId(i64::MAX),
        last: LineId(i64::MIN),
        streams: 0,
        names: Bloom::EMPTY,
    };

    pub(super) fn add(&mut self, id: LineId, stream: LogStream, job: &Bloom, node: &Bloom) {
        self.add_raw(id, stream_code(stream), job, node);
    }

    pub(super) fn add_raw(&mut self, id: LineId, stream_code: u8, job: &Bloom, node: &Bloom) {
        self.first = self.first.min(id);
        self.last = self.last.max(id);
        self.streams |= 1 << (stream_code % 64);
        self.names.merge(job);
        self.names.merge(node);
    }

    pub(super) fn may_hold_stream(&self, stream: LogStream) -> bool {
        self.streams & (1 << stream_code(stream)) != 0
    }

    fn merge(&mut self, other: &Block) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.streams |= other.streams;
        self.names.merge(&other.names);
    }
}

/// All blocks of a segment in order, and the end of the good bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentIndex {
    pub blocks: Vec<Block>,
    pub end: u64,
}

impl SegmentIndex {
    /// Adds a frame of `length` bytes that was written at `self.end`.
    pub(super) fn push(&mut self, frame: &Block, length: u64) {
        match self.blocks.last_mut() {
            Some(block) if self.end - block.offset < BLOCK_BYTES => block.merge(frame),
            Some(_) | None => self.blocks.push(Block {
                offset: self.end,
                ..frame.clone()
            }),
        }
        self.end += length;
    }

    pub(super) fn last_id(&self) -> Option<LineId> {
        self.blocks.last().map(|b| b.last)
    }

    /// Returns the offset and length of the block at `position`.
    pub(super) fn extent(&self, position: usize) -> (u64, usize) {
        let start = self.blocks[position].offset;
        let end = self
            .blocks
            .get(position + 1)
            .map_or(self.end, |next| next.offset);
        (
            start,
            usize::try_from(end - start).expect("a block is at most two frames long"),
        )
    }

    /// Returns the index file that belongs to a segment file.
    pub(super) fn path_of(segment: &Path) -> PathBuf {
        segment.with_extension("idx")
    }

    /// Writes the index beside its segment, whole or not at all.
    pub(super) fn save(&self, segment: &Path) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(32 + self.blocks.len() * 160);
        bytes.extend_from_slice(&INDEX_MAGIC.to_le_bytes());
        bytes.extend_from_slice(&self.end.to_le_bytes());
        for block in &self.blocks {
            bytes.extend_from_slice(&block.offset.to_le_bytes());
            bytes.extend_from_slice(&block.first.0.to_le_bytes());
            bytes.extend_from_slice(&block.last.0.to_le_bytes());
            bytes.extend_from_slice(&block.streams.to_le_bytes());
            for word in block.names.0 {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        let target = Self::path_of(segment);
        let temporary = target.with_extension("idx.new");
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        let created = files::open_own(&temporary, &mut options);
        let written = created.and_then(|mut file| file.write_all(&bytes));
        match written.and_then(|()| fs::rename(&temporary, &target)) {
            Ok(()) => Ok(()),
            Err(e) => {
                // The removal is best effort: a full disk should not also keep the half-written file.
                let _ = fs::remove_file(&temporary);
                Err(e)
            }
        }
    }

    /// Loads an index. `None` if the file is missing or damaged; the segment can then be scanned instead.
    pub(super) fn load(segment: &Path) -> Option<Self> {
        let bytes = files::read_regular(&Self::path_of(segment), u64::MAX).ok()?;
        let (body, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(body) != u64::from_le_bytes(*sum) {
            return None;
        }
        let (words, []) = body.as_chunks::<8>() else {
            return None;
        };
        let mut words = words.iter().map(|w| u64::from_le_bytes(*w));
        if words.next()? != INDEX_MAGIC {
            return None;
        }
        let mut index = SegmentIndex {
            blocks: Vec::new(),
            end: words.next()?,
        };
        while let Some(offset) = words.next() {
            let first = LineId(words.next()?.cast_signed());
            let last = LineId(words.next()?.cast_signed());
            let streams = words.next()?;
            let mut names = Bloom::EMPTY;
            for word in &mut names.0 {
                *word = words.next()?;
            }
            index.blocks.push(Block {
                offset,
                first,
                last,
                streams,
                names,
            });
        }
        Some(index)
    }
}
