//! Whose deadlines count as in danger though the simulation does not say so now.

use super::super::super::profile::Profile;
use super::super::super::types::{AssociationIndex, TaskNumber};
use super::super::run_list::Reason::{Deadline, Priority};
use super::super::{EdfHistory, Preemption};
use super::rig::{NOBODY, STOPPED, Scene, at, cpus, executing, numbers};

/// Two tasks of which the second has the nearer deadline and was picked for it, so that it runs.
fn one_ran_in_danger() -> Scene {
    let mut scene = Scene::new(1, &[]);
    // Nothing counts only because it was marked lately.
    scene.profile.time_slice = 0.0;
    for (number, deadline) in [(1, 1300.0), (2, 1100.0), (3, 1200.0)] {
        scene.task(number, cpus(1.0)).deadline = Some(at(deadline));
    }
    scene.miss(2);
    assert_eq!(numbers(&scene.choose().start), [2]);
    scene.tasks[1].stage = executing(1000.0);
    scene.nobody_misses();
    scene
}

#[test]
fn what_ran_in_danger_counts_while_another_of_its_kind_is() {
    let mut scene = one_ran_in_danger();
    let by_deadline = |scene: &Scene| {
        let listed = scene.listed().into_iter();
        let in_danger = listed.filter(|(_, reason)| *reason == Deadline);
        in_danger.map(|(number, _)| number).collect::<Vec<_>>()
    };
    assert_eq!(by_deadline(&scene), NOBODY);
    scene.miss(3);
    assert_eq!(by_deadline(&scene), [2, 3]);
    // It counts once, also if the simulation says it again.
    scene.miss(2);
    scene.processors = Scene::new(2, &[]).processors;
    assert_eq!(scene.listed().len(), 3);
    assert_eq!(by_deadline(&scene), [2, 3]);
    // What another association has in danger does not matter.
    scene.nobody_misses();
    scene.associate(100.0, 0.0);
    let other = scene.task(4, cpus(1.0));
    other.association = AssociationIndex(1);
    other.deadline = Some(at(1400.0));
    scene.miss(4);
    assert_eq!(by_deadline(&scene), [4]);
}

#[test]
fn what_only_was_listed_does_not_count() {
    let mut scene = one_ran_in_danger();
    scene.nobody_misses();
    scene.miss(3);
    // The first still runs: the third is listed by its deadline, and does not run.
    assert_eq!(numbers(&scene.choose().start), NOBODY);
    scene.nobody_misses();
    scene.tasks.remove(1);
    scene.tasks[1].deadline = Some(at(1400.0));
    scene.miss(1);
    assert_eq!(scene.listed(), [(1, Deadline), (3, Priority)]);
}

#[test]
fn a_mark_counts_for_a_time_slice() {
    let (cluster, volunteer) = (Profile::CLUSTER, Profile::VOLUNTEER);
    for (profile, later, counts) in [
        (&cluster, 0.0, true),
        (&cluster, 2.9, true),
        (&cluster, 3.0, false),
        (&cluster, 100.0, false),
        (&volunteer, 3599.9, true),
        (&volunteer, 3600.0, false),
    ] {
        let mut scene = Scene::new(1, &[]);
        scene.profile = profile.clone();
        scene.task(1, cpus(1.0));
        let marked = scene.task(2, cpus(1.0));
        marked.deadline = Some(at(1100.0));
        marked.stage = STOPPED;
        scene.miss(2);
        assert_eq!(numbers(&scene.choose().resume), [2]);
        scene.nobody_misses();
        // Its having run in danger does not matter: nothing is now.
        scene.now = at(1000.0 + later);
        scene.tasks[1].stage = executing(1000.0);
        let expected = if counts { Deadline } else { Priority };
        assert_eq!(scene.listed()[0], (2, expected), "{later}");
    }
}

#[test]
fn a_mark_is_renewed_as_long_as_it_is_said() {
    let mut scene = Scene::new(1, &[]);
    let marked = scene.task(1, cpus(1.0));
    marked.deadline = Some(at(1100.0));
    marked.stage = executing(900.0);
    scene.miss(1);
    for second in 0..20 {
        scene.now = at(1000.0 + f64::from(second));
        scene.choose();
    }
    scene.nobody_misses();
    scene.now = at(1021.0);
    assert_eq!(scene.listed(), [(1, Deadline)]);
}

#[test]
fn what_has_not_begun_is_not_marked() {
    let mut scene = Scene::new(1, &[]);
    scene.task(1, cpus(1.0)).stage = executing(900.0);
    scene.task(2, cpus(1.0)).deadline = Some(at(1100.0));
    scene.miss(2);
    assert_eq!(scene.listed(), [(2, Deadline), (1, Priority)]);
    scene.choose();
    scene.nobody_misses();
    assert_eq!(scene.listed(), [(1, Priority), (2, Priority)]);
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut scene = one_ran_in_danger();
    scene.miss(2);
    scene.choose();
    assert_ne!(scene.history, EdfHistory::default());
    scene.tasks.retain(|task| task.number != TaskNumber(2));
    scene.nobody_misses();
    scene.choose();
    assert_eq!(scene.history, EdfHistory::default());
}

#[test]
fn two_tasks_in_danger_take_turns_by_slices() {
    // With one CPU, each is in danger while the other runs, and no more when it runs itself.
    let mut scene = Scene::new(1, &[]);
    scene.preemption = Preemption::Suspend;
    scene.profile.time_slice = 10.0;
    scene.associate(100.0, 0.0);
    for (number, deadline) in [(1, 1101.0), (2, 1100.0)] {
        let task = scene.task(number, cpus(1.0));
        task.deadline = Some(at(deadline));
        task.association = AssociationIndex(number as usize - 1);
    }
    scene.tasks[0].stage = executing(900.0);
    let mut changes = Vec::new();
    for second in 0..30 {
        let now = 1000.0 + f64::from(second);
        scene.now = at(now);
        scene.nobody_misses();
        scene.miss(if scene.tasks[0].stage.is_executing() {
            2
        } else {
            1
        });
        let schedule = scene.choose();
        let begins = [schedule.start, schedule.resume].concat();
        for task in &mut scene.tasks {
            if begins.contains(&task.number) {
                task.stage = executing(now);
                changes.push(second);
            } else if schedule.preempt.contains(&task.number) {
                task.stage = STOPPED;
            }
        }
    }
    // The second change is that at which the first is known to be in danger after it has begun.
    assert_eq!(changes, [0, 1, 11, 21]);
}
