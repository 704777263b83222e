//! The cluster of `brasserie run`: a scheduler in this process, and a worker process under a keeper, as `brasserie-worker` starts it. They
//! communicate over loopback, like any others.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, anyhow};
use brasserie_common_identity::JOIN_TOKEN_VARIABLE;
use brasserie_common_runtime::telemetry;
use brasserie_scheduler::store::UsedBy;
use brasserie_scheduler::{ConfigSource, NewCluster, SchedulerHandle, StartError};
use brasserie_worker::Contain;
use brasserie_worker::process::AllowedUser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};

use super::RunArgs;
use super::settings::RunConfig;
use crate::data_dir;
use crate::failure::Failure;

/// The worker's shard. It is always the same, so that a resumed run takes over its own shard.
const SHARD: &str = "local";
/// The path of this program, valid even if its file was replaced or removed since the start.
const THIS_PROGRAM: &str = "/proc/self/exe";
/// Variables that the worker does not get: those that connect this process to its service manager, and the token for another cluster.
const NOT_FOR_WORKERS: [&str; 4] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    JOIN_TOKEN_VARIABLE,
];

/// The run's flags for its worker.
pub(super) struct WorkerFlags {
    pub worker_command: Option<String>,
    pub nvidia_smi: Option<PathBuf>,
    pub allowed_users: Vec<AllowedUser>,
    pub contain: Contain,
}

impl WorkerFlags {
    pub(super) fn of(args: &RunArgs) -> Self {
        WorkerFlags {
            worker_command: args.worker_command.clone(),
            nvidia_smi: args.nvidia_smi.clone(),
            allowed_users: args.allow_user.clone(),
            contain: args.contain,
        }
    }

    /// Returns the worker's command line.
    fn arguments(self, scheduler: &str, data_dir: PathBuf) -> Vec<OsString> {
        // The tasks of a run get the environment of the shell that started it.
        let fixed = [
            "--of-run",
            "--pass-environment=*",
            "--shard",
            SHARD,
            "--scheduler",
            scheduler,
        ];
        let mut arguments: Vec<OsString> = fixed.map(OsString::from).to_vec();
        arguments.extend(["--data-dir".into(), data_dir.into_os_string()]);
        if let Some(command) = self.worker_command {
            // One argument, because the value may begin with a dash.
            arguments.push(format!("--worker-command={command}").into());
        }
        if let Some(path) = self.nvidia_smi {
            let mut flag = OsString::from("--nvidia-smi=");
            flag.push(path);
            arguments.push(flag);
        }
        arguments.push(format!("--contain={}", self.contain).into());
        let users = self.allowed_users.iter();
        arguments.extend(users.map(|user| format!("--allow-user={user}").into()));
        arguments
    }
}

/// The running scheduler and worker.
pub(super) struct LocalCluster {
    scheduler: SchedulerHandle,
    /// `None` until the worker is started.
    worker: Option<WorkerProcess>,
}

struct WorkerProcess {
    process: Child,
    /// When this pipe is closed, the worker ends its tasks and itself, however this process ends.
    _lifeline: Option<ChildStdin>,
}

impl LocalCluster {
    /// Starts the scheduler without a worker.
    pub(super) async fn start(run: &RunConfig, directory: &Path) -> Result<Self> {
        let folder = run.file.parent().map(PathBuf::from).unwrap_or_default();
        let source = ConfigSource::Given {
            config: run.config.clone(),
            folder,
        };
        let data_dir = data_dir::scheduler_folder(directory);
        let options = brasserie_scheduler::StartOptions {
            new_cluster: NewCluster::IfUnused,
            used_by: UsedBy::Run,
            ..brasserie_scheduler::StartOptions::new(data_dir, source)
        };
        let scheduler = brasserie_scheduler::start(options).await;
        let scheduler = scheduler.map_err(|error| match error {
            StartError::Store(error) => Failure::usage(error.text_for(UsedBy::Run)).into(),
            error => anyhow!(error),
        });
        let scheduler = scheduler.context("cannot start the scheduler of the run")?;
        Ok(LocalCluster {
            scheduler,
            worker: None,
        })
    }

    pub(super) fn scheduler(&self) -> &SchedulerHandle {
        &self.scheduler
    }

    /// Starts the worker process.
    pub(super) fn start_worker(&mut self, directory: &Path, flags: WorkerFlags) -> Result<()> {
        let address = self.scheduler.thrift_address().to_string();
        let mut command = Command::new(THIS_PROGRAM);
        command
            .arg0(brasserie_worker::PROGRAM_NAME)
            .args(flags.arguments(&address, data_dir::worker_folder(directory)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        for variable in NOT_FOR_WORKERS {
            command.env_remove(variable);
        }
        let mut process = command.spawn().context("cannot start the worker")?;
        let _lifeline = process.stdin.take();
        self.worker = Some(WorkerProcess { process, _lifeline });
        Ok(())
    }

    /// Waits until the worker ends by itself, and returns the reason. The worker has printed the details.
    pub(super) async fn worker_ended(&mut self) -> String {
        let Some(worker) = &mut self.worker else {
            return std::future::pending().await;
        };
        match worker.process.wait().await {
            // Exit codes are described in `docs/src/reference/exit-codes.md`.
            Ok(status) => match status.code() {
                Some(0) => "a signal or a drain ended it".to_owned(),
                Some(1) => {
                    "it could not start, its scheduler asked it to exit, or it could not reach the scheduler for too long".to_owned()
                }
                Some(2 | 3) => "it could not start".to_owned(),
                Some(_) | None => format!("{status}"),
            },
            Err(error) => error.to_string(),
        }
    }

    /// Kills the tasks and stops the worker, which reports its exit to the scheduler.
    pub(super) async fn stop_worker(&mut self) {
        // `None` means that the worker has ended and was reaped, so another process may have its id.
        let keeper = self.worker.as_ref().and_then(|worker| worker.process.id());
        let keeper = keeper.and_then(|id| i32::try_from(id).ok());
        if let Some(keeper) = keeper {
            // The process has not been reaped, so it still has this id.
            let _ = kill(Pid::from_raw(keeper), Signal::SIGTERM);
            self.worker_ended().await;
        }
    }

    /// Stops the scheduler. Call it after [`LocalCluster::stop_worker`].
    pub(super) async fn stop_scheduler(self) {
        if let Err(error) = self.scheduler.shutdown().await {
            telemetry::print_error(&format!("brasserie: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worker_understands_its_command_line() {
        use clap::{Parser as _, ValueEnum as _};
        let flags = |contain| WorkerFlags {
            worker_command: Some("-x y".to_owned()),
            nvidia_smi: Some("/usr/bin/nvidia-smi".into()),
            allowed_users: vec![
                AllowedUser::parse("ann:g,h").expect("a user"),
                AllowedUser::parse("1000").expect("a user"),
            ],
            contain,
        };
        let understood = |contain| {
            let arguments = flags(contain).arguments("[::1]:6789", "/a folder".into());
            let line = [OsString::from("brasserie-worker")]
                .into_iter()
                .chain(arguments);
            brasserie_worker::config::Cli::try_parse_from(line).expect("understood")
        };
        for contain in Contain::value_variants() {
            assert_eq!(understood(*contain).contain(), *contain);
        }
        let options = understood(Contain::Auto);
        let options = options.into_options(None).expect("usable");
        assert_eq!(options.started_by, brasserie_worker::StartedBy::Run);
        assert_eq!(options.worker_command.as_deref(), Some("-x y"));
        assert_eq!(options.allowed_users.len(), 2);
        assert_eq!(options.data_dir, Path::new("/a folder"));
    }
}
