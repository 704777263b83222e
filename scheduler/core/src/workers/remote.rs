//! One shard: the worker instance that holds it, as the scheduler knows it, and what is due for it.

mod shape;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::health::{FirstHealth, Gaps};
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::Intake;
use brasserie_common::{
    CallId, CallOutcome, Health, HealthModel, InvocationId, RecordSeq, SequenceNumber,
    ServiceAddress, Shard, Time, Timeouts, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_scheduler_engine::{Eligibility, Task, WorkerIndex};

use super::consensus::Consensus;
use super::healthchecks::Healthchecks;
use super::initial_wait::seconds;
use super::standing::Remembered;
use crate::calls::Purpose;
use crate::credits::Credits;
use crate::effect::{Call, CallReply};
use crate::news::{KnownWorker, News};
use crate::record::{DeletionNumber, InstanceRecord, LeftCause, Record};
use crate::scheduler::Scheduler;
pub(crate) use timers::OwnTimers;

/// A worker that refused a task, or could not be reached, is left alone this long: the rule for busy peers, fixed and never
/// growing, long enough that a full worker is not hammered, short enough that a freed slot is used at once.
const BUSY_MARK: Duration = Duration::from_millis(150);
/// A worker refuses tasks until it has read that it is HEALTHY, and `runTask` travels on another connection than that reply:
/// it gets this head start, a few round trips of a local network.
const SETTLE: Duration = Duration::from_millis(10);
/// `runTask` calls without an outcome that one worker may have: a few round trips' worth at full speed; beyond it the worker is
/// slower than its tasks.
const MAX_STARTING: usize = 256;
/// Between attempts to fetch running tasks from a worker that does not answer.
pub(super) const FETCH_RETRY: Duration = Duration::from_secs(1);

/// What is known of one worker instance.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(super) description: WorkerDescription,
    pub(super) index: WorkerIndex,
    pub(super) model: HealthModel,
    /// The set id in its very first heartbeat: whom it knew before.
    initial_set: WorkerSetId,
    /// An earlier scheduler recorded it, or it has named another one since.
    is_known_elsewhere: bool,
    /// It has sent back a set id of ours, so it has heard us.
    has_heard_us: bool,
    recorded_by: RecordSeq,
    pub(super) is_recorded: bool,
    /// What its record says that it goes by.
    timeouts: Timeouts,
    /// The last deletion of ends before it came first.
    since: DeletionNumber,
    sequence: SequenceNumber,
    fetch: Fetch,
    pub(super) healthchecks: Healthchecks,
    busy_until: Option<Time>,
    /// `runTask` calls without an outcome.
    starting: usize,
    /// State and set id of the last heartbeat reply that counts as told: see [`Remote::tell`].
    pub(super) told: Option<(Health, WorkerSetId)>,
    /// The news for which an extra healthcheck was sent: a worker that does not react asks in its own time.
    pub(super) poked: Option<(Health, WorkerSetId)>,
    /// The reason why the latest call has not reached the worker; `None` if it has, or if a heartbeat came since that call was sent.
    pub(super) unreached: Option<Box<str>>,
    /// When it was last sent an extra healthcheck for the sake of others.
    asked: Option<Time>,
    wake: Option<Time>,
    /// It ended in good order; it is kept only so that a delayed heartbeat of it is known.
    said_goodbye: bool,
    /// How often an association with it was begun anew because it obeyed another scheduler.
    pub(super) begun_anew: u32,
    pub(super) left: Option<Left>,
    /// Set when it has left.
    forgotten_at: Option<Time>,
    pub(super) additions: Additions,
    /// The recent reasons for which the worker became UNHEALTHY.
    pub(super) falls: Remembered,
    /// What it asked for, and what of that is left.
    pub(super) credits: Credits,
}

/// The rest of an instance that has left, kept in case an operator declares it dead.
#[derive(Clone, Debug)]
pub(super) struct Left {
    pub(super) at: Time,
    /// When it last sent a heartbeat all the same.
    pub(super) heard_at: Option<Time>,
    /// What ran there: the tasks wait until these may no longer be alive.
    pub(super) runs: Vec<(Task, InvocationId)>,
    /// The reason why the worker left, for logs and `status`.
    pub(super) why: Arc<str>,
}

