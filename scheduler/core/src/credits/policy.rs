//! What holds for the requests of all workers alike.

use std::time::Duration;

use super::DEFERRED_DELAY;

/// The longest delay that a worker is asked for.
const MAX_DELAY: Duration = Duration::from_secs(2 * 86_400);

/// How it is known whether a task would come too late to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadlineRule {
    /// By a simulation of the tasks that the worker lists, where it says what they take; else by its delay.
    Simulated,
    /// By what the worker says of its delay.
    Delayed,
}

/// What holds for all workers alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// A worker that asks again sooner is not looked at. Zero: it may ask as often as it likes.
    pub min_request_interval: Duration,
    /// So many requests a second are looked at, of all workers; each hundred runs of its worker count as one more. 0: as many as come.
    pub max_requests_per_second: u32,
    /// However long a worker would have its request stay good.
    pub max_linger: Duration,
    /// What a worker waits that may get no tasks now.
    pub deferred_delay: Duration,
    /// So many tasks at most are sent for one request, for each CPU of its worker.
    pub tasks_per_processor: f64,
    /// And for so many CPUs a card counts.
    pub card_weight: f64,
    pub deadlines: DeadlineRule,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            // Tasks that may not wait are sent for idle processors alone, so none of them begins sooner after the end of the last: it is
            // short beside a task worth sending. What all workers together cost is bounded below.
            min_request_interval: Duration::from_millis(10),
            // A look costs some tens of microseconds, and as much for each hundred runs, which count as a request: so all of them together
            // take a tenth of a processor at most.
            max_requests_per_second: 1000,
            max_linger: Duration::from_secs(120),
            deferred_delay: DEFERRED_DELAY,
            // What a request is worth is said in seconds: this only bounds memory and messages where tasks take milliseconds.
            tasks_per_processor: 1000.0,
            card_weight: 1.0,
            deadlines: DeadlineRule::Simulated,
        }
    }
}

impl Policy {
    /// With a longer one the delay, which is a hundredth more, would be cut, and whoever keeps it would be put off all the same.
    pub const MAX_REQUEST_INTERVAL: Duration = Duration::from_secs(47 * 3600);

    /// The volunteers' servers tell hosts to stay away for hours, by the reason for which they get nothing. Here a reason of that kind is a
    /// refusal (of who may not ask), or a verdict, after which the worker waits by a backoff of its own; so an answer tells of the interval.
    ///
    /// The delay of an answer that wants `least` of it. A hundredth more than the interval, as clocks drift; from a second on a second
    /// more at least, for workers that count whole ones.
    pub(super) fn request_delay(&self, least: Duration) -> Duration {
        let interval = self.min_request_interval;
        let second = Duration::from_secs(1);
        let drift = interval / 100;
        let spaced = interval.saturating_add(match interval < second {
            true => drift,
            false => drift.max(second),
        });
        spaced.max(least).min(MAX_DELAY)
    }
}
