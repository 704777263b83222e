//! Retention: forgets completions of nodes and jobs that have been missing for long, and remembered deletions that no worker can undo any
//! more.
//!
//! A missing node may come back, because its source may have listed nothing for a while; its tasks must not run again then. A job may come
//! back, because a user has renamed it or left it out of a file by mistake. So only the time counts in which a scheduler had a
//! configuration and a node table in force without them, and a working store. Neither the time in which no scheduler ran counts, nor a jump
//! of a clock. The counted time is recorded, so that it continues after a restart.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, JobName, NodeId, NodeName, RecordSeq, TaskKey, Time};
use brasserie_scheduler_engine::{Presence, Task};

use crate::news::News;
use crate::record::{DeletionNumber, Record, Trim};
use crate::scheduler::Scheduler;

/// The time between two scans of all completions.
const LONGEST_ROUND: Duration = Duration::from_secs(3600);
/// The minimum of that time, which applies to a short retention, as in trials.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
/// The number of scans within the retention time, which bounds how late a completion is forgotten.
const ROUNDS_OF_RETENTION: u32 = 16;

/// The time for which completions are kept after their node or job was found missing, however many there are. It covers a weekend in which
/// no one notices that a source lists nothing.
const GRACE: Duration = Duration::from_secs(3 * 86_400);

/// The time after which no worker repeats a deleted completion. A worker repeats an unacknowledged completion every eight seconds as long
/// as it lives, and is lost when it cannot reach the scheduler. A later repeat would be refused.
const REPEATED_FOR: Duration = Duration::from_secs(86_400);

/// The most deleted completions that are remembered in order to recognize their repeats. Each takes a hundred bytes.
const MAX_DELETED: usize = 1_000_000;

/// The longest time between two turns that counts. A running scheduler never pauses for longer.
const LONGEST_TURN: Duration = Duration::from_secs(600);
/// The minimum of that time, which applies to a short retention, as in trials.
const SHORTEST_LONGEST_TURN: Duration = Duration::from_secs(10);

/// The most pages of statuses, or jobs without any, that are scanned in one turn: a fraction of a millisecond.
const PAGES_A_TURN: usize = 64;
/// The most facts of one record.
const FACTS_A_TURN: usize = 1024;

/// The limits on completions of nodes and jobs that no longer exist. A completion whose node and job exist is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub missing_for: Duration,
    /// The most completions that are kept. Those of the nodes and jobs that have been missing longest are dropped first, but none before
    /// its node or job has been missing for three days.
    pub max_missing: usize,
}

impl Retention {
    /// A retention that never forgets anything.
    pub const UNLIMITED: Retention = Retention {
        missing_for: Duration::MAX,
        max_missing: usize::MAX,
    };

    fn round(self) -> Duration {
        (self.missing_for / ROUNDS_OF_RETENTION).clamp(SHORTEST_ROUND, LONGEST_ROUND)
    }

    fn longest_turn(self) -> Duration {
        self.round().clamp(SHORTEST_LONGEST_TURN, LONGEST_TURN)
    }
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            missing_for: Duration::from_secs(30 * 86_400),
            max_missing: 1_000_000,
        }
    }
}

/// The progress of the retention.
///
/// ```text
///   between rounds ---- time for one ----> looking at all completions, some in each turn ----> between rounds
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct Upkeep {
    /// Seconds in which node tables were in force and the store worked, under all schedulers of the directory.
    observed: u32,
    /// The time up to which `observed` is counted; `None` while it is not counted.
    counted: Option<Time>,
    next_round: Option<Time>,
    round: Option<Round>,
    /// The number of completions that may be forgotten before their time is over, and the latest time since which they may have been
    /// missing.
    excess: (usize, u32),
    /// The number of completions of missing nodes and jobs in the last round.
    missing: usize,
    /// The last record. The next one waits until it is durable.
    after: Option<RecordSeq>,
    /// The number of node tables that came into force so far, to detect the next one.
    tables: u64,
    /// Nodes that are in force again, and still recorded as missing.
    returned: VecDeque<NodeName>,
    /// Jobs that are configured again, and still recorded as missing.
    returned_jobs: VecDeque<JobName>,
    /// The value of `observed` at each deletion. The list is empty after a restart.
    deletions: VecDeque<(DeletionNumber, u32)>,
    /// The newest deletion that was added to `deletions`.
    last_deletion: DeletionNumber,
}

