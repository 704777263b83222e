//! One pass of an offer: artifacts go to workers in turn, and on each worker to its disks in turn.

use brasserie_common::rng::Rng;

use super::super::settings::Compatibility;
use super::budgets::{Budgets, DiskBudget};
use super::rack_index::{RackIndex, RackNumber};
use super::{ArtifactId, ArtifactLocation, DiskPlace, SlotCandidate, SlotPass};

/// The workers and disks of a pass. Workers are positions in the list of candidates.
#[derive(Clone, Debug)]
pub struct PassPlan {
    pub pass: SlotPass,
    /// Workers for primaries.
    pub primaries: Vec<usize>,
    pub replicas: ReplicaWorkers,
    /// The disks that each candidate may use.
    pub budgets: Budgets,
    pub racks_differ: bool,
    pub replica_disk: ReplicaDisk,
}

/// The workers for replicas.
#[derive(Clone, Debug)]
pub enum ReplicaWorkers {
    /// Artifacts have no replicas.
    None,
    /// The list for primaries. A replica is never on the worker of its primary.
    AsPrimaries,
    /// Other workers.
    Others(Vec<usize>),
}

/// The disk of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaDisk {
    /// A disk of the replica's worker.
    Own,
    /// The id of the primary's disk, also if the replica's worker has no such disk: a defect of Celeborn.
    AsPrimary,
}

/// The disks of one worker in turn.
#[derive(Clone, Debug)]
struct DiskTurns {
    budgets: Vec<DiskBudget>,
    /// Position of the next disk. `None` until the first use, which draws it.
    next: Option<usize>,
    /// Number of disks with slots left.
    open: usize,
}

impl DiskTurns {
    fn new(budgets: Vec<DiskBudget>) -> Self {
        let open = budgets.iter().filter(|budget| budget.slots > 0).count();
        DiskTurns {
            budgets,
            next: None,
            open,
        }
    }

    /// Takes a slot of the next disk that has one, and returns the disk. The first use draws the disk that begins.
    ///
    /// Invariant: `open` is not 0, because workers without slots leave the lists of the pass.
    fn take(&mut self, rng: &mut Rng) -> usize {
        let count = self.budgets.len();
        let start = self.next.unwrap_or_else(|| rng.below(count));
        let position = (0..count)
            .map(|step| (start + step) % count)
            .find(|&position| self.budgets[position].slots > 0)
            .expect("a worker in the list of a pass has a disk with slots");
        self.next = Some((position + 1) % count);
        let budget = &mut self.budgets[position];
        budget.slots -= 1;
        self.open -= usize::from(budget.slots == 0);
        budget.disk
    }
}

/// A list of workers in turn.
#[derive(Clone, Debug)]
struct WorkerTurns {
    workers: Vec<usize>,
    available: RackIndex,
    /// Position of the worker whose turn is next.
    next: usize,
}

/// The list to which a position belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Primary,
    Replica,
}

/// The state of a pass.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    candidates: &'a [SlotCandidate],
    /// The rack of each candidate.
    racks: &'a [RackNumber],
    compatibility: Compatibility,
    pass: SlotPass,
    racks_differ: bool,
    replica_disk: ReplicaDisk,
    /// The disks of each candidate.
    disks: Vec<DiskTurns>,
    primaries: WorkerTurns,
    replicas: Option<WorkerTurns>,
    /// Both lists have the same workers at the same positions.
    one_list: bool,
}

impl<'a> Placement<'a> {
    /// Prepares a pass, and draws the workers that begin. Returns `None` if a list that is needed is empty.
    pub fn new(
        plan: PassPlan,
        candidates: &'a [SlotCandidate],
        racks: &'a [RackNumber],
        compatibility: Compatibility,
        rng: &mut Rng,
    ) -> Option<Self> {
        let one_list = matches!(plan.replicas, ReplicaWorkers::AsPrimaries);
        let others = match plan.replicas {
            ReplicaWorkers::None => None,
            ReplicaWorkers::AsPrimaries => Some(plan.primaries.clone()),
            ReplicaWorkers::Others(others) => Some(others),
        };
        if plan.primaries.is_empty() || others.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let disks: Vec<DiskTurns> = plan.budgets.into_iter().map(DiskTurns::new).collect();
        let has_disk = |worker: usize| disks[worker].open > 0;
        let mut turns = |workers: Vec<usize>, may_get: &dyn Fn(usize) -> bool| {
            let available = workers.iter();
            let available: Vec<Option<RackNumber>> = available
                .map(|&worker| may_get(worker).then_some(racks[worker]))
                .collect();
            WorkerTurns {
                available: RackIndex::new(&available),
                next: rng.below(workers.len()),
                workers,
            }
        };
        let primaries = turns(plan.primaries, &has_disk);
        let replicas = others.map(|others| match plan.replica_disk {
            ReplicaDisk::Own => turns(others, &has_disk),
            ReplicaDisk::AsPrimary => turns(others, &|_| true),
        });
        Some(Placement {
            candidates,
            racks,
            compatibility,
            pass: plan.pass,
            racks_differ: plan.racks_differ,
            replica_disk: plan.replica_disk,
            disks,
            primaries,
            replicas,
            one_list,
        })
    }

    /// Places artifacts, the last one first, until one finds no place: then no other would find one either. Returns the locations in this
    /// order.
    pub fn place(mut self, ids: &[ArtifactId], rng: &mut Rng) -> Vec<ArtifactLocation> {
        let ids = ids.iter().rev();
        ids.map_while(|&id| self.place_one(id, rng)).collect()
    }

