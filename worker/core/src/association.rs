//! The association of a worker with one scheduler: the binding, the worker's view of its own health, and the tasks and reports. A worker
//! with several schedulers has one association for each, and each scheduler sees an independent worker.

mod shape;
mod trouble;
mod view;

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::health::timeouts::{whole_secs, worker_gaps};
use brasserie_common::health::{FirstHealth, Gaps};
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::time::format_duration;
use brasserie_common::worker::{HeartbeatResponse, PROTOCOL_VERSION, Supply};
use brasserie_common::worker_set::version_order;
use brasserie_common::{
    CallId, CallOutcome, Health, HealthModel, SchedulerId, SequenceNumber, Time, WorkerDescription,
    WorkerId, WorkerSetId,
};
use brasserie_worker_fetch::AssociationIndex;

use crate::config::{AssociationOptions, MemberList, Options};
use crate::effect::{Call, ExitReason, Goodbye};
use crate::event::CallReply;
use crate::heartbeat::Heartbeats;
use crate::invocations::Invocations;
use crate::reports::{Kind, Reports};
use crate::requests::HealthchecksSeen;
use crate::suicide::{Life, Patience};
use crate::tasks::Tasks;
use crate::timer::earliest;
use crate::turn::Turn;
use crate::whereabouts::{AfterFailure, Reader, Whereabouts};
pub use trouble::HeartbeatTrouble;
pub use view::LifeStage;

/// The longest wait that a scheduler can request, because the wire carries seconds as signed 32-bit integers. It keeps sums of waits from
/// overflowing.
const MAX_WAIT: Duration = Duration::from_secs(i32::MAX as u64);

/// The scheduler instance that may start tasks here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binding {
    /// No scheduler has fetched the running tasks.
    Unbound,
    /// This instance fetched the running tasks last.
    To(SchedulerId),
    /// A scheduler that gave no name fetched the running tasks while a heartbeat was in flight. The worker binds to the instance that
    /// answers the heartbeat. Until then it stays bound to the earlier instance, if any.
    WhoeverAnswers(Option<SchedulerId>),
}

impl Binding {
    pub(crate) fn bound(self) -> Option<SchedulerId> {
        match self {
            Binding::Unbound => None,
            Binding::To(scheduler) => Some(scheduler),
            Binding::WhoeverAnswers(before) => before,
        }
    }
}

/// The worker's half of an association.
///
/// Invariant: `newest` is never older than the bound instance or the scheduler of `response`.
#[derive(Clone, Debug)]
pub struct Association {
    pub(crate) index: AssociationIndex,
    /// The options of the whole worker.
    pub(crate) options: Arc<Options>,
    pub(crate) share: f64,
    pub(crate) whereabouts: Whereabouts,
    /// The description that the next heartbeat carries.
    pub(crate) description: WorkerDescription,
    pub(crate) life: Life,
    pub(crate) patience: Patience,
    pub(crate) health: HealthModel,
    /// The last heartbeat answer that counted. Its worker set never goes back to an earlier version.
    response: Option<HeartbeatResponse>,
    /// The latest scheduler instance that ever answered a heartbeat or fetched the running tasks.
    pub(crate) newest: Option<SchedulerId>,
    pub(crate) binding: Binding,
    pub(crate) sequence: SequenceNumber,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) tasks: Tasks,
    pub(crate) invocations: Invocations,
    pub(crate) healthchecks: HealthchecksSeen,
    pub(crate) reports: Reports,
    trouble: Option<HeartbeatTrouble>,
    /// The reason why the association must end, for the log.
    pub(crate) why_it_ends: Option<String>,
    /// The last worker set id that arrived after a later one of the same scheduler, for the log.
    older_set: Option<WorkerSetId>,
}

impl Association {
    pub(crate) fn new(
        index: AssociationIndex,
        options: Arc<Options>,
        own: AssociationOptions,
        now: Time,
    ) -> Self {
        let whereabouts = Whereabouts::new(&own);
        let description = WorkerDescription {
            shard: own.shard,
            id: own.id,
            machine_lock: own.machine_lock,
            supply: match options.work_fetch {
                Some(_) => Supply::AsAsked,
                None => Supply::AsSlotsAllow,
            },
            ..options.description.clone()
        };
        let period = description.heartbeat_period;
        Association {
            index,
            options,
            share: own.share,
            whereabouts,
            description,
            life: Life::Running,
            patience: Patience::Normal,
            health: HealthModel::new(now),
            response: None,
            newest: None,
            binding: Binding::Unbound,
            sequence: SequenceNumber::default(),
            heartbeats: Heartbeats::new(now, period),
            tasks: Tasks::default(),
            invocations: Invocations::new(now),
            healthchecks: HealthchecksSeen::default(),
            reports: Reports::default(),
            trouble: None,
            why_it_ends: None,
            older_set: None,
        }
    }

