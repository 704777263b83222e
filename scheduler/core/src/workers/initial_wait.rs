//! The initial wait: after a start no task starts until every worker that might run tasks is known or certainly dead. Explains what the
//! wait depends on.

mod messages;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::time::format_duration;
use brasserie_common::{
    Health, RecordSeq, SchedulerId, Shard, Time, Timeouts, WorkerId, WorkerSetId,
};
use messages::startup_wait_warning;

use super::consensus::FormerSet;
use super::remote::Remote;
use crate::news::News;
use crate::options::Options;
use crate::record::{Durable, InstanceRecord, LeftCause, Record};
use crate::scheduler::Scheduler;

/// The state of the initial wait.
///
/// ```text
///              every recorded instance returned or is certainly dead (trusted record)
///              consensus of the workers after the kill margin (no trusted record)
///              new cluster | safe wait over | operator's override
///   Waiting ------------------------------------------------------------> Over
///      ^                                                                    |
///      +--- a worker names a scheduler that this directory does not remember, before the safe wait is over
/// ```
#[derive(Clone, Debug)]
pub(crate) struct InitialWait {
    start: Time,
    /// When every worker that does not report to this scheduler has ended its tasks.
    safe_at: Time,
    /// The earliest end by consensus. Before it, a worker that was lost just before the start may still be killing its tasks, and consensus
    /// does not know that worker.
    consensus_at: Time,
    /// The operator's wait, which replaces all other conditions.
    startup_wait: Option<Duration>,
    /// Why the operator's wait is dangerous.
    warning: Option<String>,
    basis: Basis,
    /// The recorded instances that have neither returned nor died yet.
    expected: BTreeMap<WorkerId, Expected>,
    /// Whether the wait for some instance counts from before this scheduler's start.
    counts_from_bounds: bool,
    /// Counts the changes of [`Scheduler::unanswered`].
    unanswered_version: u64,
    schedulers: BTreeSet<SchedulerId>,
    /// The end of each hold-back, by the lost worker whose tasks were not known. `None`: a hold-back left by an earlier scheduler.
    hold_backs: BTreeMap<Option<WorkerId>, Time>,
    /// The record of the last instance that an operator declared dead. No task starts before it is durable: after a crash, the next
    /// scheduler would accept the instance again if it returned.
    declared_dead: Option<RecordSeq>,
    /// The record that makes the next scheduler wait, too, while this wait has no trusted record.
    waits_anew_by: Option<RecordSeq>,
    /// Unix seconds from the configuration. A value in the future ends the wait.
    override_timestamp: i64,
    over: Option<String>,
    /// The time up to which deadlines have been handled, even if the wait goes on for another reason.
    seen: Time,
}

/// The basis on which the wait may end.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Basis {
    /// The directory remembers every instance that may run tasks.
    Record,
    /// The directory is new, and the operator states that the cluster is new, too.
    NewCluster,
    /// The directory is new, and it is not known whether a scheduler ran before.
    Nothing,
    /// A worker knew something that this directory does not remember. The directory is an old backup or the wrong one.
    Stale(Witness),
    /// The operator states that the directory is a restored backup. Any fact may be missing, and no witness may be left to show it.
    Restored,
}

/// A fact that a worker knows and the directory should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Witness {
    /// The scheduler instance that the worker knows.
    Scheduler(SchedulerId),
    /// The worker itself: a scheduler of this directory has answered it, and does so only once the instance is recorded.
    Worker(WorkerId),
}

#[derive(Clone, Debug)]
struct Expected {
    instance: InstanceRecord,
    dead_at: Time,
    /// The time after which no scheduler has answered the instance. `None`: this scheduler has answered it.
    unanswered_since: Option<Time>,
    /// When this scheduler last received a heartbeat of the instance, answered or refused.
    heard_at: Option<Time>,
}

/// The silence of an instance that has not returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) heard_at: Option<Time>,
    /// The time after which no earlier scheduler has answered the instance.
    pub(crate) answered_until: Time,
    /// The time by which an instance that is alive and can reach this scheduler has sent a heartbeat.
    pub(crate) heard_by: Time,
}

/// Whether the directory remembers a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acquaintance {
    /// The worker is in the record, or left it.
    Remembered,
    Stranger(WorkerId),
}

