//! The waits and rates of heartbeats and reports, and the earliest of several deadlines.

use std::time::Duration;

use brasserie_common::Time;

/// The wait for the next heartbeat after a failed one, or after a report that was not acknowledged, unless the next heartbeat is due
/// earlier. A worker finds a restarted scheduler within a second. A scheduler that is down or refuses costs each worker one attempt a second.
pub(crate) const HEARTBEAT_RETRY: Duration = Duration::from_secs(1);

/// The number of heartbeats that may leave back to back while joining or after lost connections: the first one, the echo of the set id, the
/// one that is answered HEALTHY, and one to spare.
pub(crate) const EAGER_BURST: u32 = 4;

/// The interval of heartbeats after the burst. With the burst, at most 20 leave in any second (4 + 1 s / 62.5 ms).
pub(crate) const EAGER_INTERVAL: Duration = Duration::from_micros(62_500);

/// The pause after a status that was not acknowledged. It doubles each further time, up to [`LONGEST_REPORT_RETRY`], except after calls that
/// did not leave the worker.
pub(crate) const REPORT_RETRY: Duration = Duration::from_secs(1);

/// The longest pause. While the store cannot write, a thousand workers with a hundred ended tasks each send the scheduler 12,500 statuses a
/// second, which leaves most of its capacity to heartbeats. Once the store can write, all statuses arrive within eight seconds.
pub(crate) const LONGEST_REPORT_RETRY: Duration = Duration::from_secs(8);

/// The maximum wait for acknowledgements, once all processes are gone, of a worker that the operator ends: one retry and its answer.
pub(crate) const LAST_REPORTS_WAIT: Duration = Duration::from_secs(2);

/// The same wait of a worker that must end: one attempt and its answer. Its scheduler has given the tasks away, or will soon, so a second
/// attempt would only delay a restart of the worker.
pub(crate) const DYING_REPORTS_WAIT: Duration = Duration::from_secs(1);

/// The maximum wait for the answer to the goodbye. The goodbye only saves the scheduler the loss time, so it must not delay the operator.
pub(crate) const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// The longest time for which a completion waits for others to share its message, its record and its acknowledgement, while tasks stand by
/// that use the slots. It is a quarter of the work that stands by for each slot, so the scheduler replenishes it in time.
pub(crate) const COMPLETION_DELAY: Duration = Duration::from_millis(5);

/// Returns the earliest deadline. [`Time::NEVER`] counts as no deadline.
pub(crate) fn earliest(deadlines: impl IntoIterator<Item = Option<Time>>) -> Option<Time> {
    deadlines
        .into_iter()
        .flatten()
        .min()
        .filter(|&at| at < Time::NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_deadline_and_never_are_the_same() {
        assert_eq!(earliest([None, Some(Time::NEVER)]), None);
        assert_eq!(
            earliest([Some(Time::from_nanos(2)), None, Some(Time::from_nanos(1))]),
            Some(Time::from_nanos(1))
        );
    }

    #[test]
    fn the_rate_is_twenty_a_second() {
        let refills = Duration::from_secs(1).as_micros() / EAGER_INTERVAL.as_micros();
        assert_eq!(u128::from(EAGER_BURST) + refills, 20);
    }
}
