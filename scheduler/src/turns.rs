//! Turns for calls whose work or answers are large, and for changes: few are at work at a time, callers alternate, and each caller has a
//! bounded queue. No change begins for a caller that was expelled meanwhile.
//!
//! ```text
//! call --place--> the queue of its caller --> the queue of all --turn--> work on a thread of the blocking pool --> answer
//! ```
//!
//! The threads that serve heartbeats and the health pages do none of this work. Calls over the local socket have turns of their own. A
//! change that waits for no thread has a place alone.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_common::access::{CallOrigin, ShardLabel, TokenNumber};
use brasserie_thrift::rpc::{LACK_OF_ROOM, Responder};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

/// Maximum calls of one caller that wait or are at work; further ones are refused. People's programs wait for one answer before they ask
/// again, and a token may be that of many people. A waiting call costs about a KiB.
const MAX_PLACES: usize = 256;

/// The frames above which calls are counted in bytes too. Smaller calls, such as revocations, are never refused because of larger ones.
const LARGE_BYTES: usize = 4 << 10;
/// Maximum bytes of the large calls of one caller, or of the local socket: the longest frame twice, and half a piece of an upload.
const MAX_LARGE_BYTES: usize = 40 << 20;
/// Maximum bytes of the large calls of all callers from the network: those of two. With as many of the local socket, they and the unread
/// answers take less than a server's `max_bytes_in_flight`.
const MAX_LARGE_BYTES_OF_NETWORK: usize = 2 * MAX_LARGE_BYTES;

/// Gives turns. Clones share them.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Shared>);

struct Shared {
    /// The turns of one caller at a time: half of all, so that others need not wait for it.
    each: usize,
    network: Arc<Semaphore>,
    /// The turns of administrators at the local socket, who wait for nobody else.
    local: Arc<Semaphore>,
    queues: Mutex<BTreeMap<Caller, Queue>>,
}

/// Those that share one queue. A token is one caller, however many connections show it, and so is a worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    Local,
    Shard(ShardLabel),
    Token(TokenNumber),
    Connection(SocketAddr),
}

/// The calls of one caller.
struct Queue {
    turns: Arc<Semaphore>,
    places: usize,
}

/// The caller has as many calls waiting as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{LACK_OF_ROOM}")]
pub(crate) struct Busy;

/// The large calls of people that have no answer yet. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct LargeCalls(Arc<Mutex<BTreeMap<Caller, usize>>>);

/// The bytes of one large call, counted until the drop.
pub(crate) struct LargeCall {
    calls: LargeCalls,
    caller: Caller,
    bytes: usize,
}

impl LargeCalls {
    /// Counts a call with a frame of so many bytes, unless it is small. Errors if the large calls of its caller, or of all, are too many.
    pub(crate) fn begin(&self, from: &Principal, bytes: usize) -> Result<Option<LargeCall>, Busy> {
        if bytes <= LARGE_BYTES {
            return Ok(None);
        }
        let caller = Caller::of(from);
        let mut counted = self.0.lock();
        let own = counted.get(&caller).copied().unwrap_or_default() + bytes;
        let others = counted.iter().filter(|(other, _)| **other != Caller::Local);
        let all = others.map(|(_, bytes)| bytes).sum::<usize>() + bytes;
        let is_crowded = caller != Caller::Local && all > MAX_LARGE_BYTES_OF_NETWORK;
        if own > MAX_LARGE_BYTES || is_crowded {
            return Err(Busy);
        }
        counted.insert(caller.clone(), own);
        Ok(Some(LargeCall {
            calls: self.clone(),
            caller,
            bytes,
        }))
    }
}

impl Drop for LargeCall {
    fn drop(&mut self) {
        let mut counted = self.calls.0.lock();
        if let Some(bytes) = counted.get_mut(&self.caller) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                counted.remove(&self.caller);
            }
        }
    }
}

/// A place in the queue of a caller, left on drop.
pub(crate) struct Place {
    shared: Arc<Shared>,
    caller: Caller,
    own: Arc<Semaphore>,
}

/// A turn, which lasts until it is dropped.
pub(crate) struct Turn {
    /// Dropped before the place, so that a queue without places has all its turns.
    _permits: [OwnedSemaphorePermit; 2],
    _place: Place,
}

