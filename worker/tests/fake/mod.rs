//! A minimal scheduler that speaks real Thrift, and a worker program started for it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use brasserie_thrift::generated::common::{
    BackoffDuration, BistroInstanceID, BistroWorker, KillRequest, RunningTask,
    SchedulerHeartbeatResponse, TaskSubprocessOptions, WorkerSetID,
};
use brasserie_thrift::generated::scheduler::{
    ArtifactsAnswer, ArtifactsReport, BistroSchedulerProcessHeartbeatArgs,
    BistroSchedulerProcessHeartbeatResult, BistroSchedulerReportArtifactsArgs,
    BistroSchedulerReportArtifactsResult, BistroSchedulerUpdateStatusArgs,
    BistroSchedulerUpdateStatusResult,
};
use brasserie_thrift::generated::worker::{
    BistroWorkerGetRunningTasksArgs, BistroWorkerGetRunningTasksResult, BistroWorkerKillTaskArgs,
    BistroWorkerKillTaskResult, BistroWorkerRequestSuicideArgs, BistroWorkerRequestSuicideResult,
    BistroWorkerRunTaskArgs, RunTaskAnswer,
};
use brasserie_thrift::rpc::{
    CallResult, ClientConfig, ClientPool, IncomingCall, Limits, PeerAddr, Server, ServerHandle,
    Service,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use thrift::ApplicationErrorKind;
use thrift::protocol::TSerializable;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Longer than any of these tests takes, even on a very busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Whether these tests run workers without a PID namespace; the same file is built once more for them.
pub const IN_GROUPS: bool = matches!(env!("CARGO_CRATE_NAME").as_bytes(), b"program_in_groups");
const NEW: i32 = 0;
const HEALTHY: i32 = 1;
pub const MUST_DIE: i32 = 3;
const HEALTHCHECK: &str = "__BISTRO_HEALTH_CHECK__";

/// The received calls, and the scheduler's answers.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    pub heartbeats: Vec<BistroWorker>,
    pub statuses: Vec<BistroSchedulerUpdateStatusArgs>,
    /// The number of statuses to answer with an exception before others are accepted.
    pub statuses_to_refuse: usize,
    pub worker_state: i32,
    pub reports: Vec<ArtifactsReport>,
    /// The answer to reports of artifacts; `None`: the scheduler does not know the call.
    pub artifacts: Option<ArtifactsAnswer>,
    /// The heartbeat's grace period and the loss time in seconds; `None`: long ones.
    pub short_times: Option<(i32, i32)>,
}

#[derive(Clone)]
struct FakeService {
    scene: Arc<watch::Sender<Scene>>,
    id: BistroInstanceID,
}

impl Service for FakeService {
    fn call(&self, call: IncomingCall<'_>) {
        match call.method() {
            "processHeartbeat" => {
                call.serve(|args: BistroSchedulerProcessHeartbeatArgs, responder| {
                    let (mut state, mut times) = (NEW, None);
                    self.scene.send_modify(|scene| {
                        scene.heartbeats.push(args.w);
                        (state, times) = (scene.worker_state, scene.short_times);
                    });
                    responder.reply(&BistroSchedulerProcessHeartbeatResult {
                        result_value: Some(self.response(state, times)),
                    });
                });
            }
            "updateStatus" => call.serve(|args: BistroSchedulerUpdateStatusArgs, responder| {
                let mut refuse = false;
                self.scene.send_modify(|scene| {
                    if args.running_task.job.as_deref() == Some(HEALTHCHECK) {
                        scene.worker_state = HEALTHY;
                    }
                    scene.statuses.push(args);
                    refuse = scene.statuses_to_refuse > 0;
                    scene.statuses_to_refuse = scene.statuses_to_refuse.saturating_sub(1);
                });
                match refuse {
                    true => responder.exception(ApplicationErrorKind::InternalError, "not now"),
                    false => responder.reply(&BistroSchedulerUpdateStatusResult {}),
                }
            }),
            "reportArtifacts" if self.scene.borrow().artifacts.is_some() => {
                call.serve(|args: BistroSchedulerReportArtifactsArgs, responder| {
                    let mut answer = None;
                    self.scene.send_modify(|scene| {
                        scene.reports.push(args.report);
                        answer.clone_from(&scene.artifacts);
                    });
                    responder.reply(&BistroSchedulerReportArtifactsResult {
                        result_value: answer,
                    });
                });
            }
            _ => call.unknown_method(),
        }
    }
}

