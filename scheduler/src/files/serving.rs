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
/// The time without a call after which a transfer is over.
const IDLE: Duration = Duration::from_secs(10);

/// The transfers that are served.
#[derive(Default)]
pub(super) struct Served {
    /// The time of the last answer of each; `None`: one is being read. A disk that hangs keeps its transfers, so that they cannot become
    /// ever more.
    transfers: BTreeMap<i64, Option<Instant>>,
    last: i64,
}

/// The scheduler serves as many transfers as it may.
#[derive(Debug, PartialEq, Eq)]
struct Busy;

impl Served {
    /// Begins a turn of a transfer: of a new one if the number is 0 or not known any more.
    fn turn(&mut self, transfer: i64, now: Instant) -> Result<i64, Busy> {
        let is_live = |since: &Option<Instant>| {
            since.is_none_or(|since| now.saturating_duration_since(since) <= IDLE)
        };
        self.transfers.retain(|_, since| is_live(since));
        if let Some(since) = self.transfers.get_mut(&transfer) {
            // A peer asks for one answer at a time.
            return since.take().map(|_| transfer).ok_or(Busy);
        }
        if self.transfers.len() >= MOST_TRANSFERS {
            return Err(Busy);
        }
        self.last += 1;
        self.transfers.insert(self.last, None);
        Ok(self.last)
    }

    fn turn_over(&mut self, transfer: i64, is_last: bool, now: Instant) {
        match is_last {
            true => drop(self.transfers.remove(&transfer)),
            false => drop(self.transfers.insert(transfer, Some(now))),
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

    /// Reads the pieces for one answer. The error is a message.
    fn read(&self, call: &BistroSchedulerFetchArtifactsArgs) -> Result<ReadPieces, String> {
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
            let (piece, rest) = piece(self.reader(&call.cluster, id).as_ref(), range, room);
            room -= piece.bytes.as_ref().map_or(0, Vec::len) as u64;
            pieces.push(piece);
            if rest > 0 {
                return Ok((pieces, false));
            }
        }
        Ok((pieces, call.ranges.len() <= MOST_RANGES))
    }

    fn reader(&self, cluster: &str, id: ArtifactId) -> Option<ArtifactReader> {
        let is_own = *cluster == *self.0.namespace.as_str();
        let reader = is_own.then(|| self.0.store.read(&self.0.namespace, id));
        match reader? {
            Ok(reader) => Some(reader),
            Err(error) => {
                // The peer learns that it is absent, and the core too if the store has dropped it.
                tracing::debug!("cannot serve the file {id}: {error}");
                self.tell();
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
    fn a_transfer_has_one_turn_at_a_time_and_an_idle_one_makes_room() {
        let (mut served, begin) = (Served::default(), Instant::now());
        let first = served.turn(0, begin).unwrap();
        assert_eq!(served.turn(first, begin), Err(Busy));
        served.turn_over(first, false, begin);
        assert_eq!(served.turn(first, begin), Ok(first));
        for _ in 1..MOST_TRANSFERS {
            served.turn(0, begin).unwrap();
        }
        assert_eq!(served.turn(0, begin), Err(Busy));
        served.turn_over(first, false, begin);
        assert_eq!(served.turn(0, begin + IDLE), Err(Busy));
        let later = begin + IDLE + Duration::from_secs(1);
        let next = served.turn(0, later).unwrap();
        served.turn_over(next, true, later);
        assert_eq!(served.transfers.len(), MOST_TRANSFERS - 1);
        assert!(served.turn(next, later).is_ok(), "a new one in its place");
    }
}
