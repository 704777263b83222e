//! The connected workers and their disks.

mod held_disk;

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{ArtifactId, DiskGeneration, MachinePortLock, SetDigest};

use super::listing::{ListingNumber, ListingPage, PageAnswer, PageChanges};
use super::types::{Holder, RackName};
use held_disk::HeldDisk;

/// A part of a heartbeat: one disk and the digest of its artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskAnnouncement {
    pub generation: DiskGeneration,
    /// The digest of the ids, each of which is its own hash.
    pub digest: SetDigest,
    /// The number of artifacts.
    pub count: u64,
}

/// The number of a worker, unique in the life of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkerNumber(pub u64);

/// The number of a disk, unique in the life of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskNumber(pub u64);

/// The place of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CopyPlace {
    pub worker: WorkerNumber,
    pub disk: DiskNumber,
}

/// A disk that is gone, with all artifacts that it was believed to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoneDisk {
    pub place: CopyPlace,
    pub ids: BTreeSet<ArtifactId>,
}

#[derive(Clone, Debug)]
struct DiskWorker {
    number: WorkerNumber,
    rack: Option<RackName>,
    disks: BTreeMap<DiskGeneration, DiskNumber>,
}

/// All connected workers and their disks. Invariants: `disks` has exactly the disks of `workers`, `open` has exactly their open listings,
/// and `unlisted` exactly those that keep the registry incomplete.
#[derive(Clone, Debug, Default)]
pub struct Disks {
    workers: BTreeMap<MachinePortLock, DiskWorker>,
    disks: BTreeMap<DiskNumber, HeldDisk>,
    open: BTreeMap<ListingNumber, DiskNumber>,
    unlisted: BTreeSet<DiskNumber>,
    /// The last number of a worker, disk or listing.
    last: u64,
}

impl Disks {
    /// Accepts the disks of a heartbeat. Returns the disks that the worker does not announce any more.
    pub fn announce(
        &mut self,
        lock: &MachinePortLock,
        announced: &[DiskAnnouncement],
    ) -> Vec<GoneDisk> {
        let announced = announced.iter().map(|disk| (disk.generation, disk));
        let announced: BTreeMap<DiskGeneration, &DiskAnnouncement> = announced.collect();
        self.connect(lock);
        let gone = self.remove_disks(lock, |known| !announced.contains_key(&known));
        for (generation, announcement) in announced {
            let number = self.connect_disk(lock, generation);
            self.change_disk(number, |disk| disk.compare(announcement));
        }
        gone
    }

    /// Forgets a worker. Returns its number and its disks.
    pub fn remove_worker(
        &mut self,
        lock: &MachinePortLock,
    ) -> Option<(WorkerNumber, Vec<GoneDisk>)> {
        let gone = self.remove_disks(lock, |_| true);
        let worker = self.workers.remove(lock)?;
        Some((worker.number, gone))
    }

    /// Adds an artifact to a disk, also to one that is not announced yet. Returns its place if it was not believed to be there. Ignores
    /// workers that are not connected: they announce their disks when they return.
    pub fn store(&mut self, holder: &Holder, id: ArtifactId) -> Option<CopyPlace> {
        self.workers.get(&holder.lock)?;
        let number = self.connect_disk(&holder.lock, holder.generation);
        let disk = self.disks.get_mut(&number)?;
        disk.store(id).then_some(disk.place())
    }

    /// Returns the place of the copies on a disk, if it is known.
    pub fn place(&self, holder: &Holder) -> Option<CopyPlace> {
        let disk = self.disks.get(&self.number(holder)?)?;
        Some(disk.place())
    }

    /// Removes an artifact from a disk. Returns its place if it was believed to be there.
    pub fn discard(&mut self, holder: &Holder, id: ArtifactId) -> Option<CopyPlace> {
        let number = self.number(holder)?;
        let disk = self.disks.get_mut(&number)?;
        disk.discard(id).then_some(disk.place())
    }

    /// Begins the listing of a disk, if one is wanted.
    pub fn begin_listing(&mut self, holder: &Holder) -> Option<ListingNumber> {
        let number = self.number(holder)?;
        let listing = ListingNumber(self.draw());
        let disk = self.disks.get_mut(&number)?;
        if !disk.wants_listing() {
            return None;
        }
        disk.begin_listing(listing);
        self.open.insert(listing, number);
        Some(listing)
    }

    /// Returns the position after which the next page of an open listing begins: `Some(None)` for the first page.
    pub fn listing_position(&self, listing: ListingNumber) -> Option<Option<ArtifactId>> {
        let disk = self.disks.get(self.open.get(&listing)?)?;
        Some(disk.open_listing()?.position())
    }

    /// Applies a page. Returns the changes, and the place of the disk if the listing was open.
    pub fn apply_page(&mut self, page: &ListingPage) -> (PageChanges, Option<CopyPlace>) {
        let number = self.open.get(&page.listing).copied();
        let applied = number.and_then(|number| {
            self.change_disk(number, |disk| (disk.apply_page(page), Some(disk.place())))
        });
        let (changes, place) =
            applied.unwrap_or_else(|| (PageChanges::none(PageAnswer::Ignored), None));
        match changes.answer {
            PageAnswer::Next(_) | PageAnswer::Ignored => {}
            PageAnswer::Complete | PageAnswer::Malformed => {
                self.open.remove(&page.listing);
            }
        }
        (changes, place)
    }

    /// Ends a listing that got no answer. The disk wants another one.
    pub fn fail_listing(&mut self, listing: ListingNumber) {
        if let Some(number) = self.open.remove(&listing) {
            self.change_disk(number, HeldDisk::fail_listing);
        }
    }

