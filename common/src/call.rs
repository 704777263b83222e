//! Requests that enter a core, calls that leave it, and their outcomes.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::{CallOrigin, Identity, Role, Table, callers};
use crate::ids::{SchedulerId, Shard};
use crate::text::printable;

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

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// A network peer without any proof of identity, on a port that asks for none.
    Unauthenticated(SocketAddr),
    /// A network peer that may make no call but those of everybody.
    Stranger(Arc<Stranger>),
    /// A network peer that has proven who it is.
    Authenticated(Arc<Identity>),
    /// This process.
    Own,
}

/// A network peer that has not proven who it is, on a port that asks for proofs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub from: CallOrigin,
    /// Why it is one, and what to do.
    pub why: String,
}

impl Principal {
    pub fn stranger(from: impl Into<CallOrigin>, why: impl Into<String>) -> Self {
        let (from, why) = (from.into(), why.into());
        Principal::Stranger(Arc::new(Stranger { from, why }))
    }

    /// Errors if the caller may not make this call of a table. Permits calls that the table does not know: the service refuses them.
    pub fn check(&self, table: &Table, call: &str) -> Result<(), NotPermitted> {
        let Some(callers) = callers(table, call) else {
            return Ok(());
        };
        let role = match self {
            Principal::Unauthenticated(_) | Principal::Own => return Ok(()),
            Principal::Stranger(..) => None,
            Principal::Authenticated(identity) => Some(identity.role),
        };
        match callers.include(role) {
            true => Ok(()),
            false => Err(self.refusal(call, None)),
        }
    }

    /// Errors if the caller speaks for another shard than its own.
    pub fn check_shard(&self, call: &str, shard: &Shard) -> Result<(), NotPermitted> {
        match self {
            Principal::Unauthenticated(_) | Principal::Own => Ok(()),
            Principal::Authenticated(identity) if identity.speaks_for(shard) => Ok(()),
            Principal::Authenticated(_) | Principal::Stranger(..) => {
                Err(self.refusal(call, Some(shard)))
            }
        }
    }

    fn refusal(&self, call: &str, shard: Option<&Shard>) -> NotPermitted {
        NotPermitted {
            call: call.to_owned(),
            caller: self.clone(),
            shard: shard.cloned(),
        }
    }
}

/// The reason why a call is refused before anything reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPermitted {
    pub call: String,
    pub caller: Principal,
    /// The shard for which the caller may not speak.
    pub shard: Option<Shard>,
}

impl fmt::Display for NotPermitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shard) = &self.shard {
            let shard = printable(shard.as_str());
            return write!(
                f,
                "{} for the shard `{shard}` is not permitted to {}: its certificate is for another shard",
                self.call, self.caller
            );
        }
        match &self.caller {
            Principal::Stranger(stranger) => {
                write!(f, "{} is not permitted: {}", self.call, stranger.why)
            }
            Principal::Authenticated(identity) if identity.role == Role::Lapsed => write!(
                f,
                "{} is not permitted: the certificate of this worker has expired, and it may only renew it",
                self.call
            ),
            Principal::Authenticated(identity) => write!(
                f,
                "{} is not permitted to the role {}",
                self.call, identity.role
            ),
            Principal::Unauthenticated(_) | Principal::Own => {
                write!(f, "{} is not permitted", self.call)
            }
        }
    }
}

impl std::error::Error for NotPermitted {}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Unauthenticated(address) => write!(f, "{address}"),
            Principal::Stranger(stranger) => write!(f, "{}", stranger.from),
            Principal::Authenticated(identity) => write!(f, "{identity}"),
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
