//! The server: one port, three dialects, and limits for everything that a peer can request.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use brasserie_common::access::{CallOrigin, LocalUser};
use brasserie_common::{Principal, Ration};
use brasserie_common_runtime::Clock;
use brasserie_common_runtime::net::descriptor_limit;
use parking_lot::Mutex;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::authentication::{Authenticator, NoAuthentication};
use super::budget::Budget;
use super::connection::{Close, Connection};
use super::frame::{Foreign, FrameError};
use super::limits::{
    ACCEPT_RETRY, FOREIGN_PAUSE, KEEPALIVE_IDLE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES,
    LISTEN_BACKLOG, Limits,
};
use super::outbox::{CallerKey, ConnectionOutbox};
use super::responder::Service;
use super::stream::{Socket, Stream};

/// The most connections of one proven caller of which none is closed for others: more than programs of one person or one worker need.
const LEAST_OF_A_CALLER: usize = 64;
/// The connections that the local socket has beyond [`Limits::max_connections`], so that those who use it need no place that others can
/// take.
const LOCAL_RESERVE: usize = 16;
/// The most connections, and at most an eighth of all, that workers leave to people. More are for as many administrators as need them.
const PEOPLE_RESERVE: usize = 64;

/// A port that is open but not served yet, so that its address can be published before there is a service.
pub struct Server {
    listener: TcpListener,
    /// A local socket, which takes the same calls.
    socket: Option<UnixListener>,
    local_addr: SocketAddr,
    authenticator: Arc<dyn Authenticator>,
}

/// A running server. Dropping the handle does not stop the server; cancelling the token given to [`Server::serve`] does.
pub struct ServerHandle {
    local_addr: SocketAddr,
    shutdown: CancellationToken,
    tasks: TaskTracker,
    shared: Arc<ServerState>,
}

/// Closes connections of a server.
#[derive(Clone)]
pub struct Disconnector(Weak<ServerState>);

impl Disconnector {
    /// Makes peers somebody else from their next calls on: those for which `becomes` returns it.
    pub fn identify(&self, becomes: impl Fn(&Principal) -> Option<Principal>) {
        let Some(server) = self.0.upgrade() else {
            return;
        };
        for open in server.table.lock().open.values() {
            if let Some(principal) = becomes(&open.principal()) {
                // A peer that becomes somebody else loses its connection.
                let _ = open.identify(principal);
            }
        }
    }

    /// Closes the connections whose peers have shown a certificate, and those whose handshake is under way, because the certificates that are
    /// accepted are others now. The peers come back and prove themselves anew.
    pub fn disconnect_certified(&self) {
        let Some(server) = self.0.upgrade() else {
            return;
        };
        for known in server.table.lock().open_or_calling() {
            if known.may_be_certified() {
                known.expel_caller();
            }
        }
    }

    /// Closes the connections of these peers, as they are now or were when they proved who they are, also those with calls in flight. No
    /// further call of theirs reaches the service, except one that a connection passes to it at that moment. The service may ask
    /// [`Responder::is_expelled`](super::Responder::is_expelled), also of a call whose connection has ended before.
    pub fn disconnect(&self, is_meant: impl Fn(&Principal) -> bool) {
        let Some(server) = self.0.upgrade() else {
            return;
        };
        for known in server.table.lock().open_or_calling() {
            if known.is_or_was(&is_meant) {
                known.expel_caller();
            }
        }
    }
}

/// The load of a server at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLoad {
    /// Open connections.
    pub connections: usize,
    /// Unanswered calls.
    pub calls: usize,
    /// Bytes held beyond the connections' allowances.
    pub bytes: usize,
}

struct ServerState {
    limits: Arc<Limits>,
    /// Whether it asks its peers who they are.
    asks: bool,
    budget: Arc<Budget>,
    table: Mutex<OpenConnections>,
    /// Whether a connection was refused or failed, and none was accepted since. A flood of connections then logs one line.
    full: AtomicBool,
    /// The log lines about peers that speak another protocol.
    foreign: Mutex<Ration>,
}

