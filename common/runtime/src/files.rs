//! Files that must be whole: a locked data directory, writes that a crash cannot tear, and reads with a limit of size.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use brasserie_common::text::shell_word;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;
use serde::{Deserialize, Serialize};

/// The lock file, whose text names the holder. Former releases lock this file and not the directory, so this release locks both.
const LOCK_FILE: &str = "lock";
/// Files that show which program has used the directory, beside [`STORE`].
const MARKERS: &[(&str, Owner)] = &[
    ("used.json", Owner::Scheduler),
    ("worker.json", Owner::Worker),
    ("run.json", Owner::Run),
];
/// Prefix of the names of a scheduler's store.
const STORE: &str = "state.sqlite3";
/// Name of the folder that a new file system has in its root.
const LOST_AND_FOUND: &str = "lost+found";
/// Name of the folder with keys, which an operator copies into the new data directory of a scheduler that takes over a cluster.
const IDENTITY: &str = "identity";
/// The size limit of the lock file: a process id and a newline, with some reserve.
const MAX_LOCK_TEXT: u64 = 64;
/// The mode of a folder for its owner alone.
const PRIVATE: u32 = 0o700;
/// The mode bits that let others use a file.
const OTHERS: u32 = 0o077;
/// The mode bits that let others change the content.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A data directory that only this process uses while the value lives. Dropping the value, or any end of the process, releases it.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// Locked too, because removing the lock file must not let a second program in.
    folder: File,
    lock: File,
}

/// The reason why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error(
        "cannot create the data directory {}: {error}. {}",
        path.display(), create_remedy(error)
    )]
    Create { path: PathBuf, error: io::Error },
    #[error(
        "cannot use {} in the data directory: {error}. Check who owns it, and whether its disk is full or read-only; or choose another --data-dir",
        path.display()
    )]
    Use { path: PathBuf, error: io::Error },
    #[error(
        "the data directory {} is in use by {holder}. Two programs on one directory would undo each other's work: end that one first, or \
         choose another --data-dir", path.display()
    )]
    InUse { path: PathBuf, holder: Holder },
    #[error(
        "the data directory {} belongs to user {owner}, but this program runs as user {own}, so that user could change what it keeps there. \
         Run the program as user {owner}, choose another --data-dir, or give the directory away: chown -R {own} {}", path.display(), path.display()
    )]
    Foreign { path: PathBuf, owner: u32, own: u32 },
    #[error(
        "other users may write to the data directory {} (its mode is {mode:04o}). Check that they have put nothing there, then run: chmod go-w {}",
        path.display(), path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error(
        "{} has files of others, such as `{}`, and no Brasserie program has used it as its data directory. Choose another --data-dir: an empty \
         folder, or one that does not exist yet", path.display(), entry.display()
    )]
    Strange { path: PathBuf, entry: PathBuf },
    #[error(
        "{} is the data directory of {owner}, as it has the file `{}`. Choose another --data-dir", path.display(), file.display()
    )]
    OfAnother {
        path: PathBuf,
        owner: Owner,
        file: PathBuf,
    },
}

/// The kind of program that a data directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    Scheduler,
    Worker,
    Run,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Owner::Scheduler => "a scheduler",
            Owner::Worker => "a worker",
            Owner::Run => "`brasserie run`",
        })
    }
}

fn create_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "It, or a folder in its path, is a file. Choose another --data-dir"
        }
        _ => "Choose another --data-dir, or create this folder for the user of this program",
    }
}

/// The holder of the lock, as far as the lock file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Process(u32),
    Unknown,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Holder::Process(id) => write!(f, "process {id}"),
            Holder::Unknown => f.write_str("another process"),
        }
    }
}

