//! The server: one port, three dialects, bounded in everything a peer can ask for.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::budget::Budget;
use super::connection::Connection;
use super::limits::{ACCEPT_RETRY, Limits};
use super::outbox::Outbox;
use super::responder::Service;

/// A port that is open but not served yet: its address can be told to others before there is a service.
pub struct Server {
    listener: TcpListener,
    local_addr: SocketAddr,
}

/// A server at work. Dropping the handle stops nothing; cancelling the token given to [`Server::serve`] does.
pub struct ServerHandle {
    local_addr: SocketAddr,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    shared: Arc<Shared>,
}

/// What a server holds at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLoad {
    /// Open connections.
    pub connections: usize,
    /// Unanswered calls.
    pub calls: usize,
    /// Bytes held beyond the connections' allowances.
    pub bytes: usize,
}

struct Shared {
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    connections: AtomicUsize,
    /// Whether a connection was refused and none has ended since, so that a flood makes one line of log.
    full: AtomicBool,
}

impl Server {
    /// Opens the port; port 0 takes a free one.
    pub async fn bind(addr: SocketAddr) -> io::Result<Server> {
        let listener = TcpListener::bind(addr).await?;
        let local_addr = listener.local_addr()?;
        Ok(Server {
            listener,
            local_addr,
        })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` is cancelled: then the port closes, unanswered calls get a short while, and connections end.
    pub fn serve<S: Service>(
        self,
        service: S,
        limits: Limits,
        shutdown: CancellationToken,
    ) -> ServerHandle {
        let shared = Arc::new(Shared {
            budget: Arc::new(Budget::new(&limits)),
            limits: Arc::new(limits),
            connections: AtomicUsize::new(0),
            full: AtomicBool::new(false),
        });
        let tasks = TaskTracker::new();
        let handle = ServerHandle {
            local_addr: self.local_addr,
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
            shared: Arc::clone(&shared),
        };
        let acceptor = Acceptor {
            listener: self.listener,
            service: Arc::new(service),
            shared,
            shutdown,
            tasks: tasks.clone(),
        };
        tasks.spawn(acceptor.run());
        tasks.close();
        handle
    }
}

impl ServerHandle {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// What it holds now.
    pub fn load(&self) -> ServerLoad {
        ServerLoad {
            connections: self.shared.connections.load(Ordering::Relaxed),
            calls: self.shared.budget.calls(),
            bytes: self.shared.budget.bytes(),
        }
    }

    /// Begins the shutdown and waits for its end.
    pub async fn shutdown(self) {
        self.shutdown.cancel();
        self.tasks.wait().await;
    }

    /// Waits for the end of a shutdown that the token began.
    pub async fn stopped(self) {
        self.shutdown.cancelled().await;
        self.tasks.wait().await;
    }
}

struct Acceptor<S> {
    listener: TcpListener,
    service: Arc<S>,
    shared: Arc<Shared>,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

impl<S: Service> Acceptor<S> {
    async fn run(self) {
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a Thrift connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr) {
        let Some(seat) = Seat::take(&self.shared) else {
            if !self.shared.full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    %peer,
                    limit = self.shared.limits.max_connections,
                    "too many Thrift connections: new ones are closed until others end"
                );
            }
            return;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "a Thrift connection broke at once");
            return;
        }
        let outbox = Arc::new(Outbox::new(
            peer,
            Arc::clone(&self.shared.limits),
            Arc::clone(&self.shared.budget),
        ));
        let connection = Connection::new(stream, outbox, Arc::clone(&self.service));
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            let close = connection.run(shutdown).await;
            drop(seat);
            tracing::debug!(%peer, reason = %close, "a Thrift connection ended");
        });
    }
}

/// One of the limited connections, given back when dropped.
struct Seat(Arc<Shared>);

impl Seat {
    fn take(shared: &Arc<Shared>) -> Option<Seat> {
        // Only the acceptor adds, so that nobody else can take the place in between.
        if shared.connections.load(Ordering::Relaxed) >= shared.limits.max_connections {
            return None;
        }
        shared.connections.fetch_add(1, Ordering::Relaxed);
        Some(Seat(Arc::clone(shared)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
        self.0.full.store(false, Ordering::Relaxed);
    }
}