impl FakeService {
    fn response(
        &self,
        worker_state: i32,
        short_times: Option<(i32, i32)>,
    ) -> SchedulerHeartbeatResponse {
        let (grace, loss) = short_times.unwrap_or((600, 600));
        SchedulerHeartbeatResponse {
            id: Some(self.id.clone()),
            max_healthcheck_gap: Some(600),
            heartbeat_grace_period: Some(grace),
            lose_unhealthy_worker_after: Some(loss),
            worker_check_interval: Some(1),
            worker_state: Some(worker_state),
            protocol_version: Some(2),
            worker_set_id: Some(WorkerSetID {
                scheduler_id: Some(self.id.clone()),
                ..WorkerSetID::default()
            }),
            not_healthy_for_ms: None,
            work_verdict: None,
            request_delay_sec: None,
            why_must_die: None,
            uses_artifacts: None,
        }
    }
}

/// The scheduler and its worker.
pub struct Stage {
    program: Program,
    pub scene: watch::Receiver<Scene>,
    set: Arc<watch::Sender<Scene>>,
    scheduler: BistroInstanceID,
    pool: ClientPool,
    /// Absent while the scheduler restarts.
    server: Option<Running>,
    invocations: i64,
}

/// The worker's keeper. A failing test leaves no worker behind.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // A process that was waited for has ended, and its id may be another process's.
        if let Ok(None) = self.0.try_wait() {
            let keeper = Pid::from_raw(i32::try_from(self.0.id()).expect("an id"));
            // The process may have ended by now.
            let _ = kill(keeper, Signal::SIGTERM);
        }
    }
}

/// The scheduler's port, closed when this is dropped.
struct Running {
    handle: ServerHandle,
    _stop: DropGuard,
}

impl Running {
    async fn open(
        address: SocketAddr,
        id: &BistroInstanceID,
        scene: &Arc<watch::Sender<Scene>>,
    ) -> Running {
        let service = FakeService {
            scene: Arc::clone(scene),
            id: id.clone(),
        };
        let server = Server::bind(address).await.expect("a port");
        let stop = CancellationToken::new();
        Running {
            handle: server.serve(service, Limits::DEFAULT, stop.clone()),
            _stop: stop.drop_guard(),
        }
    }
}

impl Stage {
    /// Starts both, without waiting for the worker's first call.
    pub async fn open(data_dir: &Path, flags: &[&str]) -> Stage {
        let id = BistroInstanceID {
            start_time: Some(1_700_000_000),
            rand: Some(42),
        };
        let (set, scene) = watch::channel(Scene::default());
        let set = Arc::new(set);
        let any = "127.0.0.1:0".parse().expect("an address");
        let server = Running::open(any, &id, &set).await;
        let address = server.handle.local_addr();
        let program = worker_program(&address.to_string(), data_dir, flags)
            .spawn()
            .expect("the worker starts");
        Stage {
            program: Program(program),
            scene,
            set,
            scheduler: id,
            pool: ClientPool::new(ClientConfig::default()),
            server: Some(server),
            invocations: 0,
        }
    }

    /// Ends the scheduler, which closes its port and its connections.
    pub async fn stop(&mut self) -> SocketAddr {
        let Running { handle, _stop } = self.server.take().expect("it runs");
        let address = handle.local_addr();
        handle.shutdown().await;
        address
    }

    /// Starts a later instance of the scheduler at the same address.
    pub async fn start_again(&mut self, address: SocketAddr) {
        self.scheduler.start_time = self.scheduler.start_time.map(|time| time + 1);
        self.change(|scene| scene.worker_state = NEW);
        self.server = Some(Running::open(address, &self.scheduler, &self.set).await);
    }

    pub fn change(&self, change: impl FnOnce(&mut Scene)) {
        self.set.send_modify(change);
    }

    /// Waits until the received calls satisfy a condition.
    pub async fn until(&mut self, what: &str, is_so: impl FnMut(&Scene) -> bool) -> Scene {
        let found = timeout(PATIENCE, self.scene.wait_for(is_so))
            .await
            .map(|scene| {
                // The scene is cloned at once, because the borrow locks it.
                scene.expect("the sender lives").clone()
            });
        found.unwrap_or_else(|_| panic!("no {what} in {PATIENCE:?}: {:?}", *self.scene.borrow()))
    }

    pub async fn worker(&mut self) -> BistroWorker {
        let scene = self
            .until("heartbeat", |scene| !scene.heartbeats.is_empty())
            .await;
        scene.heartbeats.last().expect("one at least").clone()
    }

