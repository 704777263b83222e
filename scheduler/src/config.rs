//! The command line of `brasserie-scheduler`, and its conversion to [`StartOptions`].

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common::size::parse_size;
use brasserie_common::time::{DurationError, parse_duration};
use brasserie_common::work::MAX_KNOWN_TASKS;
use brasserie_common_config::UnknownKeys;
use brasserie_common_runtime::LogFormat;
use brasserie_common_runtime::net::{self, AddressError, ListenAddress, NetworkExposure};
use brasserie_scheduler_core::credits::{DeadlineRule, RequestPolicy};
use brasserie_scheduler_core::{Retention, SlotStrategy};
use brasserie_thrift::rpc;
use clap::{Args, Parser};

use crate::audit::MOST_KEPT;
use crate::security::{AuthorityCreation, PlainPeers};
use crate::sources::{ConfigSource, Periods};
use crate::start::{DirectoryOrigin, NewCluster, StartOptions};

const ABOUT: &str = "Decides which task runs on which worker, and records the completions.

The scheduler reads jobs and nodes from a config file, waits for workers (brasserie-worker --scheduler HOST:PORT), and hands them \
every task that may run. Final statuses are on disk before they are acknowledged, so it may be killed and started again at any \
time.";

const AFTER: &str = "Times are written as 500ms, 30s, 5m, 2h or 1d; a bare number is seconds.

BRASSERIE_LOG chooses what is logged to standard error: a level (debug) or targets (brasserie_scheduler=debug,info). At debug the \
log has the start and the completion of each task. NO_COLOR, if set and not empty, turns colours off.

Exit codes:
  0  ended by SIGTERM, SIGINT, SIGQUIT or SIGHUP
  1  could not start, or could not go on; standard error says why
  2  the command line is invalid, --new-cluster was given for a data directory that a scheduler has used,
     --after-restoring-a-backup for one without a store, or, in a directory that none has used, the config file is missing or has errors
  3  stepped down: a worker obeys a newer scheduler instance; do not restart it automatically

Start a first cluster on this machine:
  brasserie-scheduler --config jobs.json --data-dir /var/lib/brasserie/scheduler --new-cluster
  brasserie-worker --scheduler 127.0.0.1:6789 --shard one --data-dir /var/lib/brasserie/worker

Start a first cluster of several machines, encrypted and closed to strangers; the scheduler prints how a worker joins:
  brasserie-scheduler --config jobs.json --data-dir /var/lib/brasserie/scheduler --new-cluster --listen 0.0.0.0:6789";

/// A tmpfs on every Linux. Its files survive programs and vanish at a reboot.
const SHARED_MEMORY: &str = "/dev/shm";

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "brasserie-scheduler", version, about = ABOUT, long_about = ABOUT, after_help = AFTER)]
pub struct Flags {
    /// The config file with settings and jobs: JSON, or TOML or YAML by its extension. Changes take effect without a restart; while the
    /// file has errors, its last good version stays in force
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,

    /// Refuse a config file with an unknown key, also inside a job, instead of warning
    #[arg(long)]
    pub strict_config: bool,

    /// The directory for task statuses and the record of workers; each scheduler needs its own
    #[arg(long, value_name = "DIR")]
    pub data_dir: PathBuf,

