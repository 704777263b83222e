//! Tests of node tables that come into force in slices: the result is the same as at once, and none of it shows before.

use std::sync::Arc;

use brasserie_common::{Hold, StatusBits, Time};
use brasserie_common_config::{Config, NodeOrder, SchedulerPolicy};
use proptest::prelude::*;

use super::random::{random_config, random_nodes};
use super::world::*;
use crate::queues::gates::Gate;
use crate::queues::states::Filling;
use crate::work::WorkBudget;
use crate::{Due, Engine, Judged, NodeTable, NodeTableBuilder, Restart, Row, Tries, WorkerIndex};

pub(super) const NOW: Time = Time::ZERO;

/// A table of `hosts` hosts with two databases each.
pub(super) fn wide(config: &Config, hosts: usize, name: &str) -> Arc<NodeTable> {
    let mut builder = NodeTableBuilder::new("root", config);
    for host in 0..hosts {
        let row = builder.add_child(Row::ROOT, &format!("{name}{host}"), true);
        for db in 0..2 {
            let child = format!("{name}{host}.{db}");
            builder
                .add_child(row.clone().unwrap(), &child, true)
                .unwrap();
        }
    }
    Arc::new(builder.finish())
}

pub(super) fn two_jobs() -> Config {
    config(
        vec![
            resource("disk", HOST, 1, 1),
            resource("slots", WORKER, 1, 9),
        ],
        vec![job("a"), job("b")],
    )
}

/// Runs slices of this budget until no work is left. Returns their number.
pub(super) fn finish(engine: &mut Engine, slice: u64) -> usize {
    let mut slices = 0;
    while engine.is_refreshing() {
        engine.run_slice(&mut WorkBudget::new(slice));
        slices += 1;
        assert!(slices < 1_000_000, "it comes to its end");
    }
    slices
}

pub(super) fn is_in_force(engine: &Engine, table: &Arc<NodeTable>) -> bool {
    engine
        .nodes()
        .is_some_and(|nodes| Arc::ptr_eq(nodes, table))
}

integration_tests_properties::properties! {
    100;

    #[test]
    fn slices_give_what_a_whole_refresh_gives(
        (settings, first, second) in (any::<u64>(), any::<u64>(), any::<u64>()),
        which in 0usize..3,
        slice in 1u64..20_000,
    ) {
        let order = [NodeOrder::Original, NodeOrder::Lexicographic, NodeOrder::Random][which];
        let config = random_config(settings, order, SchedulerPolicy::RoundRobin);
        let mut whole = Engine::new(5);
        whole.apply_config(NOW, Arc::new(config.clone()));
        whole.apply_nodes(NOW, Arc::new(random_nodes(first, &config)));
        let mut sliced = whole.clone();
        let table = Arc::new(random_nodes(second, &config));
        whole.apply_nodes(NOW, Arc::clone(&table));
        sliced.begin_nodes(table);
        finish(&mut sliced, slice);
        prop_assert_eq!(format!("{:?}", whole.forest), format!("{:?}", sliced.forest));
        prop_assert_eq!(format!("{:?}", whole.queues.columns()), format!("{:?}", sliced.queues.columns()));
        prop_assert_eq!(whole.fingerprint(NOW), sliced.fingerprint(NOW));
    }
}

#[test]
fn the_old_nodes_stay_in_force_until_the_new_ones_are_whole() {
    let config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1", "d2"]), ("h2", &["d3"])]);
    let before = Arc::clone(engine.nodes().unwrap());
    let mut builder = NodeTableBuilder::new("root", &config);
    let row = builder.add_child(Row::ROOT, "h2", true).unwrap();
    builder.add_child(row, "d3", true).unwrap();
    builder.add_child(row, "d4", true).unwrap();
    let after = Arc::new(builder.finish());
    engine.begin_nodes(Arc::clone(&after));
    engine.run_slice(&mut WorkBudget::new(1));
    assert!(is_in_force(&engine, &before));
    // Tasks start and complete as usual.
    let placed = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &placed), ["a d1", "b d3"]);
    while !is_in_force(&engine, &after) {
        assert!(engine.has_enabled_node(placed[0].task.node));
        assert_eq!(engine.path(placed[0].task).len(), 3);
        engine.run_slice(&mut WorkBudget::new(1));
    }
    assert!(!engine.has_enabled_node(placed[0].task.node), "it is gone");
    let path: Vec<_> = engine.path(placed[0].task);
    let path: Vec<&str> = path.iter().map(|name| name.as_str()).collect();
    assert_eq!(path, ["root", "h1", "d1"], "it runs on");
    end(&mut engine, NOW, placed[0].task, StatusBits::DONE);
    end(&mut engine, NOW, placed[1].task, StatusBits::DONE);
    let placed = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &placed), ["a d3"]);
    end(&mut engine, NOW, placed[0].task, StatusBits::DONE);
    let placed = place_all(&mut engine, NOW);
    assert_eq!(
        names(&engine, &placed),
        ["b d4"],
        "who waited at h2 is called"
    );
}

