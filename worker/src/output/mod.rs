//! Writes task output to compressed files, for output that is too large for the log.
//!
//! ```text
//! DIR/JOB/NODE/START-RAND.stdout.gz
//!              START-RAND.stderr.gz      a stream without output has no file
//! ```
//!
//! A file is a sequence of gzip members. Each contains the output of one [`queue::FLUSH_INTERVAL`], or one [`queue::BLOCK`]. So one
//! compressor suffices for all tasks, and a file can be read as a whole while its task still writes. A worker that is killed loses at
//! most its last interval and the member that it was writing. Accepting output copies it into memory and never waits for the disk. The
//! memory is limited for each run and in total, and a task that is faster than the writer waits on its pipe.
//!
//! Output is lost if the disk refuses it, or if it would use the bytes that [`crate::disk_reserve`] keeps free. Lost output is counted
//! and reported when the run's file is finished. The next member that can be written follows the file's last good one. Finished files are
//! removed when they are too old, or, the oldest first, when all together are too large. Files that are being written are never removed,
//! but cannot grow beyond that total either.

mod names;
mod queue;
mod retention;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use names::files_of;
pub(crate) use queue::{RunOutput, Written};
pub(crate) use store::OutputStore;

/// Limits of age and size for stored task output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub max_age: Duration,
    pub max_bytes: u64,
}

impl Default for Retention {
    /// Returns the defaults of the command line.
    fn default() -> Self {
        Retention {
            max_age: Duration::from_secs(30 * 86_400),
            max_bytes: 10 << 30,
        }
    }
}

/// The folder of the files, and their retention.
#[derive(Clone, Debug)]
pub(crate) struct OutputConfig {
    /// The folder. It is created if missing, and only one process at a time may use it.
    pub dir: PathBuf,
    pub retention: Retention,
}

/// The stream on which a task prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Both streams of a run, in the order of [`Stream::index`].
pub(crate) type Streams<T> = [T; 2];

impl Stream {
    pub(crate) const ALL: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }

    fn index(self) -> usize {
        match self {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        }
    }
}
