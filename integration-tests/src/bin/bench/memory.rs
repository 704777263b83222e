//! Measures the memory of a task: of a sleeping task in the scheduler and in its worker, and of a waiting task in the scheduler.

use std::time::Duration;

use integration_tests::e2e::{Process, range_config, resident_bytes};
use nix::unistd::Pid;

use crate::cluster::{BenchCluster, PATIENCE, with_job};
use crate::figures::{BenchReport, Figure, mib};

/// Number of workers that share the sleeping tasks.
const WORKERS: usize = 4;
/// Pause after the last start, in which memory needed only for starting is freed.
const REST: Duration = Duration::from_secs(3);

/// Measures with `sleeping` concurrently sleeping tasks, and `waiting` waiting ones.
pub fn measure(sleeping: usize, waiting: usize) -> BenchReport {
    let mut lines = asleep(sleeping);
    eprintln!("memory: {waiting} tasks wait");
    let few = of_waiting(1);
    let many = of_waiting(waiting);
    let label = format!("scheduler, {waiting} tasks wait, names of their nodes included");
    lines.push(Figure::new(label, "B", each(few, many, waiting)));
    BenchReport::new("memory, bytes a task", "", lines)
}

fn asleep(count: usize) -> Vec<Figure> {
    eprintln!("memory: {count} tasks sleep on {WORKERS} workers");
    let slots = count.div_ceil(WORKERS);
    let cluster = start(count, slots, &["/bin/sleep", "1000000"]);
    // No task starts without a worker, so this state precedes the first task.
    cluster.wait_for_nodes();
    let of_scheduler = resident(cluster.scheduler.id());
    let workers: Vec<Process> = (0..WORKERS)
        .map(|number| cluster.start_worker(&format!("w{number}")))
        .collect();
    let expected = i64::try_from(count).expect("a number of tasks");
    // The memory of another worker that never gets a task is subtracted.
    let idle = idle_worker();
    let client = &cluster.client;
    client.wait_until_within(PATIENCE, "all tasks to run", |status| {
        let mut jobs = status.jobs.iter().flatten();
        jobs.any(|job| job.running == Some(expected))
    });
    std::thread::sleep(REST);
    let busy: u64 = workers
        .iter()
        .map(|worker| resident(worker.program()))
        .sum();
    let idle = idle * u64::try_from(WORKERS).expect("a few");
    vec![
        Figure::new(
            format!("scheduler, {count} tasks run"),
            "B",
            each(of_scheduler, resident(cluster.scheduler.id()), count),
        ),
        Figure::new(
            format!("worker, {slots} tasks run on each of {WORKERS}"),
            "B",
            each(idle, busy, count),
        ),
        Figure::new(
            "worker that runs nothing, in all",
            "MiB",
            mib(idle) / WORKERS as f64,
        ),
    ]
}

/// Returns the memory of a worker that has joined a scheduler and passed its healthchecks, but got no task.
fn idle_worker() -> u64 {
    let cluster = start(1, 0, &["/bin/true"]);
    let worker = cluster.start_worker("idle");
    worker.wait_for_output("the worker takes calls");
    cluster.client.wait_healthy(1);
    std::thread::sleep(REST);
    resident(worker.program())
}

/// Returns the memory of a scheduler with `count` tasks and no worker.
fn of_waiting(count: usize) -> u64 {
    let cluster = start(count, 1, &["/bin/true"]);
    let expected = i64::try_from(count).expect("a number of tasks");
    cluster.client.wait_until("the tasks to wait", |status| {
        let mut jobs = status.jobs.iter().flatten();
        jobs.any(|job| job.total == Some(expected))
    });
    std::thread::sleep(REST);
    resident(cluster.scheduler.id())
}

fn start(nodes: usize, slots: usize, command: &[&str]) -> BenchCluster {
    BenchCluster::start(&with_job(range_config(nodes, Some(slots)), "rest", command))
}

fn resident(pid: Pid) -> u64 {
    resident_bytes(pid).expect("the program runs")
}

fn each(before: u64, after: u64, tasks: usize) -> f64 {
    after.saturating_sub(before) as f64 / tasks as f64
}
