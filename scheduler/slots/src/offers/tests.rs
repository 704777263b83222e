//! Tests of offers: the vectors of both strategies, the laws, and a slow reference.

mod reference;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use proptest::prelude::*;

use super::super::amounts::{Bytes, Weight};
use super::super::disk::{DiskClass, DiskState};
use super::super::settings::{Compatibility, GradientMode, IntraGroup, LoadAware, SlotStrategy};
use super::*;

fn rng(seed: u64) -> Rng {
    Rng::new(seed, Purpose::Placement)
}

/// A healthy disk with this many slots of 1 MiB, and a fetch time in microseconds.
fn disk(id: u64, slots: u64, fetch: u64) -> CandidateDisk {
    let disk = WorkerDisk {
        id: DiskId(id),
        class: DiskClass::Ssd,
        total: Bytes::from_gib(100),
        usable: Bytes::from_mib(slots),
        flush_time: Duration::ZERO,
        fetch_time: Duration::from_micros(fetch),
        active_slots: 0,
        state: DiskState::Healthy,
    };
    CandidateDisk {
        disk,
        available: slots,
    }
}

fn failed(mut disk: CandidateDisk) -> CandidateDisk {
    disk.disk.state = DiskState::IoHang;
    disk
}

fn worker(number: u32, rack: &str, disks: Vec<CandidateDisk>) -> SlotCandidate {
    SlotCandidate {
        holder: HolderId(number),
        rack: Rack::new(rack),
        notice: None,
        disks,
    }
}

/// Workers in racks `a`, `b` and so on, with equal disks.
fn workers(racks: &[&str], disks: u64, slots: u64) -> Vec<SlotCandidate> {
    let numbered = (0..).zip(racks);
    numbered
        .map(|(number, rack)| {
            let first = u64::from(number) * 100;
            let disks = (first..first + disks).map(|id| disk(id, slots, 0));
            worker(number, rack, disks.collect())
        })
        .collect()
}

fn ids(count: u32) -> Vec<ArtifactId> {
    (0..count).map(ArtifactId).collect()
}

fn offer(
    candidates: &[SlotCandidate],
    count: u32,
    replication: Replication,
    settings: &SlotSettings,
) -> SlotOffer {
    let ids = ids(count);
    let request = SlotRequest {
        ids: &ids,
        replication,
    };
    let offer = offer_slots(candidates, request, settings, &mut rng(11));
    let offer = offer.expect("there are workers with disks");
    check_laws(candidates, request, settings, &offer).expect("the offer keeps the laws");
    offer
}

/// Slots by disk.
fn by_disk(offer: &SlotOffer) -> Vec<u64> {
    offer.disks().map(|(_, _, slots)| slots).collect()
}

fn load_aware(groups: usize, gradient: f64) -> LoadAware {
    LoadAware {
        disk_groups: NonZeroUsize::new(groups).unwrap(),
        gradient: Weight::new(gradient).unwrap(),
        ..LoadAware::default()
    }
}

fn with(load_aware: LoadAware) -> SlotSettings {
    SlotSettings {
        strategy: SlotStrategy::LoadAware(load_aware),
        ..SlotSettings::default()
    }
}

/// Checks the laws of an offer that is not Celeborn's.
fn check_laws(
    candidates: &[SlotCandidate],
    request: SlotRequest<'_>,
    settings: &SlotSettings,
    offer: &SlotOffer,
) -> Result<(), TestCaseError> {
    let worker = |holder: HolderId| candidates.iter().find(|one| one.holder == holder).unwrap();
    let disk = |place: DiskPlace| {
        let mut disks = worker(place.holder).disks.iter();
        disks.find(|one| one.disk.id == place.disk).unwrap()
    };
    let placed: Vec<ArtifactId> = offer.locations.iter().map(|one| one.id).collect();
    prop_assert_eq!(&placed, request.ids);
    let mut within: BTreeMap<DiskPlace, u64> = BTreeMap::new();
    for location in &offer.locations {
        prop_assert_eq!(
            location.replica.is_some(),
            request.replication != Replication::None
        );
        let places: Vec<DiskPlace> = [location.primary]
            .into_iter()
            .chain(location.replica)
            .collect();
        if let Some(replica) = location.replica {
            prop_assert_ne!(location.primary.holder, replica.holder);
            if request.replication == Replication::OtherRack && location.pass.respects_racks() {
                let racks = [location.primary, replica].map(|place| &worker(place.holder).rack);
                prop_assert_ne!(racks[0], racks[1]);
            }
        }
        for place in places {
            let any_state = [SlotPass::AnyDisk, SlotPass::AnyDiskAnyRack];
            prop_assert!(disk(place).disk.is_healthy() || any_state.contains(&location.pass));
            if location.pass == SlotPass::WithinBudgets {
                *within.entry(place).or_default() += 1;
                let warned = worker(place.holder).notice.is_some();
                prop_assert!(!(warned && settings.late_interruptions.is_some()));
            }
        }
    }
    for (place, slots) in within {
        prop_assert!(slots <= disk(place).available, "{:?}", place);
    }
    let counted: u64 = by_disk(offer).iter().sum();
    let copies = request.replication.copies();
    prop_assert_eq!(counted as usize, request.ids.len() * copies);
    Ok(())
}

