//! Tests of each key of a config file that affects placement: files that differ in one key alone make the engine act differently.

use std::sync::Arc;

use brasserie_common::status::StoredStatus;
use brasserie_common::{ReportedStatus, StatusBits, Time, WallTime};
use brasserie_common_config::{Config, NodeSource, ParseOptions, parse};
use serde_json::{Value, json};

use super::world::*;
use crate::{Eligibility, Engine, NodeTableBuilder, Task, TaskState};

const T0: Time = Time::ZERO;

/// Reads a file with these settings and jobs, and with the hosts `h1` (databases `a` and `b`) and `h2` (`c`).
fn read(settings: &Value, jobs: &Value) -> Config {
    let mut all = json!({"nodes": {
        "levels": ["host", "db"],
        "node_order": "original",
        "node_sources": [{"source": "manual", "prefs": {"h1": ["a", "b"], "h2": ["c"]}}],
    }});
    for (key, value) in settings.as_object().unwrap() {
        all[key] = value.clone();
    }
    let mut file = json!({"bistro_settings": all});
    for (name, job) in jobs.as_object().unwrap() {
        let mut job = job.clone();
        if job.get("command").is_none() {
            job["command"] = json!(["true"]);
        }
        file[format!("bistro_job->{name}")] = job;
    }
    let parsed = parse(&file.to_string(), ParseOptions::default()).unwrap();
    parsed.into_correct().unwrap().0
}

/// Creates an engine with such a file and two workers of four cores: `w1` on `m1` and `w2` on `h1`.
fn engine_of(settings: &Value, jobs: &Value) -> Engine {
    let config = read(settings, jobs);
    let mut builder = NodeTableBuilder::new("top", &config);
    for source in &config.node_sources {
        match source {
            NodeSource::Manual(nodes) => builder.add_manual(nodes).unwrap(),
            NodeSource::RangeLabel(range) => builder.add_range_label(range).unwrap(),
            other => panic!("{other:?} needs more than the engine"),
        }
    }
    let mut engine = Engine::new(1);
    engine.apply_config(T0, Arc::new(config));
    engine.apply_nodes(T0, Arc::new(builder.finish()));
    for (name, host) in [("w1", "m1"), ("w2", "h1")] {
        let worker = engine.upsert_worker(&shard(name), on_host(host));
        engine.set_eligibility(worker, Eligibility::Eligible);
    }
    engine
}

/// Returns the tasks that start before any completes: `job node worker`, in order.
fn starts(settings: Value, jobs: Value) -> Vec<String> {
    let mut engine = engine_of(&settings, &jobs);
    let w1 = engine.find_worker("w1").unwrap();
    let placed = place_all(&mut engine, T0);
    let names = names(&engine, &placed);
    let on = placed
        .iter()
        .map(|p| if p.worker == w1 { "w1" } else { "w2" });
    let both = names.into_iter().zip(on);
    both.map(|(name, on)| format!("{name} {on}")).collect()
}

/// Returns the nodes on which job `x` runs.
fn nodes_of(settings: Value, job: Value) -> Vec<String> {
    let starts = starts(settings, json!({"x": job}));
    let node = |start: &String| start.split(' ').nth(1).unwrap().to_owned();
    starts.iter().map(node).collect()
}

/// Returns the jobs in the order in which their tasks start, one after the other.
fn order(settings: Value, jobs: Value) -> Vec<String> {
    let mut settings = settings;
    settings["resources"] = json!({"instance": {"one": {"default": 1, "limit": 1}}});
    let mut engine = engine_of(&settings, &jobs);
    let mut order = Vec::new();
    while let Some(placed) = engine.place(T0) {
        order.push(engine.job_name(placed.task.job).to_string());
        end(&mut engine, T0, placed.task, StatusBits::DONE);
    }
    order
}

const NONE: [&str; 0] = [];

#[test]
fn without_any_key_all_nodes_of_the_last_level_run() {
    assert_eq!(
        starts(json!({}), json!({"x": {}})),
        ["x a w1", "x b w2", "x c w1"]
    );
}

