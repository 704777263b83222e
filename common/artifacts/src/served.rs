//! The transfers that a store serves to peers: which ones are served now, and the pieces of each answer.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::ArtifactId;

use crate::store::ArtifactReader;

/// The most bytes of one answer, whatever the peer asks for: a message has 16 MiB at most.
const MOST_BYTES: u64 = 8 << 20;
/// The most ranges of one call that are answered.
const MOST_RANGES: usize = 4096;
/// The most answers of one transfer that are read at a time. A peer asks for three, and may have given up others.
const MOST_READING: usize = 8;
/// The time without a call after which a transfer is over: its peer has gone, or has had what it wanted.
const IDLE: Duration = Duration::from_secs(10);

/// The most transfers that are over and still known. The calls of one overtake each other within milliseconds, in which a store ends far
/// fewer.
const MOST_OVER: usize = 1024;

/// The most transfers served at once by default. Few at a time finish early, and their peers become holders themselves.
pub const USUAL_SERVED: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");

/// The location of the peer that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requester {
    /// Its transfer does not use the network, so twice as many are served.
    SameHost,
    OtherHost,
}

/// The store serves as many transfers as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// An artifact whose bytes are being sent.
type OpenArtifact = (ArtifactId, Arc<ArtifactReader>);

/// The transfers that a store serves, and their limit. Nothing waits: a peer beyond the limit receives the answer "busy" at once and asks
/// another holder.
pub struct ServedTransfers {
    limit: NonZeroU32,
    transfers: BTreeMap<i64, ServedTransfer>,
    last: i64,
}

/// A transfer.
///
/// ```text
/// live --an answer had the last byte, none is read--> over --no call for IDLE, or too many--> (forgotten)
///   ^                                                  |
///   +-------------- a call that was overtaken ---------+  (until it is answered)
/// ```
struct ServedTransfer {
    /// The number of answers that are being read. A disk that hangs keeps its transfers, so that they cannot become ever more.
    reading: usize,
    /// The time at which the last answer was read.
    idle_since: Instant,
    /// Whether an answer had the last byte. Calls of one transfer may overtake each other on their way, so others may follow.
    has_last: bool,
    /// The artifact whose bytes the last answer ended with, open.
    open: Option<OpenArtifact>,
}

impl ServedTransfer {
    fn is_live(&self) -> bool {
        self.reading > 0 || !self.has_last
    }
}

/// The right to read one answer. Its owner passes it to [`ServedTransfers::end_turn`] on every path.
#[must_use = "a turn that never ends keeps its transfer for ever"]
pub struct ServingTurn {
    transfer: i64,
    open: Option<OpenArtifact>,
}

impl ServingTurn {
    /// Returns the number of the transfer, by which its further calls name it.
    pub fn transfer(&self) -> i64 {
        self.transfer
    }

    /// Reads the pieces of one answer: for each range its bytes and the size of its artifact in bytes, or none if the store does not have
    /// it. The last range may have fewer bytes than its artifact. `find` opens an artifact.
    pub fn read<E>(
        &self,
        ranges: impl IntoIterator<Item = Result<(ArtifactId, i64), E>>,
        most_bytes: i32,
        mut find: impl FnMut(ArtifactId) -> Option<ArtifactReader>,
    ) -> Result<ReadPieces, E> {
        let mut room = u64::try_from(most_bytes).unwrap_or(0).clamp(1, MOST_BYTES);
        let mut open = self.open.clone();
        let mut read = ReadPieces::default();
        for range in ranges {
            let (id, offset) = range?;
            if room == 0 || read.pieces.len() >= MOST_RANGES {
                return Ok(read);
            }
            let reader = match open.take() {
                Some((of, reader)) if of == id => Some(reader),
                Some(_) | None => find(id).map(Arc::new),
            };
            let piece = reader
                .as_ref()
                .and_then(|reader| piece(reader, offset, room));
            let rest = piece.as_ref().map_or(0, |(bytes, size, begin)| {
                room -= bytes.len() as u64;
                size.saturating_sub(begin + bytes.len() as u64)
            });
            read.pieces
                .push(piece.map(|(bytes, size, _)| (bytes, size)));
            if rest > 0 {
                read.open = reader.map(|reader| (id, reader));
                return Ok(read);
            }
        }
        read.has_last = true;
        Ok(read)
    }
}

