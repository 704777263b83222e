//! Events: the inputs of a scheduler core.

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

/// An input of the core, with the principal that sent it. Plain data.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The wall clock. The shell sends it once a turn, before all other events.
    WallClock(WallTime),
    /// A `processHeartbeat` call. `goodbye`: every process of this instance is dead, and the instance starts no other.
    Heartbeat {
        request: RequestId,
        from: Principal,
        worker: Box<WorkerDescription>,
        worker_set: WorkerSetId,
        goodbye: bool,
    },
    /// An `updateStatus` call.
    UpdateStatus {
        request: RequestId,
        from: Principal,
        update: Box<StatusUpdate>,
    },
    /// A `requestWork` call. A request without `request` was part of a heartbeat; the answer to that heartbeat reports the result.
    RequestWork {
        request: Option<RequestId>,
        from: Principal,
        work: Box<WorkRequest>,
    },
    /// An operator asks to kill one running task.
    KillTask {
        request: RequestId,
        from: Principal,
        job: JobName,
        node: NodeName,
    },
    /// A caller changes a job or its state.
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
        /// The instances that the operator was shown. Empty: the scheduler only lists the instances that may be declared dead.
        confirmed: Vec<WorkerId>,
    },
    /// A caller asks for a view of the state.
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
    /// The store cannot write. Nothing is acknowledged or started until it can.
    StoreFailed { message: String },
    /// The store writes again.
    StoreRecovered,
    /// The shell has measured the store's size, as it does every few seconds.
    StoreMeasured { size: StoreSize },
    ConfigLoaded {
        config: Arc<Config>,
        warnings: Vec<String>,
        origin: ConfigOrigin,
    },
    /// The config file cannot be used. The last good configuration stays in force.
    ConfigFailed { message: String },
    /// The node sources have returned their nodes. `config` is the config of those sources ([`crate::Scheduler::source_in_force`]); another
    /// config may have replaced it meanwhile.
    NodesLoaded {
        nodes: Arc<NodeTable>,
        config: Arc<Config>,
    },
    /// The node sources have failed. The last good nodes stay in force.
    NodesFailed { message: String },
}

/// The origin of a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigOrigin {
    /// No file: the caller passes the configuration again at each start.
    Given,
    /// A file that was read. Its text is kept once the configuration is in force.
    File(FileText),
    /// The configuration that an earlier scheduler has kept, because the file cannot be used.
    Kept,
}

/// The text of a config file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileText {
    /// An absolute path. Its extension decides the format, and relative paths in the file are relative to its folder.
    pub path: Arc<str>,
    pub text: Arc<str>,
}

/// A change of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum JobChange {
    /// Saves a job through the API. The text is JSON, as in a config file under the job's key.
    Save {
        text: Arc<str>,
        expected: ExpectedVersion,
    },
    /// Deletes a job that was saved through the API.
    Delete {
        expected: ExpectedVersion,
    },
    /// Starts no task of the job until it is resumed.
    Pause,
    /// Starts no task of the job, and kills its running tasks.
    Cancel,
    Resume,
    /// Forgives the failures of the job's tasks: no task counts as failed for good, and backoffs begin again.
    Forgive,
    /// Forgives only the tasks that have failed for good. Backoffs of other tasks go on.
    ForgiveFailed,
    /// Deletes the completions of the job's tasks on these nodes, or on all nodes if the list is empty. The job need not exist any more.
    DeleteHistory {
        nodes: Vec<NodeName>,
    },
}

/// The version of a job on which a change is based. The change is refused if the job has another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// The text's `version_id`; a text without one expects that the job does not exist. A deletion has no text, and expects nothing.
    AsTextSays,
    Nothing,
    Exactly(JobVersion),
    /// Any version, or no job.
    Any,
}

/// A completion of a run, or "was not running", as a worker reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusUpdate {
    pub job: JobName,
    pub node: NodeName,
    pub shard: Shard,
    pub invocation: InvocationId,
    /// The backoff that the run received when it started.
    pub next_backoff: BackoffDuration,
    pub status: ReportedStatus,
    /// The GPUs that the run had.
    pub gpus: Vec<GpuShare>,
    /// The details of the run, such as its ending, its times and its resource use, if the worker reports them.
    pub story: Option<Arc<Story>>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
}