#[test]
fn enabled() {
    assert_eq!(starts(json!({"enabled": false}), json!({"x": {}})), NONE);
    assert_eq!(nodes_of(json!({}), json!({"enabled": false})), NONE);
}

#[test]
fn level_for_tasks() {
    let hosts = ["h1", "h2"];
    assert_eq!(
        nodes_of(json!({"level_for_tasks": "host"}), json!({})),
        hosts
    );
    assert_eq!(
        nodes_of(json!({}), json!({"level_for_tasks": "host"})),
        hosts
    );
}

#[test]
fn scheduler_and_priority() {
    let jobs = json!({"low": {"filters": {"db": {"whitelist": ["a"]}}}, "top": {"priority": 2}});
    let under = |policy: &str| order(json!({"scheduler": policy}), jobs.clone());
    assert_eq!(under("roundrobin"), ["low", "top", "top", "top"]);
    assert_eq!(under("ranked_priority"), ["top", "top", "top", "low"]);
    assert_eq!(under("long_tail"), ["low", "top", "top", "top"]);
    let even = json!({"a": {}, "b": {"filters": {"db": {"whitelist": ["a"]}}}});
    let under = |policy: &str| order(json!({"scheduler": policy}), even.clone());
    assert_eq!(under("roundrobin")[..2], ["a", "b"]);
    assert_eq!(under("long_tail")[0], "b");
    // A job of priority 0 is never drawn.
    let jobs = json!({"none": {"priority": 0}, "all": {}});
    let drawn = order(json!({"scheduler": "randomized_priority"}), jobs);
    assert_eq!(drawn[..3], ["all", "all", "all"]);
}

#[test]
fn remote_worker_selector_and_weight() {
    let workers = |selector: &str, a: i32, b: i32| {
        let starts = starts(
            json!({
                "remote_worker_selector": selector,
                "resources": {"worker": {
                    "ra": {"default": 1, "limit": 9, "weight": a},
                    "rb": {"default": 1, "limit": 9, "weight": b},
                }},
                "worker_resources_override": {"w1": {"ra": 4}, "w2": {"rb": 4}},
            }),
            json!({"x": {}}),
        );
        let worker = |start: &String| start.rsplit(' ').next().unwrap().to_owned();
        starts.iter().map(worker).collect::<Vec<_>>()
    };
    assert_eq!(workers("roundrobin", 1, 0), ["w1", "w2", "w1"]);
    assert_eq!(workers("busiest", 1, 0), ["w1", "w1", "w1"]);
    assert_eq!(workers("busiest", 0, 1), ["w2", "w2", "w2"]);
}

#[test]
fn backoff() {
    let first = |settings: Value, job: Value| {
        let mut engine = engine_of(&settings, &json!({"x": job}));
        let task = task(&mut engine, "x", "a");
        engine.next_backoff(task).seconds
    };
    assert_eq!(first(json!({}), json!({})), 15);
    assert_eq!(first(json!({"backoff": [3, "repeat"]}), json!({})), 3);
    let both = first(json!({"backoff": [3, "repeat"]}), json!({"backoff": [4]}));
    assert_eq!(both, 4);
}

/// The task fails for good after three runs that are 10 s apart.
#[test]
fn retries() {
    let job = json!({"retries": 2, "retry_delay": "10s"});
    let mut engine = engine_of(&json!({}), &json!({"x": job}));
    let task = task(&mut engine, "x", "a");
    let mut steps = Vec::new();
    for _ in 0..3 {
        let next = engine.next_backoff(task);
        steps.push((next.seconds, next.no_more_backoffs));
        let error = ReportedStatus::error_backoff("");
        let before = engine.previous_status(task);
        let status = StoredStatus::after(before.as_ref(), &error, next, WallTime::from_secs(0));
        engine.load_status(T0, task, status, None);
    }
    assert_eq!(steps, [(10, false), (10, false), (60, true)]);
    assert_eq!(engine.task_state(task), TaskState::Failed);
}

