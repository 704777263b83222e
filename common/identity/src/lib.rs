//! Identities on the network: the authority of a cluster, the certificates that it issues, tokens, and the settings of TLS.
//!
//! A cluster has one [`Authority`], in the data directory of its scheduler. It issues a certificate to each worker that joins with a token,
//! and to people for their calls to workers. [`names`] says what a certificate proves.

mod authority;
mod credential;
mod life;
pub mod names;
mod tls;
mod token;

pub use authority::{Authority, AuthorityHash, CERTIFICATE, KEY, Lifetime, leads_to};
pub use credential::{Credential, KeyRequest, write_secret};
pub use life::{CLOCK_SKEW, Life};
pub use names::{Certified, TrustDomain, UNKNOWN_SCHEDULER, hex};
pub use rustls::pki_types::CertificateDer;
pub use tls::{
    Proven, client_config, joining_client_config, proven, server_config, web_server_config,
};
pub use token::{
    JOIN_TOKEN_VARIABLE, MAX_TOKEN_BYTES, Secret, TOKEN_IN_PLAIN_SIGHT, TOKEN_VARIABLE, Token,
    TokenError, TokenForm, from_hex,
};

/// The folder for keys and tokens in the data directory of a scheduler or a worker.
pub const FOLDER: &str = "identity";
/// The file in a scheduler's [`FOLDER`] with the token of its first administrator.
pub const ADMIN_TOKEN: &str = "admin.token";

/// The reason why an identity cannot be created, read or kept.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot create a certificate: {0}")]
    Create(#[from] rcgen::Error),
    #[error("TLS does not accept the certificate or its key: {0}")]
    Tls(#[from] rustls::Error),
    #[error(
        "cannot keep {}: {error}. Check who owns it, and whether its disk is full or read-only",
        path.display()
    )]
    Write {
        path: std::path::PathBuf,
        error: std::io::Error,
    },
    #[error(transparent)]
    Read(#[from] brasserie_common_runtime::FileError),
    #[error("{} is not what this program has written: {problem}", path.display())]
    Damaged {
        path: std::path::PathBuf,
        problem: String,
    },
    #[error("the request for a certificate is not valid: {0}")]
    BadRequest(rcgen::Error),
    #[error("the certificate is not one of a Brasserie cluster: {0}")]
    NotOurs(String),
    #[error("the system gives no random numbers: {0}")]
    Entropy(getrandom::Error),
}
