//! Partial files: an artifact while it is written, hashed on the way, and kept only when it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZero;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use brasserie_common::ArtifactId;
use rustix::fs::{Advice, fadvise};
use sha2::{Digest, Sha256};

use crate::artifact_key::ArtifactKey;
use crate::catalog::{DiskNumber, StoredCopy};
use crate::disk::DiskFolder;
use crate::shared::{StoreShared, WriteError};
use crate::space::Reservation;
use crate::stop::{StopCheck, Stopped};
use crate::threads::{hash_during, sync_all};

/// Bytes of one read or write. Larger ones are not faster, and each operation needs a buffer.
pub const CHUNK: usize = 1 << 20;
/// Bytes after which a file is synced while it is still written. A hard disk writes them in some seconds, so no sync takes as long as one
/// of a disk that hangs.
const SYNC_EVERY: u64 = 256 << 20;

/// Bytes after which the kernel is asked to begin to write them to the disk, which then works while more bytes arrive. Without that it
/// begins much later, and the sync at the end waits for nearly the whole file.
const WRITE_BACK_EVERY: u64 = 8 << 20;

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
    /// Bytes of which the kernel was not asked to write them to the disk.
    unstarted: u64,
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
            unstarted: 0,
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
        if self.buffer.is_empty() && bytes.len() >= CHUNK {
            let mut hasher = std::mem::take(&mut self.hasher);
            let written = hash_during(&mut hasher, bytes, || self.write(bytes));
            self.hasher = hasher;
            return written;
        }
        self.hasher.update(bytes);
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

    /// Makes the file the artifact of this name, as [`Partial::keep_all`] does.
    pub fn keep(self, key: &ArtifactKey) -> Result<(), WriteError> {
        let kept = Partial::keep_all(BTreeMap::from([(key.clone(), self)]));
        kept.into_values()
            .next()
            .expect("Invariant: each file has a result")
    }

    /// Makes files the artifacts of these names, which the caller has verified. An artifact survives a crash if its result is a success. One
    /// that the store has already is replaced.
    ///
    /// Many files are synced at once, then each of their folders once. The kernel does most of that together.
    pub fn keep_all(
        all: BTreeMap<ArtifactKey, Partial>,
    ) -> BTreeMap<ArtifactKey, Result<(), WriteError>> {
        let mut results = BTreeMap::new();
        let mut synced = BTreeMap::new();
        let all = all.into_iter().collect();
        let sync = |(key, mut partial): (ArtifactKey, Partial)| (key, partial.sync(), partial);
        for (key, result, partial) in sync_all(all, sync) {
            match result {
                Ok(()) => drop(synced.insert(key, partial)),
                Err(error) => drop(results.insert(key, Err(error))),
            }
        }
        let Some(partial) = synced.values().next() else {
            return results;
        };
        let shared = Arc::clone(&partial.shared);
        let disks: BTreeSet<DiskNumber> = synced.values().map(|partial| partial.disk).collect();
        let keys: Vec<ArtifactKey> = synced.keys().cloned().collect();
        let guards = shared.lock_keys(keys.iter());
        let mut placed = place(&shared, &synced);
        for (key, partial) in synced {
            let placed = placed.remove(&key).unwrap_or(Ok(()));
            let kept = partial.enter(&key, placed);
            results.insert(key, kept);
        }
        drop(guards);
        for disk in disks {
            // The last measured space is nearly as good.
            let _ = shared.measure(disk);
        }
        results
    }

    fn sync(&mut self) -> Result<(), WriteError> {
        self.flush()?;
        self.flush_file(File::sync_all)
    }

    /// Enters the artifact into the catalog after the attempt to put its file to its place. The caller has locked the key.
    fn enter(mut self, key: &ArtifactKey, placed: io::Result<()>) -> Result<(), WriteError> {
        let shared = Arc::clone(&self.shared);
        let before = shared.state().catalog.find(key);
        if let Err(error) = placed {
            // A former copy stays, unless the new one had taken its place and was deleted.
            let is_there = |disk: &DiskFolder| disk.path_of(key).try_exists();
            let stays = |before: StoredCopy| shared.on_disk(before.disk, is_there).unwrap_or(true);
            if let Some(before) = before.filter(|before| !stays(*before)) {
                let mut state = shared.state();
                state.catalog.remove(key);
                state.spaces[before.disk.0].deleted(before.size);
            }
            return Err(shared.write_error(self.disk, error));
        }
        self.file = None;
        let mut state = shared.state();
        if let Some(before) = before {
            // The new copy takes the place of the former one, which may be damaged, or about to be deleted.
            state.catalog.remove(key);
            state.spaces[before.disk.0].deleted(before.size);
        }
        let added = state.catalog.add(key, self.disk, self.reservation.written);
        assert!(
            added,
            "Invariant: the lock of the key keeps other copies out"
        );
        state.spaces[self.disk.0].keep(std::mem::take(&mut self.reservation));
        drop(state);
        if let Some(before) = before.filter(|before| before.disk != self.disk) {
            // A file that stays counts as used space, and is found again at the next start.
            let _ = shared.on_disk(before.disk, |disk| disk.delete(key));
        }
        Ok(())
    }

    /// Writes the bytes that are still in memory to the file, and frees the memory.
    pub fn write_out(&mut self) -> Result<(), WriteError> {
        let buffer = std::mem::take(&mut self.buffer);
        self.write(&buffer)
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
            self.flush_file(|mut file| file.write_all(chunk))?;
            self.wrote(chunk.len() as u64);
            self.unsynced += chunk.len() as u64;
            self.unstarted += chunk.len() as u64;
            if self.unstarted >= WRITE_BACK_EVERY {
                self.begin_write_back()?;
            }
            if self.unsynced >= SYNC_EVERY {
                self.flush_file(File::sync_data)?;
                self.unsynced = 0;
            }
        }
        Ok(())
    }

    /// Asks the kernel to begin to write the last bytes to the disk. It keeps them in memory while they are not there, so this advice has no
    /// other effect on them.
    fn begin_write_back(&mut self) -> Result<(), WriteError> {
        let length = std::mem::take(&mut self.unstarted);
        let offset = self.reservation.written - length;
        self.on_file(|file| {
            // A failure only lets the sync take longer.
            let _ = fadvise(file, offset, NonZero::new(length), Advice::DontNeed);
            Ok(())
        })
    }

    /// Performs a write or a sync, whose time is measured.
    fn flush_file(
        &self,
        operation: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), WriteError> {
        let began = Instant::now();
        self.on_file(operation)?;
        let mut state = self.shared.state();
        state.times[self.disk.0].flushed(began, Instant::now());
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

/// Moves synced files to the places of their artifacts, and syncs the folders there. Returns the errors. A file whose folders cannot be
/// synced is deleted.
fn place(
    shared: &StoreShared,
    synced: &BTreeMap<ArtifactKey, Partial>,
) -> BTreeMap<ArtifactKey, io::Result<()>> {
    let mut failed = BTreeMap::new();
    let mut folders: BTreeMap<(DiskNumber, PathBuf), Vec<&ArtifactKey>> = BTreeMap::new();
    for (key, partial) in synced {
        let placed = shared.on_disk(partial.disk, |disk| disk.place_partial(&partial.name, key));
        match placed {
            Ok(aside) => {
                shared.state().set_aside.extend(aside);
                for folder in DiskFolder::folders_of(key) {
                    folders.entry((partial.disk, folder)).or_default().push(key);
                }
            }
            Err(error) => drop(failed.insert(key.clone(), Err(error))),
        }
    }
    let sync = |(disk, folder): (DiskNumber, PathBuf)| {
        let result = shared.on_disk(disk, |disk| disk.sync_folder(&folder));
        ((disk, folder), result)
    };
    for ((disk, folder), result) in sync_all(folders.keys().cloned().collect(), sync) {
        let Err(error) = result else {
            continue;
        };
        for &key in folders.get(&(disk, folder)).into_iter().flatten() {
            // The error of the sync is the important one.
            let _ = shared.on_disk(disk, |disk| disk.delete(key));
            let same = match error.raw_os_error() {
                Some(number) => io::Error::from_raw_os_error(number),
                None => io::Error::other(error.to_string()),
            };
            failed.insert(key.clone(), Err(same));
        }
    }
    failed
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
