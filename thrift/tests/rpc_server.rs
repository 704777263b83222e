//! Tests the server as a peer sees it on the wire: dialects, pipelining, exceptions and shutdown.

mod rpc_support;

use rpc_support::*;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use brasserie_thrift::rpc::{Disconnector, IncomingCall, Limits, Server, Service};
use thrift::ApplicationErrorKind;
use thrift::protocol::TMessageType;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

fn is_reply(reply: &RawReply, sequence: i32, expected: &Note) -> bool {
    match reply {
        RawReply::Reply(_, got, result) => {
            *got == sequence && result.success.as_ref() == Some(expected)
        }
        RawReply::Exception(..) => false,
    }
}

fn exception_kind(reply: &RawReply) -> Option<ApplicationErrorKind> {
    match reply {
        RawReply::Reply(..) => None,
        RawReply::Exception(_, _, kind, _) => Some(*kind),
    }
}

#[tokio::test]
async fn framed_calls_are_answered_in_their_encoding() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    // A connection may change its dialect.
    for encoding in [
        RawEncoding::Compact,
        RawEncoding::Binary,
        RawEncoding::Compact,
    ] {
        let arguments = note("héllo", 4);
        client
            .send(&framed(&call(encoding, "echo", 17, &arguments)))
            .await;
        let reply = client.next_reply(encoding).await;
        assert!(is_reply(&reply, 17, &arguments), "{reply:?}");
    }
}

#[tokio::test]
async fn header_calls_are_answered_with_their_protocol_flags_and_sequence() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    for (encoding, protocol) in [(RawEncoding::Binary, 0), (RawEncoding::Compact, 2)] {
        // Info header 1 (key-value) with one pair, which the server ignores.
        let header = [protocol, 0, 1, 1, 1, b'k', 2, b'v', b'w'];
        let arguments = note("header", 7);
        let message = call(encoding, "echo", 5, &arguments);
        client
            .send(&framed(&with_header(0x0102, 99, &header, &message)))
            .await;
        let payload = client.next_frame().await.expect("a reply");
        assert_eq!(
            payload[..14],
            [0x0F, 0xFF, 1, 2, 0, 0, 0, 99, 0, 1, protocol, 0, 0, 0]
        );
        let reply = parse_reply(encoding, &payload[14..]);
        assert!(is_reply(&reply, 5, &arguments), "{reply:?}");
    }
}

#[tokio::test]
async fn frames_may_arrive_in_any_pieces() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    let mut bytes = Vec::new();
    for sequence in 0..5 {
        bytes.extend(framed(&call(
            RawEncoding::Compact,
            "echo",
            sequence,
            &note("pieces", sequence),
        )));
    }
    for piece in bytes.chunks(7) {
        client.send(piece).await;
        tokio::task::yield_now().await;
    }
    for sequence in 0..5 {
        let reply = client.next_reply(RawEncoding::Compact).await;
        assert!(is_reply(&reply, sequence, &note("pieces", sequence)));
    }
}

#[tokio::test]
async fn calls_are_answered_as_they_finish() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    for sequence in 1..=3 {
        let arguments = note("later", sequence);
        client
            .send(&framed(&call(
                RawEncoding::Compact,
                "later",
                sequence,
                &arguments,
            )))
            .await;
    }
    client
        .send(&framed(&call(
            RawEncoding::Compact,
            "echo",
            4,
            &note("now", 4),
        )))
        .await;
    let reply = client.next_reply(RawEncoding::Compact).await;
    assert!(is_reply(&reply, 4, &note("now", 4)), "{reply:?}");
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(server.next_later().await);
    }
    assert_eq!(server.handle.load().calls, 3);
    for (arguments, responder) in held.into_iter().rev() {
        let expected = arguments.clone();
        // The reply comes from another thread, like one of a service.
        std::thread::spawn(move || responder.reply(&NoteResult::success(arguments)))
            .join()
            .expect("answering does not panic");
        let reply = client.next_reply(RawEncoding::Compact).await;
        assert!(is_reply(&reply, expected.number, &expected), "{reply:?}");
    }
    assert_eq!(server.handle.load().calls, 0);
}

