//! Tests artifacts with real programs: outputs of one job become inputs of another, wherever its tasks ran.

use std::fs;

use brasserie_thrift::generated::scheduler::{
    ArtifactSlotsRequest, BistroSchedulerReleaseArtifactSlotsArgs,
    BistroSchedulerReleaseArtifactSlotsResult, BistroSchedulerRequestArtifactSlotsArgs,
    BistroSchedulerRequestArtifactSlotsResult,
};
use integration_tests::e2e::{Client, SchedulerSpec, Stage, wait_for};
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

/// A restart of the scheduler does not end the time for which outputs are kept.
#[test]
fn outputs_are_kept_for_their_time_across_a_restart() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": settings(2, 2),
        "bistro_job->make": {
            "command": ["/bin/sh", "-c", "echo 7 > out"], "arguments": "none", "status_from": "exit_code",
            "outputs": ["out"],
        },
    });
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_done(&stage, &spec, &["make"]);
    let address = format!("127.0.0.1:{}", spec.port);
    let listed = || {
        let listed = stage.brasserie(&["artifact", "list", "--json", "--scheduler", &address]);
        serde_json::from_str::<Value>(&listed.output).ok()
    };
    for restart in 0..2 {
        scheduler.kill_with_keeper();
        scheduler = stage.start_scheduler(&spec);
        // The scheduler names the time as soon as it has judged which outputs have expired.
        let left = wait_for("the time left of the outputs", || {
            let listed = listed()?;
            let outputs = listed["outputs"].as_array()?;
            assert_eq!(outputs.len(), 2, "restart {restart}: {listed}");
            listed["jobs"][0]["expires_in_ms"].as_i64()
        });
        assert!((604_000_000..=604_800_000).contains(&left), "{left}");
    }
}

/// An output that no disk can have costs tries, and the status names the problem once for all tasks and tries.
#[test]
fn outputs_that_fit_nowhere_are_failures_and_a_problem() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": settings(2, 2),
        "bistro_job->make": {
            "command": ["/bin/sh", "-c", "head -c 3000000 /dev/zero > out"], "arguments": "none", "status_from": "exit_code",
            "outputs": ["out"], "backoff": [1, "fail"],
        },
    });
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let mut worker = stage.worker_spec("one", &spec);
    let disk = stage.path("disk");
    worker
        .flags
        .push(format!("--disk={},capacity=1MiB", disk.display()));
    let _one = stage.start_worker(&worker);
    let address = format!("127.0.0.1:{}", spec.port);
    let waited = [
        "job",
        "wait",
        "make",
        "--timeout",
        "100s",
        "--scheduler",
        &address,
    ];
    let waited = stage.brasserie(&waited);
    assert_eq!(waited.code, Some(1), "{waited:?}");
    let status = stage.brasserie(&["status", "--scheduler", &address]);
    let about = "worker `one` could not keep the outputs of 2 tasks";
    assert_eq!(status.output.matches(about).count(), 1, "{status:?}");
    assert!(status.output.contains("no space for 2.9 MiB"), "{status:?}");
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

/// Two workers keep each output, and a task that waits for the second copy starts once it is there. The disks are in the status.
#[test]
fn a_task_waits_for_the_second_copy_of_its_input() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": settings(1, 1),
        "bistro_job->make": {
            "command": ["/bin/sh", "-c", "echo 7 > out"], "arguments": "none", "status_from": "exit_code",
            "outputs": [{"path": "out", "replicas": 2, "wait_for_replica": true}],
        },
        "bistro_job->read": {
            "command": ["/bin/sh", "-ec", "test $(cat $BRASSERIE_INPUTS/make/out) = 7"],
            "arguments": "none", "status_from": "exit_code", "inputs": [{"from": "make"}],
        },
    });
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_done(&stage, &spec, &["make"]);
    let address = format!("127.0.0.1:{}", spec.port);
    let asked = ["explain", "read", "n1", "--scheduler", &address];
    let why = wait_for("the reason", || {
        let why = stage.brasserie(&asked).output;
        why.contains("waits for 1 more copy").then_some(why)
    });
    assert!(why.contains("no other worker may keep artifacts"), "{why}");
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    wait_done(&stage, &spec, &["read"]);
    let located = stage.brasserie(&["artifact", "locate", "make", "--scheduler", &address]);
    assert!(
        located.output.contains("one") && located.output.contains("two"),
        "{located:?}"
    );
    let client = Client::new(spec.port);
    client.wait_until("the disks of both workers", |status| {
        let workers = status.workers.iter().flatten();
        let disks = workers.flat_map(|worker| worker.disks.iter().flatten());
        let healthy = disks.filter(|disk| disk.state.as_deref() == Some("healthy"));
        healthy.count() == 2
    });
}

/// A program reserves places on workers that run no tasks with outputs, and releases them.
#[test]
fn a_program_reserves_places_for_its_artifacts() {
    let stage = Stage::new();
    let config = json!({"bistro_settings": settings(1, 1)});
    let config = stage.write("config.json", &config.to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    let client = Client::new(spec.port);
    client.wait_healthy(2);
    let request = |artifacts| -> BistroSchedulerRequestArtifactSlotsResult {
        let request = ArtifactSlotsRequest {
            artifacts: Some(artifacts),
            replicas: Some("other worker".to_owned()),
            except_shards: None,
            most_workers: None,
        };
        let arguments = BistroSchedulerRequestArtifactSlotsArgs { request };
        let answer = client.call("requestArtifactSlots", &arguments);
        answer.expect("the scheduler answers")
    };
    let slots = wait_for("both workers to report their disks", || {
        let answer = request(100);
        assert!(answer.ex.is_some() || answer.result_value.is_some());
        answer.result_value
    });
    let workers = slots.workers.unwrap_or_default();
    let shards: Vec<&str> = workers
        .iter()
        .filter_map(|one| one.shard.as_deref())
        .collect();
    assert!(
        shards.contains(&"one") && shards.contains(&"two"),
        "{shards:?}"
    );
    let places = slots.slots.unwrap_or_default();
    assert_eq!(places.len(), 100);
    for place in places {
        let (primary, replica) = (place.primary.expect("a place"), place.replica);
        assert_ne!(primary.worker, replica.expect("a second place").worker);
    }
    let arguments = BistroSchedulerReleaseArtifactSlotsArgs {
        scheduler: slots.scheduler.expect("an instance"),
        reservation: slots.reservation.expect("a number"),
    };
    for was_open in [true, false] {
        let released: BistroSchedulerReleaseArtifactSlotsResult = client
            .call("releaseArtifactSlots", &arguments)
            .expect("the scheduler answers");
        assert_eq!(released.result_value, Some(was_open));
    }
    let refused = request(10_001).ex.and_then(|ex| ex.message);
    let refused = refused.unwrap_or_default();
    assert!(
        refused.contains("10001 artifacts; it may name 1 to 10000"),
        "{refused}"
    );
}