impl DataDir {
    /// Creates the directory (mode 0700) if it does not exist, and locks it before reading anything in it. An existing directory must
    /// belong to this user, and no other user may be able to write to it.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        DataDir::open_as(path, std::process::id())
    }

    /// Opens the directory as [`DataDir::open`] does. `holder` is the number of this process outside of its PID namespace.
    pub fn open_as(path: &Path, holder: u32) -> Result<Self, DataDirError> {
        let create_error = |error| DataDirError::Create {
            path: path.to_owned(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(PRIVATE)
            .create(path)
            .map_err(create_error)?;
        // Later changes of the working directory must not change the path.
        let path = fs::canonicalize(path).map_err(create_error)?;
        let folder_error = |error| DataDirError::Use {
            path: path.clone(),
            error,
        };
        let folder = open_folder(&path).map_err(folder_error)?;
        if others_may_write(&path, &folder)? {
            let private = fs::Permissions::from_mode(PRIVATE);
            folder.set_permissions(private).map_err(folder_error)?;
        }
        if let Some(entry) = strange_entry(&path).map_err(folder_error)? {
            return Err(DataDirError::Strange { path, entry });
        }
        let lock_path = path.join(LOCK_FILE);
        let lock_error = |error| DataDirError::Use {
            path: lock_path.clone(),
            error,
        };
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path, &lock_path)),
            Err(TryLockError::Error(error)) if cannot_lock_folders(&error) => {
                tracing::warn!(path = %path.display(), %error, "this file system locks no directories; the file `lock` alone protects the data directory");
            }
            Err(TryLockError::Error(error)) => return Err(folder_error(error)),
        }
        let mut lock = open_lock(&lock_path).map_err(lock_error)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path, &lock_path)),
            Err(TryLockError::Error(error)) => return Err(lock_error(error)),
        }
        write_holder(&mut lock, holder).map_err(lock_error)?;
        Ok(DataDir { path, folder, lock })
    }

    /// Errors if another kind of program has used the directory and this kind has not.
    pub fn of(self, own: Owner) -> Result<Self, DataDirError> {
        check_owner(&self.path, own)?;
        Ok(self)
    }

    /// Errors if [`DataDir::open`] or [`DataDir::of`] would refuse this existing directory for its owner or its mode. Changes nothing.
    pub fn check(path: &Path, own: Owner) -> Result<(), DataDirError> {
        let use_error = |error| DataDirError::Use {
            path: path.to_owned(),
            error,
        };
        let path = fs::canonicalize(path).map_err(use_error)?;
        let folder = open_folder(&path).map_err(use_error)?;
        others_may_write(&path, &folder)?;
        check_owner(&path, own)
    }

    /// Returns whether a program of this kind has used the directory, without a check of its owner. Changes nothing.
    pub fn was_used_by(path: &Path, program: Owner) -> bool {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut owners = entries.filter_map(|entry| owner_of(&entry.file_name().to_string_lossy()));
        owners.any(|owner| owner == program)
    }

    /// Returns whether a process has locked this existing directory, without changing it.
    ///
    /// The check holds the lock for a moment, so another process that locks the directory meanwhile may be refused. Callers use it only
    /// where they expect no other process.
    pub fn is_in_use(path: &Path) -> Result<bool, DataDirError> {
        let use_error = |error| DataDirError::Use {
            path: path.to_owned(),
            error,
        };
        let folder = open_folder(path).map_err(use_error)?;
        match folder.try_lock_shared() {
            // Closing the file releases the lock.
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(use_error(error)),
        }
    }

    /// Returns the absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the folder of this name inside, created (mode 0700) if it does not exist.
    pub fn folder(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.path.join(name);
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(DataDirError::Use { path, error }),
        }
    }
}

impl Drop for DataDir {
    /// Closing the file would not suffice: a child process that is just starting holds a copy of it until it executes its own program.
    fn drop(&mut self) {
        // A lock that is already gone needs no release.
        let _ = self.lock.unlock();
        let _ = self.folder.unlock();
    }
}

fn open_folder(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits())
        .open(path)
}

/// Returns the kind of program to whose data directory a file of this name belongs.
fn owner_of(file: &str) -> Option<Owner> {
    let marker = MARKERS.iter().find(|(marker, _)| *marker == file);
    let marker = marker.map(|(_, owner)| *owner);
    marker.or_else(|| file.starts_with(STORE).then_some(Owner::Scheduler))
}

