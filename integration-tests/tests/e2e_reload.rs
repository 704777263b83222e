//! Tests a config file that changes constantly while tasks run on real workers: whatever appears and disappears in it, no task is lost, run
//! twice, or killed.

use std::time::{Duration, Instant};

use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobArgs, BistroSchedulerGetJobResult,
};
use integration_tests::e2e::{Client, PATIENCE, Process, SchedulerSpec, Stage, wait_for};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};

/// Number of configurations that come into force in turn.
const RELOADS: usize = 1000;
/// Number of nodes of `work`, more than can run while the configuration changes.
const NODES: usize = 600;
/// Duration of a task. With four slots, all nodes take a minute.
const PAUSE: Duration = Duration::from_millis(400);
/// No worker is lost on a busy machine, and the file is checked as often as it changes.
const FLAGS: &[&str] = &[
    "--heartbeat-grace-period=20s",
    "--healthcheck-grace-period=20s",
    "--lose-unhealthy-worker-after=60s",
    "--caution-worker-suicide-task-kill-wait=1s",
    "--config-update=1ms",
    "--new-cluster",
];
/// Seconds that orphans may live if they are limited: longer than the test.
const ORPHANS_LIVE: u64 = 3600;

/// Returns the config of a round. Each part disappears and returns with a different period, so that all combinations occur.
fn config(round: usize) -> Value {
    let every = |period: usize| round % period == period - 1;
    let nodes = if every(13) { NODES / 2 } else { NODES };
    let orphans = if every(3) {
        json!(ORPHANS_LIVE)
    } else {
        json!(false)
    };
    let policies = [
        "roundrobin",
        "ranked_priority",
        "randomized_priority",
        "long_tail",
    ];
    let mut config = json!({
        "bistro_settings": {
            "enabled": !every(19),
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes } }
            ] },
            "resources": {
                "instance": { "all": { "default": 1, "limit": 100 + round % 5 } },
                "worker": { "slots": { "default": 1, "limit": 2 } }
            },
            "scheduler": policies[round % policies.len()],
            "kill_orphan_tasks_after_sec": orphans
        },
        "bistro_job->marker": { "owner": marker(round), "enabled": false, "command": ["./bin/nobody.sh"] }
    });
    if !every(17) {
        config["bistro_job->work"] = json!({
            "owner": "test", "enabled": !every(11), "priority": round % 7, "command": ["./bin/work.sh"],
            "kill_orphan_tasks_after_sec": orphans
        });
    }
    if every(2) {
        // This job depends on one that never succeeds, so it never starts.
        config["bistro_job->beside"] =
            json!({ "depends_on": ["marker"], "command": ["./bin/nobody.sh"] });
    }
    config
}

fn marker(round: usize) -> String {
    format!("round {round}")
}

/// Replaces the file atomically, like an editor.
fn put(stage: &Stage, text: &str) {
    let new = stage.write("work/config.new", text);
    std::fs::rename(new, stage.path("work/config.json")).expect("both are in one folder");
}

fn wait_in_force(client: &Client, round: usize) {
    let began = Instant::now();
    let arguments = BistroSchedulerGetJobArgs {
        job_name: "marker".to_owned(),
    };
    loop {
        let found = client.call("getJob", &arguments);
        let found: Option<BistroSchedulerGetJobResult> = found.ok();
        let job = found.and_then(|found| found.result_value);
        if job.and_then(|job| job.owner) == Some(marker(round)) {
            return;
        }
        assert!(
            began.elapsed() < PATIENCE,
            "round {round} never came into force"
        );
    }
}

#[test]
fn a_thousand_reloads_cost_no_task_anything() {
    let stage = Stage::new();
    let file = stage.write_work(NODES, PAUSE);
    let last = std::fs::read_to_string(&file).expect("it was just written");
    put(&stage, &config(0).to_string());
    let spec = SchedulerSpec {
        flags: FLAGS.iter().map(|&flag| flag.to_owned()).collect(),
        ..stage.scheduler_spec(&file)
    };
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    client.wait_healthy(2);
    for round in 1..=RELOADS {
        let text = config(round).to_string();
        if round % 10 == 0 {
            // Half of a config is invalid, and changes nothing.
            put(&stage, &text[..text.len() / 2]);
        }
        put(&stage, &text);
        wait_in_force(&client, round);
    }
    let started = stage.records().runs.len();
    assert!(started > 0, "no task ran while the configuration changed");
    assert!(started < NODES, "all tasks had run before the last reload");

    stage.set_pause(Duration::ZERO);
    put(&stage, &last);
    client.wait_all_done();
    let records = stage.records();
    assert!(records.overlaps.is_empty(), "{:?}", records.overlaps);
    let starts = records.starts();
    assert_eq!(starts.len(), NODES, "a task is lost");
    let twice: Vec<_> = starts.iter().filter(|(_, count)| **count != 1).collect();
    assert!(twice.is_empty(), "ran again: {twice:?}");
    assert_eq!(records.finished(), NODES, "some were killed");
}

/// Replaces the file by a pipe without a writer.
fn put_pipe(stage: &Stage) {
    let pipe = stage.path("work/pipe");
    mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe in a temporary folder");
    std::fs::rename(pipe, stage.path("work/config.json")).expect("both are in one folder");
}

fn ends_well(scheduler: &mut Process) {
    scheduler.signal(Signal::SIGTERM);
    let ended = scheduler.wait();
    assert!(ended.success(), "{ended}: {}", scheduler.output());
}

#[test]
fn a_config_file_that_is_a_pipe_is_told_and_holds_up_nothing() {
    let stage = Stage::new();
    let file = stage.write("work/config.json", &config(0).to_string());
    let spec = stage.calm_spec(&file);
    let mut scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    wait_in_force(&client, 0);
    put_pipe(&stage);
    let wait_told = |told: bool| {
        wait_for("what the status says of the file", || {
            let errors = client.status()?.errors.into_iter().flatten();
            let is_pipe = |error: String| error.contains("config.json: it is not a regular file");
            (errors.into_iter().any(is_pipe) == told).then_some(())
        });
    };
    wait_told(true);
    put(&stage, &config(1).to_string());
    wait_in_force(&client, 1);
    wait_told(false);
    put_pipe(&stage);
    wait_told(true);
    ends_well(&mut scheduler);
    // A scheduler with a used directory starts with the configuration that was in force.
    let mut spec = spec;
    spec.flags.retain(|flag| flag != "--new-cluster");
    let mut scheduler = stage.start_scheduler(&spec);
    wait_in_force(&client, 1);
    wait_told(true);
    ends_well(&mut scheduler);
}
