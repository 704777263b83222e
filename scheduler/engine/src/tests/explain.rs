//! Tests that each reason appears when it holds, with its numbers.

use std::sync::Arc;

use brasserie_common::{Hold, StatusBits, Time};
use brasserie_common_config::JobConfig;

use super::world::*;
use crate::{Eligibility, Engine, HoldBack, NodeTableBuilder, Restart, Row};

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
            "it may start again in 1m, after its backoff (last status: error)",
            "its last status is not yet stored durably"
        ]
    );
    end(&mut engine, T0, a, StatusBits::FAILED);
    assert_eq!(
        explain(&mut engine, T0, "j", "a"),
        ["it has failed for good (failed); `brasserie job forgive j` lets it run again"]
    );
    end(&mut engine, T0, a, StatusBits::DONE);
    assert_eq!(explain(&mut engine, T0, "j", "a"), ["it is done"]);
    // Reasons that prevent a start do not apply to a task that is done.
    engine.hold_back_unknown(HoldBack::All, seconds(5));
    let w1 = engine.find_worker("w1").unwrap();
    engine.set_eligibility(w1, Eligibility::Ineligible);
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
    let w1 = engine.find_worker("w1").unwrap();
    engine.set_eligibility(w1, Eligibility::Ineligible);
    assert_eq!(
        explain(&mut engine, T0, "j", "b"),
        [
            "node `h` has 0 of 2 `disk` free, 2 needed",
            "no worker can take it now: 1 not healthy or busy",
        ],
        "a free slot would not help"
    );
    engine.set_eligibility(w1, Eligibility::Eligible);
    let never = "it can never run: it needs 3 of `disk`, and nodes of level `host` have 2";
    assert_eq!(
        explain(&mut engine, T0, "greedy", "b"),
        [never],
        "no slots that become free change that"
    );
}

