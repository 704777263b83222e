//! The copies of artifacts: facts and listings that workers send, and the holders that follow.

use std::collections::BTreeSet;

use brasserie_common::rng::Rng;
use brasserie_common::{ArtifactId, DiskGeneration, MachinePortLock, SetDigest, Time};

use super::super::disks::{DiskAnnouncement, GoneDisk};
use super::super::listing::{ListingNumber, ListingPage, PageAnswer};
use super::super::types::{Holder, RackName, WorkerStay, WorkerTrust};
use super::Registry;

impl Registry {
    /// Accepts the disks of a heartbeat. The data of a disk that the worker does not announce any more is gone. A disk whose digest or count
    /// differs from the believed artifacts wants a listing.
    pub fn announce(&mut self, lock: &MachinePortLock, disks: &[DiskAnnouncement], now: Time) {
        let gone = self.disks.announce(lock, disks);
        self.remove_disks(gone, now);
    }

    /// Forgets a lost worker with its disks, its rack, and whether it leaves. If the worker returns with the same disks, it announces them
    /// and lists them again.
    pub fn lose(&mut self, lock: &MachinePortLock, now: Time) {
        if let Some((worker, gone)) = self.disks.remove_worker(lock) {
            self.remove_disks(gone, now);
            self.artifacts.forget_worker(worker);
        }
    }

    /// Notes that a worker has stored an artifact, perhaps again: it reports its outputs, or a copy that it has fetched. The caller records outputs after
    /// their copies. Ignores a worker that has never announced its disks, or is lost.
    pub fn stored(&mut self, holder: &Holder, id: ArtifactId, now: Time) {
        if let Some(place) = self.disks.store(holder, id) {
            self.artifacts.add_copy(id, place, now);
        } else if let Some(place) = self.disks.place(holder) {
            // A task has left the same content again. Its completion may be on its way.
            self.artifacts.renew_copy(id, place, now);
        }
    }

    /// Notes that a copy is gone: deleted, or found to be damaged.
    pub fn dropped(&mut self, holder: &Holder, id: ArtifactId, now: Time) {
        if let Some(place) = self.disks.discard(holder, id) {
            self.artifacts.remove_copy(id, place, now);
        }
    }

    /// Returns the disks of a worker that want a listing, in the order of their generations.
    pub fn listing_wanted(&self, lock: &MachinePortLock) -> impl Iterator<Item = DiskGeneration> {
        self.disks.wanted_listings(lock)
    }

    /// Begins the listing of a disk that wants one. The caller then requests the first page; the worker must make that page after the
    /// request.
    pub fn begin_listing(&mut self, holder: &Holder) -> Option<ListingNumber> {
        self.disks.begin_listing(holder)
    }

    /// Returns the id after which the next page of an open listing begins, for a repeated request: `Some(None)` before the first page,
    /// `None` if the listing is over.
    pub fn listing_position(&self, listing: ListingNumber) -> Option<Option<ArtifactId>> {
        self.disks.listing_position(listing)
    }

    /// Accepts a page of a listing, which replaces the believed artifacts of its range. Pages of other listings, repeated pages and pages
    /// out of turn have no effect.
    pub fn page(&mut self, page: &ListingPage, now: Time) -> PageAnswer {
        let (changes, place) = self.disks.apply_page(page);
        if let Some(place) = place {
            for id in changes.added {
                self.artifacts.add_copy(id, place, now);
            }
            for id in changes.removed {
                self.artifacts.remove_copy(id, place, now);
            }
        }
        changes.answer
    }

    /// Ends a listing whose worker does not answer. The disk wants another listing.
    pub fn listing_failed(&mut self, listing: ListingNumber) {
        self.disks.fail_listing(listing);
    }

    /// Returns the digest and the count of the artifacts that a disk is believed to hold.
    pub fn believed(&self, holder: &Holder) -> Option<(SetDigest, u64)> {
        self.disks.believed(holder)
    }

    /// Sets the rack of a worker until it is lost.
    pub fn set_rack(&mut self, lock: &MachinePortLock, rack: Option<RackName>) {
        self.disks.set_rack(lock, rack);
    }

    /// Returns the rack of a worker, if it is known.
    pub fn rack(&self, lock: &MachinePortLock) -> Option<&RackName> {
        self.disks.rack(lock)
    }

    /// Sets whether a worker remains, until it is lost. Costs as much as the worker has artifacts, if this changes.
    pub fn set_stay(&mut self, lock: &MachinePortLock, stay: WorkerStay) {
        let worker = self.disks.connect(lock);
        if self.artifacts.stay(worker) == stay {
            return;
        }
        let disks = self.disks.of_worker(lock);
        let ids: BTreeSet<ArtifactId> = disks.flat_map(|(_, disk)| self.disks.ids(disk)).collect();
        self.artifacts.set_stay(worker, stay, &ids);
    }

    /// Sets whether a worker is expected to keep its copies, until it is lost. Costs a lookup for each artifact of the worker, if this changes.
    pub fn set_trust(&mut self, lock: &MachinePortLock, trust: WorkerTrust) {
        let known = self.disks.worker_number(lock);
        let present = known.map_or(WorkerTrust::Trusted, |worker| self.artifacts.trust(worker));
        if present != trust {
            let worker = self.disks.connect(lock);
            let disks = self.disks.of_worker(lock);
            let ids = disks.flat_map(|(_, disk)| self.disks.ids(disk));
            self.artifacts.set_trust(worker, trust, ids);
        }
    }

    /// Returns the disks with a copy, the newest copy first.
    pub fn holders(&self, id: ArtifactId) -> impl Iterator<Item = &Holder> {
        let disks = self.artifacts.copies(id).rev();
        disks.filter_map(|disk| self.disks.holder(disk))
    }

    /// Returns a uniform choice of at most `most` holders, the newest copy first. The consumers of a hot artifact so spread over its
    /// holders, instead of all asking the same ones.
    pub fn some_holders(&self, id: ArtifactId, most: usize, rng: &mut Rng) -> Vec<&Holder> {
        let count = self.artifacts.count_copies(id);
        // Floyd's algorithm: one draw for each chosen holder, whatever the number of copies.
        let mut chosen = BTreeSet::new();
        for last in count.saturating_sub(most)..count {
            let drawn = rng.below(last + 1);
            if !chosen.insert(drawn) {
                chosen.insert(last);
            }
        }
        let holders = self.holders(id).enumerate();
        let chosen = holders.filter(|(position, _)| chosen.contains(position));
        chosen.map(|(_, holder)| holder).collect()
    }

    fn remove_disks(&mut self, gone: Vec<GoneDisk>, now: Time) {
        for disk in gone {
            for id in disk.ids {
                self.artifacts.remove_copy(id, disk.place, now);
            }
        }
    }
}
