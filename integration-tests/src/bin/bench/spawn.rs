//! Measures tasks that do nothing with a real scheduler and a real worker with two slots. The baseline is the minimum of any program: a
//! loop that keeps two children running.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use integration_tests::e2e::{Client, Programs, Stage, wait_within};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use serde_json::json;

use crate::figures::{Line, Report};
use crate::usage::Meter;
use crate::{median, progress};

/// Promised minimum: a task may cost a third more than its process.
const LEAST_RATIO: f64 = 0.75;
/// Target.
const GOAL_RATIO: f64 = 0.85;
/// Maximum running tasks, in both measurements.
const SLOTS: usize = 2;
/// The program of every task.
const PROGRAM: &std::ffi::CStr = c"/bin/true";
/// Limit for a measurement, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Interval of status requests, rare enough to cost nothing. The scheduler itself measures the time.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// A measurement and its baseline.
struct Sample {
    /// Tasks a second.
    rate: f64,
    /// Bare processes a second.
    bare: f64,
    /// Processor time for each task in microseconds, of each program without its tasks.
    scheduler_us: f64,
    worker_us: f64,
}

/// Measures pairs of measurement and baseline.
pub fn measure(tasks: usize, pairs: usize) -> Report {
    let samples: Vec<Sample> = (0..pairs)
        .map(|pair| {
            progress("spawn", pair, pairs, "posix_spawn");
            let bare = bare_rate(tasks);
            progress("spawn", pair, pairs, "scheduler and worker");
            sample(tasks, bare)
        })
        .collect();
    let middle = |of: fn(&Sample) -> f64| median(samples.iter().map(of));
    // The ratio is computed for each pair, because a temporary disturbance of the machine affects both halves.
    let ratio = middle(|s| s.rate / s.bare);
    let lines = vec![
        Line::new(
            format!("tasks a second with {SLOTS} slots, median of {pairs}"),
            "/s",
            middle(|s| s.rate),
        )
        .beside(middle(|s| s.bare))
        .more_is_better(),
        Line::new("share of the bare rate, median of the pairs", "", ratio).at_least(LEAST_RATIO),
        Line::new("the same beside the goal", "", ratio)
            .beside(GOAL_RATIO)
            .more_is_better(),
        Line::new(
            "processor time of the scheduler a task",
            "us",
            middle(|s| s.scheduler_us),
        ),
        Line::new(
            "processor time of the worker a task, without its process",
            "us",
            middle(|s| s.worker_us),
        ),
    ];
    Report::new("spawn", "posix_spawn", lines)
}

fn bare_rate(count: usize) -> f64 {
    let actions = PosixSpawnFileActions::init().expect("memory for file actions");
    let attributes = PosixSpawnAttr::init().expect("memory for attributes");
    let started = Instant::now();
    let mut running: HashSet<Pid> = HashSet::new();
    let mut left = count;
    while left > 0 || !running.is_empty() {
        while left > 0 && running.len() < SLOTS {
            let child = posix_spawn(
                PROGRAM,
                &actions,
                &attributes,
                &[PROGRAM],
                &[] as &[&std::ffi::CStr],
            );
            running.insert(child.expect("/bin/true can be started"));
            left -= 1;
        }
        match wait().expect("a child ends") {
            WaitStatus::Exited(child, 0) => running.remove(&child),
            other => panic!("/bin/true ended as {other:?}"),
        };
    }
    count as f64 / started.elapsed().as_secs_f64()
}

fn sample(count: usize, bare: f64) -> Sample {
    let stage = Stage::with(Programs::this_one());
    let program = PROGRAM.to_str().expect("a plain path");
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": count } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": SLOTS } } }
        },
        "bistro_job->nothing": { "owner": "bench", "command": [program], "arguments": "none", "status_from": "exit_code" }
    });
    let config = stage.write("config.json", &config.to_string());
    run(&stage, &config, count, bare)
}

/// Measures from the first start to the last completion, as the scheduler saw them, without joining.
fn run(stage: &Stage, config: &Path, count: usize, bare: f64) -> Sample {
    let mut spec = stage.scheduler_spec(config).with("--new-cluster");
    // Uses default timeouts, like users.
    spec.flags.retain(|flag| flag == "--new-cluster");
    let scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("the nodes to be loaded", |status| {
        status.nodes_loaded == Some(true)
    });
    let worker = stage.start_worker(&stage.worker_spec("one", &spec));
    // The worker and its keeper cannot be told apart before this line.
    worker.wait_for_output("the worker takes calls");
    let (of_scheduler, of_worker) = (Meter::start(scheduler.id()), Meter::start(worker.program()));
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
        bare,
        scheduler_us: each(of_scheduler.used()),
        worker_us: each(of_worker.used()),
    }
}
