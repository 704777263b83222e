//! Tests pull workers with real programs.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use integration_tests::e2e::{Client, Process, RunRecords, SchedulerSpec, Stage, wait_within};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

const NODES: usize = 60;
/// Enough for a slow machine to start a hundred processes, with their scripts.
const LONG: Duration = Duration::from_secs(120);

/// Writes a config like [`Stage::write_work`], whose tasks may be queued on their worker.
fn bufferable(stage: &Stage, nodes: usize, pause: Duration) -> PathBuf {
    let path = stage.write_work(nodes, pause);
    let text = fs::read_to_string(&path).expect("it was written");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["bistro_job->work"]["bufferable"] = true.into();
    config["bistro_job->work"]["est_duration"] = pause.as_secs_f64().into();
    stage.write("work/config.json", &format!("{config:#}"))
}

fn start_worker(stage: &Stage, spec: &SchedulerSpec) -> Process {
    start_worker_with(stage, spec, &[])
}

fn start_worker_with(stage: &Stage, spec: &SchedulerSpec, flags: &[&str]) -> Process {
    let mut worker = stage.worker_spec("one", spec);
    worker.flags.push("--work-fetch=cluster".to_owned());
    let flags = flags.iter().map(|&flag| flag.to_owned());
    worker.flags.extend(flags);
    stage.start_worker(&worker)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the maximum number of concurrent runs.
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
    let processors = processors();
    let most = most_at_once(&records);
    assert!(most <= processors, "{most} at once on {processors}");
    // The worker stores what it has learned.
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
    // Queued tasks had not started. So only tasks that ran when the worker was killed started twice.
    let processors = processors();
    let twice = records
        .starts()
        .values()
        .filter(|starts| **starts > 1)
        .count();
    assert!(twice <= processors, "{twice} began twice");
}

/// Writes its process id, then works like the others.
const LONG_SCRIPT: &str = r#"#!/bin/sh
bin=$(dirname "$0")
echo $$ >> "$bin/../pids"
exec "$bin/work.sh" "$@"
"#;
/// Runs until the test has created the file `seen`.
const URGENT_SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")/.."
echo $$ > urgent
while ! [ -e seen ]; do sleep 0.05; done
echo done > "$2"
"#;

/// Writes a config with a long task for each processor, according to the estimate, and an urgent task that would be late behind any of
/// them.
fn long_and_urgent(stage: &Stage, urgent: bool) -> PathBuf {
    let path = bufferable(stage, processors(), Duration::ZERO);
    let text = fs::read_to_string(path).expect("it was written");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    // Stopped tasks keep their slots.
    config["bistro_settings"]["resources"]["worker"]["slots"]["limit"] = (processors() + 2).into();
    config["bistro_job->work"]["est_duration"] = "10m".into();
    config["bistro_job->work"]["command"] = json!(["./bin/long.sh"]);
    config["bistro_job->urgent"] = json!({
        "enabled": urgent,
        "command": ["./bin/urgent.sh"],
        "filters": { "item": { "whitelist": ["n1"] } },
        "bufferable": true,
        "est_duration": "2s",
        "deadline": "3m"
    });
    stage.write_script("work/bin/long.sh", LONG_SCRIPT);
    stage.write_script("work/bin/urgent.sh", URGENT_SCRIPT);
    stage.write("work/config.json", &format!("{config:#}"))
}

/// Returns whether the process is stopped, according to the kernel; `None` if it does not exist.
fn is_stopped(pid: &str) -> Option<bool> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    Some(behind_the_name.trim().starts_with('T'))
}

#[test]
fn a_task_stops_for_one_with_a_near_deadline_and_goes_on_after_it() {
    let stage = Stage::new();
    let config = long_and_urgent(&stage, false);
    stage.hold();
    let spec = stage.calm_spec(&config).with("--config-update=100ms");
    let client = Client::new(spec.port);
    let _scheduler = stage.start_scheduler(&spec);
    // The worker requests more although its work lasts ten minutes. With process groups, tasks write process ids that this test can use.
    let flags = [
        "--preempt=suspend",
        "--work-buffer-min=1h",
        "--contain=process-groups",
    ];
    let _worker = start_worker_with(&stage, &spec, &flags);
    wait_within(LONG, "a long task on each processor", || {
        (stage.alive().len() == processors()).then_some(())
    });
    let pids = fs::read_to_string(stage.path("work/pids")).expect("they told");
    let pids: Vec<&str> = pids.lines().collect();
    let stopped = || pids.iter().filter(|pid| is_stopped(pid) == Some(true));
    assert_eq!(stopped().count(), 0, "nobody has come for whom to stop");

    long_and_urgent(&stage, true);
    wait_within(LONG, "the urgent task to begin", || {
        stage.path("work/urgent").exists().then_some(())
    });
    wait_within(LONG, "a long task to be stopped", || {
        (stopped().count() == 1).then_some(())
    });
    stage.write("work/seen", "");
    let urgent = stage.explain_ended(&spec, "urgent", "n1");
    assert_eq!(urgent["last_run"]["exit_code"], 0, "{urgent}");
    assert_eq!(urgent["last_run"]["ended_by"], Value::Null, "{urgent}");
    wait_within(LONG, "the stopped one to go on", || {
        (stopped().count() == 0).then_some(())
    });
    assert!(pids.iter().all(|pid| is_stopped(pid) == Some(false)));

    stage.release();
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.overlaps, Vec::<String>::new());
    let starts: Vec<usize> = records.starts().into_values().collect();
    assert_eq!(starts, vec![1; processors()]);
    assert_eq!(records.finished(), processors());
}
