//! Tests of lost artifacts and of the tasks that run again for them.

use super::super::super::reruns::{GiveUpReason, Rerun};
use super::super::ArtifactAvailability;
use super::*;

#[test]
fn the_producers_of_lost_artifacts_run_again() {
    let mut registry = registry(2);
    make(&mut registry, "a/1", &[("x", 1), ("y", 2)], 0, 1);
    make(&mut registry, "b/1", &[("x", 2)], 1, 1);
    make(&mut registry, "c/1", &[("x", 3)], 1, 1);
    assert_eq!(
        registry.availability(id(1)),
        ArtifactAvailability::Available
    );
    registry.lose(&lock(0), second(2));
    assert_eq!(lost(&registry), [1]);
    assert_eq!(to_repeat(&registry), ["a/1"]);
    registry.lose(&lock(1), second(3));
    assert_eq!(lost(&registry), [1, 2, 3]);
    assert_eq!(to_repeat(&registry), ["a/1", "b/1", "c/1"]);
    assert_eq!(registry.availability(id(1)), ArtifactAvailability::Lost);
    assert_eq!(registry.rerun(&key("a", "1")), Rerun::Granted(1));
    assert_eq!(to_repeat(&registry), ["b/1", "c/1"]);
    registry.rerun_failed(&key("a", "1"));
    assert_eq!(to_repeat(&registry), ["a/1", "b/1", "c/1"]);
    registry.announce(&lock(1), &[announcement(0, [])], second(4));
    registry.stored(&holder(1, 0), id(2), second(4));
    assert_eq!(to_repeat(&registry), ["a/1", "c/1"]);
    registry.forget(&key("c", "1"), second(5));
    assert_eq!(lost(&registry), [1]);
    assert_eq!(registry.availability(id(3)), ArtifactAvailability::Unnamed);
}

/// Loses and repeats an output until the task is given up. Returns the number of repeated runs.
fn lose_again_and_again(registry: &mut Registry, at: u64, contents: &[u8]) -> u32 {
    let task = key("a", "1");
    for (count, number) in (0..).zip(contents.iter().cycle()) {
        registry.lose(&lock(0), second(at));
        match registry.rerun(&task) {
            Rerun::Granted(granted) => assert_eq!(granted, count + 1),
            Rerun::GivenUp(reason) => {
                assert_eq!(reason, GiveUpReason::TooManyReruns(count));
                return count;
            }
        }
        registry.announce(&lock(0), &[announcement(0, [])], second(at));
        make(
            registry,
            "a/1",
            &[("x", *number)],
            0,
            at + 1 + u64::from(count),
        );
    }
    unreachable!("the cycle has no end")
}

#[test]
fn a_task_is_given_up_after_too_many_repeated_runs() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    assert_eq!(lose_again_and_again(&mut registry, 100, &[1]), 3);
    assert_eq!(to_repeat(&registry), [""; 0]);
    assert_eq!(lost(&registry), [1]);
    let reason = GiveUpReason::TooManyReruns(3);
    assert_eq!(registry.given_up(&key("a", "1")), Some(reason));
    assert_eq!(
        registry.availability(id(1)),
        ArtifactAvailability::GivenUp(reason)
    );
    // Another task that still may run again keeps its consumers waiting.
    registry.announce(&lock(0), &[announcement(0, [])], second(200));
    make(&mut registry, "b/1", &[("x", 1)], 0, 200);
    registry.lose(&lock(0), second(201));
    assert_eq!(registry.availability(id(1)), ArtifactAvailability::Lost);
}

#[test]
fn other_content_does_not_restart_the_count() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    assert_eq!(lose_again_and_again(&mut registry, 100, &[2, 3, 4, 5]), 3);
}

#[test]
fn a_consumer_or_a_run_for_another_reason_restarts_the_count() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    let restarts: [fn(&mut Registry); 4] = [
        |registry| registry.consumed(&key("a", "1"), clocks(500)),
        |registry| registry.consumed_job(&job("a"), clocks(500)),
        |registry| {
            let outputs = vec![output("x", 1)];
            registry.record(&key("a", "1"), run(-1), outputs, Replicas::ONE, clocks(500));
        },
        |registry| {
            registry.forget(&key("a", "1"), second(500));
            make(registry, "a/1", &[("x", 1)], 0, 501);
        },
    ];
    for restart in restarts {
        assert_eq!(lose_again_and_again(&mut registry, 100, &[1]), 3);
        restart(&mut registry);
        assert_eq!(registry.given_up(&key("a", "1")), None);
    }
    assert_eq!(lose_again_and_again(&mut registry, 100, &[1]), 3);
}

#[test]
fn a_repeated_record_is_no_run_for_another_reason() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    registry.rerun(&key("a", "1"));
    make(&mut registry, "a/1", &[("x", 1)], 0, 2);
    make(&mut registry, "a/1", &[("x", 1)], 0, 2);
    assert_eq!(registry.rerun(&key("a", "1")), Rerun::Granted(2));
}
