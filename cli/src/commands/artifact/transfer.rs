//! Fetches the bytes of one artifact from one worker, by the call that other workers use.

use std::io::{self, Seek, Write};
use std::time::{Duration, Instant};

use brasserie_common::{Artifact, ArtifactId};
use brasserie_thrift::generated::worker::{
    ArtifactPieces, ArtifactRange, BistroWorkerCheckArtifactArgs, BistroWorkerCheckArtifactResult,
    BistroWorkerFetchArtifactsArgs, BistroWorkerFetchArtifactsResult,
};
use brasserie_thrift::rpc::{CallResult, CallTimeouts, ClientConfig, ClientPool};
use sha2::{Digest as _, Sha256};

use crate::output::printable;
use crate::worker_credentials::{Callee, WorkerCredentials};

/// The most bytes of one answer, as between workers.
const MOST_BYTES: i32 = 2 << 20;
/// The least bytes of an answer that is not the last. A worker that sends fewer counts as gone.
const LEAST_BYTES: usize = 64 << 10;
/// The time for one answer: a busy disk reads 2 MiB in less.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time without progress because the other side is busy. Transfers between workers take seconds.
const BUSY_LIMIT: Duration = Duration::from_secs(120);

/// The wait for a busy scheduler or busy workers. It begins anew with all progress.
#[derive(Debug)]
pub(super) struct BusyWait {
    since: Instant,
    /// The most bytes that were transferred.
    bytes: u64,
}

impl BusyWait {
    pub(super) fn new(now: Instant) -> Self {
        BusyWait {
            since: now,
            bytes: 0,
        }
    }

    /// Notes how many bytes are transferred. Fewer than before are no progress.
    pub(super) fn reached(&mut self, bytes: u64, now: Instant) {
        if bytes > self.bytes {
            *self = BusyWait { since: now, bytes };
        }
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= BUSY_LIMIT
    }
}

/// The reason why a worker sent no good copy.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchFailure {
    #[error("it serves as many transfers as it may")]
    Busy,
    #[error("it has no copy any more")]
    Absent,
    #[error("its copy is damaged")]
    Damaged,
    #[error("{0}")]
    Gone(String),
    /// The copy cannot be written on this machine.
    #[error(transparent)]
    Local(io::Error),
}

/// The bytes of an artifact that have come so far.
pub(super) struct PartialCopy<F> {
    file: F,
    hasher: Sha256,
    offset: u64,
}

impl<F: Write + Seek> PartialCopy<F> {
    /// Begins a copy in an empty file.
    pub(super) fn new(file: F) -> Self {
        PartialCopy {
            file,
            hasher: Sha256::new(),
            offset: 0,
        }
    }

    pub(super) fn into_file(self) -> F {
        self.file
    }

    /// Returns the number of bytes that have come.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.hasher.update(bytes);
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn id(&self) -> ArtifactId {
        ArtifactId(self.hasher.clone().finalize().into())
    }

    /// Drops all bytes. A complete copy replaces all that remain in the file, because each has the size of the artifact.
    fn begin_again(&mut self) -> io::Result<()> {
        self.file.rewind()?;
        self.hasher = Sha256::new();
        self.offset = 0;
        Ok(())
    }
}

/// The client side of transfers from the workers of one scheduler.
pub(super) struct Transfers {
    pool: ClientPool,
    credentials: WorkerCredentials,
    /// The space of the scheduler's artifacts.
    cluster: String,
    hostname: String,
}

impl Transfers {
    /// Creates the side of a caller that shows a certificate if `credentials` has one.
    pub(super) fn new(cluster: &str, credentials: WorkerCredentials) -> Self {
        let timeouts = CallTimeouts {
            receive: ANSWER_TIMEOUT,
            ..CallTimeouts::DEFAULT
        };
        Transfers {
            pool: ClientPool::new(ClientConfig {
                timeouts,
                credentials: credentials.for_tls(),
                ..ClientConfig::default()
            }),
            credentials,
            cluster: cluster.to_owned(),
            // A worker on the same machine serves its own host from a reserve; without a name this host counts as another one.
            hostname: brasserie_worker::directory::hostname().unwrap_or_default(),
        }
    }

