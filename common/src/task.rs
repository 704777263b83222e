//! A task and its run, as scheduler and worker exchange them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::artifact::{LeftOutput, TaskArtifacts};
use crate::backoff::BackoffDuration;
use crate::cards::{CardsWanted, GpuShare};
use crate::fence::Fence;
use crate::ids::{AccountName, HEALTHCHECK_JOB, InvocationId, JobName, NodeName, Shard};
use crate::process_limits::{Limited, ProcessLimit};
use crate::resources::{NodeResources, ResourceAmount, TaskPhysicalResources};
use crate::status::ReportedStatus;
use crate::story::{EndedBy, Story};
use crate::work::WorkTerms;

/// A task: a job on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    pub job: JobName,
    pub node: NodeName,
}

/// One run of a task as both sides describe it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningTask {
    pub job: JobName,
    pub node: NodeName,
    pub invocation: InvocationId,
    pub shard: Shard,
    /// Slots held on the nodes of the path, then on the worker.
    pub resources: Vec<NodeResources>,
    /// The task's shares of the GPUs of its worker's machine.
    pub gpus: Vec<GpuShare>,
    /// The GPUs that the task needs, until its worker chooses them when the task begins.
    pub gpus_wanted: Option<CardsWanted>,
    pub next_backoff: BackoffDuration,
    /// The wait between TERM and KILL when the worker commits suicide.
    pub suicide_kill_wait: Duration,
    /// `None` if never sampled.
    pub physical: Option<TaskPhysicalResources>,
    /// The completion, if the task has ended and its scheduler has not acknowledged that. Only in answers of `getRunningTasks`.
    pub ended: Option<ReportedStatus>,
    /// The story of the completion, if its worker sends one.
    pub story: Option<Arc<Story>>,
    pub work: WorkTerms,
    /// `None` for a healthcheck, or if its scheduler gives none.
    pub fence: Option<Fence>,
    /// The slots of the worker, until the task begins: it stands by until the tasks that run there leave room under them. `None`: the task
    /// begins at once, or has begun.
    pub worker_slots: Option<Vec<ResourceAmount>>,
    /// The outputs that a run has left, with its completion.
    pub outputs: Vec<LeftOutput>,
}

impl RunningTask {
    pub fn key(&self) -> TaskKey {
        TaskKey {
            job: self.job.clone(),
            node: self.node.clone(),
        }
    }

    /// Returns whether the task has GPUs or will have them.
    pub fn takes_cards(&self) -> bool {
        let wanted = self.gpus_wanted.as_ref();
        !self.gpus.is_empty() || wanted.is_some_and(|wanted| !wanted.need.is_nothing())
    }

    /// Gives the task its GPUs. It then wants no others.
    pub fn give_cards(&mut self, gpus: Vec<GpuShare>) {
        self.gpus = gpus;
        self.gpus_wanted = None;
    }

    pub fn is_healthcheck(&self) -> bool {
        self.job.as_str() == HEALTHCHECK_JOB
    }
}

/// The method of ending a task early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KillMethod {
    /// SIGTERM, a wait, SIGKILL.
    TermWaitKill,
    Kill,
    /// SIGTERM only.
    Term,
}

/// A request to end one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KillRequest {
    pub method: KillMethod,
    /// The wait of [`KillMethod::TermWaitKill`], from the request on; zero kills at once.
    pub wait: Duration,
}

impl Default for KillRequest {
    fn default() -> Self {
        KillRequest {
            method: KillMethod::Term,
            wait: Duration::ZERO,
        }
    }
}

/// A request to end one run, with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kill {
    pub request: KillRequest,
    pub by: EndedBy,
}

/// The state of a task as lists show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListedState {
    Running,
    /// The scheduler does not know whether the task runs.
    Unsure,
    /// The task is at its worker, and begins as soon as slots are free there.
    Standby,
    Waiting,
    Backoff,
    Failed,
    Never,
    Done,
    /// The task's node is disabled, or the job's filters exclude it.
    Disabled,
}

impl ListedState {
    pub const ALL: [ListedState; 9] = [
        ListedState::Running,
        ListedState::Unsure,
        ListedState::Standby,
        ListedState::Waiting,
        ListedState::Backoff,
        ListedState::Failed,
        ListedState::Never,
        ListedState::Done,
        ListedState::Disabled,
    ];

    /// Returns the name on the wire and in the headers of `brasserie status`.
    pub fn as_str(self) -> &'static str {
        match self {
            ListedState::Running => "running",
            ListedState::Unsure => "unsure",
            ListedState::Standby => "standby",
            ListedState::Waiting => "waiting",
            ListedState::Backoff => "backoff",
            ListedState::Failed => "failed",
            ListedState::Never => "never",
            ListedState::Done => "done",
            ListedState::Disabled => "disabled",
        }
    }

    /// Parses the name of a state. The error lists all states.
    pub fn parse(text: &str) -> Result<Self, String> {
        let state = ListedState::ALL.into_iter().find(|s| s.as_str() == text);
        state.ok_or_else(|| {
            let all = ListedState::ALL.map(ListedState::as_str);
            format!(
                "`{text}` is no state of a task; states are {}",
                all.join(", ")
            )
        })
    }
}

impl fmt::Display for ListedState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An operator's order to start no task of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Hold {
    /// Running tasks continue.
    Paused,
    /// Running tasks are killed.
    Cancelled,
}

/// The source of a task's final status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StatusFrom {
    /// A status line if there is one, else the exit code.
    #[default]
    Auto,
    /// The status line only; a missing line is an error.
    Pipe,
    /// The exit code only.
    ExitCode,
}

