//! A blocking client of a scheduler.

use std::time::Duration;

use brasserie_thrift::generated::brasserie::{
    BrasserieGetClusterStatusArgs, BrasserieGetClusterStatusResult, ClusterStatus, JobStatus,
    WorkerStatus,
};
use brasserie_thrift::generated::scheduler::{
    BistroJobConfig, BistroSchedulerDeleteJobArgs, BistroSchedulerDeleteJobResult,
    BistroSchedulerSaveJobArgs, BistroSchedulerSaveJobResult,
};
use brasserie_thrift::rpc::{CallError, ClientConfig, ClientPool, PeerAddr};
use thrift::protocol::TSerializable;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::{wait_for, wait_within};

/// A connection to a scheduler that may not have started yet, or may be killed meanwhile.
pub struct Client {
    runtime: Runtime,
    pool: ClientPool,
    peer: PeerAddr,
}

impl Client {
    /// # Panics
    /// If no runtime can be created.
    pub fn new(port: u16) -> Self {
        let pool = ClientPool::new(ClientConfig::default());
        Client::through(pool, PeerAddr::new("127.0.0.1", port))
    }

    /// Returns a client that uses these connections.
    ///
    /// # Panics
    /// If no runtime can be created.
    pub fn through(pool: ClientPool, peer: PeerAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        Client {
            runtime: runtime.expect("a runtime can be made"),
            pool,
            peer,
        }
    }

    /// Calls any method, with its generated structs.
    ///
    /// # Errors
    /// If there is no answer, or an exception that the method does not declare.
    pub fn call<A, R>(&self, method: &'static str, arguments: &A) -> Result<R, CallError>
    where
        A: TSerializable,
        R: TSerializable + Send,
    {
        let call = self.pool.call(&self.peer, method, arguments);
        self.runtime.block_on(call).into_result()
    }

    /// Returns the scheduler's status; `None` while it does not answer.
    pub fn status(&self) -> Option<ClusterStatus> {
        let arguments = BrasserieGetClusterStatusArgs {};
        let result = self.call("getClusterStatus", &arguments);
        let result: BrasserieGetClusterStatusResult = result.ok()?;
        result.result_value
    }

    /// Calls `saveJob`, which returns once the job is durable.
    ///
    /// # Errors
    /// If the job is refused, or there is no answer.
    pub fn save_job(&self, job: BistroJobConfig) -> Result<(), CallError> {
        let arguments = BistroSchedulerSaveJobArgs { job };
        let saved = self.call("saveJob", &arguments);
        saved.map(|_: BistroSchedulerSaveJobResult| ())
    }

    /// Calls `saveJob` for many jobs, with `at_a_time` calls in flight.
    ///
    /// # Panics
    /// If a job is refused, or there is no answer.
    pub fn save_jobs(&self, jobs: impl Iterator<Item = BistroJobConfig>, at_a_time: usize) {
        self.runtime.block_on(async {
            let mut under_way = JoinSet::new();
            for job in jobs {
                if under_way.len() >= at_a_time
                    && let Some(saved) = under_way.join_next().await
                {
                    saved.expect("every job is taken");
                }
                let arguments = BistroSchedulerSaveJobArgs { job };
                let call = self.pool.call(&self.peer, "saveJob", &arguments);
                under_way.spawn(async {
                    let saved = call.await.into_result();
                    let _: BistroSchedulerSaveJobResult = saved.expect("a good job is taken");
                });
            }
            under_way.join_all().await;
        });
    }

    /// Calls `deleteJob`, which returns once the deletion is durable.
    ///
    /// # Errors
    /// If there is no answer.
    ///
    /// # Panics
    /// If the scheduler does not know the job.
    pub fn delete_job(&self, name: &str) -> Result<(), CallError> {
        let job_name = name.to_owned();
        let arguments = BistroSchedulerDeleteJobArgs { job_name };
        let deleted = self.call("deleteJob", &arguments);
        let deleted: BistroSchedulerDeleteJobResult = deleted?;
        assert_eq!(deleted.ex, None, "{name} was to be deleted");
        Ok(())
    }

    /// Waits until the scheduler's status satisfies the condition.
    pub fn wait_until(&self, what: &str, wanted: impl Fn(&ClusterStatus) -> bool) -> ClusterStatus {
        wait_for(what, || self.status().filter(&wanted))
    }

    /// Waits like [`Client::wait_until`], with another deadline.
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

    /// Waits until exactly `count` workers are healthy.
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
