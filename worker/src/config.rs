//! The command line of `brasserie-worker`: the flags, their help, and their conversion to options.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use brasserie_common::time::{DurationError, parse_duration};
use brasserie_common::{ServiceAddress, Shard, size};
use brasserie_common_artifacts::{DiskFlag, USUAL_SERVED};
use brasserie_common_identity::{JOIN_TOKEN_VARIABLE, TOKEN_IN_PLAIN_SIGHT, Token};
use brasserie_common_runtime::net::{parse_peer, parse_socket};
use brasserie_common_runtime::{ListenAddress, LogFormat, NetworkExposure};
use brasserie_thrift::rpc::CallTimeouts;
use clap::Parser;
use clap::error::ErrorKind;

use crate::MOST_SCHEDULERS;
use crate::containment::Contain;
use crate::directory::{DirectoryError, hostname};
use crate::keeper::{KeeperPolicy, StartedBy};
use crate::member_file::MemberFileError;
use crate::membership::has_joined;
use crate::options::{OnSigterm, PlainAddressError, SchedulerOptions, StartOptions, TokenPlace};
use crate::output::Retention;
use crate::process::{AllowedUser, PassedEnvironment};
use crate::scheduler_flag::{SchedulerFlag, parse_shard};
use crate::work_fetch::WorkFetchFlags;

/// The shortest heartbeat period. The wire format counts it in whole seconds.
const MIN_HEARTBEAT_PERIOD: Duration = Duration::from_secs(1);
/// The longest accepted duration. The wire format has signed 32-bit seconds and milliseconds.
const MAX_DURATION: Duration = Duration::from_millis(i32::MAX as u64);

/// Exit codes of `brasserie-worker`. A program that a signal killed has 128 plus the number of the signal.
pub mod exit_code {
    /// The operator ended the worker, and its tasks are dead.
    pub const SHUTDOWN: u8 = 0;
    /// The scheduler sent a suicide request, or the worker had no contact with it for too long. Its tasks are dead.
    pub const SUICIDE: u8 = 1;
    /// The command line cannot be used.
    pub const USAGE: u8 = 2;
    /// The worker could not start: directory, address or keeper.
    pub const START: u8 = 3;
    /// The scheduler does not admit the worker, or the token or the certificate is for another one: the same start would fail again.
    pub const NOT_ADMITTED: u8 = 4;
}

