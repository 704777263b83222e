//! The cluster of a run: one scheduler and one worker in this process, talking over loopback like any others.

use std::path::PathBuf;

use anyhow::{Context, Result};
use brasserie_common::{ServiceAddress, Shard};
use brasserie_common_runtime::telemetry;
use brasserie_scheduler::{ConfigSource, NewCluster, SchedulerHandle};
use brasserie_worker::ExitReason;
use brasserie_worker::process::{AllowedUser, PassedEnvironment};
use tokio::task::JoinHandle;

use super::settings::RunConfig;

/// The worker's place in the pool; always the same, so that a resumed run takes over its own shard.
const SHARD: &str = "local";

/// What of the run's flags is the worker's business.
pub(super) struct WorkerFlags {
    pub worker_command: Option<String>,
    pub nvidia_smi: Option<PathBuf>,
    pub allowed_users: Vec<AllowedUser>,
}

/// Both halves at work.
pub(super) struct Cluster {
    scheduler: SchedulerHandle,
    stop_worker: Box<dyn Fn() + Send + Sync>,
    worker: JoinHandle<ExitReason>,
}

impl Cluster {
    pub(super) async fn start(
        run: &RunConfig,
        directory: PathBuf,
        flags: WorkerFlags,
    ) -> Result<Self> {
        let folder = run.file.parent().map(PathBuf::from).unwrap_or_default();
        let source = ConfigSource::Given {
            config: run.config.clone(),
            folder,
        };
        let options = brasserie_scheduler::StartOptions {
            new_cluster: NewCluster::IfUnused,
            ..brasserie_scheduler::StartOptions::new(directory.join("scheduler"), source)
        };
        let scheduler = brasserie_scheduler::start(options)
            .await
            .context("cannot start the scheduler")?;
        let address = scheduler.thrift_address();
        let peer = ServiceAddress {
            host: address.ip().to_string().into(),
            port: address.port(),
        };
        let shard = Shard::try_from(SHARD).expect("Invariant: a constant name is valid");
        let options = brasserie_worker::StartOptions {
            worker_command: flags.worker_command,
            nvidia_smi: flags.nvidia_smi,
            allowed_users: flags.allowed_users,
            // Whoever starts a run by hand means the tasks to see what a shell would let them see.
            pass_environment: PassedEnvironment::Everything,
            ..brasserie_worker::StartOptions::new(peer, shard, directory.join("worker"))
        };
        let worker = brasserie_worker::start(options)
            .await
            .context("cannot start the worker")?;
        Ok(Cluster {
            scheduler,
            stop_worker: Box::new(worker.stopper()),
            worker: tokio::spawn(worker.wait()),
        })
    }

    /// Where the scheduler answers.
    pub(super) fn address(&self) -> String {
        self.scheduler.thrift_address().to_string()
    }

    /// Waits for the worker to end by itself, which it does only when it must; says why.
    pub(super) async fn worker_ended(&mut self) -> String {
        match (&mut self.worker).await {
            Ok(ExitReason::Shutdown) => "it was asked to".to_owned(),
            Ok(ExitReason::SuicideRequested) => "the scheduler asked it to".to_owned(),
            Ok(ExitReason::MustDie) => "it could not reach the scheduler for too long".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// Ends the tasks, then the worker, which says goodbye, then the scheduler.
    pub(super) async fn stop(mut self) {
        if !self.worker.is_finished() {
            (self.stop_worker)();
            self.worker_ended().await;
        }
        if let Err(error) = self.scheduler.shutdown().await {
            telemetry::print_error(&format!("brasserie: {error}"));
        }
    }
}
