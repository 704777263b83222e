//! Limits how fast a task may log. Beyond the limit, the task waits, or lines are dropped, counted and reported.

use std::time::{Duration, Instant};

use brasserie_common::{LogOverflow, Output, TaskSubprocessOptions};

use crate::logs::LogRoom;

/// The bounds of the rate limit's interval. Others make no sense; the upper bound keeps sums of times in range.
const SHORTEST_POLL: Duration = Duration::from_millis(1);
const LONGEST_POLL: Duration = Duration::from_secs(3600);
/// Number of bytes that one read may always take, even if fewer lines or bytes are left in the limit.
///
/// Otherwise long lines would need many reads. Each byte may be a line, so a task exceeds its limit by at most this number of lines, and
/// waits for them afterwards.
const LEAST_READ: usize = 1024;
/// The period at which a task that drops lines all the time reports it: the reports must not be the flood that the limit prevents.
pub(super) const DECLARE_INTERVAL: Duration = Duration::from_secs(1);

/// The output that was dropped since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dropped {
    /// Number of lines, where each piece of a long line counts as one.
    pub lines: u64,
    pub bytes: u64,
}

/// Whether a piece is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    Keep,
    Drop,
}

/// Token buckets over lines and bytes. Unlike in the original Bistro, unused quota does not accumulate beyond one second's worth.
#[derive(Debug)]
pub(super) struct RateLimit {
    lines: Bucket,
    bytes: Bucket,
    overflow: LogOverflow,
    dropped: Dropped,
    /// The earliest time of the next report.
    declare_at: Instant,
}

impl RateLimit {
    pub(super) fn new(options: &TaskSubprocessOptions, now: Instant) -> Self {
        let bucket = |amount| match options.output {
            Output::Log => Bucket::new(amount, options.poll, now),
            // The limits protect the log, which all tasks share and people read.
            Output::File => Bucket::Unlimited,
        };
        RateLimit {
            lines: bucket(options.max_log_lines_per_poll_interval),
            bytes: bucket(options.max_log_bytes_per_poll_interval),
            overflow: options.log_overflow,
            dropped: Dropped::default(),
            declare_at: now,
        }
    }

    /// Returns the number of bytes for the next read of the task's output, at most `most`. The log accepts all lines of one read.
    pub(super) fn read_size(&self, most: usize) -> usize {
        match self.overflow {
            LogOverflow::Wait => {
                let left = self.lines.left().min(self.bytes.left());
                left.max(LEAST_READ).min(most)
            }
            LogOverflow::Drop => most,
        }
    }

    /// Decides on one piece. With `log_overflow: wait`, the limit stops the reading, and everything that was read together is logged.
    pub(super) fn admit(&mut self, length: usize, room: LogRoom) -> Admitted {
        let over = room == LogRoom::Full || self.lines.is_empty() || self.bytes.is_empty();
        if over && self.overflow == LogOverflow::Drop {
            self.dropped.lines += 1;
            self.dropped.bytes += length as u64;
            return Admitted::Drop;
        }
        self.lines.take(1);
        self.bytes.take(length);
        Admitted::Keep
    }

    /// Decides on output for a file, where only bytes count.
    pub(super) fn admit_to_file(&self, room: LogRoom) -> Admitted {
        match (self.overflow, room) {
            (LogOverflow::Drop, LogRoom::Full) => Admitted::Drop,
            (LogOverflow::Wait, _) | (LogOverflow::Drop, LogRoom::Free) => Admitted::Keep,
        }
    }

    /// Adds `held` bytes and lines to the limits of a finished task, so that its pipes can be drained without delay: the rate limit must
    /// not occupy a slot. `held` is the capacity of the pipes, where each byte may be a line. With `log_overflow: drop`, lines are
    /// dropped as before.
    pub(super) fn grant(&mut self, held: usize) {
        match self.overflow {
            LogOverflow::Wait => {
                self.lines.give(held);
                self.bytes.give(held);
            }
            LogOverflow::Drop => {}
        }
    }

