//! Tests of the run list and its order.

use super::super::super::priority::Priorities;
use super::super::super::types::{
    AssociationIndex, ProcessorKind, ProcessorType, ProcessorUsage, Processors, TaskNumber,
    TaskStage,
};
use super::super::contenders::Contenders;
use super::super::contenders::Reason::{Deadline, Priority};
use super::rig::{LOST, STOPPED, SchedulingRig, at, cards, cpus, executing, kind};

#[test]
fn each_model_of_cards_then_the_cpu_and_of_each_deadlines_first() {
    let mut scene = SchedulingRig::new(1, &[1, 1]);
    let other_cards = ProcessorUsage {
        cpus: 0.1,
        cards: Some((ProcessorType(2), 0.5)),
    };
    scene.task(1, cpus(1.0));
    scene.task(2, cpus(1.0)).deadline = Some(at(1100.0));
    scene.task(3, other_cards);
    scene.task(4, other_cards).deadline = Some(at(1100.0));
    scene.task(5, cards(0.1, 0.5));
    scene.task(6, cards(0.1, 0.5)).deadline = Some(at(1100.0));
    for number in [2, 4, 6] {
        scene.miss(number);
    }
    let expected = [
        (6, Deadline),
        (5, Priority),
        (4, Deadline),
        (3, Priority),
        (2, Deadline),
        (1, Priority),
    ];
    assert_eq!(scene.listed(), expected);
}

#[test]
fn of_those_in_danger_the_nearest_deadline_comes_first() {
    // Each row: deadline, remaining time and stage of two tasks, the better one first.
    let rows = [
        ((1100.0, 50.0, TaskStage::Queued), (1101.0, 10.0, STOPPED)),
        (
            (1100.0, 50.0, TaskStage::Queued),
            (1100.0, 60.0, TaskStage::Queued),
        ),
        ((1100.0, 50.0, STOPPED), (1100.0, 60.0, executing(990.0))),
        // A started task comes first, whatever its remaining time.
        ((1100.0, 60.0, STOPPED), (1100.0, 50.0, TaskStage::Queued)),
        ((1100.0, 60.0, LOST), (1100.0, f64::NAN, TaskStage::Queued)),
        // A past deadline is as good as any.
        ((900.0, 50.0, TaskStage::Queued), (1100.0, 50.0, STOPPED)),
    ];
    for usage in [cpus(1.0), cards(0.0, 1.0)] {
        for (better, worse) in rows {
            for order in [[better, worse], [worse, better]] {
                let mut scene = SchedulingRig::new(1, &[1]);
                for (number, (deadline, remaining, stage)) in (1..).zip(order) {
                    let task = scene.task(number, usage);
                    task.deadline = Some(at(deadline));
                    task.remaining = remaining;
                    task.stage = stage;
                    scene.miss(number);
                }
                let first = if order[0] == better { 1 } else { 2 };
                assert_eq!(scene.listed()[0], (first, Deadline), "{better:?} {worse:?}");
            }
        }
    }
}

#[test]
fn as_many_are_picked_by_deadline_as_are_in_danger_and_no_more() {
    let mut scene = SchedulingRig::new(2, &[]);
    for (number, deadline) in [(1, 1400.0), (2, 1300.0), (3, 1200.0), (4, 1100.0)] {
        scene.task(number, cpus(1.0)).deadline = Some(at(deadline));
    }
    // The tasks that would be late need not be the ones that are picked.
    scene.miss(1);
    scene.miss(2);
    let expected = [(4, Deadline), (3, Deadline), (1, Priority), (2, Priority)];
    assert_eq!(scene.listed(), expected);
}

#[test]
fn without_a_deadline_nothing_is_in_danger() {
    let mut scene = SchedulingRig::new(4, &[]);
    scene.task(1, cpus(1.0));
    let waiting = scene.task(2, cpus(1.0));
    waiting.deadline = Some(at(1100.0));
    waiting.stage = TaskStage::WaitingForInputs { stalled: false };
    scene.miss(2);
    assert_eq!(scene.listed(), [(1, Priority)]);
}

#[test]
fn dangers_of_one_association_and_type_help_no_other() {
    let mut scene = SchedulingRig::new(2, &[1]);
    scene.associate(100.0, 0.0);
    scene.task(1, cpus(1.0)).deadline = Some(at(1100.0));
    scene.task(2, cards(0.0, 1.0)).deadline = Some(at(1200.0));
    let other = scene.task(3, cpus(1.0));
    other.association = AssociationIndex(1);
    other.deadline = Some(at(1300.0));
    scene.miss(3);
    let expected = [(2, Priority), (3, Deadline), (1, Priority)];
    assert_eq!(scene.listed(), expected);
}