/// Obstacles of other tasks, even permanent ones, are no reasons of a task that runs.
#[test]
fn of_a_running_task_only_where_it_runs_is_told() {
    let resources = vec![resource("slots", WORKER, 1, 1)];
    let hosts: [(&str, &[&str]); 1] = [("h", &["a", "b"])];
    let (mut engine, w1) = engine(config(resources, vec![job("j")]), &hosts);
    let placed = place_all(&mut engine, T0);
    assert_eq!(placed.len(), 1, "there is room for one");
    let first = task(&mut engine, "j", "a");
    let running = match placed[0].task == first {
        true => "a",
        false => "b",
    };
    let only = ["it is running on `w1`"];
    assert_eq!(explain(&mut engine, T0, "j", running), only);
    engine.set_eligibility(w1, Eligibility::Ineligible);
    assert_eq!(explain(&mut engine, T0, "j", running), only);
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
    engine.set_eligibility(w1, Eligibility::Draining);
    let draining = explain(&mut engine, T0, "j", "a")[0].clone();
    assert_eq!(draining, "no worker can take it now: 1 draining");
    engine.set_eligibility(w1, Eligibility::Ineligible);
    assert_eq!(explain(&mut engine, T0, "wide", "a").len(), 1);
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
fn a_worker_that_runs_as_many_tasks_as_it_can() {
    let config = config(vec![resource("slots", WORKER, 0, 9)], vec![job("j")]);
    let (mut engine, w1) = engine(config, &[("h", &["a", "b", "c"])]);
    let mut small = on_host("m1");
    small.room = Some(room(2));
    assert_eq!(engine.upsert_worker(&shard("w1"), small), w1);
    assert!(engine.place(T0).is_some() && engine.place(T0).is_some());
    // The task needs no slots, and yet the worker has no room.
    assert_eq!(engine.place(T0), None);
    let waiting = ["a", "b", "c"].map(|node| explain(&mut engine, T0, "j", node));
    let waiting = waiting
        .iter()
        .flatten()
        .find(|text| !text.contains("running"));
    assert_eq!(
        waiting.map(String::as_str),
        Some(
            "no worker can take it now: 1 with as many tasks as they can run (worker `w1` runs 2 at most, by open files: 300, 6 a task)"
        )
    );
    // The worker reports that it can run more tasks.
    let mut larger = on_host("m1");
    larger.room = Some(room(3));
    engine.upsert_worker(&shard("w1"), larger);
    assert!(engine.place(T0).is_some());
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

#[test]
fn a_held_job_says_to_those_after_it_what_lets_its_tasks_run() {
    for (hold, why) in [
        (
            Hold::Paused,
            "paused (`brasserie job resume first` lets its tasks start again)",
        ),
        (
            Hold::Cancelled,
            "cancelled (`brasserie job resume first` lets its tasks run again)",
        ),
    ] {
        let mut first = job("first");
        first.hold = Some(hold);
        let mut after = job("after");
        after.depends_on = vec![job_name("first")];
        let (mut engine, _) = engine(config(Vec::new(), vec![first, after]), &[("h", &["a"])]);
        assert_eq!(
            explain(&mut engine, T0, "after", "a"),
            [format!(
                "it depends on job `first` on `a`, which cannot get done: that job is {why}"
            )]
        );
    }
}

#[test]
fn what_can_never_start_is_known_before_the_job_is_configured() {
    let resources = vec![
        resource("disk", HOST, 1, 2),
        resource("slots", WORKER, 1, 3),
    ];
    let all = config(resources, vec![job("good")]);
    let (mut engine, worker) = engine(all, &[("m1", &["a"]), ("h2", &["b"])]);
    let why = |engine: &Engine, change: &dyn Fn(&mut JobConfig)| -> Vec<String> {
        let mut new = job("new");
        new.resources = vec![1, 1];
        change(&mut new);
        let reasons = engine.infeasible(&new);
        reasons.iter().map(ToString::to_string).collect()
    };
    assert_eq!(why(&engine, &|_| {}), [""; 0]);
    assert_eq!(
        why(&engine, &|job| job.resources = vec![3, 4]),
        [
            "it can never run: it needs 3 of `disk`, and nodes of level `host` have 2",
            "it can never run on the connected workers: it needs 4 of `slots`, and `w1` has 3",
        ]
    );
    assert_eq!(
        why(&engine, &|job| job.host_placement = Some("h9".to_owned())),
        ["it can never run on the connected workers: none is on host `h9`"]
    );
    // The only worker is on `m1`. A node of the host level has that name, but no database has it.
    assert_eq!(
        why(&engine, &|job| job.level_for_host_placement = Some(HOST)),
        [""; 0]
    );
    assert_eq!(
        why(&engine, &|job| job.level_for_host_placement = Some(DB)),
        [
            "it can never run on the connected workers: none that could is on a host that a node of level `db` names"
        ]
    );
    let avoid_all = |job: &mut JobConfig| {
        job.filters.insert(DB, blacklist(&["a", "b"]));
    };
    assert_eq!(
        why(&engine, &avoid_all),
        ["it has no task: of the 2 nodes at level `db`, none is enabled and passes its filters"]
    );
    let mut without = on_host("m1");
    without.has_worker_command = false;
    engine.upsert_worker(&shard("w1"), without);
    assert_eq!(
        why(&engine, &|job| job.command.clear()),
        [
            "it can never run: the job has no `command`, and no worker was started with --worker-command"
        ]
    );
    // An empty pool proves only limits that every worker has.
    engine.remove_worker(worker);
    assert_eq!(
        why(&engine, &|job| job.host_placement = Some("h9".to_owned())),
        [""; 0]
    );
    assert_eq!(
        why(&engine, &|job| job.resources = vec![0, 4]),
        [
            "it can never run on the connected workers: it needs more than the configured limit of a worker resource"
        ]
    );
}

#[test]
fn jobs_that_can_never_start_are_problems_if_they_could_run_otherwise() {
    let resources = vec![
        resource("disk", HOST, 1, 2),
        resource("slots", WORKER, 1, 3),
    ];
    let mut big = job("big");
    big.resources = vec![3, 1];
    let mut off = job("off");
    off.resources = vec![3, 1];
    off.enabled = false;
    let (engine, _) = engine(config(resources, vec![big, off]), &[("h", &["a"])]);
    assert_eq!(
        engine.problems(),
        ["job `big`: it can never run: it needs 3 of `disk`, and nodes of level `host` have 2"]
    );
}

#[test]
fn what_can_never_be_done_says_why_and_nothing_about_workers() {
    let mut hosts = job("hosts");
    hosts.level_for_tasks = HOST;
    let mut after_hosts = job("after_hosts");
    after_hosts.depends_on = vec![job_name("hosts")];
    let mut after_first = job("after_first");
    after_first.depends_on = vec![job_name("first")];
    let all = vec![hosts, job("first"), after_hosts, after_first];
    let config = config(Vec::new(), all);
    let mut builder = NodeTableBuilder::new("root", &config);
    let host = builder.add_child(Row::ROOT, "h", true).unwrap();
    builder.add_child(host, "a", true).unwrap();
    builder.add_child(host, "off", false).unwrap();
    let mut engine = Engine::new(1);
    engine.apply_config(Time::ZERO, Arc::new(config));
    engine.apply_nodes(Time::ZERO, Arc::new(builder.finish()));
    let first = task(&mut engine, "first", "a");
    let waits = "it waits for job `first` on `a`, which is waiting";
    assert_eq!(
        explain(&mut engine, T0, "after_first", "a"),
        [waits, "no worker is connected"]
    );
    end(&mut engine, T0, first, StatusBits::FAILED);
    for (job, node, reasons) in [
        (
            "after_first",
            "a",
            vec![
                "it depends on job `first` on `a`, which cannot get done: it has failed for good there",
            ],
        ),
        (
            "after_hosts",
            "a",
            vec![
                "it depends on job `hosts` on `a`, which cannot get done: that node is not at that job's level",
            ],
        ),
        (
            "after_first",
            "off",
            vec![
                "it depends on job `first` on `off`, which cannot get done: that node or one above it is disabled",
                "node `off` is disabled",
            ],
        ),
        ("first", "off", vec!["node `off` is disabled"]),
    ] {
        assert_eq!(explain(&mut engine, T0, job, node), reasons, "{job} {node}");
    }
}
