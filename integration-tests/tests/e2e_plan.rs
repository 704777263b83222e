//! Tests plans with real programs: the plan of a changed file equals the effect of moving it into place.

use std::fs;
use std::time::Duration;

use integration_tests::e2e::{Client, Finished, SchedulerSpec, Stage};
use serde_json::{Value, json};

/// Runs `brasserie plan ...` with the scheduler.
fn plan(stage: &Stage, spec: &SchedulerSpec, arguments: &[&str]) -> Finished {
    let address = format!("127.0.0.1:{}", spec.port);
    let mut all = vec!["plan"];
    all.extend(arguments);
    all.extend(["--scheduler", &address]);
    stage.brasserie(&all)
}

fn says(finished: &Finished, code: i32, parts: &[&str]) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    for part in parts {
        assert!(
            finished.output.contains(part),
            "no {part:?} in {finished:?}"
        );
    }
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.output).expect("one JSON document")
}

fn running(client: &Client, job: &str) -> i64 {
    let status = client.wait_until("an answer", |_| true);
    let mut jobs = status.jobs.into_iter().flatten();
    let job = jobs.find(|other| other.name.as_deref() == Some(job));
    job.and_then(|job| job.running).unwrap_or(0)
}

/// Returns the source of the work's config, with three nodes.
fn same_nodes() -> Value {
    json!({ "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": 3 } })
}

/// Returns a source with a script beside the file.
fn from_script() -> Value {
    json!({ "source": "script", "prefs": { "parent_level": "instance", "script": "nodes.sh" } })
}

/// Returns the work's config with another job instead of its own, and four slots.
fn changed(stage: &Stage, source: &Value) -> String {
    let config = json!({
        "bistro_settings": {
            "nodes": { "levels": ["item"], "node_sources": [source] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 4 } } },
            "kill_orphan_tasks_after_sec": true,
            "kill_subprocess": { "method": "kill" }
        },
        "bistro_job->extra": {
            "command": ["/bin/sh", "-c", format!("echo $BRASSERIE_NODE >> {}", stage.path("mark").display())],
            "arguments": "none"
        }
    });
    format!("{config:#}")
}

/// Plans a changed job whose tasks run or wait, and a new one that waits for it.
fn plan_counts_present_tasks(stage: &Stage, spec: &SchedulerSpec, text: &str) {
    let mut config_of_more: Value = serde_json::from_str(text).expect("JSON");
    config_of_more["bistro_job->work"]["priority"] = json!(7);
    config_of_more["bistro_job->after"] =
        json!({ "command": ["/bin/true"], "depends_on": ["work"] });
    let more = stage.write("elsewhere/more.json", &config_of_more.to_string());
    let more = more.to_str().expect("a path of this test");
    let expected = [
        "new jobs of which no task starts at once\n  after: its tasks wait for `work`",
        "changed jobs at present\n  work: 3 tasks: 2 running, 1 waiting; the running tasks",
        "no running task is killed",
    ];
    says(&plan(stage, spec, &[more]), 0, &expected);
    let planned = document(&plan(stage, spec, &[more, "--json"]));
    assert_eq!(planned["changed_jobs_now"][0]["running"], 2, "{planned}");
    let idle = &planned["new_jobs_without_start"][0]["job"];
    assert_eq!(idle, "after", "{planned}");
}

