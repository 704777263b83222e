//! A slow and plain allocation, to compare offers with: it scans all workers for each artifact.

use std::cmp::Reverse;

use brasserie_common::rng::Rng;

use super::super::super::disk::DiskState;
use super::super::super::settings::*;
use super::super::*;

/// Slots left of a disk, by candidate.
type Left = Vec<Vec<(usize, u64)>>;

/// A request on its way through the passes.
struct Progress<'a> {
    candidates: &'a [SlotCandidate],
    replication: Replication,
    celeborn: bool,
    rest: Vec<ArtifactId>,
    found: Vec<ArtifactLocation>,
}

/// The workers for primaries and replicas.
type Lists = (Vec<usize>, Vec<usize>);

/// Returns the locations of all artifacts. `None` if some artifact finds no place.
pub fn reference(
    candidates: &[SlotCandidate],
    request: SlotRequest<'_>,
    settings: &SlotSettings,
    rng: &mut Rng,
) -> Option<Vec<ArtifactLocation>> {
    let replication = request.replication;
    let needed = replication.copies();
    if candidates.len() < needed {
        return None;
    }
    let celeborn = settings.compatibility == Compatibility::Celeborn;
    let mut progress = Progress {
        candidates,
        replication,
        celeborn,
        rest: request.ids.to_vec(),
        found: Vec::new(),
    };
    let all: Vec<usize> = (0..candidates.len()).collect();
    let left = budgets(
        candidates,
        request.ids.len() * needed,
        replication,
        settings,
    );
    let aware = settings.late_interruptions.is_some();
    let mut first = all.clone();
    first.retain(|&w| !left[w].is_empty());
    first.retain(|&w| !aware || candidates[w].notice.is_none());
    progress.run(SlotPass::WithinBudgets, (first.clone(), first), left, rng);
    if aware && !progress.rest.is_empty() {
        let lists = by_notice(candidates, settings, rng);
        let left = unlimited(candidates, !celeborn);
        progress.run(SlotPass::AwayFromInterruptions, lists, left, rng);
    }
    for (pass, healthy, any_rack, corrected_only) in [
        (SlotPass::HealthyDisks, true, false, true),
        (SlotPass::HealthyDisksAnyRack, true, true, true),
        (SlotPass::AnyDisk, false, false, false),
        (SlotPass::AnyDiskAnyRack, false, true, false),
    ] {
        let racks_only = any_rack && replication != Replication::OtherRack;
        let left_out = racks_only || (corrected_only && celeborn);
        if !left_out {
            let left = unlimited(candidates, healthy);
            progress.run(pass, (all.clone(), all.clone()), left, rng);
        }
    }
    progress.found.reverse();
    progress.rest.is_empty().then_some(progress.found)
}

fn unlimited(candidates: &[SlotCandidate], healthy: bool) -> Left {
    let of_worker = |candidate: &SlotCandidate| {
        let disks = candidate.disks.iter().enumerate();
        disks
            .filter(|(_, one)| !healthy || one.disk.is_healthy())
            .map(|(disk, _)| (disk, 1 << 60))
            .collect()
    };
    candidates.iter().map(of_worker).collect()
}

fn by_notice(
    candidates: &[SlotCandidate],
    settings: &SlotSettings,
    rng: &mut Rng,
) -> (Vec<usize>, Vec<usize>) {
    let all = 0..candidates.len();
    let mut none: Vec<usize> = all
        .clone()
        .filter(|&w| candidates[w].notice.is_none())
        .collect();
    let mut some: Vec<usize> = all.filter(|&w| candidates[w].notice.is_some()).collect();
    rng.shuffle(&mut some);
    some.sort_by_key(|&w| Reverse(candidates[w].notice));
    let late = some.len() * usize::from(settings.late_interruptions.unwrap()) / 100;
    none.extend(&some[..late]);
    (none, some[late..].to_vec())
}

