//! Tests TLS: who the peers are, which servers a client accepts, and what becomes of everybody else.

mod rpc_support;

use rpc_support::*;

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use brasserie_common::access::{Identity, IdentityProof, Role, ShardLabel};
use brasserie_common::{Principal, Shard, WallTime};
use brasserie_common_identity::{
    Authority, AuthorityHash, CertificateDer, Certified, Credential, KeyRequest, Lifetime,
    client_config, joining_client_config, proven, server_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{
    Authenticator, CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials, Limits,
    NotSent, PeerAddr, Server, THRIFT, Unknown,
};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn now() -> WallTime {
    Clock.wall()
}

fn authority() -> Authority {
    Authority::create(now()).expect("an authority")
}

fn label(shard: &str) -> ShardLabel {
    ShardLabel::of(&Shard::try_from(shard).expect("a shard"))
}

/// A worker's credential, issued at this time.
fn worker(authority: &Authority, shard: &str, at: WallTime) -> Credential {
    let key = KeyRequest::create().expect("a key");
    let certified = Certified {
        trust_domain: authority.trust_domain().clone(),
        role: Role::Worker,
        shard: Some(label(shard)),
        token: None,
    };
    let chain = authority.certify(key.request(), &certified, at, Lifetime::WORKER);
    key.with_chain(chain.expect("a certificate"))
        .expect("it is for this key")
}

fn scheduler(authority: &Authority) -> Credential {
    let made = authority.credential(Role::Scheduler, now(), Lifetime::SCHEDULER);
    made.expect("a credential")
}

/// Asks for proofs as a scheduler does.
struct Proofs {
    tls: Arc<rustls::ServerConfig>,
    /// Whether all certificates are revoked.
    is_revoked: Arc<AtomicBool>,
    /// The end of all identities.
    until: Option<WallTime>,
    /// The reasons of handshakes that have failed.
    failed: Arc<Mutex<Vec<String>>>,
}

impl Proofs {
    fn of(authority: &Authority, own: &Credential) -> Self {
        let trusted = [authority.certificate().clone()];
        let tls = server_config(own, &trusted, THRIFT).expect("a usable certificate");
        Proofs {
            tls,
            is_revoked: Arc::default(),
            until: None,
            failed: Arc::default(),
        }
    }
}

impl Authenticator for Proofs {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(Arc::clone(&self.tls))
    }

    fn failed(&self, _from: SocketAddr, why: &str) {
        self.failed.lock().push(why.to_owned());
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        Principal::stranger(from, "plain")
    }

    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal {
        let Some(first) = certificates.first() else {
            return Principal::stranger(from, "no certificate");
        };
        let proven = proven(first).expect("ours");
        if proven.until < now() {
            return Principal::stranger(from, "expired");
        }
        if self.is_revoked.load(Ordering::Relaxed) {
            return Principal::stranger(from, "revoked");
        }
        let certified = proven.certified;
        Principal::Authenticated(Arc::new(Identity {
            shard: certified.shard,
            until: self.until,
            ..Identity::new(certified.role, IdentityProof::Certificate, from)
        }))
    }
}

#[derive(Debug)]
struct Shown(Arc<rustls::ClientConfig>);

impl Credentials for Shown {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.0)
    }
}

async fn serve(authority: &Authority, own: &Credential, limits: Limits) -> TestServer {
    serve_with(Proofs::of(authority, own), limits).await
}

async fn serve_with(proofs: Proofs, limits: Limits) -> TestServer {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any).await.expect("a port");
    TestServer::serve(server.authenticated_by(Arc::new(proofs)), limits)
}

fn pool_with(tls: Arc<rustls::ClientConfig>) -> ClientPool {
    ClientPool::new(ClientConfig {
        timeouts: CallTimeouts {
            connect: PATIENCE,
            send: PATIENCE,
            receive: PATIENCE,
        },
        credentials: Some(Arc::new(Shown(tls))),
        ..ClientConfig::default()
    })
}

