//! The types of the event log: places, processes, tasks, and the small closed sets of reasons and kinds.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use brasserie_common::resources::GpuInfo;
use brasserie_common::{
    EndedBy, InvocationId, RefusalCode, RunningTask, SchedulerId, SequenceNumber, Shard, Standing,
    WorkerDescription, WorkerId, WorkerSetHash, WorkerSetId,
};
use brasserie_scheduler_core::{LeftCause, Rejection};
use brasserie_scheduler_engine::{Engine, Task};
use brasserie_worker_core::ExitReason;

/// A machine, with one clock and one power switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineId(pub u16);

/// A place where scheduler processes run, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchedulerPlace(pub u16);

/// A place where worker processes of one machine lock run, one at a time. Two places may claim one shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerPlace(pub u16);

/// A scheduler's data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryId(pub u16);

/// One fake process: a run of a task, or a healthcheck. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// A task by the numbers in its names: job `j3` on node `n12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    pub job: u16,
    pub node: u16,
}

impl TaskId {
    /// Stands for every healthcheck, whatever its node.
    pub const HEALTHCHECK: TaskId = TaskId {
        job: u16::MAX,
        node: u16::MAX,
    };

    pub fn is_healthcheck(self) -> bool {
        self == TaskId::HEALTHCHECK
    }

    /// Parses the names of the workload. Other names are healthchecks.
    pub fn from_names(job: &str, node: &str) -> TaskId {
        let number =
            |name: &str, letter: char| -> Option<u16> { name.strip_prefix(letter)?.parse().ok() };
        match (number(job, 'j'), number(node, 'n')) {
            (Some(job), Some(node)) => TaskId { job, node },
            (Some(_), None) | (None, Some(_)) | (None, None) => TaskId::HEALTHCHECK,
        }
    }

    pub fn job_name(self) -> String {
        format!("j{}", self.job)
    }

    pub fn node_name(self) -> String {
        format!("n{}", self.node)
    }

    /// Returns the task as an engine knows it, if the engine has its names.
    pub fn known_to(self, engine: &Engine) -> Option<Task> {
        let job = engine.find_job(&self.job_name())?;
        let node = engine.find_node(&self.node_name())?;
        Some(Task { job, node })
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_healthcheck() {
            f.write_str("healthcheck")
        } else {
            write!(f, "j{}/n{}", self.job, self.node)
        }
    }
}

/// One run as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    pub task: TaskId,
    pub invocation: InvocationId,
}

impl Run {
    pub fn of(task: &RunningTask) -> Self {
        Run {
            task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
            invocation: task.invocation,
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run {} of {}", self.invocation, self.task)
    }
}

/// A worker set id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetMark {
    pub scheduler: SchedulerId,
    pub version: i64,
    pub members: i32,
    pub hash: WorkerSetHash,
    pub standing: Standing,
}

/// Prints only the part of the hash that distinguishes sets, for short traces.
impl fmt::Debug for SetMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheduler == SchedulerId::default() {
            return f.write_str("no set");
        }
        let (scheduler, version, members) = (self.scheduler, self.version, self.members);
        let (mark, standing) = (self.hash.rand.xor_all.cast_unsigned() >> 48, self.standing);
        write!(
            f,
            "{standing:?} set {version} of {scheduler:?}: {members} members, {mark:04x}"
        )
    }
}

impl From<&WorkerSetId> for SetMark {
    fn from(set: &WorkerSetId) -> Self {
        SetMark {
            scheduler: set.scheduler,
            version: set.version,
            members: set.hash.num_workers,
            hash: set.hash,
            standing: set.standing,
        }
    }
}

/// The history that an operator wants deleted: of one job, on all nodes or on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HistoryOf {
    pub job: u16,
    pub node: Option<u16>,
}

impl HistoryOf {
    pub fn has(self, task: TaskId) -> bool {
        self.job == task.job && self.node.is_none_or(|node| node == task.node)
    }
}

/// The results of a deletion of history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeletedCounts {
    pub deleted: u64,
    /// Tasks that were left unchanged because they run.
    pub running: u64,
    /// Tasks that were left unchanged because they were lost and may be alive.
    pub maybe_alive: u64,
}

