//! Where the answers of one connection wait to be written: filled from any thread, emptied by the connection's task.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::budget::{Account, Budget};
use super::limits::{CALL_OVERHEAD_BYTES, Limits, REPLY_CHUNK_BYTES};

/// Shared by a connection's task and the responders of its calls.
pub(super) struct Outbox {
    peer: SocketAddr,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    account: Account,
    state: Mutex<State>,
    /// Bytes of replies that the kernel has not taken, in `state` and in the hands of the task.
    unsent: AtomicUsize,
    calls: AtomicUsize,
    wake: Notify,
}

struct State {
    chunks: VecDeque<Vec<u8>>,
    attention: Attention,
    fate: Fate,
}

/// ```text
/// Awake <--> Asleep
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attention {
    /// The task will look at the outbox before it waits, so that answers need not wake it.
    Awake,
    /// The task waits and must be woken.
    Asleep,
}

/// ```text
/// Alive --too many unsent bytes--> Doomed
///   \------the task ends-------------\--------> Closed
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Answers are kept until they are sent.
    Alive,
    /// The peer does not read; the task will close the connection.
    Doomed,
    /// Nobody is there; answers are thrown away.
    Closed,
}

/// Whether the task may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doze {
    /// Nothing has come; the next answer wakes the task.
    Asleep,
    /// There are answers to take first.
    Busy,
    /// The peer must be given up.
    Doomed,
}

impl Outbox {
    pub(super) fn new(peer: SocketAddr, limits: Arc<Limits>, budget: Arc<Budget>) -> Self {
        Outbox {
            peer,
            limits,
            budget,
            account: Account::default(),
            state: Mutex::new(State {
                chunks: VecDeque::new(),
                attention: Attention::Awake,
                fate: Fate::Alive,
            }),
            unsent: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            wake: Notify::new(),
        }
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(super) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Calls that have no answer yet.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }

    /// Bytes of replies that the kernel has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Acquire)
    }

    /// Whether this connection may take in more bytes or another call.
    pub(super) fn has_room(&self) -> bool {
        self.budget.has_room(&self.account)
    }

    /// Registers a call and returns what it holds until [`Outbox::end_call`].
    pub(super) fn begin_call(&self, frame_bytes: usize) -> usize {
        let held = frame_bytes + CALL_OVERHEAD_BYTES;
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.budget.begin_call();
        self.budget.hold(&self.account, held);
        held
    }

    /// Takes the answer of a call, an empty one if nothing is to be sent.
    pub(super) fn end_call(&self, frame: Vec<u8>, held: usize) {
        let attention = {
            let mut state = self.state.lock();
            if !frame.is_empty() {
                self.push(&mut state, frame);
            }
            // Inside the lock, so that the task cannot see no calls and no replies in between.
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

    fn push(&self, state: &mut State, frame: Vec<u8>) {
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

    /// Moves what waits to the empty queue of the task.
    pub(super) fn take(&self, into: &mut VecDeque<Vec<u8>>) {
        std::mem::swap(&mut self.state.lock().chunks, into);
    }

    /// Notes that the kernel took bytes.
    pub(super) fn sent(&self, bytes: usize) {
        self.unsent.fetch_sub(bytes, Ordering::AcqRel);
        self.budget.release(&self.account, bytes);
    }

    /// Charges bytes of an unfinished frame, or gives them back.
    pub(super) fn rebook_input(&self, before: usize, now: usize) {
        if now > before {
            self.budget.hold(&self.account, now - before);
        } else if before > now {
            self.budget.release(&self.account, before - now);
        }
    }

    /// Prepares to wait; a task with blocked output of its own waits although more has come. Invariant: what is pushed after
    /// `Asleep` was returned leaves a permit in `wake`.
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

    /// Waits for the first change after [`Outbox::doze`].
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }

    /// Ends the wait, whatever ended it.
    pub(super) fn rouse(&self) {
        self.state.lock().attention = Attention::Awake;
    }

    /// Throws away what was not sent, now and later.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.fate = Fate::Closed;
        state.chunks.clear();
        let unsent = self.unsent.swap(0, Ordering::AcqRel);
        self.budget.release(&self.account, unsent);
    }
}