#[test]
fn equal_disks_get_equal_slots() {
    let candidates = workers(&["a", "a", "b", "b"], 3, 1000);
    let none = offer(
        &candidates,
        1200,
        Replication::None,
        &SlotSettings::default(),
    );
    assert_eq!(by_disk(&none), [100; 12]);
    for replication in [Replication::OtherWorker, Replication::OtherRack] {
        let settings = SlotSettings::default();
        let replicated = offer(&candidates, 600, replication, &settings);
        assert_eq!(by_disk(&replicated), [100; 12], "{replication:?}");
    }
}

#[test]
fn exhausted_disks_and_workers_leave_the_turns() {
    let candidates = [
        worker(1, "a", vec![disk(1, 1, 0), disk(2, 9, 0)]),
        worker(2, "a", vec![disk(3, 2, 0)]),
        worker(3, "a", vec![failed(disk(4, 50, 0)), disk(5, 8, 0)]),
    ];
    let settings = SlotSettings::default();
    let full = offer(&candidates, 20, Replication::None, &settings);
    assert_eq!(by_disk(&full), [1, 9, 2, 8]);
    // Healthy disks count as infinite beyond their space, and the others stay unused.
    let more = offer(&candidates, 32, Replication::None, &settings);
    assert_eq!(
        more.workers
            .values()
            .map(|one| one.primaries)
            .collect::<Vec<_>>(),
        [14, 6, 12]
    );
    assert_eq!(
        more.workers[&HolderId(3)].disks,
        BTreeMap::from([(DiskId(5), 12)])
    );
    let passes: BTreeSet<SlotPass> = more.locations.iter().map(|one| one.pass).collect();
    assert_eq!(
        passes,
        BTreeSet::from([SlotPass::WithinBudgets, SlotPass::HealthyDisks])
    );
}

#[test]
fn artifacts_are_placed_in_reverse_order() {
    let candidates = workers(&["a"], 1, 7);
    let found = offer(&candidates, 10, Replication::None, &SlotSettings::default());
    let within = |one: &ArtifactLocation| one.pass == SlotPass::WithinBudgets;
    let within: Vec<bool> = found.locations.iter().map(within).collect();
    assert_eq!(within[..3], [false; 3]);
    assert_eq!(within[3..], [true; 7]);
}

#[test]
fn requests_without_enough_workers_or_disks_get_nothing() {
    let settings = SlotSettings::default();
    let ask = |candidates: &[SlotCandidate], count, replication| {
        let ids = ids(count);
        let request = SlotRequest {
            ids: &ids,
            replication,
        };
        offer_slots(candidates, request, &settings, &mut rng(1)).map(|one| one.locations.len())
    };
    let (one, none) = (workers(&["a"], 1, 9), workers(&["a", "a"], 0, 0));
    assert_eq!(ask(&[], 0, Replication::OtherWorker), Ok(0));
    assert_eq!(ask(&[], 1, Replication::None), Err(NoOffer::NoWorker));
    assert_eq!(
        ask(&one, 1, Replication::OtherRack),
        Err(NoOffer::OneWorker)
    );
    assert_eq!(ask(&none, 1, Replication::None), Err(NoOffer::TooFewDisks));
    let mut mixed = one.clone();
    mixed.extend(none);
    assert_eq!(
        ask(&mixed, 5, Replication::OtherWorker),
        Err(NoOffer::TooFewDisks)
    );
    assert_eq!(ask(&mixed, 20, Replication::None), Ok(20));
}