/// The open connections.
#[derive(Default)]
struct OpenConnections {
    open: HashMap<u64, Arc<ConnectionOutbox>>,
    next: u64,
    /// Connections that have ended before all of their calls. Their callers may still be expelled. The limit of calls bounds their number.
    ended: Vec<Weak<ConnectionOutbox>>,
    /// Where a server asks its peers who they are: the connections from each source that began as strangers', oldest first.
    arrivals: BTreeMap<IpAddr, BTreeSet<u64>>,
}

impl Server {
    /// Opens the port. Port 0 selects a free one.
    pub async fn bind(addr: SocketAddr) -> io::Result<Server> {
        let listener = listen(addr)?;
        let local_addr = listener.local_addr()?;
        Ok(Server {
            listener,
            socket: None,
            local_addr,
            authenticator: Arc::new(NoAuthentication),
        })
    }

    /// Lets this authenticator decide who the peers are. Without one, the server asks no peer for a proof.
    pub fn authenticated_by(self, authenticator: Arc<dyn Authenticator>) -> Server {
        Server {
            authenticator,
            ..self
        }
    }

    /// Takes calls also at this local socket, and asks the authenticator about its users.
    pub fn with_socket(self, socket: Option<UnixListener>) -> Server {
        Server { socket, ..self }
    }

    /// Returns the listening address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves until `shutdown` is cancelled. Then the port closes, unanswered calls get a short while, and connections end.
    pub fn serve<S: Service>(
        self,
        service: S,
        mut limits: Limits,
        shutdown: CancellationToken,
    ) -> ServerHandle {
        // The other half of the descriptors is for the process itself: its files, and its own calls to peers.
        limits.max_connections = limits.max_connections.min(descriptor_limit() / 2).max(1);
        let asks = self.authenticator.tls().is_some();
        limits.max_strangers = match asks {
            true => limits.max_strangers.min(limits.max_connections.div_ceil(2)),
            // No peer can prove anything.
            false => limits.max_connections,
        };
        let shared = Arc::new(ServerState {
            budget: Arc::new(Budget::new(&limits)),
            limits: Arc::new(limits),
            asks,
            table: Mutex::default(),
            full: AtomicBool::new(false),
            foreign: Mutex::new(Ration::new(1, FOREIGN_PAUSE)),
        });
        let tasks = TaskTracker::new();
        let handle = ServerHandle {
            local_addr: self.local_addr,
            shutdown: shutdown.clone(),
            tasks: tasks.clone(),
            shared: Arc::clone(&shared),
        };
        tasks.spawn(Arc::clone(&shared).end_unread(shutdown.clone()));
        let service = Arc::new(service);
        let socket = self.socket.map(Listener::Local);
        for listener in [Listener::Tcp(self.listener)].into_iter().chain(socket) {
            let acceptor = Acceptor {
                listener,
                authenticator: Arc::clone(&self.authenticator),
                service: Arc::clone(&service),
                shared: Arc::clone(&shared),
                shutdown: shutdown.clone(),
                tasks: tasks.clone(),
            };
            tasks.spawn(acceptor.run());
        }
        tasks.close();
        handle
    }
}

impl ServerHandle {
    /// Returns the listening address.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Returns the current load.
    pub fn load(&self) -> ServerLoad {
        ServerLoad {
            connections: self.shared.table.lock().open.len(),
            calls: self.shared.budget.calls(),
            bytes: self.shared.budget.bytes(),
        }
    }

    /// Begins the shutdown and waits for its end.
    pub async fn shutdown(self) {
        self.shutdown.cancel();
        self.tasks.wait().await;
    }

    /// Returns a handle that closes connections, and does not keep the server alive.
    pub fn disconnector(&self) -> Disconnector {
        Disconnector(Arc::downgrade(&self.shared))
    }

