//! Clients: one connection for each peer, opened on demand and shared by all calls to the peer.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use brasserie_common::Time;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use thrift::protocol::{TMessageType, TSerializable};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::authentication::Credentials;
use super::frame::{ClientProtocol, Dialect};
use super::limits::{CallTimeouts, Limits, MAX_LOOKUPS, USUAL_FRAME_BYTES};
use super::link::{CallEnding, Done, Link, Overdue, Rejected, Sequence, Slot};
use super::link_task::{ClosedBy, LinkTask};
use super::outcome::{CallResult, NotSent, Unknown};
use super::protocol::{CallKind, MessageName, encode_frame};
use super::stream::{Socket, Stream};
use crate::generated::brasserie::BrasserieAuthenticateArgs;

/// The address at which a peer listens, as `host:port` or `unix:path`, and the name that the peer must prove.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddr {
    address: Arc<str>,
    /// The local socket of a peer on this machine, in place of host and port.
    socket: Option<Arc<Path>>,
    /// The name that the peer's certificate must prove; `None`: the connection is not encrypted.
    proves: Option<Arc<str>>,
}

impl PeerAddr {
    /// Builds the address of a host name or IP address and a port. An IPv6 address may have brackets or not.
    pub fn new(host: &str, port: u16) -> Self {
        if host.contains(':') && !host.starts_with('[') {
            PeerAddr::unproven(format!("[{host}]:{port}"))
        } else {
            PeerAddr::unproven(format!("{host}:{port}"))
        }
    }

    /// Returns the address of a peer's local socket on this machine.
    pub fn local(path: &Path) -> Self {
        PeerAddr {
            socket: Some(path.into()),
            ..PeerAddr::unproven(format!("unix:{}", path.display()))
        }
    }

    fn unproven(address: String) -> Self {
        PeerAddr {
            address: address.into(),
            socket: None,
            proves: None,
        }
    }

    /// Returns the same address of a peer that is called over TLS only, and whose certificate must be for this DNS name. The pool needs
    /// [`ClientConfig::credentials`].
    pub fn proving(self, name: &str) -> Self {
        PeerAddr {
            proves: Some(name.into()),
            ..self
        }
    }

    /// Returns the name that the peer must prove; `None`: the connection is not encrypted.
    pub fn name(&self) -> Option<&str> {
        self.proves.as_deref()
    }

    /// Returns whether this is a local socket.
    pub fn is_local(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns the address as `host:port` or `unix:path`.
    pub fn as_str(&self) -> &str {
        &self.address
    }
}

impl From<SocketAddr> for PeerAddr {
    fn from(addr: SocketAddr) -> Self {
        PeerAddr::unproven(addr.to_string())
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// The configuration of a pool.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig {
    /// The dialect of its calls.
    pub protocol: ClientProtocol,
    /// The timeouts of its calls.
    pub timeouts: CallTimeouts,
    /// The limits of its memory and connections.
    pub limits: Limits,
    /// Its side of TLS, for peers that prove a name.
    pub credentials: Option<Arc<dyn Credentials>>,
}

/// A pool of connections, one for each peer. Clones share the connections; dropping the last clone closes them.
#[derive(Clone)]
pub struct ClientPool {
    inner: Arc<Inner>,
    protocol: ClientProtocol,
    not_after: Time,
}

struct Inner {
    timeouts: CallTimeouts,
    limits: Arc<Limits>,
    peers: Mutex<HashMap<PeerAddr, Arc<Peer>>>,
    next_sequence: AtomicI32,
    credentials: Option<Arc<dyn Credentials>>,
    begin_lookup: BeginLookup,
    /// The places of running lookups.
    lookups: Arc<Semaphore>,
    shutdown: CancellationToken,
    _close_on_drop: DropGuard,
}

/// A running DNS lookup of a peer's addresses.
type Lookup = JoinHandle<io::Result<Vec<SocketAddr>>>;

/// Begins a lookup, which keeps its place until it ends, also if nobody waits for it any more.
type BeginLookup = Box<dyn Fn(&PeerAddr, OwnedSemaphorePermit) -> Lookup + Send + Sync>;

#[derive(Default)]
struct Peer {
    link: Mutex<Option<Arc<Link>>>,
    /// Locked while connecting, so that calls wait for one connection instead of opening one each. Holds the lookup of an attempt that
    /// timed out. That lookup blocks a thread until the resolver answers, so the next attempt waits for the same lookup.
    connecting: tokio::sync::Mutex<Option<Lookup>>,
    losses: LossSignal,
}

impl ClientPool {
    /// Creates a pool without connections.
    pub fn new(config: ClientConfig) -> Self {
        let begin_lookup = |peer: &PeerAddr, place: OwnedSemaphorePermit| {
            let name = Arc::clone(&peer.address);
            tokio::spawn(async move {
                let found = tokio::net::lookup_host(&*name).await;
                drop(place);
                Ok(found?.collect())
            })
        };
        ClientPool::with_lookup(config, Box::new(begin_lookup))
    }

