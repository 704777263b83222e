//! The view that laws have of a run at the moment of a happening: cores, directories and settings.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Time, Timeouts};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{Durable, Retention, Scheduler};
use brasserie_worker_core::Association;

use crate::disk::Directory;
use crate::event_log::{DirectoryId, SchedulerPlace, WorkerPlace};
use crate::hosts::scheduler::SchedulerHost;
use crate::hosts::worker::WorkerHost;
use crate::swarm::Fetching;

/// The guarantees that a run is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// All guarantees: no task runs twice at once, and no acknowledged completion is lost.
    Whole,
    /// A second scheduler ran on a copy of the directory, or a backup was restored after every witness was gone. No program can detect
    /// this, and the documentation forbids it. One guarantee remains: each worker obeys one scheduler at a time.
    Obedience,
}

/// The phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults are injected.
    Faults,
    /// No new faults. Old faults are over, and the world settles.
    Quiet { since: Time },
}

/// The world as it is now.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub contract: Contract,
    pub phase: Phase,
    /// The longest value of each timeout that any scheduler of this run may have.
    pub timeouts: &'a Timeouts,
    /// The shortest value of each timeout.
    pub shortest: &'a Timeouts,
    /// Only workers fail in this run, and one of them never does, so the protocol's promises to joining workers must hold.
    pub only_workers_fail: bool,
    /// The longest time between the death of a worker, or the end of its lease, and the death of its processes.
    pub keeper_delay: Duration,
    /// The largest error of a machine's clock, in parts per thousand.
    pub drift_per_mille: u32,
    /// Whether and how workers request work.
    pub fetching: &'a Fetching,
    pub heartbeat_period: Duration,
    /// How long schedulers keep completions of missing jobs and nodes.
    pub retention: Retention,
    pub schedulers: &'a [SchedulerHost],
    pub workers: &'a [WorkerHost],
    pub directories: &'a [Directory],
    /// The configuration that schedulers receive now. A scheduler that is down or has just received it may have an older one.
    pub config: &'a Arc<Config>,
}

impl<'a> World<'a> {
    /// Returns the core, if a process is alive there.
    pub fn scheduler(&self, place: SchedulerPlace) -> Option<&'a Scheduler> {
        self.schedulers.get(usize::from(place.0))?.core()
    }

    /// Returns the association of the worker process there, if one is alive.
    pub fn worker(&self, place: WorkerPlace) -> Option<&'a Association> {
        self.workers.get(usize::from(place.0))?.core()
    }

    /// Returns the content that would survive a crash now.
    pub fn durable(&self, directory: DirectoryId) -> Option<&'a Durable> {
        let directory = self.directories.get(usize::from(directory.0))?;
        Some(directory.durable())
    }

    /// Returns the least true time in which any clock of this world counts `local`.
    pub fn at_least(&self, local: Duration) -> Duration {
        local * 1000 / (1000 + self.drift_per_mille)
    }

    /// Returns the most true time in which any clock of this world counts `local`.
    pub fn at_most(&self, local: Duration) -> Duration {
        // No world has a clock that stands still; such a clock would never count anything.
        local * 1000 / 1000_u32.saturating_sub(self.drift_per_mille).max(1)
    }
}
