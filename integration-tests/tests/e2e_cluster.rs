//! Tests schedulers and workers as separate processes: killed, restarted, and called.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use integration_tests::e2e::{
    Client, Finished, PATIENCE, SchedulerSpec, Stage, WorkerSpec, copy_sources, fast_timeouts,
    wait_for,
};
use nix::sys::signal::Signal;
use serde_json::Value;

const FOR_EVER: Duration = Duration::from_secs(1000);
/// Far shorter than the safe wait with default timeouts (11 minutes), so that the test fails if anything waits for it.
const SOON: Duration = Duration::from_secs(60);

/// Longer than a restart of a scheduler, also on a busy machine, so that no worker counts as lost.
const PATIENT: &[&str] = &[
    "--heartbeat-grace-period=20s",
    "--healthcheck-grace-period=20s",
    "--lose-unhealthy-worker-after=20s",
    "--caution-worker-suicide-task-kill-wait=1s",
];

fn patient(stage: &Stage, config: &Path) -> SchedulerSpec {
    let flags = PATIENT.iter().map(|&flag| flag.to_owned()).collect();
    SchedulerSpec {
        flags,
        ..stage.scheduler_spec(config)
    }
    .with("--new-cluster")
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("the clock is set")
}

fn refused(finished: &Finished, parts: &[&str]) {
    assert!(matches!(finished.code, Some(1..=3)), "{finished:?}");
    for part in parts {
        assert!(
            finished.output.contains(part),
            "`{part}` is not in: {}",
            finished.output
        );
    }
}

#[test]
fn the_quick_start_survives_a_killed_scheduler_without_a_second_run() {
    let stage = Stage::new();
    let tree = stage.path("tree");
    copy_sources(&tree);
    let spec = patient(&stage, &tree.join("examples/quickstart.json"));
    let mut scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    let log = || fs::read_to_string(tree.join("target/quickstart/runs.log")).unwrap_or_default();

    wait_for("a part of the tasks to run", || {
        (log().lines().count() >= 40).then_some(())
    });
    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    Client::new(spec.port).wait_all_done();

    let mut runs = BTreeMap::new();
    let log = log();
    for line in log.lines() {
        *runs
            .entry(line.rsplit_once(' ').map_or(line, |(task, _)| task))
            .or_insert(0) += 1;
    }
    let twice: Vec<_> = runs.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(runs.len() > 200, "only {} tasks", runs.len());
}