fn alternate(candidates: &[SlotCandidate], workers: &[usize]) -> Vec<usize> {
    let mut racks: Vec<Vec<usize>> = Vec::new();
    // Racks of the same size keep the order of all candidates, also if the pass has only some of them.
    for candidate in candidates {
        let same = |w: &&usize| candidates[**w].rack == candidate.rack;
        let of_rack: Vec<usize> = workers.iter().filter(same).copied().collect();
        if !of_rack.is_empty() && !racks.contains(&of_rack) {
            racks.push(of_rack);
        }
    }
    racks.sort_by_key(|rack| Reverse(rack.len()));
    let mut ordered = Vec::new();
    while ordered.len() < workers.len() {
        for rack in &mut racks {
            if !rack.is_empty() {
                ordered.push(rack.remove(0));
            }
        }
    }
    ordered
}

impl Progress<'_> {
    fn run(&mut self, pass: SlotPass, lists: Lists, mut left: Left, rng: &mut Rng) {
        let candidates = self.candidates;
        let (mut primaries, mut replicas) = lists;
        let replicate = self.replication != Replication::None;
        let racks = self.replication == Replication::OtherRack && pass.respects_racks();
        if self.rest.is_empty() || primaries.is_empty() || (replicate && replicas.is_empty()) {
            return;
        }
        if racks {
            primaries = alternate(candidates, &primaries);
            replicas = alternate(candidates, &replicas);
        }
        let copied_disk = self.celeborn && racks && pass != SlotPass::WithinBudgets;
        let mut turns = vec![None; candidates.len()];
        let mut p = rng.below(primaries.len());
        let mut q = if replicate {
            rng.below(replicas.len())
        } else {
            0
        };
        while let Some(&id) = self.rest.last() {
            let Some(i) = circle(p, primaries.len()).find(|&i| has_slot(&left, primaries[i]))
            else {
                return;
            };
            let worker = primaries[i];
            let early = self.celeborn;
            let before = early.then(|| take(candidates, &mut left, &mut turns, worker, rng));
            let replica = circle(q, replicas.len()).find(|&j| {
                replicas[j] != worker
                    && (copied_disk || has_slot(&left, replicas[j]))
                    && !(racks && candidates[replicas[j]].rack == candidates[worker].rack)
            });
            if replicate && replica.is_none() {
                return;
            }
            let primary =
                before.unwrap_or_else(|| take(candidates, &mut left, &mut turns, worker, rng));
            let replica = replica.filter(|_| replicate).map(|j| {
                q = j + 1;
                let holder = candidates[replicas[j]].holder;
                match copied_disk {
                    true => DiskPlace { holder, ..primary },
                    false => take(candidates, &mut left, &mut turns, replicas[j], rng),
                }
            });
            p = i + 1;
            self.rest.pop();
            self.found.push(ArtifactLocation {
                id,
                primary,
                replica,
                pass,
            });
        }
    }
}

fn circle(start: usize, count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |step| (start + step) % count)
}

fn has_slot(left: &Left, worker: usize) -> bool {
    left[worker].iter().any(|&(_, slots)| slots > 0)
}

fn take(
    candidates: &[SlotCandidate],
    left: &mut Left,
    disk_turn: &mut [Option<usize>],
    worker: usize,
    rng: &mut Rng,
) -> DiskPlace {
    let disks = &mut left[worker];
    let mut at = *disk_turn[worker].get_or_insert_with(|| rng.below(disks.len()));
    while disks[at].1 == 0 {
        at = (at + 1) % disks.len();
    }
    disks[at].1 -= 1;
    disk_turn[worker] = Some((at + 1) % disks.len());
    DiskPlace {
        holder: candidates[worker].holder,
        disk: candidates[worker].disks[disks[at].0].disk.id,
    }
}

