//! The staging of artifacts: copies of them in a task's folder, which the task may change without changing the store.
//!
//! A copy is never a hard link, because the owner of a link could write to the artifact itself.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use brasserie_common::text::printable;
use brasserie_common::{ArtifactForm, ArtifactId};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::archive::{
    ArchiveEntry, ArchiveError, ArchiveReader, EntryKind, FileMode, FolderLimits,
};
use crate::held::{ContentError, HashingReader, HeldArtifact};
use crate::partial::CHUNK;
use crate::removal::remove_tree_at;
use crate::stop::{StopCheck, Stopped};
use crate::task_files::{TaskUser, is_file_name};
use crate::threads::copy_while;

/// A place for a copy of an artifact.
#[derive(Clone, Copy, Debug)]
pub struct InputPlace<'a> {
    pub folder: BorrowedFd<'a>,
    /// The name in the folder, which must be free.
    pub name: &'a OsStr,
    /// The owner of the copy, if that is not the user of this process.
    pub owner: Option<TaskUser>,
    pub stop: StopCheck<'a>,
}

/// The reason why a task did not get a copy of an artifact. Nothing of the copy is left.
#[derive(Debug, Error)]
pub enum StageError {
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error("`{}` is not the name of a file in a folder", printable(&.0.to_string_lossy()))]
    Name(OsString),
    #[error("cannot write the input `{}` of the task: {error}", printable(&name.to_string_lossy()))]
    Task { name: OsString, error: io::Error },
    /// The artifact is whole, but no folder.
    #[error(
        "the artifact {id} is not the archive of a folder: {why}. Use it as a file, or correct the task that made it"
    )]
    NotFolder { id: ArtifactId, why: &'static str },
    #[error("the copying of the input was stopped")]
    Stopped,
}

/// The mode of folders, in which a task may add files. Its owner can delete them.
const FOLDER_MODE: u32 = 0o755;
/// The mode of files and folders until they are complete.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_FOLDER: u32 = 0o700;
/// The most bytes of a file that another thread creates. Those that wait take a few megabytes of memory.
const SMALL_FILE: u64 = 64 << 10;

/// Copies an artifact to a place, and verifies the content on the way.
pub fn stage(
    artifact: &HeldArtifact,
    id: ArtifactId,
    form: ArtifactForm,
    place: &InputPlace<'_>,
    limits: FolderLimits,
) -> Result<(), StageError> {
    if !is_file_name(place.name) {
        return Err(StageError::Name(place.name.to_owned()));
    }
    let copied = match form {
        ArtifactForm::File => copy_file(artifact, place, FileMode::Plain),
        ArtifactForm::Executable => copy_file(artifact, place, FileMode::Executable),
        ArtifactForm::Folder => unpack(artifact, place, limits),
    };
    copied.map_err(|failure| match failure {
        StageFailure::Content(error) => StageError::Content(error),
        StageFailure::Task(error) => StageError::Task {
            name: place.name.to_owned(),
            error,
        },
        StageFailure::Form(why) => StageError::NotFolder { id, why },
        StageFailure::Stopped => StageError::Stopped,
    })
}

/// A [`StageError`] without its names.
enum StageFailure {
    Content(ContentError),
    Task(io::Error),
    Form(&'static str),
    Stopped,
}

impl From<Stopped> for StageFailure {
    fn from(Stopped: Stopped) -> Self {
        StageFailure::Stopped
    }
}

impl From<ContentError> for StageFailure {
    fn from(error: ContentError) -> Self {
        StageFailure::Content(error)
    }
}

impl From<io::Error> for StageFailure {
    fn from(error: io::Error) -> Self {
        StageFailure::Task(error)
    }
}

impl From<Errno> for StageFailure {
    fn from(error: Errno) -> Self {
        StageFailure::Task(error.into())
    }
}

fn copy_file(
    artifact: &HeldArtifact,
    place: &InputPlace<'_>,
    mode: FileMode,
) -> Result<(), StageFailure> {
    let file = create_file(place.folder, place.name)?;
    let copied = fill_file(artifact, &file, place.stop)
        .and_then(|()| complete_file(&file, mode, place.owner));
    if copied.is_err() {
        // The first error is the important one.
        let _ = rustix::fs::unlinkat(place.folder, place.name, AtFlags::empty());
    }
    copied
}

fn fill_file(
    artifact: &HeldArtifact,
    file: &File,
    stop: StopCheck<'_>,
) -> Result<(), StageFailure> {
    if rustix::fs::ioctl_ficlone(file, artifact.file()).is_err() {
        // A file system may have shared some blocks before it failed.
        file.set_len(0)?;
        return artifact.verify(|chunk| {
            stop.check()?;
            Ok((&mut &*file).write_all(chunk)?)
        });
    }
    // The copy is what the task gets, so that is what is read.
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; artifact.chunk()];
    loop {
        stop.check()?;
        match (&mut &*file).read(&mut buffer)? {
            0 => return Ok(artifact.check_hash(hasher)?),
            count => hasher.update(&buffer[..count]),
        }
    }
}

fn create_file(folder: impl AsFd, name: &OsStr) -> Result<File, StageFailure> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(PRIVATE_FILE);
    Ok(rustix::fs::openat(folder, name, flags, mode)?.into())
}

/// Gives a file its mode and its owner, who can change it from then on.
fn complete_file(file: &File, mode: FileMode, owner: Option<TaskUser>) -> Result<(), StageFailure> {
    let mode = match mode {
        FileMode::Plain => 0o444,
        FileMode::Executable => 0o555,
    };
    complete(file, mode, owner)
}

