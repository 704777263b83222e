//! The cluster of a run: one scheduler and one worker in this process, talking over loopback like any others.

use std::path::PathBuf;

use anyhow::{Context, Result};
use brasserie_common::{ServiceAddress, Shard};
use brasserie_scheduler::{ConfigSource, NewCluster, SchedulerHandle};
use brasserie_worker::WorkerHandle;

use super::settings::RunConfig;

/// The worker's place in the pool; always the same, so that a resumed run takes over its own shard.
const SHARD: &str = "local";

/// Both halves at work.
pub(super) struct Cluster {
    scheduler: SchedulerHandle,
    worker: WorkerHandle,
}

impl Cluster {
    pub(super) async fn start(run: &RunConfig, directory: PathBuf, worker_command: Option<String>) -> Result<Self> {
        let folder = run.file.parent().map(PathBuf::from).unwrap_or_default();
        let source = ConfigSource::Given { config: run.config.clone(), folder };
        let options = brasserie_scheduler::StartOptions {
            // Counts in a new directory only; in one with a record the record decides.
            new_cluster: NewCluster::Yes,
            ..brasserie_scheduler::StartOptions::new(directory.join("scheduler"), source)
        };
        let scheduler = brasserie_scheduler::start(options).await.context("cannot start the scheduler")?;
        let address = scheduler.thrift_address();
        let peer = ServiceAddress { host: address.ip().to_string().into(), port: address.port() };
        let shard = Shard::try_from(SHARD).expect("Invariant: a constant name is valid");
        let options = brasserie_worker::StartOptions {
            worker_command,
            ..brasserie_worker::StartOptions::new(peer, shard, directory.join("worker"))
        };
        let worker = brasserie_worker::start(options).await.context("cannot start the worker")?;
        Ok(Cluster { scheduler, worker })
    }

    /// Where the scheduler answers.
    pub(super) fn address(&self) -> String {
        self.scheduler.thrift_address().to_string()
    }

    /// Waits for the worker to end by itself, which it does only when it must; says why.
    pub(super) async fn worker_ended(&self) -> String {
        format!("{:?}", self.worker.ended().await)
    }

    /// Ends the tasks, then the worker, which says goodbye, then the scheduler.
    pub(super) async fn stop(self) {
        self.worker.shutdown();
        self.worker.ended().await;
        if let Err(error) = self.scheduler.shutdown().await {
            eprintln!("brasserie: {error}");
        }
    }
}
