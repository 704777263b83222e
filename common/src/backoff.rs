//! When a task that failed may run again: the configured list of waits and the step that a run would take.

use serde::{Deserialize, Serialize};

/// Seconds that a run under `["fail"]` waits after `incomplete_backoff`, for want of any configured value.
const FAIL_SECONDS: u32 = 60;

/// The wait that a run takes if it ends in a status that advances the backoff; precomputed when it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoffDuration {
    /// The next such end is final.
    pub no_more_backoffs: bool,
    pub seconds: u32,
}

/// What follows the last configured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterLast {
    /// The last value again and again.
    Repeat,
    /// The task is FAILED.
    Fail,
}

/// Why values are no backoff.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackoffError {
    #[error("a backoff needs a value: seconds in increasing order, then \"repeat\" or \"fail\"")]
    Empty,
    #[error("\"repeat\" needs a number of seconds before it")]
    NothingToRepeat,
    #[error("backoff value {0} is not positive")]
    NotPositive(i64),
    #[error("backoff value {1} does not exceed the one before it ({0})")]
    NotIncreasing(u32, i64),
    #[error("backoff value {0} is above {max} seconds", max = i32::MAX)]
    TooLong(i64),
}

/// A strictly increasing list of waits in seconds, and what follows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoffPolicy {
    values: Vec<u32>,
    after_last: AfterLast,
}

impl BackoffPolicy {
    pub fn new(values: &[i64], after_last: AfterLast) -> Result<Self, BackoffError> {
        let mut checked: Vec<u32> = Vec::with_capacity(values.len());
        for &value in values {
            if value <= 0 {
                return Err(BackoffError::NotPositive(value));
            }
            if value > i64::from(i32::MAX) {
                return Err(BackoffError::TooLong(value));
            }
            let seconds = u32::try_from(value).map_err(|_| BackoffError::TooLong(value))?;
            if let Some(&last) = checked.last()
                && last >= seconds
            {
                return Err(BackoffError::NotIncreasing(last, value));
            }
            checked.push(seconds);
        }
        if checked.is_empty() && after_last == AfterLast::Repeat {
            return Err(BackoffError::NothingToRepeat);
        }
        Ok(BackoffPolicy {
            values: checked,
            after_last,
        })
    }

    pub fn values(&self) -> &[u32] {
        &self.values
    }

    pub fn after_last(&self) -> AfterLast {
        self.after_last
    }

    /// The step after `current`, which must not be the last one. By value, not by index, so that an edited list changes
    /// the next step gracefully.
    pub fn next(&self, current: BackoffDuration) -> BackoffDuration {
        let longer = self.values.iter().copied().find(|&v| v > current.seconds);
        match (longer, self.after_last, self.values.last()) {
            (Some(seconds), _, _) => BackoffDuration {
                no_more_backoffs: false,
                seconds,
            },
            (None, AfterLast::Repeat, Some(&last)) => BackoffDuration {
                no_more_backoffs: false,
                seconds: last,
            },
            (None, _, _) => BackoffDuration {
                no_more_backoffs: true,
                seconds: FAIL_SECONDS,
            },
        }
    }
}

impl Default for BackoffPolicy {
    /// The documented default: 15 s up to a day, then daily.
    fn default() -> Self {
        BackoffPolicy {
            values: vec![15, 30, 60, 300, 900, 3600, 7200, 21600, 86400],
            after_last: AfterLast::Repeat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn step(seconds: u32) -> BackoffDuration {
        BackoffDuration {
            no_more_backoffs: false,
            seconds,
        }
    }

    #[test]
    fn refuses_what_does_not_increase() {
        assert_eq!(
            BackoffPolicy::new(&[1, 1], AfterLast::Fail),
            Err(BackoffError::NotIncreasing(1, 1))
        );
        assert_eq!(
            BackoffPolicy::new(&[0], AfterLast::Fail),
            Err(BackoffError::NotPositive(0))
        );
        assert_eq!(
            BackoffPolicy::new(&[], AfterLast::Repeat),
            Err(BackoffError::NothingToRepeat)
        );
        assert_eq!(
            BackoffPolicy::new(&[1 << 40], AfterLast::Fail),
            Err(BackoffError::TooLong(1 << 40))
        );
    }

    #[test]
    fn fail_alone_gives_no_retry() {
        let policy = BackoffPolicy::new(&[], AfterLast::Fail).unwrap();
        assert_eq!(
            policy.next(step(0)),
            BackoffDuration {
                no_more_backoffs: true,
                seconds: 60
            }
        );
    }

    #[test]
    fn steps_through_values_then_repeats_or_fails() {
        let repeat = BackoffPolicy::new(&[1, 5], AfterLast::Repeat).unwrap();
        assert_eq!(
            [
                repeat.next(step(0)),
                repeat.next(step(1)),
                repeat.next(step(5))
            ],
            [step(1), step(5), step(5)]
        );
        let fail = BackoffPolicy::new(&[1, 5], AfterLast::Fail).unwrap();
        assert!(fail.next(step(5)).no_more_backoffs);
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn a_step_never_shortens_before_the_end(mut values in proptest::collection::vec(1i64..100_000, 1..8), now in 0u32..100_000) {
            values.sort_unstable();
            values.dedup();
            let policy = BackoffPolicy::new(&values, AfterLast::Repeat).unwrap();
            let next = policy.next(step(now));
            prop_assert!(next.seconds > now || i64::from(next.seconds) == *values.last().unwrap());
        }
    }
}
