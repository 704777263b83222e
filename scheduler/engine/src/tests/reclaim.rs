//! Tests that a reclaim releases the names of vanished nodes, and no others.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::resources::{NodeResources, ResourceAmount};
use brasserie_common::{StatusBits, Time};
use brasserie_common_config::Config;

use super::world::*;
use crate::work::WorkBudget;
use crate::{Engine, HoldBack, Restart};

const NOW: Time = Time::ZERO;

fn one_job() -> Config {
    // Only nodes of tasks and workers are charged.
    let db = resource("io", DB, 1, 9);
    let slots = resource("slots", WORKER, 1, 9);
    config(vec![db, slots], vec![job("a")])
}

fn put(engine: &mut Engine, hosts: &[(&str, &[&str])]) {
    let table = nodes(engine.config().unwrap(), hosts);
    engine.apply_nodes(NOW, Arc::new(table));
}

/// Runs a reclaim now, in slices of one step, with `between` after each.
fn reclaim_with(engine: &mut Engine, mut between: impl FnMut(&mut Engine)) {
    engine.abandon_reclaim();
    engine.begin_reclaim();
    while engine.wants_held_nodes().is_none() {
        engine.run_slice(&mut WorkBudget::new(1));
        between(engine);
    }
    engine.all_nodes_are_held();
    while engine.is_refreshing() {
        engine.run_slice(&mut WorkBudget::new(1));
    }
}

fn reclaim(engine: &mut Engine) {
    reclaim_with(engine, |_| {});
}

fn known<'a>(engine: &Engine, names: &[&'a str]) -> Vec<&'a str> {
    let all = names.iter().copied();
    all.filter(|name| engine.find_node(name).is_some())
        .collect()
}

#[test]
fn it_is_done_when_enough_names_may_be_nobodys() {
    let (mut engine, _) = engine(one_job(), &[("h1", &["d1", "d2"]), ("h2", &["d3"])]);
    engine.all_nodes_are_held();
    while engine.is_refreshing() {
        engine.continue_refresh();
    }
    let before = engine.node_names.count();
    for round in 0..50 {
        let name = format!("new{round}");
        put(&mut engine, &[("h1", &[&name])]);
        // The caller would drive the refresh like this.
        while engine.is_refreshing() {
            engine.continue_refresh();
        }
        assert_eq!(engine.find_node(&name).map(|_| ()), Some(()));
        engine.all_nodes_are_held();
        while engine.is_refreshing() {
            engine.continue_refresh();
        }
    }
    assert!(engine.node_names.count() <= before);
    assert!(engine.node_names.end() <= before + 2, "ids are used again");
    assert_eq!(known(&engine, &["h2", "d3", "new3", "new49"]), ["new49"]);
}

#[test]
fn nothing_is_given_back_that_somebody_has() {
    let (mut engine, worker) = engine(
        one_job(),
        &[
            ("h1", &["runs", "ended", "waits", "held", "told", "gone"]),
            ("h2", &["stays"]),
        ],
    );
    let [runs, ended, waits, held, told] =
        ["runs", "ended", "waits", "held", "told"].map(|name| task(&mut engine, "a", name));
    let placed = place_all(&mut engine, NOW);
    assert!(placed.iter().any(|placement| placement.task == runs));
    let status = status(StatusBits::DONE);
    for placement in placed {
        if placement.task != runs {
            engine.end(NOW, placement.task, status.clone(), None, Restart::AtOnce);
            engine.forget_status(placement.task);
            engine.release(NOW, placement.task);
        }
    }
    engine.restate(NOW, ended, status, None, Restart::AtOnce);
    let tasks = [waits];
    engine.hold_back_unknown(HoldBack::Tasks(&tasks), NOW + Duration::from_secs(9));
    engine.hold(held);
    let beside = NodeResources {
        node: node_name("beside"),
        resources: vec![ResourceAmount {
            name: "io".to_owned(),
            amount: 1,
        }],
    };
    engine.hold_slots(worker, std::slice::from_ref(&beside), &[]);
    put(&mut engine, &[("h2", &["stays"])]);
    reclaim_with(&mut engine, |engine| engine.hold_nodes([told.node]));
    let all = [
        "runs", "ended", "waits", "held", "told", "gone", "h1", "h2", "stays", "beside",
    ];
    let kept = [
        "runs", "ended", "waits", "held", "told", "h1", "h2", "stays", "beside",
    ];
    assert_eq!(known(&engine, &all), kept);
    let path: Vec<String> = engine.path(runs).iter().map(ToString::to_string).collect();
    assert_eq!(path, ["root", "h1", "runs"]);
    // Every holder releases its nodes.
    end(&mut engine, NOW, runs, StatusBits::DONE);
    for task in [runs, ended, held] {
        engine.forget_status(task);
        engine.release(NOW, task);
    }
    engine.handle_timeout(NOW + Duration::from_secs(9));
    engine.release_slots(worker, &[beside], &[]);
    reclaim(&mut engine);
    assert_eq!(known(&engine, &all), ["h2", "stays"]);
    assert_eq!(engine.slots.all_used(), []);
}

