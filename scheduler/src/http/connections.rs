//! The connections of the HTTP server. Each carries one request and lives for a bounded time; idle ones are closed for newcomers.
//!
//! The port of a scheduler with an authority speaks TLS too: on connections whose first byte is that of a handshake. The router decides what
//! is served.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use brasserie_common::access::{CallOrigin, TokenNumber};
use brasserie_thrift::rpc::TLS_HANDSHAKE;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::security::Security;

/// Maximum open connections: enough for some browsers and probes, and far below the descriptors that workers need.
const MAX_CONNECTIONS: usize = 128;
/// Maximum open connections whose requests have shown the same token, itself or by a session: a quarter, so that probes and other people have
/// places while one caller asks without a pause.
pub(super) const MAX_OF_A_TOKEN: usize = MAX_CONNECTIONS / 4;
/// How often all requests that have arrived are read before a connection without one is closed for a newcomer. So a crowd that comes back at
/// once when it is refused drives out no request that is about to be read.
const ROUNDS: usize = 4;
/// Limit from the opening of a connection until the whole head of its request has arrived, after a handshake or without one. Browsers and
/// probes send the head at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for a whole connection, enough for the largest page over a modem.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Time at a shutdown for requests that have arrived. The core answers each within milliseconds.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed `accept`: long enough not to spin while descriptors are exhausted, too short to be noticed.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The encryption of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Plain,
    Tls,
}

/// The other end of the connection of a request.
#[derive(Clone)]
pub(super) struct Visitor {
    pub from: SocketAddr,
    pub transport: Transport,
    table: Arc<Mutex<HttpConnections>>,
    place: Arc<HttpConnection>,
}

impl Visitor {
    /// Waits for a visitor that has proven nothing. Meanwhile its connection counts as one without a request, which is closed for newcomers.
    pub(super) async fn idle<F: Future>(&self, wait: F) -> F::Output {
        self.place.has_request.store(false, Ordering::Relaxed);
        let waited = wait.await;
        self.place.has_request.store(true, Ordering::Relaxed);
        waited
    }

    /// Counts the connection as one of a token. Returns `false` if the token has as many as it may have: then the connection counts as one
    /// without a request.
    pub(super) fn has_place(&self, token: TokenNumber) -> bool {
        let table = self.table.lock();
        let others = table.open.values().filter_map(|place| place.token.get());
        if others.filter(|other| **other == token).count() < MAX_OF_A_TOKEN {
            self.place.token.get_or_init(|| token);
            return true;
        }
        self.place.has_request.store(false, Ordering::Relaxed);
        false
    }
}

/// Serves until `stop` is cancelled, and then at most [`DRAIN_TIMEOUT`] longer. With an authority, the port speaks TLS too.
pub(super) async fn serve(
    listener: TcpListener,
    (app, security): (Router, Option<Arc<Security>>),
    stop: CancellationToken,
) {
    let app = TowerToHyperService::new(app);
    let connections = TaskTracker::new();
    let table = Arc::new(Mutex::new(HttpConnections::default()));
    // Limits the log to one line for each period in which connections are refused.
    let mut is_refusing = false;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(seat) = Seat::take(&table, peer).await else {
                    if !std::mem::replace(&mut is_refusing, true) {
                        tracing::warn!(
                            %peer,
                            limit = MAX_CONNECTIONS,
                            "too many HTTP connections, and none is idle: the scheduler closes new connections until others end"
                        );
                    }
                    continue;
                };
                is_refusing = false;
                let (app, security) = (app.clone(), security.clone());
                connections.spawn(converse(
                    (stream, peer),
                    (app, security),
                    seat,
                    stop.clone(),
                ));
            }
            // The peer has already given up.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                table.lock().evict();
                if !std::mem::replace(&mut is_refusing, true) {
                    tracing::warn!(%error, "cannot accept HTTP connections; trying again until it works");
                }
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Answers the one request of a connection.
async fn converse(
    (stream, from): (TcpStream, SocketAddr),
    (app, security): (TowerToHyperService<Router>, Option<Arc<Security>>),
    seat: Seat,
    stop: CancellationToken,
) {
    let place = &seat.place;
    let visitor = |transport| Visitor {
        from,
        transport,
        table: Arc::clone(&seat.table),
        place: Arc::clone(place),
    };
    let conversation = async {
        let head_by = place.opened + HEAD_TIMEOUT;
        match security {
            // Errors are ignored: a browser may end its connection in any way.
            Some(security) => match timeout_at(head_by, shake_hands(stream, &security)).await {
                Ok(Ok(Shaken::Tls(stream))) => answer(*stream, app, visitor(Transport::Tls)).await,
                Ok(Ok(Shaken::Plain(stream))) => {
                    answer(stream, app, visitor(Transport::Plain)).await;
                }
                Ok(Err(error)) => tracing::debug!(%from, %error, "no handshake of TLS over HTTP"),
                Err(_) => {}
            },
            None => answer(stream, app, visitor(Transport::Plain)).await,
        }
    };
    tokio::pin!(conversation);
    tokio::select! {
        () = conversation.as_mut() => {}
        () = tokio::time::sleep(CONNECTION_TIMEOUT) => {}
        () = place.leave.cancelled() => {}
        () = stop.cancelled() => {
            if place.has_request.load(Ordering::Relaxed) {
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, conversation).await;
            }
        }
    }
}