/// Errors if another kind of program has used the directory and this kind has not.
fn check_owner(path: &Path, own: Owner) -> Result<(), DataDirError> {
    let use_error = |error| DataDirError::Use {
        path: path.to_owned(),
        error,
    };
    let mut of_another = None;
    for entry in fs::read_dir(path).map_err(use_error)? {
        let file = entry.map_err(use_error)?.file_name();
        match owner_of(&file.to_string_lossy()) {
            Some(owner) if owner == own => return Ok(()),
            Some(owner) => of_another = Some((owner, file)),
            None => {}
        }
    }
    match of_another {
        None => Ok(()),
        Some((owner, file)) => Err(DataDirError::OfAnother {
            path: path.to_owned(),
            owner,
            file: file.into(),
        }),
    }
}

/// Returns an entry of a directory that has files and that no program of this project has used. A program would mix its files with these.
/// Each use leaves [`LOCK_FILE`]. A restored backup may consist of the store alone.
fn strange_entry(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut strange = None;
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        if text == LOCK_FILE || owner_of(&text).is_some() {
            return Ok(None);
        }
        if text != LOST_AND_FOUND && text != IDENTITY {
            strange.get_or_insert(name.into());
        }
    }
    Ok(strange)
}

/// Errors if the directory belongs to another user, or if others can write to it. Returns whether the mode can be corrected. An empty
/// directory is made private, unless it is shared like `/tmp`. A used one keeps its mode, because it may serve other purposes too.
fn others_may_write(path: &Path, folder: &File) -> Result<bool, DataDirError> {
    let use_error = |error| DataDirError::Use {
        path: path.to_owned(),
        error,
    };
    let metadata = folder.metadata().map_err(use_error)?;
    let own = geteuid().as_raw();
    if metadata.uid() != own {
        return Err(DataDirError::Foreign {
            path: path.to_owned(),
            owner: metadata.uid(),
            own,
        });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 {
        return Ok(false);
    }
    let is_empty = fs::read_dir(path).map_err(use_error)?.next().is_none();
    if !is_empty || mode & STICKY != 0 {
        return Err(DataDirError::Writable {
            path: path.to_owned(),
            mode,
        });
    }
    Ok(true)
}

/// Returns whether the error means that folders cannot be locked. NFS translates such locks to byte-range locks, which need a file that is
/// open for writing.
fn cannot_lock_folders(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw);
    matches!(number, Some(Errno::EBADF | Errno::EOPNOTSUPP))
}

/// Waits until no other process has locked this file, and locks it; creates it (mode 0600) if it does not exist. Closing the returned file
/// releases the lock. Errors of the kind `Unsupported` say that the file system has no locks.
pub fn lock(path: &Path) -> io::Result<File> {
    let file = open_lock(path)?;
    file.lock().map_err(of_lock)?;
    Ok(file)
}

/// Returns the error of a lock. One that says that there are no locks gets the kind for that: NFS says so in its own way, if the server
/// has no service for them.
fn of_lock(error: io::Error) -> io::Error {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOLCK | Errno::EOPNOTSUPP) => {
            io::Error::new(io::ErrorKind::Unsupported, error)
        }
        _ => error,
    }
}

/// Opens the lock file.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    open_own(path, options.mode(0o600))
}

/// Opens a file of a program's own for writing. Errors if it is a pipe, a socket or a device, without waiting for the reader of a pipe.
/// Does not follow a link in its place, because the program would change the target.
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let not_regular = || io::Error::other("it is no regular file: remove it");
    let opened = options
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => io::Error::other("it is a symbolic link: remove it"),
        // A pipe without a reader, or a socket.
        Some(Errno::ENXIO) => not_regular(),
        _ => error,
    })?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(not_regular()),
    }
}

fn in_use(path: PathBuf, lock: &Path) -> DataDirError {
    let holder = open_lock(lock).map_or(Holder::Unknown, |mut lock| read_holder(&mut lock));
    DataDirError::InUse { path, holder }
}

fn read_holder(lock: &mut File) -> Holder {
    let mut text = String::new();
    match lock.take(MAX_LOCK_TEXT).read_to_string(&mut text) {
        Ok(_) => text.trim().parse().map_or(Holder::Unknown, Holder::Process),
        Err(_) => Holder::Unknown,
    }
}

fn write_holder(lock: &mut File, holder: u32) -> io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    writeln!(lock, "{holder}")
}

