//! Tests the client: the outcomes of a call, pipelining, one connection for each peer, and reconnecting.

mod rpc_support;

use rpc_support::*;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{
    CallError, CallResult, CallTimeouts, ClientConfig, ClientPool, ClientProtocol,
    ConnectionLosses, Limits, NotSent, PeerAddr, Unknown,
};
use thrift::ApplicationErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// A timeout that expires in some tests, and is ample for everything that must finish before it.
const SHORT: Duration = Duration::from_millis(500);

fn pool(protocol: ClientProtocol) -> ClientPool {
    // Long, so that a busy machine does not cause a timeout.
    let timeouts = CallTimeouts {
        connect: PATIENCE,
        send: PATIENCE,
        receive: PATIENCE,
    };
    ClientPool::new(ClientConfig {
        protocol,
        timeouts,
        limits: Limits::DEFAULT,
        credentials: None,
    })
}

fn impatient(receive: Duration) -> ClientPool {
    ClientPool::new(ClientConfig {
        timeouts: CallTimeouts {
            connect: SHORT,
            send: SHORT,
            receive,
        },
        ..ClientConfig::default()
    })
}

async fn echo(pool: &ClientPool, peer: &PeerAddr, text: &str) -> CallResult<NoteResult> {
    pool.call(peer, "echo", &note(text, 3)).await
}

fn echoed(text: &str) -> CallResult<NoteResult> {
    CallResult::Done(NoteResult::success(note(text, 3)))
}

/// Opens a peer that the test itself plays.
async fn listen() -> (TcpListener, PeerAddr) {
    let socket = TcpSocket::new_v4().expect("a socket");
    // A small buffer, so that the kernel accepts little for a peer that does not read.
    socket.set_recv_buffer_size(65_536).expect("a small buffer");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(any).expect("a free port");
    let listener = socket.listen(8).expect("it is bound");
    let peer = listener.local_addr().expect("it is bound").into();
    (listener, peer)
}

async fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u32().await.expect("a frame");
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.expect("its payload");
    payload
}

/// Returns whether a loss is ready to be reported.
async fn is_told(losses: &mut ConnectionLosses) -> bool {
    tokio::select! {
        biased;
        () = losses.next() => true,
        () = std::future::ready(()) => false,
    }
}

#[test]
fn peers_are_written_as_host_and_port() {
    assert_eq!(PeerAddr::new("worker1", 80).as_str(), "worker1:80");
    assert_eq!(PeerAddr::new("::1", 80).as_str(), "[::1]:80");
    assert_eq!(PeerAddr::new("[::1]", 80).as_str(), "[::1]:80");
    let socket: SocketAddr = "127.0.0.1:5".parse().expect("an address");
    assert_eq!(PeerAddr::from(socket).to_string(), "127.0.0.1:5");
}

#[tokio::test]
async fn every_protocol_makes_the_round_trip() {
    let server = TestServer::start(Limits::DEFAULT).await;
    for protocol in [
        ClientProtocol::FramedCompact,
        ClientProtocol::FramedBinary,
        ClientProtocol::HeaderCompact,
        ClientProtocol::HeaderBinary,
    ] {
        let pool = pool(protocol);
        assert_eq!(
            echo(&pool, &server.peer(), "trip").await,
            echoed("trip"),
            "{protocol:?}"
        );
    }
}

#[tokio::test]
async fn a_service_learns_what_its_caller_speaks() {
    use brasserie_thrift::rpc::{IncomingCall, Server, Service};
    use std::sync::{Arc, Mutex};

    struct Listener(Arc<Mutex<Vec<ClientProtocol>>>);
    impl Service for Listener {
        fn call(&self, call: IncomingCall<'_>) {
            self.0.lock().expect("no panic").push(call.protocol());
            call.serve(|_: Note, responder| responder.reply(&NoteResult::default()));
        }
    }
    let heard = Arc::default();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any).await.expect("a free port");
    let peer = server.local_addr().into();
    let handle = server.serve(
        Listener(Arc::clone(&heard)),
        Limits::DEFAULT,
        tokio_util::sync::CancellationToken::new(),
    );
    let pool = pool(ClientProtocol::FramedCompact);
    let spoken = [
        ClientProtocol::FramedCompact,
        ClientProtocol::FramedBinary,
        ClientProtocol::HeaderCompact,
        ClientProtocol::HeaderBinary,
    ];
    for protocol in spoken {
        let result = echo(&pool.speaking(protocol), &peer, "").await;
        assert_eq!(result, CallResult::Done(NoteResult::default()));
    }
    assert_eq!(*heard.lock().expect("no panic"), spoken);
    assert_eq!(handle.load().connections, 1, "they share the connection");
}

