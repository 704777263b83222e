//! Each reason appears when it holds, with its numbers.

use brasserie_common::{StatusBits, Time};

use super::world::*;
use crate::{Eligibility, Engine, Restart};

const T0: Time = Time::ZERO;

fn explain(engine: &mut Engine, now: Time, job: &str, node: &str) -> Vec<String> {
    let task = task(engine, job, node);
    engine
        .explain(now, task)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn without_anything() {
    let mut engine = Engine::new(0);
    assert_eq!(
        explain(&mut engine, T0, "j", "a"),
        [
            "there is no valid configuration yet",
            "the nodes have not been loaded yet"
        ]
    );
}

#[test]
fn runnable_running_done_failed_and_backoff() {
    let (mut engine, _) = engine(config(Vec::new(), vec![job("j")]), &[("h", &["a"])]);
    assert_eq!(
        explain(&mut engine, T0, "j", "a"),
        ["nothing is in the way; it is about to start"]
    );
    let a = place_all(&mut engine, T0)[0].task;
    assert_eq!(
        explain(&mut engine, T0, "j", "a"),
        ["it is running on `w1`"]
    );
    let bits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
    engine.end(
        T0,
        a,
        status(bits),
        Some(seconds(90)),
        Restart::HeldUntilReleased,
    );
    assert_eq!(
        explain(&mut engine, seconds(30), "j", "a"),
        [
            "it may start again in 1m (last status: error)",
            "its last status is not yet stored durably"
        ]
    );
    end(&mut engine, T0, a, StatusBits::FAILED);
    assert_eq!(
        explain(&mut engine, T0, "j", "a"),
        ["it has failed for good (failed)"]
    );
    end(&mut engine, T0, a, StatusBits::DONE);
    assert_eq!(explain(&mut engine, T0, "j", "a"), ["it is done"]);
}

#[test]
fn slots_on_nodes_and_workers() {
    let mut greedy = job("greedy");
    greedy.resources = vec![3, 1];
    let resources = vec![
        resource("disk", HOST, 2, 2),
        resource("slots", WORKER, 2, 3),
    ];
    let (mut engine, _) = engine(
        config(resources, vec![job("j"), greedy]),
        &[("h", &["a", "b"])],
    );
    place_all(&mut engine, T0);
    assert_eq!(
        explain(&mut engine, T0, "j", "b"),
        [
            "node `h` has 0 of 2 `disk` free, 2 needed",
            "no worker can take it now: 1 without room (worker `w1` has 1 of 3 `slots` free, 2 needed)",
        ]
    );
    assert_eq!(
        explain(&mut engine, T0, "greedy", "b")[0],
        "it can never run: it needs 3 of `disk`, and nodes of level `host` have 2"
    );
}

#[test]
fn workers_that_cannot() {
    let mut bare = job("bare");
    bare.command.clear();
    let mut wide = job("wide");
    wide.resources = vec![5];
    let mut placed = job("placed");
    placed.host_placement = Some("m9".to_owned());
    let mut by_level = job("by_level");
    by_level.level_for_host_placement = Some(HOST);
    let config = config(
        vec![resource("slots", WORKER, 1, 4)],
        vec![job("j"), bare, wide, placed, by_level],
    );
    let (mut engine, w1) = engine(config, &[("h", &["a"])]);
    let mut commandless = on_host("m1");
    commandless.has_worker_command = false;
    engine.upsert_worker(&shard("w1"), commandless);
    engine.set_eligibility(w1, Eligibility::Ineligible);
    let mut first = |job| explain(&mut engine, T0, job, "a")[0].clone();
    assert_eq!(
        first("j"),
        "no worker can take it now: 1 not healthy or busy"
    );
    assert_eq!(
        first("bare"),
        "it can never run: the job has no `command`, and no worker was started with --worker-command"
    );
    assert_eq!(
        first("wide"),
        "it can never run on the connected workers: it needs 5 of `slots`, and `w1` has 4"
    );
    assert_eq!(
        first("placed"),
        "it can never run on the connected workers: none is on host `m9`"
    );
    assert_eq!(
        first("by_level"),
        "no worker can take it now on its host `h`: 1 unsuitable"
    );
    engine.remove_worker(w1);
    assert_eq!(
        explain(&mut engine, T0, "j", "a"),
        ["no worker is connected"]
    );
}

#[test]
fn forest_and_configuration() {
    let mut off = job("off");
    off.enabled = false;
    let mut broken = job("broken");
    broken.errors = vec!["line 3: what".to_owned()];
    let mut picky = job("picky");
    picky.filters.insert(HOST, blacklist(&["h"]));
    let mut config = config(Vec::new(), vec![job("j"), off, broken, picky]);
    config.enabled = false;
    let (mut engine, _) = engine(config, &[("h", &["a"])]);
    let disabled = "the configuration starts nothing: `enabled` is false";
    let mut second = |job, node| {
        let all = explain(&mut engine, T0, job, node);
        assert_eq!(all[0], disabled);
        all[1].clone()
    };
    assert_eq!(second("off", "a"), "the job is disabled");
    assert_eq!(
        second("broken", "a"),
        "the job's configuration has errors: line 3: what"
    );
    assert_eq!(
        second("picky", "a"),
        "the job's filter for level `host` does not pass `h`"
    );
    assert_eq!(
        second("j", "h"),
        "there is no node `h` at the job's level `db`"
    );
    assert_eq!(second("nobody", "a"), "no such job is configured");
}

#[test]
fn dependencies() {
    let mut after = job("after");
    after.depends_on = vec![job_name("first"), job_name("nobody")];
    let (mut engine, _) = engine(
        config(Vec::new(), vec![job("first"), after]),
        &[("h", &["a"])],
    );
    let first = place_all(&mut engine, T0)[0].task;
    assert_eq!(
        explain(&mut engine, T0, "after", "a"),
        [
            "it waits for job `first` on `a`, which is running",
            "it depends on job `nobody` on `a`, which cannot get done: no such job is configured",
        ]
    );
    end(&mut engine, T0, first, StatusBits::FAILED);
    assert_eq!(
        explain(&mut engine, T0, "after", "a")[0],
        "it depends on job `first` on `a`, which cannot get done: it has failed for good there"
    );
}
