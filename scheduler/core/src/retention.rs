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
use brasserie_common::{JobId, JobName, NodeName, RecordSeq, Time};

use crate::record::{DeletionNumber, Trim};

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

/// The most facts of one record.
pub(crate) const FACTS_A_TURN: usize = 1024;

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
    round: Option<RetentionRound>,
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

/// One scan of all completions, and its place.
#[derive(Clone, Debug, Default)]
pub struct RetentionRound {
    job: u32,
    page: usize,
    /// The number of completions of missing nodes and jobs, by the time since which those are missing.
    seen: BTreeMap<u32, usize>,
    expired: usize,
}

impl RetentionRound {
    /// Returns the page of completions that is scanned next.
    pub fn place(&self) -> (JobId, usize) {
        (JobId(self.job), self.page)
    }

    pub fn next_page(&mut self) {
        self.page += 1;
    }

    pub fn next_job(&mut self) {
        self.job += 1;
        self.page = 0;
    }

    /// Counts a completion that stays, although its node or job is missing.
    pub fn count_missing(&mut self, since: u32) {
        *self.seen.entry(since).or_default() += 1;
    }

    pub fn count_expired(&mut self, count: usize) {
        self.expired += count;
    }

    /// Returns the number of completions that were forgotten in this round.
    pub fn expired(&self) -> usize {
        self.expired
    }
}

/// The work of the retention in one turn.
#[derive(Debug)]
pub enum UpkeepWork {
    Nothing,
    /// Records that nodes and jobs exist again.
    Record(Trim),
    /// Goes on with this round.
    Scan(RetentionRound),
}

/// Whether a completion of a missing node or job is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The completion stays.
    NotYet,
    /// The node or job has been missing for as long as the retention says.
    Due,
    /// There are more completions than the retention says.
    Excess,
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

    /// Stops counting the time, because the scheduler cannot see whether nodes are missing, or cannot record it.
    pub(crate) fn stop_counting(&mut self) {
        self.counted = None;
    }

    /// Notes how many node tables came into force so far. Returns whether there was another one since the last call.
    pub(crate) fn note_tables(&mut self, tables: u64) -> bool {
        std::mem::replace(&mut self.tables, tables) != tables
    }

    /// Notes nodes and jobs that are still recorded as missing and exist again.
    pub(crate) fn note_returned(&mut self, nodes: Vec<NodeName>, jobs: Vec<JobName>) {
        self.returned.extend(nodes);
        self.returned_jobs.extend(jobs);
    }

    /// Counts the time of a turn, and returns what to do in it.
    pub(crate) fn turn(
        &mut self,
        now: Time,
        retention: Retention,
        persisted: RecordSeq,
    ) -> UpkeepWork {
        self.count(now, retention.longest_turn());
        let next = *self.next_round.get_or_insert(now + retention.round());
        if self.after.is_some_and(|seq| seq > persisted) {
            return UpkeepWork::Nothing;
        }
        if !self.returned.is_empty() || !self.returned_jobs.is_empty() {
            return UpkeepWork::Record(self.take_returned());
        }
        match self.round.take() {
            Some(round) => UpkeepWork::Scan(round),
            None if now >= next => {
                self.next_round = Some(now + retention.round());
                UpkeepWork::Scan(RetentionRound::default())
            }
            None => UpkeepWork::Nothing,
        }
    }

    fn take_returned(&mut self) -> Trim {
        let nodes = self.returned.len().min(FACTS_A_TURN);
        let jobs = self.returned_jobs.len().min(FACTS_A_TURN - nodes);
        Trim {
            observed: self.observed,
            found: self.returned.drain(..nodes).collect(),
            found_jobs: self.returned_jobs.drain(..jobs).collect(),
            ..Trim::default()
        }
    }

    /// Returns the counted seconds.
    pub(crate) fn observed(&self) -> u32 {
        self.observed
    }

    /// Notes a record of the retention. Nothing more is done before it is durable.
    pub(crate) fn note_recorded(&mut self, seq: RecordSeq) {
        self.after = Some(seq);
    }

    /// Keeps a round that goes on in the next turn.
    pub(crate) fn put_off(&mut self, round: RetentionRound) {
        self.round = Some(round);
    }

    /// Returns whether a completion is forgotten whose node or job is missing since then.
    pub(crate) fn expiry(&self, since: u32, retention: Retention) -> Expiry {
        let (excess, up_to) = self.excess;
        if excess > 0 && since <= up_to {
            Expiry::Excess
        } else if self.has_been_missing_for(since) >= retention.missing_for {
            Expiry::Due
        } else {
            Expiry::NotYet
        }
    }

    /// Notes that a completion was forgotten.
    pub(crate) fn note_expired(&mut self, why: Expiry) {
        if why == Expiry::Excess {
            self.excess.0 -= 1;
        }
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
    pub(crate) fn noted_at(&self) -> u32 {
        match sabotage::on(Sabotage::CountAgeFromTheStart) {
            true => 0,
            false => self.observed,
        }
    }

    fn has_been_missing_for(&self, since: u32) -> Duration {
        Duration::from_secs(u64::from(self.observed.saturating_sub(since)))
    }

    /// Ends a round: computes how many completions the next round forgets to come down to the limit.
    pub(crate) fn end(&mut self, round: RetentionRound, retention: Retention) {
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
    pub(crate) fn settled(
        &mut self,
        last: DeletionNumber,
        deleted: usize,
    ) -> Option<DeletionNumber> {
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
