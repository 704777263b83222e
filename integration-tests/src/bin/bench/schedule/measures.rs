//! The measurements of each part.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_scheduler_engine::{Due, Judged, Restart, Task, Tries, WorkerIndex};

use super::brute::{self, Brute};
use super::workload::{Simulation, Size, done};
use super::{Figure, Scale};
use crate::meter::{forget_peak, peak, resident, timed};

/// Promised limit in milliseconds for a slice of a refresh.
const SLICE_OF_REFRESH: f64 = 5.0;
/// Attempts of a turn, as in the scheduler.
const TRIES: u32 = 1000;
const GIB: f64 = (1_u64 << 30) as f64;
const MIB: f64 = (1_u64 << 20) as f64;
/// Promised limit in microseconds.
const EVENT: f64 = 3.0;
/// Promised throughput relative to an infinitely fast scheduler.
const SHARE: f64 = 0.99;
/// Promised limit in milliseconds.
const ANSWER: f64 = 50.0;
/// Minimum nodes for a promise. With fewer, noise dominates.
const LEAST_PROMISED: usize = 10_000;
/// Promised limit in milliseconds for one more job on a million nodes.
const ANOTHER_JOB: f64 = 200.0;
/// Promised limits for ten million nodes, and for a refresh of them.
const RESIDENT_GIB: f64 = 1.0;
const REFRESH_GIB: f64 = 1.6;
const TEN_MILLION: f64 = 1e7;
/// Promised limit for each job after the first.
const BYTES_A_NODE: f64 = 8.0;
/// Delay of reported completions; no real network is faster.
const SLICE: Duration = Duration::from_millis(1);
/// Completions in a slice where single events are measured, so that the cost of reading the clock is negligible.
const ENDS_A_SLICE: u32 = 256;

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Measures the cost of one completion and its subsequent starts.
pub fn event(scale: Scale) -> Vec<Figure> {
    let sizes: &[usize] = match scale {
        Scale::Smoke => &[1000],
        Scale::Usual => &[10_000, 100_000, 1_000_000],
        Scale::Large => &[10_000, 100_000, 1_000_000, 10_000_000],
    };
    let line = |&nodes: &usize| {
        let size = Size::of_nodes(nodes, 1);
        let mean = Duration::from_secs(1);
        let slice = 2 * mean * ENDS_A_SLICE / u32::try_from(size.slots()).unwrap_or(u32::MAX);
        let mut simulation = Simulation::new(size.engine(), size.slots(), mean, slice);
        // Runs until completions are evenly spread.
        simulation.run(2 * mean, 0);
        let window = simulation.run(3 * mean, 0);
        // A scheduler that scans everything needs a pass for each completion.
        let mut brute = Brute::new(size);
        brute.pass();
        let pass = timed(|| brute.pass()).1;
        Figure::new(
            format!("one completion and start, {nodes} nodes"),
            "us",
            window.micros_an_event(),
        )
        .beside(pass.as_secs_f64() * 1e6)
        .at_most(EVENT)
    };
    sizes.iter().map(line).collect()
}

