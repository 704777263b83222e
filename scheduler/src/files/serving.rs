//! Serves the contents of files to workers, and to the command line, as workers serve artifacts to each other. No request waits: a peer
//! beyond the limit learns at once that the scheduler is busy, and tries a worker that has fetched the file meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::{ArtifactId, RefusalCode};
use brasserie_common_artifacts::ArtifactReader;
use brasserie_thrift::convert::{artifact_id, worker_exception};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerCheckArtifactArgs, BistroSchedulerCheckArtifactResult,
    BistroSchedulerFetchArtifactsArgs, BistroSchedulerFetchArtifactsResult,
};
use brasserie_thrift::generated::worker::{ArtifactPiece, ArtifactPieces, ArtifactRange};
use brasserie_thrift::rpc::Responder;

use super::Files;

/// The transfers that are served at once, as at a worker. Few, so that the first peers have whole copies soon and serve others.
const MOST_TRANSFERS: usize = 10;
/// The most bytes of one answer, whatever the peer asks for: a message has 16 MiB at most.
const MOST_BYTES: u64 = 8 << 20;
/// The most ranges of one call that are looked at.
const MOST_RANGES: usize = 4096;
/// The most answers of one transfer that are read at a time, as at a worker.
const MOST_READING: usize = 8;
/// The time without a call after which a transfer is over.
const IDLE: Duration = Duration::from_secs(10);

/// The transfers that are served.
#[derive(Default)]
pub(super) struct Served {
    transfers: BTreeMap<i64, ServedTransfer>,
    last: i64,
}

struct ServedTransfer {
    /// The number of answers that are being read. A disk that hangs keeps its transfers, so that they cannot become ever more.
    reading: usize,
    /// The time at which the last answer was read.
    idle_since: Instant,
    /// Whether an answer had the last byte.
    is_over: bool,
}

/// The scheduler serves as many transfers as it may.
#[derive(Debug, PartialEq, Eq)]
struct Busy;

impl Served {
    /// Begins a turn of a transfer: of a new one if the number is 0 or not known any more.
    fn turn(&mut self, transfer: i64, now: Instant) -> Result<i64, Busy> {
        let is_live = |served: &ServedTransfer| {
            served.reading > 0 || now.saturating_duration_since(served.idle_since) <= IDLE
        };
        self.transfers.retain(|_, served| is_live(served));
        if let Some(served) = self.transfers.get_mut(&transfer) {
            if served.reading >= MOST_READING {
                return Err(Busy);
            }
            served.reading += 1;
            return Ok(transfer);
        }
        if self.transfers.len() >= MOST_TRANSFERS {
            return Err(Busy);
        }
        self.last += 1;
        let served = ServedTransfer {
            reading: 1,
            idle_since: now,
            is_over: false,
        };
        self.transfers.insert(self.last, served);
        Ok(self.last)
    }

    fn turn_over(&mut self, transfer: i64, is_last: bool, now: Instant) {
        let Some(served) = self.transfers.get_mut(&transfer) else {
            return;
        };
        served.reading -= 1;
        served.idle_since = now;
        served.is_over |= is_last;
        if served.is_over && served.reading == 0 {
            self.transfers.remove(&transfer);
        }
    }
}

/// The pieces of one answer, and whether they end with the last byte of all that the call asks for.
type ReadPieces = (Vec<ArtifactPiece>, bool);

impl Files {
    /// Answers a call. Reads on a thread for blocking work.
    pub(crate) fn serve(&self, call: BistroSchedulerFetchArtifactsArgs, responder: Responder) {
        let turn = self.0.served.lock().turn(call.transfer, Instant::now());
        let Ok(transfer) = turn else {
            return reply(
                responder,
                ArtifactPieces {
                    busy: Some(true),
                    ..ArtifactPieces::default()
                },
            );
        };
        let own = self.clone();
        tokio::task::spawn_blocking(move || {
            let read = own.read(&call);
            let is_last = !matches!(read, Ok((_, false)));
            let mut served = own.0.served.lock();
            served.turn_over(transfer, is_last, Instant::now());
            drop(served);
            match read {
                Ok((pieces, _)) => reply(
                    responder,
                    ArtifactPieces {
                        busy: None,
                        pieces: Some(pieces),
                        transfer: Some(transfer),
                    },
                ),
                Err(why) => responder.reply(&BistroSchedulerFetchArtifactsResult {
                    result_value: None,
                    ex: Some(worker_exception(RefusalCode::Unspecified, &why)),
                }),
            }
        });
    }

