//! The callers of the scheduler: its authority, its tokens, and the door of its port.
//!
//! A scheduler that listens on loopback addresses alone has no authority, and asks nobody who he is. Every other scheduler creates one at its
//! first start, in `identity` in its data directory, and then accepts calls inside TLS only.

mod door;
mod local;
mod protection;
mod rotation;
mod tokens;
mod web;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use brasserie_common::access::{CallOrigin, Identity, LocalUser, Role, ShardLabel, TokenNumber};
use brasserie_common::{Principal, Shard, WallTime};
use brasserie_common_identity::{
    Authority, AuthorityHash, CertificateDer, Certified, Cluster, IdentityError, Life, Lifetime,
    Secret, Token, TokenForm,
};
use brasserie_common_runtime::{Clock, DataDir, DataDirError, files, net};
use brasserie_thrift::rpc::{Disconnector, ServerHandle};
use parking_lot::Mutex;
use sha2::Digest as _;
use tokio::sync::watch;

use crate::audit::{Audit, RefusalReason};
use door::OwnSide;
pub(crate) use local::open as open_socket;
pub(crate) use protection::Protection;
pub(crate) use rotation::{AuthorityState, RotationStep};
use tokens::Tokens;
pub(crate) use tokens::{KeptToken, NotAdmitted, Revoked, Terms};
use web::WebSide;

/// The folder in the data directory.
const FOLDER: &str = "identity";
/// The file with the tokens.
const TOKENS: &str = "tokens.json";
/// The file with the first administrator's token.
const ADMIN_TOKEN: &str = "admin.token";
/// The size limit of the file with the tokens.
const MAX_TOKENS_BYTES: u64 = 64 << 20;
/// The life of the first administrator's token.
const ADMIN_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// The life of the token that a scheduler prints at its start.
const INVITED_FOR: Duration = Duration::from_secs(30 * 60);
/// The time after its end in which a worker's certificate may still be renewed.
const LAPSED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

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

/// Whether the scheduler has an authority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecurityWish {
    /// It has one if its data directory has one.
    #[default]
    AsFound,
    /// It creates one if its data directory has none.
    Secured,
}

/// The reason why a scheduler's identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Folder(#[from] DataDirError),
    #[error("{} is not what this program has written: {error}", path.display())]
    Damaged {
        path: PathBuf,
        error: serde_json::Error,
    },
}

/// The identity of a scheduler with an authority.
pub(crate) struct Guard {
    cluster: Cluster,
    authority: Mutex<Arc<Authority>>,
    folder: PathBuf,
    worker_life: Lifetime,
    own: Mutex<OwnSide>,
    web: Mutex<WebSide>,
    /// The users of this machine who need no token.
    locals: Vec<LocalUser>,
    plain: PlainPeers,
    /// Locked for moments only, as heartbeats and new connections read it.
    tokens: Mutex<Tokens>,
    /// Locked by a change while it waits for the disk.
    changing: Mutex<()>,
    /// Ends the connections of those who may no longer call; set once the port is served.
    server: Mutex<Option<Disconnector>>,
    /// The number of changes that workers need to know.
    changes: watch::Sender<u64>,
    /// The start of this process, which tells its changes from those of others.
    source: i64,
    /// Grows when calls to workers need new connections.
    proofs: AtomicU64,
    /// The name of this machine.
    host_name: Option<String>,
    audit: Audit,
}

