//! The requests in flight, and how much more may be requested.

use std::collections::BTreeMap;

use super::limits::GatherLimits;
use super::types::{ArtifactId, ByteCount, PeerId, TransferId, TransferPurpose};

/// The requests in flight: at most one for each peer and purpose. An input never waits for a replica of the same peer.
#[derive(Clone, Debug, Default)]
pub struct Transfers {
    in_flight: BTreeMap<TransferId, Transfer>,
    /// The peers with requests for inputs.
    inputs: BTreeMap<PeerId, TransferId>,
    /// The peers with requests for replicas.
    replicas: BTreeMap<PeerId, TransferId>,
    /// The sum of the expected sizes. The sizes come from outside, so their sum may exceed 64 bits.
    incoming: u128,
    started: u64,
    #[cfg(test)]
    replicas_so_far: usize,
}

/// A request in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    pub peer: PeerId,
    pub batch: TransferBatch,
}

/// The artifacts of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferBatch {
    pub artifacts: Vec<ArtifactId>,
    /// The sum of the sizes expected when the request was made. It stays when a size becomes known later, so that the end of the transfer
    /// subtracts what its begin added.
    pub bytes: ByteCount,
    pub purpose: TransferPurpose,
}

impl Transfers {
    /// Returns whether a request of this purpose to the peer is in flight.
    pub fn has(&self, peer: &PeerId, purpose: TransferPurpose) -> bool {
        let of_peers = match purpose {
            TransferPurpose::Inputs => &self.inputs,
            TransferPurpose::Replicas => &self.replicas,
        };
        of_peers.contains_key(peer)
    }

    /// Returns the number of replicas in flight.
    pub fn replicas(&self) -> usize {
        let transfers = self.replicas.values();
        let transfers = transfers.filter_map(|id| self.in_flight.get(id));
        transfers
            .map(|transfer| transfer.batch.artifacts.len())
            .sum()
    }

    fn of_peers(&mut self, purpose: TransferPurpose) -> &mut BTreeMap<PeerId, TransferId> {
        match purpose {
            TransferPurpose::Inputs => &mut self.inputs,
            TransferPurpose::Replicas => &mut self.replicas,
        }
    }

    /// Returns whether no request may start before another one is over. If nothing is in flight, one may start whatever the limits.
    pub fn are_throttled(&self, limits: &GatherLimits) -> bool {
        let is_full = self.in_flight.len() >= limits.transfers
            && self.incoming >= u128::from(limits.throttle_threshold.0);
        let is_heavy = limits
            .incoming
            .is_some_and(|most| self.incoming >= u128::from(most.0));
        !self.in_flight.is_empty() && (is_full || is_heavy)
    }

    /// Returns whether an artifact of this size may be added to a batch. The limit of a message does not apply to its first artifact, and
    /// no limit applies to the first artifact of all.
    pub fn fits(&self, size: ByteCount, batch: &TransferBatch, limits: &GatherLimits) -> bool {
        let is_first = batch.artifacts.is_empty();
        if is_first && self.in_flight.is_empty() {
            return true;
        }
        let mut allowance = match limits.incoming {
            None => Some(u128::MAX),
            Some(most) => u128::from(most.0).checked_sub(self.incoming),
        };
        if !is_first {
            allowance = allowance
                .map(|bytes| bytes.min(u128::from(limits.message.0)))
                .and_then(|bytes| bytes.checked_sub(u128::from(batch.bytes.0)));
        }
        allowance.is_some_and(|bytes| u128::from(size.0) <= bytes)
    }

    pub fn begin(&mut self, peer: PeerId, batch: TransferBatch) -> TransferId {
        self.started += 1;
        let id = TransferId(self.started);
        self.incoming += u128::from(batch.bytes.0);
        #[cfg(test)]
        if batch.purpose == TransferPurpose::Replicas {
            self.replicas_so_far += batch.artifacts.len();
        }
        self.of_peers(batch.purpose).insert(peer.clone(), id);
        self.in_flight.insert(id, Transfer { peer, batch });
        id
    }

    /// Ends a transfer; none if it has ended before.
    pub fn end(&mut self, id: TransferId) -> Option<Transfer> {
        let transfer = self.in_flight.remove(&id)?;
        self.of_peers(transfer.batch.purpose).remove(&transfer.peer);
        self.incoming -= u128::from(transfer.batch.bytes.0);
        Some(transfer)
    }
}

