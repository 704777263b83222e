//! Serves artifacts to other workers. No request waits: a peer beyond the limit learns at once that the worker is busy.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::{ArtifactId, ArtifactNamespace, RefusalCode};
use brasserie_common_artifacts::{ArtifactReader, ArtifactStore};
use brasserie_thrift::convert::{artifact_id, worker_exception};
use brasserie_thrift::generated::worker::{
    ArtifactPiece, ArtifactPieces, ArtifactRange, BistroWorkerCheckArtifactArgs,
    BistroWorkerCheckArtifactResult, BistroWorkerFetchArtifactsArgs,
    BistroWorkerFetchArtifactsResult,
};
use brasserie_thrift::rpc::Responder;
use brasserie_worker_gather::{Busy, Requester, Serving, ServingTicket};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::background::Background;
use super::counters::Counters;

/// The most bytes of one answer, whatever the peer asks for: a message has 16 MiB at most.
const MOST_BYTES: u64 = 8 << 20;
/// The most ranges of one call that are looked at.
const MOST_RANGES: usize = 4096;
/// The most answers of one transfer that are read at a time. A peer asks for three, and may have given up others.
const MOST_READING: usize = 8;
/// The number of artifacts that are read again at once because a peer got a damaged copy.
const CHECKS: usize = 2;
/// The time without a call after which a transfer is over: its peer has gone, or has had what it wanted.
const IDLE: Duration = Duration::from_secs(10);

/// The serving side of a worker's store.
pub(crate) struct Server {
    store: Arc<ArtifactStore>,
    hostname: Arc<str>,
    background: Background,
    transfers: Mutex<Served>,
    checks: Arc<Semaphore>,
    counters: Counters,
}

/// The transfers that are served.
struct Served {
    serving: Serving,
    transfers: HashMap<i64, ServedTransfer>,
    last: i64,
}

struct ServedTransfer {
    ticket: ServingTicket,
    /// The number of answers that are being read. A disk that hangs keeps its transfers, so that they cannot become ever more.
    reading: usize,
    /// The time at which the last answer was read.
    idle_since: Instant,
    /// Whether an answer had the last byte.
    is_over: bool,
    /// The artifact whose bytes the last answer ended with, open.
    open: Option<OpenArtifact>,
}

/// An artifact whose bytes are being sent.
type OpenArtifact = (ArtifactId, Arc<ArtifactReader>);

impl Server {
    pub(crate) fn new(
        store: Arc<ArtifactStore>,
        (hostname, serving): (Arc<str>, Serving),
        background: Background,
        counters: Counters,
    ) -> Self {
        let served = Served {
            serving,
            transfers: HashMap::new(),
            last: 0,
        };
        Server {
            store,
            hostname,
            background,
            transfers: Mutex::new(served),
            checks: Arc::new(Semaphore::new(CHECKS)),
            counters,
        }
    }

    /// Answers a call. Reads on a thread for blocking work.
    pub(crate) fn serve(
        self: &Arc<Self>,
        call: BistroWorkerFetchArtifactsArgs,
        responder: Responder,
    ) {
        let requester = match *call.hostname == *self.hostname {
            true => Requester::SameHost,
            false => Requester::OtherHost,
        };
        let turn = self
            .transfers
            .lock()
            .turn(call.transfer, requester, Instant::now());
        let (transfer, open) = match turn {
            Ok(turn) => turn,
            Err(Busy) => {
                self.counters.change(|all| all.busy_given += 1);
                return reply(
                    responder,
                    ArtifactPieces {
                        busy: Some(true),
                        ..Default::default()
                    },
                );
            }
        };
        let own = Arc::clone(self);
        self.background.block(move || {
            let read = own.read(&call, open);
            own.transfers.lock().turn_over(transfer, &read);
            own.count(&read, transfer != call.transfer);
            match read {
                Ok(read) => reply(
                    responder,
                    ArtifactPieces {
                        busy: None,
                        pieces: Some(read.pieces),
                        transfer: Some(transfer),
                    },
                ),
                Err(why) => responder.reply(&BistroWorkerFetchArtifactsResult {
                    result_value: None,
                    ex: Some(worker_exception(RefusalCode::Unspecified, &why)),
                }),
            }
        });
    }

    /// Reads an artifact again, and drops it if it is damaged. Few are read at once: a peer that asks for many changes nothing.
    pub(crate) fn check(
        self: &Arc<Self>,
        call: BistroWorkerCheckArtifactArgs,
        responder: Responder,
    ) {
        responder.reply(&BistroWorkerCheckArtifactResult {});
        let namespace = ArtifactNamespace::try_from(&*call.cluster);
        let (Ok(namespace), Ok(id)) = (namespace, artifact_id("checkArtifact.id", call.id)) else {
            return;
        };
        let Ok(turn) = Arc::clone(&self.checks).try_acquire_owned() else {
            return;
        };
        let own = Arc::clone(self);
        self.background.block(move || {
            // A damaged artifact is lost, and the next report says so.
            let _ = own.store.check(&namespace, id);
            drop(turn);
        });
    }