#[test]
fn what_is_planned_happens_once_the_file_is_moved_into_place() {
    let stage = Stage::new();
    let config = stage.write_work(3, Duration::ZERO);
    stage.hold();
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let _worker = stage.start_worker(&stage.worker_spec("one", &spec));
    let client = Client::new(spec.port);
    client.wait_until("two tasks to run", |_| running(&client, "work") == 2);

    // The same text in another folder: `./bin/work.sh` resolves in the folder of the scheduler's file.
    let text = fs::read_to_string(&config).expect("the config of this test");
    let same = stage.write("elsewhere/new.json", &text);
    let same = same.to_str().expect("a path of this test");
    says(&plan(&stage, &spec, &[same]), 0, &["changes nothing"]);
    let detailed = plan(&stage, &spec, &[same, "--detailed-exitcode"]);
    says(&detailed, 0, &["changes nothing"]);

    plan_counts_present_tasks(&stage, &spec, &text);

    let names = "#!/bin/sh\necho m1\necho m2\necho m3\n";
    let script = stage.write_script("work/nodes.sh", names);
    let scripted = changed(&stage, &from_script());
    let scripted = stage.write("elsewhere/scripted.json", &scripted);
    let scripted = scripted.to_str().expect("a path of this test");
    let expected = [
        "nodes: 3 -> 3",
        "+ 3 item: m1, m2, m3",
        "- 3 item: n1, n2, n3",
        "2 running tasks are killed",
    ];
    says(&plan(&stage, &spec, &[scripted]), 0, &expected);
    // A plan also reports a broken script.
    fs::remove_file(script).expect("it is there");
    let parts = [
        "nodes cannot be read",
        "nodes.sh",
        "no running task is killed",
    ];
    says(&plan(&stage, &spec, &[scripted]), 2, &parts);

    let new = stage.write("elsewhere/changed.json", &changed(&stage, &same_nodes()));
    let new = new.to_str().expect("a path of this test");
    let expected = [
        "+ extra",
        "- work",
        "kill_orphan_tasks_after_sec: false -> 0.0",
        "2 tasks start at once",
        "2 running tasks are killed",
        "work on n",
        "at once",
        // A removed job's tasks are killed as the settings say.
        "SIGKILL",
        "its job is not configured any more",
    ];
    says(&plan(&stage, &spec, &[new]), 0, &expected);
    let detailed = plan(&stage, &spec, &[new, "--detailed-exitcode", "--json"]);
    assert_eq!(detailed.code, Some(3), "{detailed:?}");
    let planned = document(&detailed);
    assert_eq!(planned["starts"], 2, "{planned}");
    assert_eq!(planned["killed"]["total"], 2, "{planned}");
    assert_eq!(planned["killed"]["first"][0]["method"], "kill", "{planned}");
    // The plan has changed nothing.
    assert_eq!(running(&client, "work"), 2);
    assert_eq!(stage.alive().len(), 2);
    assert!(!stage.path("mark").exists());

    fs::copy(new, &config).expect("the file can be replaced");
    client.wait_until("the extra job to be done", |status| {
        let jobs = status.jobs.iter().flatten();
        let mut extra = jobs.filter(|job| job.name.as_deref() == Some("extra"));
        extra.any(|job| job.done == Some(3))
    });
    let mark = fs::read_to_string(stage.path("mark")).expect("it ran");
    let mut ran: Vec<&str> = mark.lines().collect();
    ran.sort_unstable();
    assert_eq!(ran, ["n1", "n2", "n3"]);
    client.wait_until("the others to be killed", |_| stage.alive().is_empty());
    says(&plan(&stage, &spec, &[new]), 0, &["changes nothing"]);
}

#[test]
fn what_would_not_be_in_force_ends_with_another_code() {
    let stage = Stage::new();
    let config = stage.write_work(1, Duration::ZERO);
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let client = Client::new(spec.port);
    client.wait_until("an answer", |status| status.nodes_loaded == Some(true));

    let text = "{\n  \"bistro_settings\": {\n    \"nodes\": {\"levels\": [\"item\"]},\n    \"scheduler\": \"nobody\",\n    \
                \"working_wait\": \"long\"\n  }\n}";
    let bad = stage.write("bad.json", text);
    let bad = bad.to_str().expect("a path of this test");
    let places = [
        format!("{bad}:4:18: bistro_settings.scheduler: "),
        format!("{bad}:5:21: bistro_settings.working_wait: "),
        "would not be used".to_owned(),
    ];
    let places: Vec<&str> = places.iter().map(String::as_str).collect();
    says(&plan(&stage, &spec, &[bad]), 2, &places);
    let told = document(&plan(&stage, &spec, &[bad, "--json"]));
    assert_eq!(
        (&told["usable"], &told["good"]),
        (&json!(false), &json!(false)),
        "{told}"
    );
    assert_eq!(told["errors"].as_array().map(Vec::len), Some(2), "{told}");

    // An error in one job disables only that job, so there is also a plan.
    let text = fs::read_to_string(&config).expect("the config of this test");
    let text = text.replace("\"owner\": \"test\"", "\"owner\": [7]");
    let toml = stage.write("one.json", &text);
    let one = toml.to_str().expect("a path of this test");
    let parts = ["bistro_job->work.owner: ", "~ work", "errors"];
    says(&plan(&stage, &spec, &[one]), 2, &parts);

    let job = stage.write("extra.json", r#"{"command": ["/bin/true"]}"#);
    let address = format!("127.0.0.1:{}", spec.port);
    let job = job.to_str().expect("a path of this test");
    let submitted = stage.brasserie(&["job", "submit", job, "--scheduler", &address]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    let taken = stage.write("taken.json", &changed(&stage, &same_nodes()));
    let taken = taken.to_str().expect("a path of this test");
    let refused = plan(&stage, &spec, &[taken]);
    says(
        &refused,
        2,
        &["would not be used", "`extra`", "job delete extra"],
    );

    let nobody = stage.path("nobody.json");
    let nobody = nobody.to_str().expect("a path of this test");
    says(&plan(&stage, &spec, &[nobody]), 2, &["nobody.json"]);
    let folder = [one, "--folder", "here"];
    says(&plan(&stage, &spec, &folder), 2, &["here", "whole path"]);
    let silent = SchedulerSpec {
        port: integration_tests::e2e::free_port(),
        ..spec.clone()
    };
    says(
        &plan(&stage, &silent, &[one]),
        1,
        &["Is one running there?"],
    );
}