    /// Waits for the end of a shutdown that the token began.
    pub async fn stopped(self) {
        self.shutdown.cancelled().await;
        self.tasks.wait().await;
    }
}

/// Opens a port with room for many connections that are not accepted yet. The kernel drops those beyond it, and their peers try again only
/// after a second.
fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restarted server gets its port although connections of its predecessor are still closing.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(LISTEN_BACKLOG)
}

/// Configures a connection: frames leave at once, and the kernel probes an idle peer. A peer whose machine or network is gone sends
/// nothing, and a known peer's connection would otherwise keep its place until [`Limits::idle_timeout`].
fn prepare(socket: &Socket) -> io::Result<()> {
    let Socket::Tcp(stream) = socket else {
        return Ok(());
    };
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_IDLE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

enum Listener {
    Tcp(TcpListener),
    Local(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<(Socket, CallOrigin)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::Tcp(stream), peer.into()))
            }
            Listener::Local(listener) => {
                let (stream, _) = listener.accept().await?;
                let (uid, name) = (stream.peer_cred()?.uid(), None);
                let user = CallOrigin::Local(LocalUser { uid, name });
                Ok((Socket::Local(stream), user))
            }
        }
    }
}

struct Acceptor<S> {
    listener: Listener,
    authenticator: Arc<dyn Authenticator>,
    service: Arc<S>,
    shared: Arc<ServerState>,
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
                // The peer has already given up.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // The process has probably no descriptors left, and the connection that is closed frees one soon.
                    let most = self.shared.limits.max_connections;
                    self.shared.table.lock().make_place(most);
                    if !self.shared.full.swap(true, Ordering::Relaxed) {
                        tracing::warn!(%error, "cannot accept Thrift connections; trying again until it works");
                    }
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    fn admit(&self, stream: Socket, peer: CallOrigin) {
        let outbox = Arc::new(ConnectionOutbox::new(
            peer.clone(),
            Arc::clone(&self.shared.limits),
            Arc::clone(&self.shared.budget),
        ));
        let Some(seat) = Seat::take(&self.shared, &outbox) else {
            if !self.shared.full.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    %peer,
                    limit = self.shared.limits.max_connections,
                    "too many Thrift connections, and each is in use or from a known peer: the server closes new connections until others end"
                );
            }
            return;
        };
        self.shared.full.store(false, Ordering::Relaxed);
        if let Err(error) = prepare(&stream) {
            tracing::debug!(%peer, %error, "a Thrift connection broke at once");
            return;
        }
        let tls = match &stream {
            Socket::Tcp(_) => self.authenticator.tls(),
            Socket::Local(_) => None,
        };
        let stream = Stream::accepted(stream, tls);
        let (authenticator, service) = (Arc::clone(&self.authenticator), Arc::clone(&self.service));
        let connection = Connection::new(stream, authenticator, outbox, service);
        let shutdown = self.shutdown.clone();
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            let close = connection.run(shutdown).await;
            drop(seat);
            if let Close::Frame(FrameError::Foreign(protocol)) = &close {
                shared.note_foreign(&peer, *protocol);
            }
            tracing::debug!(%peer, reason = %close, "a Thrift connection ended");
        });
    }
}

impl ServerState {
    /// Closes connections whenever their peers leave too much unread, until the server shuts down.
    async fn end_unread(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = self.budget.excess() => {}
            }
            let table = self.table.lock();
            while table.end_largest_unread(self.budget.max_unread()) {}
        }
    }

    /// Logs a peer that speaks another protocol on this port, at most once in [`FOREIGN_PAUSE`].
    fn note_foreign(&self, peer: &CallOrigin, protocol: Foreign) {
        if self.foreign.lock().count(Clock.now()).is_none() {
            return;
        }
        tracing::warn!(
            %peer,
            "a peer speaks {protocol} on a port for Thrift, so the server closes its connection. A scheduler serves HTTP at --http-listen, and \
             TLS only with an authority"
        );
    }
}

