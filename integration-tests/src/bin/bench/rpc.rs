//! Small calls over one connection: the project's client and server, and a bare TCP echo of bytes of the same number, in frames as many
//! at a time.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use brasserie_thrift::generated::fb303::{FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult, FbStatus};
use brasserie_thrift::rpc::{CallResult, ClientConfig, ClientPool, IncomingCall, Limits, PeerAddr, Server, Service, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{Outcome, Pair, Promise, progress};

/// Promised on two cores.
const LEAST_RATE: f64 = 100_000.0;
/// A call waits behind all others that are under way, on a machine that may be busy.
const CALL_PATIENCE: Duration = Duration::from_secs(60);
/// Length, compact message head, name, empty struct: a call of `getStatus`; the answer is four bytes longer.
const FRAME_BYTES: usize = 20;

/// Measures pairs.
pub fn measure(calls: usize, pipelined: usize, pairs: usize) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    let pairs = (0..pairs)
        .map(|pair| {
            progress("rpc", pair, pairs, "calls");
            let rate = thrift_rate(&runtime, calls, pipelined);
            progress("rpc", pair, pairs, "bare TCP");
            Pair { rate, baseline: runtime.block_on(echo_rate(calls, pipelined)) }
        })
        .collect();
    Outcome { name: "rpc", unit: "calls", pairs, promise: Promise::Rate(LEAST_RATE) }
}

struct Alive;

impl Service for Alive {
    fn call(&self, call: IncomingCall<'_>) {
        call.serve(|_: FacebookServiceGetStatusArgs, responder| {
            responder.reply(&FacebookServiceGetStatusResult { result_value: Some(FbStatus::ALIVE) });
        });
    }
}

fn thrift_rate(runtime: &Runtime, calls: usize, pipelined: usize) -> f64 {
    runtime.block_on(async {
        let server = Server::bind(any_port()).await.expect("a port is free");
        let stop = CancellationToken::new();
        let handle = server.serve(Alive, Limits::DEFAULT, stop.clone());
        let timeouts = Timeouts { connect: CALL_PATIENCE, send: CALL_PATIENCE, receive: CALL_PATIENCE };
        let pool = ClientPool::new(ClientConfig { timeouts, ..ClientConfig::default() });
        let peer: PeerAddr = handle.local_addr().into();
        // Opens the connection.
        call(&pool, &peer).await;
        let left = Arc::new(AtomicUsize::new(calls));
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..pipelined {
            let (pool, peer, left) = (pool.clone(), peer.clone(), Arc::clone(&left));
            callers.spawn(async move {
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
                    call(&pool, &peer).await;
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.expect("a caller ends well");
        }
        let elapsed = started.elapsed();
        drop(pool);
        handle.shutdown().await;
        rate(calls, elapsed)
    })
}

async fn call(pool: &ClientPool, peer: &PeerAddr) {
    let result: CallResult<FacebookServiceGetStatusResult> = pool.call(peer, "getStatus", &FacebookServiceGetStatusArgs {}).await;
    match result {
        CallResult::Done(answer) => assert_eq!(answer.result_value, Some(FbStatus::ALIVE)),
        other => panic!("a call failed: {other:?}"),
    }
}

/// As many bytes there and back, never more frames under way than there, but nobody looks into them.
async fn echo_rate(frames: usize, pipelined: usize) -> f64 {
    let listener = TcpListener::bind(any_port()).await.expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        stream.set_nodelay(true).expect("a fresh connection takes options");
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => stream.write_all(&buffer[..count]).await.expect("the client reads"),
            }
        }
    });
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    stream.set_nodelay(true).expect("a fresh connection takes options");
    let out = vec![0; pipelined * FRAME_BYTES];
    let mut buffer = vec![0; 256 * 1024];
    let started = Instant::now();
    let (mut to_send, mut to_receive) = (frames * FRAME_BYTES, frames * FRAME_BYTES);
    let mut under_way = 0;
    while to_receive > 0 {
        let count = (out.len() - under_way).min(to_send);
        stream.write_all(&out[..count]).await.expect("the server reads");
        to_send -= count;
        under_way += count;
        let received = stream.read(&mut buffer).await.expect("the server answers");
        assert!(received > 0, "the server hung up");
        under_way -= received;
        to_receive -= received;
    }
    let elapsed = started.elapsed();
    drop(stream);
    echo.await.expect("the echo ends well");
    rate(frames, elapsed)
}

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn rate(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}
