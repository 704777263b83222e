//! Task logs on this worker's disk: append-only segments with a sparse index, one writer, pages in both directions.
//!
//! A line is one record: line id, time, stream, task, invocation, bytes. Checksummed frames contain records, and segments contain frames.
//! A full segment is sealed with an index file beside it, and dropped whole when it is too old or the total is too large. Appending
//! copies into memory and never waits for the disk. The writer thread writes the lines of each [`writer::FLUSH_INTERVAL`], so a process
//! crash loses at most that much. Nothing is synced: a machine crash may lose data that the kernel had not written yet, and the next open
//! cuts the torn tail.
//!
//! A disk that refuses to write, or whose last bytes [`crate::disk_reserve`] keeps free, stops logging, but never tasks. The lost lines
//! are counted, [`LogStore::health`] shows the error, and the first batch that can be written again declares the number of lost lines.

mod codes;
mod index;
mod query;
mod queue;
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
pub use queue::LogHealth;
pub use reader::{LogReader, LogSnapshot, LogTail, ReadError};
pub use segment::TaskTag;
pub use store::{Batch, LogRoom, LogStore, OpenError, Share};

/// The source of wall time, which stamps lines and makes line ids. The ids still increase if the time goes back.
pub type WallClock = Arc<dyn Fn() -> WallTime + Send + Sync>;

/// The longest piece of a line that is stored as one record; longer lines are split and marked. Equal to a pipe's capacity: one full pipe
/// is at most one piece.
pub const MAX_LINE_BYTES: usize = 64 * 1024;

/// The retention and the sizes of logs.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The folder of the segments. It is created if missing, and only one process at a time may use it.
    pub dir: PathBuf,
    /// The age at which lines are dropped, a whole segment at a time.
    pub retention: Duration,
    /// The total size above which the oldest segments are dropped.
    pub max_bytes: u64,
    /// The size at which a segment is sealed.
    pub segment_bytes: u64,
}

impl LogConfig {
    /// Returns the defaults: 30 days, as in the original Bistro; 10 GiB, which a small disk can spare; 16 MiB a segment, so that dropping
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
