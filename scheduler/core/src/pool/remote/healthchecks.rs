//! The healthchecks of one worker: the open ones, when the next one is due, and the evaluation of results.
//!
//! Every result is acknowledged, because a worker repeats an unacknowledged result, and takes no further healthcheck meanwhile. But the
//! worker then believes in its health from when it accepted the request, however late that was. So the scheduler counts a result from the
//! sending, which bounds what it may start there. It also notes by when the worker had accepted the request, which bounds what it may count
//! as lost: [`brasserie_common::health::HealthModel::acknowledged_healthcheck`]. So no delay of a request and no heartbeat period makes a
//! worker live longer than its scheduler waits.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{CallOutcome, InvocationId, ReportedStatus, Time, Timeouts, WorkerSetId};

use super::status::RecentFailures;
use super::{FETCH_RETRY, Remote};

/// The most healthchecks without a result that are remembered: one for each period, for far longer than a worker lives without one.
const MAX_OPEN_HEALTHCHECKS: usize = 64;
/// The minimum time between extra healthchecks that only make a worker send a heartbeat.
const POKE_SPACING: Duration = Duration::from_millis(100);

/// The most characters of a worker's error that are kept for people.
const MAX_FAILURE_CHARS: usize = 500;

/// The healthchecks of one worker instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Healthchecks {
    last_sent: Option<Time>,
    /// When the next healthcheck is due before its time, because the last one did not arrive.
    retry_at: Option<Time>,
    /// The healthchecks without a result.
    open: BTreeMap<InvocationId, OpenHealthcheck>,
    /// The worker's error text of the last healthcheck with a result, if it failed.
    failure: Option<String>,
    /// The latest failures, which stay for a while after later healthchecks succeed.
    failures: RecentFailures,
    /// The random part of the next invocation. It differs within the instance even when two healthchecks start in one second, unlike
    /// Bistro's zero: the worker refuses a repeated invocation.
    next_rand: i64,
}

/// A healthcheck without a result; times by the scheduler's clock.
#[derive(Clone, Copy, Debug)]
struct OpenHealthcheck {
    sent: Time,
    /// When its request was answered; the worker accepted it before.
    accepted_before: Option<Time>,
}

impl Healthchecks {
    /// Returns when the next healthcheck is due; the first one is due at once.
    pub(super) fn next(&self, period: Duration, poke: bool) -> Option<Time> {
        let spacing = if poke { POKE_SPACING } else { period };
        let due = self.last_sent.map(|last| last + spacing);
        match (due, self.retry_at) {
            (Some(due), Some(retry)) => Some(due.min(retry)),
            (due, _) => due,
        }
    }

    fn draw(&mut self, wall_seconds: i64) -> InvocationId {
        let rand = self.next_rand;
        self.next_rand = rand.wrapping_add(1);
        InvocationId::new(wall_seconds, rand)
    }

