//! Tests every limit of the server: it applies, and other peers are still served.

mod rpc_support;

use rpc_support::*;

use std::fs;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Principal;
use brasserie_common::access::{Identity, IdentityProof, Role, TokenNumber};
use brasserie_thrift::rpc::{Authenticator, LACK_OF_ROOM, Limits, Server};
use rustls::pki_types::CertificateDer;
use thrift::ApplicationErrorKind;
use thrift::protocol::{
    TFieldIdentifier, TListIdentifier, TMapIdentifier, TMessageType, TOutputProtocol,
    TStructIdentifier, TType,
};
use tokio::net::TcpSocket;

const SHORT: Duration = Duration::from_millis(100);

async fn answers(client: &mut RawClient, sequence: i32) {
    answers_to("echo", client, sequence).await;
}

async fn answers_to(method: &str, client: &mut RawClient, sequence: i32) {
    let arguments = note("alive", sequence);
    let payload = call(RawEncoding::Compact, method, sequence, &arguments);
    client.send(&framed(&payload)).await;
    expect_echo(client, sequence, &arguments).await;
}

async fn expect_echo(client: &mut RawClient, sequence: i32, arguments: &Note) {
    let reply = client.next_reply(RawEncoding::Compact).await;
    let RawReply::Reply(_, got, result) = &reply else {
        panic!("{reply:?}");
    };
    assert_eq!((*got, result.success.as_ref()), (sequence, Some(arguments)));
}

/// Sends the arguments that `body` writes, and returns the exception in the reply.
async fn rejected(
    client: &mut RawClient,
    encoding: RawEncoding,
    body: &dyn Fn(&mut dyn TOutputProtocol) -> thrift::Result<()>,
) -> String {
    let payload = message(encoding, "echo", TMessageType::Call, 9, &|output| {
        body(output).expect("a Vec takes all");
    });
    client.send(&framed(&payload)).await;
    match client.next_reply(encoding).await {
        RawReply::Exception(_, 9, ApplicationErrorKind::ProtocolError, message) => message,
        other => panic!("{other:?}"),
    }
}

fn begin_field(output: &mut dyn TOutputProtocol, kind: TType, id: i16) -> thrift::Result<()> {
    output.write_struct_begin(&TStructIdentifier::new("Note"))?;
    output.write_field_begin(&TFieldIdentifier::new("field", kind, id))
}

#[tokio::test]
async fn a_frame_beyond_the_limit_closes_the_connection_before_its_payload() {
    let limits = Limits {
        max_frame_bytes: 1000,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    client.send(&1001u32.to_be_bytes()).await;
    client.expect_closed().await;
    let mut client = server.connect().await;
    answers(&mut client, 1).await;
}

#[tokio::test]
async fn a_promised_frame_takes_no_memory() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    client.send(&(16u32 << 20).to_be_bytes()).await;
    client.send(&[0x82, 0x21]).await;
    let mut other = server.connect().await;
    answers(&mut other, 1).await;
    assert_eq!(server.handle.load().bytes, 0);
}

#[tokio::test]
async fn deep_nesting_is_rejected() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    for encoding in [RawEncoding::Compact, RawEncoding::Binary] {
        // Written by hand, because the writer has the same limit. Each struct begins with one byte or three.
        let open: &[u8] = match encoding {
            RawEncoding::Compact => &[0x9C],
            RawEncoding::Binary => &[12, 0, 9],
        };
        let mut payload = message(encoding, "echo", TMessageType::Call, 9, &|_| {});
        payload.extend(open.repeat(100_000));
        client.send(&framed(&payload)).await;
        let reply = client.next_reply(encoding).await;
        assert!(
            matches!(
                reply,
                RawReply::Exception(_, 9, ApplicationErrorKind::ProtocolError, _)
            ),
            "{reply:?}"
        );
        answers(&mut client, 1).await;
    }
}

#[tokio::test]
async fn sizes_beyond_the_bytes_that_came_are_rejected() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut client = server.connect().await;
    for encoding in [RawEncoding::Compact, RawEncoding::Binary] {
        let list = rejected(&mut client, encoding, &|output| {
            begin_field(output, TType::List, 3)?;
            output.write_list_begin(&TListIdentifier::new(TType::String, i32::MAX))
        })
        .await;
        assert!(list.contains("2147483647"), "{list}");
        rejected(&mut client, encoding, &|output| {
            begin_field(output, TType::Map, 8)?;
            output.write_map_begin(&TMapIdentifier::new(TType::I32, TType::I32, i32::MAX))
        })
        .await;
        rejected(&mut client, encoding, &|output| {
            begin_field(output, TType::List, 3)?;
            output.write_list_begin(&TListIdentifier::new(TType::String, -1))
        })
        .await;
        // A string of 2 GiB of which only four bytes are present.
        rejected(&mut client, encoding, &|output| {
            begin_field(output, TType::String, 1)?;
            match encoding {
                RawEncoding::Compact => {
                    for byte in [0xFF, 0xFF, 0xFF, 0xFF, 0x07] {
                        output.write_byte(byte)?;
                    }
                    Ok(())
                }
                RawEncoding::Binary => output.write_i32(i32::MAX),
            }
        })
        .await;
    }
    answers(&mut client, 1).await;
}

