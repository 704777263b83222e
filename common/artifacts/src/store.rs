//! The store: the operations on artifacts that a worker's threads call.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::artifact_report::ArtifactCopy;
use brasserie_common::{Artifact, ArtifactId, ArtifactNamespace, DiskGeneration, OutputPath};

use crate::archive::FolderLimits;
use crate::artifact_key::ArtifactKey;
use crate::catalog::{DiskContent, DiskNumber, LostArtifact, StoredCopy};
use crate::disk::{DiskFolder, DiskMistake, SetAside};
use crate::disk_flag::DiskFlag;
use crate::disk_times::DiskTimes;
use crate::held::{ContentError, HeldArtifact};
use crate::in_flight::DiskOperations;
use crate::incoming::{Incoming, ReceiveError};
use crate::partial::Partial;
use crate::scan::{OpenFinding, Opening};
use crate::shared::{State, StoreDisk, StoreShared};
use crate::space::SpaceAccount;
use crate::stage::{self, InputPlace, StageError};
use crate::take_in::{self, TakeInError};
use crate::task_files::TaskFolder;
use crate::usage::{self, DiskUsage, FoundCondition};

/// The settings of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    pub disks: Vec<DiskFlag>,
    /// Bytes of each file system that artifacts leave free, but at most a quarter of the file system.
    pub reserve: u64,
    /// The time after which an operation shows that its disk hangs.
    pub hang_after: Duration,
    pub folder_limits: FolderLimits,
}

impl StoreOptions {
    pub fn new(disks: Vec<DiskFlag>) -> Self {
        StoreOptions {
            disks,
            // The reserve of Celeborn, on whose rules the scheduler's choice of disks is built.
            reserve: 5 << 30,
            // A hard disk performs the largest operation, a sync of 256 MiB, in some seconds. Kernels retry a failing disk for 30 s.
            hang_after: Duration::from_secs(60),
            folder_limits: FolderLimits::default(),
        }
    }
}

/// An artifact of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredArtifact {
    pub id: ArtifactId,
    /// Bytes.
    pub size: u64,
    /// The generation of its disk.
    pub generation: DiskGeneration,
}

/// An artifact for transfers. It stays readable if it is deleted meanwhile.
pub struct ArtifactReader(HeldArtifact);

impl ArtifactReader {
    /// Returns the size of the artifact in bytes.
    pub fn size(&self) -> u64 {
        self.0.size()
    }

    /// Reads `length` bytes, or fewer at the end of the artifact. The content is not verified: the receiver does that.
    pub fn read_at(&self, offset: u64, length: usize) -> Result<Vec<u8>, ContentError> {
        let began = Instant::now();
        let rest = usize::try_from(self.size().saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(rest)];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += self
                .0
                .read_at(offset + filled as u64, &mut bytes[filled..])?;
        }
        self.0.fetched(began);
        Ok(bytes)
    }
}

/// A worker's store of artifacts. Its disks stay locked until it and all of its [`ArtifactReader`]s and [`Incoming`] artifacts are dropped.
pub struct ArtifactStore(Arc<StoreShared>);

impl ArtifactStore {
    /// Opens the disks and finds their artifacts. A disk that fails is not used, and the others are; a person's mistake is an error.
    pub fn open(options: &StoreOptions) -> Result<(Self, Vec<OpenFinding>), DiskMistake> {
        let mut opening = Opening::default();
        let mut state = State::default();
        let mut disks = Vec::new();
        for (number, flag) in options.disks.iter().enumerate() {
            let mut space = SpaceAccount::new(flag.capacity, options.reserve);
            let opened = opening.open(flag)?.map(|opened| {
                for (key, size) in opened.artifacts {
                    state.catalog.add(&key, DiskNumber(number), size);
                    space.found(size);
                }
                opened.disk
            });
            state.spaces.push(space);
            state.times.push(DiskTimes::new(Instant::now()));
            state.failures.push(opened.as_ref().err().cloned());
            disks.push(StoreDisk {
                path: flag.path.clone(),
                medium: flag.medium,
                opened,
            });
        }
        let in_flight = DiskOperations::new(options.hang_after);
        let shared = StoreShared::new(disks, options.folder_limits, in_flight, state);
        for number in 0..shared.disks.len() {
            // A failure is the condition of the disk then.
            let _ = shared.measure(DiskNumber(number));
        }
        Ok((ArtifactStore(Arc::new(shared)), opening.findings))
    }

    /// Takes an output of a task into the store, which keeps it through a crash when this returns.
    pub fn take_in(
        &self,
        namespace: &ArtifactNamespace,
        task: TaskFolder<'_>,
        output: &OutputPath,
    ) -> Result<Artifact, TakeInError> {
        let taken = self.take_in_all(namespace, task, std::slice::from_ref(output))?;
        Ok(taken[0])
    }