#[tokio::test]
async fn a_declared_exception_arrives_in_the_result() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let result: CallResult<NoteResult> = pool(ClientProtocol::default())
        .call(&server.peer(), "refuse", &note("no", 1))
        .await;
    let CallResult::Done(result) = result else {
        panic!("{result:?}");
    };
    assert_eq!(
        (result.success, result.refused),
        (None, Some(note("no", 1)))
    );
}

#[tokio::test]
async fn an_undeclared_exception_leaves_the_outcome_unknown() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = pool(ClientProtocol::default());
    for (method, expected) in [
        ("nonsense", ApplicationErrorKind::UnknownMethod),
        ("drop", ApplicationErrorKind::InternalError),
    ] {
        let result: CallResult<NoteResult> = pool.call(&server.peer(), method, &note("", 0)).await;
        let CallResult::Unknown(Unknown::Exception { kind, .. }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(kind, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_share_a_connection_and_find_their_replies() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let pool = pool(ClientProtocol::default());
    let peer = server.peer();
    let calls: Vec<_> = (0..200)
        .map(|number| {
            let call = pool.call(&peer, "later", &note("call", number));
            tokio::spawn(async move { (number, call.await) })
        })
        .collect();
    let mut held = Vec::new();
    for _ in 0..200 {
        held.push(server.next_later().await);
    }
    assert_eq!(server.handle.load().connections, 1);
    for (arguments, responder) in held.into_iter().rev() {
        responder.reply(&NoteResult::success(arguments));
    }
    for call in calls {
        let (number, result): (i32, CallResult<NoteResult>) = call.await.expect("no panic");
        assert_eq!(
            result,
            CallResult::Done(NoteResult::success(note("call", number)))
        );
    }
}

#[tokio::test]
async fn a_refused_connection_is_not_sent() {
    let (listener, peer) = listen().await;
    drop(listener);
    let result = echo(&pool(ClientProtocol::default()), &peer, "").await;
    let CallResult::NotSent(NotSent::Connect { peer: named, .. }) = &result else {
        panic!("{result:?}");
    };
    assert_eq!(named, peer.as_str());
    let error = result.into_result().expect_err("there is no result");
    assert!(matches!(error, CallError::NotSent(_)));
    assert!(
        error.to_string().contains(peer.as_str()),
        "it names the peer: {error}"
    );
}

#[tokio::test]
async fn a_name_without_address_is_not_sent() {
    let peer = PeerAddr::new("not a host name", 1);
    let result = echo(&pool(ClientProtocol::default()), &peer, "").await;
    assert!(
        matches!(result, CallResult::NotSent(NotSent::Resolve { .. })),
        "{result:?}"
    );
}

#[tokio::test]
async fn arguments_beyond_the_frame_limit_are_not_sent() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = ClientPool::new(ClientConfig {
        limits: Limits {
            max_frame_bytes: 1000,
            ..Limits::DEFAULT
        },
        ..ClientConfig::default()
    });
    let result = echo(&pool, &server.peer(), &"x".repeat(1000)).await;
    assert!(
        matches!(result, CallResult::NotSent(NotSent::Encode(_))),
        "{result:?}"
    );
    assert_eq!(echo(&pool, &server.peer(), "short").await, echoed("short"));
}

#[tokio::test]
async fn a_missing_reply_is_unknown_and_the_connection_is_retired_if_all_was_silent() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let pool = impatient(SHORT);
    let started = Instant::now();
    let result: CallResult<NoteResult> =
        pool.call(&server.peer(), "later", &note("never", 0)).await;
    assert_eq!(result, CallResult::Unknown(Unknown::ReceiveTimeout));
    assert!(started.elapsed() >= SHORT);
    let (_, responder) = server.next_later().await;
    // The late reply is discarded, and the next call gets its own.
    responder.reply(&NoteResult::success(note("late", 0)));
    assert_eq!(echo(&pool, &server.peer(), "next").await, echoed("next"));
}

#[tokio::test]
async fn a_connection_closed_in_the_middle_of_a_call_leaves_it_unknown() {
    let (listener, peer) = listen().await;
    let pool = pool(ClientProtocol::default());
    let call = tokio::spawn(async move { echo(&pool, &peer, "cut").await });
    let (mut stream, _) = listener.accept().await.expect("the client connects");
    read_frame(&mut stream).await;
    drop(stream);
    let result = call.await.expect("no panic");
    assert!(
        matches!(result, CallResult::Unknown(Unknown::ConnectionLost(_))),
        "{result:?}"
    );
}