impl InitialWait {
    pub(crate) fn new(options: &Options, durable: &Durable, now: Time) -> Self {
        let longest = durable
            .instances
            .values()
            .map(|i| i.timeouts.min_safe_wait())
            .max();
        let safe_wait = options
            .timeouts
            .min_safe_wait()
            .max(longest.unwrap_or_default());
        let expected = durable.instances.iter().map(|(&id, instance)| {
            let known = durable.answered.get(&id).filter(|_| !durable.is_a_backup);
            let unanswered_since = known.map_or(now, |until| (*until).min(now));
            // The instance's own timeouts count, which may be longer than those of this scheduler.
            let dead_at = unanswered_since + instance.timeouts.min_safe_wait();
            (
                id,
                Expected {
                    instance: instance.clone(),
                    dead_at,
                    unanswered_since: Some(unanswered_since),
                    heard_at: None,
                },
            )
        });
        InitialWait {
            start: now,
            safe_at: now + safe_wait,
            consensus_at: now
                + if options.allow_bump_unhealthy_worker {
                    // A bumped worker is in no set, and its own timers may have just begun.
                    safe_wait
                } else {
                    options.timeouts.kill_margin()
                },
            warning: options
                .startup_wait
                .and_then(|wait| startup_wait_warning(wait, &options.timeouts)),
            startup_wait: options.startup_wait,
            basis: match (durable.cluster.is_some(), options.new_cluster) {
                _ if durable.is_a_backup => Basis::Restored,
                (true, true) if sabotage::on(Sabotage::NewClusterAlways) => Basis::NewCluster,
                (true, _) => Basis::Record,
                (false, true) => Basis::NewCluster,
                (false, false) => Basis::Nothing,
            },
            expected: expected.collect(),
            counts_from_bounds: !durable.is_a_backup
                && durable.answered.values().any(|until| *until < now),
            unanswered_version: 0,
            schedulers: durable.schedulers.clone(),
            hold_backs: (!durable.hold_back.is_zero())
                .then(|| {
                    let operators = options.startup_wait.unwrap_or(Duration::MAX);
                    (None, now + durable.hold_back.min(operators))
                })
                .into_iter()
                .collect(),
            declared_dead: None,
            waits_anew_by: None,
            override_timestamp: 0,
            over: None,
            seen: now,
        }
    }

    pub(crate) fn ended_because(&self) -> Option<&str> {
        self.over.as_deref()
    }

    pub(crate) fn config_override(&mut self, timestamp: i64) {
        self.override_timestamp = timestamp;
    }

    /// Removes an instance that has returned with its tasks known, or is dead.
    pub(crate) fn returned(&mut self, worker: WorkerId) {
        self.expected.remove(&worker);
    }

    /// Returns whether an earlier scheduler recorded the instance, and it is neither back nor dead.
    pub(crate) fn expects(&self, worker: WorkerId) -> bool {
        self.expected.contains_key(&worker)
    }

    /// Notes that this scheduler has answered the instance.
    pub(crate) fn note_answered(&mut self, worker: WorkerId) {
        if let Some(expected) = self.expected.get_mut(&worker) {
            expected.unanswered_since = None;
            self.unanswered_version += 1;
        }
    }

    /// Makes all waits count from the start, because the record is stale and its bounds may be, too.
    fn distrust_bounds(&mut self) {
        let start = self.start;
        for expected in self.expected.values_mut() {
            if let Some(since) = &mut expected.unanswered_since {
                *since = start;
                expected.dead_at = start + expected.instance.timeouts.min_safe_wait();
            }
        }
        // The bounds no longer count, so instances that were dropped as dead may be alive, and consensus does not count them. So consensus
        // must not end the wait before `safe_at`.
        if self.counts_from_bounds {
            self.consensus_at = self.safe_at;
        }
        self.unanswered_version += 1;
    }

    /// Notes a heartbeat of the instance, whether it is accepted or refused.
    pub(crate) fn note_heard(&mut self, worker: WorkerId, now: Time) {
        if let Some(expected) = self.expected.get_mut(&worker) {
            expected.heard_at = Some(now);
        }
    }

