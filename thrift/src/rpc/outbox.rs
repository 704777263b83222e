//! Queue of the answers of one connection, filled from any thread and emptied by the connection's task.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use brasserie_common::Principal;
use brasserie_common::access::CallOrigin;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::budget::{Account, Budget, CallRoom, Scope};
use super::limits::{CALL_OVERHEAD_BYTES, KEEP_BUFFER_BYTES, Limits, REPLY_CHUNK_BYTES};

/// The answers of a connection, shared by its task and the responders of its calls.
pub(super) struct ConnectionOutbox {
    peer: CallOrigin,
    /// The peer, known before the first call is read.
    principal: Mutex<Principal>,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    account: Account,
    state: Mutex<OutboxState>,
    /// Bytes of replies that the kernel has not accepted, in `state` and in the task's queue.
    unsent: AtomicUsize,
    /// Bytes beyond the allowance that the peer leaves unread, as the task has noted them last.
    unread: AtomicUsize,
    calls: AtomicUsize,
    /// Whether the service has accepted a call as one of a peer that it knows.
    is_known: AtomicBool,
    /// Whether the server has asked the peer who it is, and got no proof.
    is_stranger: AtomicBool,
    /// Whether the peer is known without any certificate.
    needs_no_certificate: AtomicBool,
    /// Whether the server needs this connection's place.
    is_asked_to_leave: AtomicBool,
    /// Whether the peer may no longer call. It stays set after the end of the connection.
    is_expelled: AtomicBool,
    wake: Notify,
}

/// The order in which idle strangers are evicted: first those that read their replies, and among them the one with the oldest last call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IdleRank {
    has_unsent: bool,
    last_call: Instant,
}

struct OutboxState {
    /// The time of the last call; before the first one, the time at which the connection was opened.
    last_call: Instant,
    chunks: VecDeque<Vec<u8>>,
    attention: Attention,
    fate: Fate,
}

/// ```text
/// Awake <--> Asleep
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attention {
    /// The task will check the outbox before it waits, so answers need not wake it.
    Awake,
    /// The task waits and must be woken.
    Asleep,
}

/// ```text
/// Alive --too many unsent bytes, expelled--> Doomed
///   \------the task ends-----------------------\--------> Closed
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Answers are kept until they are sent.
    Alive,
    /// The peer does not read, or may no longer call; the task will close the connection.
    Doomed,
    /// The connection is closed, and answers are discarded.
    Closed,
}

/// Whether the task may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doze {
    /// There are no answers. The next one wakes the task.
    Asleep,
    /// There are answers to take first.
    Busy,
    /// The connection must be closed.
    Doomed,
}

impl ConnectionOutbox {
    pub(super) fn new(peer: CallOrigin, limits: Arc<Limits>, budget: Arc<Budget>) -> Self {
        budget.begin_stranger();
        let unknown = Principal::stranger(peer.clone(), "the caller has made no call");
        ConnectionOutbox {
            peer,
            principal: Mutex::new(unknown),
            limits,
            budget,
            account: Account::default(),
            state: Mutex::new(OutboxState {
                last_call: Instant::now(),
                chunks: VecDeque::new(),
                attention: Attention::Awake,
                fate: Fate::Alive,
            }),
            unsent: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
            is_stranger: AtomicBool::new(false),
            needs_no_certificate: AtomicBool::new(false),
            is_asked_to_leave: AtomicBool::new(false),
            is_expelled: AtomicBool::new(false),
            wake: Notify::new(),
        }
    }

    pub(super) fn peer(&self) -> CallOrigin {
        self.peer.clone()
    }

    /// Notes who the peer is. A peer that has proven it is no stranger.
    pub(super) fn identify(&self, principal: Principal) {
        if principal.identity().is_some() {
            self.mark_known();
        }
        let is_stranger = matches!(principal, Principal::Stranger(_));
        self.is_stranger.store(is_stranger, Ordering::Relaxed);
        *self.principal.lock() = principal;
    }

    /// Returns who the peer is.
    pub(super) fn principal(&self) -> Principal {
        self.principal.lock().clone()
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the number of unanswered calls.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// Returns the bytes of replies that the kernel has not accepted.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Acquire)
    }

