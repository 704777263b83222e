//! Tests of tasks that stand by at a worker whose slots are in use: which of them begin, when, and what becomes of the others.

use std::time::Duration;

use brasserie_common::resources::{NodeResources, ResourceAmount};
use brasserie_common::worker::TaskRoom;
use brasserie_common::{
    EndedBy, Health, NodeName, Principal, RefusalCode, ReportPolicy, ReportedStatus, RequestId,
    Story,
};

use crate::effect::{Call, Effect, Reply};
use crate::worker::rig::*;
use crate::{Event, RunTask};

fn slots(amount: i32) -> Vec<ResourceAmount> {
    vec![ResourceAmount {
        name: "slots".to_owned(),
        amount,
    }]
}

/// A run that needs this many of the worker's two slots, and stands by until they are free.
fn needs(amount: i32, node: &str, number: i64) -> RunTask {
    let mut run = run(1, 0, task(node, number));
    run.task.resources = vec![NodeResources {
        node: NodeName::try_from("shard").unwrap(),
        resources: slots(amount),
    }];
    run.task.worker_slots = Some(slots(2));
    run
}

fn begun(effects: &[Effect]) -> Vec<String> {
    let begun = effects.iter().filter_map(|effect| match effect {
        Effect::Spawn { run, .. } => Some(run.task.node.to_string()),
        _ => None,
    });
    begun.collect()
}

fn end(rig: &mut Rig, node: &str, number: i64) -> Vec<String> {
    begun(&rig.end(node, number, ReportedStatus::done()))
}

fn take_back(rig: &mut Rig, node: &str, number: i64) -> Vec<Effect> {
    rig.hear(Event::KillTask {
        request: RequestId(9),
        from: Principal::Own,
        task: key(node),
        invocation: invocation(number),
        scheduler: scheduler(1),
        worker: OWN,
        kill: term_wait_kill(0, EndedBy::TakeBack),
    })
}