    /// Returns when a recorded instance last sent a heartbeat or was answered, as far as it is known.
    pub(crate) fn silence_of(&self, worker: WorkerId) -> Option<Silence> {
        let expected = self.expected.get(&worker)?;
        Some(Silence {
            heard_at: expected.heard_at,
            answered_until: expected.unanswered_since.unwrap_or(self.start),
            heard_by: self.start + expected.instance.heartbeat_period,
        })
    }

    pub(crate) fn recorded(&self, worker: WorkerId) -> Option<&InstanceRecord> {
        Some(&self.expected.get(&worker)?.instance)
    }

    pub(crate) fn expected_where(
        &self,
        matches: impl Fn(WorkerId, &InstanceRecord) -> bool,
    ) -> Vec<WorkerId> {
        self.expected
            .iter()
            .filter(|(id, e)| matches(**id, &e.instance))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the longest timeouts that an instance may use: those that earlier schedulers sent to it and its tasks, or those of this
    /// scheduler.
    pub(crate) fn longest_timeouts(&self, worker: WorkerId, ours: Timeouts) -> Timeouts {
        match self.expected.get(&worker) {
            Some(e) => ours.longest(&e.instance.timeouts),
            None => ours,
        }
    }

    pub(crate) fn note_declared_dead(&mut self, by: RecordSeq) {
        self.declared_dead = Some(by);
    }

    pub(crate) fn declared_dead(&self) -> Option<RecordSeq> {
        self.declared_dead
    }

    pub(crate) fn hold_back(&mut self, now: Time, worker: WorkerId, wait: Duration) {
        if !wait.is_zero() {
            self.hold_backs.insert(Some(worker), now + wait);
        }
    }

    fn hold_back_until(&self) -> Option<Time> {
        self.hold_backs.values().max().copied()
    }

    /// Returns the end of the hold-back that the loss of this worker caused.
    pub(crate) fn hold_back_of(&self, worker: WorkerId) -> Option<Time> {
        self.hold_backs.get(&Some(worker)).copied()
    }

    /// Returns whether only an earlier scheduler has left hold-backs, and no worker was lost under this one.
    fn hold_back_is_old(&self) -> bool {
        self.hold_backs.keys().all(Option::is_none)
    }

    /// Handles a worker's statement that it knew `scheduler` before. If the directory does not remember both, its record is stale.
    fn witness(&mut self, now: Time, scheduler: SchedulerId, worker: Acquaintance) {
        if self.basis == Basis::Restored || sabotage::on(Sabotage::TrustStaleRecord) {
            return;
        }
        self.basis = match worker {
            _ if !self.schedulers.contains(&scheduler) => {
                Basis::Stale(Witness::Scheduler(scheduler))
            }
            Acquaintance::Stranger(worker) => Basis::Stale(Witness::Worker(worker)),
            Acquaintance::Remembered => return,
        };
        self.distrust_bounds();
        if now < self.safe_at && self.startup_wait.is_none() {
            self.over = None;
        }
    }

    /// Returns when the state may next change by time alone.
    pub(crate) fn next_change(&self) -> Option<Time> {
        if self.over.is_some() {
            return self.hold_back_until();
        }
        // A deadline that has been handled while the wait goes on would wake the shell for ever.
        let dead = self.expected.values().map(|e| e.dead_at).min();
        let startup = self.startup_wait.map(|wait| self.start + wait);
        let consensus = self.may_end_by_consensus().then_some(self.consensus_at);
        let safe = Some(self.safe_at);
        [safe, consensus, dead, startup, self.hold_back_until()]
            .into_iter()
            .flatten()
            .filter(|at| *at > self.seen)
            .min()
    }

    /// Returns how long the next scheduler must wait after a restart, because this one has no trusted record yet. Zero if that is recorded
    /// or not necessary.
    fn length_after_a_restart(&self) -> Duration {
        if self.over.is_some() || self.waits_anew_by.is_some() || !self.has_no_trusted_record() {
            return Duration::ZERO;
        }
        self.startup_wait.unwrap_or(self.safe_at.since(self.start))
    }

    /// Returns the same, to be recorded with the start of this instance in record `by`.
    pub(crate) fn restart_must_wait(&mut self, by: RecordSeq) -> Duration {
        let wait = self.length_after_a_restart();
        self.waits_anew_by = (!wait.is_zero()).then_some(by);
        wait
    }

    /// Returns whether instances that may run tasks may be unknown.
    fn has_no_trusted_record(&self) -> bool {
        match self.basis {
            Basis::Nothing | Basis::Stale(_) | Basis::Restored => true,
            Basis::Record | Basis::NewCluster => false,
        }
    }

    /// Returns whether consensus may end the wait. A trusted record decides instead, because it may contain workers that the former set
    /// lacks. The operator's own wait, and the wait after a restored backup, also exclude consensus.
    fn may_end_by_consensus(&self) -> bool {
        matches!(self.basis, Basis::Nothing | Basis::Stale(_)) && self.startup_wait.is_none()
    }

    fn reason_to_leave(&self, now: Time, wall_seconds: i64, former: FormerSet) -> Option<String> {
        if self.override_timestamp > wall_seconds {
            return Some("CAUTION_exit_initial_wait_before_timestamp is in the future".to_owned());
        }
        if let Some(wait) = self.startup_wait {
            let is_over = now >= self.start + wait;
            return is_over.then(|| {
                format!(
                    "--caution-startup-wait-for-workers {} is over",
                    format_duration(wait)
                )
            });
        }
        if now >= self.safe_at {
            return Some("the safe wait is over".to_owned());
        }
        match self.basis {
            Basis::Record
                if self.expected.len()
                    <= usize::from(sabotage::on(Sabotage::EndWaitOneWorkerEarly)) =>
            {
                Some("every recorded worker instance has returned or is dead".to_owned())
            }
            Basis::NewCluster => Some("the cluster is new".to_owned()),
            // A stale record still names instances that may run tasks. The wait for them ends only when they return or are dead.
            Basis::Nothing | Basis::Stale(_) if !self.expected.is_empty() => None,
            Basis::Record if !sabotage::on(Sabotage::ConsensusOverridesRecord) => None,
            Basis::Record | Basis::Nothing | Basis::Stale(_) => match former {
                FormerSet::Complete(count)
                    if now >= self.consensus_at
                        || sabotage::on(Sabotage::ConsensusBeforeKillMargin) =>
                {
                    Some(format!(
                        "consensus: the {count} worker(s) that are here are exactly the last set of an earlier scheduler"
                    ))
                }
                FormerSet::Complete(_)
                | FormerSet::NoWorkers
                | FormerSet::Strangers(_)
                | FormerSet::NotSettled(_)
                | FormerSet::Differing(_)
                | FormerSet::Incomplete { .. }
                | FormerSet::OtherMembers => None,
            },
            Basis::Restored => None,
        }
    }
}

impl Scheduler {
    /// Iterates over the recorded instances that this scheduler has not answered, with the time since which no scheduler has. All other
    /// instances may be answered at any time.
    pub fn unanswered(&self) -> impl Iterator<Item = (WorkerId, Time)> + '_ {
        let expected = self.initial_wait().expected.iter();
        expected.filter_map(|(id, e)| Some((*id, e.unanswered_since?)))
    }

