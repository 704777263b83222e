//! Tests of `runTask`, `notifyIfTasksNotRunning` and `killTask`.

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::resources::TaskPhysicalResources;
use brasserie_common::story::MAX_LAST_BYTES;
use brasserie_common::worker::TaskRoom;
use brasserie_common::{EndedBy, Health, RefusalCode, ReportedStatus, Story};

use crate::Event;
use crate::effect::{Effect, Reply};
use crate::worker::rig::*;

#[test]
fn a_task_is_listed_from_acceptance_until_its_end_is_acknowledged() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    assert_eq!(rig.fetch(1), [listed(vec![task("a", 1)])]);
    let done = ReportedStatus::done();
    let effects = rig.end("a", 1, done.clone());
    assert_eq!(effects, [report(5, 1, task("a", 1), done.clone())]);
    let mut ended = with_story(task("a", 1));
    ended.ended = Some(done);
    assert_eq!(rig.fetch(1), [listed(vec![ended])]);
    assert_eq!(rig.acknowledge(5), []);
    assert_eq!(rig.fetch(1), [listed(vec![])]);
}

#[test]
fn a_list_of_many_ends_carries_the_last_lines_of_some() {
    const ENDS: i64 = 2000;
    let mut rig = Rig::joined();
    let story = Story {
        last_lines: vec!["x".repeat(MAX_LAST_BYTES)],
        ..Story::exited(1)
    };
    for run in 0..ENDS {
        let node = format!("n{run}");
        rig.start(&node, run);
        rig.hear(Event::TaskEnded {
            task: key(&node),
            invocation: invocation(run),
            status: ReportedStatus::failed(),
            story: Box::new(story.clone()),
        });
    }
    let effects = rig.fetch(1);
    let [
        Effect::Reply {
            reply: Ok(Reply::RunningTasks(tasks)),
            ..
        },
    ] = &effects[..]
    else {
        panic!("a list");
    };
    let stories = tasks
        .iter()
        .map(|task| task.story.as_deref().expect("each has one"));
    let with_lines = stories.filter(|told| **told == story).count();
    assert_eq!((tasks.len(), with_lines), (ENDS as usize, 1024));
}

#[test]
fn healthchecks_are_not_listed() {
    let mut rig = Rig::joined();
    assert_eq!(rig.run(healthcheck(1, 8, "")).len(), 2);
    assert_eq!(rig.fetch(1), [listed(vec![])]);
    assert_eq!(rig.worker.live_processes(), 1);
}

#[test]
fn only_a_healthy_worker_starts_tasks() {
    let mut rig = Rig::new();
    rig.wait(0);
    rig.heartbeat_answered(1, 1, 1, Health::Unhealthy);
    rig.fetch(1);
    let (code, text) = refusal(&rig.run(run(1, 0, task("a", 1))));
    assert_eq!(code, RefusalCode::Unhealthy);
    assert!(text.contains("unhealthy"), "{text}");
}

#[test]
fn one_run_a_task_and_one_start_an_invocation() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    let twice = |rig: &mut Rig, invocation| refusal(&rig.run(run(1, 0, task("a", invocation))));
    assert_eq!(twice(&mut rig, 1).0, RefusalCode::Duplicate);
    let (code, text) = twice(&mut rig, 2);
    assert_eq!(code, RefusalCode::Duplicate);
    assert!(text.contains("runs"), "{text}");
    rig.end("a", 1, ReportedStatus::done());
    let (code, text) = twice(&mut rig, 3);
    assert_eq!(code, RefusalCode::Duplicate);
    assert!(text.contains("not acknowledged"), "{text}");
    rig.acknowledge(5);
    // All three invocations were accepted or refused before and stay refused; the next one runs.
    for invocation in [1, 2, 3] {
        assert_eq!(twice(&mut rig, invocation).0, RefusalCode::Duplicate);
    }
    rig.start("a", 4);
}

#[test]
fn a_refused_invocation_stays_refused_when_the_reason_is_gone() {
    let mut rig = Rig::new();
    rig.wait(0);
    let early = run(1, 0, task("a", 1));
    assert_eq!(refusal(&rig.run(early.clone())).0, RefusalCode::Unhealthy);
    let mut rig = rig.join();
    assert_eq!(refusal(&rig.run(early)).0, RefusalCode::Duplicate);
}

#[test]
fn a_lost_run_is_denied_and_never_starts() {
    let mut rig = Rig::joined();
    rig.notify(1, 1, vec![]);
    // A(1) is late; the scheduler asks (2) and starts B(2).
    let a = run(1, 1, task("a", 1));
    let denied = ReportedStatus::was_not_running();
    assert_eq!(
        rig.notify(1, 2, vec![a.task.clone()]),
        [accepted(), report(5, 1, a.task.clone(), denied)]
    );
    let (code, text) = refusal(&rig.run(a.clone()));
    assert_eq!(code, RefusalCode::OldSequence);
    assert!(text.contains("1 is below 2"), "{text}");
    let b = run(1, 2, task("b", 2));
    assert_eq!(rig.run(b).len(), 2);
    // A valid sequence number does not help either.
    let mut again = a;
    again.sequence.0 = 2;
    assert_eq!(refusal(&rig.run(again)).0, RefusalCode::Duplicate);
    assert_eq!(rig.acknowledge(5), []);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}