/// Returns the only reported completion, with its story.
fn reported(effects: &[Effect]) -> (ReportedStatus, Story) {
    let ends = effects.iter().filter_map(|effect| match effect {
        Effect::Call {
            call: Call::UpdateStatus { task, status, .. },
            ..
        } => Some((status.clone(), (**task.story.as_ref()?).clone())),
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    let [end] = &ends[..] else {
        panic!("expected one end: {effects:?}");
    };
    end.clone()
}

#[test]
fn a_task_begins_when_slots_are_free_and_says_how_long_it_stood_by() {
    let mut rig = Rig::joined();
    for (node, number) in [("a", 1), ("b", 2)] {
        assert_eq!(begun(&rig.run(needs(1, node, number))), [node]);
    }
    for (node, number) in [("c", 3), ("d", 4)] {
        assert_eq!(begun(&rig.run(needs(1, node, number))), [""; 0]);
    }
    // The scheduler sees all of them as running, and which of them have not begun.
    let listed = |rig: &Rig| {
        let tasks = rig.own().running_tasks().into_iter();
        let waits = tasks.map(|task| (task.node.to_string(), task.worker_slots.is_some()));
        waits.collect::<Vec<_>>()
    };
    let expected = [("a", false), ("b", false), ("c", true), ("d", true)];
    let expected = expected.map(|(node, waits)| (node.to_owned(), waits));
    assert_eq!(listed(&rig), expected);
    rig.sleep(30);
    assert_eq!(end(&mut rig, "b", 2), ["c"]);
    assert_eq!(listed(&rig)[2], ("c".to_owned(), false));
    rig.sleep(5);
    let (_, story) = reported(&rig.end("c", 3, ReportedStatus::done()));
    assert_eq!(story.waited, Duration::from_millis(30));
    assert_eq!(end(&mut rig, "a", 1), [""; 0], "d has begun");
}

#[test]
fn a_task_that_needs_more_slots_lets_others_overtake_it() {
    let mut rig = Rig::joined();
    rig.run(needs(1, "a", 1));
    rig.run(needs(1, "b", 2));
    rig.run(needs(2, "wide", 3));
    rig.run(needs(1, "c", 4));
    assert_eq!(end(&mut rig, "a", 1), ["c"]);
    assert_eq!(end(&mut rig, "b", 2), [""; 0]);
    assert_eq!(end(&mut rig, "c", 4), ["wide"]);
}

#[test]
fn a_task_without_the_workers_slots_begins_at_once_and_counts() {
    let mut rig = Rig::joined();
    let mut at_once = needs(2, "a", 1);
    at_once.task.worker_slots = None;
    let more = RunTask {
        task: task("b", 2),
        ..at_once.clone()
    };
    assert_eq!(begun(&rig.run(at_once)), ["a"]);
    assert_eq!(begun(&rig.run(more)), ["b"]);
    assert_eq!(begun(&rig.run(needs(1, "c", 3))), [""; 0]);
    assert_eq!(end(&mut rig, "b", 2), [""; 0], "it held no slots");
    assert_eq!(end(&mut rig, "a", 1), ["c"]);
}

#[test]
fn a_task_is_given_back_only_before_it_begins() {
    let mut rig = Rig::joined();
    rig.run(needs(2, "a", 1));
    rig.run(needs(1, "b", 2));
    rig.run(needs(1, "c", 3));
    let effects = take_back(&mut rig, "b", 2);
    let (status, story) = reported(&effects);
    assert_eq!(story.ended_by, Some(EndedBy::TakeBack));
    assert_eq!(status, ReportedStatus::taken_back());
    // A repetition finds that it has ended.
    let (code, text) = refusal(&take_back(&mut rig, "b", 2));
    assert_eq!(code, RefusalCode::Unspecified);
    assert!(text.contains("has ended already"), "{text}");
    assert_eq!(end(&mut rig, "a", 1), ["c"]);
    let (code, text) = refusal(&take_back(&mut rig, "c", 3));
    assert_eq!(code, RefusalCode::Unspecified);
    assert!(text.ends_with("has begun"), "{text}");
    assert_eq!(rig.worker.live_processes(), 1);
    // A late repetition of the start begins nothing.
    let (code, _) = refusal(&rig.run(needs(1, "b", 2)));
    assert_eq!(code, RefusalCode::Duplicate);
}

#[test]
fn a_worker_that_is_not_healthy_begins_nothing() {
    let mut rig = Rig::joined();
    rig.run(needs(2, "a", 1));
    rig.run(needs(1, "b", 2));
    let period = u64::try_from(PERIOD.as_millis()).unwrap();
    rig.wait(period);
    rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::Unhealthy);
    assert_eq!(end(&mut rig, "a", 1), [""; 0]);
    rig.wait(period);
    let effects = rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::Healthy);
    assert_eq!(begun(&effects), ["b"]);
}

#[test]
fn a_drained_worker_gives_back_what_stands_by() {
    let mut rig = Rig::joined();
    rig.run(needs(2, "a", 1));
    rig.run(needs(1, "b", 2));
    let (status, story) = reported(&rig.hear(Event::Drain));
    assert_eq!(story.ended_by, Some(EndedBy::TakeBack));
    assert_eq!(status, ReportedStatus::taken_back());
    assert_eq!(rig.worker.live_processes(), 1);
}

/// A worker with a task that uses all slots, and five that stand by.
fn with_five_on_standby(report: Option<ReportPolicy>) -> Rig {
    let mut rig = Rig::joined();
    for (node, number) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)] {
        let mut run = needs(2, node, number);
        run.task.work.report = report;
        rig.run(run);
    }
    rig.sleep(1);
    rig
}

/// Ends a task, and returns the nodes of all completions that leave now.
fn leaving(rig: &mut Rig, node: &str, number: i64) -> Vec<String> {
    nodes_of_reports(&rig.end(node, number, ReportedStatus::done()))
}

fn nodes_of_reports(effects: &[Effect]) -> Vec<String> {
    let reports = effects.iter().filter_map(|effect| match effect {
        Effect::Call {
            call: Call::UpdateStatus { task, goes, .. },
            ..
        } => Some(format!("{} {goes:?}", task.node)),
        _ => None,
    });
    reports.collect()
}

#[test]
fn completions_leave_together_while_as_many_tasks_stand_by() {
    let mut rig = with_five_on_standby(None);
    assert_eq!(leaving(&mut rig, "a", 1), ["a Alone"], "it never stood by");
    assert_eq!(leaving(&mut rig, "b", 2), [""; 0]);
    assert_eq!(leaving(&mut rig, "c", 3), ["b Together", "c Together"]);
    assert_eq!(
        leaving(&mut rig, "d", 4),
        ["d Together"],
        "only f stands by"
    );
}