    fn with_lookup(config: ClientConfig, begin_lookup: BeginLookup) -> Self {
        let shutdown = CancellationToken::new();
        ClientPool {
            protocol: config.protocol,
            not_after: Time::NEVER,
            inner: Arc::new(Inner {
                timeouts: config.timeouts,
                limits: Arc::new(config.limits),
                peers: Mutex::new(HashMap::new()),
                next_sequence: AtomicI32::new(1),
                credentials: config.credentials,
                begin_lookup,
                lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
                _close_on_drop: shutdown.clone().drop_guard(),
                shutdown,
            }),
        }
    }

    /// Returns the same pool with the same connections, for calls in another dialect.
    pub fn speaking(&self, protocol: ClientProtocol) -> ClientPool {
        ClientPool {
            protocol,
            ..self.clone()
        }
    }

    /// Returns the same pool for calls that must not begin to leave after this time, by the clock that counts suspended time. A decision
    /// from before a pause must not take effect after it. A call that has begun to leave continues.
    pub fn not_after(&self, not_after: Time) -> ClientPool {
        ClientPool {
            not_after,
            ..self.clone()
        }
    }

    /// Returns a watcher for broken connections to this peer, present and future.
    pub fn losses(&self, peer: &PeerAddr) -> ConnectionLosses {
        ConnectionLosses::new(self.inner.peer(peer))
    }

    /// Calls `method` with its arguments struct and waits for its result struct.
    ///
    /// Encodes the arguments before it returns, so that the future borrows nothing. Dropping the future withdraws the call if none of its
    /// bytes has left.
    pub fn call<A, R>(
        &self,
        peer: &PeerAddr,
        method: &'static str,
        arguments: &A,
    ) -> impl Future<Output = CallResult<R>> + Send + use<A, R>
    where
        A: TSerializable,
        R: TSerializable + Send,
    {
        let ending = self.start(peer, method, CallKind::Call, arguments);
        let limits = Arc::clone(&self.inner.limits);
        async move { ending.await.into_result(method, &limits) }
    }

