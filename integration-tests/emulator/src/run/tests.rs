//! Tests of small runs, computed by hand.

use super::*;
use crate::outcome::{ContactKind, ContactResult};
use crate::scenario::Overrides;

fn scenario(text: &str) -> Scenario {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, text).unwrap();
    let read = Scenario::read(&path, &Overrides::default());
    read.unwrap_or_else(|told| panic!("{told}"))
}

fn play(text: &str) -> Outcome {
    run(&scenario(text), &mut |_| ())
}

#[track_caller]
fn near(got: f64, expected: f64) {
    // The rounding error of many steps grows with the sum.
    let error = (got - expected).abs();
    assert!(
        error < 1e-6_f64.max(1e-12 * expected.abs()),
        "{got} is not {expected}"
    );
}

const ONE: &str = r#"
duration = 100
delta = 10
[worker]
cpus = 1
[[scheduler]]
name = "s"
"#;

#[test]
fn two_tasks_of_thirty_seconds_leave_forty_of_a_hundred() {
    let text = format!("{ONE}[[scheduler.job]]\nname = \"a\"\nruns = 30\ncount = 2\n");
    let outcome = play(&text);
    near(outcome.figures.idle, 0.4);
    near(outcome.allowed_idle, 0.4);
    near(outcome.figures.wasted, 0.0);
    assert_eq!((outcome.totals.jobs, outcome.schedulers[0].met), (2, 2));
    // The second task starts at the end of the first one.
    let scenario = scenario(&text);
    let mut world = EmulatedWorld::new(&scenario);
    world.begin();
    while world.elapsed() < 60.0 {
        world.step();
    }
    near(world.tally.all_used()[0] / scenario.worker.flops, 60.0);
}

#[test]
fn what_is_late_is_wasted() {
    // One task ends after 30 s and one after 60 s; both deadlines are at 40 s. The worker has both tasks from the start.
    let text = format!(
        "{ONE}[[scheduler.job]]\nname = \"a\"\nruns = 30\nqueued = 2\ncount = 0\ndeadline = 40\nestimate = {{ mean = \"1s\" }}\n"
    );
    let outcome = play(&text);
    near(outcome.figures.wasted, 0.3);
    let scheduler = &outcome.schedulers[0];
    assert_eq!((scheduler.met, scheduler.missed), (1, 1));
}

#[test]
fn slots_are_filled_unasked_and_only_ends_are_told() {
    let text =
        format!("{ONE}[[scheduler.job]]\nname = \"a\"\nruns = 25\n[policy]\ndispatch = \"push\"\n");
    let outcome = play(&text);
    near(outcome.figures.idle, 0.0);
    assert_eq!(outcome.totals.jobs, 4);
    assert!(
        outcome
            .contacts
            .iter()
            .all(|it| it.kind == ContactKind::Report)
    );
    // The last task ends with the run, so its report does not count.
    near(outcome.figures.rpcs_per_job, 3.0 / 8.0);
}

#[test]
fn tasks_that_are_here_before_it_begins_run_without_anybody() {
    let text = format!(
        "{ONE}available = {{ part = 1e-9, mean = \"1s\" }}\n[[scheduler.job]]\nname = \"a\"\nruns = 30\nqueued = 2\ncount = 0\n"
    );
    let outcome = play(&text);
    near(outcome.figures.idle, 0.4);
    assert_eq!(outcome.totals.contacts, 0);
    let failed = |it: &Contact| it.result == ContactResult::Failed;
    assert!(outcome.contacts.iter().filter(|it| failed(it)).count() > 1);
    assert_eq!(outcome.schedulers[0].met, 0, "nobody could be told");
}

#[test]
fn a_worker_refuses_what_would_wait_for_too_long() {
    // The buffer is ten seconds, so at most twenty may wait, whatever the scheduler's slots.
    let text = format!(
        "{ONE}slots = 50\n[[scheduler.job]]\nname = \"a\"\nruns = 8\ncount = 50\n[policy]\ndispatch = \"push\"\nwork_buffer_min = 5\nwork_buffer_additional = 5\n"
    );
    let outcome = play(&text);
    near(outcome.figures.idle, 0.0);
    let most = outcome.series.iter().map(|it| it.schedulers[0].tasks).max();
    assert!(most <= Some(4), "{most:?}");
    assert!(outcome.schedulers[0].refused > 5, "{outcome:?}");
    assert_eq!(outcome.schedulers[0].failed, 0);
}