impl Turns {
    /// Creates turns for `at_once` calls from the network at a time, and half as many for calls over the local socket.
    pub(crate) fn new(at_once: usize) -> Self {
        let each = at_once.div_ceil(2);
        Turns(Arc::new(Shared {
            each,
            network: Arc::new(Semaphore::new(at_once)),
            local: Arc::new(Semaphore::new(each)),
            queues: Mutex::default(),
        }))
    }

    /// Takes a place in the queue of the caller. Errors if it has too many already.
    pub(crate) fn place(&self, from: &Principal) -> Result<Place, Busy> {
        let caller = Caller::of(from);
        let mut queues = self.0.queues.lock();
        let queue = queues.entry(caller.clone()).or_insert_with(|| Queue {
            turns: Arc::new(Semaphore::new(self.0.each)),
            places: 0,
        });
        if queue.places >= MAX_PLACES {
            return Err(Busy);
        }
        queue.places += 1;
        Ok(Place {
            shared: Arc::clone(&self.0),
            caller,
            own: Arc::clone(&queue.turns),
        })
    }

    /// Does the work of a call in its turn, unless its connection has ended by then. Answers that the caller has too many calls otherwise.
    pub(crate) fn begin<F>(
        &self,
        to: Responder,
        work: impl FnOnce(Responder, Turn) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        self.begin_anyway(to, |to, turn| async move {
            if !to.is_gone() {
                work(to, turn).await;
            }
        });
    }

