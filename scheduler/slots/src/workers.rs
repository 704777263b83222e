//! The workers that store artifacts, and which of them may get slots.
//!
//! A worker may get slots if nothing speaks against it: [`ArtifactWorkers::reasons`] lists what does. The caller detects silent workers;
//! this module only records their loss.
//!
//! The lists are those of Apache Celeborn, and the tests show how a worker gets into each of them and leaves it. The scheduler passes on the workers'
//! disks, their losses and manual exclusions. It passes on no workloads, states of a drain or events: its orders to workers exclude these instead.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::rng::Rng;

use super::amounts::{Bytes, HolderId, Permille, Rack};
use super::disk::{DiskId, DiskState, WorkerDisk};
use super::drain::{DrainEvent, DrainState, EventRefused};
use super::offers::{CandidateDisk, SlotCandidate};
use super::reservations::Reservations;

/// Time for which a lost worker is remembered. Within it, operators see where the worker went, and it returns with its history.
const LOST_EXPIRY: Duration = Duration::from_secs(1800);

/// Rules about exclusion and expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPolicy {
    /// A worker is excluded if at least this part of its disks is unhealthy.
    pub unhealthy_disks: Permille,
    /// Workers with a high workload get slots again when at least this part of all workers is excluded. `None`: never.
    pub auto_release: Option<Permille>,
    pub lost_expiry: Duration,
}

impl WorkerPolicy {
    /// A useful value of `auto_release`.
    pub const AUTO_RELEASE: Permille = Permille(300);
}

impl Default for WorkerPolicy {
    fn default() -> Self {
        WorkerPolicy {
            unhealthy_disks: Permille::ALL,
            auto_release: None,
            lost_expiry: LOST_EXPIRY,
        }
    }
}

/// The workload of a worker's machine, in the worker's own judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadLevel {
    Normal,
    High,
}

/// The content of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerReport {
    pub disks: Vec<WorkerDisk>,
    pub workload: WorkloadLevel,
    pub state: DrainState,
    /// When the machine will be interrupted, such as a spot instance.
    pub notice: Option<Time>,
}

/// The content of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerRegistration {
    pub rack: Rack,
    pub report: WorkerReport,
}

/// Workers that a requester does not want.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExceptWorkers {
    pub holders: BTreeSet<HolderId>,
    pub racks: BTreeSet<Rack>,
}

/// Whether a registration was the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    First,
    /// The worker was registered, or remembered as lost.
    Again,
}

/// The error for a worker that is not registered. It must register again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the worker with the machine number {0} is not registered for artifacts")]
pub struct UnknownWorker(pub HolderId);

