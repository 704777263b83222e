//! Tests that a fingerprint has everything that can change the engine's answers, and nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{StatusBits, Time};

use super::world::*;
use crate::{Eligibility, Engine, HoldBack};

const T0: Time = Time::ZERO;

fn at_work() -> (Engine, crate::WorkerIndex) {
    let resources = vec![resource("slots", WORKER, 1, 1)];
    engine(
        config(resources, vec![job("j1"), job("j2")]),
        &[("h1", &["a", "b"])],
    )
}

#[test]
fn the_clock_does_not_count_but_what_is_left_of_a_wait_does() {
    let waiting = |now: Time, left: u64| {
        let (mut engine, _) = at_work();
        let until = now + Duration::from_secs(left);
        engine.hold_back_unknown(HoldBack::All, until);
        engine.fingerprint(now)
    };
    let later = T0 + Duration::from_secs(77);
    assert_eq!(waiting(T0, 5), waiting(later, 5));
    assert_ne!(waiting(T0, 5), waiting(T0, 6));
}

#[test]
fn each_state_has_its_own() {
    let (mut engine, worker) = at_work();
    let mut prints = BTreeSet::from([engine.fingerprint(T0)]);
    let mut note = |engine: &Engine, what: &str| {
        assert!(prints.insert(engine.fingerprint(T0)), "{what}");
    };
    engine.set_eligibility(worker, Eligibility::Ineligible);
    note(&engine, "ineligible");
    engine.set_eligibility(worker, Eligibility::Eligible);
    let first = engine.place(T0).unwrap();
    note(&engine, "running");
    end(&mut engine, T0, first.task, StatusBits::DONE);
    note(&engine, "done");
    let second = engine.place(T0).unwrap();
    note(&engine, "the cursor has moved");
    end(&mut engine, T0, second.task, StatusBits::ERROR);
    note(&engine, "an error");
    engine.hold(second.task);
    note(&engine, "held");
    engine.remove_worker(worker);
    note(&engine, "no worker");
}

#[test]
fn what_was_tried_in_vain_does_not_count() {
    let (mut engine, _) = at_work();
    engine.place(T0).unwrap();
    let before = engine.fingerprint(T0);
    assert_eq!(engine.place(T0), None, "one slot");
    assert_eq!(engine.fingerprint(T0), before);
}

#[test]
fn which_names_will_be_given_back_counts() {
    let (mut engine, _) = at_work();
    let nobodys = engine.intern_node(&node_name("nobody's"));
    let finish = |engine: &mut Engine| {
        while engine.is_refreshing() {
            engine.continue_refresh();
        }
    };
    engine.abandon_reclaim();
    let due = engine.fingerprint(T0);
    finish(&mut engine);
    assert!(engine.wants_held_nodes().is_some());
    let asked = engine.fingerprint(T0);
    let mut told = engine.clone();
    told.hold_nodes([nobodys]);
    let held = told.fingerprint(T0);
    told.all_nodes_are_held();
    finish(&mut told);
    assert!(told.find_node("nobody's").is_some());
    // The names are the same as in the beginning, but no new reclaim is due.
    let over = told.fingerprint(T0);
    assert_eq!(BTreeSet::from([due, asked, held, over]).len(), 4);
}
