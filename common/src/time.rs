//! Time in the cores: a monotonic reading that counts suspend, and wall-clock time for labels only.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of the clock that counts suspend, in nanoseconds since an arbitrary start. Comparable within one machine only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    pub const ZERO: Time = Time(0);
    /// Later than every reading: a deadline that never comes.
    pub const NEVER: Time = Time(u64::MAX);

    pub fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    pub fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, d: Duration) -> Time {
        let nanos = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, d: Duration) -> Time {
        let nanos = u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(nanos))
    }
}

/// Milliseconds since the Unix epoch by some machine's wall clock. Only for labels and cron: such times are never compared between machines
/// and never shorten a safety wait.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WallTime(pub i64);

impl WallTime {
    pub fn from_millis(millis: i64) -> Self {
        WallTime(millis)
    }

    pub fn from_secs(secs: i64) -> Self {
        WallTime(secs.saturating_mul(1000))
    }

    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time until `later`; zero if `later` is earlier.
    pub fn until(self, later: WallTime) -> Duration {
        let millis = later.0.saturating_sub(self.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }

    /// Returns whole Unix seconds, rounded down.
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }
}

impl Add<Duration> for WallTime {
    type Output = WallTime;
    fn add(self, d: Duration) -> WallTime {
        WallTime(
            self.0
                .saturating_add(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl Sub<Duration> for WallTime {
    type Output = WallTime;
    fn sub(self, d: Duration) -> WallTime {
        WallTime(
            self.0
                .saturating_sub(i64::try_from(d.as_millis()).unwrap_or(i64::MAX)),
        )
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.as_secs(), self.0.rem_euclid(1000))
    }
}

/// The error for a text that is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no duration: write a number with a unit (500ms, 30s, 5m, 2h, 1d); a bare number is seconds"
)]
pub struct DurationError {
    pub text: String,
}

/// Parses `500ms`, `30s`, `5m`, `2h`, `1d`, `1.5s`, `10 min`, `2 hours`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let error = || DurationError {
        text: text.to_owned(),
    };
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| error())?;
    let unit_seconds = match unit.trim() {
        "ms" => 0.001,
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86400.0,
        _ => return Err(error()),
    };
    Duration::try_from_secs_f64(number * unit_seconds).map_err(|_| error())
}

/// Returns the shortest exact form for whole milliseconds, which [`parse_duration`] reads back.
pub fn format_duration(d: Duration) -> String {
    let ms = d.as_millis();
    match ms {
        0 => "0s".to_owned(),
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        _ => format!("{ms}ms"),
    }
}

/// Formats a duration for messages: `950 ms`, `2.4 s`, `3 min 20 s`, `2 h 5 min`, `7 d`.
pub fn readable_duration(d: Duration) -> String {
    let secs = d.as_secs();
    if d < Duration::from_secs(1) {
        format!("{} ms", d.as_millis())
    } else if secs < 60 {
        format!("{:.1} s", d.as_secs_f64())
    } else if secs < 3600 {
        format!("{} min {} s", secs / 60, secs % 60)
    } else if secs < 48 * 3600 {
        format!("{} h {} min", secs / 3600, secs % 3600 / 60)
    } else {
        match secs % 86_400 / 3600 {
            0 => format!("{} d", secs / 86_400),
            hours => format!("{} d {hours} h", secs / 86_400),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_durations_have_at_most_two_units() {
        let texts: Vec<String> = [0.95, 2.44, 200.0, 7500.0, 604_800.0, 180_000.0]
            .map(|s| readable_duration(Duration::from_secs_f64(s)))
            .to_vec();
        let expected = [
            "950 ms",
            "2.4 s",
            "3 min 20 s",
            "2 h 5 min",
            "7 d",
            "2 d 2 h",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn durations_read_units_and_bare_seconds() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("1d"), Ok(Duration::from_secs(86400)));
        for (text, seconds) in [
            ("10 min", 600),
            ("2 hours", 7200),
            ("1 day", 86400),
            ("3sec", 3),
        ] {
            assert_eq!(
                parse_duration(text),
                Ok(Duration::from_secs(seconds)),
                "{text}"
            );
        }
        for bad in [
            "",
            "s",
            "-1s",
            "5 parsecs",
            "1e400d",
            "99999999999999999999999d",
        ] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn formatted_durations_read_back() {
        for ms in [0_u64, 1, 999, 1000, 61_000, 120_000, 7_200_000, 86_400_000] {
            let d = Duration::from_millis(ms);
            assert_eq!(parse_duration(&format_duration(d)), Ok(d));
        }
    }

    #[test]
    fn time_saturates() {
        assert_eq!(Time::NEVER + Duration::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::ZERO.since(Time::NEVER), Duration::ZERO);
    }
}