const AFTER_HELP: &str = "\
HOW IT WORKS
  The worker sends its scheduler a heartbeat every --heartbeat-period, starts the tasks that the scheduler sends, and reports each completion until the scheduler acknowledges it.

  If it is out of touch with the scheduler for too long (the scheduler's \
--lose-unhealthy-worker-after), it kills its tasks and ends: by then they run elsewhere. Let a \
service manager start it again. A worker with several schedulers kills only the tasks of that one, and goes \
on: for that scheduler it begins anew, as if it had just been started.

  A task's program runs in DIR/jobs/JOB, or in a new folder DIR/runs/RUN/work that is deleted after the run if the job has inputs or outputs. The worker keeps its output in DIR/logs (`brasserie logs`), or compressed in DIR/output if the job says so. The program must exist on this machine.

  With --on-sigterm drain the worker starts no more tasks, stays healthy, and exits when its running tasks have completed. Its scheduler shows it as draining.

  Under systemd (Type=notify, NotifyAccess=all) the worker reports its readiness, its state, and that it is alive.

  A small parent process, brasserie-keeper, kills the worker's tasks if the worker is killed, or is still stopped when its lease expires.

EXAMPLES
  On the scheduler's machine:
    brasserie-worker --scheduler localhost:6789 --data-dir /var/lib/brasserie/worker

  A second one on the same machine:
    brasserie-worker --scheduler localhost:6789 --data-dir /srv/second --shard second

  For two schedulers, a third of the machine for the second one:
    brasserie-worker --scheduler 10.0.0.1:6789,share=200 --scheduler 10.0.0.2:6789,share=100 \\
        --data-dir /var/lib/brasserie/worker --listen 10.0.0.7:7000 --insecure-network

  On another machine, for a scheduler that asks for proofs; the token is on standard input:
    brasserie-worker --scheduler 10.0.0.1:6789 --data-dir /var/lib/brasserie/worker --join-token -

  On another machine of a network that you trust:
    brasserie-worker --scheduler 10.0.0.1:6789 --data-dir /var/lib/brasserie/worker \\
        --listen 10.0.0.7:7000 --insecure-network

EXIT CODES
  0  ended by a signal (SIGTERM, SIGINT, SIGQUIT, SIGHUP), or by `brasserie worker drain` or `decommission`, after its tasks
     were dead, or had ended by themselves
  1  ended by its scheduler, or out of touch with it for too long; its tasks are dead
  2  the command line is invalid
  3  it could not start
  4  it may not join: the token or the certificate is not valid for it. Another start needs a new token, or other flags
  128 and more  killed by that signal; its tasks are dead, or end within the kill wait if its keeper was killed

ENVIRONMENT
  BRASSERIE_JOIN_TOKEN  a token for joining, instead of --join-token
  BRASSERIE_LOG  what it logs to standard error: `debug`, or `brasserie_worker=debug,info`
  NO_COLOR       set and not empty: no colours in any output

Durations are numbers with a unit (500ms, 30s, 5m, 2h, 1d); a bare number is seconds.";

/// Runs tasks for a Brasserie scheduler.
#[derive(Debug, Parser)]
#[command(name = "brasserie-worker", version, after_long_help = AFTER_HELP)]
pub struct Cli {
    /// A scheduler to work for; repeat the flag for each one. `@FILE` names a file with the addresses of one scheduler: one HOST:PORT a
    /// line; a # starts a comment; the file's name cannot contain a comma. If the scheduler does not answer at one address, the worker
    /// tries the next. When none answers, the worker reads the file again, and so finds a scheduler that has moved. With several
    /// schedulers, each sees an independent worker on the same machine: if one is out of reach for too long, only its tasks are ended.
    /// `share` is its part of the machine, relative to the other shares; with 0 it gets only what the others leave. `shard` is --shard
    /// for this scheduler. Schedulers do not know of each other: each of them fills the machine unless you give each a fixed part of it,
    /// or use --work-fetch, which divides the machine by share.
    #[arg(long, value_name = "HOST:PORT|@FILE[,share=NUMBER][,shard=NAME]", required = true, action = clap::ArgAction::Append, value_parser = SchedulerFlag::parse)]
    scheduler: Vec<SchedulerFlag>,

    /// The directory of working directories, task logs and the worker's identity. Only one worker at a time can use it. Restart a worker
    /// in its old directory, so that the scheduler recognises it.
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,

    /// The worker's place in the pool: at most one worker of each name works at a time. A new worker of the same name takes the place
    /// once the old one is lost, or at once if it starts in the same data directory [default: the name of this machine]
    #[arg(long, value_name = "NAME", value_parser = parse_shard)]
    shard: Option<Shard>,

    /// The address on which the worker takes the scheduler's calls; port 0 takes a free port. Everybody who reaches this port can run
    /// programs here, unless the worker has joined a cluster with --join-token. Without it, other than loopback addresses need
    /// --insecure-network [default: 127.0.0.1:0, or 0.0.0.0:0 for a worker that joins]
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_socket)]
    listen: Option<std::net::SocketAddr>,

    /// The address that the scheduler calls, if it is not the one of --listen (for example with a port mapping or a wildcard address).
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_peer)]
    advertise: Option<ServiceAddress>,

    /// Join the cluster of a scheduler that asks for proofs, with the token of `brasserie token create` from a file of mode 0600 (@FILE) or
    /// standard input (-); the variable BRASSERIE_JOIN_TOKEN holds one too. The worker proves the scheduler by the token before it sends anything,
    /// gets a certificate, keeps it in --data-dir and renews it. Later starts in the same --data-dir need no token.
    #[arg(long, value_name = "@FILE|-", value_parser = TokenPlace::parse)]
    join_token: Option<TokenPlace>,

    /// Allow addresses of other machines in --scheduler, and in --listen one that they can reach, to a worker that joins no cluster. Peers
    /// are not authenticated: everybody on that network can run programs here as this user.
    #[arg(long)]
    insecure_network: bool,

    /// Format of the log: `text`, or `json` for one object a line with timestamp, level, target, message and fields.
    #[arg(long, value_name = "FORMAT", default_value_t = LogFormat::Text, value_parser = LogFormat::parse)]
    log_format: LogFormat,

    /// Program for jobs whose configuration has no `command`. Without it such jobs do not run on this worker.
    #[arg(long, value_name = "PROGRAM")]
    worker_command: Option<String>,

    /// The program `nvidia-smi`, which lists this machine's GPUs for the resources that depend on them, and for tasks that get GPUs of
    /// their own. Without it, or with an empty PATH, the worker reports no GPUs.
    #[arg(long, value_name = "PATH")]
    nvidia_smi: Option<OsString>,

    /// Variables of the worker's environment that tasks get in addition to PATH, HOME, LANG, LC_*, TZ, USER, LOGNAME, SHELL and TMPDIR;
    /// `*` means all. Variables from the service manager and the keeper are never passed.
    #[arg(long, value_name = "NAME[,NAME...]", value_parser = PassedEnvironment::parse)]
    pass_environment: Option<PassedEnvironment>,

    /// A user that jobs may run as (`user`), with the groups beside the user's own that they may choose (`group`); names or numbers;
    /// repeat the flag for each user. Without it all tasks run as the worker's user. The worker must run as root.
    #[arg(long, value_name = "USER[:GROUP[,GROUP...]]", value_parser = AllowedUser::parse)]
    allow_user: Vec<AllowedUser>,

    /// A folder for artifacts, which jobs leave (`outputs`) and others get (`inputs`); repeat the flag for each disk. `capacity` is the most
    /// that artifacts take there, as 200GiB, and `class` is shown to people. Some space always stays free
    /// [default: the folder `artifacts` of --data-dir]
    #[arg(long, value_name = "PATH[,capacity=SIZE][,class=ssd|hdd]")]
    disk: Vec<DiskFlag>,

    /// The most transfers of artifacts to other workers that run at once; workers of the same machine get up to twice as many. A worker that
    /// asks for one more gets the answer at once that this one is busy, and asks another worker that has the artifact.
    #[arg(long, value_name = "NUMBER", default_value_t = USUAL_SERVED)]
    artifact_transfers: NonZeroU32,

    /// The rack of this machine: workers fetch artifacts from the nearest worker, and copies go to other racks.
    #[arg(long, value_name = "NAME")]
    rack: Option<String>,

    /// The period of heartbeats to the scheduler; at least 1s, in whole seconds. A long period endangers no task, because healthchecks
    /// bound the life of a worker that is cut off. But a restarted scheduler may wait that long for the worker.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = parse_heartbeat_period)]
    heartbeat_period: Duration,

    /// The time between SIGTERM and SIGKILL for tasks when the operator ends the worker. (When the worker must end itself, the
    /// scheduler's --caution-worker-suicide-task-kill-wait applies instead.)
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_wait)]
    kill_wait: Duration,

    /// The effect of SIGTERM. `kill` ends the tasks and then the worker. `drain` starts no more tasks and ends the worker when its
    /// running tasks have ended; a second signal kills them at once. The other signals always mean `kill`.
    #[arg(long, value_name = "WAY", value_enum, default_value_t = OnSigterm::Kill)]
    on_sigterm: OnSigterm,

    /// The time that a draining worker waits for its tasks before it ends them like `kill` [default: unlimited]. A service manager must
    /// wait longer than the sum of this and --kill-wait.
    #[arg(long, value_name = "DURATION", value_parser = parse_wait)]
    drain_timeout: Option<Duration>,

    /// Drop task logs that are older than this.
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse_age)]
    log_retention: Duration,

    /// Drop the oldest task logs when all together are larger than this: bytes, or with K, M, G, T (powers of 1024). The last 64 MiB of
    /// their disk, or a quarter of a disk below 256 MiB, always stay free: lines beyond are dropped and counted.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = parse_size)]
    log_max_size: u64,

    /// Drop files with task output (`"output": "file"` of a job) that were finished longer ago than this.
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = parse_age)]
    output_retention: Duration,

    /// Drop the oldest of these files when all together are larger than this, each rounded up to blocks of 4 KiB. A task whose own files
    /// would be larger loses the rest of its output, and the loss is reported.
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = parse_size)]
    output_max_size: u64,

    /// The control group that contains the groups of tasks with limits, by its path in each hierarchy, as `/batch`; created if it is
    /// missing [default: the worker's own]
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    cgroup_root: Option<String>,

    /// The time that a control group of version 1 gets to freeze. After this time, the worker kills the group's processes although some are not frozen.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_wait)]
    cgroup_freeze_timeout: Duration,

    /// How the worker makes sure that no process of a task outlives it. With `pid-namespace` the kernel kills all of them when the worker
    /// dies, whatever they have done to hide. Tasks then see only processes of this worker, have process ids that mean nothing outside,
    /// and cannot mount file systems. With `process-groups` the keeper finds them by process groups, marks and descent. A process that
    /// has shed all of these survives if worker and keeper are killed at once. `auto` is `pid-namespace` if the worker starts with
    /// CAP_SYS_ADMIN, as root does, and the machine allows it, and else `process-groups`; the worker logs the choice and the reason.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Contain::Auto)]
    contain: Contain,

    #[command(flatten)]
    work_fetch: WorkFetchFlags,

    /// Time to connect to the scheduler.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_timeout)]
    thrift_connect_timeout: Duration,

    /// Time to send a call.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_timeout)]
    thrift_send_timeout: Duration,

    /// Time to wait for an answer.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_timeout)]
    thrift_receive_timeout: Duration,

    /// `brasserie run` has started this worker: it ends at the end of its standard input, and logs only warnings.
    #[arg(long, hide = true)]
    of_run: bool,
}

