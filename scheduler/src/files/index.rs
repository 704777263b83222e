//! The names of files, which survive a restart: those that people have uploaded, and what the files of the configuration were when they
//! were read last.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use brasserie_common::{Artifact, ArtifactId};
use brasserie_common_runtime::files::{self, FileError};
use brasserie_scheduler_core::Owner;
use brasserie_scheduler_core::files::ConfiguredFile;
use serde::{Deserialize, Serialize};

/// The file with the names, in the data directory.
const INDEX: &str = "files.json";
/// The most bytes of that file: the most names, each of some KiB.
const MAX_BYTES: u64 = 64 << 20;
/// The most uploaded files.
pub(super) const MAX_UPLOADED: usize = 10_000;

/// The reason why the names cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    Read(#[from] FileError),
    #[error(
        "{} is no list of files: {error}. Move it away; then the files that were uploaded must be uploaded again", path.display()
    )]
    Damaged {
        path: PathBuf,
        error: serde_json::Error,
    },
}

/// The metadata of a file or of all files in a folder: the SHA-256 of their names, lengths, times and inodes. It changes with every write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp(pub ArtifactId);

/// A file of the configuration as it was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReadFile {
    pub stamp: FileStamp,
    pub artifact: Artifact,
}

/// The content of the file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Index {
    uploaded: BTreeMap<Arc<str>, Artifact>,
    /// The submitters who own uploaded files, by the names of these. Earlier releases knew no owners.
    #[serde(default)]
    owners: BTreeMap<Arc<str>, Arc<str>>,
    /// The files of the configuration by their absolute paths.
    read: BTreeMap<PathBuf, ReadFile>,
}

/// All names, and which file of the configuration has which content now.
pub(super) struct FileNames {
    path: PathBuf,
    index: Index,
    folder: Arc<str>,
    configured: BTreeMap<Arc<str>, ConfiguredFile>,
}

impl FileNames {
    pub(super) fn read(directory: &Path) -> Result<Self, IndexError> {
        let path = directory.join(INDEX);
        let index = match files::read_regular(&path, MAX_BYTES) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let path = path.clone();
                IndexError::Damaged { path, error }
            })?,
            Err(FileError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                Index::default()
            }
            Err(error) => return Err(error.into()),
        };
        Ok(FileNames {
            path,
            index,
            folder: Arc::from(""),
            configured: BTreeMap::new(),
        })
    }

    pub(super) fn folder(&self) -> Arc<str> {
        Arc::clone(&self.folder)
    }

    pub(super) fn configured(&self) -> &BTreeMap<Arc<str>, ConfiguredFile> {
        &self.configured
    }

    pub(super) fn uploaded(&self) -> &BTreeMap<Arc<str>, Artifact> {
        &self.index.uploaded
    }

    /// Returns the contents that files of the configuration had when they were last read. A file that is read again may have the same one.
    pub(super) fn earlier(&self) -> BTreeSet<ArtifactId> {
        let read = self.index.read.values();
        read.map(|read| read.artifact.id).collect()
    }

    /// Returns the contents that have a name.
    pub(super) fn named(&self) -> BTreeSet<ArtifactId> {
        let configured = self.configured.values().filter_map(|file| match file {
            ConfiguredFile::Present(artifact) => Some(artifact),
            ConfiguredFile::Reading | ConfiguredFile::Absent | ConfiguredFile::Unusable(_) => None,
        });
        let read = self.index.read.values().map(|read| &read.artifact);
        let all = configured.chain(read).chain(self.index.uploaded.values());
        all.map(|artifact| artifact.id).collect()
    }

    /// Returns who owns an uploaded file, or the name of none.
    pub(super) fn owner(&self, name: &str) -> Owner {
        match self.index.uploaded.contains_key(name) {
            true => Owner::of(self.index.owners.get(name)),
            false => Owner::Caller,
        }
    }

    /// Gives an uploaded content a name. The name is on disk when this returns. A file that is replaced keeps its owner.
    pub(super) fn upload(
        &mut self,
        name: &str,
        artifact: Artifact,
        owner: Option<&Arc<str>>,
    ) -> io::Result<()> {
        let before = self.index.uploaded.insert(name.into(), artifact);
        if let (None, Some(owner)) = (before, owner) {
            self.index.owners.insert(name.into(), Arc::clone(owner));
        }
        self.write().inspect_err(|_| match before {
            Some(before) => drop(self.index.uploaded.insert(name.into(), before)),
            None => {
                self.index.uploaded.remove(name);
                self.index.owners.remove(name);
            }
        })
    }

    /// Removes an uploaded name. Returns whether there was one.
    pub(super) fn remove(&mut self, name: &str) -> io::Result<bool> {
        let Some(before) = self.index.uploaded.remove(name) else {
            return Ok(false);
        };
        let owner = self.index.owners.remove(name);
        let written = self.write();
        if written.is_err() {
            self.index.uploaded.insert(name.into(), before);
            self.index
                .owners
                .extend(owner.map(|owner| (name.into(), owner)));
        }
        written.map(|()| true)
    }

    /// Returns the file as it was read last.
    pub(super) fn last_read(&self, path: &Path) -> Option<ReadFile> {
        self.index.read.get(path).copied()
    }

    /// Sets the folder and the files of the configuration. Forgets what was read of others.
    pub(super) fn configure(
        &mut self,
        folder: &Path,
        configured: BTreeMap<Arc<str>, ConfiguredFile>,
    ) -> io::Result<()> {
        self.folder = folder.display().to_string().into();
        let paths: BTreeSet<PathBuf> = configured.keys().map(|name| folder.join(&**name)).collect();
        self.configured = configured;
        let before = self.index.read.len();
        self.index.read.retain(|path, _| paths.contains(path));
        match self.index.read.len() == before {
            true => Ok(()),
            false => self.write(),
        }
    }

    /// Sets the state of one file of the configuration, unless that does not name it any more.
    pub(super) fn set(&mut self, name: &str, state: ConfiguredFile) {
        if let Some(file) = self.configured.get_mut(name) {
            *file = state;
        }
    }

    /// Remembers what a file was when it was read. If that cannot be written, the file is read again after a restart.
    pub(super) fn remember(&mut self, path: PathBuf, read: ReadFile) -> io::Result<()> {
        self.index.read.insert(path, read);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(&self.index)?;
        files::atomic_write(&self.path, &bytes)
    }
}
