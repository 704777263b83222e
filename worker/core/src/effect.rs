//! The outputs of the worker core, and their queue.

use std::collections::VecDeque;
use std::sync::Arc;

use brasserie_common::work_overview::WorkWish;
use brasserie_common::{
    CallId, InvocationId, Kill, RefusalCode, ReportedStatus, RequestId, RunningTask, SchedulerId,
    ServiceAddress, TaskKey, WorkRequest, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_worker_fetch::{AssociationIndex, Overview};

use crate::event::RunTask;

/// One output of the worker core, as plain data: ids, never channels or sockets.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Reply {
        request: RequestId,
        reply: Result<Reply, Refusal>,
    },
    /// Call the scheduler of this association, or read its member list. Report [`crate::Event::CallCompleted`].
    Call {
        association: AssociationIndex,
        id: CallId,
        call: Call,
    },
    /// Start the process. Report [`crate::Event::TaskEnded`] exactly once, whatever happens.
    Spawn {
        run: Arc<RunTask>,
        /// The names of the task's GPUs for `CUDA_VISIBLE_DEVICES`. If empty, the task has no GPUs of its own and sees all.
        cuda_devices: Vec<String>,
    },
    /// Stop the process of this run with its process group and, if it has control groups, all processes in them. If the task has no control
    /// groups, processes that have left its process group continue. The shell reports nothing.
    Suspend {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// Continue the stopped process of this run.
    Resume {
        task: TaskKey,
        invocation: InvocationId,
    },
    /// Signal a process that was started. The shell reports only its later end.
    Kill {
        task: TaskKey,
        invocation: InvocationId,
        kill: Kill,
    },
    /// Find a new instance for this association, which is over and has no process left, while others go on. Report
    /// [`crate::Event::NewInstance`]. The instance must begin at least a second after `after`, in a second in which no instance of this
    /// machine lock has begun. Its random bits must be fresh. The scheduler tells the two instances apart by these values.
    NewInstance {
        association: AssociationIndex,
        after: WorkerId,
    },
    /// End the program: every association is over, and no process is left.
    Exit { reason: ExitReason },
}

/// A successful answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Empty,
    /// A task that may stand by was accepted, and stands by at this place of the queue. `None`: it has begun.
    Accepted {
        queued_at: Option<i64>,
    },
    RunningTasks(Vec<RunningTask>),
    /// `None`: this worker does not fetch work.
    WorkFetch(Option<Box<Overview>>),
    /// One entry for each scheduler that [`crate::Event::FetchWork`] names.
    WorkWishes(Vec<WorkWish>),
    /// The worker drains. The number of its running tasks, without healthchecks.
    Draining(usize),
}

/// A declared exception. It promises that the request had no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: RefusalCode,
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Refusal {
            code,
            message: message.into(),
        }
    }
}

/// A call from the worker to its scheduler.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Goes to [`crate::Association::hears_heartbeats`].
    Heartbeat {
        worker: Box<WorkerDescription>,
        worker_set: WorkerSetId,
        goodbye: Goodbye,
    },
    RequestWork {
        /// The member of the scheduler that the request goes to.
        to: ServiceAddress,
        request: Box<WorkRequest>,
    },
    /// Goes to [`crate::Association::hears_statuses`].
    UpdateStatus {
        task: Arc<RunningTask>,
        status: ReportedStatus,
        scheduler: SchedulerId,
        worker: WorkerId,
        goes: Goes,
    },
    /// Requests the current members of the scheduler from the shell, not from the scheduler; see [`crate::MemberList`].
    ReadMembers,
}

/// How a status travels to its scheduler. In the core, each status is a separate call with its own outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Goes {
    Alone,
    /// The status shares a message with the other `Together` statuses of this turn, if the scheduler accepts such messages.
    Together,
}

/// Whether a heartbeat is the last one of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goodbye {
    No,
    /// Every process of this instance is dead, and it starts no others.
    TasksAreDead,
}

/// The reason why the program ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The operator ended the worker.
    Shutdown,
    /// The scheduler requested it.
    SuicideRequested,
    /// The worker was unhealthy for too long, or the scheduler says so.
    MustDie,
}

/// The effects that the shell has not drained yet. The shell drains them once a turn, so the effects of one turn bound the length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    effects: VecDeque<Effect>,
    last_call: u64,
}

impl Outbox {
    pub(crate) fn pop(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn reply(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        self.push(Effect::Reply { request, reply });
    }

    /// Requests a call to the scheduler of this association, and returns its id.
    pub(crate) fn call(&mut self, association: AssociationIndex, call: Call) -> CallId {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.push(Effect::Call {
            association,
            id,
            call,
        });
        id
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter()
    }
}
