//! Measures tasks without processes: the cost of scheduler, protocol, store and worker alone. The scheduler is the real program. The worker
//! is the real one except for its runner, which exists only here.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::{EndedBy, KillRequest, ReportedStatus, Story};
use brasserie_common_runtime::{LogFormat, Verbosity, telemetry};
use brasserie_worker::config::Cli;
use brasserie_worker::process::{
    KillError, RunKey, RunnerConfig, Signalled, SpawnError, SpawnRequest, StartError, TaskEnd,
    TaskSink,
};
use brasserie_worker::{Runner, start_with};
use integration_tests::e2e::{Client, Programs, Stage, wait_within};
use serde_json::json;
use std::sync::Mutex;

use crate::figures::{Line, Report};
use crate::median;
use crate::usage::Meter;

/// Promised minimum.
const LEAST_RATE: f64 = 25_000.0;
/// Target.
const GOAL_RATE: f64 = 50_000.0;
/// Maximum running tasks.
const SLOTS: usize = 1000;
/// Limit for a measurement, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// Interval of status requests, rare enough to cost nothing. The scheduler itself measures the time.
const ASK_EVERY: Duration = Duration::from_millis(200);
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
        let runner = |_: RunnerConfig, sink| -> Result<Box<dyn Runner>, StartError> {
            Ok(Box::new(NoopRunner {
                sink: Mutex::new(sink),
            }))
        };
        let handle = start_with(options, Box::new(runner)).await;
        handle.expect("the worker starts").wait().await;
    });
    Some(ExitCode::SUCCESS)
}

/// One measurement.
struct Sample {
    rate: f64,
    /// Processor time for each task, in microseconds.
    scheduler_us: f64,
    worker_us: f64,
    scheduler_bytes: u64,
    worker_bytes: u64,
}

/// Measures `rounds` times.
pub fn measure(tasks: usize, rounds: usize) -> Report {
    let samples: Vec<Sample> = (0..rounds)
        .map(|round| {
            eprintln!("noop: {tasks} tasks, round {} of {rounds}", round + 1);
            sample(tasks)
        })
        .collect();
    let middle = |of: fn(&Sample) -> f64| median(samples.iter().map(of));
    let rate = middle(|s| s.rate);
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let lines = vec![
        Line::new(
            format!("tasks a second with {SLOTS} slots, median of {rounds}"),
            "/s",
            rate,
        )
        .at_least(LEAST_RATE),
        Line::new("the same beside the goal", "/s", rate)
            .beside(GOAL_RATE)
            .more_is_better(),
        Line::new(
            "processor time of the scheduler a task",
            "us",
            middle(|s| s.scheduler_us),
        ),
        Line::new(
            "processor time of the worker a task",
            "us",
            middle(|s| s.worker_us),
        ),
        Line::new(
            "most memory of the scheduler",
            "MiB",
            mib(samples.iter().map(|s| s.scheduler_bytes).max().unwrap_or(0)),
        ),
        Line::new(
            "most memory of the worker",
            "MiB",
            mib(samples.iter().map(|s| s.worker_bytes).max().unwrap_or(0)),
        ),
    ];
    Report::new("noop", "goal", lines)
}

fn sample(count: usize) -> Sample {
    let stage = Stage::with(Programs::this_one());
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": count } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": SLOTS } } }
        },
        "bistro_job->nothing": { "owner": "bench", "command": ["nothing"], "arguments": "none", "status_from": "exit_code" }
    });
    let config = stage.write("config.json", &config.to_string());
    let mut spec = stage.scheduler_spec(&config).with("--new-cluster");
    // Uses default timeouts, like users.
    spec.flags.retain(|flag| flag == "--new-cluster");
    let scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("the nodes to be loaded", |status| {
        status.nodes_loaded == Some(true)
    });
    let of_scheduler = Meter::start(scheduler.id());
    let mut command = stage.worker_command(&stage.worker_spec("one", &spec));
    command.env(ROLE_VARIABLE, "yes");
    let worker = stage.start("worker", command);
    let of_worker = Meter::start(worker.id());
    let expected = i64::try_from(count).expect("a number of tasks");
    let mut asked = Instant::now();
    let elapsed = wait_within(PATIENCE, "all tasks to be done", || {
        if asked.elapsed() < ASK_EVERY {
            return None;
        }
        asked = Instant::now();
        let status = client.status()?;
        let job = status.jobs?.into_iter().next()?;
        (job.done == Some(expected)).then_some(job.elapsed_ms?)
    });
    let elapsed = Duration::from_millis(u64::try_from(elapsed).unwrap_or(1).max(1));
    let each = |used: Duration| used.as_secs_f64() * 1e6 / count as f64;
    Sample {
        rate: count as f64 / elapsed.as_secs_f64(),
        scheduler_us: each(of_scheduler.used()),
        worker_us: each(of_worker.used()),
        scheduler_bytes: of_scheduler.peak_bytes(),
        worker_bytes: of_worker.peak_bytes(),
    }
}
