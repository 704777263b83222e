//! Tests of the tasks that fit, and of the running tasks that stop.

use super::super::super::profile::Profile;
use super::super::super::types::{ProcessorType, ProcessorUsage, TaskNumber, TaskStage};
use super::super::Preemption::{Off, Suspend};
use super::rig::{CARDS, NOBODY, STOPPED, SchedulingRig, at, cards, cpus, executing, numbers};

/// Returns which of these queued tasks start on this many CPUs and GPUs.
fn starts(cpus: u32, cards: u32, wanted: &[ProcessorUsage]) -> Vec<u64> {
    let mut scene = SchedulingRig::new(cpus, &[cards]);
    for (number, wanted) in (1..).zip(wanted) {
        scene.task(number, *wanted);
    }
    numbers(&scene.choose().start)
}

#[test]
fn the_cpu_is_used_until_none_is_free() {
    assert_eq!(starts(2, 0, &[cpus(1.0); 4]), [1, 2]);
    assert_eq!(starts(2, 0, &[cpus(0.5); 9]), [1, 2, 3, 4]);
    // The last task may exceed the CPUs.
    assert_eq!(starts(2, 0, &[cpus(0.8); 9]), [1, 2, 3]);
    // A task that wants many CPUs starts on any free CPU, before tasks that want one.
    assert_eq!(starts(4, 0, &[cpus(1.0), cpus(4.0), cpus(1.0)]), [2]);
    assert_eq!(starts(4, 0, &[cpus(3.0), cpus(1.0), cpus(9.0)]), [3]);
    assert_eq!(starts(4, 0, &[cpus(3.0), cpus(1.0), cpus(2.0)]), [1, 3]);
    assert_eq!(starts(0, 0, &[cpus(1.0), cpus(0.0)]), NOBODY);
    assert_eq!(
        starts(2, 0, &[cpus(f64::NAN), cpus(-1.0), cpus(1.0)]).len(),
        3
    );
}

#[test]
fn with_many_processors_wanted_at_once_nobody_starves() {
    // Tasks with one CPU take all CPUs, one ends each second, and more arrive.
    let mut scene = SchedulingRig::new(4, &[]);
    for number in 1..=4 {
        scene.task(number, cpus(1.0)).stage = executing(900.0);
    }
    scene.task(5, cpus(4.0));
    scene.task(6, cpus(1.0));
    assert_eq!(numbers(&scene.choose().start), NOBODY);
    scene.tasks.remove(0);
    assert_eq!(numbers(&scene.choose().start), [5]);
}

#[test]
fn beside_cards_the_cpu_may_have_one_to_do_that_it_has_not() {
    assert_eq!(starts(2, 4, &[cards(1.0, 1.0); 4]), [1, 2, 3]);
    assert_eq!(starts(2, 4, &[cards(0.4, 1.0); 4]), [1, 2, 3, 4]);
    assert_eq!(starts(2, 4, &[cards(2.0, 1.0), cards(1.5, 1.0)]), [1]);
    // GPU tasks come first and leave no CPU to CPU tasks.
    assert_eq!(
        starts(1, 2, &[cpus(1.0), cards(1.0, 1.0), cards(1.0, 1.0)]),
        [2, 3]
    );
    assert_eq!(
        starts(2, 1, &[cpus(1.0), cards(1.0, 1.0), cpus(1.0)]),
        [2, 1]
    );
    // A task that wants more than all CPUs starts once all are free.
    assert_eq!(starts(2, 2, &[cards(4.0, 1.0), cards(0.1, 1.0)]), [1]);
    let mut scene = SchedulingRig::new(2, &[1]);
    scene.task(1, cpus(1.0)).stage = executing(900.0);
    scene.task(2, cpus(1.0)).stage = executing(900.0);
    scene.task(3, cards(1.0, 1.0));
    assert_eq!(numbers(&scene.choose().start), [3]);
    scene.tasks[2].usage.cpus = 1.1;
    assert_eq!(numbers(&scene.choose().start), NOBODY);
}

