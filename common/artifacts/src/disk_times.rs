//! The measured times of a disk's flushes and fetches.

use std::time::{Duration, Instant};

use brasserie_common::time_window::TimeWindow;

/// The length of an interval of the windows: that of a heartbeat in Celeborn.
const INTERVAL: Duration = Duration::from_secs(30);
/// The intervals without enough operations after which the times are forgotten: ten minutes. Otherwise a disk that was slow once would get
/// fewer copies, and so never show that it is fast again.
const STALE_INTERVALS: u32 = 20;

/// The times of the last 20 intervals with enough operations, which is ten minutes of a busy disk; none once ten minutes have passed without
/// such an interval. A *flush* is a write or a sync of a copy
/// that is being made, a *fetch* one answer's read of an artifact.
pub struct DiskTimes {
    flushes: TimeWindow,
    fetches: TimeWindow,
    /// The intervals since the last one that counted, of flushes and of fetches.
    idle: [u32; 2],
    /// The begin of the current interval.
    since: Instant,
}

impl DiskTimes {
    pub fn new(now: Instant) -> Self {
        DiskTimes {
            flushes: TimeWindow::of_flushes(),
            fetches: TimeWindow::of_fetches(),
            idle: [0; 2],
            since: now,
        }
    }

    pub fn flushed(&mut self, began: Instant, now: Instant) {
        self.pass(now);
        self.flushes.record(now.saturating_duration_since(began));
    }

    pub fn fetched(&mut self, began: Instant, now: Instant) {
        self.pass(now);
        self.fetches.record(now.saturating_duration_since(began));
    }

    /// Returns the average times of a flush and of a fetch; zero: there were too few.
    pub fn averages(&mut self, now: Instant) -> (Duration, Duration) {
        self.pass(now);
        (self.flushes.average(), self.fetches.average())
    }

    fn pass(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) >= INTERVAL {
            for (window, idle) in [&mut self.flushes, &mut self.fetches]
                .into_iter()
                .zip(&mut self.idle)
            {
                *idle = if window.close_interval() {
                    0
                } else {
                    *idle + 1
                };
                if *idle >= STALE_INTERVALS {
                    *idle = 0;
                    window.clear();
                }
            }
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_count_from_the_least_number_on_until_20_intervals_are_over() {
        let begin = Instant::now();
        let mut times = DiskTimes::new(begin);
        let unit = Duration::from_micros(7);
        for _ in 0..500 {
            assert_eq!(times.averages(begin), (Duration::ZERO, Duration::ZERO));
            times.flushed(begin, begin + unit);
        }
        for _ in 0..100 {
            assert_eq!(times.averages(begin), (unit, Duration::ZERO));
            times.fetched(begin, begin + 3 * unit);
        }
        assert_eq!(times.averages(begin), (unit, 3 * unit));
        for interval in 1..=20 {
            let now = begin + interval * INTERVAL;
            (0..500).for_each(|_| times.flushed(now, now + 2 * unit));
        }
        let later = begin + 21 * INTERVAL + 2 * unit;
        // There were no other fetches for ten minutes.
        assert_eq!(times.averages(later), (2 * unit, Duration::ZERO));
    }
}
