//! The callers of the scheduler: its authority, its tokens, and the proofs at its ports.
//!
//! A scheduler that listens on loopback addresses alone has no authority, and accepts calls without any proof. Every other scheduler creates one
//! at its first start, in `identity` in its data directory (`folder`), and then accepts calls inside TLS only.
//!
//! * `registry` decides which tokens and certificates count. It is the content of `tokens.json`.
//! * `authentication` and `web` hold the scheduler's side of TLS, and say who a caller is: by certificate, or through `tokens` by token.
//! * `examination` reads the folder for `brasserie doctor`.
//! * `tokens`, `certificates`, `revocation` and `rotation` serve the calls that change the registry or the authority (`rpc/identities.rs`).
//!
//! [`Security`] has a lock for the registry and another one for the authority with the scheduler's certificates. Each is held for moments, no
//! thread holds both, and none writes to the disk under them. Changes wait in `writes` for a turn. The thread that has the turn copies the
//! registry, makes all of them in the copy, writes the copy, and puts the copy in force: a change is durable before it is effective, so a token
//! with one use is used once. A revocation is effective first (`revocation`). A rotation writes the authority in its turn, and then puts it in
//! force.

mod authentication;
mod certificates;
mod examination;
mod folder;
mod local_socket;
mod lost_identity;
mod not_admitted;
mod protection;
mod registry;
mod renewal_limiter;
mod revocation;
mod rotation;
mod tokens;
mod web;
mod writes;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use brasserie_common::Principal;
use brasserie_common::access::{Identity, LocalUser, ShardLabel};
use brasserie_common_identity::{Authority, AuthorityHash, Lifetime, TrustDomain};
use brasserie_common_runtime::{Clock, DataDir, net};
use brasserie_thrift::rpc::{Disconnector, ServerHandle};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::audit::Audit;
use authentication::RpcTls;
pub(crate) use certificates::IssuedChain;
pub use examination::{IdentityExamination, examine_identity};
pub use folder::SecurityError;
pub(crate) use local_socket::open as open_local_socket;
pub(crate) use lost_identity::LostIdentityCheck;
pub(crate) use not_admitted::NotAdmitted;
pub(crate) use protection::Protection;
#[cfg(test)]
use registry::TokenAuthority;
use registry::{Registry, RevokedCertificates};
pub(crate) use registry::{Terms, TokenRecord};
use renewal_limiter::RenewalLimiter;
pub(crate) use renewal_limiter::RenewalTurn;
pub(crate) use rotation::{AuthorityState, RotationStep};
pub use tokens::Invitation;
pub(crate) use tokens::token_number;
use web::WebTls;
use writes::Writes;

/// The treatment of peers that do not use TLS, by a scheduler with an authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlainPeers {
    /// They may ask whether the scheduler is alive, and nothing else.
    #[default]
    Strangers,
    /// Those on this machine may do everything, without any proof.
    Loopback,
    /// All may do everything, without any proof.
    All,
}

/// Whether a start creates an authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorityCreation {
    /// No start creates one. The scheduler has one if its data directory has one.
    #[default]
    Never,
    /// A start creates one if the data directory has none.
    IfMissing,
}

/// The identity of a scheduler with an authority.
pub(crate) struct Security {
    trust_domain: TrustDomain,
    own: Mutex<OwnCertificates>,
    registry: Mutex<Registry>,
    /// The folder of the authority and the registry.
    folder: PathBuf,
    writes: Writes,
    worker_life: Lifetime,
    renewal_limiter: RenewalLimiter,
    /// The users of this machine who need no token.
    local_admins: Vec<LocalUser>,
    plain_peers: PlainPeers,
    /// This value, for the thread that writes revocations.
    weak_self: Weak<Security>,
    /// Ends connections of callers that are no longer admitted; set once the port is served.
    server: Mutex<Option<Disconnector>>,
    /// The number of changes that workers need to know.
    news_version: watch::Sender<u64>,
    /// The start of this process, in milliseconds, which tells its news from those of others.
    source: i64,
    /// Grows when calls to workers need new connections.
    credentials_version: AtomicU64,
    /// The name of this machine.
    host_name: Option<String>,
    audit: Audit,
    /// The problem of an identity that the data directory had lost at this start, with its remedy.
    lost: OnceLock<&'static str>,
}

/// The authority, and the scheduler's own certificates of it.
struct OwnCertificates {
    authority: Arc<Authority>,
    rpc_tls: RpcTls,
    web_tls: WebTls,
}

