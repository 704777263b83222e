//! Every duration of the worker protocol, and every safe wait that follows from them.
//!
//! **Why a lost task has no process left when it may run elsewhere.** A scheduler loses a worker at a time S (the loss time) by its own
//! clock and gives its tasks away at S + [`Timeouts::lost_task_min_backoff`]. The worker's own timers run out at W (the worker's end). W is
//! before S, or after it by no more than the safety margin: both run one model with one set of gaps, the worker counts a heartbeat from its
//! sending and the scheduler from its receipt, and the worker's loss time is shorter ([`worker_gaps`]). The end of the tasks counts from W:
//!
//! * A running worker sends TERM at W and KILL at W + kill wait. A worker that wakes up later gives only the rest of the wait.
//! * If the worker is stopped or hangs, its keeper does the same, at most [`KEEPER_DELAY`] later.
//! * A worker that receives MUST_DIE or `requestSuicide` gives the whole wait from the receipt. The receipt is before W, because the worker
//!   judges its health before it handles any input: now + kill wait < W + kill wait. The scheduler waits from W also when it tells the
//!   worker early: a scheduler that replaces a worker before W holds its tasks back until after W.
//!
//! So all processes have ended at W + kill wait + [`KEEPER_DELAY`], and the scheduler's wait ends a second later at the earliest.
//! [`Timeouts::clamped`] asserts both inequalities.
//!
//! **Why W is before S, and by how much it may be late.** The causes of a difference between the two clocks, one by one:
//!
//! * *The beginning.* The scheduler counts a new association from the first heartbeat that it receives. The worker counts from the first
//!   heartbeat it sent that may have been received, whichever was answered. Or it counts from the sending of the answered one, less the
//!   time that the scheduler reports as counted by then. Neither is later than the scheduler's beginning, so the worker takes the later of
//!   the two: the worker's end (W) is no later. A worker that receives no answer at all does not know of the association. It uses the
//!   evidence and the timeouts of an earlier scheduler, so W may be later by a whole gap. That evidence is older than the association, so
//!   the scheduler waits for a [`Timeouts::min_safe_wait`] from there.
//! * *Heartbeats.* One that counts on the worker was sent before the scheduler received it, and its answer counts from the sending: the
//!   worker's end (W) is no later.
//! * *Healthchecks.* One counts on the scheduler from its sending. It counts on the worker from its acceptance, later by the time the call
//!   was under way, once its result is acknowledged. The scheduler knows an upper bound of the acceptance time, so it counts the loss from
//!   no earlier than the end of the worker's possible belief (`HealthModel::acknowledged_healthcheck`): the scheduler's loss time (S) is
//!   moved, the worker's end (W) is no later. A worker that was only withheld from its first health is lost when its healthcheck is too
//!   old, on both sides.
//! * *A new beginning.* The scheduler begins an association again with a worker that obeyed another one, and forgets its healthchecks. The
//!   worker may still learn that one of them counts, which makes its evidence fresh again. The worker has no heartbeat later than the
//!   scheduler's last one, so the scheduler's loss time (S) is no earlier than the end of that one (`HealthModel::begin_anew`): the
//!   worker's end (W) is no later.
//! * *The scheduler's word.* UNHEALTHY counts on the worker from a heartbeat that may have been sent a whole period after the scheduler's
//!   clock began. That never makes the worker's end (W) later than the two evidences above do, because the worker checks them at every
//!   moment, and the earlier of the two counts. A worker that was HEALTHY is lost by the word alone, however fresh its own evidence is.
//!
//! **A worker's heartbeat period needs no bound** for any of this. Both sides add the period to the same gap, healthchecks bound a worker
//! with rare heartbeats, and no sum of this module contains the period.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Gaps;
use crate::worker::HeartbeatResponse;

/// The minimum of every duration in the protocol, because the wire counts whole seconds.
pub const MIN: Duration = Duration::from_secs(1);
/// The margin for scheduling delays at the end of every derived wait.
const SLACK: Duration = Duration::from_secs(1);
/// How much later than the worker itself its keeper may end the last task of a worker that is stopped or hangs. Half of it is a grace for a
/// slow worker, the other half is for the killing. It is less than the second at the end of every derived wait.
pub const KEEPER_DELAY: Duration = Duration::from_millis(500);
/// The longest life of a message, an assumption. It is far above all timeouts of connections, so no message arrives later than this after its
/// sending.
pub const MESSAGE_LIFE: Duration = Duration::from_secs(600);
/// The least loss time of a worker by its own clock. It must be positive whatever the flags, or the worker would never end itself.
const MIN_OWN_LOSS: Duration = Duration::from_millis(500);

