//! Budgets of disks: how many slots of each disk the first pass of an offer may use.

use super::super::disk::DiskState;
use super::super::settings::{
    Compatibility, GradientMode, IntraGroup, LoadAware, SlotSettings, SlotStrategy,
};
use super::SlotCandidate;

/// The slots that a pass may use on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskBudget {
    /// Position among the disks of the candidate.
    pub disk: usize,
    pub slots: u64,
}

/// The budgets of each candidate, in the order in which its disks take turns.
pub type Budgets = Vec<Vec<DiskBudget>>;

/// Whether a request has replicas, and the number of its locations with them.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub locations: u64,
    pub replicated: bool,
}

/// Returns the budgets of all disks. A budget is at most the available slots of its disk.
pub fn budgets(candidates: &[SlotCandidate], demand: Demand, settings: &SlotSettings) -> Budgets {
    match &settings.strategy {
        SlotStrategy::RoundRobin => round_robin(candidates),
        SlotStrategy::LoadAware(load_aware) => {
            let disks = usable_disks(candidates);
            if is_too_little(&disks, demand) {
                round_robin(candidates)
            } else {
                by_load(
                    candidates,
                    disks,
                    demand,
                    load_aware,
                    settings.compatibility,
                )
            }
        }
    }
}

fn round_robin(candidates: &[SlotCandidate]) -> Budgets {
    let of_worker = |candidate: &SlotCandidate| {
        let disks = candidate.disks.iter().enumerate();
        let healthy = disks.filter(|(_, one)| one.disk.state == DiskState::Healthy);
        healthy
            .map(|(disk, one)| DiskBudget {
                disk,
                slots: one.available,
            })
            .collect()
    };
    candidates.iter().map(of_worker).collect()
}

/// A healthy disk with space.
#[derive(Clone, Copy, Debug)]
struct UsableDisk {
    candidate: usize,
    disk: usize,
    available: u64,
}

fn usable_disks(candidates: &[SlotCandidate]) -> Vec<UsableDisk> {
    let mut usable = Vec::new();
    for (position, candidate) in candidates.iter().enumerate() {
        for (disk, one) in candidate.disks.iter().enumerate() {
            if one.disk.is_healthy() {
                usable.push(UsableDisk {
                    candidate: position,
                    disk,
                    available: one.available,
                });
            }
        }
    }
    usable
}

/// Returns true if the usable disks cannot hold a part of the request, replicas included.
fn is_too_little(disks: &[UsableDisk], demand: Demand) -> bool {
    let Some(first) = disks.first() else {
        return true;
    };
    let one_worker = disks.iter().all(|disk| disk.candidate == first.candidate);
    (demand.replicated && one_worker) || disks.iter().all(|disk| disk.available == 0)
}

fn by_load(
    candidates: &[SlotCandidate],
    disks: Vec<UsableDisk>,
    demand: Demand,
    settings: &LoadAware,
    compatibility: Compatibility,
) -> Budgets {
    let mut disks: Vec<(f64, UsableDisk)> = disks
        .into_iter()
        .map(|disk| (load(candidates, disk, settings), disk))
        .collect();
    disks.sort_by(|left, right| left.0.total_cmp(&right.0));
    let disks: Vec<UsableDisk> = disks.into_iter().map(|(_, disk)| disk).collect();
    let groups: Vec<&[UsableDisk]> = disks
        .chunks(disks.len().div_ceil(settings.disk_groups.get()))
        .collect();
    let available: Vec<u64> = groups.iter().map(|group| sum_available(group)).collect();
    let shares = shares_of_groups(settings, available.len());
    let allocations = allocate(demand.locations, &shares, &available, compatibility);

    let mut budgets = vec![Vec::new(); candidates.len()];
    // A group whose disks cannot take its slots passes them on; the rest after the last group is for later passes of the offer.
    let mut over = 0;
    for (group, allocation) in groups.into_iter().zip(allocations) {
        let need = allocation + over;
        let slots = match settings.intra_group {
            IntraGroup::Space => divide_by_space(need, group),
            IntraGroup::Even => divide_evenly(need, group),
        };
        over = need;
        for (disk, slots) in group.iter().zip(slots) {
            if let Some(slots) = slots {
                over -= slots;
                let disk_budget = DiskBudget {
                    disk: disk.disk,
                    slots,
                };
                budgets[disk.candidate].push(disk_budget);
            }
        }
    }
    budgets
}

/// Returns the weighted time of a disk in nanoseconds.
fn load(candidates: &[SlotCandidate], disk: UsableDisk, settings: &LoadAware) -> f64 {
    let disk = &candidates[disk.candidate].disks[disk.disk].disk;
    disk.flush_time.as_nanos() as f64 * settings.flush_time_weight.get()
        + disk.fetch_time.as_nanos() as f64 * settings.fetch_time_weight.get()
        + disk.active_slots as f64 * settings.active_slots_weight.get()
}

