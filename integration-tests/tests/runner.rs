//! Tests a worker whose tasks are not processes with a real scheduler: every task is completed once, and its completion reaches the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use brasserie_common::{EndedBy, KillRequest, ReportedStatus, Shard, Story};
use brasserie_scheduler::NewCluster;
use brasserie_scheduler::{ConfigSource, StartOptions as SchedulerOptions};
use brasserie_worker::process::{
    KillError, RunKey, RunnerConfig, RunnerStartError, Signalled, SpawnError, SpawnRequest,
    TaskEnd, TaskSink,
};
use brasserie_worker::{ExitReason, Runner, StartOptions, start_with};
use integration_tests::e2e::Client;
use serde_json::json;
use std::sync::Mutex;

/// Number of nodes, one task each. Healthchecks are not run either, but answered.
const NODES: usize = 500;
/// Longer than any wait here, even on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends every task instead of starting it, and counts those of the job.
struct Counting {
    sink: Mutex<Box<dyn TaskSink>>,
    started: Arc<AtomicUsize>,
}

impl Runner for Counting {
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        if request.key.job.as_str() == "nothing" {
            assert_eq!(request.command, ["nothing"]);
            self.started.fetch_add(1, Ordering::SeqCst);
        }
        self.sink.lock().expect("no panic").ended(TaskEnd {
            key: Arc::new(request.key),
            status: ReportedStatus::done(),
            story: Story::exited(0),
            signalled: Signalled::No,
            raw_status: None,
        });
        Ok(())
    }

    fn kill(&self, _key: &RunKey, _request: KillRequest, _by: EndedBy) -> Result<(), KillError> {
        Err(KillError::Unknown)
    }

    fn suspend(&self, _: &RunKey) {}

    fn resume(&self, _: &RunKey) {}

    fn kill_all(&self, _wait: Duration, _by: EndedBy, done: Box<dyn FnOnce() + Send>) {
        done();
    }
}

#[test]
fn tasks_of_another_runner_start_once_and_end_durably() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config.json");
    let text = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": NODES } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 100 } } }
        },
        "bistro_job->nothing": { "owner": "test", "command": ["nothing"], "arguments": "none", "status_from": "exit_code" }
    });
    std::fs::write(&config, text.to_string()).expect("a file in a temporary folder");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be made");
    let started = Arc::new(AtomicUsize::new(0));
    let (scheduler, worker) = runtime.block_on(async {
        let options = SchedulerOptions {
            new_cluster: NewCluster::IfUnused,
            ..SchedulerOptions::new(folder.path().join("scheduler"), ConfigSource::File(config))
        };
        let scheduler = brasserie_scheduler::start(options)
            .await
            .expect("it starts");
        let address = brasserie_common::ServiceAddress {
            host: "127.0.0.1".into(),
            port: scheduler.thrift_address().port(),
        };
        let shard = Shard::try_from("one").expect("a name");
        let options = StartOptions::new(address, shard, folder.path().join("worker"));
        let counter = Arc::clone(&started);
        let runner = move |_: RunnerConfig, sink| -> Result<Box<dyn Runner>, RunnerStartError> {
            Ok(Box::new(Counting {
                sink: Mutex::new(sink),
                started: counter,
            }))
        };
        let worker = start_with(options, Box::new(runner)).await;
        (scheduler, worker.expect("it starts"))
    });
    Client::new(scheduler.thrift_address().port()).wait_all_done();
    assert_eq!(started.load(Ordering::SeqCst), NODES);
    worker.shutdown();
    runtime.block_on(async {
        let ended = tokio::time::timeout(PATIENCE, worker.wait()).await;
        let ended = ended.expect("it ends in time");
        assert_eq!(ended.reason, ExitReason::Shutdown);
        scheduler.shutdown().await.expect("it ends well");
    });
}
