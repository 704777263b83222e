//! A fake worker that runs nothing. It accepts every task, and reports its completion when the test requests that.

use std::sync::Arc;

use brasserie_common::logs::{LineId, LinePart, LogLine, LogPage, LogQuery};
use brasserie_common::{
    JobName, MachinePortLock, NodeName, RunningTask, ServiceAddress, Shard, WorkerDescription,
    WorkerId, WorkerSetId,
};
use brasserie_scheduler::SchedulerHandle;
use brasserie_thrift::convert;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerProcessHeartbeatArgs, BistroSchedulerProcessHeartbeatResult,
    BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusResult,
};
use brasserie_thrift::generated::worker::{
    BistroWorkerGetJobLogsByIDArgs, BistroWorkerGetJobLogsByIDResult,
    BistroWorkerGetRunningTasksArgs, BistroWorkerGetRunningTasksResult, BistroWorkerKillTaskArgs,
    BistroWorkerKillTaskResult, BistroWorkerNotifyIfTasksNotRunningArgs,
    BistroWorkerNotifyIfTasksNotRunningResult, BistroWorkerRunTaskArgs, BistroWorkerRunTaskResult,
};
use brasserie_thrift::rpc::{
    CallResult, ClientConfig, ClientPool, IncomingCall, Limits, PeerAddr, Server, Service,
};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How a fake worker handles tasks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tasks {
    /// The worker reports each task at once, as done.
    EndAtOnce,
    /// The test reports the completions.
    AreLeftToTheTest,
}

pub struct FakeWorker {
    pub shard: &'static str,
    /// Tasks in the order of their starts, without healthchecks.
    pub started: mpsc::UnboundedReceiver<BistroWorkerRunTaskArgs>,
    /// Kill requests in order.
    pub kills: mpsc::UnboundedReceiver<BistroWorkerKillTaskArgs>,
    pub reporter: Reporter,
    _stop: DropGuard,
}

/// Reports completions to the scheduler.
#[derive(Clone)]
pub struct Reporter {
    pool: ClientPool,
    scheduler: PeerAddr,
}

impl Reporter {
    pub async fn report(
        &self,
        run: BistroWorkerRunTaskArgs,
        status: &str,
    ) -> CallResult<BistroSchedulerUpdateStatusResult> {
        let args = BistroSchedulerUpdateStatusArgs {
            running_task: run.rt,
            status: status.to_owned(),
            scheduler: run.scheduler,
            worker: run.worker,
        };
        self.pool.call(&self.scheduler, "updateStatus", &args).await
    }
}

struct WorkerService {
    shard: &'static str,
    tasks: Tasks,
    reporter: Reporter,
    started: mpsc::UnboundedSender<BistroWorkerRunTaskArgs>,
    kills: mpsc::UnboundedSender<BistroWorkerKillTaskArgs>,
}

impl Service for WorkerService {
    fn call(&self, call: IncomingCall<'_>) {
        match call.method() {
            "getRunningTasks" => call.serve(|_: BistroWorkerGetRunningTasksArgs, to| {
                to.reply(&BistroWorkerGetRunningTasksResult {
                    result_value: Some(Vec::new()),
                });
            }),
            "runTask" => call.serve(|run: BistroWorkerRunTaskArgs, to| {
                to.reply(&BistroWorkerRunTaskResult { ex: None });
                let task = RunningTask::try_from(run.rt.clone()).unwrap();
                let ends_at_once = task.is_healthcheck() || self.tasks == Tasks::EndAtOnce;
                if !task.is_healthcheck() {
                    let _ = self.started.send(run.clone());
                }
                if ends_at_once {
                    let reporter = self.reporter.clone();
                    tokio::spawn(async move { reporter.report(run, "done").await });
                }
            }),
            "notifyIfTasksNotRunning" => {
                call.serve(|_: BistroWorkerNotifyIfTasksNotRunningArgs, to| {
                    to.reply(&BistroWorkerNotifyIfTasksNotRunningResult {});
                });
            }
            "killTask" => call.serve(|kill: BistroWorkerKillTaskArgs, to| {
                to.reply(&BistroWorkerKillTaskResult { ex: None });
                let _ = self.kills.send(kill);
            }),
            "getJobLogsByID" => call.serve(|args: BistroWorkerGetJobLogsByIDArgs, to| {
                let query = LogQuery::try_from(args).unwrap();
                assert!(query.limit >= 100);
                let page = LogPage {
                    lines: vec![line(self.shard)],
                    next: None,
                };
                to.reply(&BistroWorkerGetJobLogsByIDResult {
                    result_value: Some(page.into()),
                    ex: None,
                });
            }),
            _ => call.unknown_method(),
        }
    }
}

