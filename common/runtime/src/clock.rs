//! The only module that reads the clock of the cores, the wall clock or the system's entropy.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use brasserie_common::{Time, WallTime};
use nix::time::{ClockId, clock_gettime};

/// The longest single sleep. The timers of the runtime stop while the machine is suspended, but [`Time`] does not. A sleeper rereads the
/// clock this often, which bounds its delay after a wake-up of the machine.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// The machine's clocks and entropy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// Reads the clock that also counts suspend.
    pub fn now(&self) -> Time {
        // Invariant: Linux has CLOCK_BOOTTIME since 2.6.39, and reading it cannot fail otherwise.
        let reading = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("CLOCK_BOOTTIME is readable");
        let nanos = Duration::from(reading).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Reads the wall clock, for labels and cron only.
    pub fn wall(&self) -> WallTime {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => {
                WallTime::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
            }
            // The clock of this machine was never set.
            Err(_) => WallTime::from_millis(0),
        }
    }

    /// Returns 64 unpredictable bits: the seed of a core, from which it derives all other randomness.
    pub fn seed(&self) -> u64 {
        // Invariant: Linux has getrandom(2) since 3.17, and it cannot fail once the machine has started.
        getrandom::u64().expect("the system gives entropy")
    }

    /// Sleeps until [`Clock::now`] has reached `deadline`.
    pub async fn sleep_until(&self, deadline: Time) {
        loop {
            let left = deadline.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(MAX_SLEEP)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_forward_and_seeds_differ() {
        let clock = Clock;
        let first = clock.now();
        assert!(clock.now() >= first && first > Time::ZERO);
        assert!(clock.wall() > WallTime::from_secs(1_600_000_000));
        assert_ne!(clock.seed(), clock.seed());
    }

    #[tokio::test]
    async fn sleeping_ends_no_earlier_than_asked() {
        let clock = Clock;
        let deadline = clock.now() + Duration::from_millis(20);
        clock.sleep_until(deadline).await;
        assert!(clock.now() >= deadline);
    }
}