    fn place_one(&mut self, id: ArtifactId, rng: &mut Rng) -> Option<ArtifactLocation> {
        let turns = &self.primaries;
        let at = turns.available.first_from(turns.next, None)?;
        let taken_before = match self.compatibility {
            Compatibility::Corrected => None,
            // The slot stays taken if the replica finds no worker.
            Compatibility::Celeborn => Some(self.take(Role::Primary, at, rng)),
        };
        let replica_at = match self.replicas {
            None => None,
            Some(_) => Some(self.find_replica(at)?),
        };
        let primary = match taken_before {
            Some(place) => place,
            None => self.take(Role::Primary, at, rng),
        };
        let replica = replica_at.map(|at| match self.replica_disk {
            ReplicaDisk::Own => self.take(Role::Replica, at, rng),
            ReplicaDisk::AsPrimary => DiskPlace {
                holder: self.candidates[self.worker(Role::Replica, at)].holder,
                disk: primary.disk,
            },
        });
        self.primaries.next = at + 1;
        if let (Some(turns), Some(at)) = (&mut self.replicas, replica_at) {
            turns.next = at + 1;
        }
        Some(ArtifactLocation {
            id,
            primary,
            replica,
            pass: self.pass,
        })
    }

    /// Returns the position of the next worker that may get the replica of a primary at the position `primary`.
    fn find_replica(&self, primary: usize) -> Option<usize> {
        let turns = self.replicas.as_ref()?;
        if self.racks_differ {
            let rack = self.racks[self.primaries.workers[primary]];
            return turns.available.first_from(turns.next, Some(rack));
        }
        let at = turns.available.first_from(turns.next, None)?;
        if !self.one_list || at != primary {
            return Some(at);
        }
        let at = turns.available.first_from(at + 1, None)?;
        (at != primary).then_some(at)
    }

    fn worker(&self, role: Role, at: usize) -> usize {
        match (role, &self.replicas) {
            (Role::Replica, Some(replicas)) => replicas.workers[at],
            (Role::Replica, None) | (Role::Primary, _) => self.primaries.workers[at],
        }
    }

    /// Takes a slot of the worker at a position of the role's list. A worker without slots leaves its lists.
    fn take(&mut self, role: Role, at: usize, rng: &mut Rng) -> DiskPlace {
        let worker = self.worker(role, at);
        let disks = &mut self.disks[worker];
        let disk = disks.take(rng);
        if disks.open == 0 {
            if role == Role::Primary || self.one_list {
                self.primaries.available.remove(at);
            }
            if let Some(replicas) = &mut self.replicas
                && (role == Role::Replica || self.one_list)
            {
                replicas.available.remove(at);
            }
        }
        let candidate = &self.candidates[worker];
        DiskPlace {
            holder: candidate.holder,
            disk: candidate.disks[disk].disk.id,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brasserie_common::rng::Purpose;

    use super::super::super::amounts::{Bytes, HolderId, Rack};
    use super::super::super::disk::{DiskClass, DiskId, DiskState, WorkerDisk};
    use super::super::CandidateDisk;
    use super::*;

    fn candidate(number: u32, slots: u64) -> SlotCandidate {
        let disk = WorkerDisk {
            id: DiskId(u64::from(number)),
            class: DiskClass::Ssd,
            total: Bytes::from_gib(1),
            usable: Bytes::from_gib(1),
            flush_time: Duration::ZERO,
            fetch_time: Duration::ZERO,
            active_slots: 0,
            state: DiskState::Healthy,
        };
        SlotCandidate {
            holder: HolderId(number),
            rack: Rack::default(),
            notice: None,
            disks: vec![CandidateDisk {
                disk,
                available: slots,
            }],
        }
    }

    /// Returns the slots left on both of two workers in one rack after a request for replicas in other racks.
    fn left_after_failure(compatibility: Compatibility) -> u64 {
        let candidates = [candidate(1, 5), candidate(2, 5)];
        let racks = [RackNumber(0); 2];
        let mut rng = Rng::new(1, Purpose::Placement);
        let plan = PassPlan {
            pass: SlotPass::WithinBudgets,
            primaries: vec![0, 1],
            replicas: ReplicaWorkers::AsPrimaries,
            budgets: vec![vec![DiskBudget { disk: 0, slots: 5 }]; 2],
            racks_differ: true,
            replica_disk: ReplicaDisk::Own,
        };
        let mut placement =
            Placement::new(plan, &candidates, &racks, compatibility, &mut rng).unwrap();
        assert_eq!(placement.place_one(ArtifactId(0), &mut rng), None);
        let budgets = placement.disks.iter().flat_map(|disks| &disks.budgets);
        budgets.map(|budget| budget.slots).sum()
    }

    #[test]
    fn a_failed_replica_costs_no_slot_of_its_primary() {
        assert_eq!(left_after_failure(Compatibility::Corrected), 10);
        assert_eq!(left_after_failure(Compatibility::Celeborn), 9);
    }

    #[test]
    fn disks_take_turns_and_exhausted_ones_are_skipped() {
        let budgets = [2, 0, 1].iter().enumerate();
        let mut turns = DiskTurns::new(
            budgets
                .map(|(disk, &slots)| DiskBudget { disk, slots })
                .collect(),
        );
        turns.next = Some(0);
        let mut rng = Rng::new(1, Purpose::Placement);
        let taken: Vec<usize> = (0..3).map(|_| turns.take(&mut rng)).collect();
        assert_eq!((taken, turns.open), (vec![0, 2, 0], 0));
    }
}