#[derive(Clone, Debug, Default)]
struct Round {
    job: u32,
    page: usize,
    /// The number of completions of missing nodes and jobs, by the time since which those are missing.
    seen: BTreeMap<u32, usize>,
    expired: usize,
}

impl Upkeep {
    pub(crate) fn new(observed: u32) -> Self {
        Upkeep {
            observed,
            ..Upkeep::default()
        }
    }

    /// Returns the number of completions of nodes or jobs that do not exist, as of the last round.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Counts the time since the last turn. A pause longer than `longest` means that the scheduler was stopped, and counts as `longest`.
    fn count(&mut self, now: Time, longest: Duration) {
        let counted = *self.counted.get_or_insert(now);
        let passed = now.since(counted);
        let seconds = passed.min(longest).as_secs();
        // Invariant: a u32 counts 136 years.
        self.observed = self.observed.saturating_add(seconds as u32);
        self.counted = Some(match passed > longest {
            true => now,
            false => counted + Duration::from_secs(seconds),
        });
    }

    /// Returns the time with which an absence is noted.
    fn noted_at(&self) -> u32 {
        match sabotage::on(Sabotage::CountAgeFromTheStart) {
            true => 0,
            false => self.observed,
        }
    }

    fn has_been_missing_for(&self, since: u32) -> Duration {
        Duration::from_secs(u64::from(self.observed.saturating_sub(since)))
    }

    /// Ends a round: computes how many completions the next round forgets to come down to the limit.
    fn end(&mut self, round: Round, retention: Retention) {
        self.missing = round.seen.values().sum();
        let mut excess = self.missing.saturating_sub(retention.max_missing);
        let all = excess;
        let mut up_to = 0;
        for (since, count) in round.seen {
            if excess == 0 || self.has_been_missing_for(since) < GRACE.min(retention.missing_for) {
                break;
            }
            up_to = since;
            excess = excess.saturating_sub(count);
        }
        self.excess = (all - excess, up_to);
    }

    /// Returns the last deletion that is no longer remembered from now on, if there is one.
    fn settled(&mut self, last: DeletionNumber, deleted: usize) -> Option<DeletionNumber> {
        if self.last_deletion < last {
            self.last_deletion = last;
            self.deletions.push_back((last, self.observed));
        }
        let mut settled = None;
        while let Some((number, at)) = self.deletions.front().copied()
            && (self.has_been_missing_for(at) >= REPEATED_FOR || deleted > MAX_DELETED)
        {
            settled = Some(number);
            self.deletions.pop_front();
            if deleted > MAX_DELETED {
                break;
            }
        }
        settled
    }
}

impl Scheduler {
    /// Continues the retention. Called once a turn.
    pub(crate) fn trim_history(&mut self, now: Time) {
        let retention = self.options().retention;
        if retention == Retention::UNLIMITED {
            return;
        }
        self.notice_returned();
        // A failing source may hide that a node is back.
        let is_blind = !self.engine().has_nodes_in_force() || self.nodes_error().is_some();
        if is_blind || self.store_error().is_some() {
            self.upkeep_mut().counted = None;
            return;
        }
        let upkeep = self.upkeep_mut();
        upkeep.count(now, retention.longest_turn());
        let next = *upkeep.next_round.get_or_insert(now + retention.round());
        let after = upkeep.after;
        if after.is_some_and(|seq| !self.is_persisted(seq)) {
            return;
        }
        if !self.upkeep().returned.is_empty() || !self.upkeep().returned_jobs.is_empty() {
            self.record_returned();
            return;
        }
        let round = match self.upkeep_mut().round.take() {
            Some(round) => round,
            None if now >= next => {
                self.upkeep_mut().next_round = Some(now + retention.round());
                Round::default()
            }
            None => return,
        };
        self.go_on_trimming(now, retention, round);
    }

