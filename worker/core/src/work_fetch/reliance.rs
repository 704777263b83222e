//! What the ends of tasks are to bring while a request lingers, and whether they do. Nobody asks for what comes by itself; but a scheduler
//! may be older than that, or have dropped the request, so nobody waits long for what does not.

use std::time::Duration;

use brasserie_common::{Time, WorkVerdict};

use super::amounts::{TOLERANCE, amount};
use super::backoff::span;
use super::profile::Profile;

/// So many are told apart by their ages: with all of them in use, the first is older than anybody waits.
const BATCHES: usize = 4;

/// Instances that ends have left idle, and for which nothing has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Awaited {
    /// The oldest first; those of nothing last.
    batches: [Batch; BATCHES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Batch {
    /// Of the first of them, and of the others a part of the patience later.
    since: Time,
    instances: f64,
}

impl Batch {
    fn is_used(&self) -> bool {
        self.instances > TOLERANCE
    }
}

impl Awaited {
    /// So many are idle from now on.
    pub fn add(&mut self, now: Time, instances: f64, patience: Duration) {
        let length = patience / (BATCHES as u32 - 1);
        let used = self.batches.iter().filter(|batch| batch.is_used()).count();
        let last = self.batches.get_mut(used.saturating_sub(1));
        if let Some(last) = last.filter(|last| last.is_used())
            && (used == BATCHES || now < last.since + length)
        {
            last.instances += instances;
        } else if let Some(next) = self.batches.get_mut(used) {
            *next = Batch {
                since: now,
                instances,
            };
        }
    }

    /// Something has come for so many, those first that were idle first.
    pub fn take(&mut self, mut instances: f64) {
        for batch in &mut self.batches {
            let part = batch.instances.min(instances);
            batch.instances -= part;
            instances -= part;
        }
        self.batches.sort_by_key(|batch| !batch.is_used());
    }

    pub fn instances(&self) -> f64 {
        let used = self.batches.iter().filter(|batch| batch.is_used());
        used.map(|batch| batch.instances).sum()
    }

    /// Since when the first of them is idle.
    pub fn since(&self) -> Option<Time> {
        let first = self.batches.first().filter(|first| first.is_used());
        first.map(|first| first.since)
    }
}

/// Whether ends are relied on to bring the next tasks.
///
/// ```text
///   relies --nothing came--> asks --GRANTED: there was something--> does not rely, twice as long each time --time passes--> relies
///     ^                       |
///     +--anything else--------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reliance {
    /// The scheduler had more tasks than it could send when it was asked last.
    has_more: bool,
    /// What should have come did not, and nobody was asked since.
    has_failed: bool,
    /// Seconds for which it was not relied on the last time; 0: something came since.
    interval: f64,
    from: Time,
}

impl Reliance {
    /// For what it has none of nobody waits, though it may come.
    pub fn holds(&self, now: Time) -> bool {
        self.has_more && self.from <= now
    }

    /// What was awaited has come.
    pub fn fed(&mut self) {
        self.interval = 0.0;
    }

    pub fn failed(&mut self) {
        self.has_failed = true;
    }

