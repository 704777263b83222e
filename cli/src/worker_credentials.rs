//! The credentials of calls to workers and other holders of artifacts: a certificate for some minutes, or none where plain text is allowed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use brasserie_common::access::{Role, ShardLabel};
use brasserie_common::{Shard, Time};
use brasserie_common_identity::{
    CertificateDer, Credential, Life, TrustDomain, client_config, proven,
};
use brasserie_common_runtime::{Clock, NetworkExposure};
use brasserie_thrift::generated::brasserie::RevokedShard;
use brasserie_thrift::rpc::{Credentials, PeerAddr, THRIFT};
use parking_lot::Mutex;

use crate::addresses::{NOT_IN_PLAIN_TEXT, is_plain_allowed, peer};
use crate::connection::Connection;

/// The pause after a renewal that has failed, while the certificate is still of use.
const RETRY: Duration = Duration::from_secs(30);

/// A worker to call, or another holder of artifacts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Callee {
    pub peer: PeerAddr,
    /// The shard that it must prove, if proofs are asked for; `None`: it may be any worker, or the scheduler.
    pub shard: Option<ShardLabel>,
}

impl Callee {
    /// Returns the worker of a shard at HOST:PORT; `None` if either text is invalid.
    pub(crate) fn worker(shard: &str, address: &str) -> Option<Self> {
        let shard = Shard::try_from(shard).ok()?;
        Some(Callee {
            peer: peer(address)?,
            shard: Some(ShardLabel::of(&shard)),
        })
    }
}

impl From<PeerAddr> for Callee {
    fn from(peer: PeerAddr) -> Self {
        Callee { peer, shard: None }
    }
}

/// The credentials of calls to the workers of a scheduler.
#[derive(Clone, Debug)]
pub(crate) enum WorkerCredentials {
    /// Workers ask for no proof. Calls may go to these addresses.
    Plain(NetworkExposure),
    Certified(Arc<CertifiedCaller>),
}

/// A caller with a certificate. Commands may take longer than it is valid.
pub(crate) struct CertifiedCaller {
    scheduler: Connection,
    certificate: Mutex<Certificate>,
    /// Locked during a renewal, so that other calls wait for this one.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Certificate {
    tls: Arc<rustls::ClientConfig>,
    trust_domain: TrustDomain,
    renew_at: Time,
    until: Time,
    /// The certificates of a shard that were issued before this second are revoked.
    revoked: Arc<BTreeMap<ShardLabel, i64>>,
    /// The number of renewals before it.
    version: u64,
}

impl Certificate {
    /// Prepares a certificate that was issued now. Its dates are by the scheduler's clock, so only their distance counts.
    fn new((own, revoked): (Credential, Vec<RevokedShard>), now: Time) -> Result<Self> {
        let Life { issued, until } = Life::of(own.certificate())?;
        let life = issued.until(until);
        let revoked = revoked.into_iter().filter_map(|revoked| {
            let label = ShardLabel::from_label(&revoked.shard?)?;
            Some((label, revoked.issued_before.unwrap_or_default()))
        });
        Ok(Certificate {
            tls: client_config(Some(&own), &own.authorities(), THRIFT)?,
            trust_domain: proven(own.certificate())?.certified.trust_domain,
            renew_at: now + life / 2,
            until: now + life,
            revoked: Arc::new(revoked.collect()),
            version: 0,
        })
    }
}

impl WorkerCredentials {
    /// Prepares calls to the workers of a scheduler, which may have to certify the caller first.
    pub(crate) async fn of(scheduler: &Connection) -> Result<Self> {
        let now = Clock.now();
        Ok(match scheduler.certify().await? {
            None => WorkerCredentials::Plain(scheduler.exposure()),
            Some(issued) => WorkerCredentials::Certified(Arc::new(CertifiedCaller {
                scheduler: scheduler.clone(),
                certificate: Mutex::new(Certificate::new(issued, now)?),
                renewing: tokio::sync::Mutex::new(()),
            })),
        })
    }

    /// Returns the caller's side of TLS; `None` if there is none.
    pub(crate) fn for_tls(&self) -> Option<Arc<dyn Credentials>> {
        match self {
            WorkerCredentials::Plain(_) => None,
            WorkerCredentials::Certified(caller) => {
                Some(Arc::clone(caller) as Arc<dyn Credentials>)
            }
        }
    }

    /// Returns a worker for a call. Certifies the caller again if less than half of the certificate's life is left.
    pub(crate) async fn worker(&self, callee: &Callee) -> Result<PeerAddr, String> {
        self.peer(callee, Role::Worker).await
    }

    /// Returns a holder of artifacts for a call as [`WorkerCredentials::worker`] does: a worker, or the scheduler.
    pub(crate) async fn holder(&self, callee: &Callee) -> Result<PeerAddr, String> {
        let address = callee.peer.as_str();
        let role = match self {
            WorkerCredentials::Certified(caller) if caller.scheduler.address() == address => {
                Role::Scheduler
            }
            WorkerCredentials::Certified(_) | WorkerCredentials::Plain(_) => Role::Worker,
        };
        self.peer(callee, role).await
    }

