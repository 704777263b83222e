//! Effects: the outputs of a scheduler core that its shell performs.

use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{
    CallId, InvocationId, Kill, KillRequest, RecordSeq, RequestId, RunningTask, SchedulerId,
    SequenceNumber, ServiceAddress, Shard, WorkReply, WorkerId,
};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use crate::jobs::{JobChanged, JobRefusal};
use crate::record::Record;
use crate::replies::MAX_REPLY_WAIT;
use crate::view::Answer;
use crate::workers::forgetting::{ForgetRefusal, MissingInstance};

/// An output of the core. Plain data: ids, never channels or sockets.
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
    /// Calls a worker; the shell reports [`crate::Event::CallCompleted`]. [`crate::Scheduler::message`] renders the call, in the same turn.
    Call {
        id: CallId,
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
    JobChanged(Result<JobChanged, JobRefusal>),
    /// The instances that are declared dead, or that may be declared dead.
    WorkerForgotten(Result<Vec<MissingInstance>, ForgetRefusal>),
    Answer(Box<Answer>),
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

/// The reason for which a request was refused. Bad input is counted and reported; it never crashes the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error(
        "it speaks protocol version {theirs}, the scheduler {ours}; run the same release on both"
    )]
    ProtocolVersion { theirs: i16, ours: i16 },
    #[error(
        "worker instance {incumbent} holds shard `{shard}` and is not lost; a newcomer gets the shard when it is. If both are meant to run, give each its own --shard"
    )]
    ShardTaken { shard: String, incumbent: WorkerId },
    #[error(
        "worker instance {instance} was told to end itself when it claimed a taken shard, and that request may still arrive; \
         it is let in once the request is over"
    )]
    AskedToDie { instance: WorkerId },
    #[error("a later instance {successor} of this worker has already associated")]
    StaleInstance { successor: WorkerId },
    #[error("addressed to scheduler instance {theirs}, but this is {ours}")]
    WrongScheduler {
        theirs: brasserie_common::SchedulerId,
        ours: brasserie_common::SchedulerId,
    },
    #[error("no worker is associated for shard `{shard}`")]
    UnknownShard { shard: String },
    #[error("worker instance {worker} is not associated")]
    UnknownWorker { worker: WorkerId },
    #[error("shard `{shard}` is held by worker instance {ours}, not by {theirs}")]
    WrongWorker {
        shard: String,
        theirs: WorkerId,
        ours: WorkerId,
    },
    #[error("the running tasks of this worker are not fetched yet; try again")]
    StillNew,
    #[error(
        "worker instance {instance} came with shard `{shard}` and machine lock {lock} before; these never change, so this \
         heartbeat is refused"
    )]
    IdentityChanged {
        instance: WorkerId,
        shard: String,
        lock: String,
    },
    #[error(
        "the pool has {limit} shards, as many as it takes, all with workers; end some workers, or let several use one shard \
         name one after another"
    )]
    PoolFull { limit: usize },
    #[error("{run} was given up and another run of the task is under way; its end is not taken")]
    Superseded { run: String },
    #[error(
        "{run} is not known here: it was neither started by this scheduler nor listed by its worker"
    )]
    UnknownRun { run: String },
    #[error("this scheduler has stepped down for the newer instance {newer}")]
    SteppedDown { newer: SchedulerId },
    #[error("{0}")]
    NotRunning(String),
    #[error("the worker did not accept the kill request: {0}")]
    KillFailed(String),
    #[error("the name in field {0} is empty")]
    EmptyName(&'static str),
    #[error("the store cannot write, so this is not taken; send it again: {why}")]
    StoreFails { why: String },
    #[error(
        "the store has not synced the record of this request for {} s, so whether it lasts is not known; send it again",
        MAX_REPLY_WAIT.as_secs()
    )]
    NotDurableYet,
    #[error(
        "the same status came again while its record was not durable; the later call gets the answer"
    )]
    Repeated,
}

/// A remote call to a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    GetRunningTasks {
        worker: WorkerId,
    },
    /// Starts a run. Sent once per invocation.
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
    KillTask {
        worker: WorkerId,
        task: Task,
        invocation: InvocationId,
        kill: Kill,
    },
}

/// Whether a worker that does not know this scheduler yet may accept a healthcheck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewWorker {
    Yes,
    No,
}

/// The content of a worker's answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply {
    /// An answer without content.
    Empty,
    RunningTasks(Vec<RunningTask>),
}
