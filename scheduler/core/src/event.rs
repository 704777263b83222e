//! What a scheduler hears.

use std::sync::Arc;

use brasserie_common::{
    BackoffDuration, CallId, CallOutcome, GpuShare, InvocationId, JobName, NodeName, Principal,
    RecordSeq, ReportedStatus, RequestId, SchedulerId, Shard, Story, WallTime, WorkRequest,
    WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_engine::NodeTable;

use crate::effect::CallReply;
use crate::record::JobVersion;
use crate::store_size::StoreSize;
use crate::view::Query;

/// Plain data: what happened, and who asks.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The wall clock, told once a turn before anything else.
    WallClock(WallTime),
    /// `processHeartbeat`. `goodbye`: every process of this instance is dead and it will start none.
    Heartbeat {
        request: RequestId,
        from: Principal,
        worker: Box<WorkerDescription>,
        worker_set: WorkerSetId,
        goodbye: bool,
    },
    /// `updateStatus`.
    UpdateStatus {
        request: RequestId,
        from: Principal,
        update: Box<StatusUpdate>,
    },
    /// `requestWork`; without a `request` it rode in a heartbeat, whose answer tells what became of it.
    RequestWork {
        request: Option<RequestId>,
        from: Principal,
        work: Box<WorkRequest>,
    },
    /// An operator wants one running task ended.
    KillTask {
        request: RequestId,
        from: Principal,
        job: JobName,
        node: NodeName,
    },
    /// Somebody wants a job to be another, or to be treated otherwise.
    ChangeJob {
        request: RequestId,
        from: Principal,
        job: JobName,
        change: JobChange,
    },
    /// An operator declares instances of a worker dead ([`crate::MissingInstance`]).
    ForgetWorker {
        request: RequestId,
        from: Principal,
        shard: Shard,
        /// The instances that the operator was shown; none: the scheduler only lists those that may be declared dead.
        confirmed: Vec<WorkerId>,
    },
    /// Somebody wants to look.
    Query {
        request: RequestId,
        from: Principal,
        query: Query,
    },
    /// A call to a worker has an outcome.
    CallCompleted {
        call: CallId,
        outcome: CallOutcome<CallReply>,
    },
    /// Every record up to this one is synced to disk.
    Persisted { up_to: RecordSeq },
    /// The store cannot write; nothing is acknowledged or started until it can.
    StoreFailed { message: String },
    /// The store writes again.
    StoreRecovered,
    /// The shell has measured the store's size, which it does every few seconds.
    StoreMeasured { size: StoreSize },
    ConfigLoaded {
        config: Arc<Config>,
        warnings: Vec<String>,
        origin: ConfigOrigin,
    },
    /// The last good configuration stays in force.
    ConfigFailed { message: String },
    /// `config`: the one whose sources gave them ([`crate::Scheduler::source_in_force`]), which another one may have replaced meanwhile.
    NodesLoaded {
        nodes: Arc<NodeTable>,
        config: Arc<Config>,
    },
    /// The last good nodes stay in force.
    NodesFailed { message: String },
}

/// Where a configuration comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigOrigin {
    /// From no file: whoever gives it, gives it again at each start.
    Given,
    /// A file was read. Once it is in force, its text is kept.
    File(FileText),
    /// What an earlier scheduler has kept, as the file cannot be used.
    Kept,
}

/// A config file as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct FileText {
    /// Absolute: its ending tells the format, its folder what relative paths in it mean.
    pub path: Arc<str>,
    pub text: Arc<str>,
}

/// What shall become of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobChange {
    /// It is given by API: this JSON, as a file has it under the job's key.
    Save {
        text: Arc<str>,
        expected: ExpectedVersion,
    },
    /// Of those that were given by API.
    Delete {
        expected: ExpectedVersion,
    },
    /// No task of it starts until it is resumed.
    Pause,
    /// No task of the job starts, and its running tasks are killed.
    Cancel,
    Resume,
    /// Its tasks' failures count no more: none has failed for good, and backoffs begin anew.
    Forgive,
    /// The same for its tasks that have failed for good; backoffs of others go on.
    ForgiveFailed,
    /// How its tasks have ended is forgotten, on these nodes; none: on all. Also of a job that exists no more.
    DeleteHistory {
        nodes: Vec<NodeName>,
    },
}

/// What a change of a job rests on: it is refused if somebody was faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// The text's `version_id`; without one, that there is no such job. A deletion has no text, and expects nothing.
    AsTextSays,
    Nothing,
    Exactly(JobVersion),
    /// Whatever there is.
    Any,
}

/// The end of a run, or "was not running", as a worker tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusUpdate {
    pub job: JobName,
    pub node: NodeName,
    pub shard: Shard,
    pub invocation: InvocationId,
    /// As it was given to the run when it started.
    pub next_backoff: BackoffDuration,
    pub status: ReportedStatus,
    /// The cards that it had.
    pub gpus: Vec<GpuShare>,
    /// What happened, if the worker tells.
    pub story: Option<Arc<Story>>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
}
