//! Unpacks the archive of a folder outside of any store, into a folder that nobody else can reach.

use std::ffi::OsStr;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::archive::{ArchiveError, ArchiveReader, EntryKind, FileMode, FolderLimits};
use crate::partial::CHUNK;

/// The reason why an archive is not unpacked. A part of it may be.
#[derive(Debug, Error)]
pub enum UnpackError {
    #[error("the bytes are not the archive of a folder: {0}")]
    Archive(#[from] ArchiveError),
    #[error("cannot write {}: {error}", path.display())]
    Write { path: PathBuf, error: io::Error },
}

/// Unpacks an archive into a new folder. The process's umask applies to the modes of all files and folders.
///
/// Invariant: no other user can write in the folder that gets `folder`, so that nobody puts a link where this writes.
pub fn unpack(archive: impl Read, folder: &Path) -> Result<(), UnpackError> {
    let mut archive = ArchiveReader::new(archive, FolderLimits::default());
    let mut path = folder.to_owned();
    let mut depth = 0;
    create_folder(&path)?;
    let mut buffer = vec![0; CHUNK];
    while let Some(entry) = archive.next()? {
        // The path has the names of the folders around the entry before, and its own name if it is a folder.
        while depth > entry.depth {
            path.pop();
            depth -= 1;
        }
        path.push(OsStr::from_bytes(&entry.name));
        match entry.kind {
            EntryKind::Folder => {
                create_folder(&path)?;
                depth += 1;
            }
            EntryKind::File { mode, .. } => {
                write_file(&mut archive, &path, mode, &mut buffer)?;
                path.pop();
            }
        }
    }
    Ok(())
}

fn create_folder(path: &Path) -> Result<(), UnpackError> {
    let created = DirBuilder::new().mode(0o777).create(path);
    created.map_err(|error| write_error(path, error))
}

fn write_file(
    archive: &mut ArchiveReader<impl Read>,
    path: &Path,
    mode: FileMode,
    buffer: &mut [u8],
) -> Result<(), UnpackError> {
    let mode = match mode {
        FileMode::Plain => 0o666,
        FileMode::Executable => 0o777,
    };
    // A new file only: a link at its place is an error.
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    let mut file = file.map_err(|error| write_error(path, error))?;
    loop {
        match archive.read(buffer)? {
            0 => return Ok(()),
            count => file
                .write_all(&buffer[..count])
                .map_err(|error| write_error(path, error))?,
        }
    }
}

fn write_error(path: &Path, error: io::Error) -> UnpackError {
    let path = path.to_owned();
    UnpackError::Write { path, error }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::archive::{END, header, padding};

    fn archive(entries: &[(&str, Option<&str>, FileMode)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (path, content, mode) in entries {
            let kind = match content {
                None => EntryKind::Folder,
                Some(content) => EntryKind::File {
                    size: content.len() as u64,
                    mode: *mode,
                },
            };
            bytes.extend(header(path.as_bytes(), kind));
            let content = content.unwrap_or_default();
            bytes.extend(content.as_bytes());
            bytes.extend(padding(content.len() as u64));
        }
        bytes.extend(END);
        bytes
    }

    #[test]
    fn files_and_folders_are_where_the_archive_has_them() {
        let temporary = tempfile::tempdir().expect("a folder");
        let folder = temporary.path().join("new");
        let bytes = archive(&[
            ("a", None, FileMode::Plain),
            ("a/b", None, FileMode::Plain),
            ("a/b/deep", Some("1"), FileMode::Plain),
            ("a/c", Some("2"), FileMode::Executable),
            ("d", None, FileMode::Plain),
            ("e", Some(""), FileMode::Plain),
        ]);
        unpack(&bytes[..], &folder).expect("a good archive");
        let read = |path: &str| fs::read_to_string(folder.join(path)).expect(path);
        assert_eq!([read("a/b/deep"), read("a/c"), read("e")], ["1", "2", ""]);
        assert!(folder.join("d").is_dir());
        let mode = |path: &str| {
            let metadata = fs::metadata(folder.join(path)).expect(path);
            metadata.permissions().mode() & 0o100
        };
        assert_eq!((mode("a/c"), mode("e")), (0o100, 0));
    }

    #[test]
    fn nothing_is_written_over_and_no_bad_archive_is_taken() {
        let temporary = tempfile::tempdir().expect("a folder");
        let bytes = archive(&[("a", Some("1"), FileMode::Plain)]);
        let exists = unpack(&bytes[..], temporary.path());
        assert!(matches!(exists, Err(UnpackError::Write { .. })));
        let cut = unpack(&bytes[..700], &temporary.path().join("cut"));
        assert!(matches!(cut, Err(UnpackError::Archive(_))), "{cut:?}");
        let outside = archive(&[("../a", Some("1"), FileMode::Plain)]);
        let outside = unpack(&outside[..], &temporary.path().join("outside"));
        assert!(matches!(outside, Err(UnpackError::Archive(_))));
        assert!(!temporary.path().join("a").exists());
    }
}
