//! The state of a request that is in flight or waits for its verdicts.

use std::time::Duration;

use brasserie_common::{ServiceAddress, Time, WorkDemand, WorkRequestSeq};

use super::super::members::Attempt;
use super::super::pair_backoff::SentRequest;
use super::super::types::{AssociationIndex, PerType};
use super::Request;

/// A request without final verdicts.
///
/// ```text
///   InFlight --the member did not serve--> Retry --the next is asked--> InFlight
///      |   ^
///      |   +------------ a second later -----------+
///      +---- the verdicts are not known yet ----> Pending --too long--> (as if the scheduler had not searched)
/// ```
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outstanding {
    pub seq: WorkRequestSeq,
    pub asked: SentRequest,
    pub demands: Vec<WorkDemand>,
    pub linger: Duration,
    pub since: Time,
    pub attempt: Attempt,
    pub phase: RequestPhase,
    /// Whether a task of the type has ended since the request.
    pub ended: PerType<bool>,
    /// Whether the request keeps the driver from starting another operation.
    pub holds_driver: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RequestPhase {
    InFlight,
    /// The request goes to another member at once.
    Retry,
    Pending {
        repeat_at: Time,
    },
}

impl Outstanding {
    pub fn request(&self, association: AssociationIndex, to: ServiceAddress) -> Request {
        Request {
            association,
            seq: self.seq,
            reason: self.asked.reason,
            to,
            demands: self.demands.clone(),
            linger: self.linger,
        }
    }

    pub fn due(&self, patience: Duration) -> Time {
        match self.phase {
            RequestPhase::InFlight => Time::NEVER,
            RequestPhase::Retry => Time::ZERO,
            RequestPhase::Pending { repeat_at } => repeat_at.min(self.since + patience),
        }
    }

    pub fn is_given_up(&self, now: Time, patience: Duration) -> bool {
        match self.phase {
            RequestPhase::InFlight | RequestPhase::Retry => false,
            RequestPhase::Pending { .. } => self.since + patience <= now,
        }
    }
}
