//! The space and the condition of each disk, as the worker reports them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::catalog::DiskNumber;
use crate::disk::DiskFolder;
use crate::shared::{State, StoreShared};
use brasserie_common::DiskGeneration;
use brasserie_common::artifact_report::DiskMedium;

/// The condition of a disk.
///
/// ```text
/// Healthy <--> HighUsage, IoHang (as space and time pass)
///    |  ^
///    |  +--a good probe--+
///    +--> ReadError -----+   (a disk that could not be opened stays there)
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundCondition {
    Healthy,
    /// The disk failed, for this reason. It gets no new artifacts.
    ReadError(String),
    /// An operation in flight does not return. The disk gets no new artifacts.
    IoHang,
    /// Only the reserve is free.
    HighUsage,
}

/// The space and the condition of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    pub disk: DiskNumber,
    pub path: PathBuf,
    pub medium: DiskMedium,
    /// None for a disk that could not be opened.
    pub generation: Option<DiskGeneration>,
    /// The most bytes of artifacts that the disk would have if nothing else was on it.
    pub total: u64,
    /// Bytes of artifacts.
    pub used: u64,
    /// Bytes that further artifacts may use.
    pub usable: u64,
    pub condition: FoundCondition,
    /// The average time of a write or sync of a copy; zero: there were too few in the last ten minutes.
    pub flush_time: Duration,
    /// The average time of a read for a peer; zero as above.
    pub fetch_time: Duration,
}

/// Returns what is known of each disk. Never waits for a disk.
pub fn usage(shared: &StoreShared) -> Vec<DiskUsage> {
    let hung = shared.in_flight.hung();
    let (mut state, now) = (shared.state(), Instant::now());
    let disks = (0..).map(DiskNumber).zip(&shared.disks);
    let usage = disks.map(|(disk, place)| {
        let (flush_time, fetch_time) = state.times[disk.0].averages(now);
        let space = &state.spaces[disk.0];
        DiskUsage {
            disk,
            path: place.path.clone(),
            medium: place.medium,
            generation: place.opened.as_ref().ok().and_then(DiskFolder::generation),
            total: space.total(),
            used: space.used(),
            usable: space.usable(),
            condition: condition(&state, disk, &hung),
            flush_time,
            fetch_time,
        }
    });
    usage.collect()
}

fn condition(state: &State, disk: DiskNumber, hung: &BTreeSet<DiskNumber>) -> FoundCondition {
    if let Some(reason) = &state.failures[disk.0] {
        FoundCondition::ReadError(reason.clone())
    } else if hung.contains(&disk) {
        FoundCondition::IoHang
    } else if state.spaces[disk.0].is_nearly_full() {
        FoundCondition::HighUsage
    } else {
        FoundCondition::Healthy
    }
}
