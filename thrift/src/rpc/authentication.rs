//! The proofs of the peers of servers and clients: the program decides, and the transport asks it for each connection.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_common::access::{CallOrigin, LocalUser};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ServerConfig};

/// The protocol inside TLS, as both sides name it in the handshake (ALPN).
pub const THRIFT: &[u8] = b"thrift";

/// Decides who the peers of a server are. The tasks of connections call its functions, which must not block.
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the configuration of TLS for a new connection; `None` if this port does not speak TLS.
    fn tls(&self) -> Option<Arc<ServerConfig>>;

    /// Returns who a peer is that does not use TLS.
    fn plain(&self, from: SocketAddr) -> Principal;

    /// Returns who a peer is that uses TLS. `certificates` were verified, and begin with the peer's own; there are none if it has shown
    /// none.
    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal;

    /// Learns that the handshake of TLS with a peer has failed, also if the peer has ended it.
    fn failed(&self, _from: SocketAddr, _why: &str) {}

    /// Returns who a peer at the local socket is, whose user the kernel names.
    fn local(&self, user: LocalUser) -> Principal {
        let why = "no user of this machine has a role here";
        Principal::stranger(CallOrigin::Local(user), why)
    }
}

/// Asks no peer who it is.
pub(super) struct NoAuthentication;

impl Authenticator for NoAuthentication {
    fn tls(&self) -> Option<Arc<ServerConfig>> {
        None
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        Principal::Unauthenticated(from)
    }

    fn identify(&self, from: SocketAddr, _certificates: &[CertificateDer<'static>]) -> Principal {
        self.plain(from)
    }
}

/// Gives the clients of a program their side of TLS.
pub trait Credentials: fmt::Debug + Send + Sync + 'static {
    /// Returns the configuration of TLS for a new connection.
    fn tls(&self) -> Arc<ClientConfig>;

    /// Checks a server after each handshake, also of a resumed session, before any call leaves. `shown` were verified, and begin with the
    /// server's own certificate. Errors if that is not accepted, for example because it is revoked. The tasks of connections call it, so it
    /// must not block.
    fn accepts(&self, _shown: &[CertificateDer<'static>]) -> Result<(), String> {
        Ok(())
    }

    /// Returns a number that grows when open connections must not be used any more, because the proof of either side may have changed. Further
    /// calls use new ones.
    fn version(&self) -> u64 {
        0
    }

    /// Returns the secret of a token for people, which each new connection shows before its first call.
    fn secret(&self) -> Option<String> {
        None
    }
}