#[test]
fn a_node_is_kept_that_goes_from_one_to_another_meanwhile() {
    // The task completes once after each step.
    for turn in 1..60 {
        let (mut engine, _) = engine(one_job(), &[("h1", &["d1"])]);
        let placed = place_all(&mut engine, NOW);
        let task = placed[0].task;
        put(&mut engine, &[("h2", &["d2"])]);
        let mut turns = 0;
        reclaim_with(&mut engine, |engine| {
            turns += 1;
            if turns == turn {
                end(engine, NOW, task, StatusBits::FAILED);
            }
        });
        if turns < turn {
            assert!(turn > 5, "a node of each of those who may have one");
            return;
        }
        assert_eq!(engine.find_node("d1"), Some(task.node), "turn {turn}");
        let status = engine.previous_status(task).map(|status| status.bits);
        assert_eq!(status, Some(StatusBits::FAILED), "turn {turn}");
    }
    unreachable!("it comes to its end");
}

#[test]
fn what_is_found_while_names_are_given_back_stays() {
    let (mut engine, _) = engine(one_job(), &[("h1", &["d1", "d2"])]);
    put(&mut engine, &[("h2", &["d3"])]);
    engine.abandon_reclaim();
    engine.begin_reclaim();
    while engine.wants_held_nodes().is_none() {
        engine.run_slice(&mut WorkBudget::new(1));
    }
    engine.all_nodes_are_held();
    assert_eq!(engine.find_node("d1"), None, "nobody has it");
    let again = engine.intern_node(&node_name("d2"));
    while engine.is_refreshing() {
        engine.run_slice(&mut WorkBudget::new(1));
    }
    assert_eq!(engine.find_node("d2"), Some(again));
    assert_eq!(
        known(&engine, &["h1", "d1", "d2", "h2", "d3"]),
        ["d2", "h2", "d3"]
    );
}

#[test]
fn new_nodes_wait_for_it_unless_others_keep_it_waiting() {
    let (mut engine, _) = engine(one_job(), &[("h1", &["d1"])]);
    put(&mut engine, &[("h2", &["d2"])]);
    engine.abandon_reclaim();
    engine.begin_reclaim();
    engine.run_slice(&mut WorkBudget::new(1));
    let table = Arc::new(nodes(engine.config().unwrap(), &[("h3", &["d3"])]));
    engine.begin_nodes(Arc::clone(&table));
    assert!(
        engine.refresh.is_none(),
        "the forest stays while it is looked through"
    );
    while engine.is_refreshing() {
        engine.run_slice(&mut WorkBudget::new(1));
    }
    assert!(
        Arc::ptr_eq(engine.nodes().unwrap(), &table),
        "nobody tells what he has"
    );
    assert_eq!(known(&engine, &["d1", "d2", "d3"]), ["d1", "d2", "d3"]);
}
