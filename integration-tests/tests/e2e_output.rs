//! Tests output in files with real programs: users learn its place and can read it with their own tools.

use std::process::Command;

use integration_tests::e2e::{PATIENCE, Stage, wait_within};
use serde_json::json;

#[test]
fn who_looks_for_the_lines_of_a_file_learns_where_it_is() {
    let stage = Stage::new();
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "a/b": [] } }] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 4 } } }
        },
        "bistro_job->much": {
            "command": ["/bin/sh", "-c", "seq 1 100000"], "arguments": "none", "task_subprocess": { "output": "file" }
        }
    });
    let config = stage.write("config.json", &format!("{config:#}"));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let address = format!("127.0.0.1:{}", spec.port);
    let told = wait_within(PATIENCE, "the end of the file", || {
        let answer = stage.brasserie(&["logs", "much", "a/b", "--scheduler", &address]);
        let told = answer.output.trim_end().to_owned();
        told.starts_with("brasserie: stdout is in /")
            .then_some(told)
    });
    // No log line precedes the notice, because the log has none.
    assert_eq!(told.lines().count(), 1, "{told}");
    let rest = told
        .strip_prefix("brasserie: stdout is in ")
        .expect("checked");
    let (file, rest) = rest.split_once(" on ").expect("a file and a host");
    assert!(rest.contains(": 588895 bytes, "), "{told}");
    let unpacked = Command::new("zcat")
        .arg(file)
        .output()
        .expect("gzip is here");
    assert!(unpacked.status.success(), "{unpacked:?}");
    let want: String = (1..=100_000).map(|i| format!("{i}\n")).collect();
    assert!(unpacked.stdout == want.as_bytes());
}
