//! Tests of the tasks that are next after a completion, and of the effect of held-back tasks on others.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::super::types::{AssociationIndex, ProcessorType, Task, TaskNumber, TaskStage};
use super::super::Preemption;
use super::properties::{amount, scene};
use super::rig::{LOST, NOBODY, STOPPED, SchedulingRig, at, cards, cpus, executing, numbers};

/// The caller that holds a task back reserves its GPUs, so the choice does not.
#[test]
fn what_cannot_begin_takes_nothing_and_lets_others_pass() {
    let mut scene = SchedulingRig::new(2, &[2]);
    scene.task(1, cards(0.0, 1.0));
    scene.task(2, cpus(1.0));
    scene.task(3, cpus(1.0));
    scene.task(4, cpus(1.0));
    scene.task(5, cards(0.0, 2.0));
    scene.held_back = [TaskNumber(1), TaskNumber(2)].into();
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.start), [5, 3, 4]);
    assert_eq!(numbers(&schedule.next), [1, 2]);
    // A running task is not affected by being held back.
    scene.tasks[0].stage = executing(900.0);
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.start), [3, 4]);
    assert_eq!(
        (numbers(&schedule.preempt), numbers(&schedule.next)),
        (NOBODY.to_vec(), vec![5, 2])
    );
    // A held-back task that was stopped does not continue.
    scene.tasks[2].stage = STOPPED;
    scene.held_back.insert(TaskNumber(3));
    let schedule = scene.choose();
    assert_eq!(
        (numbers(&schedule.start), numbers(&schedule.resume)),
        (vec![4], NOBODY.to_vec())
    );
}

#[test]
fn what_is_held_for_some_is_no_reason_to_fetch() {
    let mut scene = SchedulingRig::new(1, &[2]);
    scene.task(1, cpus(1.0)).stage = executing(900.0);
    for number in [2, 3] {
        scene.task(number, cards(0.0, 1.0));
        scene.held_back.insert(TaskNumber(number));
        let schedule = scene.choose();
        assert_eq!(schedule.idle[super::rig::CARDS], 2.0);
        // The two held-back tasks together claim both GPUs.
        assert_eq!(schedule.wants_fetch, number == 2);
    }
    // A task without its inputs claims nothing yet.
    scene.tasks[2].stage = TaskStage::WaitingForInputs { stalled: false };
    assert!(scene.choose().wants_fetch);
}

#[test]
fn what_cannot_run_brings_no_other_into_danger() {
    for (cannot, stage) in [
        (true, TaskStage::Queued),
        (false, TaskStage::WaitingForInputs { stalled: false }),
    ] {
        let mut scene = SchedulingRig::new(1, &[]);
        scene.task(1, cpus(1.0));
        scene.task(2, cpus(1.0)).deadline = Some(at(1100.0));
        let late = scene.task(3, cpus(1.0));
        late.deadline = Some(at(1050.0));
        late.stage = stage;
        scene.miss(3);
        if cannot {
            scene.held_back.insert(TaskNumber(3));
        }
        // If task 3 counted as in danger, task 2 would be picked by deadline in its place.
        assert_eq!(numbers(&scene.choose().start), [1]);
    }
}

#[test]
fn those_in_danger_are_next_then_cards_then_who_has_the_turn() {
    let mut scene = SchedulingRig::new(1, &[1]);
    scene.associate(100.0, 0.0);
    for number in [1, 2] {
        scene.task(number, cards(0.0, 1.0)).stage = TaskStage::Queued;
    }
    for number in [3, 4, 5, 6, 7, 8] {
        let task = scene.task(number, cpus(1.0));
        task.association = AssociationIndex(usize::from(number > 5));
        if number == 8 {
            task.deadline = Some(at(1100.0));
        }
    }
    scene.task(9, cards(0.0, 1.0)).deadline = Some(at(1200.0));
    scene.miss(8);
    scene.miss(9);
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.start), [9, 8]);
    // The two schedulers alternate: the first has a GPU, the second a CPU.
    assert_eq!(numbers(&schedule.next), [1, 2, 3, 6, 4, 7, 5]);
}

