//! Tests tasks that stand by at a worker, with real programs.

use std::fs;

use integration_tests::e2e::{Finished, SchedulerSpec, Stage, wait_for};
use integration_tests::fake_worker::FakeWorker;
use serde_json::{Value, json};

/// Writes a job with one task a node, each of which writes a line and runs until the file `go` exists. The worker has one slot.
fn config(stage: &Stage, nodes: usize, standby: bool) -> String {
    let (started, go) = (stage.path("started"), stage.path("go"));
    let script = format!(
        "echo $BRASSERIE_NODE >> {}; until [ -e {} ]; do sleep 0.01; done",
        started.display(),
        go.display()
    );
    let config = json!({
        "bistro_settings": {
            "nodes": {"levels": ["item"], "node_sources": [{"source": "range_label", "prefs": {
                "parent_level": "instance", "format": "n{i}", "start": 1, "end": nodes,
            }}]},
            "resources": {"worker": {"slots": {"default": 1, "limit": 1}}},
            "standby": standby,
        },
        "bistro_job->short": {"est_duration": "5 ms", "command": ["/bin/sh", "-c", script], "arguments": "none"},
    });
    config.to_string()
}

fn ask(stage: &Stage, spec: &SchedulerSpec, arguments: &[&str]) -> Finished {
    let address = format!("127.0.0.1:{}", spec.port);
    let mut all = arguments.to_vec();
    all.extend(["--scheduler", &address]);
    stage.brasserie(&all)
}

fn tasks(stage: &Stage, spec: &SchedulerSpec, state: &str) -> Vec<Value> {
    let listed = ask(stage, spec, &["task", "list", "--state", state, "--json"]);
    let Ok(document) = serde_json::from_str::<Value>(&listed.output) else {
        return Vec::new();
    };
    document["tasks"].as_array().cloned().unwrap_or_default()
}

/// Waits until this many tasks are in a state at a worker, and returns their nodes.
fn wait_for_tasks(
    stage: &Stage,
    spec: &SchedulerSpec,
    (state, worker): (&str, &str),
    count: usize,
) -> Vec<String> {
    wait_for(&format!("{count} tasks to be {state} at {worker}"), || {
        let all = tasks(stage, spec, state).into_iter();
        let here = all.filter(|task| task["worker"] == worker);
        let nodes: Vec<String> = here
            .filter_map(|task| task["node"].as_str().map(str::to_owned))
            .collect();
        (nodes.len() == count).then_some(nodes)
    })
}

/// Returns the nodes whose tasks have begun, once for each run.
fn started(stage: &Stage) -> Vec<String> {
    let text = fs::read_to_string(stage.path("started")).unwrap_or_default();
    let mut nodes: Vec<String> = text.lines().map(str::to_owned).collect();
    nodes.sort_unstable();
    nodes
}

/// Returns the positions at the worker `one` that `explain` shows for tasks, in order.
fn standby_positions(stage: &Stage, spec: &SchedulerSpec, nodes: &[String]) -> Vec<usize> {
    let position = |node: &String| {
        let explained = ask(stage, spec, &["explain", "short", node]).output;
        let text = "it is on standby, position ";
        let shown = explained
            .split_once(text)
            .map(|(_, rest)| rest.split(',').next());
        let number = shown.flatten().and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("no position: {explained}"))
    };
    let mut all: Vec<usize> = nodes.iter().map(position).collect();
    all.sort_unstable();
    all
}

