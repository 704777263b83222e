//! Tests of task lists: a page scans a bounded number of tasks, and its cursor is valid for the scheduler that issued it.

use std::collections::BTreeSet;

use brasserie_common::ListedState;
use brasserie_scheduler_core::{Answer, Query, TaskCursor, TaskList, TaskPage};

use crate::support::{Script, one_job, options, worker};

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
