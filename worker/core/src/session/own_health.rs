//! The worker's view of its own health: by the scheduler's last answer, and by its own timers.

use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::health::timeouts::{whole_secs, worker_gaps};
use brasserie_common::health::{FirstHealth, Gaps};
use brasserie_common::time::format_duration;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{Health, HealthModel, Time};

use super::with_reason;
use crate::timer::earliest;

/// The worker's view of its own health.
#[derive(Clone, Debug)]
pub(super) struct OwnHealth {
    model: HealthModel,
    /// The heartbeat period.
    period: Duration,
    /// The last heartbeat answer that counted. Its worker set never goes back to an earlier version.
    answer: Option<HeartbeatResponse>,
}

impl OwnHealth {
    /// Returns the health of a worker that begins now and has no scheduler yet.
    pub(super) fn new(now: Time, period: Duration) -> Self {
        OwnHealth {
            model: HealthModel::new(now),
            period,
            answer: None,
        }
    }

    /// Begins anew with another scheduler, from this time on.
    pub(super) fn begin_anew(&mut self, begun: Time) {
        self.model = HealthModel::new(begun);
    }

    pub(super) fn health(&self) -> Health {
        self.model.health()
    }

    /// Returns the last heartbeat answer that counted.
    pub(super) fn answer(&self) -> Option<&HeartbeatResponse> {
        self.answer.as_ref()
    }

    pub(super) fn take_answer(&mut self) -> Option<HeartbeatResponse> {
        self.answer.take()
    }

    /// Returns when the last answered heartbeat was sent.
    pub(super) fn last_heartbeat(&self) -> Option<Time> {
        self.model.last_heartbeat()
    }

    /// Returns whether the worker was HEALTHY for the scheduler and is not now.
    pub(super) fn is_no_longer_healthy(&self) -> bool {
        self.model.has_been_healthy() && self.model.health() != Health::Healthy
    }

    /// Records the answer to the heartbeat that was sent at `sent`. The scheduler formed its opinion between the sending and now, or
    /// earlier. The earliest possible time, `begun`, counts.
    pub(super) fn answered(&mut self, sent: Time, begun: Time, answer: HeartbeatResponse) {
        let state = answer.worker_state;
        self.answer = Some(answer);
        self.model.heartbeat(sent);
        self.model.adopt(begun, state);
    }

    /// Records a healthcheck that has succeeded and was accepted at this time.
    pub(super) fn good_healthcheck(&mut self, accepted_at: Time) {
        self.model.good_healthcheck(accepted_at);
    }

    fn last_word(&self) -> Option<Health> {
        self.answer.as_ref().map(|answer| answer.worker_state)
    }

    fn gaps(&self) -> Option<Gaps> {
        let answer = self.answer.as_ref();
        answer.map(|answer| worker_gaps(answer, self.period))
    }

    /// Judges the health now. If the machine slept through a change, the change is dated to when it was due. Returns the time since which
    /// the worker counts as lost, if it does.
    pub(super) fn judge(&mut self, now: Time) -> Option<Time> {
        let gaps = self.gaps()?;
        // The worker is HEALTHY only because an answer said so. The scheduler formed that opinion after the answered heartbeat was sent. So
        // the loss time counts from that sending at the earliest, however old or unknown the healthchecks are, and not from the arrival of
        // the answer.
        let fresh_until = self.model.next_change(gaps);
        let checked = self.model.last_good_healthcheck();
        let ended = checked.and(fresh_until).max(self.model.last_heartbeat());
        if self.model.health() == Health::Healthy
            && let Some(at) = ended
            && at <= now
        {
            let verdict = self.model.next(at, gaps, FirstHealth::Withheld);
            self.model.adopt(at, verdict.health);
        }
        let lost_at = self.lost_at();
        let verdict = self.model.next(now, gaps, FirstHealth::Withheld);
        let health = match verdict.health {
            // Once the worker was HEALTHY, the scheduler's answers alone can end it, whatever the worker's own evidence says.
            _ if lost_at.is_some_and(|at| at <= now) => Health::MustDie,
            // The scheduler's opinion holds until its next answer: the scheduler may have begun the association anew.
            Health::Healthy if self.last_word() != Some(Health::Healthy) => Health::Unhealthy,
            Health::New | Health::Healthy | Health::Unhealthy | Health::MustDie => verdict.health,
        };
        self.model.adopt(now, health);
        // If `lost_at` is `None`, the scheduler has declared the worker lost. The wait after which its tasks run elsewhere begins when the
        // scheduler's timers run out. They run out before the worker's by at most the safety margin, and the worker's have not run out. So
        // the full kill wait from now ends in time.
        (health == Health::MustDie).then(|| lost_at.map_or(now, |at| at.min(now)))
    }

