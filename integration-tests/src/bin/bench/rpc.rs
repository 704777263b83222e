//! Measures small calls over one connection with the project's client and server. The baseline is a bare TCP echo of as many frames of the
//! same size and concurrency.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use brasserie_common::Principal;
use brasserie_common::access::Role;
use brasserie_common_identity::{
    Authority, CertificateDer, Lifetime, client_config, server_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::fb303::{
    FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult, FbStatus,
};
use brasserie_thrift::rpc::{
    Authenticator, CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials, IncomingCall,
    Limits, PeerAddr, Server, Service, THRIFT,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::figures::{BenchReport, Samples, per_second};

/// Promised on two cores.
const LEAST_RATE: f64 = 100_000.0;
/// Long, because a call waits behind all others in flight, on a machine that may be busy.
const CALL_PATIENCE: Duration = Duration::from_secs(60);
/// Length of a call of `getStatus`: length field, compact message head, name and empty struct. The answer is four bytes longer.
const FRAME_BYTES: usize = 20;
const LENGTH_BYTES: usize = 4;

/// Calls a second, and frames a second over bare TCP.
struct RpcSample {
    rate: f64,
    /// The rate inside TLS, if that is measured.
    tls: Option<f64>,
    bare: f64,
}

/// Measures pairs of measurement and baseline, if `with_tls` also inside TLS.
pub fn measure(calls: usize, pipelined: usize, pairs: usize, with_tls: bool) -> BenchReport {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime can be made");
    let samples = Samples::take("rpc", pairs, |pair| {
        pair.begin("calls");
        let rate = thrift_rate(&runtime, calls, pipelined, None);
        let tls = with_tls.then(|| {
            pair.begin("calls inside TLS");
            let authority = Authority::create(Clock.wall()).expect("random numbers");
            thrift_rate(&runtime, calls, pipelined, Some(&authority))
        });
        pair.begin("bare TCP");
        let bare = runtime.block_on(echo_rate(calls, pipelined));
        RpcSample { rate, tls, bare }
    });
    let rate = format!("calls a second, median of {pairs}");
    let share = "share of the bare rate, median of the pairs";
    let mut lines = vec![
        samples
            .line(rate, "/s", |s| s.rate)
            .beside(samples.median(|s| s.bare))
            .at_least(LEAST_RATE),
        samples
            .line(share, "", |s| s.rate / s.bare)
            .more_is_better(),
    ];
    if with_tls {
        let share = "rate inside TLS as a share of plain, median of the pairs";
        let of = |sample: &RpcSample| sample.tls.unwrap_or(f64::NAN) / sample.rate;
        lines.push(samples.line(share, "", of).more_is_better());
    }
    BenchReport::new("rpc", "bare TCP", lines)
}

struct Alive;

impl Service for Alive {
    fn call(&self, call: IncomingCall<'_>) {
        call.serve(|_: FacebookServiceGetStatusArgs, responder| {
            responder.reply(&FacebookServiceGetStatusResult {
                result_value: Some(FbStatus::ALIVE),
            });
        });
    }
}

/// The server's side and the caller's of a server with this authority.
#[derive(Debug)]
struct Sides {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
}

impl Sides {
    fn of(authority: &Authority) -> Self {
        let credential = |role| {
            let made = authority.credential(role, Clock.wall(), Lifetime::WORKER);
            made.expect("a credential")
        };
        let (scheduler, admin) = (credential(Role::Scheduler), credential(Role::Admin));
        let trusted = authority.trusted(Clock.wall());
        Sides {
            server: server_config(&scheduler, &trusted, THRIFT).expect("a configuration"),
            client: client_config(Some(&admin), &trusted, THRIFT).expect("a configuration"),
        }
    }
}

impl Authenticator for Sides {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(Arc::clone(&self.server))
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        Principal::Unauthenticated(from)
    }

    fn identify(&self, from: SocketAddr, _: &[CertificateDer<'static>]) -> Principal {
        Principal::Unauthenticated(from)
    }
}

impl Credentials for Sides {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.client)
    }
}

