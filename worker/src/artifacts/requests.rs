//! The calls of one transfer: several are in flight, so that the peer reads and sends while this worker writes.
//!
//! Each call asks for exactly as many bytes as it expects, so the next one can be sent before its answer has arrived. A range behind these
//! bytes shows the peer that the transfer is not over.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use brasserie_common::{ArtifactId, ArtifactNamespace};
use brasserie_thrift::generated::worker::{
    ArtifactPiece, ArtifactPieces, ArtifactRange, BistroWorkerFetchArtifactsArgs,
    BistroWorkerFetchArtifactsResult,
};
use brasserie_thrift::rpc::{CallResult, ClientPool, PeerAddr};
use tokio_util::task::AbortOnDropHandle;

/// The most bytes of one answer: large enough that calls hardly count, small enough that fifty transfers take little memory.
const MOST_BYTES: u64 = 1 << 20;
/// The most ranges of one call. Further artifacts follow in the next calls.
const MOST_RANGES: usize = 1024;
/// The most calls in flight: one whose answer arrives, one that the peer reads, and one on its way there.
const MOST_IN_FLIGHT: usize = 3;
/// The least bytes of an answer that has fewer than the call asks for. A peer that sends fewer, one answer in ten seconds, would hold a run
/// for ever.
const LEAST_BYTES: u64 = 64 << 10;
/// The time for one answer: a busy disk reads more in less.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes of an artifact from one on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub id: ArtifactId,
    pub offset: u64,
    /// The number of bytes that the scheduler names, whatever a peer says.
    pub size: u64,
}

/// The answer to one call.
#[derive(Debug)]
pub(super) enum Answer {
    Busy,
    /// The pieces, each with the range that it begins; one at least.
    Pieces(Vec<(Range, ArtifactPiece)>),
    Failed,
}

/// The requests to one peer.
pub(super) struct Requests {
    peer: PeerAddr,
    namespace: ArtifactNamespace,
    hostname: String,
    pool: ClientPool,
    /// The ranges of which no answer has arrived.
    left: VecDeque<Range>,
    /// The ranges that no call in flight asks for.
    unasked: VecDeque<Range>,
    in_flight: VecDeque<InFlight>,
    /// The peer's number for the transfer; `None` before the first answer.
    transfer: Option<i64>,
    /// The most bytes that the peer puts into an answer.
    most_bytes: u64,
}

/// A call in flight.
struct InFlight {
    plan: Plan,
    answer: AbortOnDropHandle<Option<ArtifactPieces>>,
}

/// The ranges that an answer is expected to have, each with the number of its bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    ranges: Vec<(Range, u64)>,
    bytes: u64,
}

impl Requests {
    pub(super) fn new(
        pool: ClientPool,
        peer: PeerAddr,
        namespace: ArtifactNamespace,
        hostname: String,
        ranges: VecDeque<Range>,
    ) -> Self {
        Requests {
            peer,
            namespace,
            hostname,
            pool,
            unasked: ranges.clone(),
            left: ranges,
            in_flight: VecDeque::new(),
            transfer: None,
            most_bytes: MOST_BYTES,
        }
    }

    /// Waits for the next answer, in the order of the calls. Returns none when all ranges are answered.
    pub(super) async fn next(&mut self) -> Option<Answer> {
        self.ask();
        let InFlight { plan, answer } = self.in_flight.pop_front()?;
        let Ok(Some(answer)) = answer.await else {
            return Some(Answer::Failed);
        };
        let pieces = answer.pieces.unwrap_or_default();
        if answer.busy == Some(true) {
            return Some(Answer::Busy);
        }
        if pieces.is_empty() || plan.is_trickle(&pieces) {
            return Some(Answer::Failed);
        }
        self.transfer = Some(answer.transfer.unwrap_or(0));
        let is_short = plan.is_short(&pieces);
        let pieces = advance(&mut self.left, plan, pieces);
        if is_short {
            // The calls in flight begin behind the bytes that are missing now.
            self.in_flight.clear();
            self.unasked = self.left.clone();
            let bytes = pieces.iter().flat_map(|(_, piece)| &piece.bytes);
            let bytes: usize = bytes.map(Vec::len).sum();
            self.most_bytes = (bytes as u64).clamp(LEAST_BYTES, MOST_BYTES);
        }
        // The peer has no more of an artifact of which it has sent nothing.
        let is_absent = |piece: &ArtifactPiece| piece.bytes.as_ref().is_none_or(Vec::is_empty);
        let absent = pieces.iter().filter(|(_, piece)| is_absent(piece));
        let absent: BTreeSet<ArtifactId> = absent.map(|(range, _)| range.id).collect();
        self.unasked.retain(|range| !absent.contains(&range.id));
        // The next answers come while these pieces are written.
        self.ask();
        Some(Answer::Pieces(pieces))
    }