/// A connection whose transport is known.
enum Shaken {
    Plain(TcpStream),
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

/// Waits for the first byte, and performs the handshake that it begins.
async fn shake_hands(stream: TcpStream, security: &Security) -> io::Result<Shaken> {
    let mut first = [0];
    let peeked = stream.peek(&mut first).await?;
    if peeked == 0 || first != [TLS_HANDSHAKE] {
        return Ok(Shaken::Plain(stream));
    }
    let reached = stream.local_addr()?.ip();
    let tls = security.web_tls(reached).map_err(io::Error::other)?;
    let stream = TlsAcceptor::from(tls).accept(stream).await?;
    Ok(Shaken::Tls(Box::new(stream)))
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    app: TowerToHyperService<Router>,
    visitor: Visitor,
) {
    let place = Arc::clone(&visitor.place);
    let head_in = HEAD_TIMEOUT.saturating_sub(place.opened.elapsed());
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        place.has_request.store(true, Ordering::Relaxed);
        let mut request: Request<hyper::body::Incoming> = request;
        request.extensions_mut().insert(visitor.clone());
        app.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_in)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = connection.await;
}

/// The open connections.
#[derive(Default)]
struct HttpConnections {
    open: HashMap<u64, Arc<HttpConnection>>,
    next: u64,
}

/// The state of a connection that others can see.
struct HttpConnection {
    opened: Instant,
    /// The machine at the other end.
    source: IpAddr,
    /// Whether the head of its request has arrived.
    has_request: AtomicBool,
    /// The token that its request has shown.
    token: OnceLock<TokenNumber>,
    leave: CancellationToken,
}

impl HttpConnections {
    fn is_full(&self) -> bool {
        self.open.len() >= MAX_CONNECTIONS
    }

    /// Ends a connection without a request, or else one whose peer does not read its answer: of the machine with most of them the oldest, so
    /// that one machine cannot drive out the others. Returns `false` if there is neither.
    fn evict(&mut self) -> bool {
        let has_request = |place: &HttpConnection| place.has_request.load(Ordering::Relaxed);
        let stuck = |place: &HttpConnection| place.opened.elapsed() >= HEAD_TIMEOUT;
        let oldest = self.oldest_of_most(|place| !has_request(place));
        let Some(oldest) = oldest.or_else(|| self.oldest_of_most(stuck)) else {
            return false;
        };
        if let Some(place) = self.open.remove(&oldest) {
            place.leave.cancel();
        }
        true
    }

    /// Returns the number of the oldest connection that may go, of the machine with most of them.
    fn oldest_of_most(&self, may_go: impl Fn(&HttpConnection) -> bool) -> Option<u64> {
        let mut sources: HashMap<IpAddr, (usize, Reverse<(Instant, u64)>)> = HashMap::new();
        for (number, place) in self.open.iter().filter(|(_, place)| may_go(place)) {
            let age = Reverse((place.opened, *number));
            let (count, oldest) = sources.entry(place.source).or_insert((0, age));
            (*count, *oldest) = (*count + 1, age.max(*oldest));
        }
        let (_, Reverse((_, oldest))) = sources.into_values().max()?;
        Some(oldest)
    }
}

/// A place among the limited connections, released on drop.
struct Seat {
    table: Arc<Mutex<HttpConnections>>,
    number: u64,
    place: Arc<HttpConnection>,
}

impl Seat {
    /// Takes a place, if necessary that of another connection. Returns `None` if there is none to be taken.
    async fn take(table: &Arc<Mutex<HttpConnections>>, peer: SocketAddr) -> Option<Seat> {
        for _ in 0..ROUNDS {
            if !table.lock().is_full() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let mut open = table.lock();
        if open.is_full() && !open.evict() {
            return None;
        }
        let place = Arc::new(HttpConnection {
            opened: Instant::now(),
            source: CallOrigin::from(peer).source(),
            has_request: AtomicBool::new(false),
            token: OnceLock::new(),
            leave: CancellationToken::new(),
        });
        let number = open.next;
        open.next += 1;
        open.open.insert(number, Arc::clone(&place));
        drop(open);
        Some(Seat {
            table: Arc::clone(table),
            number,
            place,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.table.lock().open.remove(&self.number);
    }
}
