//! Bounds how often something happens, such as a line in a log, and counts the rest.

use std::time::Duration;

use crate::time::Time;

/// A bound on events: some at once, and then one in each interval.
#[derive(Clone, Debug)]
pub struct Ration {
    burst: u32,
    interval: Duration,
    left: u32,
    refilled: Time,
    /// Events that were not permitted, since the last count of them.
    omitted: u64,
    /// The time since which there are such.
    omitted_since: Time,
}

impl Ration {
    /// Creates a ration of `burst` events at once, and one more in each interval.
    pub const fn new(burst: u32, interval: Duration) -> Self {
        Ration {
            burst,
            interval,
            left: burst,
            refilled: Time::ZERO,
            omitted: 0,
            omitted_since: Time::ZERO,
        }
    }

    /// Counts an event. If it is permitted, returns the number of those omitted since they were last reported.
    pub fn count(&mut self, now: Time) -> Option<u64> {
        self.refill(now);
        let Some(left) = self.left.checked_sub(1) else {
            self.omit(now, 1);
            return None;
        };
        if self.left == self.burst {
            self.refilled = now;
        }
        self.left = left;
        Some(std::mem::take(&mut self.omitted))
    }

    /// Counts events that are omitted for another reason.
    pub fn omit(&mut self, now: Time, count: u64) {
        if self.omitted == 0 {
            self.omitted_since = now;
        }
        self.omitted += count;
    }

    /// Returns the number of omitted events, and counts anew, if the first of them is this long ago and an event is permitted again.
    pub fn overdue(&mut self, now: Time, after: Duration) -> Option<u64> {
        self.refill(now);
        let is_due = self.left > 0 && now.since(self.omitted_since) >= after;
        (self.omitted > 0 && is_due).then(|| std::mem::take(&mut self.omitted))
    }

    /// Returns whether this differs from a new ration.
    pub fn is_in_use(&mut self, now: Time) -> bool {
        self.refill(now);
        self.left < self.burst || self.omitted > 0
    }

    fn refill(&mut self, now: Time) {
        let intervals = now.since(self.refilled).as_nanos() / self.interval.as_nanos().max(1);
        if intervals > 0 {
            let refills = u32::try_from(intervals).unwrap_or(u32::MAX);
            self.left = self.left.saturating_add(refills).min(self.burst);
            self.refilled = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(3);

    fn at(secs: u64) -> Time {
        Time::ZERO + Duration::from_secs(secs)
    }

    #[test]
    fn a_burst_is_permitted_and_then_one_in_each_interval() {
        let mut ration = Ration::new(2, INTERVAL);
        let counts = [100, 101, 102, 103, 104, 106, 112].map(|second| ration.count(at(second)));
        let wanted = [Some(0), Some(0), None, Some(1), None, Some(1), Some(0)];
        assert_eq!(counts, wanted);
    }

    #[test]
    fn omitted_events_are_told_once_when_they_are_overdue() {
        let mut ration = Ration::new(1, INTERVAL);
        assert!(!ration.is_in_use(at(10)));
        ration.count(at(10));
        ration.count(at(11));
        ration.omit(at(12), 4);
        assert_eq!(ration.overdue(at(12), Duration::ZERO), None);
        assert_eq!(ration.overdue(at(13), INTERVAL), None);
        assert_eq!(ration.overdue(at(14), INTERVAL), Some(5));
        assert_eq!(ration.overdue(at(14), Duration::ZERO), None);
        assert!(!ration.is_in_use(at(14)));
    }
}