#[test]
fn short_tasks_stand_by_survive_a_scheduler_and_are_taken_back_for_a_free_worker() {
    let stage = Stage::new();
    let config = stage.write("config.json", &config(&stage, 3, true));
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let begun = wait_for_tasks(&stage, &spec, ("running", "one"), 1);
    let standing_by = wait_for_tasks(&stage, &spec, ("standby", "one"), 2);
    let explained = standby_positions(&stage, &spec, &standing_by);
    assert_eq!(explained, [1, 2]);
    let workers = ask(&stage, &spec, &["worker", "list"]);
    let row = workers.output.lines().find(|row| row.starts_with("one "));
    let cells: Vec<&str> = row.unwrap_or_default().split_whitespace().collect();
    assert_eq!(cells.get(2..4), Some(&["1", "2"][..]), "{workers:?}");

    // The worker says what stands by, so a scheduler that starts again knows it too.
    scheduler.kill_with_keeper();
    let _scheduler = stage.start_scheduler(&spec);
    let adopted = wait_for_tasks(&stage, &spec, ("standby", "one"), 2);
    assert_eq!(adopted, standing_by);
    wait_for_tasks(&stage, &spec, ("running", "one"), 1);

    // Another worker could start the first of them now.
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    let moved = wait_for_tasks(&stage, &spec, ("running", "two"), 1);
    assert!(standing_by.contains(&moved[0]), "{moved:?}");
    let stays = wait_for_tasks(&stage, &spec, ("standby", "one"), 1);
    assert!(standing_by.contains(&stays[0]), "{stays:?}");
    let mut expected = vec![begun[0].clone(), moved[0].clone()];
    expected.sort_unstable();
    wait_for("both to have begun", || {
        (started(&stage) == expected).then_some(())
    });
    stage.write("go", "");
    let done = ask(&stage, &spec, &["job", "wait", "short", "--timeout", "60s"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(started(&stage), ["n1", "n2", "n3"]);
}

#[test]
fn a_worker_that_does_not_announce_standby_gets_one_task_for_each_slot() {
    let stage = Stage::new();
    let config = stage.write("config.json", &config(&stage, 5, true));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let foreign = FakeWorker::start(spec.port, "foreign");
    let first = foreign.next_task();
    assert_eq!(first.rt.worker_slots, None);
    wait_for("the others to wait", || {
        (tasks(&stage, &spec, "waiting").len() == 4).then_some(())
    });
    assert!(foreign.report(&first, "done").into_result().is_ok());
    assert_eq!(foreign.next_task().rt.worker_slots, None);

    // Tasks stand by at a worker that announces it.
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_for_tasks(&stage, &spec, ("running", "one"), 1);
    wait_for_tasks(&stage, &spec, ("standby", "one"), 2);
    wait_for_tasks(&stage, &spec, ("running", "foreign"), 1);
    stage.write("go", "");
}

#[test]
fn tasks_stand_by_once_their_duration_is_learned() {
    let stage = Stage::new();
    let mut config: Value = serde_json::from_str(&config(&stage, 3, true)).expect("JSON");
    let blocks = config["bistro_job->short"]["command"][2].take();
    let blocks = blocks.as_str().expect("a script");
    let script = format!("[ $BRASSERIE_NODE = n1 ] && exit; {blocks}");
    config["bistro_job->short"] = json!({"command": ["/bin/sh", "-c", script], "arguments": "none", "status_from": "exit_code"});
    config["bistro_settings"]["nodes"]["node_order"] = json!("original");
    let spec = stage.calm_spec(&stage.write("config.json", &config.to_string()));
    let _scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let standing_by = wait_for_tasks(&stage, &spec, ("standby", "one"), 1);
    assert_eq!(standing_by, ["n3"]);
    stage.write("go", "");
    let done = ask(&stage, &spec, &["job", "wait", "short", "--timeout", "60s"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_setting_sends_no_task_before_slots_are_free() {
    let stage = Stage::new();
    let config = stage.write("config.json", &config(&stage, 3, false));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    wait_for_tasks(&stage, &spec, ("running", "one"), 1);
    assert_eq!(tasks(&stage, &spec, "waiting").len(), 2);
    assert_eq!(tasks(&stage, &spec, "standby"), [Value::Null; 0]);
    stage.write("go", "");
    let done = ask(&stage, &spec, &["job", "wait", "short", "--timeout", "60s"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_job_of_a_higher_priority_waits_only_for_what_stands_by() {
    /// 20 ms of work.
    const STANDING_BY: usize = 4;
    const HIGH: usize = 20;
    let stage = Stage::new();
    let started = stage.path("started");
    let script = format!("echo $BRASSERIE_JOB >> {}; sleep 0.005", started.display());
    let job = |priority: u32| json!({"priority": priority, "est_duration": "5 ms", "command": ["/bin/sh", "-c", script], "arguments": "none"});
    let mut config: Value = serde_json::from_str(&config(&stage, 1000, true)).expect("JSON");
    config["bistro_settings"]["scheduler"] = json!("ranked_priority");
    config["bistro_job->short"] = job(1);
    let spec = stage.calm_spec(&stage.write("config.json", &config.to_string()));
    let _scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let jobs = || {
        let text = fs::read_to_string(&started).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    wait_for("tasks of the first job", || {
        (jobs().len() >= 20).then_some(())
    });

    let mut high = job(10);
    let nodes: Vec<String> = (1..=HIGH).map(|number| format!("n{number}")).collect();
    high["filters"] = json!({"item": {"whitelist": nodes}});
    let high = stage.write("high.json", &high.to_string());
    let high = high.to_str().expect("a path of this test");
    let submitted = ask(&stage, &spec, &["job", "submit", high]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    let before = jobs().len();
    let done = ask(&stage, &spec, &["job", "wait", "high", "--timeout", "60s"]);
    assert_eq!(done.code, Some(0), "{done:?}");

    let jobs = jobs();
    let is_high = |job: &String| job == "high";
    let first = jobs.iter().position(is_high).expect("it has run");
    let last = jobs.iter().rposition(is_high).expect("it has run");
    // One more has begun, and one has not written its line yet.
    let overtaken = first.saturating_sub(before);
    assert!(overtaken <= STANDING_BY + 2, "{before} {jobs:?}");
    assert_eq!(last - first + 1, HIGH, "{jobs:?}");
    assert!(jobs.len() < 1000, "the other job goes on: {jobs:?}");
}
