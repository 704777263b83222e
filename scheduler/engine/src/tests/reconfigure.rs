//! Tests that a changed configuration touches what it changes, and nothing else.

use std::sync::Arc;

use brasserie_common::Time;
use brasserie_common_config::{Config, LevelId, ResourceLimit};

use super::world::*;
use crate::{Engine, Placement};

const NOW: Time = Time::ZERO;

/// Two jobs on two hosts with three databases each, and one slot for each host.
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
    engine.queues.of(id).ready.iter().count()
}

#[test]
fn a_changed_priority_wakes_nobody() {
    let (mut engine, placed) = started(two_jobs());
    assert_eq!(names(&engine, &placed), ["a d1", "b d4"]);
    let waiting = engine.queues.lists().keys(|_| true);
    assert!(!waiting.is_empty());
    change(&mut engine, |config| config.jobs[0].priority = 9.0);
    assert_eq!(engine.queues.lists().keys(|_| true), waiting);
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
        config.jobs.push(new.into());
    });
    assert_eq!((ready(&engine, "a"), ready(&engine, "c")), (0, 6));
    assert_eq!(place_all(&mut engine, NOW).len(), 6);
    change(&mut engine, |config| {
        config.jobs.remove(0);
    });
    assert!(!engine.queues.lists().keys(|_| true).is_empty(), "b waits");
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
        engine.queues.lists().keys(|_| true).is_empty(),
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

/// Two jobs, and many more that are equal to them.
fn crowd() -> Engine {
    let names: Vec<String> = (0..20).map(|i| format!("j{i:02}")).collect();
    let jobs = names.iter().map(|name| job(name)).collect();
    let hosts: [(&str, &[&str]); 2] = [("h1", &["d1", "d2", "d3"]), ("h2", &["d4", "d5", "d6"])];
    let (mut engine, _) = engine(config(vec![resource("disk", HOST, 1, 1)], jobs), &hosts);
    place_all(&mut engine, NOW);
    engine
}

/// Returns an engine that has applied the same jobs in a configuration that shares nothing with the former one.
fn from_scratch(engine: &Engine) -> Engine {
    let mut again = engine.clone();
    let mut config = Config::clone(engine.config().unwrap());
    for job in &mut config.jobs {
        *job = brasserie_common_config::JobConfig::clone(job).into();
    }
    // A changed setting makes the engine visit every job.
    config.working_wait += std::time::Duration::from_millis(1);
    again.apply_config(NOW, Arc::new(config));
    if let Some(nodes) = again.nodes().cloned() {
        again.apply_nodes(NOW, nodes);
    }
    again
}

fn agrees_with_scratch(engine: &Engine) {
    let again = from_scratch(engine);
    assert_eq!(engine.tasks.configured(), again.tasks.configured());
    for id in engine.jobs() {
        let (one, other) = (engine.tasks.job(id), again.tasks.job(id));
        let name = engine.job_name(id);
        assert_eq!(engine.counts(id), again.counts(id), "{name}");
        let eligible = |engine: &Engine| engine.queues.of(id).eligible;
        assert_eq!(eligible(engine), eligible(&again), "{name}");
        assert_eq!(one.cyclic, other.cyclic, "{name}");
        assert_eq!(one.depends_on, other.depends_on, "{name}");
        assert_eq!(one.infeasible, other.infeasible, "{name}");
        let of = |engine: &Engine, demand: usize| {
            let demand = engine.pool.demand(demand).unwrap();
            (
                demand.needs.clone(),
                demand.fits.iter().count(),
                demand.feasible.iter().count(),
            )
        };
        assert_eq!(of(engine, one.demand), of(&again, other.demand), "{name}");
    }
    let place = |engine: &Engine, id: &brasserie_common::JobId| {
        engine
            .tasks
            .by_dependency()
            .iter()
            .position(|other| other == id)
    };
    for id in engine.jobs().filter(|id| !engine.tasks.job(*id).cyclic) {
        for on in &engine.tasks.job(id).depends_on {
            let (own, before) = (place(engine, &id), place(engine, on));
            assert!(before.is_none() || before < own, "{}", engine.job_name(id));
        }
    }
    assert_eq!(
        engine.tasks.by_dependency().len(),
        again.tasks.by_dependency().len()
    );
    assert_eq!(engine.problems(), again.problems());
    for resource in 0..engine.config().unwrap().resources.len() {
        let id = brasserie_common_config::ResourceId(resource as u16);
        assert_eq!(engine.needs.least(id), again.needs.least(id));
    }
}

#[test]
fn one_of_many_jobs_is_changed_as_if_all_were_looked_at() {
    let mut engine = crowd();
    type Step = fn(&mut Config);
    let steps: [Step; 17] = [
        |c| c.jobs[7].priority = 3.0,
        |c| c.jobs[7].resources[0] = 0,
        |c| c.jobs[7].resources[0] = 1,
        |c| c.jobs[7].enabled = false,
        |c| c.jobs[7].enabled = true,
        |c| c.jobs.insert(5, job("new").into()),
        |c| c.jobs[5].depends_on = vec!["j07".try_into().unwrap(), "later".try_into().unwrap()],
        |c| c.jobs.push(job("later").into()),
        |c| c.jobs[21].depends_on = vec!["new".try_into().unwrap()],
        |c| drop(c.jobs.remove(8)),
        |c| c.jobs.swap(0, 2),
        |c| c.jobs[2].run_only_after_all_nodes_are_done_for = vec![c.jobs[1].name.clone()],
        |c| c.jobs[3].depends_on = vec![c.jobs[2].name.clone()],
        // The jobs form a cycle of three, and then none.
        |c| c.jobs[1].run_only_after_all_nodes_are_done_for = vec![c.jobs[3].name.clone()],
        |c| c.jobs[1].run_only_after_all_nodes_are_done_for.clear(),
        |c| c.jobs[4].host_placement = Some("nowhere".to_owned()),
        |c| c.jobs.truncate(3),
    ];
    for step in steps {
        let before = Arc::clone(engine.config().unwrap());
        change(&mut engine, step);
        agrees_with_scratch(&engine);
        let mut back = engine.clone();
        back.apply_config(NOW, before);
        agrees_with_scratch(&back);
    }
}
