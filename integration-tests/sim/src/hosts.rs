//! Processes around the real cores: they perform effects as the programs do, translate between the two protocols' types as the wire
//! does, and know neither chance nor what comes next, so that a simulator and an exhaustive search can drive the same ones.

pub mod scheduler;
pub mod worker;

use brasserie_common::{WorkRequest, WorkerDescription, WorkerSetId};
use brasserie_scheduler_core::StatusUpdate;
use brasserie_worker_core::Goodbye;

/// What a worker sends to a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub enum ToScheduler {
    Heartbeat {
        worker: Box<WorkerDescription>,
        set: WorkerSetId,
        goodbye: Goodbye,
    },
    Status(Box<StatusUpdate>),
    Work(Box<WorkRequest>),
}