/// How a worker joins, with a token's secret.
#[derive(Clone, Debug)]
pub struct Invitation(String);

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Guard {
    /// Opens the identity in a data directory; `None` if the scheduler has no authority.
    pub(crate) fn open(
        directory: &DataDir,
        (wish, plain): (SecurityWish, PlainPeers),
        worker_life: Duration,
        audit: Audit,
    ) -> Result<Option<Arc<Self>>, SecurityError> {
        let now = Clock.wall();
        let folder = directory.path().join(FOLDER);
        let found = match folder.exists() {
            true => Authority::read(&folder)?,
            false => None,
        };
        let is_new = found.is_none();
        let authority = match (found, wish) {
            (Some(authority), _) => authority,
            (None, SecurityWish::AsFound) => return Ok(None),
            (None, SecurityWish::Secured) => Authority::create(now)?,
        };
        let folder = directory.folder(FOLDER)?;
        // An operator copies the authority alone to a scheduler that takes over a cluster.
        let tokens = match is_new || !folder.join(TOKENS).exists() {
            true => {
                let mut tokens = Tokens::default();
                let path = create_admin(&folder, &mut tokens, &authority, now)?;
                tracing::info!(token = %path.display(), "created the token of the administrator");
                tokens
            }
            false => read_tokens(&folder.join(TOKENS))?,
        };
        if is_new {
            // It is written last: a crash before that leaves a folder from which the next start begins anew.
            authority.write(&folder)?;
            tracing::info!(cluster = %authority.cluster(), "created the authority of a new cluster");
        }
        rotation::follow(&folder, &authority)?;
        let own = OwnSide::create(&authority, now)?;
        let guard = Guard {
            cluster: authority.cluster().clone(),
            authority: Mutex::new(Arc::new(authority)),
            folder,
            worker_life: Lifetime(worker_life),
            own: Mutex::new(own),
            web: Mutex::default(),
            locals: local::users(),
            plain,
            tokens: Mutex::new(tokens),
            changing: Mutex::default(),
            server: Mutex::default(),
            changes: watch::Sender::new(0),
            source: now.as_millis(),
            proofs: AtomicU64::new(0),
            host_name: net::host_name(),
            audit,
        };
        Ok(Some(Arc::new(guard)))
    }

    fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.authority.lock())
    }

    /// Returns what workers need to know about certificates: those that are revoked, and the authorities of the others.
    pub(crate) fn news(&self) -> (Revoked, Vec<AuthorityHash>) {
        let now = Clock.wall();
        let revoked = self.tokens.lock().revoked(now);
        let trusted = self.authority().trusted(now);
        (revoked, trusted.iter().map(AuthorityHash::of).collect())
    }

    /// Returns the number of changes that workers need to know.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the number of this process in news for workers.
    pub(crate) fn source(&self) -> i64 {
        self.source
    }

    /// Returns where a worker that has announced this host may be called without any proof; `None`: nowhere. Only `--insecure-network`
    /// permits that for other machines.
    pub(crate) fn plain_host<'a>(&self, announced: &'a str) -> Option<&'a str> {
        let address = announced.parse::<IpAddr>().ok();
        let is_loopback = address.is_some_and(|address| address.to_canonical().is_loopback());
        let is_own_name = announced == "localhost" || self.host_name.as_deref() == Some(announced);
        match self.plain {
            PlainPeers::Strangers => None,
            PlainPeers::All => Some(announced),
            PlainPeers::Loopback if is_loopback => Some(announced),
            // No resolver decides where a call without proof goes.
            PlainPeers::Loopback if is_own_name => Some("127.0.0.1"),
            PlainPeers::Loopback => None,
        }
    }

    /// Lets the guard close connections of this server.
    pub(crate) fn watch(&self, server: &ServerHandle) {
        *self.server.lock() = Some(server.disconnector());
    }

    /// Counts, audits and logs a call with a token that is not valid. A flood of them has few lines.
    pub(crate) fn note_false_token(&self, from: &CallOrigin, call: &str, why: &str) {
        let by = Principal::stranger(from.clone(), "");
        if self.audit.refused(RefusalReason::Token, &by, call, why) {
            tracing::warn!(%from, call, why, "a caller has shown no valid token");
        }
    }

    /// Returns the name that the worker of a shard must prove when it is called.
    pub(crate) fn name_of(&self, shard: &ShardLabel) -> String {
        self.cluster.of_shard(shard)
    }

    /// Admits a worker that joins. Waits for the disk.
    pub(crate) fn join(
        &self,
        secret: &str,
        shard: &Shard,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let now = Clock.wall();
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let label = ShardLabel::of(shard);
        let digest = sha2::Sha256::digest(request).into();
        self.change(|tokens| {
            let issued = now.max(tokens.valid_from(&label));
            let until = issued + self.worker_life.0;
            let token = tokens.admit(now, &secret, (shard, digest), until)?;
            // A request that cannot be certified uses up no token.
            self.certify(tokens, request, (label, Some(token)), issued)
        })
    }

    /// Certifies another key of a worker that has a certificate. Waits for the disk.
    pub(crate) fn renew(
        &self,
        shard: &ShardLabel,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let now = Clock.wall();
        let chain = self.change(|tokens| {
            let issued = now.max(tokens.valid_from(shard));
            tokens.renew(shard, issued + self.worker_life.0)?;
            self.certify(tokens, request, (shard.clone(), None), issued)
        })?;
        self.admit_again(shard);
        Ok(chain)
    }

    /// Certifies a key of a person for calls to workers.
    pub(crate) fn certify_person(
        &self,
        person: &Identity,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let certified = Certified {
            cluster: self.cluster.clone(),
            role: person.role,
            shard: None,
            token: person.token,
        };
        let authority = self.authority();
        let chain = authority.certify(request, &certified, Clock.wall(), Lifetime::PERSON);
        chain.map_err(|error| NotAdmitted::Failed(error.to_string()))
    }

    fn certify(
        &self,
        tokens: &mut Tokens,
        request: &[u8],
        (shard, token): (ShardLabel, Option<TokenNumber>),
        issued: WallTime,
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let authority = self.authority();
        if token.is_some() {
            tokens.note_authority(&shard, &authority.hash());
        }
        let certified = Certified {
            cluster: self.cluster.clone(),
            role: Role::Worker,
            shard: Some(shard),
            token,
        };
        let chain = authority.certify(request, &certified, issued, self.worker_life);
        chain.map_err(|error| NotAdmitted::Failed(error.to_string()))
    }

    /// Returns who the holder of a token for people is.
    pub(crate) fn authenticate(
        &self,
        secret: &str,
        from: impl Into<CallOrigin>,
    ) -> Result<Identity, NotAdmitted> {
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let person = self.tokens.lock().person(Clock.wall(), &secret)?;
        Ok(person.identity(from))
    }

    /// Returns the name of the cluster in certificates.
    pub(crate) fn cluster(&self) -> &str {
        self.cluster.as_str()
    }

    /// Returns the life of a token that is kept.
    pub(crate) fn token_life(&self, token: TokenNumber) -> Option<Life> {
        self.tokens.lock().life(token)
    }

    /// Returns the shards whose certificates should have been renewed before, and how long these are still valid.
    fn late_certificates(&self) -> BTreeMap<String, Duration> {
        self.tokens.lock().late(Clock.wall(), self.worker_life)
    }

    /// Creates a token. Waits for the disk.
    pub(crate) fn create_token(&self, terms: Terms) -> Result<(Token, KeptToken), NotAdmitted> {
        let secret = Secret::random().map_err(|error| NotAdmitted::Failed(error.to_string()))?;
        let form = match terms.role {
            Role::Worker => TokenForm::Join,
            _ => TokenForm::Person,
        };
        let kept = self.change(|tokens| tokens.add(Clock.wall(), &secret, terms))?;
        let authority = self.authority().hash();
        let token = Token {
            form,
            authority,
            secret,
        };
        Ok((token, kept))
    }

    /// Creates a token for one worker, and says how the worker joins. Waits for the disk.
    pub(crate) fn invite(&self, address: SocketAddr) -> Result<Invitation, NotAdmitted> {
        let (token, _) = self.create_token(Terms {
            role: Role::Worker,
            lives_for: INVITED_FOR,
            uses: 1,
            shard: None,
            owner: None,
            run_as: Vec::new(),
        })?;
        let host = match address.ip().is_unspecified() {
            true => net::host_name().unwrap_or_else(|| "THIS-MACHINE".to_owned()),
            false => address.ip().to_string(),
        };
        let port = address.port();
        Ok(Invitation(format!(
            "To let a worker join within 30 minutes, run on its machine\n\n  brasserie-worker --scheduler {host}:{port} --shard NAME \
             --data-dir DIR --join-token -\n\nand give it this line:\n\n  {}\n\nFor others: brasserie token create --help",
            token.reveal()
        )))
    }

    /// Returns the valid tokens by their numbers.
    pub(crate) fn tokens(&self) -> Vec<(String, KeptToken)> {
        let tokens = self.tokens.lock();
        let valid = tokens.valid(Clock.wall());
        valid
            .map(|(number, token)| (number.to_owned(), token.clone()))
            .collect()
    }

    /// Ends a token, and the connections of its holders. Waits for the disk.
    pub(crate) fn revoke_token(&self, number: &str) -> Result<(), NotAdmitted> {
        let now = Clock.wall();
        let certified_until = now + Lifetime::PERSON.0;
        let number = self.change(|tokens| tokens.revoke(now, number, certified_until))?;
        self.tell_workers();
        self.disconnect(|identity| identity.role != Role::Worker && identity.token == Some(number));
        Ok(())
    }

    /// Ends the certificates of a shard, and its connections in both directions. Waits for the disk.
    pub(crate) fn revoke_worker(&self, shard: &Shard) -> Result<(), NotAdmitted> {
        self.change(|tokens| tokens.revoke_shard(Clock.wall(), shard))?;
        let label = ShardLabel::of(shard);
        self.tell_workers();
        self.call_anew();
        self.disconnect(|identity| identity.shard.as_ref() == Some(&label));
        Ok(())
    }

    /// Makes a change that is on disk before it has effect.
    fn change<T>(
        &self,
        make: impl FnOnce(&mut Tokens) -> Result<T, NotAdmitted>,
    ) -> Result<T, NotAdmitted> {
        let _turn = self.changing.lock();
        let mut changed = self.tokens.lock().clone();
        let made = make(&mut changed)?;
        self.keep(&changed)?;
        self.put_in_force(changed);
        Ok(made)
    }

    fn put_in_force(&self, changed: Tokens) {
        let authority = self.authority().hash();
        self.tokens.lock().replace(changed, &authority);
    }

    fn keep(&self, tokens: &Tokens) -> Result<(), NotAdmitted> {
        write_tokens(&self.folder, tokens).map_err(|error| NotAdmitted::Failed(error.to_string()))
    }

    fn tell_workers(&self) {
        self.changes.send_modify(|change| *change += 1);
    }

    /// Makes further calls to workers go over new connections, whose peers prove themselves anew.
    fn call_anew(&self) {
        self.proofs.fetch_add(1, Ordering::SeqCst);
    }

    /// Makes all peers with certificates prove themselves anew, in both directions, because an authority is not accepted any more.
    fn ask_for_proofs_anew(&self) {
        self.call_anew();
        if let Some(server) = &*self.server.lock() {
            server.disconnect_certified();
        }
    }

    /// Makes the open connections of a worker with an expired certificate those of a worker that has renewed it.
    fn admit_again(&self, shard: &ShardLabel) {
        if let Some(server) = &*self.server.lock() {
            server.identify(|peer| match peer {
                Principal::Authenticated(identity)
                    if identity.role == Role::Lapsed && identity.shard.as_ref() == Some(shard) =>
                {
                    Some(Principal::Authenticated(Arc::new(Identity {
                        role: Role::Worker,
                        ..Identity::clone(identity)
                    })))
                }
                Principal::Authenticated(_)
                | Principal::Unauthenticated(_)
                | Principal::Stranger(..)
                | Principal::Own => None,
            });
        }
    }

    fn disconnect(&self, is_meant: impl Fn(&Identity) -> bool) {
        if let Some(server) = &*self.server.lock() {
            server.disconnect(|peer| match peer {
                Principal::Authenticated(identity) => is_meant(identity),
                Principal::Unauthenticated(_) | Principal::Stranger(..) | Principal::Own => false,
            });
        }
    }
}