#[tokio::test]
async fn what_cannot_be_done_is_an_exception() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    let encoding = RawEncoding::Binary;
    client
        .send(&framed(&call(encoding, "nonsense", 1, &note("", 0))))
        .await;
    let reply = client.next_reply(encoding).await;
    assert_eq!(
        reply,
        RawReply::Exception(
            "nonsense".to_owned(),
            1,
            ApplicationErrorKind::UnknownMethod,
            "there is no method nonsense".to_owned()
        )
    );
    client
        .send(&framed(&call(encoding, "drop", 2, &note("", 0))))
        .await;
    let reply = client.next_reply(encoding).await;
    assert_eq!(
        exception_kind(&reply),
        Some(ApplicationErrorKind::InternalError)
    );
    let cut = call(encoding, "echo", 3, &note("cut", 0));
    client.send(&framed(&cut[..cut.len() - 3])).await;
    let reply = client.next_reply(encoding).await;
    assert_eq!(
        exception_kind(&reply),
        Some(ApplicationErrorKind::ProtocolError)
    );
    // The bad calls have not harmed the connection.
    client
        .send(&framed(&call(encoding, "echo", 4, &note("on", 1))))
        .await;
    assert!(is_reply(
        &client.next_reply(encoding).await,
        4,
        &note("on", 1)
    ));
}

#[tokio::test]
async fn transforms_and_unknown_protocols_get_an_exception_in_the_header_transport() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    for (header, kind) in [
        ([2, 1, 1], ApplicationErrorKind::InvalidTransform),
        ([7, 0, 0], ApplicationErrorKind::InvalidProtocol),
    ] {
        client
            .send(&framed(&with_header(0, 31, &header, b"whatever")))
            .await;
        let payload = client.next_frame().await.expect("an exception");
        assert_eq!(payload[4..8], [0, 0, 0, 31]);
        let encoding = match payload[10] {
            0 => RawEncoding::Binary,
            _ => RawEncoding::Compact,
        };
        let reply = parse_reply(encoding, &payload[14..]);
        assert_eq!(exception_kind(&reply), Some(kind), "{reply:?}");
    }
}

#[tokio::test]
async fn oneway_calls_are_never_answered() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    let encoding = RawEncoding::Compact;
    let oneway = message(encoding, "tell", TMessageType::OneWay, 1, &|output| {
        use thrift::protocol::TSerializable;
        note("told", 1)
            .write_to_out_protocol(output)
            .expect("a Vec takes all");
    });
    client.send(&framed(&oneway)).await;
    let (told, responder) = server.next_later().await;
    assert_eq!(told, note("told", 1));
    responder.reply(&NoteResult::success(told));
    let broken = message(encoding, "tell", TMessageType::OneWay, 2, &|_| {});
    client.send(&framed(&broken)).await;
    client
        .send(&framed(&call(encoding, "echo", 3, &note("next", 3))))
        .await;
    let reply = client.next_reply(encoding).await;
    assert!(is_reply(&reply, 3, &note("next", 3)), "{reply:?}");
}

#[tokio::test]
async fn what_is_no_call_closes_the_connection() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let empty = |_: &mut dyn thrift::protocol::TOutputProtocol| {};
    let old_binary = [&[0, 0, 0, 4][..], b"echo", &[1, 0, 0, 0, 1, 0]].concat();
    let replies = message(RawEncoding::Compact, "echo", TMessageType::Reply, 1, &empty);
    let long_name = call(RawEncoding::Binary, &"m".repeat(300), 1, &note("", 0));
    for bytes in [
        framed(&old_binary),
        framed(&[]),
        framed(&replies),
        framed(&long_name),
        framed(&[0x82, 0x21]),
        framed(&with_header(0, 0, &[], b"")),
        // Unframed strict binary and HTTP read as frames of absurd length.
        call(RawEncoding::Binary, "echo", 1, &note("", 0)),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let mut client = server.connect().await;
        client.try_send(&bytes).await;
        client.expect_closed().await;
    }
}

#[tokio::test]
async fn replies_to_good_frames_before_a_bad_one_are_sent() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    let good = framed(&call(RawEncoding::Compact, "echo", 1, &note("good", 1)));
    client.send(&[&good[..], &framed(b"bad")].concat()).await;
    let reply = client.next_reply(RawEncoding::Compact).await;
    assert!(is_reply(&reply, 1, &note("good", 1)), "{reply:?}");
    client.expect_closed().await;
}

