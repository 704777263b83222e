//! Disks of workers: state, space, and the formula of the usable space.

use std::time::Duration;

use super::amounts::{Bytes, Permille};

/// The number that a worker keeps on each of its disks, so that the data are found again after an instance has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskId(pub u64);

/// The medium of a disk. It is shown to people, and no rule depends on it: disks are compared by their measured times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskClass {
    Ssd,
    Hdd,
}

/// The result of a worker's checks of one disk.
///
/// ```text
/// Healthy <--(each check of the disk)--> ReadError, IoHang, HighUsage, CriticalError
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskState {
    /// The last check succeeded.
    Healthy,
    /// A read or a write failed.
    ReadError,
    /// A check did not return in time.
    IoHang,
    /// The file system is nearly full.
    HighUsage,
    /// The disk is not to be used until the worker restarts.
    CriticalError,
}

/// One disk as its worker last reported it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerDisk {
    pub id: DiskId,
    pub class: DiskClass,
    pub total: Bytes,
    /// Result of [`usable_space`].
    pub usable: Bytes,
    /// Average time of one flush; zero if unknown.
    pub flush_time: Duration,
    /// Average time of one fetch; zero if unknown.
    pub fetch_time: Duration,
    /// Slots that the worker knows to be in use.
    pub active_slots: u64,
    pub state: DiskState,
}

impl WorkerDisk {
    /// Returns true if the disk works and has space.
    pub fn is_healthy(&self) -> bool {
        self.state == DiskState::Healthy && self.usable > Bytes::ZERO
    }

    /// Returns the number of artifacts that the empty disk would hold.
    pub fn max_slots(&self, artifact: Bytes) -> u64 {
        self.total.slots_of(artifact)
    }

    /// Returns the number of artifacts that fit into the usable space besides the reserved space.
    pub fn available_slots(&self, artifact: Bytes, reserved: Bytes) -> u64 {
        self.usable.less(reserved).slots_of(artifact)
    }
}

/// Space that artifacts leave free on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskReserve {
    pub size: Bytes,
    /// A fraction of the whole file system, where that is more than `size`.
    pub ratio: Option<Permille>,
}

impl Default for DiskReserve {
    fn default() -> Self {
        DiskReserve {
            size: Bytes::from_gib(5),
            ratio: None,
        }
    }
}

impl DiskReserve {
    pub fn of(&self, total: Bytes) -> Bytes {
        let part = self.ratio.map_or(0, |ratio| ratio.of(total.0));
        self.size.max(Bytes(part))
    }
}

/// Space of one disk as its worker measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Space that the configuration gives to artifacts.
    pub capacity: Bytes,
    /// Space that artifacts use.
    pub own_usage: Bytes,
    pub file_system_free: Bytes,
    pub file_system_total: Bytes,
}

/// Returns the space that further artifacts may use: the rest of the configured capacity, but not the reserve of the file system.
pub fn usable_space(space: &DiskSpace, reserve: &DiskReserve) -> Bytes {
    let configured = space.capacity.less(space.own_usage);
    let reserve = reserve.of(space.file_system_total);
    configured.min(space.file_system_free.less(reserve))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space(capacity: u64, own: u64, free: u64, total: u64) -> DiskSpace {
        DiskSpace {
            capacity: Bytes::from_gib(capacity),
            own_usage: Bytes::from_gib(own),
            file_system_free: Bytes::from_gib(free),
            file_system_total: Bytes::from_gib(total),
        }
    }

    #[test]
    fn usable_space_keeps_the_reserve_free() {
        let (fixed, tenth) = (
            DiskReserve::default(),
            DiskReserve {
                ratio: Some(Permille(100)),
                ..DiskReserve::default()
            },
        );
        for (space, reserve, gib) in [
            (space(100, 30, 500, 1000), fixed, 70),
            (space(100, 30, 60, 1000), fixed, 55),
            (space(100, 30, 120, 1000), tenth, 20),
            // A tenth of this disk is less than 5 GiB.
            (space(100, 0, 20, 40), tenth, 15),
            (space(100, 101, 500, 1000), fixed, 0),
            (space(100, 0, 4, 1000), fixed, 0),
        ] {
            assert_eq!(
                usable_space(&space, &reserve),
                Bytes::from_gib(gib),
                "{space:?}"
            );
        }
    }

    #[test]
    fn reserved_space_is_not_available() {
        let disk = WorkerDisk {
            id: DiskId(1),
            class: DiskClass::Hdd,
            total: Bytes::from_gib(4),
            usable: Bytes::from_gib(1),
            flush_time: Duration::ZERO,
            fetch_time: Duration::ZERO,
            active_slots: 9,
            state: DiskState::Healthy,
        };
        let size = Bytes::from_mib(64);
        assert_eq!(disk.max_slots(size), 64);
        assert_eq!(disk.available_slots(size, Bytes::ZERO), 16);
        assert_eq!(disk.available_slots(size, Bytes::from_mib(64 * 5)), 11);
        assert_eq!(disk.available_slots(size, Bytes::from_mib(64 * 17)), 0);
        // A part of a slot is of no use.
        assert_eq!(disk.available_slots(size, Bytes(1)), 15);
        let full = WorkerDisk {
            usable: Bytes::ZERO,
            ..disk
        };
        assert!(disk.is_healthy() && !full.is_healthy());
        for state in [
            DiskState::ReadError,
            DiskState::IoHang,
            DiskState::HighUsage,
            DiskState::CriticalError,
        ] {
            assert!(!WorkerDisk { state, ..disk }.is_healthy());
        }
    }

    integration_tests_properties::properties! {
        256;

        /// The formula in signed numbers, which cannot overflow.
        #[test]
        fn usable_space_is_the_formula(
            capacity in any::<u64>(), own in any::<u64>(), free in any::<u64>(), total in any::<u64>(),
            size in any::<u64>(), ratio in proptest::option::of(0..=1000_u16),
        ) {
            let space = DiskSpace {
                capacity: Bytes(capacity),
                own_usage: Bytes(own),
                file_system_free: Bytes(free),
                file_system_total: Bytes(total),
            };
            let reserve = DiskReserve { size: Bytes(size), ratio: ratio.map(Permille) };
            let wide = i128::from;
            let part = ratio.map_or(0, |ratio| wide(total) * i128::from(ratio) / 1000);
            let kept = part.max(wide(size));
            let expected = (wide(capacity) - wide(own)).min(wide(free) - kept).max(0);
            prop_assert_eq!(i128::from(usable_space(&space, &reserve).0), expected);
        }
    }
}
