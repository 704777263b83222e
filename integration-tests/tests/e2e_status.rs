//! Tests that `brasserie status` and the scheduler's page show real clusters in one document, in the same words, at any number of jobs.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use brasserie_thrift::generated::bits::BistroTaskStatusBits;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobHistogramsArgs, BistroSchedulerGetJobHistogramsResult,
};
use integration_tests::e2e::{Client, SchedulerSpec, Stage, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// Minimum duration of the check. Refusals by a worker that is not ready would be shown earlier.
const START: Duration = Duration::from_secs(15);

/// More jobs than two answers can list.
const MANY_JOBS: usize = 2100;

fn status(stage: &Stage, spec: &SchedulerSpec, arguments: &[&str]) -> String {
    let address = format!("{}:{}", spec.address, spec.port);
    let all = [&["status", "--scheduler", &address], arguments].concat();
    let finished = stage.brasserie(&all);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    finished.output
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the document without the numbers of milliseconds and bytes, which differ between two readings.
fn at_any_time(value: &Value) -> Value {
    match value {
        Value::Object(keys) => {
            let keys = keys.iter().map(|(key, value)| {
                let value =
                    match (key.ends_with("_ms") || key.ends_with("bytes")) && value.is_number() {
                        true => json!("a number"),
                        false => at_any_time(value),
                    };
                (key.clone(), value)
            });
            Value::Object(keys.collect())
        }
        Value::Array(members) => Value::Array(members.iter().map(at_any_time).collect()),
        plain => plain.clone(),
    }
}

#[test]
fn the_page_and_the_command_line_show_one_document_in_the_same_words() {
    let stage = Stage::new();
    let config = stage.write(
        "config.json",
        r#"{
            "bistro_settings": {
                "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "n1": [], "n2": [] } }] },
                "backoff": ["fail"]
            },
            "bistro_job->good": { "command": ["true"] },
            "bistro_job->bad": { "command": ["false"] },
            "bistro_job->broken": { "command": ["true"], "priority": "high" },
            "bistro_job->off": { "command": ["true"], "enabled": false }
        }"#,
    );
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_healthy(1);
    client.wait_until(
        "all tasks to be over, and the store to be measured",
        |status| {
            let totals = status.job_totals.as_ref();
            let is_over = totals.is_some_and(|all| all.unsettled_jobs == Some(0));
            status.nodes_loaded == Some(true) && is_over && status.store.is_some()
        },
    );

    let of_http = document(&spec.get("/status"));
    let of_command = document(&status(&stage, &spec, &["--json"]));
    assert_eq!(at_any_time(&of_http), at_any_time(&of_command));
    assert_eq!(
        of_http["jobs_by_state"],
        json!({ "broken": 1, "disabled": 1, "done": 1, "failed": 1 })
    );
    let job = &of_http["jobs"][1];
    assert_eq!(
        (&job["name"], &job["state"], &job["failed"]),
        (&json!("bad"), &json!("failed"), &json!(2))
    );
    assert_eq!(job["estimate_is"], "default", "{job}");

    let (page, text) = (spec.get("/"), status(&stage, &spec, &[]));
    let words = [
        "4 jobs: 1 broken, 1 disabled, 1 done, 1 failed; 8 tasks: 4 held, 2 done, 2 failed.",
        "2 tasks failed (`bad`: 2)",
        "next retry",
        "heartbeat",
        "priority: expected a number, found",
    ];
    for words in words {
        assert!(text.contains(words), "{words}: {text}");
        assert!(page.contains(words), "{words}: {page}");
    }
    assert_the_failure_leads_with_its_remedy(&spec, &text);

    let one = status(&stage, &spec, &["--job", "bad", "--json"]);
    let one_of_http = spec.get("/status?job=bad");
    assert_eq!(
        at_any_time(&document(&one)),
        at_any_time(&document(&one_of_http))
    );
    assert_eq!(document(&one)["jobs"].as_array().map(Vec::len), Some(1));
    let address = format!("{}:{}", spec.address, spec.port);
    let nobody = stage.brasserie(&["status", "--job", "nobody", "--scheduler", &address]);
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    for told in [nobody.output, spec.get("/status?job=nobody")] {
        assert!(told.contains("no job is called `nobody`"), "{told}");
    }
    assert_mistakes_in_a_query_are_named(&spec);
}

fn assert_the_failure_leads_with_its_remedy(spec: &SchedulerSpec, text: &str) {
    let scheduler = format!("{}:{}", spec.address, spec.port);
    let hint = format!("`brasserie job forgive JOB --scheduler {scheduler}`");
    let order = ["! 2 tasks failed", &hint, "\nworker ", "\njob "];
    let order = order.map(|words| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    });
    assert!(order.is_sorted(), "{text}");
}

