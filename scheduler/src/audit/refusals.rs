//! Counts the calls that are refused, by caller, and bounds how many of them the audit log has, so that nobody fills the disk or drives other
//! lines out of it.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::access::ShardLabel;
use brasserie_common::{Ration, Time};
use parking_lot::Mutex;

/// Lines of one kind and caller that may come at once.
const BURST: u32 = 20;
/// Interval at which one more line of a kind and caller is permitted after a burst.
const REFILL: Duration = Duration::from_secs(3);
/// The time after which refusals without a line are counted in one of their own.
const OVERDUE: Duration = Duration::from_secs(60);

/// The most counters: those of all tokens and workers of a large cluster that are refused something within a minute.
const MOST_COUNTERS: usize = 4096;
/// The shortest time between two lines about renewals of one shard. Its worker renews once in days.
const BETWEEN_RENEWALS: Duration = Duration::from_secs(600);

/// Why a caller was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RefusalReason {
    /// It has not proven who it is.
    Proof,
    /// It has shown no valid token.
    Token,
    /// Its role may not make the call.
    Role,
    /// It speaks for another shard than that of its certificate.
    Shard,
    /// It speaks for another instance of its shard than the bound one.
    Instance,
    /// It does not own what it wants to change.
    Owner,
    /// It may not join, or not renew its certificate.
    Join,
}

impl RefusalReason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            RefusalReason::Proof => "proof",
            RefusalReason::Token => "token",
            RefusalReason::Role => "role",
            RefusalReason::Shard => "shard",
            RefusalReason::Instance => "instance",
            RefusalReason::Owner => "owner",
            RefusalReason::Join => "join",
        }
    }
}

/// The calls of which the log has a bounded number of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Bounded {
    /// Refused because of who made them.
    Caller(RefusalReason),
    /// Changes that cannot be made, such as one of a job that does not exist. Anybody who may make changes can request them in a loop.
    Change,
    /// Certificates that people get for their calls to workers.
    Certificate,
    /// Logins of browsers.
    Login,
    /// Revocations of shards that are revoked already, which change nothing.
    Repeated,
}

impl Bounded {
    pub(super) fn name(self) -> &'static str {
        match self {
            Bounded::Caller(reason) => reason.name(),
            Bounded::Change => "change",
            Bounded::Certificate => "certificate",
            Bounded::Login => "login",
            Bounded::Repeated => "repeated",
        }
    }
}

/// A kind of calls, and the token, shard or user of their caller. Callers without any share an empty name.
pub(super) type CounterKey = (Bounded, String);

/// The bounds of all kinds of lines, and all refusals of callers since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Counters>);

#[derive(Debug, Default)]
struct Counters {
    by_caller: BTreeMap<CounterKey, Ration>,
    totals: BTreeMap<RefusalReason, u64>,
}

impl Refusals {
    /// Counts a call of a caller. Returns the number of those before it that have no line, if it may have a line.
    pub(super) fn count(&self, now: Time, kind: Bounded, caller: &str) -> Option<u64> {
        let mut all = self.0.lock();
        if let Bounded::Caller(reason) = kind {
            *all.totals.entry(reason).or_default() += 1;
        }
        all.counter(now, kind, caller).count(now)
    }

    /// Returns the calls that have waited long for a line that counts them.
    pub(super) fn overdue(&self, now: Time) -> Vec<(CounterKey, u64)> {
        let mut all = self.0.lock();
        let due = all.by_caller.iter_mut().filter_map(|(key, counter)| {
            let suppressed = counter.overdue(now, OVERDUE)?;
            Some((key.clone(), suppressed))
        });
        due.collect()
    }

    /// Returns the refusals of callers by the names of the reasons.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let all = self.0.lock();
        let totals = all.totals.iter();
        totals
            .map(|(reason, total)| (reason.name().to_owned(), *total))
            .collect()
    }
}

impl Counters {
    /// Returns the counter of a caller. If there are too many, callers that have none share one.
    fn counter(&mut self, now: Time, kind: Bounded, caller: &str) -> &mut Ration {
        let mut key = (kind, caller.to_owned());
        if !self.by_caller.contains_key(&key) && self.by_caller.len() >= MOST_COUNTERS {
            self.by_caller.retain(|_, counter| counter.is_in_use(now));
            if self.by_caller.len() >= MOST_COUNTERS {
                key.1.clear();
            }
        }
        let counter = self.by_caller.entry(key);
        counter.or_insert(Ration::new(BURST, REFILL))
    }
}

