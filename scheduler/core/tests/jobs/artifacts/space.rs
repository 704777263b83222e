//! Space for the outputs of tasks: a worker without any gets no task that leaves outputs.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::artifact_report::DiskCondition;
use brasserie_common::{Fault, ReportedStatus, RunningTask, Story, WorkerSetId};
use brasserie_common_config::Config;

use super::{Run, Store, explain, pass, start, starts};
use crate::support::{Script, config, options, worker};

const MIB: u64 = 1 << 20;

/// Three nodes on which `extract` leaves outputs and `look` leaves none.
fn jobs(enabled: bool, jobs: &str) -> Arc<Config> {
    config(&format!(
        r#"{{"bistro_settings": {{"enabled": {enabled}, "nodes": {{"levels": ["l"], "node_order": "original",
            "node_sources": [{{"source": "manual", "prefs": {{"n0": [], "n1": [], "n2": []}}}}]}}, "resources": {{}}}}
            {jobs}}}"#
    ))
}

const EXTRACT: &str =
    r#", "bistro_job->extract": {"owner": "o", "command": ["/bin/true"], "outputs": ["table"]}"#;
const LOOK: &str = r#", "bistro_job->look": {"owner": "o", "command": ["/bin/true"]}"#;

/// Workers that have reported disks with this usable space, in MiB, before any task starts.
fn cluster(usable: &[u64]) -> (Script, Vec<Store>) {
    let mut script = Script::with_config(jobs(false, EXTRACT));
    let stores = usable.iter().zip(1..).map(|(usable, lock)| {
        let mut store = Store::join(&mut script, &format!("w{lock}"), lock);
        store.usable = usable * MIB;
        store.report(&mut script);
        store
    });
    let stores = stores.collect();
    (script, stores)
}

#[test]
fn a_task_with_outputs_starts_only_where_a_disk_has_space() {
    let (mut script, mut stores) = cluster(&[0, 10]);
    stores[1].condition = DiskCondition::ReadError;
    stores[1].report(&mut script);
    script.load(jobs(true, &format!("{EXTRACT}{LOOK}")));
    // A task without outputs needs no space.
    for node in ["n0", "n1", "n2"] {
        let run = start(&mut script, "look", node);
        let mut at = stores.iter_mut();
        let at = at.find(|store| store.worker.id == run.on.id).unwrap();
        at.done(&mut script, &run, &[]);
    }
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n0").join("; ");
    let expected = "2 without space for its inputs or outputs (worker `w1`: none of its disks has space for its outputs)";
    assert!(why.contains(expected), "{why}");
    stores[1].condition = DiskCondition::Healthy;
    stores[1].report(&mut script);
    // The worker runs two tasks at once.
    for node in ["n0", "n1"] {
        assert_eq!(start(&mut script, "extract", node).on.shard.as_str(), "w2");
    }
}

#[test]
fn a_worker_that_has_not_reported_its_disks_gets_tasks_with_outputs() {
    let mut script = Script::with_config(jobs(true, EXTRACT));
    script.join(&worker("w1", 1, 100));
    start(&mut script, "extract", "n0");
}