    /// What was asked for was told this; `None`: it was not mentioned.
    pub fn told(&mut self, now: Time, verdict: Option<WorkVerdict>, profile: &Profile) {
        let is_granted = match verdict {
            Some(WorkVerdict::Granted(1..)) => true,
            Some(WorkVerdict::Limited) => false,
            Some(WorkVerdict::Granted(0) | WorkVerdict::NoWork)
            | Some(WorkVerdict::Deadline | WorkVerdict::NoApps)
            | None => {
                (self.has_more, self.has_failed) = (false, false);
                return;
            }
            // It was not looked at.
            Some(WorkVerdict::Deferred | WorkVerdict::Stale | WorkVerdict::Pending) => return,
        };
        self.has_more = true;
        if std::mem::take(&mut self.has_failed) && is_granted {
            let least = amount(profile.pair_backoff_min);
            let most = amount(profile.pair_backoff_max).max(least);
            self.interval = (2.0 * self.interval).clamp(least, most);
            self.from = now + span(self.interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(90);
    const CLUSTER: Profile = Profile::CLUSTER;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn what_comes_is_for_those_that_were_idle_first() {
        let mut awaited = Awaited::default();
        assert_eq!((awaited.since(), awaited.instances()), (None, 0.0));
        for (now, instances) in [(0, 1.0), (29, 1.0), (30, 0.5), (70, 2.0)] {
            awaited.add(at(now), instances, PATIENCE);
        }
        assert_eq!((awaited.since(), awaited.instances()), (Some(at(0)), 4.5));
        for (came, since, left) in [
            (1.5, Some(at(0)), 3.0),
            (0.5, Some(at(30)), 2.5),
            (0.5, Some(at(70)), 2.0),
            (9.0, None, 0.0),
        ] {
            awaited.take(came);
            assert_eq!((awaited.since(), awaited.instances()), (since, left));
        }
    }

    #[test]
    fn however_many_ends_there_are_none_is_taken_for_much_older_or_any_younger() {
        // One is never fed, and ends and tasks go on beside it.
        let mut awaited = Awaited::default();
        let mut ends: Vec<u64> = Vec::new();
        for now in 0..400 {
            awaited.add(at(now), 1.0, PATIENCE);
            ends.push(now);
            if now % 40 != 0 {
                awaited.take(1.0);
                ends.remove(0);
            }
            let since = awaited.since().expect("one is awaited");
            if now >= 90 && since + PATIENCE > at(now) {
                let oldest = at(ends[0]);
                assert!(since <= oldest && oldest < since + PATIENCE / 3, "{now}");
            }
            assert_eq!(awaited.instances(), ends.len() as f64);
        }
        assert!(awaited.since() <= Some(at(ends[0])));
    }

    #[test]
    fn who_granted_what_should_have_come_by_itself_is_not_relied_on_for_longer_each_time() {
        let mut reliance = Reliance::default();
        assert!(!reliance.holds(at(0)), "nobody has said that there is more");
        reliance.told(at(0), Some(WorkVerdict::Limited), &CLUSTER);
        assert!(reliance.holds(at(0)));
        let mut now = at(0);
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            reliance.failed();
            reliance.told(now, Some(WorkVerdict::Granted(1)), &CLUSTER);
            let until = now + Duration::from_secs(seconds);
            assert!(!reliance.holds(now) && reliance.holds(until), "{seconds}");
            // Later ones say nothing of it.
            reliance.told(until, Some(WorkVerdict::Granted(1)), &CLUSTER);
            assert!(reliance.holds(until));
            now = until;
        }
        reliance.fed();
        reliance.failed();
        reliance.told(now, Some(WorkVerdict::Granted(1)), &CLUSTER);
        assert!(reliance.holds(now + Duration::from_secs(1)));
    }

    #[test]
    fn who_has_nothing_cannot_have_sent_it() {
        for verdict in [
            Some(WorkVerdict::NoWork),
            Some(WorkVerdict::Deadline),
            Some(WorkVerdict::Granted(0)),
            None,
        ] {
            let mut reliance = Reliance::default();
            reliance.told(at(0), Some(WorkVerdict::Limited), &CLUSTER);
            reliance.failed();
            reliance.told(at(0), verdict, &CLUSTER);
            assert!(!reliance.holds(at(0)), "{verdict:?}");
            // That is no reason for doubts once it has something.
            reliance.told(at(0), Some(WorkVerdict::Granted(1)), &CLUSTER);
            assert!(reliance.holds(at(0)), "{verdict:?}");
        }
        let mut reliance = Reliance::default();
        reliance.told(at(0), Some(WorkVerdict::Limited), &CLUSTER);
        reliance.told(at(0), Some(WorkVerdict::Deferred), &CLUSTER);
        assert!(reliance.holds(at(0)));
    }
}
