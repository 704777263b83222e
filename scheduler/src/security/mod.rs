//! The callers of the scheduler: its authority, its tokens, and the proofs at its port.
//!
//! A scheduler that listens on loopback addresses alone has no authority, and accepts calls without any proof. Every other scheduler creates one
//! at its first start, in `identity` in its data directory, and then accepts calls inside TLS only.

mod authentication;
mod disk;
mod former;
mod local;
mod protection;
mod renewals;
mod revocation;
mod rotation;
mod tokens;
mod web;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use brasserie_common::access::{
    CallOrigin, Identity, IdentityProof, LocalUser, Role, ShardLabel, TokenNumber,
};
use brasserie_common::{Principal, Shard, WallTime};
use brasserie_common_identity::{
    Authority, AuthorityHash, CERTIFICATE, CertificateDer, Certified, Cluster, IdentityError, KEY,
    Life, Lifetime, Secret, Token, TokenForm, proven, write_secret,
};
use brasserie_common_runtime::files::{self, OthersMay};
use brasserie_common_runtime::{Clock, DataDir, DataDirError, net};
use brasserie_thrift::rpc::{Disconnector, ServerHandle};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::audit::Audit;
use authentication::OwnSide;
use disk::{Disk, Turn};
pub(crate) use former::FormerIdentity;
pub(crate) use local::open as open_socket;
pub(crate) use protection::Protection;
pub(crate) use renewals::RenewalTurn;
use renewals::Renewals;
pub(crate) use rotation::{AuthorityState, RotationStep};
pub(crate) use tokens::{KeptToken, NotAdmitted, Revoked, Terms, TokenAuthority};
use tokens::{Person, Tokens};
use web::WebSide;

/// The folder in the data directory.
const FOLDER: &str = "identity";
/// The file with the tokens.
const TOKENS: &str = "tokens.json";
/// The file with the first administrator's token.
const ADMIN_TOKEN: &str = "admin.token";
/// The note of that token.
const ADMIN_NOTE: &str = "in identity/admin.token";
/// The size limit of the file with the tokens.
const MAX_TOKENS_BYTES: usize = 64 << 20;
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
    #[error(
        "{} has the tokens or the key of a cluster, but no {CERTIFICATE}. Restore {CERTIFICATE} and {KEY} there from a backup of this data \
         directory. To begin a new cluster instead, remove {}, and start once with --after-restoring-a-backup: all workers and people then need \
         new tokens", folder.display(), folder.display()
    )]
    NoAuthority { folder: PathBuf },
    #[error(
        "{} has the authority of a cluster, but no {TOKENS}: its tokens, its joined workers and its revocations are lost, so revoked certificates \
         would be accepted again. Restore {TOKENS} there from a backup of this data directory. To go on without it, start once with \
         --after-restoring-a-backup: nothing starts during the safe wait, people need new tokens, and what was revoked must be revoked again: \
         brasserie worker revoke", folder.display()
    )]
    TokensLost { folder: PathBuf },
    #[error(
        "the last scheduler of this data directory had an authority, but {} has none. Restore that folder from a backup of this data \
         directory. To go on with another authority, start once with --after-restoring-a-backup: nothing starts during the safe wait, and all \
         workers and people need new tokens", folder.display()
    )]
    AuthorityLost { folder: PathBuf },
    #[error("{} is not what this program has written: {error}", path.display())]
    Damaged {
        path: PathBuf,
        error: serde_json::Error,
    },
}

