//! What a worker wants done.

use std::sync::Arc;

use brasserie_common::work_overview::WorkWish;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{
    CallId, InvocationId, Kill, RefusalCode, ReportedStatus, RequestId, RunningTask, SchedulerId,
    ServiceAddress, TaskKey, WorkReply, WorkRequest, WorkerDescription, WorkerId, WorkerSetId,
};

use crate::event::RunTask;
use crate::work_fetch::{AssociationIndex, Overview};

/// Plain data: ids, never channels or sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Reply {
        request: RequestId,
        reply: Result<Reply, Refusal>,
    },
    /// Call the scheduler of this association, or read who its members are; report [`crate::Event::CallCompleted`].
    Call {
        association: AssociationIndex,
        id: CallId,
        call: Call,
    },
    /// Start the process; report [`crate::Event::TaskEnded`] exactly once, whatever happens.
    Spawn {
        run: Arc<RunTask>,
        /// What `CUDA_VISIBLE_DEVICES` calls the cards that it may see. None: nobody gave it any, and it sees all.
        cuda_devices: Vec<String>,
    },
    /// Stop the process of this run where it stands, with its process group and, if it has control groups, all that is in them. What has
    /// left the process group of a task without control groups runs on. Nothing is reported.
    Suspend {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// Let it go on.
    Resume {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// Signal a process that was started; nothing is reported but, later, its end.
    Kill {
        task: TaskKey,
        invocation: InvocationId,
        kill: Kill,
    },
    /// This association is over, no process of it is left, and the others go on: find it a new instance and report
    /// [`crate::Event::NewInstance`]. It must have begun at least a second after `after`, in a second that no instance of this machine
    /// lock has begun in, and its random bits must be fresh: its scheduler tells the two apart by that.
    NewInstance {
        association: AssociationIndex,
        after: WorkerId,
    },
    /// Every association is over and no process is left: end the program.
    Exit { reason: ExitReason },
}

/// Answers to requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Empty,
    RunningTasks(Vec<RunningTask>),
    /// `None`: this worker fetches none, and takes what it is sent.
    WorkFetch(Option<Box<Overview>>),
    /// Of each scheduler that is to be asked.
    WorkWishes(Vec<WorkWish>),
}

/// A declared exception: it promises that nothing happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: RefusalCode,
    pub message: String,
}

/// What a worker asks of its scheduler.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// To [`crate::Association::hears_heartbeats`].
    Heartbeat {
        worker: Box<WorkerDescription>,
        worker_set: WorkerSetId,
        goodbye: Goodbye,
    },
    RequestWork {
        /// The member of the scheduler that is asked.
        to: ServiceAddress,
        request: Box<WorkRequest>,
    },
    /// To [`crate::Association::hears_statuses`].
    UpdateStatus {
        task: Arc<RunningTask>,
        status: ReportedStatus,
        scheduler: SchedulerId,
        worker: WorkerId,
        goes: Goes,
    },
    /// None to the scheduler, but the question who its members are now: see [`crate::MemberList`].
    ReadMembers,
}

/// How a status goes to its scheduler. Each is a call of its own here, with an outcome of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goes {
    Alone,
    /// In one message with the others of this turn that go so, if the scheduler takes such messages.
    Together,
}

/// Whether a heartbeat is the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    No,
    /// Every process of this instance is dead, and it will start none.
    TasksAreDead,
}

/// What the scheduler answered.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply {
    Heartbeat(Box<HeartbeatResponse>),
    /// The status is recorded.
    Acknowledged,
    /// To a request for work.
    Work(Box<WorkReply>),
    /// The scheduler does not know the call: it is older than that.
    NoSuchCall,
    /// Each once.
    Members(Vec<ServiceAddress>),
}

/// Why the program ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The operator asked.
    Shutdown,
    /// The scheduler asked.
    SuicideRequested,
    /// The worker was unhealthy for too long, or the scheduler says so.
    MustDie,
}