#[test]
fn max_running() {
    let two = json!({"max_running": 2});
    assert_eq!(nodes_of(json!({}), two.clone()).len(), 2);
    let mut engine = engine_of(&json!({}), &json!({"x": two, "y": {}}));
    let placed = place_all(&mut engine, T0);
    let mut started: Vec<String> = names(&engine, &placed);
    started.sort();
    assert_eq!(started.len(), 5, "two of x, and all of y");
    let of_x = engine.find_job("x").unwrap();
    let running: Vec<Task> = placed
        .iter()
        .map(|p| p.task)
        .filter(|t| t.job == of_x)
        .collect();
    let waiting = ["a", "b", "c"].map(|node| task(&mut engine, "x", node));
    let waiting = waiting
        .into_iter()
        .find(|task| !running.contains(task))
        .unwrap();
    let reasons: Vec<String> = engine
        .explain(T0, waiting)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        reasons,
        ["2 tasks of the job are running, and its `max_running` is 2"]
    );
    end(&mut engine, T0, running[0], StatusBits::DONE);
    let placed = place_all(&mut engine, T0);
    assert_eq!(placed.iter().map(|p| p.task).collect::<Vec<_>>(), [waiting]);
    // A raised limit takes effect immediately.
    end(&mut engine, T0, running[1], StatusBits::INCOMPLETE);
    end(&mut engine, T0, waiting, StatusBits::INCOMPLETE);
    let one = read(&json!({}), &json!({"x": {"max_running": 1}}));
    engine.apply_config(T0, Arc::new(one));
    assert_eq!(place_all(&mut engine, T0).len(), 1);
    let unlimited = read(&json!({}), &json!({"x": {}}));
    engine.apply_config(T0, Arc::new(unlimited));
    assert_eq!(place_all(&mut engine, T0).len(), 1);
}

#[test]
fn nodes() {
    let of = |nodes: Value| nodes_of(json!({"nodes": nodes}), json!({}));
    let manual = |prefs: Value| {
        of(json!({
            "levels": ["host", "db"],
            "node_order": "original",
            "node_sources": [{"source": "manual", "prefs": prefs}],
        }))
    };
    assert_eq!(manual(json!({"h": {"children": ["z", "y"]}})), ["z", "y"]);
    assert_eq!(
        manual(json!({"h": {"children": ["z", "y"], "disabled": true}})),
        NONE
    );
    assert_eq!(
        manual(json!({"h": ["z", "y"], "y": {"disabled": true}})),
        ["z"]
    );
    let flat = json!({"levels": ["host"], "node_source": "manual", "node_source_prefs": {"h": []}});
    assert_eq!(of(flat), ["h"]);
}

#[test]
fn names_of_nodes() {
    let of = |naming: &str| {
        let source =
            |prefs: Value, name: &str| json!({"source": name, "names": naming, "prefs": prefs});
        nodes_of(
            json!({"nodes": {
                "levels": ["host", "db"],
                "node_order": "original",
                "node_sources": [
                    source(json!({"h": ["a"], "i": ["a"]}), "manual"),
                    source(json!({"parent_level": "host", "start": 1, "end": 1, "format": "r{i}"}), "range_label"),
                ],
            }}),
            json!({}),
        )
    };
    assert_eq!(of("path"), ["h/a", "i/a", "h/r1", "i/r1"]);
    assert_eq!(of("shared"), ["a", "r1"]);
}

#[test]
fn node_order() {
    let nodes = |order: &str| {
        json!({
            "levels": ["host", "db"],
            "node_order": order,
            "node_source": "manual",
            "node_source_prefs": {"h": ["z", "y"]},
        })
    };
    assert_eq!(
        nodes_of(json!({"nodes": nodes("original")}), json!({})),
        ["z", "y"]
    );
    assert_eq!(
        nodes_of(json!({"nodes": nodes("lexicographic")}), json!({})),
        ["y", "z"]
    );
    let mut outside = nodes("original");
    outside.as_object_mut().unwrap().remove("node_order");
    let settings = json!({"nodes": outside, "node_order": "lexicographic"});
    assert_eq!(nodes_of(settings, json!({})), ["y", "z"]);
}

