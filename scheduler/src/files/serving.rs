//! Serves the contents of files to workers, and to the command line, as workers serve artifacts to each other. No request waits: a peer
//! beyond the limit learns at once that the scheduler is busy, and tries a worker that has fetched the file meanwhile.

use std::sync::Arc;
use std::time::Instant;

use brasserie_common::{ArtifactId, RefusalCode};
use brasserie_common_artifacts::{ArtifactReader, ReadPieces, Requester, ServingTurn};
use brasserie_thrift::convert::{
    artifact_id, artifact_pieces, artifact_range, busy_pieces, worker_exception,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerCheckArtifactArgs, BistroSchedulerCheckArtifactResult,
    BistroSchedulerFetchArtifactsArgs, BistroSchedulerFetchArtifactsResult,
};
use brasserie_thrift::generated::worker::ArtifactPieces;
use brasserie_thrift::rpc::Responder;

use super::Files;

impl Files {
    /// Answers a call. Reads on a thread for blocking work.
    pub(crate) fn serve(&self, call: BistroSchedulerFetchArtifactsArgs, responder: Responder) {
        let mut served = self.0.served.lock();
        let turn = served.begin_turn(call.transfer, Requester::OtherHost, Instant::now());
        drop(served);
        let Ok(turn) = turn else {
            return reply(responder, busy_pieces());
        };
        let own = self.clone();
        tokio::task::spawn_blocking(move || {
            let read = own.read(&call, &turn);
            let mut served = own.0.served.lock();
            served.end_turn(&turn, read.as_ref().ok(), Instant::now());
            drop(served);
            match read {
                Ok(read) => reply(responder, artifact_pieces(turn.transfer(), read.pieces)),
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
    fn read(
        &self,
        call: &BistroSchedulerFetchArtifactsArgs,
        turn: &ServingTurn,
    ) -> Result<ReadPieces, String> {
        let mut is_lost = false;
        let find = |id| self.reader(&call.cluster, id, &mut is_lost);
        let read = turn.read(
            call.ranges.iter().map(artifact_range),
            call.most_bytes,
            find,
        );
        if is_lost {
            self.tell();
        }
        read.map_err(|error| error.to_string())
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

fn reply(responder: Responder, pieces: ArtifactPieces) {
    responder.reply(&BistroSchedulerFetchArtifactsResult {
        result_value: Some(pieces),
        ex: None,
    });
}