    /// Calls `method` like [`ClientPool::call`], but without a future, for callers with many calls in flight. Over an open connection the
    /// call needs no task and no timer of its own. Calls `done` once, from the runtime or before this returns; `done` must not block.
    pub fn call_then<A, R>(
        &self,
        peer: &PeerAddr,
        method: &'static str,
        arguments: &A,
        done: impl FnOnce(CallResult<R>) + Send + 'static,
    ) where
        A: TSerializable,
        R: TSerializable + Send,
    {
        let inner = &self.inner;
        let (sequence, kind) = (inner.sequence(), CallKind::Call);
        let dialect = self.protocol.dialect(sequence.0);
        let frame = match inner.encode(sequence, dialect, method, kind, arguments) {
            Ok(frame) => frame,
            Err(reason) => return done(CallResult::NotSent(reason)),
        };
        let limits = Arc::clone(&inner.limits);
        let call = ThenCall {
            inner: Arc::downgrade(inner),
            peer: peer.clone(),
            sequence,
            not_after: self.not_after,
            done: Box::new(move |ending| done(ending.into_result(method, &limits))),
        };
        let Some(link) = inner.open_link(&inner.peer(peer)) else {
            return call.send_over_new(frame, ATTEMPTS);
        };
        let slot = Slot::Function {
            since: Instant::now(),
            done: Box::new(move |ending| match ending {
                // The connection was dead before any byte left.
                CallEnding::Returned { frame, why: _ } => call.send_over_new(frame, ATTEMPTS - 1),
                ending @ (CallEnding::Reply(_)
                | CallEnding::Written
                | CallEnding::NotSent(_)
                | CallEnding::Unknown(_)) => (call.done)(ending),
            }),
        };
        if let Err((rejected, slot)) = link.submit((sequence, kind), frame, self.not_after, slot) {
            let why = NotSent::ConnectionLost("it was closed at that moment".to_owned());
            slot.tell(match rejected {
                Rejected::Closed(frame) => CallEnding::Returned { frame, why },
                Rejected::Backlogged => CallEnding::NotSent(NotSent::Backlogged),
            });
        }
    }

    /// Sends a oneway call. The future completes when the kernel has the whole frame.
    pub fn send<A: TSerializable>(
        &self,
        peer: &PeerAddr,
        method: &'static str,
        arguments: &A,
    ) -> impl Future<Output = CallResult<()>> + Send + use<A> {
        let ending = self.start(peer, method, CallKind::Oneway, arguments);
        async move {
            match ending.await {
                // A peer that answers a oneway call has received it.
                CallEnding::Written | CallEnding::Reply(_) => CallResult::Done(()),
                CallEnding::Returned { why, .. } | CallEnding::NotSent(why) => {
                    CallResult::NotSent(why)
                }
                CallEnding::Unknown(why) => CallResult::Unknown(why),
            }
        }
    }

    fn start<A: TSerializable>(
        &self,
        peer: &PeerAddr,
        method: &'static str,
        kind: CallKind,
        arguments: &A,
    ) -> impl Future<Output = CallEnding> + Send + use<A> {
        let inner = Arc::clone(&self.inner);
        let peer = peer.clone();
        let sequence = inner.sequence();
        let not_after = self.not_after;
        let dialect = self.protocol.dialect(sequence.0);
        let frame = inner.encode(sequence, dialect, method, kind, arguments);
        async move {
            match frame {
                Ok(frame) => {
                    let call = (sequence, kind);
                    inner.drive(&peer, call, frame, not_after, ATTEMPTS).await
                }
                Err(reason) => CallEnding::NotSent(reason),
            }
        }
    }
}

impl Inner {
    /// Returns the next sequence id. Ids are unique in the pool, so that a frame stays valid on another connection.
    fn sequence(&self) -> Sequence {
        Sequence(self.next_sequence.fetch_add(1, Ordering::Relaxed) & i32::MAX)
    }

    fn encode<A: TSerializable>(
        &self,
        sequence: Sequence,
        dialect: Dialect,
        method: &'static str,
        kind: CallKind,
        arguments: &A,
    ) -> Result<Vec<u8>, NotSent> {
        let name = MessageName {
            method: method.to_owned(),
            kind: match kind {
                CallKind::Call => TMessageType::Call,
                CallKind::Oneway => TMessageType::OneWay,
            },
            sequence: sequence.0,
        };
        let mut frame = Vec::with_capacity(USUAL_FRAME_BYTES);
        let limit = self.limits.max_frame_bytes;
        encode_frame(&mut frame, dialect, name, limit, &mut |out| {
            arguments.write_to_out_protocol(out)
        })
        .map_err(|error| NotSent::Encode(format!("cannot call {method}: {error}")))?;
        Ok(frame)
    }

