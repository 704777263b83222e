//! Which files a store consists of, and whether they are still the ones at their paths: a successful commit alone proves nothing.

use std::path::{Path, PathBuf};

use brasserie_common_runtime::{FileId, PinnedFile};

use super::error::StoreError;

fn pin(path: PathBuf) -> Result<PinnedFile, StoreError> {
    PinnedFile::at(path.clone()).map_err(|error| StoreError::Inspect { path, error })
}

/// The folder and the database file: they never change while a scheduler runs.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    folder: PinnedFile,
    database: PinnedFile,
}

impl Identity {
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        let folder = database.parent().unwrap_or(Path::new("/"));
        Ok(Identity {
            folder: pin(folder.to_owned())?,
            database: pin(database.to_owned())?,
        })
    }

    pub(super) fn database(&self) -> FileId {
        self.database.id()
    }

    /// Errors if the folder or the database file is not the same any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        for pinned in [&self.folder, &self.database] {
            if let Some(change) = pinned.change() {
                return Err(StoreError::NotTheSame {
                    path: pinned.path().to_owned(),
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
pub(super) struct LogFile(PinnedFile);

impl LogFile {
    /// Of a connection that has read something: before that there may be no log.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        pin(log_of(database)).map(LogFile)
    }

    /// Errors if what was committed may stand in a file that has no name any more.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.change() {
            None => Ok(()),
            Some(change) => Err(StoreError::LogNotTheSame {
                path: self.0.path().to_owned(),
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