fn sum_available(group: &[UsableDisk]) -> u64 {
    let slots = group.iter().map(|disk| disk.available);
    slots.fold(0, u64::saturating_add)
}

/// Returns the shares of the existing groups, the fastest first. There may be fewer groups than configured; their shares grow in proportion.
fn shares_of_groups(settings: &LoadAware, existing: usize) -> Vec<f64> {
    let gradient = settings.gradient.get();
    let factor = match settings.gradient_mode {
        GradientMode::Steps => 1.0 + gradient,
        GradientMode::Ratio => gradient,
    };
    // Repeated products give the same bits on every machine; `powi` need not.
    let powers = std::iter::successors(Some(1.0), |power| Some(power * factor));
    let mut weights: Vec<f64> = powers.take(settings.disk_groups.get()).collect();
    if settings.gradient_mode == GradientMode::Steps {
        weights.reverse();
    }
    let sum: f64 = weights.iter().sum();
    let shares: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
    let existing = &shares[..existing];
    let sum: f64 = existing.iter().sum();
    existing.iter().map(|share| share / sum).collect()
}

/// Divides the locations among groups. A group that is full passes its surplus to the next one.
fn allocate(
    total: u64,
    shares: &[f64],
    available: &[u64],
    compatibility: Compatibility,
) -> Vec<u64> {
    let (mut left, mut carry) = (total, 0);
    let mut allocations = vec![0; shares.len()];
    for (group, (&share, &available)) in shares.iter().zip(available).enumerate() {
        if left == 0 {
            break;
        }
        let estimated = ((total as f64 * share).ceil() as u64).min(left);
        let wanted = match compatibility {
            Compatibility::Corrected => (estimated + carry).min(left),
            Compatibility::Celeborn => estimated + carry,
        };
        if wanted > available {
            allocations[group] = available;
            carry = wanted - available;
        } else {
            allocations[group] = wanted;
            match compatibility {
                Compatibility::Corrected => carry = 0,
                // The surplus has a place now, and goes to the later groups again.
                Compatibility::Celeborn => {}
            }
        }
        left = left.saturating_sub(allocations[group]);
    }
    allocations
}

/// Divides `need` evenly among the disks of a group: in order, each gets its part as far as it has space and something is left. `None` marks
/// the disks after the last slot.
fn divide_evenly(need: u64, group: &[UsableDisk]) -> Vec<Option<u64>> {
    let part = need.div_ceil(group.len() as u64);
    let mut left = need;
    let disks = group.iter().map(|disk| {
        (left > 0).then(|| {
            let slots = part.min(disk.available).min(left);
            left -= slots;
            slots
        })
    });
    disks.collect()
}