#[test]
fn a_denied_run_does_not_start_whatever_its_number() {
    let mut rig = Rig::joined();
    rig.notify(1, 1, vec![task("a", 1)]);
    assert_eq!(
        refusal(&rig.run(run(1, 1, task("a", 1)))).0,
        RefusalCode::Duplicate
    );
}

#[test]
fn a_question_that_is_not_newer_is_refused() {
    let mut rig = Rig::joined();
    assert_eq!(
        refusal(&rig.notify(1, 0, vec![task("a", 1)])).0,
        RefusalCode::OldSequence
    );
    assert_eq!(rig.notify(1, 1, vec![]), [accepted()]);
    assert_eq!(
        refusal(&rig.notify(1, 1, vec![task("a", 1)])).0,
        RefusalCode::OldSequence
    );
}

#[test]
fn what_runs_is_not_denied_and_another_run_of_it_is() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    assert_eq!(rig.notify(1, 1, vec![task("a", 1)]), [accepted()]);
    // This run was refused because of the first one, and the refusal was lost.
    let denied = ReportedStatus::was_not_running();
    assert_eq!(
        rig.notify(1, 2, vec![task("a", 2)]),
        [accepted(), report(5, 1, task("a", 2), denied)]
    );
    // A run that has ended is reported by its completion.
    rig.end("a", 1, ReportedStatus::done());
    assert_eq!(rig.notify(1, 3, vec![task("a", 1)]), [accepted()]);
}

#[test]
fn questions_are_bounded_and_refused_as_a_whole() {
    let mut rig = Rig::joined();
    let many = |from: i64, n: i64| (from..from + n).map(|i| task("a", i)).collect::<Vec<_>>();
    assert_eq!(
        refusal(&rig.notify(1, 1, many(0, 10_001))).0,
        RefusalCode::Busy
    );
    let effects = rig.notify(1, 1, many(0, 9_999));
    assert_eq!(effects.len(), 1 + 100);
    assert_eq!(
        refusal(&rig.notify(1, 2, many(20_000, 2))).0,
        RefusalCode::Busy
    );
    // The refused question has not moved the sequence number.
    assert_eq!(rig.notify(1, 2, many(20_000, 1)), [accepted()]);
    assert_eq!(rig.own().unacknowledged_reports(), 10_000);
    // The same question again adds nothing.
    rig.acknowledge(5);
    assert_eq!(rig.own().unacknowledged_reports(), 9_999);
    rig.notify(1, 3, many(20_000, 1));
    assert_eq!(rig.own().unacknowledged_reports(), 9_999);
}

#[test]
fn a_job_without_a_command_needs_a_worker_command() {
    let mut wanted = run(1, 0, task("a", 1));
    wanted.command.clear();
    let (code, text) = refusal(&Rig::joined().run(wanted.clone()));
    assert_eq!(code, RefusalCode::Unspecified);
    assert!(text.contains("--worker-command"), "{text}");
    let mut rig = Rig::with(|o| o.worker_command = vec!["/bin/own".to_owned()]).join();
    assert!(rig.own().description().has_worker_command);
    let effects = rig.run(wanted.clone());
    wanted.command = vec!["/bin/own".to_owned()];
    let spawn = spawned(wanted);
    assert_eq!(effects, [spawn, accepted()]);
}

#[test]
fn one_healthcheck_at_a_time_and_none_twice() {
    let mut rig = Rig::joined();
    rig.notify(1, 5, vec![]);
    // Healthchecks ignore sequence numbers.
    assert_eq!(rig.run(healthcheck(1, 8, "")).len(), 2);
    assert_eq!(
        refusal(&rig.run(healthcheck(1, 9, ""))).0,
        RefusalCode::Duplicate
    );
    let effects = rig.end_healthcheck(healthcheck(1, 8, ""), ReportedStatus::done());
    assert_eq!(effects.len(), 1);
    rig.acknowledge(5);
    let (code, text) = refusal(&rig.run(healthcheck(1, 8, "")));
    assert_eq!(code, RefusalCode::Duplicate);
    assert!(text.contains("before"), "{text}");
    assert_eq!(rig.run(healthcheck(1, 9, "")).len(), 2);
}

#[test]
fn healthchecks_have_two_nodes_and_one_of_them_needs_no_association() {
    let mut rig = Rig::joined();
    let (code, text) = refusal(&rig.run(healthcheck(1, 8, "elsewhere")));
    assert_eq!(code, RefusalCode::Unspecified);
    assert!(text.contains("elsewhere"), "{text}");
    assert_eq!(
        refusal(&rig.run(healthcheck(2, 8, ""))).0,
        RefusalCode::BoundTo(scheduler(1))
    );
    assert_eq!(
        rig.run(healthcheck(2, 8, HEALTHCHECK_NEW_WORKER_NODE))
            .len(),
        2
    );
}

