//! One shard: the worker instance that holds it, the scheduler's knowledge of it, and the calls due to it.

mod healthchecks;
mod shape;
pub(super) mod status;
mod timers;

use std::net::IpAddr;
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
use healthchecks::Healthchecks;
use status::RecentFailures;

use super::consensus::Consensus;
use crate::credits::Credits;
use crate::news::{KnownWorker, News, seconds};
use crate::record::{DeletionNumber, InstanceRecord, LeftCause, Record};

pub use timers::{OwnTimers, safety_wait};

/// How long a worker gets no task after it refused one or could not be reached. The time is fixed: long enough to spare a full worker from
/// repeated tries, and short enough to use a freed slot at once.
const BUSY_MARK: Duration = Duration::from_millis(150);
/// The delay before the first task of a worker whose heartbeat was just answered with HEALTHY. The worker refuses tasks until it has read
/// that, and `runTask` uses another connection. The delay is a few round trips of a local network.
const SETTLE: Duration = Duration::from_millis(10);
/// The most `runTask` calls to one worker without an outcome: those of a few round trips at full speed. Beyond it the worker is slower than
/// its tasks.
const MAX_STARTING: usize = 256;
/// The time between attempts to fetch running tasks from a worker that does not answer.
pub(super) const FETCH_RETRY: Duration = Duration::from_secs(1);

/// The scheduler's knowledge of one worker instance.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    description: WorkerDescription,
    index: WorkerIndex,
    model: HealthModel,
    /// The set id in its very first heartbeat, which names the scheduler that it knew before.
    initial_set: WorkerSetId,
    /// Whether an earlier scheduler recorded the worker, or the worker has named another scheduler since.
    is_known_elsewhere: bool,
    /// Whether the worker has echoed a set id of this scheduler, and so has received an answer.
    has_heard_us: bool,
    recorded_by: RecordSeq,
    is_recorded: bool,
    /// The timeouts that the worker may use, as in its record.
    timeouts: Timeouts,
    /// The last deletion of completions before the worker first associated.
    since: DeletionNumber,
    sequence: SequenceNumber,
    fetch: Fetch,
    healthchecks: Healthchecks,
    busy_until: Option<Time>,
    /// The number of `runTask` calls without an outcome.
    starting: usize,
    /// The state and the set id of the last heartbeat reply that counts as told; see [`Remote::tell`].
    told: Option<(Health, WorkerSetId)>,
    /// The state and the set id for which an extra healthcheck was sent. A worker that does not react sends its heartbeat in its own time.
    poked: Option<(Health, WorkerSetId)>,
    /// The time of the latest call and the reason why it has not reached the worker; `None` if it has.
    unreached: Option<(Time, Box<str>)>,
    /// When the worker was last sent an extra healthcheck for the benefit of others.
    asked: Option<Time>,
    wake: Option<Time>,
    /// Whether the worker said goodbye. It is kept only so that a delayed heartbeat of it is recognized.
    said_goodbye: bool,
    /// How often the association was begun again because the worker obeyed another scheduler.
    begun_anew: u32,
    /// The number of take-backs to which the worker has agreed.
    taken_back: u64,
    left: Option<Departure>,
    /// When a worker that has left is forgotten.
    forgotten_at: Option<Time>,
    additions: Additions,
    /// The recent reasons for which the worker became UNHEALTHY.
    falls: RecentFailures,
    /// The worker's requests for work, and the credit left of them.
    credits: Credits,
    /// Whether an operator's order keeps tasks away.
    barred: bool,
    /// The address from which its last heartbeat came. `None`: it has not proven who it is.
    machine: Option<IpAddr>,
}

/// The facts about an instance that has left, kept in case an operator declares it dead.
#[derive(Clone, Debug)]
pub struct Departure {
    pub at: Time,
    /// The last heartbeat after it left.
    pub heard_at: Option<Time>,
    /// The runs that were there. Their tasks wait until these can no longer be alive.
    pub runs: Vec<(Task, InvocationId)>,
    /// The reason why the worker left, for logs and `status`.
    pub why: Arc<str>,
}

/// The fields of worker-set ids that Bistro's protocol lacks and this worker omits. Unknown until the worker has echoed a set of this
/// scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Additions {
    lacks_digest: bool,
    lacks_standing: bool,
}

/// The result of an evaluation of a worker.
#[derive(Debug)]
pub enum Evaluation {
    /// The worker is lost by its timers, for this reason.
    Lost(Arc<str>),
    Alive(Evaluated),
}

