//! Tests jobs submitted through the API with real programs: submitted from the command line, run, present after a killed scheduler,
//! refused, paused, deleted.

use std::time::Duration;

use integration_tests::e2e::{Client, Finished, Stage};
use serde_json::Value;

/// Runs `brasserie job ...` with the scheduler on this port.
fn job(stage: &Stage, port: u16, arguments: &[&str]) -> Finished {
    let address = format!("127.0.0.1:{port}");
    let mut all = vec!["job"];
    all.extend(arguments);
    all.extend(["--scheduler", &address]);
    stage.brasserie(&all)
}

fn succeeds(finished: &Finished, part: &str) {
    assert_eq!(finished.code, Some(0), "{finished:?}");
    assert!(finished.output.contains(part), "{finished:?}");
}

fn fails(finished: &Finished, code: i32, part: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(finished.output.contains(part), "{finished:?}");
}

fn is_known(client: &Client, name: &str) -> Option<(Option<bool>, Option<i64>)> {
    let status = client.wait_until("an answer", |_| true);
    let mut jobs = status.jobs.into_iter().flatten();
    let job = jobs.find(|job| job.name.as_deref() == Some(name))?;
    Some((job.paused, job.version))
}

/// Replaces the submitted job, and checks that it and the job of the config file are listed.
fn replaces_and_lists(stage: &Stage, port: u16, file: &str) {
    let replaced = ["submit", file, "--replace"];
    succeeds(&job(stage, port, &replaced), "version 3");
    succeeds(&job(stage, port, &["list"]), "enabled        3\n");
    let listed = job(stage, port, &["list", "--json"]);
    let document: Value = serde_json::from_str(&listed.output).expect("one JSON document");
    assert_eq!(document["total"], 2, "{document}");
    assert_eq!(document["jobs"][0]["version"], 3, "{document}");
    assert_eq!(document["jobs"][1]["name"], "work", "{document}");
}

/// Pauses and resumes the job of the config file.
fn pauses_and_resumes(stage: &Stage, client: &Client, port: u16) {
    succeeds(&job(stage, port, &["pause", "work"]), "paused");
    assert_eq!(is_known(client, "work"), Some((Some(true), None)));
    succeeds(&job(stage, port, &["list"]), "paused         -\n");
    let listed = job(stage, port, &["list", "--json"]);
    let document: Value = serde_json::from_str(&listed.output).expect("one JSON document");
    let work = &document["jobs"][1];
    assert_eq!(
        (&work["enabled"], &work["paused"]),
        (&Value::from(true), &Value::from(true))
    );
    succeeds(&job(stage, port, &["resume", "work"]), "resumed");
    succeeds(&job(stage, port, &["forgive", "work"]), "0 tasks");
    fails(&job(stage, port, &["pause", "nobody"]), 1, "`nobody`");
}

#[test]
fn a_submitted_job_runs_and_outlives_its_scheduler() {
    let stage = Stage::new();
    let config = stage.write_work(2, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_all_done();

    let mark = stage.path("mark");
    let text = format!(
        r#"{{"command": ["/bin/sh", "-c", "echo $BRASSERIE_NODE >> {}"], "arguments": "none"}}"#,
        mark.display()
    );
    let file = stage.write("extra.json", &text);
    let file = file.to_str().expect("a path of this test");
    let submitted = job(&stage, spec.port, &["submit", file, "--json"]);
    let document: Value = serde_json::from_str(&submitted.output).expect("one JSON document");
    assert_eq!(document["job"], "extra", "{document}");
    assert_eq!(document["version"], 1, "{document}");
    client.wait_all_done();
    let lines = || std::fs::read_to_string(&mark).unwrap_or_default();
    assert_eq!(lines().lines().count(), 2, "{}", lines());

    scheduler.kill_program();
    let _scheduler = stage.start_scheduler(&spec);
    client.wait_all_done();
    assert_eq!(is_known(&client, "extra"), Some((Some(false), Some(1))));
    assert_eq!(lines().lines().count(), 2, "done is done: {}", lines());

    fails(&job(&stage, spec.port, &["submit", file]), 1, "version 1");
    let stale = ["submit", file, "--expect-version", "7"];
    fails(&job(&stage, spec.port, &stale), 1, "not the expected 7");
    let fresh = ["submit", file, "--expect-version", "1"];
    succeeds(&job(&stage, spec.port, &fresh), "version 2");
    replaces_and_lists(&stage, spec.port, file);

    pauses_and_resumes(&stage, &client, spec.port);

    // The scheduler accepts the job, and the command prints the problem.
    let big = r#"{"command": ["true"], "resources": {"slots": 1000000}}"#;
    let big = stage.write("big.json", big);
    let big = big.to_str().expect("a path of this test");
    let told = format!("warning: {big}:1:1: it can never run on the connected workers: it needs ");
    succeeds(&job(&stage, spec.port, &["submit", big]), &told);
    succeeds(&job(&stage, spec.port, &["delete", "big"]), "deleted");
    // Deleting the history makes all tasks run again, and with `--node` one task.
    let history = job(&stage, spec.port, &["delete-history", "extra"]);
    succeeds(&history, "history deleted, 2 tasks");
    client.wait_all_done();
    assert_eq!(lines().lines().count(), 4, "{}", lines());
    let one = ["delete-history", "extra", "--node", "n1", "--json"];
    let document: Value =
        serde_json::from_str(&job(&stage, spec.port, &one).output).expect("one JSON document");
    assert_eq!(
        (&document["tasks"], &document["running"]),
        (&Value::from(1), &Value::from(0))
    );
    client.wait_all_done();
    assert_eq!(lines().lines().count(), 5, "{}", lines());
    let nobody = ["delete-history", "nobody"];
    fails(&job(&stage, spec.port, &nobody), 1, "`nobody`");

    let old = ["delete", "extra", "--expect-version", "2"];
    fails(&job(&stage, spec.port, &old), 1, "has version 3");
    succeeds(&job(&stage, spec.port, &["delete", "extra"]), "deleted");
    assert_eq!(is_known(&client, "extra"), None);
    let gone = job(&stage, spec.port, &["delete-history", "extra"]);
    succeeds(&gone, "history deleted, 2 tasks");
    fails(
        &job(&stage, spec.port, &["delete", "work"]),
        1,
        "config file",
    );
}

#[test]
fn a_job_with_mistakes_is_told_with_their_places() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("an answer", |_| true);
    let file = stage.write("bad.json", "{\n  \"command\": \"echo\"\n}");
    let shown = file.to_str().expect("a path of this test");
    let place = format!("{shown}:2:14: command: ");
    fails(&job(&stage, spec.port, &["submit", shown]), 2, &place);
    let whole = config.to_str().expect("a path of this test");
    fails(
        &job(&stage, spec.port, &["submit", whole]),
        2,
        "config file",
    );
    let nobody = stage.path("nobody.json");
    let nobody = nobody.to_str().expect("a path of this test");
    fails(
        &job(&stage, spec.port, &["submit", nobody]),
        2,
        "nobody.json",
    );
    assert_eq!(is_known(&client, "bad"), None);
}