/// What the worker sends of what the original protocol lacks; unknown until it has sent back a set of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Additions {
    pub(super) lacks_digest: bool,
    pub(super) lacks_standing: bool,
}

/// ```text
///   Due --call--> InFlight --tasks--> Done
///    ^               |
///    +---- failed ---+  (after a pause)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    /// Not before this time.
    Due(Time),
    InFlight(CallId),
    /// The running tasks are known; from here on they change only by `runTask` and `updateStatus`.
    Done,
}

impl Remote {
    pub(crate) fn new(
        now: Time,
        description: WorkerDescription,
        index: WorkerIndex,
        initial_set: WorkerSetId,
        (recorded_by, timeouts, since): (RecordSeq, Timeouts, DeletionNumber),
    ) -> Self {
        Remote {
            credits: Credits::new(description.supply),
            description,
            index,
            model: HealthModel::new(now),
            initial_set,
            is_known_elsewhere: false,
            has_heard_us: false,
            recorded_by,
            is_recorded: false,
            timeouts,
            since,
            sequence: SequenceNumber::default(),
            fetch: Fetch::Due(now),
            healthchecks: Healthchecks::default(),
            busy_until: None,
            starting: 0,
            told: None,
            poked: None,
            unreached: None,
            asked: None,
            wake: None,
            said_goodbye: false,
            begun_anew: 0,
            left: None,
            forgotten_at: None,
            additions: Additions::default(),
            falls: Remembered::default(),
        }
    }

    /// What makes a later scheduler wait for it.
    pub(crate) fn association(&self) -> Record {
        let worker = &self.description;
        Record::WorkerAssociated {
            worker: worker.id,
            instance: InstanceRecord {
                shard: worker.shard.clone(),
                machine_lock: worker.machine_lock.clone(),
                heartbeat_period: worker.heartbeat_period,
                timeouts: self.timeouts,
                since: self.since,
            },
        }
    }

    pub(crate) fn shard(&self) -> &Shard {
        &self.description.shard
    }

    pub(crate) fn known(&self) -> KnownWorker {
        KnownWorker {
            shard: self.shard().clone(),
            hostname: self.description.machine_lock.hostname.clone(),
            id: self.id(),
        }
    }

    /// Returns the news of a change from `earlier` to the present health; `None` if the log does not report it.
    fn health_news(&self, now: Time, earlier: Health, timeouts: &Timeouts) -> Option<News> {
        match (earlier, self.health()) {
            (Health::Healthy, Health::Unhealthy) => Some(News::Unhealthy {
                worker: self.known(),
                since_heartbeat: self.model.last_heartbeat().map(|at| now.since(at)),
                lost_in: self.model.lost_after(self.gaps(timeouts)).since(now),
            }),
            (Health::New | Health::Unhealthy, Health::Healthy) => Some(News::Healthy(self.known())),
            _ => None,
        }
    }

    /// Returns the reason for which the worker's own timers lose it, for logs and `status`.
    fn why_lost(&self, now: Time) -> Arc<str> {
        let ago = |at: Option<Time>| match at {
            Some(at) => format!("{} ago", seconds(now.since(at))),
            None => "never".to_owned(),
        };
        let since = self.model.became_unhealthy();
        format!(
            "it was not healthy for {}; its last heartbeat came {}, its last good healthcheck was sent {}",
            seconds(now.since(since)),
            ago(self.model.last_heartbeat()),
            ago(self.model.last_good_healthcheck())
        )
        .into()
    }

    pub(crate) fn id(&self) -> WorkerId {
        self.description.id
    }

    pub(crate) fn index(&self) -> WorkerIndex {
        self.index
    }

    pub(crate) fn address(&self) -> &ServiceAddress {
        &self.description.address
    }

    pub(crate) fn description(&self) -> &WorkerDescription {
        &self.description
    }

    pub(crate) fn health(&self) -> Health {
        self.model.health()
    }

    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    pub(crate) fn next_sequence(&mut self) -> SequenceNumber {
        self.sequence = self.sequence.next();
        self.sequence
    }

