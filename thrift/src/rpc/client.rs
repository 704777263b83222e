//! Clients: one connection per peer, opened on demand, shared by all calls to it.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use brasserie_common::Time;
use parking_lot::Mutex;
use thrift::protocol::{TMessageType, TSerializable};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::frame::{Dialect, Encoding};
use super::limits::{Limits, Timeouts, USUAL_FRAME_BYTES};
use super::link::{Ending, Link, Overdue, Rejected, Sequence};
use super::link_task::LinkTask;
use super::losses::{ConnectionLosses, LossSignal};
use super::outcome::{CallResult, NotSent, Unknown};
use super::protocol::{MessageName, encode_frame};
use super::responder::CallKind;
use super::then::{ATTEMPTS, Way, result_of};

/// Where a peer listens, as `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddr(Arc<str>);

impl PeerAddr {
    /// A host name or address, and a port. An IPv6 address may come with or without brackets.
    pub fn new(host: &str, port: u16) -> Self {
        if host.contains(':') && !host.starts_with('[') {
            PeerAddr(format!("[{host}]:{port}").into())
        } else {
            PeerAddr(format!("{host}:{port}").into())
        }
    }

    /// As `host:port`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SocketAddr> for PeerAddr {
    fn from(addr: SocketAddr) -> Self {
        PeerAddr(addr.to_string().into())
    }
}

impl fmt::Display for PeerAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a client speaks. Every server here understands all of them, others perhaps only one: what a peer's own calls arrive
/// in ([`IncomingCall::protocol`](super::IncomingCall::protocol)) is what it should be called in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientProtocol {
    /// The compact protocol in plain frames: the shortest.
    #[default]
    FramedCompact,
    /// The binary protocol in plain frames.
    FramedBinary,
    /// The compact protocol in the header transport.
    HeaderCompact,
    /// The binary protocol in the header transport.
    HeaderBinary,
}

impl ClientProtocol {
    pub(super) fn of(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Framed(Encoding::Compact) => ClientProtocol::FramedCompact,
            Dialect::Framed(Encoding::Binary) => ClientProtocol::FramedBinary,
            Dialect::Header { encoding, .. } => match encoding {
                Encoding::Compact => ClientProtocol::HeaderCompact,
                Encoding::Binary => ClientProtocol::HeaderBinary,
            },
        }
    }

    fn dialect(self, sequence: Sequence) -> Dialect {
        let header = |encoding| Dialect::Header {
            encoding,
            flags: 0,
            sequence: sequence.0.cast_unsigned(),
        };
        match self {
            ClientProtocol::FramedCompact => Dialect::Framed(Encoding::Compact),
            ClientProtocol::FramedBinary => Dialect::Framed(Encoding::Binary),
            ClientProtocol::HeaderCompact => header(Encoding::Compact),
            ClientProtocol::HeaderBinary => header(Encoding::Binary),
        }
    }
}

/// Everything that a pool can be told.
#[derive(Clone, Debug, Default)]
pub struct ClientConfig {
    /// How it speaks.
    pub protocol: ClientProtocol,
    /// How long it waits.
    pub timeouts: Timeouts,
    /// What it holds.
    pub limits: Limits,
}

/// Calls to any number of peers over one connection each. Clones share the connections; the last clone closes them.
#[derive(Clone)]
pub struct ClientPool {
    inner: Arc<Inner>,
    protocol: ClientProtocol,
    not_after: Time,
}

pub(super) struct Inner {
    timeouts: Timeouts,
    limits: Arc<Limits>,
    peers: Mutex<HashMap<PeerAddr, Arc<Peer>>>,
    next_sequence: AtomicI32,
    begin_lookup: BeginLookup,
    shutdown: CancellationToken,
    _close_on_drop: DropGuard,
}

/// The addresses of a peer, once the resolver has answered.
type Lookup = JoinHandle<io::Result<Vec<SocketAddr>>>;

type BeginLookup = Box<dyn Fn(&PeerAddr) -> Lookup + Send + Sync>;

#[derive(Default)]
pub(super) struct Peer {
    link: Mutex<Option<Arc<Link>>>,
    /// Locked while connecting, so that calls wait for one connection instead of opening one each. Holds the lookup that an attempt has
    /// left behind at its timeout: the lookup keeps its thread until the resolver answers, so the next attempt waits for the same one.
    connecting: tokio::sync::Mutex<Option<Lookup>>,
    pub(super) losses: LossSignal,
}

