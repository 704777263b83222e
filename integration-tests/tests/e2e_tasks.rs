//! Tests `brasserie task` and `job cancel` and `wait` with real programs.

use integration_tests::e2e::{Finished, Process, SchedulerSpec, Stage, wait_for};
use serde_json::{Value, json};

/// A job with one task that succeeds, one that fails, and two that run until they are killed.
const CONFIG: &str = r#"{
  "bistro_settings": {
    "nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"good": [], "bad": [], "slow1": [], "slow2": []}}]},
    "resources": {"worker": {"slots": {"default": 1, "limit": 4}}}
  },
  "bistro_job->mixed": {
    "owner": "test",
    "backoff": [1000],
    "command": ["/bin/sh", "-c", "case $1 in good) echo done > $2;; bad) echo unlucky >&2; echo '{\"result\": \"failed\", \"data\": {\"exception\": \"out of luck\"}}' > $2;; *) exec sleep 600;; esac", "mixed"]
  }
}"#;

/// One job fails after three tries, another is retried forever.
const FAILING: &str = r#"{
  "bistro_settings": {
    "nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"n": []}}]},
    "resources": {"worker": {"slots": {"default": 1, "limit": 4}}}
  },
  "bistro_job->mixed": {"owner": "test", "backoff": [1, 1, "fail"], "command": ["/bin/false"]},
  "bistro_job->endless": {"owner": "test", "backoff": [1, "repeat"], "command": ["/bin/false"]}
}"#;

/// A job whose task succeeds.
const GOOD: &str = r#"{
  "bistro_settings": {
    "nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"n": []}}]},
    "resources": {"worker": {"slots": {"default": 1, "limit": 4}}}
  },
  "bistro_job->good": {"owner": "test", "command": ["/bin/true"]}
}"#;

struct Played {
    stage: Stage,
    spec: SchedulerSpec,
    scheduler: Process,
    _worker: Process,
}

impl Played {
    fn start(config: &str) -> Self {
        let stage = Stage::new();
        let config = stage.write("config.json", config);
        let spec = stage.calm_spec(&config);
        let scheduler = stage.start_scheduler(&spec);
        let worker = stage.start_worker(&stage.worker_spec("one", &spec));
        Played {
            stage,
            spec,
            scheduler,
            _worker: worker,
        }
    }

    fn ask(&self, arguments: &[&str]) -> Finished {
        let address = format!("127.0.0.1:{}", self.spec.port);
        let mut all = arguments.to_vec();
        all.extend(["--scheduler", &address]);
        self.stage.brasserie(&all)
    }

