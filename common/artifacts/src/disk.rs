//! The folder of one disk: its lock, its generation, and the files in it. Knows nothing of quotas and of other disks.
//!
//! All names are relative to folders that stay open, so a disk that is unmounted or replaced gets no more files.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use brasserie_common::DiskGeneration;
use brasserie_common_runtime::files::{atomic_write, read_regular};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

use crate::artifact_key::ArtifactKey;
use crate::removal::remove_tree;
use crate::space::FileSystemSpace;

const LOCK_FILE: &str = "lock";
const GENERATION_FILE: &str = "generation";
/// Folder of the files that are not complete yet.
const INCOMING: &str = "incoming";
/// Folder of the artifacts.
const CONTENT: &str = "content";
/// The entries that each used disk has, apart from its generation.
const LAYOUT: [&str; 3] = [LOCK_FILE, INCOMING, CONTENT];
/// Folder of the files in [`CONTENT`] that no store has written.
const SET_ASIDE: &str = "set-aside";
/// Name of the folder that a new file system has in its root.
const LOST_AND_FOUND: &str = "lost+found";
/// The size limit of the generation's file: 32 digits and a newline, with some reserve.
const MAX_GENERATION_TEXT: u64 = 64;
/// The mode of a folder for its owner alone.
const PRIVATE: u32 = 0o700;
/// The mode of artifacts. The file that creates one can write to it nevertheless.
const READ_ONLY: u32 = 0o400;
/// The mode bits that let others change the content.
const OTHERS_WRITE: u32 = 0o022;

/// A mistake in the use of a disk, which a person must correct.
#[derive(Debug, Error)]
pub enum DiskMistake {
    #[error(
        "the artifact disk {} is in use by another worker, or given twice. Two workers on one folder would delete each other's files: end \
         that worker first, or choose another folder for --disk", path.display()
    )]
    InUse { path: PathBuf },
    #[error(
        "the artifact disk {} belongs to user {owner}, but this program runs as user {own}, so that user could change artifacts. Run: \
         chown -R {own} {}, or choose another folder for --disk", path.display(), path.display()
    )]
    Foreign { path: PathBuf, owner: u32, own: u32 },
    #[error(
        "other users may write to the artifact disk {} (its mode is {mode:04o}). Check that they have put nothing there, then run: chmod \
         go-w {}", path.display(), path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error(
        "{} has files of others, such as `{}`, and no worker has used it for artifacts. Choose another folder for --disk: an empty one, or one \
         that does not exist yet", path.display(), entry.display()
    )]
    Strange { path: PathBuf, entry: PathBuf },
}

