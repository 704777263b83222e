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
use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common::{CallOutcome, Health, InvocationId, Shard, Time, WorkerId};

use super::remote::{FETCH_RETRY, Remote};
use super::standing::Remembered;
use crate::calls::{Call, CallReply, NewWorker, Purpose};
use crate::scheduler::Scheduler;

/// The most healthchecks without a result that are remembered: one for each period, for far longer than a worker lives without one.
const MAX_OPEN_HEALTHCHECKS: usize = 64;
/// The minimum time between extra healthchecks that only make a worker send a heartbeat.
const POKE_SPACING: Duration = Duration::from_millis(100);

/// The most characters of a worker's error that are kept for people.
const MAX_FAILURE_CHARS: usize = 500;

/// The healthchecks of one worker instance.
#[derive(Clone, Debug, Default)]
pub(super) struct Healthchecks {
    pub(super) last_sent: Option<Time>,
    /// When the next healthcheck is due before its time, because the last one did not arrive.
    pub(super) retry_at: Option<Time>,
    /// The healthchecks without a result.
    pub(super) open: BTreeMap<InvocationId, Open>,
    /// The worker's error text of the last healthcheck with a result, if it failed.
    pub(super) failure: Option<String>,
    /// The latest failures, which stay for a while after later healthchecks succeed.
    pub(super) failures: Remembered,
    /// The random part of the next invocation. It differs within the instance even when two healthchecks start in one second, unlike
    /// Bistro's zero: the worker refuses a repeated invocation.
    next_rand: i64,
}

/// A healthcheck without a result; times by the scheduler's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
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

    pub(super) fn draw(&mut self, wall_seconds: i64) -> InvocationId {
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
    pub(super) fn forget_old(&mut self, now: Time, max_gap: Duration) {
        self.open.retain(|_, open| now <= open.sent + max_gap);
        while self.open.len() >= MAX_OPEN_HEALTHCHECKS {
            self.open.pop_first();
        }
    }
}

impl Remote {
    /// Handles a good result. The result of a forgotten healthcheck counts only as acknowledged.
    pub(crate) fn healthcheck_done(&mut self, now: Time, invocation: InvocationId) {
        let open = self.healthchecks.open.remove(&invocation);
        self.healthchecks.failure = None;
        if let Some(open) = open {
            self.model.good_healthcheck(open.sent);
        }
        let accepted_before = open.and_then(|open| open.accepted_before);
        self.model
            .acknowledged_healthcheck(accepted_before.unwrap_or(now));
    }

    /// Handles a failed healthcheck. `why` is the worker's error text, if the healthcheck ran and the worker gave one.
    pub(crate) fn healthcheck_failed(
        &mut self,
        now: Time,
        invocation: InvocationId,
        why: Option<&str>,
    ) {
        self.healthchecks.open.remove(&invocation);
        if let Some(why) = why {
            let why: String = why.chars().take(MAX_FAILURE_CHARS).collect();
            self.healthchecks.failures.add(now, why.clone());
            self.healthchecks.failure = Some(why);
        }
    }
}

impl Scheduler {
    pub(super) fn healthcheck_if_due(&mut self, now: Time, shard: &Shard, poke: bool) {
        let period = self.options().timeouts.healthcheck_period;
        let current = self.workers().set();
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        if remote
            .healthchecks
            .next(period, poke)
            .is_some_and(|at| now < at)
        {
            return;
        }
        if poke {
            remote.poked = Some((remote.health(), current));
        }
        self.healthcheck_now(now, shard);
    }

    pub(super) fn healthcheck_now(&mut self, now: Time, shard: &Shard) {
        let max_gap = self.options().timeouts.max_healthcheck_gap();
        let wall_seconds = self.wall().as_secs();
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        remote.healthchecks.retry_at = None;
        let invocation = remote.healthchecks.draw(wall_seconds);
        remote.healthchecks.forget_old(now, max_gap);
        let open = Open {
            sent: now,
            accepted_before: None,
        };
        remote.healthchecks.open.insert(invocation, open);
        remote.healthchecks.last_sent = Some(now);
        let new_worker = if remote.health() == Health::New {
            NewWorker::Yes
        } else {
            NewWorker::No
        };
        let (worker, index, peer) = (remote.id(), remote.index, remote.address().clone());
        let call = Call::Healthcheck {
            worker,
            index,
            invocation,
            new_worker,
        };
        self.call(
            now,
            peer,
            call,
            Purpose::Healthcheck {
                shard: shard.clone(),
                worker,
                invocation,
            },
        );
    }

    /// Handles the answer to a healthcheck's request. A request that does not arrive is only no evidence of health; the next one is due in
    /// its time.
    pub(crate) fn healthcheck_sent(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        invocation: InvocationId,
        outcome: &CallOutcome<CallReply>,
    ) {
        let Some(remote) = self.workers_mut().instance_mut(shard, worker) else {
            return;
        };
        match outcome {
            CallOutcome::Done(_) => {
                if let Some(open) = remote.healthchecks.open.get_mut(&invocation) {
                    open.accepted_before = Some(now);
                }
                return;
            }
            // No result will come, and an open healthcheck would keep others from being sent.
            CallOutcome::Refused(..) | CallOutcome::NotSent(_) => {
                remote.healthcheck_failed(now, invocation, None);
            }
            CallOutcome::Unknown(_) => {}
        }
        // While the worker joins, a lost first healthcheck must not cost a whole period.
        if !remote.model.has_been_healthy() {
            remote.healthchecks.retry_at = Some(now + FETCH_RETRY);
        }
        self.evaluate(now, shard);
    }

    pub(crate) fn is_healthcheck(job: &str) -> bool {
        job == HEALTHCHECK_JOB
    }
}
