//! Tests of outputs, their names and pins.

use super::super::super::outputs::OutputName;
use super::super::super::types::{ArtifactAmount, SetTotals};
use super::*;

#[test]
fn outputs_are_found_by_task_path_and_job() {
    let mut registry = registry(1);
    make(&mut registry, "a/2", &[("y", 2), ("x", 1)], 0, 1);
    make(&mut registry, "a/1", &[("x", 3)], 0, 1);
    make(&mut registry, "b/1", &[("x", 4)], 0, 1);
    let outputs = registry.outputs(&key("a", "2")).expect("recorded");
    assert_eq!(outputs.invocation, run(1));
    assert_eq!(outputs.outputs, [output("x", 1), output("y", 2)]);
    let path = |text: &str| OutputPath::try_from(text).expect("a path");
    let found = registry.output(&key("a", "2"), &path("y"));
    assert_eq!(found.map(|artifact| artifact.id), Some(id(2)));
    assert_eq!(registry.output(&key("a", "2"), &path("z")), None);
    assert_eq!(registry.output(&key("a", "3"), &path("x")), None);
    let job = job("a");
    let nodes = registry.job_outputs(&job).map(|(node, _)| node.as_str());
    assert!(nodes.eq(["1", "2"]));
}

#[test]
fn one_path_has_one_output() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1), ("x", 2)], 0, 1);
    let outputs = registry.outputs(&key("a", "1")).expect("recorded");
    assert_eq!(outputs.outputs, [output("x", 1)]);
    assert_eq!(unwanted(&registry, 0, 1 + GRACE), [2]);
}

#[test]
fn listings_resume_after_any_output() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1), ("y", 2)], 0, 1);
    make(&mut registry, "a/2", &[("x", 1)], 0, 1);
    make(&mut registry, "b/1", &[("x", 3)], 0, 1);
    let names: Vec<OutputName> = registry
        .list_outputs(None)
        .map(|view| OutputName {
            key: view.key,
            path: view.output.path.clone(),
        })
        .collect();
    assert_eq!(names.len(), 4);
    assert!(names.is_sorted());
    for (position, name) in names.iter().enumerate() {
        let rest = registry.list_outputs(Some(name)).count();
        assert_eq!(rest, 3 - position, "{name:?}");
    }
    // The position need not exist any more.
    registry.forget(&key("a", "2"), second(2));
    assert_eq!(registry.list_outputs(Some(&names[2])).count(), 1);
}

#[test]
fn a_listing_may_have_the_outputs_of_one_job_or_task() {
    let mut registry = registry(1);
    make(&mut registry, "a/2", &[("y", 2), ("x", 1)], 0, 1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    make(&mut registry, "b/1", &[("x", 3)], 0, 1);
    let job_a = job("a");
    let of_job: Vec<String> = registry
        .list_job_outputs(&job_a)
        .map(|view| format!("{}/{} {}", view.key.node, view.output.path, view.copies))
        .collect();
    assert_eq!(of_job, ["1/x 1", "2/x 1", "2/y 1"]);
    let task = key("a", "2");
    let paths = registry.list_task_outputs(&task);
    let paths: Vec<&str> = paths.map(|view| view.output.path.as_str()).collect();
    assert_eq!(paths, ["x", "y"]);
    assert_eq!(registry.list_job_outputs(&job("c")).count(), 0);
    assert_eq!(registry.list_task_outputs(&key("a", "3")).count(), 0);
}

#[test]
fn an_artifact_is_wanted_until_its_last_name_is_gone() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1), ("y", 1)], 0, 1);
    make(&mut registry, "b/1", &[("z", 1)], 0, 1);
    // The next run keeps one of both names.
    make(&mut registry, "a/1", &[("y", 1), ("x", 2)], 0, 10);
    registry.forget(&key("b", "1"), second(20));
    assert_eq!(unwanted(&registry, 0, 1000), [0_u8; 0]);
    make(&mut registry, "a/1", &[("x", 2)], 0, 30);
    assert_eq!(unwanted(&registry, 0, 29 + GRACE), [0_u8; 0]);
    assert_eq!(unwanted(&registry, 0, 30 + GRACE), [1]);
    registry.forget_job(&job("a"), second(31));
    assert_eq!(unwanted(&registry, 0, 31 + GRACE), [1, 2]);
}

#[test]
fn a_pin_keeps_an_artifact_without_a_name() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    registry.pin(run(100), [id(1), id(1)], second(2));
    registry.pin(run(100), [id(1)], second(2));
    registry.pin(run(101), [id(1)], second(2));
    registry.forget(&key("a", "1"), second(3));
    registry.unpin(run(100), second(10));
    registry.unpin(run(100), second(11));
    assert_eq!(unwanted(&registry, 0, 1000), [0_u8; 0]);
    registry.unpin(run(101), second(20));
    assert_eq!(unwanted(&registry, 0, 19 + GRACE), [0_u8; 0]);
    assert_eq!(unwanted(&registry, 0, 20 + GRACE), [1]);
}

#[test]
fn sums_count_each_artifact_once() {
    let mut registry = registry(2);
    make(&mut registry, "a/1", &[("x", 1), ("y", 1)], 0, 1);
    make(&mut registry, "a/2", &[("x", 1), ("y", 2)], 1, 1);
    make(&mut registry, "b/1", &[("x", 2)], 1, 1);
    registry.dropped(&holder(1, 0), id(2), second(2));
    let totals = |name: &str| registry.set(&job(name)).expect("a set").totals;
    let expected = SetTotals {
        amount: ArtifactAmount {
            artifacts: 2,
            bytes: size(1) + size(2),
        },
        copies: 2,
        without_copy: 1,
    };
    assert_eq!(totals("a"), expected);
    assert_eq!((totals("b").copies, totals("b").without_copy), (0, 1));
    assert_eq!(registry.set(&job("a")).expect("a set").tasks, 2);
    assert_eq!(registry.sets(Some(&job("a"))).count(), 1);
    assert_eq!(registry.producers(id(2)).count(), 2);
}

#[test]
fn absurd_sizes_do_no_harm() {
    let mut registry = registry(1);
    let mut huge = output("x", 1);
    huge.artifact.size = u64::MAX;
    let mut other = output("y", 2);
    other.artifact.size = u64::MAX;
    let outputs = vec![huge, other];
    registry.stored(&holder(0, 0), id(1), second(1));
    registry.stored(&holder(0, 0), id(2), second(1));
    registry.record(&key("a", "1"), run(1), outputs, Replicas::ONE, clocks(1));
    make(&mut registry, "a/1", &[("x", 3)], 0, 2);
    let totals = registry.set(&job("a")).expect("a set").totals;
    assert_eq!(totals.amount.bytes, size(3));
    assert_eq!(registry.only_at(&lock(0)).bytes, size(3));
}