    /// Keep at most this many bytes of the files that jobs name as inputs, below --data-dir: SIZE in bytes or with KiB, MiB, GiB or TiB
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = size)]
    pub files_capacity: u64,

    /// Choose disks for further copies of outputs, and for programs that write artifacts: round-robin, or load-aware, which gives more to disks
    /// that were faster in the last ten minutes
    #[arg(long, value_name = "RULE", default_value = "round-robin", value_parser = slot_strategy)]
    pub artifact_slots: SlotStrategy,

    /// The address for workers and the command line (Thrift)
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6789", value_parser = net::parse_socket)]
    pub listen: SocketAddr,

    /// The address for browsers and probes (HTTP): / for people, /status as JSON, /health/live, /health/ready. On another address than
    /// loopback it serves HTTPS, and all but /health asks for a token, as --listen does
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:6790", value_parser = net::parse_socket)]
    pub http_listen: SocketAddr,

    /// A host name that browsers and probes may use over HTTP, such as the name of a proxy or a DNS name; may be given several times.
    /// Addresses, localhost and the name of this machine always work; other names are refused
    #[arg(long, value_name = "NAME")]
    pub http_host: Vec<String>,

    /// No scheduler has ever run tasks on these workers: start tasks at once instead of waiting until tasks of an earlier scheduler must
    /// have ended. For the first start only: an error if a scheduler has used --data-dir. Never use it after --data-dir was lost: tasks
    /// that still run would be started a second time
    #[arg(long)]
    pub new_cluster: bool,

    /// --data-dir was restored from a backup: start no task until every worker that the backup does not know must have ended, even if all
    /// known workers are back. The wait is the safe wait of these flags, or of the flags recorded in the backup if that is longer. For one
    /// start only: every start with this flag waits again
    #[arg(long, conflicts_with_all = ["new_cluster", "caution_startup_wait_for_workers"])]
    pub after_restoring_a_backup: bool,

    /// Accept calls without any proof of who calls, also on addresses other than loopback: anyone who can reach the ports can run programs
    /// on the workers. Without this flag, a scheduler that listens on another address than loopback creates an authority in --data-dir, and
    /// takes calls only inside TLS, from workers that have joined and from people with tokens
    #[arg(long)]
    pub insecure_network: bool,

    /// Accept calls without any proof from this machine, also if --data-dir has an authority. For workers of other projects, which know no
    /// TLS: every user of this machine can then run programs on the workers
    #[arg(long)]
    pub plain_loopback: bool,

    /// How long the certificates of workers are valid that this scheduler issues; they renew after half of it. A worker that stays away for
    /// longer can renew for 30 more days. Only for a scheduler with an authority
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = certificate_life)]
    pub worker_certificate_life: Duration,

    /// Keep about this much of the audit log, in files of 16 MiB, at least two of them and at most 64 (1 GiB): SIZE in bytes or with KiB, MiB
    /// or GiB
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = audit_size)]
    pub audit_keep: u64,

    /// Format of the log: `text`, or `json` for one object a line with timestamp, level, target, message and fields
    #[arg(long, value_name = "FORMAT", default_value_t = LogFormat::Text, value_parser = LogFormat::parse)]
    pub log_format: LogFormat,

    /// Name of the node at the top of the forest; default: the host's name
    #[arg(long, value_name = "NAME")]
    pub instance_node_name: Option<String>,

    #[command(flatten)]
    pub sources: SourceFlags,

    #[command(flatten)]
    pub retention: RetentionFlags,

    #[command(flatten)]
    pub workers: WorkerFlags,

    #[command(flatten)]
    pub work: WorkFlags,
}

/// How often the config file and the node sources are read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Sources")]
pub struct SourceFlags {
    /// Check the config file for changes at this interval; a change takes effect once two checks in a row see the same file
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = positive)]
    pub config_update: Duration,

    /// Read the node sources again at this interval
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = positive)]
    pub nodes_update: Duration,

    /// Read the node sources again this long after a failure; meanwhile the last good nodes stay
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = positive)]
    pub nodes_retry: Duration,
}

/// How long completions are kept. Completions of existing nodes and jobs are kept as long as the data directory exists.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Retention")]
pub struct RetentionFlags {
    /// Delete the completions of a node that no node source has listed for this long, and of a job that was deleted this long ago. If the
    /// node or job returns later, its tasks run again. Only time counts during which a scheduler runs with nodes in force
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = positive)]
    pub keep_missing_for: Duration,

    /// Keep at most this many completions of such nodes and jobs. The completions of those that have been missing longest are deleted
    /// first, but none of a node or job that has been missing for less than three days
    #[arg(long, value_name = "NUMBER", default_value = "1000000")]
    pub keep_missing_count: usize,
}

