//! Tests of listings: late, lost, repeated, reordered and malformed pages, and facts that arrive meanwhile.

use super::super::super::listing::{ListingNumber, ListingPage, PageAnswer, PageEnd};
use super::*;

fn page(listing: ListingNumber, after: Option<u8>, ids: &[u8], end: PageEnd) -> ListingPage {
    ListingPage {
        listing,
        after: after.map(id),
        ids: ids.iter().map(|number| id(*number)).collect(),
        end,
    }
}

/// Returns a registry that believes in these artifacts of one disk, and the listing of the disk that has begun.
fn listing_of(believed: &[u8]) -> (Registry, ListingNumber) {
    let mut registry = registry(1);
    for number in believed {
        registry.stored(&holder(0, 0), id(*number), second(1));
    }
    let other = announcement(0, [id(200)]);
    registry.announce(&lock(0), &[other], second(2));
    assert!(registry.listing_wanted(&lock(0)).eq([generation(0)]));
    let listing = registry.begin_listing(&holder(0, 0)).expect("wanted");
    (registry, listing)
}

fn believes(registry: &Registry, numbers: &[u8]) -> bool {
    let expected = announcement(0, numbers.iter().map(|number| id(*number)));
    let is_held = |number| registry.holders(id(number)).next().is_some();
    registry.believed(&holder(0, 0)) == Some((expected.digest, expected.count))
        && (0..=255).all(|number| is_held(number) == numbers.contains(&number))
}

#[test]
fn each_page_replaces_its_range() {
    let (mut registry, listing) = listing_of(&[1, 3, 5, 7, 9]);
    let first = page(listing, None, &[2, 3, 4], PageEnd::More);
    assert_eq!(registry.page(&first, second(3)), PageAnswer::Next(id(4)));
    assert!(believes(&registry, &[2, 3, 4, 5, 7, 9]));
    assert_eq!(registry.listing_position(listing), Some(Some(id(4))));
    let last = page(listing, Some(4), &[7], PageEnd::Last);
    assert_eq!(registry.page(&last, second(3)), PageAnswer::Complete);
    assert!(believes(&registry, &[2, 3, 4, 7]));
    assert_eq!(registry.listing_position(listing), None);
    assert_eq!(registry.listing_wanted(&lock(0)).count(), 0);
}

#[test]
fn an_empty_last_page_ends_a_listing() {
    let (mut registry, listing) = listing_of(&[1]);
    let only = page(listing, None, &[], PageEnd::Last);
    assert_eq!(registry.page(&only, second(3)), PageAnswer::Complete);
    assert!(believes(&registry, &[]));
}

#[test]
fn repeated_reordered_and_old_pages_are_ignored() {
    let (mut registry, listing) = listing_of(&[1, 2, 3]);
    let first = page(listing, None, &[1], PageEnd::More);
    let last = page(listing, Some(1), &[3], PageEnd::Last);
    assert_eq!(registry.page(&last, second(3)), PageAnswer::Ignored);
    assert_eq!(registry.page(&first, second(3)), PageAnswer::Next(id(1)));
    assert_eq!(registry.page(&first, second(3)), PageAnswer::Ignored);
    registry.listing_failed(listing);
    registry.listing_failed(listing);
    assert_eq!(registry.page(&last, second(4)), PageAnswer::Ignored);
    let again = registry.begin_listing(&holder(0, 0)).expect("wanted again");
    assert_ne!(again, listing);
    assert_eq!(registry.begin_listing(&holder(0, 0)), None);
    assert_eq!(registry.page(&first, second(4)), PageAnswer::Ignored);
    assert!(believes(&registry, &[1, 2, 3]));
}

#[test]
fn a_malformed_page_fails_its_listing() {
    for (after, ids, end) in [
        (None, vec![3, 2], PageEnd::Last),
        (None, vec![2, 2], PageEnd::Last),
        (None, vec![], PageEnd::More),
        (Some(4), vec![4], PageEnd::Last),
        (Some(4), vec![3, 5], PageEnd::Last),
    ] {
        let (mut registry, listing) = listing_of(&[1, 4]);
        if after.is_some() {
            registry.page(&page(listing, None, &[1, 4], PageEnd::More), second(3));
        }
        let malformed = page(listing, after, &ids, end);
        assert_eq!(registry.page(&malformed, second(4)), PageAnswer::Malformed);
        assert!(believes(&registry, &[1, 4]), "{malformed:?}");
        assert!(registry.listing_wanted(&lock(0)).eq([generation(0)]));
        assert_eq!(registry.listing_position(listing), None);
    }
}

