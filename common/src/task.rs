//! A task on its way to, on, and back from a worker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::BackoffDuration;
use crate::cards::{CardsWanted, GpuShare};
use crate::fence::Fence;
use crate::ids::{AccountName, HEALTHCHECK_JOB, InvocationId, JobName, NodeName, Shard};
use crate::process_limits::{Limited, ProcessLimit};
use crate::resources::{NodeResources, TaskPhysicalResources};
use crate::status::ReportedStatus;
use crate::story::{EndedBy, Story};
use crate::work::WorkTerms;

/// A task: a job on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    pub job: JobName,
    pub node: NodeName,
}

/// One run of a task as both sides speak of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningTask {
    pub job: JobName,
    pub node: NodeName,
    pub invocation: InvocationId,
    pub shard: Shard,
    /// Slots held on the nodes of the path, then on the worker.
    pub resources: Vec<NodeResources>,
    /// What it holds of the cards of its worker's machine.
    pub gpus: Vec<GpuShare>,
    /// What it needs of them, as long as they are not chosen: its worker does that when the task begins.
    pub gpus_wanted: Option<CardsWanted>,
    pub next_backoff: BackoffDuration,
    /// Between TERM and KILL when the worker commits suicide.
    pub suicide_kill_wait: Duration,
    /// `None`: never sampled.
    pub physical: Option<TaskPhysicalResources>,
    /// In `getRunningTasks`: it has ended, and the end is not acknowledged yet.
    pub ended: Option<ReportedStatus>,
    /// Beside an end: what happened, if its worker tells.
    pub story: Option<Arc<Story>>,
    pub work: WorkTerms,
    /// `None`: a healthcheck, or its scheduler gives none.
    pub fence: Option<Fence>,
}

impl RunningTask {
    pub fn key(&self) -> TaskKey {
        TaskKey {
            job: self.job.clone(),
            node: self.node.clone(),
        }
    }

    /// Whether it has cards, or will have.
    pub fn takes_cards(&self) -> bool {
        let wanted = self.gpus_wanted.as_ref();
        !self.gpus.is_empty() || wanted.is_some_and(|wanted| !wanted.need.is_nothing())
    }

    /// These are its cards: it wants no others any more.
    pub fn give_cards(&mut self, gpus: Vec<GpuShare>) {
        self.gpus = gpus;
        self.gpus_wanted = None;
    }

    pub fn is_healthcheck(&self) -> bool {
        self.job.as_str() == HEALTHCHECK_JOB
    }
}

/// How a task is ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KillMethod {
    /// SIGTERM, a wait, SIGKILL.
    TermWaitKill,
    Kill,
    /// SIGTERM only.
    Term,
}

/// A wish to end one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KillRequest {
    pub method: KillMethod,
    /// For [`KillMethod::TermWaitKill`], measured from the request; zero kills at once.
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

/// A wish to end one run, and why.
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
    Waiting,
    Backoff,
    Failed,
    Never,
    Done,
    /// The task's node is disabled, or the job's filters exclude it.
    Disabled,
}

impl ListedState {
    pub const ALL: [ListedState; 8] = [
        ListedState::Running,
        ListedState::Unsure,
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

/// What decides the final status of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StatusFrom {
    /// A status line if there is one, else the exit code.
    #[default]
    Auto,
    /// The status line only; none is an error.
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

/// Whether a command gets the node name, the status path and the JSON argument appended.
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

/// What becomes of output beyond a task's rate, or beyond what the log can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogOverflow {
    /// It stays in the pipe, and the task waits when that is full.
    #[default]
    Wait,
    /// It is dropped, counted and told of in the task's events; the task never waits for its log.
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

/// Where a task's standard output and error go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// Into its worker's log, line by line.
    #[default]
    Log,
    /// Into compressed files of the run's own on its worker's disk, byte by byte.
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

/// How a worker runs the process of a task. Defaults are the wire's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskSubprocessOptions {
    pub poll: Duration,
    /// Not above 0: no limit.
    pub max_log_lines_per_poll_interval: i32,
    /// Not above 0: no limit.
    pub max_log_bytes_per_poll_interval: i32,
    pub log_overflow: LogOverflow,
    #[serde(default)]
    pub output: Output,
    /// 0 = none.
    pub parent_death_signal: i32,
    pub process_group_leader: bool,
    pub use_canary_pipe: bool,
    pub refresh_resources: Duration,
    pub cgroups: CGroupOptions,
    pub status_from: StatusFrom,
    pub arguments: Arguments,
    /// How long its process may run. `None`: for ever.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// When it must be over, counted from the moment at which the scheduler marks it running; in a `runTask` what is left of that.
    /// `None`: never.
    #[serde(default)]
    pub deadline: Option<Duration>,
    /// How the two end it; `None`: by default. Said in a `runTask` only, as a job says it elsewhere.
    #[serde(default)]
    pub limit_kill: Option<KillRequest>,
    /// On each of its processes. What is not in it is as the worker has it.
    #[serde(default)]
    pub limits: BTreeMap<Limited, ProcessLimit>,
    /// Whose rights it has, by name or number. `None`: the worker's.
    #[serde(default)]
    pub user: Option<AccountName>,
    /// In which group, by name or number. `None`: the user's own.
    #[serde(default)]
    pub group: Option<AccountName>,
    /// Environment variables of the task, which override those of the worker. [`is_variable`] says which names are allowed.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The task's working directory, an absolute path on the worker's machine. `None`: a folder of the job.
    #[serde(default)]
    pub working_directory: Option<String>,
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
        }
    }
}

/// Control groups of a task; without subsystems and limits it has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CGroupOptions {
    pub root: String,
    pub slice: String,
    pub subsystems: Vec<String>,
    pub unit_test_create_files: bool,
    /// 0 = leave alone.
    pub cpu_shares: i16,
    /// 0 = leave alone.
    pub memory_limit_in_bytes: i64,
    pub kill_without_freezer: bool,
    /// Processes and threads at once; 0 = leave alone.
    pub pids_max: i64,
    /// Thousandths of a core; 0 = leave alone.
    pub cpu_quota_milli: i64,
}