#[test]
fn what_ends_while_a_table_is_on_its_way_has_ended_under_it() {
    let config = two_jobs();
    // Each case makes its changes after another number of slices, so that every half-built state sees them.
    for slices in 0..200 {
        let (mut engine, _) = engine(config.clone(), &[("h1", &["d1", "d2"])]);
        let placed = place_all(&mut engine, NOW);
        engine.begin_nodes(Arc::new(nodes(&config, &[("h1", &["d2", "d1"])])));
        for _ in 0..slices {
            engine.run_slice(&mut WorkBudget::new(1));
        }
        end(&mut engine, NOW, placed[0].task, StatusBits::DONE);
        let next = engine.place(NOW).unwrap().task;
        finish(&mut engine, 1);
        let a = placed[0].task.job;
        assert_eq!((engine.counts(a).done, engine.counts(a).unstarted), (1, 1));
        assert_eq!(engine.task_state(next), crate::TaskState::Running);
        assert_eq!(engine.place(NOW), None, "the slot is taken");
        end(&mut engine, NOW, next, StatusBits::DONE);
        assert_eq!(place_all(&mut engine, NOW).len(), 1);
    }
}

#[test]
fn a_configuration_in_every_turn_does_not_keep_a_table_out() {
    let mut config = two_jobs();
    config.jobs.push(job("c").into());
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 300, "n");
    let quiet = {
        let mut engine = engine.clone();
        engine.begin_nodes(Arc::clone(&table));
        finish(&mut engine, 60_000)
    };
    engine.begin_nodes(Arc::clone(&table));
    let mut turns = 0;
    while !is_in_force(&engine, &table) {
        // The priority of one job changes in every turn, and now and then another one is disabled or enabled.
        config.jobs[0].priority += 1.0;
        config.jobs[1].enabled = turns % 20 < 10;
        engine.begin_config(NOW, Arc::new(config.clone()));
        engine.run_slice(&mut WorkBudget::new(60_000));
        turns += 1;
        assert!(turns < 3 * quiet, "{turns} instead of {quiet} turns");
    }
    finish(&mut engine, 60_000);
    let b = engine.find_job("b").unwrap();
    let unstarted = engine.counts(b).unstarted;
    assert_eq!(unstarted, 600);
}

#[test]
fn a_place_may_stop_after_some_tries_and_go_on_later() {
    let config = config(vec![resource("disk", HOST, 1, 1)], vec![job("a")]);
    let (mut engine, _) = engine(config.clone(), &[]);
    engine.apply_nodes(NOW, wide(&config, 10, "n"));
    assert_eq!(place_all(&mut engine, NOW).len(), 10);
    engine.apply_nodes(NOW, wide(&config, 10, "n"));
    let mut calls = 0;
    loop {
        let mut tries = Tries::new(3);
        assert_eq!(
            engine.place_within(NOW, &mut tries, &mut |_: WorkerIndex, _: Due| {
                Judged::UNSEEN
            }),
            None
        );
        calls += 1;
        if tries.are_left() {
            break;
        }
    }
    assert_eq!(calls, 4, "ten hosts are short of a slot");
}

#[test]
fn of_tables_that_wait_the_newest_counts() {
    let config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let tables = ["x", "y", "z"].map(|name| wide(&config, 20, name));
    for table in &tables {
        engine.begin_nodes(Arc::clone(table));
        engine.run_slice(&mut WorkBudget::new(1));
    }
    let mut seen = Vec::new();
    while engine.is_refreshing() {
        engine.run_slice(&mut WorkBudget::new(1000));
        let now = tables.iter().position(|table| is_in_force(&engine, table));
        if seen.last() != Some(&now) {
            seen.push(now);
        }
    }
    assert_eq!(seen, [None, Some(0), Some(2)]);
}