#[test]
fn a_fact_during_a_listing_is_newer_than_its_pages() {
    let (mut registry, listing) = listing_of(&[1, 2]);
    registry.stored(&holder(0, 0), id(3), second(3));
    registry.stored(&holder(0, 0), id(2), second(3));
    registry.dropped(&holder(0, 0), id(1), second(3));
    registry.dropped(&holder(0, 0), id(4), second(3));
    let only = page(listing, None, &[1, 4, 5], PageEnd::Last);
    assert_eq!(registry.page(&only, second(4)), PageAnswer::Complete);
    assert!(believes(&registry, &[2, 3, 5]));
}

#[test]
fn an_announcement_changes_no_open_listing() {
    let (mut registry, listing) = listing_of(&[1]);
    registry.announce(&lock(0), &[announcement(0, [id(1)])], second(3));
    registry.announce(&lock(0), &[announcement(0, [])], second(3));
    assert_eq!(registry.listing_position(listing), Some(None));
    // A disk that is gone takes its listing along.
    registry.announce(&lock(0), &[announcement(1, [])], second(4));
    assert_eq!(registry.listing_position(listing), None);
    let late = page(listing, None, &[1], PageEnd::Last);
    assert_eq!(registry.page(&late, second(5)), PageAnswer::Ignored);
    assert_eq!(registry.holders(id(1)).count(), 0);
}

#[test]
fn a_wanted_listing_is_dropped_when_the_digests_agree() {
    let mut registry = registry(1);
    // The heartbeat is quicker than the notice.
    registry.announce(&lock(0), &[announcement(0, [id(1)])], second(1));
    registry.stored(&holder(0, 0), id(1), second(2));
    registry.announce(&lock(0), &[announcement(0, [id(1)])], second(3));
    assert_eq!(registry.listing_wanted(&lock(0)).count(), 0);
    // The count alone tells sets with the same digest apart.
    let mut other = announcement(0, [id(1)]);
    other.count += 1;
    registry.announce(&lock(0), &[other], second(4));
    assert_eq!(registry.listing_wanted(&lock(0)).count(), 1);
}

#[test]
fn only_the_first_listing_of_a_disk_keeps_the_registry_incomplete() {
    let mut registry = registry(1);
    let announced = |number| [announcement(0, [id(number)])];
    registry.announce(&lock(0), &announced(1), second(1));
    assert_eq!(registry.completeness(), Completeness::Complete);
    registry.announce(&lock(1), &announced(1), second(1));
    assert_eq!(registry.completeness(), Completeness::Incomplete);
    let listing = registry.begin_listing(&holder(1, 0)).expect("wanted");
    let only = page(listing, None, &[1], PageEnd::Last);
    assert_eq!(registry.page(&only, second(2)), PageAnswer::Complete);
    assert_eq!(registry.completeness(), Completeness::Complete);
    registry.announce(&lock(1), &announced(2), second(3));
    assert_eq!(registry.completeness(), Completeness::Complete);
}

#[test]
fn a_disk_whose_listings_fail_does_not_keep_the_registry_incomplete_for_ever() {
    let mut registry = registry(0);
    registry.announce(&lock(0), &[announcement(0, [id(1)])], second(1));
    for count in 0..5 {
        assert_eq!(registry.completeness(), Completeness::Incomplete);
        let listing = registry.begin_listing(&holder(0, 0)).expect("wanted");
        if count % 2 == 0 {
            registry.listing_failed(listing);
        } else {
            let malformed = page(listing, None, &[], PageEnd::More);
            registry.page(&malformed, second(1));
        }
        registry.announce(&lock(0), &[announcement(0, [id(1)])], second(1));
    }
    assert_eq!(registry.completeness(), Completeness::Complete);
    assert!(registry.listing_wanted(&lock(0)).eq([generation(0)]));
}