/// The pieces of one answer.
#[derive(Default)]
pub struct ReadPieces {
    /// The bytes of each range, and the size of its artifact in bytes. `None`: the store does not have it.
    pub pieces: Vec<Option<(Vec<u8>, u64)>>,
    open: Option<OpenArtifact>,
    /// Whether the answer ends with the last byte of all that the call asks for.
    has_last: bool,
}

impl ReadPieces {
    /// Returns the number of their bytes.
    pub fn bytes(&self) -> u64 {
        let pieces = self.pieces.iter().flatten();
        pieces.map(|(bytes, _)| bytes.len() as u64).sum()
    }
}

/// Reads at most `room` bytes. Returns them with the size of the artifact and their offset; `None` if the store cannot read them.
fn piece(reader: &ArtifactReader, offset: i64, room: u64) -> Option<(Vec<u8>, u64, u64)> {
    let offset = u64::try_from(offset).ok()?;
    let length = usize::try_from(room).unwrap_or(usize::MAX);
    let bytes = reader.read_at(offset, length).ok()?;
    Some((bytes, reader.size(), offset))
}

impl ServedTransfers {
    pub fn new(limit: NonZeroU32) -> Self {
        ServedTransfers {
            limit,
            transfers: BTreeMap::new(),
            last: 0,
        }
    }

    /// Begins to read an answer: the first one of a new transfer if the number is 0 or not known any more. Refuses a new transfer beyond
    /// the limit, and an answer of a transfer of which too many are being read.
    pub fn begin_turn(
        &mut self,
        transfer: i64,
        requester: Requester,
        now: Instant,
    ) -> Result<ServingTurn, Busy> {
        let is_known = |served: &ServedTransfer| {
            served.reading > 0 || now.saturating_duration_since(served.idle_since) <= IDLE
        };
        self.transfers.retain(|_, served| is_known(served));
        self.forget_oldest();
        if let Some(served) = self.transfers.get_mut(&transfer) {
            if served.reading >= MOST_READING {
                return Err(Busy);
            }
            served.reading += 1;
            let open = served.open.clone();
            return Ok(ServingTurn { transfer, open });
        }
        let limit = match requester {
            Requester::SameHost => self.limit.get().saturating_mul(2),
            Requester::OtherHost => self.limit.get(),
        };
        let live = self.transfers.values().filter(|served| served.is_live());
        if live.count() >= limit as usize {
            return Err(Busy);
        }
        self.last += 1;
        let served = ServedTransfer {
            reading: 1,
            idle_since: now,
            has_last: false,
            open: None,
        };
        self.transfers.insert(self.last, served);
        Ok(ServingTurn {
            transfer: self.last,
            open: None,
        })
    }

    /// Forgets those transfers that have been over for longest, if there are too many.
    fn forget_oldest(&mut self) {
        let over = self.transfers.iter().filter(|(_, of)| !of.is_live());
        let excess = over.clone().count().saturating_sub(MOST_OVER);
        if excess == 0 {
            return;
        }
        let over = over.map(|(number, of)| (of.idle_since, *number));
        let mut oldest: Vec<(Instant, i64)> = over.collect();
        oldest.sort_unstable();
        for (_, number) in oldest.into_iter().take(excess) {
            self.transfers.remove(&number);
        }
    }