#[test]
fn under_another_order_no_node_is_in_force_until_all_are() {
    let mut config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d2"])]);
    let running = engine.place(NOW).unwrap().task;
    let table = wide(&config, 20, "n");
    engine.begin_nodes(Arc::clone(&table));
    engine.run_slice(&mut WorkBudget::new(1));
    config.node_order = NodeOrder::Lexicographic;
    engine.begin_config(NOW, Arc::new(config));
    assert!(engine.nodes().is_none());
    assert_eq!(engine.place(NOW), None);
    finish(&mut engine, 1000);
    assert!(is_in_force(&engine, &table), "the newest");
    assert_eq!(engine.tables_put_in_force(), 2);
    assert!(engine.is_running(running));
    let placed = engine.place(NOW).unwrap();
    assert_eq!(engine.node_text(placed.task.node), "n0.0");
}

/// Jobs of which `last` waits for all of `first`, and `reads` for `last` node by node.
pub(super) fn gated() -> Config {
    let mut last = job("last");
    last.run_only_after_all_nodes_are_done_for = vec![job_name("first")];
    let mut reads = job("reads");
    reads.depends_on = vec![job_name("last")];
    config(Vec::new(), vec![job("first"), last, reads])
}

fn gate(engine: &Engine, name: &str) -> Gate {
    engine.queues.of(engine.find_job(name).unwrap()).gate
}

#[test]
fn a_gate_is_that_of_the_nodes_in_force_until_others_are() {
    let config = gated();
    let (mut engine, _) = engine(config.clone(), &[("h", &["a"])]);
    let first = engine.place(NOW).unwrap().task;
    end(&mut engine, NOW, first, StatusBits::DONE);
    engine.begin_nodes(Arc::new(nodes(&config, &[("h", &["a", "b"])])));
    while engine.refresh.is_some() {
        assert_eq!(
            gate(&engine, "last"),
            Gate::Open,
            "nothing of `first` is left"
        );
        engine.run_slice(&mut WorkBudget::new(1));
    }
    assert_eq!(
        gate(&engine, "last"),
        Gate::Closed,
        "`first` has a node more"
    );
    let placed = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &placed), ["first b"]);
    end(&mut engine, NOW, placed[0].task, StatusBits::DONE);
    let placed = place_all(&mut engine, NOW);
    assert_eq!(names(&engine, &placed), ["last a", "last b"]);
}

/// Makes a change after each possible number of slices, and compares the result with that of a refresh at once.
fn at_every_slice(config: &Config, change: impl Fn(&mut Engine)) {
    let (mut start, _) = engine(config.clone(), &[("h", &["a", "b"])]);
    let placed = place_all(&mut start, NOW);
    assert_eq!(placed.len(), 2, "`first`");
    let table = Arc::new(nodes(config, &[("h", &["b", "c"]), ("i", &["a"])]));
    let mut slices = 0;
    loop {
        let mut sliced = start.clone();
        sliced.begin_nodes(Arc::clone(&table));
        (0..slices).for_each(|_| sliced.run_slice(&mut WorkBudget::new(1)));
        let is_over = !sliced.is_refreshing();
        change(&mut sliced);
        finish(&mut sliced, 1);
        let mut whole = start.clone();
        change(&mut whole);
        whole.apply_nodes(NOW, Arc::clone(&table));
        for id in whole.jobs() {
            let name = whole.job_name(id);
            assert_eq!(sliced.counts(id), whole.counts(id), "{name} after {slices}");
            let looks = |engine: &Engine| {
                let columns = engine.queues.of(id);
                (columns.gate, columns.eligible, columns.are_whole)
            };
            assert_eq!(looks(&sliced), looks(&whole), "{name} after {slices}");
        }
        let next = |engine: &mut Engine| {
            let placed = place_all(engine, NOW);
            names(engine, &placed)
        };
        assert_eq!(next(&mut sliced), next(&mut whole), "after {slices}");
        slices += 1;
        if is_over {
            assert!(slices > 20, "{slices}");
            return;
        }
    }
}

#[test]
fn what_ends_meanwhile_moves_the_gates_of_both_sides() {
    for bits in [StatusBits::DONE, StatusBits::FAILED] {
        at_every_slice(&gated(), |engine| {
            for node in ["a", "b"] {
                let task = task(engine, "first", node);
                end(engine, NOW, task, bits);
            }
        });
    }
}

#[test]
fn a_step_meanwhile_is_one_of_both_sides() {
    let steps: [fn(&mut Config); 7] = [
        |config| config.jobs[0].enabled = false,
        |config| drop(config.jobs.remove(0)),
        |config| drop(config.jobs.remove(1)),
        |config| config.jobs[1].run_only_after_all_nodes_are_done_for.clear(),
        |config| config.jobs[2].depends_on = vec![job_name("first"), job_name("first")],
        |config| {
            let mut more = job("more");
            more.level_for_tasks = HOST;
            more.level_for_host_placement = Some(HOST);
            config.jobs.insert(0, more.into());
        },
        |config| {
            // The jobs form a cycle.
            config.jobs[0].run_only_after_all_nodes_are_done_for = vec![job_name("reads")];
        },
    ];
    for step in steps {
        at_every_slice(&gated(), |engine| {
            let mut config = Config::clone(engine.config().unwrap());
            step(&mut config);
            engine.begin_config(NOW, Arc::new(config));
        });
    }
}

