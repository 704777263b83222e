//! The log store: append without waiting, query, health.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use brasserie_common::WallTime;
use brasserie_common::logs::{LineId, LinePart, LogPage, LogQuery, LogStream};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::query::{self, QueryError};
use super::queue::{LogHealth, LogQueue, LogQueueStage, Pending, WakeUp};
use super::segment::TaskTag;
use super::writer::{self, Disk};
use super::{LogConfig, WallClock};

/// The bytes of lines that may wait in memory for the writer: a tenth of a second at 80 MB/s, the speed of a modest disk. If more wait,
/// the supervisor stops reading, so that tasks wait and memory does not grow.
const PENDING_LIMIT: usize = 8 << 20;
/// The bytes that one task may have waiting: a quarter, so that no task alone fills the memory, and two batches of the writer, so that
/// one task alone keeps it busy.
const SHARE_LIMIT: usize = PENDING_LIMIT / 4;
/// The limit of all waiting bytes for tasks that have nothing waiting, when others have reached the normal limit. It has room for one
/// read each: 128 tasks can fill a pipe at once, and tasks that print rarely never reach the limit.
const LAST_LIMIT: usize = 2 * PENDING_LIMIT;

/// One task's part of the bytes that wait for the writer. A new one has nothing waiting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    batch: u64,
    bytes: usize,
}

/// Whether a task's output can be read without waiting for the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRoom {
    Free,
    /// The caller must read no more output until this is `Free` again; a line that is appended anyway is still accepted.
    Full,
}

impl LogRoom {
    /// Returns the room for a task that has `own` bytes waiting, of `all`.
    pub(crate) fn of(own: usize, all: usize) -> Self {
        let free = match all < PENDING_LIMIT {
            true => own < SHARE_LIMIT,
            false => own == 0 && all < LAST_LIMIT,
        };
        match free {
            true => LogRoom::Free,
            false => LogRoom::Full,
        }
    }
}

/// The reason why a log folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the logs in {path}: {source}; is the disk full, or does the folder belong to another user?"
)]
pub struct OpenError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// The state that the store and its writer thread share.
struct SharedLogs {
    queue: LogQueue,
    disk: Mutex<Disk>,
}

/// The logs of one worker. Dropping it writes the remaining lines and ends the writer.
pub struct LogStore {
    shared: Arc<SharedLogs>,
    writer: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore")
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
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
            batch: 1,
            last_id: disk.last_id(),
            health: LogHealth::default(),
            stage: LogQueueStage::Open,
        };
        let shared = Arc::new(SharedLogs {
            queue: LogQueue {
                clock,
                pending: Mutex::new(pending),
                wake: Condvar::new(),
            },
            disk: Mutex::new(disk),
        });
        let thread = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new()
                .name("log-writer".to_owned())
                .spawn(move || writer::run(&shared.queue, &shared.disk))
        };
        Ok(LogStore {
            shared,
            writer: Some(thread.map_err(error)?),
        })
    }

    /// Appends one line, or one piece of a long line, of at most [`super::MAX_LINE_BYTES`]. Never waits for the disk.
    pub fn append(&self, tag: &TaskTag, stream: LogStream, part: LinePart, line: &[u8]) -> LineId {
        self.shared.queue.append(tag, stream, part, line)
    }

    /// Returns a batch that appends several pieces of one task's output under one lock and with one reading of the clock. They count as
    /// the task's share.
    pub fn batch<'a>(&'a self, tag: &'a TaskTag, share: &'a mut Share) -> Batch<'a> {
        let time = (self.shared.queue.clock)();
        let pending = self.shared.queue.pending.lock();
        if share.batch != pending.batch {
            *share = Share {
                batch: pending.batch,
                bytes: 0,
            };
        }
        Batch {
            before: pending.bytes,
            pending,
            wake_up: WakeUp::of(&self.shared.queue.wake),
            time,
            tag,
            share,
        }
    }

    /// Returns whether more of a task's output may be read. A task that writes much waits for its own lines; the others do not.
    pub fn room(&self, share: &Share) -> LogRoom {
        let pending = self.shared.queue.pending.lock();
        let own = match share.batch == pending.batch {
            true => share.bytes,
            false => 0,
        };
        LogRoom::of(own, pending.bytes)
    }

    pub fn health(&self) -> LogHealth {
        self.shared.queue.pending.lock().health.clone()
    }

    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.shared.queue.pending.lock().bytes
    }

    /// Prevents the writer from writing, as a slow disk would.
    #[cfg(test)]
    pub(crate) fn hold_writer(&self) -> LogsLock<'_> {
        LogsLock {
            shared: &self.shared,
            disk: self.shared.disk.lock(),
        }
    }

    /// Passes every accepted line to the operating system.
    pub fn flush(&self) {
        writer::flush(&self.shared.queue, &mut self.shared.disk.lock());
    }

    /// Returns one page of lines, including lines that were just appended. Reads files: up to [`query::PAGE_TIME`] of a thread's time.
    pub fn query(&self, query: &LogQuery) -> Result<LogPage, QueryError> {
        let matcher = query::Matcher::new(query)?;
        let segments = {
            let mut disk = self.shared.disk.lock();
            writer::flush(&self.shared.queue, &mut disk);
            disk.snapshot()
        };
        Ok(query::page(&segments, query, &matcher))
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        self.shared.queue.pending.lock().stage = LogQueueStage::Closing;
        self.shared.queue.wake.notify_all();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to write; the panic was printed where it happened.
            let _ = writer.join();
        }
    }
}

/// A lock that prevents all writes while it exists.
#[cfg(test)]
pub(crate) struct LogsLock<'a> {
    shared: &'a SharedLogs,
    disk: MutexGuard<'a, Disk>,
}

#[cfg(test)]
impl LogsLock<'_> {
    pub(crate) fn flush(&mut self) {
        writer::flush(&self.shared.queue, &mut self.disk);
    }
}

/// A batch of one task's lines; the store is locked while it exists.
pub struct Batch<'a> {
    // Fields are dropped in their order: the lock before the wake-up.
    pending: MutexGuard<'a, Pending>,
    wake_up: WakeUp<'a>,
    time: WallTime,
    tag: &'a TaskTag,
    share: &'a mut Share,
    before: usize,
}

impl Batch<'_> {
    /// Does the same as [`LogStore::append`].
    pub fn append(&mut self, stream: LogStream, part: LinePart, line: &[u8]) -> LineId {
        let before = self.pending.bytes;
        let id = self.pending.push(self.time, self.tag, stream, part, line);
        self.share.bytes += self.pending.bytes - before;
        self.wake_up.look(self.before, &self.pending);
        id
    }
}