/// The reason why a disk cannot be opened.
#[derive(Debug, Error)]
pub enum DiskOpenError {
    #[error(transparent)]
    Mistake(#[from] DiskMistake),
    #[error("cannot use {}: {error}. Check the disk, its mount, and who owns it; then start the worker again", path.display())]
    Failed { path: PathBuf, error: io::Error },
}

/// A file or folder that no store has written, with its former and its new path.
#[derive(Clone, Debug)]
pub struct SetAside {
    pub from: PathBuf,
    pub to: PathBuf,
}

/// An open and locked disk.
#[derive(Debug)]
pub struct DiskFolder {
    path: PathBuf,
    generation: Option<DiskGeneration>,
    device: u64,
    content: OwnedFd,
    incoming: OwnedFd,
    lock: File,
}

impl DiskFolder {
    /// Creates the folder if it does not exist, locks it, and deletes partial files. Returns their number too.
    pub fn open(path: &Path) -> Result<(Self, u64), DiskOpenError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            |error| DiskOpenError::Failed { path, error }
        };
        let mut private = DirBuilder::new();
        private.recursive(true).mode(PRIVATE);
        private.create(path).map_err(failed(path))?;
        let path = &fs::canonicalize(path).map_err(failed(path))?;
        let metadata = fs::metadata(path).map_err(failed(path))?;
        check_owner(path, &metadata)?;
        if let Some(entry) = strange_entry(path).map_err(failed(path))? {
            let path = path.clone();
            return Err(DiskMistake::Strange { path, entry }.into());
        }
        let lock = lock(path)?;
        for folder in [INCOMING, CONTENT] {
            private.create(path.join(folder)).map_err(failed(path))?;
        }
        let open = |name: &str| open_folder(&path.join(name)).map_err(failed(&path.join(name)));
        // A link in the place of a folder is an error here, before anything is deleted there.
        let (incoming, content) = (open(INCOMING)?, open(CONTENT)?);
        let partial_files = empty(&path.join(INCOMING)).map_err(failed(path))?;
        let text = read_regular(&path.join(GENERATION_FILE), MAX_GENERATION_TEXT);
        let generation = text.ok().and_then(|text| {
            let text = String::from_utf8(text).ok()?;
            text.trim_end().parse().ok()
        });
        let disk = DiskFolder {
            generation,
            device: metadata.dev(),
            content,
            incoming,
            lock,
            path: path.clone(),
        };
        Ok((disk, partial_files))
    }

    /// Returns the generation; none if the disk has no valid one.
    pub fn generation(&self) -> Option<DiskGeneration> {
        self.generation
    }

    /// Gives the disk a new generation.
    pub fn renew_generation(&mut self) -> io::Result<()> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let generation = DiskGeneration(u128::from_be_bytes(bytes));
        let text = format!("{generation}\n");
        atomic_write(&self.path.join(GENERATION_FILE), text.as_bytes())?;
        self.generation = Some(generation);
        Ok(())
    }

    /// Returns the number of the file system, which two folders on one disk share.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Returns the absolute path of the folder of artifacts.
    pub fn content_path(&self) -> PathBuf {
        self.path.join(CONTENT)
    }

    /// Returns the path of an artifact, for messages.
    pub fn path_of(&self, key: &ArtifactKey) -> PathBuf {
        self.content_path().join(relative_path(key))
    }

    /// Moves a file or folder out of the folder of artifacts. Returns its new path.
    pub fn set_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let folder = self.path.join(SET_ASIDE);
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE)
            .create(&folder)?;
        for number in 1_u64.. {
            let place = folder.join(number.to_string());
            // A rename replaces files and empty folders.
            if fs::symlink_metadata(&place).is_err() {
                fs::rename(path, &place)?;
                return Ok(place);
            }
        }
        Err(io::Error::other("no free name is left"))
    }

    pub fn measure(&self) -> io::Result<FileSystemSpace> {
        let state = rustix::fs::fstatvfs(&self.content)?;
        Ok(FileSystemSpace {
            free: state.f_bavail.saturating_mul(state.f_frsize),
            total: state.f_blocks.saturating_mul(state.f_frsize),
        })
    }

    /// Creates a partial file, open for reading and writing.
    pub fn create_partial(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.incoming, name, flags, Mode::from_raw_mode(READ_ONLY))?;
        Ok(file.into())
    }

    pub fn delete_partial(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.incoming,
            name,
            AtFlags::empty(),
        )?)
    }

    /// Makes a partial file, which must be synced, the artifact of this name. The artifact survives a crash when its
    /// [folders](DiskFolder::folders_of) are synced, too. Sets aside what no store has put in the way, and returns that.
    pub fn place_partial(&self, name: &str, key: &ArtifactKey) -> io::Result<Vec<SetAside>> {
        let mut aside = Vec::new();
        let [_, namespace, inner] = Self::folders_of(key);
        for folder in [namespace, inner] {
            if !self.has_folder(&folder)? {
                aside.push(self.clear_place(&folder)?);
                self.has_folder(&folder)?;
            }
        }
        let place = relative_path(key);
        let place_it = || rustix::fs::renameat(&self.incoming, name, &self.content, &place);
        match place_it() {
            Err(Errno::ISDIR) => {
                aside.push(self.clear_place(&place)?);
                place_it()?;
            }
            placed => placed?,
        }
        Ok(aside)
    }

    /// Creates a folder in the folder of artifacts. Returns false if something else is there.
    fn has_folder(&self, folder: &Path) -> io::Result<bool> {
        match rustix::fs::mkdirat(&self.content, folder, Mode::from_raw_mode(PRIVATE)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => {
                let found = rustix::fs::statat(&self.content, folder, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(FileType::from_raw_mode(found.st_mode) == FileType::Directory)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn clear_place(&self, place: &Path) -> io::Result<SetAside> {
        let from = self.content_path().join(place);
        let to = self.set_aside(&from)?;
        Ok(SetAside { from, to })
    }

    /// Returns the folders on the path of an artifact, the outermost first. Each may be new, or another operation may have created it and
    /// not synced its entry yet.
    pub fn folders_of(key: &ArtifactKey) -> [PathBuf; 3] {
        let namespace = PathBuf::from(key.namespace.as_str());
        let inner = namespace.join(&key.id.to_string()[..2]);
        [PathBuf::from("."), namespace, inner]
    }

    /// Makes the names in a folder of artifacts survive a crash.
    pub fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&self.content, folder, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(folder)?)
    }

    /// Opens an artifact for reading.
    pub fn open_artifact(&self, key: &ArtifactKey) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.content, relative_path(key), flags, Mode::empty())?;
        Ok(file.into())
    }

    pub fn delete(&self, key: &ArtifactKey) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.content,
            relative_path(key),
            AtFlags::empty(),
        )?)
    }
}

