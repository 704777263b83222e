//! A worker's own timers, as far as the scheduler can know them.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Time, Timeouts};

use super::Remote;

/// The timers that end a worker that receives nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnTimers {
    pub(crate) timeouts: Timeouts,
    /// No later heartbeat of the worker was answered, and no later healthcheck acknowledged.
    pub(crate) evidence_until: Time,
}

impl Remote {
    /// Returns the timers that the worker uses as long as it has not echoed a set of this scheduler: the timeouts of an earlier scheduler,
    /// and evidence from before the association, because the earlier scheduler was dead by then.
    pub(crate) fn timers_before_ours(&self) -> Option<OwnTimers> {
        (!self.has_heard_us).then(|| OwnTimers {
            timeouts: self.timeouts,
            // Invariant: a worker that has not echoed a set of this scheduler does not become HEALTHY, so its loss counts from when the
            // association began, or began again.
            evidence_until: self.model.became_unhealthy(),
        })
    }

    /// Returns the timers of a worker that may have evidence of its health up to now.
    pub(crate) fn timers_from(&self, now: Time) -> OwnTimers {
        OwnTimers {
            timeouts: self.timeouts,
            evidence_until: now,
        }
    }

    /// Returns how long the worker has not been HEALTHY, so that it need not assume the worst about heartbeats without an answer.
    pub(crate) fn not_healthy_for(&self, now: Time) -> Option<Duration> {
        let counts_for = self.model.not_healthy_for(now);
        match sabotage::on(Sabotage::HideHowLong) {
            true => counts_for.map(|_| Duration::ZERO),
            false => counts_for,
        }
    }
}
