//! Identifies the files of a store, and checks that they are still the files at their paths. A successful commit alone proves nothing.

use std::path::{Path, PathBuf};

use brasserie_common_runtime::{FileId, PinnedFile};

use super::error::StoreError;

fn pin(path: PathBuf) -> Result<PinnedFile, StoreError> {
    PinnedFile::at(path.clone()).map_err(|error| StoreError::Inspect { path, error })
}

/// The folder and the database file, which never change while a scheduler runs.
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

    /// Errors if the folder or the database file at its path is another one.
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

/// The write-ahead log that one connection uses as long as it lives. Its index (`-shm`) is not checked, because the scheduler has it in
/// memory and rebuilds it after a crash.
#[derive(Clone, Debug)]
pub(super) struct LogFile(PinnedFile);

impl LogFile {
    /// Identifies the log of a connection that has read something. Before that there may be no log.
    pub(super) fn of(database: &Path) -> Result<Self, StoreError> {
        pin(log_of(database)).map(LogFile)
    }

    /// Errors if committed data may be in a file that is no longer at its path.
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

/// Bytes of the header of a log (<https://sqlite.org/fileformat2.html#the_write_ahead_log>).
pub(super) const LOG_HEADER: u64 = 32;

/// The path of a database's write-ahead log.
pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
