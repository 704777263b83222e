//! The settings for the requests of all pull workers.

use std::time::Duration;

use super::DEFERRED_DELAY;

/// The longest delay in an answer.
const MAX_DELAY: Duration = Duration::from_secs(2 * 86_400);

/// The rule by which a task would be too late at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeadlineRule {
    /// A simulation of the tasks that the worker lists, if it reports their remaining times; else the worker's delay.
    Simulated,
    /// The worker's reported delay.
    Delayed,
}

/// The settings for the requests of all pull workers.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestPolicy {
    /// The minimum time between accepted requests of one worker. Zero: no limit.
    pub min_request_interval: Duration,
    /// The most accepted requests a second, of all workers. Each hundred runs of a worker count as one more request. 0: no limit.
    pub max_requests_per_second: u32,
    /// The longest time for which a request stays valid, whatever the worker asks for.
    pub max_linger: Duration,
    /// The delay of a worker that may get no tasks now.
    pub deferred_delay: Duration,
    /// The most tasks that are sent for one request, for each CPU of the worker.
    pub tasks_per_processor: f64,
    /// The number of CPUs that a GPU counts as in this limit.
    pub card_weight: f64,
    pub deadlines: DeadlineRule,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        RequestPolicy {
            // Tasks that may not be queued are sent only for idle processors, so none begins sooner than this after the end of the previous
            // one. The time is short compared to a task that is worth sending. The limit below bounds the cost of all workers together.
            min_request_interval: Duration::from_millis(10),
            // An evaluation costs some tens of microseconds, and as much for each hundred runs, which count as a request. So all of them
            // together take at most a tenth of a processor.
            max_requests_per_second: 1000,
            max_linger: Duration::from_secs(120),
            deferred_delay: DEFERRED_DELAY,
            // A request is measured in seconds. This only bounds memory and messages where tasks take milliseconds.
            tasks_per_processor: 1000.0,
            card_weight: 1.0,
            deadlines: DeadlineRule::Simulated,
        }
    }
}

impl RequestPolicy {
    /// The longest permitted interval. The delay of a longer one, which is a hundredth more, would be cut, and a worker that obeys it would
    /// be deferred nevertheless.
    pub const MAX_REQUEST_INTERVAL: Duration = Duration::from_secs(47 * 3600);

    /// Returns the delay of an answer that wants at least `least`: the interval and a hundredth more, because clocks drift. From an
    /// interval of a second on it is at least a second more, for workers that count whole seconds.
    ///
    /// BOINC's servers tell hosts to stay away for hours, depending on the reason for which they get nothing. Here such a reason is a
    /// refusal, or a verdict after which the worker uses its own backoff. So an answer only states the interval.
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