#[test]
fn a_killed_scheduler_costs_no_task_a_second_run() {
    let stage = Stage::new();
    let config = stage.write_work(60, Duration::from_millis(100));
    let spec = patient(&stage, &config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    // Several times, at arbitrary moments.
    for starts in [8, 20, 35] {
        wait_for("some tasks to start", || {
            (stage.records().runs.len() >= starts).then_some(())
        });
        scheduler.kill_program();
        scheduler = stage.start_scheduler(&spec);
    }
    Client::new(spec.port).wait_all_done();
    let records = stage.records();
    assert_eq!(records.starts().len(), 60);
    assert!(
        records.starts().values().all(|&count| count == 1),
        "{:?}",
        records.starts()
    );
    assert_eq!(records.finished(), 60);
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
}

#[test]
fn tasks_of_a_killed_worker_run_elsewhere_after_the_loss_time_and_not_before() {
    let stage = Stage::new();
    let config = stage.write_work(4, FOR_EVER);
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let doomed_spec = stage.worker_spec("doomed", &spec);
    let mut doomed = stage.start_worker(&doomed_spec);
    let _other = stage.start_worker(&stage.worker_spec("other", &spec));
    wait_for("all tasks to run", || {
        (stage.records().runs.len() == 4).then_some(())
    });
    let _heir = stage.start_worker(&stage.worker_spec("heir", &spec));
    client.wait_healthy(3);
    let on_doomed: Vec<String> = stage
        .records()
        .runs
        .into_iter()
        .filter(|run| run.place.starts_with(&doomed_spec.data_dir))
        .map(|run| run.node)
        .collect();
    assert_eq!(on_doomed.len(), 2, "two slots each");

    stage.set_pause(Duration::ZERO);
    let killed_at = now();
    doomed.kill_program();
    let alive = stage.alive();
    assert!(
        on_doomed.iter().all(|node| !alive.contains(node)),
        "{on_doomed:?} outlive their worker: {alive:?}"
    );
    assert_eq!(alive.len(), 2, "the other worker's tasks run on");

    let again = wait_for("its tasks to run elsewhere", || {
        let records = stage.records();
        (records.finished() == 2).then_some(records)
    });
    // The last heartbeat came at the earliest one period before the kill.
    let timeouts = fast_timeouts();
    let loss = timeouts.heartbeat_grace_period
        + timeouts.lose_unhealthy_worker_after
        + timeouts.lost_task_min_backoff(Duration::ZERO);
    for run in &again.runs[4..] {
        let after = run.start.saturating_sub(killed_at);
        assert!(on_doomed.contains(&run.node), "{run:?}");
        assert!(run.place.starts_with(stage.path("worker-heir")), "{run:?}");
        assert!(
            after >= loss,
            "{} ran again {after:?} after the kill, before {loss:?}",
            run.node
        );
        assert!(
            after < PATIENCE,
            "{} ran again only {after:?} after the kill",
            run.node
        );
    }
    assert_eq!(again.runs.len(), 6, "{:?}", again.runs);
    assert!(again.overlaps.is_empty(), "{:?}", again.overlaps);
}

#[test]
fn both_killed_go_on_from_their_directories() {
    let stage = Stage::new();
    let config = stage.write_work(6, FOR_EVER);
    let spec = patient(&stage, &config);
    let worker_spec = stage.worker_spec("one", &spec);
    let mut scheduler = stage.start_scheduler(&spec);
    let mut worker = stage.start_worker(&worker_spec);
    wait_for("two tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    scheduler.kill_program();
    worker.kill_program();
    assert_eq!(stage.alive(), Vec::<String>::new());

    stage.set_pause(Duration::ZERO);
    let _scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&worker_spec);
    Client::new(spec.port).wait_all_done();
    let records = stage.records();
    assert_eq!(
        (records.runs.len(), records.finished()),
        (8, 6),
        "{records:?}"
    );
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
}

#[test]
fn an_empty_directory_waits_and_says_what_to_do_unless_the_cluster_is_new() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = SchedulerSpec {
        flags: Vec::new(),
        ..stage.scheduler_spec(&config)
    };
    {
        let scheduler = stage.start_scheduler(&spec);
        let client = Client::new(spec.port);
        let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
        let status = client.wait_until("a worker and a reason to wait", |status| {
            status.initial_wait.is_some()
                && status
                    .workers
                    .as_ref()
                    .is_some_and(|workers| !workers.is_empty())
        });
        let why = status.initial_wait.unwrap_or_default();
        assert!(why.contains("--new-cluster"), "{why}");
        let shown =
            stage.brasserie(&["status", "--scheduler", &format!("127.0.0.1:{}", spec.port)]);
        assert!(shown.output.contains("--new-cluster"), "{}", shown.output);
        scheduler.wait_for_output("--new-cluster");
        assert!(
            stage.records().runs.is_empty(),
            "it started something: {:?}",
            stage.records()
        );
    }
    let fresh = SchedulerSpec {
        data_dir: stage.path("fresh"),
        ..spec
    }
    .with("--new-cluster");
    let started = now();
    let _scheduler = stage.start_scheduler(&fresh);
    let worker = WorkerSpec {
        data_dir: stage.path("fresh-worker"),
        ..stage.worker_spec("one", &fresh)
    };
    let _worker = stage.start_worker(&worker);
    Client::new(fresh.port).wait_all_done();
    assert!(now().saturating_sub(started) < SOON);
}

#[test]
fn a_second_scheduler_on_a_directory_is_refused_by_name() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let _first = stage.start_scheduler(&spec);
    Client::new(spec.port).wait_until("the first one to be up", |_| true);
    let other_ports = SchedulerSpec {
        data_dir: spec.data_dir.clone(),
        ..stage.scheduler_spec(&config)
    };
    let second = stage.finish("second", stage.scheduler_command(&other_ports));
    refused(&second, &[spec.data_dir.to_str().expect("a plain name")]);
}

#[test]
fn a_worker_of_no_cluster_with_an_authority_refuses_other_networks() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.scheduler_spec(&config);
    let worker_spec = stage.worker_spec("one", &spec);
    let mut worker = stage.worker_command(&worker_spec);
    worker.args(["--listen", "0.0.0.0:0"]);
    refused(
        &stage.finish("worker", worker),
        &["--listen", "--insecure-network"],
    );
}

#[test]
fn a_scheduler_that_is_named_twice_is_refused_by_name() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.scheduler_spec(&config);
    let mut worker = stage.worker_command(&stage.worker_spec("one", &spec));
    let again = format!("127.0.0.1:{}", spec.port);
    worker.args(["--scheduler", &again]);
    let finished = stage.finish("worker", worker);
    assert_eq!(finished.code, Some(2));
    refused(
        &finished,
        &["--scheduler", &again, "give each scheduler once"],
    );
}