    /// Fetches the rest of an artifact. `received` gets the number of bytes so far. Errors unless all bytes have the SHA-256 of the
    /// artifact. Damaged bytes are dropped; else the copy keeps those that have come, and another peer may send the rest.
    pub(super) async fn fetch<F: Write + Seek>(
        &self,
        peer: &Callee,
        artifact: &Artifact,
        copy: &mut PartialCopy<F>,
        received: impl Fn(u64),
    ) -> Result<(), FetchFailure> {
        let fetched = self.fetch_rest(peer, artifact, copy, received).await;
        if let Err(FetchFailure::Damaged) = fetched {
            copy.begin_again().map_err(FetchFailure::Local)?;
        }
        fetched
    }

    async fn fetch_rest<F: Write + Seek>(
        &self,
        peer: &Callee,
        artifact: &Artifact,
        copy: &mut PartialCopy<F>,
        received: impl Fn(u64),
    ) -> Result<(), FetchFailure> {
        let mut transfer = 0;
        loop {
            let answer = self.ask(peer, artifact.id, copy.offset, transfer).await?;
            transfer = answer.transfer.unwrap_or(0);
            let piece = answer.pieces.into_iter().flatten().next();
            let piece = piece.ok_or_else(|| FetchFailure::Gone("it sent nothing".to_owned()))?;
            let bytes = piece.bytes.ok_or(FetchFailure::Absent)?;
            let end = copy.offset + bytes.len() as u64;
            let size = piece.size.and_then(|size| u64::try_from(size).ok());
            if size != Some(artifact.size) || end > artifact.size {
                return Err(FetchFailure::Damaged);
            }
            copy.append(&bytes).map_err(FetchFailure::Local)?;
            received(end);
            if end == artifact.size {
                return match copy.id() == artifact.id {
                    true => Ok(()),
                    false => Err(FetchFailure::Damaged),
                };
            }
            if bytes.len() < LEAST_BYTES {
                return Err(FetchFailure::Gone("it sends almost nothing".to_owned()));
            }
        }
    }

    async fn ask(
        &self,
        peer: &Callee,
        id: ArtifactId,
        offset: u64,
        transfer: i64,
    ) -> Result<ArtifactPieces, FetchFailure> {
        let arguments = BistroWorkerFetchArtifactsArgs {
            cluster: self.cluster.clone(),
            ranges: vec![ArtifactRange {
                id: Some(id.0.to_vec()),
                offset: Some(i64::try_from(offset).unwrap_or(i64::MAX)),
            }],
            most_bytes: MOST_BYTES,
            transfer,
            hostname: self.hostname.clone(),
        };
        let peer = self
            .credentials
            .holder(peer)
            .await
            .map_err(FetchFailure::Gone)?;
        let called = self.pool.call::<_, BistroWorkerFetchArtifactsResult>(
            &peer,
            "fetchArtifacts",
            &arguments,
        );
        let gone = |why: &dyn std::fmt::Display| FetchFailure::Gone(printable(&why.to_string()));
        match called.await {
            CallResult::Done(BistroWorkerFetchArtifactsResult { ex: Some(ex), .. }) => {
                Err(gone(&ex.message.unwrap_or_default()))
            }
            CallResult::Done(result) => match result.result_value.unwrap_or_default() {
                ArtifactPieces {
                    busy: Some(true), ..
                } => Err(FetchFailure::Busy),
                pieces => Ok(pieces),
            },
            CallResult::NotSent(why) => Err(gone(&why)),
            CallResult::Unknown(why) => Err(gone(&why)),
        }
    }

