//! Tests artifacts with real programs: outputs of one job become inputs of another, wherever its tasks ran.

use std::fs;

use integration_tests::e2e::{SchedulerSpec, Stage, wait_for};
use serde_json::{Value, json};

fn settings(nodes: usize, slots: usize) -> Value {
    json!({
        "nodes": {"levels": ["part"], "node_sources": [{"source": "range_label", "prefs": {
            "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes,
        }}]},
        "resources": {"worker": {"slots": {"default": 1, "limit": slots}}},
    })
}

/// Each task of `map` squares the number of its node, and `sum` adds all of them on the instance node.
fn map_and_sum(nodes: usize) -> Value {
    json!({
        "bistro_settings": settings(nodes, 2),
        "bistro_job->map": {
            "command": ["/bin/sh", "-c", "n=${BRASSERIE_NODE#n}; echo $((n * n)) > square; mkdir f; echo $n > f/n"],
            "arguments": "none", "status_from": "exit_code",
            "outputs": ["square", "f/"],
        },
        "bistro_job->check": {
            "command": ["/bin/sh", "-ec", "n=$(cat $BRASSERIE_INPUTS/map/f/n); test $((n * n)) = $(cat $BRASSERIE_INPUTS/map/square)"],
            "arguments": "none", "status_from": "exit_code",
            "inputs": [{"from": "map"}],
        },
        "bistro_job->sum": {
            "level_for_tasks": "instance",
            "command": ["/bin/sh", "-ec", "cat $BRASSERIE_INPUTS/squares/*/square | awk '{s += $1} END {print s}' > total"],
            "arguments": "none", "status_from": "exit_code",
            "inputs": [{"from": "map", "node": "all", "path": "square", "as": "squares"}],
            "outputs": ["total"],
        },
        "bistro_job->show": {
            "level_for_tasks": "instance",
            "command": ["/bin/cp", "total", "TOTAL"],
            "arguments": "none", "status_from": "exit_code",
            "inputs": [{"from": "sum"}],
        },
    })
}

fn wait_done(stage: &Stage, spec: &SchedulerSpec, jobs: &[&str]) {
    let address = format!("127.0.0.1:{}", spec.port);
    for job in jobs {
        let waited = stage.brasserie(&[
            "job",
            "wait",
            job,
            "--timeout",
            "120s",
            "--scheduler",
            &address,
        ]);
        assert_eq!(waited.code, Some(0), "{waited:?}");
    }
}

#[test]
fn outputs_become_inputs_wherever_their_tasks_ran() {
    let stage = Stage::new();
    let mut config = map_and_sum(20);
    let total = stage.path("total");
    let show = format!("cp $BRASSERIE_INPUTS/sum/total {}", total.display());
    config["bistro_job->show"]["command"] = json!(["/bin/sh", "-ec", show]);
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    wait_done(&stage, &spec, &["map"]);
    // A restarted scheduler knows the outputs, and learns from the workers who has them.
    scheduler.kill_with_keeper();
    let _scheduler = stage.start_scheduler(&spec);
    wait_done(&stage, &spec, &["check", "sum", "show"]);
    let sum: usize = (1..=20).map(|n| n * n).sum();
    assert_eq!(
        fs::read_to_string(total).expect("it is there").trim(),
        sum.to_string()
    );
}

/// Outputs that are lost with a disk are made again when another job needs them, and not before.
#[test]
fn lost_outputs_are_made_again_for_those_who_need_them() {
    let stage = Stage::new();
    let (log, total) = (stage.path("log"), stage.path("total"));
    let mut all = map_and_sum(3);
    let map = format!(
        "echo $BRASSERIE_NODE >> {}; n=${{BRASSERIE_NODE#n}}; echo $((n * n)) > square; mkdir f",
        log.display()
    );
    all["bistro_job->map"]["command"] = json!(["/bin/sh", "-ec", map]);
    let show = format!("cp $BRASSERIE_INPUTS/sum/total {}", total.display());
    all["bistro_job->show"]["command"] = json!(["/bin/sh", "-ec", show]);
    let first: Value = json!({
        "bistro_settings": all["bistro_settings"],
        "bistro_job->map": all["bistro_job->map"],
    });
    let config = stage.write("config.json", &first.to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let worker = stage.worker_spec("one", &spec);
    let mut one = stage.start_worker(&worker);
    wait_done(&stage, &spec, &["map"]);
    one.kill_with_keeper();
    fs::remove_dir_all(worker.data_dir.join("artifacts")).expect("the store of the worker");
    let _one = stage.start_worker(&worker);
    all.as_object_mut()
        .expect("a config")
        .remove("bistro_job->check");
    stage.write("config.json", &all.to_string());
    let address = format!("127.0.0.1:{}", spec.port);
    let is_known = || {
        stage
            .brasserie(&["explain", "show", "--scheduler", &address])
            .code
            == Some(0)
    };
    wait_for("the new jobs to be read", || is_known().then_some(()));
    wait_done(&stage, &spec, &["show"]);
    let sum = fs::read_to_string(total).expect("it is there");
    assert_eq!(sum.trim(), "14");
    let log = fs::read_to_string(log).expect("what ran");
    let mut runs: Vec<&str> = log.lines().collect();
    runs.sort_unstable();
    assert_eq!(runs, ["n1", "n1", "n2", "n2", "n3", "n3"]);
}