    /// Returns the disks of the worker that want a listing and have none.
    pub fn wanted_listings(&self, lock: &MachinePortLock) -> impl Iterator<Item = DiskGeneration> {
        let disks = self.of_worker(lock);
        let wanted = disks.filter(|(_, number)| {
            let disk = self.disks.get(number);
            disk.is_some_and(HeldDisk::wants_listing)
        });
        wanted.map(|(generation, _)| generation)
    }

    /// Returns whether no disk keeps the registry incomplete.
    pub fn are_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Returns the number of a worker, and makes one if it is new.
    pub fn connect(&mut self, lock: &MachinePortLock) -> WorkerNumber {
        self.worker(lock).number
    }

    pub fn set_rack(&mut self, lock: &MachinePortLock, rack: Option<RackName>) {
        self.worker(lock).rack = rack;
    }

    pub fn rack(&self, lock: &MachinePortLock) -> Option<&RackName> {
        self.workers.get(lock)?.rack.as_ref()
    }

    /// Returns the number of a connected worker.
    pub fn worker_number(&self, lock: &MachinePortLock) -> Option<WorkerNumber> {
        Some(self.workers.get(lock)?.number)
    }

    /// Returns the disks of a worker in the order of generations.
    pub fn of_worker(
        &self,
        lock: &MachinePortLock,
    ) -> impl Iterator<Item = (DiskGeneration, DiskNumber)> {
        let worker = self.workers.get(lock).into_iter();
        worker.flat_map(|worker| worker.disks.iter().map(|(&disk, &number)| (disk, number)))
    }

    pub fn holder(&self, disk: DiskNumber) -> Option<&Holder> {
        Some(self.disks.get(&disk)?.holder())
    }

    /// Returns the artifacts that a disk is believed to hold.
    pub fn ids(&self, disk: DiskNumber) -> impl Iterator<Item = ArtifactId> {
        let disk = self.disks.get(&disk).into_iter();
        disk.flat_map(|disk| disk.ids().iter().copied())
    }

    /// Returns the digest and the number of the artifacts that a disk is believed to hold.
    pub fn believed(&self, holder: &Holder) -> Option<(SetDigest, u64)> {
        Some(self.disks.get(&self.number(holder)?)?.believed())
    }

    /// Changes a disk and keeps `unlisted`.
    fn change_disk<R>(
        &mut self,
        number: DiskNumber,
        change: impl FnOnce(&mut HeldDisk) -> R,
    ) -> Option<R> {
        let disk = self.disks.get_mut(&number)?;
        let result = change(disk);
        if disk.keeps_registry_incomplete() {
            self.unlisted.insert(number);
        } else {
            self.unlisted.remove(&number);
        }
        Some(result)
    }

    fn number(&self, holder: &Holder) -> Option<DiskNumber> {
        let worker = self.workers.get(&holder.lock)?;
        worker.disks.get(&holder.generation).copied()
    }

    fn worker(&mut self, lock: &MachinePortLock) -> &mut DiskWorker {
        let last = &mut self.last;
        self.workers.entry(lock.clone()).or_insert_with(|| {
            *last += 1;
            DiskWorker {
                number: WorkerNumber(*last),
                rack: None,
                disks: BTreeMap::new(),
            }
        })
    }

    /// Returns the number of a disk, and makes one if it is new.
    fn connect_disk(&mut self, lock: &MachinePortLock, generation: DiskGeneration) -> DiskNumber {
        let holder = Holder {
            lock: lock.clone(),
            generation,
        };
        if let Some(known) = self.number(&holder) {
            return known;
        }
        let disk = DiskNumber(self.draw());
        let worker = self.worker(lock);
        worker.disks.insert(generation, disk);
        let worker = worker.number;
        let place = CopyPlace { worker, disk };
        self.disks.insert(disk, HeldDisk::new(holder, place));
        disk
    }

    /// Removes the disks of a worker that satisfy `condition`.
    fn remove_disks(
        &mut self,
        lock: &MachinePortLock,
        condition: impl Fn(DiskGeneration) -> bool,
    ) -> Vec<GoneDisk> {
        let removed = self.of_worker(lock);
        let removed = removed.filter(|(generation, _)| condition(*generation));
        let removed: Vec<(DiskGeneration, DiskNumber)> = removed.collect();
        if let Some(worker) = self.workers.get_mut(lock) {
            for (generation, _) in &removed {
                worker.disks.remove(generation);
            }
        }
        let removed = removed.into_iter();
        removed
            .filter_map(|(_, number)| self.remove_disk(number))
            .collect()
    }

    fn remove_disk(&mut self, number: DiskNumber) -> Option<GoneDisk> {
        let disk = self.disks.remove(&number)?;
        self.unlisted.remove(&number);
        if let Some(open) = disk.open_listing() {
            self.open.remove(&open.number());
        }
        Some(GoneDisk {
            place: disk.place(),
            ids: disk.into_ids(),
        })
    }

    fn draw(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

#[cfg(test)]
impl Disks {
    /// Checks the invariants, and returns the numbers of all workers.
    pub fn check(&self) -> BTreeSet<WorkerNumber> {
        let disks = self
            .workers
            .values()
            .flat_map(|worker| worker.disks.values());
        assert!(
            disks
                .copied()
                .collect::<BTreeSet<_>>()
                .iter()
                .eq(self.disks.keys())
        );
        let open = self.disks.iter().filter_map(|(number, disk)| {
            let listing = disk.open_listing()?;
            Some((listing.number(), *number))
        });
        assert_eq!(self.open, open.collect::<BTreeMap<_, _>>());
        let unlisted = self.disks.iter();
        let unlisted = unlisted.filter(|(_, disk)| disk.keeps_registry_incomplete());
        assert!(self.unlisted.iter().eq(unlisted.map(|(number, _)| number)));
        self.workers.values().map(|worker| worker.number).collect()
    }
}
