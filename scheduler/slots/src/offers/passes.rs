//! The passes of an offer: their order, their workers, and their disks.

use std::collections::BTreeMap;

use brasserie_common::rng::Rng;

use super::super::amounts::Rack;
use super::super::settings::{Compatibility, Replication, SlotSettings};
use super::budgets::{Budgets, Demand, DiskBudget, budgets};
use super::placement::{PassPlan, Placement, ReplicaDisk, ReplicaWorkers};
use super::rack_index::RackNumber;
use super::{ArtifactLocation, SlotCandidate, SlotPass, SlotRequest};

/// Returns the locations of as many artifacts as find one, in the order of the request.
pub fn place_all(
    candidates: &[SlotCandidate],
    request: SlotRequest<'_>,
    settings: &SlotSettings,
    rng: &mut Rng,
) -> Vec<ArtifactLocation> {
    let racks = number_racks(candidates);
    let mut locations = Vec::with_capacity(request.ids.len());
    for pass in order(request.replication, settings) {
        // Each pass begins with the last artifact, so the first ones are left over.
        let rest = &request.ids[..request.ids.len() - locations.len()];
        if rest.is_empty() {
            break;
        }
        let demand = Demand {
            locations: (rest.len() * request.replication.copies()) as u64,
            replicated: request.replication != Replication::None,
        };
        let planner = Planner {
            candidates,
            racks: &racks,
            replication: request.replication,
            settings,
        };
        let plan = planner.plan(pass, demand, rng);
        let placement = Placement::new(plan, candidates, &racks, settings.compatibility, rng);
        if let Some(placement) = placement {
            locations.extend(placement.place(rest, rng));
        }
    }
    locations.reverse();
    locations
}

/// Returns the passes of an offer, in order. A healthy disk in the wrong rack is better than an unhealthy one: data that cannot be written
/// need no second rack.
fn order(replication: Replication, settings: &SlotSettings) -> Vec<SlotPass> {
    let mut passes = vec![SlotPass::WithinBudgets];
    if settings.late_interruptions.is_some() {
        passes.push(SlotPass::AwayFromInterruptions);
    }
    match settings.compatibility {
        Compatibility::Corrected => passes.extend([
            SlotPass::HealthyDisks,
            SlotPass::HealthyDisksAnyRack,
            SlotPass::AnyDisk,
            SlotPass::AnyDiskAnyRack,
        ]),
        Compatibility::Celeborn => passes.extend([SlotPass::AnyDisk, SlotPass::AnyDiskAnyRack]),
    }
    if replication != Replication::OtherRack {
        passes.retain(|pass| pass.respects_racks());
    }
    passes
}

impl SlotPass {
    /// Returns true if primary and replica are in different racks when the request asks for it.
    pub fn respects_racks(self) -> bool {
        match self {
            SlotPass::WithinBudgets
            | SlotPass::AwayFromInterruptions
            | SlotPass::HealthyDisks
            | SlotPass::AnyDisk => true,
            SlotPass::HealthyDisksAnyRack | SlotPass::AnyDiskAnyRack => false,
        }
    }
}

fn number_racks(candidates: &[SlotCandidate]) -> Vec<RackNumber> {
    let mut numbers: BTreeMap<&Rack, RackNumber> = BTreeMap::new();
    let mut racks = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let next = RackNumber(numbers.len() as u32);
        racks.push(*numbers.entry(&candidate.rack).or_insert(next));
    }
    racks
}

struct Planner<'a> {
    candidates: &'a [SlotCandidate],
    /// The rack of each candidate.
    racks: &'a [RackNumber],
    replication: Replication,
    settings: &'a SlotSettings,
}

