//! A worker's store of artifacts as a plain model: disks with copies that are sound, damaged or missing. The store survives the worker's
//! processes; it performs no check that the real store does not perform.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use brasserie_common::artifact_report::{
    ArtifactCopy, DiskCondition, DiskMedium, DiskReport, ListingPage, ListingWanted,
};
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{ArtifactId, ArtifactNamespace, DiskGeneration, SetDigest};

/// The most artifacts in one page of a listing: few, so that most listings have several pages.
const PAGE: usize = 3;

/// The capacity of a disk in bytes: more than all artifacts of a run.
const CAPACITY: u64 = 1 << 30;

/// The state of a copy that the store's catalog has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyState {
    Sound,
    /// The bytes have another SHA-256 than the artifact. The store notices that only when it reads them.
    Damaged,
    /// The file is gone. The store notices that only when it opens the file.
    Missing,
}

/// A copy in the catalog. The size is in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredCopy {
    pub size: u64,
    pub state: CopyState,
    /// The position among all copies that the store has ever kept.
    pub serial: u64,
}

/// An artifact of one scheduler's data directory.
pub type ArtifactKey = (ArtifactNamespace, ArtifactId);

/// One disk. The capacity is in bytes.
#[derive(Clone, Debug)]
struct StoreDisk {
    capacity: u64,
    copies: BTreeMap<ArtifactKey, StoredCopy>,
}

/// A copy and its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundCopy {
    pub generation: DiskGeneration,
    pub copy: StoredCopy,
}

/// No disk has space for the artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no disk of the worker has space")]
pub struct NoSpace;

/// The disks of one worker. Invariant: an artifact is on one disk at most.
#[derive(Clone, Debug, Default)]
pub struct Store {
    disks: BTreeMap<DiskGeneration, StoreDisk>,
    /// The serial of the newest copy.
    newest: u64,
    /// Copies that the present process has found to be damaged or missing, and has not reported.
    lost: Vec<(ArtifactNamespace, ArtifactCopy)>,
}

impl Store {
    pub fn new(generations: impl IntoIterator<Item = DiskGeneration>) -> Self {
        let disk = |generation| (generation, StoreDisk::empty());
        Store {
            disks: generations.into_iter().map(disk).collect(),
            newest: 0,
            lost: Vec::new(),
        }
    }

    /// Forgets what only the memory of a process knew.
    pub fn reopen(&mut self) {
        self.lost.clear();
    }

    /// Returns whether no disk has an artifact of any namespace.
    pub fn is_empty(&self) -> bool {
        self.disks.values().all(|disk| disk.copies.is_empty())
    }

    pub fn find(&self, key: &ArtifactKey) -> Option<FoundCopy> {
        self.disks.iter().find_map(|(&generation, disk)| {
            let copy = *disk.copies.get(key)?;
            Some(FoundCopy { generation, copy })
        })
    }

    /// Returns all copies in the catalog.
    pub fn copies(&self) -> impl Iterator<Item = (&ArtifactKey, FoundCopy)> {
        self.disks.iter().flat_map(|(&generation, disk)| {
            let found = move |(key, &copy)| (key, FoundCopy { generation, copy });
            disk.copies.iter().map(found)
        })
    }

    /// Keeps a sound copy of `size` bytes, in place of an earlier one.
    pub fn keep(&mut self, key: &ArtifactKey, size: u64) -> Result<FoundCopy, NoSpace> {
        let earlier = self.find(key).map(|found| found.generation);
        let mut disks = self.disks.iter_mut();
        let fits = |disk: &StoreDisk| disk.used() + size <= disk.capacity;
        let is_chosen = |generation, disk: &StoreDisk| match earlier {
            Some(earlier) => generation == earlier,
            None => fits(disk),
        };
        let chosen = disks.find(|(generation, disk)| is_chosen(**generation, disk));
        let (&generation, disk) = chosen.ok_or(NoSpace)?;
        self.newest += 1;
        let copy = StoredCopy {
            size,
            state: CopyState::Sound,
            serial: self.newest,
        };
        disk.copies.insert(key.clone(), copy);
        Ok(FoundCopy { generation, copy })
    }