    /// Returns a number that changes with [`Scheduler::unanswered`].
    pub fn unanswered_version(&self) -> u64 {
        self.initial_wait().unanswered_version
    }

    pub(crate) fn update_initial_wait(&mut self, now: Time) {
        self.initial_wait_mut().seen = now;
        self.drop_the_dead(now);
        let wall_seconds = self.wall().as_secs();
        self.end_hold_back(now, wall_seconds);
        if self.initial_wait().over.is_some() {
            return;
        }
        let former = self.workers().consensus().former_set();
        let reason = self
            .initial_wait()
            .reason_to_leave(now, wall_seconds, former);
        let Some(reason) = reason else { return };
        let is_forced = self.initial_wait().override_timestamp > wall_seconds;
        if is_forced || self.untold().next().is_none() {
            self.note_news(News::WaitEnded {
                why: reason.clone(),
            });
            let wait = self.initial_wait_mut();
            wait.over = Some(reason);
            let waited_anew = wait.waits_anew_by.take().is_some();
            // An unknown worker may still run tasks during a hold-back, so the present set must not end another wait.
            if wait.hold_backs.is_empty() {
                if waited_anew {
                    self.persist(Record::HoldBackOver);
                }
                self.settle_the_set(now);
            }
        }
    }

    /// Iterates over the shards of workers that may run tasks which they have not reported.
    fn untold(&self) -> impl Iterator<Item = &Shard> {
        let untold = |w: &&Remote| w.health() == Health::New && w.knew_a_scheduler();
        self.workers().iter().filter(untold).map(Remote::shard)
    }

