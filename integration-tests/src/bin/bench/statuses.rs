//! Measures how fast a killed scheduler with a million statuses is back, and its size after it deletes them.

use std::time::{Duration, Instant};

use integration_tests::e2e::{SchedulerSpec, Stage, range_config, wait_within, write_history};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::cluster::{BenchCluster, PATIENCE, default_spec, stage, with_job};
use crate::figures::{BenchReport, Figure, mib, per_second, times_ms};
use crate::marks::FirstWrites;

/// Number of restarts.
const ROUNDS: usize = 5;
/// Number of unfinished tasks, more than run in all rounds.
const LEFT: usize = 2000;
/// Promised limit from the start of the process to the first answer on the path of heartbeats.
const MOST_ANSWER_S: f64 = 1.0;
/// Promised limit from the start of the process to the first task that it starts.
const MOST_TASK_S: f64 = 3.0;
/// Retention of completions of missing nodes: longer than a scheduler takes to read millions.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// Number of tasks whose history is deleted: a number that made an earlier store grow.
const DELETED: usize = 51_000;
/// Time without a change after which the store has no work left. It checks at least every ten seconds.
const SETTLED: Duration = Duration::from_secs(15);

/// Measures with `statuses` statuses of one job.
pub fn measure(statuses: usize) -> BenchReport {
    let stage = stage();
    let marks = FirstWrites::new(&stage);
    let spec = used_spec(&stage, &config(&marks, statuses + LEFT));
    eprintln!("statuses: writing {statuses} of them");
    let began = Instant::now();
    write_history(&spec.data_dir, &[("work", "n", statuses)]);
    let rate = per_second(statuses, began.elapsed());
    let mut cluster = BenchCluster::start_on(stage, spec);
    let _worker = cluster.start_worker("one");
    marks.next_within(PATIENCE);
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        eprintln!("statuses: round {} of {ROUNDS}", round + 1);
        cluster.scheduler.kill_program();
        // A task that was being started begins within this time, and is not counted for the next scheduler.
        std::thread::sleep(Duration::from_millis(500));
        marks.forget();
        let began = Instant::now();
        cluster.restart();
        let answered = wait_within(PATIENCE, "an answer", || {
            cluster.client.status()?;
            Some(began.elapsed())
        });
        let used = cluster.processor_time();
        let heard = wait_within(PATIENCE, "the worker to be heard", || {
            let status = cluster.client.status()?;
            let mut workers = status.workers.iter().flatten();
            let heard = workers.any(|worker| worker.since_heartbeat_ms.is_some());
            heard.then(|| began.elapsed())
        });
        let started = marks.next_within(PATIENCE).duration_since(began);
        rounds.push([answered, heard, started, used]);
    }
    let seconds = |which: usize| times_ms(rounds.iter().map(|round| round[which])).at(50) / 1e3;
    let lines = vec![
        Figure::new(
            format!("restart on {statuses} statuses: first answer, median of {ROUNDS}"),
            "s",
            seconds(0),
        )
        .at_most(MOST_ANSWER_S),
        Figure::new(
            "  first heartbeat of the worker, which tries each second",
            "s",
            seconds(1),
        ),
        Figure::new("  first task starts", "s", seconds(2)).at_most(MOST_TASK_S),
        Figure::new("  processor time until the first answer", "s", seconds(3)),
        Figure::new("memory after that", "MiB", cluster.resident_mib()),
        Figure::new("statuses that the store writes", "/s", rate).more_is_better(),
    ];
    BenchReport::new("statuses", "", lines)
}

/// Measures the size after `missing` completions of missing nodes are deleted, and after the history of a job is deleted.
pub fn forget(missing: usize) -> BenchReport {
    let mut lines = expire(missing);
    lines.extend(delete_history());
    BenchReport::new("retention", "", lines)
}

