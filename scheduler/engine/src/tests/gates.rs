//! Tests of jobs that wait until other jobs are done as a whole.

use std::sync::Arc;

use brasserie_common::{Hold, StatusBits, Time};
use brasserie_common_config::{Config, JobConfig};

use super::world::*;
use crate::queues::gates::Gate;
use crate::{Engine, NodeTableBuilder, Reason, Restart, Row, Task, TaskState};

const T0: Time = Time::ZERO;
const HOSTS: &[(&str, &[&str])] = &[("h1", &["a", "b"]), ("h2", &["c"])];

fn after(name: &str, on: &[&str]) -> JobConfig {
    let mut job = job(name);
    job.run_only_after_all_nodes_are_done_for = on.iter().map(|on| job_name(on)).collect();
    job
}

/// Two jobs with tasks on databases: `last` waits for all of `first`.
fn two_jobs() -> Config {
    config(Vec::new(), vec![job("first"), after("last", &["first"])])
}

fn started(engine: &mut Engine) -> Vec<String> {
    let placed = place_all(engine, T0);
    names(engine, &placed)
}

fn done(engine: &mut Engine, name: &str, nodes: &[&str]) {
    for node in nodes {
        let task = task(engine, name, node);
        end(engine, T0, task, StatusBits::DONE);
    }
}

fn gate(engine: &Engine, name: &str) -> Gate {
    engine.queues.of(engine.find_job(name).unwrap()).gate
}

fn why(engine: &mut Engine, name: &str, node: &str) -> Vec<String> {
    let task = task(engine, name, node);
    let reasons = engine.explain(T0, task);
    reasons.iter().map(Reason::to_string).collect()
}

#[test]
fn nothing_starts_before_the_last_task_is_done() {
    let (mut engine, _) = engine(two_jobs(), HOSTS);
    assert_eq!(started(&mut engine), ["first a", "first b", "first c"]);
    done(&mut engine, "first", &["c", "a"]);
    assert_eq!(started(&mut engine), [""; 0]);
    assert_eq!(
        why(&mut engine, "last", "c"),
        [
            "it waits until all of job `first` is done; 1 of its tasks is not done, the first on `b`: running"
        ]
    );
    let b = task(&mut engine, "first", "b");
    end(&mut engine, T0, b, StatusBits::INCOMPLETE);
    assert_eq!(started(&mut engine), ["first b"]);
    done(&mut engine, "first", &["b"]);
    assert_eq!(started(&mut engine), ["last a", "last b", "last c"]);
}

#[test]
fn a_gate_moves_without_a_look_at_the_tasks_behind_it() {
    let (mut engine, _) = engine(two_jobs(), HOSTS);
    let last = engine.find_job("last").unwrap();
    place_all(&mut engine, T0);
    // The tasks behind the gate stay eligible and ready all the time.
    assert_eq!(engine.queues.of(last).eligible, 3);
    assert_eq!(gate(&engine, "last"), Gate::Closed);
    done(&mut engine, "first", &["a", "b"]);
    assert_eq!(gate(&engine, "last"), Gate::Closed);
    done(&mut engine, "first", &["c"]);
    assert_eq!(gate(&engine, "last"), Gate::Open);
    assert_eq!(engine.queues.of(last).eligible, 3);
    let first = task(&mut engine, "first", "a");
    engine.restate(T0, first, status(StatusBits::FAILED), None, Restart::AtOnce);
    assert_eq!(gate(&engine, "last"), Gate::Hopeless);
    assert_eq!(engine.queues.of(last).eligible, 3);
    assert_eq!(engine.counts(last).never, 3);
}

#[test]
fn only_nodes_that_the_job_runs_on_count() {
    let mut first = job("first");
    first.filters.insert(DB, blacklist(&["b"]));
    let config = config(Vec::new(), vec![first, after("last", &["first"])]);
    let mut builder = NodeTableBuilder::new("root", &config);
    for (host, enabled, dbs) in [("h1", true, ["a", "b"]), ("h2", false, ["c", "d"])] {
        let row = builder.add_child(Row::ROOT, host, enabled).unwrap();
        for db in dbs {
            builder.add_child(row, db, true).unwrap();
        }
    }
    let (mut engine, _) = engine(config, &[]);
    engine.apply_nodes(T0, Arc::new(builder.finish()));
    assert_eq!(started(&mut engine), ["first a"]);
    done(&mut engine, "first", &["a"]);
    assert_eq!(started(&mut engine), ["last a", "last b"]);
}

