//! Tests of deadlines: tasks run as chosen until none is left, and the late ones are recorded.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::super::types::{AssociationIndex, TaskNumber};
use super::super::Preemption::{self, Off, Suspend};
use super::rig::{STOPPED, SchedulingRig, at, cpus, executing};

/// A task that runs on one CPU. Times are seconds from the start of the run.
#[derive(Clone, Copy, Debug)]
struct Work {
    arrives: f64,
    takes: f64,
    deadline: Option<f64>,
    association: usize,
}

const fn work(arrives: f64, takes: f64, deadline: f64) -> Work {
    Work {
        arrives,
        takes,
        deadline: Some(deadline),
        association: 0,
    }
}

/// Whether the outlook names the tasks that would be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Foresight {
    Has,
    HasNot,
}

const START: f64 = 1000.0;

/// Runs the tasks and returns the numbers of those that were late.
fn late(instances: u32, preemption: Preemption, works: &[Work], foresight: Foresight) -> Vec<u64> {
    let mut scene = SchedulingRig::new(instances, &[]);
    scene.preemption = preemption;
    let associations = works.iter().map(|work| work.association).max();
    for _ in 0..associations.unwrap_or(0) {
        scene.associate(100.0, 0.0);
    }
    let mut to_come: Vec<(u64, Work)> = (1..).zip(works.iter().copied()).collect();
    let mut late = Vec::new();
    let mut now = START;
    while !to_come.is_empty() || !scene.tasks.is_empty() {
        scene.now = at(now);
        let (here, later) = to_come
            .into_iter()
            .partition(|(_, work)| START + work.arrives <= now);
        to_come = later;
        arrive(&mut scene, here);
        if foresight == Foresight::Has {
            foresee(&mut scene, instances);
        }
        let schedule = scene.choose();
        for task in &mut scene.tasks {
            if [&schedule.start, &schedule.resume]
                .iter()
                .any(|these| these.contains(&task.number))
            {
                task.stage = executing(now);
            } else if schedule.preempt.contains(&task.number) {
                task.stage = STOPPED;
            }
        }
        let running = scene.tasks.iter().filter(|task| task.stage.is_executing());
        let ends = running.map(|task| task.remaining);
        let arrivals = to_come.iter().map(|(_, work)| START + work.arrives - now);
        let step = ends.chain(arrivals).fold(f64::INFINITY, f64::min);
        assert!(step.is_finite(), "nothing runs, and nothing will");
        now += step;
        for task in scene
            .tasks
            .iter_mut()
            .filter(|task| task.stage.is_executing())
        {
            task.remaining -= step;
        }
        let ended = |remaining: f64| remaining < 1e-6;
        for task in scene.tasks.iter().filter(|task| ended(task.remaining)) {
            if task
                .deadline
                .is_some_and(|deadline| deadline < at(now - 1e-6))
            {
                late.push(task.number.0);
            }
        }
        scene.tasks.retain(|task| !ended(task.remaining));
    }
    late.sort_unstable();
    late
}

fn arrive(scene: &mut SchedulingRig, works: Vec<(u64, Work)>) {
    for (number, work) in works {
        let task = scene.task(number, cpus(1.0));
        task.association = AssociationIndex(work.association);
        task.remaining = work.takes;
        task.deadline = work.deadline.map(|deadline| at(START + deadline));
        task.received = at(START + work.arrives);
    }
}

/// Makes the outlook name the tasks that would be late if all ran in order of arrival, running or not, as the simulation does.
fn foresee(scene: &mut SchedulingRig, instances: u32) {
    let mut order: Vec<_> = scene.tasks.iter().collect();
    order.sort_by_key(|task| (task.received, task.number));
    let mut free = vec![0.0_f64; instances as usize];
    let mut misses = BTreeSet::new();
    for task in order {
        let first = free.iter_mut().min_by(|one, other| one.total_cmp(other));
        let first = first.unwrap();
        *first += task.remaining;
        let end = at(scene.now.as_nanos() as f64 / 1e9 + *first - 1e-6);
        if task.deadline.is_some_and(|deadline| deadline < end) {
            misses.insert(task.number);
        }
    }
    scene.nobody_misses();
    for TaskNumber(number) in misses {
        scene.miss(number);
    }
}