/// Creates the token of the first administrator, and keeps it in a file for this user alone.
fn create_admin(
    folder: &Path,
    tokens: &mut Tokens,
    authority: &Authority,
    now: WallTime,
) -> Result<PathBuf, SecurityError> {
    let secret = Secret::random()?;
    let terms = Terms {
        role: Role::Admin,
        lives_for: ADMIN_LIFE,
        uses: 0,
        shard: None,
        owner: None,
        run_as: Vec::new(),
    };
    let added = tokens.add(now, &secret, terms);
    debug_assert!(
        added.is_ok(),
        "the terms are good, and there is no other token"
    );
    let token = Token {
        form: TokenForm::Person,
        authority: authority.hash(),
        secret,
    };
    let path = folder.join(ADMIN_TOKEN);
    let text = format!("{}\n", token.reveal());
    write_file(&path, text.as_bytes())?;
    write_tokens(folder, tokens)?;
    Ok(path)
}

fn write_tokens(folder: &Path, tokens: &Tokens) -> Result<(), IdentityError> {
    let path = folder.join(TOKENS);
    let text = serde_json::to_vec_pretty(tokens).map_err(|error| IdentityError::Write {
        path: path.clone(),
        error: error.into(),
    })?;
    write_file(&path, &text)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    files::atomic_write(path, bytes).map_err(|error| IdentityError::Write {
        path: path.to_owned(),
        error,
    })
}

fn read_tokens(path: &Path) -> Result<Tokens, SecurityError> {
    let bytes = files::read_regular(path, MAX_TOKENS_BYTES).map_err(IdentityError::from)?;
    serde_json::from_slice(&bytes).map_err(|error| SecurityError::Damaged {
        path: path.to_owned(),
        error,
    })
}
