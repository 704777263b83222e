//! The inputs of the worker core.

use std::sync::Arc;

use brasserie_common::resources::{TaskPhysicalResources, UsablePhysicalResources};
use brasserie_common::worker::{DrainTerms, HeartbeatResponse};
use brasserie_common::{
    CallId, CallOutcome, InvocationId, Kill, LeftOutput, Principal, ReportedStatus, RequestId,
    RunningTask, SchedulerId, SequenceNumber, ServiceAddress, Story, TaskKey,
    TaskSubprocessOptions, WallTime, WorkReply, WorkerId,
};
use brasserie_worker_fetch::AssociationIndex;

/// A request to drain the worker that the caller means.
#[derive(Clone, Debug, PartialEq)]
pub struct DrainRequest {
    pub shard: String,
    pub instance: WorkerId,
    pub terms: DrainTerms,
}

/// One input of the worker core, as plain data.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The wall clock. The shell sends it once a turn, before all other events.
    WallClock(WallTime),
    /// `getRunningTasks`. `scheduler` is absent if the peer knows only the original interface.
    GetRunningTasks {
        request: RequestId,
        from: Principal,
        worker: WorkerId,
        scheduler: Option<SchedulerId>,
    },
    /// `runTask`, for tasks and healthchecks.
    RunTask {
        request: RequestId,
        from: Principal,
        run: Box<RunTask>,
    },
    NotifyIfTasksNotRunning {
        request: RequestId,
        from: Principal,
        tasks: Vec<RunningTask>,
        scheduler: SchedulerId,
        worker: WorkerId,
        sequence: SequenceNumber,
    },
    RequestSuicide {
        request: RequestId,
        from: Principal,
        scheduler: SchedulerId,
        worker: WorkerId,
        /// The reason for the log, if the scheduler sends one.
        why: Option<Arc<str>>,
    },
    KillTask {
        request: RequestId,
        from: Principal,
        task: TaskKey,
        invocation: InvocationId,
        scheduler: SchedulerId,
        worker: WorkerId,
        kill: Kill,
    },
    /// A person requests an overview of the worker's work fetch.
    ShowWorkFetch { request: RequestId },
    /// The operator requests that the worker ask this scheduler, or all, for work now, and not wait as long as it would by itself.
    FetchWork {
        request: RequestId,
        from: Principal,
        scheduler: Option<ServiceAddress>,
    },
    /// A call to a scheduler has an outcome.
    CallCompleted {
        call: CallId,
        outcome: CallOutcome<CallReply>,
    },
    /// The connection to the scheduler of this association broke, or the scheduler closed it. The scheduler may have restarted and then
    /// waits for a heartbeat.
    ConnectionLost { association: AssociationIndex },
    /// The new instance that [`crate::Effect::NewInstance`] requested.
    NewInstance {
        association: AssociationIndex,
        id: WorkerId,
    },
    /// The process of a run exists. The shell must send this only for runs with a timeout. Repetitions have no effect.
    TaskStarted {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// The process of a run and all its pipes are gone, or the process could not be started.
    TaskEnded {
        task: TaskKey,
        invocation: InvocationId,
        status: ReportedStatus,
        story: Box<Story>,
    },
    /// The outputs of a run are in the worker's store. Its [`Event::TaskEnded`] follows.
    OutputsTaken {
        run: (TaskKey, InvocationId),
        outputs: Vec<LeftOutput>,
    },
    /// The resources that a running task uses.
    TaskSampled {
        task: TaskKey,
        invocation: InvocationId,
        physical: TaskPhysicalResources,
    },
    /// The resources of the machine.
    UsableResources(UsablePhysicalResources),
    /// The operator drains the worker by a call, and means this instance.
    RequestDrain {
        request: RequestId,
        from: Principal,
        drain: DrainRequest,
    },
    /// The operator drains the worker: it finishes its running tasks, starts no others, and exits.
    Drain,
    /// The operator ends the worker (SIGTERM, Ctrl-C): it kills all tasks, reports their completions, says goodbye and exits.
    Shutdown,
}

/// The parameters of one `runTask`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTask {
    pub task: RunningTask,
    /// The JSON argument of the task.
    pub config: String,
    /// If empty, the worker runs its own default command.
    pub command: Vec<String>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
    pub sequence: SequenceNumber,
    pub options: TaskSubprocessOptions,
}

/// The scheduler's answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply {
    Heartbeat(Box<HeartbeatResponse>),
    /// The status is recorded.
    Acknowledged,
    /// The answer to a request for work.
    Work(Box<WorkReply>),
    /// The scheduler does not know the call, because it is older than the call.
    NoSuchCall,
    /// The current members, each once.
    Members(Vec<ServiceAddress>),
}