    /// It has known a scheduler before this one, or was recorded by one, so it may run tasks that we do not know.
    pub(crate) fn knew_a_scheduler(&self) -> bool {
        self.is_known_elsewhere || self.initial_set != WorkerSetId::default() || self.begun_anew > 0
    }

    /// A further association with the same instance; whom it obeyed meanwhile may have started tasks there.
    pub(crate) fn begin_anew(&mut self, now: Time, timeouts: &Timeouts) {
        let gaps = self.gaps(timeouts);
        self.model.begin_anew(now, gaps);
        self.fetch = Fetch::Due(now);
        self.healthchecks.begin_anew();
        self.credits.begin_anew();
        (self.told, self.poked) = (None, None);
        self.begun_anew = self.begun_anew.saturating_add(1);
    }

    /// An earlier scheduler recorded it, whatever it says itself; or it names another one, whatever its first heartbeat said, which
    /// may have been the last to arrive.
    pub(crate) fn note_known_elsewhere(&mut self) {
        self.is_known_elsewhere = true;
    }

    pub(crate) fn gaps(&self, timeouts: &Timeouts) -> Gaps {
        timeouts.scheduler_gaps(self.description.heartbeat_period)
    }

    pub(crate) fn initial_set(&self) -> WorkerSetId {
        self.initial_set
    }

    /// A heartbeat of this instance: everything but its identity may be new.
    pub(crate) fn refresh(&mut self, now: Time, description: WorkerDescription) {
        self.description = description;
        self.unreached = None;
        self.model.heartbeat(now);
    }

    /// Notes whether the call that was sent at `sent` reached the worker.
    pub(crate) fn note_reached<T>(&mut self, sent: Time, outcome: &CallOutcome<T>) {
        let is_outdated = self.model.last_heartbeat().is_some_and(|at| sent < at);
        match outcome {
            CallOutcome::Done(_) | CallOutcome::Refused(..) => self.unreached = None,
            CallOutcome::NotSent(why) if !is_outdated => self.unreached = Some(why.as_str().into()),
            CallOutcome::NotSent(_) | CallOutcome::Unknown(_) => {}
        }
    }

    /// Not within `spacing` after the last time.
    pub(super) fn may_be_asked(&self, now: Time, spacing: Duration) -> bool {
        self.asked.is_none_or(|at| now >= at + spacing)
    }

    pub(super) fn note_asked(&mut self, now: Time) {
        self.asked = Some(now);
    }

    pub(crate) fn note_has_heard_us(&mut self) {
        self.has_heard_us = true;
    }

    /// Notes the state and the set of an answer to a heartbeat. An answer that waits for a record leaves later or never, so it does not
    /// count as told that the worker is HEALTHY. The worker's next heartbeat gets such an answer, at the latest after one heartbeat period.
    pub(crate) fn tell(&mut self, now: Time, set: WorkerSetId, waits: bool) {
        let is_healthy = self.health() == Health::Healthy;
        if is_healthy && waits {
            return;
        }
        if is_healthy && !self.was_told_healthy() {
            self.busy_until = self.busy_until.max(Some(now + SETTLE));
        }
        self.told = Some((self.health(), set));
    }

    pub(crate) fn wake(&self) -> Option<Time> {
        self.wake
    }

    pub(crate) fn set_wake(&mut self, at: Option<Time>) -> Option<Time> {
        std::mem::replace(&mut self.wake, at)
    }

    pub(crate) fn recorded_up_to(&mut self, seq: RecordSeq) {
        self.is_recorded |= self.recorded_by <= seq;
    }

    /// The record of its association, until it is durable.
    pub(crate) fn record_to_come(&self) -> Option<RecordSeq> {
        (!self.is_recorded).then_some(self.recorded_by)
    }

