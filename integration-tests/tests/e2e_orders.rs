//! Tests operators' orders about workers with real programs: a decommission that moves data, and an exclusion that outlives a restart.

use std::fs;

use integration_tests::e2e::{Process, SchedulerSpec, Stage, wait_for};
use serde_json::{Value, json};

struct Operator<'a> {
    stage: &'a Stage,
    address: String,
}

impl<'a> Operator<'a> {
    fn new(stage: &'a Stage, spec: &SchedulerSpec) -> Self {
        Operator {
            stage,
            address: format!("127.0.0.1:{}", spec.port),
        }
    }

    /// Runs a command that succeeds, and returns its output.
    fn run(&self, arguments: &[&str]) -> String {
        let flag = ["--scheduler", &self.address];
        let done = self.stage.brasserie(&[arguments, &flag].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.output
    }

    fn wait_done(&self, job: &str) {
        self.run(&["job", "wait", job, "--timeout", "120s"]);
    }

    /// Returns the states of all workers by name; `None` while the scheduler does not answer.
    fn states(&self) -> Option<Vec<(String, String)>> {
        let list = ["worker", "list", "--json", "--scheduler", &self.address];
        let listed = self.stage.brasserie(&list);
        let list: Value = serde_json::from_str(&listed.output).ok()?;
        let workers = list["workers"].as_array()?.iter();
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let states = workers.map(|worker| (text(&worker["shard"]), text(&worker["state"])));
        Some(states.collect())
    }

    fn wait_for_state(&self, shard: &str, state: &str) {
        let wanted = (shard.to_owned(), state.to_owned());
        wait_for(&format!("worker {shard} to be {state}"), || {
            self.states()?.contains(&wanted).then_some(())
        });
    }
}

fn settings() -> Value {
    json!({
        "nodes": {"levels": ["part"], "node_sources": [{"source": "manual", "prefs": {"n1": []}}]},
        "resources": {"worker": {"slots": {"default": 1, "limit": 2}}},
    })
}

#[test]
fn a_decommissioned_worker_hands_its_data_on_and_exits() {
    let stage = Stage::new();
    let (log, copy) = (stage.path("log"), stage.path("copy"));
    let make = format!("echo ran >> {}; echo precious > table", log.display());
    let mut jobs = json!({
        "bistro_settings": settings(),
        "bistro_job->make": {
            "command": ["/bin/sh", "-ec", make],
            "arguments": "none", "status_from": "exit_code", "outputs": ["table"],
        },
    });
    let config = stage.write("config.json", &jobs.to_string());
    let spec = stage.calm_spec(&config);
    let _scheduler = stage.start_scheduler(&spec);
    let mut one = stage.start_worker(&stage.worker_spec("one", &spec));
    let operator = Operator::new(&stage, &spec);
    operator.wait_done("make");
    let _two = stage.start_worker(&stage.worker_spec("two", &spec));
    operator.wait_for_state("two", "healthy");
    let order = [
        "worker",
        "decommission",
        "one",
        "--reason",
        "new disk",
        "--wait",
    ];
    let told = operator.run(&order);
    assert!(told.contains("1 output (9 B) is only there"), "{told}");
    assert!(
        told.ends_with("Worker `one` is decommissioned, and has left.\n"),
        "{told}"
    );
    assert_eq!(one.wait().code(), Some(0));
    let shown = operator.run(&["status"]);
    assert!(
        shown.contains("one is decommissioned, and not connected"),
        "{shown}"
    );
    jobs["bistro_job->take"] = json!({
        "command": ["/bin/sh", "-ec", format!("cp $BRASSERIE_INPUTS/make/table {}", copy.display())],
        "arguments": "none", "status_from": "exit_code", "inputs": [{"from": "make"}],
    });
    stage.write("config.json", &jobs.to_string());
    wait_for("the new job to be read", || {
        let flag = ["explain", "take", "--scheduler", &operator.address];
        (stage.brasserie(&flag).code == Some(0)).then_some(())
    });
    operator.wait_done("take");
    assert_eq!(fs::read_to_string(copy).expect("a copy"), "precious\n");
    assert_eq!(fs::read_to_string(log).expect("the log of runs"), "ran\n");
    // A worker that comes back stays idle until it is recommissioned.
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    operator.wait_for_state("one", "decommissioned");
    operator.run(&["worker", "recommission", "one"]);
    operator.wait_for_state("one", "healthy");
}

/// Lets the only worker leave an output. Returns the worker, which has joined and is healthy.
fn with_the_only_copy<'a>(stage: &'a Stage, spec: &SchedulerSpec) -> (Operator<'a>, Process) {
    let one = stage.start_worker(&stage.worker_spec("one", spec));
    let operator = Operator::new(stage, spec);
    operator.wait_done("make");
    (operator, one)
}