#[test]
fn nobody_shares_a_card_beyond_what_it_has() {
    let mut scene = SchedulingRig::new(4, &[2]);
    scene.task(1, cards(0.0, 1.5)).stage = executing(900.0);
    scene.task(2, cards(0.0, 1.0)).deadline = Some(at(1100.0));
    scene.task(3, cards(0.0, 0.5));
    scene.miss(2);
    // The task with the near deadline does not fit, but leaves room for another.
    assert_eq!(numbers(&scene.choose().start), [3]);
    // Here no room is left.
    scene.tasks[2].usage = cards(0.0, 1.0);
    assert_eq!(numbers(&scene.choose().start), NOBODY);
    scene.tasks.remove(0);
    assert_eq!(numbers(&scene.choose().start), [2, 3]);
}

#[test]
fn no_more_run_at_once_than_may() {
    let mut scene = SchedulingRig::new(4, &[]);
    scene.associations[0].max_concurrent = Some(3);
    scene.associations[0].max_concurrent_of_jobs = [(7, 1), (8, 0)].into();
    scene.task(1, cpus(1.0)).job = 8;
    for number in [2, 3] {
        scene.task(number, cpus(1.0)).job = 7;
    }
    for number in 4..=9 {
        scene.task(number, cpus(1.0));
    }
    assert_eq!(numbers(&scene.choose().start), [2, 4, 5]);
    // More tasks run than allowed, as after a lowered limit.
    for task in &mut scene.tasks[3..7] {
        task.stage = executing(900.0);
    }
    let schedule = scene.choose();
    assert_eq!((schedule.start, schedule.preempt), (vec![], vec![]));
    scene.preemption = Suspend;
    for (profile, stopped) in [(Profile::CLUSTER, vec![]), (Profile::VOLUNTEER, vec![7])] {
        scene.profile = profile;
        assert_eq!(numbers(&scene.choose().preempt), stopped);
    }
}

#[test]
fn what_runs_stays_if_nothing_may_be_stopped() {
    let mut scene = SchedulingRig::new(1, &[]);
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).deadline = Some(at(1001.0));
    scene.miss(2);
    let schedule = scene.choose();
    assert_eq!((schedule.start, schedule.preempt), (vec![], vec![]));
    assert!(!schedule.wants_fetch);
}

#[test]
fn what_is_in_danger_takes_the_place_of_what_is_not() {
    let mut scene = SchedulingRig::new(2, &[]);
    scene.preemption = Suspend;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).stage = executing(999.0);
    scene.task(3, cpus(1.0)).deadline = Some(at(1001.0));
    scene.miss(3);
    let schedule = scene.choose();
    // The running task whose slice is over stops.
    assert_eq!(
        (numbers(&schedule.start), numbers(&schedule.preempt)),
        (vec![3], vec![1])
    );
    scene.task(4, cpus(1.0)).deadline = Some(at(1001.0));
    scene.miss(4);
    let schedule = scene.choose();
    assert_eq!(
        (numbers(&schedule.start), numbers(&schedule.preempt)),
        (vec![3, 4], vec![1, 2])
    );
}

#[test]
fn a_slice_that_is_not_over_protects_from_those_with_higher_priority() {
    for (since, stopped) in [(999.0, vec![]), (997.0, vec![]), (996.9, vec![1])] {
        let mut scene = SchedulingRig::new(1, &[]);
        scene.preemption = Suspend;
        scene.rec[0] = 100.0;
        scene.associate(100.0, 0.0);
        scene.task(1, cpus(1.0)).stage = executing(since);
        scene.task(2, cpus(1.0)).association.0 = 1;
        assert_eq!(numbers(&scene.choose().preempt), stopped, "{since}");
        // The result is the same if so many tasks come before it that it is not listed.
        scene.task(3, cpus(1.0)).association.0 = 1;
        assert_eq!(scene.listed_numbers(), [2, 3]);
        assert_eq!(numbers(&scene.choose().preempt), stopped, "{since}");
    }
}

#[test]
fn on_a_volunteers_machine_a_slice_is_an_hour() {
    for (since, stopped) in [(6400.0, vec![]), (6399.9, vec![1])] {
        let mut scene = SchedulingRig::new(1, &[]);
        scene.now = at(10_000.0);
        scene.profile = Profile::VOLUNTEER;
        scene.preemption = Suspend;
        scene.rec[0] = 100.0;
        scene.associate(100.0, 0.0);
        scene.task(1, cpus(1.0)).stage = executing(since);
        scene.task(2, cpus(1.0)).association.0 = 1;
        assert_eq!(numbers(&scene.choose().preempt), stopped, "{since}");
    }
}

