//! A fake worker that runs nothing: it joins, passes its healthchecks, accepts every task, and reports the statuses that the test requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_thrift::generated::common::{
    BistroInstanceID, BistroWorker, MachinePortLock, ServiceAddress, SetHash,
    UsablePhysicalResources, WorkerSetHash, WorkerSetID,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerProcessHeartbeatArgs, BistroSchedulerProcessHeartbeatResult,
    BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusResult,
};
use brasserie_thrift::generated::worker::{
    BistroWorkerGetRunningTasksArgs, BistroWorkerGetRunningTasksResult,
    BistroWorkerNotifyIfTasksNotRunningArgs, BistroWorkerNotifyIfTasksNotRunningResult,
    BistroWorkerRunTaskArgs, BistroWorkerRunTaskResult,
};
use brasserie_thrift::rpc::{
    CallResult, ClientConfig, ClientPool, IncomingCall, Limits, PeerAddr, Server, Service,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::e2e::PATIENCE;

/// The highest rate for a worker that is not healthy yet.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(50);

/// A joined worker. Dropping it ends its heartbeats.
pub struct FakeWorker {
    runtime: Runtime,
    started: Receiver<BistroWorkerRunTaskArgs>,
    scheduler: PeerAddr,
    stop: CancellationToken,
}

struct ServedScheduler {
    pool: ClientPool,
    scheduler: PeerAddr,
    started: Sender<BistroWorkerRunTaskArgs>,
    /// The worker set of the last heartbeat's answer, to be sent back.
    worker_set: Mutex<WorkerSetID>,
}

impl FakeWorker {
    /// Starts a worker that joins the scheduler at this port.
    ///
    /// # Panics
    /// If there is no free port.
    pub fn start(scheduler_port: u16, shard: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be made");
        let (sender, started) = mpsc::channel();
        let scheduler = PeerAddr::new("127.0.0.1", scheduler_port);
        let peer = Arc::new(ServedScheduler {
            pool: ClientPool::new(ClientConfig::default()),
            scheduler: scheduler.clone(),
            started: sender,
            worker_set: Mutex::new(empty_set()),
        });
        let stop = CancellationToken::new();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = runtime.block_on(Server::bind(any)).expect("a port is free");
        let description = description(shard, server.local_addr().port());
        let token = stop.clone();
        runtime.spawn(async move {
            let handle = server.serve(FakeCalls(Arc::clone(&peer)), Limits::DEFAULT, token.clone());
            while !token.is_cancelled() {
                peer.heartbeat(&description).await;
                tokio::time::sleep(HEARTBEAT_EVERY).await;
            }
            handle.stopped().await;
        });
        FakeWorker {
            runtime,
            started,
            scheduler,
            stop,
        }
    }

    /// Returns the next task that the scheduler started here.
    ///
    /// # Panics
    /// If no task starts in time.
    pub fn next_task(&self) -> BistroWorkerRunTaskArgs {
        self.started
            .recv_timeout(PATIENCE)
            .expect("the scheduler starts a task here")
    }

    /// Reports the status of a task on a separate connection, and returns the acknowledgement.
    pub fn report(
        &self,
        task: &BistroWorkerRunTaskArgs,
        status: &str,
    ) -> CallResult<BistroSchedulerUpdateStatusResult> {
        let pool = ClientPool::new(ClientConfig::default());
        self.runtime
            .block_on(pool.call(&self.scheduler, "updateStatus", &update(task, status)))
    }
}

impl Drop for FakeWorker {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl ServedScheduler {
    async fn heartbeat(&self, description: &BistroWorker) {
        let set = self
            .worker_set
            .lock()
            .expect("nobody panics with the lock")
            .clone();
        let arguments = BistroSchedulerProcessHeartbeatArgs {
            w: description.clone(),
            worker_set_id: set,
        };
        let call = self
            .pool
            .call(&self.scheduler, "processHeartbeat", &arguments);
        let result: CallResult<BistroSchedulerProcessHeartbeatResult> = call.await;
        // If the scheduler does not answer, the next heartbeat follows soon.
        let set = result
            .into_result()
            .ok()
            .and_then(|r| r.result_value)
            .and_then(|r| r.worker_set_id);
        if let Some(set) = set {
            *self.worker_set.lock().expect("nobody panics with the lock") = set;
        }
    }

    fn run(self: &Arc<Self>, task: BistroWorkerRunTaskArgs) {
        if task.rt.job.as_deref() != Some(HEALTHCHECK_JOB) {
            // The test may have dropped the receiver.
            let _ = self.started.send(task);
            return;
        }
        let peer = Arc::clone(self);
        tokio::spawn(async move {
            let call = peer
                .pool
                .call(&peer.scheduler, "updateStatus", &update(&task, "done"));
            let _: CallResult<BistroSchedulerUpdateStatusResult> = call.await;
        });
    }
}

struct FakeCalls(Arc<ServedScheduler>);

impl Service for FakeCalls {
    fn call(&self, call: IncomingCall<'_>) {
        match call.method() {
            "getRunningTasks" => call.serve(|_: BistroWorkerGetRunningTasksArgs, responder| {
                responder.reply(&BistroWorkerGetRunningTasksResult {
                    result_value: Some(Vec::new()),
                });
            }),
            "runTask" => call.serve(|task: BistroWorkerRunTaskArgs, responder| {
                responder.reply(&BistroWorkerRunTaskResult { ex: None });
                self.0.run(task);
            }),
            "notifyIfTasksNotRunning" => {
                call.serve(|_: BistroWorkerNotifyIfTasksNotRunningArgs, responder| {
                    responder.reply(&BistroWorkerNotifyIfTasksNotRunningResult {});
                })
            }
            _ => call.unknown_method(),
        }
    }
}

fn update(task: &BistroWorkerRunTaskArgs, status: &str) -> BistroSchedulerUpdateStatusArgs {
    BistroSchedulerUpdateStatusArgs {
        running_task: task.rt.clone(),
        status: status.to_owned(),
        scheduler: task.scheduler.clone(),
        worker: task.worker.clone(),
    }
}

fn empty_set() -> WorkerSetID {
    let zero = SetHash {
        add_all: Some(0),
        xor_all: Some(0),
    };
    WorkerSetID {
        scheduler_id: Some(BistroInstanceID {
            start_time: Some(0),
            rand: Some(0),
        }),
        version: Some(0),
        hash: Some(WorkerSetHash {
            start_time: Some(zero.clone()),
            rand: Some(zero),
            num_workers: Some(0),
            digest: None,
        }),
        settled: None,
    }
}

fn description(shard: &str, port: u16) -> BistroWorker {
    BistroWorker {
        shard: Some(shard.to_owned()),
        machine_lock: Some(MachinePortLock {
            hostname: Some("fake".to_owned()),
            port: Some(i32::from(port)),
        }),
        addr: Some(ServiceAddress {
            ip_or_host: Some("127.0.0.1".to_owned()),
            port: Some(i32::from(port)),
        }),
        id: Some(BistroInstanceID {
            start_time: Some(1),
            rand: Some(i64::from(port)),
        }),
        heartbeat_period_sec: Some(1),
        protocol_version: Some(2),
        usable_resources: Some(UsablePhysicalResources::default()),
        work_request: None,
        has_worker_command: Some(true),
        max_tasks: None,
        limited_by: None,
        containment: None,
        log_folder: None,
        takes_standby: None,
        draining: None,
        asks_for_work: None,
        tasks_are_dead: None,
    }
}
