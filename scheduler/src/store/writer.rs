//! The writer thread: writes all queued records in one transaction, syncs it, and reports it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_scheduler_core::{Record, StoreSize};
use nix::sys::statvfs::statvfs;

use super::StoreReport;
use super::compaction;
use super::error::{StoreError, UsedBy};
use super::identity::{Identity, LogFile, log_of};
use super::marker::{Log, MarkerFile};
use super::queue::{QueuedRecord, RecordQueue, WriterWork};
use super::rows::StoreOwner;
use super::schema::Database;

/// Time between attempts while writes fail. It is short enough that an operator who frees disk space sees progress at once, and long enough
/// not to load a hanging disk further.
const RETRY: Duration = Duration::from_secs(1);

/// Pause after each commit. A single record is still written at once. A busy scheduler pays for a sync, its report and the answers that
/// wait for it at most a few hundred times a second. No task waits for the pause, because slots are released before their record is on
/// disk. It is far below the 100 ms within which `brasserie run` starts its first task.
const GATHER: Duration = Duration::from_millis(4);

/// Time between two checks for tidying while no record arrives. After each failure, such as a full disk, it doubles.
const TIDY_PERIOD: Duration = Duration::from_secs(10);

/// Longest pause after failed tidying. Each failure costs a reopened connection and a copy of the log into the database file.
const MAX_TIDY_PAUSE: Duration = Duration::from_secs(3600);

/// Pause of tidying, as a multiple of its last step's duration. While records wait, tidying takes a quarter of the writer's time.
const TIDY_PAUSE: u32 = 3;

/// Time from a record to the check for free pages.
pub(super) const TIDY_AFTER: Duration = Duration::from_secs(1);

pub(super) struct Writer {
    path: PathBuf,
    used_by: UsedBy,
    /// The identity of the file that was opened at the start.
    identity: Identity,
    /// `None` until this scheduler's first record is on disk.
    owner: Option<StoreOwner>,
    marker: Option<MarkerFile>,
    state: StoreWriterState,
    queue: Arc<RecordQueue>,
    report: Box<dyn Fn(StoreReport) + Send>,
    /// The time of the next check for tidying.
    tidy_at: Instant,
    /// `None` if the last step of tidying succeeded.
    untidy: Option<Untidy>,
    measured_at: Option<Instant>,
    /// Free bytes in the file at the last check.
    free_bytes: u64,
}

/// The state of tidying after a failure.
struct Untidy {
    /// The last error, which is logged once.
    error: String,
    /// The pause before the next step, which doubles from `TIDY_PERIOD`.
    pause: Duration,
    until: Instant,
}

/// ```text
///            a write fails                 a fresh connection to the same file writes the batch
///   Working ---------------> Failing(why) ------------------------------------> Working
///                               |  ^
///                               +--+ it fails again: retry each second
/// ```
enum StoreWriterState {
    /// All reported records are on disk.
    Working(Box<Database>),
    /// A connection may have wrong cached data after an I/O error, so each attempt opens another one.
    Failing {
        /// `None`: no record has failed, only tidying.
        why: Option<String>,
        /// The log that may hold reported records; `None` once all of them are in the database file.
        log: Option<LogFile>,
        /// The last connection. If its log loses its name, only this connection can reach it.
        last: Option<Box<Database>>,
    },
}

impl Default for StoreWriterState {
    /// A placeholder while the state changes.
    fn default() -> Self {
        StoreWriterState::Failing {
            why: None,
            log: None,
            last: None,
        }
    }
}

