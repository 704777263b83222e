//! Fake workers that run nothing: they join, pass their healthchecks, accept every task, and report the statuses that the test requests.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use brasserie_common::Principal;
use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common_identity::{CertificateDer, server_config};
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerLearnCertificatesArgs, BrasserieWorkerLearnCertificatesResult,
};
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
    Authenticator, CallResult, ClientConfig, ClientPool, IncomingCall, Limits, PeerAddr, Server,
    Service, THRIFT,
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::e2e::{PATIENCE, TestAuthority};

/// The highest rate for a worker that is not healthy yet.
const HEARTBEAT_EVERY: Duration = Duration::from_millis(50);
/// The usual period of workers.
const FLEET_PERIOD: Duration = Duration::from_secs(15);
/// The pause of a fleet's worker after a heartbeat that was not answered.
const FLEET_RETRY: Duration = Duration::from_secs(1);

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

/// Many workers with certificates of one cluster, each with connections of its own, and with the usual heartbeats. Dropping it ends them.
pub struct FakeFleet {
    stop: CancellationToken,
    _runtime: Runtime,
}

impl FakeFleet {
    /// Starts workers with the shards `f0`, `f1` and so on, which join the scheduler at this port.
    ///
    /// # Panics
    /// If there are not enough ports.
    pub fn start(authority: &TestAuthority, scheduler_port: u16, count: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be made");
        let stop = CancellationToken::new();
        for number in 0..count {
            let shard = format!("f{number}");
            let own = authority.worker(&shard);
            let tls = server_config(
                &own,
                &authority
                    .authority()
                    .trusted(brasserie_common_runtime::Clock.wall()),
                THRIFT,
            );
            let authenticator = FleetCertificates(tls.expect("a usable certificate"));
            let (sender, _) = mpsc::channel();
            let peer = Arc::new(ServedScheduler {
                pool: authority.pool(Some(&own)),
                scheduler: authority.scheduler(scheduler_port),
                started: sender,
                worker_set: Mutex::new(empty_set()),
            });
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let server = runtime.block_on(Server::bind(any)).expect("a port is free");
            let server = server.authenticated_by(Arc::new(authenticator));
            runtime.spawn(sail(peer, server, shard, stop.clone()));
        }
        FakeFleet {
            stop,
            _runtime: runtime,
        }
    }
}

impl Drop for FakeFleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Plays one worker of a fleet: it sends heartbeats in the usual period, and at once when the connection is lost, as real workers do.
async fn sail(peer: Arc<ServedScheduler>, server: Server, shard: String, stop: CancellationToken) {
    let period = FLEET_PERIOD;
    let description = BistroWorker {
        heartbeat_period_sec: i32::try_from(period.as_secs()).ok(),
        ..description(&shard, server.local_addr().port())
    };
    let mut losses = peer.pool.losses(&peer.scheduler);
    let handle = server.serve(FakeCalls(Arc::clone(&peer)), Limits::DEFAULT, stop.clone());
    while !stop.is_cancelled() {
        let pause = match peer.heartbeat(&description).await {
            true => period,
            false => FLEET_RETRY,
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = losses.next() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
    handle.stopped().await;
}

/// The callers of a fleet's worker: all that have a certificate may call.
struct FleetCertificates(Arc<rustls::ServerConfig>);

impl Authenticator for FleetCertificates {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(Arc::clone(&self.0))
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        Principal::stranger(from, "it does not use TLS")
    }

    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal {
        match certificates {
            [] => Principal::stranger(from, "it has no certificate"),
            _ => Principal::Unauthenticated(from),
        }
    }
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
    /// Sends a heartbeat, and returns whether it was answered.
    async fn heartbeat(&self, description: &BistroWorker) -> bool {
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
        let is_answered = set.is_some();
        if let Some(set) = set {
            *self.worker_set.lock().expect("nobody panics with the lock") = set;
        }
        is_answered
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
            "learnCertificates" => call.serve(|_: BrasserieWorkerLearnCertificatesArgs, to| {
                to.reply(&BrasserieWorkerLearnCertificatesResult {});
            }),
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