#[test]
fn jobs_at_other_levels_wait_and_are_waited_for() {
    let mut sum = after("sum", &["parts"]);
    sum.level_for_tasks = HOST;
    let config = config(
        Vec::new(),
        vec![job("parts"), sum, after("report", &["sum", "parts"])],
    );
    let (mut engine, _) = engine(config, HOSTS);
    started(&mut engine);
    done(&mut engine, "parts", &["a", "b", "c"]);
    assert_eq!(started(&mut engine), ["sum h1", "sum h2"]);
    assert_eq!(
        why(&mut engine, "report", "a"),
        [
            "it waits until all of job `sum` is done; 2 of its tasks are not done, the first on `h1`: running"
        ]
    );
    done(&mut engine, "sum", &["h2", "h1"]);
    assert_eq!(started(&mut engine).len(), 3);
}

#[test]
fn new_nodes_and_forgiven_tasks_close_the_gate_for_what_has_not_started() {
    let slots = vec![resource("slots", WORKER, 1, 3)];
    let config = config(slots, vec![job("first"), after("last", &["first"])]);
    let (mut engine, _) = engine(config.clone(), HOSTS);
    started(&mut engine);
    done(&mut engine, "first", &["a", "b", "c"]);
    assert_eq!(started(&mut engine).len(), 3);
    done(&mut engine, "last", &["a"]);
    let more: &[(&str, &[&str])] = &[("h1", &["a", "b"]), ("h2", &["c", "d"])];
    engine.apply_nodes(T0, Arc::new(nodes(&config, more)));
    // Tasks that have started go on.
    assert_eq!(engine.running_count(), 2);
    assert_eq!(started(&mut engine), ["first d"]);
    done(&mut engine, "first", &["d"]);
    assert_eq!(started(&mut engine), ["last d"]);
    done(&mut engine, "last", &["b"]);
    let again = task(&mut engine, "first", "a");
    engine.restate(
        T0,
        again,
        status(StatusBits::INCOMPLETE),
        None,
        Restart::AtOnce,
    );
    assert_eq!(gate(&engine, "last"), Gate::Closed);
    // Removed nodes do not count.
    let fewer: &[(&str, &[&str])] = &[("h2", &["c", "d"])];
    engine.apply_nodes(T0, Arc::new(nodes(&config, fewer)));
    assert_eq!(gate(&engine, "last"), Gate::Open);
}

#[test]
fn a_task_that_failed_for_good_leaves_no_hope_until_it_is_forgiven() {
    let mut config = two_jobs();
    let mut then = job("then");
    then.depends_on = vec![job_name("last")];
    config
        .jobs
        .extend([then, after("end", &["last"])].map(Into::into));
    let (mut engine, _) = engine(config, HOSTS);
    started(&mut engine);
    let b = task(&mut engine, "first", "b");
    end(&mut engine, T0, b, StatusBits::FAILED);
    assert_eq!(
        why(&mut engine, "last", "a"),
        [
            "it waits until all of job `first` is done, which cannot be: it has failed for good; 3 of its tasks are not done, the first on `b`: failed"
        ]
    );
    for job in ["last", "then", "end"] {
        let id = engine.find_job(job).unwrap();
        assert_eq!(engine.counts(id).never, 3, "{job}");
        assert!(engine.is_settled(id), "{job}");
    }
    done(&mut engine, "first", &["a", "c"]);
    assert_eq!(started(&mut engine), [""; 0]);
    engine.restate(T0, b, status(StatusBits::ERROR), None, Restart::AtOnce);
    for job in ["last", "then", "end"] {
        let id = engine.find_job(job).unwrap();
        assert_eq!((engine.counts(id).never, engine.is_settled(id)), (0, false));
    }
    assert_eq!(started(&mut engine), ["first b"]);
    done(&mut engine, "first", &["b"]);
    assert_eq!(started(&mut engine), ["last a", "last b", "last c"]);
}

