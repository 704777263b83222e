//! Tests of the averages against precomputed values, of the rules of intervals, and that always busy schedulers get their shares.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::Time;
use proptest::num::f64::ANY;
use proptest::prelude::*;

use super::super::priority::Priorities;
use super::super::profile::Profile;
use super::super::types::{
    Association, AssociationIndex, ProcessorKind, ProcessorType, ProcessorUsage, Processors, Task,
    TaskNumber, TaskStage,
};
use super::{Accounting, DAY, SavedRec, update_average};

const TEN_DAYS: f64 = 10.0 * DAY;

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

fn processors() -> Processors {
    let kind = |instances, relative_speed| ProcessorKind {
        name: "some".to_owned(),
        instances,
        relative_speed,
        availability: 1.0,
    };
    Processors::new(kind(4, 1.0), vec![kind(2, 0.2)])
}

fn executing(association: usize, cpus: f64, since: f64) -> Task {
    Task {
        number: TaskNumber(0),
        association: AssociationIndex(association),
        job: 0,
        usage: ProcessorUsage { cpus, cards: None },
        remaining: 60.0,
        received: Time::ZERO,
        deadline: None,
        stage: TaskStage::Executing { since: at(since) },
    }
}

fn volunteer(associations: usize, now: f64) -> Accounting {
    let saved = vec![SavedRec::default(); associations];
    Accounting::new(&saved, at(now), &Profile::VOLUNTEER)
}

/// One busy CPU instance counts as 200 per day.
#[test]
fn averages_are_those_of_the_vectors() {
    for (average, interval, busy, expected) in [
        (0.0, 60.0, 1.0, 0.009_626_812_478_202_85),
        (100.0, 60.0, 0.0, 99.995_186_593_760_9),
        (100.0, TEN_DAYS, 0.0, 50.0),
        (100.0, 3600.0, 4.0, 102.018_762_665_787_56),
        (0.0, 0.5, 1.0, 8.022_536_812_036_402e-5),
        (200.0, DAY, 1.0, 200.0),
    ] {
        let work = busy * interval / DAY * 200.0;
        let computed = update_average(average, interval, work, TEN_DAYS);
        let error = (computed - expected).abs() / expected;
        assert!(error < 1e-14, "{computed} is not {expected}");
    }
}

#[test]
fn a_half_life_halves_and_one_of_ln_2_weeks_is_a_factor_of_e_a_week() {
    let a_week = 7.0 * DAY;
    let after_a_week = update_average(1.0, a_week, 0.0, a_week * std::f64::consts::LN_2);
    assert!((after_a_week - (-1.0_f64).exp()).abs() < 1e-15);
    for none in [0.0, -1.0, f64::NAN] {
        assert_eq!(update_average(8.0, TEN_DAYS, 0.0, none), 4.0);
    }
}

#[test]
fn what_executes_is_counted_from_where_it_began() {
    let mut accounting = volunteer(2, 1000.0);
    // 60 s on two CPUs, and 15 s on one CPU and one GPU of relative speed 0.2.
    let mut with_cards = executing(1, 1.0, 1045.0);
    with_cards.usage.cards = Some((ProcessorType(1), 1.0));
    let tasks = [executing(0, 2.0, 0.0), with_cards];
    accounting.adjust(at(1060.0), &tasks, &processors());
    let of = |instance_seconds: f64| update_average(0.0, 60.0, instance_seconds / DAY, TEN_DAYS);
    assert_eq!(accounting.averages(), [of(120.0), of(15.0 * 1.2)]);
}

#[test]
fn only_what_executes_counts() {
    let mut accounting = volunteer(1, 0.0);
    let stages = [
        TaskStage::Queued,
        TaskStage::WaitingForInputs { stalled: false },
        TaskStage::Preempted { has_process: true },
    ];
    let tasks = stages.map(|stage| Task {
        stage,
        ..executing(0, 1.0, 0.0)
    });
    accounting.stopped(at(30.0), &tasks[2], &processors());
    accounting.adjust(at(60.0), &tasks, &processors());
    assert_eq!(accounting.averages(), [0.0]);
}

