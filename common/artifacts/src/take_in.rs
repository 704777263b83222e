//! The taking of outputs that a task left into the store.
//!
//! The files may be hostile: `task_files` opens them. The store copies them first, and the hash is that of the copy.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::text::printable;
use brasserie_common::{Artifact, ArtifactForm, ArtifactId, ArtifactNamespace, OutputPath};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::archive::{self, EntryKind, FileMode, FolderLimits};
use crate::artifact_key::ArtifactKey;
use crate::partial::{BlockSharing, CHUNK, Partial};
use crate::shared::{StoreShared, WriteError};
use crate::stop::{StopCheck, Stopped};
use crate::task_files::{self, OutputRefusal, TaskEntry, TaskFolder, TaskUser};

/// The reason why an output did not become an artifact. Nothing of it is kept.
#[derive(Debug, Error)]
pub enum TakeInError {
    #[error("cannot take the output `{}` of the task: {why}", printable(&path.to_string_lossy()))]
    Output {
        /// The refused file or folder, from the task's working directory.
        path: PathBuf,
        why: OutputRefusal,
    },
    #[error(transparent)]
    Store(#[from] WriteError),
    #[error("the taking of the outputs was stopped")]
    Stopped,
}

/// Copies outputs of a task into the store. They become durable together, which takes little more time than one.
pub fn take_in_all(
    shared: &Arc<StoreShared>,
    namespace: &ArtifactNamespace,
    task: TaskFolder<'_>,
    outputs: &[OutputPath],
) -> Result<Vec<Artifact>, TakeInError> {
    let mut artifacts = Vec::new();
    let mut copies = BTreeMap::new();
    for output in outputs {
        let (mut partial, form) = copy_output(shared, task, output)?;
        // A copy that waits for the others takes no memory.
        partial.write_out()?;
        let (id, size) = (partial.id(), partial.length());
        artifacts.push(Artifact { id, size, form });
        // One of equal outputs is kept.
        copies.insert(ArtifactKey::new(namespace, id), partial);
    }
    let kept = Partial::keep_all(copies).into_values();
    kept.collect::<Result<Vec<()>, WriteError>>()?;
    Ok(artifacts)
}

/// Copies an output to a file that is not yet an artifact.
fn copy_output(
    shared: &Arc<StoreShared>,
    task: TaskFolder<'_>,
    output: &OutputPath,
) -> Result<(Partial, ArtifactForm), TakeInError> {
    let mut folders: Vec<&str> = output.parts().collect();
    let name = folders.pop().unwrap_or_default();
    let path = PathBuf::from(output.as_str());
    let refused = |why| {
        let path = path.clone();
        TakeInError::Output { path, why }
    };
    let folder = task_files::open_folder(task, &folders).map_err(|(at, why)| {
        let path = folders[..=at].iter().collect();
        TakeInError::Output { path, why }
    })?;
    let entry = task_files::open_entry(&folder, name.as_bytes(), task.user).map_err(refused)?;
    match (entry, output.is_folder()) {
        (TaskEntry::File { file, size, mode }, false) => {
            let partial = copy_file(shared, &file, size, task.stop);
            let partial = partial.map_err(|error| error.at(&path))?;
            Ok((partial, form_of(mode)))
        }
        (TaskEntry::Folder(folder), true) => {
            let partial = Partial::create(shared, 0)?;
            let packing = Packing::new(partial, task.user, task.stop, shared.limits);
            Ok((packing.finish(folder, &path)?, ArtifactForm::Folder))
        }
        (TaskEntry::File { .. }, true) => Err(refused(OutputRefusal::File)),
        (TaskEntry::Folder(_), false) => Err(refused(OutputRefusal::Folder)),
    }
}

fn form_of(mode: FileMode) -> ArtifactForm {
    match mode {
        FileMode::Plain => ArtifactForm::File,
        FileMode::Executable => ArtifactForm::Executable,
    }
}

/// Returns the artifact that a file or folder of this process's user would be as an output. Reads all of it, and writes nothing. Errors if
/// it cannot be an output.
pub fn local_artifact(path: &Path) -> io::Result<Artifact> {
    let name = path.file_name().unwrap_or_default();
    let above = path.parent().filter(|above| *above != Path::new(""));
    let folder = File::open(above.unwrap_or(Path::new(".")))?;
    let user = TaskUser::of_this_process();
    let entry = task_files::open_entry(&folder, name.as_bytes(), user);
    let mut sink = Measured::default();
    let stop = StopCheck::NEVER;
    let measured = match entry {
        Ok(TaskEntry::File { file, size, mode }) => {
            let appended = append_file(&mut sink, &file, size, stop);
            let appended = appended.map_err(|error| error.at(path));
            appended.map(|()| (sink, form_of(mode)))
        }
        Ok(TaskEntry::Folder(folder)) => {
            let packing = Packing::new(sink, user, stop, FolderLimits::DEFAULT);
            let packed = packing.finish(folder, path);
            packed.map(|sink| (sink, ArtifactForm::Folder))
        }
        Err(refusal) => Err(CopyError::from(refusal).at(path)),
    };
    let (sink, form) = measured.map_err(|error| io::Error::other(error.to_string()))?;
    Ok(Artifact {
        id: ArtifactId(sink.hasher.finalize().into()),
        size: sink.length,
        form,
    })
}

/// The receiver of the bytes of an artifact.
trait ArtifactSink {
    /// Reserves space for more bytes.
    fn extend(&mut self, bytes: u64) -> Result<(), WriteError>;
    /// Takes bytes for which space is reserved.
    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError>;
}

impl ArtifactSink for Partial {
    fn extend(&mut self, bytes: u64) -> Result<(), WriteError> {
        Partial::extend(self, bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        Partial::append(self, bytes)
    }
}

/// The hash and the number of the bytes of an artifact that is kept nowhere.
#[derive(Default)]
struct Measured {
    hasher: Sha256,
    length: u64,
}

impl ArtifactSink for Measured {
    fn extend(&mut self, _: u64) -> Result<(), WriteError> {
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// A [`TakeInError`] without its path.
pub enum CopyError {
    Output(OutputRefusal),
    Store(WriteError),
    Stopped,
}

impl CopyError {
    fn at(self, path: &Path) -> TakeInError {
        match self {
            CopyError::Output(why) => {
                let path = path.to_owned();
                TakeInError::Output { path, why }
            }
            CopyError::Store(error) => TakeInError::Store(error),
            CopyError::Stopped => TakeInError::Stopped,
        }
    }
}

impl From<OutputRefusal> for CopyError {
    fn from(refusal: OutputRefusal) -> Self {
        CopyError::Output(refusal)
    }
}

impl From<Stopped> for CopyError {
    fn from(Stopped: Stopped) -> Self {
        CopyError::Stopped
    }
}

impl From<WriteError> for CopyError {
    fn from(error: WriteError) -> Self {
        CopyError::Store(error)
    }
}

/// Copies a file that had `size` bytes when it was opened.
pub fn copy_file(
    shared: &Arc<StoreShared>,
    file: &File,
    size: u64,
    stop: StopCheck<'_>,
) -> Result<Partial, CopyError> {
    let mut partial = Partial::create(shared, size)?;
    match partial.share_blocks::<CopyError>(file, size, stop)? {
        BlockSharing::Shared => {}
        BlockSharing::Unsupported => append_file(&mut partial, file, size, stop)?,
        BlockSharing::OtherLength => return Err(OutputRefusal::Changed { expected: size }.into()),
    }
    Ok(partial)
}

/// Appends the content of a file, for which space is reserved. Errors if it does not have `size` bytes, so a file that grows without end
/// is not read without end.
fn append_file(
    sink: &mut impl ArtifactSink,
    mut file: &File,
    size: u64,
    stop: StopCheck<'_>,
) -> Result<(), CopyError> {
    let capacity = usize::try_from(size).unwrap_or(CHUNK).min(CHUNK);
    // One byte more than the file should have shows that it grows.
    let mut buffer = vec![0; capacity + 1];
    let mut rest = size;
    loop {
        stop.check()?;
        let most = usize::try_from(rest).unwrap_or(CHUNK).clamp(1, CHUNK);
        match file.read(&mut buffer[..most]) {
            Ok(0) if rest == 0 => return Ok(()),
            Ok(count) if count as u64 <= rest && count > 0 => {
                sink.append(&buffer[..count])?;
                rest -= count as u64;
            }
            Ok(_) => return Err(OutputRefusal::Changed { expected: size }.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(OutputRefusal::Failed(error).into()),
        }
    }
}

/// The writing of a folder's archive.
struct Packing<'a, S> {
    sink: S,
    entries: u64,
    user: TaskUser,
    stop: StopCheck<'a>,
    limits: FolderLimits,
    /// The names on the path of the current entry.
    names: Vec<Vec<u8>>,
}

impl<'a, S: ArtifactSink> Packing<'a, S> {
    fn new(sink: S, user: TaskUser, stop: StopCheck<'a>, limits: FolderLimits) -> Self {
        Packing {
            sink,
            entries: 0,
            user,
            stop,
            limits,
            names: Vec::new(),
        }
    }

    /// Appends the archive of the folder at this path, and returns the sink. The error names the refused file or folder.
    fn finish(mut self, folder: OwnedFd, path: &Path) -> Result<S, TakeInError> {
        let packed = self.pack(folder);
        packed.map_err(|error| error.at(&path.join(self.path())))?;
        Ok(self.sink)
    }

    /// Appends the archive of a folder. After an error, [`Packing::path`] is the refused file or folder.
    fn pack(&mut self, folder: OwnedFd) -> Result<(), CopyError> {
        // The open folders on the path, each with the names that are still to come, the last first.
        let mut open = vec![self.list(folder)?];
        while let Some((folder, names)) = open.last_mut() {
            let Some(name) = names.pop() else {
                open.pop();
                self.names.pop();
                continue;
            };
            self.names.push(name.clone());
            match task_files::open_entry(&*folder, &name, self.user)? {
                TaskEntry::File { file, size, mode } => {
                    self.header(EntryKind::File { size, mode })?;
                    self.extend_for(size)?;
                    append_file(&mut self.sink, &file, size, self.stop)?;
                    self.append(archive::padding(size))?;
                    self.names.pop();
                }
                TaskEntry::Folder(folder) => {
                    self.header(EntryKind::Folder)?;
                    open.push(self.list(folder)?);
                }
            }
        }
        self.append(&archive::END)
    }

    fn list(&mut self, folder: OwnedFd) -> Result<(OwnedFd, Vec<Vec<u8>>), CopyError> {
        let most = self.limits.entries;
        let mut names = task_files::sorted_names(&folder, most - self.entries).map_err(
            |refusal| match refusal {
                OutputRefusal::TooMany(_) => OutputRefusal::TooMany(most),
                other => other,
            },
        )?;
        self.entries += names.len() as u64;
        names.reverse();
        Ok((folder, names))
    }

    fn header(&mut self, kind: EntryKind) -> Result<(), CopyError> {
        let limits = self.limits;
        let path = self.names.join(&b'/');
        if path.len() > limits.path_bytes || self.names.len() > limits.depth {
            let (bytes, depth) = (limits.path_bytes, limits.depth);
            return Err(OutputRefusal::TooDeep { bytes, depth }.into());
        }
        self.append(&archive::header(&path, kind))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        self.extend_for(bytes.len() as u64)?;
        Ok(self.sink.append(bytes)?)
    }

    fn extend_for(&mut self, bytes: u64) -> Result<(), CopyError> {
        Ok(self.sink.extend(bytes)?)
    }

    fn path(&self) -> PathBuf {
        self.names
            .iter()
            .map(|name| OsString::from_vec(name.clone()))
            .collect()
    }
}