impl ClientPool {
    /// A pool without connections.
    pub fn new(config: ClientConfig) -> Self {
        let begin_lookup = |peer: &PeerAddr| {
            let name = Arc::clone(&peer.0);
            tokio::spawn(async move { Ok(tokio::net::lookup_host(&*name).await?.collect()) })
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
                begin_lookup,
                _close_on_drop: shutdown.clone().drop_guard(),
                shutdown,
            }),
        }
    }

    /// The same pool, with the same connections, speaking another protocol.
    pub fn speaking(&self, protocol: ClientProtocol) -> ClientPool {
        ClientPool {
            protocol,
            ..self.clone()
        }
    }

    /// The same pool, with the same connections, for calls of which nothing may leave after this time by the clock that counts
    /// suspend: what was decided before a pause must not happen after it. One that has begun to leave is not held back.
    pub fn not_after(&self, not_after: Time) -> ClientPool {
        ClientPool {
            not_after,
            ..self.clone()
        }
    }

    /// Tells of the connections to this peer, present and future, that break.
    pub fn losses(&self, peer: &PeerAddr) -> ConnectionLosses {
        ConnectionLosses::new(self.inner.peer(peer))
    }

    /// Calls `method` with its arguments struct and waits for its result struct.
    ///
    /// The arguments are encoded before this returns, so that the future borrows nothing. Dropped before its end, the call
    /// is withdrawn if none of it has left.
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
        async move { result_of(ending.await, method, &limits) }
    }

    /// As [`ClientPool::call`], for who has many calls under way and needs no future of each: over an open connection such a call costs
    /// no task and no timer of its own. `done` is called once, from the runtime or before this returns, and must not block.
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
        let dialect = self.protocol.dialect(sequence);
        let frame = match inner.encode(sequence, dialect, method, kind, arguments) {
            Ok(frame) => frame,
            Err(reason) => return done(CallResult::NotSent(reason)),
        };
        let limits = Arc::clone(&inner.limits);
        let done = move |ending| done(result_of(ending, method, &limits));
        let way = Way {
            inner: Arc::downgrade(inner),
            peer: peer.clone(),
            sequence,
            not_after: self.not_after,
        };
        match inner.peer(peer).open_link() {
            Some(link) => way.over(&link, frame, Box::new(done)),
            None => way.anew(frame, ATTEMPTS, Box::new(done)),
        }
    }

    /// Sends a oneway call; done when the kernel has all of it.
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
                Ending::Written | Ending::Reply(_) => CallResult::Done(()),
                Ending::Returned { why, .. } | Ending::NotSent(why) => CallResult::NotSent(why),
                Ending::Unknown(why) => CallResult::Unknown(why),
            }
        }
    }

    fn start<A: TSerializable>(
        &self,
        peer: &PeerAddr,
        method: &'static str,
        kind: CallKind,
        arguments: &A,
    ) -> impl Future<Output = Ending> + Send + use<A> {
        let inner = Arc::clone(&self.inner);
        let peer = peer.clone();
        let sequence = inner.sequence();
        let not_after = self.not_after;
        let dialect = self.protocol.dialect(sequence);
        let frame = inner.encode(sequence, dialect, method, kind, arguments);
        async move {
            match frame {
                Ok(frame) => {
                    let call = (sequence, kind);
                    inner.drive(&peer, call, frame, not_after, ATTEMPTS).await
                }
                Err(reason) => Ending::NotSent(reason),
            }
        }
    }
}

impl Inner {
    /// Ids are unique in the pool, so that a frame stays valid on another connection.
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

    /// Takes a call to its end, over a second connection if the first one was found dead before any byte was sent. Each
    /// connection gets the whole timeouts, as the first one is usually found dead at once.
    pub(super) async fn drive(
        &self,
        peer: &PeerAddr,
        (sequence, kind): (Sequence, CallKind),
        mut frame: Vec<u8>,
        not_after: Time,
        attempts: usize,
    ) -> Ending {
        let mut why = NotSent::Backlogged;
        for _ in 0..attempts {
            let link = match self.link(peer).await {
                Ok(link) => link,
                Err(reason) => return Ending::NotSent(reason),
            };
            let ticket = match Ticket::take(link, (sequence, kind), frame, not_after) {
                Ok(ticket) => ticket,
                Err(Rejected::Closed(returned)) => {
                    why = NotSent::ConnectionLost("it was closed at that moment".to_owned());
                    frame = returned;
                    continue;
                }
                Err(Rejected::Backlogged) => return Ending::NotSent(NotSent::Backlogged),
            };
            match ticket.wait(&self.timeouts).await {
                Ending::Returned {
                    frame: returned,
                    why: reason,
                } => {
                    why = reason;
                    frame = returned;
                }
                ending @ (Ending::Reply(_)
                | Ending::Written
                | Ending::NotSent(_)
                | Ending::Unknown(_)) => return ending,
            }
        }
        Ending::NotSent(why)
    }