#[test]
fn what_stopped_within_an_interval_counts_with_its_part() {
    let mut whole = volunteer(1, 0.0);
    let mut parts = whole.clone();
    whole.adjust(at(60.0), &[executing(0, 1.0, 0.0)], &processors());
    parts.stopped(at(20.0), &executing(0, 1.0, 0.0), &processors());
    parts.stopped(at(50.0), &executing(0, 1.0, 20.0), &processors());
    parts.adjust(at(60.0), &[executing(0, 1.0, 50.0)], &processors());
    assert_eq!(whole, parts);
}

#[test]
fn intervals_that_are_too_long_or_turn_back_are_dropped() {
    let task = [executing(0, 1.0, 0.0)];
    let mut accounting = volunteer(1, 1000.0);
    accounting.stopped(at(1120.5), &task[0], &processors());
    accounting.adjust(at(1120.5), &task, &processors());
    assert_eq!(accounting.averages(), [0.0], "too long");
    accounting.adjust(at(500.0), &task, &processors());
    assert_eq!(accounting.averages(), [0.0], "turned back");
    // The next interval starts anew, and the average keeps its age.
    accounting.adjust(at(620.0), &task, &processors());
    let grown = update_average(0.0, 0.0, 120.0 / DAY, TEN_DAYS);
    assert_eq!(accounting.averages(), [grown]);
}

#[test]
fn intervals_that_are_too_short_go_on() {
    let task = [executing(0, 1.0, 0.0)];
    let mut in_steps = volunteer(1, 0.0);
    let mut at_once = in_steps.clone();
    in_steps.adjust(at(0.5), &task, &processors());
    in_steps.adjust(at(0.99), &task, &processors());
    assert_eq!(in_steps, at_once);
    in_steps.adjust(at(1.5), &task, &processors());
    at_once.adjust(at(1.5), &task, &processors());
    assert_eq!(in_steps, at_once);
    assert!(in_steps.averages()[0] > 0.0);
}

#[test]
fn a_task_of_nobody_is_no_ones() {
    let mut accounting = volunteer(1, 0.0);
    accounting.adjust(at(60.0), &[executing(1, 1.0, 0.0)], &processors());
    assert_eq!(accounting.averages(), [0.0]);
    // GPUs that the worker does not have count as nothing.
    let mut strange = executing(0, 0.0, 60.0);
    strange.usage.cards = Some((ProcessorType(7), 1.0));
    accounting.adjust(at(120.0), &[strange], &processors());
    assert_eq!(accounting.averages(), [0.0]);
}

#[test]
fn a_restart_loses_nothing_but_what_time_takes() {
    let mut accounting = volunteer(2, 0.0);
    accounting.adjust(at(60.0), &[executing(1, 4.0, 0.0)], &processors());
    let before = accounting.averages()[1];
    let saved = accounting.save(at(100.0));
    assert_eq!(saved[1].age, 40.0);
    let away = TEN_DAYS - 40.0;
    let saved: Vec<_> = saved.into_iter().map(|one| one.older(away)).collect();
    let again = Accounting::new(&saved, at(7.0), &Profile::VOLUNTEER);
    assert_eq!(again.averages(), [0.0, before / 2.0]);
}

/// Returns the work that two always busy schedulers received of one CPU in three half-lives, if the higher priority always runs.
fn got(shares: [f64; 2], profile: &Profile) -> [f64; 2] {
    let associations = shares.map(|share| Association {
        share,
        max_concurrent: None,
        max_concurrent_of_jobs: BTreeMap::new(),
    });
    let mut accounting = Accounting::new(&[SavedRec::default(); 2], at(0.0), profile);
    let mut got = [0.0; 2];
    let mut now = 0.0;
    while now < 3.0 * profile.rec_half_life {
        let priorities = Priorities::new(&associations, accounting.averages(), &[true; 2]);
        let first = priorities.in_order()[0];
        now += profile.schedule_period;
        got[first.0] += profile.schedule_period;
        accounting.adjust(at(now), &[executing(first.0, 1.0, 0.0)], &processors());
    }
    got
}