#[test]
fn faster_groups_get_more_by_the_gradient() {
    for (count, slots, settings, expected) in [
        (
            610,
            10_000,
            load_aware(5, 0.1),
            vec![147, 133, 121, 110, 99],
        ),
        (1500, 10_000, load_aware(2, 0.5), vec![900, 600]),
        (1500, 10_000, load_aware(2, 1.0), vec![1000, 500]),
        (
            1500,
            10_000,
            LoadAware {
                gradient_mode: GradientMode::Ratio,
                ..load_aware(2, 0.5)
            },
            vec![1000, 500],
        ),
    ] {
        let disks = (0..expected.len() as u64).map(|id| disk(id, slots, 10 * id));
        let candidates = [worker(1, "a", disks.collect())];
        let ids = ids(count);
        let request = SlotRequest {
            ids: &ids,
            replication: Replication::None,
        };
        let found = offer_slots(&candidates, request, &with(settings), &mut rng(1)).unwrap();
        assert_eq!(by_disk(&found), expected, "{settings:?}");
    }
}

#[test]
fn disks_of_a_group_share_by_space_or_evenly() {
    let gib = 1024;
    for (count, slots, intra_group, expected) in [
        (1000, vec![gib, 3 * gib], IntraGroup::Space, vec![250, 750]),
        (1000, vec![gib, 3 * gib], IntraGroup::Even, vec![500, 500]),
        (100, vec![100, 50, 20], IntraGroup::Space, vec![59, 29, 12]),
        // The other 12 artifacts are left to the best effort.
        (100, vec![100, 50, 20], IntraGroup::Even, vec![34, 34, 20]),
    ] {
        let disks = (0..).zip(&slots).map(|(id, &slots)| disk(id, slots, 0));
        let candidates = [worker(1, "a", disks.collect())];
        let settings = with(LoadAware {
            intra_group,
            ..load_aware(1, 0.1)
        });
        let found = offer(&candidates, count, Replication::None, &settings);
        let within = found.locations.iter();
        let within = within.filter(|one| one.pass == SlotPass::WithinBudgets);
        let mut by_disk = vec![0; slots.len()];
        for location in within {
            by_disk[location.primary.disk.0 as usize] += 1;
        }
        assert_eq!(by_disk, expected, "{slots:?} {intra_group:?}");
    }
}

#[test]
fn the_load_of_a_disk_is_the_weighted_sum() {
    // A fetch time of 1e8 ns and 1000 slots of 1e5 ns each are the same load.
    let slow = disk(1, 1000, 100_000);
    let mut busy = disk(2, 1000, 0);
    busy.disk.active_slots = 1001;
    let candidates = [worker(1, "a", vec![busy, slow])];
    let weight = |weight| LoadAware {
        active_slots_weight: Weight::new(weight).unwrap(),
        ..load_aware(2, 1.0)
    };
    for (weighted, expected) in [(weight(1e5), [200, 100]), (weight(0.0), [100, 200])] {
        let found = offer(&candidates, 300, Replication::None, &with(weighted));
        assert_eq!(by_disk(&found), expected, "by id: slow, busy");
    }
}

#[test]
fn load_aware_falls_back_to_round_robin() {
    let settings = with(load_aware(5, 1.0));
    let round_robin = SlotSettings::default();
    // Only one worker has usable disks, and replicas need two.
    let mut one = workers(&["a", "a"], 2, 9);
    one[1].disks = vec![failed(disk(9, 9, 0))];
    let empty = workers(&["a", "a"], 2, 0);
    for candidates in [one, empty] {
        let by_load = offer(&candidates, 8, Replication::OtherWorker, &settings);
        let plain = offer(&candidates, 8, Replication::OtherWorker, &round_robin);
        assert_eq!(by_load, plain);
    }
}

