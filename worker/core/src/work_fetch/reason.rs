//! Why a scheduler is talked to.

use std::fmt;

/// Somebody wants a scheduler to be talked to, whether or not work is needed.
///
/// | | in a backoff | suspended | when the talk fails |
/// |---|---|---|---|
/// | `User` | goes all the same, unless the scheduler asked for the wait | goes all the same | is dropped |
/// | `Init` | waits | goes all the same | stays |
/// | `Scheduler` | waits | waits | is dropped: what raised it raises it again |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wish {
    /// The scheduler itself, which said when it wants to be talked to at the latest (`PROJECT_REQ`).
    Scheduler,
    /// It has never been talked to (`INIT`).
    Init,
    /// The worker's operator (`USER_REQ`).
    User,
}

impl Wish {
    pub const ALL: [Wish; 3] = [Wish::Scheduler, Wish::Init, Wish::User];

    /// Whether all of `min_rpc_time` holds it up, and not only the part that the scheduler asked for.
    pub fn heeds_backoff(self) -> bool {
        match self {
            Wish::User => false,
            Wish::Init | Wish::Scheduler => true,
        }
    }

    /// Whether it waits until the operator lets the scheduler have its way again.
    pub fn heeds_suspension(self) -> bool {
        match self {
            Wish::User | Wish::Init => false,
            Wish::Scheduler => true,
        }
    }

    /// Whether it is there still after it was tried in vain; else whatever raised it raises it again.
    pub fn outlives_failure(self) -> bool {
        match self {
            Wish::Init => true,
            Wish::User | Wish::Scheduler => false,
        }
    }
}

/// Why a scheduler is talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcReason {
    Wished(Wish),
    /// Tasks have ended and must be reported (`RESULTS_DUE`).
    ResultsDue,
    /// Processors would run out of work (`NEED_WORK`).
    NeedWork,
}

impl RpcReason {
    /// Whether nobody asked for it: only then is it the worker's own need that was not met when no work comes.
    pub fn is_automatic(self) -> bool {
        match self {
            RpcReason::ResultsDue | RpcReason::NeedWork => true,
            RpcReason::Wished(_) => false,
        }
    }
}

/// As the answer to "why was it talked to?".
impl fmt::Display for RpcReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RpcReason::Wished(Wish::User) => "requested by user",
            RpcReason::Wished(Wish::Init) => "first contact",
            RpcReason::Wished(Wish::Scheduler) => "requested by the scheduler",
            RpcReason::ResultsDue => "to report ended tasks",
            RpcReason::NeedWork => "to fetch work",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_wish_heeds() {
        let heeds = |wish: Wish| {
            (
                wish.heeds_backoff(),
                wish.heeds_suspension(),
                wish.outlives_failure(),
            )
        };
        assert_eq!(heeds(Wish::User), (false, false, false));
        assert_eq!(heeds(Wish::Init), (true, false, true));
        assert_eq!(heeds(Wish::Scheduler), (true, true, false));
    }

    #[test]
    fn a_stronger_wish_is_greater() {
        assert!(Wish::ALL.is_sorted());
        for wish in Wish::ALL {
            assert!(!RpcReason::Wished(wish).is_automatic());
            assert!(wish <= Wish::User);
        }
        for reason in [RpcReason::ResultsDue, RpcReason::NeedWork] {
            assert!(reason.is_automatic());
        }
    }
}