#[tokio::test]
async fn replies_that_are_none_are_unknown() {
    let good = |sequence| call(RawEncoding::Compact, "echo", sequence, &note("", 0));
    let wrong_name = message(
        RawEncoding::Compact,
        "other",
        thrift::protocol::TMessageType::Reply,
        1,
        &|_| {},
    );
    let truncated = message(
        RawEncoding::Compact,
        "echo",
        thrift::protocol::TMessageType::Reply,
        1,
        &|_| {},
    );
    for (answer, closes) in [
        (framed(&wrong_name), false),
        (framed(&truncated), false),
        (framed(&good(1)), false),
        (framed(b"noise"), true),
        (vec![0xFF; 8], true),
        (framed(&[0x82, 0x41]), true),
    ] {
        let (listener, peer) = listen().await;
        let pool = pool(ClientProtocol::default());
        let call = tokio::spawn(async move { echo(&pool, &peer, "?").await });
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        read_frame(&mut stream).await;
        stream.write_all(&answer).await.expect("the client reads");
        let result = call.await.expect("no panic");
        match result {
            CallResult::Unknown(Unknown::BadReply(_)) => assert!(!closes, "{answer:?}"),
            CallResult::Unknown(Unknown::ConnectionLost(_)) => assert!(closes, "{answer:?}"),
            other => panic!("{answer:?}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_restarted_server_is_reached_again_without_an_error() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let addr = server.addr();
    let pool = pool(ClientProtocol::default());
    assert_eq!(echo(&pool, &addr.into(), "before").await, echoed("before"));
    server.handle.shutdown().await;
    let result = echo(&pool, &addr.into(), "while it is down").await;
    assert!(
        matches!(result, CallResult::NotSent(NotSent::Connect { .. })),
        "{result:?}"
    );
    let _server = TestServer::start_at(addr, Limits::DEFAULT).await;
    assert_eq!(echo(&pool, &addr.into(), "after").await, echoed("after"));
}

#[tokio::test]
async fn a_peer_that_does_not_read_blocks_only_itself() {
    let (listener, stuck) = listen().await;
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = impatient(PATIENCE);
    // The frame is larger than the kernel's buffers, so only a part of it leaves.
    let large = note(&"x".repeat(15_000_000), 0);
    let first = tokio::spawn(pool.call::<_, NoteResult>(&stuck, "echo", &large));
    let (mut stream, _) = listener.accept().await.expect("the client connects");
    // The call is leaving from here on, and the rest is not read.
    stream.read_u32().await.expect("its first bytes");
    let second = tokio::spawn(pool.call::<_, NoteResult>(&stuck, "echo", &note("behind", 0)));
    assert_eq!(echo(&pool, &server.peer(), "other").await, echoed("other"));
    assert_eq!(
        first.await.expect("no panic"),
        CallResult::Unknown(Unknown::SendTimeout)
    );
    let second = second.await.expect("no panic");
    assert!(matches!(second, CallResult::NotSent(_)), "{second:?}");
}

#[tokio::test]
async fn a_withdrawn_call_is_never_sent() {
    let (listener, peer) = listen().await;
    let pool = impatient(PATIENCE);
    let large = note(&"x".repeat(15_000_000), 0);
    let first = tokio::spawn(pool.call::<_, NoteResult>(&peer, "first", &large));
    let (mut stream, _) = listener.accept().await.expect("the client connects");
    stream.read_u32().await.expect("its first bytes");
    let behind: CallResult<NoteResult> = pool.call(&peer, "behind", &note("behind", 0)).await;
    assert!(matches!(behind, CallResult::NotSent(_)), "{behind:?}");
    drop(first.await);
    drop(pool);
    let mut all = Vec::new();
    // An error is a reset, which also ends the stream.
    drop(stream.read_to_end(&mut all).await);
    let has = |word: &[u8]| all.windows(word.len()).any(|window| window == word);
    assert!(has(b"first"), "the first call left in part");
    assert!(!has(b"behind"));
}

#[tokio::test]
async fn too_many_waiting_calls_are_not_sent() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let pool = ClientPool::new(ClientConfig {
        limits: Limits {
            max_client_calls: 2,
            ..Limits::DEFAULT
        },
        ..ClientConfig::default()
    });
    let peer = server.peer();
    let calls: Vec<_> = (0..2)
        .map(|n| tokio::spawn(pool.call::<_, NoteResult>(&peer, "later", &note("", n))))
        .collect();
    let held = [server.next_later().await, server.next_later().await];
    assert_eq!(
        echo(&pool, &peer, "third").await,
        CallResult::NotSent(NotSent::Backlogged)
    );
    for (arguments, responder) in held {
        responder.reply(&NoteResult::success(arguments));
    }
    for call in calls {
        assert!(matches!(call.await.expect("no panic"), CallResult::Done(_)));
    }
    assert_eq!(echo(&pool, &peer, "again").await, echoed("again"));
}

#[tokio::test]
async fn too_many_unsent_bytes_are_not_sent() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = ClientPool::new(ClientConfig {
        limits: Limits {
            max_client_unsent_bytes: 500,
            ..Limits::DEFAULT
        },
        ..ClientConfig::default()
    });
    assert_eq!(
        echo(&pool, &server.peer(), &"x".repeat(500)).await,
        CallResult::NotSent(NotSent::Backlogged)
    );
}

#[tokio::test]
async fn an_idle_connection_is_closed_by_the_client_and_opened_again() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = ClientPool::new(ClientConfig {
        limits: Limits {
            client_idle_timeout: Duration::from_millis(30),
            ..Limits::DEFAULT
        },
        ..ClientConfig::default()
    });
    assert_eq!(echo(&pool, &server.peer(), "one").await, echoed("one"));
    let closed = async {
        while server.handle.load().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed)
        .await
        .expect("the idle connection ends");
    assert_eq!(echo(&pool, &server.peer(), "two").await, echoed("two"));
}

