//! Tasks that wait for the worker with most of their inputs.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ReportedStatus;
use brasserie_common::worker::Intake;

use brasserie_common_config::Config;
use brasserie_scheduler_core::{Answer, LocalityCounts, Proposal, ProposedNodes, Query};

use super::{Run, Store, explain, pass, start, starts};
use crate::support::{Script, config};

/// The size of the input of `join`.
const SIZE: u64 = 3 << 20;

/// One node, workers with one slot each, and these keys of `join`.
fn jobs(keys: &str) -> Arc<Config> {
    config(&format!(
        r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [
            {{"source": "manual", "prefs": {{"n0": []}}}}]}},
            "resources": {{"worker": {{"slot": {{"limit": 1, "default": 1}}}}}}}},
        "bistro_job->extract": {{"owner": "o", "command": ["/bin/true"], "outputs": ["table"]}},
        "bistro_job->block": {{"owner": "o", "command": ["/bin/true"]}},
        "bistro_job->join": {{"owner": "o", "command": ["/bin/true"], "inputs": [{{"from": "extract"}}] {keys}}}}}"#
    ))
}

/// A cluster in which `a` has the input of `join` and runs `block` in its only slot, and `b` is idle.
fn cluster(keys: &str) -> (Script, [Store; 2], Run) {
    let mut script = Script::with_config(jobs(keys));
    let mut a = Store::join(&mut script, "a", 1);
    let extract = start(&mut script, "extract", "n0");
    // The jobs take turns, so `block` comes next.
    a.done_with_size(&mut script, &extract, (1, SIZE));
    let block = start(&mut script, "block", "n0");
    assert_eq!(block.on.shard.as_str(), "a");
    let b = Store::join(&mut script, "b", 2);
    (script, [a, b], block)
}

#[test]
fn a_task_waits_for_the_worker_with_most_of_its_inputs() {
    let (mut script, [mut a, _], block) = cluster(r#", "locality_wait": "30s""#);
    assert!(starts(&script).is_empty());
    let why = explain(&script, "join", "n0").join("; ");
    let expected = "it waits for `a`, with 3.0 MiB of its inputs and no free slots; in 30s at the latest it starts at another worker";
    assert!(why.contains(expected), "{why}");
    pass(&mut script, Duration::from_secs(20), None);
    assert!(starts(&script).is_empty());
    let why = explain(&script, "join", "n0").join("; ");
    assert!(why.contains("in 10s at the latest"), "{why}");
    a.done(&mut script, &block, &[]);
    assert_eq!(start(&mut script, "join", "n0").on.shard.as_str(), "a");
    let counts = LocalityCounts { hits: 1, misses: 0 };
    assert_eq!(script.status().locality, counts);
}

#[test]
fn the_wait_for_a_worker_ends_by_time_without_another_event() {
    let (mut script, _, _) = cluster(r#", "locality_wait": "9s""#);
    script.advance(Duration::from_secs(8));
    assert!(starts(&script).is_empty());
    script.advance(Duration::from_secs(1));
    assert_eq!(start(&mut script, "join", "n0").on.shard.as_str(), "b");
}

#[test]
fn the_wait_for_a_worker_counts_as_time_in_which_the_task_was_ready() {
    let keys = r#", "locality_wait": "9s""#;
    let (mut script, _, _) = cluster(keys);
    script.advance(Duration::from_secs(6));
    // The time since the last change of the nodes is shorter.
    script.load_nodes(jobs(keys));
    script.advance(Duration::from_secs(3));
    let join = start(&mut script, "join", "n0");
    let ready = crate::history::ready_for(&mut script, &join.on, &join.task);
    assert_eq!(ready, Some(Duration::from_secs(9)));
}

#[test]
fn a_task_waits_for_no_worker_without_the_key() {
    let (mut script, _, _) = cluster("");
    assert_eq!(start(&mut script, "join", "n0").on.shard.as_str(), "b");
    let counts = LocalityCounts { hits: 0, misses: 1 };
    assert_eq!(script.status().locality, counts);
}

#[test]
fn nothing_waits_for_a_worker_that_gets_no_tasks_any_more() {
    let (mut script, [mut a, _], _) = cluster(r#", "locality_wait": "1h""#);
    assert!(starts(&script).is_empty());
    a.worker.intake = Intake::Draining;
    script.echo(&a.worker);
    assert_eq!(start(&mut script, "join", "n0").on.shard.as_str(), "b");
}

#[test]
fn a_task_that_runs_again_has_the_whole_wait_again() {
    let (mut script, [_, b], _) = cluster(r#", "locality_wait": "9s", "backoff": [1, "repeat"]"#);
    script.advance(Duration::from_secs(9));
    let join = start(&mut script, "join", "n0");
    let failed = script.update(&b.worker, &join.task, ReportedStatus::error_backoff("x"));
    assert_eq!(failed.1, Ok(()));
    script.advance(Duration::from_secs(9));
    assert!(starts(&script).is_empty());
    script.advance(Duration::from_secs(1));
    assert_eq!(start(&mut script, "join", "n0").on.shard.as_str(), "b");
}

#[test]
fn a_plan_counts_the_bytes_that_its_starts_would_move() {
    let (mut script, [mut a, _], block) = cluster(r#", "enabled": false"#);
    let planned = |script: &Script| {
        let Answer::WhatIf(copy) = script.scheduler.answer(script.now, &Query::WhatIf) else {
            panic!("a copy for a plan");
        };
        let plan = copy.plan(Proposal {
            config: jobs(""),
            nodes: ProposedNodes::Kept,
            inputs: brasserie_scheduler_core::ProposedInputs::default(),
        });
        let jobs = plan.tasks.jobs.first.into_iter();
        let of_job =
            |job: brasserie_scheduler_core::JobPlan| (job.name.to_string(), job.bytes_to_move);
        jobs.map(of_job).collect::<Vec<_>>()
    };
    assert_eq!(planned(&script), [("join".to_owned(), Some(SIZE))]);
    a.done(&mut script, &block, &[]);
    assert_eq!(planned(&script), [("join".to_owned(), Some(0))]);
}
