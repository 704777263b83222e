//! Task logs on this worker's disk: append-only segments with a sparse index, one writer, pages in both directions.
//!
//! A line is one record: line id, time, stream, task, invocation, bytes. Records travel in checksummed frames; frames
//! fill segments; a segment that is full is sealed with an index file beside it and is dropped whole when it is too
//! old or the total too large. Appending copies into memory and never waits for the disk; the writer thread writes
//! what gathered in [`writer::FLUSH_INTERVAL`], so a process crash loses at most that much. Nothing is synced: a
//! machine crash may lose what the kernel had not written yet, and the torn tail is cut at the next open.
//!
//! A disk that refuses to write, or whose last bytes [`crate::disk_reserve`] keeps free, stops logging, never tasks: the lines are counted, the error shows in
//! [`LogStore::health`], and the first batch that can be written again declares how many are missing.

mod index;
mod query;
mod reader;
mod segment;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::WallTime;

pub use brasserie_common::logs::LinePart;
pub use query::{QueryError, check_pattern};
pub use reader::{LogReader, LogSnapshot, LogTail, ReadError};
pub use segment::TaskTag;
pub use store::{Batch, LogHealth, LogStore, OpenError, Room, Share};

/// Where wall time comes from; stamps lines and makes line ids, which survive it going backwards.
pub type WallClock = Arc<dyn Fn() -> WallTime + Send + Sync>;

/// The longest piece of a line that is stored as one record; longer lines are split and marked. Equal to a pipe's
/// capacity: one full pipe is at most one piece.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// How long and how much to keep.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Folder of the segments; created if missing. One process at a time may use it.
    pub dir: PathBuf,
    /// Lines older than this go, a whole segment at a time.
    pub retention: Duration,
    /// The oldest segments go when all of them together are larger than this.
    pub max_bytes: u64,
    /// A segment is sealed when it has grown to this.
    pub segment_bytes: u64,
}

impl LogConfig {
    /// 30 days, as the original keeps them; 10 GiB, which a small disk can spare; 16 MiB a segment, so that dropping
    /// one frees less than a per mille of the total.
    pub fn new(dir: PathBuf) -> Self {
        LogConfig {
            dir,
            retention: Duration::from_secs(30 * 86_400),
            max_bytes: 10 << 30,
            segment_bytes: 16 << 20,
        }
    }
}