    /// Drops the notes of missing nodes that are in the table in force again, and of jobs that are configured again. A node or job that
    /// exists for a few minutes each night is never missing for long, even if no round scans it in these minutes.
    fn notice_returned(&mut self) {
        let returned = self.engine_mut().take_returned_jobs();
        self.upkeep_mut().returned_jobs.extend(returned);
        let tables = self.engine().tables_put_in_force();
        if self.upkeep().tables == tables {
            return;
        }
        self.upkeep_mut().tables = tables;
        let returned = self.engine_mut().note_returned();
        self.upkeep_mut().returned.extend(returned);
    }

    fn record_returned(&mut self) {
        let upkeep = self.upkeep_mut();
        let nodes = upkeep.returned.len().min(FACTS_A_TURN);
        let jobs = upkeep.returned_jobs.len().min(FACTS_A_TURN - nodes);
        let trim = Trim {
            observed: upkeep.observed,
            found: upkeep.returned.drain(..nodes).collect(),
            found_jobs: upkeep.returned_jobs.drain(..jobs).collect(),
            ..Trim::default()
        };
        let seq = self.persist(Record::HistoryTrimmed(Box::new(trim)));
        self.upkeep_mut().after = Some(seq);
    }

    fn go_on_trimming(&mut self, now: Time, retention: Retention, mut round: Round) {
        let observed = self.upkeep().observed;
        let mut trim = Trim {
            observed,
            ..Trim::default()
        };
        let seq = self.next_record();
        let mut pages = 0;
        let mut is_over = false;
        while pages < PAGES_A_TURN && trim.facts() < FACTS_A_TURN {
            pages += 1;
            let job = JobId(round.job);
            match self.engine().ended_nodes_of_page(job, round.page) {
                Some(nodes) => {
                    let job_since = match nodes.is_empty() {
                        true => None,
                        false => self.note_job(job, &mut trim),
                    };
                    for node in nodes {
                        let task = Task { job, node };
                        let since = self.note_node(node, &mut trim);
                        let since = since.into_iter().chain(job_since).min();
                        if let Some(since) = since
                            && !self.expire_if_due(now, (task, since), (retention, seq), &mut trim)
                        {
                            *round.seen.entry(since).or_default() += 1;
                        }
                    }
                    round.page += 1;
                }
                None if self.engine().has_job(job) => {
                    round.job += 1;
                    round.page = 0;
                }
                None => {
                    is_over = true;
                    break;
                }
            }
        }
        round.expired += trim.expired.len();
        if is_over {
            let last = self.tasks().last_deletion();
            let deleted = self.tasks().deleted();
            trim.settled = self.upkeep_mut().settled(last, deleted);
            if let Some(settled) = trim.settled {
                self.tasks_mut().settle(settled);
            }
            if round.expired > 0 {
                self.engine_mut().names_were_let_go(round.expired);
                self.tasks_mut().shrink();
                let count = round.expired;
                self.note_news(News::CompletionsForgotten { count });
            }
            self.upkeep_mut().end(round, retention);
        } else {
            self.upkeep_mut().round = Some(round);
        }
        let is_time = is_over && self.upkeep().missing > 0;
        if trim.facts() > 0 || trim.settled.is_some() || is_time {
            let persisted = self.persist(Record::HistoryTrimmed(Box::new(trim)));
            assert_eq!(
                seq, persisted,
                "Invariant: looking at completions records nothing itself"
            );
            self.upkeep_mut().after = Some(seq);
        }
    }