impl Planner<'_> {
    fn plan(&self, pass: SlotPass, demand: Demand, rng: &mut Rng) -> PassPlan {
        let all = 0..self.candidates.len();
        let racks_differ = self.replication == Replication::OtherRack && pass.respects_racks();
        let (budgets, primaries, replicas) = match pass {
            SlotPass::WithinBudgets => {
                let budgets = budgets(self.candidates, demand, self.settings);
                let avoid_notices = self.settings.late_interruptions.is_some();
                let may_get = |&worker: &usize| {
                    let is_avoided = avoid_notices && self.candidates[worker].notice.is_some();
                    !is_avoided && !budgets[worker].is_empty()
                };
                let workers = all.filter(may_get).collect();
                (budgets, workers, None)
            }
            SlotPass::AwayFromInterruptions => {
                let (primaries, early) = self.by_interruption(rng);
                (self.unlimited(pass), primaries, Some(early))
            }
            SlotPass::HealthyDisks
            | SlotPass::HealthyDisksAnyRack
            | SlotPass::AnyDisk
            | SlotPass::AnyDiskAnyRack => (self.unlimited(pass), all.collect(), None),
        };
        let in_order = |workers: Vec<usize>| match racks_differ {
            true => alternate_racks(&workers, self.racks),
            false => workers,
        };
        PassPlan {
            pass,
            primaries: in_order(primaries),
            replicas: match (self.replication, replicas) {
                (Replication::None, _) => ReplicaWorkers::None,
                (_, None) => ReplicaWorkers::AsPrimaries,
                (_, Some(others)) => ReplicaWorkers::Others(in_order(others)),
            },
            budgets,
            racks_differ,
            replica_disk: self.replica_disk(pass, racks_differ),
        }
    }

    fn replica_disk(&self, pass: SlotPass, racks_differ: bool) -> ReplicaDisk {
        match self.settings.compatibility {
            Compatibility::Celeborn if racks_differ && pass != SlotPass::WithinBudgets => {
                ReplicaDisk::AsPrimary
            }
            Compatibility::Celeborn | Compatibility::Corrected => ReplicaDisk::Own,
        }
    }

    /// Returns the disks of a pass without budgets.
    fn unlimited(&self, pass: SlotPass) -> Budgets {
        let any_state = match pass {
            SlotPass::AnyDisk | SlotPass::AnyDiskAnyRack => true,
            SlotPass::AwayFromInterruptions => {
                self.settings.compatibility == Compatibility::Celeborn
            }
            SlotPass::WithinBudgets | SlotPass::HealthyDisks | SlotPass::HealthyDisksAnyRack => {
                false
            }
        };
        let of_worker = |candidate: &SlotCandidate| {
            let disks = candidate.disks.iter().enumerate();
            let usable = disks.filter(|(_, one)| any_state || one.disk.is_healthy());
            // No request has as many artifacts.
            let slots = u64::MAX;
            usable.map(|(disk, _)| DiskBudget { disk, slots }).collect()
        };
        self.candidates.iter().map(of_worker).collect()
    }

    /// Returns the workers without a notice and those with a late one, and then the workers with an early notice. Workers with the same
    /// notice are in random order.
    fn by_interruption(&self, rng: &mut Rng) -> (Vec<usize>, Vec<usize>) {
        let notice = |worker: usize| self.candidates[worker].notice;
        let all = 0..self.candidates.len();
        let (mut primaries, mut warned): (Vec<usize>, Vec<usize>) =
            all.partition(|&worker| notice(worker).is_none());
        rng.shuffle(&mut warned);
        warned.sort_by_key(|&worker| std::cmp::Reverse(notice(worker)));
        let percent = usize::from(self.settings.late_interruptions.unwrap_or(0).min(100));
        let early = warned.split_off(warned.len() * percent / 100);
        primaries.append(&mut warned);
        (primaries, early)
    }
}

/// Orders workers so that neighbours are in different racks as far as possible: rounds over the racks, the largest first, each of one
/// worker from each rack. A search that skips a rack then finds its next worker nearby, and favours no worker behind a long run of one rack.
fn alternate_racks(workers: &[usize], racks: &[RackNumber]) -> Vec<usize> {
    let mut by_rack: BTreeMap<RackNumber, Vec<usize>> = BTreeMap::new();
    for &worker in workers {
        by_rack.entry(racks[worker]).or_default().push(worker);
    }
    let mut by_size: Vec<Vec<usize>> = by_rack.into_values().collect();
    by_size.sort_by_key(|rack| std::cmp::Reverse(rack.len()));
    let mut ordered = Vec::with_capacity(workers.len());
    for round in 0.. {
        // Invariant: larger racks come first, so the racks with a worker for this round come first too.
        let of_round = by_size.iter().map_while(|rack| rack.get(round).copied());
        let before = ordered.len();
        ordered.extend(of_round);
        if ordered.len() == before {
            break;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racks_alternate_and_the_largest_comes_first() {
        let racks = [0, 0, 1, 2, 2, 2, 1].map(RackNumber);
        let order = alternate_racks(&[0, 1, 2, 3, 4, 5, 6], &racks);
        assert_eq!(order, [3, 0, 2, 4, 1, 6, 5]);
        assert_eq!(alternate_racks(&[6, 5], &racks), [6, 5]);
        assert!(alternate_racks(&[], &racks).is_empty());
    }

    #[test]
    fn passes_relax_one_condition_after_the_other() {
        use SlotPass::*;
        let corrected = SlotSettings::default();
        let interruptions = SlotSettings {
            late_interruptions: Some(50),
            ..corrected
        };
        let celeborn = SlotSettings {
            compatibility: Compatibility::Celeborn,
            ..corrected
        };
        let other_worker = Replication::OtherWorker;
        let other_rack = Replication::OtherRack;
        for (settings, replication, expected) in [
            (
                corrected,
                other_rack,
                vec![
                    WithinBudgets,
                    HealthyDisks,
                    HealthyDisksAnyRack,
                    AnyDisk,
                    AnyDiskAnyRack,
                ],
            ),
            (
                interruptions,
                other_worker,
                vec![WithinBudgets, AwayFromInterruptions, HealthyDisks, AnyDisk],
            ),
            (celeborn, Replication::None, vec![WithinBudgets, AnyDisk]),
            (
                celeborn,
                other_rack,
                vec![WithinBudgets, AnyDisk, AnyDiskAnyRack],
            ),
        ] {
            assert_eq!(order(replication, &settings), expected);
        }
    }
}