    fn count(&self, read: &Result<Read, String>, is_new: bool) {
        let pieces = read.iter().flat_map(|read| &read.pieces);
        let bytes = pieces.flat_map(|piece| &piece.bytes).map(Vec::len);
        let bytes = bytes.sum::<usize>() as u64;
        self.counters.change(|all| {
            all.transfers_served += u64::from(is_new);
            all.bytes_served += bytes;
        });
    }

    /// Reads the pieces for one answer. The error is a message.
    fn read(
        &self,
        call: &BistroWorkerFetchArtifactsArgs,
        mut open: Option<OpenArtifact>,
    ) -> Result<Read, String> {
        let namespace =
            ArtifactNamespace::try_from(&*call.cluster).map_err(|error| error.to_string())?;
        let most = u64::try_from(call.most_bytes)
            .unwrap_or(0)
            .clamp(1, MOST_BYTES);
        let mut read = Read {
            pieces: Vec::new(),
            open: None,
            is_last: true,
        };
        let mut room = most;
        for range in call.ranges.iter().take(MOST_RANGES) {
            if room == 0 {
                read.is_last = false;
                break;
            }
            let id = artifact_id(
                "fetchArtifacts.ranges.id",
                range.id.clone().unwrap_or_default(),
            );
            let id = id.map_err(|error| error.to_string())?;
            let reader = match open.take() {
                Some((of, reader)) if of == id => Some(reader),
                // A lost artifact is reported by the store, and the peer hears that it is absent.
                Some(_) | None => self.store.read(&namespace, id).ok().map(Arc::new),
            };
            let (piece, rest) = piece(reader.as_deref(), range, room);
            room -= piece.bytes.as_ref().map_or(0, Vec::len) as u64;
            read.pieces.push(piece);
            if rest > 0 {
                read.open = reader.map(|reader| (id, reader));
                read.is_last = false;
                break;
            }
        }
        read.is_last &= call.ranges.len() <= MOST_RANGES;
        Ok(read)
    }
}

/// The pieces of one answer.
struct Read {
    pieces: Vec<ArtifactPiece>,
    open: Option<OpenArtifact>,
    /// Whether the answer ends with the last byte of all that the call asks for.
    is_last: bool,
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

impl Served {
    /// Begins a turn of a transfer: of a new one if the number is 0 or not known any more.
    fn turn(
        &mut self,
        transfer: i64,
        requester: Requester,
        now: Instant,
    ) -> Result<(i64, Option<OpenArtifact>), Busy> {
        self.end_idle(now);
        if let Some(served) = self.transfers.get_mut(&transfer) {
            if served.reading >= MOST_READING {
                return Err(Busy);
            }
            served.reading += 1;
            return Ok((transfer, served.open.clone()));
        }
        let ticket = self.serving.begin(requester)?;
        self.last += 1;
        let served = ServedTransfer {
            ticket,
            reading: 1,
            idle_since: now,
            is_over: false,
            open: None,
        };
        self.transfers.insert(self.last, served);
        Ok((self.last, None))
    }

    fn turn_over(&mut self, transfer: i64, read: &Result<Read, String>) {
        let Some(served) = self.transfers.get_mut(&transfer) else {
            return;
        };
        served.reading -= 1;
        served.idle_since = Instant::now();
        match read {
            Ok(read) => {
                served.is_over |= read.is_last;
                served.open.clone_from(&read.open);
            }
            Err(_) => served.is_over = true,
        }
        if served.is_over && served.reading == 0 {
            self.end(transfer);
        }
    }

    fn end_idle(&mut self, now: Instant) {
        let is_idle = |served: &ServedTransfer| {
            served.reading == 0 && now.saturating_duration_since(served.idle_since) > IDLE
        };
        let idle = self.transfers.iter().filter(|(_, served)| is_idle(served));
        let idle: Vec<i64> = idle.map(|(transfer, _)| *transfer).collect();
        idle.into_iter().for_each(|transfer| self.end(transfer));
    }

    fn end(&mut self, transfer: i64) {
        if let Some(served) = self.transfers.remove(&transfer) {
            self.serving.end(served.ticket);
        }
    }
}

fn reply(responder: Responder, pieces: ArtifactPieces) {
    responder.reply(&BistroWorkerFetchArtifactsResult {
        result_value: Some(pieces),
        ex: None,
    });
}