#[test]
fn what_stops_for_another_is_next() {
    let mut scene = SchedulingRig::new(1, &[]);
    scene.preemption = Preemption::Suspend;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).deadline = Some(at(1050.0));
    scene.task(3, cpus(1.0));
    scene.miss(2);
    let schedule = scene.choose();
    assert_eq!(
        (numbers(&schedule.preempt), numbers(&schedule.start)),
        (vec![1], vec![2])
    );
    assert_eq!(numbers(&schedule.next), [1, 3]);
}

#[test]
fn of_many_that_wait_all_are_next_in_turns() {
    let mut scene = SchedulingRig::new(4, &[]);
    scene.associate(100.0, 0.0);
    for number in 1..=20_000 {
        let task = scene.task(number, cpus(1.0));
        task.association = AssociationIndex(usize::from(number > 10_000));
    }
    let schedule = scene.choose();
    assert_eq!(numbers(&schedule.start), [1, 10_001, 2, 10_002]);
    let turns = (3..=10_000).flat_map(|number| [number, number + 10_000]);
    assert_eq!(numbers(&schedule.next), turns.collect::<Vec<_>>());
}

fn is_known(scene: &SchedulingRig, task: &Task) -> bool {
    task.association.0 < scene.associations.len()
        && (scene.processors.types()).any(|of_type| of_type == task.usage.processor_type())
}

/// Returns whether the task fits beside the running ones, by the rules of the choice.
fn fits(scene: &SchedulingRig, task: &Task) -> bool {
    let all = || scene.tasks.iter().filter(|task| is_known(scene, task));
    let running = || all().filter(|task| task.stage.is_executing());
    let used = |of| -> f64 { running().map(|task| amount(task.usage.of(of))).sum() };
    let (of_type, load) = (task.usage.processor_type(), used(ProcessorType::CPU));
    let there = scene.processors.instances(ProcessorType::CPU);
    let has_processors = if of_type == ProcessorType::CPU {
        there - load > 1e-6
    } else {
        let uses = |of| amount(task.usage.of(of));
        let has_cpus = load == 0.0 || load + uses(ProcessorType::CPU) <= there + 1.0 + 1e-6;
        has_cpus && used(of_type) + uses(of_type) <= scene.processors.instances(of_type) + 1e-6
    };
    let association = &scene.associations[task.association.0];
    let of_it = || running().filter(|other| other.association == task.association);
    let of_job = of_it().filter(|other| other.job == task.job).count();
    let below = |count: usize, limit: Option<u32>| limit.is_none_or(|limit| count < limit as usize);
    has_processors
        && below(of_it().count(), association.max_concurrent)
        && below(
            of_job,
            association.max_concurrent_of_jobs.get(&task.job).copied(),
        )
}

/// Starts the tasks of `next` that fit, in their order.
fn take(scene: &mut SchedulingRig, next: &[TaskNumber]) -> Vec<TaskNumber> {
    let mut taken = Vec::new();
    for number in next {
        let place = (scene.tasks.iter().position(|task| task.number == *number)).unwrap();
        if !scene.held_back.contains(number) && fits(scene, &scene.tasks[place]) {
            scene.tasks[place].stage = executing(1000.0);
            taken.push(*number);
        }
    }
    taken
}