#[test]
fn who_would_stop_for_nobody_goes_on() {
    let mut scene = SchedulingRig::new(2, &[2]);
    scene.preemption = Suspend;
    scene.rec[0] = 1e6;
    scene.associate(100.0, 0.0);
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    // Four other tasks fill the list, but the last CPU is reserved for a GPU task that needs more CPUs than are free.
    for number in 2..=5 {
        scene.task(number, cpus(1.0)).association.0 = 1;
    }
    scene.task(6, cards(1.0, 1.0)).stage = executing(0.0);
    scene.task(7, cards(3.0, 1.0));
    assert_eq!(scene.listed_numbers(), [6, 7, 2, 3, 4, 5]);
    let schedule = scene.choose();
    assert_eq!((schedule.start, schedule.preempt), (vec![], vec![]));
}

#[test]
fn a_task_with_cards_is_not_stopped() {
    let mut scene = SchedulingRig::new(2, &[1]);
    scene.preemption = Suspend;
    scene.task(1, cards(1.0, 1.0)).stage = executing(0.0);
    scene.task(2, cards(1.0, 1.0)).deadline = Some(at(1001.0));
    scene.miss(2);
    let schedule = scene.choose();
    assert_eq!((schedule.start, schedule.preempt), (vec![], vec![]));
    // The ending task holds CPUs too.
    scene.processors = SchedulingRig::new(1, &[1]).processors;
    scene.task(3, cpus(1.0));
    assert_eq!(numbers(&scene.choose().start), NOBODY);
}

#[test]
fn what_is_ending_keeps_what_it_has_until_it_is_gone() {
    for preemption in [Off, Suspend] {
        let mut scene = SchedulingRig::new(1, &[]);
        scene.preemption = preemption;
        scene.task(1, cpus(1.0)).stage = executing(0.0);
        scene.task(2, cpus(1.0)).deadline = Some(at(1001.0));
        scene.miss(2);
        scene.ending.insert(TaskNumber(1));
        let schedule = scene.choose();
        assert_eq!((schedule.start, schedule.preempt), (vec![], vec![]));
        // A stopped task that is ending does not continue.
        scene.tasks[0].stage = STOPPED;
        let schedule = scene.choose();
        assert_eq!(
            (numbers(&schedule.start), schedule.resume),
            (vec![2], vec![])
        );
    }
}

#[test]
fn of_those_that_begin_the_most_important_comes_first() {
    let mut scene = SchedulingRig::new(8, &[1]);
    scene.task(1, cpus(1.0));
    scene.task(2, cpus(2.0));
    scene.task(3, cards(0.0, 1.0));
    scene.task(4, cpus(1.0)).deadline = Some(at(1100.0));
    scene.task(5, cpus(1.0));
    scene.miss(4);
    assert_eq!(numbers(&scene.choose().start), [4, 3, 2, 1, 5]);
}

#[test]
fn what_stays_idle_asks_for_work() {
    for (wanted, idle, wants_fetch) in [
        (vec![], (2.0, 1.0), true),
        (vec![cpus(0.5), cards(0.0, 0.75)], (1.5, 0.25), true),
        (vec![cpus(2.0), cards(0.0, 0.5)], (0.0, 0.5), true),
        (vec![cpus(5.0), cards(0.5, 1.0)], (0.0, 0.0), false),
        (vec![cpus(2.0), cards(0.0, 1.0 - 1e-9)], (0.0, 0.0), false),
    ] {
        let mut scene = SchedulingRig::new(2, &[1]);
        for (number, wanted) in (1..).zip(&wanted) {
            scene.task(number, *wanted).stage = executing(900.0);
        }
        let schedule = scene.choose();
        let of = (schedule.idle[ProcessorType::CPU], schedule.idle[CARDS]);
        assert_eq!(
            (of, schedule.wants_fetch),
            (idle, wants_fetch),
            "{wanted:?}"
        );
    }
}

#[test]
fn without_tasks_and_without_schedulers_there_is_nothing_to_do() {
    let mut scene = SchedulingRig::new(0, &[0]);
    scene.associations.clear();
    scene.rec.clear();
    scene.outlook.of_association.clear();
    scene.task(1, cpus(1.0)).stage = TaskStage::Queued;
    let schedule = scene.choose();
    assert!(schedule.start.is_empty() && !schedule.wants_fetch);
}