fn complete(file: impl AsFd, mode: u32, owner: Option<TaskUser>) -> Result<(), StageFailure> {
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
    let Some(TaskUser { uid, gid }) = owner else {
        return Ok(());
    };
    let stat = rustix::fs::fstat(&file)?;
    // The change of an owner to itself costs as much as any other.
    if (stat.st_uid, stat.st_gid) != (uid, gid) {
        rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

fn unpack(
    artifact: &HeldArtifact,
    place: &InputPlace<'_>,
    limits: FolderLimits,
) -> Result<(), StageFailure> {
    let root = create_folder(place.folder, place.name)?;
    let unpacked = fill_folder(artifact, &root, place, limits)
        .and_then(|()| complete(&root, FOLDER_MODE, place.owner));
    if unpacked.is_err() {
        // The first error is the important one.
        let _ = remove_tree_at(place.folder, place.name);
    }
    unpacked
}

/// Unpacks an artifact into a folder, which stays private.
fn fill_folder(
    artifact: &HeldArtifact,
    root: &OwnedFd,
    place: &InputPlace<'_>,
    limits: FolderLimits,
) -> Result<(), StageFailure> {
    let mut source = BufReader::with_capacity(CHUNK, HashingReader::new(artifact));
    let mut unpacking = Unpacking {
        archive: ArchiveReader::new(&mut source, limits),
        open: vec![Arc::new(root.try_clone()?)],
        owner: place.owner,
        stop: place.stop,
        buffer: vec![0; artifact.chunk()],
    };
    let create = |file: SmallFile| file.create(place.owner);
    let unpacked = copy_while(artifact.size(), create, |pass| unpacking.run(pass));
    match unpacked {
        Err(failure @ (StageFailure::Task(_) | StageFailure::Stopped)) => Err(failure),
        // The artifact may be damaged, which explains each error in its form and is the important error then.
        unpacked => {
            source.into_inner().finish()?;
            unpacked
        }
    }
}

/// The writing of a folder's files from its archive.
struct Unpacking<'a, R> {
    archive: ArchiveReader<R>,
    /// The open folders on the path of the last entry, the outermost first.
    open: Vec<Arc<OwnedFd>>,
    owner: Option<TaskUser>,
    stop: StopCheck<'a>,
    buffer: Vec<u8>,
}

/// A file that another thread creates.
struct SmallFile {
    folder: Arc<OwnedFd>,
    name: Vec<u8>,
    mode: FileMode,
    content: Vec<u8>,
}

/// Passes a file to a thread that creates it.
type PassFile<'a> = &'a mut dyn FnMut(SmallFile) -> Result<(), StageFailure>;

impl<R: Read> Unpacking<'_, R> {
    fn run(&mut self, pass: PassFile<'_>) -> Result<(), StageFailure> {
        while let Some(entry) = self.archive.next()? {
            self.stop.check()?;
            self.close_folders(entry.depth + 1)?;
            self.add(entry, pass)?;
        }
        // The outermost folder stays private until the content is verified.
        self.close_folders(1)
    }

    /// Completes the innermost folders, so that `rest` stay open. Other threads may still create files in them. Nobody else can: the
    /// outermost folder is private.
    fn close_folders(&mut self, rest: usize) -> Result<(), StageFailure> {
        for folder in self.open.drain(rest..).rev() {
            complete(&*folder, FOLDER_MODE, self.owner)?;
        }
        Ok(())
    }

    fn add(&mut self, entry: ArchiveEntry, pass: PassFile<'_>) -> Result<(), StageFailure> {
        let folder = self
            .open
            .last()
            .expect("Invariant: the outermost folder is open");
        match entry.kind {
            EntryKind::Folder => {
                let folder = create_folder(&**folder, OsStr::from_bytes(&entry.name))?;
                self.open.push(Arc::new(folder));
            }
            EntryKind::File { mode, size } if size <= SMALL_FILE => {
                let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
                loop {
                    match self.archive.read(&mut self.buffer)? {
                        0 => break,
                        count => content.extend_from_slice(&self.buffer[..count]),
                    }
                    self.stop.check()?;
                }
                pass(SmallFile {
                    folder: Arc::clone(folder),
                    name: entry.name,
                    mode,
                    content,
                })?;
            }
            EntryKind::File { mode, .. } => {
                let mut file = create_file(&**folder, OsStr::from_bytes(&entry.name))?;
                loop {
                    match self.archive.read(&mut self.buffer)? {
                        0 => break,
                        count => file.write_all(&self.buffer[..count])?,
                    }
                    self.stop.check()?;
                }
                complete_file(&file, mode, self.owner)?;
            }
        }
        Ok(())
    }
}

impl SmallFile {
    fn create(self, owner: Option<TaskUser>) -> Result<(), StageFailure> {
        let mut file = create_file(&*self.folder, OsStr::from_bytes(&self.name))?;
        file.write_all(&self.content)?;
        complete_file(&file, self.mode, owner)
    }
}

impl From<ArchiveError> for StageFailure {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Form(why) => StageFailure::Form(why),
            // The reader of the artifact keeps the error itself.
            ArchiveError::Read(_) => StageFailure::Form("its content cannot be read"),
        }
    }
}

/// Creates a folder, and opens it unless another process has replaced it.
fn create_folder(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd, StageFailure> {
    rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(PRIVATE_FOLDER))?;
    let folder = open_folder(&parent, name).inspect_err(|_| {
        // The first error is the important one.
        let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
    })?;
    let stat = rustix::fs::fstat(&folder)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw();
    match is_own && stat.st_mode & 0o777 == PRIVATE_FOLDER {
        true => Ok(folder),
        false => Err(io::Error::other("another process has replaced the folder").into()),
    }
}

fn open_folder(parent: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}
