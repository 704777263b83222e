//! The worker's session with one scheduler: which scheduler instance it obeys, its own view of its health, its heartbeats, and the stage of
//! its life. The tasks and reports of the association are elsewhere; methods return what must become of them.

mod checks;
mod life;
mod own_health;
mod shape;

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::health::timeouts::whole_secs;
use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::time::format_duration;
use brasserie_common::worker::{HeartbeatResponse, PROTOCOL_VERSION, Supply};
use brasserie_common::worker_set::version_order;
use brasserie_common::{
    CallId, CallOutcome, Health, InvocationId, RunningTask, SchedulerId, SequenceNumber,
    ServiceAddress, Time, WorkReply, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_worker_fetch::AssociationIndex;

use self::life::{KillPace, Life};
use self::own_health::OwnHealth;
use crate::config::{AssociationOptions, MemberList, Options};
use crate::effect::{ExitReason, Goodbye};
use crate::event::{CallReply, RunTask};
use crate::heartbeat::Heartbeats;
use crate::invocations::{HealthchecksSeen, Invocations};
use crate::members::{AfterFailure, MembersReader, SchedulerMembers};
use crate::reports::{Addressee, TaskLane};
use crate::timer::earliest;
pub use life::{DrainCaller, LifeStage};
pub(crate) use life::{KillAll, Unfinished, WantedBy};

/// The longest wait that a scheduler can request, because the wire carries seconds as signed 32-bit integers. It keeps sums of waits from
/// overflowing.
const MAX_WAIT: Duration = Duration::from_secs(i32::MAX as u64);

/// The scheduler instance that may start tasks here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Binding {
    /// No scheduler has fetched the running tasks.
    Unbound,
    /// This instance fetched the running tasks last.
    To(SchedulerId),
    /// A scheduler that gave no name fetched the running tasks while a heartbeat was in flight. The worker binds to the instance that
    /// answers the heartbeat. Until then it stays bound to the earlier instance, if any.
    WhoeverAnswers(Option<SchedulerId>),
}

impl Binding {
    fn bound(self) -> Option<SchedulerId> {
        match self {
            Binding::Unbound => None,
            Binding::To(scheduler) => Some(scheduler),
            Binding::WhoeverAnswers(before) => before,
        }
    }
}

/// The reason why the last heartbeat did not count. The worker keeps trying; the shell displays the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatTrouble {
    #[error(
        "the scheduler speaks protocol version {theirs}, this worker {PROTOCOL_VERSION}: run the same release on both"
    )]
    ProtocolVersion { theirs: i16 },
    #[error("scheduler instance {scheduler} answered with a worker set of instance {of}")]
    ForeignWorkerSet {
        scheduler: SchedulerId,
        of: SchedulerId,
    },
    #[error(
        "scheduler instance {answered} answered, but this worker has met the later instance {newest}: stop the older scheduler"
    )]
    OldScheduler {
        answered: SchedulerId,
        newest: SchedulerId,
    },
    #[error("the scheduler refused the heartbeat: {0}")]
    Refused(String),
    #[error("the heartbeat failed: {0}")]
    Failed(String),
}

/// The consequence of a heartbeat's outcome.
#[derive(Debug)]
pub(crate) enum HeartbeatResult {
    /// The association no longer depends on it.
    Ignored,
    /// The goodbye has an outcome, so the association is over.
    Over(ExitReason),
    Counts(Box<HeartbeatAnswer>),
    Failed(AfterFailure),
}

/// The consequences of a heartbeat answer that counts, for the other components.
#[derive(Debug)]
pub(crate) struct HeartbeatAnswer {
    /// The scheduler instance that did not answer before, and the earliest time at which the association with it can have begun.
    pub new_scheduler: Option<(SchedulerId, Time)>,
    pub work: Option<Box<WorkReply>>,
    pub request_delay: Option<Duration>,
    /// The scheduler accepts the statuses of tasks from now on.
    pub accepts_statuses: bool,
    pub kill: Option<KillAll>,
    /// The member that answered, if another one answered before.
    pub found_at: Option<ServiceAddress>,
}