#[test]
fn a_worker_that_ended_in_good_order_is_not_waited_for() {
    let stage = Stage::new();
    let config = stage.write_work(2, FOR_EVER);
    // The safe wait would be 11 minutes with these default timeouts.
    let spec = SchedulerSpec {
        flags: Vec::new(),
        ..stage.scheduler_spec(&config)
    }
    .with("--new-cluster");
    let mut scheduler = stage.start_scheduler(&spec);
    let mut leaving = stage.start_worker(&stage.worker_spec("leaving", &spec));
    wait_for("both tasks to run", || {
        (stage.records().runs.len() == 2).then_some(())
    });
    leaving.signal(Signal::SIGTERM);
    assert_eq!(leaving.wait().code(), Some(0), "{}", leaving.output());
    assert_eq!(stage.alive(), Vec::<String>::new());
    Client::new(spec.port).wait_until("the worker to be forgotten", |status| {
        status.workers.iter().flatten().all(|w| {
            w.state
                .as_deref()
                .is_none_or(|s| !s.eq_ignore_ascii_case("healthy"))
        })
    });
    scheduler.kill_program();

    stage.set_pause(Duration::ZERO);
    let restarted = now();
    let _scheduler = stage.start_scheduler(&spec);
    let _other = stage.start_worker(&stage.worker_spec("other", &spec));
    Client::new(spec.port).wait_all_done();
    assert!(
        now().saturating_sub(restarted) < SOON,
        "it waited for a worker that had said goodbye"
    );
    assert!(stage.records().overlaps.is_empty());
}

fn ended_well_on_one(last: &Value) {
    assert_eq!(last["worker"], "one", "{last}");
    assert_eq!(last["exit_code"], 0, "{last}");
    assert_eq!(last["fault"], "nobody", "{last}");
    assert!(
        last["ran_ms"].is_i64() && last["queued_ms"].is_i64(),
        "{last}"
    );
}

#[test]
fn a_live_scheduler_answers_the_command_line() {
    let stage = Stage::new();
    let config = stage.write_work(3, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("the nodes to be loaded", |status| {
        status.nodes_loaded == Some(true)
    });
    let address = format!("127.0.0.1:{}", spec.port);
    let ask = |arguments: &[&str]| {
        let finished = stage.brasserie(&[arguments, &["--scheduler", &address]].concat());
        assert_eq!(finished.code, Some(0), "{arguments:?}: {}", finished.output);
        finished.output
    };
    let json = |arguments: &[&str]| -> Value {
        let text = ask(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    };

    let why = json(&["explain", "work", "n1"]);
    let reasons = why["reasons"].as_array().expect("a list of reasons");
    assert!(!reasons.is_empty(), "nothing runs without workers: {why}");
    assert!(why["last_run"].is_null(), "it has never run: {why}");
    assert!(ask(&["explain", "work", "n1"]).starts_with("- "));
    let unknown = stage.brasserie(&["explain", "nobody", "n1", "--scheduler", &address]);
    refused(&unknown, &["nobody"]);

    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    client.wait_all_done();
    ended_well_on_one(&json(&["explain", "work", "n1"])["last_run"]);
    let text = ask(&["explain", "work", "n1"]);
    let words = "on worker `one`: it exited with code 0";
    assert!(text.contains(words), "{text}");
    let status = json(&["status"]);
    assert_eq!(status["jobs"][0]["name"], "work", "{status}");
    assert_eq!(
        (&status["jobs"][0]["done"], &status["jobs"][0]["total"]),
        (&3.into(), &3.into()),
        "{status}"
    );
    assert_eq!(status["workers"][0]["shard"], "one", "{status}");
    let shown = ask(&["status"]);
    assert!(shown.contains("work") && shown.contains("one"), "{shown}");

    let lines = wait_for("the tasks' output", || {
        let page = json(&["logs", "work"]);
        page["lines"]
            .as_array()
            .filter(|lines| lines.len() == 3)
            .cloned()
    });
    assert!(
        lines.iter().all(|line| line["line"]
            .as_str()
            .is_some_and(|l| l.starts_with("working on n"))),
        "{lines:?}"
    );
    assert_eq!(ask(&["logs", "work", "n2"]).trim_end(), "working on n2");
    assert!(
        ask(&["logs", "--events"]).contains("work n1"),
        "events name job and node"
    );

    let nobody = stage.brasserie(&["status", "--scheduler", "127.0.0.1:1"]);
    refused(&nobody, &["127.0.0.1:1", "--scheduler HOST:PORT"]);
}