    pub async fn call<A: TSerializable, R: TSerializable + Send>(
        &mut self,
        method: &'static str,
        arguments: &A,
    ) -> CallResult<R> {
        let address = self.worker().await.addr.expect("an address");
        let port = u16::try_from(address.port.expect("a port")).expect("a port");
        let peer = PeerAddr::new(&address.ip_or_host.expect("a host"), port);
        self.pool.call(&peer, method, arguments).await
    }

    /// Returns the worker's running tasks, and binds the worker to this scheduler.
    pub async fn fetch(&mut self) -> Vec<RunningTask> {
        let worker = self.worker().await.id.expect("an id");
        let running: CallResult<BistroWorkerGetRunningTasksResult> = self
            .call(
                "getRunningTasks",
                &BistroWorkerGetRunningTasksArgs {
                    worker,
                    scheduler: Some(self.scheduler.clone()),
                },
            )
            .await;
        let CallResult::Done(result) = running else {
            panic!("{running:?}")
        };
        result.result_value.expect("a list")
    }

    /// Does everything that a scheduler does before it may start tasks.
    pub async fn join(&mut self) {
        self.check_health().await;
        let count = self.scene.borrow().heartbeats.len();
        // The acknowledged healthcheck triggers a heartbeat at once, and the next period passes soon. When that second heartbeat arrives,
        // the worker has read the state.
        self.until("heartbeats after joining", |scene| {
            scene.heartbeats.len() >= count + 2
        })
        .await;
    }

    /// Does all of it, except waiting until the worker knows that it is HEALTHY.
    pub async fn check_health(&mut self) {
        assert_eq!(self.fetch().await, []);
        let check = self.task(HEALTHCHECK, "__NEW_WORKER__");
        self.run(&check, "echo done > $2")
            .await
            .expect("a healthcheck runs at any time");
        self.until("healthcheck", |scene| scene.worker_state == HEALTHY)
            .await;
    }

    /// Returns a task with a new invocation.
    pub fn task(&mut self, job: &str, node: &str) -> RunningTask {
        self.invocations += 1;
        RunningTask {
            job: Some(job.to_owned()),
            node: Some(node.to_owned()),
            node_resources: Some(Vec::new()),
            worker_shard: Some("shard".to_owned()),
            invocation_id: Some(BistroInstanceID {
                start_time: Some(1_700_000_000),
                rand: Some(self.invocations),
            }),
            next_backoff_duration: Some(BackoffDuration {
                no_more_backoffs: false,
                seconds: 1,
                times: None,
            }),
            worker_suicide_task_kill_wait_ms: Some(100),
            ..RunningTask::default()
        }
    }

