//! Workers that ask for work, with real programs.

use std::fs;
use std::time::Duration;

use integration_tests::e2e::{Client, Process, RunRecords, SchedulerSpec, Stage, wait_within};
use nix::sys::signal::Signal;
use serde_json::Value;

const NODES: usize = 60;
/// Slow machines start a hundred processes in this, with scripts around them.
const LONG: Duration = Duration::from_secs(120);

/// As [`Stage::write_work`], with tasks that may wait at their worker.
fn bufferable(stage: &Stage, nodes: usize, pause: Duration) -> std::path::PathBuf {
    let path = stage.write_work(nodes, pause);
    let text = fs::read_to_string(&path).expect("it was written");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["bistro_job->work"]["bufferable"] = true.into();
    config["bistro_job->work"]["est_duration"] = pause.as_secs_f64().into();
    stage.write("work/config.json", &format!("{config:#}"))
}

fn start_worker(stage: &Stage, spec: &SchedulerSpec) -> Process {
    let mut worker = stage.worker_spec("one", spec);
    worker.flags.push("--work-fetch=cluster".to_owned());
    stage.start_worker(&worker)
}

/// The most that ran at once.
fn most_at_once(records: &RunRecords) -> usize {
    let ends = |run: &integration_tests::e2e::RunRecord| run.end.unwrap_or(run.start);
    let at = |time: Duration| {
        let runs = records.runs.iter();
        runs.filter(|run| run.start <= time && time < ends(run))
            .count()
    };
    records
        .runs
        .iter()
        .map(|run| at(run.start))
        .max()
        .unwrap_or(0)
}

#[test]
fn what_is_asked_for_waits_at_the_worker_and_runs_once_each_through_a_restart_of_the_scheduler() {
    let stage = Stage::new();
    let config = bufferable(&stage, NODES, Duration::from_millis(200));
    let spec = stage.calm_spec(&config);
    let client = Client::new(spec.port);
    let mut scheduler = stage.start_scheduler(&spec);
    let worker = start_worker(&stage, &spec);
    wait_within(LONG, "some tasks to have run", || {
        (stage.records().finished() > 10).then_some(())
    });
    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.overlaps, Vec::<String>::new());
    assert_eq!(records.starts().len(), NODES);
    assert!(records.starts().values().all(|starts| *starts == 1));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let most = most_at_once(&records);
    assert!(most <= processors, "{most} at once on {processors}");
    // It leaves what it has learned.
    worker.signal(Signal::SIGTERM);
    let mut worker = worker;
    assert!(worker.wait().success());
    let learned = fs::read_to_string(stage.path("worker-one/work-fetch.json"));
    let learned: Value = serde_json::from_str(&learned.expect("a file")).expect("JSON");
    let seconds = learned["jobs"][0]["secs"].as_f64().expect("a job");
    assert!((0.2..60.0).contains(&seconds), "{seconds}");
}

#[test]
fn what_waits_at_a_worker_that_is_killed_runs_at_the_next_one() {
    let stage = Stage::new();
    let config = bufferable(&stage, NODES, Duration::from_millis(200));
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let client = Client::new(spec.port);
    let _scheduler = stage.start_scheduler(&spec);
    let mut worker = start_worker(&stage, &spec);
    wait_within(LONG, "some tasks to have run", || {
        (stage.records().finished() > 5).then_some(())
    });
    worker.kill_program();
    let _worker = start_worker(&stage, &spec);
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.overlaps, Vec::<String>::new());
    assert_eq!(records.starts().len(), NODES);
    // Those that waited had not begun: only what ran when the worker was killed began twice.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let twice = records
        .starts()
        .values()
        .filter(|starts| **starts > 1)
        .count();
    assert!(twice <= processors, "{twice} began twice");
}