/// The worker's side of an association without tasks and reports.
///
/// Invariant: `newest` is never older than the bound instance or the scheduler of the last answer.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    index: AssociationIndex,
    /// The options of the whole worker.
    options: Arc<Options>,
    share: f64,
    members: SchedulerMembers,
    /// The description that the next heartbeat carries.
    description: WorkerDescription,
    life: Life,
    kill_pace: KillPace,
    health: OwnHealth,
    /// The latest scheduler instance that ever answered a heartbeat or fetched the running tasks.
    newest: Option<SchedulerId>,
    binding: Binding,
    sequence: SequenceNumber,
    heartbeats: Heartbeats,
    invocations: Invocations,
    healthchecks: HealthchecksSeen,
    trouble: Option<HeartbeatTrouble>,
    /// The reason why the association must end, for the log.
    why_it_ends: Option<String>,
    /// The caller that has drained the association, for the log.
    drained_by: Option<DrainCaller>,
    /// The last worker set id that arrived after a later one of the same scheduler, for the log.
    older_set: Option<WorkerSetId>,
}

impl Session {
    pub(crate) fn new(
        index: AssociationIndex,
        options: Arc<Options>,
        own: AssociationOptions,
        now: Time,
    ) -> Self {
        let members = SchedulerMembers::new(&own);
        let description = WorkerDescription {
            shard: own.shard,
            id: own.id,
            machine_lock: own.machine_lock,
            supply: match options.work_fetch {
                Some(_) => Supply::AsAsked,
                None => Supply::AsSlotsAllow,
            },
            // A pull worker requests the work that it queues.
            takes_standby: options.description.takes_standby && options.work_fetch.is_none(),
            ..options.description.clone()
        };
        let period = description.heartbeat_period;
        Session {
            index,
            options,
            share: own.share,
            members,
            description,
            life: Life::Running,
            kill_pace: KillPace::AsUsual,
            health: OwnHealth::new(now, period),
            newest: None,
            binding: Binding::Unbound,
            sequence: SequenceNumber::default(),
            heartbeats: Heartbeats::new(now, period),
            invocations: Invocations::new(now),
            healthchecks: HealthchecksSeen::default(),
            trouble: None,
            why_it_ends: None,
            drained_by: None,
            older_set: None,
        }
    }

    /// Returns a session of the instance `id` in place of this one, which is over.
    pub(crate) fn anew(&self, id: WorkerId, now: Time) -> Session {
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
        let mut anew = Session::new(self.index, Arc::clone(&self.options), own, now);
        anew.members = self.members.clone();
        anew.members.begin_anew();
        anew.description.usable = self.description.usable.clone();
        anew
    }

    /// Judges the worker's own health, before the worker serves or sends anything. A worker that is lost must die.
    pub(crate) fn judge_health(&mut self, now: Time) -> Option<KillAll> {
        if !self.life.keeps_association() {
            return None;
        }
        if let Some(since) = self.health.judge(now) {
            self.why_it_ends = Some(self.health.why_lost(now));
            return self.die(ExitReason::MustDie, since);
        }
        if self.health.health() == Health::Healthy && self.health.answer().is_some() {
            self.heartbeats.no_hurry();
        }
        None
    }

