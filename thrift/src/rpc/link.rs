//! One connection of a client: calls wait, leave together and are matched with their replies by sequence id.
//!
//! Invariant: bytes go to the kernel only under the lock, so that for each call it is exactly known whether any of its bytes
//! left. That is the difference between `NotSent` and `Unknown`.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::sync::Arc;

use brasserie_common::Time;
use brasserie_common_runtime::Clock;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::limits::{FRAMES_PER_WRITE, Limits};
use super::outcome::{NotSent, Unknown};
use super::responder::CallKind;

/// How a call left its link.
#[derive(Debug)]
pub(super) enum Ending {
    /// The payload of the reply's frame.
    Reply(Bytes),
    /// A oneway call is with the kernel.
    Written,
    /// The connection ended before the first byte; the frame comes back for another connection.
    Returned {
        frame: Vec<u8>,
        why: NotSent,
    },
    NotSent(NotSent),
    Unknown(Unknown),
}

/// A call on its way, by its sequence id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sequence(pub(super) i32);

/// ```text
/// Queued --some bytes--> Leaving --all bytes--> Sent
///    \------------------all bytes--------------/
/// ```
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// No byte is with the kernel.
    Queued,
    /// Some bytes are with the kernel.
    Leaving,
    /// All bytes are with the kernel, since then.
    Sent(Instant),
}

/// ```text
/// Open --a call timed out in silence--> Retired --last call ended--> Closed
///   \--error, end of stream, idle-----------------------------------/
/// ```
#[derive(Clone, Debug)]
enum Phase {
    /// Takes calls.
    Open,
    /// Waits for replies, but takes no new calls: the peer may be dead.
    Retired,
    /// Ended, for this reason.
    Closed(String),
}

struct Call {
    stage: Stage,
    kind: CallKind,
    slot: oneshot::Sender<Ending>,
}

struct Waiting {
    sequence: Sequence,
    frame: Vec<u8>,
    not_after: Time,
}

struct State {
    phase: Phase,
    queue: VecDeque<Waiting>,
    /// Bytes of the queue's first frame that are with the kernel.
    head_written: usize,
    queued_bytes: usize,
    calls: HashMap<i32, Call>,
    last_received: Instant,
    last_used: Instant,
}

/// What becomes of calls that have not begun to leave when their link closes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leftovers {
    /// The connection was at fault: they may try another one.
    Return,
    /// The peer is: another connection would fare no better.
    Fail,
}

/// The state that callers and the connection's task share.
pub(super) struct Link {
    limits: Arc<Limits>,
    state: Mutex<State>,
    wake: Notify,
}

/// Where a call is when its time to be sent is over.
pub(super) enum Overdue {
    /// It was taken out of the queue and will never be sent.
    Withdrawn,
    /// Some of its bytes have left; the link has been closed.
    Stuck,
    /// It was sent at that moment and waits for its reply.
    Sent(Instant),
    /// It has ended; its slot says how.
    Ended,
}

/// Why this side gives up a connection that has not broken.
pub(super) enum Useless {
    /// Nobody uses it.
    Idle,
    /// The peer does not answer, or does not read.
    Unresponsive(String),
}

/// Why a call was not taken; it keeps its frame.
pub(super) enum Rejected {
    /// The link is closed or closing: try another one.
    Closed(Vec<u8>),
    /// Too much is waiting.
    Backlogged,
}

