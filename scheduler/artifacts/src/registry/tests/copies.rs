//! Tests of holders, replicas, workers that leave, and the deletion of unwanted copies.

use std::collections::BTreeMap;

use super::super::super::types::{ArtifactAmount, RackName, WorkerStay, WorkerTrust};
use super::*;

fn holder_workers(registry: &Registry, number: u8) -> Vec<MachinePortLock> {
    let holders = registry.holders(id(number));
    holders.map(|holder| holder.lock.clone()).collect()
}

fn missing(registry: &Registry) -> Vec<(u8, usize)> {
    let missing = registry.missing_replicas(None);
    missing
        .map(|missing| (missing.id.0[0], missing.replicas))
        .collect()
}

#[test]
fn holders_are_listed_newest_first() {
    let mut registry = registry(3);
    for worker in [1, 0, 2] {
        registry.stored(&holder(worker, 0), id(1), second(1));
    }
    registry.stored(&holder(1, 0), id(1), second(2));
    assert_eq!(holder_workers(&registry, 1), [2, 0, 1].map(lock));
    registry.dropped(&holder(0, 0), id(1), second(3));
    registry.dropped(&holder(0, 0), id(1), second(3));
    assert_eq!(holder_workers(&registry, 1), [2, 1].map(lock));
    registry.lose(&lock(2), second(4));
    assert_eq!(holder_workers(&registry, 1), [1].map(lock));
}

#[test]
fn a_choice_of_holders_is_uniform_and_keeps_their_order() {
    let mut registry = registry(10);
    for worker in 0..10 {
        registry.stored(&holder(worker, 0), id(1), second(1));
    }
    let mut rng = Rng::new(1, Purpose::PeerOrder);
    let mut counts: BTreeMap<Holder, u32> = BTreeMap::new();
    for _ in 0..3000 {
        let chosen = registry.some_holders(id(1), 3, &mut rng);
        let chosen: Vec<Holder> = chosen.into_iter().cloned().collect();
        assert_eq!(chosen.len(), 3);
        assert!(chosen.is_sorted_by(|newer, older| newer > older));
        for holder in chosen {
            *counts.entry(holder).or_default() += 1;
        }
    }
    let expected = 900;
    assert!(
        counts.values().all(|count| count.abs_diff(expected) < 150),
        "{counts:?}"
    );
    assert_eq!(registry.some_holders(id(1), 20, &mut rng).len(), 10);
    assert_eq!(registry.some_holders(id(1), 0, &mut rng).len(), 0);
    assert_eq!(registry.some_holders(id(2), 3, &mut rng).len(), 0);
}

#[test]
fn a_disk_that_is_not_announced_is_gone() {
    let mut registry = registry(0);
    registry.announce(
        &lock(0),
        &[announcement(0, []), announcement(1, [])],
        second(1),
    );
    registry.stored(&holder(0, 0), id(1), second(1));
    registry.stored(&holder(0, 1), id(1), second(1));
    registry.announce(&lock(0), &[announcement(1, [id(1)])], second(2));
    assert_eq!(registry.holders(id(1)).count(), 1);
    assert_eq!(registry.believed(&holder(0, 0)), None);
    // The new generation of a disk that lost its data is another disk.
    registry.announce(&lock(0), &[announcement(2, [])], second(3));
    assert_eq!(registry.holders(id(1)).count(), 0);
}

#[test]
fn a_lost_worker_tells_no_facts_until_it_returns() {
    let mut registry = registry(1);
    registry.lose(&lock(0), second(1));
    registry.stored(&holder(0, 0), id(1), second(2));
    registry.stored(&holder(7, 0), id(1), second(2));
    assert_eq!(registry.holders(id(1)).count(), 0);
    registry.announce(&lock(0), &[announcement(0, [id(1)])], second(3));
    assert!(registry.listing_wanted(&lock(0)).eq([generation(0)]));
}

#[test]
fn replicas_are_counted_by_worker() {
    let mut registry = registry(3);
    let two = Replicas::new(2);
    make_replicated(&mut registry, "a/1", &[("x", 1)], 0, two, 1);
    assert_eq!(missing(&registry), [(1, 1)]);
    // A second disk of the same worker is no replica.
    registry.stored(&holder(0, 1), id(1), second(2));
    assert_eq!(missing(&registry), [(1, 1)]);
    assert!(!registry.has_replicas(&key("a", "1")));
    registry.stored(&holder(1, 0), id(1), second(2));
    assert_eq!(missing(&registry), []);
    assert!(registry.has_replicas(&key("a", "1")));
    // Another task wants more copies of the same content.
    make_replicated(&mut registry, "b/1", &[("x", 1)], 0, Replicas::new(4), 3);
    assert_eq!(missing(&registry), [(1, 2)]);
    assert!(registry.has_replicas(&key("a", "1")));
    assert_eq!(registry.missing_replicas(Some(id(1))).count(), 0);
    registry.forget(&key("b", "1"), second(4));
    assert_eq!(missing(&registry), []);
    assert!(!registry.has_replicas(&key("b", "1")));
}

#[test]
fn racks_are_known_until_the_worker_is_lost() {
    let mut registry = registry(1);
    let rack = RackName("r1".into());
    registry.set_rack(&lock(0), Some(rack.clone()));
    assert_eq!(registry.rack(&lock(0)), Some(&rack));
    registry.lose(&lock(0), second(1));
    assert_eq!(registry.rack(&lock(0)), None);
}

