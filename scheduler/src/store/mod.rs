//! The durable store: one SQLite file, one thread that writes it, and a report when something is on disk.

mod error;
mod history;
mod identity;
mod job_rows;
mod queue;
mod rows;
mod schema;
mod source_rows;
mod stories;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use brasserie_common::RecordSeq;
use brasserie_common_runtime::{DataDir, FileId};
use brasserie_scheduler_core::{Durable, Record};

pub use error::StoreError;
pub use history::{Past, UnusedNames};
pub use identity::Change;
use queue::Queue;
pub use queue::Room;
use schema::Database;
pub use stories::Stories;
use writer::Writer;

/// The file in the data directory.
const FILE: &str = "state.sqlite3";

/// An opened store: what it remembers is known, and nothing is written yet.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    database: Database,
}

/// What the writer tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReport {
    /// Every record up to this one is synced to disk.
    Persisted(RecordSeq),
    /// Nothing can be written; told once per message, and tried again until it works.
    Failed(String),
    /// It works again.
    Recovered,
}

impl Store {
    /// Opens or creates the store of a directory that this process has locked.
    pub fn open(directory: &DataDir) -> Result<(Store, Durable), StoreError> {
        Self::open_file(&directory.path().join(FILE))
    }

    /// The same, with how tasks ended apart, which is faster by millions.
    pub fn open_apart(directory: &DataDir) -> Result<(Store, Durable, Past), StoreError> {
        let path = directory.path().join(FILE);
        let mut database = Database::open(&path)?;
        let (durable, past) = database.load_apart()?;
        Ok((Store { path, database }, durable, past))
    }

    /// Returns the identity of the database file. A restored, copied or new store has another one.
    pub fn identity(&self) -> FileId {
        self.database.identity().database()
    }

    /// What happened in runs, for whoever asks.
    pub fn stories(&self) -> Stories {
        Stories::new(&self.path)
    }

    /// Names that nothing in the file needs go, some with each transaction.
    pub fn drop_names(&mut self, unused: UnusedNames) -> Result<(), StoreError> {
        self.database.drop_names(unused)
    }

    fn open_file(path: &Path) -> Result<(Store, Durable), StoreError> {
        let mut database = Database::open(path)?;
        let durable = database.load()?;
        Ok((
            Store {
                path: path.to_owned(),
                database,
            },
            durable,
        ))
    }

    /// Starts the writer. `report` is called on its thread and must not block.
    pub fn start(
        self,
        report: impl Fn(StoreReport) + Send + 'static,
    ) -> Result<StoreHandle, StoreError> {
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(
            self.path,
            self.database,
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

/// Hands records to the writer. Dropping it writes what still waits, once, and ends the writer.
#[derive(Debug)]
pub struct StoreHandle {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<Result<(), StoreError>>>,
}

impl StoreHandle {
    /// Takes a record and never blocks. Callers that can say no ask [`StoreHandle::room`] first.
    pub fn submit(&self, seq: RecordSeq, record: Record) {
        self.queue.push(seq, record);
    }

    /// Whether the writer keeps up; readable from any thread.
    pub fn room(&self) -> Arc<Room> {
        self.queue.room()
    }

    /// How many transactions were synced to disk.
    pub fn commits(&self) -> u64 {
        self.queue.room().commits()
    }

    /// Writes what still waits and ends the writer; the error says what did not get written. Blocks.
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