    /// Completes a call, over a second connection if the first one was found dead before any byte was sent. Each connection gets the full
    /// timeouts, because the first one is usually found dead at once.
    async fn drive(
        &self,
        peer: &PeerAddr,
        (sequence, kind): (Sequence, CallKind),
        mut frame: Vec<u8>,
        not_after: Time,
        attempts: usize,
    ) -> CallEnding {
        let mut why = NotSent::Backlogged;
        for _ in 0..attempts {
            let link = match self.link(peer).await {
                Ok(link) => link,
                Err(reason) => return CallEnding::NotSent(reason),
            };
            let ticket = match Ticket::take(link, (sequence, kind), frame, not_after) {
                Ok(ticket) => ticket,
                Err(Rejected::Closed(returned)) => {
                    why = NotSent::ConnectionLost("it was closed at that moment".to_owned());
                    frame = returned;
                    continue;
                }
                Err(Rejected::Backlogged) => return CallEnding::NotSent(NotSent::Backlogged),
            };
            match ticket.wait(&self.timeouts).await {
                CallEnding::Returned {
                    frame: returned,
                    why: reason,
                } => {
                    why = reason;
                    frame = returned;
                }
                ending @ (CallEnding::Reply(_)
                | CallEnding::Written
                | CallEnding::NotSent(_)
                | CallEnding::Unknown(_)) => return ending,
            }
        }
        CallEnding::NotSent(why)
    }

    /// Returns the peer's open connection, or opens a new one.
    async fn link(&self, addr: &PeerAddr) -> Result<Arc<Link>, NotSent> {
        let peer = self.peer(addr);
        if let Some(link) = self.open_link(&peer) {
            return Ok(link);
        }
        let deadline = Instant::now() + self.timeouts.connect;
        let connected = timeout_at(deadline, async {
            let mut lookup = peer.connecting.lock().await;
            if let Some(link) = self.open_link(&peer) {
                return Ok(link);
            }
            // The version is taken before the proof, so that a proof which changes meanwhile is of an earlier version.
            let (version, stream) = match &addr.socket {
                Some(path) => {
                    let stream = connect_local(addr, path).await?;
                    (self.version(), Stream::plain(stream))
                }
                None => {
                    let found = self.look_up(addr, &mut lookup).await;
                    let tcp = connect(addr, found).await?;
                    (self.version(), self.secure(addr, tcp)?)
                }
            };
            let link = Arc::new(Link::new(Arc::clone(&self.limits), version));
            self.greet(addr, &link)?;
            let task = self.task(stream, &link);
            *peer.link.lock() = Some(Arc::clone(&link));
            // Weak, so that the pool can forget a peer without calls and connection.
            let (shutdown, its) = (self.shutdown.clone(), Arc::downgrade(&peer));
            tokio::spawn(async move {
                let by = task.run(shutdown).await;
                if let Some(peer) = its.upgrade() {
                    peer.losses.ended(by);
                }
            });
            Ok(link)
        });
        connected.await.unwrap_or_else(|_| {
            Err(NotSent::ConnectTimeout {
                peer: addr.to_string(),
            })
        })
    }

    /// Returns the addresses of a peer's name. Waits for the running lookup, or for a place and a new one. An IP address needs neither.
    async fn look_up(
        &self,
        addr: &PeerAddr,
        lookup: &mut Option<Lookup>,
    ) -> io::Result<Vec<SocketAddr>> {
        if let Ok(literal) = addr.address.parse::<SocketAddr>() {
            return Ok(vec![literal]);
        }
        let running = match lookup {
            Some(running) => running,
            None => {
                let place = Arc::clone(&self.lookups).acquire_owned().await;
                let place = place.expect("nobody closes the semaphore");
                lookup.insert((self.begin_lookup)(addr, place))
            }
        };
        let found = running.await;
        *lookup = None;
        found.unwrap_or_else(|error| Err(error.into()))
    }

    fn task(&self, stream: Stream, link: &Arc<Link>) -> LinkTask {
        let (limits, checks) = (Arc::clone(&self.limits), self.credentials.clone());
        LinkTask::new(stream, Arc::clone(link), limits, self.timeouts, checks)
    }

    fn version(&self) -> u64 {
        let credentials = self.credentials.as_ref();
        credentials.map_or(0, |credentials| credentials.version())
    }