    /// Asks for no more bytes of artifacts for which this holds.
    pub(super) fn drop_ranges(&mut self, is_settled: impl Fn(ArtifactId) -> bool) {
        self.left.retain(|range| !is_settled(range.id));
        self.unasked.retain(|range| !is_settled(range.id));
        if self.left.is_empty() {
            self.in_flight.clear();
        }
    }

    /// Sends calls. The first one is alone, since its answer names the transfer.
    fn ask(&mut self) {
        let most = match self.transfer {
            None => 1,
            Some(_) => MOST_IN_FLIGHT,
        };
        while self.in_flight.len() < most && !self.unasked.is_empty() {
            let plan = Plan::make(&mut self.unasked, self.most_bytes);
            let answer = AbortOnDropHandle::new(tokio::spawn(self.call(&plan)));
            self.in_flight.push_back(InFlight { plan, answer });
        }
    }

    fn call(&self, plan: &Plan) -> impl Future<Output = Option<ArtifactPieces>> + Send + use<> {
        let planned = plan.ranges.iter().map(|(range, _)| range);
        let ranges = planned.chain(self.unasked.front());
        let ranges = ranges.map(|range| ArtifactRange {
            id: Some(range.id.0.to_vec()),
            offset: Some(i64::try_from(range.offset).unwrap_or(i64::MAX)),
        });
        let arguments = BistroWorkerFetchArtifactsArgs {
            cluster: self.namespace.as_str().to_owned(),
            ranges: ranges.collect(),
            // One more, so that the peer does not stop before an empty artifact at the end.
            most_bytes: i32::try_from(plan.bytes + 1).unwrap_or(i32::MAX),
            transfer: self.transfer.unwrap_or(0),
            hostname: self.hostname.clone(),
        };
        let call = self.pool.call::<_, BistroWorkerFetchArtifactsResult>(
            &self.peer,
            "fetchArtifacts",
            &arguments,
        );
        let peer = self.peer.clone();
        async move {
            match call.await {
                CallResult::Done(BistroWorkerFetchArtifactsResult {
                    result_value: Some(pieces),
                    ..
                }) => Some(pieces),
                failed => {
                    tracing::debug!(%peer, "a transfer of artifacts is broken: {failed:?}");
                    None
                }
            }
        }
    }
}

impl Plan {
    /// Takes the ranges of the next call.
    fn make(unasked: &mut VecDeque<Range>, most_bytes: u64) -> Self {
        let mut plan = Plan::default();
        while plan.bytes < most_bytes && plan.ranges.len() < MOST_RANGES {
            let Some(front) = unasked.front_mut() else {
                break;
            };
            let rest = front.size.saturating_sub(front.offset);
            let bytes = rest.min(most_bytes - plan.bytes);
            plan.ranges.push((*front, bytes));
            plan.bytes += bytes;
            front.offset += bytes;
            if bytes == rest {
                unasked.pop_front();
            }
        }
        plan
    }

    /// Returns whether an answer has fewer bytes than expected. An artifact that the peer does not have is an answer, too.
    fn is_short(&self, pieces: &[ArtifactPiece]) -> bool {
        let is_part = |((_, expected), piece): (&(Range, u64), &ArtifactPiece)| {
            let length = piece.bytes.as_ref().map(|bytes| bytes.len() as u64);
            length.is_some_and(|length| length < *expected)
        };
        pieces.len() < self.ranges.len() || self.ranges.iter().zip(pieces).any(is_part)
    }

    /// Returns whether an answer is so short that the peer is as good as gone.
    fn is_trickle(&self, pieces: &[ArtifactPiece]) -> bool {
        let bytes = pieces.iter().flat_map(|piece| &piece.bytes).map(Vec::len);
        self.is_short(pieces) && (bytes.sum::<usize>() as u64) < LEAST_BYTES
    }
}