#[cfg(test)]
impl Transfers {
    /// Checks the sums, that each peer has at most one transfer of each purpose, and each artifact exactly one.
    pub fn check(&self, in_flight: &std::collections::BTreeSet<ArtifactId>) {
        let sum: u128 = self.all().map(|t| u128::from(t.batch.bytes.0)).sum();
        assert_eq!(self.incoming, sum);
        let listed = self.inputs.len() + self.replicas.len();
        assert_eq!(listed, self.in_flight.len());
        for (id, transfer) in &self.in_flight {
            let of_peers = match transfer.batch.purpose {
                TransferPurpose::Inputs => &self.inputs,
                TransferPurpose::Replicas => &self.replicas,
            };
            assert_eq!(of_peers.get(&transfer.peer), Some(id));
        }
        let mut listed: Vec<ArtifactId> = self
            .all()
            .flat_map(|t| t.batch.artifacts.iter().copied())
            .collect();
        listed.sort_unstable();
        let expected: Vec<ArtifactId> = in_flight.iter().copied().collect();
        assert_eq!(listed, expected);
    }

    pub fn replicas_so_far(&self) -> usize {
        self.replicas_so_far
    }

    pub fn all(&self) -> impl Iterator<Item = &Transfer> {
        self.in_flight.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn limits(transfers: usize, message: u64, incoming: Option<u64>) -> GatherLimits {
        GatherLimits {
            transfers,
            message: ByteCount(message),
            incoming: incoming.map(ByteCount),
            ..GatherLimits::default()
        }
    }

    fn batch(sizes: &[u64]) -> TransferBatch {
        TransferBatch {
            artifacts: sizes.iter().map(|_| ArtifactId([0; 32])).collect(),
            bytes: ByteCount(sizes.iter().sum()),
            purpose: TransferPurpose::Inputs,
        }
    }

    fn in_flight(sizes: &[u64]) -> Transfers {
        let mut transfers = Transfers::default();
        for (number, size) in sizes.iter().enumerate() {
            let peer = PeerId(number.to_string().into());
            transfers.begin(peer, batch(&[*size]));
        }
        transfers
    }

    #[test]
    fn throttling_by_number_and_by_bytes() {
        let nothing: &[u64] = &[];
        for (sizes, limits, expected) in [
            (nothing, limits(50, MIB, None), false),
            // Nothing is in flight: limits of zero do not stop the first request.
            (nothing, limits(0, 0, Some(0)), false),
            (&[0], limits(50, MIB, Some(0)), true),
            // The number does not count below ten million bytes.
            (&[1, 1], limits(2, MIB, None), false),
            (&[9_999_998, 1], limits(2, MIB, None), false),
            (&[9_999_999, 1], limits(2, MIB, None), true),
            (&[20_000_000], limits(2, MIB, None), false),
            (&[60, 39], limits(50, MIB, Some(100)), false),
            (&[60, 40], limits(50, MIB, Some(100)), true),
            (&[u64::MAX, u64::MAX], limits(50, MIB, None), false),
            (&[u64::MAX, u64::MAX], limits(50, MIB, Some(u64::MAX)), true),
        ] {
            let throttled = in_flight(sizes).are_throttled(&limits);
            assert_eq!(throttled, expected, "{sizes:?} {limits:?}");
        }
    }

    #[test]
    fn what_fits_into_a_message() {
        let message = limits(50, 100, None);
        let both = limits(50, 100, Some(150));
        let nothing: &[u64] = &[];
        for (flying, taken, size, limits, expected) in [
            // The first artifact of all ignores every limit.
            (nothing, nothing, u64::MAX, both, true),
            (nothing, nothing, 101, limits(50, 100, Some(0)), true),
            // The first artifact of a message ignores the limit of the message, but not that of all messages.
            (&[10], nothing, 500, message, true),
            (&[10], nothing, 140, both, true),
            (&[10], nothing, 141, both, false),
            // Further ones ignore nothing.
            (nothing, &[60], 40, message, true),
            (nothing, &[60], 41, message, false),
            (nothing, &[500], 0, message, false),
            (&[100], &[30], 20, both, true),
            (&[100], &[30], 21, both, false),
            // An empty first artifact is a first artifact.
            (nothing, &[0], 101, message, false),
            (&[0], nothing, 151, both, false),
            (&[200], nothing, 0, both, false),
        ] {
            let fits = in_flight(flying).fits(ByteCount(size), &batch(taken), &limits);
            assert_eq!(fits, expected, "{flying:?} {taken:?} {size} {limits:?}");
        }
    }

    #[test]
    fn sums_return_to_zero_and_repeated_ends_do_nothing() {
        let mut transfers = in_flight(&[5, 0, u64::MAX]);
        assert_eq!(transfers.incoming, u128::from(u64::MAX) + 5);
        for number in [2, 1, 3] {
            assert!(transfers.end(TransferId(number)).is_some());
            assert_eq!(transfers.end(TransferId(number)), None);
        }
        assert_eq!(transfers.incoming, 0);
        assert!(!transfers.has(&PeerId("0".into()), TransferPurpose::Inputs));
    }
}
