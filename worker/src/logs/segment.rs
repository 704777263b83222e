//! The format of a segment: records inside checksummed frames, and how they are read back after a crash.
//!
//! ```text
//! segment = frame*
//! frame   = magic u32, payload length u32, checksum u64, payload     (all little endian)
//! payload = record+
//! record  = length u32 of what follows, line id i64, time i64 (ms), stream u8, part u8, tag, bytes of the line
//! tag     = invocation start i64, invocation rand i64, job length u32, node length u32, job, node
//! ```

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use brasserie_common::logs::{LineId, LinePart, LogStream};
use brasserie_common::{InvocationId, JobName, NodeName, WallTime};

use super::MAX_LINE_BYTES;
use super::codes::{checksum, stream_code};
use super::index::{Block, Bloom, SegmentIndex};

pub(super) const FRAME_HEADER: usize = 16;
const FRAME_MAGIC: u32 = 0x3147_4c42;
const RECORD_HEADER: usize = 4 + 8 + 8 + 1 + 1;
const TAG_HEADER: usize = 8 + 8 + 4 + 4;
/// The size at which a frame is closed: small enough to skip and to lose, large enough that its header costs nothing.
pub(super) const FRAME_BYTES: usize = 64 * 1024;
/// The length beyond which a frame is damaged: one full frame, one line, and the longest names with room to spare.
const MAX_FRAME_BYTES: usize = FRAME_BYTES + MAX_LINE_BYTES + (1 << 20);

/// The task's identity in each of its records, encoded once.
#[derive(Clone, Debug)]
pub struct TaskTag {
    pub(super) bytes: Box<[u8]>,
    pub(super) job: Bloom,
    pub(super) node: Bloom,
}

impl TaskTag {
    pub fn new(invocation: InvocationId, job: &JobName, node: &NodeName) -> Self {
        let (job, node) = (job.as_str().as_bytes(), node.as_str().as_bytes());
        let mut bytes = Vec::with_capacity(TAG_HEADER + job.len() + node.len());
        bytes.extend_from_slice(&invocation.0.start_time.to_le_bytes());
        bytes.extend_from_slice(&invocation.0.rand.to_le_bytes());
        bytes.extend_from_slice(&u32_len(job).to_le_bytes());
        bytes.extend_from_slice(&u32_len(node).to_le_bytes());
        bytes.extend_from_slice(job);
        bytes.extend_from_slice(node);
        TaskTag {
            bytes: bytes.into(),
            job: Bloom::of_job(job),
            node: Bloom::of_node(node),
        }
    }
}

fn u32_len(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("names and lines are bounded far below 4 GiB")
}

/// A frame that is being filled in memory.
#[derive(Debug)]
pub(super) struct Frame {
    /// Space for the header, then records.
    bytes: Vec<u8>,
    pub(super) block: Block,
    /// The number of lines of tasks.
    pub(super) lines: u64,
    /// The number of lost lines that are declared in it.
    pub(super) declares: u64,
}

impl Frame {
    pub(super) fn new() -> Self {
        Frame {
            bytes: vec![0; FRAME_HEADER],
            block: Block::EMPTY,
            lines: 0,
            declares: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(
        &mut self,
        id: LineId,
        time: WallTime,
        stream: LogStream,
        part: LinePart,
        tag: &TaskTag,
        line: &[u8],
    ) {
        let length = RECORD_HEADER - 4 + tag.bytes.len() + line.len();
        let length = u32::try_from(length).expect("names and lines are bounded far below 4 GiB");
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
        self.bytes
            .extend_from_slice(&time.as_millis().to_le_bytes());
        self.bytes.push(stream_code(stream));
        self.bytes.push(match part {
            LinePart::Last => 0,
            LinePart::Continued => 1,
        });
        self.bytes.extend_from_slice(&tag.bytes);
        self.bytes.extend_from_slice(line);
        self.block.add(id, stream, &tag.job, &tag.node);
        self.lines += 1;
    }

    /// Fills the header in; the bytes are then ready for the disk.
    pub(super) fn seal(&mut self) -> &[u8] {
        let payload = u32_len(&self.bytes[FRAME_HEADER..]);
        let sum = checksum(&self.bytes[FRAME_HEADER..]);
        self.bytes[0..4].copy_from_slice(&FRAME_MAGIC.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&payload.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        &self.bytes
    }
}

/// One line in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineRecord<'a> {
    pub id: LineId,
    pub time: WallTime,
    pub stream: u8,
    pub part: LinePart,
    pub invocation: InvocationId,
    pub job: &'a [u8],
    pub node: &'a [u8],
    pub line: &'a [u8],
}

/// The records of one or more whole frames; ends at the first frame that is damaged.
pub(super) struct Records<'a> {
    rest: &'a [u8],
    payload: &'a [u8],
}

pub(super) fn records(frames: &[u8]) -> Records<'_> {
    Records {
        rest: frames,
        payload: &[],
    }
}