/// Measures a pass over everything from cold.
pub fn pass(scale: Scale) -> Vec<Figure> {
    let sizes: &[(usize, usize, f64)] = match scale {
        Scale::Smoke => &[(1000, 2, 1e9)],
        Scale::Usual | Scale::Large => &[(300_000, 5, 200.0), (1_000_000, 1, 300.0)],
    };
    let line = |&(nodes, jobs, most): &(usize, usize, f64)| -> Vec<Figure> {
        let size = Size::of_nodes(nodes, jobs);
        let config = size.config();
        let table = Arc::new(size.table(&config));
        let mut without_jobs = config.clone();
        without_jobs.jobs.clear();
        let mut engine = size.pool();
        engine.apply_config(Time::ZERO, Arc::new(without_jobs));
        let ((), forest) = timed(|| engine.apply_nodes(Time::ZERO, table));
        let config = Arc::new(config);
        let ((), columns) = timed(|| engine.apply_config(Time::ZERO, config));
        let (started, starts) = timed(|| std::iter::from_fn(|| engine.place(Time::ZERO)).count());
        assert_eq!(started, size.slots(), "every slot is taken");
        let mut brute = Brute::new(size);
        let brute = timed(|| brute.pass()).1;
        let more = Size {
            jobs: jobs + 1,
            ..size
        };
        let more = Arc::new(more.config());
        let ((), another) = timed(|| engine.apply_config(Time::ZERO, more));
        let what = format!("{nodes} nodes x {jobs} jobs");
        vec![
            Figure::new(
                format!("full pass from cold, {what}"),
                "ms",
                millis(columns + starts),
            )
            .beside(millis(brute))
            .at_most(most),
            Figure::new("  of it: what may run where", "ms", millis(columns)),
            Figure::new("  before it: the forest", "ms", millis(forest)),
            Figure::new("  after it: another job", "ms", millis(another)).at_most(ANOTHER_JOB),
        ]
    };
    sizes.iter().flat_map(line).collect()
}

/// Measures the used part of the slots' time.
pub fn throughput(scale: Scale) -> Vec<Figure> {
    let mut lines = Vec::new();
    match scale {
        Scale::Smoke => {
            lines.extend(steady(Size::of_nodes(1000, 4), &[1], 0, &[1]));
            lines.push(changing(Size::of_nodes(2000, 2), 600));
        }
        Scale::Usual | Scale::Large => {
            let seconds: Vec<u64> = (1..=10).collect();
            lines.extend(steady(Size::of_nodes(300_000, 10), &seconds, 1, &[1, 2, 5]));
            let size = Size::of_nodes(300_000, 5);
            lines.extend([1, 10, 50, 100, 1000].map(|changes| changing(size, changes)));
        }
    }
    if scale == Scale::Large {
        let size = Size::of_nodes(3_000_000, 10);
        // A mean of 1 s has no promise. It runs last, because an engine's backlog must not slow the other measurements.
        lines.extend(steady(size, &[2, 3, 5, 10], 2, &[2, 5]));
        lines.extend(steady(size, &[1], 2, &[1]));
    }
    lines
}

/// Measures one engine with ascending task times, with promises from `least` seconds on. The baseline runs as long as it simulates, so it
/// is measured only at the times in `brute`.
fn steady(size: Size, seconds: &[u64], least: u64, brute: &[u64]) -> Vec<Figure> {
    let mut simulation = None;
    let line = |&mean: &u64| {
        let time = Duration::from_secs(mean);
        let simulation = simulation
            .get_or_insert_with(|| Simulation::new(size.engine(), size.slots(), time, SLICE));
        // The times ascend, so all tasks with the former time have ended by then.
        simulation.set_mean(time);
        simulation.run(2 * time, 0);
        let window = simulation.run(2 * time, 0);
        let what = format!("{} nodes x {} jobs, mean {mean} s", size.nodes(), size.jobs);
        let mut line = Figure::new(what, "share", window.normalised_throughput());
        if brute.contains(&mean) {
            line = line.beside(brute::window(size, time, time, time).normalised_throughput());
        }
        if least > 0 && mean >= least {
            line.at_least(SHARE)
        } else {
            line.more_is_better()
        }
    };
    seconds.iter().map(line).collect()
}

/// Measures a root resource whose slots change `changes_a_minute` times a minute.
fn changing(size: Size, changes_a_minute: u32) -> Figure {
    let mean = Duration::from_secs(1);
    // Runs for a tenth of a minute, because the tasks suffice for little more, with at least one change.
    let length = Duration::from_secs(6);
    let changes = changes_a_minute.div_ceil(10);
    let size = Size {
        root_slots: Some(size.slots()),
        ..size
    };
    let mut simulation = Simulation::new(size.engine(), size.slots(), mean, SLICE);
    simulation.run(2 * mean, 0);
    let window = simulation.run(length, changes as usize);
    let what = format!(
        "{} nodes x {} jobs, {} root slots, {changes_a_minute} changes a minute",
        size.nodes(),
        size.jobs,
        size.slots()
    );
    let line = Figure::new(what, "share", window.normalised_throughput());
    if size.nodes() < LEAST_PROMISED {
        line.more_is_better()
    } else {
        line.at_least(SHARE)
    }
}