fn thrift_rate(
    runtime: &Runtime,
    calls: usize,
    pipelined: usize,
    authority: Option<&Authority>,
) -> f64 {
    runtime.block_on(async {
        let sides = authority.map(|authority| Arc::new(Sides::of(authority)));
        let mut server = Server::bind(any_port()).await.expect("a port is free");
        if let Some(sides) = sides.clone() {
            server = server.authenticated_by(sides);
        }
        let stop = CancellationToken::new();
        let handle = server.serve(Alive, Limits::DEFAULT, stop.clone());
        let timeouts = CallTimeouts {
            connect: CALL_PATIENCE,
            send: CALL_PATIENCE,
            receive: CALL_PATIENCE,
        };
        let pool = ClientPool::new(ClientConfig {
            timeouts,
            credentials: sides.map(|sides| sides as Arc<dyn Credentials>),
            ..ClientConfig::default()
        });
        let mut peer: PeerAddr = handle.local_addr().into();
        if let Some(authority) = authority {
            peer = peer.proving(&authority.trust_domain().of_role(Role::Scheduler));
        }
        // Opens the connection.
        call(&pool, &peer).await;
        let left = Arc::new(AtomicUsize::new(calls));
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..pipelined {
            let (pool, peer, left) = (pool.clone(), peer.clone(), Arc::clone(&left));
            callers.spawn(async move {
                while left
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                        left.checked_sub(1)
                    })
                    .is_ok()
                {
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
        per_second(calls, elapsed)
    })
}

async fn call(pool: &ClientPool, peer: &PeerAddr) {
    let result: CallResult<FacebookServiceGetStatusResult> = pool
        .call(peer, "getStatus", &FacebookServiceGetStatusArgs {})
        .await;
    match result {
        CallResult::Done(answer) => assert_eq!(answer.result_value, Some(FbStatus::ALIVE)),
        other => panic!("a call failed: {other:?}"),
    }
}

/// Measures an echo in which both sides find where each frame ends, the minimum of any protocol.
async fn echo_rate(frames: usize, pipelined: usize) -> f64 {
    let listener = TcpListener::bind(any_port()).await.expect("a port is free");
    let address = listener.local_addr().expect("a listener has an address");
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        stream
            .set_nodelay(true)
            .expect("a fresh connection takes options");
        let (mut input, mut output) = (Vec::new(), Vec::new());
        while stream
            .read_buf(&mut input)
            .await
            .is_ok_and(|count| count > 0)
        {
            take_frames(&mut input, |frame| output.extend_from_slice(frame));
            stream.write_all(&output).await.expect("the client reads");
            output.clear();
        }
    });
    let mut stream = TcpStream::connect(address)
        .await
        .expect("the server listens");
    stream
        .set_nodelay(true)
        .expect("a fresh connection takes options");
    let mut frame = vec![0; FRAME_BYTES];
    frame[LENGTH_BYTES - 1] = u8::try_from(FRAME_BYTES - LENGTH_BYTES).expect("a short frame");
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let (mut to_send, mut to_receive, mut under_way) = (frames, frames, 0);
    let started = Instant::now();
    while to_receive > 0 {
        output.clear();
        while to_send > 0 && under_way < pipelined {
            output.extend_from_slice(&frame);
            to_send -= 1;
            under_way += 1;
        }
        stream.write_all(&output).await.expect("the server reads");
        let count = stream
            .read_buf(&mut input)
            .await
            .expect("the server answers");
        assert!(count > 0, "the server hung up");
        take_frames(&mut input, |_| {
            under_way -= 1;
            to_receive -= 1;
        });
    }
    let elapsed = started.elapsed();
    drop(stream);
    echo.await.expect("the echo ends well");
    per_second(frames, elapsed)
}

/// Removes the complete frames from a buffer.
fn take_frames(buffer: &mut Vec<u8>, mut each: impl FnMut(&[u8])) {
    let mut at = 0;
    while let Some(length) = buffer[at..].first_chunk::<LENGTH_BYTES>() {
        let end = at + LENGTH_BYTES + u32::from_be_bytes(*length) as usize;
        let Some(frame) = buffer.get(at..end) else {
            break;
        };
        each(frame);
        at = end;
    }
    buffer.drain(..at);
}

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}