fn assert_mistakes_in_a_query_are_named(spec: &SchedulerSpec) {
    let (code, body) = spec.get_with_code("/status?job=a&job=b");
    let told = &document(&body)["error"]["message"];
    let repeated =
        "the parameter `job` is given more than once: give it once, with the name of one job";
    assert_eq!((code, told), (400, &json!(repeated)));
    let (code, body) = spec.get_with_code("/?limit=%00");
    let unreadable = "the parameter `limit` is `\\0`, which is not a number of jobs: give it a whole number, of which at most 1000 counts\n";
    assert_eq!((code, body.as_str()), (400, unreadable));
    let (code, body) = spec.get_with_code("/status?job=%FF%00");
    let is_named = document(&body)["error"]["message"]
        .as_str()
        .is_some_and(|told| told.contains("no job is called"));
    assert!(code == 404 && is_named, "{code}: {body}");
}

/// Returns a config with many disabled jobs, the last of which is broken.
fn many_jobs() -> String {
    let mut config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "n1": [] } }] }
        }
    });
    for number in 0..MANY_JOBS {
        let job = match number + 1 == MANY_JOBS {
            true => json!({ "command": ["true"], "priority": "high" }),
            false => json!({ "command": ["true"], "enabled": false }),
        };
        config[format!("bistro_job->j{number:04}")] = job;
    }
    config.to_string()
}

fn names(document: &Value) -> Vec<&str> {
    let jobs = document["jobs"].as_array().into_iter().flatten();
    jobs.filter_map(|job| job["name"].as_str()).collect()
}

#[test]
fn many_jobs_are_shown_a_bounded_number_at_a_time_and_all_on_request() {
    let stage = Stage::new();
    let config = stage.write("config.json", &many_jobs());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    let answer = client.wait_until("the nodes, and the store's size", |status| {
        status.nodes_loaded == Some(true) && status.store.is_some()
    });
    assert_eq!(answer.jobs.as_ref().map(Vec::len), Some(1000));
    assert_eq!(answer.more_jobs, Some(true));

    let last = format!("j{:04}", MANY_JOBS - 1);
    let few = document(&status(&stage, &spec, &["--json", "--limit", "3"]));
    assert_eq!(
        names(&few),
        ["j0000", "j0001", &last],
        "the broken one is among them"
    );
    assert_eq!(
        at_any_time(&few),
        at_any_time(&document(&spec.get("/status?limit=3")))
    );
    assert_eq!(
        (&few["jobs_total"], &few["more_jobs"]),
        (&json!(MANY_JOBS), &json!(true))
    );

    let all = document(&status(&stage, &spec, &["--json", "--all"]));
    assert_eq!(
        (names(&all).len(), &all["more_jobs"]),
        (MANY_JOBS, &json!(false))
    );
    let most = document(&status(&stage, &spec, &["--json", "--limit", "1005"]));
    assert_eq!(names(&most).len(), 1005);
    assert!(names(&most).contains(&last.as_str()), "the broken one too");

    let first = document(&spec.get("/status?after="));
    let next = document(&spec.get("/status?after=j0999"));
    let rest = document(&spec.get("/status?after=j1999"));
    let pages = [&first, &next, &rest];
    let paged: BTreeSet<&str> = pages.into_iter().flat_map(names).collect();
    assert_eq!(
        (paged.len(), pages.map(|page| &page["more_jobs"])),
        (MANY_JOBS, [&json!(true), &json!(true), &json!(false)])
    );

    let text = status(&stage, &spec, &[]);
    let lines = text.lines().count();
    assert!(lines < 250, "{lines} lines: {text}");
    assert!(
        text.contains("and 2000 more jobs: `--all` shows them"),
        "{text}"
    );
    let page = spec.get("/");
    assert!(
        page.contains("2000 more jobs: <a href=\"/?after=\">"),
        "{page}"
    );
    assert!(
        spec.get("/?after=").contains("<a href=\"/?after=j0099\">"),
        "{page}"
    );
}

/// Returns the finished tasks in the histogram of job `work`, and whether the histogram says that nodes are loading.
fn histogram(client: &Client) -> (i32, Option<bool>) {
    let arguments = BistroSchedulerGetJobHistogramsArgs {
        jobs: vec!["work".to_owned()],
        samples: 0,
    };
    let found: BistroSchedulerGetJobHistogramsResult = client
        .call("getJobHistograms", &arguments)
        .expect("an answer");
    let job = found.result_value.unwrap_or_default().remove(0);
    let levels = job.statuses.unwrap_or_default();
    let done = levels
        .get("item")
        .and_then(|level| level.get(&BistroTaskStatusBits::DONE)?.count);
    (done.unwrap_or(0), job.nodes_loading)
}