impl Writer {
    pub(super) fn new(
        (path, used_by): (PathBuf, UsedBy),
        database: Database,
        marker: Option<MarkerFile>,
        queue: Arc<RecordQueue>,
        report: Box<dyn Fn(StoreReport) + Send>,
    ) -> Self {
        Writer {
            path,
            used_by,
            identity: database.identity().clone(),
            owner: None,
            marker,
            state: StoreWriterState::Working(Box::new(database)),
            queue,
            report,
            tidy_at: Instant::now() + TIDY_AFTER,
            untidy: None,
            measured_at: None,
            free_bytes: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<(), StoreError> {
        loop {
            match self.queue.take(self.tidy_at) {
                WriterWork::Write(batch) => {
                    self.write(&batch)?;
                    if self.untidy.is_none() {
                        self.tidy_at = self.tidy_at.min(Instant::now() + TIDY_AFTER);
                    }
                    self.queue.gather(GATHER);
                }
                WriterWork::Tidy => self.tidy(),
                WriterWork::End => {
                    self.finish();
                    return Ok(());
                }
            }
        }
    }

    /// Reports the size of the store, unless it was reported less than [`TIDY_PERIOD`] ago.
    fn measure(&mut self) {
        let is_due = |at: Instant| at.elapsed() >= TIDY_PERIOD;
        if !self.measured_at.is_none_or(is_due) {
            return;
        }
        self.measured_at = Some(Instant::now());
        if let StoreWriterState::Working(database) = &self.state
            && let Ok(pages) = database.pages()
        {
            self.free_bytes = pages.free_bytes();
        }
        let bytes = |path: &Path| path.metadata().map_or(0, |file| file.len());
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        // Writes report a missing disk themselves.
        let Ok(disk) = statvfs(folder) else {
            return;
        };
        (self.report)(StoreReport::Measured(StoreSize {
            bytes: bytes(&self.path) + bytes(&log_of(&self.path)),
            free_bytes: self.free_bytes,
            disk_bytes: disk.blocks() * disk.fragment_size(),
            disk_free_bytes: disk.blocks_available() * disk.fragment_size(),
        }));
    }

    /// Does one step of tidying. Only logs a failure: if records cannot be written either, their own error reports that.
    fn tidy(&mut self) {
        let begun = Instant::now();
        self.tidy_at = begun + TIDY_PERIOD;
        self.measure();
        if self
            .untidy
            .as_ref()
            .is_some_and(|untidy| begun < untidy.until)
        {
            return;
        }
        let StoreWriterState::Working(database) = &mut self.state else {
            return;
        };
        let tidied = match database.is_tidying_due() {
            Ok(false) => {
                self.untidy = None;
                return;
            }
            Ok(true) => database.tidy(),
            Err(error) => Err(error),
        };
        let Err(error) = tidied else {
            self.untidy = None;
            self.tidy_at = Instant::now() + begun.elapsed() * TIDY_PAUSE;
            return;
        };
        let before = self.untidy.take();
        let text = error.text_for(self.used_by);
        let is_news = before.as_ref().is_none_or(|before| before.error != text);
        let pause = before.map_or(TIDY_PERIOD, |before| before.pause * 2);
        let pause = pause.min(MAX_TIDY_PAUSE);
        self.untidy = Some(Untidy {
            error: text,
            pause,
            until: begun + pause,
        });
        if is_news {
            tracing::warn!(store = %self.path.display(), %error, "cannot shrink the store's file now");
        }
        if !compaction::is_busy(&error) {
            // A failed write of a record does the same.
            self.distrust(None);
        }
    }

    /// Writes a batch. Retries until it succeeds. Fails only if the queue was closed meanwhile.
    fn write(&mut self, batch: &[QueuedRecord]) -> Result<(), StoreError> {
        while let Err(error) = self.attempt(batch) {
            self.fail(&error);
            self.measure();
            if self.queue.pause(RETRY) {
                // The queue is closed, so one attempt is left.
                return self.attempt(batch);
            }
        }
        Ok(())
    }

    /// Writes a batch once. Applying a batch twice has the same effect as once, so an attempt whose commit is in doubt is repeated.
    fn attempt(&mut self, batch: &[QueuedRecord]) -> Result<(), StoreError> {
        match &mut self.state {
            StoreWriterState::Working(database) => {
                self.owner = store(database, self.marker.as_ref(), batch)?.or(self.owner);
            }
            StoreWriterState::Failing { why, log, last } => {
                let has_failed = why.is_some();
                self.identity.check()?;
                if let Some(Err(lost)) = log.as_ref().map(LogFile::check) {
                    last.as_ref().ok_or(lost)?.checkpoint()?;
                    *log = None;
                }
                *last = None;
                let opened = Database::reopen(&self.path, &self.identity, self.owner)?;
                // SQLite replaces a log that was deleted meanwhile by an empty one, which must not be mistaken for it.
                log.as_ref().map_or(Ok(()), LogFile::check)?;
                *log = Some(opened.log().clone());
                let database = last.insert(Box::new(opened));
                // The kernel treats pages of the log as clean after a failed sync, although they never reached the disk. A later commit to
                // that log would be lost with them. So everything that can be read is first copied into the database file.
                database.checkpoint()?;
                self.identity.check()?;
                self.owner = store(database, self.marker.as_ref(), batch)?.or(self.owner);
                if let Some(database) = last.take() {
                    self.state = StoreWriterState::Working(database);
                }
                if has_failed {
                    (self.report)(StoreReport::Recovered);
                    tracing::warn!("the store writes again");
                }
            }
        }
        self.queue.room().committed(batch);
        if let Some(last) = batch.last() {
            (self.report)(StoreReport::Persisted(last.seq));
        }
        Ok(())
    }

    /// Copies the log into the database file, and marks it as dispensable. If that fails, the log stays and nothing is lost.
    fn finish(&self) {
        let (StoreWriterState::Working(database), Some(marker), Some(owner)) =
            (&self.state, &self.marker, self.owner)
        else {
            return;
        };
        let copied = self.identity.check().and_then(|()| database.checkpoint());
        let noted = copied.and_then(|()| marker.write(Log::Copied, owner.scheduler));
        if let Err(error) = noted {
            tracing::warn!(%error, "the log of the store was not closed; the next start reads it");
        }
    }

    /// Retires the connection: no record is written with it any more. Returns whether the reason is new.
    fn distrust(&mut self, reason: Option<String>) -> bool {
        let (is_news, log, last) = match std::mem::take(&mut self.state) {
            StoreWriterState::Working(database) => {
                (true, Some(database.log().clone()), Some(database))
            }
            StoreWriterState::Failing { why, log, last } => (why != reason, log, last),
        };
        self.state = StoreWriterState::Failing {
            why: reason,
            log,
            last,
        };
        is_news
    }

    fn fail(&mut self, error: &StoreError) {
        let message = match error {
            StoreError::Sqlite(error) => format!(
                "{error} ({}). The scheduler continues by itself once the disk works and has free space",
                self.path.display()
            ),
            error => error.text_for(self.used_by),
        };
        if self.distrust(Some(message.clone())) {
            (self.report)(StoreReport::Failed(message.clone()));
            tracing::error!(
                error = message,
                "the store cannot write; the scheduler acknowledges nothing until it can"
            );
        }
    }
}

/// Writes a batch. If the batch has the record of this scheduler's start, checkpoints the database and marks the directory as used before
/// any request is answered. Returns the owner that the batch names.
fn store(
    database: &mut Database,
    marker: Option<&MarkerFile>,
    batch: &[QueuedRecord],
) -> Result<Option<StoreOwner>, StoreError> {
    database.write(batch.iter().map(|waiting| &waiting.record))?;
    let owner = batch.iter().find_map(owner_in);
    if let Some(owner) = owner {
        database.checkpoint()?;
        if let Some(marker) = marker {
            marker.write(Log::Needed, owner.scheduler)?;
        }
    }
    Ok(owner)
}

fn owner_in(waiting: &QueuedRecord) -> Option<StoreOwner> {
    let Record::SchedulerStarted {
        cluster, scheduler, ..
    } = waiting.record
    else {
        return None;
    };
    Some(StoreOwner { cluster, scheduler })
}