/// The reason why a command line that parses cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("--scheduler is given {0} times: a worker works for {MOST_SCHEDULERS} at most")]
    ManySchedulers(usize),
    #[error(
        "--scheduler names {0} twice: give each scheduler once. A machine works twice for one scheduler with two workers, each with \
         a --data-dir and a --shard of its own"
    )]
    SameScheduler(ServiceAddress),
    #[error("--scheduler: {0}")]
    Members(#[from] MemberFileError),
    #[error(transparent)]
    Plain(#[from] PlainAddressError),
    #[error(
        "{JOIN_TOKEN_VARIABLE} is set, but is no text, or an empty one: put a token of `brasserie token create --role worker` there, or unset it"
    )]
    EmptyVariable,
    #[error(
        "--listen {0} accepts calls on every address of this machine, so the worker cannot report which address to call: add --advertise \
         HOST:PORT with the name or address that it can reach"
    )]
    NothingToAdvertise(std::net::SocketAddr),
    #[error("this machine's name cannot be the shard ({0}): choose one with --shard NAME")]
    Hostname(String),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(
        "{TOKEN_IN_PLAIN_SIGHT}. Revoke the token with `brasserie token revoke`, and write --join-token @FILE, or - for standard input"
    )]
    TokenInWords,
}

impl Cli {
    /// Parses the program's arguments. Prints help or an error and ends the process (code 0 or 2) if the worker is not to run.
    pub fn parse_or_exit() -> StartOptions {
        let variable = std::env::var_os(JOIN_TOKEN_VARIABLE);
        // The parser's own message would repeat the token.
        let options = match Token::is_in_command_line() {
            true => Err(ConfigError::TokenInWords),
            false => Cli::parse().into_options(variable.as_deref()),
        };
        options.unwrap_or_else(|error| {
            let mut command = <Cli as clap::CommandFactory>::command();
            command.error(ErrorKind::ValueValidation, error).exit()
        })
    }