    /// Reads a content again, and drops it if it is damaged. Few are read at once: a peer that asks for many changes nothing.
    pub(crate) fn check(&self, call: BistroSchedulerCheckArtifactArgs, responder: Responder) {
        responder.reply(&BistroSchedulerCheckArtifactResult {});
        let Ok(id) = artifact_id("checkArtifact.id", call.id) else {
            return;
        };
        let turn = Arc::clone(&self.0.checks).try_acquire_owned();
        let (Ok(turn), true) = (turn, *call.cluster == *self.0.namespace.as_str()) else {
            return;
        };
        let own = self.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = own.0.store.check(&own.0.namespace, id) {
                tracing::error!("the scheduler's copy {id} of a file is lost: {error}");
                own.tell();
            }
            drop(turn);
        });
    }

    /// Reads the pieces for one answer. The error is a message. The core learns if the store has dropped a content.
    fn read(&self, call: &BistroSchedulerFetchArtifactsArgs) -> Result<ReadPieces, String> {
        let mut is_lost = false;
        let read = self.read_pieces(call, &mut is_lost);
        if is_lost {
            self.tell();
        }
        read
    }

    fn read_pieces(
        &self,
        call: &BistroSchedulerFetchArtifactsArgs,
        is_lost: &mut bool,
    ) -> Result<ReadPieces, String> {
        let most = u64::try_from(call.most_bytes).unwrap_or(0);
        let mut room = most.clamp(1, MOST_BYTES);
        let mut pieces = Vec::new();
        for range in call.ranges.iter().take(MOST_RANGES) {
            if room == 0 {
                return Ok((pieces, false));
            }
            let id = range.id.clone().unwrap_or_default();
            let id = artifact_id("fetchArtifacts.ranges.id", id);
            let id = id.map_err(|error| error.to_string())?;
            let reader = self.reader(&call.cluster, id, is_lost);
            let (piece, rest) = piece(reader.as_ref(), range, room);
            room -= piece.bytes.as_ref().map_or(0, Vec::len) as u64;
            pieces.push(piece);
            if rest > 0 {
                return Ok((pieces, false));
            }
        }
        Ok((pieces, call.ranges.len() <= MOST_RANGES))
    }

    fn reader(&self, cluster: &str, id: ArtifactId, is_lost: &mut bool) -> Option<ArtifactReader> {
        let is_own = *cluster == *self.0.namespace.as_str();
        let reader = is_own.then(|| self.0.store.read(&self.0.namespace, id));
        match reader? {
            Ok(reader) => Some(reader),
            Err(error) => {
                tracing::debug!("cannot serve the file {id}: {error}");
                *is_lost = true;
                None
            }
        }
    }
}

/// Reads a piece of at most `room` bytes. Returns it with the number of bytes behind it.
fn piece(
    reader: Option<&ArtifactReader>,
    range: &ArtifactRange,
    room: u64,
) -> (ArtifactPiece, u64) {
    let absent = (ArtifactPiece::default(), 0);
    let (Some(reader), Ok(offset)) = (reader, u64::try_from(range.offset.unwrap_or(0))) else {
        return absent;
    };
    let length = usize::try_from(room).unwrap_or(usize::MAX);
    let Ok(bytes) = reader.read_at(offset, length) else {
        return absent;
    };
    let end = offset.saturating_add(bytes.len() as u64);
    let rest = reader.size().saturating_sub(end);
    let piece = ArtifactPiece {
        bytes: Some(bytes),
        size: i64::try_from(reader.size()).ok(),
    };
    (piece, rest)
}

fn reply(responder: Responder, pieces: ArtifactPieces) {
    responder.reply(&BistroSchedulerFetchArtifactsResult {
        result_value: Some(pieces),
        ex: None,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_has_several_turns_at_once_and_an_idle_one_makes_room() {
        let (mut served, begin) = (Served::default(), Instant::now());
        let first = served.turn(0, begin).unwrap();
        for _ in 1..MOST_READING {
            assert_eq!(served.turn(first, begin), Ok(first));
        }
        assert_eq!(served.turn(first, begin), Err(Busy));
        for _ in 0..MOST_READING {
            served.turn_over(first, false, begin);
        }
        assert_eq!(served.turn(first, begin), Ok(first));
        for _ in 1..MOST_TRANSFERS {
            served.turn(0, begin).unwrap();
        }
        assert_eq!(served.turn(0, begin), Err(Busy));
        served.turn_over(first, false, begin);
        assert_eq!(served.turn(0, begin + IDLE), Err(Busy));
        let later = begin + IDLE + Duration::from_secs(1);
        let next = served.turn(0, later).unwrap();
        assert_eq!(served.turn(next, later), Ok(next));
        // Answers may be read out of order: the transfer ends with the last of them.
        served.turn_over(next, true, later);
        served.turn_over(next, false, later);
        assert_eq!(served.transfers.len(), MOST_TRANSFERS - 1);
        served.turn_over(next, false, later);
        assert!(served.turn(next, later).is_ok(), "a new one in its place");
    }
}