#[test]
fn a_scheduler_that_loads_its_nodes_says_so_instead_of_counting() {
    let stage = Stage::new();
    let gate = stage.write("gate", "");
    let list = format!(
        "#!/bin/sh\nuntil test -e '{}'; do sleep 0.02; done\necho n1\n",
        gate.display()
    );
    stage.write_script("list", &list);
    let config = stage.write(
        "config.json",
        r#"{
            "bistro_settings": {
                "nodes": { "levels": ["item"], "node_sources": [
                    { "source": "script", "prefs": { "parent_level": "instance", "script": "list" } }
                ] }
            },
            "bistro_job->work": { "command": ["true"] }
        }"#,
    );
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_all_done();
    assert_eq!(histogram(&client), (1, None));

    scheduler.kill_program();
    std::fs::remove_file(&gate).expect("it was written");
    let _scheduler = stage.start_scheduler(&spec);
    client.wait_until("the config", |status| status.config.is_some());
    assert_eq!(histogram(&client), (0, Some(true)));
    let text = status(&stage, &spec, &[]);
    let page = spec.get("/");
    for words in [
        "loading nodes",
        "nodes are loading, so the tasks are not counted yet",
    ] {
        assert!(text.contains(words), "{text}");
        assert!(page.contains(words), "{page}");
    }
    let loading = document(&spec.get("/status"));
    assert_eq!(loading["jobs"][0]["state"], "loading_nodes", "{loading}");
    stage.write("gate", "");
    client.wait_all_done();
    assert_eq!(histogram(&client), (1, None));
}

#[test]
fn logs_name_the_host_of_a_worker_that_has_left() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let mut worker = stage.start_worker(&stage.worker_spec("one", &spec));
    Client::new(spec.port).wait_all_done();
    worker.signal(Signal::SIGTERM);
    assert_eq!(worker.wait().code(), Some(0));
    let address = format!("{}:{}", spec.address, spec.port);
    let logs = stage.brasserie(&["logs", "work", "n1", "--scheduler", &address]);
    let words = "the last run of job `work` on node `n1` was on worker `one`, which has left: its lines lie on that worker's host";
    assert!(logs.output.contains(words), "{logs:?}");
    let all = stage.brasserie(&["logs", "work", "n1", "--all", "--scheduler", &address]);
    assert_eq!(all.code, Some(1), "lines are missing: {all:?}");
    assert!(all.output.contains("worker `one` on host"), "{all:?}");
}

/// A run is over when all of its jobs are, whether they are listed or not.
#[test]
fn a_run_of_many_jobs_does_all_of_them() {
    let stage = Stage::new();
    let mut config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [{ "source": "manual", "prefs": { "n1": [] } }] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 8 } } }
        }
    });
    for number in 0..1010 {
        config[format!("bistro_job->j{number:04}")] = json!({ "command": ["true"] });
    }
    let config = stage.write("config.json", &config.to_string());
    let finished = stage.brasserie(&["run", config.to_str().expect("a plain name")]);
    assert_eq!(finished.code, Some(0), "{}", finished.output);
    for job in ["j0000 ", "j1009 ", "all done"] {
        assert!(finished.output.contains(job), "{job}: {}", finished.output);
    }
}

#[test]
fn no_problem_is_shown_while_a_scheduler_and_its_workers_start_together() {
    std::thread::scope(|scope| {
        for scheduler_at in [0, 2, 3] {
            scope.spawn(move || starts_without_problems(scheduler_at));
        }
    });
}

/// Starts three workers, and a scheduler after `scheduler_at` of them. Checks each answer about them while their tasks start and end.
fn starts_without_problems(scheduler_at: usize) {
    let stage = Stage::new();
    let config = stage.write_work(1000, Duration::from_millis(100));
    let mut spec = stage.calm_spec(&config);
    // No worker becomes unhealthy because the machine is busy.
    spec.flags.retain(|flag| !flag.contains("grace-period"));
    let mut processes = Vec::new();
    for number in 0..=3 {
        if number == scheduler_at {
            processes.push(stage.start_scheduler(&spec));
        }
        if number < 3 {
            let worker = stage.worker_spec(&format!("w{number}"), &spec);
            processes.push(stage.start_worker(&worker));
        }
    }
    let client = Client::new(spec.port);
    let begun = Instant::now();
    wait_for("three healthy workers and fifty tasks", || {
        let status = client.status()?;
        let mut errors = status.errors.unwrap_or_default();
        // A disk that other programs keep busy is no problem of the start.
        errors.retain(|error| !error.contains(" disk"));
        assert_eq!(errors, Vec::<String>::new(), "{:?}", begun.elapsed());
        let workers = status.workers.unwrap_or_default();
        for worker in &workers {
            let problems = worker.problems.as_deref().unwrap_or_default();
            assert_eq!(problems, &[] as &[String], "{:?}", begun.elapsed());
        }
        let healthy = workers
            .iter()
            .filter(|worker| worker.state.as_deref() == Some("healthy"));
        let is_over = begun.elapsed() >= START && healthy.count() == 3;
        (is_over && stage.records().starts().len() > 50).then_some(())
    });
}
