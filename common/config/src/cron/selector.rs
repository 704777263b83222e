//! The values of one field that a cron item selects.

use std::fmt;
use std::time::Duration;

/// The selected values of a field. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The allowed range of the field.
    least: i64,
    most: i64,
    members: Members,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    /// Ascending, each once.
    Values(Vec<i64>),
    /// `start`, `start + period`, and so on up to `end`; `start <= end`, `period >= 1`.
    Range { start: i64, end: i64, period: i64 },
}

impl Selector {
    /// Selects all values from `least` to `most`.
    pub(crate) fn everything(least: i64, most: i64) -> Selector {
        Selector {
            least,
            most,
            members: Members::Range {
                start: least,
                end: most,
                period: 1,
            },
        }
    }

    /// Selects these values, or all if there are none. The caller has checked the values.
    pub(crate) fn of_values(self, mut values: Vec<i64>) -> Selector {
        if values.is_empty() {
            return self;
        }
        values.sort_unstable();
        values.dedup();
        Selector {
            members: Members::Values(values),
            ..self
        }
    }

    /// Selects `start` and further values in steps of `period`, up to `end`. The caller has checked both bounds and their order.
    pub(crate) fn of_range(self, start: i64, end: i64, period: i64) -> Selector {
        Selector {
            members: Members::Range {
                start,
                end: end.max(start),
                period: period.max(1),
            },
            ..self
        }
    }

    /// Returns the smallest value that is not below `from`.
    pub(crate) fn first_from(&self, from: i64) -> Option<i64> {
        match &self.members {
            Members::Values(values) => values.get(values.partition_point(|&v| v < from)).copied(),
            &Members::Range { start, end, period } => {
                if from <= start {
                    return Some(start);
                }
                if from > end {
                    return None;
                }
                // No overflow: both lie between `least` and `most`, the range of a field.
                let steps = (from - start).div_euclid(period)
                    + i64::from((from - start).rem_euclid(period) != 0);
                start
                    .checked_add(steps.checked_mul(period)?)
                    .filter(|&value| value <= end)
            }
        }
    }

    /// Returns the smallest value.
    pub(crate) fn first(&self) -> i64 {
        match &self.members {
            Members::Values(values) => values.first().copied().unwrap_or(self.least),
            Members::Range { start, .. } => *start,
        }
    }

    pub(crate) fn contains(&self, value: i64) -> bool {
        self.first_from(value) == Some(value)
    }

    /// Returns the largest number of values, as seconds, within any span of this length.
    pub(crate) fn most_within(&self, length: Duration) -> u64 {
        let length = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
        match &self.members {
            Members::Values(values) => {
                let after =
                    |first: i64| values.partition_point(|&v| v < first.saturating_add(length));
                let counts = values
                    .iter()
                    .enumerate()
                    .map(|(i, &v)| after(v).saturating_sub(i));
                u64::try_from(counts.max().unwrap_or(0)).unwrap_or(u64::MAX)
            }
            Members::Range { period, .. } => {
                let fitting = length.saturating_sub(1) / period + 1;
                self.count().min(u64::try_from(fitting).unwrap_or(0))
            }
        }
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> u64 {
        let count = match &self.members {
            Members::Values(values) => i64::try_from(values.len()).unwrap_or(i64::MAX),
            Members::Range { start, end, period } => (end - start) / period + 1,
        };
        u64::try_from(count).unwrap_or(0)
    }
}

/// Formats the selector in canonical form: equal selectors of one field have one text.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.members {
            Members::Values(values) => {
                let texts: Vec<String> = values.iter().map(i64::to_string).collect();
                f.write_str(&texts.join(","))
            }
            Members::Range { start, end, period } => {
                let is_all = (*start, *end) == (self.least, self.most);
                match (is_all, *period) {
                    (true, 1) => f.write_str("*"),
                    (false, 1) => write!(f, "{start}-{end}"),
                    (_, period) => write!(f, "{start}-{end}:{period}"),
                }
            }
        }
    }
}