#[test]
fn racks_differ_while_a_second_rack_has_space() {
    let settings = SlotSettings::default();
    let candidates = workers(&["a", "a", "a", "b"], 1, 100);
    let found = offer(&candidates, 150, Replication::OtherRack, &settings);
    let passes = |pass| {
        found
            .locations
            .iter()
            .filter(|one| one.pass == pass)
            .count()
    };
    assert_eq!(passes(SlotPass::WithinBudgets), 100);
    assert_eq!(passes(SlotPass::HealthyDisks), 50);

    let one_rack = workers(&["a", "a", "a"], 1, 100);
    let found = offer(&one_rack, 50, Replication::OtherRack, &settings);
    let pass = SlotPass::HealthyDisksAnyRack;
    assert!(found.locations.iter().all(|one| one.pass == pass));
    assert_eq!(found.workers.len(), 3);
}

#[test]
fn unhealthy_disks_are_the_last_resort() {
    let mut candidates = workers(&["a", "a", "b"], 1, 5);
    candidates[2].disks = vec![failed(disk(200, 5, 0))];
    let settings = SlotSettings::default();
    let healthy = offer(&candidates, 30, Replication::OtherRack, &settings);
    let pass = SlotPass::HealthyDisksAnyRack;
    assert!(healthy.locations.iter().all(|one| one.pass == pass));
    candidates[1].disks = vec![failed(disk(100, 5, 0))];
    let last = offer(&candidates, 30, Replication::OtherRack, &settings);
    assert!(
        last.locations
            .iter()
            .all(|one| one.pass == SlotPass::AnyDisk)
    );
}

fn with_notices(notices: &[u64], slots: u64) -> Vec<SlotCandidate> {
    let racks = vec!["a"; notices.len()];
    let mut candidates = workers(&racks, 1, slots);
    for (candidate, &notice) in candidates.iter_mut().zip(notices) {
        candidate.notice = (notice > 0).then(|| Time::from_nanos(notice));
    }
    candidates
}

#[test]
fn interrupted_workers_get_replicas_last_and_primaries_only_if_late() {
    let settings = SlotSettings {
        late_interruptions: Some(50),
        ..SlotSettings::default()
    };
    // Worker 0 has no notice; 1 and 2 are late, and 3, 4 and 5 are early: half of 5 is rounded down.
    let candidates = with_notices(&[0, 50, 40, 30, 20, 10], 4);
    let found = offer(&candidates, 30, Replication::OtherWorker, &settings);
    let pass = SlotPass::AwayFromInterruptions;
    assert!(found.locations.iter().all(|one| one.pass == pass));
    let counts = |of: fn(&WorkerSlots) -> u64| found.workers.values().map(of).collect::<Vec<_>>();
    assert_eq!(counts(|worker| worker.primaries), [10, 10, 10, 0, 0, 0]);
    assert_eq!(counts(|worker| worker.replicas), [0, 0, 0, 10, 10, 10]);

    let two = with_notices(&[0, 0, 30], 4);
    let found = offer(&two, 4, Replication::OtherWorker, &settings);
    assert!(!found.workers.contains_key(&HolderId(2)), "space elsewhere");
    let found = offer(&two, 6, Replication::None, &settings);
    assert!(!found.workers.contains_key(&HolderId(2)));
}

#[test]
fn all_early_interruptions_leave_primaries_to_the_best_effort() {
    let settings = SlotSettings {
        late_interruptions: Some(0),
        ..SlotSettings::default()
    };
    let candidates = with_notices(&[10, 20, 30], 9);
    let found = offer(&candidates, 5, Replication::OtherWorker, &settings);
    assert!(
        found
            .locations
            .iter()
            .all(|one| one.pass == SlotPass::HealthyDisks)
    );
    let ignoring = offer(
        &candidates,
        5,
        Replication::OtherWorker,
        &SlotSettings::default(),
    );
    assert!(
        ignoring
            .locations
            .iter()
            .all(|one| one.pass == SlotPass::WithinBudgets)
    );
}

#[test]
fn celeborn_copies_disks_and_ignores_health() {
    let settings = SlotSettings::celeborn(SlotStrategy::RoundRobin);
    let ids = ids(20);
    let request = |replication| SlotRequest {
        ids: &ids,
        replication,
    };
    let mut candidates = workers(&["a", "b"], 1, 0);
    candidates[0].disks = vec![failed(disk(1, 5, 0))];
    let found = offer_slots(
        &candidates,
        request(Replication::OtherRack),
        &settings,
        &mut rng(3),
    );
    for location in found.unwrap().locations {
        let replica = location.replica.unwrap();
        assert_eq!(location.pass, SlotPass::AnyDisk);
        assert_eq!(replica.disk, location.primary.disk);
        assert_ne!(replica.holder, location.primary.holder);
    }
    let found = offer_slots(
        &candidates,
        request(Replication::None),
        &settings,
        &mut rng(3),
    );
    assert_eq!(by_disk(&found.unwrap()), [10, 10]);
    // A worker without a disk gets replicas.
    candidates[1].disks.clear();
    let found = offer_slots(
        &candidates,
        request(Replication::OtherRack),
        &settings,
        &mut rng(3),
    );
    assert_eq!(found.unwrap().workers[&HolderId(1)].replicas, 20);
}