#[test]
fn the_healthcheck_of_a_scheduler_to_come_waits_for_its_first_answer() {
    let mut rig = Rig::joined();
    let check = healthcheck(2, 8, HEALTHCHECK_NEW_WORKER_NODE);
    rig.run(check.clone());
    let done = ReportedStatus::done();
    assert_eq!(rig.end_healthcheck(check.clone(), done.clone()), []);
    rig.wait(15_000);
    let effects = rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(
        effects,
        [
            heartbeat(&rig, 6, set(2, 1)),
            report(7, 2, check.task, done)
        ]
    );
}

#[test]
fn the_healthcheck_of_a_scheduler_that_is_gone_blocks_nobody() {
    let old = || healthcheck(1, 8, "");
    let done = ReportedStatus::done;
    // The healthcheck ends before the new scheduler answers, and its acknowledgement is too late to count.
    let mut rig = Rig::joined();
    rig.run(old());
    rig.wait(15_000);
    assert_eq!(rig.end_healthcheck(old(), done()).len(), 1);
    rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(rig.run(healthcheck(2, 8, "")).len(), 2);
    assert_eq!(rig.acknowledge(6), []);
    assert_eq!(rig.worker.live_processes(), 1);
    // The healthcheck ends after the new scheduler has answered.
    let mut rig = Rig::joined();
    rig.run(old());
    rig.wait(15_000);
    rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(rig.end_healthcheck(old(), done()), []);
    assert_eq!(rig.run(healthcheck(2, 8, "")).len(), 2);
    // The completion is unacknowledged when the new scheduler's healthcheck arrives, before its first answer.
    let mut rig = Rig::joined();
    let first = |n| healthcheck(n, 8, HEALTHCHECK_NEW_WORKER_NODE);
    rig.run(first(1));
    assert_eq!(rig.end_healthcheck(first(1), done()).len(), 1);
    assert_eq!(rig.run(first(2)).len(), 2);
    assert_eq!(rig.end_healthcheck(first(2), done()), []);
}

#[test]
fn killing_needs_the_exact_run_and_a_process() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    assert_eq!(
        rig.kill(1, "a", 1),
        [kill_by(EndedBy::Operator, "a", 1, 3), accepted()]
    );
    assert_eq!(refusal(&rig.kill(1, "a", 2)).0, RefusalCode::WrongId);
    assert_eq!(refusal(&rig.kill(1, "b", 1)).0, RefusalCode::WrongId);
    assert_eq!(
        refusal(&rig.kill(2, "a", 1)).0,
        RefusalCode::BoundTo(scheduler(1))
    );
    rig.end("a", 1, ReportedStatus::done());
    let (code, text) = refusal(&rig.kill(1, "a", 1));
    assert_eq!(code, RefusalCode::Unspecified);
    assert!(text.contains("ended already"), "{text}");
}

#[test]
fn samples_show_in_the_listing_and_unknown_ends_change_nothing() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    let physical = TaskPhysicalResources {
        memory_mb: Some(3.0),
        ..TaskPhysicalResources::default()
    };
    for run in [1, 2] {
        let sampled = Event::TaskSampled {
            task: key("a"),
            invocation: invocation(run),
            physical: physical.clone(),
        };
        assert_eq!(rig.hear(sampled), []);
    }
    let mut sampled = task("a", 1);
    sampled.physical = Some(physical);
    assert_eq!(rig.fetch(1), [listed(vec![sampled])]);
    assert_eq!(rig.end("a", 2, ReportedStatus::done()), []);
    assert_eq!(rig.end("b", 1, ReportedStatus::done()), []);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()).len(), 1);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()), []);
}

#[test]
fn no_more_tasks_are_taken_than_there_is_room_for() {
    let mut rig = Rig::with(|options| {
        options.description.room = Some(TaskRoom {
            most: 2.try_into().expect("not zero"),
            limited_by: "open files: 300, 6 a task".into(),
        });
    })
    .join();
    rig.start("a", 1);
    rig.start("b", 2);
    let refused = rig.run(run(1, 0, task("c", 3)));
    let [
        Effect::Reply {
            reply: Err(refusal),
            ..
        },
    ] = &refused[..]
    else {
        panic!("it is refused: {refused:?}");
    };
    assert_eq!(refusal.code, RefusalCode::Busy);
    let text = "it runs as many tasks as it can: 2 at most, by open files: 300, 6 a task";
    assert_eq!(refusal.message, text);
    // A healthcheck takes no place of a task. The place is free once the process is gone, before any acknowledgement.
    rig.run(healthcheck(1, 8, ""));
    rig.end("a", 1, ReportedStatus::done());
    rig.start("d", 4);
}
