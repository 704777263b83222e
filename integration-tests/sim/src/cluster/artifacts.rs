//! Artifacts in the world: the calls between desks, the time that work on files takes, and the faults of stores.

use std::time::Duration;

use brasserie_common::{ArtifactId, ArtifactNamespace, DiskGeneration};
use brasserie_worker_gather::{PeerId, TransferId};

use super::packets::{COPY, Caller, FIRST_PORT, PacketOutcome};
use super::{Cluster, Due};
use crate::artifact_events::ArtifactEvent;
use crate::event_log::{CallTag, FaultKind, Happening, WorkerPlace};
use crate::hosts::ToScheduler;
use crate::hosts::desk::{DeskInput, DeskOutput, FetchAnswer, ReportOutcome};
use crate::hosts::worker::WorkerInput;
use crate::store::{ArtifactKey, CopyState, Store};

/// The first tag of desks' calls, between those of schedulers and those of workers.
const FIRST_TAG: u32 = 1 << 29;
/// The longest time that a thread for files takes.
const LONGEST_WORK: Duration = Duration::from_secs(2);
/// The longest time that a peer takes to read the bytes of an answer: less than the deadline of a call.
const LONGEST_READ: Duration = Duration::from_secs(3);
/// The most disks of a store.
const MOST_DISKS: usize = 2;

/// A request of one worker's desk to another.
#[derive(Clone, Debug)]
pub(super) enum PeerRequest {
    Fetch(ArtifactNamespace, Vec<ArtifactId>),
    Check(ArtifactKey),
}

impl Cluster {
    /// Gives each worker place a store, if tasks of this world have artifacts.
    pub(super) fn install_stores(&mut self) {
        if self.swarm.artifacts.is_none() {
            return;
        }
        for at in 0..self.workers.len() {
            let disks = 1 + self.stores.below(MOST_DISKS);
            let generations = self.draw_generations(disks);
            let place = self.workers[at].place();
            let host = crate::hosts::worker::WorkerHost::new(place);
            self.workers[at] = host.with_store(Some(Store::new(generations)));
        }
    }

    fn draw_generations(&mut self, disks: usize) -> Vec<DiskGeneration> {
        let mut draw = || u128::from(self.stores.next_u64());
        (0..disks).map(|_| DiskGeneration(draw())).collect()
    }

    /// Performs an order of a desk.
    pub(super) fn perform_order(&mut self, place: WorkerPlace, order: DeskOutput) {
        match order {
            DeskOutput::Start(_) => unreachable!("Invariant: a start leaves the host as a spawn"),
            DeskOutput::Prepare(run) => self.after_work(place, DeskInput::Prepare(run)),
            DeskOutput::Take(run) => self.after_work(place, DeskInput::Take(run)),
            DeskOutput::Delete(unwanted) => {
                self.after_work(place, DeskInput::Delete(unwanted));
            }
            DeskOutput::Ended(end) => {
                let generation = self.worker(place).generation();
                let most = Duration::from_millis(5);
                let after = self.stores.skewed(Duration::from_micros(50), most);
                self.worker_hears(place, generation, after, WorkerInput::RunEnded(end));
            }
            DeskOutput::Fetch {
                transfer,
                peer,
                namespace,
                artifacts,
            } => {
                let request = PeerRequest::Fetch(namespace, artifacts);
                self.call_peer(place, &peer, Some(transfer), request);
            }
            DeskOutput::HaveChecked(peer, key) => {
                self.call_peer(place, &peer, None, PeerRequest::Check(key));
            }
            DeskOutput::Answer { tag, answer } => self.answer_peer(place, tag, answer),
            DeskOutput::Report(report) => {
                let callee = self.worker_post(place).route;
                let caller = Caller::Reporter {
                    place,
                    generation: self.worker(place).generation(),
                    callee,
                };
                let request = ToScheduler::Artifacts(report);
                self.report(caller, request);
            }
        }
    }

    /// Lets the desk know after the time that a thread for files takes.
    fn after_work(&mut self, place: WorkerPlace, input: DeskInput) {
        let generation = self.worker(place).generation();
        let after = self.stores.skewed(Duration::from_millis(1), LONGEST_WORK);
        self.worker_hears(place, generation, after, WorkerInput::Desk(input));
    }

    fn next_desk_tag(&mut self) -> CallTag {
        self.desk_calls += 1;
        CallTag(FIRST_TAG + self.desk_calls)
    }

    fn report(&mut self, caller: Caller, request: ToScheduler) {
        let Caller::Reporter { place, callee, .. } = caller else {
            return;
        };
        let tag = self.next_desk_tag();
        let from = self.worker_machine(place);
        let to = self.scheduler_post(callee).machine;
        let Some((after, again)) = self.send(tag, caller, from, to) else {
            return;
        };
        if let Some(again) = again {
            let copy = Due::SchedulerRequest {
                place: callee,
                tag: CallTag(tag.0 | COPY),
                request: request.clone(),
            };
            self.queue.push(self.now + again, copy);
        }
        let packet = Due::SchedulerRequest {
            place: callee,
            tag,
            request,
        };
        self.queue.push(self.now + after, packet);
    }