#[test]
fn requests_use_consecutive_workers_and_have_spares() {
    let all = workers(&["a"; 300], 1, 100);
    let number = |one: &SlotCandidate| one.holder.0;
    let choose = |replication, most, seed| {
        let chosen = choose_candidates(all.clone(), replication, most, &mut rng(seed));
        chosen.iter().map(number).collect::<Vec<u32>>()
    };
    let starts: BTreeSet<u32> = (0..50)
        .map(|seed| {
            let chosen = choose(Replication::None, Some(7), seed);
            let expected: Vec<u32> = (chosen[0]..chosen[0] + 7).map(|one| one % 300).collect();
            assert_eq!(chosen, expected);
            chosen[0]
        })
        .collect();
    assert!(starts.len() > 30, "{starts:?}");
    assert_eq!(choose(Replication::None, Some(1), 1).len(), 1);
    assert_eq!(choose(Replication::OtherWorker, Some(1), 1).len(), 2);
    assert_eq!(choose(Replication::None, None, 1).len(), 300);
    assert_eq!(choose(Replication::None, Some(0), 1).len(), 300);

    for (used, spares) in [(20, 80), (99, 2), (150, 2), (299, 1), (300, 0)] {
        let found = offer(
            &all[..used],
            used as u32,
            Replication::None,
            &SlotSettings::default(),
        );
        let found = choose_spares(&all, &found, &mut rng(1));
        assert_eq!(found.len(), spares, "{used}");
        assert!(found.iter().all(|holder| holder.0 as usize >= used));
    }
}

/// Workers in this many racks with three disks each.
fn cluster(count: u32, racks: u32, slots: u64) -> Vec<SlotCandidate> {
    let one = |number: u32| {
        let ids = u64::from(number) * 3..u64::from(number) * 3 + 3;
        let disks = ids.map(|id| disk(id, slots + id % 7, id * 7919 % 101));
        worker(number, &format!("rack-{}", number % racks), disks.collect())
    };
    (0..count).map(one).collect()
}

/// Returns the largest count as a multiple of the mean.
fn imbalance(counts: &[u64]) -> f64 {
    let (most, sum) = (counts.iter().max().unwrap(), counts.iter().sum::<u64>());
    *most as f64 * counts.len() as f64 / sum as f64
}

#[test]
fn laws_hold_for_200_workers_and_5000_artifacts() {
    let candidates = cluster(200, 12, 40);
    for strategy in [
        SlotStrategy::RoundRobin,
        SlotStrategy::LoadAware(LoadAware::default()),
    ] {
        let settings = SlotSettings {
            strategy,
            ..SlotSettings::default()
        };
        for replication in [
            Replication::None,
            Replication::OtherWorker,
            Replication::OtherRack,
        ] {
            let found = offer(&candidates, 5000, replication, &settings);
            let totals = found
                .workers
                .values()
                .map(|one| one.primaries + one.replicas);
            let totals: Vec<u64> = totals.collect();
            assert!(imbalance(&totals) < 1.5, "{strategy:?} {replication:?}");
        }
    }
}

/// Prints how evenly a large cluster is used.
#[test]
fn an_offer_of_200000_slots_on_1500_workers() {
    let candidates = cluster(1500, 40, 60);
    let ids = ids(100_000);
    let request = SlotRequest {
        ids: &ids,
        replication: Replication::OtherRack,
    };
    for (name, strategy) in [
        ("round robin", SlotStrategy::RoundRobin),
        ("load aware", SlotStrategy::LoadAware(LoadAware::default())),
    ] {
        let settings = SlotSettings {
            strategy,
            ..SlotSettings::default()
        };
        let found = offer_slots(&candidates, request, &settings, &mut rng(5)).unwrap();
        let workers = found.workers.values();
        let workers: Vec<u64> = workers.map(|one| one.primaries + one.replicas).collect();
        let within = found.locations.iter();
        let within = within.filter(|one| one.pass == SlotPass::WithinBudgets);
        println!(
            "{name}: {} artifacts within budgets; the most on a worker is {:.3} times the mean, on a disk {:.3} times",
            within.count(),
            imbalance(&workers),
            imbalance(&by_disk(&found)),
        );
        assert_eq!(workers.iter().sum::<u64>(), 200_000);
    }
}