    /// Returns the serial of the newest copy, for [`Store::delete_up_to`].
    pub fn newest_serial(&self) -> u64 {
        self.newest
    }

    /// Deletes a copy unless it came after that of the serial `newest`: nobody knew of it when the deletion was decided. Returns whether the
    /// disk of this generation had it.
    pub fn delete_up_to(
        &mut self,
        namespace: &ArtifactNamespace,
        copy: ArtifactCopy,
        newest: u64,
    ) -> bool {
        let found = self.find(&(namespace.clone(), copy.id));
        let is_old = found.is_some_and(|found| found.copy.serial <= newest);
        is_old && self.delete(namespace, copy)
    }

    /// Opens a copy for a transfer, without a check of its bytes. A missing copy is lost.
    pub fn open(&mut self, key: &ArtifactKey) -> Option<CopyState> {
        match self.find(key)?.copy.state {
            CopyState::Missing => {
                self.lose(key);
                None
            }
            state => Some(state),
        }
    }

    /// Reads and verifies a copy. A damaged or missing copy is lost. Returns whether the copy is sound.
    pub fn verify(&mut self, key: &ArtifactKey) -> bool {
        let state = self.find(key).map(|found| found.copy.state);
        match state {
            Some(CopyState::Sound) => true,
            Some(CopyState::Damaged) if sabotage::on(Sabotage::StageWithoutCheck) => true,
            Some(CopyState::Damaged | CopyState::Missing) => {
                self.lose(key);
                false
            }
            None => false,
        }
    }

    fn delete(&mut self, namespace: &ArtifactNamespace, copy: ArtifactCopy) -> bool {
        let disk = self.disks.get_mut(&copy.generation);
        let removed = disk.and_then(|disk| disk.copies.remove(&(namespace.clone(), copy.id)));
        removed.is_some()
    }

    fn lose(&mut self, key: &ArtifactKey) {
        let Some(FoundCopy { generation, .. }) = self.find(key) else {
            return;
        };
        let (namespace, id) = key.clone();
        let copy = ArtifactCopy { generation, id };
        self.delete(&namespace, copy);
        self.lost.push((namespace, copy));
    }

    /// Returns the copies of a namespace that were lost since the last call.
    pub fn drain_lost(&mut self, namespace: &ArtifactNamespace) -> Vec<ArtifactCopy> {
        let (own, others) = std::mem::take(&mut self.lost)
            .into_iter()
            .partition(|(of, _)| of == namespace);
        self.lost = others;
        let own: Vec<(ArtifactNamespace, ArtifactCopy)> = own;
        own.into_iter().map(|(_, copy)| copy).collect()
    }

    /// Returns the disks as a worker reports them.
    pub fn reports(&self, namespace: Option<&ArtifactNamespace>) -> Vec<DiskReport> {
        let report = |(&generation, disk): (&DiskGeneration, &StoreDisk)| {
            let mut digest = SetDigest::EMPTY;
            let ids = namespace.into_iter().flat_map(|of| disk.ids(of));
            let artifacts = ids.map(|(id, _)| digest.include(id.0)).count() as u64;
            DiskReport {
                generation,
                digest,
                artifacts,
                medium: DiskMedium::default(),
                total: disk.capacity,
                used: disk.used(),
                usable: disk.capacity.saturating_sub(disk.used()),
                condition: DiskCondition::Healthy,
                problem: None,
                flush_time: Duration::ZERO,
                fetch_time: Duration::ZERO,
            }
        };
        self.disks.iter().map(report).collect()
    }

    /// Returns the part of a disk's list that a scheduler asks for.
    pub fn page(&self, namespace: &ArtifactNamespace, wanted: ListingWanted) -> ListingPage {
        let disk = self.disks.get(&wanted.generation).into_iter();
        let after = wanted.after.map_or(Bound::Unbounded, Bound::Excluded);
        let is_after = |id: &ArtifactId| match after {
            Bound::Excluded(after) => *id > after,
            Bound::Included(_) | Bound::Unbounded => true,
        };
        let mut rest = disk
            .flat_map(|disk| disk.ids(namespace))
            .filter(|(id, _)| is_after(id));
        let artifacts = rest.by_ref().take(PAGE).collect();
        ListingPage {
            wanted,
            is_last: rest.next().is_none(),
            artifacts,
        }
    }