    /// Asks a worker to read its copy, which arrived damaged, and to drop it if it is.
    pub(super) async fn have_checked(&self, peer: &Callee, id: ArtifactId) {
        let arguments = BistroWorkerCheckArtifactArgs {
            cluster: self.cluster.clone(),
            id: id.0.to_vec(),
        };
        let Ok(peer) = self.credentials.holder(peer).await else {
            return;
        };
        // A worker that does not answer checks its copy when another worker reads it.
        let _: CallResult<BistroWorkerCheckArtifactResult> =
            self.pool.call(&peer, "checkArtifact", &arguments).await;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::sync::{Arc, OnceLock};

    use brasserie_common::ArtifactForm;
    use brasserie_common_runtime::NetworkExposure;
    use brasserie_thrift::generated::worker::ArtifactPiece;
    use brasserie_thrift::rpc::{IncomingCall, Limits, PeerAddr, Server, Service};
    use tokio_util::sync::{CancellationToken, DropGuard};

    use super::*;

    const PLAIN: WorkerCredentials = WorkerCredentials::Plain(NetworkExposure::LoopbackOnly);

    /// A worker that serves these bytes, whatever it is asked for.
    struct Holder {
        bytes: Vec<u8>,
        /// The most bytes of an answer.
        most: usize,
        busy: bool,
        /// The offset from which on it has no copy any more.
        gone_from: usize,
        /// The offset of the first call.
        begun: Arc<OnceLock<usize>>,
    }

    impl Service for Holder {
        fn call(&self, call: IncomingCall<'_>) {
            match call.method() {
                "fetchArtifacts" => call.serve(|args: BistroWorkerFetchArtifactsArgs, to| {
                    let offset = args.ranges[0].offset.unwrap_or(0);
                    let offset = usize::try_from(offset).expect("an offset");
                    self.begun.get_or_init(|| offset);
                    let rest = &self.bytes[offset..];
                    let sent = rest[..rest.len().min(self.most)].to_vec();
                    let piece = ArtifactPiece {
                        bytes: Some(sent).filter(|_| offset < self.gone_from),
                        size: i64::try_from(self.bytes.len()).ok(),
                    };
                    to.reply(&BistroWorkerFetchArtifactsResult {
                        result_value: Some(match self.busy {
                            true => ArtifactPieces {
                                busy: Some(true),
                                ..ArtifactPieces::default()
                            },
                            false => ArtifactPieces {
                                busy: None,
                                pieces: Some(vec![piece]),
                                transfer: Some(7),
                            },
                        }),
                        ex: None,
                    });
                }),
                _ => call.unknown_method(),
            }
        }
    }

    async fn serve(holder: Holder) -> (Callee, DropGuard) {
        let any = ([127, 0, 0, 1], 0).into();
        let server = Server::bind(any).await.expect("a free port");
        let peer = PeerAddr::from(server.local_addr()).into();
        let stop = CancellationToken::new();
        server.serve(holder, Limits::default(), stop.clone());
        (peer, stop.drop_guard())
    }

    fn artifact(bytes: &[u8]) -> Artifact {
        Artifact {
            id: ArtifactId(Sha256::digest(bytes).into()),
            size: bytes.len() as u64,
            form: ArtifactForm::File,
        }
    }

    /// Returns the copy of an artifact with the bytes `wanted`.
    async fn fetch(holder: Holder, wanted: &[u8]) -> Result<Vec<u8>, FetchFailure> {
        let (peer, _stop) = serve(holder).await;
        let mut copy = PartialCopy::new(Cursor::new(Vec::new()));
        let transfers = Transfers::new("space", PLAIN);
        let wanted = artifact(wanted);
        let fetched = transfers.fetch(&peer, &wanted, &mut copy, |_| {});
        fetched.await.map(|()| copy.into_file().into_inner())
    }

    fn holder(bytes: &[u8]) -> Holder {
        Holder {
            bytes: bytes.to_vec(),
            most: LEAST_BYTES,
            busy: false,
            gone_from: usize::MAX,
            begun: Arc::default(),
        }
    }

    #[tokio::test]
    async fn a_copy_is_continued_by_the_next_worker_and_begins_again_if_it_is_damaged() {
        let bytes: Vec<u8> = (0..3 * LEAST_BYTES).map(|at| (at >> 8) as u8).collect();
        let wanted = artifact(&bytes);
        let transfers = Transfers::new("space", PLAIN);
        let leaves = |bytes: &[u8]| Holder {
            gone_from: 2 * LEAST_BYTES,
            ..holder(bytes)
        };
        let damaged: Vec<u8> = bytes.iter().map(|byte| byte ^ 1).collect();
        for (first, from) in [(leaves(&bytes), 2 * LEAST_BYTES), (leaves(&damaged), 0)] {
            let mut copy = PartialCopy::new(Cursor::new(Vec::new()));
            let (peer, _stop) = serve(first).await;
            let absent = transfers.fetch(&peer, &wanted, &mut copy, |_| {}).await;
            assert!(matches!(absent, Err(FetchFailure::Absent)), "{absent:?}");
            assert_eq!(copy.offset(), 2 * LEAST_BYTES as u64);
            let second = holder(&bytes);
            let begun = Arc::clone(&second.begun);
            let (peer, _stop) = serve(second).await;
            let fetched = transfers.fetch(&peer, &wanted, &mut copy, |_| {}).await;
            assert_eq!(begun.get(), Some(&(2 * LEAST_BYTES)));
            assert_eq!(fetched.is_ok(), from > 0, "{fetched:?}");
            if fetched.is_err() {
                let third = holder(&bytes);
                let begun = Arc::clone(&third.begun);
                let (peer, _stop) = serve(third).await;
                let fetched = transfers.fetch(&peer, &wanted, &mut copy, |_| {}).await;
                assert!(fetched.is_ok(), "{fetched:?}");
                assert_eq!(begun.get(), Some(&0));
            }
            assert_eq!(copy.into_file().into_inner(), bytes);
        }
    }

    #[test]
    fn the_wait_for_a_busy_peer_begins_anew_with_progress_only() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut wait = BusyWait::new(begun);
        assert!(!wait.is_over(at(119)) && wait.is_over(at(120)));
        wait.reached(10, at(100));
        assert!(!wait.is_over(at(219)) && wait.is_over(at(220)));
        for (bytes, seconds) in [(10, 200), (0, 210), (9, 215)] {
            wait.reached(bytes, at(seconds));
        }
        assert!(wait.is_over(at(220)));
        wait.reached(11, at(220));
        assert!(!wait.is_over(at(220)));
    }

