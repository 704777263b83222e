//! Tests calls whose outcome goes to a function: the outcomes equal those of futures, and each is delivered once.

mod rpc_support;

use rpc_support::*;

use std::time::Duration;

use brasserie_thrift::rpc::{
    CallResult, CallTimeouts, ClientConfig, ClientPool, Limits, NotSent, PeerAddr, Unknown,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// A timeout that expires in some tests, and is ample for everything that must finish before it.
const SHORT: Duration = Duration::from_millis(500);

type Result = CallResult<NoteResult>;

/// A pool, and the delivered outcomes of its calls.
struct Caller {
    pool: ClientPool,
    told: mpsc::UnboundedSender<Result>,
    ends: mpsc::UnboundedReceiver<Result>,
}

impl Caller {
    fn new(send: Duration, receive: Duration) -> Self {
        let (told, ends) = mpsc::unbounded_channel();
        let timeouts = CallTimeouts {
            connect: PATIENCE,
            send,
            receive,
        };
        Caller {
            pool: ClientPool::new(ClientConfig {
                timeouts,
                ..ClientConfig::default()
            }),
            told,
            ends,
        }
    }

    fn call(&self, peer: &PeerAddr, method: &'static str, text: &str) {
        let told = self.told.clone();
        self.pool
            .call_then(peer, method, &note(text, 3), move |end| {
                told.send(end).expect("the test listens");
            });
    }

    async fn next(&mut self) -> Result {
        let next = tokio::time::timeout(PATIENCE * 2, self.ends.recv()).await;
        next.expect("an end in time").expect("this holds a sender")
    }

    /// Makes a call, so that a connection is open afterwards.
    async fn connect(&mut self, peer: &PeerAddr) {
        self.call(peer, "echo", "first");
        assert_eq!(self.next().await, echoed("first"));
    }
}

fn echoed(text: &str) -> Result {
    CallResult::Done(NoteResult::success(note(text, 3)))
}

#[tokio::test]
async fn many_calls_over_one_connection_end_with_their_own_replies() {
    let server = TestServer::start(Limits::DEFAULT).await;
    let mut caller = Caller::new(PATIENCE, PATIENCE);
    caller.connect(&server.peer()).await;
    for number in 0..100 {
        caller.call(&server.peer(), "echo", &number.to_string());
    }
    // The outcomes are in order, because one connection answers in order.
    for number in 0..100 {
        assert_eq!(caller.next().await, echoed(&number.to_string()));
    }
}

#[tokio::test]
async fn a_refused_connection_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer: PeerAddr = listener.local_addr().expect("it is bound").into();
    drop(listener);
    let mut caller = Caller::new(PATIENCE, PATIENCE);
    caller.call(&peer, "echo", "");
    let end = caller.next().await;
    assert!(
        matches!(end, CallResult::NotSent(NotSent::Connect { .. })),
        "{end:?}"
    );
}

#[tokio::test]
async fn a_missing_reply_is_unknown_and_the_next_call_takes_another_connection() {
    let mut server = TestServer::start(Limits::DEFAULT).await;
    let mut caller = Caller::new(PATIENCE, SHORT);
    caller.connect(&server.peer()).await;
    let began = std::time::Instant::now();
    caller.call(&server.peer(), "later", "never");
    let (_, responder) = server.next_later().await;
    let end = caller.next().await;
    assert_eq!(end, CallResult::Unknown(Unknown::ReceiveTimeout));
    assert!(began.elapsed() >= SHORT);
    // The late reply is discarded, and the next call gets its own.
    responder.reply(&NoteResult::success(note("late", 3)));
    caller.call(&server.peer(), "echo", "next");
    assert_eq!(caller.next().await, echoed("next"));
}

#[tokio::test]
async fn a_peer_that_does_not_read_ends_the_call_that_leaves_and_the_one_behind_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer: PeerAddr = listener.local_addr().expect("it is bound").into();
    let mut caller = Caller::new(SHORT, PATIENCE);
    // A oneway call with a future opens the connection.
    let opening = caller.pool.send(&peer, "echo", &note("open", 3));
    assert_eq!(opening.await, CallResult::Done(()));
    let (mut stream, _) = listener.accept().await.expect("the client connects");
    // The frame is larger than the kernel's buffers, so only a part of it leaves.
    caller.call(&peer, "echo", &"x".repeat(15_000_000));
    stream.read_u32().await.expect("its first bytes");
    caller.call(&peer, "echo", "behind");
    let mut ends = [caller.next().await, caller.next().await];
    ends.sort_by_key(|end| matches!(end, CallResult::NotSent(_)));
    assert_eq!(ends[0], CallResult::Unknown(Unknown::SendTimeout));
    assert!(matches!(ends[1], CallResult::NotSent(_)), "{:?}", ends[1]);
}

#[tokio::test]
async fn a_connection_that_ends_leaves_a_call_unknown_and_the_pool_may_go_first() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let peer: PeerAddr = listener.local_addr().expect("it is bound").into();
    let mut caller = Caller::new(PATIENCE, PATIENCE);
    let opening = caller.pool.send(&peer, "echo", &note("open", 3));
    assert_eq!(opening.await, CallResult::Done(()));
    let (mut stream, _) = listener.accept().await.expect("the client connects");
    let length = stream.read_u32().await.expect("the first frame");
    let mut frame = vec![0; length as usize];
    stream.read_exact(&mut frame).await.expect("all of it");
    caller.call(&peer, "echo", "cut");
    stream.read_u32().await.expect("it has left");
    // The call does not keep the pool alive. Dropping its last clone closes its connections.
    caller.pool = ClientPool::new(ClientConfig::default());
    let end = caller.next().await;
    assert!(
        matches!(end, CallResult::Unknown(Unknown::ConnectionLost(_))),
        "{end:?}"
    );
}