#[tokio::test]
async fn a_peer_that_goes_away_between_calls_is_noticed_each_time() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let addr = server.addr();
    let pool = pool(ClientProtocol::default());
    let mut losses = pool.losses(&addr.into());
    for round in 0..3 {
        assert_eq!(echo(&pool, &addr.into(), "there").await, echoed("there"));
        assert!(!is_told(&mut losses).await, "round {round}");
        server.handle.shutdown().await;
        tokio::time::timeout(PATIENCE, losses.next())
            .await
            .expect("the loss is told");
        // A connection that cannot be opened is not lost.
        let result = echo(&pool, &addr.into(), "gone").await;
        assert!(matches!(result, CallResult::NotSent(_)), "{result:?}");
        server = TestServer::start_at(addr, Limits::DEFAULT).await;
    }
    assert!(!is_told(&mut losses).await);
}

#[tokio::test]
async fn losses_that_nobody_waited_for_are_told_as_one_and_to_everybody() {
    let (listener, peer) = listen().await;
    let pool = pool(ClientProtocol::default());
    let mut both = [pool.losses(&peer), pool.losses(&peer)];
    for _ in 0..3 {
        let call = tokio::spawn(pool.call::<_, NoteResult>(&peer, "cut", &note("", 0)));
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        read_frame(&mut stream).await;
        drop(stream);
        let result = call.await.expect("no panic");
        assert!(matches!(result, CallResult::Unknown(_)), "{result:?}");
    }
    for losses in &mut both {
        tokio::time::timeout(PATIENCE, losses.next())
            .await
            .expect("the losses are told");
    }
    // Only connections to this peer count.
    let server = TestServer::start(Limits::DEFAULT).await;
    assert_eq!(echo(&pool, &server.peer(), "").await, echoed(""));
    server.handle.shutdown().await;
    for losses in &mut both {
        assert!(!is_told(losses).await);
    }
}

#[tokio::test]
async fn a_silent_peer_is_lost_when_its_connection_is_given_up() {
    let (listener, peer) = listen().await;
    let pool = impatient(SHORT);
    let mut losses = pool.losses(&peer);
    let call = tokio::spawn(pool.call::<_, NoteResult>(&peer, "ask", &note("", 0)));
    let _open = listener.accept().await.expect("the client connects");
    assert_eq!(
        call.await.expect("no panic"),
        CallResult::Unknown(Unknown::ReceiveTimeout)
    );
    tokio::time::timeout(PATIENCE, losses.next())
        .await
        .expect("it counts as lost");
}

#[tokio::test]
async fn a_connection_that_this_side_closes_is_not_lost() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = ClientPool::new(ClientConfig {
        limits: Limits {
            client_idle_timeout: Duration::from_millis(30),
            ..Limits::DEFAULT
        },
        ..ClientConfig::default()
    });
    let mut losses = pool.losses(&server.peer());
    let closed = async || {
        while server.handle.load().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert_eq!(echo(&pool, &server.peer(), "one").await, echoed("one"));
    tokio::time::timeout(PATIENCE, closed())
        .await
        .expect("it was idle");
    assert!(!is_told(&mut losses).await);
    // A watcher does not keep the pool's connections open either.
    assert_eq!(echo(&pool, &server.peer(), "two").await, echoed("two"));
    drop(pool);
    tokio::time::timeout(PATIENCE, closed())
        .await
        .expect("the connection ends with the pool");
    assert!(!is_told(&mut losses).await);
}

