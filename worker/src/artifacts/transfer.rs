//! The fetching of artifacts from one peer: a row of calls, each with as many bytes as one message may have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use brasserie_common::{ArtifactId, ArtifactNamespace};
use brasserie_common_artifacts::{ArtifactStore, Incoming, ReceiveError};
use brasserie_thrift::generated::worker::{
    ArtifactPiece, BistroWorkerCheckArtifactArgs, BistroWorkerCheckArtifactResult,
};
use brasserie_thrift::rpc::{CallResult, CallTimeouts, ClientConfig, ClientPool, PeerAddr};
use brasserie_worker_gather::{ReceivedCopy, TransferOutcome};
use parking_lot::Mutex;

use super::background::Background;
use super::counters::Counters;
use super::requests::{ANSWER_TIMEOUT, Answer, Range, Requests};
use crate::membership::Membership;

/// The most partial copies that are kept for further transfers.
const MOST_PARTIAL: usize = 64;
/// The most whole copies of one transfer that are not durable yet. Together they become durable in little more time than one. Each is an open
/// file: fifty transfers have at most a tenth of those that a worker may open.
const MOST_WHOLE: usize = 64;

/// The client side of transfers.
#[derive(Clone)]
pub(super) struct Transfers {
    store: Arc<ArtifactStore>,
    pool: ClientPool,
    hostname: Arc<str>,
    background: Background,
    partial: Arc<Mutex<PartialCopies>>,
    received: ReceivedBytes,
    counters: Counters,
}

/// The bytes of artifacts that have arrived in part, for people.
type ReceivedBytes = Arc<Mutex<BTreeMap<ArtifactId, u64>>>;

/// Copies of which a broken transfer has left the first bytes, the latest last.
type PartialCopies = VecDeque<(ArtifactNamespace, ArtifactId, Incoming)>;

/// The result of a transfer.
pub(crate) struct Transferred {
    pub outcome: TransferOutcome,
    /// The artifacts that the own store could not take, with the reasons.
    pub refused: Vec<(ArtifactId, String)>,
}

/// The writing side of one transfer.
struct Writer {
    store: Arc<ArtifactStore>,
    namespace: ArtifactNamespace,
    /// The copy that is being received.
    current: Option<(ArtifactId, Incoming)>,
    /// Copies of which all bytes are written. They are verified and become durable together.
    whole: BTreeMap<ArtifactId, Incoming>,
    /// Copies of which earlier transfers have left the first bytes and that this one has not reached, and those of which this peer does not
    /// have the rest.
    partial: BTreeMap<ArtifactId, Incoming>,
    /// The artifacts of all these copies.
    resumed: BTreeSet<ArtifactId>,
    received: ReceivedBytes,
    copies: BTreeMap<ArtifactId, ReceivedCopy>,
    refused: Vec<(ArtifactId, String)>,
}

impl Transfers {
    pub(super) fn new(
        store: Arc<ArtifactStore>,
        hostname: Arc<str>,
        background: Background,
        counters: Counters,
        membership: &Membership,
    ) -> Self {
        let timeouts = CallTimeouts {
            receive: ANSWER_TIMEOUT,
            ..CallTimeouts::DEFAULT
        };
        let pool = ClientPool::new(ClientConfig {
            timeouts,
            credentials: membership.credentials(),
            ..ClientConfig::default()
        });
        Transfers {
            store,
            pool,
            hostname,
            background,
            partial: Arc::default(),
            received: Arc::default(),
            counters,
        }
    }

    /// Returns the bytes of artifacts that have arrived in part.
    pub(super) fn received(&self) -> BTreeMap<ArtifactId, u64> {
        self.received.lock().clone()
    }

    /// Returns the connections, which reports use too.
    pub(super) fn pool(&self) -> ClientPool {
        self.pool.clone()
    }

    /// Has a peer read its copy of an artifact, which arrived damaged, and drop it if it is.
    pub(super) async fn have_checked(
        &self,
        peer: &PeerAddr,
        namespace: &ArtifactNamespace,
        artifact: ArtifactId,
    ) {
        let arguments = BistroWorkerCheckArtifactArgs {
            cluster: namespace.as_str().to_owned(),
            id: artifact.0.to_vec(),
        };
        let call =
            self.pool
                .call::<_, BistroWorkerCheckArtifactResult>(peer, "checkArtifact", &arguments);
        if let CallResult::NotSent(_) | CallResult::Unknown(_) = call.await {
            tracing::debug!(%peer, "a worker was not told that its copy of {artifact} may be damaged");
        }
    }

    /// Fetches artifacts from a peer into the store.
    pub(super) async fn fetch(
        self,
        peer: PeerAddr,
        namespace: ArtifactNamespace,
        artifacts: Vec<(ArtifactId, u64)>,
    ) -> Transferred {
        let (began, count) = (Instant::now(), artifacts.len());
        let result = self.fetch_all(&peer, namespace, artifacts).await;
        let end = match &result.outcome {
            TransferOutcome::Answered(_) => "is complete",
            TransferOutcome::Busy(_) => "ended with a busy answer",
            TransferOutcome::ConnectionFailed(_) => "failed",
        };
        let seconds = began.elapsed().as_secs_f64();
        tracing::debug!(%peer, seconds, "a transfer of {count} artifacts {end}");
        result
    }

