//! Measures tasks without processes: the cost of scheduler, protocol, store and worker alone. The scheduler is the real program. The worker
//! is the real one except for its runner, which exists only here.

use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use brasserie_common::{EndedBy, KillRequest, ReportedStatus, Story};
use brasserie_common_runtime::{LogFormat, Verbosity, telemetry};
use brasserie_worker::config::Cli;
use brasserie_worker::process::{
    KillError, RunKey, RunnerConfig, RunnerStartError, Signalled, SpawnError, SpawnRequest,
    TaskEnd, TaskSink,
};
use brasserie_worker::{Runner, start_with};
use integration_tests::e2e::range_config;

use crate::cluster::{BenchCluster, TaskCosts, Transport, with_job};
use crate::figures::{BenchReport, Figure, Samples};
use crate::meter::Meter;

/// Promised minimum.
const LEAST_RATE: f64 = 25_000.0;
/// Target.
const GOAL_RATE: f64 = 50_000.0;
/// Target of the rate inside TLS, as a share of the rate without it.
const GOAL_TLS: f64 = 0.8;
/// Maximum running tasks.
const SLOTS: usize = 1000;
/// Environment variable that makes this program play the worker.
const ROLE_VARIABLE: &str = "BRASSERIE_BENCH_NOOP_WORKER";

/// Ends every task instead of starting it.
struct NoopRunner {
    sink: Mutex<Box<dyn TaskSink>>,
}

impl Runner for NoopRunner {
    fn spawn(&self, request: SpawnRequest) -> Result<(), SpawnError> {
        let end = TaskEnd {
            key: Arc::new(request.key),
            status: ReportedStatus::done(),
            story: Story {
                starting: request.asked.elapsed(),
                ..Story::exited(0)
            },
            signalled: Signalled::No,
            raw_status: None,
        };
        let mut sink = self.sink.lock().expect("nobody panics with the lock");
        sink.ended(end);
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

/// Plays the worker, if this process was started for that. Call it first in `main`.
pub fn play_worker() -> Option<ExitCode> {
    std::env::var_os(ROLE_VARIABLE)?;
    let options = Cli::parse_or_exit();
    let _log = telemetry::init(Verbosity::Info, LogFormat::Text)
        .expect("the log's filter is the usual one");
    // The same runtime as in the worker's own program.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    runtime.block_on(async {
        let runner = |_: RunnerConfig, sink| -> Result<Box<dyn Runner>, RunnerStartError> {
            Ok(Box::new(NoopRunner {
                sink: Mutex::new(sink),
            }))
        };
        let handle = start_with(options, Box::new(runner)).await;
        handle.expect("the worker starts").wait().await;
    });
    Some(ExitCode::SUCCESS)
}

/// Measures `rounds` times, if `with_tls` also inside TLS.
pub fn measure(tasks: usize, rounds: usize, with_tls: bool) -> BenchReport {
    let all = Samples::take("noop", rounds, |round| {
        let each = Transport::all(with_tls).iter().map(|&transport| {
            round.begin(&format!("{tasks} tasks, {}", transport.name()));
            costs(tasks, transport)
        });
        each.collect::<Vec<_>>()
    });
    let tls = all.tls_line(GOAL_TLS, |each| each);
    let samples = all.map(|mut each| each.swap_remove(0));
    let what = format!("tasks a second with {SLOTS} slots, median of {rounds}");
    let rate = samples.median(|costs| costs.rate);
    let mut lines = vec![
        Figure::new(what, "/s", rate).at_least(LEAST_RATE),
        Figure::new("the same beside the goal", "/s", rate)
            .beside(GOAL_RATE)
            .more_is_better(),
        samples.line("processor time of the scheduler a task", "us", |s| {
            s.scheduler_us
        }),
        samples.line("processor time of the worker a task", "us", |s| s.worker_us),
        Figure::new(
            "most memory of the scheduler",
            "MiB",
            samples.most(|s| s.scheduler_mib),
        ),
        Figure::new(
            "most memory of the worker",
            "MiB",
            samples.most(|s| s.worker_mib),
        ),
    ];
    lines.extend(tls);
    BenchReport::new("noop", "goal", lines)
}

fn costs(count: usize, transport: Transport) -> TaskCosts {
    let config = with_job(range_config(count, Some(SLOTS)), "nothing", ["nothing"]);
    let cluster = BenchCluster::start_talking(&config, transport);
    cluster.wait_for_nodes();
    let of_scheduler = Meter::start(cluster.scheduler.id());
    let stage = &cluster.stage;
    let mut command = stage.worker_command(&cluster.worker_spec("one"));
    command.env(ROLE_VARIABLE, "yes");
    let worker = stage.start("worker", command);
    let of_worker = Meter::start(worker.id());
    cluster.wait_for_tasks(count, &of_scheduler, &of_worker)
}
