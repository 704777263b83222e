//! Makes the files of the store inaccessible to other users, because SQLite creates world-readable files.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::error::StoreError;

/// The mode of the database file. SQLite gives the log and its index the same mode.
const PRIVATE: u32 = 0o600;

/// Creates an empty file unless the path exists.
pub(super) fn create(path: &Path) -> Result<(), StoreError> {
    let created = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(path);
    match created {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(inspect(path)(error)),
    }
}

/// Removes the access of other users to the database file and all files whose names begin with its name. Former releases created them
/// readable. Errors if the database file is not a regular file. Opens no file, because closing a file releases SQLite's locks on it.
pub(super) fn tighten(database: &Path) -> Result<(), StoreError> {
    let metadata = database.symlink_metadata().map_err(inspect(database))?;
    if !metadata.is_file() {
        let error =
            io::Error::other("it is no regular file; the store must not be reached through a link");
        return Err(inspect(database)(error));
    }
    let (Some(folder), Some(name)) = (database.parent(), database.file_name()) else {
        return Ok(());
    };
    for entry in fs::read_dir(folder).map_err(inspect(folder))? {
        let entry = entry.map_err(inspect(folder))?;
        if !entry.file_name().as_bytes().starts_with(name.as_bytes()) {
            continue;
        }
        let path = entry.path();
        // Links are not followed.
        let metadata = match path.symlink_metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(inspect(&path)(error)),
        };
        if metadata.is_file() && metadata.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(&path, Permissions::from_mode(PRIVATE)).map_err(inspect(&path))?;
        }
    }
    Ok(())
}

fn inspect(path: &Path) -> impl Fn(io::Error) -> StoreError {
    move |error| StoreError::Inspect {
        path: path.to_owned(),
        error,
    }
}
