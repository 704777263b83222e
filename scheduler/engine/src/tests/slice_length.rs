//! Tests of the length of slices during a refresh: slices get longer only if work is undone again and again.

use std::sync::Arc;

use brasserie_common::Hold;
use brasserie_common_config::{Config, Filter};

use super::refresh::{NOW, finish, gated, in_spite_of, is_in_force, two_jobs, undisturbed, wide};
use super::world::*;
use crate::queues::columns::Columns;
use crate::work::WorkBudget;
use crate::{Engine, NodeTable, NodeTableBuilder, Row};

/// All slices are equally long below this number of slices in vain.
const FIRST_DOUBLING: u32 = 4;

/// A table of few hosts with many databases each.
fn deep(config: &Config, name: &str) -> Arc<NodeTable> {
    let mut builder = NodeTableBuilder::new("root", config);
    for host in 0..4 {
        let row = builder.add_child(Row::ROOT, &format!("{name}{host}"), true);
        for db in 0..150 {
            let child = format!("{name}{host}.{db}");
            builder
                .add_child(row.clone().unwrap(), &child, true)
                .unwrap();
        }
    }
    Arc::new(builder.finish())
}

fn save(engine: &mut Engine, config: &Config) {
    engine.begin_config(NOW, Arc::new(config.clone()));
}

/// Begins a refresh with a table, and continues until its forest is complete.
fn grown(engine: &mut Engine, table: &Arc<NodeTable>) {
    engine.begin_nodes(Arc::clone(table));
    while !engine.refresh.as_ref().unwrap().has_columns() {
        engine.run_slice(&mut WorkBudget::new(1000));
    }
}

#[test]
fn what_leaves_a_restless_job_alone_makes_no_slice_longer() {
    let save_gates = |config: &mut Config| config.jobs[0].priority += 1.0;
    let save_small = |config: &mut Config| config.jobs[0].enabled ^= true;
    let changes: [fn(&mut Config); 2] = [save_gates, save_small];
    for (mut config, change) in [gated(), two_jobs()].into_iter().zip(changes) {
        for job in &mut config.jobs {
            job.level_for_tasks = HOST;
        }
        config.jobs.push(job("big").into());
        let big = config.jobs.len() - 1;
        let resources = config.jobs[0].resources.clone();
        config.jobs[big].resources = resources;
        let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
        let table = deep(&config, "n");
        grown(&mut engine, &table);
        config.jobs[big].enabled = false;
        save(&mut engine, &config);
        let turns = in_spite_of((&mut engine, &table), 10_000, |engine, _| {
            change(&mut config);
            save(engine, &config);
            let in_vain = engine.slice_length.in_vain();
            assert!(in_vain < 2, "{in_vain} slices in vain");
        });
        assert!(turns > 14, "{turns} turns: what is big takes some");
    }
}

#[test]
fn before_there_are_columns_saves_undo_nothing() {
    let mut config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    engine.begin_nodes(wide(&config, 50, "n"));
    // Former data is freed first.
    engine.disposal.take_columns(vec![Columns::default(); 30]);
    let mut freeing = 0;
    while !engine.refresh.as_ref().unwrap().has_columns() {
        config.jobs[0].enabled ^= true;
        save(&mut engine, &config);
        engine.run_slice(&mut WorkBudget::new(500));
        freeing += u32::from(!engine.disposal.is_empty());
        assert_eq!(engine.slice_length.in_vain(), 0, "after {freeing} turns");
    }
    assert!(freeing > 5, "{freeing} turns");
}

#[test]
fn lists_that_are_freed_before_each_slice_do_not_keep_a_table_out() {
    let mut config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 10, "n");
    let quiet = undisturbed(&engine, &table, 200);
    engine.begin_nodes(Arc::clone(&table));
    // Freeing the lists takes more than a slice.
    let turns = in_spite_of((&mut engine, &table), 200, |engine, turn| {
        config.resources[0].name = ["disk", "disc"][turn % 2].to_owned();
        save(engine, &config);
    });
    assert!(turns < quiet + 40, "{turns} instead of {quiet} turns");
}

/// A configuration with more jobs than one slice can visit.
fn many_jobs() -> Config {
    let jobs = (0..100).map(|i| {
        let mut job = job(&format!("j{i}"));
        job.level_for_tasks = HOST;
        job
    });
    config(Vec::new(), jobs.collect())
}

