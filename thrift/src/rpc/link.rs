//! One connection of a client. Calls wait, leave together and are matched with their replies by sequence id.
//!
//! Invariant: bytes go to the kernel only under the lock, so that for each call it is exactly known whether any of its bytes left. This
//! distinguishes `NotSent` from `Unknown`.

mod state;

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::Arc;

use brasserie_common::Time;
use brasserie_common_runtime::Clock;
use bytes::Bytes;
use parking_lot::Mutex;
use thrift::protocol::TSerializable;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::limits::{CallTimeouts, FRAMES_PER_WRITE, Limits, OVERDUE_CHECK};
use super::outcome::{CallResult, NotSent, Unknown, decode_reply};
use super::protocol::CallKind;
use super::stream::Stream;

/// The outcome of a call on its link.
#[derive(Debug)]
pub(super) enum CallEnding {
    /// The payload of the reply's frame.
    Reply(Bytes),
    /// The kernel has the whole frame of a oneway call.
    Written,
    /// The connection ended before the first byte. The frame is returned for another connection.
    Returned {
        frame: Vec<u8>,
        why: NotSent,
    },
    NotSent(NotSent),
    Unknown(Unknown),
}

impl CallEnding {
    /// Decodes the outcome of a call of `method` that waits for a reply.
    pub(super) fn into_result<R: TSerializable>(
        self,
        method: &'static str,
        limits: &Limits,
    ) -> CallResult<R> {
        match self {
            CallEnding::Reply(payload) => match decode_reply(&payload, method, limits) {
                Ok(result) => CallResult::Done(result),
                Err(reason) => CallResult::Unknown(reason),
            },
            CallEnding::Returned { why, .. } | CallEnding::NotSent(why) => CallResult::NotSent(why),
            CallEnding::Unknown(why) => CallResult::Unknown(why),
            // Only oneway calls end when they are written.
            CallEnding::Written => {
                CallResult::Unknown(Unknown::BadReply("there is none".to_owned()))
            }
        }
    }
}

/// The reason for closing a connection whose peer does not read the rest of a frame.
const DOES_NOT_READ: &str = "the peer does not read";

/// The sequence id of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sequence(pub(super) i32);

/// ```text
/// Queued --some bytes--> Leaving --all bytes--> Sent
///    \------------------all bytes--------------/
/// ```
#[derive(Clone, Copy, Debug)]
enum CallStage {
    /// The kernel has no byte.
    Queued,
    /// The kernel has some bytes.
    Leaving,
    /// The kernel has all bytes, since this time.
    Sent(Instant),
}

/// ```text
/// Open --a call timed out in silence--> Retired ----last call ended--> Closed
///  |\---a newer proof is wanted------> Superseded --last call ended--/
///  \----error, end of stream, idle----------------------------------/
/// ```
#[derive(Clone, Debug)]
enum LinkPhase {
    /// The link accepts calls.
    Open,
    /// The link waits for replies, but accepts no new calls, because the peer may be dead.
    Retired,
    /// The link waits for replies, but accepts no new calls: either side may have another proof now.
    Superseded,
    /// The link has ended, for this reason.
    Closed(String),
}

/// The receiver of a call's outcome. It is notified outside the lock, because a function may do anything.
pub(super) enum Slot {
    /// A future, which checks the time limits itself.
    Future(oneshot::Sender<CallEnding>),
    /// A function. The link's task checks the time limits, which count from `since`.
    Function { done: Done, since: Instant },
}

/// Receives the outcome of a call on the task of its link, so it must not block.
pub(super) type Done = Box<dyn FnOnce(CallEnding) + Send>;

struct LinkCall {
    stage: CallStage,
    kind: CallKind,
    slot: Slot,
}

/// Outcomes to deliver once the lock is released.
type Told = Vec<(Slot, CallEnding)>;

fn tell(told: Told) {
    for (slot, ending) in told {
        slot.tell(ending);
    }
}

impl Slot {
    /// Passes the outcome to the receiver.
    pub(super) fn tell(self, ending: CallEnding) {
        match self {
            // The caller may have gone.
            Slot::Future(slot) => drop(slot.send(ending)),
            Slot::Function { done, since: _ } => done(ending),
        }
    }
}

struct QueuedFrame {
    sequence: Sequence,
    frame: Vec<u8>,
    not_after: Time,
}

struct LinkState {
    phase: LinkPhase,
    queue: VecDeque<QueuedFrame>,
    /// Bytes of the queue's first frame that the kernel has.
    head_written: usize,
    queued_bytes: usize,
    calls: HashMap<i32, LinkCall>,
    /// The time of the next check for overdue calls with functions; `None` if there are no such calls.
    check_at: Option<Instant>,
    last_received: Instant,
    last_used: Instant,
}