#[test]
fn cards_go_to_the_highest_priority_then_to_what_has_begun_then_to_what_came_first() {
    let rows = [
        ([0.0, 1.0], [TaskStage::Queued, TaskStage::Queued], 1),
        ([1.0, 0.0], [TaskStage::Queued, TaskStage::Queued], 2),
        ([1.0, 0.0], [STOPPED, TaskStage::Queued], 2),
        ([1.0, 1.0], [TaskStage::Queued, TaskStage::Queued], 1),
        ([1.0, 1.0], [TaskStage::Queued, executing(0.0)], 2),
        ([1.0, 1.0], [LOST, executing(0.0)], 1),
    ];
    for (rec, stages, first) in rows {
        let mut scene = SchedulingRig::new(1, &[1]);
        scene.associate(100.0, rec[1]);
        scene.rec[0] = rec[0];
        for (index, stage) in stages.into_iter().enumerate() {
            let task = scene.task(index as u64 + 1, cards(0.0, 1.0));
            task.association = AssociationIndex(index);
            task.stage = stage;
        }
        assert_eq!(scene.listed(), [(first, Priority)], "{rec:?} {stages:?}");
    }
}

#[test]
fn of_one_association_what_has_begun_on_cards_goes_on_as_it_came() {
    let mut scene = SchedulingRig::new(1, &[3]);
    for (number, stage) in (1..).zip([TaskStage::Queued, LOST, executing(0.0), STOPPED]) {
        scene.task(number, cards(0.0, 1.0)).stage = stage;
    }
    assert_eq!(scene.listed_numbers(), [2, 3, 4]);
}

#[test]
fn an_association_nominates_what_loses_least() {
    let stages = [
        TaskStage::Queued,
        LOST,
        STOPPED,
        executing(0.0),
        TaskStage::Queued,
    ];
    let mut scene = SchedulingRig::new(3, &[]);
    for (number, stage) in (1..).zip(stages) {
        scene.task(number, cpus(1.0)).stage = stage;
    }
    assert_eq!(scene.listed_numbers(), [4, 3, 2, 1, 5]);
}

#[test]
fn the_cpu_goes_to_the_nominee_of_the_highest_priority() {
    let mut scene = SchedulingRig::new(1, &[]);
    scene.associate(300.0, 100.0);
    scene.rec[0] = 100.0;
    scene.task(1, cpus(1.0)).stage = executing(0.0);
    scene.task(2, cpus(1.0)).association = AssociationIndex(1);
    assert_eq!(scene.listed_numbers(), [2, 1]);
    // The lower index decides between associations of equal priority, whatever task arrived first.
    scene.associations[1].share = 100.0;
    scene.tasks[0].association = AssociationIndex(1);
    scene.tasks[1].association = AssociationIndex(0);
    assert_eq!(scene.listed_numbers(), [2, 1]);
}

#[test]
fn what_is_planned_for_one_makes_it_anothers_turn() {
    let mut scene = SchedulingRig::new(3, &[]);
    scene.associate(100.0, 0.0);
    for number in 1..=6 {
        scene.task(number, cpus(1.0)).association = AssociationIndex(usize::from(number > 3));
    }
    assert_eq!(scene.listed_numbers(), [1, 4, 2, 5, 3, 6]);
    // Three times the share gives three times the tasks.
    let mut scene = SchedulingRig::new(4, &[]);
    scene.associate(300.0, 0.0);
    for number in 1..=16 {
        scene.task(number, cpus(1.0)).association = AssociationIndex(usize::from(number > 8));
    }
    let of_second = scene.listed_numbers().iter().filter(|n| **n > 8).count();
    assert_eq!((of_second, scene.listed().len()), (6, 8));
}

#[test]
fn those_without_a_share_come_last() {
    let mut scene = SchedulingRig::new(2, &[]);
    scene.associations[0].share = 0.0;
    scene.associate(100.0, 1e9);
    scene.task(1, cpus(1.0));
    for number in 2..=3 {
        scene.task(number, cpus(1.0)).association = AssociationIndex(1);
    }
    assert_eq!(scene.listed_numbers(), [2, 3, 1]);
}

#[test]
fn the_list_ends_at_twice_the_cpus_of_single_and_multiple_ones_apart() {
    // Each row: the CPUs of each task, and the number of listed tasks.
    for (used, listed) in [
        (vec![1.0; 20], 8),
        (vec![0.5; 20], 16),
        (vec![4.0; 20], 2),
        (vec![3.0; 20], 3),
        // Tasks with one CPU and with four are counted apart. Both counts are below the limit until the second wide task is listed.
        (vec![1.0, 4.0, 1.0, 1.0, 4.0, 1.0], 5),
        (vec![1.0, 1.0, 1.0, 1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 4.0], 9),
        (vec![0.0; 20], 20),
    ] {
        let mut scene = SchedulingRig::new(4, &[]);
        for (number, used) in (1..).zip(&used) {
            scene.task(number, cpus(*used));
        }
        let expected: Vec<u64> = (1..=listed).collect();
        assert_eq!(scene.listed_numbers(), expected, "{used:?}");
    }
}

