//! Processes around the real cores. They perform effects like the programs do, and translate between the types of the two protocols like
//! the wire does. They use no randomness and do not schedule steps, so the simulator and the exhaustive search share them.

pub mod desk;
pub mod scheduler;
pub mod worker;

use brasserie_common::artifact_report::ArtifactsReport;
use brasserie_common::{WorkRequest, WorkerDescription, WorkerSetId};
use brasserie_scheduler_core::StatusUpdate;
use brasserie_worker_core::Goodbye;

/// A message from a worker to a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub enum ToScheduler {
    Heartbeat {
        worker: Box<WorkerDescription>,
        set: WorkerSetId,
        goodbye: Goodbye,
    },
    Status(Box<StatusUpdate>),
    Work(Box<WorkRequest>),
    /// A report of the worker's store, which leaves its shell and not its core.
    Artifacts(Box<ArtifactsReport>),
}
