//! The state that all operations of a store share: its disks, the catalog, the space of each disk, and the operations in flight.
//!
//! No lock is held while a disk works, but for the lock of one key. A disk that hangs therefore blocks only the operations on it.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use thiserror::Error;

use crate::archive::FolderLimits;
use crate::artifact_key::ArtifactKey;
use crate::catalog::{Catalog, CopyLoss, DiskNumber, LostArtifact, StoredCopy};
use crate::disk::{DiskFolder, SetAside};
use crate::disk_times::DiskTimes;
use crate::in_flight::DiskOperations;
use crate::space::{Reservation, SpaceAccount};
use brasserie_common::artifact_report::DiskMedium;
use brasserie_common::text::readable_bytes;

/// The reason why the store cannot write an artifact. Nothing of it is kept.
#[derive(Debug, Error)]
pub enum WriteError {
    #[error(
        "the store has no working disk: check the disks of --disk, then start the worker again"
    )]
    NoDisk,
    #[error(
        "the store has no space for {}: its disk with the most space has {}. Delete artifacts, or give the store more with --disk",
        readable_bytes(*.needed), readable_bytes(*.usable)
    )]
    NoSpace { needed: u64, usable: u64 },
    #[error(
        "the artifact disk {} is full ({error}). Make space there, or lower the capacity of its --disk", path.display()
    )]
    DiskFull { path: PathBuf, error: io::Error },
    #[error("cannot write to the artifact disk {}: {error}. Check the disk", path.display())]
    Disk { path: PathBuf, error: io::Error },
}

/// A disk as a flag gave it.
pub struct StoreDisk {
    pub path: PathBuf,
    pub medium: DiskMedium,
    /// The reason instead, if the disk could not be opened.
    pub opened: Result<DiskFolder, String>,
}

/// The parts of the state that change.
#[derive(Default)]
pub struct State {
    pub catalog: Catalog,
    pub spaces: Vec<SpaceAccount>,
    /// The last failure of each disk since its last good probe.
    pub failures: Vec<Option<String>>,
    pub lost: Vec<LostArtifact>,
    pub times: Vec<DiskTimes>,
    /// The files and folders that were set aside since the last call of `drain_set_aside`.
    pub set_aside: Vec<SetAside>,
}

pub struct StoreShared {
    pub disks: Vec<StoreDisk>,
    pub limits: FolderLimits,
    pub in_flight: DiskOperations,
    state: Mutex<State>,
    /// The artifacts whose file an operation creates or deletes now.
    busy_keys: Mutex<BTreeSet<ArtifactKey>>,
    key_freed: Condvar,
    partial_files: AtomicU64,
    /// Locked while bad disks are probed, so that one that hangs takes one thread.
    pub probing: Mutex<()>,
}

impl StoreShared {
    pub fn new(
        disks: Vec<StoreDisk>,
        limits: FolderLimits,
        in_flight: DiskOperations,
        state: State,
    ) -> Self {
        StoreShared {
            disks,
            limits,
            in_flight,
            state: Mutex::new(state),
            busy_keys: Mutex::default(),
            key_freed: Condvar::new(),
            partial_files: AtomicU64::new(0),
            probing: Mutex::default(),
        }
    }

    /// Locks the state, for a moment without input and output.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Returns a name that no other partial file of this store has.
    pub fn partial_name(&self) -> String {
        self.partial_files
            .fetch_add(1, Ordering::Relaxed)
            .to_string()
    }

    /// Performs an operation on a disk, visible as in flight. Failures of the disk itself change its condition.
    pub fn on_disk<T>(
        &self,
        number: DiskNumber,
        operation: impl FnOnce(&DiskFolder) -> io::Result<T>,
    ) -> io::Result<T> {
        let disk = match &self.disks[number.0].opened {
            Ok(disk) => disk,
            Err(reason) => return Err(io::Error::other(reason.clone())),
        };
        let ticket = self.in_flight.begin(number);
        let result = operation(disk);
        drop(ticket);
        if let Err(error) = &result
            && is_disk_failure(error)
        {
            self.state().failures[number.0] = Some(error.to_string());
        }
        result
    }

