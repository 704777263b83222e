//! Reads and writes control files, with errors that name them. To readers, a file that is gone with its group is no error.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The largest part of a control file that is read, in bytes. `cgroup.procs` has 8 bytes for each of the at most 4 million processes of a
/// kernel; no other file is nearly as long.
const MAX_BYTES: u64 = 64 << 20;
/// The largest number of groups that one scan visits. A task may have made groups below its own.
const MAX_BELOW: usize = 10_000;

/// A failed operation on a control file or group.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}: {error}", path.display())]
pub struct FileError {
    pub what: &'static str,
    pub path: PathBuf,
    pub error: io::Error,
}

impl FileError {
    pub fn of(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
        move |error| FileError {
            what,
            path: path.to_owned(),
            error,
        }
    }
}

/// Returns the whole text; `None` if it cannot be read.
pub fn read(dir: &Path, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let file = File::open(dir.join(name)).ok()?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

/// Writes the value with one system call, as control files require. Never creates a file.
pub fn write(dir: &Path, name: &str, value: &str) -> Result<(), FileError> {
    let path = dir.join(name);
    let mut file = open_to_write(&path).map_err(FileError::of("open", &path))?;
    file.write_all(value.as_bytes())
        .map_err(FileError::of("write to", &path))
}

pub fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

pub fn exists(dir: &Path, name: &str) -> bool {
    fs::symlink_metadata(dir.join(name)).is_ok()
}

/// Returns the number in a file.
pub fn number(dir: &Path, name: &str) -> Option<u64> {
    read(dir, name)?.trim().parse().ok()
}

/// Returns the number that follows `key` at the beginning of a line.
pub fn field(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

/// Returns a group and all groups below it, the innermost first.
pub fn tree(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    let mut next = 0;
    while let Some(group) = found.get(next) {
        next += 1;
        let below = fs::read_dir(group).into_iter().flatten().flatten();
        let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let folders: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
        found.extend(folders);
        if found.len() > MAX_BELOW {
            break;
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_names() {
        let text = "oom 1\noom_kill 7\nbroken\nlow x\n";
        assert_eq!(field(text, "oom"), Some(1));
        assert_eq!(field(text, "oom_kill"), Some(7));
        assert_eq!(field(text, "low"), None);
        assert_eq!(field(text, "broken"), None);
        assert_eq!(field(text, "max"), None);
    }

    #[test]
    fn writing_makes_no_file_and_says_which_one_is_missing() {
        let dir = tempfile::tempdir().expect("a folder");
        let error = write(dir.path(), "cpu.shares", "2").expect_err("not there");
        assert!(error.to_string().contains("cpu.shares"), "{error}");
        assert!(!exists(dir.path(), "cpu.shares"));
        assert_eq!(read(dir.path(), "cpu.shares"), None);
    }

    #[test]
    fn a_tree_comes_with_its_leaves_first() {
        let dir = tempfile::tempdir().expect("a folder");
        let inner = dir.path().join("a/b");
        fs::create_dir_all(&inner).expect("made");
        fs::write(dir.path().join("file"), "").expect("made");
        let found = tree(dir.path());
        assert_eq!(found, [inner, dir.path().join("a"), dir.path().to_owned()]);
    }
}