/// Divides `need` among the disks of a group in proportion to their available slots, by largest remainder. A disk gets at most its
/// available slots.
fn divide_by_space(need: u64, group: &[UsableDisk]) -> Vec<Option<u64>> {
    let total: u128 = group.iter().map(|disk| u128::from(disk.available)).sum();
    let need = u128::from(need).min(total);
    if need == 0 {
        return vec![None; group.len()];
    }
    let products = group.iter().map(|disk| need * u128::from(disk.available));
    let mut slots: Vec<u128> = products.clone().map(|product| product / total).collect();
    let mut by_remainder: Vec<(u128, usize)> = products
        .enumerate()
        .map(|(disk, product)| (product % total, disk))
        .collect();
    by_remainder.sort_by_key(|&(remainder, disk)| (std::cmp::Reverse(remainder), disk));
    let missing = need - slots.iter().sum::<u128>();
    // Invariant: fewer slots are missing than there are disks with a remainder, because the remainders sum to `missing * total`.
    for (_, (_, disk)) in (0..missing).zip(by_remainder) {
        slots[disk] += 1;
    }
    slots
        .into_iter()
        .map(|slots| u64::try_from(slots).ok().filter(|&slots| slots > 0))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use proptest::prelude::*;

    use super::super::super::amounts::Weight;
    use super::*;

    fn load_aware(groups: usize, gradient: f64, mode: GradientMode) -> LoadAware {
        LoadAware {
            disk_groups: NonZeroUsize::new(groups).unwrap(),
            gradient: Weight::new(gradient).unwrap(),
            gradient_mode: mode,
            ..LoadAware::default()
        }
    }

    fn allocations(total: u64, settings: &LoadAware, available: &[u64]) -> Vec<u64> {
        let shares = shares_of_groups(settings, available.len());
        allocate(total, &shares, available, Compatibility::Corrected)
    }

    const PLENTY: [u64; 5] = [1_000_000; 5];

    #[test]
    fn groups_get_geometric_shares() {
        use GradientMode::{Ratio, Steps};
        for (groups, gradient, mode, total, expected) in [
            (5, 0.1, Steps, 610, vec![147, 133, 121, 110, 99]),
            (2, 0.5, Steps, 1500, vec![900, 600]),
            (2, 1.0, Steps, 1500, vec![1000, 500]),
            (2, 0.5, Ratio, 1500, vec![1000, 500]),
            (5, 0.0, Steps, 1000, vec![200; 5]),
            (1, 0.1, Steps, 7, vec![7]),
            // Later groups get nothing once all locations are divided.
            (5, 0.1, Steps, 3, vec![1, 1, 1, 0, 0]),
            (3, 0.0, Ratio, 10, vec![10, 0, 0]),
        ] {
            let settings = load_aware(groups, gradient, mode);
            let found = allocations(total, &settings, &PLENTY[..groups]);
            assert_eq!(found, expected, "{groups} {gradient} {mode:?}");
        }
    }

    #[test]
    fn fewer_disks_than_groups_share_in_proportion() {
        let settings = load_aware(5, 0.5, GradientMode::Steps);
        assert_eq!(allocations(1500, &settings, &PLENTY[..2]), [900, 600]);
    }

    #[test]
    fn the_surplus_of_a_full_group_goes_to_the_next_one_only() {
        let settings = load_aware(4, 0.0, GradientMode::Steps);
        let shares = shares_of_groups(&settings, 4);
        let available = [10, 1000, 1000, 1000];
        let corrected = allocate(400, &shares, &available, Compatibility::Corrected);
        assert_eq!(corrected, [10, 190, 100, 100]);
        // Celeborn adds the surplus of 90 to each later group, so the sum exceeds 400.
        let celeborn = allocate(400, &shares, &available, Compatibility::Celeborn);
        assert_eq!(celeborn, [10, 190, 190, 100]);
    }

    #[test]
    fn a_surplus_may_pass_through_several_groups() {
        let settings = load_aware(4, 0.0, GradientMode::Steps);
        assert_eq!(
            allocations(400, &settings, &[10, 20, 300, 300]),
            [10, 20, 270, 100]
        );
        assert_eq!(
            allocations(400, &settings, &[300, 300, 300, 10]),
            [100, 100, 100, 10]
        );
    }

    fn group(available: &[u64]) -> Vec<UsableDisk> {
        let disks = available.iter().enumerate();
        let usable = |(disk, &available)| UsableDisk {
            candidate: 0,
            disk,
            available,
        };
        disks.map(usable).collect()
    }

    #[test]
    fn disks_share_in_proportion_to_their_space() {
        for (need, available, expected) in [
            (100, vec![100, 50, 20], vec![59, 29, 12]),
            // 1 GiB and 3 GiB in slots of 1 MiB
            (1000, vec![1024, 3072], vec![250, 750]),
            (170, vec![100, 50, 20], vec![100, 50, 20]),
            (171, vec![100, 50, 20], vec![100, 50, 20]),
            (1, vec![5, 5], vec![1, 0]),
            (3, vec![0, 5, 0], vec![0, 3, 0]),
            (3, vec![0, 0], vec![0, 0]),
            (0, vec![3], vec![0]),
        ] {
            let slots = divide_by_space(need, &group(&available));
            let slots: Vec<u64> = slots.into_iter().map(|one| one.unwrap_or(0)).collect();
            assert_eq!(slots, expected, "{need} of {available:?}");
        }
    }

    #[test]
    fn disks_share_evenly_up_to_their_space() {
        for (need, available, expected) in [
            (100, vec![100, 50, 20], vec![Some(34), Some(34), Some(20)]),
            (1000, vec![1024, 3072], vec![Some(500), Some(500)]),
            (4, vec![9, 9, 9], vec![Some(2), Some(2), None]),
            (4, vec![0, 9, 1], vec![Some(0), Some(2), Some(1)]),
        ] {
            let slots = divide_evenly(need, &group(&available));
            assert_eq!(slots, expected, "{need} of {available:?}");
        }
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn divisions_by_space_are_exact_and_within_space(
            need in 0..2000_u64, available in proptest::collection::vec(0..400_u64, 1..9),
        ) {
            let slots = divide_by_space(need, &group(&available));
            let slots: Vec<u64> = slots.into_iter().map(|one| one.unwrap_or(0)).collect();
            let total: u64 = available.iter().sum();
            prop_assert_eq!(slots.iter().sum::<u64>(), need.min(total));
            for (slots, available) in slots.iter().zip(&available) {
                prop_assert!(slots <= available);
                // The share differs from the exact one by less than a slot.
                let exact = need.min(total) as f64 * *available as f64 / total.max(1) as f64;
                prop_assert!((*slots as f64 - exact).abs() < 1.0);
            }
        }

        #[test]
        fn allocations_stay_within_the_total_and_the_space(
            total in 0..5000_u64, available in proptest::collection::vec(0..2000_u64, 1..7),
            gradient in 0.0..2.0_f64,
        ) {
            for mode in [GradientMode::Steps, GradientMode::Ratio] {
                let settings = load_aware(available.len(), gradient, mode);
                let found = allocations(total, &settings, &available);
                prop_assert!(found.iter().sum::<u64>() <= total);
                prop_assert!(found.iter().zip(&available).all(|(found, available)| found <= available));
            }
        }
    }
}