/// The treatment of calls that have not begun to leave when their link closes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Leftovers {
    /// The connection was at fault, so the calls may try another one.
    Return,
    /// The authorities of the two sides differ. Another connection may show a newer certificate.
    ReturnToOther,
    /// The peer is at fault, so another connection would not help.
    Fail,
}

/// The state that callers and the connection's task share.
pub(super) struct Link {
    limits: Arc<Limits>,
    /// The version of the credentials with which it was opened.
    version: u64,
    state: Mutex<LinkState>,
    wake: Notify,
}

/// The stage of a call when its time for sending is over.
pub(super) enum Overdue {
    /// The call was removed from the queue and will never be sent.
    Withdrawn,
    /// Some of its bytes have left, and the link has been closed.
    Stuck,
    /// The call was sent at this time and waits for its reply.
    Sent(Instant),
    /// The call has ended; its slot has the outcome.
    Ended,
}

/// Why this side closes a connection that is not broken.
pub(super) enum Useless {
    /// No call uses it.
    Idle,
    /// The peer does not answer, or does not read.
    Unresponsive(String),
}

/// Why a call was not accepted.
pub(super) enum Rejected {
    /// The link is closed or closing, so the caller may send the frame over another one.
    Closed(Vec<u8>),
    /// Too many calls or bytes are queued.
    Backlogged,
}