#[test]
fn ranges_of_nodes() {
    let of = |more: Value| {
        let mut prefs = json!({"parent_level": "instance", "start": 1, "end": 2});
        for (key, value) in more.as_object().unwrap() {
            prefs[key] = value.clone();
        }
        let nodes = json!({
            "levels": ["host", "db"],
            "node_order": "original",
            "node_sources": [
                {"source": "manual", "prefs": {"h": []}},
                {"source": "range_label", "prefs": prefs},
            ],
        });
        nodes_of(
            json!({"nodes": nodes, "level_for_tasks": "host"}),
            json!({}),
        )
    };
    assert_eq!(of(json!({})), ["h", "top__1", "top__2"]);
    assert_eq!(of(json!({"start": 2})), ["h", "top__2"]);
    assert_eq!(of(json!({"end": 3})), ["h", "top__1", "top__2", "top__3"]);
    assert_eq!(of(json!({"format": "n{i}"})), ["h", "n1", "n2"]);
    assert_eq!(of(json!({"enabled": false})), ["h"]);
    assert_eq!(of(json!({"parent_level": "host"})), ["h"]);
}

#[test]
fn resources() {
    let disk = |default: i32, limit: i32| json!({"resources": {"host": {"disk": {"default": default, "limit": limit}}}});
    assert_eq!(nodes_of(disk(1, 2), json!({})), ["a", "b", "c"]);
    assert_eq!(nodes_of(disk(1, 1), json!({})), ["a", "c"]);
    assert_eq!(nodes_of(disk(2, 3), json!({})), ["a", "c"]);
    assert_eq!(
        nodes_of(disk(1, 2), json!({"resources": {"disk": 2}})),
        ["a", "c"]
    );
}

#[test]
fn resources_of_workers() {
    let of = |more: Value| {
        let mut settings = json!({"resources": {"worker": {"cpu": {"default": 1, "limit": 0}}}});
        for (key, value) in more.as_object().unwrap() {
            settings[key] = value.clone();
        }
        starts(settings, json!({"x": {}})).len()
    };
    assert_eq!(of(json!({})), 0);
    assert_eq!(
        of(json!({"worker_resources_override": {"w1": {"cpu": 2}}})),
        2
    );
    assert_eq!(
        of(json!({"worker_resources_overrides": {"m1": {"cpu": 1}}})),
        1
    );
    assert_eq!(
        of(json!({"worker_resources_override": {"h1:1": {"cpu": 3}}})),
        3
    );
    let measured = |entry: Value| of(json!({"physical_resources": {"cpu_core": entry}}));
    assert_eq!(
        measured(json!({"logical_resource": "cpu", "multiply_logical_by": 4})),
        2
    );
    assert_eq!(
        measured(json!({"logical_resource": "cpu", "multiply_logical_by": 8})),
        0
    );
    assert_eq!(
        measured(
            json!({"logical_resource": "cpu", "multiply_logical_by": 4, "physical_reserve_amount": 1})
        ),
        0
    );
    memory_and_cards();
}

/// Returns the slots of `res`, and of the resource of a GPU model, on a worker with 10,000 MB and three GPUs of two models.
fn slots_of(physical: Value, more: Value) -> (i32, i32) {
    let mut settings = json!({
        "resources": {"worker": {
            "res": {"default": 1, "limit": 7}, "GPU: K40": {"default": 0, "limit": 0},
        }},
        "physical_resources": physical,
    });
    for (key, value) in more.as_object().unwrap() {
        settings[key] = value.clone();
    }
    let mut engine = engine_of(&settings, &json!({"x": {}}));
    let mut worker = on_host("m1");
    worker.memory_mb = 10_000.0;
    worker.cards = cards(&["K40", "K40", "H100"]);
    let index = engine.upsert_worker(&shard("w1"), worker);
    let limits = engine.pool.get(index).unwrap().limits.clone();
    let silent = engine.upsert_worker(&shard("w3"), on_host("m3"));
    // A machine that reports nothing keeps the configured limit.
    assert_eq!(engine.pool.get(silent).unwrap().limits, [0, 7]);
    (limits[1], limits[0])
}

