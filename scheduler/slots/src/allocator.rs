//! The coordinator of the crate: it passes heartbeats, requests and completions to the components that they concern.

use std::collections::BTreeSet;

use brasserie_common::Time;
use brasserie_common::rng::Rng;

use super::amounts::{Bytes, HolderId};
use super::disk::DiskId;
use super::drain::DrainEvent;
use super::estimate::{EstimateSettings, SizeEstimate};
use super::offers::{
    ArtifactId, ArtifactLocation, DiskPlace, NoOffer, SlotCandidate, SlotOffer, SlotPass,
    SlotRequest, choose_candidates, choose_spares, offer_slots,
};
use super::reservations::{ReservationId, Reservations};
use super::settings::{Replication, SlotSettings};
use super::workers::{
    ArtifactWorkers, ExceptWorkers, Registered, UnknownWorker, WorkerPolicy, WorkerRegistration,
    WorkerReport,
};

/// The workers among which one is chosen for each copy: enough for an even use, and so few that a choice for some copies takes a fraction of a
/// millisecond on a large cluster.
const WORKERS_FOR_COPY: usize = 2;

/// Settings of all components.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllocatorSettings {
    pub slots: SlotSettings,
    pub workers: WorkerPolicy,
    pub estimate: EstimateSettings,
}

/// A request for slots of artifacts that do not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    pub ids: Vec<ArtifactId>,
    pub replication: Replication,
    pub except: ExceptWorkers,
    /// Most workers to use. `None` is the limit of the scheduler.
    pub most_workers: Option<usize>,
    /// The time at which the grant ends by itself.
    pub until: Time,
}

/// A request for slots of further copies of artifacts that exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyRequest {
    /// Each gets one slot.
    pub ids: Vec<ArtifactId>,
    /// The size of the largest one.
    pub size: Bytes,
    pub except: ExceptWorkers,
}

/// The slot of one further copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedCopy {
    pub id: ArtifactId,
    pub place: DiskPlace,
    /// The number under which the slot is reserved.
    pub reservation: ReservationId,
    /// The time at which the slot ends by itself.
    pub until: Time,
}

/// The slots of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub offer: SlotOffer,
    /// Workers without slots of this grant, for the replacement of failed ones.
    pub spares: Vec<HolderId>,
    /// The number under which the slots are reserved.
    pub reservation: ReservationId,
}

/// Everything that the scheduler knows about artifact slots.
///
/// Invariant: apart from the passes that ignore space, the unreported slots of a disk are at most those that it had available when its
/// worker last reported.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocator {
    settings: SlotSettings,
    workers: ArtifactWorkers,
    reservations: Reservations,
    estimate: SizeEstimate,
}

impl Allocator {
    pub fn new(settings: AllocatorSettings, now: Time) -> Self {
        Allocator {
            settings: settings.slots,
            workers: ArtifactWorkers::new(settings.workers),
            reservations: Reservations::default(),
            estimate: SizeEstimate::new(settings.estimate, now),
        }
    }

    pub fn workers(&self) -> &ArtifactWorkers {
        &self.workers
    }

    pub fn reservations(&self) -> &Reservations {
        &self.reservations
    }

    /// Takes the workers whose reserved space has changed since the last call.
    pub fn take_changed(&mut self) -> BTreeSet<HolderId> {
        self.reservations.take_changed()
    }

    /// Returns the estimated size of an artifact.
    pub fn estimated_size(&self) -> Bytes {
        self.estimate.current()
    }

    /// Registers a worker. Reservations of its earlier instance end, because that instance's tasks do not write any more.
    pub fn register(&mut self, holder: HolderId, registration: WorkerRegistration) -> Registered {
        self.reservations.forget(holder);
        let artifact = self.estimate.current();
        self.workers.register(holder, registration, artifact)
    }

    /// Applies a heartbeat whose disks contain all slots that were granted until `included`. A caller that knows no better passes the time
    /// of the last call that the worker answered before it sent the heartbeat. Returns the event that the worker must carry out.
    pub fn heartbeat(
        &mut self,
        holder: HolderId,
        report: WorkerReport,
        included: Time,
    ) -> Result<Option<DrainEvent>, UnknownWorker> {
        let artifact = self.estimate.current();
        let event = self.workers.heartbeat(holder, report, artifact)?;
        self.reservations.report(holder, included);
        Ok(event)
    }

    /// Records the loss of a worker.
    pub fn lose(&mut self, holder: HolderId, now: Time) {
        if self.workers.lose(holder, now) {
            self.reservations.forget(holder);
        }
    }

    /// Excludes a worker by order of an operator.
    pub fn exclude(&mut self, holder: HolderId) {
        self.workers.exclude(holder);
    }

    /// Ends an exclusion by an operator.
    pub fn readmit(&mut self, holder: HolderId) {
        self.workers.readmit(holder);
    }