    async fn fetch_all(
        &self,
        peer: &PeerAddr,
        namespace: ArtifactNamespace,
        artifacts: Vec<(ArtifactId, u64)>,
    ) -> Transferred {
        let (pool, hostname) = (self.pool.clone(), self.hostname.to_string());
        let (mut writer, ranges) = self.begin(namespace.clone(), artifacts);
        let mut requests = Requests::new(pool, peer.clone(), namespace, hostname, ranges);
        let mut is_first = true;
        while let Some(answer) = requests.next().await {
            let pieces = match answer {
                Answer::Pieces(pieces) => pieces,
                Answer::Busy => {
                    self.counters.change(|all| all.busy_received += 1);
                    return self.end(writer, TransferOutcome::Busy).await;
                }
                Answer::Failed => {
                    self.counters.change(|all| all.transfers_failed += 1);
                    return self.end(writer, TransferOutcome::ConnectionFailed).await;
                }
            };
            self.count(&pieces, std::mem::take(&mut is_first));
            let written = self.background.block_for(move || {
                pieces
                    .into_iter()
                    .for_each(|(range, piece)| writer.write(range, piece));
                writer.show_progress();
                writer
            });
            writer = match written.await {
                Some(writer) => writer,
                None => return Transferred::failed(),
            };
            // An artifact that could not be written is not fetched to its end.
            requests.drop_ranges(|id| writer.is_settled(id));
        }
        self.end(writer, TransferOutcome::Answered).await
    }

    /// Makes the whole copies durable, and keeps what has arrived of others.
    async fn end(
        &self,
        mut writer: Writer,
        outcome: impl FnOnce(BTreeMap<ArtifactId, ReceivedCopy>) -> TransferOutcome,
    ) -> Transferred {
        if !writer.whole.is_empty() {
            let finished = self.background.block_for(move || {
                writer.finish();
                writer
            });
            writer = match finished.await {
                Some(writer) => writer,
                None => return Transferred::failed(),
            };
        }
        let namespace = writer.namespace;
        let rest = writer.current.into_iter().chain(writer.partial);
        let rest = rest.map(|(id, incoming)| (namespace.clone(), id, incoming));
        let (kept, mut dropped): (PartialCopies, PartialCopies) =
            rest.partition(|(_, _, incoming)| incoming.received() > 0);
        let mut received = self.received.lock();
        for (id, _) in writer.copies.iter() {
            received.remove(id);
        }
        for (id, _) in &writer.refused {
            received.remove(id);
        }
        drop(received);
        let mut partial = self.partial.lock();
        partial.extend(kept);
        let surplus = partial.len().saturating_sub(MOST_PARTIAL);
        dropped.extend(partial.drain(..surplus));
        drop(partial);
        self.drop_partial(dropped);
        Transferred {
            outcome: outcome(writer.copies),
            refused: writer.refused,
        }
    }

    /// Drops partial copies, which deletes their files.
    fn drop_partial(
        &self,
        dropped: impl IntoIterator<Item = (ArtifactNamespace, ArtifactId, Incoming)>,
    ) {
        let dropped: Vec<_> = dropped.into_iter().collect();
        if !dropped.is_empty() {
            let mut received = self.received.lock();
            for (_, id, _) in &dropped {
                received.remove(id);
            }
            drop(received);
            self.background.block(move || drop(dropped));
        }
    }

    /// Drops the first bytes of artifacts that no run wants any more.
    pub(super) fn forget_unwanted(&self, wanted: impl Fn() -> BTreeSet<ArtifactId>) {
        let mut partial = self.partial.lock();
        if partial.is_empty() {
            return;
        }
        let wanted = wanted();
        let all = std::mem::take(&mut *partial).into_iter();
        let (kept, dropped): (PartialCopies, PartialCopies) =
            all.partition(|(_, id, _)| wanted.contains(id));
        *partial = kept;
        drop(partial);
        self.drop_partial(dropped);
    }

    /// Begins to write artifacts: those of which an earlier transfer has left the first bytes continue there.
    fn begin(
        &self,
        namespace: ArtifactNamespace,
        artifacts: Vec<(ArtifactId, u64)>,
    ) -> (Writer, VecDeque<Range>) {
        let ids: BTreeSet<ArtifactId> = artifacts.iter().map(|(id, _)| *id).collect();
        let partial = self.take_partial(&namespace, &ids);
        let range = |(id, size): (ArtifactId, u64)| Range {
            id,
            offset: partial.get(&id).map_or(0, Incoming::received),
            size,
        };
        let left = artifacts.into_iter().map(range).collect();
        let writer = Writer {
            store: Arc::clone(&self.store),
            namespace,
            current: None,
            whole: BTreeMap::new(),
            resumed: partial.keys().copied().collect(),
            partial,
            received: Arc::clone(&self.received),
            copies: BTreeMap::new(),
            refused: Vec::new(),
        };
        (writer, left)
    }

