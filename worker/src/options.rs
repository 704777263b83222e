//! The options with which a worker starts, as a program or inside another one.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{ServiceAddress, Shard};
use brasserie_common_artifacts::{DiskFlag, USUAL_SERVED};
use brasserie_common_runtime::net::is_loopback;
use brasserie_common_runtime::{AddressError, ListenAddress, LogFormat, NetworkExposure};
use brasserie_thrift::rpc::CallTimeouts;

use crate::groups::FREEZE_TIMEOUT;
use crate::keeper::StartedBy;
use crate::output::Retention;
use crate::process::{AllowedUser, PassedEnvironment};
use crate::work_fetch::WorkFetchFlags;

/// The default share of a scheduler, in the same arbitrary unit as the other schedulers' shares.
pub const USUAL_SHARE: f64 = 100.0;

/// All options of a worker.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The schedulers of the worker: at least one, each once.
    pub schedulers: Vec<SchedulerOptions>,
    pub data_dir: PathBuf,
    pub listen: ListenAddress,
    /// The addresses that a worker uses that is no member of a cluster, whose calls are in plain text and from anybody.
    pub exposure: NetworkExposure,
    /// The place of the token with which the worker joins a cluster that has an authority. Not used if it has joined before.
    pub join_token: Option<TokenPlace>,
    /// The address that the worker gives to schedulers; `None`: the address on which it listens.
    pub advertise: Option<ServiceAddress>,
    /// The program for jobs without a command.
    pub worker_command: Option<String>,
    /// The program that lists the machine's GPUs; `None`: the worker reports no GPUs.
    pub nvidia_smi: Option<PathBuf>,
    /// The variables of this process's environment that tasks get.
    pub pass_environment: PassedEnvironment,
    /// The users whose rights jobs may request.
    pub allowed_users: Vec<AllowedUser>,
    /// The folders of the store of artifacts; empty: `artifacts` in the data directory.
    pub disks: Vec<DiskFlag>,
    /// The most transfers to other workers that are served at a time; twice as many on the same machine.
    pub artifact_transfers: NonZeroU32,
    /// The rack of the machine, by which other workers know how near it is.
    pub rack: Option<Arc<str>>,
    pub heartbeat_period: Duration,
    /// The time between SIGTERM and SIGKILL for tasks when the operator ends the worker.
    pub kill_wait: Duration,
    pub on_sigterm: OnSigterm,
    /// The time that a draining worker waits for its tasks; `None`: unlimited.
    pub drain_timeout: Option<Duration>,
    pub logs: Retention,
    /// The retention of task output in files.
    pub output: Retention,
    /// The control group that contains the groups of tasks, by its path in each hierarchy; `None`: the worker's own group.
    pub cgroup_root: Option<String>,
    /// The time that a control group of version 1 gets to freeze. After it, the worker kills the group's processes unfrozen.
    pub cgroup_freeze_timeout: Duration,
    pub work_fetch: WorkFetchFlags,
    /// The timeouts of calls to schedulers.
    pub timeouts: CallTimeouts,
    pub started_by: StartedBy,
    pub log_format: LogFormat,
}

/// The place where the operator has put a token for joining. The token itself is never on a command line, which others can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    File(PathBuf),
    StandardInput,
    /// The variable BRASSERIE_JOIN_TOKEN of the environment.
    Environment,
}

impl TokenPlace {
    /// Parses `@FILE` or `-`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        match (text, text.strip_prefix('@')) {
            ("-", _) => Ok(TokenPlace::StandardInput),
            (_, Some(file)) if !file.is_empty() => Ok(TokenPlace::File(file.into())),
            _ => Err(
                "write @FILE or - for standard input: every user of this machine can read a command line, so the token cannot stand there",
            ),
        }
    }
}

/// A scheduler, and the worker's place and share there.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerOptions {
    /// The addresses of the scheduler: at least one, each once. The worker tries them until one answers.
    pub members: Vec<ServiceAddress>,
    /// The absolute path of the file that lists the addresses. The worker reads it again when none of them answers.
    pub list: Option<PathBuf>,
    /// The worker's place in the scheduler's pool.
    pub shard: Shard,
    /// The scheduler's share of the machine, relative to the other shares; 0: the scheduler gets only what the others leave.
    pub share: f64,
}

impl SchedulerOptions {
    /// Returns the scheduler's name for messages and for stored state: the path of its list if it has one, else its first address.
    pub(crate) fn called(&self) -> String {
        match (&self.list, self.members.first()) {
            (Some(list), _) => format!("@{}", list.display()),
            (None, Some(first)) => first.to_string(),
            (None, None) => String::new(),
        }
    }
}

/// The reason why a worker that is no member of a cluster does not use an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainAddressError {
    #[error("--listen: {0}")]
    Listen(#[from] AddressError),
    #[error(
        "--scheduler: {0} is not surely on this machine, and this worker has joined no cluster, so its calls would be in plain text and anybody on \
         the way could give it tasks. Let it join with --join-token (see `brasserie token create`), or pass --insecure-network if you trust \
         everybody on that network"
    )]
    Scheduler(ServiceAddress),
}

/// The effect of SIGTERM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum OnSigterm {
    /// End the tasks, then the worker.
    #[default]
    Kill,
    /// Start no more tasks, and end the worker when its running tasks have ended.
    Drain,
}

/// Errors unless a worker that is no member of a cluster may call a scheduler at all of these addresses.
pub(crate) fn check_members(
    members: &[ServiceAddress],
    exposure: NetworkExposure,
) -> Result<(), PlainAddressError> {
    let far = members.iter().find(|member| !is_loopback(&member.host));
    match (exposure, far) {
        (NetworkExposure::LoopbackOnly, Some(far)) => {
            Err(PlainAddressError::Scheduler(far.clone()))
        }
        (NetworkExposure::LoopbackOnly | NetworkExposure::AnyAddress, _) => Ok(()),
    }
}

impl StartOptions {
    /// Errors unless the addresses are those that a worker may use that is no member of a cluster.
    pub(crate) fn check_plain(&self) -> Result<(), PlainAddressError> {
        ListenAddress::check(self.listen.socket(), self.exposure)?;
        let mut schedulers = self.schedulers.iter();
        schedulers.try_for_each(|one| check_members(&one.members, self.exposure))
    }

    /// Returns options for one scheduler, with the command line's defaults for everything else.
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
            exposure: NetworkExposure::LoopbackOnly,
            join_token: None,
            advertise: None,
            worker_command: None,
            nvidia_smi: None,
            pass_environment: PassedEnvironment::USUAL,
            allowed_users: Vec::new(),
            disks: Vec::new(),
            artifact_transfers: USUAL_SERVED,
            rack: None,
            heartbeat_period: Duration::from_secs(15),
            kill_wait: Duration::from_secs(5),
            on_sigterm: OnSigterm::Kill,
            drain_timeout: None,
            logs: Retention::default(),
            output: Retention::default(),
            cgroup_root: None,
            cgroup_freeze_timeout: FREEZE_TIMEOUT,
            work_fetch: WorkFetchFlags::default(),
            timeouts: CallTimeouts::DEFAULT,
            started_by: StartedBy::Operator,
            log_format: LogFormat::Text,
        }
    }
}