    /// What it may go by.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) fn said_goodbye(&self) -> bool {
        self.said_goodbye
    }

    pub(crate) fn note_goodbye(&mut self) {
        self.said_goodbye = true;
    }

    pub(super) fn forgotten_at(&self) -> Option<Time> {
        self.forgotten_at
    }

    pub(super) fn note_forgotten_at(&mut self, at: Time) {
        self.forgotten_at = Some(at);
    }

    /// It has sent back `echoed`, a set of ours; `current` is the present one.
    pub(super) fn note_additions(&mut self, echoed: &WorkerSetId, current: &WorkerSetId) {
        self.additions.lacks_digest = echoed.hash.digest.is_none();
        if echoed.version == current.version {
            self.additions.lacks_standing = echoed.standing < current.standing;
        }
    }

    pub(crate) fn must_die(&mut self, now: Time) {
        self.model.adopt(now, Health::MustDie);
    }

    /// A task was sent there, without an outcome yet.
    pub(crate) fn start_sent(&mut self) {
        self.starting += 1;
    }

    pub(crate) fn start_settled(&mut self) {
        self.starting = self.starting.saturating_sub(1);
    }

    pub(crate) fn mark_busy(&mut self, now: Time) {
        self.busy_until = Some(now + BUSY_MARK);
    }

    pub(super) fn first_health(&self, consensus: &Consensus) -> FirstHealth {
        let is_recorded = self.is_recorded || sabotage::on(Sabotage::InstanceRecordAfterSending);
        let is_permitted =
            consensus.permits(self.id()) || sabotage::on(Sabotage::SkipFirstHealthPermission);
        if is_recorded && is_permitted {
            FirstHealth::Permitted
        } else {
            FirstHealth::Withheld
        }
    }

    fn was_told_healthy(&self) -> bool {
        self.told
            .is_some_and(|(health, _)| health == Health::Healthy)
    }

    /// It was busy a moment ago, or may be, or has as many starts under way as it may have.
    pub(super) fn is_left_alone(&self, now: Time) -> bool {
        self.busy_until.is_some_and(|until| now < until) || self.starting >= MAX_STARTING
    }

    /// `first` too: what was permitted during the initial wait may have to be permitted again at its end.
    fn eligibility(&self, now: Time, first: FirstHealth) -> Eligibility {
        let is_busy = self.is_left_alone(now);
        match self.description.intake {
            Intake::Draining => return Eligibility::Draining,
            Intake::Open => {}
        }
        let may_start = self.health() == Health::Healthy && first == FirstHealth::Permitted;
        if may_start && self.was_told_healthy() && !is_busy {
            Eligibility::Eligible
        } else {
            Eligibility::Ineligible
        }
    }

    /// It would learn of a better state, or of the set it must echo, only with its next heartbeat: a healthcheck makes it ask.
    fn wants_poke(&self, current: WorkerSetId, only_withheld: bool) -> bool {
        if !self.healthchecks.open.is_empty() {
            return false;
        }
        let news = Some((self.health(), current));
        let is_news = self.told != news && self.poked != news;
        !self.was_told_healthy()
            && is_news
            && (self.health() == Health::Healthy
                || (only_withheld && self.is_recorded && !self.has_heard_us))
    }
}

impl Scheduler {
    pub(crate) fn evaluate_due_workers(&mut self, now: Time) {
        for shard in self.workers().due(now) {
            self.evaluate(now, &shard);
        }
    }

    /// Something that concerns every worker has changed.
    pub(crate) fn evaluate_all(&mut self, now: Time) {
        let all: Vec<Shard> = self.workers().iter().map(|w| w.shard().clone()).collect();
        for shard in all {
            self.evaluate(now, &shard);
        }
    }

    /// Adopts the model's opinion of one worker and does whatever is due for it.
    pub(crate) fn evaluate(&mut self, now: Time, shard: &Shard) {
        let timeouts = self.options().timeouts;
        let current = self.workers().set();
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        if remote.health() == Health::MustDie {
            return;
        }
        let first = remote.first_health(self.workers().consensus());
        let verdict = remote.model.next(now, remote.gaps(&timeouts), first);
        if verdict.health == Health::MustDie {
            let why = remote.why_lost(now);
            self.request_suicide(now, shard, &why);
            self.lose(now, shard, LeftCause::Lost, why);
            return;
        }
        let falls = (remote.health(), verdict.health) == (Health::Healthy, Health::Unhealthy);
        let why = self.stale_evidence(now, remote).filter(|_| falls);
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        let earlier = remote.health();
        if let Some(why) = why {
            remote.falls.add(now, format!("it waited {why}"));
        }
        remote.model.adopt(now, verdict.health);
        let news = remote.health_news(now, earlier, &timeouts);
        let poke = remote.wants_poke(current, verdict.only_withheld);
        let (index, eligibility) = (remote.index, remote.eligibility(now, first));
        if let Some(news) = news {
            self.note_news(news);
        }
        self.engine_mut().set_eligibility(index, eligibility);
        self.look_at_credit(now, shard);
        if self.may_call() {
            self.fetch_if_due(now, shard);
            self.healthcheck_if_due(now, shard, poke);
            self.notify_if_due(now, shard);
            self.orphans_mut().look_at(shard);
        }
        self.plan_wake(now, shard, poke);
    }