#[test]
fn a_running_task_reserves_space_for_as_much_as_earlier_ones_have_left() {
    let (mut script, mut stores) = cluster(&[1000]);
    let one = EXTRACT.replace("{", r#"{"max_running": 1, "#);
    script.load(jobs(true, &one));
    let first = start(&mut script, "extract", "n0");
    stores[0].done_with_size(&mut script, &first, (1, 600 * MIB));
    script.load(jobs(true, EXTRACT));
    let second = start(&mut script, "extract", "n1");
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n2").join("; ");
    let expected = "(worker `w1`: none of its disks has space for its outputs, about 640.0 MiB)";
    assert!(why.contains(expected), "{why}");
    stores[0].done_with_size(&mut script, &second, (2, 600 * MIB));
    // The first report after the end may have been under way before it.
    for _ in 0..2 {
        assert!(starts(&script).is_empty());
        stores[0].report(&mut script);
    }
    start(&mut script, "extract", "n2");
}

#[test]
fn a_restarted_scheduler_knows_the_sizes_of_outputs_and_reserves_space_for_running_tasks() {
    let (mut script, mut stores) = cluster(&[1000]);
    let one = EXTRACT.replace("{", r#"{"max_running": 1, "#);
    script.load(jobs(true, &one));
    let first = start(&mut script, "extract", "n0");
    stores[0].done_with_size(&mut script, &first, (1, 600 * MIB));
    let second = start(&mut script, "extract", "n1");
    let mut script = script.restart(options());
    script
        .heartbeat(&stores[0].worker, WorkerSetId::default())
        .expect("the same instance");
    // The configuration and the disks of the worker become known after its tasks.
    script.answer_fetch(vec![second.task.clone()]);
    script.answer_healthcheck(&stores[0].worker);
    script.echo(&stores[0].worker);
    stores[0].settle(&mut script);
    script.load(jobs(true, EXTRACT));
    pass(&mut script, Duration::from_secs(2), None);
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n2").join("; ");
    let expected = "(worker `w1`: none of its disks has space for its outputs, about 640.0 MiB)";
    assert!(why.contains(expected), "{why}");
    stores[0].done_with_size(&mut script, &second, (2, 600 * MIB));
    stores[0].settle(&mut script);
    start(&mut script, "extract", "n2");
}

/// A restarted scheduler with one worker whose tasks leave 600 MiB each. It has not reported its disks yet.
fn restarted() -> (Script, Store) {
    let (mut script, mut stores) = cluster(&[1000]);
    script.load(jobs(true, &EXTRACT.replace("{", r#"{"max_running": 1, "#)));
    let first = start(&mut script, "extract", "n0");
    script.load(jobs(false, EXTRACT));
    stores[0].done_with_size(&mut script, &first, (1, 600 * MIB));
    let mut script = script.restart(options());
    script.load(jobs(true, EXTRACT));
    stores[0].worker = worker("w1", 1, 200);
    script.join(&stores[0].worker);
    pass(&mut script, Duration::from_secs(2), None);
    (script, stores.remove(0))
}

#[test]
fn tasks_with_outputs_of_known_size_wait_for_the_first_report_of_a_worker() {
    let (mut script, mut store) = restarted();
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n1").join("; ");
    let expected = "(worker `w1` has not reported its disks since it joined; tasks with outputs wait a minute at most for that)";
    assert!(why.contains(expected), "{why}");
    store.usable = 700 * MIB;
    store.report(&mut script);
    start(&mut script, "extract", "n1");
    assert!(starts(&script).is_empty());
}

#[test]
fn tasks_with_outputs_of_known_size_wait_a_minute_at_most_for_a_report() {
    let (mut script, _store) = restarted();
    let joined = script.now;
    while starts(&script).is_empty() {
        assert!(script.now < joined + Duration::from_secs(60));
        // Nothing but the clock wakes the scheduler.
        let due = script
            .scheduler
            .poll_timeout()
            .expect("a worker is awaited");
        let step = due.since(script.now).max(Duration::from_millis(1));
        pass(&mut script, step, None);
    }
    assert!(joined + Duration::from_secs(50) < script.now);
}

/// Ends a run that has succeeded, and for whose outputs its worker had no space.
fn end_without_space(script: &mut Script, run: &Run) {
    let story = Story {
        fault: Fault::Worker,
        ..Story::exited(0)
    };
    let task = RunningTask {
        story: Some(Arc::new(story)),
        ..run.task.clone()
    };
    let status = ReportedStatus::by_fault(Fault::Worker, "the store has no space");
    assert_eq!(script.update(&run.on, &task, status).1, Ok(()));
    pass(script, Duration::from_secs(2), None);
}

/// Returns the only task that starts, which is expected on this worker.
fn start_on(script: &mut Script, shard: &str) -> Run {
    let names = starts(script);
    assert_eq!(names.len(), 1, "{:?}", explain(script, "extract", "n0"));
    let node = names[0].strip_prefix("extract on ").expect("no other job");
    let run = start(script, "extract", node);
    assert_eq!(run.on.shard.as_str(), shard);
    run
}

#[test]
fn a_worker_without_space_for_outputs_is_not_tried_again_while_others_have_had_space() {
    let (mut script, mut stores) = cluster(&[2_000_000, 0]);
    let one = EXTRACT.replace("{", r#"{"max_running": 1, "backoff": [1, "repeat"], "#);
    script.load(jobs(true, &one));
    // The disk of the first worker has been filled since its report. The other one has much less space, and enough for a run.
    let run = start_on(&mut script, "w1");
    stores[1].usable = MIB;
    stores[1].report(&mut script);
    end_without_space(&mut script, &run);
    let run = start_on(&mut script, "w2");
    end_without_space(&mut script, &run);
    // All workers have had none.
    assert!(starts(&script).is_empty());
    pass(&mut script, Duration::from_secs(60), None);
    let run = start_on(&mut script, "w1");
    end_without_space(&mut script, &run);
    let run = start_on(&mut script, "w2");
    // No other worker has space any more.
    stores[1].usable = 0;
    stores[1].report(&mut script);
    end_without_space(&mut script, &run);
    for _ in 0..3 {
        assert!(starts(&script).is_empty());
        pass(&mut script, Duration::from_secs(60), None);
        let run = start_on(&mut script, "w1");
        end_without_space(&mut script, &run);
    }
}

#[test]
fn a_run_that_found_no_space_costs_its_task_no_try() {
    let (mut script, mut stores) = cluster(&[100]);
    let last = EXTRACT.replace("{", r#"{"max_running": 1, "backoff": ["fail"], "#);
    script.load(jobs(true, &last));
    for _ in 0..3 {
        let run = start_on(&mut script, "w1");
        end_without_space(&mut script, &run);
        assert!(starts(&script).is_empty(), "a worker is not tried at once");
        pass(&mut script, Duration::from_secs(60), None);
    }
    // More space ends the wait.
    let run = start_on(&mut script, "w1");
    end_without_space(&mut script, &run);
    for usable in [100, 100, 1000] {
        assert!(starts(&script).is_empty());
        stores[0].usable = usable * MIB;
        stores[0].report(&mut script);
    }
    start_on(&mut script, "w1");
}

/// A run of `extract`, which may run on the host of worker `w1` only, where it may run twice at once. Another host has much space.
fn on_one_host() -> (Script, Store, Run) {
    let (mut script, mut stores) = cluster(&[100]);
    let mut other = worker("w2", 2, 100);
    other.machine_lock.hostname = "other".into();
    let mut other = Store::of(&mut script, other);
    other.usable = 1000 * MIB;
    other.report(&mut script);
    let here = r#"{"backoff": [1, "repeat"], "host_placement": "host", "max_running": 1, "#;
    script.load(jobs(true, &EXTRACT.replace("{", here)));
    let run = start_on(&mut script, "w1");
    (script, stores.remove(0), run)
}

#[test]
fn a_worker_without_space_for_outputs_is_tried_again_later_if_the_job_runs_nowhere_else() {
    let (mut script, _store, run) = on_one_host();
    end_without_space(&mut script, &run);
    pass(&mut script, Duration::from_secs(590), None);
    assert!(starts(&script).is_empty());
    let why = explain(&script, "extract", "n0").join("; ");
    let expected = "(worker `w1` had no space for the inputs or outputs of another run of the job, at most 10 minutes ago)";
    assert!(why.contains(expected), "{why}");
    pass(&mut script, Duration::from_secs(20), None);
    start_on(&mut script, "w1");
}

#[test]
fn a_worker_without_space_for_outputs_is_tried_again_when_its_disks_have_more() {
    let (mut script, mut store, run) = on_one_host();
    end_without_space(&mut script, &run);
    // The first two reports may still count what the run has left behind.
    for usable in [20, 100, 108, 50, 56] {
        store.usable = usable * MIB;
        store.report(&mut script);
        assert!(starts(&script).is_empty());
    }
    store.usable = 57 * MIB;
    store.report(&mut script);
    start_on(&mut script, "w1");
}

#[test]
fn a_worker_without_space_for_outputs_is_tried_again_when_another_run_has_had_space_there() {
    let (mut script, mut store, run) = on_one_host();
    let two = r#"{"backoff": [1, "repeat"], "host_placement": "host", "max_running": 2, "#;
    script.load(jobs(true, &EXTRACT.replace("{", two)));
    let second = start_on_any(&mut script);
    end_without_space(&mut script, &run);
    assert!(starts(&script).is_empty());
    store.done_with_size(&mut script, &second, (1, MIB));
    start_on_any(&mut script);
}

/// Returns the first task that starts.
fn start_on_any(script: &mut Script) -> Run {
    let names = starts(script);
    let name = names.first().expect("a start");
    let node = name.strip_prefix("extract on ").expect("no other job");
    start(script, "extract", node)
}

#[test]
fn a_worker_without_space_for_outputs_gets_the_tasks_of_other_jobs() {
    let (mut script, mut stores) = cluster(&[100, 0]);
    let one = EXTRACT.replace("{", r#"{"max_running": 1, "backoff": [1, "repeat"], "#);
    script.load(jobs(true, &one));
    let run = start_on(&mut script, "w1");
    stores[1].usable = 1000 * MIB;
    stores[1].report(&mut script);
    end_without_space(&mut script, &run);
    start_on(&mut script, "w2");
    // The workers run two tasks each.
    let other = EXTRACT.replace("extract", "other");
    script.load(jobs(true, &format!("{one}{other}")));
    let on = ["n0", "n1", "n2"].map(|node| start(&mut script, "other", node).on.shard);
    let first = on.iter().filter(|shard| shard.as_str() == "w1");
    assert_eq!(first.count(), 2, "{on:?}");
}

/// Ends a run whose inputs its worker could not keep.
fn end_without_space_for_inputs(script: &mut Script, run: &Run) {
    let why = "cannot keep its input 27e1f: no space for 50 MiB.";
    let story = Story::not_started(why, Fault::System, Duration::ZERO);
    let task = RunningTask {
        story: Some(Arc::new(story)),
        ..run.task.clone()
    };
    let status = ReportedStatus::by_fault(Fault::System, why);
    assert_eq!(script.update(&run.on, &task, status).1, Ok(()));
    pass(script, Duration::from_secs(120), None);
}

const READ: &str = r#", "bistro_job->read": {"owner": "o", "command": ["/bin/true"], "inputs": [{"from": "extract", "path": "table"}]}"#;

#[test]
fn a_worker_that_could_not_keep_an_input_gets_no_tasks_of_the_job_for_a_while() {
    let (mut script, mut stores) = cluster(&[0, 300]);
    let one = EXTRACT.replace("{", r#"{"max_running": 1, "#);
    let later = READ.replacen('{', r#"{"enabled": false, "#, 1);
    script.load(jobs(true, &format!("{one}{later}")));
    for content in 1..=3 {
        let run = start_on(&mut script, "w2");
        stores[1].done_with_size(&mut script, &run, (content, 50 * MIB));
    }
    stores[1].settle(&mut script);
    stores[0].usable = 40 * MIB;
    stores[0].report(&mut script);
    // The worker with the inputs runs two tasks at once.
    script.load(jobs(true, &format!("{EXTRACT}{READ}")));
    let runs = ["n0", "n1", "n2"].map(|node| start(&mut script, "read", node));
    let (there, here): (Vec<&Run>, Vec<&Run>) =
        runs.iter().partition(|run| run.on.shard.as_str() == "w2");
    assert_eq!((there.len(), here.len()), (2, 1));
    end_without_space_for_inputs(&mut script, here[0]);
    assert!(starts(&script).is_empty());
    let why = explain(&script, "read", here[0].task.node.as_str()).join("; ");
    let expected = "(worker `w1` had no space for the inputs or outputs of another run of the job, at most 10 minutes ago)";
    assert!(why.contains(expected), "{why}");
    stores[1].done(&mut script, there[0], &[]);
    let again = start(&mut script, "read", here[0].task.node.as_str());
    assert_eq!(again.on.shard.as_str(), "w2");
}