    /// Notes, in the connection's task, that the kernel accepts no more than all but these bytes of the replies.
    pub(super) fn note_unread(&self, bytes: usize) {
        let now = bytes.saturating_sub(self.limits.connection_allowance_bytes);
        let before = self.unread.load(Ordering::Relaxed);
        if now != before {
            self.unread.store(now, Ordering::Relaxed);
            self.budget.rebook_unread(before, now);
        }
    }

    /// Returns the bytes beyond the allowance that the peer leaves unread, unless the connection ends anyway.
    pub(super) fn unread(&self) -> Option<usize> {
        let unread = self.unread.load(Ordering::Relaxed);
        (unread > 0 && !self.is_gone()).then_some(unread)
    }

    /// Returns the calls that this connection may accept, by the stricter of its own limits and the server's.
    pub(super) fn room(&self) -> CallRoom {
        let (limits, calls) = (&self.limits, self.calls());
        let reserved = limits.reserved_calls_per_connection;
        if self.unsent() >= limits.pause_at_unsent_bytes
            || calls >= limits.max_calls_per_connection + reserved
        {
            return CallRoom::Full(Scope::Connection);
        }
        match self.budget.room_for(&self.account) {
            CallRoom::Free if calls >= limits.max_calls_per_connection => {
                CallRoom::Reserve(Scope::Connection)
            }
            room => room,
        }
    }