    /// Reserves bytes on the healthy disk with the most usable space.
    pub fn reserve(&self, bytes: u64) -> Result<(DiskNumber, Reservation), WriteError> {
        let mut state = self.state();
        let hung = self.in_flight.hung();
        let healthy = (0..self.disks.len()).map(DiskNumber).filter(|number| {
            let works = self.disks[number.0].opened.is_ok() && state.failures[number.0].is_none();
            works && !hung.contains(number)
        });
        // The first of equal disks.
        let best =
            healthy.max_by_key(|number| (state.spaces[number.0].usable(), usize::MAX - number.0));
        let number = best.ok_or(WriteError::NoDisk)?;
        let mut reservation = Reservation::default();
        self.extend_in(&mut state, number, &mut reservation, bytes)?;
        Ok((number, reservation))
    }

    /// Reserves more bytes on the disk of a reservation.
    pub fn extend(
        &self,
        number: DiskNumber,
        reservation: &mut Reservation,
        bytes: u64,
    ) -> Result<(), WriteError> {
        self.extend_in(&mut self.state(), number, reservation, bytes)
    }

    fn extend_in(
        &self,
        state: &mut State,
        number: DiskNumber,
        reservation: &mut Reservation,
        bytes: u64,
    ) -> Result<(), WriteError> {
        let space = &mut state.spaces[number.0];
        let usable = space.usable();
        if bytes > usable {
            return Err(WriteError::NoSpace {
                needed: bytes,
                usable,
            });
        }
        space.reserve(reservation, bytes);
        Ok(())
    }

    /// Measures the file system of a disk.
    pub fn measure(&self, number: DiskNumber) -> io::Result<()> {
        let file_system = self.on_disk(number, DiskFolder::measure)?;
        self.state().spaces[number.0].measured(file_system);
        Ok(())
    }

    /// Returns the error for a failed write to a disk.
    pub fn write_error(&self, number: DiskNumber, error: io::Error) -> WriteError {
        let path = self.disks[number.0].path.clone();
        match Errno::from_io_error(&error) {
            Some(Errno::NOSPC | Errno::DQUOT) => WriteError::DiskFull { path, error },
            _ => WriteError::Disk { path, error },
        }
    }

    /// Waits until no other operation creates or deletes the file of this artifact, and keeps others waiting.
    pub fn lock_key(&self, key: &ArtifactKey) -> KeyGuard<'_> {
        let mut busy = self.busy_keys.lock();
        while !busy.insert(key.clone()) {
            self.key_freed.wait(&mut busy);
        }
        let key = key.clone();
        KeyGuard { shared: self, key }
    }

    /// Locks several keys like [`StoreShared::lock_key`]. The keys are in ascending order, so that two callers never wait for each other.
    pub fn lock_keys<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a ArtifactKey>,
    ) -> Vec<KeyGuard<'a>> {
        keys.map(|key| self.lock_key(key)).collect()
    }

    /// Drops a copy that is lost: deletes its file, and records the loss for the caller. Returns false and does nothing if the copy is not
    /// the present one.
    pub fn lose(&self, key: &ArtifactKey, copy: StoredCopy, cause: CopyLoss) -> bool {
        let _guard = self.lock_key(key);
        {
            let mut state = self.state();
            if state.catalog.find(key) != Some(copy) {
                return false;
            }
            state.catalog.remove(key);
            state.spaces[copy.disk.0].deleted(copy.size);
            let disk = self.disks[copy.disk.0].opened.as_ref().ok();
            state.lost.push(LostArtifact {
                namespace: key.namespace.clone(),
                id: key.id,
                generation: disk.and_then(DiskFolder::generation),
                cause,
            });
        }
        // A file that cannot be deleted is found again, and its content is checked again, after a restart.
        let _ = self.on_disk(copy.disk, |disk| disk.delete(key));
        true
    }
}

/// The right to create or delete the file of one artifact.
pub struct KeyGuard<'a> {
    shared: &'a StoreShared,
    key: ArtifactKey,
}

impl Drop for KeyGuard<'_> {
    fn drop(&mut self) {
        self.shared.busy_keys.lock().remove(&self.key);
        self.shared.key_freed.notify_all();
    }
}

/// Returns whether an error shows a defect of a disk, its file system or its connection.
fn is_disk_failure(error: &io::Error) -> bool {
    let defects = [
        Errno::IO,
        Errno::ROFS,
        Errno::NXIO,
        Errno::NODEV,
        Errno::STALE,
        Errno::REMOTEIO,
        // The checksums of a file system do not match.
        Errno::UCLEAN,
        Errno::BADMSG,
    ];
    Errno::from_io_error(error).is_some_and(|error| defects.contains(&error))
}
