//! Counts the calls that are refused because of who makes them, and bounds how many of them the audit log has, so that nobody fills the disk
//! or drives other lines out of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use brasserie_common::access::ShardLabel;
use parking_lot::Mutex;

/// Lines of one reason that may come at once.
const BURST: u32 = 20;
/// Interval at which one more line of a reason is permitted after a burst.
const REFILL: Duration = Duration::from_secs(3);
/// The time after which refusals without a line are counted in one of their own.
const OVERDUE: Duration = Duration::from_secs(60);

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

/// The refusals of one reason.
#[derive(Debug)]
struct OfReason {
    total: u64,
    /// Lines that may be written at once.
    left: u32,
    refilled: Instant,
    /// Refusals without a line since the last line.
    suppressed: u64,
    /// The time since which there are such.
    suppressed_since: Instant,
}

/// All refusals since the start.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<RefusalReason, OfReason>>);

impl Refusals {
    /// Counts a refusal. Returns the number of those before it that have no line, if it may have a line.
    pub(super) fn count(&self, now: Instant, reason: RefusalReason) -> Option<u64> {
        let mut all = self.0.lock();
        let of = all.entry(reason).or_insert(OfReason {
            total: 0,
            left: BURST,
            refilled: now,
            suppressed: 0,
            suppressed_since: now,
        });
        of.total += 1;
        of.refill(now);
        match of.left.checked_sub(1) {
            Some(left) => {
                of.left = left;
                Some(std::mem::take(&mut of.suppressed))
            }
            None => {
                if of.suppressed == 0 {
                    of.suppressed_since = now;
                }
                of.suppressed += 1;
                None
            }
        }
    }

    /// Returns the refusals that have waited long for a line that counts them.
    pub(super) fn overdue(&self, now: Instant) -> Vec<(RefusalReason, u64)> {
        let mut all = self.0.lock();
        let due = all.iter_mut().filter_map(|(reason, of)| {
            let waits = now.saturating_duration_since(of.suppressed_since);
            (of.suppressed > 0 && waits >= OVERDUE)
                .then(|| (*reason, std::mem::take(&mut of.suppressed)))
        });
        due.collect()
    }

    /// Returns the counts by the names of the reasons.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let all = self.0.lock();
        let counts = all.iter();
        counts
            .map(|(reason, of)| (reason.name().to_owned(), of.total))
            .collect()
    }
}

/// The last renewals of certificates by shard: when the log got a line, and how many have none since.
#[derive(Debug, Default)]
pub(super) struct Renewals(Mutex<BTreeMap<ShardLabel, (Instant, u64)>>);

impl Renewals {
    /// Counts a renewal. Returns the number of those before it that have no line, if it may have a line.
    pub(super) fn count(&self, now: Instant, shard: &ShardLabel) -> Option<u64> {
        let mut all = self.0.lock();
        let Some((written, suppressed)) = all.get_mut(shard) else {
            all.insert(shard.clone(), (now, 0));
            return Some(0);
        };
        if now.saturating_duration_since(*written) < BETWEEN_RENEWALS {
            *suppressed += 1;
            return None;
        }
        *written = now;
        Some(std::mem::take(suppressed))
    }
}

impl OfReason {
    fn refill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.refilled);
        let refills = u32::try_from(since.as_secs() / REFILL.as_secs()).unwrap_or(u32::MAX);
        if refills > 0 {
            self.left = self.left.saturating_add(refills).min(BURST);
            self.refilled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_renews_all_the_time_has_few_lines() {
        let shard = |name: &str| {
            let shard = brasserie_common::Shard::try_from(name);
            ShardLabel::of(&shard.expect("a name"))
        };
        let (renewals, begin) = (Renewals::default(), Instant::now());
        let lines = (0..1000).filter_map(|_| renewals.count(begin, &shard("w1")));
        assert_eq!(lines.count(), 1);
        assert_eq!(renewals.count(begin, &shard("w2")), Some(0));
        let later = begin + BETWEEN_RENEWALS;
        assert_eq!(renewals.count(later, &shard("w1")), Some(999));
        assert_eq!(renewals.count(later, &shard("w1")), None);
    }

    #[test]
    fn a_flood_has_few_lines_and_its_rest_is_counted() {
        let (refusals, begin) = (Refusals::default(), Instant::now());
        let lines = (0..10_000).filter_map(|_| refusals.count(begin, RefusalReason::Proof));
        assert_eq!(lines.count(), BURST as usize);
        // Others are not hidden by it.
        assert_eq!(refusals.count(begin, RefusalReason::Shard), Some(0));
        let later = begin + REFILL;
        let rest = 10_000 - u64::from(BURST);
        assert_eq!(refusals.count(later, RefusalReason::Proof), Some(rest));
        assert_eq!(refusals.count(later, RefusalReason::Proof), None);
        assert_eq!(refusals.overdue(later), []);
        let due = refusals.overdue(later + OVERDUE);
        assert_eq!(due, [(RefusalReason::Proof, 1)]);
        assert_eq!(refusals.overdue(later + 2 * OVERDUE), []);
        let counts = refusals.counts();
        assert_eq!((counts["proof"], counts["shard"]), (10_002, 1));
    }
}
