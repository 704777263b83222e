//! The reasons why heartbeats do not count, as texts for people.

use brasserie_common::SchedulerId;
use brasserie_common::worker::PROTOCOL_VERSION;

/// The reason why the last heartbeat did not count. The worker keeps trying; the shell displays the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatTrouble {
    #[error(
        "the scheduler speaks protocol version {theirs}, this worker {PROTOCOL_VERSION}: run the same release on both"
    )]
    ProtocolVersion { theirs: i16 },
    #[error("scheduler instance {scheduler} answered with a worker set of instance {of}")]
    ForeignWorkerSet {
        scheduler: SchedulerId,
        of: SchedulerId,
    },
    #[error(
        "scheduler instance {answered} answered, but this worker has met the later instance {newest}: stop the older scheduler"
    )]
    OldScheduler {
        answered: SchedulerId,
        newest: SchedulerId,
    },
    #[error("the scheduler refused the heartbeat: {0}")]
    Refused(String),
    #[error("the heartbeat failed: {0}")]
    Failed(String),
}