fn memory_and_cards() {
    let ram = |multiply: f64, reserve: f64| {
        json!({"ram_mb": {"logical_resource": "res", "multiply_logical_by": multiply,
            "physical_reserve_amount": reserve}})
    };
    let none = || json!({});
    assert_eq!(slots_of(none(), none()), (7, 0));
    assert_eq!(slots_of(ram(1024.0, 0.0), none()), (9, 0));
    assert_eq!(slots_of(ram(1024.0, 1000.0), none()), (8, 0));
    assert_eq!(slots_of(ram(1024.0, 20_000.0), none()), (0, 0));
    assert_eq!(slots_of(ram(1.0, -1.5), none()), (10_001, 0));
    let cards = |multiply: f64, reserve: f64| {
        json!({"gpu_card": {"logical_resource": "res", "multiply_logical_by": multiply,
            "physical_reserve_amount": reserve}})
    };
    assert_eq!(slots_of(cards(1.0, 0.0), none()), (3, 2));
    assert_eq!(slots_of(cards(0.5, 1.0), none()), (4, 2));
    let replaced = json!({"worker_resources_override": {"w1": {"res": 1, "GPU: K40": 5}}});
    assert_eq!(slots_of(cards(1.0, 0.0), replaced), (1, 5));
}

#[test]
fn filters() {
    let of = |level: &str, filter: Value| nodes_of(json!({}), json!({"filters": {level: filter}}));
    assert_eq!(of("db", json!({"whitelist": ["b"]})), ["b"]);
    assert_eq!(of("db", json!({"whitelist_regex": "[bc]"})), ["b", "c"]);
    assert_eq!(of("db", json!({"blacklist": ["b"]})), ["a", "c"]);
    assert_eq!(of("host", json!({"blacklist_regex": "^h1$"})), ["c"]);
    assert_eq!(of("db", json!({"tag_whitelist": ["t"]})), NONE);
    assert_eq!(of("db", json!({"fraction_of_nodes": 1e-9})), NONE);
    assert_eq!(of("worker", json!({"whitelist": ["nobody"]})), NONE);
}

#[test]
fn placement_on_hosts() {
    let of = |job: Value| starts(json!({}), json!({"x": job}));
    assert_eq!(
        of(json!({"host_placement": "m1"})),
        ["x a w1", "x b w1", "x c w1"]
    );
    assert_eq!(
        of(json!({"level_for_host_placement": "host"})),
        ["x a w2", "x b w2"]
    );
}

#[test]
fn depends_on() {
    let jobs = json!({"first": {}, "then": {"depends_on": ["first"]}});
    let mut engine = engine_of(&json!({}), &jobs);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["first a", "first b", "first c"]);
    end(&mut engine, T0, placed[1].task, StatusBits::DONE);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["then b"]);
}

#[test]
fn run_only_after_all_nodes_are_done_for() {
    let key = "run_only_after_all_nodes_are_done_for";
    let jobs = json!({"first": {}, "then": {key: ["first"]}});
    let mut engine = engine_of(&json!({}), &jobs);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["first a", "first b", "first c"]);
    for (placement, starts) in placed.iter().zip([0, 0, 3]) {
        end(&mut engine, T0, placement.task, StatusBits::DONE);
        assert_eq!(place_all(&mut engine, T0).len(), starts);
    }
}

#[test]
fn config_of_a_job() {
    let mut engine = engine_of(&json!({}), &json!({"x": {"config": {"to": ["there"]}}}));
    let placed = place_all(&mut engine, T0);
    let argument: Value =
        serde_json::from_str(&engine.task_argument(placed[0].task, &shard("w1"), "m1")).unwrap();
    assert_eq!(argument["config"], json!({"to": ["there"]}));
}

#[test]
fn command() {
    let started = |command: Value| {
        let mut engine = engine_of(&json!({}), &json!({"x": {"command": command}}));
        for (name, host) in [("w1", "m1"), ("w2", "h1")] {
            let mut worker = on_host(host);
            worker.has_worker_command = false;
            engine.upsert_worker(&shard(name), worker);
        }
        place_all(&mut engine, T0).len()
    };
    assert_eq!(started(json!(["true"])), 3);
    assert_eq!(started(json!([])), 0);
}
