//! Tests a worker with few descriptors: it reports how many tasks it can run, gets no more, and users see the responsible limit.

use std::process::Command;

use integration_tests::e2e::{PATIENCE, Stage, wait_within};
use serde_json::{Value, json};

/// Far longer than any wait here.
const TOO_LONG: &str = "1000";
/// The worker's limit of descriptors, and the resulting number of tasks.
const DESCRIPTORS: &str = "274";
const ROOM: usize = 3;
const TASKS: usize = 5;

fn config() -> Value {
    let nodes: serde_json::Map<String, Value> =
        (0..TASKS).map(|n| (format!("n{n}"), json!([]))).collect();
    json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_order": "original", "node_sources": [
                { "source": "manual", "prefs": nodes }
            ] },
            // Far more slots than the worker can use.
            "resources": { "worker": { "slots": { "default": 1, "limit": 1000 } } }
        },
        "bistro_job->j": { "command": ["/bin/sleep", TOO_LONG], "arguments": "none" }
    })
}

/// Returns the same command in a shell that has set the limit.
fn limited(command: &Command) -> Command {
    let mut shell = Command::new("/bin/sh");
    let script = format!("ulimit -n {DESCRIPTORS} && exec \"$@\"");
    shell.args(["-c", &script, "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    let changed = command.get_envs();
    let set = changed.filter_map(|(name, value)| Some((name, value?)));
    shell.envs(set);
    shell
}

#[test]
fn a_worker_gets_as_many_tasks_as_its_descriptors_allow() {
    let stage = Stage::new();
    let config = stage.write("config.json", &format!("{:#}", config()));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let worker = stage.worker_command(&stage.worker_spec("one", &spec));
    let _worker = stage.start("worker", limited(&worker));
    let address = format!("127.0.0.1:{}", spec.port);
    let explain = |node: &str| stage.explain(&spec, "j", node)["reasons"].to_string();
    let limit = format!(
        "1 with as many tasks as they can run (worker `one` runs {ROOM} at most, by open files: {DESCRIPTORS}, 6 a task)"
    );
    let is_running = |text: &&String| text.contains("it is running on `one`");
    wait_within(PATIENCE, "as many tasks as there is room for", || {
        let all: Vec<String> = (0..TASKS).map(|n| explain(&format!("n{n}"))).collect();
        let (running, waiting): (Vec<_>, Vec<_>) = all.iter().partition(is_running);
        assert!(running.len() <= ROOM, "{running:?}");
        let is_full = running.len() == ROOM && waiting.iter().all(|text| text.contains(&limit));
        is_full.then_some(())
    });
    let status = stage.brasserie(&["status", "--scheduler", &address]);
    let text = "for one of its tasks to end: it runs 3 at most";
    assert!(status.output.contains(text), "{}", status.output);
}
