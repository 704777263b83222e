//! Requests that enter a core, calls that leave it, and their outcomes.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::{
    ADMINS, CallOrigin, Callers, Identity, Role, SCHEDULER_CALLS, ShardLabel, Table, TokenNumber,
    WORKER_CALLS, callers,
};
use crate::ids::{SchedulerId, Shard};
use crate::text::printable;
use crate::time::WallTime;

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
    /// Whether its calls travel in plain text, so that it may make none with a secret.
    pub is_plain: bool,
    /// The shard of the certificate that it has shown, which is of the cluster and refused.
    pub shard: Option<ShardLabel>,
    /// The token of that certificate.
    pub token: Option<TokenNumber>,
}

impl Stranger {
    fn new(from: impl Into<CallOrigin>, why: impl Into<String>) -> Self {
        Stranger {
            from: from.into(),
            why: why.into(),
            is_plain: false,
            shard: None,
            token: None,
        }
    }
}

impl Principal {
    pub fn stranger(from: impl Into<CallOrigin>, why: impl Into<String>) -> Self {
        Principal::Stranger(Arc::new(Stranger::new(from, why)))
    }

    /// Returns a stranger whose calls travel in plain text.
    pub fn plain_stranger(from: impl Into<CallOrigin>, why: impl Into<String>) -> Self {
        Principal::Stranger(Arc::new(Stranger {
            is_plain: true,
            ..Stranger::new(from, why)
        }))
    }

    /// Returns the stranger whose certificate of the cluster, for this shard or by this token, is refused.
    pub fn refused_certificate(
        from: impl Into<CallOrigin>,
        why: impl Into<String>,
        (shard, token): (Option<ShardLabel>, Option<TokenNumber>),
    ) -> Self {
        Principal::Stranger(Arc::new(Stranger {
            shard,
            token,
            ..Stranger::new(from, why)
        }))
    }

    /// Returns the identity that the caller has proven; `None` if it has proven none, or is this process.
    pub fn identity(&self) -> Option<&Identity> {
        match self {
            Principal::Authenticated(identity) => Some(identity),
            Principal::Unauthenticated(_) | Principal::Stranger(_) | Principal::Own => None,
        }
    }

    /// Returns the stranger that the caller is once its identity has ended; `None` before that.
    pub fn expired(&self, now: WallTime) -> Option<Self> {
        let identity = self.identity()?;
        let why = "the token or certificate of the caller has expired by the clock of this program's machine. If that clock is right, ask an \
                   administrator for a new token: brasserie token create --role ROLE";
        let until = identity.until?;
        (until <= now).then(|| Principal::stranger(identity.from.clone(), why))
    }

    /// Errors if the caller may not make this call of a table. On a port that asks for proofs, nobody may make a call that the table does
    /// not know.
    pub fn check(&self, table: &Table, call: &str) -> Result<(), NotPermitted> {
        let callers = callers(table, call);
        let is_permitted = match self {
            Principal::Unauthenticated(_) | Principal::Own => true,
            Principal::Stranger(stranger) => match callers {
                Some(Callers::Anyone) => true,
                Some(Callers::AnyoneInPrivate) => !stranger.is_plain,
                Some(Callers::Only(_)) | None => false,
            },
            Principal::Authenticated(identity) => {
                callers.is_some_and(|callers| callers.include(Some(identity.role)))
            }
        };
        match is_permitted {
            true => Ok(()),
            false => Err(self.refusal(call, None)),
        }
    }