    fn call_peer(
        &mut self,
        place: WorkerPlace,
        peer: &PeerId,
        transfer: Option<TransferId>,
        request: PeerRequest,
    ) {
        let callee = place_of(peer);
        let caller = Caller::Desk {
            place,
            generation: self.worker(place).generation(),
            transfer,
            callee,
        };
        let tag = self.next_desk_tag();
        let (from, to) = (self.worker_machine(place), self.worker_machine(callee));
        if let Some((after, again)) = self.send(tag, caller, from, to) {
            if let Some(again) = again {
                let copy = Due::PeerRequest {
                    place: callee,
                    tag: CallTag(tag.0 | COPY),
                    request: request.clone(),
                };
                self.queue.push(self.now + again, copy);
            }
            let packet = Due::PeerRequest {
                place: callee,
                tag,
                request,
            };
            self.queue.push(self.now + after, packet);
        }
    }

    pub(super) fn request_to_peer(
        &mut self,
        place: WorkerPlace,
        tag: CallTag,
        request: PeerRequest,
    ) {
        if self.worker(place).core().is_none() {
            return self.nobody_there(tag);
        }
        let input = match request {
            PeerRequest::Fetch(namespace, artifacts) => DeskInput::Asked {
                tag,
                namespace,
                artifacts,
            },
            PeerRequest::Check(key) => DeskInput::CheckAsked(key),
        };
        self.drive_worker(place, WorkerInput::Desk(input));
    }

    /// Answers a peer: at once if the worker is busy, or else when the bytes are read.
    fn answer_peer(&mut self, place: WorkerPlace, tag: CallTag, answer: FetchAnswer) {
        let after = match &answer {
            FetchAnswer::Busy | FetchAnswer::Failed => Duration::ZERO,
            FetchAnswer::Copies(_) => {
                let generation = self.worker(place).generation();
                let after = self.stores.skewed(Duration::from_millis(1), LONGEST_READ);
                let served = WorkerInput::Desk(DeskInput::Served);
                self.worker_hears(place, generation, after, served);
                after
            }
        };
        self.queue
            .push(self.now + after, Due::PeerAnswer { tag, answer });
    }

    /// Reports the outcome of a desk's call.
    pub(super) fn desk_knows(&mut self, caller: Caller, outcome: PacketOutcome) {
        let (place, generation, input) = match caller {
            Caller::Desk {
                place,
                generation,
                transfer: Some(transfer),
                ..
            } => {
                let answer = match outcome {
                    PacketOutcome::Copies(answer) => answer,
                    _ => FetchAnswer::Failed,
                };
                (place, generation, DeskInput::Fetched(transfer, answer))
            }
            Caller::Reporter {
                place, generation, ..
            } => {
                let outcome = match outcome {
                    PacketOutcome::Report(outcome) => outcome,
                    _ => ReportOutcome::Failed,
                };
                (place, generation, DeskInput::Reported(outcome))
            }
            Caller::Desk { transfer: None, .. }
            | Caller::Scheduler { .. }
            | Caller::Worker { .. } => return,
        };
        if self.worker(place).generation() == generation {
            self.drive_worker(place, WorkerInput::Desk(input));
        }
    }

    /// Injects a fault of a store. Returns whether it was possible.
    pub(super) fn harm_store(&mut self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::DisksLost => self.lose_disks(),
            FaultKind::CopyDamaged => self.spoil_copy(CopyState::Damaged),
            FaultKind::CopyMissing => self.spoil_copy(CopyState::Missing),
            FaultKind::DiskFull => self.fill_disks(),
            _ => false,
        }
    }

    /// Kills a worker and replaces its disks before the next one starts.
    fn lose_disks(&mut self) -> bool {
        let place = self.any_place();
        if self.is_suspended(self.worker_machine(place)) {
            return false;
        }
        self.kill_worker(place);
        let disks = self.worker(place).store().map_or(0, Store::disk_count);
        let generations = self.draw_generations(disks);
        if let Some(store) = self.workers[usize::from(place.0)].store_mut() {
            store.wipe(generations);
            let event = ArtifactEvent::DisksReplaced { place };
            self.log.push(Happening::Artifacts(Box::new(event)));
        }
        true
    }

    /// Damages a copy, or removes its file, behind the back of its store.
    fn spoil_copy(&mut self, state: CopyState) -> bool {
        let place = self.any_place();
        let Some(store) = self.worker(place).store() else {
            return false;
        };
        let keys: Vec<ArtifactKey> = store.copies().map(|(key, _)| key.clone()).collect();
        let Some(key) = self.stores.pick(&keys).cloned() else {
            return false;
        };
        let store = self.workers[usize::from(place.0)].store_mut();
        store.is_some_and(|store| store.spoil(&key, state))
    }

    /// Fills the disks of a worker, or frees them.
    fn fill_disks(&mut self) -> bool {
        let place = self.any_place();
        let store = self.workers[usize::from(place.0)].store_mut();
        store.is_some_and(|store| {
            let is_full = store.is_full();
            store.set_full(!is_full);
            !is_full
        })
    }

    /// Ends the faults of stores. Copies that are damaged or missing stay so.
    pub(super) fn free_disks(&mut self) {
        for host in &mut self.workers {
            if let Some(store) = host.store_mut() {
                store.set_full(false);
            }
        }
    }
}

fn place_of(peer: &PeerId) -> WorkerPlace {
    let port = peer.0.rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.expect("Invariant: the address of a worker ends with its port");
    WorkerPlace(port - FIRST_PORT)
}
