//! Listings: the pages in which a worker lists the artifacts of one of its disks.
//!
//! A listing begins when the scheduler's core is about to request the first page. A fact about an artifact that arrives later is newer than any page
//! may be, so the listing does not touch that artifact. A fact that arrived earlier is contained in every page.

use std::collections::BTreeSet;
use std::ops::Bound;

use brasserie_common::ArtifactId;
pub use brasserie_common::artifact_report::ListingNumber;

/// Whether other pages follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageEnd {
    More,
    Last,
}

/// A page of a listing: all artifacts of the disk from `after` on, as far as the page reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListingPage {
    pub listing: ListingNumber,
    /// The position of the request: only greater ids are on the page. `None` on the first page.
    pub after: Option<ArtifactId>,
    /// Ascending ids.
    pub ids: Vec<ArtifactId>,
    pub end: PageEnd,
}

/// The consequence of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAnswer {
    /// The page is accepted, and the next one begins after this id.
    Next(ArtifactId),
    /// The page is accepted, and the listing is complete.
    Complete,
    /// The page is ignored: its listing is over, or it does not answer the request that is open.
    Ignored,
    /// The page is out of order, or neither has an id nor is the last. Its listing has failed.
    Malformed,
}

/// How far the listing of a disk is.
///
/// ```text
///            a digest differs            begin
///   Settled ------------------> Wanted -------> Open
///      ^                        |  ^             | |
///      +----- digests agree ----+  +--- fails ---+ |
///      +--------------- last page -----------------+
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListingStage {
    /// Nothing is wrong with what the registry believes.
    #[default]
    Settled,
    /// The last digest that the worker announced is not that of the believed artifacts.
    Wanted,
    /// Pages are expected.
    Open(OpenListing),
}

impl ListingStage {
    /// Notes that a fact about an artifact has arrived.
    pub fn learn(&mut self, id: ArtifactId) {
        match self {
            ListingStage::Settled | ListingStage::Wanted => {}
            ListingStage::Open(open) => {
                open.facts.insert(id);
            }
        }
    }
}

/// The progress of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenListing {
    number: ListingNumber,
    after: Option<ArtifactId>,
    /// The artifacts of which a fact arrived after the listing had begun.
    facts: BTreeSet<ArtifactId>,
}

impl OpenListing {
    pub fn new(number: ListingNumber) -> Self {
        OpenListing {
            number,
            after: None,
            facts: BTreeSet::new(),
        }
    }

    pub fn number(&self) -> ListingNumber {
        self.number
    }

    pub fn position(&self) -> Option<ArtifactId> {
        self.after
    }

    /// Compares a page with the believed artifacts and advances.
    pub fn apply(&mut self, page: &ListingPage, believed: &BTreeSet<ArtifactId>) -> PageChanges {
        let ascends = page.ids.is_sorted_by(|one, next| one < next);
        let begins_after = page.ids.first().is_none_or(|id| Some(*id) > page.after);
        let last = page.ids.last().copied();
        let (answer, upper) = match (page.end, last) {
            _ if page.after != self.after => return PageChanges::none(PageAnswer::Ignored),
            _ if !ascends || !begins_after => return PageChanges::none(PageAnswer::Malformed),
            (PageEnd::More, None) => return PageChanges::none(PageAnswer::Malformed),
            (PageEnd::More, Some(last)) => (PageAnswer::Next(last), Bound::Included(last)),
            (PageEnd::Last, _) => (PageAnswer::Complete, Bound::Unbounded),
        };
        let lower = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let is_open = |id: &ArtifactId| !self.facts.contains(id);
        let is_listed = |id: &ArtifactId| page.ids.binary_search(id).is_ok();
        let removed = believed.range((lower, upper)).copied();
        let removed = removed.filter(|id| is_open(id) && !is_listed(id)).collect();
        let added = page.ids.iter().copied();
        let added = added.filter(|id| is_open(id) && !believed.contains(id));
        let added = added.collect();
        self.after = last;
        PageChanges {
            answer,
            added,
            removed,
        }
    }
}

/// A page's answer, and the differences between the page and the believed artifacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageChanges {
    pub answer: PageAnswer,
    pub added: Vec<ArtifactId>,
    pub removed: Vec<ArtifactId>,
}

impl PageChanges {
    pub fn none(answer: PageAnswer) -> Self {
        PageChanges {
            answer,
            added: Vec::new(),
            removed: Vec::new(),
        }
    }
}
