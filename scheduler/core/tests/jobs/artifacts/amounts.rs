//! The most inputs of a task.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common_config::Config;
use serde_json::{Value, json};

use super::plans::{plan, rows};
use super::{Run, Store, explain, pass, places, start, starts};
use crate::support::{Script, config};

/// The outputs of a task of `make`, the most that it may have.
const OUTPUTS: u8 = 64;
const READERS: u8 = 8;

/// A configuration with these jobs, nodes, and a worker for all tasks at once.
fn with_nodes(nodes: usize, jobs: Value) -> Arc<Config> {
    let prefs: BTreeMap<String, [&str; 0]> = (1..=nodes).map(|i| (format!("n{i}"), [])).collect();
    let mut all = json!({
        "bistro_settings": {"resources": {"worker": {"slots": {"default": 1, "limit": 2000}}}, "nodes": {"levels": ["l"], "node_sources": [{"source": "manual", "prefs": prefs}]}},
    });
    let jobs = jobs.as_object().expect("jobs").clone();
    all.as_object_mut().expect("a config").extend(jobs);
    config(&all.to_string())
}

/// A job that reads outputs of `make`.
fn reader(input: Value) -> Value {
    json!({"owner": "o", "command": ["/bin/true"], "level_for_tasks": "instance", "inputs": [input]})
}

/// `sum` reads all outputs of all nodes, and `part` one of each node.
fn many(nodes: usize) -> Arc<Config> {
    let outputs: Vec<String> = (0..OUTPUTS).map(|number| format!("o{number}")).collect();
    let jobs = json!({
        "bistro_job->make": {"owner": "o", "command": ["/bin/true"], "outputs": outputs},
        "bistro_job->sum": reader(json!({"from": "make", "node": "all"})),
        "bistro_job->part": reader(json!({"from": "make", "node": "all", "path": "o7"})),
    });
    with_nodes(nodes, jobs)
}

/// Joins a worker with space for all outputs, and lets it make all of them. Returns the fence of the last run.
fn make_all(script: &mut Script, nodes: usize) -> (Store, i64) {
    let mut store = Store::join(script, "a", 1);
    store.usable = 1 << 40;
    store.settle(script);
    let contents: Vec<u8> = (0..OUTPUTS).collect();
    let (mut done, mut last) = (0, 0);
    while done < nodes {
        // A worker starts a part of all tasks at a time.
        for name in starts(script) {
            let node = name.strip_prefix("make on ").expect("no other job starts");
            let run = start(script, "make", node);
            store.done(script, &run, &contents);
            last = last.max(fence(&run));
            done += 1;
        }
        script.advance(Duration::from_millis(10));
    }
    store.settle(script);
    (store, last)
}

fn fence(run: &Run) -> i64 {
    run.task.fence.expect("each run has one").get()
}

#[test]
fn a_task_with_too_many_inputs_says_so_and_starts_when_they_are_fewer() {
    let mut script = Script::with_config(many(1025));
    make_all(&mut script, 1025);
    pass(&mut script, Duration::from_secs(2), None);
    assert_eq!(starts(&script), ["part on instance"]);
    assert_eq!(places(&start(&mut script, "part", "instance")).len(), 1025);
    let text = "its inputs are 65600 artifacts, and a task may have at most 65536: name a `path`";
    let why = explain(&script, "sum", "instance").join("; ");
    assert!(why.contains(&format!("it cannot start: {text}")), "{why}");
    let problems = script.status().errors.join("; ");
    assert!(
        problems.contains(&format!("sum on instance lacks an input: {text}")),
        "{problems}"
    );
    script.load(many(1024));
    pass(&mut script, Duration::from_secs(61), None);
    let sum = start(&mut script, "sum", "instance");
    assert_eq!(places(&sum).len(), 65_536);
}

/// Returns the rows and the only note of a plan that adds the readers of all outputs of so many nodes.
fn plan_readers(nodes: usize) -> (BTreeSet<String>, String) {
    let jobs = |names: &[&str]| {
        let mut config = Config::clone(&many(nodes));
        config.jobs.retain(|job| names.contains(&job.name.as_str()));
        Arc::new(config)
    };
    let mut script = Script::with_config(jobs(&["make"]));
    make_all(&mut script, nodes);
    let found = plan(&script, &jobs(&["make", "sum", "part"]), &[]);
    let [note] = &found.notes[..] else {
        panic!("{:?}", found.notes);
    };
    (rows(&found), note.clone())
}

/// The copy of a plan knows none of more than 100,000 artifacts.
#[test]
fn a_plan_starts_no_task_with_too_many_inputs() {
    for (nodes, inputs) in [(1025, 65_600), (1600, 102_400)] {
        let (rows, note) = plan_readers(nodes);
        assert_eq!(rows, ["part 1 instance".to_owned()].into());
        let expected = format!("tasks of `sum` could not start: its inputs are {inputs} artifacts");
        assert!(note.starts_with(&expected), "{note}");
    }
}

/// `READERS` jobs read all outputs of `make`, and may wait for copies on two workers.
fn readers(nodes: usize, wait: bool) -> Arc<Config> {
    let output =
        |number| json!({"path": format!("o{number}"), "replicas": 2, "wait_for_replica": wait});
    let outputs: Vec<Value> = (0..OUTPUTS).map(output).collect();
    let mut jobs = json!({
        "bistro_job->make": {"owner": "o", "command": ["/bin/true"], "outputs": outputs},
    });
    for number in 0..READERS {
        jobs[format!("bistro_job->sum{number}")] = reader(json!({"from": "make", "node": "all"}));
    }
    with_nodes(nodes, jobs)
}

/// Each try issues a fence. It looks all inputs up.
#[test]
fn tasks_that_wait_for_many_inputs_are_tried_more_rarely() {
    for (nodes, seconds) in [(1, 1.0), (320, 4.096)] {
        let mut script = Script::with_config(readers(nodes, true));
        let (_store, last) = make_all(&mut script, nodes);
        // No other worker can have the copies.
        pass(&mut script, Duration::from_secs(60), None);
        assert!(starts(&script).is_empty());
        script.load(readers(nodes, false));
        pass(&mut script, Duration::from_secs(5), None);
        let readers = 0..READERS;
        let runs = readers.map(|number| start(&mut script, &format!("sum{number}"), "instance"));
        let first = runs.map(|run| fence(&run)).min().expect("there are some");
        let tries = u32::try_from(first - last).expect("a few");
        let (least, most) = (40.0 / seconds, 66.0 / seconds);
        let each = f64::from(tries) / f64::from(READERS);
        assert!((least..most).contains(&each), "{nodes}: {each}");
    }
}
