//! Laws of every choice for arbitrary inputs.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::num::f64::ANY;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::super::types::{
    AssociationIndex, ProcessorType, ProcessorUsage, Task, TaskNumber, TaskStage,
};
use super::super::{Preemption, Schedule};
use super::rig::{LOST, STOPPED, SchedulingRig, at, executing, numbers};

/// Generates a plausible amount, and sometimes any number.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => select(vec![0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 100.0]),
        1 => ANY,
    ]
}

fn stage() -> impl Strategy<Value = TaskStage> {
    prop_oneof![
        8 => Just(TaskStage::Queued),
        1 => any::<bool>().prop_map(|stalled| TaskStage::WaitingForInputs { stalled }),
        4 => select(vec![0.0, 996.0, 999.0, 2000.0]).prop_map(executing),
        1 => Just(STOPPED),
        1 => Just(LOST),
    ]
}

fn usage() -> impl Strategy<Value = ProcessorUsage> {
    let cards = option::weighted(0.3, (1_usize..3, number()));
    (number(), cards).prop_map(|(cpus, cards)| ProcessorUsage {
        cpus,
        cards: cards.map(|(of, much)| (ProcessorType(of), much)),
    })
}

fn task() -> impl Strategy<Value = Task> {
    let deadline = option::weighted(0.7, (0.0..2000.0_f64).prop_map(at));
    let place = (0_usize..3, 0_u32..3, 0.0..1000.0_f64);
    (place, usage(), number(), deadline, stage()).prop_map(
        |((association, job, received), usage, remaining, deadline, stage)| Task {
            number: TaskNumber(0),
            association: AssociationIndex(association),
            job,
            usage,
            remaining,
            received: at(received),
            deadline,
            stage,
        },
    )
}

pub fn scene() -> impl Strategy<Value = SchedulingRig> {
    let processors = (0_u32..5, 0_u32..3, 0_u32..3);
    let limits = || option::weighted(0.2, 0_u32..4);
    let associations = vec((number(), number(), limits(), limits()), 0..3);
    let tasks = vec((task(), any::<bool>()), 0..20);
    let preemption = select(vec![Preemption::Off, Preemption::Suspend]);
    let places = || vec(any::<Index>(), 0..3);
    let others = (preemption, places(), places());
    (processors, associations, tasks, others).prop_map(
        |((cpus, cards, others), associations, tasks, (preemption, ending, held_back))| {
            let mut scene = SchedulingRig::new(cpus, &[cards, others]);
            scene.preemption = preemption;
            for (share, rec, limit, limit_of_job) in associations {
                let association = scene.associate(share, rec);
                association.max_concurrent = limit;
                association.max_concurrent_of_jobs =
                    limit_of_job.map(|at| (0, at)).into_iter().collect();
            }
            let known = scene.associations.len();
            for (number, (mut task, misses)) in (1..).zip(tasks) {
                task.number = TaskNumber(number);
                // Sometimes the association does not exist.
                task.association.0 = task.association.0.min(known);
                let can_miss = misses && task.deadline.is_some() && task.association.0 < known;
                scene.tasks.push(task);
                if can_miss {
                    scene.miss(number);
                }
            }
            for (places, set) in [
                (ending, &mut scene.ending),
                (held_back, &mut scene.held_back),
            ] {
                let tasks = places.iter().map(|place| scene.tasks.get(place.index(20)));
                set.extend(tasks.flatten().map(|task| task.number));
            }
            scene
        },
    )
}

pub fn amount(of: f64) -> f64 {
    if of >= 1e-30 { of.min(1e30) } else { 0.0 }
}

/// Returns the running tasks that continue.
fn go_on<'a>(scene: &'a SchedulingRig, schedule: &Schedule) -> Vec<&'a Task> {
    let running = scene.tasks.iter().filter(|task| task.stage.is_executing());
    running
        .filter(|task| !schedule.preempt.contains(&task.number))
        .collect()
}

fn begin<'a>(scene: &'a SchedulingRig, schedule: &Schedule) -> Vec<&'a Task> {
    let all = schedule.start.iter().chain(&schedule.resume);
    let find = |number: &TaskNumber| scene.tasks.iter().find(|task| task.number == *number);
    all.map(|number| find(number).unwrap()).collect()
}