    /// Errors if the call is for administrators alone, and the caller has proven nothing. Such calls need a proof also where a flag spares
    /// callers all other proofs, because their effects outlive the flag.
    pub fn check_proven(&self, table: &Table, call: &str) -> Result<(), NotPermitted> {
        match self {
            Principal::Unauthenticated(_) if callers(table, call) == Some(ADMINS) => {
                Err(self.refusal(call, None))
            }
            Principal::Unauthenticated(_)
            | Principal::Stranger(_)
            | Principal::Authenticated(_)
            | Principal::Own => Ok(()),
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

/// Returns the role of people with the fewest rights that may make a call; `None` if people may not.
fn least_role(call: &str) -> Option<Role> {
    let people = [Role::Viewer, Role::Submitter, Role::Operator, Role::Admin];
    let tables = [SCHEDULER_CALLS, WORKER_CALLS].into_iter();
    let allowed = tables.filter_map(|table| callers(table, call)).next()?;
    people.into_iter().find(|role| allowed.include(Some(*role)))
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
            Principal::Authenticated(identity) => {
                let role = identity.role;
                write!(f, "{} is not permitted to the role {role}", self.call)?;
                if let Some(shard) = &identity.shard {
                    write!(f, " of the shard `{shard}`")?;
                }
                match least_role(&self.call) {
                    Some(least) => write!(
                        f,
                        ", but to {least}. Ask an administrator for a token of that role"
                    ),
                    None => Ok(()),
                }
            }
            Principal::Unauthenticated(_) => write!(
                f,
                "{} is not permitted without a proof. Show the token of an administrator, or call at the local socket of the scheduler",
                self.call
            ),
            Principal::Own => write!(f, "{} is not permitted", self.call),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{IdentityProof, SCHEDULER_CALLS, WORKER_CALLS};

    fn at() -> SocketAddr {
        SocketAddr::from(([10, 0, 0, 1], 1))
    }

    fn person(role: Role, until: Option<WallTime>) -> Principal {
        let identity = Identity::new(role, IdentityProof::Token, at());
        Principal::Authenticated(Arc::new(Identity { until, ..identity }))
    }

    #[test]
    fn a_call_that_no_table_knows_is_for_nobody_with_a_name() {
        for table in [SCHEDULER_CALLS, WORKER_CALLS] {
            let check = |from: &Principal| from.check(table, "noSuchCall").is_ok();
            assert!(!check(&person(Role::Admin, None)));
            assert!(!check(&Principal::stranger(at(), "unknown")));
            // Where nobody asks for proofs, the service says that there is no such call.
            assert!(check(&Principal::Unauthenticated(at())));
        }
    }

    #[test]
    fn a_refusal_names_the_role_that_may() {
        let viewer = person(Role::Viewer, None);
        let why = |call| viewer.refusal(call, None).to_string();
        let told = "pauseJob is not permitted to the role viewer, but to submitter. Ask an administrator for a token of that role";
        assert_eq!(why("pauseJob"), told);
        assert!(why("createToken").contains("but to admin. Ask"));
        assert!(why("processHeartbeat").ends_with("to the role viewer"));
        let shard = Shard::try_from("w1").expect("a shard");
        let worker = Identity {
            shard: Some(ShardLabel::of(&shard)),
            ..Identity::new(Role::Worker, IdentityProof::Certificate, at())
        };
        let worker = Principal::Authenticated(Arc::new(worker));
        let told = worker.refusal("runTask", None).to_string();
        assert_eq!(
            told,
            "runTask is not permitted to the role worker of the shard `w1`"
        );
    }

    #[test]
    fn secrets_are_not_accepted_in_plain_text() {
        let (plain, private) = (
            Principal::plain_stranger(at(), "plain"),
            Principal::stranger(at(), "inside TLS"),
        );
        for call in ["join", "authenticate"] {
            assert!(plain.check(SCHEDULER_CALLS, call).is_err(), "{call}");
            assert_eq!(private.check(SCHEDULER_CALLS, call), Ok(()));
        }
        for stranger in [plain, private] {
            assert_eq!(stranger.check(SCHEDULER_CALLS, "getStatus"), Ok(()));
            assert!(stranger.check(SCHEDULER_CALLS, "getJobs").is_err());
        }
    }

    #[test]
    fn calls_of_administrators_need_a_proof_also_where_others_need_none() {
        let anyone = Principal::Unauthenticated(at());
        for call in ["createToken", "revokeToken", "rotateAuthority"] {
            let refused = anyone.check_proven(SCHEDULER_CALLS, call);
            let why = refused.expect_err("no proof").to_string();
            assert!(why.contains("the token of an administrator"), "{why}");
            let admin = person(Role::Admin, None);
            assert_eq!(admin.check_proven(SCHEDULER_CALLS, call), Ok(()));
        }
        assert_eq!(anyone.check_proven(SCHEDULER_CALLS, "saveJob"), Ok(()));
    }

    #[test]
    fn an_identity_ends_with_its_token() {
        let end = WallTime::from_secs(100);
        let viewer = person(Role::Viewer, Some(end));
        assert_eq!(viewer.expired(WallTime::from_secs(99)), None);
        let stranger = viewer.expired(end).expect("it has ended");
        let refused = stranger.check(SCHEDULER_CALLS, "getJobs");
        let why = refused.expect_err("a stranger").to_string();
        assert!(why.contains("has expired by the clock"), "{why}");
        assert!(!why.contains("  "), "{why}");
        assert_eq!(person(Role::Viewer, None).expired(end), None);
    }
}
