//! Tests which tasks count as in danger.

use super::super::Preemption;
use super::super::contenders::Reason::{Deadline, Priority};
use super::rig::{NOBODY, SchedulingRig, at, cpus, executing, numbers};

/// Once the simulation names no task, a task that ran by deadline yields to another scheduler. Its own scheduler would otherwise exceed its
/// share.
#[test]
fn a_task_counts_as_in_danger_only_while_the_simulation_names_it() {
    let mut scene = SchedulingRig::new(1, &[]);
    scene.preemption = Preemption::Suspend;
    scene.profile.time_slice = 0.0;
    scene.associate(100.0, 0.0);
    scene.rec[0] = 1.0;
    scene.task(1, cpus(1.0)).deadline = Some(at(1100.0));
    scene.task(2, cpus(1.0)).association.0 = 1;
    scene.miss(1);
    assert_eq!(numbers(&scene.choose().start), [1]);
    scene.now = at(1001.0);
    scene.tasks[0].stage = executing(1000.0);
    assert_eq!(numbers(&scene.choose().preempt), NOBODY);
    scene.nobody_misses();
    assert_eq!(scene.listed(), [(2, Priority), (1, Priority)]);
    assert_eq!(numbers(&scene.choose().preempt), [1]);
}

#[test]
fn a_scheduler_has_as_many_picked_by_deadline_as_the_simulation_names() {
    let mut scene = SchedulingRig::new(3, &[]);
    for (number, deadline) in [(1, 1300.0), (2, 1100.0), (3, 1200.0)] {
        scene.task(number, cpus(1.0)).deadline = Some(at(deadline));
    }
    scene.miss(1);
    assert_eq!(
        scene.listed(),
        [(2, Deadline), (1, Priority), (3, Priority)]
    );
    // A task that cannot run does not count.
    scene.held_back.insert(scene.tasks[0].number);
    assert_eq!(scene.listed(), [(2, Priority), (3, Priority)]);
}
