//! Serves artifacts to other workers. No request waits: a peer beyond the limit learns at once that the worker is busy.

use std::sync::Arc;
use std::time::Instant;

use brasserie_common::{ArtifactNamespace, RefusalCode};
use brasserie_common_artifacts::{
    ArtifactStore, Busy, ReadPieces, Requester, ServedTransfers, ServingTurn,
};
use brasserie_thrift::convert::{
    artifact_id, artifact_pieces, artifact_range, busy_pieces, worker_exception,
};
use brasserie_thrift::generated::worker::{
    ArtifactPieces, BistroWorkerCheckArtifactArgs, BistroWorkerCheckArtifactResult,
    BistroWorkerFetchArtifactsArgs, BistroWorkerFetchArtifactsResult,
};
use brasserie_thrift::rpc::Responder;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::background::Background;
use super::counters::Counters;

/// The number of artifacts that are read again at once because a peer got a damaged copy.
const CHECKS: usize = 2;

/// The serving side of a worker's store.
pub(crate) struct Server {
    store: Arc<ArtifactStore>,
    hostname: Arc<str>,
    background: Background,
    transfers: Mutex<ServedTransfers>,
    checks: Arc<Semaphore>,
    counters: Counters,
}

impl Server {
    pub(crate) fn new(
        store: Arc<ArtifactStore>,
        (hostname, transfers): (Arc<str>, ServedTransfers),
        background: Background,
        counters: Counters,
    ) -> Self {
        Server {
            store,
            hostname,
            background,
            transfers: Mutex::new(transfers),
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
        let mut transfers = self.transfers.lock();
        let turn = transfers.begin_turn(call.transfer, requester, Instant::now());
        drop(transfers);
        let turn = match turn {
            Ok(turn) => turn,
            Err(Busy) => {
                self.counters.change(|all| all.busy_given += 1);
                return reply(responder, busy_pieces());
            }
        };
        let own = Arc::clone(self);
        self.background.block(move || {
            let read = own.read(&call, &turn);
            let mut transfers = own.transfers.lock();
            transfers.end_turn(&turn, read.as_ref().ok(), Instant::now());
            drop(transfers);
            let is_new = turn.transfer() != call.transfer;
            own.counters.change(|all| {
                all.transfers_served += u64::from(is_new);
                all.bytes_served += read.as_ref().map_or(0, ReadPieces::bytes);
            });
            match read {
                Ok(read) => reply(responder, artifact_pieces(turn.transfer(), read.pieces)),
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

    /// Reads the pieces for one answer. The error is a message.
    fn read(
        &self,
        call: &BistroWorkerFetchArtifactsArgs,
        turn: &ServingTurn,
    ) -> Result<ReadPieces, String> {
        let namespace =
            ArtifactNamespace::try_from(&*call.cluster).map_err(|error| error.to_string())?;
        // A lost artifact is reported by the store, and the peer hears that it is absent.
        let find = |id| self.store.read(&namespace, id).ok();
        let read = turn.read(
            call.ranges.iter().map(artifact_range),
            call.most_bytes,
            find,
        );
        read.map_err(|error| error.to_string())
    }
}

fn reply(responder: Responder, pieces: ArtifactPieces) {
    responder.reply(&BistroWorkerFetchArtifactsResult {
        result_value: Some(pieces),
        ex: None,
    });
}
