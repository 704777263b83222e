//! A server that somebody runs in the place of a scheduler or worker.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use brasserie_common::Principal;
use brasserie_common_identity::{Authority, CertificateDer, Credential, server_config};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{Authenticator, IncomingCall, Limits, Server, Service, THRIFT};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// A server with a certificate that is not its own, or not of the cluster. It asks nobody for a proof, and answers no call. Dropping it
/// closes its port.
pub struct Impostor {
    address: SocketAddr,
    seen: Arc<Seen>,
    _runtime: Runtime,
}

/// The calls and failed handshakes at an impostor.
struct Seen {
    tls: Arc<rustls::ServerConfig>,
    calls: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Impostor {
    /// Serves at a port of the loopback address, with a credential of this authority. The port 0 is any free one.
    ///
    /// # Panics
    /// If the port is in use.
    pub fn start(port: u16, authority: &Authority, own: &Credential) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let trusted = authority.trusted(Clock.wall());
        let seen = Arc::new(Seen {
            tls: server_config(own, &trusted, THRIFT).expect("a configuration"),
            calls: AtomicUsize::new(0),
            failures: Mutex::default(),
        });
        let address = runtime.block_on(async {
            let server = Server::bind((Ipv4Addr::LOCALHOST, port).into()).await;
            let server = server.expect("a free port");
            let address = server.local_addr();
            let authenticator = Arc::new(Posing(Arc::clone(&seen)));
            let service = Counting(Arc::clone(&seen));
            let server = server.authenticated_by(authenticator);
            let _handle = server.serve(service, Limits::default(), CancellationToken::new());
            address
        });
        Impostor {
            address,
            seen,
            _runtime: runtime,
        }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of calls that have arrived.
    pub fn calls(&self) -> usize {
        self.seen.calls.load(Ordering::SeqCst)
    }

    /// Returns why handshakes of TLS with its callers have failed.
    pub fn failures(&self) -> Vec<String> {
        let failures = self.seen.failures.lock();
        failures.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Posing(Arc<Seen>);

impl Authenticator for Posing {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(Arc::clone(&self.0.tls))
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        Principal::Unauthenticated(from)
    }

    fn identify(&self, from: SocketAddr, _shown: &[CertificateDer<'static>]) -> Principal {
        Principal::Unauthenticated(from)
    }

    fn failed(&self, _from: SocketAddr, why: &str) {
        let failures = self.0.failures.lock();
        let mut failures = failures.unwrap_or_else(PoisonError::into_inner);
        failures.push(why.to_owned());
    }
}

struct Counting(Arc<Seen>);

impl Service for Counting {
    fn call(&self, call: IncomingCall<'_>) {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        call.unknown_method();
    }

    fn call_from_reserve(&self, call: IncomingCall<'_>) {
        self.call(call);
    }
}
