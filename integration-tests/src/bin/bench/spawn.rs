//! Tasks that do nothing, through a real scheduler and a real worker with two slots; and the least that any program needs for that: a loop
//! that keeps two children running.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use integration_tests::e2e::{Client, Programs, Stage, wait_within};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use serde_json::json;

use crate::{Outcome, Pair, Promise, progress};

/// Promised: a task may cost twice what its process costs.
const LEAST_RATIO: f64 = 0.5;
/// Tasks at a time, in both halves.
const SLOTS: usize = 2;
/// What every task runs.
const PROGRAM: &std::ffi::CStr = c"/bin/true";
/// For a measurement on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(600);

/// How often the scheduler is asked how far it is: so seldom that it costs nothing. It measures the time itself.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Measures pairs.
pub fn measure(tasks: usize, pairs: usize) -> Outcome {
    let pairs = (0..pairs)
        .map(|pair| {
            progress("spawn", pair, pairs, "posix_spawn");
            let baseline = bare_rate(tasks);
            progress("spawn", pair, pairs, "scheduler and worker");
            Pair {
                rate: task_rate(tasks),
                baseline,
            }
        })
        .collect();
    Outcome {
        name: "spawn",
        unit: "tasks",
        pairs,
        promise: Promise::Ratio(LEAST_RATIO),
    }
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

fn task_rate(count: usize) -> f64 {
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
    run(&stage, &config, count)
}

/// From the first start to the last end, as the scheduler saw them: joining is not measured.
fn run(stage: &Stage, config: &Path, count: usize) -> f64 {
    let mut spec = stage.scheduler_spec(config).with("--new-cluster");
    // Default timeouts, as users have them.
    spec.flags.retain(|flag| flag == "--new-cluster");
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("the nodes to be loaded", |status| {
        status.nodes_loaded == Some(true)
    });
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
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
    count as f64 / elapsed.as_secs_f64()
}