    /// Returns the reason why the worker is lost, by the scheduler's answer or by its own timers, for the log.
    pub(super) fn why_lost(&self, now: Time) -> String {
        if let Some(answer) = &self.answer
            && answer.worker_state == Health::MustDie
        {
            let why = answer.why_must_die.as_deref();
            return with_reason("the scheduler has declared this worker lost", why);
        }
        let ago = |at: Time| format_duration(whole_secs(now.since(at)));
        let heartbeat = match self.model.last_heartbeat() {
            Some(at) => format!(
                "; the last heartbeat that it answered was sent {} ago",
                ago(at)
            ),
            None => String::new(),
        };
        let since = ago(self.model.became_unhealthy());
        format!(
            "the scheduler has not kept this worker healthy for {since}, and gives its tasks to others{heartbeat}"
        )
    }

    /// Returns when the worker counts itself as lost if no message arrives. `None` if no scheduler has answered it, or if it is lost
    /// already.
    pub(super) fn lost_at(&self) -> Option<Time> {
        // A value at a limit is still good.
        let just_after = |at: Time| at + Duration::from_nanos(1);
        let gaps = self.gaps()?;
        let lose_after = |since: Time| just_after(since + gaps.lose_after);
        let fresh_until = || {
            let heartbeat = self.model.last_heartbeat()? + gaps.max_heartbeat;
            let healthcheck = self.model.last_good_healthcheck()? + gaps.max_healthcheck;
            Some(just_after(heartbeat.min(healthcheck)))
        };
        let since = self.model.became_unhealthy();
        match self.model.health() {
            Health::New => Some(lose_after(since)),
            // The worker was HEALTHY, and the scheduler says that it is not. The scheduler counts the loss time, whatever the worker knows.
            Health::Unhealthy
                if self.model.has_been_healthy() && self.last_word() != Some(Health::Healthy) =>
            {
                Some(lose_after(since))
            }
            // While heartbeat and healthcheck are fresh, the worker lacks only the permission for its first health and is not lost.
            // Otherwise the loss time alone counts.
            Health::Unhealthy => Some(lose_after(since).max(fresh_until().unwrap_or_default())),
            Health::Healthy => fresh_until().map(lose_after),
            Health::MustDie => None,
        }
    }

    /// Returns when the result of `judge` could change without an event.
    pub(super) fn due(&self, now: Time) -> Option<Time> {
        let gaps = self.gaps()?;
        let stale = |last: Option<Time>, gap| last.map(|at| at + gap + Duration::from_nanos(1));
        earliest(
            [
                self.model.next_change(gaps),
                stale(self.model.last_heartbeat(), gaps.max_heartbeat),
                stale(self.model.last_good_healthcheck(), gaps.max_healthcheck),
            ]
            .into_iter()
            .filter(|at| at.is_some_and(|at| at > now)),
        )
    }

    /// Writes the state for fingerprints.
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        self.model.shape(s);
        s.opt(self.answer.as_ref(), |s, answer| {
            s.scheduler(answer.scheduler);
            s.put((answer.max_healthcheck_gap, answer.heartbeat_grace_period));
            s.put((
                answer.lose_unhealthy_worker_after,
                answer.worker_check_interval,
            ));
            s.put(answer.worker_state);
            s.set(answer.worker_set);
        });
    }
}
