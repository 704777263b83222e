//! Tests the local socket of a server: the kernel names its callers, and the program decides who they are.

mod rpc_support;

use rpc_support::*;

use std::net::SocketAddr;
use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_common::access::{CallOrigin, Identity, IdentityProof, LocalUser, Role};
use brasserie_common_identity::CertificateDer;
use brasserie_thrift::rpc::{
    Authenticator, CallResult, ClientConfig, ClientPool, Limits, NotSent, PeerAddr, Server,
};

/// Knows one user of this machine, and nobody else.
struct OneUser(u32);

impl Authenticator for OneUser {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        None
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        Principal::stranger(from, "plain")
    }

    fn identify(&self, from: SocketAddr, _certificates: &[CertificateDer<'static>]) -> Principal {
        self.plain(from)
    }

    fn local(&self, user: LocalUser) -> Principal {
        if user.uid != self.0 {
            return Principal::stranger(CallOrigin::Local(user), "another user");
        }
        let (proof, from) = (IdentityProof::LocalSocket, CallOrigin::Local(user));
        Principal::Authenticated(Arc::new(Identity::new(Role::Admin, proof, from)))
    }
}

#[tokio::test]
async fn callers_at_the_local_socket_are_users_of_this_machine() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let peer = PeerAddr::local(&path);
    let pool = ClientPool::new(ClientConfig::default());
    let own = nix::unistd::geteuid().as_raw();
    let who = Note::default();
    for (known, expected) in [(own, "admin "), (own + 1, "stranger: another user")] {
        let _ = std::fs::remove_file(&path);
        let socket = tokio::net::UnixListener::bind(&path).expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any).await.expect("a free port");
        let server = server
            .with_socket(Some(socket))
            .authenticated_by(Arc::new(OneUser(known)));
        let server = TestServer::serve(server, Limits::default());
        for (at, expected) in [(&peer, expected), (&server.peer(), "stranger: plain")] {
            let pool = ClientPool::new(ClientConfig::default());
            let called = pool.call::<_, NoteResult>(at, "who", &who).await;
            let CallResult::Done(answer) = called else {
                panic!("{at}: {called:?}");
            };
            assert_eq!(
                answer.success.map(|note| note.text).as_deref(),
                Some(expected)
            );
        }
        server.handle.shutdown().await;
    }
    // The socket is left behind, and nobody listens there.
    let gone = pool.call::<_, NoteResult>(&peer, "who", &who).await;
    assert!(
        matches!(gone, CallResult::NotSent(NotSent::Connect { .. })),
        "{gone:?}"
    );
}

/// Knows each peer as a scheduler, and the users of this machine as administrators.
struct AllKnown;

impl Authenticator for AllKnown {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        None
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        let proof = IdentityProof::Certificate;
        Principal::Authenticated(Arc::new(Identity::new(Role::Scheduler, proof, from)))
    }

    fn identify(&self, from: SocketAddr, _certificates: &[CertificateDer<'static>]) -> Principal {
        self.plain(from)
    }

    fn local(&self, user: LocalUser) -> Principal {
        let (proof, from) = (IdentityProof::LocalSocket, CallOrigin::Local(user));
        Principal::Authenticated(Arc::new(Identity::new(Role::Admin, proof, from)))
    }
}

#[tokio::test]
async fn callers_at_the_local_socket_have_places_of_their_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let socket = tokio::net::UnixListener::bind(&path).expect("a socket");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any).await.expect("a free port");
    let server = server
        .with_socket(Some(socket))
        .authenticated_by(Arc::new(AllKnown));
    let limits = Limits {
        max_connections: 8,
        ..Limits::DEFAULT
    };
    let server = TestServer::serve(server, limits);
    let who = async |at: &PeerAddr| {
        let pool = ClientPool::new(ClientConfig::default());
        let called = pool
            .call::<_, NoteResult>(at, "who", &Note::default())
            .await;
        (pool, called)
    };
    let mut crowd = Vec::new();
    for _ in 0..8 {
        let (pool, called) = who(&server.peer()).await;
        assert!(matches!(called, CallResult::Done(_)), "{called:?}");
        crowd.push(pool);
    }
    let (_, refused) = who(&server.peer()).await;
    assert!(!matches!(refused, CallResult::Done(_)), "{refused:?}");
    for _ in 0..4 {
        let (pool, called) = who(&PeerAddr::local(&path)).await;
        assert!(matches!(called, CallResult::Done(_)), "{called:?}");
        crowd.push(pool);
    }
    assert_eq!(server.handle.load().connections, 12);
}
