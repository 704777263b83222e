//! Node tables that take more than a turn: the old nodes decide until the new ones are whole, and everybody is served meanwhile.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{CallOutcome, ReportedStatus, Time};
use brasserie_scheduler_core::{Call, CallReply, Event};
use brasserie_scheduler_engine::{NodeTable, NodeTableBuilder, Row};

use crate::support::{Script, one_job, worker};

/// More than some slices hold.
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
        // Heartbeats are answered in between.
        s.echo(&w);
        turns += 1;
        assert!(turns < 10_000, "they come in force");
    }
    assert!(turns > 3, "it took {turns} turns");
    let (_, kill, _) = s.take_call(is_kill).expect("n0 is an orphan now");
    let orphan = s.scheduler.engine().find_node("n0");
    assert!(matches!(kill, Call::KillTask { task, .. } if Some(task.node) == orphan));
    while s.scheduler.engine().is_refreshing() {
        s.advance(Duration::ZERO);
    }
    let (_, told) = s.update(&w, &running[1], ReportedStatus::done());
    assert_eq!(told, Ok(()));
}
