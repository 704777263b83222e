//! The coordinator of the crate: it passes heartbeats, requests and completions to the components that they concern.

use std::collections::BTreeSet;

use brasserie_common::Time;
use brasserie_common::rng::Rng;

use super::amounts::{Bytes, HolderId};
use super::drain::{DrainEvent, DrainState};
use super::estimate::{EstimateSettings, SizeEstimate};
use super::offers::{
    ArtifactId, NoOffer, SlotCandidate, SlotOffer, SlotRequest, choose_candidates, choose_spares,
    offer_slots,
};
use super::reservations::{ReservationId, Reservations};
use super::settings::{Replication, SlotSettings};
use super::workers::{
    ArtifactWorkers, DrainRequestError, Registered, UnknownWorker, WorkerPolicy,
    WorkerRegistration, WorkerReport,
};

/// Settings of all components.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllocatorSettings {
    pub slots: SlotSettings,
    pub workers: WorkerPolicy,
    pub estimate: EstimateSettings,
}

/// A request for slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    pub ids: Vec<ArtifactId>,
    pub replication: Replication,
    /// Workers that the requester does not want.
    pub except: BTreeSet<HolderId>,
    /// Most workers to use. `None` is the limit of the scheduler.
    pub most_workers: Option<usize>,
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

    /// Accepts the announcement of a worker that it begins to drain.
    pub fn announce_drain(
        &mut self,
        holder: HolderId,
        state: DrainState,
    ) -> Result<(), UnknownWorker> {
        self.workers.announce_drain(holder, state)
    }

    /// Records the loss of a worker.
    pub fn lose(&mut self, holder: HolderId, now: Time) {
        if self.workers.lose(holder, now) {
            self.reservations.forget(holder);
        }
    }

    /// Records an event of an operator.
    pub fn request_event(
        &mut self,
        holder: HolderId,
        event: DrainEvent,
    ) -> Result<(), DrainRequestError> {
        self.workers.request_event(holder, event)
    }

    /// Withdraws an event of an operator.
    pub fn withdraw_event(&mut self, holder: HolderId) {
        self.workers.withdraw_event(holder);
    }

    /// Excludes a worker by order of an operator.
    pub fn exclude(&mut self, holder: HolderId) {
        self.workers.exclude(holder);
    }

    /// Ends an exclusion by an operator.
    pub fn readmit(&mut self, holder: HolderId) {
        self.workers.readmit(holder);
    }

    /// Grants slots for all artifacts of a request and reserves them, or changes nothing.
    pub fn request_slots(
        &mut self,
        request: &GrantRequest,
        now: Time,
        rng: &mut Rng,
    ) -> Result<Grant, NoOffer> {
        let eligible = self.candidates(&request.except);
        let replication = request.replication;
        let chosen = choose_candidates(eligible.clone(), replication, request.most_workers, rng);
        let slots = SlotRequest {
            ids: &request.ids,
            replication,
        };
        let offer = offer_slots(&chosen, slots, &self.settings, rng)?;
        let spares = choose_spares(&eligible, &offer, rng);
        let reservation = self.reservations.reserve(offer.disks(), now);
        Ok(Grant {
            offer,
            spares,
            reservation,
        })
    }

    fn candidates(&self, except: &BTreeSet<HolderId>) -> Vec<SlotCandidate> {
        let artifact = self.estimate.current();
        self.workers
            .candidates(artifact, &self.reservations, except)
    }

    /// Ends a grant: its tasks have completed or will not run.
    pub fn release(&mut self, reservation: ReservationId) {
        self.reservations.release(reservation);
    }

    /// Counts an output artifact of an accepted completion.
    pub fn record_output(&mut self, size: Bytes) {
        self.estimate.record(size);
    }

    /// Does what time brings: forgets lost workers, and updates the estimated size. Returns the size if it has changed.
    pub fn advance(&mut self, now: Time) -> Option<Bytes> {
        self.workers.expire(now);
        self.estimate.update(now)
    }
}

#[cfg(test)]
mod tests;