#[test]
fn other_jobs_and_settings_meanwhile_are_those_of_both_sides() {
    at_every_slice(&gated(), |engine| {
        let mut config = Config::clone(engine.config().unwrap());
        config.working_wait += std::time::Duration::from_millis(1);
        config.jobs.reverse();
        config.jobs[0].hold = Some(Hold::Paused);
        config.resources.push(resource("disk", HOST, 0, 1));
        config
            .jobs
            .iter_mut()
            .for_each(|job| job.resources = vec![1]);
        engine.begin_config(NOW, Arc::new(config));
    });
}

#[test]
fn what_ends_while_columns_get_their_places_has_ended_under_all_of_them() {
    let config = two_jobs();
    let (mut sliced, _) = engine(config.clone(), &[]);
    sliced.apply_nodes(NOW, wide(&config, 40, "n"));
    let running = place_all(&mut sliced, NOW);
    assert_eq!(running.len(), 9);
    let table = wide(&config, 40, "n");
    let end_some = |engine: &mut Engine| {
        for (i, placed) in running.iter().enumerate() {
            let bits = [StatusBits::DONE, StatusBits::FAILED, StatusBits::EMPTY][i % 3];
            end(engine, NOW, placed.task, bits);
        }
    };
    let mut whole = sliced.clone();
    end_some(&mut whole);
    whole.apply_nodes(NOW, Arc::clone(&table));
    let looks = |engine: &Engine| {
        let jobs = engine.jobs().map(|id| {
            let columns = engine.queues.of(id);
            let ready: Vec<usize> = columns.ready.iter().collect();
            (engine.counts(id), columns.eligible, ready)
        });
        jobs.collect::<Vec<_>>()
    };
    sliced.begin_nodes(table);
    let mut slices = 0;
    while sliced.refresh.is_some() {
        let mut ended = sliced.clone();
        end_some(&mut ended);
        finish(&mut ended, 60_000);
        assert_eq!(looks(&ended), looks(&whole), "after {slices}");
        sliced.run_slice(&mut WorkBudget::new(1));
        slices += 1;
    }
    assert!(slices > 500, "{slices}");
}

#[test]
fn a_slice_classifies_one_replica_of_many_if_there_is_no_work_for_more() {
    let config = two_jobs();
    let replicas = |count: usize, last: bool| {
        let mut builder = NodeTableBuilder::new("root", &config);
        let row = builder.add_child(Row::ROOT, "h", true).unwrap();
        for i in 1..=count {
            let enabled = last && i == count;
            builder.add_child(row, "same", enabled).unwrap();
        }
        Arc::new(builder.finish())
    };
    for last in [false, true] {
        let slices = [50, 100].map(|count| {
            let (mut engine, _) = engine(config.clone(), &[]);
            engine.apply_nodes(NOW, replicas(count, last));
            let forest = engine.forest.as_deref().unwrap();
            let (tasks, queues) = (&engine.tasks, &mut engine.queues);
            let id = tasks.find("b").unwrap();
            queues.reset(id);
            let (mut filling, mut slices) = (Filling::Allocate, 1);
            while let Some(rest) = queues.fill(forest, tasks, id, filling, &mut WorkBudget::new(1))
            {
                (filling, slices) = (rest, slices + 1);
            }
            let counts = engine.counts(id);
            assert_eq!(
                counts.disabled,
                u64::from(!last),
                "one that is open is enough"
            );
            assert_eq!(counts.unstarted, u64::from(last));
            slices
        });
        assert_eq!(slices[1] - slices[0], 50, "one for each that there is more");
    }
}

/// Calls `before` before each slice. Returns the number of slices until the table is in force.
pub(super) fn in_spite_of(
    (engine, table): (&mut Engine, &Arc<NodeTable>),
    slice: u64,
    mut before: impl FnMut(&mut Engine, usize),
) -> usize {
    for turn in 1..2000 {
        before(engine, turn);
        engine.run_slice(&mut WorkBudget::new(slice));
        if is_in_force(engine, table) {
            return turn;
        }
    }
    panic!("it never comes in force");
}

