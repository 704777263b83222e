//! How often something happens: the last times of it, as many as a limit needs.

use std::collections::VecDeque;
use std::time::Duration;

use brasserie_common::Time;

/// At most `limit` in any span of `window`.
#[derive(Clone, Debug, Default)]
pub struct Rate {
    last: VecDeque<Time>,
}

impl Rate {
    /// One more; says whether that is one too many. Remembers no more than the limit.
    pub fn exceeds(&mut self, when: Time, limit: usize, window: Duration) -> bool {
        let first_of_too_many = (self.last.len() >= limit)
            .then(|| self.last.pop_front())
            .flatten();
        self.last.push_back(when);
        first_of_too_many.is_some_and(|first| when.since(first) < window)
    }
}