#[test]
fn tasks_of_cards_take_no_place_of_those_of_the_cpu() {
    let mut scene = SchedulingRig::new(1, &[2]);
    for number in 1..=2 {
        scene.task(number, cards(1.0, 1.0));
    }
    for number in 3..=9 {
        scene.task(number, cpus(1.0));
    }
    assert_eq!(scene.listed_numbers(), [1, 2, 3, 4]);
}

#[test]
fn cards_are_reserved_until_none_is_left() {
    for (wanted, expected) in [
        (vec![1.0, 1.0, 1.0], vec![1, 2]),
        (vec![0.5, 1.0, 0.5, 0.5], vec![1, 2, 3]),
        // A task that does not fit leaves the rest to others.
        (vec![1.5, 1.0, 0.5, 0.1], vec![1, 3]),
        (vec![3.0, 1.0], vec![2]),
        (vec![0.1; 30], (1..=20).collect()),
        (vec![0.0, f64::NAN, -1.0], vec![1, 2, 3]),
    ] {
        let mut scene = SchedulingRig::new(1, &[2]);
        for (number, wanted) in (1..).zip(&wanted) {
            scene.task(number, cards(0.0, *wanted));
        }
        assert_eq!(scene.listed_numbers(), expected, "{wanted:?}");
    }
}

#[test]
fn no_more_are_listed_than_may_run_at_once() {
    let mut scene = SchedulingRig::new(4, &[2]);
    scene.associations[0].max_concurrent = Some(3);
    scene.associations[0].max_concurrent_of_jobs = [(7, 1)].into();
    for number in 1..=5 {
        scene.task(number, cpus(1.0)).job = 7;
        scene.task(10 + number, cpus(1.0));
    }
    scene.task(20, cards(0.0, 1.0));
    assert_eq!(scene.listed_numbers(), [20, 1, 11]);
    // Tasks that run to their end count from the beginning, and are listed in their turn.
    scene.tasks[8].stage = executing(0.0);
    assert_eq!(scene.tasks[8].number, TaskNumber(5));
    assert_eq!(scene.listed_numbers(), [20, 5, 11]);
}

#[test]
fn what_cannot_run_is_not_listed() {
    let mut scene = SchedulingRig::new(4, &[1]);
    scene.task(1, cpus(1.0)).stage = TaskStage::WaitingForInputs { stalled: true };
    scene.task(2, cpus(1.0)).stage = TaskStage::WaitingForInputs { stalled: false };
    scene.task(3, cpus(1.0)).stage = executing(0.0);
    scene.ending.insert(TaskNumber(3));
    scene.task(4, cpus(1.0));
    // These tasks have an unknown association, or need unknown processors.
    scene.task(5, cpus(1.0)).association = AssociationIndex(9);
    scene.task(6, cpus(1.0)).usage.cards = Some((ProcessorType(9), 1.0));
    // The CPU does not count as a GPU.
    scene.task(7, cpus(1.0)).usage.cards = Some((ProcessorType::CPU, 1.0));
    assert_eq!(scene.listed_numbers(), [4, 7]);
    assert_eq!(scene.choose().start.len(), 2);
}

#[test]
fn what_is_planned_on_a_card_counts_by_what_the_card_is_worth() {
    let mut scene = SchedulingRig::new(1, &[1]);
    let card = ProcessorKind {
        relative_speed: 4.0,
        ..kind("card", 1)
    };
    scene.processors = Processors::new(kind("CPU", 1), vec![card]);
    scene.rec = vec![12.0];
    scene.associate(100.0, 12.0);
    scene.task(1, cards(0.5, 1.0));
    let hand = scene.hand();
    let contenders = Contenders::new(&hand);
    let (_, contender) = contenders.all().next().unwrap();
    // 0.5 + 4 of 1 + 4.
    assert_eq!(contender.fraction_of_host, 0.9);
    let mut priorities = Priorities::new(&scene.associations, &scene.rec, &[true, true]);
    priorities.bump(contender.task.association, contender.fraction_of_host);
    let planned = priorities.of(AssociationIndex(0));
    // A 24th of 24 times that fraction, for half of the shares.
    assert!((planned + 1.075).abs() < 1e-12, "{planned}");
    assert_eq!(priorities.of(AssociationIndex(1)), -1.0);
}