    /// Refills the limits for the time that has passed. Returns the time before which nothing may be read, or `None`.
    pub(super) fn blocked_until(&mut self, now: Instant, room: LogRoom) -> Option<Instant> {
        let until = self.lines.free_at(now).max(self.bytes.free_at(now));
        match (self.overflow, room) {
            (LogOverflow::Drop, _) => None,
            (LogOverflow::Wait, LogRoom::Full) => Some(now + LOG_RETRY),
            (LogOverflow::Wait, LogRoom::Free) => until,
        }
    }

    /// Returns the drops that must be reported now. `now` is `None` at a task's end, when all are due.
    pub(super) fn take_dropped(&mut self, now: Option<Instant>) -> Option<Dropped> {
        let due = now.is_none_or(|now| now >= self.declare_at);
        if self.dropped.lines == 0 || !due {
            return None;
        }
        if let Some(now) = now {
            self.declare_at = now + DECLARE_INTERVAL;
        }
        Some(std::mem::take(&mut self.dropped))
    }

    /// Returns the time of the next report, if anything was dropped.
    pub(super) fn tells_at(&self) -> Option<Instant> {
        (self.dropped.lines > 0).then_some(self.declare_at)
    }
}

/// The pause before a reader checks again whether the log has room: a tenth of the log's own batch interval.
const LOG_RETRY: Duration = Duration::from_millis(10);

#[derive(Debug)]
enum Bucket {
    Unlimited,
    Limited {
        /// The tokens that return every `interval`.
        amount: i64,
        interval: Duration,
        /// The tokens left. The number may be negative, because everything that was read together is logged.
        tokens: i64,
        /// Time up to which `tokens` were given.
        filled: Instant,
    },
}

impl Bucket {
    fn new(amount: i32, poll: Duration, now: Instant) -> Self {
        if amount <= 0 {
            return Bucket::Unlimited;
        }
        let (amount, interval) = (i64::from(amount), poll.clamp(SHORTEST_POLL, LONGEST_POLL));
        Bucket::Limited {
            amount,
            interval,
            tokens: burst(amount, interval),
            filled: now,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Bucket::Unlimited => false,
            Bucket::Limited { tokens, .. } => *tokens <= 0,
        }
    }

    fn left(&self) -> usize {
        match self {
            Bucket::Unlimited => usize::MAX,
            Bucket::Limited { tokens, .. } => usize::try_from(*tokens).unwrap_or_default(),
        }
    }