#[tokio::test]
async fn a_container_beyond_the_limit_is_rejected_although_its_bytes_came() {
    let limits = Limits {
        max_container_len: 10,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    let encoding = RawEncoding::Compact;
    let mut arguments = note("", 1);
    arguments.items = vec![String::new(); 11];
    client
        .send(&framed(&call(encoding, "echo", 1, &arguments)))
        .await;
    let reply = client.next_reply(encoding).await;
    assert!(
        matches!(
            reply,
            RawReply::Exception(_, 1, ApplicationErrorKind::ProtocolError, _)
        ),
        "{reply:?}"
    );
    arguments.items.pop();
    client
        .send(&framed(&call(encoding, "echo", 2, &arguments)))
        .await;
    expect_echo(&mut client, 2, &arguments).await;
}

#[tokio::test]
async fn many_small_structs_are_rejected_before_they_fill_the_memory() {
    let limits = Limits {
        max_decoded_bytes: 256 * 1000,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    let reason = rejected(&mut client, RawEncoding::Compact, &|output| {
        begin_field(output, TType::List, 8)?;
        output.write_list_begin(&TListIdentifier::new(TType::Struct, 2000))?;
        for _ in 0..2000 {
            output.write_field_stop()?;
        }
        output.write_field_end()?;
        output.write_field_stop()
    })
    .await;
    assert!(reason.contains("may be decoded at once"), "{reason}");
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_while_all_are_of_known_peers() {
    let limits = Limits {
        max_connections: 2,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    answers_to("join", &mut first, 1).await;
    answers_to("join", &mut second, 1).await;
    let mut third = server.connect().await;
    third.expect_closed().await;
    drop(first);
    wait_for("a place is freed", || server.handle.load().connections == 1).await;
    let mut fourth = server.connect().await;
    answers(&mut fourth, 1).await;
    answers(&mut second, 2).await;
}

#[tokio::test]
async fn a_newcomer_takes_the_place_of_the_oldest_idle_stranger() {
    let limits = Limits {
        max_connections: 4,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut known = server.connect().await;
    answers_to("join", &mut known, 1).await;
    let mut waiting = server.connect().await;
    send_later(&mut waiting, 1).await;
    let (arguments, responder) = server.next_later().await;
    let mut older = server.connect().await;
    answers(&mut older, 1).await;
    let mut younger = server.connect().await;
    answers(&mut younger, 1).await;
    answers(&mut older, 2).await;
    let mut newcomer = server.connect().await;
    answers(&mut newcomer, 1).await;
    younger.expect_closed().await;
    answers(&mut known, 2).await;
    answers(&mut older, 3).await;
    responder.reply(&NoteResult::success(arguments));
    expect_echo(&mut waiting, 1, &note("later", 1)).await;
    wait_for("as many as before", || {
        server.handle.load().connections == 4
    })
    .await;
}

/// Returns the kernel's active timer of a connection on the server's side; 2 is keepalive.
fn timer_of(server: SocketAddr, client: SocketAddr) -> Option<u64> {
    let end = |port: u16| format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/net/tcp").expect("a list of connections");
    let ends = [end(server.port()), end(client.port())];
    table.lines().find_map(|line| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let timer = words.get(5).filter(|_| words[1..3] == ends)?;
        u64::from_str_radix(timer.split_once(':')?.0, 16).ok()
    })
}

#[tokio::test]
async fn a_peer_whose_machine_is_gone_keeps_no_place() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let client = std::net::TcpStream::connect(server.addr()).expect("a connection");
    let from = client.local_addr().expect("its end");
    wait_for("the kernel to ask whether it is there", || {
        timer_of(server.addr(), from) == Some(2)
    })
    .await;
}

#[tokio::test]
async fn a_crowd_of_silent_connections_does_not_keep_others_out() {
    let limits = Limits {
        max_connections: 64,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut known = server.connect().await;
    answers_to("join", &mut known, 1).await;
    let mut crowd = Vec::new();
    for number in 0..200_u8 {
        let mut one = server.connect().await;
        if number % 2 == 0 {
            // Half a frame is no call.
            one.try_send(&[0, 0, 0, 9, 0x82]).await;
        }
        crowd.push(one);
    }
    for sequence in 2..20 {
        let mut newcomer = server.connect().await;
        answers_to("join", &mut newcomer, sequence).await;
        answers(&mut known, sequence).await;
    }
    let left = server.handle.load().connections;
    assert!(left <= 64 + 1, "{left} are open");
}

#[tokio::test]
async fn a_connection_without_a_first_call_is_closed_soon() {
    let limits = Limits {
        first_call_timeout: SHORT,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut caller = server.connect().await;
    answers(&mut caller, 1).await;
    let mut silent = server.connect().await;
    silent.expect_closed().await;
    answers(&mut caller, 2).await;
}

/// Sends `count` calls that the test answers.
async fn send_later(client: &mut RawClient, count: i32) {
    for sequence in 1..=count {
        let arguments = note("later", sequence);
        let payload = call(RawEncoding::Compact, "later", sequence, &arguments);
        client.send(&framed(&payload)).await;
    }
}

#[tokio::test]
async fn a_connection_with_too_many_calls_waits_until_one_is_answered() {
    let limits = Limits {
        max_calls_per_connection: 2,
        room_wait: PATIENCE,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    send_later(&mut client, 3).await;
    let (first, responder) = server.next_later().await;
    let second = server.next_later().await;
    let mut other = server.connect().await;
    answers(&mut other, 1).await;
    assert!(server.later.try_recv().is_err(), "the third one waits");
    responder.reply(&NoteResult::success(first));
    expect_echo(&mut client, 1, &note("later", 1)).await;
    let (third, _responder) = server.next_later().await;
    assert_eq!(third.number, 3);
    drop(second);
}

#[tokio::test]
async fn a_server_with_too_many_calls_waits_until_one_is_answered() {
    let limits = Limits {
        max_calls: 2,
        room_wait: PATIENCE,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    send_later(&mut client, 2).await;
    let (first, responder) = server.next_later().await;
    let _second = server.next_later().await;
    let mut other = server.connect().await;
    let arguments = note("waits", 5);
    other
        .send(&framed(&call(RawEncoding::Compact, "echo", 5, &arguments)))
        .await;
    let early = tokio::time::timeout(SHORT, other.next_frame()).await;
    assert!(early.is_err(), "there is no room for it");
    responder.reply(&NoteResult::success(first));
    expect_echo(&mut other, 5, &arguments).await;
}

async fn expect_refusal(client: &mut RawClient, sequence: i32) {
    match client.next_reply(RawEncoding::Compact).await {
        RawReply::Exception(_, got, ApplicationErrorKind::InternalError, message) => {
            assert_eq!((got, message.as_str()), (sequence, LACK_OF_ROOM));
        }
        other => panic!("{other:?}"),
    }
}

/// Sends calls that stay unanswered up to the limit, then one more and a health call behind it.
async fn health_calls_pass_a_crowd(limits: Limits, calls: i32) {
    let limit = usize::try_from(calls).expect("positive");
    let mut server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    send_later(&mut client, calls + 1).await;
    let mut held = Vec::new();
    for _ in 0..calls {
        held.push(server.next_later().await);
    }
    let arguments = note("alive", 99);
    let health = call(RawEncoding::Compact, "echo", 99, &arguments);
    client.send(&framed(&health)).await;
    expect_refusal(&mut client, calls + 1).await;
    expect_echo(&mut client, 99, &arguments).await;
    assert_eq!(server.handle.load().calls, limit, "nothing more is held");
    // Once a call is answered, ordinary calls are served again.
    let (first, responder) = held.remove(0);
    responder.reply(&NoteResult::success(first.clone()));
    expect_echo(&mut client, first.number, &first).await;
    let payload = call(RawEncoding::Compact, "later", 100, &note("later", 100));
    client.send(&framed(&payload)).await;
    assert_eq!(server.next_later().await.0.number, 100);
}

#[tokio::test]
async fn health_calls_pass_the_calls_of_their_own_connection() {
    let limits = Limits {
        max_calls_per_connection: 3,
        room_wait: SHORT,
        ..Limits::DEFAULT
    };
    health_calls_pass_a_crowd(limits, 3).await;
}

#[tokio::test]
async fn health_calls_pass_the_calls_of_all() {
    let limits = Limits {
        max_calls: 3,
        room_wait: SHORT,
        ..Limits::DEFAULT
    };
    health_calls_pass_a_crowd(limits, 3).await;
}

#[tokio::test]
async fn health_calls_pass_when_bytes_are_used_up() {
    let limits = Limits {
        // The limit includes the overhead of each call.
        max_bytes_in_flight: 1300,
        connection_allowance_bytes: 100,
        room_wait: SHORT,
        ..Limits::DEFAULT
    };
    health_calls_pass_a_crowd(limits, 5).await;
}

/// Simulates a slow store: capacity is released repeatedly, and used again at once.
#[tokio::test]
async fn a_slow_turnover_does_not_hold_up_health_calls() {
    const QUEUE: i32 = 2000;
    let limits = Limits {
        max_calls_per_connection: 2,
        room_wait: SHORT,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    let calls: Vec<u8> = (1..=QUEUE)
        .flat_map(|number| {
            let arguments = note("later", number);
            framed(&call(RawEncoding::Compact, "later", number, &arguments))
        })
        .chain(framed(&call(
            RawEncoding::Compact,
            "echo",
            9999,
            &note("alive", 9999),
        )))
        .collect();
    client.send(&calls).await;
    let mut slow = Vec::new();
    let echoed = async {
        loop {
            let payload = client.next_frame().await.expect("the connection lives");
            match parse_reply(RawEncoding::Compact, &payload) {
                RawReply::Reply(_, 9999, _) => return,
                RawReply::Reply(..) | RawReply::Exception(..) => {}
            }
        }
    };
    let answer = async {
        loop {
            slow.push(server.next_later().await);
            if slow.len() == 2 {
                tokio::time::sleep(SHORT / 5).await;
                let (arguments, responder) = slow.remove(0);
                responder.reply(&NoteResult::success(arguments));
            }
        }
    };
    // All calls together would take forty seconds at this rate.
    tokio::select! {
        answered = tokio::time::timeout(PATIENCE / 2, echoed) => answered.expect("the health call is answered soon"),
        () = answer => {}
    }
}

#[tokio::test]
async fn huge_frames_wait_for_each_other_but_small_ones_pass() {
    let limits = Limits {
        max_bytes_in_flight: 200_000,
        connection_allowance_bytes: 10_000,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let large = Note {
        text: "x".repeat(150_000),
        ..note("", 1)
    };
    // An unanswered call holds its frame's bytes, and the limit does not allow two of these.
    let mut first = server.connect().await;
    first
        .send(&framed(&call(RawEncoding::Compact, "later", 1, &large)))
        .await;
    let (arguments, responder) = server.next_later().await;
    assert!(server.handle.load().bytes >= 140_000);
    let mut second = server.connect().await;
    let payload = framed(&call(RawEncoding::Compact, "later", 2, &large));
    let second = tokio::spawn(async move {
        second.send(&payload).await;
        second
    });
    let mut small = server.connect().await;
    answers(&mut small, 1).await;
    let early = tokio::time::timeout(SHORT, server.later.recv()).await;
    assert!(early.is_err(), "the second huge frame waits");
    responder.reply(&NoteResult::success(arguments));
    let RawReply::Reply(..) = first.next_reply(RawEncoding::Compact).await else {
        panic!("the first call was answered");
    };
    let (arguments, responder) = server.next_later().await;
    let mut second = second.await.expect("no panic");
    responder.reply(&NoteResult::success(arguments));
    let RawReply::Reply(..) = second.next_reply(RawEncoding::Compact).await else {
        panic!("the second call was answered");
    };
}

#[tokio::test]
async fn an_idle_connection_is_closed_but_not_one_that_waits_for_an_answer() {
    let limits = Limits {
        idle_timeout: SHORT,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut waiting = server.connect().await;
    send_later(&mut waiting, 1).await;
    let (arguments, responder) = server.next_later().await;
    let mut idle = server.connect().await;
    idle.expect_closed().await;
    responder.reply(&NoteResult::success(arguments));
    expect_echo(&mut waiting, 1, &note("later", 1)).await;
    waiting.expect_closed().await;
}

#[tokio::test]
async fn a_frame_that_trickles_in_closes_the_connection() {
    let limits = Limits {
        frame_timeout: SHORT,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    answers(&mut client, 1).await;
    let frame = framed(&call(RawEncoding::Compact, "echo", 2, &note("slow", 2)));
    let trickle = async {
        for byte in &frame {
            client.try_send(&[*byte]).await;
            tokio::time::sleep(SHORT / 4).await;
        }
        client.next_frame().await
    };
    assert_eq!(
        trickle.await,
        None,
        "each byte is progress, the frame is not"
    );
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_replies_is_let_go() {
    let limits = Limits {
        write_stall_timeout: SHORT,
        pause_at_unsent_bytes: 100_000,
        ..Limits::DEFAULT
    };
    let server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    let ask = framed(&call(RawEncoding::Compact, "grow", 1, &note("", 8_000_000)));
    for _ in 0..4 {
        client.try_send(&ask).await;
    }
    let gone = async {
        while server.handle.load().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("the stuck connection ends");
    assert_eq!(server.handle.load(), Default::default());
}

#[tokio::test]
async fn too_many_unsent_bytes_end_the_connection() {
    let limits = Limits {
        max_unsent_bytes: 10_000_000,
        ..Limits::DEFAULT
    };
    let mut server = TestServer::start(limits).await;
    let mut client = server.connect().await;
    send_later(&mut client, 3).await;
    for _ in 0..3 {
        let (_, responder) = server.next_later().await;
        let large = note(&"x".repeat(8_000_000), 0);
        responder.reply(&NoteResult::success(large));
    }
    let gone = async {
        while server.handle.load().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone)
        .await
        .expect("the stuck connection ends");
    assert_eq!(server.handle.load(), Default::default());
}

/// Takes each group of sixteen addresses for the holder of one token.
struct Tokens;

impl Authenticator for Tokens {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        None
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        let SocketAddr::V4(address) = from else {
            return Principal::Unauthenticated(from);
        };
        let token = u64::from(address.ip().octets()[3] / 16);
        Principal::Authenticated(Arc::new(Identity {
            token: Some(TokenNumber(token)),
            ..Identity::new(Role::Submitter, IdentityProof::Token, from)
        }))
    }

    fn identify(&self, from: SocketAddr, _: &[CertificateDer<'static>]) -> Principal {
        self.plain(from)
    }
}

/// Connects from the address of this machine with this last number. The kernel keeps little of what the client does not read.
async fn connect_from(server: &TestServer, last: u8) -> RawClient {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(16 << 10).expect("an option");
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    socket.bind(from).expect("an address of this machine");
    let stream = socket.connect(server.addr()).await;
    RawClient {
        stream: stream.expect("the server listens"),
    }
}

async fn ask_for(client: &mut RawClient, bytes: i32) {
    let arguments = note("", bytes);
    client
        .send(&framed(&call(RawEncoding::Compact, "grow", 1, &arguments)))
        .await;
}

/// Lets a caller with these addresses leave far more unread than all may, beside one that reads slowly and one that uploads.
async fn a_caller_that_reads_nothing_takes_no_room(server: &TestServer, from: RangeInclusive<u8>) {
    const HOGS: usize = 20;
    let mut slow = connect_from(server, 32).await;
    // More than any other connection, but little beside the sum of the other caller's.
    ask_for(&mut slow, 15_000_000).await;
    let mut hogs = Vec::new();
    for last in from.clone().cycle().take(HOGS) {
        let mut hog = connect_from(server, last).await;
        ask_for(&mut hog, 12_000_000).await;
        hogs.push(hog);
    }
    wait_for("the caller loses connections", || {
        server.handle.load().connections < 1 + HOGS / 2
    })
    .await;
    let mut other = connect_from(server, 48).await;
    let upload = note(&"x".repeat(5_000_000), 2);
    let payload = call(RawEncoding::Compact, "echo", 2, &upload);
    other.send(&framed(&payload)).await;
    expect_echo(&mut other, 2, &upload).await;
    wait_for("half of the room is free", || {
        server.handle.load().bytes <= MOST / 2
    })
    .await;
    let RawReply::Reply(..) = slow.next_reply(RawEncoding::Compact).await else {
        panic!("the slow reader gets its answer");
    };
    answers(&mut slow, 3).await;
    // The connections that are left suffice for the rest of the caller.
    let mut late = connect_from(server, *from.start()).await;
    answers(&mut late, 4).await;
    drop(hogs);
    wait_for("nothing is held", || server.handle.load().bytes == 0).await;
}

/// The bytes in flight of the servers of these tests.
const MOST: usize = 100_000_000;

fn little_memory() -> Limits {
    Limits {
        max_bytes_in_flight: MOST,
        ..Limits::DEFAULT
    }
}

#[tokio::test]
async fn the_token_with_the_most_unread_answers_loses_connections() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(any).await.expect("a port");
    let server = server.authenticated_by(Arc::new(Tokens));
    let server = TestServer::serve(server, little_memory());
    a_caller_that_reads_nothing_takes_no_room(&server, 16..=31).await;
}

#[tokio::test]
async fn the_machine_with_the_most_unread_answers_loses_connections() {
    let server = TestServer::start(little_memory()).await;
    a_caller_that_reads_nothing_takes_no_room(&server, 16..=16).await;
}