#[tokio::test]
async fn a_oneway_call_is_done_when_it_is_sent() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let pool = pool(ClientProtocol::default());
    let sent = pool.send(&server.peer(), "tell", &note("told", 1)).await;
    assert_eq!(sent, CallResult::Done(()));
    assert_eq!(server.next_later().await.0, note("told", 1));
    let (listener, nobody) = listen().await;
    drop(listener);
    let sent = pool.send(&nobody, "tell", &note("told", 1)).await;
    assert!(matches!(sent, CallResult::NotSent(_)), "{sent:?}");
}

#[tokio::test]
async fn the_last_clone_of_a_pool_closes_its_connections() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let pool = pool(ClientProtocol::default());
    assert_eq!(echo(&pool, &server.peer(), "").await, echoed(""));
    drop(pool);
    let closed = async {
        while server.handle.load().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, closed)
        .await
        .expect("the connection ends with the pool");
}

#[tokio::test]
async fn the_generated_types_travel() {
    use brasserie_thrift::generated::fb303::{
        FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult, FbStatus,
    };
    use brasserie_thrift::rpc::{IncomingCall, Server, Service};

    struct Status;
    impl Service for Status {
        fn call(&self, call: IncomingCall<'_>) {
            call.serve(|_: FacebookServiceGetStatusArgs, responder| {
                responder.reply(&FacebookServiceGetStatusResult {
                    result_value: Some(FbStatus::ALIVE),
                });
            });
        }
    }
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any).await.expect("a free port");
    let peer = server.local_addr().into();
    let _handle = server.serve(
        Status,
        Limits::DEFAULT,
        tokio_util::sync::CancellationToken::new(),
    );
    let result: CallResult<FacebookServiceGetStatusResult> = pool(ClientProtocol::default())
        .call(&peer, "getStatus", &FacebookServiceGetStatusArgs {})
        .await;
    let CallResult::Done(result) = result else {
        panic!("{result:?}");
    };
    assert_eq!(result.result_value, Some(FbStatus::ALIVE));
}

#[tokio::test]
async fn a_call_whose_time_is_over_is_not_sent() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let (pool, peer) = (pool(ClientProtocol::default()), server.peer());
    let late = pool.not_after(Clock.now());
    assert_eq!(
        echo(&late, &peer, "late").await,
        CallResult::NotSent(NotSent::TooLate)
    );
    // The expired call does not block others, and its limit does not apply to other callers.
    assert_eq!(echo(&pool, &peer, "next").await, echoed("next"));
    let early = pool.not_after(Clock.now() + PATIENCE);
    assert_eq!(echo(&early, &peer, "early").await, echoed("early"));
    // A call that has left has no such limit any more.
    let limit = Clock.now() + SHORT;
    let sent = tokio::spawn(pool.not_after(limit).call::<_, NoteResult>(
        &peer,
        "later",
        &note("", 1),
    ));
    let (arguments, responder) = server.next_later().await;
    Clock.sleep_until(limit).await;
    assert_eq!(echo(&pool, &peer, "moves").await, echoed("moves"));
    responder.reply(&NoteResult::success(arguments));
    assert!(matches!(sent.await.expect("no panic"), CallResult::Done(_)));
}

#[tokio::test]
async fn a_call_that_waits_behind_a_peer_that_does_not_read_does_not_leave_late() {
    let (listener, peer) = listen().await;
    let pool = pool(ClientProtocol::default());
    let big = "x".repeat(8 << 20);
    let first = tokio::spawn(pool.call::<_, NoteResult>(&peer, "echo", &note(&big, 1)));
    let (mut stream, _) = listener.accept().await.expect("a client");
    // The first byte has arrived, so the first call has begun to leave.
    assert_eq!(stream.read_u8().await.expect("a byte"), 0);
    let limit = Clock.now() + SHORT;
    let behind = tokio::spawn(pool.not_after(limit).call::<_, NoteResult>(
        &peer,
        "echo",
        &note("behind", 2),
    ));
    Clock.sleep_until(limit).await;
    let mut length = [0; 3];
    stream
        .read_exact(&mut length)
        .await
        .expect("the other bytes");
    let length = u32::from_be_bytes([0, length[0], length[1], length[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.expect("the frame");
    assert_eq!(
        behind.await.expect("no panic"),
        CallResult::NotSent(NotSent::TooLate)
    );
    drop(stream);
    assert!(matches!(
        first.await.expect("no panic"),
        CallResult::Unknown(_)
    ));
}