/// Settings of the worker protocol. Workers receive these values in the answers to their heartbeats.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workers")]
pub struct WorkerFlags {
    /// A worker is unhealthy when its heartbeat is overdue by this long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = protocol_time)]
    pub heartbeat_grace_period: Duration,

    /// Run a tiny task on each worker at this interval, to check that the worker can run tasks
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = protocol_time)]
    pub healthcheck_period: Duration,

    /// A worker is unhealthy when its last good healthcheck is older than the period plus this
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = protocol_time)]
    pub healthcheck_grace_period: Duration,

    /// A worker that was unhealthy for this long is lost: it exits, and its tasks run elsewhere after the safety margin
    #[arg(long, value_name = "TIME", default_value = "500s", value_parser = protocol_time)]
    pub lose_unhealthy_worker_after: Duration,

    /// Workers check their own health at this interval, and exit this long before the scheduler counts them as lost
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = protocol_time)]
    pub worker_check_interval: Duration,

    /// Ask a worker after this time, and later ever more rarely, about a task whose start had no clear outcome
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = protocol_time)]
    pub unsure_if_running_check_initial_period: Duration,

    /// Let a new worker instance replace an unhealthy one of its shard at once; the old instance's tasks wait until it must be dead
    #[arg(long)]
    pub allow_bump_unhealthy_worker: bool,

    /// Limit for connecting to a worker
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive)]
    pub thrift_connect_timeout: Duration,

    /// Limit for sending a call
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive)]
    pub thrift_send_timeout: Duration,

    /// Limit for the answer to a call
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = positive)]
    pub thrift_receive_timeout: Duration,

    /// Override the wait after a start without a usable record of workers. Too short a wait lets tasks run twice; the safe wait is computed
    /// from the other times
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub caution_startup_wait_for_workers: Option<Duration>,

    /// Wait this much longer than computed before a lost task runs elsewhere; covers clock drift and kernel stalls
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = protocol_time)]
    pub caution_worker_suicide_backoff_safety_margin: Duration,

    /// A worker that must exit gives its tasks this long between SIGTERM and SIGKILL
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = kill_wait)]
    pub caution_worker_suicide_task_kill_wait: Duration,
}

/// Settings for pull workers. They do not affect other workers.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Requests for work")]
pub struct WorkFlags {
    /// Refuse a worker's work request that comes sooner than this after its last one; the answer says how long to wait. 0: no limit
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = request_interval)]
    pub work_request_interval: Duration,

    /// Serve at most this many work requests a second, of all workers together; each hundred runs of the requesting worker count as one
    /// request more. Workers beyond that must wait for their turn. 0: no limit
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub work_requests_per_second: u32,

    /// Send at most this many tasks for each processor of the worker in answer to one request, however short the tasks are
    #[arg(long, value_name = "NUMBER", default_value = "1000", value_parser = tasks_per_processor)]
    pub work_tasks_per_processor: u32,

    /// How to determine whether a task with a deadline would finish late on a worker, or make another task late
    #[arg(long, value_name = "HOW", default_value = "simulate")]
    pub work_deadlines: WorkDeadlines,
}

/// How the scheduler determines whether a task would finish late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkDeadlines {
    /// Simulate the tasks that the worker lists, nearest deadline first; if the worker does not report their durations, as `delay`
    Simulate,
    /// Use the delay that the worker reports, plus the tasks sent since
    Delay,
}

/// Why a command line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagsError {
    #[error("--listen: {0}")]
    Listen(AddressError),
    #[error("--http-listen: {0}")]
    HttpListen(AddressError),
}

