//! Who may call the scheduler: its authority, its tokens, and the door of its port.
//!
//! A scheduler that listens on loopback addresses alone has no authority, and asks nobody who he is. Every other scheduler creates one at its
//! first start, in `identity` in its data directory, and then accepts calls inside TLS only.

mod door;
mod tokens;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{Identity, Role, ShardLabel, TokenNumber};
use brasserie_common::{Principal, Shard, WallTime};
use brasserie_common_identity::{
    Authority, CertificateDer, Certified, IdentityError, Lifetime, Secret, Token, TokenForm,
};
use brasserie_common_runtime::{Clock, DataDir, DataDirError, files};
use brasserie_thrift::rpc::{Disconnector, ServerHandle};
use parking_lot::Mutex;
use sha2::Digest as _;

use door::OwnSide;
pub(crate) use tokens::{KeptToken, NotAdmitted, Terms};
use tokens::{Person, Tokens};

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
    authority: Authority,
    folder: PathBuf,
    own: Mutex<OwnSide>,
    plain: PlainPeers,
    tokens: Mutex<Tokens>,
    /// Ends the connections of those who may no longer call; set once the port is served.
    server: Mutex<Option<Disconnector>>,
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
        wish: SecurityWish,
        plain: PlainPeers,
    ) -> Result<Option<Arc<Self>>, SecurityError> {
        let now = Clock.wall();
        let folder = directory.path().join(FOLDER);
        let found = match folder.exists() {
            true => Authority::read(&folder)?,
            false => None,
        };
        let (authority, is_new) = match (found, wish) {
            (Some(authority), _) => (authority, false),
            (None, SecurityWish::AsFound) => return Ok(None),
            (None, SecurityWish::Secured) => (Authority::create(now)?, true),
        };
        let folder = directory.folder(FOLDER)?;
        let mut tokens = match is_new {
            true => Tokens::default(),
            false => read_tokens(&folder.join(TOKENS))?,
        };
        if is_new {
            let path = create_admin(&folder, &mut tokens, &authority, now)?;
            // It is written last: a crash before that leaves a folder from which the next start begins anew.
            authority.write(&folder)?;
            tracing::info!(
                cluster = %authority.cluster(), token = %path.display(),
                "created the authority of a new cluster, and the token of its administrator"
            );
        }
        let own = OwnSide::create(&authority, now)?;
        let guard = Guard {
            authority,
            folder,
            own: Mutex::new(own),
            plain,
            tokens: Mutex::new(tokens),
            server: Mutex::default(),
        };
        Ok(Some(Arc::new(guard)))
    }

    /// Lets the guard close connections of this server.
    pub(crate) fn watch(&self, server: &ServerHandle) {
        *self.server.lock() = Some(server.disconnector());
    }

    /// Returns the name that the worker of a shard must prove when it is called.
    pub(crate) fn name_of(&self, shard: &ShardLabel) -> String {
        self.authority.cluster().of_shard(shard)
    }

    /// Returns the name that every worker of the cluster can prove.
    pub(crate) fn name_of_workers(&self) -> String {
        self.authority.cluster().of_role(Role::Worker)
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
        let mut tokens = self.tokens.lock();
        let mut changed = tokens.clone();
        let issued = now.max(tokens.valid_from(&label));
        let until = issued + Lifetime::WORKER.0;
        let digest = sha2::Sha256::digest(request).into();
        let token = changed.admit(now, &secret, (shard, digest), until)?;
        // A request that cannot be certified uses up no token.
        let chain = self.certify(request, label, Some(token), issued)?;
        self.keep(&changed)?;
        *tokens = changed;
        Ok(chain)
    }

    /// Certifies another key of a worker that has a certificate. Waits for the disk.
    pub(crate) fn renew(
        &self,
        shard: &ShardLabel,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let now = Clock.wall();
        let mut tokens = self.tokens.lock();
        let mut changed = tokens.clone();
        let issued = now.max(tokens.valid_from(shard));
        changed.renew(shard, issued + Lifetime::WORKER.0)?;
        let chain = self.certify(request, shard.clone(), None, issued)?;
        self.keep(&changed)?;
        *tokens = changed;
        Ok(chain)
    }

    /// Certifies a key of a person for calls to workers.
    pub(crate) fn certify_person(
        &self,
        person: &Identity,
        request: &[u8],
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let certified = Certified {
            cluster: self.authority.cluster().clone(),
            role: person.role,
            shard: None,
            token: person.token,
        };
        let authority = &self.authority;
        let chain = authority.certify(request, &certified, Clock.wall(), Lifetime::PERSON);
        chain.map_err(|error| NotAdmitted::Failed(error.to_string()))
    }

    fn certify(
        &self,
        request: &[u8],
        shard: ShardLabel,
        token: Option<TokenNumber>,
        issued: WallTime,
    ) -> Result<Vec<CertificateDer<'static>>, NotAdmitted> {
        let certified = Certified {
            cluster: self.authority.cluster().clone(),
            role: Role::Worker,
            shard: Some(shard),
            token,
        };
        let chain = self
            .authority
            .certify(request, &certified, issued, Lifetime::WORKER);
        chain.map_err(|error| NotAdmitted::Failed(error.to_string()))
    }

    /// Returns who the holder of a token for people is.
    pub(crate) fn authenticate(
        &self,
        secret: &str,
        from: SocketAddr,
    ) -> Result<Identity, NotAdmitted> {
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let Person {
            role,
            owner,
            run_as,
            token,
        } = self.tokens.lock().person(Clock.wall(), &secret)?;
        Ok(Identity {
            role,
            shard: None,
            token: Some(token),
            owner: owner.map(Arc::from),
            run_as,
            from,
        })
    }

    /// Creates a token. Waits for the disk.
    pub(crate) fn create_token(&self, terms: Terms) -> Result<(Token, KeptToken), NotAdmitted> {
        let secret = Secret::random().map_err(|error| NotAdmitted::Failed(error.to_string()))?;
        let form = match terms.role {
            Role::Worker => TokenForm::Join,
            _ => TokenForm::Person,
        };
        let kept = self.change(|tokens| tokens.add(Clock.wall(), &secret, terms))?;
        let authority = self.authority.hash();
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
            true => crate::http::host_name().unwrap_or_else(|| "THIS-MACHINE".to_owned()),
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
        let number = self.change(|tokens| tokens.revoke(number))?;
        self.disconnect(|identity| identity.role != Role::Worker && identity.token == Some(number));
        Ok(())
    }

    /// Ends the certificates of a shard, and its connections. Waits for the disk.
    pub(crate) fn revoke_worker(&self, shard: &Shard) -> Result<(), NotAdmitted> {
        self.change(|tokens| tokens.revoke_shard(Clock.wall(), shard))?;
        let label = ShardLabel::of(shard);
        self.disconnect(|identity| identity.shard.as_ref() == Some(&label));
        Ok(())
    }

    /// Makes a change that is on disk before it has effect.
    fn change<T>(
        &self,
        make: impl FnOnce(&mut Tokens) -> Result<T, NotAdmitted>,
    ) -> Result<T, NotAdmitted> {
        let mut tokens = self.tokens.lock();
        let mut changed = tokens.clone();
        let made = make(&mut changed)?;
        self.keep(&changed)?;
        *tokens = changed;
        Ok(made)
    }

    fn keep(&self, tokens: &Tokens) -> Result<(), NotAdmitted> {
        write_tokens(&self.folder, tokens).map_err(|error| NotAdmitted::Failed(error.to_string()))
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