    /// Returns since when the job of a completion has been missing; `None` if it exists. Notes a change.
    fn note_job(&mut self, job: JobId, trim: &mut Trim) -> Option<u32> {
        let since = self.engine().job_missing_since(job);
        let name = self.engine().job_name(job);
        let exists = self.engine().job_config(job).is_some() || self.jobs().has(name);
        let name = name.clone();
        match (exists, since) {
            (true, None) => None,
            (true, Some(since)) if sabotage::on(Sabotage::ExpireWhatCameBack) => Some(since),
            (true, Some(_)) => {
                self.engine_mut().note_job_missing(job, None);
                trim.found_jobs.push(name);
                None
            }
            (false, Some(since)) => Some(since),
            (false, None) => {
                let observed = self.upkeep().noted_at();
                self.engine_mut().note_job_missing(job, Some(observed));
                trim.missing_jobs.push(name);
                Some(observed)
            }
        }
    }

    /// Returns since when the node of a completion has been missing; `None` if it exists. Notes a change.
    fn note_node(&mut self, node: NodeId, trim: &mut Trim) -> Option<u32> {
        match self.engine().presence(node) {
            // [`Scheduler::notice_returned`] has dropped its note.
            Presence::InForce => None,
            Presence::Missing(Some(since)) => Some(since),
            Presence::Missing(None) => {
                let observed = self.upkeep().noted_at();
                self.engine_mut().note_missing(node, observed);
                trim.missing.push(self.engine().node_name(node));
                Some(observed)
            }
        }
    }

    /// Forgets the completion of a task whose node or job is missing, if its time is over or there are too many. Returns whether it did.
    fn expire_if_due(
        &mut self,
        now: Time,
        (task, since): (Task, u32),
        (retention, seq): (Retention, RecordSeq),
        trim: &mut Trim,
    ) -> bool {
        let upkeep = self.upkeep();
        let is_over = upkeep.has_been_missing_for(since) >= retention.missing_for;
        let (excess, up_to) = upkeep.excess;
        let is_excess = excess > 0 && since <= up_to;
        if !is_over && !is_excess {
            return false;
        }
        let Some(key) = self.expire(now, task, seq) else {
            return false;
        };
        trim.expired.push(key);
        if is_excess {
            self.upkeep_mut().excess.0 -= 1;
        }
        true
    }

    /// Forgets the task's completion, unless the task runs or may be alive, or its completion is not durable.
    fn expire(&mut self, now: Time, task: Task, seq: RecordSeq) -> Option<TaskKey> {
        let is_busy = self.tasks().run(task).is_some()
            || self.tasks().is_pending(task)
            || self.tasks().floors().until(now, task).is_some();
        if is_busy || self.tasks().ended(task).is_none() {
            return None;
        }
        let key = self.task_key(task);
        self.tasks_mut().expire_end(task, seq);
        self.engine_mut().forget_status(task);
        Some(key)
    }

    /// Loads since when nodes and jobs of the history have been missing, before the first event.
    pub fn remember_missing(
        &mut self,
        nodes: impl IntoIterator<Item = (NodeName, u32)>,
        jobs: impl IntoIterator<Item = (JobName, u32)>,
    ) {
        for (node, since) in nodes {
            if let Some(node) = self.engine().find_node(node.as_str()) {
                self.engine_mut().note_missing(node, since);
            }
        }
        for (job, since) in jobs {
            if let Some(job) = self.engine().find_job(job.as_str()) {
                self.engine_mut().note_job_missing(job, Some(since));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deletions_are_remembered_for_a_day_and_while_they_are_not_too_many() {
        let mut upkeep = Upkeep::new(1000);
        let (first, second) = (DeletionNumber(1), DeletionNumber(2));
        assert_eq!(upkeep.settled(DeletionNumber(0), 0), None);
        assert_eq!(upkeep.settled(first, 10), None);
        upkeep.observed += 50_000;
        assert_eq!(upkeep.settled(second, 20), None);
        upkeep.observed += 40_000;
        assert_eq!(upkeep.settled(second, 20), Some(first));
        assert_eq!(upkeep.settled(second, 10), None);
        assert_eq!(upkeep.settled(second, MAX_DELETED + 1), Some(second));
    }
}
