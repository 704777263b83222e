//! Opens files and folders that a task left, without following a link, waiting for a pipe, or reading what the task could not read.
//!
//! Each folder on a path is opened by its name in the folder before, so a link in the place of a folder is never followed, and no path can
//! leave the working directory. That holds also while another process renames the folders.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use thiserror::Error;

use crate::archive::FileMode;
use crate::stop::StopCheck;

/// The user and the group of a task, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskUser {
    pub uid: u32,
    pub gid: u32,
}

impl TaskUser {
    pub fn of_this_process() -> Self {
        TaskUser {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }
}

/// The working directory of a task whose processes have all ended.
#[derive(Clone, Copy, Debug)]
pub struct TaskFolder<'a> {
    pub folder: BorrowedFd<'a>,
    pub user: TaskUser,
    /// Stops the copying of its outputs.
    pub stop: StopCheck<'a>,
}

/// The reason why a file or folder of a task does not become an artifact.
#[derive(Debug, Error)]
pub enum OutputRefusal {
    #[error("the task did not write it")]
    Absent,
    #[error("it is a symbolic link: write the file itself")]
    Link,
    #[error("it is a pipe, a socket or a device: only files and folders become artifacts")]
    Special,
    #[error("it is a folder: add `/` to its path in the task's outputs")]
    Folder,
    #[error("it is a file: remove `/` from the end of its path in the task's outputs")]
    File,
    #[error("its mode {0:04o} has a set-user-ID, set-group-ID or sticky bit: clear it with chmod")]
    SpecialBits(u32),
    #[error(
        "it belongs to user {owner}, and its mode {mode:04o} does not let user {user} of the task read it: chown the file or run chmod o+r"
    )]
    Unreadable { owner: u32, mode: u32, user: u32 },
    #[error("it was replaced while it was read: no process may change outputs after the task")]
    Replaced,
    #[error(
        "its length changed from {expected} bytes while it was read: no process may change outputs after the task"
    )]
    Changed { expected: u64 },
    #[error("the folder has more than {0} files and folders: pack them into fewer files")]
    TooMany(u64),
    #[error("its path in the folder is longer than {bytes} bytes or has more than {depth} names")]
    TooDeep { bytes: usize, depth: usize },
    #[error("it cannot be read: {0}")]
    Failed(#[from] io::Error),
}

impl From<Errno> for OutputRefusal {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOENT => OutputRefusal::Absent,
            error => OutputRefusal::Failed(error.into()),
        }
    }
}

/// An open entry of a task's folder.
pub enum TaskEntry {
    File {
        file: File,
        size: u64,
        mode: FileMode,
    },
    Folder(OwnedFd),
}

const SPECIAL_BITS: u32 = 0o7000;
const OWNER_EXECUTES: u32 = 0o100;
/// The bits with which every user can read a file, and list and enter a folder.
const OTHERS_READ: u32 = 0o004;
const OTHERS_LIST: u32 = 0o005;

/// Opens an entry of a folder.
pub fn open_entry(
    folder: impl AsFd,
    name: &[u8],
    user: TaskUser,
) -> Result<TaskEntry, OutputRefusal> {
    let name = CString::new(name).map_err(io::Error::from)?;
    // A device may act on being opened, so its type is checked before.
    let before = rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(before.st_mode) {
        FileType::RegularFile => OFlags::empty(),
        FileType::Directory => OFlags::DIRECTORY,
        FileType::Symlink => return Err(OutputRefusal::Link),
        _ => return Err(OutputRefusal::Special),
    };
    // A pipe in the place of the file must not block, nor must a lease on the file.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(&folder, &name, flags | kind, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR | Errno::NOENT) => return Err(OutputRefusal::Replaced),
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&opened)?;
    if (stat.st_dev, stat.st_ino, stat.st_mode) != (before.st_dev, before.st_ino, before.st_mode) {
        return Err(OutputRefusal::Replaced);
    }
    let mode = stat.st_mode & 0o7777;
    if kind == OFlags::DIRECTORY {
        check_reader(&stat, OTHERS_LIST, user)?;
        return Ok(TaskEntry::Folder(opened));
    }
    if mode & SPECIAL_BITS != 0 {
        return Err(OutputRefusal::SpecialBits(mode));
    }
    check_reader(&stat, OTHERS_READ, user)?;
    Ok(TaskEntry::File {
        file: opened.into(),
        // The kernel reports no negative sizes.
        size: stat.st_size.cast_unsigned(),
        mode: match mode & OWNER_EXECUTES {
            0 => FileMode::Plain,
            _ => FileMode::Executable,
        },
    })
}

/// Errors unless the user can read the file: a task may have moved or linked here a file of another user that it cannot read, and the
/// worker can.
fn check_reader(stat: &Stat, others: u32, user: TaskUser) -> Result<(), OutputRefusal> {
    let (owner, mode) = (stat.st_uid, stat.st_mode & 0o7777);
    let is_reader = user.uid == 0 || owner == user.uid || mode & others == others;
    match is_reader {
        true => Ok(()),
        false => Err(OutputRefusal::Unreadable {
            owner,
            mode,
            user: user.uid,
        }),
    }
}

/// Opens a folder below the working directory. Errors with the number of the name that is refused.
pub fn open_folder(
    task: TaskFolder<'_>,
    names: &[&str],
) -> Result<OwnedFd, (usize, OutputRefusal)> {
    let mut folder = task
        .folder
        .try_clone_to_owned()
        .map_err(|error| (0, error.into()))?;
    for (at, name) in names.iter().enumerate() {
        match open_entry(&folder, name.as_bytes(), task.user) {
            Ok(TaskEntry::Folder(next)) => folder = next,
            Ok(TaskEntry::File { .. }) => return Err((at, OutputRefusal::File)),
            Err(refusal) => return Err((at, refusal)),
        }
    }
    Ok(folder)
}

/// Returns the names in a folder, sorted by their bytes. Errors if there are more than `most`.
pub fn sorted_names(folder: impl AsFd, most: u64) -> Result<Vec<Vec<u8>>, OutputRefusal> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() as u64 >= most {
            return Err(OutputRefusal::TooMany(most));
        }
        names.push(name.to_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns whether a name can be that of an entry of a folder.
pub fn is_file_name(name: &OsStr) -> bool {
    let bytes = name.as_encoded_bytes();
    !matches!(bytes, b"" | b"." | b"..") && !bytes.iter().any(|byte| b"/\0".contains(byte))
}