#[test]
fn who_is_always_busy_gets_its_share() {
    for profile in [Profile::CLUSTER, Profile::VOLUNTEER] {
        for shares in [[100.0, 300.0], [100.0, 100.0], [900.0, 100.0]] {
            let [one, other] = got(shares, &profile);
            let error = (one / other) / (shares[0] / shares[1]) - 1.0;
            assert!(error.abs() < 0.05, "{shares:?}: {one} and {other}");
        }
    }
}

integration_tests_properties::properties! {
    256;

    /// The function has no unit of its own. Scaling by a power of two is exact.
    #[test]
    fn a_scale_of_what_was_got_and_of_what_is_got_scales_the_average(
        average in 0.0..1000.0_f64, since in prop_oneof![Just(0.0), 0.01..1.0_f64, 1.0..1e6_f64],
        work in 0.0..10.0_f64, half_life in 60.0..1e6_f64, power in -10_i32..10,
    ) {
        // Smaller averages count as 0.
        prop_assume!(average == 0.0 || average > 1e-9);
        let scale = 2_f64.powi(power);
        let plain = update_average(average, since, work, half_life);
        let scaled = update_average(scale * average, since, scale * work, half_life);
        prop_assert_eq!(scaled, scale * plain);
    }

    #[test]
    fn an_average_is_an_amount_whatever_comes(
        average in ANY, since in ANY, work in ANY, half_life in ANY,
    ) {
        let updated = update_average(average, since, work, half_life);
        prop_assert!(updated.is_finite() && updated >= 0.0);
    }

    /// Work is conserved: all schedulers together receive what a single one would.
    #[test]
    fn what_all_get_is_what_one_would_get_alone(
        tasks in proptest::collection::vec((0_usize..3, 0.0..4.0_f64, 0.0..60.0_f64, any::<bool>()), 0..12),
        before in [0.0..10.0_f64, 0.0..10.0, 0.0..10.0],
    ) {
        let saved = before.map(|average| SavedRec { average, age: 0.0 });
        let alone = SavedRec { average: before.iter().sum(), age: 0.0 };
        let mut all = Accounting::new(&saved, at(0.0), &Profile::VOLUNTEER);
        let mut one = Accounting::new(&[alone], at(0.0), &Profile::VOLUNTEER);
        let (mut executing_of_all, mut executing_of_one) = (Vec::new(), Vec::new());
        for (association, cpus, since, stops) in tasks {
            let (task, same) = (executing(association, cpus, since), executing(0, cpus, since));
            if stops {
                all.stopped(at(60.0), &task, &processors());
                one.stopped(at(60.0), &same, &processors());
            } else {
                executing_of_all.push(task);
                executing_of_one.push(same);
            }
        }
        all.adjust(at(60.0), &executing_of_all, &processors());
        one.adjust(at(60.0), &executing_of_one, &processors());
        let sum: f64 = all.averages().iter().sum();
        prop_assert!((sum - one.averages()[0]).abs() <= 1e-9 * (1.0 + sum));
    }

    /// The number of steps with equal load does not matter.
    #[test]
    fn steps_of_the_same_load_add_up(
        average in 0.0..10.0_f64, load in 0.0..10.0_f64, one in 60.0..DAY, other in 60.0..DAY,
    ) {
        let step = |from: f64, seconds: f64| update_average(from, seconds, load * seconds / DAY, TEN_DAYS);
        let in_two = step(step(average, one), other);
        let at_once = step(average, one + other);
        prop_assert!((in_two - at_once).abs() <= 1e-9 * (1.0 + at_once));
    }
}
