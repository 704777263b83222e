//! The backoff of a failed task: the configured list of waits, and the step that a run would take.

use serde::{Deserialize, Serialize};

/// The wait in seconds after `incomplete_backoff` under `["fail"]`, which configures no wait.
const FAIL_SECONDS: u32 = 60;

/// The wait of a run that ends in a status that advances the backoff. The scheduler computes it when the run starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackoffDuration {
    /// The next error is final.
    pub no_more_backoffs: bool,
    pub seconds: u32,
    /// The number of consecutive errors with this wait, this one included. A policy may list a wait several times.
    pub times: u32,
}

/// The number of tries of a task that have ended in errors in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedTries {
    pub count: u32,
    /// The number of errors in a row after which the task is FAILED; `None` if it is tried forever.
    pub most: Option<u32>,
}

/// The action after the last configured value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AfterLast {
    /// The last value repeats.
    Repeat,
    /// The task is FAILED.
    Fail,
}

/// The reason why values are not a valid backoff.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackoffError {
    #[error(
        "a backoff needs a value: waits, none below the one before, then \"repeat\" or \"fail\""
    )]
    Empty,
    #[error("\"repeat\" needs a number of seconds before it")]
    NothingToRepeat,
    #[error("backoff value {0} is not positive")]
    NotPositive(i64),
    #[error("backoff value {1} is below the one before it ({0})")]
    Decreasing(u32, i64),
    #[error("backoff value {0} is above {max} seconds", max = i32::MAX)]
    TooLong(i64),
}

/// A non-decreasing list of waits in seconds, and the action after the last one.
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
                && last > seconds
            {
                return Err(BackoffError::Decreasing(last, value));
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

    /// Returns the step after `current`, which must not be the last one.
    ///
    /// `current` has a wait and its number of uses, not an index, so that a changed list continues at the same wait or the next longer one.
    pub fn next(&self, current: BackoffDuration) -> BackoffDuration {
        let equal = self.values.iter().filter(|&&v| v == current.seconds);
        if equal.count() > current.times as usize {
            return BackoffDuration {
                no_more_backoffs: false,
                times: current.times + 1,
                ..current
            };
        }
        let longer = self.values.iter().copied().find(|&v| v > current.seconds);
        match (longer, self.after_last, self.values.last()) {
            (Some(seconds), _, _) => BackoffDuration {
                no_more_backoffs: false,
                seconds,
                times: 1,
            },
            (None, AfterLast::Repeat, Some(&last)) => BackoffDuration {
                no_more_backoffs: false,
                seconds: last,
                // Kept for display: nothing follows.
                times: match current.seconds == last {
                    true => current.times.saturating_add(1),
                    false => 1,
                },
            },
            (None, _, _) => BackoffDuration {
                no_more_backoffs: true,
                seconds: FAIL_SECONDS,
                times: 1,
            },
        }
    }

    /// Returns how many errors in a row lead to this wait. Exact unless the policy was edited meanwhile.
    pub fn tries(&self, step: BackoffDuration) -> u32 {
        let before = self.values.iter().filter(|&&v| v < step.seconds).count();
        u32::try_from(before)
            .unwrap_or(u32::MAX)
            .saturating_add(step.times)
    }

    /// Returns after how many errors in a row a task has failed; `None` if it is tried forever.
    pub fn max_tries(&self) -> Option<u32> {
        match self.after_last {
            AfterLast::Repeat => None,
            AfterLast::Fail => u32::try_from(self.values.len()).ok()?.checked_add(1),
        }
    }

    /// Returns this policy with `retries` retries and a wait of `delay` seconds before each, where given.
    ///
    /// The last wait of this policy repeats if `delay` is `None`. Returns `None` if there are retries but no wait.
    pub fn with_retries(&self, retries: Option<u32>, delay: Option<u32>) -> Option<BackoffPolicy> {
        let wait = |index: usize| {
            let own = self.values.get(index).or(self.values.last());
            delay.or(own.copied())
        };
        let retries = match (retries, self.after_last) {
            (Some(retries), _) => retries as usize,
            (None, AfterLast::Fail) => self.values.len(),
            (None, AfterLast::Repeat) => {
                let values = delay.map_or_else(|| self.values.clone(), |delay| vec![delay]);
                let after_last = AfterLast::Repeat;
                return Some(BackoffPolicy { values, after_last });
            }
        };
        let values: Option<Vec<u32>> = (0..retries).map(wait).collect();
        let after_last = AfterLast::Fail;
        values.map(|values| BackoffPolicy { values, after_last })
    }
}