impl OpenConnections {
    /// Returns the open connections, and the ended ones that have calls.
    fn open_or_calling(&self) -> impl Iterator<Item = Arc<ConnectionOutbox>> {
        let ended = self.ended.iter().filter_map(Weak::upgrade);
        self.open.values().map(Arc::clone).chain(ended)
    }

    /// Asks the first idle stranger by its [`IdleRank`](super::outbox::IdleRank) to leave. Returns `false` if there is none.
    fn evict(&self) -> bool {
        let strangers = self.open.values().filter(|open| {
            // Those at the local socket have places of their own.
            !open.is_asked_to_leave() && matches!(open.peer(), CallOrigin::Network(_))
        });
        let idle = strangers.filter_map(|open| Some((open.idle_rank()?, open)));
        match idle.min_by_key(|(rank, _)| *rank) {
            Some((_, oldest)) => {
                oldest.ask_to_leave();
                true
            }
            None => false,
        }
    }

    /// Asks the oldest idle stranger of the source with most of them to leave, so that one source cannot drive out the others. Returns
    /// `false` if there is none.
    fn evict_from_largest_source(&mut self) -> bool {
        let mut busy = Vec::new();
        let evicted = loop {
            let largest = self.arrivals.values_mut().max_by_key(|of| of.len());
            let Some(number) = largest.and_then(BTreeSet::pop_first) else {
                break false;
            };
            let Some(open) = self.open.get(&number) else {
                continue;
            };
            let is_local = matches!(open.peer(), CallOrigin::Local(_));
            if open.is_known() || open.is_asked_to_leave() || is_local {
                continue;
            }
            if open.idle_rank().is_some() {
                open.ask_to_leave();
                break true;
            }
            busy.push((open.peer().source(), number));
        };
        for (source, number) in busy {
            self.arrivals.entry(source).or_default().insert(number);
        }
        evicted
    }

    /// Returns whether one more connection from this peer may be opened, if necessary in the place of another. `strangers` counts it too.
    fn has_place(&mut self, limits: &Limits, strangers: usize, peer: &CallOrigin) -> bool {
        let is_local = |open: &CallOrigin| matches!(open, CallOrigin::Local(_));
        let most = limits.max_connections;
        if self.open.len() >= most && is_local(peer) {
            // No flood from the network counts here.
            let open = self.open.values();
            return open.filter(|open| is_local(&open.peer())).count() < LOCAL_RESERVE;
        }
        // Connections that were asked to close do so within milliseconds. The half bounds their number if they do not.
        if self.open.len() >= most + most.div_ceil(2) {
            return false;
        }
        let leaving = |open: &&Arc<ConnectionOutbox>| open.is_asked_to_leave() || open.is_gone();
        let staying = match self.open.len() < most {
            true => self.open.len(),
            false => self.open.len() - self.open.values().filter(leaving).count(),
        };
        // Peers that were asked to leave stay if they prove themselves meanwhile. The eighth bounds their number.
        if staying >= most + most.div_ceil(8) {
            self.make_place(most);
            return false;
        }
        if strangers > limits.max_strangers && !is_local(peer) {
            return self.evict_from_largest_source();
        }
        staying < most || self.make_place(most)
    }

    /// Closes a connection of a stranger, or else of a proven caller. Returns `false` if none may be closed.
    fn make_place(&self, most: usize) -> bool {
        self.evict() || self.close_proven(most)
    }