    /// Returns the value of `--contain`.
    pub fn contain(&self) -> Contain {
        self.contain
    }

    /// Returns the part of the command line that the keeper uses.
    pub(crate) fn policy(self) -> KeeperPolicy {
        KeeperPolicy {
            contain: self.contain,
            started_by: self.started_by(),
            log_format: self.log_format,
            data_dir: Some(self.data_dir),
            uses_own_group: self.cgroup_root.is_none(),
        }
    }

    fn started_by(&self) -> StartedBy {
        match self.of_run {
            true => StartedBy::Run,
            false => StartedBy::Operator,
        }
    }

    /// Checks the flags together, and converts them to options. `variable` is the value of [`JOIN_TOKEN_VARIABLE`].
    pub fn into_options(self, variable: Option<&OsStr>) -> Result<StartOptions, ConfigError> {
        let started_by = self.started_by();
        let has_joined = has_joined(&self.data_dir);
        let join_token = match self.join_token {
            None if !has_joined => token_in(variable)?,
            given => given,
        };
        let is_member = join_token.is_some() || has_joined;
        let listen = self.listen.unwrap_or_else(|| match is_member {
            true => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            false => ListenAddress::ANY_LOOPBACK_PORT.socket(),
        });
        let allowed = NetworkExposure::of(self.insecure_network || is_member);
        let listen = ListenAddress::check(listen, allowed).map_err(PlainAddressError::Listen)?;
        let schedulers = schedulers(self.scheduler, self.shard.as_ref())?;
        let options = StartOptions {
            schedulers,
            data_dir: self.data_dir,
            listen,
            exposure: NetworkExposure::of(self.insecure_network),
            join_token,
            advertise: self.advertise,
            worker_command: self.worker_command,
            nvidia_smi: self
                .nvidia_smi
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            pass_environment: self.pass_environment.unwrap_or(PassedEnvironment::USUAL),
            allowed_users: self.allow_user,
            disks: self.disk,
            artifact_transfers: self.artifact_transfers,
            rack: self.rack.map(Into::into),
            heartbeat_period: self.heartbeat_period,
            on_sigterm: self.on_sigterm,
            drain_timeout: self.drain_timeout,
            kill_wait: self.kill_wait,
            logs: Retention {
                max_age: self.log_retention,
                max_bytes: self.log_max_size,
            },
            output: Retention {
                max_age: self.output_retention,
                max_bytes: self.output_max_size,
            },
            cgroup_root: self.cgroup_root,
            cgroup_freeze_timeout: self.cgroup_freeze_timeout,
            work_fetch: self.work_fetch,
            timeouts: CallTimeouts {
                connect: self.thrift_connect_timeout,
                send: self.thrift_send_timeout,
                receive: self.thrift_receive_timeout,
            },
            started_by,
            log_format: self.log_format,
        };
        if !is_member {
            options.check_plain()?;
            let is_anywhere = listen.socket().ip().is_unspecified();
            if is_anywhere && options.advertise.is_none() {
                return Err(ConfigError::NothingToAdvertise(listen.socket()));
            }
        }
        Ok(options)
    }
}

