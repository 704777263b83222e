//! Measures the memory of a task: of a sleeping task in the scheduler and in its worker, and of a waiting task in the scheduler.

use std::time::Duration;

use integration_tests::e2e::{Client, Process, Programs, SchedulerSpec, Stage, resident_bytes};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::figures::{Line, Report};

/// Number of workers that share the sleeping tasks.
const WORKERS: usize = 4;
/// Limit for all tasks to start, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// Pause after the last start, in which memory needed only for starting is freed.
const REST: Duration = Duration::from_secs(3);

/// Measures with `sleeping` concurrently sleeping tasks, and `waiting` waiting ones.
pub fn measure(sleeping: usize, waiting: usize) -> Report {
    let mut lines = asleep(sleeping);
    eprintln!("memory: {waiting} tasks wait");
    let few = of_waiting(1);
    let many = of_waiting(waiting);
    let label = format!("scheduler, {waiting} tasks wait, names of their nodes included");
    lines.push(Line::new(label, "B", each(few, many, waiting)));
    Report::new("memory, bytes a task", "", lines)
}

fn asleep(count: usize) -> Vec<Line> {
    eprintln!("memory: {count} tasks sleep on {WORKERS} workers");
    let stage = Stage::with(Programs::this_one());
    let slots = count.div_ceil(WORKERS);
    let command = json!(["/bin/sleep", "1000000"]);
    let spec = spec(&stage, &config(count, slots, &command));
    let scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    // No task starts without a worker, so this state precedes the first task.
    client.wait_until("the nodes to be loaded", |status| {
        status.nodes_loaded == Some(true)
    });
    let of_scheduler = resident(scheduler.id());
    let workers: Vec<Process> = (0..WORKERS)
        .map(|number| stage.start_worker(&stage.worker_spec(&format!("w{number}"), &spec)))
        .collect();
    let expected = i64::try_from(count).expect("a number of tasks");
    // The memory of another worker that never gets a task is subtracted.
    let idle = idle_worker();
    client.wait_until_within(PATIENCE, "all tasks to run", |status| {
        status
            .jobs
            .iter()
            .flatten()
            .any(|job| job.running == Some(expected))
    });
    std::thread::sleep(REST);
    let busy: u64 = workers
        .iter()
        .map(|worker| resident(worker.program()))
        .sum();
    let idle = idle * u64::try_from(WORKERS).expect("a few");
    vec![
        Line::new(
            format!("scheduler, {count} tasks run"),
            "B",
            each(of_scheduler, resident(scheduler.id()), count),
        ),
        Line::new(
            format!("worker, {slots} tasks run on each of {WORKERS}"),
            "B",
            each(idle, busy, count),
        ),
        Line::new(
            "worker that runs nothing, in all",
            "MiB",
            idle as f64 / WORKERS as f64 / f64::from(1 << 20),
        ),
    ]
}

/// Returns the memory of a worker that has joined a scheduler and passed its healthchecks, but got no task.
fn idle_worker() -> u64 {
    let stage = Stage::with(Programs::this_one());
    let spec = spec(&stage, &config(1, 0, &json!(["/bin/true"])));
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let worker = stage.start_worker(&stage.worker_spec("idle", &spec));
    worker.wait_for_output("the worker takes calls");
    client.wait_healthy(1);
    std::thread::sleep(REST);
    resident(worker.program())
}

/// Returns the memory of a scheduler with `count` tasks and no worker.
fn of_waiting(count: usize) -> u64 {
    let stage = Stage::with(Programs::this_one());
    let spec = spec(&stage, &config(count, 1, &json!(["/bin/true"])));
    let scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let expected = i64::try_from(count).expect("a number of tasks");
    client.wait_until("the tasks to wait", |status| {
        status
            .jobs
            .iter()
            .flatten()
            .any(|job| job.total == Some(expected))
    });
    std::thread::sleep(REST);
    resident(scheduler.id())
}

fn config(nodes: usize, slots: usize, command: &Value) -> String {
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": slots } } }
        },
        "bistro_job->rest": { "owner": "bench", "command": command, "arguments": "none", "status_from": "exit_code" }
    });
    config.to_string()
}

fn spec(stage: &Stage, config: &str) -> SchedulerSpec {
    let config = stage.write("config.json", config);
    let mut spec = stage.scheduler_spec(&config).with("--new-cluster");
    // Uses default timeouts, like users.
    spec.flags.retain(|flag| flag == "--new-cluster");
    spec
}

fn resident(pid: Pid) -> u64 {
    resident_bytes(pid).expect("the program runs")
}

fn each(before: u64, after: u64, tasks: usize) -> f64 {
    after.saturating_sub(before) as f64 / tasks as f64
}