    /// Ends the reading of an answer. `read`: `None` if the call is refused, which ends the transfer.
    pub fn end_turn(&mut self, turn: &ServingTurn, read: Option<&ReadPieces>, now: Instant) {
        if let Some(served) = self.transfers.get_mut(&turn.transfer) {
            served.reading = served.reading.saturating_sub(1);
            served.idle_since = now;
            served.has_last |= read.is_none_or(|read| read.has_last);
            served.open = read.and_then(|read| read.open.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(limit: u32) -> (ServedTransfers, Instant) {
        let limit = NonZeroU32::new(limit).expect("not 0");
        (ServedTransfers::new(limit), Instant::now())
    }

    fn turn(
        served: &mut ServedTransfers,
        transfer: i64,
        now: Instant,
    ) -> Result<ServingTurn, Busy> {
        served.begin_turn(transfer, Requester::OtherHost, now)
    }

    fn answer(has_last: bool) -> ReadPieces {
        ReadPieces {
            has_last,
            ..ReadPieces::default()
        }
    }

    #[test]
    fn requesters_of_the_same_host_use_the_second_half_of_the_limit() {
        for limit in [1, 10] {
            let (mut served, now) = served(limit);
            let begun = |served: &mut ServedTransfers, requester| {
                let turns = (0..100).map_while(|_| served.begin_turn(0, requester, now).ok());
                turns.count() as u32
            };
            assert_eq!(begun(&mut served, Requester::OtherHost), limit);
            assert_eq!(begun(&mut served, Requester::SameHost), limit);
            assert_eq!(begun(&mut served, Requester::OtherHost), 0);
        }
    }

    #[test]
    fn a_transfer_has_several_turns_at_once_and_an_idle_one_makes_room() {
        let (mut served, begin) = served(1);
        let first = turn(&mut served, 0, begin).expect("room");
        let number = first.transfer();
        let others: Vec<ServingTurn> = (1..MOST_READING)
            .map_while(|_| turn(&mut served, number, begin).ok())
            .collect();
        assert_eq!(others.len(), MOST_READING - 1);
        assert!(others.iter().all(|turn| turn.transfer() == number));
        assert!(turn(&mut served, number, begin).is_err());
        for one in others.iter().chain([&first]) {
            served.end_turn(one, Some(&answer(false)), begin);
        }
        assert!(turn(&mut served, 0, begin + IDLE).is_err());
        let later = begin + IDLE + Duration::from_secs(1);
        let next = turn(&mut served, 0, later).expect("room");
        assert_ne!(next.transfer(), number);
        assert!(turn(&mut served, number, later).is_err(), "it is forgotten");
    }

    #[test]
    fn few_transfers_that_are_over_stay_known() {
        let (mut served, now) = served(1);
        let mut last = 0;
        for _ in 0..3 * MOST_OVER {
            let only = turn(&mut served, 0, now).expect("room");
            last = only.transfer();
            served.end_turn(&only, Some(&answer(true)), now);
        }
        assert!(served.transfers.len() <= MOST_OVER + 1);
        // The latest is among them.
        let late = turn(&mut served, last, now).expect("room");
        assert_eq!(late.transfer(), last);
    }

    #[test]
    fn a_call_that_was_overtaken_by_the_last_one_belongs_to_its_transfer() {
        let (mut served, now) = served(1);
        let first = turn(&mut served, 0, now).expect("room");
        served.end_turn(&first, Some(&answer(false)), now);
        let last = turn(&mut served, first.transfer(), now).expect("known");
        let meanwhile = turn(&mut served, first.transfer(), now).expect("known");
        served.end_turn(&last, Some(&answer(true)), now);
        assert!(
            turn(&mut served, 0, now).is_err(),
            "an answer is being read"
        );
        served.end_turn(&meanwhile, Some(&answer(false)), now);
        let other = turn(&mut served, 0, now).expect("the first is over");
        let late = turn(&mut served, first.transfer(), now).expect("known");
        assert_eq!(late.transfer(), first.transfer());
        served.end_turn(&late, Some(&answer(false)), now);
        assert!(turn(&mut served, 0, now).is_err(), "one is live");
        // A refused call ends its transfer.
        served.end_turn(&other, None, now);
        assert!(turn(&mut served, 0, now).is_ok());
    }
}
