//! The durable store: one SQLite file, a thread that writes it, and reports of the records that are on disk.

mod compaction;
mod copy;
mod error;
mod history;
mod identity;
mod job_rows;
mod marker;
mod order_rows;
mod output_rows;
mod private;
mod queue;
mod rows;
mod schema;
mod source_rows;
mod stories;
#[cfg(test)]
mod tests;
mod values;
mod writer;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use brasserie_common::RecordSeq;
use brasserie_common_runtime::{DataDir, FileId};
use brasserie_scheduler_core::{Durable, Record, StoreSize};

pub use copy::copy_store;
pub use error::{StoreError, UsedBy};
pub use history::{Past, UnusedNames};
use identity::{LOG_HEADER, log_of};
pub use marker::{FormerAuthority, MARKER_FILE};
use marker::{Log, Marker, MarkerFile};
pub use queue::QueueRoom;
use queue::RecordQueue;
use schema::{Database, STEPS, is_empty_file};
pub use stories::Stories;
use writer::Writer;

/// The name of the database file in the data directory.
pub const STORE_FILE: &str = "state.sqlite3";

/// Whether a scheduler has used a data directory before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUse {
    New,
    Used,
}

/// The operator's statement about records that a used directory lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRecords {
    /// No records are missing. A directory that lacks some is refused.
    None,
    /// Any records may be missing, because the directory is a backup.
    Expected,
}

/// An opened store. Its records are loaded, and nothing is written yet.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Database,
    usage: DirectoryUse,
    /// `None`: the database file has no marker file, in tests.
    marker: Option<MarkerFile>,
    former_authority: FormerAuthority,
    used_by: UsedBy,
}

/// A report of the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReport {
    /// Every record up to this one is synced to disk.
    Persisted(RecordSeq),
    /// Records cannot be written. The writer retries until it succeeds, and reports each message once.
    Failed(String),
    /// Writing works again.
    Recovered,
    /// The size of the store, reported every few seconds, even while writes fail.
    Measured(StoreSize),
}

impl Store {
    /// Returns whether the directory has a store or the trace of one, which [`Store::open_apart`] judges.
    pub fn is_in(directory: &DataDir) -> bool {
        let has = |file| directory.path().join(file).symlink_metadata().is_ok();
        has(STORE_FILE) || has(MARKER_FILE)
    }

    /// Opens the store of a directory that this process has locked. Creates it in a new directory.
    pub fn open(directory: &DataDir) -> Result<(Store, Durable), StoreError> {
        let (mut store, mut durable, past) = Self::open_apart(directory, LostRecords::None)?;
        let (history, unused) = past.collect()?;
        history.add_to(&mut durable);
        store.drop_names(unused)?;
        Ok((store, durable))
    }

    /// Opens the store, and returns the completions separately. This is faster for millions of completions.
    pub fn open_apart(
        directory: &DataDir,
        lost: LostRecords,
    ) -> Result<(Store, Durable, Past), StoreError> {
        let path = directory.path().join(STORE_FILE);
        let file = MarkerFile::in_folder(directory.path());
        let marker = file.read()?;
        let is_lost = |what| StoreError::Lost {
            path: path.clone(),
            what,
        };
        let is_there = path.symlink_metadata().is_ok();
        if let Some(marker) = &marker
            && lost == LostRecords::None
            && is_there
        {
            check_log(marker, &path)?;
        }
        let mut database = match marker {
            None if is_there && is_empty_file(&path)? && has_log(&path) => {
                return Err(is_lost("is empty"));
            }
            None => Database::open(&path)?,
            Some(_) if !is_there => return Err(is_lost("is missing")),
            Some(_) => Database::open_used(&path, STEPS)?.ok_or_else(|| is_lost("is empty"))?,
        };
        database.convert();
        let (durable, past) = database.load_apart()?;
        if let Some(marker) = &marker {
            let last = durable.last_scheduler();
            let last = last.ok_or_else(|| is_lost("holds no record of a scheduler"))?;
            if let Some(scheduler) = marker.scheduler.filter(|&marked| marked > last)
                && lost == LostRecords::None
            {
                return Err(StoreError::Older { path, scheduler });
            }
        }
        let is_new = marker.is_none() && durable.cluster.is_none();
        let store = Store {
            usage: match is_new && !(is_there && database.was_empty()) {
                true => DirectoryUse::New,
                false => DirectoryUse::Used,
            },
            path,
            database,
            marker: Some(file),
            former_authority: marker.map(|marker| marker.authority()).unwrap_or_default(),
            used_by: UsedBy::default(),
        };
        Ok((store, durable, past))
    }

