//! Events: the inputs of a scheduler core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::artifact_report::ArtifactsReport;
use brasserie_common::{
    ArtifactId, BackoffDuration, CallId, CallOutcome, GpuShare, InvocationId, JobId, JobName,
    LeftOutput, ListedState, NodeId, NodeName, OutputPath, Principal, RecordSeq, ReportedStatus,
    RequestId, SchedulerId, Shard, Story, TaskKey, WallTime, WorkRequest, WorkerDescription,
    WorkerId, WorkerSetId,
};
use brasserie_common_config::Config;
use brasserie_scheduler_engine::NodeTable;

use crate::calls::CallReply;
use crate::files::KnownFiles;
use crate::jobs::{ConfigOrigin, JobChange};
use crate::orders::OrderCall;
use crate::slots::SlotsRequest;
use crate::store_size::StoreSize;

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
    /// A `reportArtifacts` call.
    ReportArtifacts {
        request: RequestId,
        from: Principal,
        report: Box<ArtifactsReport>,
    },
    /// A call about places for artifacts that a program writes.
    Slots(SlotsCall),
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
    /// An operator gives an order about a worker, or ends one.
    OrderWorker(Box<OrderCall>),
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
    /// The shell has another message for people.
    ShellReported(Box<ShellReport>),
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
    /// The files that jobs may name as inputs, all of them.
    FilesKnown { files: Arc<KnownFiles> },
}

/// A message of the shell for people. The core only shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShellReport {
    /// Problems for the operator.
    pub problems: Vec<String>,
    /// The calls that were refused because of who made them, by the reason in a word, since the start.
    pub refused_calls: BTreeMap<String, u64>,
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
    /// The outputs that the run has left.
    pub outputs: Vec<LeftOutput>,
    pub scheduler: SchedulerId,
    pub worker: WorkerId,
}

/// A call about places for artifacts that a program writes.
#[derive(Clone, Debug, PartialEq)]
pub enum SlotsCall {
    /// A `requestArtifactSlots` call.
    Request {
        request: RequestId,
        from: Principal,
        wanted: Box<SlotsRequest>,
    },
    /// A `releaseArtifactSlots` call.
    Release {
        request: RequestId,
        from: Principal,
        scheduler: SchedulerId,
        reservation: u64,
    },
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub enum Query {
    Status,
    /// The named jobs, at most [`crate::MAX_LISTED_JOBS`].
    Jobs {
        names: Vec<String>,
    },
    /// Why no task starts; for probes. The answer never waits for the disk.
    NothingStarts,
    /// The configuration in force.
    Config,
    /// The number of nodes of each level with each OR-ed value of status bits, with at most `samples` names each. No jobs: all jobs.
    Histograms {
        jobs: Vec<String>,
        samples: usize,
    },
    /// All reasons why a task is not running. An empty node: the reasons that hold for the whole job.
    Explain {
        job: String,
        node: String,
    },
    RunningTasks {
        job: Option<String>,
    },
    /// The tasks that are not DONE, failed ones first.
    Unfinished {
        job: String,
        limit: usize,
    },
    /// One job, as in the cluster status.
    JobStatus {
        job: String,
    },
    /// One page of tasks.
    Tasks(TaskList),
    /// One page of outputs.
    Outputs(OutputList),
    /// How long the outputs of jobs are kept, of at most `limit` jobs in the order of names.
    OutputSets {
        limit: usize,
    },
    /// One page of the files that jobs may name as inputs.
    Files(FileList),
    /// Those of these artifacts that running tasks read.
    FileReaders(Vec<ArtifactId>),
    /// The workers whose logs can be read.
    LogPeers,
    /// A copy of the scheduler, to plan a configuration.
    WhatIf,
    /// The artifacts that matter for a plan of this configuration.
    InputsForPlan(Arc<Config>),
}

/// A request for one page of tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskList {
    /// `None`: all jobs, including removed jobs with running tasks.
    pub job: Option<String>,
    /// Empty: all states but [`ListedState::Disabled`].
    pub states: BTreeSet<ListedState>,
    /// `None`: the first page.
    pub after: Option<TaskCursor>,
    pub limit: usize,
}

/// A request for one page of outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputList {
    /// `None`: all jobs.
    pub job: Option<String>,
    /// `None`: all tasks of the job. Ignored without a job.
    pub node: Option<String>,
    /// `None`: the first page.
    pub after: Option<OutputCursor>,
    pub limit: usize,
}

/// A request for one page of files.
#[derive(Clone, Debug, PartialEq)]
pub struct FileList {
    /// Only the file of this name; `None`: all.
    pub name: Option<String>,
    /// The last name of the page before; `None`: the first page.
    pub after: Option<String>,
    pub limit: usize,
}

/// The last output of a page. The order of outputs does not depend on the scheduler instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputCursor {
    pub task: TaskKey,
    pub path: OutputPath,
}

/// The place where the next page begins. Only the scheduler instance that issued it understands its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskCursor {
    pub scheduler: SchedulerId,
    pub job: JobId,
    pub place: CursorPlace,
}

/// A place among a job's tasks: the running tasks by node, then the others in scheduling order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorPlace {
    /// The running tasks from this node on.
    Running(NodeId),
    /// The other tasks after this node, which was at this index; `None`: all other tasks.
    Rest(Option<(NodeId, usize)>),
}