    #[tokio::test]
    async fn a_copy_arrives_in_pieces_and_is_verified() {
        for length in [0, 1, LEAST_BYTES, 2 * LEAST_BYTES + 1] {
            let bytes = vec![5; length];
            let copy = fetch(holder(&bytes), &bytes).await;
            assert_eq!(copy.expect("a good copy"), bytes);
        }
    }

    #[tokio::test]
    async fn a_copy_with_other_bytes_is_damaged() {
        for sent in [&b"other"[..], b"longer than that", b"x"] {
            let copy = fetch(holder(sent), b"right").await;
            assert!(matches!(copy, Err(FetchFailure::Damaged)), "{copy:?}");
        }
    }

    #[tokio::test]
    async fn a_worker_that_is_busy_slow_or_gone_is_told_apart() {
        let bytes = vec![5; 2 * LEAST_BYTES];
        let busy = Holder {
            busy: true,
            ..holder(&bytes)
        };
        let copy = fetch(busy, &bytes).await;
        assert!(matches!(copy, Err(FetchFailure::Busy)), "{copy:?}");
        let slow = Holder {
            most: 10,
            ..holder(&bytes)
        };
        let copy = fetch(slow, &bytes).await;
        assert!(matches!(copy, Err(FetchFailure::Gone(_))), "{copy:?}");
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let nobody = PeerAddr::from(free.local_addr().expect("a bound port")).into();
        drop(free);
        let transfers = Transfers::new("space", PLAIN);
        let wanted = artifact(&bytes);
        let mut copy = PartialCopy::new(Cursor::new(Vec::new()));
        let gone = transfers.fetch(&nobody, &wanted, &mut copy, |_| {});
        let gone = gone.await.expect_err("nobody listens");
        assert!(matches!(gone, FetchFailure::Gone(_)), "{gone:?}");
    }
}
