//! Rules for the choice of peers, and of the artifacts that one request contains.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::super::action::GatherAction;
use super::super::holdings::NeededFrom;
use super::super::transfers::TransferBatch;
use super::super::types::{ByteCount, Distance, PeerId, Pressure, Priority, TransferPurpose};
use super::{Gather, Turn};

/// A peer that may receive a request. The order of the fields is the order of the choice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PeerCandidate {
    priority: Priority,
    distance: Distance,
    /// Peers with more artifacts come first, because one request fetches them together.
    count: Reverse<usize>,
    /// A random number spreads the requests of several workers over equal peers.
    lot: u64,
    peer: PeerId,
}

impl PeerCandidate {
    fn new(peer: PeerId, needed: NeededFrom, lot: u64) -> PeerCandidate {
        PeerCandidate {
            priority: needed.priority,
            distance: needed.distance,
            count: Reverse(needed.count),
            lot,
            peer,
        }
    }
}

impl Gather {
    /// Starts all requests that are possible now.
    pub(super) fn start_transfers(&mut self, turn: &mut Turn) {
        if !self.may_start() {
            return;
        }
        let mut candidates = self.candidates();
        while let Some(candidate) = candidates.pop_first() {
            // An earlier request of this evaluation may have taken artifacts that this peer holds too.
            let Some(needed) = self.artifacts.needed_from(&candidate.peer) else {
                continue;
            };
            if !self.is_idle(&candidate.peer, needed) {
                continue;
            }
            if Reverse(needed.count) != candidate.count {
                candidates.insert(PeerCandidate::new(candidate.peer, needed, candidate.lot));
                continue;
            }
            let batch = self.select(&candidate.peer);
            // The most urgent artifact waits for the end of a transfer. Smaller ones do not overtake it, or it might wait for ever.
            if batch.artifacts.is_empty() {
                break;
            }
            self.start(candidate.peer.clone(), batch, turn);
            if !self.may_start() {
                break;
            }
            // The peer may have replicas, too.
            if let Some(needed) = self.artifacts.needed_from(&candidate.peer)
                && self.is_idle(&candidate.peer, needed)
            {
                candidates.insert(PeerCandidate::new(candidate.peer, needed, candidate.lot));
            }
        }
    }

    /// Returns whether the pressure and the limits allow another request.
    pub(super) fn may_start(&self) -> bool {
        match self.pressure {
            Pressure::Normal => !self.transfers.are_throttled(&self.limits),
            Pressure::High => false,
        }
    }

    /// Returns whether a request for the peer's most urgent artifact is permitted now: the peer is not marked as busy, and has no other
    /// request of this purpose.
    pub(super) fn is_idle(&self, peer: &PeerId, needed: NeededFrom) -> bool {
        let purpose = needed.priority.purpose();
        !self.marks.is_marked(peer) && !self.transfers.has(peer, purpose)
    }

    /// Returns the idle peers that hold needed artifacts.
    fn candidates(&mut self) -> BTreeSet<PeerCandidate> {
        let idle = self.artifacts.sources();
        let idle: Vec<(PeerId, NeededFrom)> = idle
            .filter(|(peer, needed)| self.is_idle(peer, *needed))
            .map(|(peer, needed)| (peer.clone(), needed))
            .collect();
        idle.into_iter()
            .map(|(peer, needed)| PeerCandidate::new(peer, needed, self.rng.next_u64()))
            .collect()
    }

    /// Returns the needed artifacts of the peer that fit, most urgent first, up to the first one that does not or has another purpose.
    pub(super) fn select(&self, peer: &PeerId) -> TransferBatch {
        let mut batch = TransferBatch::default();
        let Some(needed) = self.artifacts.needed_from(peer) else {
            return batch;
        };
        batch.purpose = needed.priority.purpose();
        let most = match batch.purpose {
            TransferPurpose::Inputs => usize::MAX,
            TransferPurpose::Replicas => self.replica_allowance(),
        };
        for artifact in self.artifacts.needed(peer).take(most) {
            if self.artifacts.purpose(artifact) != batch.purpose {
                break;
            }
            let size = self.artifacts.size(artifact);
            let size = size.unwrap_or(self.limits.unknown_size);
            if !self.transfers.fits(size, &batch, &self.limits) {
                break;
            }
            batch.artifacts.push(artifact);
            batch.bytes = ByteCount(batch.bytes.0.saturating_add(size.0));
        }
        batch
    }

    /// Returns the number of replicas that may be requested now.
    fn replica_allowance(&self) -> usize {
        let most = match self.artifacts.are_inputs_wanted() {
            true => self.limits.replicas_beside_inputs,
            false => self.limits.replicas,
        };
        most.saturating_sub(self.transfers.replicas())
    }

    fn start(&mut self, peer: PeerId, batch: TransferBatch, turn: &mut Turn) {
        for &artifact in &batch.artifacts {
            self.artifacts.begin_transfer(artifact, self.now);
        }
        let transfer = self.transfers.begin(peer.clone(), batch.clone());
        turn.actions.push(GatherAction::Fetch {
            transfer,
            peer,
            artifacts: batch.artifacts,
            bytes: batch.bytes,
        });
    }
}