/// The identity of a scheduler with an authority.
pub(crate) struct Security {
    cluster: Cluster,
    side: Mutex<Side>,
    folder: PathBuf,
    worker_life: Lifetime,
    /// The users of this machine who need no token.
    locals: Vec<LocalUser>,
    plain: PlainPeers,
    /// Locked for moments only, as heartbeats and new connections read it.
    tokens: Mutex<Tokens>,
    /// The writes of the tokens and of the authority.
    disk: Disk,
    renewals: Renewals,
    /// This value, for a thread that writes.
    me: Weak<Security>,
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

/// The authority, and the scheduler's own certificates of it.
struct Side {
    authority: Arc<Authority>,
    own: OwnSide,
    web: WebSide,
}

/// How a worker joins, with a token's secret.
#[derive(Clone, Debug)]
pub struct Invitation(String);

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Security {
    /// Opens the identity in a data directory; `None` if the scheduler has no authority.
    pub(crate) fn open(
        directory: &DataDir,
        (wish, plain): (SecurityWish, PlainPeers),
        worker_life: Duration,
        audit: Audit,
    ) -> Result<Option<Arc<Self>>, SecurityError> {
        let now = Clock.wall();
        let folder = directory.path().join(FOLDER);
        let found = find(&folder)?;
        let is_new = found.is_none();
        let authority = match (found, wish) {
            (Some(authority), _) => authority,
            (None, SecurityWish::AsFound) => return Ok(None),
            (None, SecurityWish::Secured) => Authority::create(now)?,
        };
        let folder = directory.folder(FOLDER)?;
        check_admin(&folder)?;
        // An operator copies the authority alone to a scheduler that takes over a cluster.
        let mut tokens = match is_new || !exists(&folder.join(TOKENS))? {
            true => {
                let mut tokens = Tokens::default();
                let (number, path) = create_admin(&folder, &mut tokens, &authority, now)?;
                audit.own_token(number, Some(ADMIN_NOTE));
                tracing::info!(token = %path.display(), "created the token of the administrator");
                tokens
            }
            false => read_tokens(&folder.join(TOKENS))?,
        };
        if is_new {
            // It is written last: a crash before that leaves a folder from which the next start begins anew.
            authority.write(&folder)?;
            tracing::info!(trust_domain = %authority.cluster(), "created the authority of a new cluster");
        }
        if let Some(admin) = rotation::follow(&folder, &authority)? {
            tokens.bind(admin, &authority.hash());
        }
        let own = OwnSide::create(&authority, now)?;
        let security = Arc::new_cyclic(|me| Security {
            cluster: authority.cluster().clone(),
            side: Mutex::new(Side {
                authority: Arc::new(authority),
                own,
                web: WebSide::default(),
            }),
            folder,
            worker_life: Lifetime(worker_life),
            locals: local::users(),
            plain,
            tokens: Mutex::new(tokens),
            disk: Disk::default(),
            renewals: Renewals::default(),
            me: Weak::clone(me),
            server: Mutex::default(),
            changes: watch::Sender::new(0),
            source: now.as_millis(),
            proofs: AtomicU64::new(0),
            host_name: net::host_name(),
            audit,
        });
        Ok(Some(security))
    }

    fn authority(&self) -> Arc<Authority> {
        Arc::clone(&self.side.lock().authority)
    }

    /// Returns the authorities that are accepted now, the current one first.
    fn trusted(&self) -> Vec<AuthorityHash> {
        let trusted = self.authority().trusted(Clock.wall());
        trusted.iter().map(AuthorityHash::of).collect()
    }

    /// Returns what workers need to know about certificates: those that are revoked, and the authorities of the others.
    pub(crate) fn news(&self) -> (Revoked, Vec<AuthorityHash>) {
        let revoked = self.tokens.lock().revoked();
        (revoked, self.trusted())
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

    /// Lets revocations close connections of this server.
    pub(crate) fn watch(&self, server: &ServerHandle) {
        *self.server.lock() = Some(server.disconnector());
    }

    /// Counts, audits and logs a call with a token that is not valid. A flood of them has few lines.
    pub(crate) fn note_false_token(
        &self,
        from: &CallOrigin,
        call: &str,
        (shown, why): (&str, &str),
    ) {
        let by = Principal::stranger(from.clone(), "");
        let number = number_of(shown);
        if self.audit.false_token(&by, call, (number, why)) {
            let token = number.map(|number| number.to_string());
            tracing::warn!(%from, call, why, token, "a caller has shown no valid token");
        }
    }

    /// Audits and logs that a browser has logged in.
    pub(crate) fn note_login(&self, by: Identity) {
        let by = Principal::Authenticated(Arc::new(by));
        if self.audit.login(&by) {
            tracing::info!(from = %by, "a browser has logged in");
        }
    }

    /// Returns the name that the worker of a shard must prove when it is called.
    pub(crate) fn name_of(&self, shard: &ShardLabel) -> String {
        self.cluster.of_shard(shard)
    }

    /// Errors if a worker may not join. Returns whether the same request was admitted before. Does not wait for the disk, so that those without a good token wait in no queue.
    pub(crate) fn check_join(
        &self,
        secret: &str,
        shard: &Shard,
        request: &[u8],
    ) -> Result<bool, NotAdmitted> {
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let trusted = self.trusted();
        let tokens = self.tokens.lock();
        let checked = tokens.check_admission(Clock.wall(), &secret, (shard, request));
        let (number, is_again) = checked?;
        tokens.check_authority(number, &trusted)?;
        Ok(is_again)
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
        let chain = self.change(|tokens| {
            let admitted = tokens.admit(now, &secret, (shard, request), self.worker_life.0);
            let (token, life) = admitted?;
            tokens.check_authority(token, &self.trusted())?;
            // A request that cannot be certified uses up no token.
            self.certify(tokens, request, (label.clone(), Some(token)), life.issued)
        })?;
        // A former key of the shard, with an expired certificate, may not be renewed any more.
        self.disconnect(|identity| identity.shard.as_ref() == Some(&label));
        Ok(chain)
    }

    /// Certifies another key of a worker that has a certificate, unless those since this second do not count any more. Waits for the disk.
    pub(crate) fn renew(
        &self,
        shard: &ShardLabel,
        valid_from: i64,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let now = Clock.wall();
        let chain = self.change(|tokens| {
            if tokens.valid_from(shard) != valid_from {
                return Err(NotAdmitted::Revoked(shard.clone()));
            }
            let life = tokens.renew(now, shard, self.worker_life.0)?;
            self.certify(tokens, request, (shard.clone(), None), life.issued)
        })?;
        self.admit_again(shard);
        Ok(chain)
    }

    /// Certifies a key of a person for calls to workers, for no longer than its token is valid.
    pub(crate) fn certify_person(
        &self,
        person: &Identity,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        if person.proof == IdentityProof::Certificate {
            return Err(NotAdmitted::NoCertificate);
        }
        let (now, mut life) = (Clock.wall(), Lifetime::PERSON);
        if let Some(token) = person.token {
            let holder = self.holder_of_token(token)?;
            life.0 = life.0.min(now.until(holder.until));
        }
        let certified = Certified {
            cluster: self.cluster.clone(),
            role: person.role,
            shard: None,
            token: person.token,
        };
        Ok(self.authority().certify(request, &certified, now, life)?)
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
            shard: Some(shard.clone()),
            token,
        };
        let chain = authority.certify(request, &certified, issued, self.worker_life)?;
        tokens.note_key(&shard, proven(&chain[0])?.key);
        Ok(chain)
    }

    /// Returns who the holder of a token for people is.
    pub(crate) fn authenticate(
        &self,
        secret: &str,
        from: impl Into<CallOrigin>,
    ) -> Result<Identity, NotAdmitted> {
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let person = self.tokens.lock().person(Clock.wall(), &secret)?;
        let person = self.holder_of_token(person.token)?;
        Ok(person.identity(from))
    }

    /// Returns who holds a token for people that was shown before. Errors once it is revoked or expired, or its authority was replaced.
    fn holder_of_token(&self, token: TokenNumber) -> Result<Person, NotAdmitted> {
        let trusted = self.trusted();
        let tokens = self.tokens.lock();
        tokens.check_authority(token, &trusted)?;
        tokens.holder(Clock.wall(), token)
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
        let secret = Secret::random()?;
        let form = match terms.role {
            Role::Worker => TokenForm::Join,
            _ => TokenForm::Person,
        };
        let (kept, authority) = self.change(|tokens| {
            let authority = self.authority().hash();
            let added = tokens.add(Clock.wall(), &secret, terms)?;
            let bound = tokens.bind(secret.number(), &authority).cloned();
            Ok((bound.unwrap_or(added), authority))
        })?;
        let token = Token {
            form,
            authority,
            secret,
        };
        Ok((token, kept))
    }

    /// Creates a token for one worker, and says how the worker joins. Waits for the disk.
    pub(crate) fn invite(&self, address: SocketAddr) -> Result<Invitation, NotAdmitted> {
        let terms = Terms::joining(INVITED_FOR, 1).own("printed at the start");
        let (token, kept) = self.create_token(terms)?;
        self.audit
            .own_token(token.secret.number(), kept.note.as_deref());
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

    /// Returns whether the authority that a token names is accepted; `None` if it is not known which one that is.
    pub(crate) fn authority_of(&self, token: &KeptToken) -> Option<TokenAuthority> {
        token.authority(&self.trusted())
    }

    /// Closes the connections of people whose token names an authority that was replaced, except one.
    pub(crate) fn disconnect_replaced(&self, except: Option<&CallOrigin>) {
        let (trusted, tokens) = (self.trusted(), self.tokens.lock().clone());
        let is_replaced = |token| tokens.check_authority(token, &trusted).is_err();
        self.disconnect(|identity| {
            let is_meant = identity.role != Role::Worker && Some(&identity.from) != except;
            is_meant && identity.token.is_some_and(is_replaced)
        });
    }

    /// Makes a change that is on disk before it has effect.
    fn change<T>(
        &self,
        make: impl FnOnce(&mut Tokens) -> Result<T, NotAdmitted>,
    ) -> Result<T, NotAdmitted> {
        let turn = self.disk.turn()?;
        let mut tokens = self.tokens.lock();
        tokens.forget_ended(Clock.wall());
        let mut changed = tokens.clone();
        drop(tokens);
        let made = make(&mut changed)?;
        self.keep(&changed, &turn)?;
        let authority = self.authority().hash();
        let has_revoked = self.tokens.lock().replace(changed, &authority);
        if has_revoked {
            // The change may have added a certificate that is revoked too.
            self.tell_workers();
        }
        Ok(made)
    }

    /// Writes a copy of the tokens, with all revocations that were in effect when it was made.
    fn keep(&self, tokens: &Tokens, _: &Turn<'_>) -> Result<(), NotAdmitted> {
        let text = tokens.to_json(MAX_TOKENS_BYTES);
        let written = text.and_then(|text| Ok(write_secret(&self.folder.join(TOKENS), &text)?));
        if written.is_ok() {
            self.tokens.lock().note_kept(tokens.revocations());
        }
        self.disk.note(written.as_ref().err());
        written
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

/// Returns the number of a token that somebody shows: in full, or its secret alone. `None` if it is none. The number of a token that is not valid
/// is that of its secret, which it does not tell.
pub(crate) fn number_of(shown: &str) -> Option<TokenNumber> {
    let secret = match Token::from_text(shown) {
        Ok(token) => token.secret,
        Err(_) => Secret::from_digits(shown).ok()?,
    };
    Some(secret.number())
}

/// Creates the token of the first administrator, and keeps it in a file for this user alone.
fn create_admin(
    folder: &Path,
    tokens: &mut Tokens,
    authority: &Authority,
    now: WallTime,
) -> Result<(TokenNumber, PathBuf), SecurityError> {
    let secret = Secret::random()?;
    let number = secret.number();
    let terms = Terms::person(Role::Admin, ADMIN_LIFE).own(ADMIN_NOTE);
    let added = tokens.add(now, &secret, terms);
    tokens.bind(number, &authority.hash());
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
    write_secret(&path, text.as_bytes())?;
    let kept = folder.join(TOKENS);
    let text = tokens.to_json(MAX_TOKENS_BYTES);
    let text = text.map_err(|why| IdentityError::Write {
        path: kept.clone(),
        error: std::io::Error::other(why),
    })?;
    write_secret(&kept, &text)?;
    Ok((number, path))
}

/// Errors if others may know the first administrator's token, or have put another file in its place.
fn check_admin(folder: &Path) -> Result<(), SecurityError> {
    let path = folder.join(ADMIN_TOKEN);
    if exists(&path)? {
        files::check_own(&path, OthersMay::DoNothing).map_err(IdentityError::from)?;
    }
    Ok(())
}

/// Reads the authority in its folder; `None` if the scheduler has had none. Errors if it had one.
fn find(folder: &Path) -> Result<Option<Authority>, SecurityError> {
    if let Some(found) = Authority::read(folder)? {
        return Ok(Some(found));
    }
    // A first start that was cut off leaves the token of its administrator, and then perhaps a key.
    let tokens = folder.join(TOKENS);
    let is_new = match exists(&tokens)? {
        true => read_tokens(&tokens)?.are_new(),
        false => !exists(&folder.join(KEY))?,
    };
    match is_new {
        true => Ok(None),
        false => Err(SecurityError::NoAuthority {
            folder: folder.to_owned(),
        }),
    }
}

fn exists(path: &Path) -> Result<bool, IdentityError> {
    Ok(files::exists(path)?)
}

fn read_tokens(path: &Path) -> Result<Tokens, SecurityError> {
    let bytes = files::read_own(path, MAX_TOKENS_BYTES as u64, OthersMay::DoNothing);
    let bytes = bytes.map_err(IdentityError::from)?;
    serde_json::from_slice(&bytes).map_err(|error| SecurityError::Damaged {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
pub(crate) mod tests;
