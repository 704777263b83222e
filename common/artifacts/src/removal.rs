//! The removal of folders that a task has filled, however deep they are and whatever their modes.
//!
//! A removal needs the same stack, and at most [`MOST_OPEN`] open folders, for each tree. Each name is opened in its folder, so the length
//! of paths has no limit, and a link is deleted and never followed.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

/// The most folders that a removal has open. Folders in the last of them are moved up before their content is deleted.
const MOST_OPEN: usize = 32;
/// The mode bits with which the owner of a folder can delete what is in it.
const PRIVATE: u32 = 0o700;

/// Deletes a file, or a folder with everything in it. Does nothing if nothing is there.
///
/// Folders that their owner may not change get the mode 0700 first. Deletes as much as possible, and returns the first error.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    remove_tree_at(rustix::fs::CWD, path)
}

/// Deletes a file or folder as [`remove_tree`] does. `name` is its path from `parent`.
pub fn remove_tree_at(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<()> {
    let Some(mut removal) = Removal::begin(parent, name)? else {
        return Ok(());
    };
    removal.run(u64::MAX);
    removal.end(parent, name)
}

/// A removal in steps, between which its owner may stop it. What is left then can be removed by another one.
pub struct SteppedRemoval {
    path: PathBuf,
    removal: Removal,
}

impl SteppedRemoval {
    /// Begins to delete as [`remove_tree`] does. `None` if nothing is left: a file or an empty folder is deleted at once.
    pub fn begin(path: PathBuf) -> io::Result<Option<Self>> {
        let removal = Removal::begin(rustix::fs::CWD, &*path)?;
        Ok(removal.map(|removal| SteppedRemoval { path, removal }))
    }

    /// Reads at most `most` names, and deletes their files and empty folders. Returns the result of the whole removal after the last step.
    pub fn step(&mut self, most: u64) -> Option<io::Result<()>> {
        let is_over = self.removal.run(most);
        is_over.then(|| self.removal.end(rustix::fs::CWD, &*self.path))
    }

    /// Returns the number of files and folders that were deleted.
    pub fn deleted(&self) -> u64 {
        self.removal.deleted
    }
}

/// A removal of the content of one folder.
struct Removal {
    /// The open folders on the path to the one that is being emptied, the outermost first.
    open: Vec<Level>,
    /// The number of files and folders that were deleted.
    deleted: u64,
    /// The number of names that were given to folders that were moved up.
    moved: u64,
    first_error: Option<Errno>,
}

/// An open folder.
struct Level {
    folder: Dir,
    /// The name in the folder around it.
    name: CString,
    /// Something was deleted in the folder, moved out of it or moved into it since its list was begun.
    has_changed: bool,
}

impl Level {
    fn new(folder: OwnedFd, name: &CStr) -> rustix::io::Result<Self> {
        Ok(Level {
            folder: Dir::new(folder)?,
            name: name.to_owned(),
            has_changed: false,
        })
    }
}

impl Removal {
    /// Deletes a file or an empty folder, or opens a folder. `None` if nothing is left.
    fn begin(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<Option<Self>> {
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        // A disk that is mounted here belongs to others.
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(None),
            Err(error @ Errno::BUSY) => return Err(error.into()),
            Err(_) => {}
        }
        Ok(Some(Removal {
            open: vec![Level::new(open_folder(parent, name)?, c"")?],
            deleted: 0,
            moved: 0,
            first_error: None,
        }))
    }

    /// Deletes the folder, which was emptied as far as possible.
    fn end(&mut self, parent: BorrowedFd<'_>, name: impl Arg) -> io::Result<()> {
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) => self.deleted += 1,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(self.first_error.unwrap_or(error).into()),
        }
        Ok(())
    }

    /// Deletes all content that can be deleted, until it has read `most` names. Returns whether it has read all.
    fn run(&mut self, most: u64) -> bool {
        let mut left = most;
        while let Some(level) = self.open.last_mut() {
            if left == 0 {
                return false;
            }
            left -= 1;
            match level.folder.read() {
                Some(Ok(entry)) => {
                    let name = entry.file_name();
                    if name == c"." || name == c".." {
                        continue;
                    }
                    let deleted = self.delete(name, entry.file_type());
                    self.note(deleted);
                }
                Some(Err(error)) => self.note(Err(error)),
                None if std::mem::take(&mut level.has_changed) => level.folder.rewind(),
                None => self.leave(),
            }
        }
        true
    }

    fn note(&mut self, result: rustix::io::Result<()>) {
        if let Err(error) = result {
            self.first_error.get_or_insert(error);
        }
    }

    /// Deletes an entry of the innermost folder, or begins with its content.
    fn delete(&mut self, name: &CStr, kind: FileType) -> rustix::io::Result<()> {
        let Some(level) = self.open.last_mut() else {
            return Ok(());
        };
        let folder = level.folder.fd()?;
        let flags = match kind {
            FileType::Directory => AtFlags::REMOVEDIR,
            _ => AtFlags::empty(),
        };
        let deleted = match rustix::fs::unlinkat(folder, name, flags) {
            // Some file systems do not say the type.
            Err(Errno::ISDIR) => rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR),
            deleted => deleted,
        };
        match deleted {
            Ok(()) => {
                level.has_changed = true;
                self.deleted += 1;
            }
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                let inner = open_folder(folder, name)?;
                if self.open.len() >= MOST_OPEN {
                    return self.move_up(name);
                }
                self.open.push(Level::new(inner, name)?);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Moves a folder from the innermost open folder to the outermost one that can take it, where it is deleted later.
    fn move_up(&mut self, name: &CStr) -> rustix::io::Result<()> {
        let Some((from, above)) = self.open.split_last_mut() else {
            return Ok(());
        };
        for to in above {
            loop {
                let free = format!("moved-{}", self.moved);
                self.moved += 1;
                match rustix::fs::renameat(from.folder.fd()?, name, to.folder.fd()?, free) {
                    Ok(()) => {
                        (from.has_changed, to.has_changed) = (true, true);
                        return Ok(());
                    }
                    // An entry has this name.
                    Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => {}
                    // Another part of the file system, or a folder with as many folders as it can have.
                    Err(Errno::XDEV | Errno::MLINK) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(Errno::XDEV)
    }

    /// Deletes the innermost folder, which has been emptied as far as possible.
    fn leave(&mut self) {
        let Some(level) = self.open.pop() else {
            return;
        };
        let Some(above) = self.open.last_mut() else {
            return;
        };
        let deleted = above.folder.fd().and_then(|folder| {
            rustix::fs::unlinkat(folder, level.name.as_c_str(), AtFlags::REMOVEDIR)
        });
        match deleted {
            Ok(()) => {
                above.has_changed = true;
                self.deleted += 1;
            }
            Err(Errno::NOENT) => {}
            Err(error) => self.note(Err(error)),
        }
    }
}

/// Opens a folder, and lets its owner change it.
fn open_folder(parent: BorrowedFd<'_>, name: impl Arg + Copy) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |access| rustix::fs::openat(parent, name, flags | access, Mode::empty());
    let folder = match open(OFlags::RDONLY) {
        Err(Errno::ACCESS) => {
            // A folder that cannot be read can be opened as a place only, and the mode of such a file is changed by its name in `/proc`.
            let place = open(OFlags::PATH)?;
            let path = format!("/proc/self/fd/{}", place.as_raw_fd());
            rustix::fs::chmod(path, Mode::from_raw_mode(PRIVATE))?;
            open(OFlags::RDONLY)?
        }
        opened => opened?,
    };
    let mode = rustix::fs::fstat(&folder)?.st_mode;
    if mode & PRIVATE != PRIVATE {
        // A failure matters only if something cannot be deleted then, which is the better error.
        let _ = rustix::fs::fchmod(folder.as_fd(), Mode::from_raw_mode(PRIVATE));
    }
    Ok(folder)
}