    /// Replaces this association, which is over, by a new one of the instance `id`.
    pub(crate) fn begin_anew(&mut self, id: WorkerId, now: Time) {
        assert_eq!(self.life, Life::Gone, "Invariant: the last life is over");
        assert!(
            id.0.start_time > self.id().0.start_time,
            "Invariant: each instance begins in a later second"
        );
        let own = AssociationOptions {
            shard: self.description.shard.clone(),
            id,
            machine_lock: self.description.machine_lock.clone(),
            share: self.share,
            members: Vec::new(),
            list: MemberList::Fixed,
        };
        let mut anew = Association::new(self.index, Arc::clone(&self.options), own, now);
        anew.whereabouts = self.whereabouts.clone();
        anew.whereabouts.begin_anew();
        anew.description.usable = self.description.usable.clone();
        *self = anew;
    }

    pub(crate) fn id(&self) -> WorkerId {
        self.description.id
    }

    fn last_word(&self) -> Option<Health> {
        self.response.as_ref().map(|response| response.worker_state)
    }

    fn gaps(&self) -> Option<Gaps> {
        let period = self.description.heartbeat_period;
        self.response.as_ref().map(|r| worker_gaps(r, period))
    }

    /// Judges the worker's own health, before the worker serves or sends anything. If the machine slept through a change, the change is
    /// dated to when it was due.
    pub(crate) fn judge_health(&mut self, turn: &mut Turn<'_>) {
        let Some(gaps) = self.gaps().filter(|_| self.life.keeps_association()) else {
            return;
        };
        // The worker is HEALTHY only because an answer said so. The scheduler formed that opinion after the answered heartbeat was sent. So
        // the loss time counts from that sending at the earliest, however old or unknown the healthchecks are, and not from the arrival of
        // the answer.
        let fresh_until = self.health.next_change(gaps);
        let checked = self.health.last_good_healthcheck();
        let ended = checked.and(fresh_until).max(self.health.last_heartbeat());
        if self.health.health() == Health::Healthy
            && let Some(at) = ended
            && at <= turn.now
        {
            let verdict = self.health.next(at, gaps, FirstHealth::Withheld);
            self.health.adopt(at, verdict.health);
        }
        let lost_at = self.lost_at();
        let verdict = self.health.next(turn.now, gaps, FirstHealth::Withheld);
        let health = match verdict.health {
            // Once the worker was HEALTHY, the scheduler's answers alone can end it, whatever the worker's own evidence says.
            _ if lost_at.is_some_and(|at| at <= turn.now) => Health::MustDie,
            // The scheduler's opinion holds until its next answer: the scheduler may have begun the association anew.
            Health::Healthy if self.last_word() != Some(Health::Healthy) => Health::Unhealthy,
            Health::New | Health::Healthy | Health::Unhealthy | Health::MustDie => verdict.health,
        };
        self.health.adopt(turn.now, health);
        match health {
            // If `lost_at` is `None`, the scheduler has declared the worker lost. The wait after which its tasks run elsewhere begins when
            // the scheduler's timers run out. They run out before the worker's by at most the safety margin, and the worker's have not run
            // out. So the full kill wait from now ends in time.
            Health::MustDie => {
                let since = lost_at.map_or(turn.now, |at| at.min(turn.now));
                if self.life.keeps_association() {
                    self.why_it_ends = Some(self.why_lost(turn.now));
                }
                self.die(turn, ExitReason::MustDie, since);
            }
            Health::Healthy => self.heartbeats.no_hurry(),
            Health::New | Health::Unhealthy => {}
        }
    }