fn one_maker(stage: &Stage) -> SchedulerSpec {
    let jobs = json!({
        "bistro_settings": settings(),
        "bistro_job->make": {
            "command": ["/bin/sh", "-ec", "echo precious > table"],
            "arguments": "none", "status_from": "exit_code", "outputs": ["table"],
        },
    });
    stage.calm_spec(&stage.write("config.json", &jobs.to_string()))
}

#[test]
fn a_deadline_that_loses_outputs_says_so_with_its_own_exit_code() {
    let stage = Stage::new();
    let spec = one_maker(&stage);
    let _scheduler = stage.start_scheduler(&spec);
    let (operator, mut one) = with_the_only_copy(&stage, &spec);
    let mut order = vec![
        "worker",
        "decommission",
        "one",
        "--deadline",
        "1s",
        "--wait",
    ];
    order.extend(["--scheduler", &operator.address]);
    let ended = stage.brasserie(&order);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    for part in [
        "1 output (9 B) is only there: no other worker can take copies",
        "and has left. At its deadline, 1 output (9 B) was only there and lost",
    ] {
        assert!(ended.output.contains(part), "{part}: {ended:?}");
    }
    assert_eq!(one.wait().code(), Some(1));
}

#[test]
fn a_drain_says_first_what_is_only_there() {
    let stage = Stage::new();
    let spec = one_maker(&stage);
    let _scheduler = stage.start_scheduler(&spec);
    let (operator, mut one) = with_the_only_copy(&stage, &spec);
    let drain = ["worker", "drain", "one", "--reason", "new kernel", "--wait"];
    let told = operator.run(&drain);
    let first = "1 output (9 B) is only on worker `one`: once it has left,";
    assert!(told.starts_with(first), "{told}");
    assert!(told.ends_with("Worker `one` has left.\n"), "{told}");
    assert!(!told.contains("it is not clear"), "{told}");
    // The worker's log names the caller and the reason, also of a drain that is over at once.
    one.wait_for_output("has drained it (new kernel)");
    assert_eq!(one.wait().code(), Some(0));
}

#[test]
fn an_excluded_worker_gets_no_task_also_after_a_restart_of_the_scheduler() {
    let stage = Stage::new();
    let jobs = json!({
        "bistro_settings": settings(),
        "bistro_job->work": {
            "command": ["/bin/true"], "arguments": "none", "status_from": "exit_code",
            "enabled": false,
        },
    });
    let config = stage.write("config.json", &jobs.to_string());
    let spec = stage.calm_spec(&config);
    let mut scheduler = stage.start_scheduler(&spec);
    let _one = stage.start_worker(&stage.worker_spec("one", &spec));
    let operator = Operator::new(&stage, &spec);
    operator.wait_for_state("one", "healthy");
    operator.run(&["worker", "exclude", "one", "--reason", "slow disk"]);
    scheduler.kill_with_keeper();
    let mut enabled = jobs;
    enabled["bistro_job->work"]["enabled"] = json!(true);
    stage.write("config.json", &enabled.to_string());
    let _scheduler = stage.start_scheduler(&spec);
    operator.wait_for_state("one", "excluded");
    let listed = operator.run(&["worker", "list"]);
    assert!(
        listed.contains("one is excluded: it gets no tasks"),
        "{listed}"
    );
    let why = wait_for("the wait after the restart to end", || {
        let why = operator.run(&["explain", "work", "n1"]);
        why.contains("by an operator").then_some(why)
    });
    assert!(
        why.contains("worker `one` is excluded (slow disk)"),
        "{why}"
    );
    operator.run(&["worker", "recommission", "one"]);
    operator.wait_done("work");
    let unknown = [
        "worker",
        "exclude",
        "three",
        "--scheduler",
        &operator.address,
    ];
    let refused = stage.brasserie(&unknown);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.output.contains("The scheduler knows `one`"),
        "{refused:?}"
    );
}