/// The scheduler's timeouts. Workers receive them, and each instance record stores them, so that a later scheduler with other flags still
/// waits long enough. Each is at least [`MIN`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timeouts {
    pub heartbeat_grace_period: Duration,
    pub healthcheck_period: Duration,
    pub healthcheck_grace_period: Duration,
    pub lose_unhealthy_worker_after: Duration,
    pub worker_check_interval: Duration,
    pub unsure_if_running_check_initial_period: Duration,
    pub suicide_backoff_safety_margin: Duration,
    pub suicide_task_kill_wait: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            heartbeat_grace_period: Duration::from_secs(60),
            healthcheck_period: Duration::from_secs(60),
            healthcheck_grace_period: Duration::from_secs(60),
            lose_unhealthy_worker_after: Duration::from_secs(500),
            worker_check_interval: Duration::from_secs(5),
            unsure_if_running_check_initial_period: Duration::from_secs(1),
            suicide_backoff_safety_margin: Duration::from_secs(60),
            suicide_task_kill_wait: Duration::from_secs(5),
        }
    }
}

impl Timeouts {
    /// Returns the timeouts with each value raised to its minimum and to whole seconds, which the wire requires. The kill wait keeps
    /// milliseconds. The inequalities behind every safe wait hold for the result, whatever the flags.
    pub fn clamped(self) -> Self {
        let whole = |d: Duration| {
            let secs = d.as_secs() + u64::from(d.subsec_nanos() > 0);
            // The wire's seconds are signed 32-bit numbers.
            Duration::from_secs(secs.clamp(1, i32::MAX as u64))
        };
        let clamped = Timeouts {
            heartbeat_grace_period: whole(self.heartbeat_grace_period),
            healthcheck_period: whole(self.healthcheck_period),
            healthcheck_grace_period: whole(self.healthcheck_grace_period),
            lose_unhealthy_worker_after: whole(self.lose_unhealthy_worker_after),
            worker_check_interval: whole(self.worker_check_interval),
            unsure_if_running_check_initial_period: whole(
                self.unsure_if_running_check_initial_period,
            ),
            suicide_backoff_safety_margin: whole(self.suicide_backoff_safety_margin),
            suicide_task_kill_wait: self.suicide_task_kill_wait.clamp(
                Duration::from_millis(1),
                Duration::from_millis(i32::MAX as u64),
            ),
        };
        clamped.assert_safe();
        clamped
    }

    fn assert_safe(&self) {
        let own = own_loss(self.lose_unhealthy_worker_after, self.worker_check_interval);
        assert!(
            own < self.lose_unhealthy_worker_after,
            "Invariant: a worker gives itself up before its scheduler does"
        );
        assert!(
            self.suicide_backoff_safety_margin + self.suicide_task_kill_wait + KEEPER_DELAY
                < self.lost_task_min_backoff(Duration::ZERO),
            "Invariant: every process of a lost worker is dead before its tasks run elsewhere"
        );
    }

    /// Returns the longer of each two values, for a worker that may use either set.
    pub fn longest(&self, other: &Timeouts) -> Timeouts {
        Timeouts {
            heartbeat_grace_period: self
                .heartbeat_grace_period
                .max(other.heartbeat_grace_period),
            healthcheck_period: self.healthcheck_period.max(other.healthcheck_period),
            healthcheck_grace_period: self
                .healthcheck_grace_period
                .max(other.healthcheck_grace_period),
            lose_unhealthy_worker_after: self
                .lose_unhealthy_worker_after
                .max(other.lose_unhealthy_worker_after),
            worker_check_interval: self.worker_check_interval.max(other.worker_check_interval),
            unsure_if_running_check_initial_period: self
                .unsure_if_running_check_initial_period
                .max(other.unsure_if_running_check_initial_period),
            suicide_backoff_safety_margin: self
                .suicide_backoff_safety_margin
                .max(other.suicide_backoff_safety_margin),
            suicide_task_kill_wait: self
                .suicide_task_kill_wait
                .max(other.suicide_task_kill_wait),
        }
    }

    /// Returns how old a good healthcheck may be.
    pub fn max_healthcheck_gap(&self) -> Duration {
        self.healthcheck_period + self.healthcheck_grace_period + self.worker_check_interval
    }

    /// Returns how old a heartbeat may be.
    pub fn max_heartbeat_gap(&self, heartbeat_period: Duration) -> Duration {
        heartbeat_period.saturating_add(self.heartbeat_grace_period)
    }

    /// Returns the gaps that the scheduler applies to a worker.
    pub fn scheduler_gaps(&self, heartbeat_period: Duration) -> Gaps {
        Gaps {
            max_healthcheck: self.max_healthcheck_gap(),
            max_heartbeat: self.max_heartbeat_gap(heartbeat_period),
            lose_after: self.lose_unhealthy_worker_after,
        }
    }

