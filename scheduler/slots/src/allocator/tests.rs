//! Tests of the coordinator: no space is granted twice between two heartbeats.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use proptest::prelude::*;

use super::super::amounts::Rack;
use super::super::disk::{DiskClass, DiskId, DiskState, WorkerDisk};
use super::super::drain::DrainState;
use super::super::offers::SlotPass;
use super::super::workers::{IneligibleReason, WorkloadLevel};
use super::*;

const A: HolderId = HolderId(1);
const B: HolderId = HolderId(2);

fn second(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn rng(seed: u64) -> Rng {
    Rng::new(seed, Purpose::Placement)
}

/// A report of disks with this many slots of 64 MiB.
fn report(slots: &[u64]) -> WorkerReport {
    let disk = |(id, &slots)| WorkerDisk {
        id: DiskId(id),
        class: DiskClass::Ssd,
        total: Bytes::from_gib(100),
        usable: Bytes::from_mib(64 * slots),
        flush_time: Duration::ZERO,
        fetch_time: Duration::ZERO,
        active_slots: 0,
        state: DiskState::Healthy,
    };
    WorkerReport {
        disks: (0..).zip(slots).map(disk).collect(),
        workload: WorkloadLevel::Normal,
        state: DrainState::Normal,
        notice: None,
    }
}

fn registration(slots: &[u64]) -> WorkerRegistration {
    WorkerRegistration {
        rack: Rack::default(),
        report: report(slots),
    }
}

fn allocator(workers: &[(HolderId, &[u64])]) -> Allocator {
    let mut all = Allocator::new(AllocatorSettings::default(), Time::ZERO);
    for &(holder, slots) in workers {
        all.register(holder, registration(slots));
    }
    all
}

fn request(count: u32, replication: Replication) -> GrantRequest {
    GrantRequest {
        ids: (0..count).map(ArtifactId).collect(),
        replication,
        except: ExceptWorkers::default(),
        most_workers: None,
        until: Time::NEVER,
    }
}

fn grant(all: &mut Allocator, count: u32, seconds: u64) -> Grant {
    let request = request(count, Replication::None);
    all.request_slots(&request, second(seconds), &mut rng(seconds))
        .unwrap()
}

/// Returns the number of artifacts of a grant that have space on a disk.
fn with_space(grant: &Grant) -> usize {
    let locations = grant.offer.locations.iter();
    locations
        .filter(|one| one.pass == SlotPass::WithinBudgets)
        .count()
}

#[test]
fn a_grant_takes_its_slots_until_the_heartbeat_that_contains_them() {
    let mut all = allocator(&[(A, &[10]), (B, &[10])]);
    assert_eq!(with_space(&grant(&mut all, 12, 1)), 12);
    assert_eq!(with_space(&grant(&mut all, 12, 2)), 8);
    assert_eq!(with_space(&grant(&mut all, 12, 3)), 0);
    // The heartbeat left before the second grant.
    all.heartbeat(A, report(&[4]), second(1)).unwrap();
    let reserved = all.reservations().reserved(A, DiskId(0));
    assert_eq!(reserved, Bytes::from_mib(64 * 12), "of the grants 2 and 3");
    all.heartbeat(A, report(&[4]), second(3)).unwrap();
    assert_eq!(with_space(&grant(&mut all, 12, 4)), 4);
}

#[test]
fn a_released_grant_gives_its_slots_back() {
    let mut all = allocator(&[(A, &[10])]);
    let first = grant(&mut all, 10, 1);
    assert_eq!(with_space(&grant(&mut all, 1, 2)), 0);
    all.release(first.reservation);
    assert_eq!(with_space(&grant(&mut all, 12, 3)), 9);
}

#[test]
fn a_registration_and_a_loss_end_reservations() {
    let mut all = allocator(&[(A, &[10])]);
    grant(&mut all, 10, 1);
    assert_eq!(all.register(A, registration(&[10])), Registered::Again);
    assert_eq!(with_space(&grant(&mut all, 10, 2)), 10);
    all.lose(A, second(3));
    assert_eq!(all.reservations().reserved(A, DiskId(0)), Bytes::ZERO);
    let nobody = all.request_slots(&request(1, Replication::None), second(4), &mut rng(4));
    assert_eq!(nobody, Err(NoOffer::NoWorker));
    all.advance(second(1804));
    let reasons: Vec<IneligibleReason> = all.workers().reasons(A).collect();
    assert_eq!(reasons, [IneligibleReason::NotRegistered]);
}

#[test]
fn operators_and_requesters_keep_workers_out() {
    let mut all = allocator(&[(A, &[10]), (B, &[10])]);
    let two = request(1, Replication::OtherWorker);
    let ask = |all: &mut Allocator, request: &GrantRequest| {
        let grant = all.request_slots(request, second(1), &mut rng(1));
        grant.map(|grant| grant.offer.workers.len())
    };
    assert_eq!(ask(&mut all, &two), Ok(2));
    let except = GrantRequest {
        except: ExceptWorkers {
            holders: BTreeSet::from([B]),
            ..ExceptWorkers::default()
        },
        ..two.clone()
    };
    assert_eq!(ask(&mut all, &except), Err(NoOffer::OneWorker));
    let except = GrantRequest {
        except: ExceptWorkers {
            racks: BTreeSet::from([Rack::default()]),
            ..ExceptWorkers::default()
        },
        ..two.clone()
    };
    assert_eq!(ask(&mut all, &except), Err(NoOffer::NoWorker));
    all.exclude(A);
    assert_eq!(ask(&mut all, &two), Err(NoOffer::OneWorker));
    all.readmit(A);
    assert_eq!(ask(&mut all, &two), Ok(2));
    let draining = WorkerReport {
        state: DrainState::Decommissioning,
        ..report(&[10])
    };
    all.heartbeat(A, draining, second(1)).unwrap();
    assert_eq!(ask(&mut all, &two), Err(NoOffer::OneWorker));
}

#[test]
fn artifacts_of_known_size_get_only_space_that_is_there() {
    let mut all = allocator(&[(A, &[2]), (B, &[1])]);
    let granted = |all: &mut Allocator, mib, now| {
        let request = CopyRequest {
            ids: (0..5).map(ArtifactId).collect(),
            size: Bytes::from_mib(mib),
            except: ExceptWorkers::default(),
        };
        let copies = all.request_copies(&request, second(now), |_, _| second(61), &mut rng(1));
        copies.map(|copies| copies.len())
    };
    assert_eq!(granted(&mut all, 65, 1), Ok(1), "only disk A has 65 MiB");
    let largest = [A, B].map(|holder| all.largest_space(holder));
    assert_eq!(largest, [63, 64].map(Bytes::from_mib));
    assert_eq!(granted(&mut all, 65, 2), Err(NoOffer::NoSpace));
    // 63 MiB of A are left, and 64 of B.
    assert_eq!(granted(&mut all, 30, 2), Ok(4));
    all.advance(second(60));
    assert_eq!(granted(&mut all, 65, 60), Err(NoOffer::NoSpace));
    all.advance(second(61));
    assert_eq!(all.reservations().count(), 0, "the grants have ended");
    let copy = CopyRequest {
        ids: vec![ArtifactId(0), ArtifactId(1)],
        size: Bytes::from_mib(50),
        except: ExceptWorkers::default(),
    };
    let until = |id: ArtifactId, _| second(70 + u64::from(id.0));
    let copies = all.request_copies(&copy, second(61), until, &mut rng(1));
    let copies = copies.unwrap();
    let untils: Vec<Time> = copies.iter().map(|copy| copy.until).collect();
    assert_eq!(untils, [second(70), second(71)]);
    all.release(copies[0].reservation);
    let place = copies[0].place;
    let others = copies[1..].iter().filter(|one| one.place == place).count() as u64;
    let reserved = all.reservations().reserved(place.holder, place.disk);
    assert_eq!(
        reserved,
        Bytes::from_mib(50 * others),
        "only one copy is released"
    );
    all.exclude(A);
    assert_eq!(all.largest_space(A), Bytes::ZERO);
    all.advance(second(71));
    assert_eq!(all.reservations().count(), 0);
}

#[test]
fn a_grant_names_spare_workers() {
    let mut all = allocator(&[(A, &[10]), (B, &[10])]);
    let one = GrantRequest {
        most_workers: Some(1),
        ..request(3, Replication::None)
    };
    let found = all.request_slots(&one, second(1), &mut rng(1)).unwrap();
    let used: Vec<HolderId> = found.offer.workers.keys().copied().collect();
    let mut both = [used, found.spares].concat();
    both.sort_unstable();
    assert_eq!(both, [A, B]);
}

#[test]
fn the_estimate_changes_the_slots() {
    let mut all = allocator(&[(A, &[16])]);
    assert_eq!(with_space(&grant(&mut all, 20, 1)), 16);
    all.heartbeat(A, report(&[16]), second(1)).unwrap();
    all.record_output(Bytes::from_mib(256));
    assert_eq!(all.advance(second(300)), Some(Bytes::from_mib(256)));
    assert_eq!(all.estimated_size(), Bytes::from_mib(256));
    assert_eq!(with_space(&grant(&mut all, 20, 301)), 4);
}

#[derive(Clone, Debug)]
enum Step {
    Grant(u32, Replication),
    Release(u64),
    /// The worker, and its slots now. It answered a call this many steps ago.
    Beat(u32, Vec<u64>, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let replication = proptest::sample::select(
        &[
            Replication::None,
            Replication::OtherWorker,
            Replication::OtherRack,
        ][..],
    );
    prop_oneof![
        3 => (0..12_u32, replication).prop_map(|(count, replication)| Step::Grant(count, replication)),
        1 => (0..20_u64).prop_map(Step::Release),
        2 => (0..4_u32, proptest::collection::vec(0..12_u64, 2), 0..5_u64)
            .prop_map(|(holder, slots, ago)| Step::Beat(holder, slots, ago)),
    ]
}

/// Slots that were granted within budgets: the step, the worker and the disk.
type Granted = Vec<(u64, HolderId, DiskId)>;

integration_tests_properties::properties! {
    200;

    /// The grants that a worker has not reported need no more space than it reported last.
    #[test]
    fn no_space_is_granted_twice(
        steps in proptest::collection::vec(step(), 0..40), seed in any::<u64>(),
    ) {
        let mut all = allocator(&[]);
        let mut rng = rng(seed);
        let mut reported: BTreeMap<HolderId, Vec<u64>> = BTreeMap::new();
        let mut grants: BTreeMap<ReservationId, Granted> = BTreeMap::new();
        for number in 0..4 {
            all.register(HolderId(number), registration(&[5, 3]));
            reported.insert(HolderId(number), vec![5, 3]);
        }
        for (now, step) in (1..).zip(steps) {
            match step {
                Step::Grant(count, replication) => {
                    let request = request(count, replication);
                    let grant = all.request_slots(&request, second(now), &mut rng).unwrap();
                    let within = grant.offer.locations.iter();
                    let within = within.filter(|one| one.pass == SlotPass::WithinBudgets);
                    let places = within.flat_map(|one| [Some(one.primary), one.replica]);
                    let places = places.flatten().map(|place| (now, place.holder, place.disk));
                    let places: Granted = places.collect();
                    for &(_, holder, disk) in &places {
                        let open = grants.values().flatten().chain(&places);
                        let open = open.filter(|one| (one.1, one.2) == (holder, disk)).count();
                        prop_assert!(open as u64 <= reported[&holder][disk.0 as usize]);
                    }
                    grants.insert(grant.reservation, places);
                }
                Step::Release(id) => {
                    all.release(ReservationId(id));
                    grants.remove(&ReservationId(id));
                }
                Step::Beat(holder, slots, ago) => {
                    let (holder, included) = (HolderId(holder), now.saturating_sub(ago));
                    all.heartbeat(holder, report(&slots), second(included)).unwrap();
                    reported.insert(holder, slots);
                    for grant in grants.values_mut() {
                        grant.retain(|one| one.1 != holder || one.0 > included);
                    }
                }
            }
        }
    }
}
