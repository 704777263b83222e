//! What a worker counts by itself, as far as the scheduler can tell.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Time, Timeouts};

use super::Remote;

/// What ends a worker that hears nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnTimers {
    pub(crate) timeouts: Timeouts,
    /// It has no heartbeat answered and no healthcheck acknowledged that is later.
    pub(crate) evidence_until: Time,
}

impl Remote {
    /// By what it goes as long as it has not shown that it has heard us: the timeouts of an earlier scheduler, and evidence from
    /// before the association, as an earlier scheduler was dead by then.
    pub(crate) fn timers_before_ours(&self) -> Option<OwnTimers> {
        (!self.has_heard_us).then(|| OwnTimers {
            timeouts: self.timeouts,
            // Invariant: a worker that has not heard us does not become HEALTHY, so its loss counts from when the association
            // began, or from later if the association began anew since.
            evidence_until: self.model.became_unhealthy(),
        })
    }

    /// It may have evidence up to now.
    pub(crate) fn timers_from(&self, now: Time) -> OwnTimers {
        OwnTimers {
            timeouts: self.timeouts,
            evidence_until: now,
        }
    }

    /// So that the worker need not assume the worst of heartbeats whose answers it never had.
    pub(crate) fn not_healthy_for(&self, now: Time) -> Option<Duration> {
        let counts_for = self.model.not_healthy_for(now);
        match sabotage::on(Sabotage::HideHowLong) {
            true => counts_for.map(|_| Duration::ZERO),
            false => counts_for,
        }
    }
}
