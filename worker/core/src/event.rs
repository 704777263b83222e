//! What a worker hears.

use std::sync::Arc;

use brasserie_common::resources::{TaskPhysicalResources, UsablePhysicalResources};
use brasserie_common::{
    CallId, CallOutcome, InvocationId, Kill, Principal, ReportedStatus, RequestId, RunningTask,
    SchedulerId, SequenceNumber, ServiceAddress, Story, TaskKey, TaskSubprocessOptions, WallTime,
    WorkerId,
};

use crate::effect::CallReply;
use crate::work_fetch::AssociationIndex;

/// Plain data: what happened, and who asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The wall clock, told once a turn before anything else.
    WallClock(WallTime),
    /// `getRunningTasks`. `scheduler` is absent when the peer knows only the original interface.
    GetRunningTasks {
        request: RequestId,
        from: Principal,
        worker: WorkerId,
        scheduler: Option<SchedulerId>,
    },
    /// `runTask`, healthchecks included.
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
    /// Somebody wants to see what the worker's work fetch does.
    ShowWorkFetch { request: RequestId },
    /// The operator wants this scheduler, or all, to be asked for work now, whatever the worker waits for of its own accord.
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
    /// The connection to the scheduler of this association broke, or its side closed it: it may have restarted, and then waits to hear
    /// from us.
    ConnectionLost { association: AssociationIndex },
    /// What [`crate::Effect::NewInstance`] asked for.
    NewInstance {
        association: AssociationIndex,
        id: WorkerId,
    },
    /// The process of a run is there. Only who has a timeout need be told of; a second time means nothing.
    TaskStarted {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// The process of a run and all its pipes are gone, or it could not be started at all.
    TaskEnded {
        task: TaskKey,
        invocation: InvocationId,
        status: ReportedStatus,
        story: Box<Story>,
    },
    /// What a running task uses.
    TaskSampled {
        task: TaskKey,
        invocation: InvocationId,
        physical: TaskPhysicalResources,
    },
    /// What the machine offers.
    UsableResources(UsablePhysicalResources),
    /// The operator wants the worker gone as soon as its tasks have ended: start none, and let those that run.
    Drain,
    /// The operator wants the worker gone (SIGTERM, Ctrl-C): end all tasks, tell the scheduler, say goodbye, exit.
    Shutdown,
}

/// One `runTask`.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTask {
    pub task: RunningTask,
    /// The JSON argument of the task.
    pub config: String,
    /// Empty: the worker's own default command.
    pub command: Vec<String>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
    pub sequence: SequenceNumber,
    pub options: TaskSubprocessOptions,
}
