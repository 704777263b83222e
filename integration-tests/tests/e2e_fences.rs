//! Tests that `$BRASSERIE_FENCE` increases with each run of a task, whatever dies or is lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use integration_tests::e2e::{Stage, wait_for, warn_not_run};
use serde_json::json;

/// Writes its fence and asks to run again.
const SCRIPT: &str = r#"#!/bin/sh
cd "$(dirname "$0")/.."
echo "$BRASSERIE_FENCE" >> fences
sleep 0.2
echo incomplete > "$2"
"#;

/// Returns the fence of each run so far, in the order in which the runs began.
fn fences(file: &Path) -> Vec<i64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let number = |line: &str| {
        let number = line.parse::<i64>();
        number.unwrap_or_else(|e| panic!("a strange fence `{line}`: {e}"))
    };
    whole.lines().map(number).collect()
}

#[test]
fn each_run_has_a_larger_fence_after_any_loss() {
    let stage = Stage::new();
    stage.write_script("work/bin/fence.sh", SCRIPT);
    let config = json!({
        "bistro_settings": {
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": 1 } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 1 } } },
            "backoff": [1, "repeat"]
        },
        "bistro_job->fence": { "owner": "test", "command": ["./bin/fence.sh"] }
    });
    let config = stage.write("work/config.json", &config.to_string());
    let file = stage.path("work/fences");
    let wait_for_more = |what: &str| {
        let before = fences(&file).len();
        wait_for(what, || (fences(&file).len() >= before + 2).then_some(()));
    };
    let spec = stage.scheduler_spec(&config).with("--new-cluster");
    let worker_spec = stage.worker_spec("w1", &spec);
    let mut scheduler = stage.start_scheduler(&spec);
    let mut worker = stage.start_worker(&worker_spec);
    wait_for_more("the first runs");
    scheduler.kill_program();
    scheduler = stage.start_scheduler(&spec);
    wait_for_more("runs of the restarted scheduler");
    worker.kill_program();
    worker = stage.start_worker(&worker_spec);
    wait_for_more("runs after the worker was killed");
    scheduler.kill_program();
    fs::remove_dir_all(&spec.data_dir).expect("its directory can be removed");
    let mut empty = spec.clone();
    empty.flags.retain(|flag| flag != "--new-cluster");
    scheduler = stage.start_scheduler(&empty);
    wait_for_more("runs after the directory was lost");
    let all = fences(&file);
    assert!(all[0] > 0, "{all:?}");
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    let mut generations: Vec<i64> = all.iter().map(|fence| fence >> 31).collect();
    generations.dedup();
    assert_eq!(generations.len(), 3, "one for each scheduler: {all:?}");
    drop((scheduler, worker));
}

/// Returns the first shell block of the guide's section on fencing tokens.
fn shell_lines() -> &'static str {
    let page = include_str!("../../docs/src/guide/tasks.md");
    let (_, section) = page.split_once("## Fencing tokens").expect("a section");
    let (_, block) = section.split_once("```sh\n").expect("a block");
    block.split_once("```").expect("its end").0
}

#[test]
fn the_shell_lines_of_the_guide_refuse_writes_of_an_earlier_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let sqlite = |text: &str| {
        let mut command = Command::new("sqlite3");
        let output = command
            .args(["results.db", text])
            .current_dir(&folder)
            .output();
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let table = "CREATE TABLE results (id TEXT PRIMARY KEY, value TEXT, fence INTEGER);
        INSERT INTO results VALUES ('n1', 'nothing', 0);";
    if let Err(error) = sqlite(table) {
        return warn_not_run("the guide's use of fences", &format!("sqlite3: {error}"));
    }
    let run = |fence: Option<&str>, value: &str| {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", shell_lines()]).current_dir(&folder);
        shell.env("BRASSERIE_NODE", "n1").env("value", value);
        match fence {
            Some(fence) => shell.env("BRASSERIE_FENCE", fence),
            None => shell.env_remove("BRASSERIE_FENCE"),
        };
        shell.status().expect("a shell").success()
    };
    assert!(run(Some("5"), "first"));
    assert!(run(Some("5"), "again"));
    assert!(!run(Some("4"), "late"));
    assert!(!run(None, "of an old release"));
    assert_eq!(
        sqlite("SELECT value, fence FROM results").ok().as_deref(),
        Some("again|5")
    );
    assert!(run(Some("6"), "next"));
}