#[test]
fn a_worker_may_leave_when_no_artifact_would_be_lost_with_it() {
    let mut registry = registry(3);
    make(&mut registry, "a/1", &[("x", 1), ("y", 2)], 0, 1);
    registry.stored(&holder(1, 0), id(2), second(2));
    let amount = |artifacts, bytes| ArtifactAmount { artifacts, bytes };
    registry.set_stay(&lock(0), WorkerStay::Leaving);
    assert_eq!(registry.only_at(&lock(0)), amount(1, size(1)));
    assert_eq!(missing(&registry), [(1, 1)]);
    // Both workers with the second artifact leave: either would take the last copy along.
    registry.set_stay(&lock(1), WorkerStay::Leaving);
    assert_eq!(registry.only_at(&lock(0)), amount(2, size(1) + size(2)));
    assert_eq!(registry.only_at(&lock(1)), amount(1, size(2)));
    assert_eq!(missing(&registry), [(1, 1), (2, 1)]);
    // Copies at a worker that leaves may be fetched.
    assert_eq!(registry.holders(id(2)).count(), 2);
    registry.stored(&holder(2, 0), id(1), second(3));
    registry.stored(&holder(2, 0), id(2), second(3));
    assert_eq!(registry.only_at(&lock(0)), amount(0, 0));
    assert_eq!(missing(&registry), []);
    // A worker that is lost and returns remains, until it says otherwise.
    registry.lose(&lock(0), second(4));
    registry.announce(&lock(0), &[announcement(0, [])], second(5));
    registry.stored(&holder(0, 0), id(1), second(5));
    registry.lose(&lock(2), second(5));
    assert_eq!(missing(&registry), [(2, 1)]);
}

#[test]
fn unwanted_copies_are_named_after_the_grace_until_they_are_gone() {
    let mut registry = registry(2);
    // The completion of a run that has stored an output is on its way.
    registry.stored(&holder(0, 0), id(1), second(10));
    registry.stored(&holder(0, 0), id(2), second(20));
    registry.stored(&holder(1, 0), id(1), second(50));
    assert_eq!(unwanted(&registry, 0, 9 + GRACE), [0_u8; 0]);
    assert_eq!(unwanted(&registry, 0, 20 + GRACE), [1, 2]);
    assert_eq!(
        registry.unwanted(&lock(0), (second(20 + GRACE), second(99)), 1),
        [(generation(0), id(1))]
    );
    assert_eq!(
        registry.unwanted(&lock(0), (second(20 + GRACE), second(99)), 0),
        []
    );
    // A copy that was fetched later has its own grace.
    assert_eq!(unwanted(&registry, 1, 49 + GRACE), [0_u8; 0]);
    assert_eq!(unwanted(&registry, 1, 50 + GRACE), [1]);
    registry.dropped(&holder(0, 0), id(1), second(100));
    assert_eq!(unwanted(&registry, 0, 100), [2]);
    make(&mut registry, "a/1", &[("x", 2)], 0, 101);
    assert_eq!(unwanted(&registry, 0, 1000), [0_u8; 0]);
}

#[test]
fn nothing_is_deleted_or_lost_while_copies_may_be_unknown() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 1, 1);
    registry.stored(&holder(0, 0), id(2), second(1));
    assert_eq!(
        (lost(&registry), unwanted(&registry, 0, 100)),
        (vec![1], vec![2])
    );
    registry.announce(&lock(1), &[announcement(0, [id(1)])], second(2));
    assert_eq!(registry.completeness(), Completeness::Incomplete);
    assert_eq!(
        (lost(&registry), unwanted(&registry, 0, 100)),
        (vec![], vec![])
    );
    registry.lose(&lock(1), second(3));
    assert_eq!(
        (lost(&registry), unwanted(&registry, 0, 100)),
        (vec![1], vec![2])
    );
    registry.set_completeness(Completeness::Incomplete, second(4));
    assert_eq!(
        (lost(&registry), unwanted(&registry, 0, 100)),
        (vec![], vec![])
    );
    registry.set_completeness(Completeness::Complete, second(100));
    assert_eq!(
        (lost(&registry), unwanted(&registry, 0, 99 + GRACE)),
        (vec![1], vec![])
    );
    assert_eq!(unwanted(&registry, 0, 100 + GRACE), [2]);
}

#[test]
fn no_worker_leaves_an_artifact_to_doubtful_workers_alone() {
    let mut registry = registry(3);
    make_replicated(&mut registry, "a/1", &[("x", 1)], 0, Replicas::new(2), 1);
    registry.stored(&holder(1, 0), id(1), second(2));
    let amount = |artifacts, bytes| ArtifactAmount { artifacts, bytes };
    let only = |registry: &Registry| [0, 1].map(|worker| registry.only_at(&lock(worker)).artifacts);
    registry.set_trust(&lock(1), WorkerTrust::Doubtful);
    assert_eq!((only(&registry), missing(&registry)), ([0, 0], vec![]));
    registry.set_stay(&lock(0), WorkerStay::Leaving);
    assert_eq!(registry.only_at(&lock(0)), amount(1, size(1)));
    assert_eq!(missing(&registry), [(1, 1)]);
    // The worker may be healthy again.
    registry.set_trust(&lock(1), WorkerTrust::Trusted);
    assert_eq!(only(&registry), [0, 1]);
    registry.set_trust(&lock(1), WorkerTrust::Doubtful);
    assert_eq!(only(&registry), [1, 1]);
    // Otherwise a copy at a third one is enough.
    registry.stored(&holder(2, 0), id(1), second(3));
    assert_eq!((only(&registry), missing(&registry)), ([0, 0], vec![]));
}
