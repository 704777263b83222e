//! Limits of time with real programs: a task is ended by its timeout or its deadline, and people read which.

use std::time::{Duration, Instant};

use integration_tests::e2e::{PATIENCE, SchedulerSpec, Stage, wait_within};
use serde_json::{Value, json};

/// Far longer than any limit here: who waits for it is caught.
const TOO_LONG: &str = "1000";

/// One job of each kind, on one node, none of which ends by itself.
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
        // SIGTERM means nothing to it, nor to what it starts.
        "bistro_job->stubborn": {
            "command": shell("trap '' TERM; while :; do sleep 0.1; done"), "arguments": "none", "deadline": 1,
            "kill_subprocess": { "method": "term_wait_kill", "kill_wait_ms": 300 }
        },
        // Whoever says in time that it is done is.
        "bistro_job->done": {
            "command": shell(&format!("echo done > $BRASSERIE_STATUS; exec sleep {TOO_LONG}")), "arguments": "none",
            "timeout": "500ms", "kill_subprocess": { "method": "kill" }
        }
    })
}

/// What `explain` says of the job's task, once it has ended.
fn last_run(stage: &Stage, spec: &SchedulerSpec, job: &str) -> (String, Value) {
    let address = format!("127.0.0.1:{}", spec.port);
    wait_within(PATIENCE, &format!("the end of {job}"), || {
        let asked = ["explain", job, "n", "--json", "--scheduler", &address];
        let answer = stage.brasserie(&asked);
        let document: Value = serde_json::from_str(&answer.output).ok()?;
        let last = document["last_run"].clone();
        (!last.is_null()).then(|| (document["reasons"].to_string(), last))
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

    let (reasons, slow) = last_run(&stage, &spec, "slow");
    assert_eq!(slow["ended_by"], "timeout", "{slow}");
    assert_eq!(slow["fault"], "task", "{slow}");
    assert_eq!(slow["signal"], 15, "{slow}");
    assert!(slow["ran_ms"].as_u64() >= Some(200), "{slow}");
    // An error that takes a step of the backoff, of which there is none.
    assert!(reasons.contains("timed out after 200ms"), "{reasons}");
    assert!(reasons.contains("failed"), "{reasons}");

    let (reasons, stubborn) = last_run(&stage, &spec, "stubborn");
    assert_eq!(stubborn["ended_by"], "deadline", "{stubborn}");
    assert_eq!(stubborn["signal"], 9, "{stubborn}");
    assert!(stubborn["ran_ms"].as_u64() >= Some(300), "{stubborn}");
    assert!(reasons.contains("its deadline passed"), "{reasons}");
    assert!(begun.elapsed() >= Duration::from_millis(1300));

    let (reasons, done) = last_run(&stage, &spec, "done");
    assert_eq!(done["ended_by"], "timeout", "{done}");
    assert!(!reasons.contains("timed out"), "{reasons}");
    assert!(reasons.to_lowercase().contains("done"), "{reasons}");
}