/// A pool that shows this credential, and trusts this authority.
fn pool(authority: &Authority, own: Option<&Credential>) -> ClientPool {
    let trusted = [authority.certificate().clone()];
    pool_with(client_config(own, &trusted, THRIFT).expect("usable certificates"))
}

fn at(server: &TestServer, authority: &Authority) -> PeerAddr {
    let name = authority.trust_domain().of_role(Role::Scheduler);
    server.peer().proving(&name)
}

async fn who(pool: &ClientPool, peer: &PeerAddr) -> String {
    match pool.call::<_, NoteResult>(peer, "who", &note("", 0)).await {
        CallResult::Done(result) => result.success.expect("an answer").text,
        failed => panic!("{failed:?}"),
    }
}

async fn why_not(pool: &ClientPool, peer: &PeerAddr) -> String {
    match pool.call::<_, NoteResult>(peer, "who", &note("", 0)).await {
        CallResult::NotSent(why @ (NotSent::ConnectionLost(_) | NotSent::OtherAuthority(_))) => {
            why.to_string()
        }
        // A server judges its client's certificate after the client has begun to send.
        CallResult::Unknown(why @ (Unknown::ConnectionLost(_) | Unknown::OtherAuthority(_))) => {
            why.to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_server_knows_who_calls_and_answers_inside_tls() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let own = worker(&authority, "w1", now());
    let pool = pool(&authority, Some(&own));
    let peer = at(&server, &authority);
    assert_eq!(who(&pool, &peer).await, "worker w1");
    // Many small messages, and one of many records, both ways.
    let small = (0..2000).map(|number| {
        let (pool, peer) = (pool.clone(), peer.clone());
        tokio::spawn(async move {
            let sent = note("small", number);
            let echoed = pool.call::<_, NoteResult>(&peer, "echo", &sent).await;
            assert_eq!(echoed, CallResult::Done(NoteResult::success(sent)));
        })
    });
    for call in small.collect::<Vec<_>>() {
        call.await.expect("an echo");
    }
    let large = note(&"x".repeat(5 << 20), 1);
    let echoed = pool.call::<_, NoteResult>(&peer, "echo", &large).await;
    assert_eq!(echoed, CallResult::Done(NoteResult::success(large)));
    assert_eq!(server.handle.load().connections, 1);
}

#[tokio::test]
async fn a_caller_whose_token_has_expired_is_a_stranger_on_the_same_connection() {
    let authority = authority();
    let mut proofs = Proofs::of(&authority, &scheduler(&authority));
    proofs.until = Some(now());
    let server = serve_with(proofs, Limits::DEFAULT).await;
    let pool = pool(&authority, Some(&worker(&authority, "w1", now())));
    let answer = who(&pool, &at(&server, &authority)).await;
    assert!(answer.starts_with("stranger: "), "{answer}");
    assert!(answer.contains("has expired"), "{answer}");
}

#[tokio::test]
async fn peers_without_a_valid_certificate_are_strangers() {
    let authority = authority();
    let proofs = Proofs::of(&authority, &scheduler(&authority));
    let failed = Arc::clone(&proofs.failed);
    let server = serve_with(proofs, Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let anonymous = pool(&authority, None);
    assert_eq!(who(&anonymous, &peer).await, "stranger: no certificate");
    // The same pool without a name to prove speaks plain Thrift.
    assert_eq!(who(&anonymous, &server.peer()).await, "stranger: plain");
    let long_ago = WallTime(now().0 - 30 * 24 * 60 * 60 * 1000);
    let expired = worker(&authority, "w1", long_ago);
    assert_eq!(
        who(&pool(&authority, Some(&expired)), &peer).await,
        "stranger: expired"
    );
    // A certificate of another authority does not even pass the handshake.
    let other = Authority::create(now()).expect("an authority");
    let foreign = worker(&other, "w1", now());
    assert_eq!(*failed.lock(), Vec::<String>::new());
    let why = why_not(&pool(&authority, Some(&foreign)), &peer).await;
    assert!(why.contains("UnknownCA"), "{why}");
    let failed = failed.lock();
    assert!(failed[0].contains("UnknownIssuer"), "{failed:?}");
}

#[tokio::test]
async fn a_client_sends_nothing_to_a_server_that_cannot_prove_its_name() {
    let authority = authority();
    let peer_of = |server: &TestServer| at(server, &authority);
    // A scheduler of another cluster.
    let other = Authority::create(now()).expect("an authority");
    let foreign = serve(&other, &scheduler(&other), Limits::DEFAULT).await;
    let own = worker(&authority, "w1", now());
    let why = why_not(&pool(&authority, Some(&own)), &peer_of(&foreign)).await;
    assert!(why.contains("UnknownIssuer"), "{why}");
    // A worker of this cluster that poses as the scheduler.
    let posing = serve(
        &authority,
        &worker(&authority, "w2", now()),
        Limits::DEFAULT,
    )
    .await;
    let why = why_not(&pool(&authority, Some(&own)), &peer_of(&posing)).await;
    assert!(why.contains("not valid for name"), "{why}");
    // A server without TLS: the client never falls back.
    let plain = TestServer::start(Limits::DEFAULT).await;
    let why = why_not(&pool(&authority, Some(&own)), &peer_of(&plain)).await;
    assert!(!why.is_empty());
}

/// The side of a client that judges its servers.
#[derive(Debug)]
struct Judging {
    tls: Arc<rustls::ClientConfig>,
    refuses: Arc<AtomicBool>,
    version: Arc<AtomicU64>,
}

impl Credentials for Judging {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.tls)
    }

    fn accepts(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        proven(&shown[0]).expect("ours");
        match self.refuses.load(Ordering::SeqCst) {
            true => Err("its certificate is revoked".to_owned()),
            false => Ok(()),
        }
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

/// The switches of a pool: whether it refuses its servers, and the version of its proofs.
type Switches = (Arc<AtomicBool>, Arc<AtomicU64>);

fn judging_pool(authority: &Authority, own: &Credential) -> (ClientPool, Switches) {
    let trusted = [authority.certificate().clone()];
    let tls = client_config(Some(own), &trusted, THRIFT).expect("usable certificates");
    let switches = Switches::default();
    let judging = Judging {
        tls,
        refuses: Arc::clone(&switches.0),
        version: Arc::clone(&switches.1),
    };
    let pool = ClientPool::new(ClientConfig {
        credentials: Some(Arc::new(judging)),
        ..ClientConfig::default()
    });
    (pool, switches)
}

#[tokio::test]
async fn a_client_calls_no_server_that_it_does_not_accept_any_more_also_in_a_resumed_session() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let own = worker(&authority, "w1", now());
    let (pool, (refuses, version)) = judging_pool(&authority, &own);
    assert_eq!(who(&pool, &peer).await, "worker w1");
    let mut losses = pool.losses(&peer);
    // Another connection with the same proofs resumes the session.
    version.fetch_add(1, Ordering::SeqCst);
    assert_eq!(who(&pool, &peer).await, "worker w1");
    refuses.store(true, Ordering::SeqCst);
    version.fetch_add(1, Ordering::SeqCst);
    let called = pool.call::<_, NoteResult>(&peer, "who", &note("", 0));
    let CallResult::NotSent(NotSent::ConnectionLost(why)) = called.await else {
        panic!("the call has left");
    };
    assert!(why.contains("its certificate is revoked"), "{why}");
    // Nor does a call that needs no future.
    let (done, ended) = tokio::sync::oneshot::channel();
    pool.call_then::<_, NoteResult>(&peer, "who", &note("", 0), |result| {
        let _ = done.send(matches!(result, CallResult::NotSent(_)));
    });
    assert!(ended.await.expect("an outcome"));
    refuses.store(false, Ordering::SeqCst);
    assert_eq!(who(&pool, &peer).await, "worker w1");
    tokio::time::timeout(PATIENCE, losses.next())
        .await
        .expect("the refused connections are lost ones");
}

#[tokio::test]
async fn a_superseded_connection_ends_without_the_loss_of_a_call() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let own = worker(&authority, "w1", now());
    let (pool, (_, version)) = judging_pool(&authority, &own);
    let mut losses = pool.losses(&peer);
    let mut calls = Vec::new();
    for number in 0..100 {
        if number % 10 == 0 {
            version.fetch_add(1, Ordering::SeqCst);
        }
        let (pool, peer) = (pool.clone(), peer.clone());
        calls.push(tokio::spawn(async move {
            let sent = note("x", number);
            let echoed = pool.call::<_, NoteResult>(&peer, "echo", &sent).await;
            assert_eq!(echoed, CallResult::Done(NoteResult::success(sent)));
        }));
        tokio::task::yield_now().await;
    }
    for call in calls {
        call.await.expect("an echo");
    }
    let alone = async {
        while server.handle.load().connections > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, alone)
        .await
        .expect("the others are closed");
    tokio::select! {
        biased;
        () = losses.next() => panic!("a connection was lost"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn all_who_have_shown_a_certificate_or_may_still_do_so_prove_themselves_anew() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let own = worker(&authority, "w1", now());
    let (certified, anonymous) = (pool(&authority, Some(&own)), pool(&authority, None));
    assert_eq!(who(&certified, &peer).await, "worker w1");
    assert_eq!(who(&anonymous, &peer).await, "stranger: no certificate");
    // A handshake that has begun, with the settings of before.
    let mut begun = TcpStream::connect(server.addr()).await.expect("it listens");
    begun.write_all(b"\x16\x03\x01").await.expect("it is sent");
    while server.handle.load().connections < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (mut lost, mut kept) = (certified.losses(&peer), anonymous.losses(&peer));
    server.handle.disconnector().disconnect_certified();
    tokio::time::timeout(PATIENCE, lost.next())
        .await
        .expect("it is closed");
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, begun.read_to_end(&mut answer)).await;
    // It may end with a reset, which is an end too.
    let _ = ended.expect("it ends");
    assert_eq!(who(&anonymous, &peer).await, "stranger: no certificate");
    tokio::select! {
        biased;
        () = kept.next() => panic!("the other connection is closed too"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_call_tells_that_the_authorities_differ() {
    let (authority, other) = (authority(), authority());
    let own = worker(&authority, "w1", now());
    let call = async |pool: ClientPool, peer: PeerAddr| {
        let called = pool.call::<_, NoteResult>(&peer, "who", &note("", 0)).await;
        called.is_of_other_authority()
    };
    let foreign = serve(&other, &scheduler(&other), Limits::DEFAULT).await;
    assert!(call(pool(&authority, Some(&own)), at(&foreign, &authority)).await);
    // The server does not trust the client.
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let stranger = worker(&other, "w1", now());
    assert!(call(pool(&authority, Some(&stranger)), at(&server, &authority)).await);
    // A wrong name is another matter.
    let posing = worker(&authority, "w2", now());
    let posing = serve(&authority, &posing, Limits::DEFAULT).await;
    assert!(!call(pool(&authority, Some(&own)), at(&posing, &authority)).await);
}

#[tokio::test]
async fn a_client_that_joins_knows_its_authority_by_the_hash() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let joining = joining_client_config(authority.hash(), THRIFT).expect("a configuration");
    assert_eq!(
        who(&pool_with(joining), &peer).await,
        "stranger: no certificate"
    );
    let wrong = joining_client_config(AuthorityHash([7; 32]), THRIFT).expect("a configuration");
    let why = why_not(&pool_with(wrong), &peer).await;
    assert!(why.contains("UnknownIssuer"), "{why}");
    // A man in the middle who passes the authority's certificate on has none that it has issued.
    let other = Authority::create(now()).expect("an authority");
    let forged = worker(&other, "w1", now());
    let in_the_middle = serve(&authority, &forged, Limits::DEFAULT).await;
    let joining = joining_client_config(authority.hash(), THRIFT).expect("a configuration");
    let why = why_not(&pool_with(joining), &at(&in_the_middle, &authority)).await;
    assert!(why.contains("UnknownIssuer"), "{why}");
}

#[tokio::test]
async fn a_server_closes_the_connections_of_peers_that_may_no_longer_call() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let (one, two) = (
        worker(&authority, "w1", now()),
        worker(&authority, "w2", now()),
    );
    let (one, two) = (pool(&authority, Some(&one)), pool(&authority, Some(&two)));
    assert_eq!(who(&one, &peer).await, "worker w1");
    assert_eq!(who(&two, &peer).await, "worker w2");
    let (mut lost, mut kept) = (one.losses(&peer), two.losses(&peer));
    let is_first = |peer: &Principal| {
        let identity = peer.identity();
        identity.is_some_and(|identity| identity.shard == Some(label("w1")))
    };
    server.handle.disconnector().disconnect(is_first);
    tokio::time::timeout(PATIENCE, lost.next())
        .await
        .expect("it is closed");
    assert_eq!(who(&two, &peer).await, "worker w2");
    tokio::select! {
        biased;
        () = kept.next() => panic!("the other connection is closed too"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn a_handshake_that_is_damaged_or_never_ends_is_closed() {
    let authority = authority();
    let limits = Limits {
        first_call_timeout: Duration::from_millis(300),
        ..Limits::DEFAULT
    };
    let server = serve(&authority, &scheduler(&authority), limits).await;
    for bytes in [
        &b"\x16"[..],
        b"\x16\x03\x01\x40\x00",
        b"\x16\x03\x01\xff\xff\xff\xff",
        &[0x16; 300],
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ] {
        let mut stream = TcpStream::connect(server.addr()).await.expect("it listens");
        stream.write_all(bytes).await.expect("it is sent");
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer);
        // It may end with a reset, which is an end too.
        let _ = tokio::time::timeout(PATIENCE, ended)
            .await
            .expect("it ends");
        assert!(answer.len() < 100, "{answer:?}");
    }
    let own = worker(&authority, "w1", now());
    assert_eq!(
        who(&pool(&authority, Some(&own)), &at(&server, &authority)).await,
        "worker w1"
    );
}

/// A client that speaks TLS and sends raw bytes inside it. It blocks.
struct RawTls(rustls::StreamOwned<rustls::ClientConnection, std::net::TcpStream>);

impl RawTls {
    /// Connects, and ends the handshake.
    fn connect(server: SocketAddr, tls: &Arc<rustls::ClientConfig>, name: &str) -> Self {
        let tcp = std::net::TcpStream::connect(server).expect("it listens");
        tcp.set_read_timeout(Some(PATIENCE)).expect("an option");
        let name = name.to_owned().try_into().expect("a name");
        let client = rustls::ClientConnection::new(Arc::clone(tls), name).expect("a client");
        let mut stream = rustls::StreamOwned::new(client, tcp);
        while stream.conn.is_handshaking() {
            stream
                .conn
                .complete_io(&mut stream.sock)
                .expect("a handshake");
        }
        RawTls(stream)
    }

    fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// Sends bytes. Returns whether the server answers with at least this many, rather than to close the connection.
    fn is_answered(&mut self, bytes: &[u8], answers: usize) -> bool {
        // The server may close the connection meanwhile, with a reset, which is an end too.
        let _ = self.0.write_all(bytes).and_then(|()| self.0.flush());
        match self.0.read_exact(&mut vec![0; answers]) {
            Ok(()) => true,
            Err(error) => {
                let kind = error.kind();
                assert_ne!(kind, std::io::ErrorKind::WouldBlock, "no end in time");
                false
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_resumed_proves_no_more_than_its_certificate_does_now() {
    let authority = authority();
    let proofs = Proofs::of(&authority, &scheduler(&authority));
    let is_revoked = Arc::clone(&proofs.is_revoked);
    let server = serve_with(proofs, Limits::DEFAULT).await;
    let peer = at(&server, &authority);
    let own = worker(&authority, "w1", now());
    let tls =
        client_config(Some(&own), &authority.trusted(now()), THRIFT).expect("a configuration");
    let pool = pool_with(Arc::clone(&tls));
    assert_eq!(who(&pool, &peer).await, "worker w1");
    let name = authority.trust_domain().of_role(Role::Scheduler);
    let raw = RawTls::connect(server.addr(), &tls, &name);
    assert!(raw.is_resumed(), "{:?}", raw.0.conn.handshake_kind());
    is_revoked.store(true, Ordering::Relaxed);
    let mut lost = pool.losses(&peer);
    server.handle.disconnector().disconnect(|_| true);
    tokio::time::timeout(PATIENCE, lost.next())
        .await
        .expect("closed");
    assert_eq!(who(&pool, &peer).await, "stranger: revoked");
}

#[tokio::test]
async fn strangers_take_no_place_of_peers_that_have_proven_who_they_are() {
    let authority = authority();
    let limits = Limits {
        max_connections: 40,
        max_strangers: 10,
        first_call_timeout: PATIENCE,
        ..Limits::DEFAULT
    };
    let server = serve(&authority, &scheduler(&authority), limits).await;
    let peer = at(&server, &authority);
    let workers: Vec<ClientPool> = (0..25)
        .map(|number| {
            pool(
                &authority,
                Some(&worker(&authority, &format!("w{number}"), now())),
            )
        })
        .collect();
    for (number, pool) in workers.iter().enumerate() {
        assert_eq!(who(pool, &peer).await, format!("worker w{number}"));
    }
    let mut crowd = Vec::new();
    let beginnings: [&[u8]; 3] = [
        b"",
        b"\x16",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    for number in 0..200 {
        let mut stream = TcpStream::connect(server.addr()).await.expect("it listens");
        stream
            .write_all(beginnings[number % 3])
            .await
            .expect("sent");
        crowd.push(stream);
    }
    wait_for("the strangers to be few", || {
        server.handle.load().connections <= 25 + 10
    })
    .await;
    // Nobody who is known was closed, and another worker finds a place.
    let mut losses: Vec<_> = workers.iter().map(|pool| pool.losses(&peer)).collect();
    let late = worker(&authority, "late", now());
    assert_eq!(
        who(&pool(&authority, Some(&late)), &peer).await,
        "worker late"
    );
    for (number, (pool, lost)) in workers.iter().zip(&mut losses).enumerate() {
        assert_eq!(who(pool, &peer).await, format!("worker w{number}"));
        tokio::select! {
            biased;
            () = lost.next() => panic!("w{number} has lost its connection"),
            () = std::future::ready(()) => {}
        }
    }
}

#[tokio::test]
async fn no_proven_caller_takes_all_places() {
    let authority = authority();
    let limits = Limits {
        max_connections: 80,
        ..Limits::DEFAULT
    };
    let server = serve(&authority, &scheduler(&authority), limits).await;
    let peer = at(&server, &authority);
    let (many, few) = (
        worker(&authority, "many", now()),
        worker(&authority, "few", now()),
    );
    let first = pool(&authority, Some(&few));
    assert_eq!(who(&first, &peer).await, "worker few");
    let mut lost = first.losses(&peer);
    let greedy: Vec<ClientPool> = (0..90).map(|_| pool(&authority, Some(&many))).collect();
    for pool in &greedy {
        assert_eq!(who(pool, &peer).await, "worker many");
    }
    let late = pool(&authority, Some(&few));
    assert_eq!(who(&late, &peer).await, "worker few");
    assert!(server.handle.load().connections <= 81);
    tokio::select! {
        biased;
        () = lost.next() => panic!("the caller with few connections has lost one"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn workers_of_many_shards_leave_places_to_others() {
    let authority = authority();
    let limits = Limits {
        max_connections: 40,
        ..Limits::DEFAULT
    };
    for shards in [1, 4, 40] {
        let server = serve(&authority, &scheduler(&authority), limits.clone()).await;
        let peer = at(&server, &authority);
        let first = pool(&authority, Some(&worker(&authority, "first", now())));
        assert_eq!(who(&first, &peer).await, "worker first");
        let mut lost = first.losses(&peer);
        let own: Vec<Credential> = (0..shards)
            .map(|shard| worker(&authority, &format!("w{shard}"), now()))
            .collect();
        let thief = |number: usize| pool(&authority, Some(&own[number % shards]));
        // They leave no place for any other connection.
        let crowd: Vec<ClientPool> = (0..39).map(thief).collect();
        for pool in &crowd {
            assert!(who(pool, &peer).await.starts_with("worker w"));
        }
        assert_eq!(server.handle.load().connections, 40);
        let other = pool(&authority, Some(&scheduler(&authority)));
        assert_eq!(who(&other, &peer).await, "scheduler ", "{shards} shards");
        tokio::select! {
            biased;
            () = lost.next() => panic!("{shards} shards: the first worker has lost its connection"),
            () = std::future::ready(()) => {}
        }
        server.handle.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_sends_short_frames_only_and_hostile_ones_inside_tls_harm_nobody() {
    let authority = authority();
    let server = serve(&authority, &scheduler(&authority), Limits::DEFAULT).await;
    let (address, peer) = (server.addr(), at(&server, &authority));
    let name = authority.trust_domain().of_role(Role::Scheduler);
    let own = worker(&authority, "w1", now());
    let trusted = authority.trusted(now());
    let anonymous = client_config(None, &trusted, THRIFT).expect("a configuration");
    let proven = client_config(Some(&own), &trusted, THRIFT).expect("a configuration");
    let hostile = tokio::task::spawn_blocking(move || {
        let short = call(RawEncoding::Compact, "echo", 1, &note("short", 1));
        let long = call(
            RawEncoding::Compact,
            "echo",
            1,
            &note(&"x".repeat(100_000), 1),
        );
        // The length alone decides, before the content arrives.
        let is_answered = |tls, frame: &[u8], answers| {
            RawTls::connect(address, tls, &name).is_answered(frame, answers)
        };
        assert!(is_answered(&anonymous, &framed(&short), 4));
        assert!(!is_answered(&anonymous, &framed(&long)[..8], 1));
        assert!(is_answered(&proven, &framed(&long), 100_000));
        let mut random = Random::new(7);
        for number in 0..300 {
            let tls = [&anonymous, &proven][number % 2];
            let noise: Vec<u8> = (0..random.below(300))
                .map(|_| random.next() as u8)
                .collect();
            let frame = match random.below(3) {
                0 => noise,
                1 => framed(&noise),
                _ => {
                    let mut frame = framed(&short);
                    let place = random.below(frame.len());
                    frame[place] ^= 1 << random.below(8);
                    frame
                }
            };
            let mut raw = RawTls::connect(address, tls, &name);
            let _ = raw.0.write_all(&frame).and_then(|()| raw.0.flush());
            // Some end with a broken record instead of a goodbye.
            let _ = raw.0.sock.write_all(&frame);
        }
    });
    hostile.await.expect("the client does not panic");
    assert_eq!(who(&pool(&authority, Some(&own)), &peer).await, "worker w1");
    wait_for("the hostile connections to end", || {
        let load = server.handle.load();
        (load.connections, load.calls, load.bytes) == (1, 0, 0)
    })
    .await;
}