    /// Takes outputs of a task like [`ArtifactStore::take_in`], all with common syncs: their files are open at once. Returns one artifact for
    /// each output. If one is refused, none is kept; if a disk fails, some may be.
    pub fn take_in_all(
        &self,
        namespace: &ArtifactNamespace,
        task: TaskFolder<'_>,
        outputs: &[OutputPath],
    ) -> Result<Vec<Artifact>, TakeInError> {
        take_in::take_in_all(&self.0, namespace, task, outputs)
    }

    /// Begins to receive an artifact of `size` bytes.
    pub fn receive(
        &self,
        namespace: &ArtifactNamespace,
        id: ArtifactId,
        size: u64,
    ) -> Result<Incoming, ReceiveError> {
        let key = ArtifactKey::new(namespace, id);
        if self.0.state().catalog.find(&key).is_some() {
            return Err(ReceiveError::Held(id));
        }
        let partial = Partial::create(&self.0, size)?;
        Ok(Incoming::new(partial, key, size))
    }

    /// Opens an artifact for transfers.
    pub fn read(
        &self,
        namespace: &ArtifactNamespace,
        id: ArtifactId,
    ) -> Result<ArtifactReader, ContentError> {
        self.held(namespace, id).map(ArtifactReader)
    }

    /// Gives a task a copy of an artifact, verified.
    pub fn stage(
        &self,
        namespace: &ArtifactNamespace,
        artifact: &Artifact,
        place: &InputPlace<'_>,
    ) -> Result<(), StageError> {
        let held = self.held(namespace, artifact.id)?;
        stage::stage(&held, artifact.id, artifact.form, place, self.0.limits)
    }

    /// Reads and verifies an artifact. A damaged one is lost.
    pub fn check(&self, namespace: &ArtifactNamespace, id: ArtifactId) -> Result<(), ContentError> {
        self.held(namespace, id)?.verify(|_| Ok(()))
    }

    /// Deletes artifacts. Artifacts that the store does not have are skipped. Returns the files that could not be deleted: their artifacts
    /// return when a store opens the disk the next time.
    pub fn delete(
        &self,
        namespace: &ArtifactNamespace,
        ids: impl IntoIterator<Item = ArtifactId>,
    ) -> Vec<(PathBuf, io::Error)> {
        self.delete_up_to(namespace, ids, u64::MAX)
    }

    /// Returns the serial of the newest copy, for [`ArtifactStore::delete_up_to`].
    pub fn newest_serial(&self) -> u64 {
        self.0.state().catalog.newest_serial()
    }

    /// Deletes artifacts like [`ArtifactStore::delete`], but keeps copies that came after that of the serial `newest`: nobody knew of them
    /// when the deletion was decided.
    pub fn delete_up_to(
        &self,
        namespace: &ArtifactNamespace,
        ids: impl IntoIterator<Item = ArtifactId>,
        newest: u64,
    ) -> Vec<(PathBuf, io::Error)> {
        let mut failed = Vec::new();
        for id in ids {
            let key = ArtifactKey::new(namespace, id);
            let _guard = self.0.lock_key(&key);
            let found = self.0.state().catalog.find(&key);
            if found.is_none_or(|copy| copy.serial > newest) {
                continue;
            }
            let Some(copy) = self.0.state().catalog.remove(&key) else {
                continue;
            };
            let mut path = PathBuf::new();
            let deleted = self.0.on_disk(copy.disk, |disk| {
                path = disk.path_of(&key);
                disk.delete(&key)
            });
            self.0.state().spaces[copy.disk.0].deleted(copy.size);
            match deleted {
                Err(error) if error.kind() != io::ErrorKind::NotFound => failed.push((path, error)),
                Ok(()) | Err(_) => {}
            }
        }
        failed
    }

    /// Returns an artifact; `None` if the store does not have it.
    pub fn find(&self, namespace: &ArtifactNamespace, id: ArtifactId) -> Option<StoredArtifact> {
        let key = ArtifactKey::new(namespace, id);
        let copy = self.0.state().catalog.find(&key)?;
        Some(StoredArtifact {
            id,
            size: copy.size,
            generation: self.generation(copy.disk)?,
        })
    }

    /// Returns the artifacts of a namespace, by id.
    pub fn holdings(&self, namespace: &ArtifactNamespace) -> Vec<StoredArtifact> {
        let state = self.0.state();
        let artifacts = state.catalog.artifacts(namespace);
        let holding = |(id, copy): (ArtifactId, StoredCopy)| {
            let generation = self.generation(copy.disk)?;
            let size = copy.size;
            Some(StoredArtifact {
                id,
                size,
                generation,
            })
        };
        artifacts.filter_map(holding).collect()
    }

