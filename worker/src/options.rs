//! What a worker is started with, by its own program or inside another.

use std::path::PathBuf;
use std::time::Duration;

use brasserie_common::{ServiceAddress, Shard};
use brasserie_common_runtime::{ListenAddress, LogFormat, Verbosity};
use brasserie_thrift::rpc::Timeouts;

use crate::groups::FREEZE_TIMEOUT;
use crate::process::{AllowedUser, PassedEnvironment};
use crate::work_fetch::WorkFetchFlags;

/// What a scheduler is granted of a machine, beside the other shares, if nobody says.
pub const USUAL_SHARE: f64 = 100.0;

/// Everything that can be chosen.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// For whom the worker works: one at least, each once.
    pub schedulers: Vec<SchedulerOptions>,
    pub data_dir: PathBuf,
    pub listen: ListenAddress,
    /// What schedulers are told to call; `None`: where the worker listens.
    pub advertise: Option<ServiceAddress>,
    /// Program for jobs without a command.
    pub worker_command: Option<String>,
    /// Lists the machine's graphics cards; `None`: nobody looks for them.
    pub nvidia_smi: Option<PathBuf>,
    /// What of this process's environment tasks get.
    pub pass_environment: PassedEnvironment,
    /// Whose rights jobs may ask for.
    pub allowed_users: Vec<AllowedUser>,
    pub heartbeat_period: Duration,
    /// Between TERM and KILL when the operator ends the worker.
    pub kill_wait: Duration,
    pub on_sigterm: OnSigterm,
    /// How long a worker that drains waits for its tasks; `None`: for ever.
    pub drain_timeout: Option<Duration>,
    pub logs: Retention,
    /// Of output in files.
    pub output: Retention,
    /// The control group below which those of tasks are made, by its path in each hierarchy; `None`: the worker's own.
    pub cgroup_root: Option<String>,
    /// How long a control group of version 1 may take to freeze before its processes are killed as they run.
    pub cgroup_freeze_timeout: Duration,
    pub work_fetch: WorkFetchFlags,
    /// Of calls to schedulers.
    pub timeouts: Timeouts,
    pub started_by: StartedBy,
    pub log_format: LogFormat,
}

/// The parent of a worker program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartedBy {
    /// A person or a service manager.
    #[default]
    Operator,
    /// `brasserie run`: the worker logs warnings only, and ends its tasks and itself at the end of its standard input, so that it does
    /// not outlive the run.
    Run,
}

impl StartedBy {
    /// How much its worker logs.
    pub(crate) fn verbosity(self) -> Verbosity {
        match self {
            StartedBy::Operator => Verbosity::Info,
            StartedBy::Run => Verbosity::WarningsOnly,
        }
    }
}

/// A scheduler, and what the worker is to it.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerOptions {
    /// Where it is: whoever of them answers. One at least, each once.
    pub members: Vec<ServiceAddress>,
    /// The file that names them, which is read again when none of them answers; an absolute path.
    pub list: Option<PathBuf>,
    /// The place in its pool.
    pub shard: Shard,
    /// Of the machine, beside the other shares; 0: only what the others leave.
    pub share: f64,
}

impl SchedulerOptions {
    /// For people, and for what is kept of it: by its list, whoever is on it, or by where it is.
    pub(crate) fn called(&self) -> String {
        match (&self.list, self.members.first()) {
            (Some(list), _) => format!("@{}", list.display()),
            (None, Some(first)) => first.to_string(),
            (None, None) => String::new(),
        }
    }
}

/// What SIGTERM means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnSigterm {
    /// End the tasks, then the worker.
    #[default]
    Kill,
    /// Start no more tasks, and end with those that run.
    Drain,
}

/// How long and how much of the tasks' output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub max_age: Duration,
    pub max_bytes: u64,
}

impl Default for Retention {
    /// As the command line's defaults.
    fn default() -> Self {
        Retention {
            max_age: Duration::from_secs(30 * 86_400),
            max_bytes: 10 << 30,
        }
    }
}

impl StartOptions {
    /// The command line's defaults around what has none, for one scheduler.
    pub fn new(scheduler: ServiceAddress, shard: Shard, data_dir: PathBuf) -> Self {
        let scheduler = SchedulerOptions {
            members: vec![scheduler],
            list: None,
            shard,
            share: USUAL_SHARE,
        };
        StartOptions {
            schedulers: vec![scheduler],
            data_dir,
            listen: ListenAddress::ANY_LOOPBACK_PORT,
            advertise: None,
            worker_command: None,
            nvidia_smi: None,
            pass_environment: PassedEnvironment::USUAL,
            allowed_users: Vec::new(),
            heartbeat_period: Duration::from_secs(15),
            kill_wait: Duration::from_secs(5),
            on_sigterm: OnSigterm::Kill,
            drain_timeout: None,
            logs: Retention::default(),
            output: Retention::default(),
            cgroup_root: None,
            cgroup_freeze_timeout: FREEZE_TIMEOUT,
            work_fetch: WorkFetchFlags::default(),
            timeouts: Timeouts::DEFAULT,
            started_by: StartedBy::Operator,
            log_format: LogFormat::Text,
        }
    }
}