impl Link {
    pub(super) fn new(limits: Arc<Limits>, version: u64) -> Self {
        let now = Instant::now();
        Link {
            limits,
            version,
            state: Mutex::new(LinkState {
                phase: LinkPhase::Open,
                queue: VecDeque::new(),
                head_written: 0,
                queued_bytes: 0,
                calls: HashMap::new(),
                check_at: None,
                last_received: now,
                last_used: now,
            }),
            wake: Notify::new(),
        }
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state.lock().phase, LinkPhase::Open)
    }

    /// Queues a frame. It does not begin to leave after `not_after`. Returns the slot and the reason if the call is not accepted.
    pub(super) fn submit(
        &self,
        (sequence, kind): (Sequence, CallKind),
        frame: Vec<u8>,
        not_after: Time,
        slot: Slot,
    ) -> Result<(), (Rejected, Slot)> {
        let mut state = self.state.lock();
        match state.phase {
            LinkPhase::Open => {}
            LinkPhase::Retired | LinkPhase::Superseded | LinkPhase::Closed(_) => {
                return Err((Rejected::Closed(frame), slot));
            }
        }
        if state.calls.len() >= self.limits.max_client_calls
            || state.queued_bytes + frame.len() > self.limits.max_client_unsent_bytes
            // Ids wrap after 2^31 calls, and an id must never stand for two calls.
            || state.calls.contains_key(&sequence.0)
        {
            return Err((Rejected::Backlogged, slot));
        }
        let mut wakes = state.queue.is_empty();
        if let Slot::Function { done: _, since } = &slot
            && state.check_at.is_none()
        {
            state.check_at = Some(*since + OVERDUE_CHECK);
            wakes = true;
        }
        state.queued_bytes += frame.len();
        state.queue.push_back(QueuedFrame {
            sequence,
            frame,
            not_after,
        });
        let stage = CallStage::Queued;
        state
            .calls
            .insert(sequence.0, LinkCall { stage, kind, slot });
        drop(state);
        if wakes {
            // Otherwise the task is awake or waits for the kernel.
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Ends a call whose caller has gone. The call is withdrawn unless it has begun to leave.
    pub(super) fn forget(&self, sequence: Sequence) {
        let mut state = self.state.lock();
        state.withdraw(sequence);
        state.calls.remove(&sequence.0);
        match state.phase {
            LinkPhase::Retired | LinkPhase::Superseded => self.wake.notify_one(),
            LinkPhase::Open | LinkPhase::Closed(_) => {}
        }
    }

    /// Decides about a call whose time for sending is over.
    pub(super) fn overdue(&self, sequence: Sequence) -> Overdue {
        let mut state = self.state.lock();
        let Some(call) = state.calls.get(&sequence.0) else {
            return Overdue::Ended;
        };
        match call.stage {
            CallStage::Queued => {
                state.withdraw(sequence);
                state.calls.remove(&sequence.0);
                Overdue::Withdrawn
            }
            CallStage::Leaving => {
                state.calls.remove(&sequence.0);
                // The rest of this frame blocks all others, and the stream cannot skip it.
                let told = state.close(DOES_NOT_READ, Leftovers::Fail);
                drop(state);
                tell(told);
                self.wake.notify_one();
                Overdue::Stuck
            }
            CallStage::Sent(at) => Overdue::Sent(at),
        }
    }

    /// Ends the overdue calls with functions, and returns the time of the next check.
    pub(super) fn end_overdue(&self, timeouts: &CallTimeouts) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let at = state.check_at?;
        if now < at {
            return Some(at);
        }
        let mut told = Told::new();
        let is_stuck = state.take_overdue(now, timeouts, &mut told);
        let is_watched = |call: &LinkCall| matches!(call.slot, Slot::Function { .. });
        let still = state.calls.values().any(is_watched);
        state.check_at = still.then(|| now + OVERDUE_CHECK);
        if is_stuck {
            told.extend(state.close(DOES_NOT_READ, Leftovers::Fail));
        }
        let next = state.check_at;
        drop(state);
        tell(told);
        next
    }

    /// Ends a call without a timely reply. If nothing else arrived since the call was sent, the peer may have vanished silently, so the
    /// next call uses a new connection.
    pub(super) fn unanswered(&self, sequence: Sequence, sent: Instant) {
        let mut state = self.state.lock();
        state.calls.remove(&sequence.0);
        if state.last_received < sent && matches!(state.phase, LinkPhase::Open) {
            state.phase = LinkPhase::Retired;
        }
        self.wake.notify_one();
    }

    /// Ends every call.
    pub(super) fn close(&self, reason: &str, leftovers: Leftovers) {
        let told = self.state.lock().close(reason, leftovers);
        tell(told);
    }

    /// Accepts no more calls, and closes once those that it has are answered.
    pub(super) fn supersede(&self) {
        let mut state = self.state.lock();
        match state.phase {
            LinkPhase::Open => state.phase = LinkPhase::Superseded,
            LinkPhase::Retired | LinkPhase::Superseded | LinkPhase::Closed(_) => return,
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Delivers a reply to its call. Discards a late reply to an abandoned call.
    pub(super) fn deliver(&self, sequence: Sequence, payload: Bytes) {
        let call = {
            let mut state = self.state.lock();
            state.withdraw(sequence);
            state.calls.remove(&sequence.0)
        };
        if let Some(call) = call {
            let ending = match call.stage {
                CallStage::Sent(_) => CallEnding::Reply(payload),
                CallStage::Queued => CallEnding::NotSent(NotSent::ConnectionLost(
                    "the peer answered a call that this program has not sent".to_owned(),
                )),
                CallStage::Leaving => CallEnding::Unknown(Unknown::BadReply(
                    "it came before the whole call was sent".to_owned(),
                )),
            };
            call.slot.tell(ending);
        }
    }

    /// Notes that bytes arrived.
    pub(super) fn received(&self) {
        self.state.lock().last_received = Instant::now();
    }

    /// Writes as much as the kernel accepts. Returns `true` when everything is sent.
    pub(super) fn write(&self, stream: &mut Stream) -> io::Result<bool> {
        let mut state = self.state.lock();
        let mut told = state.drop_outdated(Clock.now());
        let written = loop {
            if state.queue.is_empty() {
                break Ok(true);
            }
            let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
            let mut count = 0;
            let mut skip = state.head_written;
            for (slice, waiting) in slices.iter_mut().zip(&state.queue) {
                *slice = IoSlice::new(&waiting.frame[skip..]);
                skip = 0;
                count += 1;
            }
            match stream.try_write_vectored(&slices[..count]) {
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => state.advance(written, &mut told),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(false),
                Err(error) => break Err(error),
            }
        };
        drop(state);
        tell(told);
        written
    }

    /// Returns the moment at which [`Link::end_if_useless`] would close an unused link.
    pub(super) fn idle_at(&self) -> Instant {
        self.state.lock().last_used + self.limits.client_idle_timeout
    }

    /// Closes the link if it is unused or useless. Returns the reason if the link is closed.
    pub(super) fn end_if_useless(&self) -> Option<Useless> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let unused = state.calls.is_empty() && state.queue.is_empty();
        let (why, useless) = match &state.phase {
            // A caller with a stuck call closed the link. Every other reason to close a link ends its task.
            LinkPhase::Closed(reason) => return Some(Useless::Unresponsive(reason.clone())),
            LinkPhase::Retired if unused => {
                let why = "the peer did not answer";
                (why, Useless::Unresponsive(why.to_owned()))
            }
            LinkPhase::Superseded if unused => ("another proof is wanted", Useless::Idle),
            LinkPhase::Retired | LinkPhase::Superseded => {
                state.last_used = now;
                return None;
            }
            LinkPhase::Open => {
                if now < state.last_used + self.limits.client_idle_timeout {
                    return None;
                }
                if !unused {
                    state.last_used = now;
                    return None;
                }
                ("idle", Useless::Idle)
            }
        };
        let told = state.close(why, Leftovers::Return);
        drop(state);
        tell(told);
        Some(useless)
    }

    /// Waits until there may be something to write, or a caller closed the link.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }
}