fn is_known(scene: &SchedulingRig, task: &Task) -> bool {
    task.association.0 < scene.associations.len()
}

fn used(tasks: &[&Task], of: ProcessorType) -> f64 {
    tasks.iter().map(|task| amount(task.usage.of(of))).sum()
}

integration_tests_properties::properties! {
    512;

    #[test]
    fn only_what_can_begins_and_only_what_runs_stops(scene in scene()) {
        let schedule = scene.choose();
        let of = |number: TaskNumber| scene.tasks.iter().find(|task| task.number == number).unwrap();
        for number in &schedule.start {
            let stage = of(*number).stage;
            prop_assert!(stage == TaskStage::Queued || stage == LOST);
        }
        for number in &schedule.resume {
            prop_assert_eq!(of(*number).stage, STOPPED);
        }
        for number in &schedule.preempt {
            prop_assert!(of(*number).stage.is_executing());
            prop_assert_eq!(scene.preemption, Preemption::Suspend);
            prop_assert!(of(*number).usage.cards.is_none());
        }
        let all = [schedule.start, schedule.resume, schedule.preempt].concat();
        let distinct: BTreeSet<_> = all.iter().collect();
        prop_assert_eq!(distinct.len(), all.len());
        prop_assert!(all.iter().all(|number| !scene.ending.contains(number)));
        let begin = |number: &TaskNumber| !of(*number).stage.is_executing();
        prop_assert!(!all.iter().any(|number| begin(number) && scene.held_back.contains(number)));
        prop_assert!(all.iter().all(|number| is_known(&scene, of(*number))));
    }

    /// Tasks start only if they fit: a CPU task beside a free CPU, a GPU task with an excess of at most one CPU. No GPU is assigned twice.
    #[test]
    fn what_begins_has_room(scene in scene()) {
        let schedule = scene.choose();
        let mut running = go_on(&scene, &schedule);
        running.retain(|task| is_known(&scene, task));
        let begin = begin(&scene, &schedule);
        let cpus = scene.processors.instances(ProcessorType::CPU);
        // The schedule lists started and resumed tasks apart, so their common order is unknown. The bound holds for any last one.
        let after = [&running[..], &begin[..]].concat();
        let load = used(&after, ProcessorType::CPU);
        // Running tasks are part of the choice with preemption, and may be the ones that exceed the CPUs.
        let may_overshoot = match scene.preemption {
            Preemption::Off => &begin,
            Preemption::Suspend => &after,
        };
        let cpus_of = may_overshoot.iter().map(|task| amount(task.usage.cpus));
        if let (Some(most), false) = (cpus_of.reduce(f64::max), begin.is_empty()) {
            let bound = cpus + most.max(1.0) + 1e-6 * after.len() as f64;
            prop_assert!(load <= bound, "{load} > {bound}");
        }
        for of in [ProcessorType(1), ProcessorType(2)] {
            let bound = scene.processors.instances(of) + 1e-6;
            if begin.iter().any(|task| task.usage.of(of) > 0.0) {
                prop_assert!(used(&after, of) <= bound);
            }
        }
    }

    #[test]
    fn no_limit_is_exceeded_by_what_begins(scene in scene()) {
        let schedule = scene.choose();
        let begin = begin(&scene, &schedule);
        let mut after = go_on(&scene, &schedule);
        after.extend(&begin);
        for task in &begin {
            let association = &scene.associations[task.association.0];
            let of_association = after.iter().filter(|other| other.association == task.association);
            let of_job = of_association.clone().filter(|other| other.job == task.job).count();
            let within = |count: usize, limit: Option<u32>| limit.is_none_or(|limit| count <= limit as usize);
            prop_assert!(within(of_association.count(), association.max_concurrent));
            prop_assert!(within(of_job, association.max_concurrent_of_jobs.get(&task.job).copied()));
        }
    }

    /// All runnable tasks without limits run while a CPU is free.
    #[test]
    fn no_cpu_is_idle_while_something_could_run(mut scene in scene()) {
        for association in &mut scene.associations {
            association.max_concurrent = None;
            association.max_concurrent_of_jobs.clear();
        }
        let schedule = scene.choose();
        let idle = schedule.idle.iter().any(|(_, idle)| *idle > 0.0);
        if scene.held_back.is_empty() {
            prop_assert_eq!(schedule.wants_fetch, idle);
        }
        prop_assert!(idle || !schedule.wants_fetch);
        let waits = |task: &Task| [TaskStage::Queued, STOPPED, LOST].contains(&task.stage);
        let begins = |task: &Task| schedule.start.contains(&task.number) || schedule.resume.contains(&task.number);
        // CPUs may be reserved for a GPU task.
        let keeps = scene.tasks.iter().any(|task| task.usage.cards.is_some() && waits(task) && !begins(task));
        if schedule.idle[ProcessorType::CPU] > 0.0 && !keeps {
            prop_assert_eq!(&schedule.preempt, &vec![]);
            for task in scene.tasks.iter().filter(|task| is_known(&scene, task)) {
                let cannot = scene.ending.contains(&task.number) || scene.held_back.contains(&task.number);
                if waits(task) && task.usage.cards.is_none() && !cannot {
                    prop_assert!(begins(task), "{task:?}");
                }
            }
        }
        for (of, idle) in schedule.idle.iter() {
            prop_assert!((0.0..=scene.processors.instances(of)).contains(idle));
        }
    }

    #[test]
    fn neither_the_order_of_tasks_nor_the_unit_of_shares_matters(scene in scene(), exponent in -8_i32..8) {
        let schedule = scene.choose();
        let mut other = scene.clone();
        other.tasks.reverse();
        prop_assert_eq!(&other.choose(), &schedule);
        // Scaling by a power of two is exact. Shares outside this range are invalid or special and stay.
        for association in &mut other.associations {
            let share = &mut association.share;
            if (1e-3..1e6).contains(share) {
                *share *= f64::from(exponent).exp2();
            }
        }
        if scene.associations.iter().all(|one| one.share == 0.0 || (1e-3..1e6).contains(&one.share)) {
            prop_assert_eq!(&other.choose(), &schedule);
        }
    }

    /// While a CPU is free, tasks in danger come before all others, by deadline.
    #[test]
    fn what_is_in_danger_goes_first(
        instances in 1_u32..6,
        tasks in vec((0_usize..3, 0.0..500.0_f64, any::<bool>(), any::<bool>()), 0..20),
    ) {
        let mut scene = SchedulingRig::new(instances, &[]);
        scene.associate(100.0, 3.0);
        scene.associate(0.0, 1.0);
        for (number, (association, deadline, runs, misses)) in (1..).zip(tasks) {
            let running = scene.tasks.iter().filter(|task| task.stage.is_executing()).count();
            let task = scene.task(number, super::super::rig::cpus(1.0));
            task.association = AssociationIndex(association);
            task.deadline = Some(at(1000.0 + deadline));
            if runs && running < instances as usize {
                task.stage = executing(0.0);
            } else if misses {
                scene.miss(number);
            }
        }
        // A scheduler with N tasks in danger is expected to have its N tasks with the nearest deadlines first.
        let mut in_danger = BTreeSet::new();
        for (association, outlook) in scene.outlook.of_association.iter().enumerate() {
            let of_it = |task: &&Task| task.association.0 == association;
            let mut of_it: Vec<&Task> = scene.tasks.iter().filter(of_it).collect();
            of_it.sort_by_key(|task| (task.deadline, !task.stage.is_executing(), task.number));
            let count = outlook.of_type[ProcessorType::CPU].deadlines_missed as usize;
            in_danger.extend(of_it.iter().take(count).map(|task| task.number.0));
        }
        let schedule = scene.choose();
        prop_assert_eq!(&schedule.preempt, &vec![]);
        let starts = numbers(&schedule.start);
        let first_other = starts.iter().position(|number| !in_danger.contains(number));
        let (early, others) = starts.split_at(first_other.unwrap_or(starts.len()));
        prop_assert!(others.iter().all(|number| !in_danger.contains(number)));
        let deadline = |number: &u64| scene.tasks[*number as usize - 1].deadline;
        prop_assert!(early.is_sorted_by_key(deadline));
        if !others.is_empty() {
            let waiting = scene.tasks.iter().filter(|task| !task.stage.is_executing());
            let left = waiting.map(|task| task.number.0).filter(|number| in_danger.contains(number));
            prop_assert_eq!(left.count(), early.len());
        }
    }
}