impl Default for BackoffPolicy {
    /// Returns the documented default: waits from 15 s up to a day, then daily.
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
            times: u32::from(seconds > 0),
        }
    }

    #[test]
    fn decreasing_and_zero_waits_are_refused() {
        assert_eq!(
            BackoffPolicy::new(&[2, 2, 1], AfterLast::Fail),
            Err(BackoffError::Decreasing(2, 1))
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
                seconds: 60,
                times: 1,
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
            [
                step(1),
                step(5),
                BackoffDuration {
                    times: 2,
                    ..step(5)
                }
            ]
        );
        let fail = BackoffPolicy::new(&[1, 5], AfterLast::Fail).unwrap();
        assert!(fail.next(step(5)).no_more_backoffs);
    }

    /// Returns the waits of a task that only fails: until its last retry, or the first six.
    fn waits(policy: &BackoffPolicy) -> Vec<u32> {
        let mut waits = Vec::new();
        let mut step = policy.next(step(0));
        while !step.no_more_backoffs && waits.len() < 6 {
            waits.push(step.seconds);
            step = policy.next(step);
        }
        waits
    }

    #[test]
    fn equal_waits_are_counted() {
        let policy = |values: &[i64], after_last| BackoffPolicy::new(values, after_last).unwrap();
        assert_eq!(waits(&policy(&[10, 10], AfterLast::Fail)), [10, 10]);
        assert_eq!(
            waits(&policy(&[1, 5, 5, 5, 9], AfterLast::Fail)),
            [1, 5, 5, 5, 9]
        );
        assert_eq!(
            waits(&policy(&[1, 1, 5], AfterLast::Repeat)),
            [1, 1, 5, 5, 5, 5]
        );
        // The list was edited: the remaining equal waits follow, or else the next longer wait.
        let twice = BackoffDuration {
            times: 2,
            ..step(5)
        };
        let edited = policy(&[5, 5, 5, 7], AfterLast::Fail);
        assert_eq!(
            edited.next(twice),
            BackoffDuration {
                times: 3,
                ..step(5)
            }
        );
        assert_eq!(policy(&[5, 7], AfterLast::Fail).next(twice), step(7));
        assert_eq!(policy(&[4, 7], AfterLast::Fail).next(twice), step(7));
    }

    #[test]
    fn tries_are_counted_also_where_the_last_wait_repeats() {
        let tries = |values: &[i64], after_last| {
            let policy = BackoffPolicy::new(values, after_last).unwrap();
            let mut steps = vec![policy.next(step(0))];
            while let Some(last) = steps.last().filter(|last| !last.no_more_backoffs)
                && steps.len() < 5
            {
                steps.push(policy.next(*last));
            }
            steps.retain(|step| !step.no_more_backoffs);
            let tries: Vec<u32> = steps.into_iter().map(|step| policy.tries(step)).collect();
            (tries, policy.max_tries())
        };
        use AfterLast::{Fail, Repeat};
        assert_eq!(tries(&[1, 5, 5], Fail), (vec![1, 2, 3], Some(4)));
        assert_eq!(tries(&[], Fail), (vec![], Some(1)));
        assert_eq!(tries(&[1, 5], Repeat), (vec![1, 2, 3, 4, 5], None));
        // The task was killed before any error.
        let policy = BackoffPolicy::new(&[7], Fail).unwrap();
        let killed = BackoffDuration {
            times: 0,
            ..step(7)
        };
        assert_eq!(policy.tries(killed), 0);
    }

    #[test]
    fn retries_bound_a_backoff_and_a_delay_replaces_its_waits() {
        let of = |values: &[i64], after_last, retries, delay| {
            let policy = BackoffPolicy::new(values, after_last).unwrap();
            policy
                .with_retries(retries, delay)
                .map(|policy| waits(&policy))
        };
        use AfterLast::{Fail, Repeat};
        assert_eq!(of(&[1, 5], Repeat, Some(2), Some(10)), Some(vec![10, 10]));
        assert_eq!(of(&[1, 5], Repeat, Some(4), None), Some(vec![1, 5, 5, 5]));
        assert_eq!(of(&[1, 5], Fail, Some(1), None), Some(vec![1]));
        assert_eq!(of(&[1, 5], Fail, Some(0), None), Some(vec![]));
        assert_eq!(of(&[1, 5], Fail, None, Some(3)), Some(vec![3, 3]));
        assert_eq!(of(&[1, 5], Repeat, None, Some(3)), Some(vec![3; 6]));
        assert_eq!(of(&[], Fail, Some(2), None), None);
        assert_eq!(of(&[], Fail, Some(2), Some(3)), Some(vec![3, 3]));
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn a_step_never_shortens_before_the_end(mut values in proptest::collection::vec(1i64..100_000, 1..8), now in 0u32..100_000) {
            values.sort_unstable();
            let policy = BackoffPolicy::new(&values, AfterLast::Repeat).unwrap();
            let next = policy.next(step(now));
            prop_assert!(next.seconds >= now || i64::from(next.seconds) == *values.last().unwrap());
        }

        #[test]
        fn each_wait_is_used_as_often_as_the_list_has_it(mut values in proptest::collection::vec(1i64..5, 0..6)) {
            values.sort_unstable();
            let policy = BackoffPolicy::new(&values, AfterLast::Fail).unwrap();
            let taken: Vec<i64> = waits(&policy).into_iter().map(i64::from).collect();
            prop_assert_eq!(taken, values);
        }
    }
}
