//! One disk: the artifacts that it is believed to hold, and the listing that corrects this belief.

use std::collections::BTreeSet;

use brasserie_common::{ArtifactId, SetDigest};

use super::super::listing::{
    ListingNumber, ListingPage, ListingStage, OpenListing, PageAnswer, PageChanges,
};
use super::super::types::Holder;
use super::{CopyPlace, DiskAnnouncement};

/// The failures after which the first listing of a disk does not keep the registry incomplete any more. A worker that sends heartbeats and
/// fails five listings in a row has a defect, and must not hold up all others.
const MAX_HINDERING_FAILURES: u32 = 5;

#[derive(Clone, Debug)]
pub struct HeldDisk {
    holder: Holder,
    place: CopyPlace,
    ids: BTreeSet<ArtifactId>,
    /// The digest of `ids`.
    digest: SetDigest,
    listing: ListingStage,
    /// Listings that failed since the last complete one.
    failures: u32,
    /// Whether the registry has ever known all artifacts of the disk.
    was_known: bool,
}

impl HeldDisk {
    pub fn new(holder: Holder, place: CopyPlace) -> Self {
        HeldDisk {
            holder,
            place,
            ids: BTreeSet::new(),
            digest: SetDigest::EMPTY,
            listing: ListingStage::Settled,
            failures: 0,
            was_known: false,
        }
    }

    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    pub fn place(&self) -> CopyPlace {
        self.place
    }

    pub fn ids(&self) -> &BTreeSet<ArtifactId> {
        &self.ids
    }

    pub fn into_ids(self) -> BTreeSet<ArtifactId> {
        self.ids
    }

    /// Returns the digest and the number of the artifacts.
    pub fn believed(&self) -> (SetDigest, u64) {
        (self.digest, self.ids.len() as u64)
    }

    /// Accepts the fact that the disk has an artifact. Returns whether that was not believed.
    pub fn store(&mut self, id: ArtifactId) -> bool {
        self.listing.learn(id);
        self.insert(id)
    }

    /// Accepts the fact that the disk has an artifact no more. Returns whether it was believed to have it.
    pub fn discard(&mut self, id: ArtifactId) -> bool {
        self.listing.learn(id);
        self.remove(id)
    }

    /// Compares a heartbeat with the believed artifacts.
    pub fn compare(&mut self, announced: &DiskAnnouncement) {
        match self.listing {
            // The announcement may be older than the pages. The next one counts.
            ListingStage::Open(_) => {}
            ListingStage::Settled | ListingStage::Wanted => {
                if self.believed() == (announced.digest, announced.count) {
                    self.settle();
                } else {
                    self.listing = ListingStage::Wanted;
                }
            }
        }
    }

    pub fn wants_listing(&self) -> bool {
        self.listing == ListingStage::Wanted
    }

    pub fn begin_listing(&mut self, number: ListingNumber) {
        self.listing = ListingStage::Open(OpenListing::new(number));
    }

    pub fn open_listing(&self) -> Option<&OpenListing> {
        match &self.listing {
            ListingStage::Settled | ListingStage::Wanted => None,
            ListingStage::Open(open) => Some(open),
        }
    }

    /// Applies a page of the open listing.
    pub fn apply_page(&mut self, page: &ListingPage) -> PageChanges {
        let changes = match &mut self.listing {
            ListingStage::Settled | ListingStage::Wanted => PageChanges::none(PageAnswer::Ignored),
            ListingStage::Open(open) => open.apply(page, &self.ids),
        };
        for &id in &changes.added {
            self.insert(id);
        }
        for &id in &changes.removed {
            self.remove(id);
        }
        match changes.answer {
            PageAnswer::Next(_) | PageAnswer::Ignored => {}
            PageAnswer::Complete => self.settle(),
            PageAnswer::Malformed => self.fail_listing(),
        }
        changes
    }

    pub fn fail_listing(&mut self) {
        self.failures = self.failures.saturating_add(1);
        self.listing = ListingStage::Wanted;
    }

    /// Returns whether the disk was announced with unknown artifacts, and no listing has told them yet.
    pub fn keeps_registry_incomplete(&self) -> bool {
        match self.listing {
            ListingStage::Settled => false,
            ListingStage::Wanted | ListingStage::Open(_) => {
                !self.was_known && self.failures < MAX_HINDERING_FAILURES
            }
        }
    }

    /// Notes that all artifacts are known.
    fn settle(&mut self) {
        self.was_known = true;
        self.failures = 0;
        self.listing = ListingStage::Settled;
    }

    fn insert(&mut self, id: ArtifactId) -> bool {
        let is_new = self.ids.insert(id);
        if is_new {
            self.digest.include(id.0);
        }
        is_new
    }

    fn remove(&mut self, id: ArtifactId) -> bool {
        let was_held = self.ids.remove(&id);
        if was_held {
            self.digest.exclude(id.0);
        }
        was_held
    }
}