    /// Returns the reason why the worker is lost, by the scheduler's answer or by its own timers, for the log.
    fn why_lost(&self, now: Time) -> String {
        if let Some(response) = &self.response
            && response.worker_state == Health::MustDie
        {
            let why = response.why_must_die.as_deref();
            return with_reason("the scheduler has declared this worker lost", why);
        }
        let ago = |at: Time| format_duration(whole_secs(now.since(at)));
        let heartbeat = match self.health.last_heartbeat() {
            Some(at) => format!(
                "; the last heartbeat that it answered was sent {} ago",
                ago(at)
            ),
            None => String::new(),
        };
        let since = ago(self.health.became_unhealthy());
        format!(
            "the scheduler has not kept this worker healthy for {since}, and gives its tasks to others{heartbeat}"
        )
    }

    /// Returns when the worker counts itself as lost if no message arrives. `None` if no scheduler has answered it, or if it is lost
    /// already.
    pub(crate) fn lost_at(&self) -> Option<Time> {
        // A value at a limit is still good.
        let just_after = |at: Time| at + Duration::from_nanos(1);
        let gaps = self.gaps()?;
        let lose_after = |since: Time| just_after(since + gaps.lose_after);
        let fresh_until = || {
            let heartbeat = self.health.last_heartbeat()? + gaps.max_heartbeat;
            let healthcheck = self.health.last_good_healthcheck()? + gaps.max_healthcheck;
            Some(just_after(heartbeat.min(healthcheck)))
        };
        let since = self.health.became_unhealthy();
        match self.health.health() {
            Health::New => Some(lose_after(since)),
            // The worker was HEALTHY, and the scheduler says that it is not. The scheduler counts the loss time, whatever the worker knows.
            Health::Unhealthy
                if self.health.has_been_healthy() && self.last_word() != Some(Health::Healthy) =>
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

    /// Returns when the result of `judge_health` could change without an event.
    fn health_due(&self, now: Time) -> Option<Time> {
        let gaps = self.gaps().filter(|_| self.life.keeps_association())?;
        let stale = |last: Option<Time>, gap| last.map(|at| at + gap + Duration::from_nanos(1));
        earliest(
            [
                self.health.next_change(gaps),
                stale(self.health.last_heartbeat(), gaps.max_heartbeat),
                stale(self.health.last_good_healthcheck(), gaps.max_healthcheck),
            ]
            .into_iter()
            .filter(|at| at.is_some_and(|at| at > now)),
        )
    }

    /// Requests a heartbeat at once. Only a worker that is still joining needs it.
    pub(crate) fn hurry(&mut self) {
        if self.health.health() != Health::Healthy {
            self.heartbeats.soon();
        }
    }

    /// Requests a heartbeat, because the scheduler may have restarted. While heartbeats fail, this does nothing: the retries find a
    /// restarted scheduler. So a peer that closes every connection is tried only once a second.
    pub(crate) fn connection_lost(&mut self) {
        if self.trouble.is_none() || self.heartbeats.is_in_flight() {
            self.heartbeats.connection_lost();
        }
    }

    pub(crate) fn send_heartbeat(&mut self, turn: &mut Turn<'_>) {
        if self.heartbeats.give_up(turn.now) {
            let deadline = self.options.call_deadline;
            let trouble = HeartbeatTrouble::Failed(format!("no answer within {deadline:?}"));
            self.heartbeat_failed(turn, trouble);
        }
        self.give_up_list(turn);
        let goodbye = match &self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. }
                if self.heartbeats.due() <= turn.now =>
            {
                Goodbye::No
            }
            Life::Farewell { goodbye: None, .. } => Goodbye::TasksAreDead,
            Life::Running
            | Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => return,
        };
        // An ordinary heartbeat would associate the worker anew if it arrived after the goodbye.
        if self.heartbeats.is_in_flight() {
            return;
        }
        let call = Call::Heartbeat {
            worker: Box::new(self.described_on(turn.machine)),
            worker_set: self.worker_set(),
            goodbye,
        };
        let call = turn.call(self.index, call);
        let deadline = turn.now + self.options.call_deadline;
        self.heartbeats.sent(turn.now, call, deadline);
        self.whereabouts.sent();
        if let Life::Farewell { goodbye, .. } = &mut self.life {
            *goodbye = Some(call);
        }
    }

