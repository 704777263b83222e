//! Calls to workers: their content, and the open ones with their purposes.

mod shape;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::{
    CallId, CallOutcome, InvocationId, Kill, KillRequest, RefusalCode, RequestId, RunningTask,
    SchedulerId, SequenceNumber, Shard, TaskSubprocessOptions, Time, WorkerId,
};
use brasserie_scheduler_engine::{Task, WorkerIndex};

/// A remote call to a worker, with every name and text filled in.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    GetRunningTasks {
        scheduler: SchedulerId,
        worker: WorkerId,
    },
    /// Starts a run. Sent once per invocation.
    RunTask(Box<RunTaskCall>),
    /// Starts a healthcheck, by the same method.
    Healthcheck(Box<RunTaskCall>),
    NotifyIfTasksNotRunning {
        tasks: Vec<RunningTask>,
        scheduler: SchedulerId,
        worker: WorkerId,
        sequence: SequenceNumber,
    },
    RequestSuicide {
        scheduler: SchedulerId,
        worker: WorkerId,
        /// The reason, for logs.
        why: Arc<str>,
    },
    /// Lets the worker finish its tasks and exit.
    Drain {
        shard: Shard,
        worker: WorkerId,
        /// The reason, for logs.
        why: Arc<str>,
    },
    KillTask {
        task: Box<RunningTask>,
        scheduler: SchedulerId,
        worker: WorkerId,
        kill: Kill,
    },
}

impl Call {
    /// Returns the callee.
    pub fn worker(&self) -> WorkerId {
        match self {
            Call::RunTask(run) | Call::Healthcheck(run) => run.worker,
            Call::GetRunningTasks { worker, .. }
            | Call::NotifyIfTasksNotRunning { worker, .. }
            | Call::RequestSuicide { worker, .. }
            | Call::Drain { worker, .. }
            | Call::KillTask { worker, .. } => *worker,
        }
    }
}

/// The content of a `runTask` call.
#[derive(Clone, Debug, PartialEq)]
pub struct RunTaskCall {
    pub task: RunningTask,
    /// The JSON argument of the task.
    pub config: String,
    pub command: Vec<String>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
    pub sequence: SequenceNumber,
    pub options: TaskSubprocessOptions,
}

/// A call in the turn in which it is decided. The names and texts of [`Call`] are filled in when it leaves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallDraft {
    GetRunningTasks {
        worker: WorkerId,
    },
    RunTask {
        worker: WorkerId,
        index: WorkerIndex,
        task: Task,
        invocation: InvocationId,
        sequence: SequenceNumber,
    },
    Healthcheck {
        worker: WorkerId,
        index: WorkerIndex,
        invocation: InvocationId,
        new_worker: NewWorker,
    },
    NotifyIfTasksNotRunning {
        worker: WorkerId,
        tasks: Vec<(Task, InvocationId)>,
        sequence: SequenceNumber,
    },
    RequestSuicide {
        worker: WorkerId,
    },
    Drain {
        worker: WorkerId,
        why: Arc<str>,
    },
    KillTask {
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
        kill: Kill,
    },
}

/// Whether a worker that does not know this scheduler yet may accept a healthcheck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewWorker {
    Yes,
    No,
}

/// The content of a worker's answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply {
    /// An answer without content.
    Empty,
    /// The worker has accepted a task that may stand by, and has it at this place of its queue. `None`: the task has begun.
    Accepted {
        queued_at: Option<i64>,
    },
    RunningTasks(Vec<RunningTask>),
}

/// A run whose worker has accepted the request to kill it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KilledTask {
    pub shard: Shard,
    pub invocation: InvocationId,
    pub request: KillRequest,
    /// The task's job is paused or cancelled, so the task does not run again until the job is resumed.
    pub held: bool,
    /// Why the task does not run again, whether or not it is held.
    pub unwanted: Option<String>,
    /// Seconds from the completion until the task may run again, if it counts as incomplete.
    pub wait_seconds: u32,
}

/// The most open `requestSuicide` calls. Each answers one heartbeat of an instance that must exit, so a peer that floods the scheduler
/// cannot make it flood others. The limit is far above the number of workers that are lost at one moment.
const MAX_OPEN_SUICIDES: usize = 1024;

/// The open calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    last: u64,
    /// The workers that have been requested to exit, with the reasons for their logs. Each has at most one open call.
    suicides: BTreeMap<WorkerId, Arc<str>>,
    open: BTreeMap<CallId, (Time, CallPurpose)>,
    deadlines: BTreeSet<(Time, CallId)>,
}

