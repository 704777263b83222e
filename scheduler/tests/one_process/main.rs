//! Tests a whole scheduler in one process with fake workers, over real Thrift, HTTP, files and SQLite.

#![expect(
    clippy::unwrap_used,
    reason = "a helper that cannot set up a test's world fails the test there"
)]

mod answers;
mod artifacts;
mod batches;
mod durability;
mod http;
mod jobs;
mod orphans;
mod plans;
mod refused_file;
mod starting;
mod syncs;
mod work;
mod worker;

use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_scheduler::{ConfigSource, NewCluster, SchedulerHandle, StartOptions, start};
use brasserie_scheduler_core::{Answer, ClusterStatus, Query};
use brasserie_thrift::rpc::{CallResult, ClientConfig, ClientPool, PeerAddr};
use thrift::protocol::TSerializable;

/// Long enough for a slow machine. A test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with a config file and a data directory.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Place {
            folder: tempfile::tempdir().unwrap(),
        };
        let config = r#"{
            "bistro_settings": {
                "nodes": {
                    "levels": ["host", "db"],
                    "node_sources": [{"source": "manual", "prefs": {"h1": ["a", "b"], "h2": "c"}}]
                },
                "resources": {"worker": {"slots": {"default": 1, "limit": 2}}},
                "backoff": [1, "fail"]
            },
            "bistro_job->copy": {"owner": "ann", "command": ["copy"]},
            "bistro_job->check": {"depends_on": ["copy"], "command": ["check"]}
        }"#;
        std::fs::write(place.config(), config).unwrap();
        place
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("jobs.json")
    }

    fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn store(&self) -> PathBuf {
        self.data_dir().join("state.sqlite3")
    }

    fn options(&self) -> StartOptions {
        StartOptions {
            new_cluster: NewCluster::IfUnused,
            instance_node_name: Some("top".to_owned()),
            ..StartOptions::new(self.data_dir(), ConfigSource::File(self.config()))
        }
    }

    async fn start(&self) -> SchedulerHandle {
        start(self.options()).await.unwrap()
    }
}

async fn status(scheduler: &SchedulerHandle) -> ClusterStatus {
    match scheduler.query(Query::Status).await.unwrap() {
        Answer::Status(status) => *status,
        other => panic!("{other:?}"),
    }
}

/// Polls until the condition holds. Each poll takes a turn of the driver.
async fn until(scheduler: &SchedulerHandle, what: &str, is_so: impl Fn(&ClusterStatus) -> bool) {
    let looking = async {
        while !is_so(&status(scheduler).await) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(PATIENCE, looking).await.is_err() {
        panic!("not {what}: {:#?}", status(scheduler).await);
    }
}

fn all_settled(status: &ClusterStatus) -> bool {
    status.nodes_loaded && status.jobs.iter().all(|job| job.settled)
}

/// A client that calls one scheduler.
struct Client {
    pool: ClientPool,
    peer: PeerAddr,
}

impl Client {
    fn of(scheduler: &SchedulerHandle) -> Self {
        Client {
            pool: ClientPool::new(ClientConfig::default()),
            peer: scheduler.thrift_address().into(),
        }
    }

    async fn try_call<A: TSerializable, R: TSerializable + Send>(
        &self,
        method: &'static str,
        args: &A,
    ) -> CallResult<R> {
        self.pool.call(&self.peer, method, args).await
    }

    async fn call<A: TSerializable, R: TSerializable + Send>(
        &self,
        method: &'static str,
        args: &A,
    ) -> R {
        match self.try_call(method, args).await {
            CallResult::Done(result) => result,
            CallResult::NotSent(why) => panic!("{method}: {why}"),
            CallResult::Unknown(why) => panic!("{method}: {why}"),
        }
    }

    /// Returns the text of the exception that the method does not declare.
    async fn refusal<A: TSerializable, R: TSerializable + Send>(
        &self,
        method: &'static str,
        args: &A,
    ) -> String {
        match self.try_call::<A, R>(method, args).await {
            CallResult::Done(_) => panic!("{method} was not refused"),
            CallResult::NotSent(why) => panic!("{method}: {why}"),
            CallResult::Unknown(why) => why.to_string(),
        }
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}