impl Drop for DiskFolder {
    /// Closing the file would not suffice: a child process that is just starting holds a copy of it until it executes its own program.
    fn drop(&mut self) {
        // A lock that is already gone needs no release.
        let _ = self.lock.unlock();
    }
}

/// Returns the path of an artifact in the folder of artifacts.
fn relative_path(key: &ArtifactKey) -> PathBuf {
    let hex = key.id.to_string();
    [key.namespace.as_str(), &hex[..2], &hex].iter().collect()
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn check_owner(path: &Path, metadata: &fs::Metadata) -> Result<(), DiskMistake> {
    let (path, own) = (path.to_owned(), rustix::process::geteuid().as_raw());
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if owner != own {
        return Err(DiskMistake::Foreign { path, owner, own });
    }
    match mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(DiskMistake::Writable { path, mode }),
    }
}

/// Returns an entry of a folder that has files and that no store has used. A store would delete or move some of them.
fn strange_entry(path: &Path) -> io::Result<Option<PathBuf>> {
    // A store that was killed while it opened a new disk has left its lock and empty folders.
    let exists = |name: &&str| path.join(name).exists();
    let is_early = !LAYOUT.iter().all(exists);
    let is_empty =
        |name: &OsStr| fs::read_dir(path.join(name)).is_ok_and(|mut list| list.next().is_none());
    let mut strange = None;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if name == GENERATION_FILE {
            return Ok(None);
        }
        let is_own = LAYOUT.iter().any(|own| name == *own)
            && !(is_early && name != LOCK_FILE && !is_empty(&name));
        if !is_own && name != SET_ASIDE && name != LOST_AND_FOUND {
            strange.get_or_insert(name.into());
        }
    }
    Ok(strange)
}

fn lock(folder: &Path) -> Result<File, DiskOpenError> {
    let path = folder.join(LOCK_FILE);
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let opened = options.custom_flags(flags).open(&path);
    let locked = opened.and_then(|file| match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    });
    match locked {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(DiskMistake::InUse {
            path: folder.to_owned(),
        }
        .into()),
        Err(error) => Err(DiskOpenError::Failed { path, error }),
    }
}

/// Deletes the content of a folder. Returns the number of its entries.
fn empty(folder: &Path) -> io::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        remove_tree(&entry?.path())?;
        count += 1;
    }
    Ok(count)
}