/// Measures a scheduler with one completion that it keeps, and others that it deletes after [`KEPT_FOR`].
fn expire(missing: usize) -> Vec<Figure> {
    let stage = stage();
    let spec =
        used_spec(&stage, &idle(1)).with(&format!("--keep-missing-for={}s", KEPT_FOR.as_secs()));
    eprintln!("retention: writing {missing} completions of missing nodes");
    write_history(
        &spec.data_dir,
        &[("work", "n", 1), ("work", "gone", missing)],
    );
    let before = size_mib(&spec);
    let began = Instant::now();
    let mut cluster = BenchCluster::start_on(stage, spec);
    wait_within(PATIENCE, "an answer", || cluster.client.status());
    let held = cluster.resident_mib();
    eprintln!("retention: {before:.0} MiB on disk, {held:.0} MiB in memory; forgetting");
    wait_within(PATIENCE, "the completions to be forgotten", || {
        let left = cluster.client.status()?.store?.completions?;
        (left == 1).then_some(())
    });
    let took = began.elapsed();
    let after = shrunk_mib(&cluster.spec);
    let held_after = cluster.resident_mib();
    cluster.scheduler.kill_program();
    cluster.restart();
    wait_within(PATIENCE, "an answer", || cluster.client.status());
    let took = took.saturating_sub(KEPT_FOR).as_secs_f64();
    vec![
        Figure::new(
            format!("store with {missing} completions of missing nodes"),
            "MiB",
            before,
        ),
        Figure::new("  after they were forgotten", "MiB", after),
        Figure::new("memory with them", "MiB", held),
        Figure::new("  after they were forgotten", "MiB", held_after),
        Figure::new("  after a restart", "MiB", cluster.resident_mib()),
        Figure::new("time in which they were forgotten, at most", "s", took),
    ]
}

/// Measures `delete-history` of a job, while a worker is connected that could repeat its completions.
fn delete_history() -> Vec<Figure> {
    let stage = stage();
    let spec = used_spec(&stage, &idle(DELETED));
    eprintln!("retention: deleting the history of {DELETED} tasks");
    write_history(&spec.data_dir, &[("work", "n", DELETED)]);
    let before = size_mib(&spec);
    let cluster = BenchCluster::start_on(stage, spec);
    let mut worker = cluster.start_worker("one");
    cluster.client.wait_healthy(1);
    let (stage, spec) = (&cluster.stage, &cluster.spec);
    let address = format!("{}:{}", spec.address, spec.port);
    let began = Instant::now();
    let deleted = stage.brasserie(&["job", "delete-history", "work", "--scheduler", &address]);
    let took = began.elapsed().as_secs_f64();
    assert_eq!(deleted.code, Some(0), "{}", deleted.output);
    let then = size_mib(spec);
    let remembered = shrunk_mib(spec);
    worker.signal(Signal::SIGTERM);
    worker.wait();
    vec![
        Figure::new(
            format!("store with {DELETED} completions of a job"),
            "MiB",
            before,
        ),
        Figure::new("  when their history has been deleted", "MiB", then),
        Figure::new(
            "  when the file has shrunk, while a worker could repeat them",
            "MiB",
            remembered,
        ),
        Figure::new(
            "  when no such worker is left, or after a day",
            "MiB",
            shrunk_mib(spec),
        ),
        Figure::new("time of the deletion", "s", took),
    ]
}

/// Returns a config whose only job, on `nodes` nodes, is disabled.
fn idle(nodes: usize) -> Value {
    let mut config = with_job(range_config(nodes, None), "work", ["/bin/true"]);
    config["bistro_job->work"]["enabled"] = false.into();
    config
}

/// Returns the parameters of a scheduler with default timeouts whose directory has a history already.
fn used_spec(stage: &Stage, config: &Value) -> SchedulerSpec {
    SchedulerSpec {
        flags: Vec::new(),
        ..default_spec(stage, config)
    }
}

/// Returns the size of the store and its log, in MiB.
fn size_mib(spec: &SchedulerSpec) -> f64 {
    let size = |name: &str| {
        let file = spec.data_dir.join(name).metadata();
        file.map_or(0, |file| file.len())
    };
    mib(size("state.sqlite3") + size("state.sqlite3-wal"))
}

/// Returns the size in MiB once it has not changed for [`SETTLED`].
fn shrunk_mib(spec: &SchedulerSpec) -> f64 {
    let mut last = (size_mib(spec), Instant::now());
    wait_within(PATIENCE, "the store to keep its size", || {
        let size = size_mib(spec);
        if size != last.0 {
            last = (size, Instant::now());
        }
        (last.1.elapsed() > SETTLED).then_some(size)
    })
}

fn config(marks: &FirstWrites, nodes: usize) -> Value {
    let [shell, option, mark] = marks.command();
    let command = [shell, option, format!("{mark}; sleep 0.05")];
    let mut config = with_job(range_config(nodes, Some(1)), "work", command);
    config["bistro_settings"]["nodes"]["node_order"] = "original".into();
    config
}