/// Checks that no task is late with foresight, and which are without it. Each row gives the number of CPUs.
fn nobody_comes_late(rows: &[(u32, Preemption, Vec<Work>, Vec<u64>)]) {
    for (instances, preemption, works, without) in rows {
        let run = |foresight| late(*instances, *preemption, works, foresight);
        assert_eq!(run(Foresight::HasNot), *without, "{works:?}");
        assert_eq!(run(Foresight::Has), Vec::<u64>::new(), "{works:?}");
    }
}

const fn whenever(takes: f64) -> Work {
    Work {
        deadline: None,
        ..work(0.0, takes, 0.0)
    }
}

#[test]
fn deadlines_that_can_be_met_are_met_and_are_not_without_foresight() {
    let of_other = |deadline: f64| Work {
        association: 1,
        ..work(0.0, 10.0, deadline)
    };
    // The last task has the nearest deadline, and so on backwards.
    let reversed = [40.0, 30.0, 20.0, 10.0].map(|deadline| work(0.0, 10.0, deadline));
    let after_those_without = vec![
        whenever(50.0),
        whenever(50.0),
        whenever(50.0),
        work(0.0, 20.0, 20.0),
        work(0.0, 20.0, 25.0),
        work(0.0, 5.0, 30.0),
    ];
    // There are two schedulers, one of which has time.
    let of_two = vec![
        work(0.0, 10.0, 100.0),
        work(0.0, 10.0, 100.0),
        of_other(30.0),
        of_other(20.0),
        of_other(10.0),
    ];
    let while_another_runs = vec![whenever(10.0), whenever(100.0), work(5.0, 10.0, 20.0)];
    nobody_comes_late(&[
        (1, Off, reversed.into(), vec![3, 4]),
        (2, Off, after_those_without, vec![4, 5, 6]),
        (1, Off, of_two, vec![4, 5]),
        (1, Off, while_another_runs, vec![3]),
    ]);
}

#[test]
fn what_may_be_stopped_makes_room_for_what_is_urgent() {
    let two_at_once = vec![
        work(0.0, 50.0, 200.0),
        work(0.0, 60.0, 200.0),
        work(10.0, 10.0, 21.0),
        work(15.0, 10.0, 26.0),
    ];
    nobody_comes_late(&[
        (
            1,
            Suspend,
            vec![whenever(100.0), work(5.0, 10.0, 15.0)],
            vec![2],
        ),
        (2, Suspend, two_at_once, vec![3, 4]),
    ]);
}

#[test]
fn what_runs_to_its_end_makes_others_late_only_where_nothing_may_be_stopped() {
    let works = [work(0.0, 100.0, 200.0), work(5.0, 10.0, 15.0)];
    assert_eq!(late(1, Off, &works, Foresight::Has), [2]);
    assert_eq!(late(1, Suspend, &works, Foresight::Has), Vec::<u64>::new());
}

integration_tests_properties::properties! {
    256;

    /// One CPU has all tasks from the beginning. If they can all meet their deadlines, they do, in whatever order they arrived.
    #[test]
    fn on_one_cpu_nobody_comes_late_who_need_not(
        works in proptest::collection::vec((1_u32..50, 0_u32..30), 1..12)
            .prop_flat_map(|works| {
                let mut end = 0;
                let mut in_time = Vec::new();
                for (takes, slack) in works {
                    end += takes;
                    in_time.push(work(0.0, f64::from(takes), f64::from(end + slack)));
                }
                Just(in_time).prop_shuffle()
            }),
    ) {
        prop_assert_eq!(late(1, Off, &works, Foresight::Has), Vec::<u64>::new());
    }
}