    /// Returns how long a scheduler without any record must wait until every worker that it cannot reach has ended its tasks.
    pub fn min_safe_wait(&self) -> Duration {
        self.max_healthcheck_gap()
            + self.lose_unhealthy_worker_after
            + self.worker_check_interval
            + self.suicide_backoff_safety_margin
            + whole_secs(self.suicide_task_kill_wait)
            + SLACK
    }

    /// Returns how long a worker lost just before a scheduler's start may still be killing its tasks.
    pub fn kill_margin(&self) -> Duration {
        self.lost_task_min_backoff(Duration::ZERO)
    }

    /// Returns how long a lost task must wait before it may run elsewhere.
    pub fn lost_task_min_backoff(&self, task_kill_wait: Duration) -> Duration {
        let wait = if task_kill_wait.is_zero() {
            self.suicide_task_kill_wait
        } else {
            task_kill_wait
        };
        self.suicide_backoff_safety_margin + whole_secs(wait) + SLACK
    }
}

/// Rounds up to whole seconds. The original rounds down and relies on its other margins.
pub fn whole_secs(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs() + u64::from(d.subsec_nanos() > 0))
}

/// Returns the gaps that a worker applies to itself, from its scheduler's answer.
pub fn worker_gaps(response: &HeartbeatResponse, heartbeat_period: Duration) -> Gaps {
    Gaps {
        max_healthcheck: response.max_healthcheck_gap,
        max_heartbeat: heartbeat_period + response.heartbeat_grace_period,
        lose_after: own_loss(
            response.lose_unhealthy_worker_after,
            response.worker_check_interval,
        ),
    }
}

/// Returns the worker's own loss time: at least a second less than the scheduler's, even if the scheduler sends no interval.
fn own_loss(lose_after: Duration, check_interval: Duration) -> Duration {
    match lose_after.saturating_sub(check_interval.max(MIN)) {
        Duration::ZERO => MIN_OWN_LOSS,
        own => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::Health;
    use crate::ids::SchedulerId;
    use crate::worker_set::WorkerSetId;
    use proptest::prelude::*;

    #[test]
    fn defaults_give_the_documented_sums() {
        let t = Timeouts::default();
        assert_eq!(t.max_healthcheck_gap(), Duration::from_secs(125));
        assert_eq!(
            t.max_heartbeat_gap(Duration::from_secs(15)),
            Duration::from_secs(75)
        );
        assert_eq!(t.min_safe_wait(), Duration::from_secs(696));
        assert_eq!(
            t.lost_task_min_backoff(Duration::ZERO),
            Duration::from_secs(66)
        );
        assert_eq!(t.kill_margin(), Duration::from_secs(66));
    }

    fn response(t: &Timeouts) -> HeartbeatResponse {
        HeartbeatResponse {
            scheduler: SchedulerId::default(),
            max_healthcheck_gap: t.max_healthcheck_gap(),
            heartbeat_grace_period: t.heartbeat_grace_period,
            lose_unhealthy_worker_after: t.lose_unhealthy_worker_after,
            worker_check_interval: t.worker_check_interval,
            worker_state: Health::New,
            not_healthy_for: None,
            protocol_version: 2,
            worker_set: WorkerSetId::default(),
            why_must_die: None,
            work: None,
            request_delay: None,
            uses_artifacts: false,
        }
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn the_worker_always_ends_first(lose in 0u64..1000, check in 0u64..1000, kill_ms in 0u64..100_000, sent_check in 0u64..3) {
            let t = Timeouts {
                lose_unhealthy_worker_after: Duration::from_secs(lose),
                worker_check_interval: Duration::from_secs(check),
                suicide_task_kill_wait: Duration::from_millis(kill_ms),
                ..Timeouts::default()
            }
            .clamped();
            let own = worker_gaps(&response(&t), Duration::from_secs(15));
            let careless = HeartbeatResponse { worker_check_interval: Duration::from_secs(sent_check), ..response(&t) };
            prop_assert!(worker_gaps(&careless, Duration::from_secs(15)).lose_after < t.lose_unhealthy_worker_after);
            let theirs = t.scheduler_gaps(Duration::from_secs(15));
            prop_assert!(own.lose_after > Duration::ZERO && own.lose_after < theirs.lose_after);
            for kill_wait in [t.suicide_task_kill_wait, Duration::from_millis(kill_ms + 1)] {
                let late = t.suicide_backoff_safety_margin + kill_wait + KEEPER_DELAY;
                prop_assert!(late < t.lost_task_min_backoff(kill_wait));
            }
        }
    }
}
