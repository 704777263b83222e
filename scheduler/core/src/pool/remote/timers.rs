//! A worker's own timers, as far as the scheduler can know them.

use std::time::Duration;

use brasserie_common::health::timeouts::whole_secs;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Time, Timeouts};

use super::Remote;

/// The timers that end a worker that receives nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTimers {
    pub timeouts: Timeouts,
    /// No later heartbeat of the worker was answered, and no later healthcheck acknowledged.
    pub evidence_until: Time,
}

/// Returns the safety wait of a run that was lost now, or of unknown runs. `ours` are this scheduler's timeouts; `timers` are those by which
/// the worker may still live.
pub fn safety_wait(
    now: Time,
    ours: &Timeouts,
    kill_wait: Duration,
    timers: Option<OwnTimers>,
) -> Duration {
    if sabotage::on(Sabotage::RestartLostAtConfiguredBackoff) {
        return Duration::ZERO;
    }
    let usual = ours.lost_task_min_backoff(kill_wait);
    let until_its_timers_ended_it = timers.map(|timers| {
        let suicide_task_kill_wait = timers.timeouts.suicide_task_kill_wait.max(kill_wait);
        let wait = Timeouts {
            suicide_task_kill_wait,
            ..timers.timeouts
        }
        .min_safe_wait();
        // Whole seconds, as they are stored, rounded up so that no wait gets shorter.
        whole_secs((timers.evidence_until + wait).since(now))
    });
    usual.max(until_its_timers_ended_it.unwrap_or_default())
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