#[test]
fn a_save_that_moves_no_link_lets_the_look_at_all_jobs_go_on() {
    let mut config = many_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 1, "n");
    let quiet = undisturbed(&engine, &table, 160);
    engine.begin_nodes(Arc::clone(&table));
    let turns = in_spite_of((&mut engine, &table), 160, |engine, _| {
        config.jobs[0].priority += 1.0;
        save(engine, &config);
    });
    assert_eq!(turns, quiet);
}

#[test]
fn links_made_anew_before_each_slice_do_not_keep_a_table_out() {
    let mut config = many_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 1, "n");
    let quiet = undisturbed(&engine, &table, 160);
    engine.begin_nodes(Arc::clone(&table));
    let turns = in_spite_of((&mut engine, &table), 160, |engine, _| {
        config.working_wait += std::time::Duration::from_millis(1);
        save(engine, &config);
    });
    assert!(turns < quiet + 40, "{turns} instead of {quiet} turns");
}

#[test]
fn paths_of_runs_that_are_written_down_stay_so() {
    let mut config = gated();
    let (mut engine, _) = engine(config.clone(), &[]);
    engine.apply_nodes(NOW, wide(&config, 100, "n"));
    assert_eq!(place_all(&mut engine, NOW).len(), 200);
    let table = wide(&config, 10, "n");
    engine.begin_nodes(Arc::clone(&table));
    let turns = in_spite_of((&mut engine, &table), 2000, |engine, _| {
        // Every save re-evaluates all gates.
        config.jobs[0].priority += 1.0;
        save(engine, &config);
        let in_vain = engine.slice_length.in_vain();
        assert!(in_vain < FIRST_DOUBLING, "{in_vain} slices in vain");
    });
    assert!(turns > 50, "{turns} turns");
}

#[test]
fn a_gate_that_turns_before_each_slice_does_not_keep_a_table_out() {
    let mut config = gated();
    let none = Filter {
        whitelist: vec!["no such node".to_owned()],
        ..Filter::default()
    };
    config.jobs[0].filters.insert(DB, none);
    let (engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 300, "n");
    let quiet = undisturbed(&engine, &table, 20_000);
    for every in [1, 2, 4, 9] {
        let mut engine = engine.clone();
        engine.begin_nodes(Arc::clone(&table));
        let turns = in_spite_of((&mut engine, &table), 20_000, |engine, turn| {
            // The job has no tasks and cannot run either way, so its own columns stay. But others may wait for a paused job, and not for a
            // disabled one.
            config.jobs[0].enabled = turn / every % 2 > 0;
            config.jobs[0].hold = Some(Hold::Paused);
            save(engine, &config);
        });
        assert!(turns < 2 * quiet, "{turns} instead of {quiet} turns");
        assert!(is_in_force(&engine, &table));
    }
}

#[test]
fn who_waits_for_all_of_a_restless_job_is_not_built_before_it() {
    let slices = [false, true].map(|is_late| {
        let mut config = gated();
        let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
        let table = wide(&config, 50, "n");
        // The job is paused. Only its columns show that no other job can follow.
        config.jobs[0].hold = Some(Hold::Paused);
        if is_late {
            grown(&mut engine, &table);
            save(&mut engine, &config);
        } else {
            save(&mut engine, &config);
            grown(&mut engine, &table);
        }
        finish(&mut engine, 1)
    });
    let [early, late] = slices;
    assert!(late < early + 20, "{late} instead of {early} slices");
}

#[test]
fn a_new_job_before_each_slice_does_not_keep_a_table_out() {
    let mut config = two_jobs();
    let (mut engine, _) = engine(config.clone(), &[("h1", &["d1"])]);
    let table = wide(&config, 100, "n");
    grown(&mut engine, &table);
    let resources = config.jobs[0].resources.clone();
    let turns = in_spite_of((&mut engine, &table), 20_000, |engine, turn| {
        let mut more = job(&format!("j{turn}"));
        more.resources = resources.clone();
        config.jobs.push(more.into());
        save(engine, &config);
    });
    assert!(turns < 60, "{turns} turns");
}