#[test]
fn a_completion_waits_five_milliseconds_at_most() {
    let mut rig = with_five_on_standby(None);
    leaving(&mut rig, "a", 1);
    assert_eq!(leaving(&mut rig, "b", 2), [""; 0]);
    assert_eq!(nodes_of_reports(&rig.wait(4)), [""; 0]);
    assert_eq!(nodes_of_reports(&rig.wait(1)), ["b Together"]);
    // A completion that must leave at once takes the others along.
    assert_eq!(leaving(&mut rig, "c", 3), [""; 0]);
    let together = nodes_of_reports(&take_back(&mut rig, "f", 6));
    assert_eq!(together, ["c Together", "f Alone"]);
}

#[test]
fn a_job_may_ask_for_reports_at_once() {
    let mut rig = with_five_on_standby(Some(ReportPolicy::Immediate));
    leaving(&mut rig, "a", 1);
    assert_eq!(leaving(&mut rig, "b", 2), ["b Alone"]);
}

#[test]
fn a_task_that_lacks_more_than_slots_is_refused_and_not_queued() {
    let mut rig = Rig::with(|options| {
        options.description.room = Some(TaskRoom {
            most: 1.try_into().unwrap(),
            limited_by: "open files: 300, 6 a task".into(),
        });
    })
    .join();
    rig.run(needs(1, "a", 1));
    let (code, _) = refusal(&rig.run(needs(1, "b", 2)));
    assert_eq!(code, RefusalCode::Busy);
}

#[test]
fn a_completion_is_not_delayed_if_no_task_takes_its_slots() {
    let mut rig = Rig::joined();
    for (node, number, amount) in [
        ("a", 1, 2),
        ("b", 2, 1),
        ("c", 3, 1),
        ("wide", 4, 2),
        ("more", 5, 2),
        ("last", 6, 2),
    ] {
        rig.run(needs(amount, node, number));
    }
    rig.sleep(1);
    assert_eq!(leaving(&mut rig, "a", 1), ["a Alone"]);
    assert_eq!(leaving(&mut rig, "b", 2), ["b Together"], "a slot is free");
    assert_eq!(leaving(&mut rig, "c", 3), [""; 0], "`wide` has begun");
}

#[test]
fn a_completion_that_frees_slots_of_nodes_is_not_delayed() {
    let mut rig = Rig::joined();
    for (node, number) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
        let mut run = needs(2, node, number);
        run.task.resources.push(NodeResources {
            node: NodeName::try_from("disk").unwrap(),
            resources: slots(1),
        });
        rig.run(run);
    }
    rig.sleep(1);
    leaving(&mut rig, "a", 1);
    assert_eq!(leaving(&mut rig, "b", 2), ["b Alone"]);
}

#[test]
fn the_answer_to_a_start_says_whether_the_task_stands_by_and_where() {
    let mut rig = Rig::joined();
    let mut answer = |run: RunTask| {
        let effects = rig.run(run);
        let mut replies = effects.into_iter().filter_map(|effect| match effect {
            Effect::Reply { reply, .. } => Some(reply.expect("no refusal")),
            _ => None,
        });
        replies.next().expect("an answer")
    };
    let accepted = |queued_at| Reply::Accepted { queued_at };
    assert_eq!(answer(needs(2, "a", 1)), accepted(None));
    assert_eq!(answer(needs(1, "b", 2)), accepted(Some(1)));
    assert_eq!(answer(needs(1, "c", 3)), accepted(Some(2)));
    let mut plain = needs(1, "d", 4);
    plain.task.worker_slots = None;
    assert_eq!(answer(plain), Reply::Empty, "as to an original scheduler");
}

#[test]
fn queued_tasks_are_listed_last_and_in_their_order() {
    let mut rig = Rig::joined();
    for (node, number) in [("m", 1), ("z", 2), ("a", 3)] {
        rig.run(needs(2, node, number));
    }
    let listed = rig.own().running_tasks();
    let nodes: Vec<&str> = listed.iter().map(|task| task.node.as_str()).collect();
    assert_eq!(nodes, ["m", "z", "a"]);
}
