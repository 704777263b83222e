//! Measures the rate at which tasks of a run complete, and estimates the time for the rest.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time over which the rate is measured: long enough to be steady, short enough to follow a change.
const WINDOW: Duration = Duration::from_secs(60);
/// Time between two samples, so that the window has sixty.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// The counts of completed tasks over time.
#[derive(Debug)]
pub(crate) struct Rate {
    /// The start of the run, and the number of tasks that had completed before it.
    first: (Instant, u64),
    /// The samples of the last minute, oldest first.
    samples: VecDeque<(Instant, u64)>,
    last: (Instant, u64),
}

impl Rate {
    pub(crate) fn new(now: Instant, ended: u64) -> Self {
        Rate {
            first: (now, ended),
            samples: VecDeque::from([(now, ended)]),
            last: (now, ended),
        }
    }

    /// Notes the number of tasks that have completed by `now`.
    pub(crate) fn note(&mut self, now: Instant, ended: u64) {
        self.last = (now, ended);
        let newest = self.samples.back().map_or(self.first.0, |(at, _)| *at);
        if now.duration_since(newest) >= SAMPLE_EVERY {
            self.samples.push_back((now, ended));
        }
        while self.samples.len() > 1
            && let Some((at, _)) = self.samples.get(1)
            && now.duration_since(*at) >= WINDOW
        {
            self.samples.pop_front();
        }
    }

    /// Returns completed tasks a second: in the last minute, or in the whole run if none has completed in that minute. `None` before the
    /// first completion.
    pub(crate) fn per_second(&self) -> Option<f64> {
        let oldest = self.samples.front().copied().unwrap_or(self.first);
        self.since(oldest).or_else(|| self.since(self.first))
    }

    fn since(&self, (at, ended): (Instant, u64)) -> Option<f64> {
        let time = self.last.0.duration_since(at).as_secs_f64();
        let tasks = self.last.1.saturating_sub(ended);
        (tasks > 0 && time > 0.0).then(|| tasks as f64 / time)
    }

    /// Returns the time that `tasks` further tasks take at this rate.
    pub(crate) fn time_for(&self, tasks: u64) -> Option<Duration> {
        Duration::try_from_secs_f64(tasks as f64 / self.per_second()?).ok()
    }
}

/// Formats a rate as `12.5/s`, `3.0/min` or `1.2/h`.
pub(crate) fn text(per_second: f64) -> String {
    match per_second {
        1.0.. => format!("{per_second:.1}/s"),
        0.017.. => format!("{:.1}/min", per_second * 60.0),
        _ => format!("{:.1}/h", per_second * 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn the_rate_is_that_of_the_last_minute_without_completions_of_earlier_runs() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 1000);
        assert_eq!(rate.per_second(), None);
        assert_eq!(rate.time_for(5), None);
        for second in 1..=300 {
            rate.note(after(start, second), 1000 + second * 10);
        }
        assert_eq!(rate.per_second(), Some(10.0));
        for second in 301..=420 {
            rate.note(after(start, second), 4000 + (second - 300));
        }
        assert_eq!(rate.per_second(), Some(1.0));
        assert_eq!(rate.time_for(90), Some(Duration::from_secs(90)));
        assert!(rate.samples.len() <= 62, "{}", rate.samples.len());
    }

    #[test]
    fn tasks_that_take_hours_have_a_rate_too() {
        let start = Instant::now();
        let mut rate = Rate::new(start, 0);
        rate.note(after(start, 3600), 1);
        rate.note(after(start, 7200), 2);
        for second in 7201..7400 {
            rate.note(after(start, second), 2);
        }
        let left = rate.time_for(2).expect("two have ended");
        assert!(left > Duration::from_secs(7000), "{left:?}");
    }

    #[test]
    fn rates_are_a_second_a_minute_or_an_hour() {
        let texts = [123.45, 1.0, 0.5, 0.02, 0.001].map(text);
        assert_eq!(texts, ["123.5/s", "1.0/s", "30.0/min", "1.2/min", "3.6/h"]);
    }
}
