//! What judges may look at: the cores, the directories and the settings of a run, at the moment of a happening.

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

/// What a run may be held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// Never twice at once, nothing acknowledged is lost.
    Whole,
    /// Something happened that no program can detect and the documentation forbids: a second scheduler alive on a copy of the
    /// directory, or a restored backup whose every witness is gone. What is left: each worker obeys one scheduler at a time.
    Obedience,
}

/// How far the world is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Faults are injected.
    Faults,
    /// No fault any more, old ones are over; the world settles.
    Quiet { since: Time },
}

/// The world as it is now.
#[derive(Clone, Copy)]
pub struct World<'a> {
    pub contract: Contract,
    pub phase: Phase,
    /// The longest of each that any scheduler of this run may have.
    pub timeouts: &'a Timeouts,
    /// The shortest.
    pub shortest: &'a Timeouts,
    /// Nothing fails in this run but workers, all but one of them: what the protocol promises to those that join must come true.
    pub only_workers_fail: bool,
    /// The longest between a worker's death, or the end of its lease, and the death of its processes.
    pub keeper_delay: Duration,
    /// Each machine's clock is wrong by at most this many parts in a thousand.
    pub drift_per_mille: u32,
    /// Whether workers ask for work, and how.
    pub fetching: &'a Fetching,
    pub heartbeat_period: Duration,
    /// How long schedulers keep completions of jobs and nodes that are gone.
    pub retention: Retention,
    pub schedulers: &'a [SchedulerHost],
    pub workers: &'a [WorkerHost],
    pub directories: &'a [Directory],
    /// As schedulers are given it now; one that is down or was just told may have an older one.
    pub config: &'a Arc<Config>,
}

impl<'a> World<'a> {
    /// The core, if a process is alive there.
    pub fn scheduler(&self, place: SchedulerPlace) -> Option<&'a Scheduler> {
        self.schedulers[usize::from(place.0)].core()
    }

    /// What the process there is for its scheduler, if one is alive.
    pub fn worker(&self, place: WorkerPlace) -> Option<&'a Association> {
        self.workers[usize::from(place.0)].core()
    }

    /// What would survive a crash now.
    pub fn durable(&self, directory: DirectoryId) -> &'a Durable {
        self.directories[usize::from(directory.0)].durable()
    }
}