#[test]
fn failing_tasks_run_again() {
    let text = format!("{ONE}[[scheduler.job]]\nname = \"a\"\nruns = 5\nfails = 0.5\ncount = 3\n");
    let outcome = play(&text);
    let scheduler = &outcome.schedulers[0];
    assert_eq!(scheduler.met, 3);
    assert_eq!(scheduler.jobs, 3 + scheduler.failed);
    assert!(scheduler.failed > 0, "the seed was chosen for it");
}

#[test]
fn cards_need_their_own_time_and_some_cpu() {
    let text = r#"
duration = 100
delta = 10
[worker]
cpus = 1
[[worker.cards]]
model = "X"
count = 1
speed = 9
[[scheduler]]
name = "s"
[[scheduler.job]]
name = "a"
runs = 50
card = "X"
cpus = 0.5
count = 1
"#;
    let outcome = play(text);
    // The GPU task takes 50 s of a GPU that counts as nine CPUs, and of half a CPU.
    near(outcome.figures.idle, 1.0 - 50.0 * 9.5 / 1000.0);
    near(outcome.allowed_idle, outcome.figures.idle);
}

/// The worker and the bound start two of four tasks: each task needs the only CPU, and GPU tasks may use one CPU more than the worker has.
#[test]
fn gpus_whose_tasks_find_no_cpu_are_allowed_to_be_idle() {
    let text = r#"
duration = 100
delta = 10
[worker]
cpus = 1
[[worker.cards]]
model = "X"
count = 4
speed = 9
[[scheduler]]
name = "s"
[[scheduler.job]]
name = "a"
runs = 100
card = "X"
cpus = 1
"#;
    let outcome = play(text);
    near(outcome.allowed_idle, 1.0 - 2.0 * 10.0 / 37.0);
    let excess = outcome.figures.idle - outcome.allowed_idle;
    assert!((0.0..0.001).contains(&excess), "{excess}");
}

#[test]
fn cpus_that_have_too_much_to_do_are_slower() {
    let version = |cpus, cards| Version {
        cpus,
        cards,
        flops: 1.0,
    };
    let scale = |cpus, all: &[Version]| cpu_scale(cpus, all.iter());
    near(scale(4, &[version(3.0, None), version(1.0, None)]), 1.0);
    near(
        scale(4, &[version(3.0, None), version(3.0, None)]),
        4.0 / 6.0,
    );
    let card = version(1.0, Some((0, 1.0)));
    near(scale(4, &[version(4.0, None), card]), 3.0 / 4.0);
    near(scale(4, &[version(0.0, None), card]), 1.0);
    near(scale(1, &[]), 1.0);
}

#[test]
fn a_worker_that_may_not_compute_does_not() {
    let text = r#"
duration = "2h"
delta = 10
[worker]
cpus = 2
on = { part = 0.6, mean = "5m" }
active = { part = 0.7, mean = "3m" }
[[scheduler]]
name = "s"
[[scheduler.job]]
name = "a"
runs = 45
"#;
    let scenario = scenario(text);
    let mut world = EmulatedWorld::new(&scenario);
    world.begin();
    let mut off = 0.0;
    while world.now < world.end {
        let (before, used) = (world.elapsed(), world.tally.all_used()[0]);
        world.step();
        if !world.is.active {
            off += world.elapsed() - before;
            assert!(world.lives.values().all(|life| !life.runs));
            near(world.tally.all_used()[0], used);
        }
    }
    let outcome = world.finish();
    near(outcome.totals.could, 2.0 * 1e9 * (7200.0 - off));
    assert!(off > 2000.0, "{off}");
    assert!(outcome.figures.idle < 0.05, "{}", outcome.figures.idle);
}

#[test]
fn slots_follow_shares_in_whole_instances() {
    let three = "[worker]\ncpus = 4\n[[scheduler]]\nname = \"a\"\nshare = 25\n[[scheduler.job]]\nname = \"j\"\nruns = 1\n[[scheduler]]\nname = \"b\"\nshare = 60\n[[scheduler.job]]\nname = \"j\"\nruns = 1\n[[scheduler]]\nname = \"c\"\nshare = 15\n[[scheduler.job]]\nname = \"j\"\nruns = 1\n";
    // The exact shares are 1, 2.4 and 0.6.
    assert_eq!(talk::slots(&scenario(three)), [[1.0], [2.0], [1.0]]);
    let fixed = three.replace("share = 15", "share = 15\nslots = 3");
    assert_eq!(talk::slots(&scenario(&fixed)), [[1.0], [2.0], [3.0]]);
}