    /// Returns what a namespace has on each disk that is open.
    pub fn contents(&self, namespace: &ArtifactNamespace) -> Vec<(DiskGeneration, DiskContent)> {
        self.contents_with(namespace, &BTreeSet::new())
    }

    /// Returns the same as if the store still had these copies.
    pub fn contents_with(
        &self,
        namespace: &ArtifactNamespace,
        copies: &BTreeSet<ArtifactCopy>,
    ) -> Vec<(DiskGeneration, DiskContent)> {
        let state = self.0.state();
        let disks = (0..self.0.disks.len()).map(DiskNumber);
        let disks = disks.filter_map(|disk| Some((self.generation(disk)?, disk)));
        let content = |(generation, disk)| {
            let mut content = state.catalog.content(namespace, disk);
            for copy in copies.iter().filter(|copy| copy.generation == generation) {
                let found = state.catalog.find(&ArtifactKey::new(namespace, copy.id));
                if found.is_none_or(|found| found.disk != disk) {
                    content.digest.include(copy.id.0);
                    content.artifacts += 1;
                }
            }
            (generation, content)
        };
        disks.map(content).collect()
    }

    /// Returns the namespaces that have artifacts.
    pub fn namespaces(&self) -> Vec<ArtifactNamespace> {
        self.0.state().catalog.namespaces().cloned().collect()
    }

    /// Returns the artifacts of a namespace that the store has dropped since the last call.
    pub fn drain_lost(&self, namespace: &ArtifactNamespace) -> Vec<LostArtifact> {
        let mut state = self.0.state();
        let is_of = |lost: &mut LostArtifact| lost.namespace == *namespace;
        state.lost.extract_if(.., is_of).collect()
    }

    /// Returns what the store has set aside since the last call, because it was at the place of a new artifact.
    pub fn drain_set_aside(&self) -> Vec<OpenFinding> {
        let aside = std::mem::take(&mut self.0.state().set_aside).into_iter();
        let finding = |SetAside { from, to }| OpenFinding::SetAside { from, to };
        aside.map(finding).collect()
    }

    /// Returns the space and the condition of each disk, as of the last operation or probe. Never waits for a disk.
    pub fn usage(&self) -> Vec<DiskUsage> {
        usage::usage(&self.0)
    }

    /// Writes and reads a small file on a disk, measures its file system, and makes the disk healthy again if that succeeds. Blocks as
    /// long as the disk hangs.
    pub fn probe(&self, disk: DiskNumber) -> io::Result<()> {
        let name = self.0.partial_name();
        let probed = self.0.on_disk(disk, |disk| {
            let file = disk.create_partial(&name)?;
            let written = exchange(&file);
            disk.delete_partial(&name)?;
            written
        });
        // A full disk is not a broken one.
        let probed = probed.or_else(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Ok(()),
            _ => Err(error),
        });
        let probed = probed.and_then(|()| self.0.measure(disk));
        let failure = probed.as_ref().err().map(ToString::to_string);
        self.0.state().failures[disk.0] = failure;
        probed
    }

    /// Probes the disks that have failed or seemed full when they were last used, and measures the space of the others, which other programs
    /// use too; unless another call does. Blocks as long as one of them hangs.
    pub fn measure_again(&self) {
        let Some(_probing) = self.0.probing.try_lock() else {
            return;
        };
        for disk in self.usage() {
            // A failure is part of the disk's condition.
            let _ = match disk.condition {
                FoundCondition::IoHang => Ok(()),
                _ if disk.generation.is_none() => Ok(()),
                FoundCondition::ReadError(_) | FoundCondition::HighUsage => self.probe(disk.disk),
                FoundCondition::Healthy => self.0.measure(disk.disk),
            };
        }
    }

    fn held(
        &self,
        namespace: &ArtifactNamespace,
        id: ArtifactId,
    ) -> Result<HeldArtifact, ContentError> {
        HeldArtifact::open(&self.0, ArtifactKey::new(namespace, id))
    }

    fn generation(&self, disk: DiskNumber) -> Option<DiskGeneration> {
        let disk = self.0.disks[disk.0].opened.as_ref().ok()?;
        DiskFolder::generation(disk)
    }
}

/// Writes some bytes to an empty file and reads them back.
fn exchange(file: &std::fs::File) -> io::Result<()> {
    const BYTES: &[u8] = b"probe";
    file.write_all_at(BYTES, 0)?;
    file.sync_all()?;
    let mut found = [0; BYTES.len()];
    file.read_exact_at(&mut found, 0)?;
    match found == BYTES {
        true => Ok(()),
        false => Err(io::Error::other(
            "the disk returned other bytes than were written",
        )),
    }
}

#[cfg(test)]
mod tests;