/// Returns where the token for joining is if the environment has one.
fn token_in(variable: Option<&OsStr>) -> Result<Option<TokenPlace>, ConfigError> {
    let is_text = |value: &OsStr| value.to_str().is_some_and(|text| !text.trim().is_empty());
    match variable {
        None => Ok(None),
        Some(value) if is_text(value) => Ok(Some(TokenPlace::Environment)),
        Some(_) => Err(ConfigError::EmptyVariable),
    }
}

/// Converts the `--scheduler` flags. `shard` is the shard for schedulers whose flag names none.
fn schedulers(
    flags: Vec<SchedulerFlag>,
    shard: Option<&Shard>,
) -> Result<Vec<SchedulerOptions>, ConfigError> {
    if flags.len() > MOST_SCHEDULERS {
        return Err(ConfigError::ManySchedulers(flags.len()));
    }
    let shard = || match shard {
        Some(shard) => Ok(shard.clone()),
        None => parse_shard(&hostname()?).map_err(ConfigError::Hostname),
    };
    let flags = flags.into_iter().map(|flag| flag.into_options(shard));
    let schedulers = flags.collect::<Result<Vec<_>, _>>()?;
    for (at, one) in schedulers.iter().enumerate() {
        let others = schedulers[..at].iter().flat_map(|other| &other.members);
        let others: Vec<&ServiceAddress> = others.collect();
        if let Some(same) = one.members.iter().find(|member| others.contains(member)) {
            return Err(ConfigError::SameScheduler(same.clone()));
        }
    }
    Ok(schedulers)
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    let wait = parse_duration(text).map_err(|e: DurationError| e.to_string())?;
    match wait <= MAX_DURATION {
        true => Ok(wait),
        false => Err("at most 24d are allowed".to_owned()),
    }
}