pub(super) fn undisturbed(engine: &Engine, table: &Arc<NodeTable>, slice: u64) -> usize {
    let mut engine = engine.clone();
    engine.begin_nodes(Arc::clone(table));
    in_spite_of((&mut engine, table), slice, |_, _| {})
}

#[test]
fn a_save_before_each_slice_does_not_keep_a_table_out_where_jobs_have_gates() {
    let mut config = gated();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 20, "n");
    // A check of each job and each gate takes more than a slice.
    let slice = 160;
    let quiet = undisturbed(&engine, &table, slice);
    engine.begin_nodes(Arc::clone(&table));
    let turns = in_spite_of((&mut engine, &table), slice, |engine, _| {
        config.jobs[0].priority += 1.0;
        engine.begin_config(NOW, Arc::new(config.clone()));
    });
    assert!(turns < quiet + 20, "{turns} instead of {quiet} turns");
    finish(&mut engine, slice);
    assert_eq!(gate(&engine, "last"), Gate::Closed);
}

#[test]
fn a_job_that_is_another_one_before_each_slice_does_not_keep_a_table_out() {
    for mut config in [gated(), two_jobs()] {
        let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
        let table = wide(&config, 300, "n");
        let slice = 20_000;
        let quiet = undisturbed(&engine, &table, slice);
        engine.begin_nodes(Arc::clone(&table));
        let turns = in_spite_of((&mut engine, &table), slice, |engine, _| {
            config.jobs[0].enabled ^= true;
            engine.begin_config(NOW, Arc::new(config.clone()));
        });
        assert!(turns < quiet + 40, "{turns} instead of {quiet} turns");
        finish(&mut engine, slice);
        let first = engine.jobs().next().unwrap();
        let counts = engine.counts(first);
        assert_eq!(counts.unstarted, 600, "{counts:?}");
    }
}

#[test]
fn a_task_that_fails_and_is_forgiven_before_each_slice_does_not_keep_a_table_out() {
    let config = gated();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["n0.0"])]);
    let table = wide(&config, 300, "n");
    let slice = 20_000;
    let quiet = undisturbed(&engine, &table, slice);
    let task = task(&mut engine, "first", "n0.0");
    engine.begin_nodes(Arc::clone(&table));
    let turns = in_spite_of((&mut engine, &table), slice, |engine, turn| {
        let bits = [StatusBits::FAILED, StatusBits::ERROR][turn % 2];
        engine.restate(NOW, task, status(bits), None, Restart::AtOnce);
    });
    assert!(turns < quiet + 40, "{turns} instead of {quiet} turns");
}

#[test]
fn tables_before_each_slice_do_not_keep_one_out_that_is_on_its_way() {
    let config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 50, "n");
    let slice = 100;
    let quiet = undisturbed(&engine, &table, slice);
    engine.begin_nodes(Arc::clone(&table));
    let turns = in_spite_of((&mut engine, &table), slice, |engine, turn| {
        // Freeing one of these tables takes more than a slice.
        engine.begin_nodes(wide(&config, 50, &format!("m{turn}.")));
    });
    assert!(turns < quiet + 20, "{turns} instead of {quiet} turns");
}

#[test]
fn another_order_before_each_slice_does_not_keep_all_tables_out() {
    let mut config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 50, "n");
    engine.begin_nodes(Arc::clone(&table));
    let orders = [NodeOrder::Original, NodeOrder::Lexicographic];
    let turns = in_spite_of((&mut engine, &table), 10_000, |engine, turn| {
        config.node_order = orders[turn % 2];
        engine.begin_config(NOW, Arc::new(config.clone()));
    });
    assert!(turns < 40, "{turns} turns");
}

#[test]
fn a_slice_does_the_same_whoever_else_has_the_table_that_goes() {
    let config = two_jobs();
    let history = |keep: bool| {
        let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
        let former = wide(&config, 400, "n");
        engine.apply_nodes(NOW, Arc::clone(&former));
        // Another thread, such as one with a view, may drop the table in any turn.
        let kept = keep.then_some(former);
        let (next, last) = (wide(&config, 10, "x"), wide(&config, 10, "y"));
        engine.begin_nodes(Arc::clone(&next));
        let mut turns = Vec::new();
        while engine.is_refreshing() {
            engine.run_slice(&mut WorkBudget::new(500));
            if is_in_force(&engine, &next) && engine.waiting.is_none() && turns.len() < 200 {
                engine.begin_nodes(Arc::clone(&last));
            }
            turns.push((engine.tables_put_in_force(), engine.fingerprint(NOW)));
        }
        drop(kept);
        assert!(is_in_force(&engine, &last));
        turns
    };
    assert_eq!(history(true), history(false));
}