    /// Starts `sh -c script`, with the node in `$1` and the status path in `$2`. Errors with the text of a refusal.
    pub async fn run(&mut self, task: &RunningTask, script: &str) -> Result<(), String> {
        let command = ["/bin/sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        self.run_command(task, command).await
    }

    pub async fn run_command(
        &mut self,
        task: &RunningTask,
        command: Vec<String>,
    ) -> Result<(), String> {
        self.run_with(task, command, TaskSubprocessOptions::default())
            .await
    }

    pub async fn run_with(
        &mut self,
        task: &RunningTask,
        command: Vec<String>,
        opts: TaskSubprocessOptions,
    ) -> Result<(), String> {
        match self.start(task, command, opts).await.ex {
            None => Ok(()),
            Some(refusal) => Err(refusal.message.unwrap_or_default()),
        }
    }

    /// Sends `runTask`, and returns the whole answer.
    pub async fn start(
        &mut self,
        task: &RunningTask,
        command: Vec<String>,
        opts: TaskSubprocessOptions,
    ) -> RunTaskAnswer {
        let worker = self.worker().await.id.expect("an id");
        let arguments = BistroWorkerRunTaskArgs {
            rt: task.clone(),
            config: "{}".to_owned(),
            command,
            scheduler: self.scheduler.clone(),
            worker,
            notify_if_tasks_not_running_sequence_num: 0,
            opts,
        };
        match self.call("runTask", &arguments).await {
            CallResult::Done(answer) => answer,
            failed => panic!("{failed:?}"),
        }
    }

    pub async fn kill(&mut self, task: &RunningTask, request: KillRequest) -> Option<String> {
        let arguments = BistroWorkerKillTaskArgs {
            rt: task.clone(),
            scheduler: self.scheduler.clone(),
            worker: self.worker().await.id.expect("an id"),
            req: request,
        };
        let result: CallResult<BistroWorkerKillTaskResult> =
            self.call("killTask", &arguments).await;
        let CallResult::Done(result) = result else {
            panic!("{result:?}")
        };
        result.ex.map(|refusal| refusal.message.unwrap_or_default())
    }

    pub async fn request_suicide(&mut self) {
        let arguments = BistroWorkerRequestSuicideArgs {
            reason: Some("it was lost".to_owned()),
            scheduler: self.scheduler.clone(),
            worker: self.worker().await.id.expect("an id"),
        };
        let result: CallResult<BistroWorkerRequestSuicideResult> =
            self.call("requestSuicide", &arguments).await;
        let CallResult::Done(result) = result else {
            panic!("{result:?}")
        };
        assert_eq!(result.ex, None);
    }

    /// Waits for the end of this run and returns its last status.
    pub async fn end_of(&mut self, task: &RunningTask) -> String {
        self.last_update(task).await.status
    }

    /// Waits for the end of this run and returns its last report.
    pub async fn last_update(&mut self, task: &RunningTask) -> BistroSchedulerUpdateStatusArgs {
        let invocation = task.invocation_id.clone();
        let is_it = move |args: &BistroSchedulerUpdateStatusArgs| {
            args.running_task.invocation_id == invocation
        };
        let scene = self
            .until("status", |scene| scene.statuses.iter().any(&is_it))
            .await;
        let found = scene.statuses.iter().rev().find(|args| is_it(args));
        found.expect("it is there").clone()
    }

    /// Returns the keeper, which is the visible program.
    pub fn keeper(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.program.0.id()).expect("an id"))
    }

    /// Returns the worker itself, the keeper's only child while no task has been orphaned.
    pub fn worker_process(&self) -> Pid {
        let children = children_of(self.keeper());
        assert_eq!(children.len(), 1, "{children:?}");
        children[0]
    }

    /// Returns whether the worker has a PID namespace of its own.
    pub fn is_contained(&self) -> bool {
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid"));
        let of_worker = namespace(&self.worker_process().to_string());
        of_worker.expect("it lives") != namespace("self").expect("so do we")
    }

    /// Waits for the program's end.
    pub async fn code(mut self) -> Option<i32> {
        let ended =
            tokio::task::spawn_blocking(move || self.program.0.wait().map(|status| status.code()));
        let code = timeout(PATIENCE, ended).await.expect("it ends in time");
        code.expect("no panic")
            .expect("it was not waited for before")
    }
}

pub fn worker_program(scheduler: &str, data_dir: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brasserie-worker"));
    if !flags.contains(&"--heartbeat-period") {
        command.args(["--heartbeat-period", "1s"]);
    }
    if IN_GROUPS {
        command.args(["--contain", "process-groups"]);
    }
    command
        .args(["--scheduler", scheduler, "--shard", "shard"])
        .arg("--data-dir")
        .arg(data_dir)
        .args(flags)
        .stdin(Stdio::null());
    command
}

pub fn children_of(parent: Pid) -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc").expect("/proc");
    let ids = tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_ascii_whitespace().nth(1) == Some(&parent.to_string())
    };
    ids.map(Pid::from_raw).filter(is_child).collect()
}

pub fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|text| !text.contains(") Z "))
}

/// Waits until a living task has written its process id in its working directory. Returns its number as seen here, which differs if the
/// worker has a PID namespace.
pub async fn pid_in(path: &Path) -> Pid {
    let folder = path.parent().expect("a folder").canonicalize();
    let folder = folder.unwrap_or_else(|_| path.parent().expect("a folder").to_owned());
    let reading = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if let Some(id) = text.strip_suffix('\n')
                && let Some(pid) = find_in(&folder, id)
            {
                return pid;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, reading)
        .await
        .expect("the task writes its id")
}

/// Returns the process with this working directory and this id in its own namespace.
fn find_in(folder: &Path, own_id: &str) -> Option<Pid> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_meant = |pid: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        let last = numbers.and_then(|numbers| numbers.split_ascii_whitespace().last());
        let at = std::fs::read_link(format!("/proc/{pid}/cwd"));
        last == Some(own_id) && at.is_ok_and(|at| at == folder)
    };
    ids.into_iter().find(is_meant).map(Pid::from_raw)
}

pub async fn until_dead(pid: Pid, limit: Duration) {
    let dying = async {
        while is_alive(pid) {
            tokio::task::yield_now().await;
        }
    };
    assert!(
        timeout(limit, dying).await.is_ok(),
        "process {pid} is still alive after {limit:?}"
    );
}
