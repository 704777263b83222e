//! Tests of node tables that take more than a turn: the old nodes decide until the new ones are complete, and requests are served
//! meanwhile.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{CallOutcome, ReportedStatus, Time};
use brasserie_scheduler_core::{Call, CallReply, ConfigOrigin, Event};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder, Row};

use crate::support::{Script, config, one_job, worker};

/// More nodes than several slices can process.
const MANY: usize = 30_000;

fn table(config: &brasserie_common_config::Config, last: &str) -> Arc<NodeTable> {
    let mut builder = NodeTableBuilder::new("instance", config);
    for node in 0..MANY {
        let child = builder.add_child(Row::ROOT, &format!("m{node}"), false);
        child.expect("the table has room");
    }
    let child = builder.add_child(Row::ROOT, last, true);
    child.expect("the table has room");
    Arc::new(builder.finish())
}

#[test]
fn the_old_nodes_decide_until_the_new_ones_are_in_force() {
    let config = one_job(2, r#", "kill_orphan_tasks_after_sec": 0"#);
    let mut s = Script::with_config(Arc::clone(&config));
    let w = worker("w", 1, 10);
    s.join(&w);
    let mut running = Vec::new();
    while !s.starts().is_empty() {
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        running.push(task);
    }
    assert_eq!(running.len(), 2, "n0 and n1");
    s.event(Event::NodesLoaded {
        nodes: table(&config, "n1"),
        config: Arc::clone(&config),
    });
    let mut turns = 0;
    let is_kill = |call: &Call| matches!(call, Call::KillTask { .. });
    while s.scheduler.engine().nodes().is_some_and(|n| n.len() < MANY) {
        assert_eq!(s.scheduler.poll_timeout(), Some(Time::ZERO), "at once");
        assert!(s.take_call(is_kill).is_none(), "n0 is still wanted");
        // Heartbeats are answered meanwhile.
        s.echo(&w);
        turns += 1;
        assert!(turns < 10_000, "they come in force");
    }
    assert!(turns > 3, "it took {turns} turns");
    let (_, kill) = s.take_call(is_kill).expect("n0 is an orphan now");
    assert!(matches!(kill, Call::KillTask { task, .. } if task.node.as_str() == "n0"));
    while s.scheduler.engine().is_refreshing() {
        s.advance(Duration::ZERO);
    }
    let (_, told) = s.update(&w, &running[1], ReportedStatus::done());
    assert_eq!(told, Ok(()));
}

/// A file with other sources is in force for less than a turn. Its nodes are never read, and those of the first file are not read again.
#[test]
fn nodes_are_those_of_a_configuration_that_comes_back_in_the_same_turn() {
    let with = |nodes: &str, jobs: &str| {
        config(&format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_order": "original",
                "node_sources": [{{"source": "manual", "prefs": {{{nodes}}}}}]}}, "resources": {{}},
                "kill_orphan_tasks_after_sec": 0}},
                "bistro_job->first": {{"command": ["/bin/true"]}},
                "bistro_job->last": {{"command": ["/bin/true"], "run_only_after_all_nodes_are_done_for": ["first"]}}
                {jobs}}}"#
        ))
    };
    let more = r#", "bistro_job->more": {"command": ["/bin/true"]}"#;
    let mut s = Script::with_config(with(r#""n0": []"#, more));
    let w = worker("w", 1, 10);
    s.join(&w);
    let mut first = None;
    for _ in 0..2 {
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        if task.job.as_str() == "first" {
            first = Some(task);
        }
    }
    let loaded = |config| Event::ConfigLoaded {
        config,
        warnings: Vec::new(),
        origin: ConfigOrigin::Given,
    };
    let others = with(r#""n7": [], "n8": []"#, more);
    s.scheduler.handle(s.now, loaded(others));
    let is_kill = |call: &Call| matches!(call, Call::KillTask { .. });
    s.event(loaded(with(r#""n0": []"#, "")));
    let (_, kill) = s.take_call(is_kill).expect("what is not wanted is known");
    assert!(matches!(kill, Call::KillTask { task, .. } if task.job.as_str() == "more"));
    assert!(s.take_call(is_kill).is_none(), "`first` is wanted");
    assert!(s.starts().is_empty(), "`first` is not done");
    let first = first.expect("it has started");
    let (_, told) = s.update(&w, &first, ReportedStatus::done());
    assert_eq!(told, Ok(()));
    let started: Vec<_> = s.starts().into_iter().map(|task| task.job).collect();
    assert_eq!(started.len(), 1);
    assert_eq!(started[0].as_str(), "last", "all of `first` is done");
}
