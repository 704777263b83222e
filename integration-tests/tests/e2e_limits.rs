//! Tests time limits with real programs: a task is ended by its timeout or its deadline, and the user sees by which.

use std::time::{Duration, Instant};

use integration_tests::e2e::Stage;
use serde_json::{Value, json};

/// Far longer than any limit here, so that the test fails if anything waits for it.
const TOO_LONG: &str = "1000";

/// Returns one job of each kind, on one node. None of them ends by itself.
fn config() -> Value {
    let shell = |text: &str| json!(["/bin/sh", "-c", text]);
    json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "manual", "prefs": { "n": [] } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 4 } } },
            "backoff": ["fail"]
        },
        "bistro_job->slow": {
            "command": ["/bin/sleep", TOO_LONG], "arguments": "none", "timeout": "200ms"
        },
        // This task ignores SIGTERM, and so do its children.
        "bistro_job->stubborn": {
            "command": shell("trap '' TERM; while :; do sleep 0.1; done"), "arguments": "none", "deadline": 1,
            "kill_subprocess": { "method": "term_wait_kill", "kill_wait_ms": 300 }
        },
        // A task that reports its completion in time counts as done.
        "bistro_job->done": {
            "command": shell(&format!("echo done > $BRASSERIE_STATUS; exec sleep {TOO_LONG}")), "arguments": "none",
            "timeout": "500ms", "kill_subprocess": { "method": "kill" }
        }
    })
}

#[test]
fn a_task_is_ended_by_its_timeout_and_its_deadline() {
    let stage = Stage::new();
    let config = stage.write("config.json", &format!("{:#}", config()));
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let begun = Instant::now();
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));

    let slow = stage.explain_ended(&spec, "slow", "n");
    let (reasons, slow) = (slow["reasons"].to_string(), &slow["last_run"]);
    assert_eq!(slow["ended_by"], "timeout", "{slow}");
    assert_eq!(slow["fault"], "task", "{slow}");
    assert_eq!(slow["signal"], 15, "{slow}");
    assert!(slow["ran_ms"].as_u64() >= Some(200), "{slow}");
    // An error uses a step of the backoff, and there is none.
    assert!(reasons.contains("timed out after 200ms"), "{reasons}");
    assert!(reasons.contains("failed"), "{reasons}");

    let stubborn = stage.explain_ended(&spec, "stubborn", "n");
    let (reasons, stubborn) = (stubborn["reasons"].to_string(), &stubborn["last_run"]);
    assert_eq!(stubborn["ended_by"], "deadline", "{stubborn}");
    assert_eq!(stubborn["signal"], 9, "{stubborn}");
    assert!(stubborn["ran_ms"].as_u64() >= Some(300), "{stubborn}");
    assert!(reasons.contains("its deadline passed"), "{reasons}");
    assert!(begun.elapsed() >= Duration::from_millis(1300));

    // The peak of the worker's own process, which is larger, does not count.
    let peak = stubborn["peak_memory_bytes"].as_u64();
    assert!(peak.is_none_or(|peak| peak < 12 << 20), "{stubborn}");

    let done = stage.explain_ended(&spec, "done", "n");
    let (reasons, done) = (done["reasons"].to_string(), &done["last_run"]);
    assert_eq!(done["ended_by"], "timeout", "{done}");
    assert!(!reasons.contains("timed out"), "{reasons}");
    assert!(reasons.to_lowercase().contains("done"), "{reasons}");
}