    fn take(&mut self, count: usize) {
        match self {
            Bucket::Unlimited => {}
            Bucket::Limited { tokens, .. } => {
                *tokens = tokens.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    fn give(&mut self, count: usize) {
        match self {
            Bucket::Unlimited => {}
            Bucket::Limited { tokens, .. } => {
                *tokens = tokens.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
            }
        }
    }

    /// Refills the bucket. Returns the time until which it is empty, or `None`.
    fn free_at(&mut self, now: Instant) -> Option<Instant> {
        let Bucket::Limited {
            amount,
            interval,
            tokens,
            filled,
        } = self
        else {
            return None;
        };
        let nanos = interval.as_nanos();
        let intervals = now.saturating_duration_since(*filled).as_nanos() / nanos;
        if intervals > 0 {
            let intervals = u32::try_from(intervals).unwrap_or(u32::MAX);
            let full = burst(*amount, *interval).max(*tokens);
            *tokens = tokens
                .saturating_add(amount.saturating_mul(i64::from(intervals)))
                .min(full);
            *filled += interval.saturating_mul(intervals);
        }
        if *tokens > 0 {
            return None;
        }
        let missing = (1 - *tokens).unsigned_abs().div_ceil(amount.unsigned_abs());
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        Some(*filled + interval.saturating_mul(missing))
    }
}

/// Returns one second's worth of tokens, and at least one interval's.
fn burst(amount: i64, interval: Duration) -> i64 {
    let per_second =
        amount.saturating_mul(1_000_000) / i64::try_from(interval.as_micros()).unwrap_or(i64::MAX);
    per_second.max(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(lines: i32, bytes: i32, log_overflow: LogOverflow, now: Instant) -> RateLimit {
        let options = TaskSubprocessOptions {
            max_log_lines_per_poll_interval: lines,
            max_log_bytes_per_poll_interval: bytes,
            log_overflow,
            ..Default::default()
        };
        RateLimit::new(&options, now)
    }

    fn logged(rate: &mut RateLimit, pieces: usize, length: usize) -> usize {
        (0..pieces)
            .filter(|_| rate.admit(length, LogRoom::Free) == Admitted::Keep)
            .count()
    }

    #[test]
    fn the_rate_limit_bursts_one_second_and_refills() {
        let start = Instant::now();
        let mut rate = limit(2, 0, LogOverflow::Wait, start);
        let millis = |ms| start + Duration::from_millis(ms);
        assert_eq!(logged(&mut rate, 199, 1), 199);
        assert_eq!(rate.blocked_until(start, LogRoom::Free), None);
        assert_eq!(logged(&mut rate, 5, 1), 5);
        // The rate is 200 a second; 4 tokens too many and one to be free again need three intervals of 10 ms.
        assert_eq!(rate.blocked_until(start, LogRoom::Free), Some(millis(30)));
        assert_eq!(rate.blocked_until(millis(30), LogRoom::Free), None);
        assert_eq!(rate.blocked_until(millis(3_600_000), LogRoom::Free), None);
        assert_eq!(logged(&mut rate, 200, 1), 200);
        assert!(
            rate.blocked_until(millis(3_600_000), LogRoom::Free)
                .is_some()
        );
        let mut unlimited = limit(0, 0, LogOverflow::Wait, start);
        assert_eq!(logged(&mut unlimited, 1_000_000, 1), 1_000_000);
        assert_eq!(unlimited.blocked_until(start, LogRoom::Free), None);
    }

    #[test]
    fn reads_are_small_while_little_of_the_limit_is_left() {
        const MOST: usize = 64 * 1024;
        let start = Instant::now();
        let options = TaskSubprocessOptions {
            max_log_lines_per_poll_interval: 1,
            poll: Duration::from_millis(1),
            ..Default::default()
        };
        let mut rate = RateLimit::new(&options, start);
        // The task prints only empty lines, as fast as they are read.
        let mut lines = 0;
        for ms in 0..1000 {
            let now = start + Duration::from_millis(ms);
            while rate.blocked_until(now, LogRoom::Free).is_none() {
                let size = rate.read_size(MOST);
                lines += logged(&mut rate, size, 1);
            }
        }
        // The bounds are the burst, the refill within the second, and one read beyond the limit.
        assert!((1000..=2000 + LEAST_READ).contains(&lines), "{lines}");

        let of_bytes = limit(0, 20, LogOverflow::Wait, start);
        assert_eq!(of_bytes.read_size(MOST), 2000);
        let unlimited = limit(0, 0, LogOverflow::Wait, start);
        assert_eq!(unlimited.read_size(MOST), MOST);
        let drops = limit(1, 1, LogOverflow::Drop, start);
        assert_eq!(drops.read_size(MOST), MOST);
    }

    #[test]
    fn bytes_have_a_limit_of_their_own() {
        let start = Instant::now();
        let mut rate = limit(0, 10, LogOverflow::Wait, start);
        // The limit is 1,000 bytes a second, all together or one by one.
        assert_eq!(logged(&mut rate, 1, 999), 1);
        assert_eq!(rate.blocked_until(start, LogRoom::Free), None);
        assert_eq!(logged(&mut rate, 1, 11), 1);
        let until = start + Duration::from_millis(20);
        assert_eq!(rate.blocked_until(start, LogRoom::Free), Some(until));
        assert_eq!(rate.blocked_until(until, LogRoom::Free), None);
        // The stricter of two limits applies.
        let mut both = limit(1, 1_000_000, LogOverflow::Wait, start);
        assert_eq!(logged(&mut both, 100, 1), 100);
        assert!(both.blocked_until(start, LogRoom::Free).is_some());
        both.grant(5);
        assert_eq!(both.blocked_until(start, LogRoom::Free), None);
    }

    #[test]
    fn a_log_that_is_behind_stops_those_who_wait() {
        let start = Instant::now();
        let mut waits = limit(0, 0, LogOverflow::Wait, start);
        assert_eq!(
            waits.blocked_until(start, LogRoom::Full),
            Some(start + LOG_RETRY)
        );
        let mut drops = limit(0, 0, LogOverflow::Drop, start);
        assert_eq!(drops.blocked_until(start, LogRoom::Full), None);
        assert_eq!(drops.admit(7, LogRoom::Full), Admitted::Drop);
        assert_eq!(drops.admit(7, LogRoom::Free), Admitted::Keep);
        assert_eq!(
            drops.take_dropped(None),
            Some(Dropped { lines: 1, bytes: 7 })
        );
    }

    #[test]
    fn files_know_no_rate_and_drop_only_when_the_writer_is_behind() {
        let start = Instant::now();
        let rate = |log_overflow| {
            let options = TaskSubprocessOptions {
                max_log_lines_per_poll_interval: 1,
                max_log_bytes_per_poll_interval: 1,
                log_overflow,
                output: Output::File,
                ..Default::default()
            };
            RateLimit::new(&options, start)
        };
        let mut waits = rate(LogOverflow::Wait);
        assert_eq!(logged(&mut waits, 1_000_000, 1), 1_000_000);
        assert_eq!(waits.blocked_until(start, LogRoom::Free), None);
        let retry = Some(start + LOG_RETRY);
        assert_eq!(waits.blocked_until(start, LogRoom::Full), retry);
        assert_eq!(waits.admit_to_file(LogRoom::Full), Admitted::Keep);
        let mut drops = rate(LogOverflow::Drop);
        assert_eq!(drops.blocked_until(start, LogRoom::Full), None);
        assert_eq!(drops.admit_to_file(LogRoom::Full), Admitted::Drop);
        assert_eq!(drops.admit_to_file(LogRoom::Free), Admitted::Keep);
    }

    #[test]
    fn what_is_dropped_is_counted_and_told_once_a_second() {
        let start = Instant::now();
        let mut rate = limit(1, 0, LogOverflow::Drop, start);
        assert_eq!(rate.take_dropped(Some(start)), None);
        assert_eq!(rate.tells_at(), None);
        assert_eq!(logged(&mut rate, 130, 2), 100);
        assert_eq!(rate.blocked_until(start, LogRoom::Free), None);
        let told = rate.take_dropped(Some(start));
        assert_eq!(
            told,
            Some(Dropped {
                lines: 30,
                bytes: 60
            })
        );
        assert_eq!(logged(&mut rate, 1, 5), 0);
        assert_eq!(rate.tells_at(), Some(start + DECLARE_INTERVAL));
        assert_eq!(rate.take_dropped(Some(start)), None);
        let told = rate.take_dropped(Some(start + DECLARE_INTERVAL));
        assert_eq!(told, Some(Dropped { lines: 1, bytes: 5 }));
        assert_eq!(logged(&mut rate, 1, 5), 0);
        // A task's end reports at once.
        assert_eq!(
            rate.take_dropped(None),
            Some(Dropped { lines: 1, bytes: 5 })
        );
        // An interval later there is a token again.
        rate.blocked_until(start + Duration::from_millis(10), LogRoom::Free);
        assert_eq!(logged(&mut rate, 2, 5), 1);
    }
}
