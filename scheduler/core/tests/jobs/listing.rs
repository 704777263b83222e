//! Tests of bounded lists. A page of tasks scans a bounded number of them, and its cursor is valid for the scheduler that issued it. The
//! slots of all workers have a bounded size.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{ListedState, WorkerSetId};
use brasserie_scheduler_core::{Answer, Query, TaskCursor, TaskList, TaskPage};

use crate::support::{Script, config, listed, one_job, options, worker};

/// More tasks than one page scans.
const TASKS: usize = 12_000;

fn page(s: &Script, list: &TaskList) -> TaskPage {
    match s.scheduler.answer(s.now, &Query::Tasks(list.clone())) {
        Answer::Tasks(page) => page,
        other => panic!("{other:?}"),
    }
}

fn list(states: &[ListedState], after: Option<TaskCursor>) -> TaskList {
    TaskList {
        job: None,
        states: states.iter().copied().collect::<BTreeSet<_>>(),
        after,
        limit: usize::MAX,
    }
}

/// Returns the tasks of all pages, and the number of pages.
fn all(s: &Script, states: &[ListedState]) -> (Vec<String>, usize) {
    let (mut nodes, mut pages, mut after) = (Vec::new(), 0, None);
    loop {
        let page = page(s, &list(states, after));
        pages += 1;
        assert!(page.tasks.len() <= 1000, "{}", page.tasks.len());
        nodes.extend(page.tasks.iter().map(|task| task.task.node.to_string()));
        after = page.next;
        if after.is_none() {
            return (nodes, pages);
        }
    }
}

#[test]
fn a_page_scans_a_bounded_number_of_tasks_and_the_next_one_continues() {
    let mut s = Script::with_config(one_job(TASKS, r#", "backoff": ["fail"]"#));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(
        call,
        brasserie_common::CallOutcome::Done(brasserie_scheduler_core::CallReply::Empty),
    );
    let failed = brasserie_common::ReportedStatus::error_backoff("a reason");
    assert_eq!(s.update(&w, &task, failed).1, Ok(()));
    let (nodes, pages) = all(&s, &[ListedState::Failed]);
    assert_eq!(nodes, [task.node.to_string()]);
    assert!(pages > 2, "{pages} pages");
    let (mut nodes, _) = all(&s, &[]);
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), TASKS, "each task once");
    assert_eq!(all(&s, &[ListedState::Done]), (Vec::new(), 1));
}

#[test]
fn a_task_that_an_earlier_scheduler_started_is_listed_since_that_start() {
    let mut s = Script::with_config(one_job(1, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(
        call,
        brasserie_common::CallOutcome::Done(brasserie_scheduler_core::CallReply::Empty),
    );
    let since = |s: &Script| page(s, &list(&[ListedState::Running], None)).tasks[0].since;
    let start = since(&s).expect("a start");
    s.advance(Duration::from_secs(100));
    let mut s = s.restart(options());
    s.load(one_job(1, ""));
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.answer_fetch(vec![listed("w", "n0", task.invocation)]);
    let known = since(&s).expect("a start");
    let error = known.as_millis().abs_diff(start.as_millis());
    assert!(error <= 1000, "{known:?} instead of {start:?}");
}

#[test]
fn a_cursor_of_an_earlier_scheduler_is_refused() {
    let s = Script::with_config(one_job(2, ""));
    let list = TaskList {
        limit: 1,
        ..list(&[], None)
    };
    let after = page(&s, &list).next;
    assert!(after.is_some());
    let mut s = s.restart(options());
    s.load(one_job(2, ""));
    let answer = s
        .scheduler
        .answer(s.now, &Query::Tasks(TaskList { after, ..list }));
    assert!(
        matches!(&answer, Answer::Unknown(why) if why.contains("anew")),
        "{answer:?}"
    );
}

#[test]
fn workers_show_their_slots_unless_all_together_are_too_many() {
    let slots_of = |names: &[String]| {
        let more = names
            .iter()
            .map(|name| format!(r#", "{name}": {{"default": 0, "limit": 9}}"#));
        let more: String = more.collect();
        let mut s = Script::with_config(config(&format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"], "node_sources": [{{"source": "manual", "prefs": {{"n": []}}}}]}},
                "resources": {{"worker": {{"slots": {{"default": 2, "limit": 4}}{more}}}}}}},
                "bistro_job->j": {{"command": ["/bin/true"]}}}}"#
        )));
        for shard in 1..=2 {
            s.join(&worker(&format!("w{shard}"), shard, 10));
        }
        s.take_start();
        let workers = s.status().workers.into_iter();
        let mut slots: Vec<(String, i64, Option<i64>)> = workers
            .flat_map(|worker| worker.slots)
            .map(|slots| (slots.resource, slots.in_use, slots.limit))
            .collect();
        slots.sort();
        slots
    };
    let slots = |in_use| ("slots".to_owned(), in_use, Some(4));
    let link = || ("link".to_owned(), 0, Some(9));
    assert_eq!(
        slots_of(&["link".to_owned()]),
        [link(), link(), slots(0), slots(2)]
    );
    let long = |n: usize| format!("{n}{}", "x".repeat(1000));
    let many: Vec<String> = (0..600).map(long).collect();
    assert_eq!(slots_of(&many), []);
}

#[test]
fn a_task_in_its_safety_wait_counts_as_in_backoff_and_its_reason_names_the_wait() {
    let mut s = Script::with_config(one_job(1, ""));
    s.join(&worker("w", 1, 10));
    let (call, ..) = s.take_start();
    s.complete(
        call,
        brasserie_common::CallOutcome::Done(brasserie_scheduler_core::CallReply::Empty),
    );
    let waits = |s: &Script| page(s, &list(&[ListedState::Backoff], None)).tasks;
    let lost_by = s.now + Duration::from_secs(3600);
    while waits(&s).is_empty() && s.now < lost_by {
        s.advance(Duration::from_secs(1));
    }
    let reason = waits(&s).pop().and_then(|task| task.reason);
    let reason = reason.expect("a task that waits");
    assert!(
        reason.contains(", after its safety wait (last status: "),
        "{reason}"
    );
    let counts = s.status().jobs[0].counts;
    assert_eq!((counts.in_backoff, counts.total), (1, 1));
}
