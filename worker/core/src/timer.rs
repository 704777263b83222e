//! Every wait and rate of the worker machine, and the earliest of several deadlines.

use std::time::Duration;

use brasserie_common::Time;

/// After a heartbeat that failed or a report that was not acknowledged, unless the next one is due before: a scheduler that
/// restarts is met within a second, and one that is down or refuses costs each worker one attempt a second.
pub(crate) const HEARTBEAT_RETRY: Duration = Duration::from_secs(1);

/// Heartbeats that may follow each other at once, while joining or after lost connections: the first one, the echo of the set
/// id, and the one that is answered HEALTHY, with one to spare.
pub(crate) const EAGER_BURST: u32 = 4;

/// Spacing of further ones: with the burst, at most 20 in any second (4 + 1 s / 62.5 ms).
pub(crate) const EAGER_INTERVAL: Duration = Duration::from_micros(62_500);

/// The pause after a status that was not acknowledged. It doubles each further time, up to [`LONGEST_REPORT_RETRY`].
pub(crate) const REPORT_RETRY: Duration = Duration::from_secs(1);

/// The longest pause. While the store cannot write, a thousand workers with a hundred ended tasks each send the scheduler 12,500 statuses a
/// second, which leaves most of its capacity to heartbeats. Once the store can write, all statuses arrive within eight seconds.
pub(crate) const LONGEST_REPORT_RETRY: Duration = Duration::from_secs(8);

/// How long the operator's wish to end waits for acknowledgements once every process is gone: one retry and its answer.
pub(crate) const LAST_REPORTS_WAIT: Duration = Duration::from_secs(2);

/// The same for a worker that must end: one attempt and its answer. Its scheduler has given the tasks away, or will soon, so a
/// second attempt would only hold up whoever starts the worker again.
pub(crate) const DYING_REPORTS_WAIT: Duration = Duration::from_secs(1);

/// How long the goodbye may take: it only spares the scheduler the loss time, so it may not hold up the operator.
pub(crate) const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// The longest life of a message: far above every timeout of a connection, so that nothing sent before it arrives after it.
pub(crate) const MESSAGE_LIFE: Duration = Duration::from_secs(600);

/// The first of several deadlines; [`Time::NEVER`] is none.
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