#[tokio::test]
async fn a_reply_beyond_the_frame_limit_becomes_an_exception() {
    let limits = Limits {
        max_frame_bytes: 1000,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    let encoding = RawEncoding::Compact;
    client
        .send(&framed(&call(encoding, "grow", 1, &note("", 2000))))
        .await;
    let reply = client.next_reply(encoding).await;
    assert_eq!(
        exception_kind(&reply),
        Some(ApplicationErrorKind::InternalError),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_peer_that_closes_its_side_still_gets_its_answers() {
    use tokio::io::AsyncWriteExt;
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    let encoding = RawEncoding::Compact;
    client
        .send(&framed(&call(encoding, "later", 1, &note("late", 1))))
        .await;
    client.stream.shutdown().await.expect("a half close");
    let (arguments, responder) = server.next_later().await;
    responder.reply(&NoteResult::success(arguments));
    let reply = client.next_reply(encoding).await;
    assert!(is_reply(&reply, 1, &note("late", 1)), "{reply:?}");
    client.expect_closed().await;
}

#[tokio::test]
async fn a_responder_knows_that_its_connection_has_ended() {
    let limits = Limits {
        drain_timeout: Duration::from_millis(10),
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    let late = call(RawEncoding::Compact, "later", 1, &note("late", 1));
    client.send(&framed(&late)).await;
    let (_, responder) = server.next_later().await;
    assert!(!responder.is_gone());
    drop(client);
    let closed = async {
        while server.handle.load().connections > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let closed = tokio::time::timeout(PATIENCE, closed).await;
    closed.expect("the server gives up waiting for the answer");
    assert!(responder.is_gone());
    drop(responder);
    assert_eq!(server.handle.load().calls, 0);
}

/// A service that expels everybody at a call of `expel`.
#[derive(Default)]
struct Expelling {
    server: OnceLock<Disconnector>,
    /// The calls that have arrived, and whether their callers were expelled at the end of the call.
    calls: Mutex<Vec<(String, bool)>>,
}

impl Expelling {
    fn take_calls(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.calls.lock().expect("no test has failed"))
    }
}

impl Service for Expelling {
    fn call(&self, call: IncomingCall<'_>) {
        let to = call.into_responder();
        if to.method() == "expel" {
            let server = self.server.get().expect("it is served");
            server.disconnect(|_| true);
        }
        let call = (to.method().to_owned(), to.is_expelled());
        self.calls.lock().expect("no test has failed").push(call);
        to.reply(&NoteResult::default());
    }
}

// One thread, so that the connection's task runs only while the test waits.
#[tokio::test]
async fn no_further_call_of_an_expelled_peer_reaches_the_service() {
    let service = Arc::new(Expelling::default());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any).await.expect("a port");
    let end = CancellationToken::new();
    let server = server.serve(Arc::clone(&service), Limits::DEFAULT, end);
    assert!(service.server.set(server.disconnector()).is_ok());
    let connect = async || RawClient {
        stream: TcpStream::connect(server.local_addr())
            .await
            .expect("it listens"),
    };
    let frame = |method: &str| framed(&call(RawEncoding::Compact, method, 1, &note("", 0)));
    let many = frame("change").repeat(100);

    // The peer is expelled by its own call, and the others are in the same buffer.
    let mut client = connect().await;
    let calls = [frame("first"), frame("expel"), many.clone()].concat();
    client.send(&calls).await;
    while client.next_frame().await.is_some() {}
    let expected = [("first".to_owned(), false), ("expel".to_owned(), true)];
    assert_eq!(service.take_calls(), expected);

    // The peer is expelled while its connection waits, and the kernel holds more calls.
    let mut client = connect().await;
    client.send(&frame("first")).await;
    client.next_frame().await.expect("an answer");
    let sent = client.stream.try_write(&many);
    assert_eq!(sent.expect("the buffer is empty"), many.len());
    server.disconnector().disconnect(|_| true);
    while client.next_frame().await.is_some() {}
    assert_eq!(service.take_calls(), [("first".to_owned(), false)]);
}

#[tokio::test]
async fn shutdown_answers_what_was_begun_and_takes_no_more() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let addr = server.addr();
    let mut client = server.connect().await;
    let encoding = RawEncoding::Compact;
    client
        .send(&framed(&call(encoding, "later", 1, &note("last", 1))))
        .await;
    let (arguments, responder) = server.next_later().await;
    server.shutdown.cancel();
    responder.reply(&NoteResult::success(arguments));
    let reply = client.next_reply(encoding).await;
    assert!(is_reply(&reply, 1, &note("last", 1)), "{reply:?}");
    client.expect_closed().await;
    tokio::time::timeout(PATIENCE, server.handle.stopped())
        .await
        .expect("the server ends");
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}
