//! Types of the engine's interface: tasks, workers, placements, counts.

use std::fmt;
use std::sync::Arc;

use brasserie_common::worker::TaskRoom;
use brasserie_common::{
    Card, CardChoice, JobId, NodeId, NodeName, Processor, StatusBits, WorkRequestSeq,
};
use std::collections::BTreeMap;

/// A job on a node name. Replicas (several nodes of one name) are one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    pub job: JobId,
    pub node: NodeId,
}

/// The place of a run in its worker's queue, by the last word of the worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum QueuePlace {
    /// It has begun.
    Begun,
    /// It has stood by, behind those with smaller numbers. It may have begun since.
    At(i64),
    /// The worker has not said. The run counts as the last in the queue.
    #[default]
    Unknown,
}

/// A shard of the worker pool. Stays valid until the worker is removed and its last run has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(pub u32);

impl WorkerIndex {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The part of a worker's description that matters for placement.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerResources {
    pub hostname: Arc<str>,
    pub port: i32,
    /// Number of CPU cores; 0 = unknown.
    pub cpu_cores: f64,
    /// Memory in MiB; 0 = unknown.
    pub memory_mb: f64,
    /// GPUs, each once. Empty if the worker lists none: its slots alone count then, and tasks are assigned no GPUs.
    pub cards: Vec<Card>,
    /// Whether jobs without a `command` can run there; true for workers that do not report it.
    pub has_worker_command: bool,
    /// The most tasks that the worker runs at once; `None` if it reports no limit.
    pub room: Option<TaskRoom>,
    /// Whether tasks may stand by there until slots are free.
    pub takes_standby: bool,
}

/// Whether the nodes in force are those of the configuration in force. Between the load of a configuration and that of its nodes, the nodes
/// of new sources seem to be gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodesOwner {
    #[default]
    ThisConfig,
    /// The nodes are of another configuration, or one of the two was never loaded.
    OtherConfig,
}

/// Limits of a running task on its machine, from the configuration; 0 = unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineLimits {
    pub memory_bytes: i64,
    pub cpu_shares: i16,
    /// Thousandths of a core.
    pub cpu_quota_milli: i64,
}

/// Whether a worker may get tasks now, from its health and its busy marks as the scheduler core sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eligibility {
    Eligible,
    Ineligible,
    /// The worker gets no more tasks and exits when its running tasks have completed.
    Draining,
    /// An operator's order keeps tasks away from the worker.
    Barred,
    /// The worker has left. The scheduler keeps it for a while because of late messages.
    Gone,
}

/// The space that a worker is known to have for the outputs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputSpace {
    /// The worker has reported no disks, and may never report any. It gets any task.
    Unknown,
    /// The first report of the worker is awaited. It gets only tasks for whose outputs any space is enough.
    Awaited,
    /// Unreserved bytes of its healthy disk with the most; 0 if it has none.
    Bytes(u64),
}

/// The credit of a pull worker for one type of processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    pub bufferable: bool,
    pub immediate: bool,
    /// Instances and instance-seconds that are left of the request; below 0 if more was sent.
    pub instances: f64,
    pub instance_secs: f64,
    /// Seconds of queued work. Unless this is 0, a task fits only if this plus its estimate stays within its deadline.
    pub estimated_delay: f64,
}

impl Allowance {
    pub const NOTHING: Allowance = Allowance {
        bufferable: false,
        immediate: false,
        instances: 0.0,
        instance_secs: 0.0,
        estimated_delay: 0.0,
    };
}

/// The credit of a pull worker for all types of processors that it requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allowances {
    of_types: Vec<(Processor, Allowance)>,
    request: Option<WorkRequestSeq>,
    cards: CardChoice,
}

impl Allowances {
    pub fn new(of_types: impl IntoIterator<Item = (Processor, Allowance)>) -> Self {
        Allowances {
            of_types: of_types.into_iter().collect(),
            request: None,
            cards: CardChoice::Scheduler,
        }
    }

    /// Sets who chooses the GPUs of tasks that are sent to the worker.
    pub fn with_cards(self, cards: CardChoice) -> Self {
        Allowances { cards, ..self }
    }

    pub(crate) fn cards(&self) -> CardChoice {
        self.cards
    }

    /// Sets the work request of the credit. With another request, all deadlines are judged anew.
    pub fn by(self, request: Option<WorkRequestSeq>) -> Self {
        Allowances { request, ..self }
    }

    pub(crate) fn request(&self) -> Option<WorkRequestSeq> {
        self.request
    }

    pub fn of(&self, processor: &Processor) -> Option<&Allowance> {
        let mut all = self.of_types.iter();
        all.find(|(of, _)| of == processor)
            .map(|(_, allowance)| allowance)
    }
}

/// A task with a deadline, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// Estimated run time.
    pub estimate: f64,
    /// Time within which the task must complete.
    pub bound: f64,
}

/// Available work for one type of processors, in tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkFound {
    /// Tasks that are ready, whether or not any worker has free slots for them.
    pub ready: u64,
    /// Tasks in `ready` that would miss deadlines.
    pub late: u64,
}

/// A task that the engine has marked running on a worker, with its slots charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub task: Task,
    pub worker: WorkerIndex,
}