    /// Returns the peer's connection if it is open, and both sides would prove the same again.
    fn open_link(&self, peer: &Peer) -> Option<Arc<Link>> {
        let link = peer.open_link()?;
        if link.version() == self.version() {
            return Some(link);
        }
        link.supersede();
        None
    }

    /// Wraps a new connection in TLS if its peer proves a name. The handshake follows with the first call, within its time to be sent.
    fn secure(&self, addr: &PeerAddr, tcp: TcpStream) -> Result<Stream, NotSent> {
        let socket = Socket::Tcp(tcp);
        let Some(name) = &addr.proves else {
            return Ok(Stream::plain(socket));
        };
        let failed = |reason: String| NotSent::Connect {
            peer: addr.to_string(),
            reason,
        };
        let Some(credentials) = &self.credentials else {
            return Err(failed(
                "it is called over TLS only, and this program has no certificate".to_owned(),
            ));
        };
        let name = ServerName::try_from(name.to_string());
        let name = name.map_err(|error| failed(error.to_string()))?;
        Stream::secured(socket, credentials.tls(), name).map_err(|error| failed(error.to_string()))
    }

    /// Queues the call that shows the caller's token, before every other. A server that does not accept it says so in its answers to the
    /// others.
    fn greet(&self, addr: &PeerAddr, link: &Link) -> Result<(), NotSent> {
        let credentials = self.credentials.as_ref().filter(|_| addr.proves.is_some());
        let Some(secret) = credentials.and_then(|credentials| credentials.secret()) else {
            return Ok(());
        };
        let (sequence, kind) = (self.sequence(), CallKind::Call);
        let dialect = ClientProtocol::default().dialect(sequence.0);
        let arguments = BrasserieAuthenticateArgs { secret };
        let frame = self.encode(sequence, dialect, "authenticate", kind, &arguments)?;
        let slot = Slot::Function {
            since: Instant::now(),
            done: Box::new(drop),
        };
        let queued = link.submit((sequence, kind), frame, Time::NEVER, slot);
        debug_assert!(queued.is_ok(), "the link is new");
        Ok(())
    }

    fn peer(&self, addr: &PeerAddr) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        if let Some(peer) = peers.get(addr) {
            return Arc::clone(peer);
        }
        if peers.len() >= self.limits.max_idle_peers {
            // Peers often return under new addresses. Those without calls, connection and lookup are forgotten.
            peers.retain(|_, peer| {
                Arc::strong_count(peer) > 1 || peer.open_link().is_some() || peer.is_looked_up()
            });
        }
        let peer = Arc::new(Peer::default());
        peers.insert(addr.clone(), Arc::clone(&peer));
        peer
    }
}

impl Peer {
    fn open_link(&self) -> Option<Arc<Link>> {
        self.link
            .lock()
            .as_ref()
            .filter(|link| link.is_open())
            .cloned()
    }

