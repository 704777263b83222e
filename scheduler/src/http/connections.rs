//! The connections of the HTTP server. Each carries one request and lives for a bounded time; idle ones are closed for newcomers.
//!
//! The router decides what is served.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Maximum open connections: enough for some browsers and probes, and far below the descriptors that workers need.
const MAX_CONNECTIONS: usize = 128;
/// Limit from the opening of a connection until the whole head of its request has arrived. Browsers and probes send the head at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit for a whole connection, enough for the largest page over a modem.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Time at a shutdown for requests that have arrived. The core answers each within milliseconds.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed `accept`: long enough not to spin while descriptors are exhausted, too short to be noticed.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Serves until `stop` is cancelled, and then at most [`DRAIN_TIMEOUT`] longer.
pub(super) async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
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
                let Some(seat) = Seat::take(&table) else {
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
                connections.spawn(converse(stream, app.clone(), seat, stop.clone()));
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
    stream: TcpStream,
    app: TowerToHyperService<Router>,
    seat: Seat,
    stop: CancellationToken,
) {
    let place = Arc::clone(&seat.place);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        place.has_request.store(true, Ordering::Relaxed);
        let request: Request<hyper::body::Incoming> = request;
        app.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // Errors are ignored: a browser may end its connection in any way.
        _ = connection.as_mut() => {}
        () = tokio::time::sleep(CONNECTION_TIMEOUT) => {}
        () = seat.place.leave.cancelled() => {}
        () = stop.cancelled() => {
            if seat.place.has_request.load(Ordering::Relaxed) {
                let _ = tokio::time::timeout(DRAIN_TIMEOUT, connection).await;
            }
        }
    }
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
    /// Whether the head of its request has arrived.
    has_request: AtomicBool,
    leave: CancellationToken,
}

impl HttpConnections {
    /// Ends the oldest connection without a request, or else the oldest one whose peer does not read its answer. Returns `false` if there
    /// is neither.
    fn evict(&mut self) -> bool {
        let stuck = |place: &HttpConnection| place.opened.elapsed() >= HEAD_TIMEOUT;
        let idle = self.open.iter().filter_map(|(number, place)| {
            let has_request = place.has_request.load(Ordering::Relaxed);
            let may_go = !has_request || stuck(place);
            may_go.then_some((has_request, place.opened, *number))
        });
        let Some((_, _, oldest)) = idle.min() else {
            return false;
        };
        if let Some(place) = self.open.remove(&oldest) {
            place.leave.cancel();
        }
        true
    }
}

/// A place among the limited connections, released on drop.
struct Seat {
    table: Arc<Mutex<HttpConnections>>,
    number: u64,
    place: Arc<HttpConnection>,
}

impl Seat {
    fn take(table: &Arc<Mutex<HttpConnections>>) -> Option<Seat> {
        let mut open = table.lock();
        if open.open.len() >= MAX_CONNECTIONS && !open.evict() {
            return None;
        }
        let place = Arc::new(HttpConnection {
            opened: Instant::now(),
            has_request: AtomicBool::new(false),
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
