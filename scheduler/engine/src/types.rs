//! What crosses the engine's surface: tasks, workers, placements, counts.

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

/// A shard of the worker pool as the engine knows it. Stays valid until the worker is removed and nothing runs there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(pub u32);

impl WorkerIndex {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What of a worker's description matters for placement.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerResources {
    pub hostname: Arc<str>,
    pub port: i32,
    /// 0 = unknown.
    pub cpu_cores: f64,
    /// 0 = unknown.
    pub memory_mb: f64,
    /// Graphics cards, each once. None: unknown, and nobody is given any.
    pub cards: Vec<Card>,
    /// Whether jobs without a `command` can run there; true for workers that do not say.
    pub has_worker_command: bool,
    /// How many tasks it can run at once; `None`: it does not say.
    pub room: Option<TaskRoom>,
}

/// Whose nodes the node table has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NodesOf {
    /// Those of the configuration's sources.
    #[default]
    ThisConfig,
    /// Those of other sources; the configuration's own have not been read yet.
    AnotherConfig,
}

/// What a task may use of its machine, as the configuration wants it; 0 = as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineLimits {
    pub memory_bytes: i64,
    pub cpu_shares: i16,
    /// Thousandths of a core.
    pub cpu_quota_milli: i64,
}

/// Whether a worker may get tasks now: its health and its busy marks, as the protocol machine sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Eligibility {
    Eligible,
    Ineligible,
    /// It never will again: it ends with the tasks that it has.
    Draining,
}

/// For which tasks of one type of processors a worker that asks for work has credit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    pub bufferable: bool,
    pub immediate: bool,
    /// What is left of the instances and of the instance-seconds that it asked for; below 0 where more was sent.
    pub instances: f64,
    pub instance_secs: f64,
    /// With this, unless it is 0, and its own estimate a task must stay within its bound; seconds.
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

/// Of all types of a worker's processors that it asked for.
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

    /// Who chooses the cards of tasks that are sent there.
    pub fn with_cards(self, cards: CardChoice) -> Self {
        Allowances { cards, ..self }
    }

    pub(crate) fn cards(&self) -> CardChoice {
        self.cards
    }

    /// By this request: with another one all is judged anew.
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

/// A task that has a deadline, as work: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Due {
    /// What it takes.
    pub estimate: f64,
    /// In which time it must be over.
    pub bound: f64,
}

/// What there is of work of one type of processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkFound {
    /// Tasks that are ready, whether or not there is room for them.
    pub ready: u64,
    /// Of these, those that would miss their deadlines.
    pub late: u64,
}

/// A task that the engine has marked running on a worker, with its slots charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub task: Task,
    pub worker: WorkerIndex,
}

/// When a task whose status has changed may be placed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// As soon as its status allows.
    AtOnce,
    /// Not before [`crate::Engine::release`]: its status is not durable yet.
    HeldUntilReleased,
}

/// Which tasks may be running somewhere unseen.
#[derive(Clone, Copy, Debug)]
pub enum HoldBack<'a> {
    All,
    Tasks(&'a [Task]),
}

/// What became of a task that a worker says it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptOutcome {
    /// Marked running and charged.
    Adopted,
    /// Marked running and charged; these charges name nodes or resources that the configuration does not know.
    AdoptedWithUnknownCharges(Vec<String>),
    /// Nothing was changed: the engine has it running there.
    AlreadyRunning(WorkerIndex),
    /// Nothing was changed: no such worker was announced.
    UnknownWorker,
}

/// How many tasks may be tried in vain before whoever places goes on with other things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries(u64);

impl Tries {
    pub fn new(count: u32) -> Self {
        Tries(u64::from(count))
    }

    pub fn endless() -> Self {
        Tries(u64::MAX)
    }

    /// If not, there may be more to place.
    pub fn are_left(self) -> bool {
        self.0 > 0
    }

    /// Of something that cost so many.
    pub(crate) fn take(&mut self, count: u32) {
        self.0 = self.0.saturating_sub(u64::from(count));
    }
}

/// Whether a worker's tasks stay in time with one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeliness {
    InTime,
    Late,
}

/// What a look at a worker's deadlines has found, and what it cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    pub timeliness: Timeliness,
    /// As many [`Tries`] as would have taken as long.
    pub tries: u32,
}

impl Judged {
    /// Nobody had to look.
    pub const UNSEEN: Judged = Judged {
        timeliness: Timeliness::InTime,
        tries: 0,
    };
}

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
    /// Has never ended.
    Unstarted,
    Running,
    Done,
    /// The last run asked for another one.
    Incomplete,
    /// The last run ended in an error, and its backoff is over.
    Error,
    /// The last run ended in a status that waits.
    InBackoff,
    Failed,
    /// Cannot start with this configuration and pool: a need above every limit, no command, a dependency that cannot be done.
    Never,
    /// A filter of the job keeps it off this node; not counted as a task.
    Avoided,
    /// The node or an ancestor is disabled, or is not in the forest at the job's level; not counted as a task.
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

/// How many tasks of a job are in which state. Every task on an enabled node that no filter avoids is in exactly one of the
/// fields; `total` is their sum.
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

/// For each level from `instance` to the job's own: status bits to how many nodes have them, and some of their names.
pub type Histogram = Vec<(String, BTreeMap<StatusBits, (u64, Vec<NodeName>)>)>;