    /// Returns whether a lookup still runs whose attempt to connect has timed out.
    fn is_looked_up(&self) -> bool {
        let lookup = self.connecting.try_lock();
        lookup.is_ok_and(|lookup| lookup.as_ref().is_some_and(|it| !it.is_finished()))
    }
}

async fn connect_local(addr: &PeerAddr, path: &Path) -> Result<Socket, NotSent> {
    let connected = UnixStream::connect(path).await;
    let failed = |error: io::Error| NotSent::Connect {
        peer: addr.to_string(),
        reason: error.to_string(),
    };
    connected.map(Socket::Local).map_err(failed)
}

async fn connect(
    addr: &PeerAddr,
    found: io::Result<Vec<SocketAddr>>,
) -> Result<TcpStream, NotSent> {
    let candidates = found.map_err(|error| NotSent::Resolve {
        peer: addr.to_string(),
        reason: error.to_string(),
    })?;
    let failed = |reason: String| NotSent::Connect {
        peer: addr.to_string(),
        reason,
    };
    let mut last = failed("the name has no address".to_owned());
    for candidate in candidates {
        match TcpStream::connect(candidate).await {
            // A connection to a closed local port in the range of outgoing ports can connect to itself.
            Ok(stream) if stream.local_addr().ok() == stream.peer_addr().ok() => {
                last = failed("nobody listens there".to_owned());
            }
            Ok(stream) => {
                stream
                    .set_nodelay(true)
                    .map_err(|error| failed(error.to_string()))?;
                return Ok(stream);
            }
            Err(error) => last = failed(error.to_string()),
        }
    }
    Err(last)
}

/// One retry. If a newly opened connection is dead as well, the peer is at fault.
const ATTEMPTS: usize = 2;

/// A call whose outcome goes to a function.
struct ThenCall {
    /// Weak, because a waiting call must not keep its pool's connections open.
    inner: Weak<Inner>,
    peer: PeerAddr,
    sequence: Sequence,
    not_after: Time,
    done: Done,
}

impl ThenCall {
    /// Sends the call over a connection that may have to be opened first.
    fn send_over_new(self, frame: Vec<u8>, attempts: usize) {
        let Some(inner) = self.inner.upgrade() else {
            let why = "the client shuts down".to_owned();
            return (self.done)(CallEnding::NotSent(NotSent::ConnectionLost(why)));
        };
        tokio::spawn(async move {
            let call = (self.sequence, CallKind::Call);
            let ending = inner.drive(&self.peer, call, frame, self.not_after, attempts);
            let ending = ending.await;
            (self.done)(ending);
        });
    }
}

/// A call in a link, abandoned when its future is dropped.
struct Ticket {
    link: Arc<Link>,
    sequence: Sequence,
    slot: oneshot::Receiver<CallEnding>,
}

impl Ticket {
    fn take(
        link: Arc<Link>,
        (sequence, kind): (Sequence, CallKind),
        frame: Vec<u8>,
        not_after: Time,
    ) -> Result<Ticket, Rejected> {
        let (slot, ended) = oneshot::channel();
        link.submit((sequence, kind), frame, not_after, Slot::Future(slot))
            .map_err(|(rejected, _)| rejected)?;
        Ok(Ticket {
            link,
            sequence,
            slot: ended,
        })
    }

