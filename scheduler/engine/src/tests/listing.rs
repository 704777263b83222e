//! Tests of counts, histograms and task arguments.

use std::sync::Arc;

use brasserie_common::{StatusBits, Time};
use serde_json::{Value, json};

use super::world::*;
use crate::{Counts, Engine, NodeTableBuilder, Restart, Row};

const T0: Time = Time::ZERO;

/// A level and its buckets: bits, count, names.
type Flat = (String, Vec<(u16, u64, Vec<String>)>);

#[test]
fn every_state_is_counted_once() {
    let config = config(vec![resource("slots", WORKER, 1, 6)], vec![job("j")]);
    let (mut engine, _) = engine(config, &[("h", &["a", "b", "c", "d", "e", "f", "g"])]);
    let tasks: Vec<_> = place_all(&mut engine, T0).iter().map(|p| p.task).collect();
    assert_eq!(tasks.len(), 6);
    let held = Restart::HeldUntilReleased;
    for (task, bits) in tasks.iter().zip([
        StatusBits::DONE,
        StatusBits::FAILED,
        StatusBits::INCOMPLETE,
        StatusBits::ERROR,
    ]) {
        engine.end(T0, *task, status(bits), None, held);
    }
    let bits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
    engine.end(T0, tasks[4], status(bits), Some(seconds(9)), held);
    let counts = Counts {
        total: 7,
        unstarted: 1,
        running: 1,
        done: 1,
        incomplete: 1,
        error: 1,
        in_backoff: 1,
        failed: 1,
        ..Counts::default()
    };
    assert_eq!(engine.counts(tasks[0].job), counts);
    assert_eq!(engine.tasks(tasks[0].job).count(), 7);
}

#[test]
fn histograms_unite_what_is_below() {
    let mut job = job("j");
    job.filters.insert(DB, blacklist(&["c"]));
    let (mut engine, _) = engine(
        config(vec![resource("slots", WORKER, 1, 2)], vec![job]),
        &[("h1", &["a", "b"]), ("h2", &["c", "d"]), ("empty", &[])],
    );
    let placed = place_all(&mut engine, T0);
    let bits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
    engine.end(
        T0,
        placed[0].task,
        status(bits),
        Some(seconds(5)),
        Restart::AtOnce,
    );
    let histogram = |engine: &crate::Engine| -> Vec<Flat> {
        let flat = |(name, buckets): (String, std::collections::BTreeMap<_, _>)| {
            let buckets =
                buckets
                    .into_iter()
                    .map(|(bits, (count, names)): (StatusBits, (u64, Vec<_>))| {
                        (
                            bits.0,
                            count,
                            names.iter().map(ToString::to_string).collect(),
                        )
                    });
            (name, buckets.collect())
        };
        let histogram = engine.histogram(placed[0].task.job, 1);
        histogram.into_iter().map(flat).collect()
    };
    let names = |n: &str| vec![n.to_owned()];
    assert_eq!(
        histogram(&engine),
        [
            ("instance".to_owned(), vec![(227, 1, names("root"))]),
            (
                "host".to_owned(),
                vec![(98, 1, names("h1")), (129, 1, names("h2"))]
            ),
            (
                "db".to_owned(),
                vec![
                    (1, 1, names("d")),
                    (2, 1, names("b")),
                    (96, 1, names("a")),
                    (128, 1, names("c"))
                ]
            ),
        ]
    );
    engine.handle_timeout(seconds(5));
    assert_eq!(histogram(&engine)[2].1[2], (32, 1, names("a")));
}

#[test]
fn the_argument_tells_a_task_all_about_itself() {
    let resources = vec![
        resource("disk", HOST, 2, 4),
        resource("slots", WORKER, 1, 6),
    ];
    let (mut engine, _) = engine(config(resources, vec![job("j")]), &[("h", &["a"])]);
    let task = place_all(&mut engine, T0)[0].task;
    let argument = |engine: &crate::Engine| -> Value {
        serde_json::from_str(&engine.task_argument(task, &shard("w1"), "m1")).unwrap()
    };
    let mut expected = json!({
        "id": "j",
        "path_to_node": ["root", "h", "a"],
        "config": {"key": 1},
        "resources_by_node": {"h": {"disk": 2}, "w1": {"slots": 1}},
        "worker_node": "w1",
        "worker_host": "m1",
    });
    assert_eq!(argument(&engine), expected);
    let taken_back = StatusBits::INCOMPLETE.with(StatusBits::OVERWRITEABLE);
    end(&mut engine, T0, task, taken_back);
    assert_eq!(place_all(&mut engine, T0)[0].task, task);
    assert_eq!(argument(&engine), expected, "nothing has run");
    end(&mut engine, T0, task, StatusBits::INCOMPLETE);
    assert_eq!(place_all(&mut engine, T0)[0].task, task);
    expected["prev_status"] = json!({"result_bits": 8, "time": 7});
    assert_eq!(argument(&engine), expected);
}

#[test]
fn a_name_is_enabled_if_any_node_of_it_is() {
    let config = config(Vec::new(), vec![job("j")]);
    let mut builder = NodeTableBuilder::new("root", &config);
    let off = builder.add_child(Row::ROOT, "off", false).unwrap();
    let on = builder.add_child(Row::ROOT, "on", true).unwrap();
    for (parent, name, enabled) in [
        (off, "below", true),
        (off, "replica", false),
        (on, "replica", true),
        // A disabled host has the same name.
        (on, "off", true),
        (off, "gone", false),
        (on, "gone", false),
    ] {
        builder.add_child(parent, name, enabled).unwrap();
    }
    let mut engine = Engine::new(1);
    let node = |engine: &mut Engine, name: &str| engine.intern_node(&node_name(name));
    engine.apply_config(T0, Arc::new(config));
    let root = node(&mut engine, "root");
    assert!(!engine.has_enabled_node(root), "before there are nodes");
    engine.apply_nodes(T0, Arc::new(builder.finish()));
    for (name, expected) in [
        ("root", true),
        ("on", true),
        ("below", true),
        ("replica", true),
        ("off", true),
        ("gone", false),
        ("never", false),
    ] {
        let id = node(&mut engine, name);
        assert_eq!(engine.has_enabled_node(id), expected, "{name}");
    }
}