/// The purpose of a call, which decides how its outcome is handled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CallPurpose {
    Fetch {
        shard: Shard,
        worker: WorkerId,
    },
    Start {
        shard: Shard,
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
    },
    Healthcheck {
        shard: Shard,
        worker: WorkerId,
        invocation: InvocationId,
    },
    Notify {
        shard: Shard,
        worker: WorkerId,
        tasks: Vec<(Task, InvocationId)>,
    },
    /// A request to exit. A failure is the normal outcome, because the worker dies.
    Suicide {
        shard: Shard,
        worker: WorkerId,
    },
    /// A request to a decommissioned worker to drain.
    Drain {
        shard: Shard,
        worker: WorkerId,
    },
    /// A kill for a caller that waits for the answer.
    Kill {
        worker: WorkerId,
        request: RequestId,
        killed: Box<KilledTask>,
    },
    /// A kill of a run that is no longer wanted.
    EndOrphan {
        shard: Shard,
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
    },
    /// The return of a task that has not begun.
    TakeBack {
        shard: Shard,
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
    },
}

impl CallPurpose {
    /// Returns the shard that the callee must prove.
    pub(crate) fn shard(&self) -> &Shard {
        match self {
            CallPurpose::Fetch { shard, .. }
            | CallPurpose::Start { shard, .. }
            | CallPurpose::Healthcheck { shard, .. }
            | CallPurpose::Notify { shard, .. }
            | CallPurpose::Suicide { shard, .. }
            | CallPurpose::Drain { shard, .. }
            | CallPurpose::EndOrphan { shard, .. }
            | CallPurpose::TakeBack { shard, .. } => shard,
            CallPurpose::Kill { killed, .. } => &killed.shard,
        }
    }

    /// Returns the callee. `None` for a request to exit, whose outcome says nothing about the worker.
    pub(crate) fn peer(&self) -> Option<(&Shard, WorkerId)> {
        match self {
            CallPurpose::Fetch { shard, worker }
            | CallPurpose::Start { shard, worker, .. }
            | CallPurpose::Healthcheck { shard, worker, .. }
            | CallPurpose::Notify { shard, worker, .. }
            | CallPurpose::Drain { shard, worker }
            | CallPurpose::EndOrphan { shard, worker, .. }
            | CallPurpose::TakeBack { shard, worker, .. } => Some((shard, *worker)),
            CallPurpose::Kill { worker, killed, .. } => Some((&killed.shard, *worker)),
            CallPurpose::Suicide { .. } => None,
        }
    }
}

/// Returns the worker of a refused call and the scheduler instance that the refusal names. Healthchecks and suicide requests also go to
/// workers that do not obey this scheduler yet or any more, so their refusals do not count.
pub(crate) fn obeyed_instead(
    purpose: &CallPurpose,
    outcome: &CallOutcome<CallReply>,
) -> Option<(Shard, WorkerId, SchedulerId)> {
    let CallOutcome::Refused(RefusalCode::BoundTo(obeyed), _) = outcome else {
        return None;
    };
    match purpose {
        CallPurpose::Fetch { shard, worker }
        | CallPurpose::Start { shard, worker, .. }
        | CallPurpose::Notify { shard, worker, .. } => Some((shard.clone(), *worker, *obeyed)),
        CallPurpose::Healthcheck { .. }
        | CallPurpose::Suicide { .. }
        | CallPurpose::Drain { .. }
        | CallPurpose::Kill { .. }
        | CallPurpose::EndOrphan { .. }
        | CallPurpose::TakeBack { .. } => None,
    }
}

impl Calls {
    /// Opens a call with this deadline.
    pub(crate) fn open(&mut self, deadline: Time, purpose: CallPurpose) -> CallId {
        self.last += 1;
        let id = CallId(self.last);
        self.open.insert(id, (deadline, purpose));
        self.deadlines.insert((deadline, id));
        id
    }

    /// Closes an open call. Returns its deadline and its purpose.
    pub(crate) fn close(&mut self, id: CallId) -> Option<(Time, CallPurpose)> {
        let (deadline, purpose) = self.open.remove(&id)?;
        self.deadlines.remove(&(deadline, id));
        if let CallPurpose::Suicide { shard: _, worker } = &purpose {
            self.suicides.remove(worker);
        }
        Some((deadline, purpose))
    }

    /// Returns an open call whose deadline has passed.
    pub(crate) fn next_overdue(&self, now: Time) -> Option<CallId> {
        let first = self.deadlines.first().filter(|(at, _)| *at <= now);
        first.map(|(_, id)| *id)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns whether one more instance may be asked to exit. Each has at most one open call for that.
    pub(crate) fn may_ask_to_die(&self, worker: WorkerId) -> bool {
        self.suicides.len() < MAX_OPEN_SUICIDES && !self.is_asked_to_die(worker)
    }

    /// Notes why the worker is asked to exit, until the call for that is closed.
    pub(crate) fn note_asked_to_die(&mut self, worker: WorkerId, why: &Arc<str>) {
        self.suicides.insert(worker, Arc::clone(why));
    }

    pub(crate) fn is_asked_to_die(&self, worker: WorkerId) -> bool {
        self.suicides.contains_key(&worker)
    }

    /// Returns why the worker is asked to exit.
    pub(crate) fn why_it_must_die(&self, worker: WorkerId) -> Arc<str> {
        self.suicides.get(&worker).cloned().unwrap_or_default()
    }
}