impl Records<'_> {
    /// Returns whether the segment has no damaged bytes after its last record.
    pub(super) fn is_whole(&self) -> bool {
        self.rest.is_empty() && self.payload.is_empty()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = LineRecord<'a>;

    fn next(&mut self) -> Option<LineRecord<'a>> {
        loop {
            if !self.payload.is_empty() {
                let (record, rest) = split_record(self.payload)?;
                self.payload = rest;
                return Some(record);
            }
            let (payload, rest) = split_frame(self.rest)?;
            (self.payload, self.rest) = (payload, rest);
        }
    }
}

fn split_frame(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut cursor = bytes;
    let magic = u32::from_le_bytes(take(&mut cursor)?);
    let length = u32::from_le_bytes(take(&mut cursor)?) as usize;
    let sum = u64::from_le_bytes(take(&mut cursor)?);
    if magic != FRAME_MAGIC || length == 0 || length > MAX_FRAME_BYTES {
        return None;
    }
    let (payload, rest) = cursor.split_at_checked(length)?;
    (checksum(payload) == sum).then_some((payload, rest))
}

/// Returns the length of the frame at the beginning of the bytes; `None` if it is incomplete or damaged.
pub(super) fn frame_length(bytes: &[u8]) -> Option<usize> {
    split_frame(bytes).map(|(_, rest)| bytes.len() - rest.len())
}

fn split_record(payload: &[u8]) -> Option<(LineRecord<'_>, &[u8])> {
    let mut cursor = payload;
    let length = u32::from_le_bytes(take(&mut cursor)?) as usize;
    let (mut body, rest) = cursor.split_at_checked(length)?;
    let id = LineId(i64::from_le_bytes(take(&mut body)?));
    let time = WallTime::from_millis(i64::from_le_bytes(take(&mut body)?));
    let [stream, part] = take(&mut body)?;
    let start = i64::from_le_bytes(take(&mut body)?);
    let rand = i64::from_le_bytes(take(&mut body)?);
    let job_length = u32::from_le_bytes(take(&mut body)?) as usize;
    let node_length = u32::from_le_bytes(take(&mut body)?) as usize;
    let (job, body) = body.split_at_checked(job_length)?;
    let (node, line) = body.split_at_checked(node_length)?;
    let invocation = InvocationId::new(start, rand);
    Some((
        LineRecord {
            id,
            time,
            stream,
            part: match part {
                1 => LinePart::Continued,
                _ => LinePart::Last,
            },
            invocation,
            job,
            node,
            line,
        },
        rest,
    ))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

/// Reads a whole segment and rebuilds its index. Stops at the first damaged frame, so `SegmentIndex::end` is the beginning of a torn
/// tail.
pub(super) fn scan(file: &File) -> io::Result<SegmentIndex> {
    let mut index = SegmentIndex::default();
    let mut header = [0; FRAME_HEADER];
    let mut frame = Vec::new();
    loop {
        let got = read_up_to(file, &mut header, index.end)?;
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if got < FRAME_HEADER || length > MAX_FRAME_BYTES {
            return Ok(index);
        }
        frame.resize(FRAME_HEADER + length, 0);
        if read_up_to(file, &mut frame, index.end)? < frame.len() {
            return Ok(index);
        }
        let mut block = Block::EMPTY;
        let mut payload = match split_frame(&frame) {
            Some((payload, _)) => payload,
            None => return Ok(index),
        };
        while !payload.is_empty() {
            let Some((record, rest)) = split_record(payload) else {
                return Ok(index);
            };
            block.add_raw(
                record.id,
                record.stream,
                &Bloom::of_job(record.job),
                &Bloom::of_node(record.node),
            );
            payload = rest;
        }
        index.push(&block, frame.len() as u64);
    }
}

/// Does the same as `read_exact_at`, but returns a short count at the end of the file instead of an error.
pub(super) fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