    /// Grants slots for all artifacts of a request and reserves them, or changes nothing. A slot has the estimated size.
    pub fn request_slots(
        &mut self,
        request: &GrantRequest,
        now: Time,
        rng: &mut Rng,
    ) -> Result<Grant, NoOffer> {
        let size = self.estimate.current();
        let eligible = self.candidates(size, &request.except);
        let replication = request.replication;
        let chosen = choose_candidates(eligible.clone(), replication, request.most_workers, rng);
        let slots = SlotRequest {
            ids: &request.ids,
            replication,
        };
        let offer = offer_slots(&chosen, slots, &self.settings, rng)?;
        let spares = choose_spares(&eligible, &offer, rng);
        let bytes = |slots: u64| Bytes(slots.saturating_mul(size.0));
        let space = offer.disks();
        let space = space.map(|(holder, disk, slots)| (holder, disk, bytes(slots)));
        let reservation = self.reservations.reserve(space, now, request.until);
        Ok(Grant {
            offer,
            spares,
            reservation,
        })
    }

    /// Grants slots for further copies and reserves each of them until the time that `until` returns for the copy and its worker. Leaves out
    /// copies for which no healthy disk has space. Errors if none is left.
    pub fn request_copies(
        &mut self,
        request: &CopyRequest,
        now: Time,
        mut until: impl FnMut(ArtifactId, HolderId) -> Time,
        rng: &mut Rng,
    ) -> Result<Vec<GrantedCopy>, NoOffer> {
        let replication = Replication::None;
        let start = self.workers.any(rng).ok_or(NoOffer::NoWorker)?;
        let most = request.ids.len().saturating_mul(WORKERS_FOR_COPY);
        let chosen = self.some_with_slots(request.size, &request.except, (start, most));
        if chosen.is_empty() {
            return Err(NoOffer::NoSpace);
        }
        let slots = SlotRequest {
            ids: &request.ids,
            replication,
        };
        let offer = offer_slots(&chosen, slots, &self.settings, rng)?;
        let locations = offer.locations.into_iter();
        // The size is known, so that the other passes would exceed the space of a disk.
        let locations = locations.filter(|one| one.pass == SlotPass::WithinBudgets);
        let reserve = |one: ArtifactLocation| {
            let place = one.primary;
            let space = [(place.holder, place.disk, request.size)];
            let until = until(one.id, place.holder);
            GrantedCopy {
                id: one.id,
                place,
                reservation: self.reservations.reserve(space, now, until),
                until,
            }
        };
        let granted: Vec<GrantedCopy> = locations.map(reserve).collect();
        match granted.is_empty() {
            true => Err(NoOffer::NoSpace),
            false => Ok(granted),
        }
    }

    fn candidates(&self, size: Bytes, except: &ExceptWorkers) -> Vec<SlotCandidate> {
        self.workers.candidates(size, &self.reservations, except)
    }

    fn some_with_slots(
        &self,
        size: Bytes,
        except: &ExceptWorkers,
        which: (HolderId, usize),
    ) -> Vec<SlotCandidate> {
        self.workers
            .some_with_slots(size, &self.reservations, except, which)
    }

    /// Returns the size of the largest artifact for which a healthy disk of the worker has space; zero if the worker may get none.
    pub fn largest_space(&self, holder: HolderId) -> Bytes {
        self.workers.largest_space(holder, &self.reservations)
    }

    /// Returns the healthy disk of a worker with the most space that is not reserved, and that space; `None` without a healthy disk.
    pub fn roomiest_disk(&self, holder: HolderId) -> Option<(Bytes, DiskId)> {
        let disks = self.workers.disks(holder).filter(|disk| disk.is_healthy());
        let space = disks.map(|disk| {
            let reserved = self.reservations.reserved(holder, disk.id);
            (disk.usable.less(reserved), disk.id)
        });
        space.max()
    }

    /// Reserves space on a disk, whether or not it has some, until the reservation is released or the worker is lost.
    pub fn reserve(&mut self, place: DiskPlace, size: Bytes, now: Time) -> ReservationId {
        let space = [(place.holder, place.disk, size)];
        self.reservations.reserve(space, now, Time::NEVER)
    }

    /// Ends a grant: its tasks have completed or will not run.
    pub fn release(&mut self, reservation: ReservationId) {
        self.reservations.release(reservation);
    }

    /// Counts an output artifact of an accepted completion.
    pub fn record_output(&mut self, size: Bytes) {
        self.estimate.record(size);
    }

    /// Does what time brings: ends grants, forgets lost workers, and updates the estimated size. Returns the size if it has changed.
    pub fn advance(&mut self, now: Time) -> Option<Bytes> {
        self.reservations.expire(now);
        self.workers.expire(now);
        self.estimate.update(now)
    }
}

#[cfg(test)]
mod tests;