/// The renewals of certificates by shard, of which the log has few lines.
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<BTreeMap<ShardLabel, Ration>>);

impl Renewals {
    /// Counts a renewal. Returns the number of those before it that have no line, if it may have a line.
    pub(super) fn count(&self, now: Time, shard: &ShardLabel) -> Option<u64> {
        let mut all = self.0.lock();
        if !all.contains_key(shard) {
            // Shards come and go.
            all.retain(|_, ration| ration.is_in_use(now));
        }
        let ration = all.entry(shard.clone());
        ration
            .or_insert(Ration::new(1, BETWEEN_RENEWALS))
            .count(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOF: Bounded = Bounded::Caller(RefusalReason::Proof);

    #[test]
    fn a_shard_that_renews_all_the_time_has_few_lines() {
        let shard = |name: &str| {
            let shard = brasserie_common::Shard::try_from(name);
            ShardLabel::of(&shard.expect("a name"))
        };
        let (renewals, begin) = (Renewals::default(), Time::from_nanos(1));
        let lines = (0..1000).filter_map(|_| renewals.count(begin, &shard("w1")));
        assert_eq!(lines.count(), 1);
        assert_eq!(renewals.count(begin, &shard("w2")), Some(0));
        let later = begin + BETWEEN_RENEWALS;
        assert_eq!(renewals.count(later, &shard("w1")), Some(999));
        assert_eq!(renewals.count(later, &shard("w1")), None);
        assert_eq!(renewals.count(later, &shard("w3")), Some(0));
        let known: Vec<ShardLabel> = renewals.0.lock().keys().cloned().collect();
        assert_eq!(known.len(), 2, "w2 is forgotten: {known:?}");
    }

    #[test]
    fn a_flood_has_few_lines_and_its_rest_is_counted() {
        let (refusals, begin) = (Refusals::default(), Time::from_nanos(1));
        let lines = (0..10_000).filter_map(|_| refusals.count(begin, PROOF, ""));
        assert_eq!(lines.count(), BURST as usize);
        // Other kinds, and other callers, are not hidden by it.
        let shard = Bounded::Caller(RefusalReason::Shard);
        assert_eq!(refusals.count(begin, shard, "w1"), Some(0));
        assert_eq!(refusals.count(begin, PROOF, "another"), Some(0));
        let later = begin + REFILL;
        let rest = 10_000 - u64::from(BURST);
        assert_eq!(refusals.count(later, PROOF, ""), Some(rest));
        assert_eq!(refusals.count(later, PROOF, ""), None);
        assert_eq!(refusals.overdue(later), []);
        let due = refusals.overdue(later + OVERDUE);
        assert_eq!(due, [((PROOF, String::new()), 1)]);
        assert_eq!(refusals.overdue(later + OVERDUE * 2), []);
        let counts = refusals.counts();
        assert_eq!((counts["proof"], counts["shard"]), (10_003, 1));
    }

    #[test]
    fn many_callers_share_counters_whose_number_is_bounded() {
        let (refusals, begin) = (Refusals::default(), Time::from_nanos(1));
        let caller = |n: usize| format!("token {n}");
        let callers = MOST_COUNTERS + 2 * BURST as usize;
        let lines = (0..callers).filter(|n| {
            let line = refusals.count(begin, Bounded::Change, &caller(*n));
            line.is_some()
        });
        assert_eq!(lines.count(), MOST_COUNTERS + BURST as usize);
        // The counter that late callers share is one more.
        assert_eq!(refusals.0.lock().by_caller.len(), MOST_COUNTERS + 1);
        // Refused changes are no refused callers.
        assert!(refusals.counts().is_empty());
        // Callers that are quiet for a while give their counters back.
        let later = begin + REFILL;
        let next = caller(3 * MOST_COUNTERS);
        assert_eq!(refusals.count(later, Bounded::Change, &next), Some(0));
        assert!(refusals.0.lock().by_caller.len() <= 2);
    }
}