/// The size of a worker's machine as the worker declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineSize {
    /// Zero if the worker does not say.
    pub memory_mb: u32,
    /// The number of GPUs of each model.
    pub cards: BTreeMap<String, u32>,
    /// The model of each GPU by device name.
    pub devices: BTreeMap<String, String>,
    /// The number of tasks that the worker can run at once.
    pub most_tasks: Option<u32>,
}

impl MachineSize {
    pub fn all_cards(&self) -> u32 {
        self.cards.values().sum()
    }
}

impl From<&WorkerDescription> for MachineSize {
    fn from(worker: &WorkerDescription) -> Self {
        let usable = &worker.usable;
        let mut cards = BTreeMap::new();
        for card in &usable.gpus {
            *cards.entry(card.name.clone()).or_insert(0) += 1;
        }
        // A float cast truncates and saturates; workloads have whole megabytes.
        let memory_mb = usable.memory_mb as u32;
        let device = |card: &GpuInfo| (card.pci_bus_id.clone(), card.name.clone());
        let devices = usable.gpus.iter().map(device);
        let room = worker.room.as_ref();
        MachineSize {
            memory_mb,
            cards,
            devices: devices.collect(),
            most_tasks: room.map(|room| room.most.get()),
        }
    }
}

/// The number of a call or request packet, unique in the whole run. It joins a sending with its arrivals and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallTag(pub u32);

/// A request of a scheduler to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    Fetch,
    Run {
        run: Run,
        sequence: SequenceNumber,
    },
    Healthcheck {
        invocation: InvocationId,
        for_new_worker: bool,
    },
    /// A [`Happening::NotifyNames`] follows for each task.
    Notify {
        tasks: u16,
        sequence: SequenceNumber,
    },
    Suicide,
    /// The drain of a decommissioned worker.
    Drain,
    Kill {
        run: Run,
    },
    /// The return of a task that has not begun.
    TakeBack {
        run: Run,
    },
}

impl Ask {
    /// Returns what a `killTask` call asks for this reason.
    pub fn of_kill(run: Run, by: EndedBy) -> Self {
        match by {
            EndedBy::TakeBack => Ask::TakeBack { run },
            _ => Ask::Kill { run },
        }
    }
}

/// The outcome of a call as its caller learns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    Done,
    Refused(RefusalCode),
    NotSent,
    Unknown,
}

/// A [`Rejection`] without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RejectionKind {
    ProtocolVersion,
    ShardTaken,
    StaleInstance,
    WrongScheduler,
    UnknownShard,
    UnknownWorker,
    WrongWorker,
    StillNew,
    IdentityChanged,
    PoolFull,
    Superseded,
    UnknownRun,
    NotRunning,
    KillFailed,
    EmptyName,
    AskedToDie,
    SteppedDown,
    StoreFails,
    NotDurableYet,
    Repeated,
    NotPermitted,
    NotOwner,
    OtherMachine,
}

impl From<&Rejection> for RejectionKind {
    fn from(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::ProtocolVersion { .. } => RejectionKind::ProtocolVersion,
            Rejection::ShardTaken { .. } => RejectionKind::ShardTaken,
            Rejection::StaleInstance { .. } => RejectionKind::StaleInstance,
            Rejection::WrongScheduler { .. } => RejectionKind::WrongScheduler,
            Rejection::UnknownShard { .. } => RejectionKind::UnknownShard,
            Rejection::UnknownWorker { .. } => RejectionKind::UnknownWorker,
            Rejection::WrongWorker { .. } => RejectionKind::WrongWorker,
            Rejection::StillNew => RejectionKind::StillNew,
            Rejection::IdentityChanged { .. } => RejectionKind::IdentityChanged,
            Rejection::PoolFull { .. } => RejectionKind::PoolFull,
            Rejection::Superseded { .. } => RejectionKind::Superseded,
            Rejection::UnknownRun { .. } => RejectionKind::UnknownRun,
            Rejection::NotRunning(_) => RejectionKind::NotRunning,
            Rejection::KillFailed(_) => RejectionKind::KillFailed,
            Rejection::EmptyName(_) => RejectionKind::EmptyName,
            Rejection::AskedToDie { .. } => RejectionKind::AskedToDie,
            Rejection::SteppedDown { .. } => RejectionKind::SteppedDown,
            Rejection::StoreFails { .. } => RejectionKind::StoreFails,
            Rejection::NotDurableYet => RejectionKind::NotDurableYet,
            Rejection::Repeated => RejectionKind::Repeated,
            // Simulated callers prove nothing, on ports that ask for nothing.
            Rejection::NotPermitted(_) => RejectionKind::NotPermitted,
            Rejection::NotOwner(_) => RejectionKind::NotOwner,
            Rejection::OtherMachine { .. } => RejectionKind::OtherMachine,
        }
    }
}