/// The reason why an event of an operator is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainRequestError {
    #[error(transparent)]
    Unknown(#[from] UnknownWorker),
    #[error(transparent)]
    Refused(#[from] EventRefused),
}

/// A condition under which a worker gets no slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IneligibleReason {
    NotRegistered,
    Lost {
        at: Time,
    },
    /// Too many disks are unhealthy.
    ExcludedDisks,
    ExcludedWorkload,
    ManuallyExcluded,
    /// The worker reports a state other than `Normal`.
    Draining(DrainState),
    /// The worker has not carried out this event yet.
    PendingEvent(DrainEvent),
    Decommissioned,
    ShuttingDown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exclusion {
    Disks,
    Workload,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Worker {
    rack: Rack,
    disks: BTreeMap<DiskId, WorkerDisk>,
    workload: WorkloadLevel,
    state: DrainState,
    notice: Option<Time>,
    exclusion: Option<Exclusion>,
}

impl Worker {
    fn new(registration: WorkerRegistration) -> Self {
        let report = registration.report;
        Worker {
            rack: registration.rack,
            disks: by_id(report.disks),
            workload: report.workload,
            state: report.state,
            notice: report.notice,
            exclusion: None,
        }
    }

    fn has_storage(&self, policy: &WorkerPolicy) -> bool {
        let disks = self.disks.len() as u64;
        let healthy = |disk: &&WorkerDisk| disk.state == DiskState::Healthy;
        let unhealthy = disks - self.disks.values().filter(healthy).count() as u64;
        disks > 0 && unhealthy * 1000 < disks * u64::from(policy.unhealthy_disks.0)
    }

    fn has_slots(&self, artifact: Bytes) -> bool {
        let mut disks = self.disks.values();
        disks.any(|disk| disk.is_healthy() && disk.available_slots(artifact, Bytes::ZERO) > 0)
    }

    /// Excludes the worker or ends its exclusion. A worker that was excluded returns only when it has slots.
    fn update_exclusion(&mut self, policy: &WorkerPolicy, artifact: Bytes) {
        self.exclusion = if !self.has_storage(policy) {
            Some(Exclusion::Disks)
        } else if self.workload == WorkloadLevel::High {
            Some(Exclusion::Workload)
        } else if self.has_slots(artifact) {
            None
        } else {
            self.exclusion
        };
    }
}

fn by_id(disks: Vec<WorkerDisk>) -> BTreeMap<DiskId, WorkerDisk> {
    disks.into_iter().map(|disk| (disk.id, disk)).collect()
}

/// All workers with artifacts, and the lists that keep them from getting slots.
///
/// Invariants: a worker is not registered and lost at once. A worker that drains, or that has a pending event, is not eligible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactWorkers {
    policy: WorkerPolicy,
    registered: BTreeMap<HolderId, Worker>,
    lost: BTreeMap<HolderId, Time>,
    manually_excluded: BTreeSet<HolderId>,
    shutting_down: BTreeSet<HolderId>,
    decommissioned: BTreeSet<HolderId>,
    pending: BTreeMap<HolderId, DrainEvent>,
}

impl ArtifactWorkers {
    pub fn new(policy: WorkerPolicy) -> Self {
        ArtifactWorkers {
            policy,
            registered: BTreeMap::new(),
            lost: BTreeMap::new(),
            manually_excluded: BTreeSet::new(),
            shutting_down: BTreeSet::new(),
            decommissioned: BTreeSet::new(),
            pending: BTreeMap::new(),
        }
    }

    /// Registers a worker that has started, or that a heartbeat told to do so. Its disks replace those of an earlier registration. Only a
    /// manual exclusion outlives a registration.
    pub fn register(
        &mut self,
        holder: HolderId,
        registration: WorkerRegistration,
        artifact: Bytes,
    ) -> Registered {
        let was_lost = self.lost.remove(&holder).is_some();
        self.shutting_down.remove(&holder);
        self.decommissioned.remove(&holder);
        self.pending.remove(&holder);
        let mut worker = Worker::new(registration);
        worker.update_exclusion(&self.policy, artifact);
        let before = self.registered.insert(holder, worker);
        self.release_high_workload(artifact);
        match before.is_some() || was_lost {
            true => Registered::Again,
            false => Registered::First,
        }
    }

    /// Applies a heartbeat, and returns the event that the worker must carry out. The caller passes the reports of one worker in the order
    /// in which the worker sent them.
    pub fn heartbeat(
        &mut self,
        holder: HolderId,
        report: WorkerReport,
        artifact: Bytes,
    ) -> Result<Option<DrainEvent>, UnknownWorker> {
        let worker = self.registered.get_mut(&holder);
        let worker = worker.ok_or(UnknownWorker(holder))?;
        worker.disks = by_id(report.disks);
        worker.workload = report.workload;
        worker.notice = report.notice;
        worker.update_exclusion(&self.policy, artifact);
        self.accept_state(holder, report.state);
        self.release_high_workload(artifact);
        Ok(self.pending.get(&holder).copied())
    }

    /// Accepts the announcement of a worker that it begins to drain, which it sends at once and not with the next heartbeat.
    pub fn announce_drain(
        &mut self,
        holder: HolderId,
        state: DrainState,
    ) -> Result<(), UnknownWorker> {
        if !self.registered.contains_key(&holder) {
            return Err(UnknownWorker(holder));
        }
        match state {
            DrainState::GracefulExit => {
                self.shutting_down.insert(holder);
            }
            DrainState::Decommissioning | DrainState::DecommissioningThenIdle => {
                self.decommissioned.insert(holder);
            }
            DrainState::Normal
            | DrainState::Idle
            | DrainState::ImmediateExit
            | DrainState::Exited => {}
        }
        self.accept_state(holder, state);
        Ok(())
    }

    /// Takes over a reported state. A state that says that a leaving worker has come back is older than the announcement: only a
    /// registration revives such a worker.
    fn accept_state(&mut self, holder: HolderId, state: DrainState) {
        let Some(worker) = self.registered.get_mut(&holder) else {
            return;
        };
        if worker.state.is_leaving() && !state.is_leaving() {
            return;
        }
        worker.state = state;
        let pending = self.pending.get(&holder);
        if pending.is_some_and(|event| event.is_done_in(state)) {
            self.pending.remove(&holder);
        }
        if state == DrainState::Normal {
            self.shutting_down.remove(&holder);
            self.decommissioned.remove(&holder);
        }
    }

    /// Ends the exclusion of workers with a high workload if too many workers are excluded: the others would get all their load.
    fn release_high_workload(&mut self, artifact: Bytes) {
        let Some(ratio) = self.policy.auto_release else {
            return;
        };
        let excluded = self.registered.values();
        let excluded = excluded.filter(|worker| worker.exclusion.is_some()).count() as u64;
        if excluded < ratio.of(self.registered.len() as u64) {
            return;
        }
        for worker in self.registered.values_mut() {
            if worker.exclusion == Some(Exclusion::Workload) && worker.has_slots(artifact) {
                worker.exclusion = None;
            }
        }
    }

    /// Records the loss of a worker. Returns false if it was not registered.
    pub fn lose(&mut self, holder: HolderId, now: Time) -> bool {
        let known = self.registered.remove(&holder).is_some();
        if known {
            self.lost.insert(holder, now);
        }
        known
    }

    /// Forgets the workers that have been lost for longer than the expiry time.
    pub fn expire(&mut self, now: Time) {
        let limit = self.policy.lost_expiry;
        let expired = self.lost.iter();
        let expired: Vec<HolderId> = expired
            .filter(|(_, at)| now.since(**at) > limit)
            .map(|(&holder, _)| holder)
            .collect();
        for holder in expired {
            self.lost.remove(&holder);
            self.shutting_down.remove(&holder);
            self.decommissioned.remove(&holder);
            self.pending.remove(&holder);
        }
    }

    /// Excludes a worker by order of an operator. The worker need not be registered.
    pub fn exclude(&mut self, holder: HolderId) {
        self.manually_excluded.insert(holder);
    }

    /// Ends an exclusion by an operator.
    pub fn readmit(&mut self, holder: HolderId) {
        self.manually_excluded.remove(&holder);
    }

    /// Records an event that the worker gets with its next heartbeats. It replaces an earlier event. Errors if the worker is on its way out.
    pub fn request_event(
        &mut self,
        holder: HolderId,
        event: DrainEvent,
    ) -> Result<(), DrainRequestError> {
        let worker = self.registered.get(&holder).ok_or(UnknownWorker(holder))?;
        let state = worker.state;
        if state.is_leaving() {
            return Err(EventRefused { state, event }.into());
        }
        self.pending.insert(holder, event);
        Ok(())
    }

    /// Withdraws the pending event. The worker may have received it.
    pub fn withdraw_event(&mut self, holder: HolderId) {
        self.pending.remove(&holder);
    }

    /// Returns all reasons why a worker gets no slots; none if it is eligible.
    pub fn reasons(&self, holder: HolderId) -> impl Iterator<Item = IneligibleReason> {
        let worker = self.registered.get(&holder);
        let exclusion = worker.and_then(|worker| worker.exclusion);
        let state = worker.map(|worker| worker.state);
        let listed = |list: &BTreeSet<HolderId>, reason| list.contains(&holder).then_some(reason);
        let reasons = [
            worker.is_none().then_some(IneligibleReason::NotRegistered),
            self.lost
                .get(&holder)
                .map(|&at| IneligibleReason::Lost { at }),
            exclusion.map(|exclusion| match exclusion {
                Exclusion::Disks => IneligibleReason::ExcludedDisks,
                Exclusion::Workload => IneligibleReason::ExcludedWorkload,
            }),
            listed(&self.manually_excluded, IneligibleReason::ManuallyExcluded),
            state
                .filter(|&state| state != DrainState::Normal)
                .map(IneligibleReason::Draining),
            self.pending
                .get(&holder)
                .map(|&event| IneligibleReason::PendingEvent(event)),
            listed(&self.decommissioned, IneligibleReason::Decommissioned),
            listed(&self.shutting_down, IneligibleReason::ShuttingDown),
        ];
        reasons.into_iter().flatten()
    }

    pub fn is_eligible(&self, holder: HolderId) -> bool {
        self.reasons(holder).next().is_none()
    }

    /// Returns the workers that are excluded automatically or manually, for owners of artifacts. These should write nothing to them.
    pub fn excluded(&self) -> BTreeSet<HolderId> {
        let automatically = self.registered.iter();
        let automatically = automatically
            .filter(|(_, worker)| worker.exclusion.is_some())
            .map(|(&holder, _)| holder);
        automatically
            .chain(self.manually_excluded.iter().copied())
            .collect()
    }

    /// Returns the workers that have announced a drain and have not come back, for owners of artifacts.
    pub fn leaving(&self) -> BTreeSet<HolderId> {
        &self.shutting_down | &self.decommissioned
    }

    /// Returns the workers that were lost, with the time of the loss.
    pub fn lost(&self) -> impl Iterator<Item = (HolderId, Time)> {
        self.lost.iter().map(|(&holder, &at)| (holder, at))
    }

    /// Returns the disks of a registered worker, by id.
    pub fn disks(&self, holder: HolderId) -> impl Iterator<Item = &WorkerDisk> {
        let worker = self.registered.get(&holder);
        worker.into_iter().flat_map(|worker| worker.disks.values())
    }

    /// Returns the size of the largest artifact for which a healthy disk of the worker has space; zero if the worker is not eligible.
    pub fn largest_space(&self, holder: HolderId, reservations: &Reservations) -> Bytes {
        if !self.is_eligible(holder) {
            return Bytes::ZERO;
        }
        let disks = self.disks(holder).filter(|disk| disk.is_healthy());
        let spaces = disks.map(|disk| disk.usable.less(reservations.reserved(holder, disk.id)));
        spaces.max().unwrap_or_default()
    }

    /// Returns the eligible workers by number, with the slots of their disks that no reservation takes.
    pub fn candidates(
        &self,
        artifact: Bytes,
        reservations: &Reservations,
        except: &ExceptWorkers,
    ) -> Vec<SlotCandidate> {
        let registered = self.registered.iter();
        let eligible = registered.filter(|worker| self.may_get(*worker, except));
        eligible
            .map(|worker| candidate(worker, artifact, reservations))
            .collect()
    }

    /// Returns some eligible workers with a slot on a healthy disk, at most `most` consecutive ones of these from `start` on.
    pub fn some_with_slots(
        &self,
        artifact: Bytes,
        reservations: &Reservations,
        except: &ExceptWorkers,
        (start, most): (HolderId, usize),
    ) -> Vec<SlotCandidate> {
        let circle = self.registered.range(start..);
        let circle = circle.chain(self.registered.range(..start));
        let eligible = circle.filter(|worker| self.may_get(*worker, except));
        let candidates = eligible.map(|worker| candidate(worker, artifact, reservations));
        let has_slot = |one: &CandidateDisk| one.disk.is_healthy() && one.available > 0;
        let with_slots = candidates.filter(|one| one.disks.iter().any(has_slot));
        with_slots.take(most).collect()
    }

    /// Returns any registered worker. Numbers have gaps, so that a random number would favour the worker after a large one.
    pub fn any(&self, rng: &mut Rng) -> Option<HolderId> {
        match self.registered.len() {
            0 => None,
            count => self.registered.keys().nth(rng.below(count)).copied(),
        }
    }

    fn may_get(&self, (holder, worker): (&HolderId, &Worker), except: &ExceptWorkers) -> bool {
        let is_wanted = !except.holders.contains(holder) && !except.racks.contains(&worker.rack);
        is_wanted && self.is_eligible(*holder)
    }
}

fn candidate(
    (&holder, worker): (&HolderId, &Worker),
    artifact: Bytes,
    reservations: &Reservations,
) -> SlotCandidate {
    let disks = worker.disks.values().map(|&disk| {
        let reserved = reservations.reserved(holder, disk.id);
        let available = disk.available_slots(artifact, reserved);
        CandidateDisk { disk, available }
    });
    SlotCandidate {
        holder,
        rack: worker.rack.clone(),
        notice: worker.notice,
        disks: disks.collect(),
    }
}

#[cfg(test)]
mod tests;
