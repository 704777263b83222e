//! The reading of artifacts, and the detection of lost ones.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use brasserie_common::{ArtifactId, ArtifactNamespace};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::artifact_key::ArtifactKey;
use crate::catalog::{CopyLoss, StoredCopy};
use crate::partial::CHUNK;
use crate::shared::StoreShared;
use crate::threads::hash_during;

/// The reason why the store cannot give the content of an artifact.
#[derive(Debug, Error)]
pub enum ContentError {
    #[error("the store has no artifact {id} of {namespace}: fetch it from a holder")]
    NotHeld {
        namespace: ArtifactNamespace,
        id: ArtifactId,
    },
    /// The store has dropped the artifact.
    #[error("the artifact {} is lost: {cause}. Fetch it from a holder again", path.display())]
    Lost { path: PathBuf, cause: CopyLoss },
    #[error("cannot read the artifact {}: {error}", path.display())]
    Read { path: PathBuf, error: io::Error },
}

/// An open artifact. It can be read even if it is deleted meanwhile.
pub struct HeldArtifact {
    shared: Arc<StoreShared>,
    key: ArtifactKey,
    copy: StoredCopy,
    file: File,
}

impl HeldArtifact {
    pub fn open(shared: &Arc<StoreShared>, key: ArtifactKey) -> Result<Self, ContentError> {
        let copy = shared.state().catalog.find(&key);
        let Some(copy) = copy else {
            return Err(not_held(key));
        };
        let opened = shared.on_disk(copy.disk, |disk| {
            let file = disk.open_artifact(&key)?;
            let metadata = file.metadata()?;
            Ok((file, metadata.is_file().then_some(metadata.len())))
        });
        match opened {
            Ok((file, Some(found))) if found == copy.size => Ok(HeldArtifact {
                shared: Arc::clone(shared),
                key,
                copy,
                file,
            }),
            Ok((_, found)) => {
                let (expected, found) = (copy.size, found.unwrap_or(0));
                let cause = CopyLoss::WrongSize { expected, found };
                Err(lose(shared, &key, copy, cause))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match shared.lose(&key, copy, CopyLoss::Missing) {
                    true => Err(lost(shared, &key, copy, CopyLoss::Missing)),
                    // The caller of another operation has deleted it meanwhile.
                    false => Err(not_held(key)),
                }
            }
            Err(error) => Err(read_failed(shared, &key, copy, error)),
        }
    }

    /// Returns the size of the artifact in bytes.
    pub fn size(&self) -> u64 {
        self.copy.size
    }

    /// Returns the bytes of a buffer for the content, since large buffers take more time to make than small artifacts to read.
    pub fn chunk(&self) -> usize {
        usize::try_from(self.size()).map_or(CHUNK, |size| size.clamp(1, CHUNK))
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Reads bytes into the buffer. Returns their number, which is zero only at the end of the artifact.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ContentError> {
        let rest = usize::try_from(self.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = rest.min(buffer.len()).min(CHUNK);
        let buffer = &mut buffer[..most];
        let read = self
            .shared
            .on_disk(self.copy.disk, |_| self.file.read_at(buffer, offset));
        match read {
            Ok(0) if most > 0 => {
                let (expected, found) = (self.size(), offset);
                Err(self.lose(CopyLoss::WrongSize { expected, found }))
            }
            Ok(count) => Ok(count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                self.read_at(offset, buffer)
            }
            Err(error) => Err(read_failed(&self.shared, &self.key, self.copy, error)),
        }
    }

    /// Reads all of the artifact and passes it on in chunks. Errors if its SHA-256 is not its name, and then the artifact is lost.
    pub fn verify<E: From<ContentError>>(
        &self,
        mut pass_on: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut buffer = vec![0; self.chunk()];
        let mut hasher = Sha256::new();
        let mut offset = 0;
        loop {
            let count = self.read_at(offset, &mut buffer)?;
            if count == 0 {
                return Ok(self.check_hash(hasher)?);
            }
            hash_during(&mut hasher, &buffer[..count], || pass_on(&buffer[..count]))?;
            offset += count as u64;
        }
    }

    /// Counts the time of a fetch, which ends now.
    pub fn fetched(&self, began: Instant) {
        let mut state = self.shared.state();
        state.times[self.copy.disk.0].fetched(began, Instant::now());
    }

    /// Errors if the hash of the content is not the name of the artifact, and then the artifact is lost.
    pub fn check_hash(&self, hasher: Sha256) -> Result<(), ContentError> {
        match ArtifactId(hasher.finalize().into()) == self.key.id {
            true => Ok(()),
            false => Err(self.lose(CopyLoss::WrongContent)),
        }
    }

    fn lose(&self, cause: CopyLoss) -> ContentError {
        lose(&self.shared, &self.key, self.copy, cause)
    }
}

fn not_held(key: ArtifactKey) -> ContentError {
    let ArtifactKey { namespace, id } = key;
    ContentError::NotHeld { namespace, id }
}

/// Drops a copy and returns the error that says so.
fn lose(
    shared: &StoreShared,
    key: &ArtifactKey,
    copy: StoredCopy,
    cause: CopyLoss,
) -> ContentError {
    shared.lose(key, copy, cause.clone());
    lost(shared, key, copy, cause)
}

fn lost(
    shared: &StoreShared,
    key: &ArtifactKey,
    copy: StoredCopy,
    cause: CopyLoss,
) -> ContentError {
    let path = path_of(shared, key, copy);
    ContentError::Lost { path, cause }
}

/// Returns the error for a failed read. A copy that cannot be read is lost, unless it is this process that lacks something.
fn read_failed(
    shared: &StoreShared,
    key: &ArtifactKey,
    copy: StoredCopy,
    error: io::Error,
) -> ContentError {
    let lacks = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN];
    match Errno::from_io_error(&error).is_some_and(|number| !lacks.contains(&number)) {
        true => lose(shared, key, copy, CopyLoss::Unreadable(error.to_string())),
        false => ContentError::Read {
            path: path_of(shared, key, copy),
            error,
        },
    }
}

fn path_of(shared: &StoreShared, key: &ArtifactKey, copy: StoredCopy) -> PathBuf {
    let disk = shared.disks[copy.disk.0].opened.as_ref();
    disk.map_or_else(|_| PathBuf::new(), |disk| disk.path_of(key))
}

/// Reads an artifact from its begin on, and hashes what it has read.
pub struct HashingReader<'a> {
    artifact: &'a HeldArtifact,
    offset: u64,
    hasher: Sha256,
    error: Option<ContentError>,
}

impl<'a> HashingReader<'a> {
    pub fn new(artifact: &'a HeldArtifact) -> Self {
        HashingReader {
            artifact,
            offset: 0,
            hasher: Sha256::new(),
            error: None,
        }
    }

    /// Reads the rest. Returns the error of an earlier read, or the result of the check of the hash.
    pub fn finish(mut self) -> Result<(), ContentError> {
        let mut buffer = vec![0; self.artifact.chunk()];
        while self.error.is_none() && self.read(&mut buffer).is_ok_and(|count| count > 0) {}
        match self.error {
            Some(error) => Err(error),
            None => self.artifact.check_hash(self.hasher),
        }
    }
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.artifact.read_at(self.offset, buffer) {
            Ok(count) => {
                self.hasher.update(&buffer[..count]);
                self.offset += count as u64;
                Ok(count)
            }
            Err(error) => {
                let text = error.to_string();
                self.error = Some(error);
                Err(io::Error::other(text))
            }
        }
    }
}