    fn heartbeat_failed(&mut self, turn: &mut Turn<'_>, trouble: HeartbeatTrouble) {
        self.heartbeats.failed(turn.now);
        self.trouble = Some(trouble);
        match self.whereabouts.failed() {
            AfterFailure::ReadList => self.read_members(turn, Reader::Heartbeats),
            AfterFailure::TryNext => {}
        }
    }

    /// Returns whether this association made the call and still waits for its outcome.
    pub(crate) fn waits_for(&self, call: CallId) -> bool {
        let is_talk = self.heartbeats.waits_for(call) || self.reports.is_in_flight(call);
        is_talk || self.whereabouts.waits_for(call)
    }

    /// Handles the outcome of a call. Drops it if the call has timed out.
    pub(crate) fn call_completed(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        outcome: CallOutcome<CallReply>,
    ) {
        if let Some(beat) = self.heartbeats.take(call) {
            self.heartbeat_completed(turn, call, beat.sent, outcome);
        } else if let Some(report) = self.reports.take(call) {
            self.report_completed(turn, report, outcome);
        } else if let Some(reader) = self.whereabouts.take(call) {
            self.list_call_completed(turn, reader, outcome);
        }
    }

    fn heartbeat_completed(
        &mut self,
        turn: &mut Turn<'_>,
        call: CallId,
        sent: Time,
        outcome: CallOutcome<CallReply>,
    ) {
        match self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => {}
            Life::Farewell {
                ref reason,
                goodbye,
                ..
            } if goodbye == Some(call) => {
                let reason = reason.clone();
                return self.exit(turn, reason);
            }
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => return,
        }
        let result = match outcome {
            CallOutcome::Done(CallReply::Heartbeat(response)) => {
                self.heartbeat_answered(turn, sent, *response)
            }
            CallOutcome::Done(
                CallReply::Acknowledged
                | CallReply::Work(_)
                | CallReply::NoSuchCall
                | CallReply::Members(_),
            ) => {
                self.heartbeats.went_astray(sent);
                let text = "the answer is none to a heartbeat".to_owned();
                Err(HeartbeatTrouble::Failed(text))
            }
            // A scheduler that refuses the heartbeat has no association with this worker.
            CallOutcome::Refused(_, text) => {
                self.heartbeats.settled(sent);
                Err(HeartbeatTrouble::Refused(text))
            }
            CallOutcome::NotSent(text) => Err(HeartbeatTrouble::Failed(text)),
            CallOutcome::Unknown(text) => {
                self.heartbeats.went_astray(sent);
                Err(HeartbeatTrouble::Failed(text))
            }
        };
        match result {
            Ok(()) => {
                self.trouble = None;
                self.found(turn);
            }
            Err(trouble) => self.heartbeat_failed(turn, trouble),
        }
    }

    fn heartbeat_answered(
        &mut self,
        turn: &mut Turn<'_>,
        sent: Time,
        response: HeartbeatResponse,
    ) -> Result<(), HeartbeatTrouble> {
        let mut response = bounded(response);
        let scheduler = response.scheduler;
        self.check_response(&response)
            .inspect_err(|trouble| self.answer_does_not_count(sent, trouble))?;
        let begun = self.heartbeats.settled(sent);
        // Neither time is later than the beginning of the scheduler's count: the scheduler computes `not_healthy_for` after the heartbeat
        // was sent.
        let told = response.not_healthy_for.map(|so_long| sent - so_long);
        let begun = begun.max(told.unwrap_or_default());
        let before = self.response.take();
        let set_before = before.as_ref().map(|old| old.worker_set);
        let news = before.as_ref().is_none_or(|old| {
            old.worker_set != response.worker_set || old.worker_state != response.worker_state
        });
        match before.filter(|old| old.scheduler == scheduler) {
            Some(old) => {
                let heard = response.worker_set;
                response.worker_set = later_set(old.worker_set, heard);
                if version_order(heard.version, old.worker_set.version) == Some(Ordering::Less) {
                    self.older_set = Some(heard);
                }
            }
            None => self.associate(begun, scheduler),
        }
        if let Binding::WhoeverAnswers(_) = self.binding {
            self.binding = Binding::To(scheduler);
        }
        let state = response.worker_state;
        let work = response.work.take();
        let request_delay = response.request_delay.take();
        self.response = Some(response);
        if let Some(fetching) = &mut turn.machine.fetching {
            fetching.heartbeat_answered(turn.now, self.index, work.as_deref(), request_delay);
        }
        let was_new = self.health.health() == Health::New;
        self.health.heartbeat(sent);
        // The scheduler formed its opinion between the sending and now, or earlier. The earliest possible time counts.
        self.health.adopt(begun, state);
        if was_new && state != Health::New {
            self.reports.ready_all(turn.now);
        }
        self.judge_health(turn);
        if news {
            self.hurry();
        }
        if set_before != Some(self.worker_set()) && self.health.health() == Health::Healthy {
            self.heartbeats.new_set();
        }
        Ok(())
    }

    fn check_response(&self, response: &HeartbeatResponse) -> Result<(), HeartbeatTrouble> {
        let scheduler = response.scheduler;
        if response.protocol_version != PROTOCOL_VERSION {
            return Err(HeartbeatTrouble::ProtocolVersion {
                theirs: response.protocol_version,
            });
        }
        if response.worker_set.scheduler != scheduler {
            return Err(HeartbeatTrouble::ForeignWorkerSet {
                scheduler,
                of: response.worker_set.scheduler,
            });
        }
        match self.newest {
            Some(newest) if scheduler < newest => Err(HeartbeatTrouble::OldScheduler {
                answered: scheduler,
                newest,
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Records a heartbeat whose answer does not count. If an older scheduler has received it, no newer one has.
    fn answer_does_not_count(&mut self, sent: Time, trouble: &HeartbeatTrouble) {
        match trouble {
            HeartbeatTrouble::OldScheduler { .. } => {}
            HeartbeatTrouble::ProtocolVersion { .. }
            | HeartbeatTrouble::ForeignWorkerSet { .. }
            | HeartbeatTrouble::Refused(_)
            | HeartbeatTrouble::Failed(_) => self.heartbeats.went_astray(sent),
        }
    }

    /// Begins an association with a scheduler that did not answer before. Health and sequence number begin anew; tasks stay.
    fn associate(&mut self, begun: Time, scheduler: SchedulerId) {
        self.newest = Some(scheduler);
        self.whereabouts.is_another();
        // The time counts from the sending, so that the loss time runs out here before it does at the scheduler.
        self.health = HealthModel::new(begun);
        if !sabotage::on(Sabotage::KeepCounterForNewScheduler) {
            self.sequence = SequenceNumber::default();
        }
        // The new scheduler asks about the tasks that it misses, and does not wait for healthchecks of other instances.
        let dropped = self.reports.retain(|report| match report.kind {
            Kind::End => true,
            Kind::Healthcheck(requester) => requester >= scheduler,
            Kind::NotRunning => false,
        });
        for (key, invocation) in dropped {
            // A "not running" answer is about no run of this worker, so only healthchecks are found.
            if key.job.as_str() == brasserie_common::ids::HEALTHCHECK_JOB {
                self.tasks.forget(&key, invocation);
            }
        }
        self.reports.ready_all(begun);
    }

    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let heartbeat = self.life.keeps_association().then(|| self.heartbeats.due());
        let reports = self.reports.due(self.addressee());
        let reports = reports.filter(|_| self.life != Life::Gone);
        let limits = self.tasks.next_limit();
        earliest([
            heartbeat,
            reports,
            limits,
            self.life_due(),
            self.health_due(now),
            self.whereabouts.due(),
        ])
    }
}

pub(crate) fn with_reason(what: &str, why: Option<&str>) -> String {
    match why.filter(|why| !why.is_empty()) {
        Some(why) => format!("{what}: {why}"),
        None => what.to_owned(),
    }
}

fn bounded(response: HeartbeatResponse) -> HeartbeatResponse {
    HeartbeatResponse {
        max_healthcheck_gap: response.max_healthcheck_gap.min(MAX_WAIT),
        heartbeat_grace_period: response.heartbeat_grace_period.min(MAX_WAIT),
        lose_unhealthy_worker_after: response.lose_unhealthy_worker_after.min(MAX_WAIT),
        ..response
    }
}

/// Returns the later of two sets of one scheduler. If they have no order, returns `known`, which the worker has echoed already.
fn later_set(known: WorkerSetId, heard: WorkerSetId) -> WorkerSetId {
    match version_order(heard.version, known.version) {
        Some(Ordering::Greater) => heard,
        Some(Ordering::Less | Ordering::Equal) | None => known,
    }
}
