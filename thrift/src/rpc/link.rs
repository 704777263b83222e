//! One connection of a client: calls wait, leave together and are matched with their replies by sequence id.
//!
//! Invariant: bytes go to the kernel only under the lock, so that for each call it is exactly known whether any of its bytes
//! left. That is the difference between `NotSent` and `Unknown`.

mod state;

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

use super::limits::{FRAMES_PER_WRITE, Limits, OVERDUE_CHECK, Timeouts};
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

/// Why a connection ends whose peer leaves a frame half read.
const DOES_NOT_READ: &str = "the peer does not read";

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

/// Who hears of the end of a call. Told outside the lock, since a function may do anything.
enum Slot {
    /// A future, which watches the time itself.
    Future(oneshot::Sender<Ending>),
    /// A function. The link's task watches the time, which counts from `since`.
    Function { done: Done, since: Instant },
}

/// Takes the end of a call, on the task of its link: it must not block.
pub(super) type Done = Box<dyn FnOnce(Ending) + Send>;

struct Call {
    stage: Stage,
    kind: CallKind,
    slot: Slot,
}

/// Ends that are still to be told, when the lock is free.
type Told = Vec<(Slot, Ending)>;

fn tell(told: Told) {
    for (slot, ending) in told {
        slot.tell(ending);
    }
}

impl Slot {
    fn tell(self, ending: Ending) {
        match self {
            // The caller may have gone.
            Slot::Future(slot) => drop(slot.send(ending)),
            Slot::Function { done, since: _ } => done(ending),
        }
    }
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
    /// When the task looks for overdue calls with functions; `None` while there are none.
    check_at: Option<Instant>,
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
                check_at: None,
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
        (sequence, kind): (Sequence, CallKind),
        frame: Vec<u8>,
        not_after: Time,
    ) -> Result<oneshot::Receiver<Ending>, Rejected> {
        let (slot, receiver) = oneshot::channel();
        self.queue((sequence, kind), frame, not_after, || Slot::Future(slot))?;
        Ok(receiver)
    }

    /// As [`Link::submit`], for a function. It is given back with the frame if the call is not taken.
    pub(super) fn submit_then(
        &self,
        sequence: Sequence,
        frame: Vec<u8>,
        not_after: Time,
        done: Done,
    ) -> Result<(), (Rejected, Done)> {
        let mut done = Some(done);
        let slot = || Slot::Function {
            done: done.take().expect("Invariant: one call has one slot"),
            since: Instant::now(),
        };
        match self.queue((sequence, CallKind::Call), frame, not_after, slot) {
            Ok(()) => Ok(()),
            Err(rejected) => Err((
                rejected,
                done.expect("Invariant: a call that is not taken has no slot"),
            )),
        }
    }

    fn queue(
        &self,
        (sequence, kind): (Sequence, CallKind),
        frame: Vec<u8>,
        not_after: Time,
        slot: impl FnOnce() -> Slot,
    ) -> Result<(), Rejected> {
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
        let slot = slot();
        let mut wakes = state.queue.is_empty();
        if let Slot::Function { done: _, since } = &slot
            && state.check_at.is_none()
        {
            state.check_at = Some(*since + OVERDUE_CHECK);
            wakes = true;
        }
        state.queued_bytes += frame.len();
        state.queue.push_back(Waiting {
            sequence,
            frame,
            not_after,
        });
        let stage = Stage::Queued;
        state.calls.insert(sequence.0, Call { stage, kind, slot });
        drop(state);
        if wakes {
            // Otherwise the task is awake already or waits for the kernel.
            self.wake.notify_one();
        }
        Ok(())
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
                let told = state.close(DOES_NOT_READ, Leftovers::Fail);
                drop(state);
                tell(told);
                self.wake.notify_one();
                Overdue::Stuck
            }
            Stage::Sent(at) => Overdue::Sent(at),
        }
    }

    /// Ends the calls with functions whose time is over, and says when to look again.
    pub(super) fn end_overdue(&self, timeouts: &Timeouts) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let at = state.check_at?;
        if now < at {
            return Some(at);
        }
        let mut told = Told::new();
        let is_stuck = state.take_overdue(now, timeouts, &mut told);
        let is_watched = |call: &Call| matches!(call.slot, Slot::Function { .. });
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
        let told = self.state.lock().close(reason, Leftovers::Return);
        tell(told);
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
            call.slot.tell(ending);
        }
    }

    /// Notes that bytes arrived.
    pub(super) fn received(&self) {
        self.state.lock().last_received = Instant::now();
    }

    /// Writes what the kernel takes; `true` when everything is sent.
    pub(super) fn write(&self, stream: &TcpStream) -> io::Result<bool> {
        let told = self.state.lock().drop_outdated(Clock.now());
        tell(told);
        let mut told = Told::new();
        let written = self.write_all(stream, &mut told);
        tell(told);
        written
    }

    fn write_all(&self, stream: &TcpStream, told: &mut Told) -> io::Result<bool> {
        let mut state = self.state.lock();
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
            state.advance(written, told);
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
        let told = state.close(why, Leftovers::Return);
        drop(state);
        tell(told);
        Some(useless)
    }

    /// Waits until there may be something to write, or the link was closed by a caller.
    pub(super) async fn changed(&self) {
        self.wake.notified().await;
    }
}