    /// Ends hold-backs that are over. The operator's override also ends those that an earlier scheduler left.
    fn end_hold_back(&mut self, now: Time, wall_seconds: i64) {
        let wait = self.initial_wait();
        let is_forced = wait.hold_back_is_old() && wait.override_timestamp > wall_seconds;
        let Some(until) = wait.hold_back_until() else {
            return;
        };
        if now >= until || is_forced {
            self.drop_hold_backs(now);
        }
    }

    /// Ends the hold-back for a worker that is dead, and its tasks with it.
    pub(crate) fn end_hold_back_of(&mut self, now: Time, worker: WorkerId) {
        let hold_backs = &mut self.initial_wait_mut().hold_backs;
        if hold_backs.remove(&Some(worker)).is_some() && hold_backs.is_empty() {
            self.drop_hold_backs(now);
        }
    }

    fn drop_hold_backs(&mut self, now: Time) {
        let wait = self.initial_wait_mut();
        wait.hold_backs.clear();
        let is_over = wait.over.is_some();
        // Otherwise the record must still make a restart wait.
        if wait.waits_anew_by.is_none() {
            self.persist(Record::HoldBackOver);
        }
        if is_over {
            self.note_news(News::HoldBackEnded);
            self.settle_the_set(now);
        }
    }

    /// Checks whether this directory remembers a worker and the scheduler that it knew last. Returns the record that the answer must wait
    /// for: the worker forgets that scheduler when it receives an answer of this one, and from then on only the record has the information.
    pub(crate) fn witness(
        &mut self,
        now: Time,
        worker: WorkerId,
        worker_set: WorkerSetId,
    ) -> Option<RecordSeq> {
        if worker_set.scheduler != self.id() && worker_set != WorkerSetId::default() {
            let is_remembered = self.workers().shard_with(worker).is_some()
                || self.workers().has_left(worker)
                || self.initial_wait().expects(worker);
            let acquaintance = if is_remembered {
                Acquaintance::Remembered
            } else {
                Acquaintance::Stranger(worker)
            };
            let wait = self.initial_wait();
            let is_stale = matches!(wait.basis, Basis::Stale(_)) && wait.over.is_none();
            self.initial_wait_mut()
                .witness(now, worker_set.scheduler, acquaintance);
            if self.initial_wait().over.is_none() {
                self.workers_mut().consensus_mut().unsettle();
                if !is_stale
                    && matches!(self.initial_wait().basis, Basis::Stale(_))
                    && let Some(why) = self.wait_message(now)
                {
                    self.note_news(News::WaitBegan { why });
                }
            }
            self.wait_anew_after_a_restart();
        }
        self.initial_wait().waits_anew_by
    }

    /// Records that a restart must wait, while this scheduler waits without a trusted record.
    pub(crate) fn wait_anew_after_a_restart(&mut self) {
        let wait = self.initial_wait().length_after_a_restart();
        if !wait.is_zero() {
            let seq = self.persist(Record::HoldBack { wait });
            self.initial_wait_mut().waits_anew_by = Some(seq);
        }
    }

    /// Drops recorded instances that did not come back within the safe wait of their own timeouts.
    fn drop_the_dead(&mut self, now: Time) {
        let wait = self.initial_wait();
        let dead: Vec<WorkerId> = wait
            .expected
            .iter()
            .filter(|(_, e)| now >= e.dead_at)
            .map(|(id, _)| *id)
            .collect();
        for worker in dead {
            // An associated worker in NEW is waited for as such, and leaves the record by its own loss.
            if self
                .workers()
                .iter()
                .any(|w| w.id() == worker && w.health() != Health::MustDie)
            {
                self.initial_wait_mut().returned(worker);
                continue;
            }
            self.bury_expected(worker, LeftCause::DidNotReturn);
        }
    }
}