/// Measures the memory of nodes, jobs and statuses in bytes.
pub fn memory(scale: Scale) -> Vec<Figure> {
    let nodes = match scale {
        Scale::Smoke => 5000,
        // The spare capacity of half-filled pages would count too much with fewer nodes.
        Scale::Usual => 4_000_000,
        Scale::Large => 10_000_000,
    };
    let promised = |line: Figure, most: f64| scale.at_most(line, most);
    let size = Size::of_nodes(nodes, 1);
    let before = resident();
    let mut engine = size.engine();
    let with_one = resident() - before;
    // Smaller tables are scaled to ten million nodes.
    let gib = |bytes: f64| bytes / nodes as f64 * TEN_MILLION / GIB;
    let mut lines = vec![promised(
        Figure::new(
            format!("{nodes} nodes and a job, told for ten million"),
            "GiB",
            gib(with_one),
        ),
        RESIDENT_GIB,
    )];
    let config = Size { jobs: 2, ..size }.config();
    let second = config.jobs[1].name.clone();
    let config = Arc::new(config);
    let former = resident();
    engine.apply_config(Time::ZERO, Arc::clone(&config));
    let per_node = |bytes: f64| bytes.max(0.0) / nodes as f64;
    lines.push(promised(
        Figure::new(
            "a job that never ran",
            "B/node",
            per_node(resident() - former),
        ),
        BYTES_A_NODE,
    ));
    let job = engine.intern_job(&second);
    let tasks: Vec<Task> = engine.tasks(job).collect();
    for task in tasks {
        engine.restate(Time::ZERO, task, done(Time::ZERO), None, Restart::AtOnce);
    }
    lines.push(promised(
        Figure::new(
            "a job that is done everywhere",
            "B/node",
            per_node(resident() - former),
        ),
        BYTES_A_NODE,
    ));
    let former = resident();
    let started = std::iter::from_fn(|| engine.place(Time::ZERO)).count();
    lines.push(Figure::new(
        format!("each of {started} running tasks, and who waits for their slots"),
        "B",
        (resident() - former).max(0.0) / started as f64,
    ));
    forget_peak();
    let table = Arc::new(size.table(&config));
    engine.apply_nodes(Time::ZERO, table);
    lines.push(promised(
        Figure::new(
            "most during a refresh, told for ten million",
            "GiB",
            gib(peak() - before),
        ),
        REFRESH_GIB,
    ));
    lines
}

