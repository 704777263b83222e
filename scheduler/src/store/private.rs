//! Keeps the files of the store from other users: what SQLite creates by itself, everybody may read.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use super::error::StoreError;

/// For the owner alone. SQLite gives the log and its index the mode of the database file.
const PRIVATE: u32 = 0o600;

/// Creates an empty file unless something has the name.
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

/// Takes the database file, and everything whose name begins with its name, from other users: former releases left them readable.
/// Errors if the database file is no regular file. Opens nothing, since closing a file gives up the locks that SQLite has on it.
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
        // Not through links.
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
