//! Effects: the outputs of a scheduler core that its shell performs.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::ArtifactsAnswer;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{
    CallId, RecordSeq, RequestId, SchedulerId, ServiceAddress, Shard, WorkReply, WorkerId,
};

use super::view::Answer;
use crate::calls::{Call, KilledTask};
use crate::jobs::{JobChanged, JobRefusal};
use crate::orders::OrderStatus;
use crate::record::Record;
use crate::refusal::{ForgetRefusal, OrderRefusal, Rejection};
use crate::slots::{NoSlots, ReservedSlots};

/// An output of the core. Plain data, never channels or sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Makes a record durable; the shell reports [`crate::Event::Persisted`]. Sequence numbers are consecutive from 1.
    Persist { seq: RecordSeq, record: Record },
    /// Answers a request, not before `after` is durable.
    Reply {
        request: RequestId,
        after: Option<RecordSeq>,
        reply: Reply,
    },
    /// Calls a worker; the shell reports [`crate::Event::CallCompleted`].
    Call {
        id: CallId,
        /// The shard that the worker at the address must prove.
        shard: Shard,
        peer: ServiceAddress,
        call: Call,
    },
    /// Ends the program: nothing more is started, sent or accepted. Only queries are still answered.
    Exit { reason: ExitReason },
}

/// The reason for which the scheduler ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ExitReason {
    #[error(
        "stepped down: a worker obeys the newer scheduler instance {newer}. If that one is meant to run, leave this one stopped; \
         if it is dead, this machine's clock or data directory is behind its own: set the clock right, then start again"
    )]
    SteppedDown { newer: SchedulerId },
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Heartbeat(Result<Box<HeartbeatResponse>, Rejection>),
    UpdateStatus(Result<(), Rejection>),
    KillTask(Result<Box<KilledTask>, Rejection>),
    Work(Result<Box<WorkReply>, Rejection>),
    Artifacts(Result<Box<ArtifactsAnswer>, Rejection>),
    Slots(Result<Box<ReservedSlots>, NoSlots>),
    /// Whether the reservation was open.
    SlotsReleased(Result<bool, Rejection>),
    JobChanged(Result<JobChanged, JobRefusal>),
    /// The instances that are declared dead, or that may be declared dead.
    WorkerForgotten(Result<Vec<MissingInstance>, ForgetRefusal>),
    /// The order in force; `None`: there is none.
    WorkerOrdered(Result<Option<Box<OrderStatus>>, OrderRefusal>),
    Answer(Box<Answer>),
}

/// Gives each kind of reply its own type, so that a shell asks for the type that it expects.
macro_rules! reply_kinds {
    ($($kind:ident => $payload:ty,)*) => {$(
        impl TryFrom<Reply> for $payload {
            type Error = Reply;

            /// Errors with the reply itself if it is of another kind.
            fn try_from(reply: Reply) -> Result<Self, Reply> {
                match reply {
                    Reply::$kind(payload) => Ok(payload),
                    other => Err(other),
                }
            }
        }
    )*};
}

reply_kinds! {
    Heartbeat => Result<Box<HeartbeatResponse>, Rejection>,
    UpdateStatus => Result<(), Rejection>,
    KillTask => Result<Box<KilledTask>, Rejection>,
    Work => Result<Box<WorkReply>, Rejection>,
    Artifacts => Result<Box<ArtifactsAnswer>, Rejection>,
    Slots => Result<Box<ReservedSlots>, NoSlots>,
    SlotsReleased => Result<bool, Rejection>,
    JobChanged => Result<JobChanged, JobRefusal>,
    WorkerForgotten => Result<Vec<MissingInstance>, ForgetRefusal>,
    WorkerOrdered => Result<Option<Box<OrderStatus>>, OrderRefusal>,
    Answer => Box<Answer>,
}

/// One worker instance that an operator may declare dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingInstance {
    pub id: WorkerId,
    pub hostname: Arc<str>,
    /// The tasks that this scheduler knows to run there. The tasks of an instance that has not returned since a restart are unknown.
    pub running: usize,
    /// The time since this scheduler last received a heartbeat or a healthcheck's result of the instance. `None`: it never has.
    pub silent_for: Option<Duration>,
    /// The time since the instance was lost, exited or was declared dead. `None`: it has not left.
    pub left_for: Option<Duration>,
    /// How long a task or a hold-back still waits because the instance may be alive, although it has left.
    pub waits_for: Option<Duration>,
}
