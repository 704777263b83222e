//! The estimated size of an output artifact, learned from the completed ones.

use std::time::Duration;

use brasserie_common::Time;

use super::amounts::Bytes;

/// Time until the first update: long enough for the first tasks after a start to complete.
const FIRST_UPDATE: Duration = Duration::from_secs(5 * 60);
/// Time between updates. Each one may change the slots of all disks, so they are rarer than heartbeats.
const UPDATE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Bounds of the estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EstimateSettings {
    /// Least estimate, and least size of an artifact that counts.
    pub min: Bytes,
    /// Largest estimate. A smaller value than `min` counts as `min`.
    pub max: Bytes,
    /// The estimate while nothing is known, within the bounds.
    pub initial: Bytes,
}

impl Default for EstimateSettings {
    fn default() -> Self {
        EstimateSettings {
            min: Bytes::from_mib(8),
            max: Bytes::from_gib(4),
            initial: Bytes::from_mib(64),
        }
    }
}

impl EstimateSettings {
    fn clamp(&self, size: Bytes) -> Bytes {
        size.min(self.max).max(self.min)
    }
}

/// The average size of the artifacts of the last interval.
///
/// Invariant: the estimate is within the bounds of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeEstimate {
    settings: EstimateSettings,
    current: Bytes,
    written: Bytes,
    artifacts: u64,
    next_update: Time,
}

impl SizeEstimate {
    pub fn new(settings: EstimateSettings, now: Time) -> Self {
        SizeEstimate {
            settings,
            current: settings.clamp(settings.initial),
            written: Bytes::ZERO,
            artifacts: 0,
            next_update: now + FIRST_UPDATE,
        }
    }

    pub fn current(&self) -> Bytes {
        self.current
    }

    /// Returns when [`update`](Self::update) has something to do.
    pub fn next_update(&self) -> Time {
        self.next_update
    }

    /// Counts an output of an accepted completion. Artifacts below the least estimate do not count.
    pub fn record(&mut self, size: Bytes) {
        if size >= self.settings.min {
            self.written = self.written + size;
            self.artifacts += 1;
        }
    }

    /// Takes the average of the last interval if the interval is over, or the initial estimate if no artifact was counted. Returns the
    /// estimate if it has changed.
    pub fn update(&mut self, now: Time) -> Option<Bytes> {
        if now < self.next_update {
            return None;
        }
        self.next_update = now + UPDATE_INTERVAL;
        let written = std::mem::take(&mut self.written);
        let artifacts = std::mem::take(&mut self.artifacts);
        let average = written.0.checked_div(artifacts).map(Bytes);
        let next = self
            .settings
            .clamp(average.unwrap_or(self.settings.initial));
        let changed = next != self.current;
        self.current = next;
        changed.then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: fn(u64) -> Bytes = Bytes::from_mib;

    fn after(minutes: u64) -> Time {
        Time::ZERO + Duration::from_secs(60 * minutes)
    }

    /// Returns the estimate after one interval with these outputs.
    fn estimate_of(sizes: &[Bytes]) -> Bytes {
        let mut estimate = SizeEstimate::new(EstimateSettings::default(), Time::ZERO);
        for &size in sizes {
            estimate.record(size);
        }
        estimate.update(after(5));
        estimate.current()
    }

    #[test]
    fn estimates_are_averages_within_bounds() {
        let gib = Bytes::from_gib;
        for (sizes, expected) in [
            (vec![], MIB(64)),
            (vec![MIB(100)], MIB(100)),
            (vec![MIB(10), MIB(21)], Bytes(31 << 19)),
            (vec![MIB(8); 9], MIB(8)),
            (vec![gib(4), gib(5)], gib(4)),
            // Artifacts below 8 MiB do not count.
            (vec![MIB(8).less(Bytes(1)), MIB(16)], MIB(16)),
            (vec![MIB(1); 100], MIB(64)),
            // The division rounds down.
            (vec![MIB(9), MIB(9), Bytes((9 << 20) + 2)], MIB(9)),
        ] {
            assert_eq!(estimate_of(&sizes), expected, "{sizes:?}");
        }
    }

    #[test]
    fn updates_come_after_5_minutes_and_then_every_10() {
        let mut estimate = SizeEstimate::new(EstimateSettings::default(), after(0));
        estimate.record(MIB(100));
        assert_eq!(estimate.update(after(5) - Duration::from_nanos(1)), None);
        assert_eq!(estimate.update(after(5)), Some(MIB(100)));
        estimate.record(MIB(100));
        assert_eq!(estimate.update(after(14)), None);
        assert_eq!(estimate.update(after(15)), None, "unchanged");
        assert_eq!(estimate.next_update(), after(25));
        // An interval without artifacts forgets what was learned.
        assert_eq!(estimate.update(after(26)), Some(MIB(64)));
        assert_eq!(estimate.next_update(), after(36));
    }

    #[test]
    fn an_initial_estimate_out_of_bounds_is_clamped() {
        let settings = EstimateSettings {
            initial: MIB(1),
            ..EstimateSettings::default()
        };
        assert_eq!(SizeEstimate::new(settings, Time::ZERO).current(), MIB(8));
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn no_history_leaves_the_bounds(sizes in proptest::collection::vec(any::<u64>(), 0..20)) {
            let sizes: Vec<Bytes> = sizes.into_iter().map(Bytes).collect();
            let estimate = estimate_of(&sizes);
            prop_assert!(estimate >= MIB(8) && estimate <= Bytes::from_gib(4));
        }
    }
}