    /// Returns the peer with the name that it must prove: that of its shard, or else that of the role.
    async fn peer(&self, callee: &Callee, role: Role) -> Result<PeerAddr, String> {
        let peer = &callee.peer;
        match self {
            WorkerCredentials::Plain(exposure) if is_plain_allowed(peer, *exposure) => {
                Ok(peer.clone())
            }
            WorkerCredentials::Plain(_) => Err(format!(
                "{peer} is no loopback address, and the call would be in plain text. {NOT_IN_PLAIN_TEXT}"
            )),
            // The kernel proves the other end of a local socket.
            WorkerCredentials::Certified(_) if peer.is_local() => Ok(peer.clone()),
            WorkerCredentials::Certified(caller) => {
                let trust_domain = caller.valid_certificate().await?.trust_domain;
                let name = match &callee.shard {
                    Some(shard) => trust_domain.of_shard(shard),
                    None => trust_domain.of_role(role),
                };
                Ok(peer.clone().proving(&name))
            }
        }
    }
}

impl CertifiedCaller {
    fn certificate(&self) -> Certificate {
        self.certificate.lock().clone()
    }

    /// Returns the certificate, or a new one if less than half of its life is left. Errors if it has expired, and there is no new one.
    async fn valid_certificate(&self) -> Result<Certificate, String> {
        let _one = self.renewing.lock().await;
        let (now, before) = (Clock.now(), self.certificate());
        if now < before.renew_at {
            return Ok(before);
        }
        let current = match self.request_certificate(now).await {
            Ok(renewed) => Certificate {
                version: before.version + 1,
                ..renewed
            },
            Err(_) if now < before.until => Certificate {
                renew_at: now + RETRY,
                ..before
            },
            Err(error) => return Err(format!("cannot get another certificate: {error:#}")),
        };
        *self.certificate.lock() = current.clone();
        Ok(current)
    }

    /// Requests a certificate for a new key.
    async fn request_certificate(&self, now: Time) -> Result<Certificate> {
        match self.scheduler.certify().await? {
            Some(issued) => Certificate::new(issued, now),
            None => anyhow::bail!("the scheduler asks for no proof"),
        }
    }
}

impl Credentials for CertifiedCaller {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        self.certificate().tls
    }

    fn accepts(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        let shown = shown.first().ok_or("it has shown no certificate")?;
        let proven = proven(shown).map_err(|error| error.to_string())?;
        let revoked = self.certificate().revoked;
        let before = proven.certified.shard.and_then(|shard| revoked.get(&shard));
        match before.is_some_and(|before| proven.issued.as_secs() < *before) {
            true => Err("its certificate is revoked".to_owned()),
            false => Ok(()),
        }
    }

    /// A worker refuses calls on a connection whose certificate has expired, also if there is another one by then.
    fn version(&self) -> u64 {
        self.certificate().version
    }
}

