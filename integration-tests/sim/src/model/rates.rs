//! A rate check: remembers as many last times of a happening as a limit needs.

use std::collections::VecDeque;
use std::time::Duration;

use brasserie_common::Time;

/// Checks that there are at most `limit` happenings in any `window`.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    last: VecDeque<Time>,
}

impl Rate {
    /// Counts one more happening. Returns whether it exceeds the limit. Remembers at most `limit` times.
    pub fn exceeds(&mut self, when: Time, limit: usize, window: Duration) -> bool {
        let first_of_too_many = (self.last.len() >= limit)
            .then(|| self.last.pop_front())
            .flatten();
        self.last.push_back(when);
        first_of_too_many.is_some_and(|first| when.since(first) < window)
    }
}
