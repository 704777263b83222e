//! Asks a scheduler, for threads that can wait.

use std::time::Duration;

use brasserie_thrift::generated::brasserie::{
    BrasserieGetClusterStatusArgs, BrasserieGetClusterStatusResult, ClusterStatus, JobStatus,
    WorkerStatus,
};
use brasserie_thrift::rpc::{ClientConfig, ClientPool, PeerAddr};
use tokio::runtime::Runtime;

use super::{wait_for, wait_within};

/// A connection to a scheduler that may not be up yet, or be killed meanwhile.
pub struct Client {
    runtime: Runtime,
    pool: ClientPool,
    peer: PeerAddr,
}

impl Client {
    /// # Panics
    /// When no runtime can be made.
    pub fn new(port: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Client {
            runtime: runtime.expect("a runtime can be made"),
            pool: ClientPool::new(ClientConfig::default()),
            peer: PeerAddr::new("127.0.0.1", port),
        }
    }

    /// What the scheduler says; `None` while it cannot be asked.
    pub fn status(&self) -> Option<ClusterStatus> {
        self.runtime.block_on(async {
            let call = self.pool.call(
                &self.peer,
                "getClusterStatus",
                &BrasserieGetClusterStatusArgs {},
            );
            let result: BrasserieGetClusterStatusResult = call.await.into_result().ok()?;
            result.result_value
        })
    }

    /// Waits until the scheduler's status is as wanted.
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
        wait_for(what, || self.status().filter(&wanted))
    }

    /// As [`Client::wait_until`], with another deadline.
    pub fn wait_until_within(
        &self,
        patience: Duration,
        what: &str,
        wanted: impl Fn(&ClusterStatus) -> bool,
    ) -> ClusterStatus {
        wait_within(patience, what, || self.status().filter(&wanted))
    }

    /// Waits until every task of every job is done.
    pub fn wait_all_done(&self) -> ClusterStatus {
        self.wait_until("all tasks to be done", |status| {
            let mut jobs = status.jobs.iter().flatten().peekable();
            jobs.peek().is_some() && status.nodes_loaded == Some(true) && jobs.all(all_done)
        })
    }

    /// Waits until so many workers are healthy.
    pub fn wait_healthy(&self, count: usize) -> ClusterStatus {
        self.wait_until(&format!("{count} healthy workers"), |status| {
            status
                .workers
                .iter()
                .flatten()
                .filter(|worker| is_in(worker, "healthy"))
                .count()
                == count
        })
    }
}

fn all_done(job: &JobStatus) -> bool {
    job.total.is_some_and(|total| total > 0) && job.done == job.total && job.settled == Some(true)
}

fn is_in(worker: &WorkerStatus, state: &str) -> bool {
    worker
        .state
        .as_deref()
        .is_some_and(|own| own.eq_ignore_ascii_case(state))
}