    /// Marks the peer as one that the service knows.
    pub(super) fn mark_known(&self) {
        if !self.is_known.swap(true, Ordering::Relaxed) {
            self.budget.end_stranger();
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Returns the length of the longest frame that is accepted from this peer.
    pub(super) fn max_frame_bytes(&self) -> usize {
        let limits = &self.limits;
        match self.is_stranger.load(Ordering::Relaxed) {
            true => limits
                .max_frame_bytes
                .min(limits.connection_allowance_bytes),
            false => limits.max_frame_bytes,
        }
    }

    /// Returns the bytes of free memory that the connection may keep for the frames after those that were handled.
    pub(super) fn spare_bytes(&self) -> usize {
        match self.is_stranger.load(Ordering::Relaxed) {
            true => 0,
            false => KEEP_BUFFER_BYTES,
        }
    }

    /// Notes that a call arrived.
    pub(super) fn note_call(&self) {
        self.state.lock().last_call = Instant::now();
    }

    /// Returns the time of the last call.
    pub(super) fn last_call(&self) -> Instant {
        self.state.lock().last_call
    }

    /// Returns the rank for eviction, or `None` unless the peer is a stranger without a call in flight.
    pub(super) fn idle_rank(&self) -> Option<IdleRank> {
        let has_calls = self.calls() > 0;
        let stays = has_calls || self.is_known();
        (!stays).then(|| IdleRank {
            has_unsent: self.unsent() > 0,
            last_call: self.state.lock().last_call,
        })
    }

    /// Asks the connection's task to close it, unless a call has come meanwhile.
    pub(super) fn ask_to_leave(&self) {
        self.is_asked_to_leave.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Notes that the peer has shown no certificate.
    pub(super) fn note_no_certificate(&self) {
        self.needs_no_certificate.store(true, Ordering::Relaxed);
    }

    /// Returns whether the peer has shown a certificate, or may still show one.
    pub(super) fn may_be_certified(&self) -> bool {
        !self.needs_no_certificate.load(Ordering::Relaxed)
    }

    /// Makes the connection's task close it, whatever its calls. No further call begins.
    pub(super) fn expel(&self) {
        self.is_expelled.store(true, Ordering::Release);
        self.doom();
    }

    /// Makes the connection's task close it, because the peer does not read.
    pub(super) fn doom(&self) {
        self.state.lock().fate = Fate::Doomed;
        self.wake.notify_one();
    }

    /// Returns whether the peer may no longer call over this connection. A connection that ends for another reason does not count.
    pub(super) fn is_expelled(&self) -> bool {
        self.is_expelled.load(Ordering::Acquire)
    }

    /// Returns whether answers are discarded from now on.
    pub(super) fn is_gone(&self) -> bool {
        self.state.lock().fate != Fate::Alive
    }

    /// Returns whether the connection has been asked to close.
    pub(super) fn is_asked_to_leave(&self) -> bool {
        self.is_asked_to_leave.load(Ordering::Relaxed)
    }

    /// Returns whether the connection must close to free its place. Withdraws the request if a call has arrived.
    pub(super) fn must_leave(&self) -> bool {
        self.is_asked_to_leave() && {
            let leaves = self.idle_rank().is_some();
            self.is_asked_to_leave.store(leaves, Ordering::Relaxed);
            leaves
        }
    }

    /// Registers a call, and returns the bytes that it holds until [`ConnectionOutbox::end_call`].
    pub(super) fn begin_call(&self, frame_bytes: usize) -> usize {
        let held = frame_bytes + CALL_OVERHEAD_BYTES;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.budget.begin_call();
        self.budget.hold(&self.account, held);
        held
    }

    /// Queues the answer of a call. An empty frame means that nothing is sent.
    pub(super) fn end_call(&self, frame: Vec<u8>, held: usize) {
        let attention = {
            let mut state = self.state.lock();
            if !frame.is_empty() {
                self.push(&mut state, frame);
            }
            // The lock ensures that the task never sees neither the call nor its reply.
            self.calls.fetch_sub(1, Ordering::AcqRel);
            std::mem::replace(&mut state.attention, Attention::Awake)
        };
        self.budget.release(&self.account, held);
        self.budget.end_call();
        if attention == Attention::Asleep {
            self.wake.notify_one();
        }
    }

    /// Queues a frame that answers no registered call.
    pub(super) fn send(&self, frame: Vec<u8>) {
        self.push(&mut self.state.lock(), frame);
    }

    fn push(&self, state: &mut OutboxState, frame: Vec<u8>) {
        match state.fate {
            Fate::Alive => {}
            Fate::Doomed | Fate::Closed => return,
        }
        let bytes = frame.len();
        let unsent = self.unsent.fetch_add(bytes, Ordering::AcqRel) + bytes;
        self.budget.hold(&self.account, bytes);
        match state.chunks.back_mut() {
            Some(chunk) if chunk.len() + bytes <= REPLY_CHUNK_BYTES => {
                chunk.extend_from_slice(&frame);
            }
            Some(_) | None => state.chunks.push_back(frame),
        }
        if unsent > self.limits.max_unsent_bytes || self.budget.is_overrun() {
            state.fate = Fate::Doomed;
        }
    }

    /// Moves the queued answers to the empty queue of the task.
    pub(super) fn take(&self, into: &mut VecDeque<Vec<u8>>) {
        std::mem::swap(&mut self.state.lock().chunks, into);
    }

    /// Notes that the kernel accepted bytes.
    pub(super) fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.release(&self.account, bytes);
    }

    /// Charges or releases bytes of an incomplete frame.
    pub(super) fn rebook_input(&self, before: usize, now: usize) {
        if now > before {
            self.budget.hold(&self.account, now - before);
        } else if before > now {
            self.budget.release(&self.account, before - now);
        }
    }

    /// Prepares to wait. A task with blocked output of its own waits even if more answers are queued. Invariant: a push after `Asleep` was
    /// returned leaves a permit in `wake`.
    pub(super) fn doze(&self, own: &VecDeque<Vec<u8>>) -> Doze {
        let mut state = self.state.lock();
        match state.fate {
            Fate::Doomed | Fate::Closed => return Doze::Doomed,
            Fate::Alive => {}
        }
        if state.chunks.is_empty() || !own.is_empty() {
            state.attention = Attention::Asleep;
            Doze::Asleep
        } else {
            Doze::Busy
        }
    }

    /// Waits for the first change after [`ConnectionOutbox::doze`].
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Ends the wait, whatever its cause.
    pub(super) fn rouse(&self) {
        self.state.lock().attention = Attention::Awake;
    }

    /// Discards all unsent answers, now and later.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.fate = Fate::Closed;
        state.chunks.clear();
        let unsent = self.unsent.swap(0, Ordering::AcqRel);
        drop(state);
        self.budget.release(&self.account, unsent);
        self.note_unread(0);
    }
}

impl Drop for ConnectionOutbox {
    fn drop(&mut self) {
        if !self.is_known() {
            self.budget.end_stranger();
        }
    }
}