impl StatusFrom {
    pub fn as_str(self) -> &'static str {
        match self {
            StatusFrom::Auto => "auto",
            StatusFrom::Pipe => "pipe",
            StatusFrom::ExitCode => "exit_code",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [StatusFrom::Auto, StatusFrom::Pipe, StatusFrom::ExitCode]
            .into_iter()
            .find(|s| s.as_str() == text)
    }
}

/// Whether the command gets the node name, the status path and the JSON argument appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Arguments {
    #[default]
    Append,
    None,
}

impl Arguments {
    pub fn as_str(self) -> &'static str {
        match self {
            Arguments::Append => "append",
            Arguments::None => "none",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Arguments::Append, Arguments::None]
            .into_iter()
            .find(|s| s.as_str() == text)
    }
}

/// The handling of output beyond a task's rate, or beyond the log's rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogOverflow {
    /// The output stays in the pipe, and the task waits when the pipe is full.
    #[default]
    Wait,
    /// The output is dropped, counted and reported in the task's events. The task never waits for its log.
    Drop,
}

impl LogOverflow {
    pub const ALL: [LogOverflow; 2] = [LogOverflow::Wait, LogOverflow::Drop];

    pub fn as_str(self) -> &'static str {
        match self {
            LogOverflow::Wait => "wait",
            LogOverflow::Drop => "drop",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        LogOverflow::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// The destination of a task's standard output and error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// The log of the worker, line by line.
    #[default]
    Log,
    /// Compressed files of the run on the worker's disk, byte by byte.
    File,
}

impl Output {
    pub const ALL: [Output; 2] = [Output::Log, Output::File];

    pub fn as_str(self) -> &'static str {
        match self {
            Output::Log => "log",
            Output::File => "file",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Output::ALL.into_iter().find(|s| s.as_str() == text)
    }
}

/// How a worker runs the process of a task. Defaults are those of the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSubprocessOptions {
    pub poll: Duration,
    /// 0 or less for no limit.
    pub max_log_lines_per_poll_interval: i32,
    /// 0 or less for no limit.
    pub max_log_bytes_per_poll_interval: i32,
    pub log_overflow: LogOverflow,
    #[serde(default)]
    pub output: Output,
    /// 0 for none.
    pub parent_death_signal: i32,
    pub process_group_leader: bool,
    pub use_canary_pipe: bool,
    pub refresh_resources: Duration,
    pub cgroups: CGroupOptions,
    pub status_from: StatusFrom,
    pub arguments: Arguments,
    /// The longest run time of the process; `None` for no limit.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// The time by which the run must be over, counted from the start by the scheduler; in a `runTask`, the rest of that time. `None` for
    /// no limit.
    #[serde(default)]
    pub deadline: Option<Duration>,
    /// The kill request for both limits; `None` for the default. Only in a `runTask`; elsewhere the job states it.
    #[serde(default)]
    pub limit_kill: Option<KillRequest>,
    /// Limits on each of the task's processes. Other limits are inherited from the worker.
    #[serde(default)]
    pub limits: BTreeMap<Limited, ProcessLimit>,
    /// The user whose rights the task has, by name or number. `None` for the worker's user.
    #[serde(default)]
    pub user: Option<AccountName>,
    /// The group of the task, by name or number. `None` for the user's own group.
    #[serde(default)]
    pub group: Option<AccountName>,
    /// Environment variables of the task, which override those of the worker. [`is_variable`] says which names are allowed.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The task's working directory, an absolute path on the worker's machine. `None`: a folder of the job.
    #[serde(default)]
    pub working_directory: Option<String>,
    /// The artifacts that the run needs and leaves. Only in a `runTask`; elsewhere the job states them. `None`: none.
    #[serde(skip)]
    pub artifacts: Option<Box<TaskArtifacts>>,
}

/// Limit for the total bytes of the names and values in [`TaskSubprocessOptions::environment`], which every start of a task sends.
pub const MAX_ENVIRONMENT_BYTES: usize = 64 * 1024;

/// Prefix of the worker's own variables; a job cannot set these.
pub const OWN_VARIABLES: &str = "BRASSERIE_";

/// Returns whether a job may set a variable of this name.
pub fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !name.starts_with(OWN_VARIABLES)
}

impl Default for TaskSubprocessOptions {
    fn default() -> Self {
        TaskSubprocessOptions {
            poll: Duration::from_millis(10),
            max_log_lines_per_poll_interval: 50,
            max_log_bytes_per_poll_interval: 0,
            log_overflow: LogOverflow::Wait,
            output: Output::Log,
            parent_death_signal: 9,
            process_group_leader: false,
            use_canary_pipe: true,
            refresh_resources: Duration::from_secs(2),
            cgroups: CGroupOptions::default(),
            status_from: StatusFrom::Auto,
            arguments: Arguments::Append,
            timeout: None,
            deadline: None,
            limit_kill: None,
            limits: BTreeMap::new(),
            user: None,
            group: None,
            environment: BTreeMap::new(),
            working_directory: None,
            artifacts: None,
        }
    }
}

/// Control groups of a task. Without subsystems and limits the task has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CGroupOptions {
    pub root: String,
    pub slice: String,
    pub subsystems: Vec<String>,
    pub unit_test_create_files: bool,
    /// 0 leaves the value unchanged.
    pub cpu_shares: i16,
    /// 0 leaves the value unchanged.
    pub memory_limit_in_bytes: i64,
    pub kill_without_freezer: bool,
    /// The largest number of processes and threads at once; 0 leaves the value unchanged.
    pub pids_max: i64,
    /// Thousandths of a core; 0 leaves the value unchanged.
    pub cpu_quota_milli: i64,
}