    /// Does the same also if the connection has ended by then.
    fn begin_anyway<F>(
        &self,
        to: Responder,
        work: impl FnOnce(Responder, Turn) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send,
    {
        let place = match self.place(&to.principal()) {
            Ok(place) => place,
            Err(busy) => return to.fail(busy),
        };
        tokio::spawn(async move {
            let turn = place.turn().await;
            work(to, turn).await;
        });
    }

    /// Does the same on a thread that may compute for long. The work must not use timers: the thread may outlive the runtime.
    pub(crate) fn serve<F>(&self, to: Responder, work: impl FnOnce(Responder) -> F + Send + 'static)
    where
        F: Future<Output = ()>,
    {
        self.begin(to, |to, turn| async move {
            let runtime = Handle::current();
            // A call whose work panics is answered by the drop of its responder.
            let _ = turn.compute(move || runtime.block_on(work(to))).await;
        });
    }

    /// Makes a change in the turn of its caller, on a thread that may wait for the disk, unless the caller was expelled by then.
    pub(crate) fn change(&self, to: Responder, work: impl FnOnce(Responder) + Send + 'static) {
        self.begin(to, |to, turn| async move {
            // A call whose work panics is answered by the drop of its responder.
            let _ = turn.compute(move || unless_expelled(to, work)).await;
        });
    }

    /// Does the same on a thread of its own, which waits for no other work of the program, and also if the connection has ended by then: a
    /// revocation takes effect although its caller did not wait for it.
    pub(crate) fn change_apart(
        &self,
        to: Responder,
        work: impl FnOnce(Responder) + Send + 'static,
    ) {
        self.begin_anyway(to, |to, turn| async move {
            let work = move || {
                let _turn = turn;
                unless_expelled(to, work);
            };
            let thread = std::thread::Builder::new().name("change".to_owned());
            if let Err(error) = thread.spawn(work) {
                tracing::error!(%error, "cannot start a thread for a call");
            }
        });
    }
}

fn unless_expelled(to: Responder, work: impl FnOnce(Responder)) {
    if !to.is_expelled() {
        work(to);
    }
}

impl Caller {
    pub(crate) fn of(from: &Principal) -> Self {
        let origin = match from {
            Principal::Own => return Caller::Local,
            Principal::Unauthenticated(address) => return Caller::Connection(*address),
            Principal::Stranger(stranger) => &stranger.from,
            Principal::Authenticated(identity) => &identity.from,
        };
        match origin {
            CallOrigin::Local(_) => Caller::Local,
            CallOrigin::Network(address) => {
                let identity = from.identity();
                let shard = identity.and_then(|identity| identity.shard.clone());
                let token = identity.and_then(|identity| identity.token);
                // The first certificate of a worker names the token with which it has joined, as those of others may.
                let proven = shard.map(Caller::Shard).or(token.map(Caller::Token));
                proven.unwrap_or(Caller::Connection(*address))
            }
        }
    }
}

impl Place {
    /// Waits for the turn: first for one among those of the same caller, and then among those of all callers.
    pub(crate) async fn turn(self) -> Turn {
        let all = match self.caller {
            Caller::Local => &self.shared.local,
            Caller::Shard(_) | Caller::Token(_) | Caller::Connection(_) => &self.shared.network,
        };
        let (own, all) = (Arc::clone(&self.own), Arc::clone(all));
        let permit = async |of: Arc<Semaphore>| {
            let permit = of.acquire_owned().await;
            permit.expect("nobody closes the semaphore")
        };
        Turn {
            _permits: [permit(own).await, permit(all).await],
            _place: self,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut queues = self.shared.queues.lock();
        if let Some(queue) = queues.get_mut(&self.caller) {
            queue.places -= 1;
            if queue.places == 0 {
                queues.remove(&self.caller);
            }
        }
    }
}

impl Turn {
    /// Computes on a thread of the blocking pool, and ends the turn with it. Errors if the work panics or the program ends.
    pub(crate) async fn compute<R: Send + 'static>(
        self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, JoinError> {
        let work = move || {
            let _turn = self;
            work()
        };
        spawn_blocking(work).await
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brasserie_thrift::generated::scheduler::BistroSchedulerGetJobsArgs;
    use brasserie_thrift::rpc::{IncomingCall, Limits, Server, ServerHandle, Service};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A call of `getJobs` in the compact protocol, with its length.
    const CALL: &[u8] = b"\0\0\0\x0c\x82\x21\x01\x07getJobs\0";
    /// Longer than any wait of a passing test.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A service whose calls work until the test lets one end.
    #[derive(Clone)]
    struct Slow {
        turns: Turns,
        large: LargeCalls,
        /// The callers whose work has begun, in order.
        begun: Arc<Mutex<Vec<Caller>>>,
        may_end: Arc<Semaphore>,
    }

    impl Service for Slow {
        fn call(&self, mut call: IncomingCall<'_>) {
            match self.large.begin(&call.principal(), call.frame_bytes()) {
                Ok(large) => call.keep(large),
                Err(busy) => return call.into_responder().fail(busy),
            }
            let (begun, may_end) = (Arc::clone(&self.begun), Arc::clone(&self.may_end));
            call.serve(|_: BistroSchedulerGetJobsArgs, to| {
                self.turns.serve(to, |to| async move {
                    begun.lock().push(Caller::of(&to.principal()));
                    let end = tokio::time::timeout(PATIENCE, may_end.acquire());
                    end.await.expect("in time").expect("open").forget();
                    to.fail("done");
                });
            });
        }
    }

    impl Slow {
        async fn start() -> (Self, ServerHandle) {
            let slow = Slow {
                turns: Turns::new(2),
                large: LargeCalls::default(),
                begun: Arc::default(),
                may_end: Arc::new(Semaphore::new(0)),
            };
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let server = Server::bind(any).await.expect("a free port");
            let limits = Limits {
                drain_timeout: Duration::from_millis(10),
                ..Limits::DEFAULT
            };
            (
                slow.clone(),
                server.serve(slow, limits, CancellationToken::new()),
            )
        }

        fn begun(&self) -> usize {
            self.begun.lock().len()
        }
    }

    async fn wait_until(is_so: impl Fn() -> bool) {
        let wait = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("in time");
    }

    async fn calling(server: &ServerHandle, calls: usize) -> TcpStream {
        let stream = TcpStream::connect(server.local_addr()).await;
        let mut stream = stream.expect("the server listens");
        stream.write_all(&CALL.repeat(calls)).await.expect("sent");
        stream
    }

    async fn next_answer(stream: &mut TcpStream) -> String {
        let read = async {
            let length = stream.read_u32().await.expect("an answer");
            let mut answer = vec![0; length as usize];
            stream.read_exact(&mut answer).await.expect("all of it");
            String::from_utf8_lossy(&answer).into_owned()
        };
        tokio::time::timeout(PATIENCE, read).await.expect("in time")
    }

    #[tokio::test]
    async fn the_work_of_calls_whose_connections_have_ended_does_not_begin() {
        let (slow, server) = Slow::start().await;
        let mut crowd = Vec::new();
        for _ in 0..3 {
            crowd.push(calling(&server, 100).await);
        }
        wait_until(|| server.load().calls == 300 && slow.begun() == 2).await;
        drop(crowd);
        wait_until(|| server.load().connections == 0).await;
        let mut other = calling(&server, 1).await;
        slow.may_end.add_permits(3);
        assert!(next_answer(&mut other).await.contains("done"));
        wait_until(|| server.load().calls == 0).await;
        assert_eq!(slow.begun(), 3, "two before the end, and the other's");
        assert!(slow.turns.0.queues.lock().is_empty());
    }

    /// A service that counts changes, which begin one after the other when the test lets them.
    #[derive(Clone)]
    struct Revoking {
        turns: Turns,
        begun: Arc<Mutex<usize>>,
        may_end: Arc<Semaphore>,
    }

    impl Service for Revoking {
        fn call(&self, call: IncomingCall<'_>) {
            let (begun, may_end, runtime) = (
                Arc::clone(&self.begun),
                Arc::clone(&self.may_end),
                Handle::current(),
            );
            self.turns.change_apart(call.into_responder(), move |to| {
                *begun.lock() += 1;
                let end = runtime.block_on(may_end.acquire());
                end.expect("open").forget();
                to.fail("done");
            });
        }
    }

    #[tokio::test]
    async fn a_revocation_is_carried_out_after_the_end_of_its_connection_unless_its_caller_is_expelled()
     {
        for is_expelled in [false, true] {
            let service = Revoking {
                turns: Turns::new(1),
                begun: Arc::default(),
                may_end: Arc::new(Semaphore::new(0)),
            };
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let server = Server::bind(any).await.expect("a free port");
            let limits = Limits {
                drain_timeout: Duration::from_millis(10),
                ..Limits::DEFAULT
            };
            let server = server.serve(service.clone(), limits, CancellationToken::new());
            let client = calling(&server, 3).await;
            wait_until(|| server.load().calls == 3 && *service.begun.lock() == 1).await;
            drop(client);
            wait_until(|| server.load().connections == 0).await;
            if is_expelled {
                server.disconnector().disconnect(|_| true);
            }
            service.may_end.add_permits(3);
            wait_until(|| server.load().calls == 0).await;
            let expected = if is_expelled { 1 } else { 3 };
            assert_eq!(*service.begun.lock(), expected);
        }
    }

    #[tokio::test]
    async fn a_caller_with_many_calls_is_refused_more_and_delays_nobody() {
        let (slow, server) = Slow::start().await;
        let mut flood = calling(&server, MAX_PLACES + 10).await;
        for _ in 0..10 {
            let refused = next_answer(&mut flood).await;
            assert!(refused.contains(LACK_OF_ROOM), "{refused}");
        }
        wait_until(|| slow.begun() == 1).await;
        let mut second = calling(&server, 1).await;
        wait_until(|| slow.begun() == 2).await;
        // All turns are taken, and two callers wait: whichever turn ends first is the third caller's or the flood's own next.
        let mut third = calling(&server, 1).await;
        wait_until(|| server.load().calls == MAX_PLACES + 2).await;
        let local = slow.turns.place(&Principal::Own).expect("it has no other");
        let local = tokio::time::timeout(PATIENCE, local.turn()).await;
        drop(local.expect("a local caller waits for nobody"));
        assert_eq!(slow.begun(), 2, "two at once");
        slow.may_end.add_permits(2);
        assert!(next_answer(&mut second).await.contains("done"));
        wait_until(|| slow.begun() == 4).await;
        let third_caller = Caller::Connection(third.local_addr().expect("an address"));
        let has_begun = slow.begun.lock().contains(&third_caller);
        assert!(has_begun, "the flood has one of the two turns");
        slow.may_end.add_permits(MAX_PLACES);
        assert!(next_answer(&mut third).await.contains("done"));
    }

    fn with_token(number: u64) -> Principal {
        use brasserie_common::access::{Identity, IdentityProof, Role};
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let identity = Identity::new(Role::Submitter, IdentityProof::Token, from);
        let token = Some(TokenNumber(number));
        Principal::Authenticated(Arc::new(Identity { token, ..identity }))
    }

    #[tokio::test]
    async fn a_large_call_counts_until_its_answer() {
        let (slow, server) = Slow::start().await;
        let mut stream = calling(&server, 0).await;
        // The rest of the frame is not read.
        let mut large = CALL.to_vec();
        large.resize(4 + (15 << 20), 0);
        large[..4].copy_from_slice(&(15_u32 << 20).to_be_bytes());
        stream.write_all(&large).await.expect("sent");
        stream.write_all(&large).await.expect("sent");
        stream.write_all(&large).await.expect("sent");
        let third = next_answer(&mut stream).await;
        assert!(third.contains(LACK_OF_ROOM), "{third}");
        slow.may_end.add_permits(2);
        for _ in 0..2 {
            assert!(next_answer(&mut stream).await.contains("done"));
        }
        wait_until(|| slow.large.0.lock().is_empty()).await;
    }

    #[test]
    fn large_calls_are_bounded_in_bytes_for_each_caller_and_for_all() {
        let calls = LargeCalls::default();
        let begin = |from: &Principal, bytes| calls.begin(from, bytes);
        let frame = 16 << 20;
        let fill = |from: &Principal| {
            let begun = std::iter::from_fn(|| begin(from, frame).ok().flatten());
            begun.collect::<Vec<LargeCall>>()
        };
        let own = [1, 2, 3].map(with_token);
        let mut of_first = fill(&own[0]);
        assert_eq!(of_first.len(), 2, "of one caller");
        assert!(begin(&own[0], LARGE_BYTES).is_ok_and(|small| small.is_none()));
        let of_second = fill(&own[1]);
        assert_eq!(of_second.len(), 2, "nobody waits for the first");
        let of_third = fill(&own[2]);
        assert_eq!(of_third.len(), 1, "of all callers");
        assert_eq!(
            fill(&Principal::Own).len(),
            2,
            "the local socket has its own"
        );
        // An answer frees the bytes of its call.
        of_first.pop();
        assert!(begin(&own[2], frame).is_ok());
        drop((of_first, of_second, of_third));
        assert!(calls.0.lock().is_empty());
    }

    #[test]
    fn a_token_is_one_caller_and_so_are_a_shard_and_a_connection_without_either() {
        use brasserie_common::Shard;
        use brasserie_common::access::{Identity, IdentityProof, LocalUser, Role};
        let at = |port| SocketAddr::from(([10, 0, 0, 1], port));
        let shown = |token, from: CallOrigin| {
            let identity = Identity::new(Role::Viewer, IdentityProof::Token, from);
            Principal::Authenticated(Arc::new(Identity { token, ..identity }))
        };
        let token = Some(TokenNumber(7));
        let (one, other) = (shown(token, at(1).into()), shown(token, at(2).into()));
        assert_eq!(Caller::of(&one), Caller::of(&other));
        let (one, other) = (shown(None, at(1).into()), Principal::Unauthenticated(at(2)));
        assert_eq!(Caller::of(&one), Caller::Connection(at(1)));
        assert_eq!(Caller::of(&other), Caller::Connection(at(2)));
        // The first certificate of each of these workers names the token.
        let worker = |shard: &str, port| {
            let from = CallOrigin::from(at(port));
            let identity = Identity::new(Role::Worker, IdentityProof::Certificate, from);
            let shard = Shard::try_from(shard).expect("a shard");
            Caller::of(&Principal::Authenticated(Arc::new(Identity {
                token,
                shard: Some(ShardLabel::of(&shard)),
                ..identity
            })))
        };
        assert_eq!(worker("a", 1), worker("a", 2));
        assert_ne!(worker("a", 1), worker("b", 1));
        let user = LocalUser { uid: 0, name: None };
        let local = shown(token, CallOrigin::Local(user));
        assert_eq!(Caller::of(&local), Caller::Local);
    }
}