#[test]
fn jobs_that_are_missing_disabled_or_wrong_never_satisfy() {
    let mut off = job("off");
    off.enabled = false;
    let mut bad = job("bad");
    bad.errors = vec!["x".to_owned()];
    let mut held = job("held");
    held.hold = Some(Hold::Paused);
    let names = ["nobody", "off", "bad", "held"];
    let waiting = names.map(|on| after(&format!("after-{on}"), &[on]));
    let mut config = config(Vec::new(), vec![off, bad, held]);
    config.jobs.extend(waiting.map(Into::into));
    let (mut engine, _) = engine(config.clone(), &[("h1", &["a"])]);
    let expected = |on: &str, why: &str| {
        format!("it waits until all of job `{on}` is done, which cannot be: {why}")
    };
    let left = "; 1 of its tasks is not done, the first on `a`: waiting";
    for (on, text) in [
        ("nobody", "no such job is configured".to_owned()),
        ("off", format!("that job is disabled{left}")),
        ("bad", format!("that job has errors{left}")),
        (
            "held",
            format!(
                "that job is paused (`brasserie job resume held` lets its tasks start again){left}"
            ),
        ),
    ] {
        let job = format!("after-{on}");
        assert_eq!(why(&mut engine, &job, "a"), [expected(on, &text)]);
    }
    let problems = engine.problems();
    assert_eq!(problems.len(), 3, "{problems:?}");
    // Done tasks of these jobs do not count, except those of a paused job.
    for on in names {
        let task = task(&mut engine, on, "a");
        engine.restate(T0, task, status(StatusBits::DONE), None, Restart::AtOnce);
    }
    assert_eq!(started(&mut engine), ["after-held a"]);
    // The done tasks count once the jobs exist, are enabled and have no errors.
    config.jobs.push(job("nobody").into());
    for job in &mut config.jobs {
        job.enabled = true;
        job.errors.clear();
    }
    engine.apply_config(T0, Arc::new(config.clone()));
    assert_eq!(
        started(&mut engine),
        ["after-nobody a", "after-off a", "after-bad a"]
    );
    config
        .jobs
        .retain(|job| !names.contains(&job.name.as_str()));
    engine.apply_config(T0, Arc::new(config));
    for on in names {
        assert_eq!(gate(&engine, &format!("after-{on}")), Gate::Hopeless);
    }
}

#[test]
fn circles_over_both_ways_to_wait_are_told() {
    let mut b = job("b");
    b.depends_on = vec![job_name("a")];
    let config = config(Vec::new(), vec![after("a", &["b"]), b]);
    let (mut engine, _) = engine(config, HOSTS);
    assert_eq!(started(&mut engine), [""; 0]);
    assert_eq!(engine.problems().len(), 2);
    assert_eq!(
        why(&mut engine, "a", "c"),
        [
            "it waits until all of job `b` is done, which cannot be: the jobs wait for each other in a circle; 3 of its tasks are not done, the first on `a`: can never run"
        ]
    );
    let state = |engine: &mut Engine, job| {
        let task: Task = task(engine, job, "c");
        engine.task_state(task)
    };
    assert_eq!(state(&mut engine, "a"), TaskState::Never);
    assert_eq!(state(&mut engine, "b"), TaskState::Never);
}

#[test]
fn a_place_where_a_gated_job_waits_serves_the_others() {
    let slots = vec![resource("disk", HOST, 1, 1)];
    let jobs = vec![
        job("first"),
        after("gated", &["first"]),
        job("third"),
        job("fourth"),
    ];
    let config = config(slots, jobs);
    let (mut engine, _) = engine(config, &[("h1", &["a"])]);
    assert_eq!(started(&mut engine), ["first a"]);
    done(&mut engine, "first", &["a"]);
    assert_eq!(started(&mut engine), ["gated a"]);
    // `gated` waits at the host again, and its gate closes.
    let gated = task(&mut engine, "gated", "a");
    end(&mut engine, T0, gated, StatusBits::INCOMPLETE);
    assert_eq!(started(&mut engine), ["third a"]);
    let first = task(&mut engine, "first", "a");
    engine.restate(
        T0,
        first,
        status(StatusBits::INCOMPLETE),
        None,
        Restart::AtOnce,
    );
    done(&mut engine, "third", &["a"]);
    assert_eq!(started(&mut engine), ["fourth a"]);
    done(&mut engine, "fourth", &["a"]);
    assert_eq!(started(&mut engine), ["first a"]);
    done(&mut engine, "first", &["a"]);
    assert_eq!(started(&mut engine), ["gated a"]);
}