/// A worker near the inputs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearWorker {
    pub worker: WorkerIndex,
    /// Bytes of the inputs that the worker has; 0 for one that is only in the rack of a worker with some.
    pub bytes: u64,
}

/// The earliest restart of a task whose status has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// The task may start as soon as its status allows.
    AtOnce,
    /// The task waits for [`crate::Engine::release`], because its status is not durable yet.
    HeldUntilReleased,
}

/// Tasks that may be running without the scheduler's knowledge.
#[derive(Clone, Copy, Debug)]
pub enum HoldBack<'a> {
    All,
    Tasks(&'a [Task]),
}

/// The outcome of [`crate::Engine::adopt_running`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptOutcome {
    /// Marked running and charged.
    Adopted,
    /// Marked running and charged. The charges listed here name nodes or resources that are not configured.
    AdoptedWithUnknownCharges(Vec<String>),
    /// Nothing changed: the task already runs on this worker.
    AlreadyRunning(WorkerIndex),
    /// Nothing changed: the worker is not in the pool.
    UnknownWorker,
}

/// A budget of placement attempts: how many tasks may be tried in vain before the caller turns to other events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries(u64);

impl Tries {
    pub fn new(count: u32) -> Self {
        Tries(u64::from(count))
    }

    pub fn endless() -> Self {
        Tries(u64::MAX)
    }

    /// Returns whether tries are left. If none are, more tasks may be able to start.
    pub fn are_left(self) -> bool {
        self.0 > 0
    }

    /// Deducts the tries that a step cost.
    pub(crate) fn take(&mut self, count: u32) {
        self.0 = self.0.saturating_sub(u64::from(count));
    }
}

/// Whether a worker's tasks meet their deadlines with one more task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeliness {
    InTime,
    Late,
}

/// The result of checking a worker's deadlines, and the cost of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    pub timeliness: Timeliness,
    /// Number of [`Tries`] that would have taken as long.
    pub tries: u32,
}

impl Judged {
    /// No check was needed.
    pub const UNSEEN: Judged = Judged {
        timeliness: Timeliness::InTime,
        tries: 0,
    };
}

/// The state of a task.
///
/// ```text
///                    place / adopt                         end
///   Unstarted, Incomplete, Error ----> Running ----> Done | Failed | Incomplete | Error | InBackoff
///        ^                                                                              |
///        +------------------------------ backoff ends ----------------------------------+
///   any but Running, Done, Failed  <---->  Never, Avoided, Disabled   (config, nodes, workers, dependencies)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TaskState {
    /// The task has no status.
    Unstarted,
    Running,
    Done,
    /// The last run asked for another run.
    Incomplete,
    /// The last run ended in an error, and its backoff is over.
    Error,
    /// The task waits after its last run: a backoff or a safety wait.
    InBackoff,
    Failed,
    /// Cannot start with this configuration and pool: a need above every limit, no command, a dependency that cannot be done.
    Never,
    /// A filter of the job excludes this node; not counted as a task.
    Avoided,
    /// The node or an ancestor is disabled, or the node is not at the job's level; not counted as a task.
    Disabled,
}

pub(crate) const TASK_STATES: usize = 10;

impl TaskState {
    pub(crate) fn from_u8(n: u8) -> Self {
        match n {
            0 => TaskState::Unstarted,
            1 => TaskState::Running,
            2 => TaskState::Done,
            3 => TaskState::Incomplete,
            4 => TaskState::Error,
            5 => TaskState::InBackoff,
            6 => TaskState::Failed,
            7 => TaskState::Never,
            8 => TaskState::Avoided,
            _ => TaskState::Disabled,
        }
    }

    /// Returns whether the task is to run and does not run.
    pub fn is_waiting(self) -> bool {
        match self {
            TaskState::Unstarted
            | TaskState::Incomplete
            | TaskState::Error
            | TaskState::InBackoff => true,
            TaskState::Running
            | TaskState::Done
            | TaskState::Failed
            | TaskState::Never
            | TaskState::Avoided
            | TaskState::Disabled => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            TaskState::Unstarted => "waiting",
            TaskState::Running => "running",
            TaskState::Done => "done",
            TaskState::Incomplete => "waiting after an incomplete run",
            TaskState::Error => "waiting after a run that ended in an error",
            TaskState::InBackoff => "in backoff",
            TaskState::Failed => "failed",
            TaskState::Never => "can never run",
            TaskState::Avoided => "avoided",
            TaskState::Disabled => "disabled",
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Numbers of a job's tasks by state. Every task on an enabled node that no filter excludes counts in exactly one field; `total` is their
/// sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub total: u64,
    pub unstarted: u64,
    pub running: u64,
    pub done: u64,
    pub incomplete: u64,
    pub error: u64,
    pub in_backoff: u64,
    pub failed: u64,
    pub never: u64,
    /// Not in `total`.
    pub avoided: u64,
    /// Not in `total`.
    pub disabled: u64,
}

/// Nodes by level and status bits, from `instance` to the job's own level: their number, and some of their names.
pub type Histogram = Vec<(String, BTreeMap<StatusBits, (u64, Vec<NodeName>)>)>;