    /// The peer's open connection, or a new one.
    async fn link(&self, addr: &PeerAddr) -> Result<Arc<Link>, NotSent> {
        let peer = self.peer(addr);
        if let Some(link) = peer.open_link() {
            return Ok(link);
        }
        let deadline = Instant::now() + self.timeouts.connect;
        let connected = timeout_at(deadline, async {
            let mut lookup = peer.connecting.lock().await;
            if let Some(link) = peer.open_link() {
                return Ok(link);
            }
            let running = lookup.get_or_insert_with(|| (self.begin_lookup)(addr));
            let found = running.await;
            *lookup = None;
            let found = found.unwrap_or_else(|error| Err(error.into()));
            let stream = connect(addr, found).await?;
            let link = Arc::new(Link::new(Arc::clone(&self.limits)));
            let (limits, timeouts) = (Arc::clone(&self.limits), self.timeouts);
            let task = LinkTask::new(stream, Arc::clone(&link), limits, timeouts);
            *peer.link.lock() = Some(Arc::clone(&link));
            // Weak, since a peer without calls and connection may be forgotten.
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

    fn peer(&self, addr: &PeerAddr) -> Arc<Peer> {
        let mut peers = self.peers.lock();
        if let Some(peer) = peers.get(addr) {
            return Arc::clone(peer);
        }
        if peers.len() >= self.limits.max_idle_peers {
            // Peers come and go under new addresses; those without calls, connection and lookup are only names.
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

    /// Whether an attempt to connect has left behind a lookup that is still running.
    fn is_looked_up(&self) -> bool {
        let lookup = self.connecting.try_lock();
        lookup.is_ok_and(|lookup| lookup.as_ref().is_some_and(|it| !it.is_finished()))
    }
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
            // A closed local port in the range of outgoing ports can connect to itself.
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

/// A call in a link, forgotten when its future is dropped.
struct Ticket {
    link: Arc<Link>,
    sequence: Sequence,
    slot: oneshot::Receiver<Ending>,
}

impl Ticket {
    fn take(
        link: Arc<Link>,
        (sequence, kind): (Sequence, CallKind),
        frame: Vec<u8>,
        not_after: Time,
    ) -> Result<Ticket, Rejected> {
        let slot = link.submit((sequence, kind), frame, not_after)?;
        Ok(Ticket {
            link,
            sequence,
            slot,
        })
    }

    async fn wait(mut self, timeouts: &Timeouts) -> Ending {
        let send_by = Instant::now() + timeouts.send;
        if let Ok(ended) = timeout_at(send_by, &mut self.slot).await {
            return known(ended);
        }
        let sent = match self.link.overdue(self.sequence) {
            Overdue::Withdrawn => return Ending::NotSent(NotSent::SendTimeout),
            Overdue::Stuck => return Ending::Unknown(Unknown::SendTimeout),
            Overdue::Ended => return known((&mut self.slot).await),
            Overdue::Sent(at) => at,
        };
        match timeout_at(sent + timeouts.receive, &mut self.slot).await {
            Ok(ended) => known(ended),
            Err(_) => {
                self.link.unanswered(self.sequence, sent);
                Ending::Unknown(Unknown::ReceiveTimeout)
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

fn known(ended: Result<Ending, oneshot::error::RecvError>) -> Ending {
    // Slots are only dropped with a runtime that is going away.
    ended.unwrap_or_else(|_| {
        Ending::Unknown(Unknown::ConnectionLost("the client shuts down".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;
    use crate::generated::brasserie::SlotUse;

    #[tokio::test]
    async fn a_lookup_serves_all_attempts_until_the_resolver_answers() {
        let (begun, mut lookups) = mpsc::unbounded_channel();
        let begin_lookup = move |_: &PeerAddr| {
            let (answer, answered) = oneshot::channel();
            begun.send(answer).expect("the test receives");
            tokio::spawn(async move { Ok(vec![answered.await.map_err(io::Error::other)?]) })
        };
        let limit = Duration::from_secs(60);
        let config = ClientConfig {
            timeouts: Timeouts {
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
        let peer = PeerAddr::new("worker", 1);
        let send = || pool.send(&peer, "note", &SlotUse::default());
        for other in 2..4 {
            // Polls the attempt once, and drops it as a timeout does.
            assert!(timeout(Duration::ZERO, send()).await.is_err());
            // The pool forgets idle peers when it learns of another one.
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
