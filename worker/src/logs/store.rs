//! The log store as the rest of the worker sees it: append without waiting, query, health.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use brasserie_common::logs::{LineId, LinePart, LogPage, LogQuery, LogStream};
use parking_lot::{Condvar, Mutex};

use super::query::{self, QueryError};
use super::segment::{FRAME_BYTES, Frame, TaskTag};
use super::writer::{self, Disk};
use super::{LogConfig, WallClock};

/// Lines that wait in memory for the writer. A tenth of a second at 80 MB/s, what a modest disk takes; a writer that is
/// further behind makes the supervisor stop reading, so that tasks wait instead of memory growing.
const PENDING_LIMIT: usize = 8 << 20;

/// Whether the writer keeps up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Free,
    /// Do not read more output until this is `Free` again; a line that is appended all the same is still taken.
    Full,
}

/// How logging is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogHealth {
    /// Lines that could not be written since the store was opened.
    pub dropped_lines: u64,
    /// Why the last write failed; `None` while the disk takes everything.
    pub error: Option<String>,
}

/// Why a log folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the logs in {path}: {source}; is the disk full, or does the folder belong to another user?"
)]
pub struct OpenError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// The logs of one worker. Dropping it writes what is left and ends the writer.
pub struct LogStore {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore")
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

/// What the store and its writer thread share. Lock order: `disk` before `pending`.
pub(super) struct Shared {
    pub clock: WallClock,
    pub pending: Mutex<Pending>,
    /// Wakes the writer: the first line of a batch, a big batch, the end.
    pub wake: Condvar,
    pub disk: Mutex<Disk>,
}

/// Lines on their way to the disk.
pub(super) struct Pending {
    pub frames: Vec<Frame>,
    pub bytes: usize,
    pub last_id: LineId,
    pub health: LogHealth,
    pub stage: Stage,
}

/// ```text
/// Open --drop--> Closing
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Lines come in.
    Open,
    /// The writer takes what is left and ends.
    Closing,
}

impl LogStore {
    /// Opens or creates the folder, cuts a torn tail, and starts the writer.
    pub fn open(config: LogConfig, clock: WallClock) -> Result<Self, OpenError> {
        let path = config.dir.clone();
        let error = |source| OpenError {
            path: path.clone(),
            source,
        };
        let disk = Disk::open(config).map_err(error)?;
        let pending = Pending {
            frames: Vec::new(),
            bytes: 0,
            last_id: disk.last_id(),
            health: LogHealth::default(),
            stage: Stage::Open,
        };
        let shared = Arc::new(Shared {
            clock,
            pending: Mutex::new(pending),
            wake: Condvar::new(),
            disk: Mutex::new(disk),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("log-writer".to_owned())
                .spawn(move || writer::run(&shared))
        };
        Ok(LogStore {
            shared,
            writer: Some(thread.map_err(error)?),
        })
    }

    /// Takes one line, or one piece of a long line, of at most [`super::MAX_LINE_BYTES`]. Never waits for the disk.
    pub fn append(&self, tag: &TaskTag, stream: LogStream, part: LinePart, line: &[u8]) -> LineId {
        self.shared.append(tag, stream, part, line)
    }

    pub fn room(&self) -> Room {
        match self.shared.pending.lock().bytes < PENDING_LIMIT {
            true => Room::Free,
            false => Room::Full,
        }
    }

    pub fn health(&self) -> LogHealth {
        self.shared.pending.lock().health.clone()
    }

    /// Keeps the writer from writing, as a slow disk would.
    #[cfg(test)]
    pub(crate) fn hold_writer(&self) -> impl Drop + '_ {
        self.shared.disk.lock()
    }

    /// Hands every line taken so far to the operating system.
    pub fn flush(&self) {
        writer::flush(&self.shared, &mut self.shared.disk.lock());
    }

    /// One page of lines, those just appended included. Reads files: up to [`query::PAGE_TIME`] of a thread's time.
    pub fn query(&self, query: &LogQuery) -> Result<LogPage, QueryError> {
        let matcher = query::Matcher::new(query)?;
        let segments = {
            let mut disk = self.shared.disk.lock();
            writer::flush(&self.shared, &mut disk);
            disk.snapshot()
        };
        Ok(query::page(&segments, query, &matcher))
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.shared.pending.lock().stage = Stage::Closing;
        self.shared.wake.notify_all();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to write; the panic was printed where it happened.
            let _ = writer.join();
        }
    }
}

impl Shared {
    pub(super) fn append(
        &self,
        tag: &TaskTag,
        stream: LogStream,
        part: LinePart,
        line: &[u8],
    ) -> LineId {
        let time = (self.clock)();
        // Line ids keep 31 bits of seconds, as the wire's do; a clock beyond them, or one that went back, leaves the
        // counter to continue from the last id.
        let second = time.as_secs().clamp(0, i64::from(i32::MAX));
        let mut pending = self.pending.lock();
        let id = LineId::first_of_second(second).max(LineId(pending.last_id.0.saturating_add(1)));
        pending.last_id = id;
        if pending
            .frames
            .last()
            .is_none_or(|frame| frame.len() >= FRAME_BYTES)
        {
            pending.frames.push(Frame::new());
        }
        let before = pending.bytes;
        if let Some(frame) = pending.frames.last_mut() {
            let length = frame.len();
            frame.push(id, time, stream, part, tag, line);
            pending.bytes = before + frame.len() - length;
        }
        if before == 0 || (before < writer::BIG_BATCH && pending.bytes >= writer::BIG_BATCH) {
            self.wake.notify_one();
        }
        id
    }
}