/// The identity of a file or directory. Two paths with the same id lead to the same file while it exists, because the kernel does not reuse
/// the number of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    /// Returns the id of the file at `path`. Does not follow a symbolic link at its end.
    pub fn at(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|metadata| FileId::of(&metadata))
    }

    pub fn of(metadata: &fs::Metadata) -> Self {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}

/// A path, and the file that was there when it was pinned. A deleted file stays open and accepts every write, and an unmounted disk leaves
/// another folder at the path, so a successful write alone proves nothing.
#[derive(Clone, Debug)]
pub struct PinnedFile {
    path: PathBuf,
    id: FileId,
}

/// How the file at a pinned path has changed.
#[derive(Debug, thiserror::Error)]
pub enum FileChange {
    #[error("was deleted or unmounted")]
    Gone,
    #[error("was replaced by another file or disk")]
    Replaced,
    #[error("cannot be checked ({0})")]
    Unknown(io::Error),
}

impl PinnedFile {
    pub fn at(path: PathBuf) -> io::Result<Self> {
        let id = FileId::at(&path)?;
        Ok(PinnedFile { path, id })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn id(&self) -> FileId {
        self.id
    }

    /// Returns `None` if the path still leads to the pinned file.
    pub fn change(&self) -> Option<FileChange> {
        match FileId::at(&self.path) {
            Ok(id) if id == self.id => None,
            Ok(_) => Some(FileChange::Replaced),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(FileChange::Gone),
            Err(error) => Some(FileChange::Unknown(error)),
        }
    }
}

/// Replaces a file by one with the mode 0600. After a crash it is either the old or the new one, and the new one is on disk when this
/// returns.
pub fn atomic_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    let mut temporary_name = std::ffi::OsString::from(".");
    temporary_name.push(name);
    temporary_name.push(".tmp");
    let temporary = folder.join(temporary_name);
    // A directory has one writer (its lock), so nobody needs a leftover of a crash. Its mode may be another one, and others may have opened it.
    if fs::symlink_metadata(&temporary).is_ok_and(|leftover| leftover.is_file()) {
        fs::remove_file(&temporary)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let opened = open_own(&temporary, &mut options);
    let mut file = opened.map_err(|error| match error.raw_os_error() {
        Some(_) => error,
        None => io::Error::other(format!("{}: {error}", temporary.display())),
    })?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The first error is the important one; a leftover does no harm.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    File::open(folder)?.sync_all()
}

/// The reason why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{} is larger than {max_bytes} bytes", path.display())]
    TooLarge { path: PathBuf, max_bytes: u64 },
    #[error("{} is not UTF-8 text: the byte at position {at} is not", path.display())]
    NotText { path: PathBuf, at: usize },
    #[error(
        "other users may read {} (its mode is {mode:04o}), which has a secret. If nobody has, run: chmod 600 {}",
        path.display(), path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    #[error("{} {problem}", path.display())]
    NotOwn { path: PathBuf, problem: NotOwn },
}

/// The reason why a file is not one that only this program can have written. Each names the command that corrects it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOwn {
    #[error(
        "is a symbolic link. If it leads to the right file, put that in its place: cp -p --remove-destination $(readlink -f {0}) {0}"
    )]
    Link(String),
    #[error("is no regular file. Remove it, and restore the file from a backup: rm -r {0}")]
    NoFile(String),
    #[error(
        "belongs to user {owner}, but this program runs as user {own}, so that user could have changed it. If it is the right file, run: \
         chown {own} {path}"
    )]
    Foreign { owner: u32, own: u32, path: String },
    #[error(
        "may be changed by other users (its mode is {mode:04o}). If nobody has, run: chmod go-w {path}"
    )]
    Writable { mode: u32, path: String },
}

/// The access of other users that a program's own file permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OthersMay {
    Read,
    /// The file has secrets.
    DoNothing,
}

/// Returns whether a file exists, or a link that may lead nowhere. Errors if that is not known, for example because a folder of the path
/// cannot be searched.
pub fn exists(path: &Path) -> Result<bool, FileError> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(FileError::Read {
            path: path.to_owned(),
            error,
        }),
    }
}

