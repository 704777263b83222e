//! The identity of the caller: the token for people, and the certificate that it gives for calls to workers.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use brasserie_common::access::Role;
use brasserie_common_identity::{
    CertificateDer, Cluster, Credential, KeyRequest, Token, TokenForm, client_config,
    joining_client_config, proven,
};
use brasserie_common_runtime::files;
use brasserie_thrift::rpc::{Credentials, PeerAddr, THRIFT};

use crate::failure::Failure;

/// The variable of the environment with a token.
const TOKEN: &str = "BRASSERIE_TOKEN";
/// The size limit of a file with a token.
const MAX_TOKEN_BYTES: u64 = 4096;
/// The file with the administrator's token in a scheduler's data directory.
const ADMIN_TOKEN: &str = "identity/admin.token";
/// The mode bits that let others read.
const OTHERS_READ: u32 = 0o077;

/// Reads the token of a person from a file that nobody else may read, or from a scheduler's data directory.
pub(crate) fn token_in(file: &Path) -> Result<Token> {
    token(&read(file)?)
}

/// Reads the token in the environment; `None` if there is none.
pub(crate) fn token_of_environment() -> Result<Option<Token>> {
    let text = std::env::var(TOKEN).ok().filter(|text| !text.is_empty());
    text.map(|text| token(&text)).transpose()
}

/// Reads the token of a person.
pub(crate) fn token(text: &str) -> Result<Token> {
    let token = Token::from_text(text).map_err(|error| Failure::usage(error.to_string()))?;
    match token.form {
        TokenForm::Person => Ok(token),
        TokenForm::Join => Err(
            Failure::usage("the token is for a worker that joins".to_owned())
                .remedy("People use one of `brasserie token create --role viewer`, or another role")
                .into(),
        ),
    }
}

/// Reads a token from a file that nobody else may read, or from a scheduler's data directory.
fn read(file: &Path) -> Result<String> {
    let path = match file.is_dir() {
        true => file.join(ADMIN_TOKEN),
        false => file.to_owned(),
    };
    read_secret(&path, MAX_TOKEN_BYTES)
}

/// Reads a text file that nobody else may read, because it has tokens.
pub(crate) fn read_secret(path: &Path, max_bytes: u64) -> Result<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).map(|found| found.permissions().mode() & 0o7777);
    let mode = mode.with_context(|| format!("cannot read {}", path.display()));
    let mode = mode.map_err(|error| Failure::usage(format!("{error:#}")))?;
    if mode & OTHERS_READ != 0 {
        let message = format!(
            "other users may read {} (its mode is {mode:04o}), which has a token",
            path.display()
        );
        let remedy = format!("If nobody has read it: chmod 600 {}", path.display());
        return Err(Failure::usage(message).remedy(&remedy).into());
    }
    let text = files::read_regular(path, max_bytes);
    let text = text.map_err(|error| Failure::usage(error.to_string()))?;
    String::from_utf8(text).with_context(|| format!("{} is no text", path.display()))
}

/// The caller's side of TLS towards a scheduler, whose authority the token names.
pub(crate) struct Person {
    tls: Arc<rustls::ClientConfig>,
    secret: String,
}

impl Person {
    pub(crate) fn new(token: &Token) -> Result<Self> {
        Ok(Person {
            tls: joining_client_config(token.authority, THRIFT)?,
            secret: token.secret.reveal(),
        })
    }

    /// Returns a scheduler's address for calls that show the token. The hash in the token proves the scheduler, whatever it is called.
    pub(crate) fn scheduler(peer: PeerAddr) -> PeerAddr {
        peer.proving("scheduler.brasserie")
    }
}

impl Credentials for Person {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.tls)
    }

    fn secret(&self) -> Option<String> {
        Some(self.secret.clone())
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Person(..)")
    }
}

/// The caller's side of TLS towards workers: a certificate for some minutes.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    tls: Arc<rustls::ClientConfig>,
    cluster: Cluster,
    /// The address at which the scheduler has certified the caller.
    scheduler: PeerAddr,
}

impl Visit {
    /// Completes the certificate that a scheduler has issued for a key.
    pub(crate) fn new(key: KeyRequest, chain: Vec<Vec<u8>>, scheduler: &PeerAddr) -> Result<Self> {
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let own: Credential = key.with_chain(chain)?;
        let cluster = proven(own.certificate())?.certified.cluster;
        Ok(Visit {
            tls: client_config(Some(&own), &own.authorities(), THRIFT)?,
            cluster,
            scheduler: scheduler.clone(),
        })
    }

    pub(crate) fn worker(&self, peer: PeerAddr) -> PeerAddr {
        peer.proving(&self.cluster.of_role(Role::Worker))
    }

    /// Returns a holder of artifacts for calls: a worker, or the scheduler.
    pub(crate) fn holder(&self, peer: PeerAddr) -> PeerAddr {
        match peer.as_str() == self.scheduler.as_str() {
            // The kernel proves the other end of a local socket.
            true if peer.is_local() => peer,
            true => peer.proving(&self.cluster.of_role(Role::Scheduler)),
            false => self.worker(peer),
        }
    }
}

impl Credentials for Visit {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.tls)
    }
}