impl fmt::Debug for CertifiedCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertifiedCaller(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use brasserie_common_identity::{Authority, Certified, KeyRequest, Lifetime};
    use brasserie_thrift::generated::brasserie::{
        BrasserieCertifyArgs, BrasserieCertifyResult, IssuedCertificate,
    };
    use brasserie_thrift::rpc::{IncomingCall, LACK_OF_ROOM, Limits, Server, Service};
    use tokio_util::sync::{CancellationToken, DropGuard};

    use super::*;
    use crate::destination::Destination;

    /// A scheduler that certifies callers for this long, and has revoked the certificates of `w2`.
    struct Certifier {
        authority: Authority,
        life: Lifetime,
        count: Arc<AtomicUsize>,
        /// The first calls, for which there is no place.
        busy: usize,
    }

    impl Service for Certifier {
        fn call(&self, call: IncomingCall<'_>) {
            if self.count.fetch_add(1, Ordering::Relaxed) < self.busy {
                return call.into_responder().fail(LACK_OF_ROOM);
            }
            call.serve(|args: BrasserieCertifyArgs, to| {
                let certified = Certified {
                    trust_domain: self.authority.trust_domain().clone(),
                    role: Role::Viewer,
                    shard: None,
                    token: None,
                };
                let (now, request) = (Clock.wall(), &args.request);
                let chain = self.authority.certify(request, &certified, now, self.life);
                let chain = chain
                    .expect("a request")
                    .iter()
                    .map(|one| one.to_vec())
                    .collect();
                to.reply(&BrasserieCertifyResult {
                    result_value: Some(IssuedCertificate {
                        chain: Some(chain),
                        revoked: Some(vec![RevokedShard {
                            shard: Some(label("w2").as_str().to_owned()),
                            issued_before: Some(now.as_secs() + 1),
                        }]),
                    }),
                    ex: None,
                });
            });
        }
    }

    fn label(shard: &str) -> ShardLabel {
        ShardLabel::of(&Shard::try_from(shard).expect("a shard"))
    }

    /// Serves a certifier at a local socket that is busy at first, and returns the number of its calls.
    async fn serve(socket: &Path, life: Duration, busy: usize) -> (Arc<AtomicUsize>, DropGuard) {
        let authority = Authority::create(Clock.wall()).expect("an authority");
        serve_with(authority, socket, life, busy).await
    }

    async fn serve_with(
        authority: Authority,
        socket: &Path,
        life: Duration,
        busy: usize,
    ) -> (Arc<AtomicUsize>, DropGuard) {
        let listens = tokio::net::UnixListener::bind(socket).expect("a socket");
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await;
        let server = server.expect("a free port").with_socket(Some(listens));
        let count = Arc::<AtomicUsize>::default();
        let certifier = Certifier {
            authority,
            life: Lifetime(life),
            count: Arc::clone(&count),
            busy,
        };
        let stop = CancellationToken::new();
        server.serve(certifier, Limits::DEFAULT, stop.clone());
        (count, stop.drop_guard())
    }

    #[tokio::test]
    async fn a_certificate_is_renewed_when_half_of_its_life_is_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let worker = Callee::worker("w1", "192.0.2.1:1").expect("an address");
        for (name, life, expected) in [
            ("over", Duration::ZERO, [2, 3]),
            ("long", Lifetime::PERSON.0, [1, 1]),
        ] {
            let socket = folder.path().join(name);
            let (count, stop) = serve(&socket, life, 0).await;
            let connection = Connection::to_destination(&Destination::local(&socket));
            let credentials = WorkerCredentials::of(&connection.expect("an address")).await;
            let credentials = credentials.expect("a certificate");
            let own = || credentials.for_tls().expect("a certificate");
            let (tls, version) = (|| own().tls(), || own().version());
            for expected in expected {
                let (before, earlier) = (tls(), version());
                let peer = credentials.worker(&worker).await.expect("a certificate");
                assert_ne!(peer, worker.peer, "it proves a name");
                assert_eq!(count.load(Ordering::Relaxed), expected, "{name}");
                assert_eq!(Arc::ptr_eq(&before, &tls()), life > Duration::ZERO);
                let is_anew = version() > earlier;
                assert_eq!(is_anew, life.is_zero(), "connections are opened anew");
            }
            drop(stop);
            std::fs::remove_file(&socket).expect("the socket");
            let after = credentials.worker(&worker).await;
            assert_eq!(after.is_ok(), life > Duration::ZERO, "{after:?}");
        }
    }

    #[tokio::test]
    async fn a_scheduler_without_a_place_is_asked_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("busy");
        let (count, _stop) = serve(&socket, Lifetime::PERSON.0, 3).await;
        let connection = Connection::to_destination(&Destination::local(&socket));
        let credentials = WorkerCredentials::of(&connection.expect("an address")).await;
        assert!(credentials.expect("a certificate").for_tls().is_some());
        assert_eq!(count.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn a_worker_proves_its_shard_by_a_certificate_that_is_not_revoked() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("socket");
        let authority = Authority::create(Clock.wall()).expect("an authority");
        let trust_domain = authority.trust_domain().clone();
        let shown = |shard: &str| {
            let key = KeyRequest::create().expect("a key");
            let certified = Certified {
                trust_domain: trust_domain.clone(),
                role: Role::Worker,
                shard: Some(label(shard)),
                token: None,
            };
            let now = Clock.wall();
            let chain = authority.certify(key.request(), &certified, now, Lifetime::WORKER);
            chain.expect("a certificate")
        };
        let (one, two) = (shown("w1"), shown("w2"));
        let (_, _stop) = serve_with(authority, &socket, Lifetime::PERSON.0, 0).await;
        let connection = Connection::to_destination(&Destination::local(&socket));
        let credentials = WorkerCredentials::of(&connection.expect("an address")).await;
        let credentials = credentials.expect("a certificate");
        let worker = Callee::worker("w1", "192.0.2.1:1").expect("an address");
        for peer in [
            credentials.worker(&worker).await,
            credentials.holder(&worker).await,
        ] {
            let peer = peer.expect("a certificate");
            assert_eq!(peer.name(), Some(&*trust_domain.of_shard(&label("w1"))));
        }
        let any = Callee::from(worker.peer);
        let any = credentials.worker(&any).await.expect("a certificate");
        assert_eq!(any.name(), Some(&*trust_domain.of_role(Role::Worker)));
        let own = credentials.for_tls().expect("a certificate");
        assert_eq!(own.accepts(&one), Ok(()));
        let refused = own.accepts(&two);
        assert_eq!(refused, Err("its certificate is revoked".to_owned()));
    }

    #[tokio::test]
    async fn workers_of_other_machines_are_called_in_plain_text_by_request_alone() {
        let [far, near] =
            ["192.0.2.1", "127.0.0.1"].map(|host| Callee::from(PeerAddr::new(host, 1)));
        let closed = WorkerCredentials::Plain(NetworkExposure::LoopbackOnly);
        let open = WorkerCredentials::Plain(NetworkExposure::AnyAddress);
        assert_eq!(closed.worker(&near).await, Ok(near.peer.clone()));
        assert_eq!(open.holder(&far).await, Ok(far.peer.clone()));
        let why = closed.worker(&far).await.expect_err("refused");
        assert!(why.contains("--insecure-network"), "{why}");
    }
}
