//! The choice of a worker and a disk for each artifact of a request, and for its replica.
//!
//! An offer is made in passes ([`SlotPass`]), each for the artifacts that the passes before it left over. The first pass stays within the
//! budgets of disks; later ones relax one condition after the other, and treat disks as if they had infinite space. So an offer succeeds
//! whenever enough workers have a disk.

mod budgets;
mod passes;
mod placement;
mod rack_index;

use std::collections::BTreeMap;

use brasserie_common::Time;
use brasserie_common::rng::Rng;

use super::amounts::{HolderId, Rack};
use super::disk::{DiskId, WorkerDisk};
use super::settings::{Replication, SlotSettings};

/// Most workers of one offer. More workers make an offer slower, and spread its artifacts no better.
const MAX_WORKERS: usize = 10_000;
/// Least number of workers, with and without slots, that a requester should know. A requester with few workers could not replace a failed
/// one without another request.
const MIN_KNOWN_WORKERS: usize = 100;
/// Number of spare workers that a requester gets even if it has many workers.
const SPARE_WORKERS: usize = 2;

/// The number of an output artifact within its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactId(pub u32);

/// A worker that may get slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCandidate {
    pub holder: HolderId,
    pub rack: Rack,
    /// When the machine will be interrupted.
    pub notice: Option<Time>,
    pub disks: Vec<CandidateDisk>,
}

/// A disk of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CandidateDisk {
    pub disk: WorkerDisk,
    /// Artifacts that fit on the disk besides those with a reserved slot.
    pub available: u64,
}

/// Artifacts that need slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRequest<'a> {
    pub ids: &'a [ArtifactId],
    pub replication: Replication,
}

/// The place of one copy of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskPlace {
    pub holder: HolderId,
    pub disk: DiskId,
}

/// The places of one artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactLocation {
    pub id: ArtifactId,
    pub primary: DiskPlace,
    pub replica: Option<DiskPlace>,
    /// The pass that found the places.
    pub pass: SlotPass,
}

/// A pass over the artifacts without a place. Its conditions hold for all places that it finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotPass {
    /// Each disk is healthy and within its budget. With interruption notices, no worker has one.
    WithinBudgets,
    /// Replicas are on workers that are interrupted soon, primaries are not.
    AwayFromInterruptions,
    /// Disks are healthy. Racks of primary and replica differ if the request asks for it.
    HealthyDisks,
    /// Disks are healthy.
    HealthyDisksAnyRack,
    /// Racks of primary and replica differ if the request asks for it.
    AnyDisk,
    /// Workers of primary and replica differ, as in every pass.
    AnyDiskAnyRack,
}

/// Slots of an offer on one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSlots {
    pub primaries: u64,
    pub replicas: u64,
    /// Primaries and replicas by disk.
    pub disks: BTreeMap<DiskId, u64>,
}

/// Places for all artifacts of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotOffer {
    /// One location for each artifact, in the order of the request.
    pub locations: Vec<ArtifactLocation>,
    /// The workers with slots.
    pub workers: BTreeMap<HolderId, WorkerSlots>,
}

/// The reason why there is no offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoOffer {
    #[error("no worker may get artifacts")]
    NoWorker,
    #[error("only one worker may get artifacts, and replicas need a second one")]
    OneWorker,
    #[error("too few of the workers that may get artifacts have a disk")]
    TooFewDisks,
    #[error("no healthy disk of the workers that may get artifacts has space")]
    NoSpace,
}

/// Offers a place for each artifact, and for its replica if the request wants replicas: for all of them, or for none.
///
/// The result depends only on the arguments and on the state of `rng`.
pub fn offer_slots(
    candidates: &[SlotCandidate],
    request: SlotRequest<'_>,
    settings: &SlotSettings,
    rng: &mut Rng,
) -> Result<SlotOffer, NoOffer> {
    if request.ids.is_empty() {
        return Ok(SlotOffer::default());
    }
    match (candidates.len(), request.replication) {
        (0, _) => return Err(NoOffer::NoWorker),
        (1, Replication::OtherWorker | Replication::OtherRack) => return Err(NoOffer::OneWorker),
        _ => {}
    }
    let locations = passes::place_all(candidates, request, settings, rng);
    if locations.len() < request.ids.len() {
        return Err(NoOffer::TooFewDisks);
    }
    let workers = count_slots(&locations);
    Ok(SlotOffer { locations, workers })
}

fn count_slots(locations: &[ArtifactLocation]) -> BTreeMap<HolderId, WorkerSlots> {
    let mut workers: BTreeMap<HolderId, WorkerSlots> = BTreeMap::new();
    for location in locations {
        let worker = workers.entry(location.primary.holder).or_default();
        worker.primaries += 1;
        *worker.disks.entry(location.primary.disk).or_default() += 1;
        if let Some(replica) = location.replica {
            let worker = workers.entry(replica.holder).or_default();
            worker.replicas += 1;
            *worker.disks.entry(replica.disk).or_default() += 1;
        }
    }
    workers
}

impl SlotOffer {
    /// Returns the number of slots on each disk.
    pub fn disks(&self) -> impl Iterator<Item = (HolderId, DiskId, u64)> {
        self.workers.iter().flat_map(|(&holder, worker)| {
            let disks = worker.disks.iter();
            disks.map(move |(&disk, &slots)| (holder, disk, slots))
        })
    }
}

/// Returns the candidates for one request: consecutive ones from a random start, at most `most` of them. Two are taken for replicas even if
/// `most` is 1. A `most` of `None` is the limit of the scheduler.
pub fn choose_candidates(
    mut all: Vec<SlotCandidate>,
    replication: Replication,
    most: Option<usize>,
    rng: &mut Rng,
) -> Vec<SlotCandidate> {
    let most = most.filter(|&most| most > 0).unwrap_or(MAX_WORKERS);
    let count = most.min(MAX_WORKERS).max(replication.copies());
    start_anywhere(&mut all, rng);
    all.truncate(count);
    all
}

/// Returns workers without slots for a requester that has to replace a failed worker: at least two, and so many that it knows 100 workers.
/// Fewer if there are no more.
pub fn choose_spares(
    candidates: &[SlotCandidate],
    offer: &SlotOffer,
    rng: &mut Rng,
) -> Vec<HolderId> {
    let unused = candidates.iter().map(|candidate| candidate.holder);
    let mut unused: Vec<HolderId> = unused
        .filter(|holder| !offer.workers.contains_key(holder))
        .collect();
    let count = SPARE_WORKERS.max(MIN_KNOWN_WORKERS.saturating_sub(offer.workers.len()));
    start_anywhere(&mut unused, rng);
    unused.truncate(count);
    unused
}

/// Makes a random element the first one. The order on the circle stays.
fn start_anywhere<T>(items: &mut [T], rng: &mut Rng) {
    items.rotate_left(rng.below(items.len()));
}

#[cfg(test)]
mod tests;
