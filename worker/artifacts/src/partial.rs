//! Partial files: an artifact while it is written, hashed on the way, and kept only when it is whole.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use brasserie_common::ArtifactId;
use sha2::{Digest, Sha256};

use crate::artifact_key::ArtifactKey;
use crate::catalog::DiskNumber;
use crate::shared::{StoreShared, WriteError};
use crate::space::Reservation;
use crate::stop::{StopCheck, Stopped};

/// Bytes of one read or write. Larger ones are not faster, and each operation needs a buffer.
pub const CHUNK: usize = 1 << 20;
/// Bytes after which a file is synced while it is still written. A hard disk writes them in some seconds, so no sync takes as long as one
/// of a disk that hangs.
const SYNC_EVERY: u64 = 256 << 20;

/// The result of an attempt to share blocks between files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSharing {
    Shared,
    /// The file is still empty.
    Unsupported,
    /// The source has another length than expected.
    OtherLength,
}

/// A file in a disk's folder of incoming files. Dropping it deletes the file and ends its reservation.
pub struct Partial {
    shared: Arc<StoreShared>,
    disk: DiskNumber,
    name: String,
    /// None until the file exists, and after it became an artifact.
    file: Option<File>,
    reservation: Reservation,
    hasher: Sha256,
    /// Bytes that are hashed and not yet in the file.
    buffer: Vec<u8>,
    unsynced: u64,
}

impl Partial {
    /// Creates an empty file with a reservation on the disk with the most usable space.
    pub fn create(shared: &Arc<StoreShared>, bytes: u64) -> Result<Self, WriteError> {
        let (disk, reservation) = shared.reserve(bytes)?;
        let mut partial = Partial {
            shared: Arc::clone(shared),
            disk,
            name: shared.partial_name(),
            file: None,
            reservation,
            hasher: Sha256::new(),
            buffer: Vec::new(),
            unsynced: 0,
        };
        let file = shared.on_disk(disk, |disk| disk.create_partial(&partial.name));
        partial.file = Some(file.map_err(|error| shared.write_error(disk, error))?);
        // Other programs may have used the space since the last measurement.
        partial.measure()?;
        let overcommitted = shared.state().spaces[disk.0].is_overcommitted();
        match overcommitted && bytes > 0 {
            true => Err(WriteError::NoSpace {
                needed: bytes,
                usable: 0,
            }),
            false => Ok(partial),
        }
    }

    /// Returns the number of bytes that were appended.
    pub fn length(&self) -> u64 {
        self.reservation.written + self.buffer.len() as u64
    }

    /// Reserves more bytes.
    pub fn extend(&mut self, bytes: u64) -> Result<(), WriteError> {
        self.shared.extend(self.disk, &mut self.reservation, bytes)
    }

    /// Appends bytes, which must be reserved.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.hasher.update(bytes);
        if self.buffer.is_empty() && bytes.len() >= CHUNK {
            return self.write(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        match self.buffer.len() >= CHUNK {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Makes the empty file a copy of `source` that shares its blocks, if the file system can do so. `length` bytes must be reserved.
    pub fn share_blocks<E: From<WriteError> + From<Stopped>>(
        &mut self,
        source: &File,
        length: u64,
        stop: StopCheck<'_>,
    ) -> Result<BlockSharing, E> {
        let shared = self.on_file(|file| {
            // A copy takes its place. The copy meets the same error if the error matters.
            if rustix::fs::ioctl_ficlone(file, source).is_err() {
                // A file system may have shared some blocks before it failed.
                return file.set_len(0).map(|()| None);
            }
            file.metadata().map(|metadata| Some(metadata.len()))
        })?;
        match shared {
            None => return Ok(BlockSharing::Unsupported),
            Some(found) if found != length => return Ok(BlockSharing::OtherLength),
            Some(_) => {}
        }
        let mut buffer = vec![0; CHUNK];
        loop {
            stop.check()?;
            let offset = self.length();
            match self.on_file(|file| file.read_at(&mut buffer, offset))? {
                0 => return Ok(BlockSharing::Shared),
                count => {
                    self.hasher.update(&buffer[..count]);
                    self.wrote(count as u64);
                }
            }
        }
    }

    /// Returns the SHA-256 of the appended bytes.
    pub fn id(&self) -> ArtifactId {
        ArtifactId(self.hasher.clone().finalize().into())
    }

    /// Makes the file the artifact of this name, which the caller has verified, in place of an earlier copy. The artifact survives a
    /// crash when this returns.
    pub fn keep(mut self, key: &ArtifactKey) -> Result<(), WriteError> {
        self.flush()?;
        self.on_file(File::sync_all)?;
        let shared = Arc::clone(&self.shared);
        let _guard = shared.lock_key(key);
        let before = shared.state().catalog.find(key);
        let kept = shared.on_disk(self.disk, |disk| disk.keep_partial(&self.name, key));
        if let Some(before) = before {
            // The new copy takes the place of the former one, which may be damaged, or about to be deleted.
            if before.disk != self.disk {
                // A file that stays counts as used space, and is found again at the next start.
                let _ = shared.on_disk(before.disk, |disk| disk.delete(key));
            }
            let mut state = shared.state();
            state.catalog.remove(key);
            state.spaces[before.disk.0].deleted(before.size);
        }
        kept.map_err(|error| shared.write_error(self.disk, error))?;
        self.file = None;
        {
            let mut state = shared.state();
            let added = state.catalog.add(key, self.disk, self.reservation.written);
            assert!(
                added,
                "Invariant: the lock of the key keeps other copies out"
            );
            state.spaces[self.disk.0].keep(std::mem::take(&mut self.reservation));
        }
        // The last measured space is nearly as good.
        let _ = shared.measure(self.disk);
        Ok(())
    }

    fn measure(&self) -> Result<(), WriteError> {
        let measured = self.shared.measure(self.disk);
        measured.map_err(|error| self.shared.write_error(self.disk, error))
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer)?;
        buffer.clear();
        self.buffer = buffer;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        for chunk in bytes.chunks(CHUNK) {
            self.on_file(|mut file| file.write_all(chunk))?;
            self.wrote(chunk.len() as u64);
            self.unsynced += chunk.len() as u64;
            if self.unsynced >= SYNC_EVERY {
                self.on_file(File::sync_data)?;
                self.unsynced = 0;
            }
        }
        Ok(())
    }

    fn on_file<T>(&self, operation: impl FnOnce(&File) -> io::Result<T>) -> Result<T, WriteError> {
        let file = self
            .file
            .as_ref()
            .expect("Invariant: the file exists until it is kept");
        let result = self.shared.on_disk(self.disk, |_| operation(file));
        result.map_err(|error| self.shared.write_error(self.disk, error))
    }

    fn wrote(&mut self, bytes: u64) {
        let mut state = self.shared.state();
        state.spaces[self.disk.0].wrote(&mut self.reservation, bytes);
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        let reservation = std::mem::take(&mut self.reservation);
        if self.file.take().is_some() {
            // A file that cannot be deleted is deleted when a store opens the disk the next time.
            let _ = self
                .shared
                .on_disk(self.disk, |disk| disk.delete_partial(&self.name));
        }
        self.shared.state().spaces[self.disk.0].release(reservation);
    }
}
