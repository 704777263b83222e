//! The most inputs of a task.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common_config::Config;
use serde_json::json;

use super::{Store, explain, pass, places, start, starts};
use crate::support::{Script, config};

/// The outputs of a task of `make`, the most that it may have.
const OUTPUTS: u8 = 64;

/// `sum` reads all outputs of all nodes, and `part` one of each node.
fn many(nodes: usize) -> Arc<Config> {
    let outputs: Vec<String> = (0..OUTPUTS).map(|number| format!("o{number}")).collect();
    let prefs: BTreeMap<String, [&str; 0]> = (1..=nodes).map(|i| (format!("n{i}"), [])).collect();
    let all = json!({
        "bistro_settings": {"resources": {"worker": {"slots": {"default": 1, "limit": 2000}}}, "nodes": {"levels": ["l"], "node_sources": [{"source": "manual", "prefs": prefs}]}},
        "bistro_job->make": {"owner": "o", "command": ["/bin/true"], "outputs": outputs},
        "bistro_job->sum": {"owner": "o", "command": ["/bin/true"], "level_for_tasks": "instance",
            "inputs": [{"from": "make", "node": "all"}]},
        "bistro_job->part": {"owner": "o", "command": ["/bin/true"], "level_for_tasks": "instance",
            "inputs": [{"from": "make", "node": "all", "path": "o7"}]},
    });
    config(&all.to_string())
}

#[test]
fn a_task_with_too_many_inputs_says_so_and_starts_when_they_are_fewer() {
    let mut script = Script::with_config(many(1025));
    let mut store = Store::join(&mut script, "a", 1);
    // The outputs of all tasks fit.
    store.usable = 1 << 40;
    store.settle(&mut script);
    let contents: Vec<u8> = (0..OUTPUTS).collect();
    let mut done = 0;
    while done < 1025 {
        // A worker starts a part of all tasks at a time.
        for name in starts(&script) {
            let node = name.strip_prefix("make on ").expect("no other job starts");
            let run = start(&mut script, "make", node);
            store.done(&mut script, &run, &contents);
            done += 1;
        }
        script.advance(Duration::from_millis(10));
    }
    store.settle(&mut script);
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