/// Reads a whole file of at most `max_bytes`. Counts the bytes read, because sizes of pipes and of growing files are not reliable.
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    read_opened(path, File::open(path), max_bytes)
}

/// Reads a file as [`read`] does, but fails if it is a folder, a pipe, a socket or a device. Does not wait for the writer of a pipe.
pub fn read_regular(path: &Path, max_bytes: u64) -> Result<Vec<u8>, FileError> {
    read_opened(path, open_regular(path), max_bytes)
}

/// Opens a file for reading. Errors if it is a folder, a pipe, a socket or a device, without waiting for the writer of a pipe.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

/// Reads a file that this program has written, in a folder of its own. Errors unless it is a regular file of this user, reached through no
/// link in its place, which other users cannot change.
pub fn read_own(path: &Path, max_bytes: u64, others: OthersMay) -> Result<Vec<u8>, FileError> {
    read_opened(path, Ok(open_kept(path, others)?), max_bytes)
}

/// Errors if [`read_own`] would refuse the file.
pub fn check_own(path: &Path, others: OthersMay) -> Result<(), FileError> {
    open_kept(path, others).map(drop)
}

fn open_kept(path: &Path, others: OthersMay) -> Result<File, FileError> {
    let failed = |error| FileError::Read {
        path: path.to_owned(),
        error,
    };
    let not_own = |problem: fn(String) -> NotOwn| FileError::NotOwn {
        path: path.to_owned(),
        problem: problem(word(path)),
    };
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path);
    let file = opened.map_err(|error| match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ELOOP) => not_own(NotOwn::Link),
        // A socket.
        Some(Errno::ENXIO) => not_own(NotOwn::NoFile),
        _ => failed(error),
    })?;
    let metadata = file.metadata().map_err(failed)?;
    let (mode, own) = (metadata.mode() & 0o7777, geteuid().as_raw());
    let refused = |problem| FileError::NotOwn {
        path: path.to_owned(),
        problem,
    };
    if !metadata.is_file() {
        return Err(not_own(NotOwn::NoFile));
    }
    if metadata.uid() != own {
        let owner = metadata.uid();
        let path = word(path);
        return Err(refused(NotOwn::Foreign { owner, own, path }));
    }
    match others {
        OthersMay::DoNothing if mode & OTHERS != 0 => {
            let path = path.to_owned();
            Err(FileError::Exposed { path, mode })
        }
        OthersMay::Read if mode & OTHERS_WRITE != 0 => {
            let path = word(path);
            Err(refused(NotOwn::Writable { mode, path }))
        }
        OthersMay::DoNothing | OthersMay::Read => Ok(file),
    }
}

/// Returns the path as a word of a shell's command line.
fn word(path: &Path) -> String {
    shell_word(&path.to_string_lossy())
}

fn read_opened(
    path: &Path,
    opened: io::Result<File>,
    max_bytes: u64,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = Vec::new();
    opened
        .and_then(|file| {
            file.take(max_bytes.saturating_add(1))
                .read_to_end(&mut bytes)
        })
        .map_err(|error| FileError::Read {
            path: path.to_owned(),
            error,
        })?;
    if bytes.len() as u64 > max_bytes {
        return Err(FileError::TooLarge {
            path: path.to_owned(),
            max_bytes,
        });
    }
    Ok(bytes)
}

/// Reads a text file as [`read_regular`] does.
pub fn read_to_string(path: &Path, max_bytes: u64) -> Result<String, FileError> {
    text_of(path, read_regular(path, max_bytes)?)
}

/// Reads a text file with a secret as [`read_to_string`] does, but fails if other users may read or change it.
pub fn read_secret(path: &Path, max_bytes: u64) -> Result<String, FileError> {
    let opened = open_regular(path).and_then(|file| Ok((file.metadata()?.mode() & 0o7777, file)));
    let (mode, file) = opened.map_err(|error| FileError::Read {
        path: path.to_owned(),
        error,
    })?;
    if mode & OTHERS != 0 {
        let path = path.to_owned();
        return Err(FileError::Exposed { path, mode });
    }
    text_of(path, read_opened(path, Ok(file), max_bytes)?)
}

fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| FileError::NotText {
        path: path.to_owned(),
        at: error.utf8_error().valid_up_to(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_system_without_locks_is_told_from_other_errors() {
        for (number, kind) in [
            (Errno::ENOLCK, io::ErrorKind::Unsupported),
            (Errno::EOPNOTSUPP, io::ErrorKind::Unsupported),
            (Errno::EACCES, io::ErrorKind::PermissionDenied),
        ] {
            let error = io::Error::from_raw_os_error(number as i32);
            assert_eq!(of_lock(error).kind(), kind, "{number}");
        }
    }

    #[test]
    fn a_secret_is_read_only_if_it_is_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, "x").expect("a file");
        for mode in [0o644, 0o640, 0o602, 0o601] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
            let error = read_secret(&path, 10).expect_err("others may use it");
            assert!(matches!(error, FileError::Exposed { mode: found, .. } if found == mode));
        }
        for mode in [0o600, 0o400] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
            assert_eq!(read_secret(&path, 10).expect("its own"), "x");
        }
        assert!(matches!(
            read_secret(&path, 0),
            Err(FileError::TooLarge { .. })
        ));
    }

    #[test]
    fn a_file_of_its_own_is_one_that_nobody_else_can_have_put_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens.json");
        let check = |others, part: &str| {
            let error = check_own(&path, others).expect_err(part).to_string();
            assert!(error.contains(part), "{part}: {error}");
            read_own(&path, 10, others).expect_err("refused too");
        };
        fs::create_dir(&path).expect("a folder");
        check(OthersMay::Read, "rm -r ");
        fs::remove_dir(&path).expect("removed");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        check(OthersMay::DoNothing, "rm -r ");
        fs::remove_file(&path).expect("removed");
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, &path).expect("a link");
        assert!(exists(&path).expect("known"), "it leads nowhere");
        check(OthersMay::Read, "cp -p --remove-destination ");
        fs::remove_file(&path).expect("removed");
        assert!(!exists(&path).expect("known"));
        fs::write(&path, "x").expect("a file");
        for (mode, others, part) in [
            (0o666, OthersMay::DoNothing, "chmod 600 "),
            (0o644, OthersMay::DoNothing, "chmod 600 "),
            (0o664, OthersMay::Read, "chmod go-w "),
        ] {
            set_mode(&path, mode);
            check(others, part);
        }
        set_mode(&path, 0o644);
        assert_eq!(read_own(&path, 10, OthersMay::Read).expect("its own"), b"x");
        set_mode(&path, 0o600);
        check_own(&path, OthersMay::DoNothing).expect("its own");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1), None).expect("root may");
            check(OthersMay::DoNothing, "chown 0 ");
        }
    }

    #[test]
    fn a_data_dir_has_one_user_at_a_time() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("a/b");
        let first = DataDir::open(&path).expect("the first user");
        assert_eq!(
            fs::metadata(first.path())
                .expect("it exists")
                .permissions()
                .mode()
                & 0o777,
            0o700
        );
        let text = DataDir::open(&path)
            .expect_err("the second user")
            .to_string();
        let me = format!("process {}", std::process::id());
        assert!(
            text.contains(&me) && text.contains("a/b") && text.contains("--data-dir"),
            "{text}"
        );
        let of_a_process_being_started = first.lock.try_clone().expect("a copy");
        assert!(DataDir::is_in_use(&path).expect("it exists"));
        drop(first);
        assert!(!DataDir::is_in_use(&path).expect("it exists"));
        let again = DataDir::open_as(&path, 4711).expect("free again");
        let text = DataDir::open(&path).expect_err("in use").to_string();
        assert!(text.contains("process 4711"), "{text}");
        assert!(again.folder("logs").expect("a folder").is_dir());
        drop(of_a_process_being_started);
    }

    #[test]
    fn a_directory_with_files_of_others_is_refused_and_a_used_one_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        fs::create_dir(path.join(LOST_AND_FOUND)).expect("a folder");
        drop(DataDir::open(path).expect("the root of a disk"));
        fs::write(path.join("report.txt"), "").expect("a file");
        drop(DataDir::open(path).expect("a used directory"));
        fs::remove_file(path.join(LOCK_FILE)).expect("removed");
        let text = DataDir::open(path)
            .expect_err("files of others")
            .to_string();
        assert!(
            text.contains("`report.txt`") && text.contains("--data-dir"),
            "{text}"
        );
        assert!(!path.join(LOCK_FILE).exists());
        fs::write(path.join("state.sqlite3"), "").expect("a file");
        drop(DataDir::open(path).expect("a restored backup"));
    }

    #[test]
    fn a_directory_of_another_kind_of_program_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        fs::write(path.join("worker.json"), "").expect("a file");
        let open = |own| DataDir::open(path).expect("a used directory").of(own);
        drop(open(Owner::Worker).expect("its own"));
        for own in [Owner::Scheduler, Owner::Run] {
            let text = open(own).expect_err("a worker's").to_string();
            assert!(
                text.contains("of a worker") && text.contains("--data-dir"),
                "{text}"
            );
        }
        // The scheduler must not be locked out of its store by a worker that an earlier release let in.
        fs::write(path.join("state.sqlite3"), "").expect("a file");
        drop(open(Owner::Scheduler).expect("a store is there"));
        fs::remove_file(path.join("worker.json")).expect("removed");
        let text = open(Owner::Worker)
            .expect_err("a restored backup")
            .to_string();
        assert!(text.contains("of a scheduler"), "{text}");
    }

    fn mode_of(path: &Path) -> u32 {
        let metadata = fs::symlink_metadata(path).expect("it exists");
        metadata.permissions().mode() & 0o7777
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own");
    }

    #[test]
    fn removing_the_lock_file_lets_nobody_in() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = DataDir::open(folder.path()).expect("the first user");
        fs::remove_file(folder.path().join(LOCK_FILE)).expect("removed");
        let second = DataDir::open(folder.path());
        assert!(
            matches!(second, Err(DataDirError::InUse { .. })),
            "{second:?}"
        );
        drop(first);
        DataDir::open(folder.path()).expect("free again");
    }

    #[test]
    fn a_former_release_that_locks_the_file_alone_is_noticed() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(LOCK_FILE);
        fs::write(&file, "77\n").expect("written");
        let former = File::open(&file).expect("opened");
        former.lock().expect("locked");
        let second = DataDir::open(folder.path());
        let Err(DataDirError::InUse { holder, .. }) = second else {
            panic!("{second:?}")
        };
        assert_eq!(holder, Holder::Process(77));
        former.unlock().expect("unlocked");
        DataDir::open(folder.path()).expect("free again");
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("target");
        fs::write(&target, "precious").expect("written");
        let data = folder.path().join("data");
        fs::create_dir(&data).expect("a folder");
        std::os::unix::fs::symlink(&target, data.join(LOCK_FILE)).expect("a link");
        let text = DataDir::open(&data).expect_err("refused").to_string();
        assert!(text.contains("symbolic link"), "{text}");
        assert_eq!(fs::read_to_string(&target).expect("read"), "precious");
    }

    #[test]
    fn a_data_dir_that_others_can_write_to_is_refused_unless_it_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        for (mode, content, expected) in [
            (0o755, true, Some(0o755)),
            (0o711, true, Some(0o711)),
            (0o777, false, Some(0o700)),
            (0o1777, false, None),
            (0o777, true, None),
            (0o770, true, None),
        ] {
            let path = folder.path().join(format!("{mode:o}{content}"));
            fs::create_dir(&path).expect("a folder");
            if content {
                fs::write(path.join("worker.json"), "").expect("a file");
            }
            set_mode(&path, mode);
            let opened = DataDir::open(&path);
            assert_eq!(opened.is_ok(), expected.is_some(), "{opened:?}");
            assert_eq!(mode_of(&path), expected.unwrap_or(mode));
            if let Err(error) = opened {
                let text = error.to_string();
                assert!(text.contains("chmod go-w"), "{text}");
                assert!(!path.join(LOCK_FILE).exists(), "nothing was written");
            }
        }
    }

    #[test]
    fn a_data_dir_of_another_user_is_refused() {
        // Root gets a folder of another user; any other user gets one of root.
        let folder = tempfile::tempdir().expect("a folder");
        let path = match geteuid().is_root() {
            true => {
                std::os::unix::fs::chown(folder.path(), Some(12345), None).expect("root may");
                folder.path()
            }
            false => Path::new("/usr"),
        };
        let text = DataDir::open(path).expect_err("refused").to_string();
        assert!(text.contains("belongs to user"), "{text}");
    }

    #[test]
    fn a_data_dir_that_is_a_file_is_refused_by_name() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("file");
        fs::write(&path, "x").expect("written");
        let text = DataDir::open(&path).expect_err("refused").to_string();
        assert!(
            text.contains("cannot create the data directory") && text.contains("is a file. Choose"),
            "{text}"
        );
        fs::remove_file(&path).expect("removed");
        fs::create_dir_all(path.join("lock")).expect("a folder in the lock's place");
        assert!(matches!(
            DataDir::open(&path),
            Err(DataDirError::Use { .. })
        ));
    }

    #[test]
    fn atomic_writes_replace_and_leave_nothing_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        atomic_write(&path, b"one").expect("written");
        atomic_write(&path, b"two").expect("written");
        assert_eq!(read_to_string(&path, 3).expect("read"), "two");
        fs::create_dir(folder.path().join("taken")).expect("a folder");
        assert!(atomic_write(&folder.path().join("taken"), b"x").is_err());
        let mut names: Vec<_> = fs::read_dir(folder.path())
            .expect("listed")
            .map(|e| e.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["taken", "x"]);
        assert!(atomic_write(Path::new("/"), b"x").is_err());
        let pipe = folder.path().join(".x.tmp");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let text = atomic_write(&path, b"three")
            .expect_err("a pipe")
            .to_string();
        assert!(
            text.ends_with(".x.tmp: it is no regular file: remove it"),
            "{text}"
        );
        assert_eq!(read_to_string(&path, 3).expect("read"), "two");
    }

    #[test]
    fn a_leftover_gives_a_file_neither_its_mode_nor_its_readers() {
        let folder = tempfile::tempdir().expect("a folder");
        let leftover = folder.path().join(".x.tmp");
        fs::write(&leftover, "old").expect("written");
        set_mode(&leftover, 0o666);
        let mut reader = File::open(&leftover).expect("opened");
        let path = folder.path().join("x");
        atomic_write(&path, b"secret").expect("written");
        assert_eq!(mode_of(&path), 0o600);
        let mut seen = String::new();
        reader.read_to_string(&mut seen).expect("read");
        assert_eq!(seen, "old");
    }

    #[test]
    fn a_file_of_a_program_is_neither_a_pipe_nor_a_link_nor_a_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "precious").expect("written");
        std::os::unix::fs::symlink(at("target"), at("link")).expect("a link");
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("a socket");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        for (path, expected) in [
            (at("link"), "it is a symbolic link: remove it"),
            (at("pipe"), "it is no regular file: remove it"),
            (at("socket"), "it is no regular file: remove it"),
            (
                PathBuf::from("/dev/null"),
                "it is no regular file: remove it",
            ),
        ] {
            let refused = open_own(&path, &mut options).expect_err("it is no file");
            assert_eq!(refused.to_string(), expected, "{}", path.display());
        }
        assert_eq!(fs::read_to_string(at("target")).expect("read"), "precious");
        open_own(&at("new"), &mut options).expect("a new file");
    }

    #[test]
    fn reads_are_bounded_and_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x");
        assert!(matches!(
            read_to_string(&path, 9),
            Err(FileError::Read { .. })
        ));
        fs::write(&path, b"ab\xff").expect("written");
        assert!(matches!(
            read_to_string(&path, 2),
            Err(FileError::TooLarge { max_bytes: 2, .. })
        ));
        assert!(matches!(
            read_to_string(&path, 3),
            Err(FileError::NotText { at: 2, .. })
        ));
        assert!(matches!(
            read(Path::new("/dev/zero"), 4096),
            Err(FileError::TooLarge { .. })
        ));
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        for path in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            let refused = read_to_string(path, 9);
            let text = refused.expect_err("it is no file").to_string();
            assert!(text.ends_with("it is not a regular file"), "{text}");
        }
    }
}
