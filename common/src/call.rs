//! Requests that enter a core, calls that leave it, and what can become of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::SchedulerId;

/// A request that wants an answer: enters in an event, leaves in `Effect::Reply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A call to a peer: leaves in `Effect::Call`, comes back in `Event::CallCompleted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Position of a durable record; the shell reports how far the log is synced to disk.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct RecordSeq(pub u64);

impl RecordSeq {
    pub fn next(self) -> Self {
        RecordSeq(self.0 + 1)
    }
}

/// Who asks. Authentication will add kinds; until then a peer is known by its address alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A network peer that proved nothing.
    Unauthenticated(std::net::SocketAddr),
    /// This process.
    Own,
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Unauthenticated(address) => write!(f, "{address}"),
            Principal::Own => f.write_str("this process"),
        }
    }
}

/// Why a worker refused: the optional code of `BistroWorkerException`. Every refusal promises that nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalCode {
    /// The association is not HEALTHY, or the worker is ending it.
    Unhealthy,
    /// Scheduler or worker instance is not the one that is meant.
    WrongId,
    /// The worker obeys this other scheduler instance: it is bound to it, or has met it and will be bound to none earlier.
    BoundTo(SchedulerId),
    /// `runTask` older than a `notifyIfTasksNotRunning` that was served.
    OldSequence,
    /// The task or the invocation is already known.
    Duplicate,
    /// No room now.
    Busy,
    /// The worker is on its way out.
    Draining,
    /// A refusal by a peer that gives no code.
    Unspecified,
}

/// What became of a call to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome<R> {
    /// It happened, and this is the answer.
    Done(R),
    /// A declared exception: it did not happen.
    Refused(RefusalCode, String),
    /// No byte of the request left: it did not happen.
    NotSent(String),
    /// It may have happened.
    Unknown(String),
}

impl<R> CallOutcome<R> {
    /// The same outcome with another answer.
    pub fn map<S>(self, f: impl FnOnce(R) -> S) -> CallOutcome<S> {
        match self {
            CallOutcome::Done(reply) => CallOutcome::Done(f(reply)),
            CallOutcome::Refused(code, text) => CallOutcome::Refused(code, text),
            CallOutcome::NotSent(text) => CallOutcome::NotSent(text),
            CallOutcome::Unknown(text) => CallOutcome::Unknown(text),
        }
    }
}