    async fn wait(mut self, timeouts: &CallTimeouts) -> CallEnding {
        let send_by = Instant::now() + timeouts.send;
        if let Ok(ended) = timeout_at(send_by, &mut self.slot).await {
            return known(ended);
        }
        let sent = match self.link.overdue(self.sequence) {
            Overdue::Withdrawn => return CallEnding::NotSent(NotSent::SendTimeout),
            Overdue::Stuck => return CallEnding::Unknown(Unknown::SendTimeout),
            Overdue::Ended => return known((&mut self.slot).await),
            Overdue::Sent(at) => at,
        };
        match timeout_at(sent + timeouts.receive, &mut self.slot).await {
            Ok(ended) => known(ended),
            Err(_) => {
                self.link.unanswered(self.sequence, sent);
                CallEnding::Unknown(Unknown::ReceiveTimeout)
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.slot.is_terminated() {
            self.link.forget(self.sequence);
        }
    }
}

fn known(ended: Result<CallEnding, oneshot::error::RecvError>) -> CallEnding {
    // A slot is only dropped when its runtime shuts down.
    ended.unwrap_or_else(|_| {
        CallEnding::Unknown(Unknown::ConnectionLost("the client shuts down".to_owned()))
    })
}

/// The sender that notifies every [`ConnectionLosses`] of one peer.
#[derive(Debug, Default)]
struct LossSignal(watch::Sender<()>);

impl LossSignal {
    /// Notes that a connection has ended. The pool already opens another one for the next call.
    fn ended(&self, by: ClosedBy) {
        match by {
            ClosedBy::Us => {}
            ClosedBy::Peer => {
                self.0.send_replace(());
            }
        }
    }
}

/// A watcher for connections to one peer that the peer or an error has ended since the watcher was created. It opens no connection and
/// keeps no pool alive. Several losses are merged into one.
pub struct ConnectionLosses {
    seen: watch::Receiver<()>,
    /// Prevents the pool from forgetting the peer.
    _peer: Arc<Peer>,
}

impl ConnectionLosses {
    fn new(peer: Arc<Peer>) -> Self {
        ConnectionLosses {
            seen: peer.losses.0.subscribe(),
            _peer: peer,
        }
    }

    /// Waits until a connection has been lost since the last report; waits forever if no connection is lost any more. A connection closed
    /// because it was unused is not lost. Cancel safe: a dropped future reports nothing.
    pub async fn next(&mut self) {
        let told = self.seen.changed().await;
        told.expect("the peer, which is held here, keeps the other end");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::sync::mpsc::{self, UnboundedReceiver};
    use tokio::time::timeout;

    use super::*;
    use crate::generated::brasserie::SlotUse;

    /// Creates a pool whose lookups end when the test answers them or drops the sender of the answer.
    fn pool_looking_up() -> (ClientPool, UnboundedReceiver<oneshot::Sender<SocketAddr>>) {
        let (begun, lookups) = mpsc::unbounded_channel();
        let begin_lookup = move |_: &PeerAddr, place: OwnedSemaphorePermit| -> Lookup {
            let (answer, answered) = oneshot::channel();
            begun.send(answer).expect("the test receives");
            tokio::spawn(async move {
                let found = answered.await;
                drop(place);
                Ok(vec![found.map_err(io::Error::other)?])
            })
        };
        let limit = Duration::from_secs(60);
        let config = ClientConfig {
            timeouts: CallTimeouts {
                connect: limit,
                send: limit,
                receive: limit,
            },
            limits: Limits {
                max_idle_peers: 1,
                ..Limits::DEFAULT
            },
            ..ClientConfig::default()
        };
        let pool = ClientPool::with_lookup(config, Box::new(begin_lookup));
        (pool, lookups)
    }

    #[tokio::test]
    async fn names_are_looked_up_some_at_a_time_and_ip_addresses_not_at_all() {
        let (pool, mut lookups) = pool_looking_up();
        let send = |peer: &PeerAddr| pool.send(peer, "note", &SlotUse::default());
        let mut silent = Vec::new();
        for number in 0..MAX_LOOKUPS {
            let sent = send(&PeerAddr::new(&format!("silent{number}"), 1));
            // Polls the attempt once and drops it, like a timeout. The lookup goes on.
            assert!(timeout(Duration::ZERO, sent).await.is_err());
            silent.push(lookups.try_recv().expect("a lookup has begun"));
        }
        let mut waits = Box::pin(send(&PeerAddr::new("worker", 1)));
        assert!(timeout(Duration::ZERO, &mut waits).await.is_err());
        assert!(lookups.try_recv().is_err(), "there is one lookup too many");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("a bound listener");
        assert_eq!(send(&addr.into()).await, CallResult::Done(()));
        assert!(lookups.try_recv().is_err(), "an IP address is looked up");
        // One lookup fails, and its place is free.
        drop(silent.pop());
        let answer = tokio::select! {
            ended = &mut waits => panic!("it ends without a lookup: {ended:?}"),
            begun = lookups.recv() => begun.expect("the pool lives"),
        };
        answer.send(addr).expect("the lookup waits");
        assert_eq!(waits.await, CallResult::Done(()));
    }

    #[tokio::test]
    async fn a_lookup_serves_all_attempts_until_the_resolver_answers() {
        let (pool, mut lookups) = pool_looking_up();
        let peer = PeerAddr::new("worker", 1);
        let send = || pool.send(&peer, "note", &SlotUse::default());
        for other in 2..4 {
            // Polls the attempt once and drops it, like a timeout.
            assert!(timeout(Duration::ZERO, send()).await.is_err());
            // The pool forgets idle peers when it adds another one.
            drop(pool.losses(&PeerAddr::new("other", other)));
        }
        let answer = lookups.try_recv().expect("a lookup has begun");
        assert!(lookups.try_recv().is_err(), "a second lookup has begun");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("a bound listener");
        answer.send(addr).expect("the lookup waits");
        assert_eq!(send().await, CallResult::Done(()));
        assert!(lookups.try_recv().is_err(), "a second lookup has begun");
    }
}