impl Security {
    /// Opens the identity in a data directory; `None` if the scheduler has no authority.
    pub(crate) fn open(
        directory: &DataDir,
        (creation, plain_peers): (AuthorityCreation, PlainPeers),
        worker_life: Duration,
        audit: Audit,
    ) -> Result<Option<Arc<Self>>, SecurityError> {
        let now = Clock.wall();
        let opened = folder::open(directory, creation, &audit, now)?;
        let Some((folder, authority, registry)) = opened else {
            return Ok(None);
        };
        let rpc_tls = RpcTls::create(&authority, now)?;
        let security = Arc::new_cyclic(|weak_self| Security {
            trust_domain: authority.trust_domain().clone(),
            own: Mutex::new(OwnCertificates {
                authority: Arc::new(authority),
                rpc_tls,
                web_tls: WebTls::default(),
            }),
            registry: Mutex::new(registry),
            folder,
            writes: Writes::default(),
            worker_life: Lifetime(worker_life),
            renewal_limiter: RenewalLimiter::default(),
            local_admins: local_socket::admins(),
            plain_peers,
            weak_self: Weak::clone(weak_self),
            server: Mutex::default(),
            news_version: watch::Sender::new(0),
            source: now.as_millis(),
            credentials_version: AtomicU64::new(0),
            host_name: net::host_name(),
            audit,
            lost: OnceLock::new(),
        });
        Ok(Some(security))
    }

    /// Lets `status` show what the data directory had lost at this start, until tasks may start.
    pub(crate) fn note_lost(&self, text: &'static str) {
        // A second loss at one start cannot be.
        let _ = self.lost.set(text);
    }

    fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.own.lock().authority)
    }

    /// Returns the authorities that are accepted now, the current one first.
    fn trusted(&self) -> Vec<AuthorityHash> {
        let trusted = self.authority().trusted(Clock.wall());
        trusted.iter().map(AuthorityHash::of).collect()
    }

    /// Returns the news for workers about certificates: those that are revoked, and the authorities of the others.
    pub(crate) fn certificate_news(&self) -> (RevokedCertificates, Vec<AuthorityHash>) {
        let revoked = self.registry.lock().revoked();
        (revoked, self.trusted())
    }

    /// Returns the number of changes that workers need to know.
    pub(crate) fn news_version(&self) -> watch::Receiver<u64> {
        self.news_version.subscribe()
    }

    /// Returns the number of this process in news for workers, in milliseconds.
    pub(crate) fn source(&self) -> i64 {
        self.source
    }

    /// Returns where a worker that has announced this host may be called without any proof; `None`: nowhere. Only `--insecure-network`
    /// permits that for other machines.
    pub(crate) fn plain_host<'a>(&self, announced: &'a str) -> Option<&'a str> {
        let address = announced.parse::<IpAddr>().ok();
        let is_loopback = address.is_some_and(|address| address.to_canonical().is_loopback());
        let is_own_name = announced == "localhost" || self.host_name.as_deref() == Some(announced);
        match self.plain_peers {
            PlainPeers::Strangers => None,
            PlainPeers::All => Some(announced),
            PlainPeers::Loopback if is_loopback => Some(announced),
            // No resolver decides where a call without proof goes.
            PlainPeers::Loopback if is_own_name => Some("127.0.0.1"),
            PlainPeers::Loopback => None,
        }
    }

    /// Lets revocations close connections of this server.
    pub(crate) fn set_server(&self, server: &ServerHandle) {
        *self.server.lock() = Some(server.disconnector());
    }

    /// Audits and logs that a browser has logged in.
    pub(crate) fn note_login(&self, by: Identity) {
        let by = Principal::Authenticated(Arc::new(by));
        if self.audit.login(&by) {
            tracing::info!(from = %by, "a browser has logged in");
        }
    }

    /// Returns the name that the worker of a shard must prove when it is called.
    pub(crate) fn certified_name(&self, shard: &ShardLabel) -> String {
        self.trust_domain.of_shard(shard)
    }

    /// Returns the trust domain, the name of the cluster in certificates.
    pub(crate) fn trust_domain(&self) -> &str {
        self.trust_domain.as_str()
    }

    /// Makes the news of certificates go to all workers.
    fn notify_workers(&self) {
        self.news_version.send_modify(|change| *change += 1);
    }

    /// Makes further calls to workers go over new connections, whose peers prove themselves anew.
    fn reconnect_to_workers(&self) {
        self.credentials_version.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes all peers with certificates prove themselves anew, in both directions, because an authority is not accepted any more.
    fn reconnect_certified_peers(&self) {
        self.reconnect_to_workers();
        if let Some(server) = &*self.server.lock() {
            server.disconnect_certified();
        }
    }

    /// Ends the connections of callers with such an identity.
    fn disconnect(&self, is_meant: impl Fn(&Identity) -> bool) {
        if let Some(server) = &*self.server.lock() {
            server.disconnect(|peer| peer.identity().is_some_and(&is_meant));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
