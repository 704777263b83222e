//! Requests that enter a core, calls that leave it, and their outcomes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::SchedulerId;

/// A request that needs an answer. It enters in an event; its answer leaves in `Effect::Reply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A call to a peer. It leaves in `Effect::Call`; its outcome returns in `Event::CallCompleted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// The position of a durable record. The shell reports the last position that is synced to disk.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct RecordSeq(pub u64);

impl RecordSeq {
    pub fn next(self) -> Self {
        RecordSeq(self.0 + 1)
    }
}

/// The caller of a request. Authentication will add kinds; until then the address alone identifies a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A network peer without any proof of identity.
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

/// The reason of a worker's refusal: the optional code of `BistroWorkerException`. Every refusal promises that nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusalCode {
    /// The association is not HEALTHY, or the worker is ending it.
    Unhealthy,
    /// The call addresses another scheduler or worker instance.
    WrongId,
    /// The worker obeys this other scheduler instance: it is bound to that instance, or has met it and binds to none earlier.
    BoundTo(SchedulerId),
    /// The `runTask` is older than a `notifyIfTasksNotRunning` that was served.
    OldSequence,
    /// The task or the invocation is already known.
    Duplicate,
    /// The worker has no free capacity now.
    Busy,
    /// The worker drains or is shutting down.
    Draining,
    /// A refusal by a peer that gives no code.
    Unspecified,
}

/// The outcome of a call to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome<R> {
    /// The call happened, with this answer.
    Done(R),
    /// A declared exception: the call did not happen.
    Refused(RefusalCode, String),
    /// No byte of the request left: the call did not happen.
    NotSent(String),
    /// The call may have happened.
    Unknown(String),
}

impl<R> CallOutcome<R> {
    /// Returns the same outcome with a converted answer.
    pub fn map<S>(self, f: impl FnOnce(R) -> S) -> CallOutcome<S> {
        match self {
            CallOutcome::Done(reply) => CallOutcome::Done(f(reply)),
            CallOutcome::Refused(code, text) => CallOutcome::Refused(code, text),
            CallOutcome::NotSent(text) => CallOutcome::NotSent(text),
            CallOutcome::Unknown(text) => CallOutcome::Unknown(text),
        }
    }
}