    /// Returns the first bytes of the artifacts of which an earlier transfer has left some.
    fn take_partial(
        &self,
        namespace: &ArtifactNamespace,
        ids: &BTreeSet<ArtifactId>,
    ) -> BTreeMap<ArtifactId, Incoming> {
        let mut partial = self.partial.lock();
        let all = std::mem::take(&mut *partial).into_iter();
        let (taken, rest): (PartialCopies, PartialCopies) =
            all.partition(|(of, id, _)| of == namespace && ids.contains(id));
        *partial = rest;
        let taken = taken.into_iter().map(|(_, id, incoming)| (id, incoming));
        taken.collect()
    }

    fn count(&self, pieces: &[(Range, ArtifactPiece)], is_first: bool) {
        let bytes = pieces.iter().flat_map(|(_, piece)| &piece.bytes);
        let bytes = bytes.map(Vec::len);
        let bytes = bytes.sum::<usize>() as u64;
        self.counters.change(|all| {
            all.transfers_taken += u64::from(is_first);
            all.bytes_taken += bytes;
        });
    }
}

impl Transferred {
    pub(super) fn failed() -> Self {
        Transferred {
            outcome: TransferOutcome::ConnectionFailed(BTreeMap::new()),
            refused: Vec::new(),
        }
    }
}

impl Writer {
    /// Writes a piece. Pieces of artifacts that were refused have no effect.
    fn write(&mut self, range: Range, piece: ArtifactPiece) {
        let (Some(bytes), Some(size)) = (piece.bytes, piece.size) else {
            return;
        };
        if self.is_settled(range.id) || self.whole.contains_key(&range.id) {
            return;
        }
        if u64::try_from(size) != Ok(range.size) {
            self.copies.insert(range.id, ReceivedCopy::Corrupt);
            return;
        }
        // The peer has no more of the one before. Another one continues where it has stopped.
        let is_other = |(id, _): &mut (ArtifactId, Incoming)| *id != range.id;
        self.partial.extend(self.current.take_if(is_other));
        if let Some(incoming) = self.partial.remove(&range.id) {
            self.current = Some((range.id, incoming));
        } else if range.offset == 0 && self.begin(range.id, range.size).is_none() {
            return;
        }
        let Some((_, incoming)) = self.current.as_mut().filter(|(id, _)| *id == range.id) else {
            return;
        };
        if incoming.received() != range.offset {
            return;
        }
        if let Err(error) = incoming.append(&bytes) {
            self.current = None;
            return self.fail(range.id, error);
        }
        if incoming.received() < range.size {
            return;
        }
        if let Err(error) = incoming.write_out() {
            self.current = None;
            return self.fail(range.id, error);
        }
        self.whole.extend(self.current.take());
        if self.whole.len() >= MOST_WHOLE {
            self.finish();
        }
    }

    /// Verifies the whole copies and makes them durable.
    fn finish(&mut self) {
        let whole = std::mem::take(&mut self.whole);
        for (id, finished) in Incoming::finish_all(whole.into_values()) {
            match finished {
                Ok(()) => drop(self.copies.insert(id, ReceivedCopy::Valid)),
                Err(error) => self.fail(id, error),
            }
        }
    }

    /// Shows how much of the current artifact has arrived.
    fn show_progress(&self) {
        let mut received = self.received.lock();
        received.retain(|id, _| !self.is_settled(*id));
        if let Some((id, incoming)) = &self.current {
            received.insert(*id, incoming.received());
        }
    }

    /// Returns whether no more bytes of the artifact are of use.
    fn is_settled(&self, id: ArtifactId) -> bool {
        self.copies.contains_key(&id) || self.refused.iter().any(|(refused, _)| *refused == id)
    }

    fn begin(&mut self, id: ArtifactId, size: u64) -> Option<()> {
        match self.store.receive(&self.namespace, id, size) {
            Ok(incoming) => {
                self.current = Some((id, incoming));
                Some(())
            }
            Err(error) => {
                self.fail(id, error);
                None
            }
        }
    }

    fn fail(&mut self, id: ArtifactId, error: ReceiveError) {
        match error {
            // It has arrived on another way.
            ReceiveError::Held(_) => drop(self.copies.insert(id, ReceivedCopy::Valid)),
            // Another peer may have sent the damaged part.
            ReceiveError::Damaged { .. } if self.resumed.contains(&id) => {}
            ReceiveError::Damaged { .. } | ReceiveError::TooLong { .. } => {
                self.copies.insert(id, ReceivedCopy::Corrupt);
            }
            ReceiveError::Incomplete { .. } => {}
            ReceiveError::Store(error) => self.refused.push((id, error.to_string())),
        }
    }
}