fn line(shard: &str) -> LogLine {
    LogLine {
        job: JobName::try_from("copy").unwrap(),
        node: NodeName::try_from("a").unwrap(),
        time_secs: 7,
        line: format!("from {shard}\n"),
        id: Some(LineId((7 << 32) + i64::from(shard.as_bytes()[0]))),
        bytes: Some(b"\xff".to_vec()),
        part: LinePart::Continued,
        ..LogLine::default()
    }
}

impl FakeWorker {
    pub async fn start(scheduler: &SchedulerHandle, shard: &'static str, tasks: Tasks) -> Self {
        let reporter = Reporter {
            pool: ClientPool::new(ClientConfig::default()),
            scheduler: scheduler.thrift_address().into(),
        };
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let port = server.local_addr().port();
        let (sender, started) = mpsc::unbounded_channel();
        let (kill_sender, kills) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let service = WorkerService {
            shard,
            tasks,
            reporter: reporter.clone(),
            started: sender,
            kills: kill_sender,
        };
        server.serve(service, Limits::default(), stop.clone());
        let description = WorkerDescription {
            shard: Shard::try_from(shard).unwrap(),
            machine_lock: MachinePortLock {
                hostname: Arc::from("localhost"),
                port: port.into(),
            },
            address: ServiceAddress {
                host: Arc::from("127.0.0.1"),
                port,
            },
            id: WorkerId::new(1_700_000_000, port.into()),
            heartbeat_period: std::time::Duration::from_secs(1),
            protocol_version: brasserie_common::worker::PROTOCOL_VERSION,
            ..WorkerDescription::default()
        };
        tokio::spawn(heartbeats(reporter.clone(), description, stop.clone()));
        FakeWorker {
            shard,
            started,
            kills,
            reporter,
            _stop: stop.drop_guard(),
        }
    }

    pub async fn next_start(&mut self) -> BistroWorkerRunTaskArgs {
        let started = tokio::time::timeout(super::PATIENCE, self.started.recv()).await;
        started
            .unwrap_or_else(|_| panic!("no task comes to {}", self.shard))
            .unwrap()
    }

    pub async fn next_kill(&mut self) -> BistroWorkerKillTaskArgs {
        let kill = tokio::time::timeout(super::PATIENCE, self.kills.recv()).await;
        kill.unwrap_or_else(|_| panic!("nobody is asked to end on {}", self.shard))
            .unwrap()
    }

    /// Returns job and node of all tasks that were started since the last call.
    pub fn all_started(&mut self) -> Vec<(String, String)> {
        std::iter::from_fn(|| self.started.try_recv().ok())
            .map(|run| (run.rt.job.unwrap(), run.rt.node.unwrap()))
            .collect()
    }
}

/// Sends heartbeats at the highest rate for a worker that is not HEALTHY: 20 a second.
async fn heartbeats(reporter: Reporter, worker: WorkerDescription, stop: CancellationToken) {
    let mut set = WorkerSetId::default();
    while !stop.is_cancelled() {
        let args = BistroSchedulerProcessHeartbeatArgs {
            w: worker.clone().into(),
            worker_set_id: set.into(),
        };
        let reply = reporter
            .pool
            .call(&reporter.scheduler, "processHeartbeat", &args)
            .await;
        if let CallResult::Done(BistroSchedulerProcessHeartbeatResult {
            result_value: Some(response),
        }) = reply
        {
            set = convert::parse("set", response.worker_set_id.unwrap()).unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
