//! Output of tasks in compressed files of its own, for what is too large for the log.
//!
//! ```text
//! DIR/JOB/NODE/START-RAND.stdout.gz
//!              START-RAND.stderr.gz      only what was printed has a file
//! ```
//!
//! A file is a row of gzip members, each of what gathered in [`writer::FLUSH_INTERVAL`] or of [`store::BLOCK`]: so one compressor
//! does for all tasks, a file can be read as a whole while its task still writes, and a worker that is killed loses no more than
//! its last interval and the member that it was writing. Taking output copies it into memory and never waits for the disk; how
//! much may wait is bounded for each run and in all, and a task that is ahead of the writer waits on its pipe.
//!
//! Output that the disk refuses, or that would use the bytes that [`crate::disk_reserve`] keeps free, is lost, counted, and reported when
//! the run's file is finished; the next member that can be written goes behind the file's last good one. Files that are finished go when they are too old, or, the oldest first, when all of them are too large; those
//! that are being written never do, but cannot grow beyond that total either.

mod names;
mod retention;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;

pub(crate) use names::files_of;
pub(crate) use store::{OutputStore, RunOutput, Streams};
pub(crate) use writer::Written;

use crate::options::Retention;

/// Where files go, and how long and how much of them to keep.
#[derive(Clone, Debug)]
pub(crate) struct OutputConfig {
    /// Created if missing. One process at a time may use it.
    pub dir: PathBuf,
    pub retention: Retention,
}

/// What a task prints on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

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