#[derive(Debug, thiserror::Error)]
enum TimeError {
    #[error(transparent)]
    NoDuration(#[from] DurationError),
    #[error("it must be longer than zero")]
    Zero,
    #[error("it must be at least 1s, because the protocol counts whole seconds")]
    BelowSecond,
    #[error("it must be at least 1ms")]
    BelowMillisecond,
    #[error("it must be at least 10s, because a worker needs some seconds to renew")]
    NoTimeToRenew,
    #[error("it must be at most 365d")]
    TooLong,
    #[error("it must be at most 47h, because no worker is made to wait for more than two days")]
    NoDelay,
}

/// Longer than any sensible wait, and far below the limit of the 32 bits on the wire.
const MAX_TIME: Duration = Duration::from_secs(365 * 86_400);

fn bounded(text: &str) -> Result<Duration, TimeError> {
    let duration = parse_duration(text)?;
    if duration > MAX_TIME {
        Err(TimeError::TooLong)
    } else {
        Ok(duration)
    }
}

fn request_interval(text: &str) -> Result<Duration, TimeError> {
    let duration = bounded(text)?;
    match duration > RequestPolicy::MAX_REQUEST_INTERVAL {
        true => Err(TimeError::NoDelay),
        false => Ok(duration),
    }
}

fn positive(text: &str) -> Result<Duration, TimeError> {
    match bounded(text)? {
        Duration::ZERO => Err(TimeError::Zero),
        duration => Ok(duration),
    }
}

fn protocol_time(text: &str) -> Result<Duration, TimeError> {
    let duration = bounded(text)?;
    if duration < Duration::from_secs(1) {
        Err(TimeError::BelowSecond)
    } else {
        Ok(duration)
    }
}

fn kill_wait(text: &str) -> Result<Duration, TimeError> {
    let duration = bounded(text)?;
    if duration < Duration::from_millis(1) {
        Err(TimeError::BelowMillisecond)
    } else {
        Ok(duration)
    }
}

fn certificate_life(text: &str) -> Result<Duration, TimeError> {
    let duration = bounded(text)?;
    match duration < Duration::from_secs(10) {
        true => Err(TimeError::NoTimeToRenew),
        false => Ok(duration),
    }
}

fn slot_strategy(text: &str) -> Result<SlotStrategy, &'static str> {
    SlotStrategy::parse(text).ok_or("it must be round-robin or load-aware")
}

fn size(text: &str) -> Result<u64, &'static str> {
    parse_size(text)
        .ok_or("it must be a size: bytes, or a number with KiB, MiB, GiB or TiB, as in 10GiB")
}

fn audit_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes if bytes > MOST_KEPT => Err(format!(
            "it must be {} MiB at most: copy older files elsewhere to keep them for longer",
            MOST_KEPT >> 20
        )),
        bytes => Ok(bytes),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it must be a number from 1 to {MAX_KNOWN_TASKS}: no worker can list more")]
struct TasksError;