    fn list(&self, states: &str) -> Vec<Value> {
        let listed = self.ask(&[
            "task", "list", "--job", "mixed", "--state", states, "--json",
        ]);
        let Ok(document) = serde_json::from_str::<Value>(&listed.output) else {
            return Vec::new();
        };
        document["tasks"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until exactly these nodes are in these states.
    fn wait_listed(&self, states: &str, nodes: &[&str]) -> Vec<Value> {
        wait_for(&format!("{nodes:?} to be {states}"), || {
            let listed = self.list(states);
            let mut found: Vec<&str> = listed.iter().filter_map(|t| t["node"].as_str()).collect();
            found.sort_unstable();
            (found == nodes).then(|| listed.clone())
        })
    }
}

fn ends(finished: &Finished, code: i32, part: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(finished.output.contains(part), "{finished:?}");
}

#[test]
fn tasks_are_listed_killed_and_cancelled() {
    let mut played = Played::start(CONFIG);
    let failed = played.wait_listed("failed", &["bad"]);
    // The reason may also say that the completion is not on disk yet.
    let reason = failed[0]["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("out of luck"), "{failed:?}");
    assert!(failed[0]["since_ms"].is_i64(), "{failed:?}");
    let running = played.wait_listed("running", &["slow1", "slow2"]);
    assert_eq!(running[0]["worker"], "one", "{running:?}");
    assert!(running[0]["invocation"].is_string(), "{running:?}");
    played.wait_listed("done", &["good"]);
    let cut = played.ask(&["task", "list", "--limit", "2"]);
    ends(&cut, 0, "These are the first 2 tasks");

    let waited = played.ask(&["job", "wait", "mixed", "--timeout", "0s"]);
    ends(&waited, 4, "mixed: 1 of 4 tasks done, 2 running, 1 failed");
    let killed = played.ask(&["task", "kill", "mixed", "slow1"]);
    ends(
        &killed,
        0,
        "worker `one` kills it by SIGTERM; unless it reports",
    );
    // The first wait of the job's backoff.
    ends(
        &killed,
        0,
        "uses up no retry: it runs again 16 min 40 s later",
    );
    let ended = played.wait_listed("backoff", &["slow1"]);
    let reason = ended[0]["reason"].as_str().expect("a reason");
    assert!(reason.contains("it may start again in"), "{reason}");
    let again = played.ask(&["task", "kill", "mixed", "slow1", "nobody"]);
    ends(&again, 1, "mixed on slow1 does not run");
    ends(&again, 1, "no node is called `nobody`");

    let cancelled = played.ask(&["job", "cancel", "mixed"]);
    ends(
        &cancelled,
        0,
        "mixed: cancelled; 1 running task is being killed",
    );
    let over = played.ask(&["job", "wait", "mixed"]);
    let told = "mixed: 1 of 4 tasks done, 2 in backoff, 1 failed; the job is cancelled";
    ends(&over, 1, told);
    ends(&over, 1, "`brasserie job forgive mixed --failed");
    let status = played.ask(&["status", "--json"]);
    let status: Value = serde_json::from_str(&status.output).expect("JSON");
    let job = &status["jobs"][0];
    assert_eq!(job["in_backoff"], 2, "{status}");
    let retry = job.get("next_backoff_end_in_ms");
    assert!(
        retry.is_some_and(Value::is_null),
        "it does not run again: {status}"
    );

    // The job stays cancelled after a restart of the scheduler.
    played.scheduler.kill_program();
    played.scheduler = played.stage.start_scheduler(&played.spec);
    let over = played.ask(&["job", "wait", "mixed", "--json"]);
    let (_, document) = over.output.split_once('{').expect(&over.output);
    let over: Value = serde_json::from_str(&format!("{{{document}")).expect("JSON");
    assert_eq!(over["jobs"][0]["cancelled"], true, "{over}");
    assert_eq!(over["outcome"], "not done", "{over}");
    ends(&played.ask(&["job", "resume", "mixed"]), 0, "resumed");
    ends(&played.ask(&["job", "forgive", "mixed"]), 0, "forgiven");
    played.wait_listed("running", &["slow1", "slow2"]);
    played.wait_listed("failed", &["bad"]);
}

#[test]
fn failed_tasks_have_their_last_lines_and_an_empty_list_its_reasons() {
    let played = Played::start(CONFIG);
    played.wait_listed("failed", &["bad"]);
    played.wait_listed("running", &["slow1", "slow2"]);
    played.wait_listed("done", &["good"]);
    let listed = played.ask(&["task", "list", "--state", "failed"]);
    ends(
        &listed,
        0,
        "mixed on bad ended with these lines:\n    | unlucky\n",
    );
    let flag = format!("--scheduler 127.0.0.1:{}", played.spec.port);
    let command =
        format!(": brasserie logs mixed bad {flag}, and with --stderr its standard error\n");
    ends(&listed, 0, &command);
    let failed = played.list("failed");
    assert_eq!(failed[0]["last_lines"][0], "unlucky", "{failed:?}");

    ends(&played.ask(&["job", "pause", "mixed"]), 0, "paused");
    let none = played.ask(&["task", "list", "--job", "mixed", "--state", "never"]);
    let counts =
        "No task matches.\nJob `mixed` has 4 tasks: 2 running, 1 done, 1 failed.\nIt is paused, so";
    ends(&none, 0, counts);
    let remedy = format!("`brasserie job resume mixed {flag}` resumes it");
    ends(&none, 0, &remedy);
    let none = played.ask(&[
        "task", "list", "--job", "mixed", "--state", "never", "--json",
    ]);
    let document: Value = serde_json::from_str(&none.output).expect("JSON");
    let why = json!([
        "Job `mixed` has 4 tasks: 2 running, 1 done, 1 failed.",
        format!("It is paused, so no task starts: {remedy}."),
    ]);
    assert_eq!(document["why_empty"], why, "{document}");

    let workers = played.ask(&["worker", "list"]);
    let header = workers.output.lines().next().unwrap_or_default();
    let columns: Vec<&str> = header.split_whitespace().take(5).collect();
    let expected = ["worker", "state", "running", "standby", "unsure"];
    assert_eq!(columns, expected, "{workers:?}");
    let row = workers.output.lines().find(|line| line.starts_with("one "));
    let row = row.unwrap_or_else(|| panic!("{workers:?}"));
    let has_slots = row.contains(" ago") && row.ends_with("  slots 2/4");
    assert!(row.contains("healthy") && has_slots, "{row}");
    let workers = played.ask(&["worker", "list", "--json"]);
    let document: Value = serde_json::from_str(&workers.output).expect("JSON");
    assert_eq!(document["workers_total"], 1, "{document}");
    assert_eq!(document["workers"][0]["running"], 2, "{document}");
    let slots = json!([{ "resource": "slots", "in_use": 2, "limit": 4 }]);
    assert_eq!(document["workers"][0]["slots"], slots, "{document}");
}

#[test]
fn a_killed_task_runs_again_although_its_backoff_says_fail() {
    let config = r#"{
      "bistro_settings": {"nodes": {"levels": ["host"], "node_sources": [{"source": "manual", "prefs": {"n": []}}]}},
      "bistro_job->mixed": {"backoff": ["fail"], "command": ["/bin/sleep", "600"], "arguments": "none"}
    }"#;
    let played = Played::start(config);
    played.wait_listed("running", &["n"]);
    let killed = played.ask(&["task", "kill", "mixed", "n"]);
    let then = "counts as incomplete and uses up no retry: it runs again 1 min 0 s later";
    ends(&killed, 0, then);
    played.wait_listed("backoff", &["n"]);
}

#[test]
fn tries_that_failed_are_listed() {
    let played = Played::start(FAILING);
    let failed = played.wait_listed("failed", &["n"]);
    let tries = |task: &Value| (task["failed_tries"].as_i64(), task["most_tries"].as_i64());
    assert_eq!(tries(&failed[0]), (Some(3), Some(3)), "{failed:?}");
    let column = |table: &Finished, job: &str| {
        let row = table.output.lines().find(|row| row.starts_with(job))?;
        let mut cells = row.split("  ").filter(|cell| !cell.is_empty());
        cells.nth(4).map(|cell| cell.trim().to_owned())
    };
    let table = wait_for("a fourth try that failed", || {
        let listed = played.ask(&["task", "list"]);
        let tries: u32 = column(&listed, "endless")?.parse().ok()?;
        (tries >= 4).then_some(listed)
    });
    assert_eq!(
        column(&table, "mixed").as_deref(),
        Some("3 of 3"),
        "{table:?}"
    );
}

fn wait_told(process: &Process, words: &str) {
    wait_for(words, || process.output().contains(words).then_some(()));
}

#[test]
fn a_wait_that_begins_without_a_scheduler_and_loses_another_one_sees_the_end_of_its_job() {
    let stage = Stage::new();
    let config = stage.write("config.json", GOOD);
    let spec = stage.calm_spec(&config);
    let address = format!("127.0.0.1:{}", spec.port);
    let mut wait = stage.start_brasserie(&["job", "wait", "good", "--scheduler", &address]);
    wait_told(&wait, "trying again");
    let mut scheduler = stage.start_scheduler(&spec);
    wait_told(&wait, "good: 0 of 1 tasks done");
    scheduler.kill_program();
    wait_for("the loss to be told", || {
        let told = wait.output();
        let (_, after) = told.split_once("good: 0 of 1 tasks done")?;
        after.contains("trying again").then_some(())
    });
    let _scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    assert_eq!(wait.wait().code(), Some(0), "{}", wait.output());
    let told = wait.output();
    assert!(told.contains("good: 1 of 1 tasks done"), "{told}");
}

/// The reason is printed by each command that shows no task, and by a wait for a job that cannot start.
#[test]
fn commands_name_the_error_of_a_node_source_that_has_given_no_nodes() {
    let stage = Stage::new();
    let config = stage.write(
        "config.json",
        r#"{
      "bistro_settings": {"nodes": {"levels": ["host"], "node_sources": [
        {"source": "script", "prefs": {"parent_level": "instance", "script": "./list.sh"}}]}},
      "bistro_job->mixed": {"command": ["/bin/true"], "arguments": "none"}
    }"#,
    );
    stage.write_script("list.sh", "#!/bin/sh\necho no database >&2; exit 4");
    let spec = stage.calm_spec(&config);
    let scheduler = stage.start_scheduler(&spec);
    let address = format!("127.0.0.1:{}", spec.port);
    let log = "no nodes are loaded yet, so no task starts";
    wait_told(&scheduler, log);
    assert!(!scheduler.output().contains("last good nodes"));
    let ask =
        |arguments: &[&str]| stage.brasserie(&[arguments, &["--scheduler", &address]].concat());
    let cause = "exit status: 4: no database";
    for (arguments, code, begin) in [
        (
            &["explain", "mixed"][..],
            0,
            "- no nodes have been loaded yet: node source 1: ",
        ),
        (
            &["explain", "mixed", "n1"],
            1,
            "no node is called `n1`; no nodes have been loaded yet: node source 1: ",
        ),
        (
            &["task", "list"],
            0,
            "The nodes are not loaded yet, so no task is known: node source 1: ",
        ),
        (
            &["status"],
            0,
            "! no nodes have been loaded yet: node source 1: ",
        ),
        (
            &["job", "wait", "mixed", "--timeout", "1s"],
            4,
            "no task starts: no nodes have been loaded yet: node source 1: ",
        ),
    ] {
        let asked = ask(arguments);
        ends(&asked, code, begin);
        assert_eq!(asked.output.matches(cause).count(), 1, "{asked:?}");
    }
    let waited = ask(&["job", "wait", "mixed", "--timeout", "1s", "--json"]);
    ends(&waited, 4, "\"done\": false,");
}