/// Removes from the ranges what the pieces cover, and returns the pieces with the ranges that were asked for.
fn advance(
    left: &mut VecDeque<Range>,
    plan: Plan,
    pieces: Vec<ArtifactPiece>,
) -> Vec<(Range, ArtifactPiece)> {
    let covered = plan.ranges.into_iter().zip(pieces);
    let covered = covered.map(|((range, expected), mut piece)| {
        if let Some(bytes) = &mut piece.bytes {
            // The next call asks for what is behind.
            bytes.truncate(usize::try_from(expected).unwrap_or(usize::MAX));
        }
        (range, piece)
    });
    let covered: Vec<(Range, ArtifactPiece)> = covered.collect();
    for (range, piece) in &covered {
        let length = piece.bytes.as_ref().map_or(0, Vec::len) as u64;
        // Those that are settled are not left.
        let Some(front) = left.front_mut().filter(|front| front.id == range.id) else {
            continue;
        };
        front.offset = range.offset + length;
        // An answer without bytes would otherwise be repeated for ever.
        if length == 0 || front.offset >= front.size {
            left.pop_front();
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: u8, offset: u64, size: u64) -> Range {
        let id = ArtifactId([id; 32]);
        Range { id, offset, size }
    }

    fn piece(bytes: Option<usize>) -> ArtifactPiece {
        ArtifactPiece {
            bytes: bytes.map(|count| vec![0; count]),
            size: Some(0),
        }
    }

    #[test]
    fn calls_ask_for_one_answer_after_the_other() {
        let mut unasked = VecDeque::from([range(1, 5, 100), range(2, 0, 0), range(3, 0, 250)]);
        let mut plans = Vec::new();
        while !unasked.is_empty() {
            plans.push(Plan::make(&mut unasked, 100));
        }
        let expected = [
            vec![
                (range(1, 5, 100), 95),
                (range(2, 0, 0), 0),
                (range(3, 0, 250), 5),
            ],
            vec![(range(3, 5, 250), 100)],
            vec![(range(3, 105, 250), 100)],
            vec![(range(3, 205, 250), 45)],
        ];
        let expected = expected.map(|ranges| Plan {
            bytes: ranges.iter().map(|(_, bytes)| bytes).sum(),
            ranges,
        });
        assert_eq!(plans, expected);
    }

    #[test]
    fn a_call_has_a_limited_number_of_ranges() {
        let mut unasked: VecDeque<Range> = (0..1500).map(|_| range(1, 0, 1)).collect();
        let plan = Plan::make(&mut unasked, MOST_BYTES);
        assert_eq!((plan.ranges.len(), unasked.len()), (MOST_RANGES, 476));
    }

    #[test]
    fn short_answers_are_noticed() {
        let plan = Plan {
            ranges: vec![
                (range(1, 0, 70_000), 70_000),
                (range(2, 0, 100_000), 30_000),
            ],
            bytes: 100_000,
        };
        for (pieces, is_short, is_trickle) in [
            (&[Some(70_000), Some(30_000)][..], false, false),
            (&[None, Some(30_000)], false, false),
            // The peer has filled the answer with more of the next range.
            (&[None, Some(100_000)], false, false),
            (&[Some(70_000)], true, false),
            (&[Some(70_000), Some(29_999)], true, false),
            (&[Some(1000)], true, true),
            (&[Some(0), Some(30_000)], true, true),
        ] {
            let pieces: Vec<ArtifactPiece> = pieces.iter().map(|bytes| piece(*bytes)).collect();
            assert_eq!(plan.is_short(&pieces), is_short, "{pieces:?}");
            assert_eq!(plan.is_trickle(&pieces), is_trickle);
        }
    }

    #[test]
    fn answers_cover_ranges() {
        let ranges = [range(1, 0, 10), range(2, 0, 10), range(3, 0, 10)];
        let mut left = VecDeque::from(ranges);
        let mut unasked = left.clone();
        let plan = Plan::make(&mut unasked, 25);
        let pieces = vec![piece(Some(10)), piece(None), piece(Some(10))];
        let covered = advance(&mut left, plan, pieces);
        assert_eq!(covered[2].1.bytes.as_ref().map(Vec::len), Some(5));
        assert_eq!(left, [range(3, 5, 10)]);
        assert_eq!(unasked, left);
        // An artifact was settled meanwhile.
        let plan = Plan::make(&mut unasked, 25);
        left.clear();
        assert_eq!(advance(&mut left, plan, vec![piece(Some(5))]).len(), 1);
        assert_eq!(left, []);
    }
}