/// Measures node tables that come into force in slices while tasks complete and start: the same names again, and new ones.
pub fn refresh(scale: Scale) -> Vec<Figure> {
    let nodes = match scale {
        Scale::Smoke => 5000,
        Scale::Usual => 1_000_000,
        Scale::Large => 10_000_000,
    };
    let size = Size::of_nodes(nodes, 1);
    let mut engine = size.engine();
    let mut running: VecDeque<Task> = std::iter::from_fn(|| engine.place(Time::ZERO))
        .map(|placement| placement.task)
        .collect();
    let config = Arc::clone(engine.config().expect("there is a configuration"));
    let mut lines = Vec::new();
    let before = resident();
    for (what, prefix) in [("the same nodes", "host"), ("new nodes", "other")] {
        let table = Arc::new(size.table_of(&config, prefix));
        let ((), begun) = timed(|| engine.begin_nodes(table));
        let mut slices = vec![begun];
        while engine.is_refreshing() {
            slices.push(timed(|| engine.continue_refresh()).1);
            if let Some(task) = running.pop_front() {
                engine.end(Time::ZERO, task, done(Time::ZERO), None, Restart::AtOnce);
            }
            let mut tries = Tries::new(TRIES);
            let placed =
                engine.place_within(Time::ZERO, &mut tries, &mut |_: WorkerIndex, _: Due| {
                    Judged::UNSEEN
                });
            running.extend(placed.map(|placement| placement.task));
        }
        assert!(
            engine
                .nodes()
                .is_some_and(|nodes| nodes.len() > size.nodes())
        );
        let name = format!("{nodes} nodes, then {what}: longest slice");
        lines.extend(lines_of_slices(scale, name, slices));
        // Only the engine has nodes here.
        engine.all_nodes_are_held();
        let mut slices = Vec::new();
        while engine.is_refreshing() {
            slices.push(timed(|| engine.continue_refresh()).1);
        }
        let name = "  names that nobody has are given back: longest slice".to_owned();
        lines.extend(lines_of_slices(scale, name, slices));
        lines.push(Figure::new(
            "  memory afterwards, against that before",
            "MiB",
            (resident() - before) / MIB,
        ));
    }
    lines
}

fn lines_of_slices(scale: Scale, name: String, mut slices: Vec<Duration>) -> [Figure; 3] {
    let total: Duration = slices.iter().sum();
    slices.sort_unstable();
    let longest = slices.last().copied().unwrap_or_default();
    let usual = slices.get(slices.len() / 2).copied().unwrap_or_default();
    [
        scale.at_most(Figure::new(name, "ms", millis(longest)), SLICE_OF_REFRESH),
        Figure::new("  half of the slices take less than", "ms", millis(usual)),
        Figure::new(format!("  all {}", slices.len()), "ms", millis(total)),
    ]
}

/// Measures jobs that wait while no slot is free.
pub fn waiting(scale: Scale) -> Vec<Figure> {
    let (jobs, nodes) = match scale {
        Scale::Smoke => (50, 250),
        Scale::Usual | Scale::Large => (30_000, 1000),
    };
    let size = Size::of_nodes(nodes, jobs);
    let mut engine = size.engine();
    let started: Vec<_> = std::iter::from_fn(|| engine.place(Time::ZERO)).collect();
    assert_eq!(started.len(), size.slots(), "nothing is free");
    let ids: Vec<_> = engine.jobs().collect();
    let waiting = &ids[ids.len() - 10..];
    let task = engine.tasks(waiting[0]).next().expect("there are nodes");
    let (reasons, explain) = timed(|| engine.explain(Time::ZERO, task).len());
    let (levels, histograms) = timed(|| {
        let histograms = waiting.iter().map(|job| engine.histogram(*job, 10).len());
        histograms.sum::<usize>()
    });
    let (total, counts) = timed(|| {
        let counts = ids.iter().map(|job| engine.counts(*job).total);
        counts.sum::<u64>()
    });
    assert!(reasons > 0 && levels == 30, "there are answers");
    assert_eq!(total, (jobs * size.nodes()) as u64, "every task is counted");
    let (placed, idle) = timed(|| engine.place(Time::ZERO));
    assert_eq!(placed, None, "nothing is free");
    // One slot is freed and assigned.
    let ended = started[0].task;
    let (next, event) = timed(|| {
        engine.end(Time::ZERO, ended, done(Time::ZERO), None, Restart::AtOnce);
        std::iter::from_fn(|| engine.place(Time::ZERO)).count()
    });
    assert_eq!(next, 1, "one starts");
    let line = |what: &str, time| {
        Figure::new(format!("{jobs} jobs wait: {what}"), "ms", millis(time)).at_most(ANSWER)
    };
    vec![
        Figure::new(
            format!("{jobs} jobs wait: a completion and start"),
            "ms",
            millis(event),
        ),
        line("explain", explain),
        line("10 histograms", histograms),
        line("the counts of all", counts),
        line("a look for something to start", idle),
    ]
}