/// One durable fact. The completions in a `WorkerLeft` follow as [`Happening::EndWritten`] with the same number.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    SchedulerStarted {
        scheduler: SchedulerId,
        wait: Duration,
    },
    WorkerAssociated {
        worker: WorkerId,
        shard: Shard,
    },
    WorkerLeft {
        worker: WorkerId,
        cause: LeftCause,
        tasks: u16,
        hold_back: Duration,
    },
    HoldBack {
        wait: Duration,
    },
    HoldBackOver,
    TaskEnded,
    /// Jobs of the API, pauses, forgiven completions, expired outputs, the config file, nodes of schedules, and raised fences.
    Jobs,
}

/// Why a scheduler process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchedulerStop {
    /// `kill -9`, or a power loss of its machine.
    Crashed,
    /// The scheduler stepped down because another instance is newer.
    SteppedDown,
}

/// Why a worker process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerStop {
    /// `kill -9`; its keeper ends the remaining processes.
    Killed,
    Exited(ExitReason),
}

/// How a fake process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessEnd {
    /// The process ended by itself.
    Finished,
    /// Its worker ended it by TERM or KILL.
    Killed,
    /// The keeper ended it, after its worker died or its lease expired.
    ByKeeper,
    /// The machine lost power.
    PowerLost,
}

/// Why the initial wait of a scheduler instance ended, as its status says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitExit {
    NewCluster,
    RecordComplete,
    Consensus,
    SafeWait,
    Override,
    /// A reason that this simulator does not know: keep [`WaitExit::from_reason`] up to date.
    Other,
}

impl WaitExit {
    /// Parses the text in the scheduler's status.
    pub fn from_reason(reason: &str) -> Self {
        if reason.contains("cluster is new") {
            WaitExit::NewCluster
        } else if reason.contains("onsensus") || reason.contains("worker set") {
            WaitExit::Consensus
        } else if reason.contains("recorded worker instance") {
            WaitExit::RecordComplete
        } else if reason.contains("safe wait") {
            WaitExit::SafeWait
        } else if reason.contains("startup-wait") || reason.contains("before_timestamp") {
            WaitExit::Override
        } else {
            WaitExit::Other
        }
    }
}

/// Faults, for statistics and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    RequestLost,
    ReplyLost,
    SlowPacket,
    DuplicateRequest,
    LateDuplicate,
    ConnectionRefused,
    ConnectionBroken,
    Partition,
    AsymmetricPartition,
    SlowLink,
    SchedulerCrash,
    WorkerKilled,
    WorkerShutdown,
    MassRestart,
    SchedulerPause,
    WorkerPause,
    Suspend,
    WallJump,
    StoreFailure,
    UnsyncedLost,
    SlowSync,
    StaleCopy,
    LostDirectory,
    SecondScheduler,
    LockRefused,
    SpawnFailure,
    SlowKill,
    ConfigChange,
    NodesChange,
    OperatorKill,
    /// An operator forgives a job's tasks.
    OperatorForgives,
    /// An operator deletes the history of a job's tasks.
    OperatorForgets,
    /// An operator declares a worker dead.
    OperatorForgetsWorker,
    /// An operator excludes, decommissions or recommissions a worker.
    OperatorOrders,
    MachineCrash,
    /// A heartbeat of another protocol version, or of a known instance with another shard or machine lock.
    StrayHeartbeat,
    /// An operator drains a worker.
    WorkerDrain,
    /// A worker crashes, and its successor has empty disks.
    DisksLost,
    /// A copy of an artifact is damaged without notice.
    CopyDamaged,
    /// The file of a copy disappears without notice.
    CopyMissing,
    /// The disks of a worker are full for a while.
    DiskFull,
}
