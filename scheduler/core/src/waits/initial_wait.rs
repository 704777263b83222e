//! The initial wait: after a start no task starts until every worker that might run tasks is known or certainly dead. Explains what the
//! wait depends on.

pub mod messages;
mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::text::counted;
use brasserie_common::time::format_duration;
use brasserie_common::{RecordSeq, SchedulerId, Shard, Time, Timeouts, WorkerId};
use messages::startup_wait_warning;

use crate::options::Options;
use crate::pool::consensus::FormerSet;
use crate::record::{Durable, InstanceRecord};

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
    /// Counts the changes of [`InitialWait::unanswered`].
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
pub struct Silence {
    pub heard_at: Option<Time>,
    /// The time after which no earlier scheduler has answered the instance.
    pub answered_until: Time,
    /// The time by which an instance that is alive and can reach this scheduler has sent a heartbeat.
    pub heard_by: Time,
}

/// The end of the initial wait.
#[derive(Debug)]
pub struct WaitEnd {
    pub why: String,
    /// The end is to be recorded, because a record makes a restart wait.
    pub is_recorded: bool,
    /// No hold-back is left, so the set of workers is settled.
    pub settles: bool,
}

/// The end of all hold-backs.
#[derive(Debug)]
pub struct HoldBackEnd {
    pub is_recorded: bool,
    /// The initial wait is over, too, so the set of workers is settled.
    pub settles: bool,
}

/// Whether the directory remembers a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquaintance {
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

    /// Handles a worker's statement that it knew `scheduler` before. If the directory does not remember both, its record is stale. Returns
    /// whether a wait because of that begins.
    pub(crate) fn witness(
        &mut self,
        now: Time,
        scheduler: SchedulerId,
        worker: Acquaintance,
    ) -> bool {
        let was_stale = self.is_stale();
        self.judge_record(now, scheduler, worker);
        !was_stale && self.is_stale()
    }

    fn judge_record(&mut self, now: Time, scheduler: SchedulerId, worker: Acquaintance) {
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
    pub(crate) fn length_after_a_restart(&self) -> Duration {
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
                        "consensus: exactly the last set of an earlier scheduler is here, {}",
                        counted(count as u64, "worker")
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

    /// Returns whether the wait itself is over. A hold-back may still keep tasks from starting.
    pub(crate) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Iterates over the recorded instances that this scheduler has not answered, with the time since which no scheduler has.
    pub(crate) fn unanswered(&self) -> impl Iterator<Item = (WorkerId, Time)> + '_ {
        let expected = self.expected.iter();
        expected.filter_map(|(id, e)| Some((*id, e.unanswered_since?)))
    }

    /// Returns a number that changes with [`InitialWait::unanswered`].
    pub(crate) fn unanswered_version(&self) -> u64 {
        self.unanswered_version
    }

    /// Handles all deadlines up to now. Returns the instances that did not come back within the safe wait of their own timeouts.
    pub(crate) fn pass_deadlines(&mut self, now: Time) -> Vec<WorkerId> {
        self.seen = now;
        let expected = self.expected.iter();
        expected
            .filter(|(_, e)| now >= e.dead_at)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns whether the wait ends now, unless workers have yet to report their running tasks.
    pub(crate) fn may_end(&self, now: Time, wall_seconds: i64, former: FormerSet) -> bool {
        self.reason_to_leave(now, wall_seconds, former).is_some()
    }

    /// Ends the wait if it may end. `knows_runs` returns whether all workers have reported their running tasks; the operator's override does
    /// not require that.
    pub(crate) fn end(
        &mut self,
        now: Time,
        wall_seconds: i64,
        former: FormerSet,
        knows_runs: impl FnOnce() -> bool,
    ) -> Option<WaitEnd> {
        if self.over.is_some() {
            return None;
        }
        let why = self.reason_to_leave(now, wall_seconds, former)?;
        let is_forced = self.override_timestamp > wall_seconds;
        if !is_forced && !knows_runs() {
            return None;
        }
        self.over = Some(why.clone());
        let waited_anew = self.waits_anew_by.take().is_some();
        // An unknown worker may still run tasks during a hold-back, so the present set must not end another wait.
        let settles = self.hold_backs.is_empty();
        Some(WaitEnd {
            why,
            is_recorded: settles && waited_anew,
            settles,
        })
    }

    /// Ends hold-backs that are over. The operator's override also ends those that an earlier scheduler left.
    pub(crate) fn end_hold_backs(&mut self, now: Time, wall_seconds: i64) -> Option<HoldBackEnd> {
        let is_forced = self.hold_back_is_old() && self.override_timestamp > wall_seconds;
        let until = self.hold_back_until()?;
        (now >= until || is_forced).then(|| self.drop_hold_backs())
    }

    /// Ends the hold-back for a worker that is dead, and its tasks with it.
    pub(crate) fn end_hold_back_of(&mut self, worker: WorkerId) -> Option<HoldBackEnd> {
        let is_last = self.hold_backs.remove(&Some(worker)).is_some() && self.hold_backs.is_empty();
        is_last.then(|| self.drop_hold_backs())
    }

    fn drop_hold_backs(&mut self) -> HoldBackEnd {
        self.hold_backs.clear();
        HoldBackEnd {
            // Otherwise the record must still make a restart wait.
            is_recorded: self.waits_anew_by.is_none(),
            settles: self.over.is_some(),
        }
    }

    /// Returns the record that makes the next scheduler wait, while this wait has no trusted record.
    pub(crate) fn waits_anew_by(&self) -> Option<RecordSeq> {
        self.waits_anew_by
    }

    pub(crate) fn note_waits_anew(&mut self, by: RecordSeq) {
        self.waits_anew_by = Some(by);
    }

    /// Iterates over the expected instances with their shards.
    pub(crate) fn expected(&self) -> impl Iterator<Item = (&Shard, WorkerId)> {
        let expected = self.expected.iter();
        expected.map(|(id, expected)| (&expected.instance.shard, *id))
    }

    fn is_stale(&self) -> bool {
        matches!(self.basis, Basis::Stale(_)) && self.over.is_none()
    }
}
