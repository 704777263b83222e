//! A changed configuration touches what it changes, and nothing else.

use std::sync::Arc;

use brasserie_common::Time;
use brasserie_common_config::{Config, LevelId, ResourceLimit};

use super::world::*;
use crate::{Engine, Placement};

const NOW: Time = Time::ZERO;

/// Two jobs on two hosts with three databases each, one slot a host.
fn two_jobs() -> Config {
    config(vec![resource("disk", HOST, 1, 1)], vec![job("a"), job("b")])
}

fn started(config: Config) -> (Engine, Vec<Placement>) {
    let hosts: [(&str, &[&str]); 2] = [("h1", &["d1", "d2", "d3"]), ("h2", &["d4", "d5", "d6"])];
    let (mut engine, _) = engine(config, &hosts);
    let placed = place_all(&mut engine, NOW);
    (engine, placed)
}

fn change(engine: &mut Engine, change: impl FnOnce(&mut Config)) {
    let mut config = Config::clone(engine.config().unwrap());
    change(&mut config);
    engine.apply_config(NOW, Arc::new(config));
}

fn ready(engine: &Engine, name: &str) -> usize {
    let id = engine.find_job(name).unwrap();
    engine.jobs[id.index()].ready.iter().count()
}

#[test]
fn a_changed_priority_wakes_nobody() {
    let (mut engine, placed) = started(two_jobs());
    assert_eq!(names(&engine, &placed), ["a d1", "b d4"]);
    let waiting = engine.lists.keys(|_| true);
    assert!(!waiting.is_empty());
    change(&mut engine, |config| config.jobs[0].priority = 9.0);
    assert_eq!(engine.lists.keys(|_| true), waiting);
    assert_eq!((ready(&engine, "a"), ready(&engine, "b")), (0, 0));
    assert_eq!(engine.place(NOW), None);
}

#[test]
fn a_job_that_needs_less_has_another_look_alone() {
    let (mut engine, _) = started(two_jobs());
    change(&mut engine, |config| config.jobs[1].resources[0] = 0);
    assert_eq!((ready(&engine, "a"), ready(&engine, "b")), (0, 5));
    let placed = place_all(&mut engine, NOW);
    assert_eq!(
        names(&engine, &placed),
        ["b d1", "b d2", "b d3", "b d5", "b d6"]
    );
}

#[test]
fn a_raised_limit_is_used_at_once_and_a_lowered_one_kept() {
    let (mut engine, placed) = started(two_jobs());
    let set =
        |limit| move |config: &mut Config| config.resources[0].limit = ResourceLimit::Fixed(limit);
    change(&mut engine, set(2));
    let more = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &more), ["a d2", "b d5"]);
    change(&mut engine, set(1));
    end(
        &mut engine,
        NOW,
        placed[0].task,
        brasserie_common::StatusBits::DONE,
    );
    assert_eq!(place_all(&mut engine, NOW), []);
}

#[test]
fn a_new_job_starts_beside_those_that_wait() {
    let (mut engine, _) = started(two_jobs());
    change(&mut engine, |config| {
        let mut new = job("c");
        new.resources = vec![0];
        config.jobs.push(new);
    });
    assert_eq!((ready(&engine, "a"), ready(&engine, "c")), (0, 6));
    assert_eq!(place_all(&mut engine, NOW).len(), 6);
    change(&mut engine, |config| {
        config.jobs.remove(0);
    });
    assert!(!engine.lists.keys(|_| true).is_empty(), "b waits");
    let c = engine.find_job("c").unwrap();
    assert_eq!(engine.counts(c).running, 6);
}

#[test]
fn a_full_root_takes_jobs_off_the_policy_and_a_free_one_gives_them_back() {
    let mut config = two_jobs();
    config.resources = vec![resource("root", LevelId::INSTANCE, 1, 1)];
    let (mut engine, placed) = started(config);
    assert_eq!(names(&engine, &placed), ["a d1"]);
    assert!(
        engine.lists.keys(|_| true).is_empty(),
        "nobody is listed for the root"
    );
    assert_eq!((ready(&engine, "a"), ready(&engine, "b")), (5, 6));
    end(
        &mut engine,
        NOW,
        placed[0].task,
        brasserie_common::StatusBits::DONE,
    );
    let next = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &next), ["b d1"]);
    change(&mut engine, |config| {
        config.resources[0].limit = ResourceLimit::Fixed(3)
    });
    let next = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &next), ["a d2", "b d2"]);
}