fn budgets(
    candidates: &[SlotCandidate],
    total: usize,
    replication: Replication,
    settings: &SlotSettings,
) -> Left {
    let mut disks = Vec::new();
    let mut round_robin: Left = vec![Vec::new(); candidates.len()];
    for (w, candidate) in candidates.iter().enumerate() {
        for (d, one) in candidate.disks.iter().enumerate() {
            if one.disk.state == DiskState::Healthy {
                round_robin[w].push((d, one.available));
                if one.disk.usable.0 > 0 {
                    disks.push((w, d, one));
                }
            }
        }
    }
    let SlotStrategy::LoadAware(load_aware) = settings.strategy else {
        return round_robin;
    };
    let mut workers: Vec<usize> = disks.iter().map(|disk| disk.0).collect();
    workers.dedup();
    let replicated = replication != Replication::None;
    let space: u64 = disks.iter().map(|disk| disk.2.available).sum();
    if space == 0 || (replicated && workers.len() < 2) {
        return round_robin;
    }
    let nanos = |time: std::time::Duration| time.as_nanos() as f64;
    disks.sort_by(|a, b| {
        let load = |one: &CandidateDisk| {
            nanos(one.disk.flush_time) * load_aware.flush_time_weight.get()
                + nanos(one.disk.fetch_time) * load_aware.fetch_time_weight.get()
                + one.disk.active_slots as f64 * load_aware.active_slots_weight.get()
        };
        load(a.2).partial_cmp(&load(b.2)).unwrap()
    });
    let count = load_aware.disk_groups.get();
    let size = disks.len().div_ceil(count);
    let groups: Vec<_> = disks.chunks(size).collect();
    let wanted = wanted_by_group(&groups, total as u64, &load_aware, settings.compatibility);
    let mut left: Left = vec![Vec::new(); candidates.len()];
    let mut over = 0;
    for (group, wanted) in groups.iter().zip(wanted) {
        let available: Vec<u64> = group.iter().map(|disk| disk.2.available).collect();
        over += wanted;
        let slots = divide(over, &available, load_aware.intra_group);
        for (&(w, d, _), slots) in group.iter().zip(slots) {
            if let Some(slots) = slots {
                left[w].push((d, slots));
                over -= slots;
            }
        }
    }
    left
}

fn wanted_by_group(
    groups: &[&[(usize, usize, &CandidateDisk)]],
    total: u64,
    load_aware: &LoadAware,
    compatibility: Compatibility,
) -> Vec<u64> {
    let (count, gradient) = (load_aware.disk_groups.get(), load_aware.gradient.get());
    let weights: Vec<f64> = (0..count)
        .map(|i| match load_aware.gradient_mode {
            GradientMode::Steps => {
                (1..count - i).fold(1.0, |product, _| product * (1.0 + gradient))
            }
            GradientMode::Ratio => (0..i).fold(1.0, |product, _| product * gradient),
        })
        .collect();
    let sum: f64 = weights.iter().sum();
    let ratios: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
    let sum: f64 = ratios[..groups.len()].iter().sum();
    let (mut left, mut carry) = (total as i64, 0);
    let mut wanted = Vec::new();
    for (group, ratio) in groups.iter().zip(ratios) {
        let available: i64 = group.iter().map(|disk| disk.2.available as i64).sum();
        let part = ((total as f64 * (ratio / sum)).ceil() as i64).min(left.max(0));
        let mut want = part + carry;
        if compatibility == Compatibility::Corrected {
            want = want.min(left);
        }
        if left <= 0 {
            want = 0;
        } else if want > available {
            carry = want - available;
            want = available;
        } else if compatibility == Compatibility::Corrected {
            carry = 0;
        }
        left -= want;
        wanted.push(want as u64);
    }
    wanted
}

fn divide(need: u64, available: &[u64], intra_group: IntraGroup) -> Vec<Option<u64>> {
    let total: u64 = available.iter().sum();
    match intra_group {
        IntraGroup::Even => {
            let part = need.div_ceil(available.len() as u64);
            let mut rest = need;
            let slots = available.iter().map(|&available| {
                let slots = part.min(available).min(rest);
                let some_left = rest > 0;
                rest -= slots;
                some_left.then_some(slots)
            });
            slots.collect()
        }
        // One slot after the other goes to the disk that lacks most.
        IntraGroup::Space => {
            let need = need.min(total);
            let mut slots = vec![0; available.len()];
            for _ in 0..need {
                let lack = |disk: usize| {
                    i128::from(need * available[disk]) - i128::from(slots[disk] * total)
                };
                let most = (0..slots.len()).max_by_key(|&disk| (lack(disk), Reverse(disk)));
                slots[most.unwrap()] += 1;
            }
            slots
                .into_iter()
                .map(|slots| (slots > 0).then_some(slots))
                .collect()
        }
    }
}
