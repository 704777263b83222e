//! The store's size and growth, and a warning before the disk is full. The shell measures the size.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use brasserie_common::Time;

/// The time between two kept samples.
const SAMPLE: Duration = Duration::from_secs(3600);
/// The most samples. They cover the last day.
const MAX_SAMPLES: usize = 25;

/// A disk is nearly full if less than one part in this many is free, and less than [`ENOUGH_BYTES`].
const NEARLY_FULL_PART: u64 = 20;
/// Free bytes that suffice on any disk: space for millions of completions.
const ENOUGH_BYTES: u64 = 1 << 30;
/// A store that fills its disk within this time causes a warning.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// Growth below this number of bytes is ignored, because the store's log grows and is truncated.
const NOTABLE_BYTES: u64 = 256 << 20;

/// One measurement of the store's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreSize {
    /// Bytes of the database file and its log.
    pub bytes: u64,
    /// The part of `bytes` that the next records use before the file grows.
    pub free_bytes: u64,
    /// The size in bytes of the file system that holds the store.
    pub disk_bytes: u64,
    /// Free bytes of this file system.
    pub disk_free_bytes: u64,
}

/// The recent growth of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreGrowth {
    pub bytes: i64,
    pub over: Duration,
}

/// The state of the store in a status answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    pub size: StoreSize,
    /// `None` in the first hour.
    pub growth: Option<StoreGrowth>,
    /// Stored completions, of tasks that exist and of others.
    pub completions: usize,
    /// The part of `completions` whose node or job does not exist, counted once an hour.
    pub missing: usize,
}

/// A problem of the store's size. Its text has no numbers, because a problem with the same text is logged once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreWarning {
    DiskNearlyFull,
    FillsDisk,
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreWarning::DiskNearlyFull => "the disk of the data directory is nearly full",
            StoreWarning::FillsDisk => {
                "the store grows so fast that its disk is full within a week"
            }
        })?;
        f.write_str(
            ": without room no completion is acknowledged and nothing starts. Free space on that disk, or keep less: --keep-missing-for, \
             --keep-missing-count and `brasserie job delete-history`",
        )
    }
}

/// The sizes of the last day.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreSizes {
    last: Option<(Time, StoreSize)>,
    /// Times and sizes in bytes, oldest first.
    samples: VecDeque<(Time, u64)>,
}

impl StoreSizes {
    pub(crate) fn measured(&mut self, now: Time, size: StoreSize) {
        self.last = Some((now, size));
        let newest = self.samples.back();
        if newest.is_none_or(|(at, _)| now.since(*at) >= SAMPLE) {
            self.samples.push_back((now, size.bytes));
        }
        if self.samples.len() > MAX_SAMPLES {
            self.samples.pop_front();
        }
    }

    /// Returns the state for a status answer. `completions` and `missing` are as in [`StoreStatus`].
    pub(crate) fn status(&self, completions: usize, missing: usize) -> Option<StoreStatus> {
        let (_, size) = self.last?;
        Some(StoreStatus {
            size,
            growth: self.growth(),
            completions,
            missing,
        })
    }

    fn growth(&self) -> Option<StoreGrowth> {
        let (now, size) = self.last?;
        let (at, before) = self.samples.front().copied()?;
        let over = now.since(at);
        (over >= SAMPLE).then(|| StoreGrowth {
            bytes: size.bytes.cast_signed() - before.cast_signed(),
            over,
        })
    }

    /// Returns the present problem of the store's size.
    pub(crate) fn warning(&self) -> Option<StoreWarning> {
        let (_, size) = self.last?;
        if size.disk_free_bytes < ENOUGH_BYTES.min(size.disk_bytes / NEARLY_FULL_PART) {
            return Some(StoreWarning::DiskNearlyFull);
        }
        let StoreGrowth { bytes, over } = self.growth()?;
        let bytes = u64::try_from(bytes).ok();
        let bytes = bytes.filter(|bytes| *bytes > NOTABLE_BYTES)?;
        let within = over.as_secs().saturating_mul(size.disk_free_bytes / bytes);
        let within = Duration::from_secs(within);
        (within < SOON).then_some(StoreWarning::FillsDisk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn at(hours: u64) -> Time {
        Time::ZERO + Duration::from_secs(1000 + hours * 3600)
    }

    fn size(bytes: u64, disk_free_bytes: u64) -> StoreSize {
        StoreSize {
            bytes,
            free_bytes: 0,
            disk_bytes: 100 * GIB,
            disk_free_bytes,
        }
    }

    #[test]
    fn growth_is_that_of_the_last_day() {
        let mut sizes = StoreSizes::default();
        assert_eq!((sizes.growth(), sizes.warning()), (None, None));
        for hour in 0..100 {
            sizes.measured(at(hour), size(hour * 1000, 50 * GIB));
        }
        let growth = sizes.growth().expect("a day of sizes");
        assert_eq!((growth.bytes, growth.over), (24_000, 24 * SAMPLE));
        assert_eq!(sizes.warning(), None);
        sizes.measured(at(100), size(0, 50 * GIB));
        assert!(
            sizes.growth().expect("a day of sizes").bytes < 0,
            "it shrinks"
        );
        assert_eq!(sizes.warning(), None);
    }

    #[test]
    fn a_disk_that_is_nearly_full_or_soon_will_be_is_reported() {
        let mut sizes = StoreSizes::default();
        sizes.measured(at(0), size(GIB, GIB - 1));
        assert_eq!(sizes.warning(), Some(StoreWarning::DiskNearlyFull));
        let mut sizes = StoreSizes::default();
        sizes.measured(at(0), size(GIB, 50 * GIB));
        sizes.measured(at(2), size(2 * GIB, 49 * GIB));
        assert_eq!(sizes.warning(), Some(StoreWarning::FillsDisk));
    }
}