    fn plan_wake(&mut self, now: Time, shard: &Shard, poke: bool) {
        let timeouts = self.options().timeouts;
        let notify_at = self.tasks().next_notify(shard, &timeouts);
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        let fetch_at = match remote.fetch {
            Fetch::Due(at) => Some(at),
            Fetch::InFlight(_) | Fetch::Done => None,
        };
        let poke = poke && remote.healthchecks.open.is_empty();
        let healthcheck_at = remote.healthchecks.next(timeouts.healthcheck_period, poke);
        let busy_end = remote.busy_until.filter(|&until| until > now);
        let health_at = remote.model.next_change(remote.gaps(&timeouts));
        // A limit that has passed while only the permission is withheld stays passed: look again a check interval later.
        let health_at = health_at.map(|at| {
            if at <= now {
                now + timeouts.worker_check_interval
            } else {
                at
            }
        });
        let orphan_at = self.next_orphan(now, shard);
        // Its last moment is still good.
        let credit_end = remote.credits.next_change(now);
        let credit_end = credit_end.map(|at| at + Duration::from_nanos(1));
        let calls = [fetch_at, healthcheck_at, notify_at, orphan_at];
        // What must not be called yet would be due for ever.
        let calls = calls.map(|at| at.filter(|_| self.may_call()));
        let wake = calls
            .into_iter()
            .chain([busy_end, health_at, credit_end])
            .flatten()
            .min();
        self.workers_mut().wake_at(shard, wake);
    }

    fn fetch_if_due(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        let Fetch::Due(at) = remote.fetch else { return };
        if at > now {
            return;
        }
        let (worker, peer) = (remote.id(), remote.address().clone());
        let purpose = Purpose::Fetch {
            shard: shard.clone(),
            worker,
        };
        let call = self.call(now, peer, Call::GetRunningTasks { worker }, purpose);
        if let Some(remote) = self.workers_mut().get_mut(shard) {
            remote.fetch = Fetch::InFlight(call);
        }
    }

    /// The answer to `getRunningTasks`. Only the open fetch of this very instance counts: a late or repeated answer would mark
    /// tasks running that have ended since.
    pub(crate) fn fetched(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        outcome: CallOutcome<CallReply>,
    ) {
        // Fences count even if the rest of the answer is outdated.
        if let CallOutcome::Done(CallReply::RunningTasks(tasks)) = &outcome {
            self.fences_reported(tasks);
        }
        let any = sabotage::on(Sabotage::ApplyLateRunningTasks);
        let remote = self.workers_mut().get_mut(shard);
        let Some(remote) = remote.filter(|remote| remote.id() == worker || any) else {
            return;
        };
        if remote.health() != Health::New {
            return;
        }
        match outcome {
            CallOutcome::Done(CallReply::RunningTasks(tasks)) => {
                remote.fetch = Fetch::Done;
                remote.model.adopt(now, Health::Unhealthy);
                let index = remote.index;
                self.adopt_tasks(now, shard, index, tasks);
                self.initial_wait_mut().returned(worker);
            }
            CallOutcome::Done(CallReply::Empty)
            | CallOutcome::Refused(..)
            | CallOutcome::NotSent(_)
            | CallOutcome::Unknown(_) => remote.fetch = Fetch::Due(now + FETCH_RETRY),
        }
        self.evaluate(now, shard);
    }

    pub(crate) fn request_suicide(&mut self, now: Time, shard: &Shard, why: &Arc<str>) {
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        let peer = (remote.id(), remote.address().clone());
        self.ask_to_die(now, peer, why);
    }
}