fn tasks_per_processor(text: &str) -> Result<u32, TasksError> {
    let number = text.parse().map_err(|_| TasksError)?;
    match (1..=MAX_KNOWN_TASKS).contains(&(number as usize)) {
        true => Ok(number),
        false => Err(TasksError),
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    ListenAddress::check(address, NetworkExposure::LoopbackOnly).is_ok()
}

impl Flags {
    /// Converts the flags, and checks conditions that involve several of them.
    pub fn into_options(self) -> Result<StartOptions, FlagsError> {
        // An address that others reach gets an authority.
        let exposure = NetworkExposure::AnyAddress;
        let is_local = is_loopback(self.listen) && is_loopback(self.http_listen);
        let workers = &self.workers;
        Ok(StartOptions {
            listen: ListenAddress::check(self.listen, exposure).map_err(FlagsError::Listen)?,
            authority_creation: match self.insecure_network || is_local {
                true => AuthorityCreation::Never,
                false => AuthorityCreation::IfMissing,
            },
            plain_peers: match (self.insecure_network, self.plain_loopback) {
                (true, _) => PlainPeers::All,
                (false, true) => PlainPeers::Loopback,
                (false, false) => PlainPeers::Strangers,
            },
            worker_certificate_life: self.worker_certificate_life,
            audit_keep: self.audit_keep,
            http_listen: Some(
                ListenAddress::check(self.http_listen, exposure).map_err(FlagsError::HttpListen)?,
            ),
            http_hosts: self.http_host,
            new_cluster: match self.new_cluster {
                true => NewCluster::Yes,
                false => NewCluster::No,
            },
            directory: match self.after_restoring_a_backup {
                true => DirectoryOrigin::RestoredFromBackup,
                false => DirectoryOrigin::AsLeft,
            },
            instance_node_name: self.instance_node_name,
            unknown_keys: UnknownKeys::from_strict_flag(self.strict_config),
            periods: Periods {
                config_update: self.sources.config_update,
                nodes_update: self.sources.nodes_update,
                nodes_retry: self.sources.nodes_retry,
            },
            timeouts: workers.timeouts(),
            allow_bump_unhealthy_worker: workers.allow_bump_unhealthy_worker,
            startup_wait: workers.caution_startup_wait_for_workers,
            call_timeouts: rpc::CallTimeouts {
                connect: workers.thrift_connect_timeout,
                send: workers.thrift_send_timeout,
                receive: workers.thrift_receive_timeout,
            },
            work: self.work.policy(),
            retention: Retention {
                missing_for: self.retention.keep_missing_for,
                max_missing: self.retention.keep_missing_count,
            },
            files_capacity: self.files_capacity,
            slots: self.artifact_slots,
            answered_folder: Some(SHARED_MEMORY.into()),
            ..StartOptions::new(self.data_dir, ConfigSource::File(self.config))
        })
    }
}

impl WorkerFlags {
    fn timeouts(&self) -> Timeouts {
        Timeouts {
            heartbeat_grace_period: self.heartbeat_grace_period,
            healthcheck_period: self.healthcheck_period,
            healthcheck_grace_period: self.healthcheck_grace_period,
            lose_unhealthy_worker_after: self.lose_unhealthy_worker_after,
            worker_check_interval: self.worker_check_interval,
            unsure_if_running_check_initial_period: self.unsure_if_running_check_initial_period,
            suicide_backoff_safety_margin: self.caution_worker_suicide_backoff_safety_margin,
            suicide_task_kill_wait: self.caution_worker_suicide_task_kill_wait,
        }
    }
}

impl WorkFlags {
    fn policy(&self) -> RequestPolicy {
        RequestPolicy {
            min_request_interval: self.work_request_interval,
            max_requests_per_second: self.work_requests_per_second,
            tasks_per_processor: self.work_tasks_per_processor.into(),
            deadlines: match self.work_deadlines {
                WorkDeadlines::Simulate => DeadlineRule::Simulated,
                WorkDeadlines::Delay => DeadlineRule::Delayed,
            },
            ..RequestPolicy::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start::FILES_CAPACITY;
    use clap::CommandFactory;

    fn parse(extra: &[&str]) -> Result<Flags, String> {
        let base = [
            "brasserie-scheduler",
            "--config",
            "c.json",
            "--data-dir",
            "d",
        ];
        Flags::try_parse_from(base.iter().chain(extra)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_command_line_is_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn defaults_are_the_protocols() {
        let options = parse(&[]).unwrap().into_options().unwrap();
        assert_eq!(options.timeouts, Timeouts::default());
        assert_eq!(options.call_timeouts, rpc::CallTimeouts::DEFAULT);
        assert_eq!(options.periods, Periods::default());
        assert_eq!(options.files_capacity, FILES_CAPACITY);
        assert_eq!(options.slots, SlotStrategy::RoundRobin);
        assert_eq!(options.work, RequestPolicy::default());
        assert_eq!(options.listen.socket().port(), 6789);
        assert_eq!(options.http_listen.unwrap().socket().port(), 6790);
        assert_eq!(
            (options.new_cluster, options.startup_wait),
            (NewCluster::No, None)
        );
    }

    #[test]
    fn the_audit_log_is_not_longer_than_pages_can_show() {
        let keep = |size: &str| parse(&["--audit-keep", size]).map(|flags| flags.audit_keep);
        assert_eq!(keep("1GiB"), Ok(1 << 30));
        for size in ["1025MiB", "2GiB", "1000000T"] {
            let error = keep(size).unwrap_err();
            assert!(error.contains("1024 MiB at most"), "{error}");
        }
    }

    #[test]
    fn other_networks_get_an_authority() {
        let of = |flags: &[&str]| {
            let options = parse(flags).unwrap().into_options();
            options
                .map(|options| (options.authority_creation, options.plain_peers))
                .map_err(|e| e.to_string())
        };
        let (wide, pages) = (["--listen", "0.0.0.0:1"], ["--http-listen", "[::]:2"]);
        let strangers = PlainPeers::Strangers;
        assert_eq!(of(&[]), Ok((AuthorityCreation::Never, strangers)));
        assert_eq!(of(&wide), Ok((AuthorityCreation::IfMissing, strangers)));
        let bistro = [wide[0], wide[1], "--plain-loopback"];
        assert_eq!(
            of(&bistro),
            Ok((AuthorityCreation::IfMissing, PlainPeers::Loopback))
        );
        assert_eq!(of(&pages), Ok((AuthorityCreation::IfMissing, strangers)));
        let open = ["--insecure-network", wide[0], wide[1], pages[0], pages[1]];
        assert_eq!(of(&open), Ok((AuthorityCreation::Never, PlainPeers::All)));
    }

    #[test]
    fn a_restored_backup_waits_and_nothing_else_is_said_about_waiting() {
        let flag = "--after-restoring-a-backup";
        let options = parse(&[flag]).unwrap().into_options().unwrap();
        assert_eq!(options.directory, DirectoryOrigin::RestoredFromBackup);
        for other in ["--new-cluster", "--caution-startup-wait-for-workers=1s"] {
            let error = parse(&[flag, other]).unwrap_err();
            assert!(error.contains("cannot be used with"), "{error}");
        }
    }

    #[test]
    fn requests_for_work_may_be_met_otherwise() {
        let flags = [
            "--work-request-interval=0",
            "--work-requests-per-second=0",
            "--work-tasks-per-processor=10",
            "--work-deadlines=delay",
        ];
        let options = parse(&flags).unwrap().into_options().unwrap();
        let expected = RequestPolicy {
            min_request_interval: Duration::ZERO,
            max_requests_per_second: 0,
            tasks_per_processor: 10.0,
            deadlines: DeadlineRule::Delayed,
            ..RequestPolicy::default()
        };
        assert_eq!(options.work, expected);
    }

    #[test]
    fn strictness_is_asked_for() {
        let of = |flags: &[&str]| parse(flags).unwrap().into_options().unwrap().unknown_keys;
        assert_eq!(of(&[]), UnknownKeys::Warn);
        assert_eq!(of(&["--strict-config"]), UnknownKeys::Refuse);
    }

    #[test]
    fn bad_values_are_explained() {
        for (flag, value, expected) in [
            ("--heartbeat-grace-period", "500ms", "at least 1s"),
            ("--nodes-update", "0", "longer than zero"),
            ("--nodes-update", "soon", "is no duration"),
            ("--lose-unhealthy-worker-after", "9999d", "at most 365d"),
            (
                "--caution-worker-suicide-task-kill-wait",
                "0s",
                "at least 1ms",
            ),
            ("--listen", "example.org:1", "no ADDR:PORT"),
            ("--work-request-interval", "often", "is no duration"),
            ("--work-request-interval", "48h", "at most 47h"),
            ("--work-requests-per-second", "many", "invalid digit"),
            (
                "--work-tasks-per-processor",
                "0",
                "a number from 1 to 131072",
            ),
            ("--work-deadlines", "never", "simulate, delay"),
        ] {
            let error = parse(&[flag, value]).unwrap_err();
            assert!(error.contains(flag) && error.contains(expected), "{error}");
        }
        let flags = parse(&[
            "--caution-worker-suicide-task-kill-wait",
            "500ms",
            "--new-cluster",
        ])
        .unwrap();
        let options = flags.into_options().unwrap();
        assert_eq!(
            options.timeouts.suicide_task_kill_wait,
            Duration::from_millis(500)
        );
        assert_eq!(options.new_cluster, NewCluster::Yes);
    }
}