integration_tests_properties::properties! {
    512;

    #[test]
    fn all_that_wait_are_next_once(scene in scene()) {
        let schedule = scene.choose();
        let begins: BTreeSet<_> = schedule.start.iter().chain(&schedule.resume).collect();
        let waits = |task: &&Task| {
            let stands = match task.stage {
                TaskStage::Executing { .. } => schedule.preempt.contains(&task.number),
                TaskStage::WaitingForInputs { .. } => false,
                TaskStage::Queued | TaskStage::Preempted { .. } => true,
            };
            stands && !begins.contains(&task.number) && !scene.ending.contains(&task.number)
        };
        let all = scene.tasks.iter().filter(|task| is_known(&scene, task)).filter(waits);
        let mut expected: Vec<_> = all.map(|task| task.number).collect();
        let mut next = schedule.next;
        expected.sort_unstable();
        next.sort_unstable();
        prop_assert_eq!(next, expected);
    }

    /// A caller that starts tasks from `next` leaves nothing that a new choice would start, whatever ends before the next choice.
    #[test]
    fn who_takes_what_is_next_leaves_a_fresh_choice_nothing_to_begin(
        scene in scene(), ends in vec(any::<bool>(), 20), free in vec(any::<bool>(), 20),
    ) {
        let mut scene = scene;
        scene.preemption = Preemption::Off;
        let schedule = scene.choose();
        scene.carry_out(&schedule);
        let mut ends = ends.into_iter();
        scene.tasks.retain(|task| !(ends.next().unwrap() && task.stage.is_executing()));
        let next: Vec<_> = schedule.next;
        // Some held-back tasks are free now.
        let mut free = free.into_iter();
        scene.held_back.retain(|_| !free.next().unwrap());
        take(&mut scene, &next);
        let fresh = scene.choose();
        prop_assert_eq!((fresh.start, fresh.resume), (vec![], vec![]));
    }

    /// If only processors have become free, the tasks that start from `next` are those of a new choice.
    #[test]
    fn the_first_that_are_next_are_those_of_a_fresh_choice(
        instances in 1_u32..6,
        shares in vec((1.0..100.0_f64, 0.0..10.0_f64), 1..4),
        tasks in vec((0_usize..4, option_of_deadline(), 0_u8..8, any::<bool>()), 0..30),
    ) {
        let mut scene = SchedulingRig::new(instances, &[]);
        for (share, rec) in &shares {
            scene.associate(*share, *rec);
        }
        for (number, (association, deadline, stage, misses)) in (1..).zip(tasks) {
            let task = scene.task(number, cpus(1.0));
            task.association = AssociationIndex(association.min(shares.len()));
            task.deadline = deadline.map(at);
            task.stage = match stage {
                0 => executing(990.0),
                1 => STOPPED,
                2 => LOST,
                _ => TaskStage::Queued,
            };
            if misses && deadline.is_some() && stage != 0 {
                scene.miss(number);
            }
            // A task that is ending is not planned for, so its end changes nothing else.
            if stage == 0 {
                scene.ending.insert(TaskNumber(number));
            }
        }
        let schedule = scene.choose();
        scene.carry_out(&schedule);
        scene.tasks.retain(|task| !scene.ending.contains(&task.number));
        let mut taking = scene.clone();
        let taken = take(&mut taking, &schedule.next);
        let fresh = scene.choose();
        let (mut fresh, mut taken) = ([fresh.start, fresh.resume].concat(), taken);
        fresh.sort_unstable();
        taken.sort_unstable();
        prop_assert_eq!(taken, fresh);
    }

    /// Held-back tasks do not affect the choice for others.
    #[test]
    fn who_is_held_back_changes_nothing_for_others(scene in scene()) {
        let held: BTreeSet<_> = {
            let held = scene.tasks.iter().filter(|task| scene.held_back.contains(&task.number));
            held.filter(|task| !task.stage.is_executing()).map(|task| task.number).collect()
        };
        let mut without = scene.clone();
        without.tasks.retain(|task| !held.contains(&task.number));
        let (with, without) = (scene.choose(), without.choose());
        prop_assert_eq!(with.start, without.start);
        prop_assert_eq!(with.preempt, without.preempt);
        prop_assert_eq!(with.resume, without.resume);
        prop_assert_eq!(with.idle, without.idle);
        prop_assert!(without.wants_fetch || !with.wants_fetch);
    }
}

fn option_of_deadline() -> impl Strategy<Value = Option<f64>> {
    proptest::option::weighted(0.5, 1000.0..1500.0_f64)
}