impl Link {
    pub(super) fn new(limits: Arc<Limits>) -> Self {
        let now = Instant::now();
        Link {
            limits,
            state: Mutex::new(State {
                phase: Phase::Open,
                queue: VecDeque::new(),
                head_written: 0,
                queued_bytes: 0,
                calls: HashMap::new(),
                last_received: now,
                last_used: now,
            }),
            wake: Notify::new(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Open)
    }

    /// Queues a frame, none of which leaves after `not_after`, unless it has begun to.
    pub(super) fn submit(
        &self,
        sequence: Sequence,
        kind: CallKind,
        frame: Vec<u8>,
        not_after: Time,
    ) -> Result<oneshot::Receiver<Ending>, Rejected> {
        let (slot, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        match state.phase {
            Phase::Open => {}
            Phase::Retired | Phase::Closed(_) => return Err(Rejected::Closed(frame)),
        }
        if state.calls.len() >= self.limits.max_client_calls
            || state.queued_bytes + frame.len() > self.limits.max_client_unsent_bytes
            // After 2^31 calls; an id must never stand for two.
            || state.calls.contains_key(&sequence.0)
        {
            return Err(Rejected::Backlogged);
        }
        let was_idle = state.queue.is_empty();
        state.queued_bytes += frame.len();
        state.queue.push_back(Waiting {
            sequence,
            frame,
            not_after,
        });
        let stage = Stage::Queued;
        state.calls.insert(sequence.0, Call { stage, kind, slot });
        drop(state);
        if was_idle {
            // Otherwise the task is awake already or waits for the kernel.
            self.wake.notify_one();
        }
        Ok(receiver)
    }

    /// Ends a call whose caller has gone: nothing more of it is sent, unless it has begun to leave.
    pub(super) fn forget(&self, sequence: Sequence) {
        let mut state = self.state.lock();
        state.withdraw(sequence);
        state.calls.remove(&sequence.0);
        match state.phase {
            Phase::Retired => self.wake.notify_one(),
            Phase::Open | Phase::Closed(_) => {}
        }
    }

    /// Decides about a call whose time to be sent is over.
    pub(super) fn overdue(&self, sequence: Sequence) -> Overdue {
        let mut state = self.state.lock();
        let Some(call) = state.calls.get(&sequence.0) else {
            return Overdue::Ended;
        };
        match call.stage {
            Stage::Queued => {
                state.withdraw(sequence);
                state.calls.remove(&sequence.0);
                Overdue::Withdrawn
            }
            Stage::Leaving => {
                state.calls.remove(&sequence.0);
                // The rest of this frame blocks all others, and the stream cannot skip it.
                state.close("the peer does not read", Leftovers::Fail);
                self.wake.notify_one();
                Overdue::Stuck
            }
            Stage::Sent(at) => Overdue::Sent(at),
        }
    }

    /// A reply did not come in time. If nothing else came either since the call was sent, the peer may be gone without a
    /// word, and the next call had better find out with a new connection.
    pub(super) fn unanswered(&self, sequence: Sequence, sent: Instant) {
        let mut state = self.state.lock();
        state.calls.remove(&sequence.0);
        if state.last_received < sent && matches!(state.phase, Phase::Open) {
            state.phase = Phase::Retired;
        }
        self.wake.notify_one();
    }

    /// Ends every call.
    pub(super) fn close(&self, reason: &str) {
        self.state.lock().close(reason, Leftovers::Return);
    }

    /// Hands a reply to its call. Late replies to calls that have given up go nowhere.
    pub(super) fn deliver(&self, sequence: Sequence, payload: Bytes) {
        let call = {
            let mut state = self.state.lock();
            state.withdraw(sequence);
            state.calls.remove(&sequence.0)
        };
        if let Some(call) = call {
            let ending = match call.stage {
                Stage::Sent(_) => Ending::Reply(payload),
                Stage::Queued => Ending::NotSent(NotSent::ConnectionLost(
                    "the peer answered a call that it had not been sent".to_owned(),
                )),
                Stage::Leaving => Ending::Unknown(Unknown::BadReply(
                    "it came before the call was sent completely".to_owned(),
                )),
            };
            // The caller may have gone.
            drop(call.slot.send(ending));
        }
    }

    /// Notes that bytes arrived.
    pub(super) fn received(&self) {
        self.state.lock().last_received = Instant::now();
    }

    /// Writes what the kernel takes; `true` when everything is sent.
    pub(super) fn write(&self, stream: &TcpStream) -> io::Result<bool> {
        let mut state = self.state.lock();
        state.drop_outdated(Clock.now());
        while !state.queue.is_empty() {
            let written = {
                let mut slices = [IoSlice::new(&[]); FRAMES_PER_WRITE];
                let mut count = 0;
                let mut skip = state.head_written;
                for (slice, waiting) in slices.iter_mut().zip(&state.queue) {
                    *slice = IoSlice::new(&waiting.frame[skip..]);
                    skip = 0;
                    count += 1;
                }
                match stream.try_write_vectored(&slices[..count]) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            };
            state.advance(written);
        }
        Ok(true)
    }

    /// The moment at which [`Link::end_if_useless`] would close the link if nothing happens.
    pub(super) fn idle_at(&self) -> Instant {
        self.state.lock().last_used + self.limits.client_idle_timeout
    }

    /// Closes the link if nobody needs it any more, or it is of no use; says why it is closed, if it is.
    pub(super) fn end_if_useless(&self) -> Option<Useless> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let unused = state.calls.is_empty() && state.queue.is_empty();
        let (why, useless) = match &state.phase {
            // By a caller whose call is stuck: whatever else closes a link has ended its task.
            Phase::Closed(reason) => return Some(Useless::Unresponsive(reason.clone())),
            Phase::Retired if unused => {
                let why = "the peer did not answer";
                (why, Useless::Unresponsive(why.to_owned()))
            }
            Phase::Retired => {
                state.last_used = now;
                return None;
            }
            Phase::Open => {
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
        state.close(why, Leftovers::Return);
        Some(useless)
    }

    /// Waits until there may be something to write, or the link was closed by a caller.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl State {
    /// Takes a call out of the queue if none of its bytes has left.
    fn withdraw(&mut self, sequence: Sequence) {
        let Some(call) = self.calls.get(&sequence.0) else {
            return;
        };
        match call.stage {
            Stage::Queued => {}
            Stage::Leaving | Stage::Sent(_) => return,
        }
        let position = self
            .queue
            .iter()
            .position(|waiting| waiting.sequence == sequence);
        if let Some(waiting) = position.and_then(|position| self.queue.remove(position)) {
            self.queued_bytes -= waiting.frame.len();
        }
    }

    /// Ends what waited past its time. The timers of the runtime do not count suspend, so a call that they think is fresh may be
    /// hours old.
    fn drop_outdated(&mut self, now: Time) {
        let outdated: Vec<Sequence> = self
            .queue
            .iter()
            .filter(|waiting| waiting.not_after < now)
            .map(|waiting| waiting.sequence)
            .collect();
        for sequence in outdated {
            let untouched = self
                .calls
                .get(&sequence.0)
                .is_some_and(|call| matches!(call.stage, Stage::Queued));
            if untouched {
                self.withdraw(sequence);
                if let Some(call) = self.calls.remove(&sequence.0) {
                    drop(call.slot.send(Ending::NotSent(NotSent::TooLate)));
                }
            }
        }
    }

    /// Notes that the kernel took bytes from the front of the queue.
    fn advance(&mut self, written: usize) {
        let now = Instant::now();
        self.last_used = now;
        let mut left = written + self.head_written;
        while let Some(head) = self.queue.front() {
            let sequence = head.sequence;
            let length = head.frame.len();
            if left < length {
                self.head_written = left;
                if left > 0
                    && let Some(call) = self.calls.get_mut(&sequence.0)
                {
                    call.stage = Stage::Leaving;
                }
                return;
            }
            left -= length;
            self.queued_bytes -= length;
            self.queue.pop_front();
            self.sent(sequence, now);
        }
        self.head_written = 0;
    }

    fn sent(&mut self, sequence: Sequence, now: Instant) {
        let Some(call) = self.calls.get_mut(&sequence.0) else {
            // Its caller has gone while it was leaving.
            return;
        };
        call.stage = Stage::Sent(now);
        match call.kind {
            CallKind::Call => {}
            CallKind::Oneway => {
                if let Some(call) = self.calls.remove(&sequence.0) {
                    drop(call.slot.send(Ending::Written));
                }
            }
        }
    }

    /// Ends every call; what has not begun to leave is not sent here any more.
    fn close(&mut self, reason: &str, leftovers: Leftovers) {
        if let Phase::Closed(_) = self.phase {
            return;
        }
        self.phase = Phase::Closed(reason.to_owned());
        let queue = std::mem::take(&mut self.queue);
        self.queued_bytes = 0;
        for waiting in queue {
            let untouched = self
                .calls
                .get(&waiting.sequence.0)
                .is_some_and(|call| matches!(call.stage, Stage::Queued));
            if untouched && let Some(call) = self.calls.remove(&waiting.sequence.0) {
                let why = NotSent::ConnectionLost(reason.to_owned());
                let frame = waiting.frame;
                drop(call.slot.send(match leftovers {
                    Leftovers::Return => Ending::Returned { frame, why },
                    Leftovers::Fail => Ending::NotSent(why),
                }));
            }
        }
        for (_, call) in self.calls.drain() {
            let why = Unknown::ConnectionLost(reason.to_owned());
            drop(call.slot.send(Ending::Unknown(why)));
        }
    }
}
