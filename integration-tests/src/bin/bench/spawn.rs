//! Measures tasks that do nothing with a real scheduler and a real worker with two slots. The baseline is the minimum of any program: a
//! loop that keeps two children running.

use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::time::Instant;

use integration_tests::e2e::range_config;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;

use crate::cluster::{BenchCluster, TaskCosts, Transport, with_job};
use crate::figures::{BenchReport, Figure, Samples, per_second};
use crate::meter::Meter;

/// Promised minimum: a task may cost a third more than its process.
const LEAST_RATIO: f64 = 0.75;
/// Target.
const GOAL_RATIO: f64 = 0.85;
/// Maximum running tasks, in all measurements.
pub const SLOTS: usize = 2;
/// The command of every task.
const COMMAND: &[&str] = &["/bin/true"];

/// Target of the rate inside TLS, as a share of the rate without it.
const GOAL_TLS: f64 = 0.9;

/// Measures pairs of measurement and baseline, if `with_tls` also inside TLS.
pub fn measure(tasks: usize, pairs: usize, with_tls: bool) -> BenchReport {
    // The costs of the tasks with each transport, and the bare processes a second.
    let all = Samples::take("spawn", pairs, |pair| {
        pair.begin("posix_spawn");
        let bare = bare_rate(tasks, COMMAND);
        let each = Transport::all(with_tls).iter().map(|&transport| {
            pair.begin(&format!("scheduler and worker, {}", transport.name()));
            costs_of(tasks, COMMAND, transport)
        });
        (each.collect::<Vec<_>>(), bare)
    });
    let tls = all.tls_line(GOAL_TLS, |(each, _)| each);
    let samples = all.map(|(mut each, bare)| (each.swap_remove(0), bare));
    let ratio = samples.median(|(costs, bare)| costs.rate / bare);
    let rate = format!("tasks a second with {SLOTS} slots, median of {pairs}");
    let mut lines = vec![
        samples
            .line(rate, "/s", |(costs, _)| costs.rate)
            .beside(samples.median(|(_, bare)| *bare))
            .more_is_better(),
        Figure::new("share of the bare rate, median of the pairs", "", ratio).at_least(LEAST_RATIO),
        Figure::new("the same beside the goal", "", ratio)
            .beside(GOAL_RATIO)
            .more_is_better(),
        samples.line(
            "processor time of the scheduler a task",
            "us",
            |(costs, _)| costs.scheduler_us,
        ),
        samples.line(
            "processor time of the worker a task, without its process",
            "us",
            |(costs, _)| costs.worker_us,
        ),
    ];
    lines.extend(tls);
    BenchReport::new("spawn", "posix_spawn", lines)
}

/// Runs a command this many times in a bare loop. Returns how many ended a second.
pub fn bare_rate(count: usize, command: &[&str]) -> f64 {
    let words = command.iter().map(|word| CString::new(*word));
    let words: Vec<CString> = words.collect::<Result<_, _>>().expect("plain words");
    let actions = PosixSpawnFileActions::init().expect("memory for file actions");
    let attributes = PosixSpawnAttr::init().expect("memory for attributes");
    let started = Instant::now();
    let mut running: HashSet<Pid> = HashSet::new();
    let mut left = count;
    while left > 0 || !running.is_empty() {
        while left > 0 && running.len() < SLOTS {
            let child = posix_spawn(
                words[0].as_c_str(),
                &actions,
                &attributes,
                &words,
                &[] as &[&CStr],
            );
            running.insert(child.expect("the program can be started"));
            left -= 1;
        }
        match wait().expect("a child ends") {
            WaitStatus::Exited(child, 0) => running.remove(&child),
            other => panic!("{command:?} ended as {other:?}"),
        };
    }
    per_second(count, started.elapsed())
}

/// Runs a command this many times through a scheduler and a worker.
pub fn costs(count: usize, command: &[&str]) -> TaskCosts {
    costs_of(count, command, Transport::Plain)
}

fn costs_of(count: usize, command: &[&str], transport: Transport) -> TaskCosts {
    let config = with_job(range_config(count, Some(SLOTS)), "nothing", command);
    let cluster = BenchCluster::start_talking(&config, transport);
    cluster.wait_for_nodes();
    let worker = cluster.start_worker("one");
    // The worker and its keeper cannot be told apart before this line.
    worker.wait_for_output("the worker takes calls");
    let of_scheduler = Meter::start(cluster.scheduler.id());
    let of_worker = Meter::start(worker.program());
    cluster.wait_for_tasks(count, &of_scheduler, &of_worker)
}