fn any_candidate(number: u32) -> impl Strategy<Value = SlotCandidate> {
    let disk = (
        0..12_u64,
        0..4_u64,
        prop_oneof![4 => Just(false), 1 => Just(true)],
    );
    let disks = proptest::collection::vec(disk, 0..4);
    let notice = proptest::option::of((1..5_u64).prop_map(Time::from_nanos));
    (disks, 0..3_u32, notice).prop_map(move |(disks, rack, notice)| {
        let first = u64::from(number) * 10;
        let disks = (first..).zip(disks).map(|(id, (slots, fetch, bad))| {
            let one = disk_with(id, slots, fetch);
            if bad { failed(one) } else { one }
        });
        SlotCandidate {
            notice,
            ..worker(number, &rack.to_string(), disks.collect())
        }
    })
}

fn disk_with(id: u64, slots: u64, fetch: u64) -> CandidateDisk {
    let mut one = disk(id, slots, fetch);
    one.disk.active_slots = id % 3;
    one
}

fn any_candidates() -> impl Strategy<Value = Vec<SlotCandidate>> {
    (0..9_u32).prop_flat_map(|count| (0..count).map(any_candidate).collect::<Vec<_>>())
}

fn any_settings() -> impl Strategy<Value = SlotSettings> {
    let compatibility = prop_oneof![
        Just(Compatibility::Corrected),
        Just(Compatibility::Celeborn)
    ];
    let mode = prop_oneof![Just(GradientMode::Steps), Just(GradientMode::Ratio)];
    let intra_group = prop_oneof![Just(IntraGroup::Space), Just(IntraGroup::Even)];
    let strategy = (1..6_usize, 0.0..1.5_f64, mode, intra_group, 0.0..3e3_f64);
    let strategy = proptest::option::of(strategy);
    let late = proptest::option::of(0..=100_u8);
    (strategy, late, compatibility).prop_map(|(strategy, late_interruptions, compatibility)| {
        let by_load = |(groups, gradient, gradient_mode, intra_group, weight)| {
            SlotStrategy::LoadAware(LoadAware {
                gradient_mode,
                intra_group,
                active_slots_weight: Weight::new(weight).unwrap(),
                ..load_aware(groups, gradient)
            })
        };
        SlotSettings {
            strategy: strategy.map_or(SlotStrategy::RoundRobin, by_load),
            late_interruptions,
            compatibility,
        }
    })
}

fn any_replication() -> impl Strategy<Value = Replication> {
    prop_oneof![
        Just(Replication::None),
        Just(Replication::OtherWorker),
        Just(Replication::OtherRack),
    ]
}

integration_tests_properties::properties! {
    1000;

    #[test]
    fn offers_are_those_of_the_reference(
        candidates in any_candidates(), count in 0..60_u32, replication in any_replication(),
        settings in any_settings(), seed in any::<u64>(),
    ) {
        let ids = ids(count);
        let request = SlotRequest { ids: &ids, replication };
        let found = offer_slots(&candidates, request, &settings, &mut rng(seed));
        let again = offer_slots(&candidates, request, &settings, &mut rng(seed));
        prop_assert_eq!(&found, &again);
        if count == 0 {
            prop_assert_eq!(found, Ok(SlotOffer::default()));
            return Ok(());
        }
        let expected = reference::reference(&candidates, request, &settings, &mut rng(seed));
        let locations = found.as_ref().ok().map(|found| found.locations.clone());
        prop_assert_eq!(locations, expected);
        if settings.compatibility == Compatibility::Corrected {
            let with_disk = candidates.iter().filter(|one| !one.disks.is_empty()).count();
            prop_assert_eq!(found.is_ok(), with_disk >= replication.copies());
            if let Ok(found) = found {
                check_laws(&candidates, request, &settings, &found)?;
            }
        }
    }
}