/// The consequences of an evaluation of a worker that is not lost.
#[derive(Debug)]
pub struct Evaluated {
    /// The change of its health, if the log reports it.
    pub news: Option<News>,
    /// An extra healthcheck is useful.
    pub poke: bool,
    pub index: WorkerIndex,
    pub eligibility: Eligibility,
}

/// The state of the fetch of running tasks.
///
/// ```text
///   Due --call--> InFlight --tasks--> Done
///    ^               |
///    +---- failed ---+  (after a pause)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    /// The fetch is due at this time.
    Due(Time),
    InFlight(CallId),
    /// The running tasks are known. From here on they change only by `runTask` and `updateStatus`.
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
            taken_back: 0,
            left: None,
            forgotten_at: None,
            additions: Additions::default(),
            falls: RecentFailures::default(),
            barred: false,
            machine: None,
        }
    }

    /// Notes the address of the machine from which the worker has proven who it is.
    pub(crate) fn note_machine(&mut self, machine: Option<IpAddr>) {
        self.machine = machine;
    }

    pub(crate) fn machine(&self) -> Option<IpAddr> {
        self.machine
    }

    /// Sets whether an operator's order keeps tasks away. Returns whether that is a change.
    pub(crate) fn set_barred(&mut self, barred: bool) -> bool {
        std::mem::replace(&mut self.barred, barred) != barred
    }

    /// Returns whether the worker gets no further artifacts: it drains, an order keeps tasks away, or it may be dead.
    pub(crate) fn gets_no_artifacts(&self) -> bool {
        let drains = self.description.intake == Intake::Draining;
        drains || self.barred || self.health() == Health::Unhealthy
    }

    /// Returns whether the worker is expected to keep its artifacts: no other worker may leave data to one that drains or is not healthy.
    pub(crate) fn keeps_artifacts(&self) -> bool {
        self.description.intake != Intake::Draining && self.health() == Health::Healthy
    }

    /// Returns the record that makes a later scheduler wait for the worker.
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

    /// Returns why the worker is lost by its timers, for logs and `status`.
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

    /// Returns whether the worker has known an earlier scheduler or was recorded by one, and so may run unknown tasks.
    pub(crate) fn knew_a_scheduler(&self) -> bool {
        self.is_known_elsewhere || self.initial_set != WorkerSetId::default() || self.begun_anew > 0
    }

    /// Begins the association with the same instance again. A scheduler that it obeyed meanwhile may have started tasks there.
    pub(crate) fn begin_anew(&mut self, now: Time, timeouts: &Timeouts) {
        let gaps = self.gaps(timeouts);
        self.model.begin_anew(now, gaps);
        self.fetch = Fetch::Due(now);
        self.healthchecks.begin_anew();
        self.credits.begin_anew();
        (self.told, self.poked) = (None, None);
        self.begun_anew = self.begun_anew.saturating_add(1);
    }

    /// Notes that an earlier scheduler recorded the worker, or that the worker names another one. Its first heartbeat may have arrived
    /// late, and so does not decide.
    pub(crate) fn note_known_elsewhere(&mut self) {
        self.is_known_elsewhere = true;
    }

    pub(crate) fn gaps(&self, timeouts: &Timeouts) -> Gaps {
        timeouts.scheduler_gaps(self.description.heartbeat_period)
    }

    pub(crate) fn initial_set(&self) -> WorkerSetId {
        self.initial_set
    }

    /// Handles a heartbeat of this instance. Everything except its identity may have changed.
    pub(crate) fn refresh(&mut self, now: Time, description: WorkerDescription) {
        self.description = description;
        self.model.heartbeat(now);
    }

    /// Notes whether the call that was sent at `sent` reached the worker.
    pub(crate) fn note_reached<T>(&mut self, sent: Time, outcome: &CallOutcome<T>) {
        match outcome {
            CallOutcome::Done(_) | CallOutcome::Refused(..) => self.unreached = None,
            CallOutcome::NotSent(why) => self.unreached = Some((sent, why.as_str().into())),
            CallOutcome::Unknown(_) => {}
        }
    }

    /// Returns a sentence that the latest call has not reached the worker, with the reason; `None` if it has.
    pub(super) fn unreached_sentence(&self) -> Option<String> {
        let (_, why) = self.unreached.as_ref()?;
        Some(format!("the last call did not reach it ({why})"))
    }

    /// Returns whether neither the latest call reached the worker nor a heartbeat came since.
    pub(super) fn is_out_of_touch(&self) -> bool {
        let sent = self.unreached.as_ref().map(|(sent, _)| *sent);
        sent.is_some_and(|sent| self.model.last_heartbeat().is_none_or(|at| at <= sent))
    }

    /// Returns whether the worker was not asked within the last `spacing`.
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

    /// Returns the record of the association, until it is durable.
    pub(crate) fn record_to_come(&self) -> Option<RecordSeq> {
        (!self.is_recorded).then_some(self.recorded_by)
    }

    /// Returns the timeouts that the worker may use.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) fn said_goodbye(&self) -> bool {
        self.said_goodbye
    }

    pub(super) fn forgotten_at(&self) -> Option<Time> {
        self.forgotten_at
    }

    pub(super) fn note_forgotten_at(&mut self, at: Time) {
        self.forgotten_at = Some(at);
    }

    /// Notes which added fields the worker supports. It has echoed `echoed`, a set of this scheduler; `current` is the present set.
    pub(super) fn note_additions(&mut self, echoed: &WorkerSetId, current: &WorkerSetId) {
        self.additions.lacks_digest = echoed.hash.digest.is_none();
        if echoed.version == current.version {
            self.additions.lacks_standing = echoed.standing < current.standing;
        }
    }

    /// Notes that the instance was lost, replaced or said goodbye.
    pub(super) fn note_gone(&mut self, now: Time, cause: LeftCause) {
        self.model.adopt(now, Health::MustDie);
        // Credits are cleared before verdicts are fixed, so that the answer says that the request was not evaluated.
        self.credits.clear();
        self.said_goodbye |= cause == LeftCause::CleanExit;
    }

    /// Counts a task that was sent to the worker and has no outcome yet.
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

    /// Returns whether the worker gets no task at this moment: it was or may be busy, or has [`MAX_STARTING`] starts under way.
    pub(super) fn is_left_alone(&self, now: Time) -> bool {
        self.busy_until.is_some_and(|until| now < until) || self.starting >= MAX_STARTING
    }

    /// Returns whether the worker may get tasks. `first` is checked again, because a worker permitted during the initial wait may need
    /// another permission at its end.
    fn eligibility(&self, now: Time, first: FirstHealth) -> Eligibility {
        let is_busy = self.is_left_alone(now);
        match self.description.intake {
            Intake::Draining => return Eligibility::Draining,
            Intake::Open if self.barred => return Eligibility::Barred,
            Intake::Open => {}
        }
        let may_start = self.health() == Health::Healthy && first == FirstHealth::Permitted;
        if may_start && self.was_told_healthy() && !is_busy {
            Eligibility::Eligible
        } else {
            Eligibility::Ineligible
        }
    }

    /// Returns whether an extra healthcheck is useful. It makes the worker send a heartbeat; otherwise the worker would learn of a better
    /// state, or of the set that it must echo, only with its next regular one.
    fn wants_poke(&self, current: WorkerSetId, only_withheld: bool) -> bool {
        if !self.healthchecks.are_answered() {
            return false;
        }
        let news = Some((self.health(), current));
        let is_news = self.told != news && self.poked != news;
        !self.was_told_healthy()
            && is_news
            && (self.health() == Health::Healthy
                || (only_withheld && self.is_recorded && !self.has_heard_us))
    }

    /// Evaluates the worker: adopts the state of its health model, unless that says that the worker is lost. `None` if it has left.
    pub(crate) fn evaluate(
        &mut self,
        now: Time,
        timeouts: &Timeouts,
        consensus: &Consensus,
    ) -> Option<Evaluation> {
        let earlier = self.health();
        if earlier == Health::MustDie {
            return None;
        }
        let first = self.first_health(consensus);
        let verdict = self.model.next(now, self.gaps(timeouts), first);
        if verdict.health == Health::MustDie {
            return Some(Evaluation::Lost(self.why_lost(now)));
        }
        if (earlier, verdict.health) == (Health::Healthy, Health::Unhealthy)
            && let Some(why) = self.stale_evidence(now, timeouts)
        {
            self.falls.add(now, format!("it waited {why}"));
        }
        self.model.adopt(now, verdict.health);
        Some(Evaluation::Alive(Evaluated {
            news: self.health_news(now, earlier, timeouts),
            poke: self.wants_poke(consensus.current(), verdict.only_withheld),
            index: self.index,
            eligibility: self.eligibility(now, first),
        }))
    }

    /// Returns when the worker is evaluated next. `other_calls` are the times of calls about its runs; `None`: no call is permitted yet, and
    /// so would be due for ever.
    pub(crate) fn next_wake(
        &self,
        now: Time,
        timeouts: &Timeouts,
        poke: bool,
        other_calls: Option<[Option<Time>; 2]>,
    ) -> Option<Time> {
        let fetch_at = match self.fetch {
            Fetch::Due(at) => Some(at),
            Fetch::InFlight(_) | Fetch::Done => None,
        };
        let poke = poke && self.healthchecks.are_answered();
        let healthcheck_at = self.healthchecks.next(timeouts.healthcheck_period, poke);
        let busy_end = self.busy_until.filter(|&until| until > now);
        let health_at = self.model.next_change(self.gaps(timeouts));
        // A limit that has passed while only the permission is withheld stays passed, so the next check is a check interval later.
        let health_at = health_at.map(|at| {
            if at <= now {
                now + timeouts.worker_check_interval
            } else {
                at
            }
        });
        // The last moment of a credit is still good.
        let credit_end = self.credits.next_change(now);
        let credit_end = credit_end.map(|at| at + Duration::from_nanos(1));
        let calls = other_calls.map(|[one, other]| [fetch_at, healthcheck_at, one, other]);
        calls
            .into_iter()
            .flatten()
            .chain([busy_end, health_at, credit_end])
            .flatten()
            .min()
    }

    /// Returns the time until the worker is lost without new evidence of its health.
    pub(super) fn lost_in(
        &self,
        now: Time,
        timeouts: &Timeouts,
        first: FirstHealth,
    ) -> Option<Duration> {
        self.model.lost_in(now, self.gaps(timeouts), first)
    }

    pub(crate) fn last_heartbeat(&self) -> Option<Time> {
        self.model.last_heartbeat()
    }

    /// Returns how often the association was begun again because the worker obeyed another scheduler.
    pub(crate) fn begun_anew(&self) -> u32 {
        self.begun_anew
    }

    /// Counts a task that the worker has agreed to return.
    pub(crate) fn note_taken_back(&mut self) {
        self.taken_back += 1;
    }

    /// Returns the number of tasks that the worker has agreed to return.
    pub(crate) fn taken_back(&self) -> u64 {
        self.taken_back
    }

    pub(crate) fn is_fetch_due(&self, now: Time) -> bool {
        match self.fetch {
            Fetch::Due(at) => at <= now,
            Fetch::InFlight(_) | Fetch::Done => false,
        }
    }

    pub(crate) fn note_fetch_sent(&mut self, call: CallId) {
        self.fetch = Fetch::InFlight(call);
    }

    /// Notes that the worker's running tasks are known.
    pub(crate) fn note_fetched(&mut self, now: Time) {
        self.fetch = Fetch::Done;
        self.model.adopt(now, Health::Unhealthy);
    }

    pub(crate) fn retry_fetch(&mut self, now: Time) {
        self.fetch = Fetch::Due(now + FETCH_RETRY);
    }

    /// Returns the worker's requests for work, and the credit left of them.
    pub(crate) fn credits(&self) -> &Credits {
        &self.credits
    }

    pub(crate) fn credits_mut(&mut self) -> &mut Credits {
        &mut self.credits
    }

    /// Returns whether the worker may have credit: while it is HEALTHY and accepts tasks. A worker that is busy for a moment keeps its
    /// credit.
    pub(crate) fn may_have_credit(&self) -> bool {
        let is_open = match self.description.intake {
            Intake::Open => !self.barred,
            Intake::Draining => false,
        };
        is_open && self.health() == Health::Healthy
    }

    /// Notes the facts about an instance that has left.
    pub(crate) fn note_left(&mut self, left: Departure) {
        self.left = Some(left);
    }

    pub(crate) fn left(&self) -> Option<&Departure> {
        self.left.as_ref()
    }

    /// Notes a heartbeat of an instance that has left.
    pub(crate) fn note_heard_after_leaving(&mut self, now: Time) {
        if let Some(left) = &mut self.left {
            left.heard_at = Some(now);
        }
    }

    /// Removes and returns the runs of an instance that has left, and when it left. No task waits for them any more.
    pub(crate) fn take_lost_runs(&mut self) -> Option<(Time, Vec<(Task, InvocationId)>)> {
        let left = self.left.as_mut()?;
        Some((left.at, std::mem::take(&mut left.runs)))
    }

    /// Returns when this scheduler last received a heartbeat or the result of a healthcheck.
    pub(crate) fn heard_at(&self) -> Option<Time> {
        let left = self.left.as_ref().and_then(|left| left.heard_at);
        let heartbeat = self.model.last_heartbeat();
        let healthcheck = self.model.last_acknowledged_healthcheck();
        heartbeat.max(healthcheck).max(left)
    }
}
