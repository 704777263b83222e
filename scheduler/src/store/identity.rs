//! Which files a store consists of, and whether they are still the ones at their paths. A deleted file stays open and takes every write,
//! and an unmounted disk leaves another folder at the path, so a successful commit alone proves nothing.

use std::io;
use std::path::{Path, PathBuf};

use brasserie_common_runtime::FileId;

use super::error::StoreError;

/// What became of a file since the store was opened.
#[derive(Debug, thiserror::Error)]
pub enum Change {
    #[error("was deleted or unmounted")]
    Gone,
    #[error("was replaced by another file or disk")]
    Replaced,
    #[error("cannot be checked ({0})")]
    Unknown(io::Error),
}

/// A path and the file that was there when the store was opened.
#[derive(Clone, Debug)]
struct Pinned {
    path: PathBuf,
    id: FileId,
}

impl Pinned {
    fn at(path: PathBuf) -> Result<Self, StoreError> {
        match FileId::at(&path) {
            Ok(id) => Ok(Pinned { path, id }),
            Err(error) => Err(StoreError::Inspect { path, error }),
        }
    }

    fn change(&self) -> Option<Change> {
        match FileId::at(&self.path) {
            Ok(id) if id == self.id => None,
            Ok(_) => Some(Change::Replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Change::Gone),
            Err(error) => Some(Change::Unknown(error)),
        }
    }
}

/// The folder and the database file: they never change while a scheduler runs.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    folder: Pinned,
    database: Pinned,
}

impl Identity {
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let folder = database.parent().unwrap_or(Path::new("/"));
        Ok(Identity {
            folder: Pinned::at(folder.to_owned())?,
            database: Pinned::at(database.to_owned())?,
        })
    }

    pub(super) fn database(&self) -> FileId {
        self.database.id
    }

    /// Errors if the folder or the database file is not the same any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        for pinned in [&self.folder, &self.database] {
            if let Some(change) = pinned.change() {
                return Err(StoreError::NotTheSame {
                    path: pinned.path.clone(),
                    change,
                });
            }
        }
        Ok(())
    }
}

/// The write-ahead log, which one connection uses as long as it lives. Its index (`-shm`) does not count: the scheduler has that in memory,
/// and after a crash it is made anew.
#[derive(Clone, Debug)]
pub(super) struct LogFile(Pinned);

impl LogFile {
    /// Of a connection that has read something: before that there may be no log.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        Pinned::at(log_of(database)).map(LogFile)
    }

    /// Errors if what was committed may stand in a file that has no name any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.change() {
            None => Ok(()),
            Some(change) => Err(StoreError::LogNotTheSame {
                path: self.0.path.clone(),
                change,
            }),
        }
    }
}

/// Bytes at the beginning of a log that hold no records (<https://sqlite.org/fileformat2.html#the_write_ahead_log>).
pub(super) const LOG_HEADER: u64 = 32;

/// The path of a database's write-ahead log.
pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