    /// Returns whether a scheduler has used the directory before. A used directory has a marker, has records, or has an empty database
    /// file, because a database whose log was lost is empty too.
    pub fn usage(&self) -> DirectoryUse {
        self.usage
    }

    /// Returns whether the last scheduler that has used the directory had an authority.
    pub fn former_authority(&self) -> FormerAuthority {
        self.former_authority
    }

    /// Records whether this scheduler has an authority, before any request is answered.
    pub fn note_authority(&mut self, authority: FormerAuthority) {
        if let Some(marker) = &mut self.marker {
            marker.note_authority(authority);
        }
    }

    /// Returns the identity of the database file. A restored, copied or new store has another one.
    pub fn identity(&self) -> FileId {
        self.database.identity().database()
    }

    /// Returns a reader of the stories of runs.
    pub fn stories(&self) -> Stories {
        Stories::new(&self.path)
    }

    /// Lets later transactions delete these names, some with each, because nothing in the file refers to them.
    pub fn drop_names(&mut self, unused: UnusedNames) -> Result<(), StoreError> {
        self.database.drop_names(unused)
    }

    #[cfg(test)]
    fn open_file(path: &Path) -> Result<(Store, Durable), StoreError> {
        let mut database = Database::open(path)?;
        let durable = database.load()?;
        Ok((
            Store {
                path: path.to_owned(),
                database,
                usage: DirectoryUse::New,
                marker: None,
                former_authority: FormerAuthority::default(),
                used_by: UsedBy::default(),
            },
            durable,
        ))
    }

    /// Words the messages of the writer for this program.
    pub fn used_by(self, used_by: UsedBy) -> Self {
        Store { used_by, ..self }
    }

    /// Starts the writer. The writer calls `report` on its thread, so `report` must not block.
    pub fn start(
        self,
        report: impl Fn(StoreReport) + Send + 'static,
    ) -> Result<StoreHandle, StoreError> {
        let queue = Arc::new(RecordQueue::default());
        let writer = Writer::new(
            (self.path, self.used_by),
            self.database,
            self.marker,
            Arc::clone(&queue),
            Box::new(report),
        );
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || writer.run())
            .map_err(StoreError::Thread)?;
        Ok(StoreHandle {
            queue,
            thread: Some(thread),
        })
    }
}

/// Errors if the log that the last scheduler needed is missing or empty. Call this before SQLite opens the file, which creates a new log.
fn check_log(marker: &Marker, database: &Path) -> Result<(), StoreError> {
    let path = log_of(database);
    let lost = |path, what| Err(StoreError::LogLost { path, what });
    match (marker.log, path.symlink_metadata()) {
        (Log::Copied, _) => Ok(()),
        (Log::Needed, Ok(log)) if log.len() <= LOG_HEADER => lost(path, "is empty"),
        (Log::Needed, Ok(_)) => Ok(()),
        (Log::Needed, Err(error)) if error.kind() == ErrorKind::NotFound => {
            lost(path, "is missing")
        }
        (Log::Needed, Err(error)) => Err(StoreError::Inspect { path, error }),
    }
}

/// Returns whether the database has a log with records.
fn has_log(database: &Path) -> bool {
    log_of(database)
        .metadata()
        .is_ok_and(|log| log.len() > LOG_HEADER)
}

/// Passes records to the writer. Dropping it writes the queued records in one last attempt, and ends the writer.
#[derive(Debug)]
pub struct StoreHandle {
    queue: Arc<RecordQueue>,
    thread: Option<JoinHandle<Result<(), StoreError>>>,
}

impl StoreHandle {
    /// Queues a record without blocking. Callers that can refuse work check [`StoreHandle::room`] first.
    pub fn submit(&self, seq: RecordSeq, record: Record) {
        self.queue.push(seq, record);
    }

    /// Returns the fill state of the queue, readable from any thread.
    pub fn room(&self) -> Arc<QueueRoom> {
        self.queue.room()
    }

    /// Returns the number of transactions synced to disk.
    pub fn commits(&self) -> u64 {
        self.queue.room().commits()
    }

    /// Writes the queued records and ends the writer. Errors if some could not be written. Blocks.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.stop()
    }

    fn stop(&mut self) -> Result<(), StoreError> {
        self.queue.close();
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(StoreError::WriterDied),
        }
    }
}

impl Drop for StoreHandle {
    fn drop(&mut self) {
        if self.thread.is_some()
            && let Err(error) = self.stop()
        {
            tracing::error!(%error, "the store could not write everything before the end");
        }
    }
}