    /// Writes the state for fingerprints. Ids only have to differ, so the next id is omitted; so are failures, which are only shown.
    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.time_if(self.last_sent);
        s.opt(self.retry_at, Shape::deadline);
        s.each(&self.open, |s, (invocation, open)| {
            s.healthcheck(*invocation);
            s.time(open.sent);
            s.time_if(open.accepted_before);
        });
    }

    /// Drops the healthchecks of an earlier association. The next one is due at once.
    pub(super) fn begin_anew(&mut self) {
        (self.last_sent, self.retry_at) = (None, None);
        self.open.clear();
        self.failure = None;
    }

    /// Drops healthchecks whose results would be too old to count.
    fn forget_old(&mut self, now: Time, max_gap: Duration) {
        self.open.retain(|_, open| now <= open.sent + max_gap);
        while self.open.len() >= MAX_OPEN_HEALTHCHECKS {
            self.open.pop_first();
        }
    }

    pub(super) fn are_answered(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins a healthcheck at the wall clock's second.
    fn begin(&mut self, now: Time, wall_seconds: i64, max_gap: Duration) -> InvocationId {
        self.retry_at = None;
        let invocation = self.draw(wall_seconds);
        self.forget_old(now, max_gap);
        let open = OpenHealthcheck {
            sent: now,
            accepted_before: None,
        };
        self.open.insert(invocation, open);
        self.last_sent = Some(now);
        invocation
    }

    /// Handles a failed healthcheck. `why` is the worker's error text, if the healthcheck ran and the worker gave one.
    fn fail(&mut self, now: Time, invocation: InvocationId, why: Option<&str>) {
        self.open.remove(&invocation);
        if let Some(why) = why {
            let why: String = why.chars().take(MAX_FAILURE_CHARS).collect();
            self.failures.add(now, why.clone());
            self.failure = Some(why);
        }
    }

    /// Returns the problem of the last healthchecks, for people.
    pub(super) fn problem(&self, now: Time) -> Option<String> {
        match &self.failure {
            Some(why) => Some(format!("its last healthcheck failed: {why}")),
            None => {
                let failures = self.failures.sentence(now);
                failures
                    .map(|failed| format!("its healthchecks are good again, and failed {failed}"))
            }
        }
    }
}

impl Remote {
    /// Begins a healthcheck if one is due. An extra one is due sooner, if `poke`; `current` is the present set.
    pub(crate) fn begin_due_healthcheck(
        &mut self,
        now: Time,
        wall_seconds: i64,
        timeouts: &Timeouts,
        (poke, current): (bool, WorkerSetId),
    ) -> Option<InvocationId> {
        let next = self.healthchecks.next(timeouts.healthcheck_period, poke);
        if next.is_some_and(|at| now < at) {
            return None;
        }
        if poke {
            self.poked = Some((self.health(), current));
        }
        Some(self.begin_healthcheck(now, wall_seconds, timeouts))
    }

    /// Begins a healthcheck, whether or not it is due.
    pub(crate) fn begin_healthcheck(
        &mut self,
        now: Time,
        wall_seconds: i64,
        timeouts: &Timeouts,
    ) -> InvocationId {
        let max_gap = timeouts.max_healthcheck_gap();
        self.healthchecks.begin(now, wall_seconds, max_gap)
    }

    /// Handles the answer to a healthcheck's request. A request that does not arrive is only no evidence of health; the next one is due in
    /// its time.
    pub(crate) fn note_healthcheck_sent<T>(
        &mut self,
        now: Time,
        invocation: InvocationId,
        outcome: &CallOutcome<T>,
    ) {
        match outcome {
            CallOutcome::Done(_) => {
                if let Some(open) = self.healthchecks.open.get_mut(&invocation) {
                    open.accepted_before = Some(now);
                }
                return;
            }
            // No result will come, and an open healthcheck would keep others from being sent.
            CallOutcome::Refused(..) | CallOutcome::NotSent(_) => {
                self.healthchecks.fail(now, invocation, None);
            }
            CallOutcome::Unknown(_) => {}
        }
        // While the worker joins, a lost first healthcheck must not cost a whole period.
        if !self.model.has_been_healthy() {
            self.healthchecks.retry_at = Some(now + FETCH_RETRY);
        }
    }

    /// Handles the result of a healthcheck. A good result of a forgotten healthcheck counts only as acknowledged.
    pub(crate) fn note_healthcheck_result(
        &mut self,
        now: Time,
        invocation: InvocationId,
        status: &ReportedStatus,
    ) {
        if !status.is_done() {
            return self.healthchecks.fail(now, invocation, status.exception());
        }
        let open = self.healthchecks.open.remove(&invocation);
        self.healthchecks.failure = None;
        if let Some(open) = open {
            self.model.good_healthcheck(open.sent);
        }
        let accepted_before = open.and_then(|open| open.accepted_before);
        self.model
            .acknowledged_healthcheck(accepted_before.unwrap_or(now));
    }
}
