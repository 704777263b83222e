//! Reasons for contacting a scheduler.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A wish to contact a scheduler, whether or not the worker needs work.
///
/// | | in a backoff | suspended | when the contact fails |
/// |---|---|---|---|
/// | `User` | proceeds, unless the scheduler asked for the wait | proceeds | is dropped |
/// | `Init` | waits | proceeds | stays |
/// | `Scheduler` | waits | waits | is dropped: its cause raises it again |
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wish {
    /// The scheduler's wish, which said when it wants the next contact at the latest (BOINC's `PROJECT_REQ`).
    Scheduler,
    /// The first contact with the scheduler (BOINC's `INIT`).
    Init,
    /// The wish of the worker's operator (BOINC's `USER_REQ`).
    User,
}

impl Wish {
    pub const ALL: [Wish; 3] = [Wish::Scheduler, Wish::Init, Wish::User];

    /// Returns whether the wish waits for all of `min_rpc_time`, and not only for the part that the scheduler asked for.
    pub fn heeds_backoff(self) -> bool {
        match self {
            Wish::User => false,
            Wish::Init | Wish::Scheduler => true,
        }
    }

    /// Returns whether the wish waits while the operator has suspended the scheduler.
    pub fn heeds_suspension(self) -> bool {
        match self {
            Wish::User | Wish::Init => false,
            Wish::Scheduler => true,
        }
    }

    /// Returns whether the wish stays after a failed contact. The cause of the others raises them again.
    pub fn outlives_failure(self) -> bool {
        match self {
            Wish::Init => true,
            Wish::User | Wish::Scheduler => false,
        }
    }
}

/// The reason for a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RpcReason {
    Wished(Wish),
    /// Completions must be reported (BOINC's `RESULTS_DUE`).
    ResultsDue,
    /// Processors would run out of work (BOINC's `NEED_WORK`).
    NeedWork,
}

impl RpcReason {
    /// Returns whether the worker contacts the scheduler of its own accord. Only then does a reply without work leave a need unmet.
    pub fn is_automatic(self) -> bool {
        match self {
            RpcReason::ResultsDue | RpcReason::NeedWork => true,
            RpcReason::Wished(_) => false,
        }
    }
}

/// Writes the reason as the answer to "Why was the scheduler contacted?".
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
