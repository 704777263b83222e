//! Copies a store that no scheduler uses, because SQLite would write to the original even for reads.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::identity::log_of;
use super::{MARKER_FILE, STORE_FILE, StoreError};

/// Copies the store in the data directory `from` into the folder `to`. Errors if a scheduler writes to the store meanwhile.
pub fn copy_store(from: &Path, to: &Path) -> Result<(), StoreError> {
    let database = from.join(STORE_FILE);
    let files = [log_of(&database), database, from.join(MARKER_FILE)];
    let before = stamps(&files)?;
    for file in &files {
        let target = to.join(file.file_name().unwrap_or_default());
        match fs::copy(file, target) {
            Ok(_) => {}
            // A closed store may have no log, and one of an old release no marker.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(inspect(file, error)),
        }
    }
    match stamps(&files)? == before {
        true => Ok(()),
        false => Err(StoreError::Changing {
            path: from.to_owned(),
        }),
    }
}

/// Returns the length and the modification time of each file; `None` for a file that does not exist.
fn stamps(files: &[PathBuf]) -> Result<Vec<Option<(u64, SystemTime)>>, StoreError> {
    let stamp = |file: &PathBuf| match file.metadata().and_then(|m| Ok((m.len(), m.modified()?))) {
        Ok(stamp) => Ok(Some(stamp)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(inspect(file, error)),
    };
    files.iter().map(stamp).collect()
}

fn inspect(path: &Path, error: io::Error) -> StoreError {
    StoreError::Inspect {
        path: path.to_owned(),
        error,
    }
}
