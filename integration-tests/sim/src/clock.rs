//! The clocks of machines. Each runs slightly too fast or too slow from its own start, and its wall clock can be set.

use std::time::Duration;

use brasserie_common::{Time, WallTime};

/// Unix seconds at the beginning of the world.
const EPOCH: i64 = 1_700_000_000;

const MILLION: i128 = 1_000_000;

/// The clocks of one machine. True time is the world's own; no program in it knows true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineClock {
    /// The boot clock's reading at the world's beginning.
    offset: Duration,
    /// The clock's error in parts per million; positive if it runs too fast.
    drift_ppm: i32,
    /// The wall clock's lead over the boot clock.
    wall_lead_millis: i64,
}

impl MachineClock {
    pub fn new(offset: Duration, drift_ppm: i32, wall_lead_millis: i64) -> Self {
        MachineClock {
            offset,
            drift_ppm,
            wall_lead_millis,
        }
    }

    /// Returns the time that `CLOCK_BOOTTIME` shows.
    pub fn boot(&self, at: Time) -> Time {
        let run = i128::from(at.as_nanos()) * (MILLION + i128::from(self.drift_ppm)) / MILLION;
        Time::from_nanos(u64::try_from(run).unwrap_or(u64::MAX)) + self.offset
    }

    /// Returns the first true time at which the boot clock shows `local` or more.
    pub fn when(&self, local: Time) -> Time {
        if local == Time::NEVER {
            return Time::NEVER;
        }
        let run = i128::from(local.since(Time::ZERO + self.offset).as_nanos() as u64);
        let speed = MILLION + i128::from(self.drift_ppm);
        let at = (run * MILLION + speed - 1) / speed;
        let mut at = Time::from_nanos(u64::try_from(at).unwrap_or(u64::MAX));
        // Rounding of the inverse may be off by one.
        while self.boot(at) < local {
            at = at + Duration::from_nanos(1);
        }
        at
    }

    pub fn wall(&self, at: Time) -> WallTime {
        let boot = self.boot(at).since(Time::ZERO + self.offset);
        WallTime::from_millis(WallTime::from_secs(EPOCH).as_millis() + self.wall_lead_millis) + boot
    }

    /// Leaves the machine's sleep uncounted, like `CLOCK_MONOTONIC` does.
    pub fn sleep_uncounted(&mut self, slept: Duration) {
        self.offset = self.offset.saturating_sub(slept);
    }

    /// Sets the wall clock.
    pub fn jump(&mut self, millis: i64) {
        self.wall_lead_millis = self.wall_lead_millis.saturating_add(millis);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_never_early_and_at_most_a_nanosecond_late() {
        for drift in [-5000, -1, 0, 1, 4999] {
            let clock = MachineClock::new(Duration::from_secs(77), drift, 0);
            for nanos in [0, 1, 999, 1_000_000_007, 86_400_000_000_001] {
                let local = Time::from_nanos(nanos) + Duration::from_secs(77);
                let at = clock.when(local);
                assert!(clock.boot(at) >= local, "{drift} {nanos}");
                let before = at - Duration::from_nanos(2);
                assert!(at.as_nanos() < 2 || clock.boot(before) < local);
            }
        }
    }

    #[test]
    fn the_wall_clock_jumps_alone() {
        let mut clock = MachineClock::new(Duration::ZERO, 0, 0);
        let at = Time::from_nanos(5_000_000_000);
        let (boot, wall) = (clock.boot(at), clock.wall(at));
        clock.jump(-3_600_000);
        assert_eq!(clock.boot(at), boot);
        assert_eq!(clock.wall(at).as_millis(), wall.as_millis() - 3_600_000);
    }
}