fn parse_group(text: &str) -> Result<String, String> {
    let is_plain = text.split('/').all(|part| part != "." && part != "..");
    match text.starts_with('/') && is_plain {
        true => Ok(text.to_owned()),
        false => Err("it must begin with `/`, without `.` and `..` in it".to_owned()),
    }
}

fn parse_age(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(age) if age.is_zero() => Err("it must be longer than 0".to_owned()),
        Ok(age) => Ok(age),
        Err(error) => Err(error.to_string()),
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match parse_wait(text)? {
        Duration::ZERO => Err("it must be longer than 0".to_owned()),
        timeout => Ok(timeout),
    }
}

fn parse_heartbeat_period(text: &str) -> Result<Duration, String> {
    match parse_wait(text)? {
        period if period < MIN_HEARTBEAT_PERIOD => Err("at least 1s is needed".to_owned()),
        period => Ok(period),
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    size::parse_size(text).ok_or_else(|| {
        format!("`{text}` is not a size: write bytes, or a number with K, M, G or T")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: &[&str]) -> Result<StartOptions, String> {
        let open = ["--scheduler", "a.example:6789", "--insecure-network"];
        with_variable(None, &[&open, flags].concat())
    }

    fn with_variable(variable: Option<&OsStr>, flags: &[&str]) -> Result<StartOptions, String> {
        let base = ["brasserie-worker", "--data-dir", "/d"];
        let cli = Cli::try_parse_from(base.iter().chain(flags)).map_err(|e| e.to_string())?;
        cli.into_options(variable).map_err(|e| e.to_string())
    }

    #[test]
    fn two_flags_are_enough() {
        let options = options(&[]).expect("usable");
        let [scheduler] = &options.schedulers[..] else {
            panic!("one scheduler: {options:?}");
        };
        assert_eq!(scheduler.called(), "a.example:6789");
        assert_eq!(scheduler.members.len(), 1);
        assert_eq!(scheduler.shard.as_str(), hostname().expect("a name"));
        assert_eq!(scheduler.share, 100.0);
        assert_eq!(options.heartbeat_period, Duration::from_secs(15));
        assert_eq!(options.listen, ListenAddress::ANY_LOOPBACK_PORT);
        assert_eq!(options.timeouts, CallTimeouts::DEFAULT);
        assert_eq!(options.logs.max_bytes, 10 << 30);
        assert_eq!(options.nvidia_smi, None);
        assert_eq!(options.cgroup_root, None);
        assert_eq!(options.cgroup_freeze_timeout, Duration::from_secs(10));
    }

    #[test]
    fn groups_are_named_from_their_roots() {
        let root = |text| options(&["--cgroup-root", text]).map(|o| o.cgroup_root);
        assert_eq!(root("/a/b"), Ok(Some("/a/b".to_owned())));
        assert_eq!(root("/"), Ok(Some("/".to_owned())));
        for bad in ["", "a", "/a/../b", "/."] {
            assert!(root(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cards_are_looked_for_by_a_path() {
        let smi = |path: &str| options(&["--nvidia-smi", path]).expect("usable").nvidia_smi;
        assert_eq!(
            smi("/usr/bin/nvidia-smi"),
            Some("/usr/bin/nvidia-smi".into())
        );
        assert_eq!(smi(""), None);
    }

    #[test]
    fn the_environment_passes_by_names() {
        let passed = |flags: &[&str]| options(flags).map(|o| o.pass_environment);
        assert_eq!(passed(&[]), Ok(PassedEnvironment::USUAL));
        let also = vec!["A".to_owned(), "B".to_owned()];
        assert_eq!(
            passed(&["--pass-environment", "A,B"]),
            Ok(PassedEnvironment::Usual { also })
        );
        assert_eq!(
            passed(&["--pass-environment", "*"]),
            Ok(PassedEnvironment::Everything)
        );
        let refused = passed(&["--pass-environment", "A=1"]).expect_err("no name");
        assert!(refused.contains("no variable's name"), "{refused}");
    }

    #[test]
    fn users_are_allowed_one_by_one() {
        let allowed = |flags: &[&str]| {
            let users = options(flags).map(|o| o.allowed_users)?;
            Ok::<_, String>(users.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(allowed(&[]), Ok(Vec::new()));
        let two = ["--allow-user", "ann", "--allow-user", "1000:g,h"];
        assert_eq!(
            allowed(&two),
            Ok(vec!["ann".to_owned(), "1000:g,h".to_owned()])
        );
        let refused = allowed(&["--allow-user", "ann:"]).expect_err("no group");
        assert!(refused.contains("NAME:GROUP,GROUP"), "{refused}");
    }

    #[test]
    fn what_is_missing_or_repeated_is_named() {
        let missing = Cli::try_parse_from(["brasserie-worker"])
            .expect_err("refused")
            .to_string();
        assert!(
            missing.contains("--scheduler") && missing.contains("--data-dir"),
            "{missing}"
        );
        let twice = options(&["--scheduler", "a.example:6789,share=3"]).expect_err("refused");
        assert!(
            twice.starts_with("--scheduler names a.example:6789 twice"),
            "{twice}"
        );
        let many: Vec<String> = (0..16).map(|at| format!("b{at}.example:1")).collect();
        let flags: Vec<&str> = many.iter().flat_map(|one| ["--scheduler", one]).collect();
        let refused = options(&flags).expect_err("refused");
        assert!(
            refused.contains("given 17 times") && refused.contains("16 at most"),
            "{refused}"
        );
    }

    #[test]
    fn each_scheduler_has_its_share_and_its_shard() {
        let flags = [
            "--shard",
            "s",
            "--scheduler",
            "b.example:1,share=0",
            "--scheduler",
            "c.example:1,shard=gpu-1",
        ];
        let options = options(&flags).expect("usable");
        let told = options.schedulers.iter();
        let told: Vec<_> = told
            .map(|one| (one.called(), one.shard.to_string(), one.share))
            .collect();
        let one = |address: &str, shard: &str, share| (address.to_owned(), shard.to_owned(), share);
        let expected = [
            one("a.example:6789", "s", 100.0),
            one("b.example:1", "s", 0.0),
            one("c.example:1", "gpu-1", 100.0),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_file_may_say_where_a_scheduler_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("members");
        let flag = format!("@{},share=7", file.display());
        let told = |text: &str| {
            std::fs::write(&file, text).expect("written");
            options(&["--scheduler", &flag]).map(|mut options| options.schedulers.remove(1))
        };
        let listed = told("b.example:1\nb.example:2\n").expect("usable");
        assert_eq!((listed.members.len(), listed.share), (2, 7.0));
        assert_eq!(listed.called(), format!("@{}", file.display()));
        let refused = told("b.example:1\nnowhere\n:1").expect_err("refused");
        for place in [":2: ", ":3: "] {
            let place = format!("{}{place}", file.display());
            assert!(refused.contains(&place), "{refused}");
        }
        let twice = told("b.example:1\na.example:6789").expect_err("refused");
        assert!(twice.contains("names a.example:6789 twice"), "{twice}");
        std::fs::remove_file(&file).expect("removed");
        let gone = options(&["--scheduler", &flag]).expect_err("refused");
        assert!(gone.contains("--scheduler: cannot read"), "{gone}");
    }

    #[test]
    fn only_loopback_without_the_insecure_flag() {
        let here = ["--scheduler", "127.0.0.1:6789"];
        let open = ["--listen", "192.0.2.1:7000"];
        let local = |flags: &[&str]| with_variable(None, flags);
        for refused in [
            [here, open].concat(),
            vec!["--scheduler", "192.0.2.1:6789"],
            vec!["--scheduler", "a.example:6789"],
            vec!["--scheduler", "localhost:1", "--scheduler", "192.0.2.1:2"],
        ] {
            let why = local(&refused).expect_err("refused");
            assert!(why.contains("--insecure-network"), "{why}");
        }
        for usable in [
            here,
            ["--scheduler", "localhost:1"],
            ["--scheduler", "[::1]:1"],
        ] {
            assert!(local(&usable).is_ok(), "{usable:?}");
        }
        assert!(options(&open).is_ok());
        let wild = ["--listen", "0.0.0.0:7000"];
        assert!(options(&wild).expect_err("refused").contains("--advertise"));
        let told = [wild[0], wild[1], "--advertise", "w.example:7000"];
        let advertised = options(&told).expect("usable").advertise;
        assert_eq!(
            advertised.map(|a| a.to_string()).as_deref(),
            Some("w.example:7000")
        );
    }

    #[test]
    fn a_token_opens_the_worker_to_the_network_and_an_empty_variable_does_not() {
        let flags = ["--scheduler", "192.0.2.1:6789"];
        for value in ["", " \n"].map(OsStr::new) {
            let why = with_variable(Some(value), &flags).expect_err("no token");
            assert!(why.contains("BRASSERIE_JOIN_TOKEN is set"), "{why}");
        }
        let joins = with_variable(Some(OsStr::new("brj1-x")), &flags).expect("usable");
        assert_eq!(joins.join_token, Some(TokenPlace::Environment));
        assert!(joins.listen.socket().ip().is_unspecified());
        assert!(joins.check_plain().is_err(), "only as a member");
        let named = [flags[0], flags[1], "--join-token", "-"];
        let joins = with_variable(Some(OsStr::new("")), &named).expect("usable");
        assert_eq!(joins.join_token, Some(TokenPlace::StandardInput));
    }

    #[test]
    fn values_have_units_and_bounds() {
        let some = options(&[
            "--heartbeat-period",
            "2",
            "--kill-wait",
            "250ms",
            "--log-max-size",
            "3m",
            "--output-max-size",
            "2g",
            "--output-retention",
            "1h",
        ]);
        let some = some.expect("usable");
        assert_eq!(some.heartbeat_period, Duration::from_secs(2));
        assert_eq!(some.kill_wait, Duration::from_millis(250));
        assert_eq!(some.logs.max_bytes, 3 << 20);
        assert_eq!(some.output.max_bytes, 2 << 30);
        assert_eq!(some.output.max_age, Duration::from_secs(3600));
        for bad in [
            ["--heartbeat-period", "0.5s"],
            ["--heartbeat-period", "soon"],
            ["--kill-wait", "100d"],
            ["--log-max-size", "0"],
            ["--log-max-size", "99999999T"],
            ["--log-max-size", "x"],
            ["--log-retention", "0"],
            ["--output-max-size", "0"],
            ["--output-retention", "0"],
            ["--thrift-send-timeout", "0"],
            ["--shard", ""],
            ["--scheduler", "nowhere"],
            ["--scheduler", "b.example:1,share=-1"],
            ["--listen", "example.org:1"],
        ] {
            let error = options(&bad).expect_err("refused");
            assert!(error.contains(bad[0]), "{bad:?}: {error}");
        }
    }

    #[test]
    fn the_help_teaches() {
        let mut command = <Cli as clap::CommandFactory>::command();
        command.clone().debug_assert();
        let help = command.render_long_help().to_string();
        for part in [
            "EXAMPLES",
            "EXIT CODES",
            "--insecure-network",
            "brasserie-keeper",
            "500ms",
        ] {
            assert!(help.contains(part), "{part}");
        }
    }
}