    /// Closes a connection of a proven caller, so that nobody with tokens or stolen keys keeps the others out: of the caller that has most of
    /// them, the one with the longest silence. If no caller has many, it is one of a worker or, if workers leave people their places, of a
    /// person that has several. Returns `false` if there is none.
    fn close_proven(&self, most: usize) -> bool {
        let mut callers: BTreeMap<CallerKey, Vec<(u64, &Arc<ConnectionOutbox>)>> = BTreeMap::new();
        for (number, open) in self.open.iter().filter(|(_, open)| !open.is_gone()) {
            if let Some(caller) = open.caller() {
                callers.entry(caller).or_default().push((*number, open));
            }
        }
        let shards = callers.iter();
        let shards = shards.filter(|(caller, _)| matches!(caller, CallerKey::Shard(_)));
        let of_workers: usize = shards.map(|(_, of)| of.len()).sum();
        let are_workers_many = of_workers > most - PEOPLE_RESERVE.min(most / 8);
        let may_lose = |(caller, of): &(CallerKey, Vec<_>)| match caller {
            _ if of.len() > LEAST_OF_A_CALLER => true,
            CallerKey::Shard(_) => are_workers_many,
            CallerKey::Token(_) => !are_workers_many && of.len() > 1,
            CallerKey::Other(..) => false,
        };
        // If several have as many, the newcomer loses one, so that the others do not take turns in losing theirs.
        let newest = |of: &[(u64, _)]| of.iter().map(|(number, _)| *number).max();
        let losers = callers.into_iter().filter(may_lose);
        let largest = losers.max_by_key(|(_, of)| (of.len(), newest(of)));
        let silent =
            largest.and_then(|(_, of)| of.into_iter().min_by_key(|(_, open)| open.last_call()));
        match silent {
            Some((_, open)) => {
                open.close_connection();
                true
            }
            None => false,
        }
    }

    /// Closes the connection with the most unread replies of the caller that leaves the most unread, so that others have room.
    /// Returns `false` if all callers together leave at most `most` bytes unread.
    fn end_largest_unread(&self, most: usize) -> bool {
        let mut callers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for open in self.open.values() {
            if let Some(unread) = open.unread() {
                // Callers without a proof count by their machines.
                let caller = open.caller().ok_or_else(|| open.peer().source());
                callers.entry(caller).or_default().push((unread, open));
            }
        }
        let mut all = 0;
        let sums = callers.into_values().map(|of| {
            let sum: usize = of.iter().map(|(unread, _)| unread).sum();
            all += sum;
            (sum, of)
        });
        let largest = sums.max_by_key(|(sum, _)| *sum);
        let open = largest.and_then(|(_, of)| of.into_iter().max_by_key(|(unread, _)| *unread));
        match open {
            Some((_, open)) if all > most => {
                open.close_connection();
                true
            }
            Some(_) | None => false,
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(open) = self.open.remove(&number) else {
            return;
        };
        let source = open.peer().source();
        if let Some(of) = self.arrivals.get_mut(&source) {
            of.remove(&number);
            if of.is_empty() {
                self.arrivals.remove(&source);
            }
        }
        if open.calls() > 0 {
            if self.ended.len() == self.ended.capacity() {
                self.ended.retain(|ended| ended.strong_count() > 0);
                // The next check comes after as many connections as there are now.
                self.ended.reserve(self.ended.len().max(64));
            }
            self.ended.push(Arc::downgrade(&open));
        }
    }
}

/// A place among the limited connections, released on drop.
struct Seat {
    shared: Arc<ServerState>,
    number: u64,
}

impl Seat {
    fn take(shared: &Arc<ServerState>, outbox: &Arc<ConnectionOutbox>) -> Option<Seat> {
        let mut table = shared.table.lock();
        if !table.has_place(&shared.limits, shared.budget.strangers(), &outbox.peer()) {
            return None;
        }
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Arc::clone(outbox));
        if shared.asks {
            let of = table.arrivals.entry(outbox.peer().source());
            of.or_default().insert(number);
        }
        drop(table);
        Some(Seat {
            shared: Arc::clone(shared),
            number,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.table.lock().remove(self.number);
    }
}