    /// Changes the state of a copy without notice. Returns whether it was sound.
    pub fn spoil(&mut self, key: &ArtifactKey, state: CopyState) -> bool {
        let copies = self.disks.values_mut();
        let copy = copies
            .filter_map(|disk| disk.copies.get_mut(key))
            .find(|copy| copy.state == CopyState::Sound);
        copy.map(|copy| copy.state = state).is_some()
    }

    /// Replaces all disks by empty ones.
    pub fn wipe(&mut self, generations: impl IntoIterator<Item = DiskGeneration>) {
        *self = Store::new(generations);
    }

    pub fn disk_count(&self) -> usize {
        self.disks.len()
    }

    /// Leaves no space on any disk, or as much as ever.
    pub fn set_full(&mut self, is_full: bool) {
        for disk in self.disks.values_mut() {
            disk.capacity = match is_full {
                true => disk.used(),
                false => CAPACITY,
            };
        }
    }

    pub fn is_full(&self) -> bool {
        self.disks.values().all(|disk| disk.capacity < CAPACITY)
    }
}

impl StoreDisk {
    fn empty() -> Self {
        StoreDisk {
            capacity: CAPACITY,
            copies: BTreeMap::new(),
        }
    }

    fn used(&self) -> u64 {
        self.copies.values().map(|copy| copy.size).sum()
    }

    /// Returns the artifacts of a namespace in the order of their ids, with their sizes.
    fn ids(&self, namespace: &ArtifactNamespace) -> impl Iterator<Item = (ArtifactId, u64)> {
        let all = self
            .copies
            .iter()
            .filter(move |((of, _), _)| of == namespace);
        all.map(|((_, id), copy)| (*id, copy.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> ArtifactKey {
        let namespace = ArtifactNamespace::try_from("sim").expect("a good name");
        (namespace, ArtifactId([number; 32]))
    }

    #[test]
    fn a_spoiled_copy_is_found_only_when_it_is_read() {
        let mut store = Store::new([DiskGeneration(1)]);
        store.keep(&key(1), 10).expect("an empty disk has space");
        assert!(store.spoil(&key(1), CopyState::Damaged));
        assert_eq!(store.open(&key(1)), Some(CopyState::Damaged));
        assert!(!store.verify(&key(1)));
        assert_eq!(store.find(&key(1)), None);
        assert_eq!(store.drain_lost(&key(1).0).len(), 1);
    }

    #[test]
    fn a_copy_that_is_left_again_is_sound_and_new() {
        let mut store = Store::new([DiskGeneration(1)]);
        let id = key(1).1;
        let copy = ArtifactCopy {
            generation: DiskGeneration(1),
            id,
        };
        store.keep(&key(1), 10).expect("an empty disk has space");
        let newest = store.newest_serial();
        store.spoil(&key(1), CopyState::Damaged);
        store.keep(&key(1), 10).expect("it has a place");
        assert!(store.verify(&key(1)));
        assert!(!store.delete_up_to(&key(1).0, copy, newest));
        assert!(store.delete_up_to(&key(1).0, copy, newest + 1));
    }

    #[test]
    fn a_full_disk_takes_nothing_and_a_listing_has_pages() {
        let mut store = Store::new([DiskGeneration(1)]);
        for number in 0..4 {
            store
                .keep(&key(number), 1)
                .expect("an empty disk has space");
        }
        store.set_full(true);
        assert_eq!(store.keep(&key(9), 1), Err(NoSpace));
        let mut wanted = ListingWanted {
            generation: DiskGeneration(1),
            listing: Default::default(),
            after: None,
        };
        let first = store.page(&key(0).0, wanted);
        assert_eq!((first.artifacts.len(), first.is_last), (PAGE, false));
        wanted.after = first.artifacts.last().map(|(id, _)| *id);
        let last = store.page(&key(0).0, wanted);
        assert_eq!((last.artifacts.len(), last.is_last), (1, true));
    }
}