    /// Requests a heartbeat at once. Only a worker that is still joining needs it.
    fn hurry(&mut self) {
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

    /// Abandons the heartbeat in flight if it has timed out.
    pub(crate) fn time_out_heartbeat(&mut self, now: Time) -> Option<AfterFailure> {
        if !self.heartbeats.give_up(now) {
            return None;
        }
        let deadline = self.options.call_deadline;
        let trouble = HeartbeatTrouble::Failed(format!("no answer within {deadline:?}"));
        Some(self.heartbeat_failed(now, trouble))
    }

    /// Returns whether a heartbeat leaves now, and whether it is the last one.
    pub(crate) fn next_heartbeat(&self, now: Time) -> Option<Goodbye> {
        let goodbye = match &self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. }
                if self.heartbeats.due() <= now =>
            {
                Goodbye::No
            }
            Life::Farewell { goodbye: None, .. } => Goodbye::TasksAreDead,
            Life::Running
            | Life::Draining { .. }
            | Life::Leaving { .. }
            | Life::Farewell { .. }
            | Life::Dying { .. }
            | Life::Gone => return None,
        };
        // An ordinary heartbeat would associate the worker anew if it arrived after the goodbye.
        (!self.heartbeats.is_in_flight()).then_some(goodbye)
    }

    pub(crate) fn heartbeat_sent(&mut self, now: Time, call: CallId) {
        let deadline = now + self.options.call_deadline;
        self.heartbeats.sent(now, call, deadline);
        self.members.sent();
        if let Life::Farewell { goodbye, .. } = &mut self.life {
            *goodbye = Some(call);
        }
    }

    fn heartbeat_failed(&mut self, now: Time, trouble: HeartbeatTrouble) -> AfterFailure {
        self.heartbeats.failed(now);
        self.trouble = Some(trouble);
        self.members.failed()
    }

    /// Returns whether the heartbeat in flight is this call.
    pub(crate) fn waits_for_heartbeat(&self, call: CallId) -> bool {
        self.heartbeats.waits_for(call)
    }

    /// Handles the outcome of a heartbeat. Drops it if the heartbeat has timed out.
    pub(crate) fn heartbeat_completed(
        &mut self,
        now: Time,
        call: CallId,
        outcome: CallOutcome<CallReply>,
    ) -> HeartbeatResult {
        let Some(beat) = self.heartbeats.take(call) else {
            return HeartbeatResult::Ignored;
        };
        let sent = beat.sent;
        match self.life {
            Life::Running | Life::Draining { .. } | Life::Leaving { .. } => {}
            Life::Farewell {
                ref reason,
                goodbye,
                ..
            } if goodbye == Some(call) => {
                let reason = reason.clone();
                self.life = Life::Gone;
                return HeartbeatResult::Over(reason);
            }
            Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => {
                return HeartbeatResult::Ignored;
            }
        }
        let result = match outcome {
            CallOutcome::Done(CallReply::Heartbeat(response)) => {
                self.heartbeat_answered(now, sent, *response)
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
            Ok(mut answer) => {
                self.trouble = None;
                answer.found_at = self.members.answered().cloned();
                HeartbeatResult::Counts(Box::new(answer))
            }
            Err(trouble) => HeartbeatResult::Failed(self.heartbeat_failed(now, trouble)),
        }
    }

    fn heartbeat_answered(
        &mut self,
        now: Time,
        sent: Time,
        response: HeartbeatResponse,
    ) -> Result<HeartbeatAnswer, HeartbeatTrouble> {
        let mut response = bounded(response);
        let scheduler = response.scheduler;
        self.check_response(&response)
            .inspect_err(|trouble| self.answer_does_not_count(sent, trouble))?;
        let begun = self.heartbeats.settled(sent);
        // Neither time is later than the beginning of the scheduler's count: the scheduler computes `not_healthy_for` after the heartbeat
        // was sent.
        let told = response.not_healthy_for.map(|so_long| sent - so_long);
        let begun = begun.max(told.unwrap_or_default());
        let before = self.health.take_answer();
        let set_before = before.as_ref().map(|old| old.worker_set);
        let news = before.as_ref().is_none_or(|old| {
            old.worker_set != response.worker_set || old.worker_state != response.worker_state
        });
        let known = before.filter(|old| old.scheduler == scheduler);
        let new_scheduler = match &known {
            Some(old) => {
                let heard = response.worker_set;
                response.worker_set = later_set(old.worker_set, heard);
                if version_order(heard.version, old.worker_set.version) == Some(Ordering::Less) {
                    self.older_set = Some(heard);
                }
                None
            }
            None => {
                self.associate(begun, scheduler);
                Some((scheduler, begun))
            }
        };
        if let Binding::WhoeverAnswers(_) = self.binding {
            self.binding = Binding::To(scheduler);
        }
        let state = response.worker_state;
        let (work, request_delay) = (response.work.take(), response.request_delay.take());
        let was_new = self.health.health() == Health::New;
        self.health.answered(sent, begun, response);
        let kill = self.judge_health(now);
        if news {
            self.hurry();
        }
        if set_before != Some(self.worker_set()) && self.health.health() == Health::Healthy {
            self.heartbeats.new_set();
        }
        Ok(HeartbeatAnswer {
            new_scheduler,
            work,
            request_delay,
            accepts_statuses: was_new && state != Health::New,
            kill,
            found_at: None,
        })
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

    /// Begins an association with a scheduler that did not answer before. Health and sequence number begin anew.
    fn associate(&mut self, begun: Time, scheduler: SchedulerId) {
        self.newest = Some(scheduler);
        self.members.forget_answered();
        // The time counts from the sending, so that the loss time runs out here before it does at the scheduler.
        self.health.begin_anew(begun);
        if !sabotage::on(Sabotage::KeepCounterForNewScheduler) {
            self.sequence = SequenceNumber::default();
        }
    }

    // ---- the scheduler's members ----

    /// Returns the addresses of the scheduler.
    pub(crate) fn members(&self) -> &[ServiceAddress] {
        self.members.members()
    }

    /// Returns whether the members of the scheduler can change.
    pub(crate) fn member_list(&self) -> &MemberList {
        self.members.list()
    }

    /// Returns whether a read of the members is in flight, whose result then also goes to this reader.
    pub(crate) fn join_member_read(&mut self, reader: MembersReader) -> bool {
        self.members.join_read(reader)
    }

    /// Records that a read of the members has begun.
    pub(crate) fn member_read_begun(&mut self, now: Time, call: CallId, reader: MembersReader) {
        let deadline = now + self.options.call_deadline;
        self.members.begin_read(call, deadline, reader);
    }

    pub(crate) fn waits_for_members(&self, call: CallId) -> bool {
        self.members.waits_for(call)
    }

    /// Handles the outcome of a read, and returns its reader with the members. `None` instead of members if the read failed or found none;
    /// the members then stay as they were.
    pub(crate) fn member_read_completed(
        &mut self,
        call: CallId,
        outcome: CallOutcome<CallReply>,
    ) -> Option<(MembersReader, Option<Vec<ServiceAddress>>)> {
        let reader = self.members.take(call)?;
        let read = match outcome {
            CallOutcome::Done(CallReply::Members(read)) if !read.is_empty() => Some(read),
            CallOutcome::Done(_)
            | CallOutcome::Refused(..)
            | CallOutcome::NotSent(_)
            | CallOutcome::Unknown(_) => None,
        };
        if let Some(read) = &read {
            self.members.replace(read.clone());
        }
        Some((reader, read))
    }

    /// Abandons the read in flight if it has timed out, and returns its reader.
    pub(crate) fn time_out_member_read(&mut self, now: Time) -> Option<MembersReader> {
        self.members.give_up(now)
    }

    // ---- tasks and reports ----

    /// Remembers an invocation that was accepted, refused or denied. It never starts later.
    pub(crate) fn remember(&mut self, now: Time, invocation: InvocationId) {
        self.invocations.remember(now, invocation);
    }

    /// Drops an invocation, for the injected bugs.
    pub(crate) fn forget(&mut self, invocation: InvocationId) {
        self.invocations.forget(invocation);
    }

    pub(crate) fn remember_healthcheck(&mut self, run: &RunTask) {
        self.healthchecks.remember(run);
    }

    /// Returns whether the scheduler instance that sent a healthcheck is gone.
    pub(crate) fn is_outdated(&self, requester: SchedulerId) -> bool {
        self.newest.is_some_and(|newest| requester < newest)
    }

    /// Returns the scheduler instance that reports may go to now, if any.
    pub(crate) fn addressee(&self) -> Option<Addressee> {
        let scheduler = self.scheduler().filter(|_| self.life != Life::Gone)?;
        // A dying worker learns no newer state, so it sends statuses even while NEW.
        let tells_new = !self.life.is_suicide() && self.health.health() == Health::New;
        let open = !tells_new && self.binding.bound() == Some(scheduler);
        Some(Addressee {
            association: self.index,
            scheduler,
            worker: self.id(),
            tasks: if open {
                TaskLane::Open
            } else {
                TaskLane::Closed
            },
        })
    }

    /// Requests a heartbeat soon. A scheduler that does not accept the statuses of its own workers may be a new instance, which waits for a
    /// heartbeat.
    pub(crate) fn status_not_acknowledged(&mut self, now: Time, addressed: SchedulerId) {
        if self.scheduler() == Some(addressed) {
            self.heartbeats.doubted(now);
        }
    }

    /// Handles the acknowledgement of a healthcheck that has succeeded.
    pub(crate) fn healthcheck_acknowledged(
        &mut self,
        now: Time,
        accepted_at: Time,
    ) -> Option<KillAll> {
        self.health.good_healthcheck(accepted_at);
        let kill = self.judge_health(now);
        match self.health.health() {
            Health::Healthy => self.heartbeats.healthcheck_acknowledged(),
            Health::New | Health::Unhealthy | Health::MustDie => self.hurry(),
        }
        kill
    }

    /// Counts a healthcheck as successful, without the heartbeat that the acknowledgement of one makes.
    #[cfg(test)]
    pub(crate) fn good_healthcheck(&mut self, at: Time) {
        self.health.good_healthcheck(at);
    }

    // ---- getters ----

    pub(crate) fn id(&self) -> WorkerId {
        self.description.id
    }

    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// Returns the description that the next heartbeat carries.
    pub(crate) fn description(&self) -> &WorkerDescription {
        &self.description
    }

    /// Sets the resources of the machine.
    pub(crate) fn set_usable(&mut self, usable: &UsablePhysicalResources) {
        self.description.usable.clone_from(usable);
    }

    /// Returns the names that programs use for the GPUs of an accepted task.
    pub(crate) fn cuda_devices(&self, task: &RunningTask) -> Vec<String> {
        let cards = &self.description.usable.gpus;
        let of_share = |device: &str| {
            let at = cards.iter().position(|card| card.pci_bus_id == device)?;
            let name = &cards[at].cuda_device;
            // Programs number GPUs in the order in which the worker lists them.
            Some(if name.is_empty() {
                at.to_string()
            } else {
                name.clone()
            })
        };
        let shares = task.gpus.iter();
        shares.filter_map(|share| of_share(&share.device)).collect()
    }

    /// Returns the member for heartbeats; `None` if no member is known.
    pub(crate) fn hears_heartbeats(&self) -> Option<&ServiceAddress> {
        self.members.of_heartbeats()
    }

    /// Returns the member for statuses; `None` if no member is known.
    pub(crate) fn hears_statuses(&self) -> Option<&ServiceAddress> {
        self.members.of_statuses()
    }

    /// Returns the worker's own view of its health.
    pub(crate) fn health(&self) -> Health {
        self.health.health()
    }

    /// Returns the scheduler instance that sent the last heartbeat answer that counted.
    pub(crate) fn scheduler(&self) -> Option<SchedulerId> {
        self.health.answer().map(|answer| answer.scheduler)
    }

    pub(crate) fn scheduler_uses_artifacts(&self) -> bool {
        let answer = self.health.answer();
        answer.is_some_and(|answer| answer.uses_artifacts)
    }

    /// Returns the scheduler instance that may start tasks here.
    pub(crate) fn bound_to(&self) -> Option<SchedulerId> {
        self.binding.bound()
    }

    /// Returns the worker set id that the next heartbeat echoes.
    pub(crate) fn worker_set(&self) -> WorkerSetId {
        let answer = self.health.answer();
        answer.map(|answer| answer.worker_set).unwrap_or_default()
    }

    pub(crate) fn heartbeat_trouble(&self) -> Option<&HeartbeatTrouble> {
        self.trouble.as_ref()
    }

    pub(crate) fn older_set(&self) -> Option<WorkerSetId> {
        self.older_set
    }

    pub(crate) fn why_it_ends(&self) -> Option<&str> {
        self.why_it_ends.as_deref()
    }

    /// Returns whether no scheduler would send anything to this association: it serves none, or is out of its favour. A worker that was
    /// HEALTHY for the scheduler and is not now gets nothing, whatever it requests. A worker that was never HEALTHY may still send
    /// requests, which limit what it gets once it is HEALTHY. Each turn calls this function.
    pub(crate) fn is_absent(&self) -> bool {
        let serves = match self.life {
            Life::Running | Life::Draining { .. } => true,
            Life::Leaving { .. } | Life::Farewell { .. } | Life::Dying { .. } | Life::Gone => false,
        };
        !serves || self.scheduler().is_none() || self.health.is_no_longer_healthy()
    }

    /// Returns for how long the scheduler has not answered, and why, as a text for people; `None` if its last answer counts.
    pub(crate) fn unanswered(&self, now: Time) -> Option<String> {
        let since = self
            .health
            .last_heartbeat()
            .filter(|_| self.scheduler().is_some());
        let span = since.map(|at| format_duration(whole_secs(now.since(at))));
        Some(match (span, &self.trouble) {
            (Some(_), None) => return None,
            (None, None) => "has not answered yet".to_owned(),
            (None, Some(HeartbeatTrouble::Failed(why))) => format!("has not answered yet: {why}"),
            (None, Some(trouble)) => format!("has not given an answer that counts: {trouble}"),
            (Some(span), Some(HeartbeatTrouble::Failed(why))) => {
                format!("has not answered for {span}: {why}")
            }
            (Some(span), Some(trouble)) => {
                format!("has not given an answer that counts for {span}: {trouble}")
            }
        })
    }

    /// Returns when there is something to do if no event arrives.
    pub(crate) fn due(&self, now: Time) -> Option<Time> {
        let heartbeat = self.life.keeps_association().then(|| self.heartbeats.due());
        earliest([
            heartbeat,
            self.life_due(),
            self.health
                .due(now)
                .filter(|_| self.life.keeps_association()),
            self.members.due(),
        ])
    }
}

fn with_reason(what: &str, why: Option<&str>) -> String {
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
