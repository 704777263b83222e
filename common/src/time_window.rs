//! Average times of disk operations over the last intervals.

use std::collections::VecDeque;
use std::time::Duration;

/// Number of intervals that an average covers: ten minutes of intervals of 30 s.
const WINDOW_INTERVALS: usize = 20;
/// Least number of flushes in an interval that counts. The times of fewer flushes would let single outliers decide.
const MIN_FLUSHES: u64 = 500;
/// Least number of fetches in an interval that counts. Fetches are rarer than flushes.
const MIN_FETCHES: u64 = 100;

/// The sum of the times of some operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TimeSum {
    nanos: u128,
    count: u64,
}

/// A sliding window over intervals with enough operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    min_count: u64,
    current: TimeSum,
    intervals: VecDeque<TimeSum>,
}

impl TimeWindow {
    /// Returns an empty window for times of flushes.
    pub fn of_flushes() -> Self {
        TimeWindow::with_min_count(MIN_FLUSHES)
    }

    /// Returns an empty window for times of fetches.
    pub fn of_fetches() -> Self {
        TimeWindow::with_min_count(MIN_FETCHES)
    }

    fn with_min_count(min_count: u64) -> Self {
        TimeWindow {
            min_count,
            current: TimeSum::default(),
            intervals: VecDeque::with_capacity(WINDOW_INTERVALS),
        }
    }

    /// Adds one operation to the current interval.
    pub fn record(&mut self, time: Duration) {
        self.current.nanos += time.as_nanos();
        self.current.count += 1;
    }

    /// Begins another interval. The last one is discarded if it has too few operations. Returns whether it counts.
    pub fn close_interval(&mut self) -> bool {
        let closed = std::mem::take(&mut self.current);
        if closed.count < self.min_count {
            return false;
        }
        if self.intervals.len() == WINDOW_INTERVALS {
            self.intervals.pop_front();
        }
        self.intervals.push_back(closed);
        true
    }

    /// Forgets all times.
    pub fn clear(&mut self) {
        self.current = TimeSum::default();
        self.intervals.clear();
    }

    /// Returns the average over all operations of the window, rounded down to nanoseconds; zero if the window is empty. The current interval
    /// belongs to the window when it has enough operations.
    pub fn average(&self) -> Duration {
        let current = Some(&self.current).filter(|one| one.count >= self.min_count);
        let all = || self.intervals.iter().chain(current);
        let nanos: u128 = all().map(|one| one.nanos).sum();
        let count: u64 = all().map(|one| one.count).sum();
        let average = nanos.checked_div(u128::from(count)).unwrap_or(0);
        Duration::from_nanos(u64::try_from(average).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(window: &mut TimeWindow, count: u64, nanos: u64) {
        for _ in 0..count {
            window.record(Duration::from_nanos(nanos));
        }
        window.close_interval();
    }

    #[test]
    fn intervals_with_too_few_operations_do_not_count() {
        for (mut window, least) in [
            (TimeWindow::of_flushes(), 500),
            (TimeWindow::of_fetches(), 100),
        ] {
            assert_eq!(window.average(), Duration::ZERO);
            interval(&mut window, least - 1, 7000);
            assert_eq!(window.average(), Duration::ZERO);
            // The discarded operations do not help the next interval.
            interval(&mut window, 1, 7000);
            assert_eq!(window.average(), Duration::ZERO);
            interval(&mut window, least, 10);
            assert_eq!(window.average(), Duration::from_nanos(10));
        }
    }

    #[test]
    fn the_average_is_over_operations_and_rounds_down() {
        let mut window = TimeWindow::of_fetches();
        interval(&mut window, 100, 10);
        interval(&mut window, 300, 13);
        // (1000 + 3900) / 400 = 12.25
        assert_eq!(window.average(), Duration::from_nanos(12));
    }

    #[test]
    fn the_window_has_20_intervals() {
        let mut window = TimeWindow::of_fetches();
        interval(&mut window, 100, 1_000_000);
        for _ in 0..19 {
            interval(&mut window, 100, 100);
        }
        assert_eq!(window.average(), Duration::from_nanos(50_095));
        // Discarded intervals displace none.
        interval(&mut window, 99, 100);
        assert_eq!(window.average(), Duration::from_nanos(50_095));
        interval(&mut window, 100, 100);
        assert_eq!(window.average(), Duration::from_nanos(100));
    }

    #[test]
    fn the_current_interval_counts_when_it_has_enough_operations() {
        let mut window = TimeWindow::of_fetches();
        interval(&mut window, 100, 10);
        for _ in 1..100 {
            window.record(Duration::from_nanos(30));
            assert_eq!(window.average(), Duration::from_nanos(10));
        }
        window.record(Duration::from_nanos(30));
        assert_eq!(window.average(), Duration::from_nanos(20));
    }
}
