//! Tests of workers that obey another scheduler: a scheduler takes them over if the other one is older, and steps down if it is newer.

mod support;

use std::time::Duration;

use brasserie_common::{
    CallOutcome, Health, RefusalCode, ReportedStatus, RunningTask, SchedulerId, SequenceNumber,
    WorkerDescription, WorkerSetId,
};
use brasserie_scheduler_core::{Call, CallReply, Durable, ExitReason, Rejection};

use support::{SETTLE, Script, listed, one_job, options, worker};

const RETRY: &str = r#", "backoff": [1, "repeat"]"#;

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn older() -> SchedulerId {
    SchedulerId::new(5, 5)
}

fn newer() -> SchedulerId {
    SchedulerId::new(i64::MAX, 5)
}

fn refused(by: SchedulerId) -> CallOutcome<CallReply> {
    CallOutcome::Refused(RefusalCode::BoundTo(by), "not you".to_owned())
}

fn at_work(nodes: usize) -> (Script, WorkerDescription, Vec<RunningTask>) {
    let mut s = Script::with_config(one_job(nodes, RETRY));
    let mut w = worker("w", 1, 10);
    w.usable.cpu_cores = 8.0;
    s.join(&w);
    let mut runs = Vec::new();
    while !s.starts().is_empty() {
        let (call, task, _) = s.take_start();
        s.complete(call, CallOutcome::Done(CallReply::Empty));
        runs.push(task);
    }
    (s, w, runs)
}

/// Returns the worker's health, and how often its association has begun anew.
fn health(s: &mut Script) -> (Health, u32) {
    let worker = &s.status().workers[0];
    (worker.health, worker.begun_anew)
}

fn assert_stepped_down(s: &mut Script, w: &WorkerDescription, run: &RunningTask) {
    let reason = ExitReason::SteppedDown { newer: newer() };
    assert_eq!(s.exit, Some(reason));
    let status = s.status();
    assert!(
        status.errors[0].contains("stepped down"),
        "{:?}",
        status.errors
    );
    s.calls.clear();
    let records = s.records.len();
    let refusal = Rejection::SteppedDown { newer: newer() };
    assert_eq!(
        s.update(w, run, ReportedStatus::done()).1,
        Err(refusal.clone())
    );
    assert_eq!(s.heartbeat(w, WorkerSetId::default()), Err(refusal));
    s.advance(secs(10_000));
    assert!(
        s.calls.is_empty() && s.records.len() == records,
        "nothing is done any more"
    );
    assert_eq!(s.scheduler.poll_timeout(), None);
}

#[test]
fn a_start_that_a_newer_schedulers_worker_refuses_ends_the_program() {
    let mut s = Script::with_config(one_job(2, RETRY));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, refused(newer()));
    assert_stepped_down(&mut s, &w, &task);
}

#[test]
fn so_does_a_question_about_unsure_tasks() {
    let mut s = Script::with_config(one_job(1, RETRY));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Unknown("late".to_owned()));
    let notify = s.take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }));
    s.complete(notify.expect("asked").0, refused(newer()));
    assert_stepped_down(&mut s, &w, &task);
}

#[test]
fn and_a_fetch_but_not_what_a_heartbeat_names() {
    let mut s = Script::new(options(), Durable::default());
    s.load(one_job(1, RETRY));
    let w = worker("w", 1, 10);
    let set = WorkerSetId {
        scheduler: newer(),
        version: 3,
        ..WorkerSetId::default()
    };
    // The newer scheduler may be long dead, and this directory an old backup. So this scheduler waits and does not step down.
    s.heartbeat(&w, set).expect("a free shard");
    assert_eq!(s.exit, None);
    let wait = s.status().initial_wait.expect("it waits");
    assert!(wait.contains("does not remember"), "{wait}");
    let fetch = s.take_call(|c| matches!(c, Call::GetRunningTasks { .. }));
    s.complete(fetch.expect("asked").0, refused(newer()));
    assert_stepped_down(
        &mut s,
        &w,
        &listed("w", "n0", brasserie_common::InvocationId::new(1, 1)),
    );
}

#[test]
fn healthchecks_and_suicide_requests_may_be_refused_by_anybody() {
    let (mut s, _, _) = at_work(1);
    s.advance(secs(60));
    let check = s.take_call(|c| matches!(c, Call::Healthcheck(_)));
    s.complete(check.expect("due").0, refused(newer()));
    s.advance(secs(300));
    let suicide = s.take_call(|c| matches!(c, Call::RequestSuicide { .. }));
    s.complete(suicide.expect("lost").0, refused(newer()));
    assert_eq!(s.exit, None);
}

#[test]
fn a_plain_refusal_begins_nothing_anew() {
    let (mut s, w, runs) = at_work(1);
    s.update(&w, &runs[0], ReportedStatus::error_backoff("x"))
        .1
        .expect("known");
    s.advance(secs(2));
    let own = s.scheduler.id();
    for code in [
        RefusalCode::WrongId,
        RefusalCode::BoundTo(own),
        RefusalCode::Busy,
    ] {
        let (call, _, _) = s.take_start();
        s.complete(call, CallOutcome::Refused(code, "no".to_owned()));
        s.advance(secs(1));
        assert_eq!(health(&mut s), (Health::Healthy, 0), "{code:?}");
    }
}

#[test]
fn a_worker_of_an_older_scheduler_is_fetched_anew() {
    let (mut s, w, runs) = at_work(3);
    let old_set = s
        .heartbeat(&w, WorkerSetId::default())
        .expect("known")
        .worker_set;
    // The task on n0 failed and starts again, and the start is refused.
    let failed = || ReportedStatus::error_backoff("x");
    s.update(&w, &runs[0], failed()).1.expect("known");
    s.advance(secs(2));
    let (call, again, before) = s.take_start();
    s.complete(call, refused(older()));
    assert_eq!(health(&mut s), (Health::New, 1));
    // Nothing starts there, and no status is accepted, until its tasks are known again.
    s.advance(secs(2));
    assert!(s.starts().is_empty());
    let refusal = s.update(&w, &runs[1], ReportedStatus::done()).1;
    assert_eq!(refusal, Err(Rejection::StillNew));
    // The task on n1 is listed, so it runs. That on n2 is not, so the worker is asked. That on n0 runs by the other scheduler's order and
    // is adopted.
    let theirs = listed("w", "n0", brasserie_common::InvocationId::new(7, 7));
    s.answer_fetch(vec![runs[1].clone(), theirs.clone()]);
    assert_eq!(health(&mut s), (Health::Unhealthy, 1));
    let notify = s.take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }));
    let (id, notify) = notify.expect("n2 is unsure");
    let Call::NotifyIfTasksNotRunning {
        tasks, sequence, ..
    } = notify
    else {
        panic!("a notify")
    };
    assert_eq!(tasks.len(), 1);
    assert_eq!(tasks[0].invocation, runs[2].invocation);
    // The worker has kept our sequence number, so the numbers continue from there.
    assert_eq!(sequence, SequenceNumber(before.0 + 1));
    s.complete(id, CallOutcome::Done(CallReply::Empty));
    let gone = s.update(&w, &runs[2], ReportedStatus::was_not_running());
    assert_eq!(gone.1, Ok(()));
    // The worker is HEALTHY again only after a new healthcheck, like any new worker.
    s.answer_healthcheck(&w);
    s.heartbeat(&w, old_set).expect("known");
    s.advance(SETTLE);
    assert_eq!(health(&mut s), (Health::Healthy, 1));
    s.advance(secs(2));
    let starts = s.starts();
    assert_eq!(starts.len(), 1, "n0 is adopted, n1 runs, n2 starts anew");
    assert_eq!(starts[0].node.as_str(), "n2");
    assert!(again.invocation != theirs.invocation);
    assert_eq!(s.update(&w, &theirs, ReportedStatus::done()).1, Ok(()));
}

#[test]
fn a_run_whose_call_is_open_is_judged_by_its_outcome_not_by_the_list() {
    let mut s = Script::with_config(one_job(2, RETRY));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (first, _, _) = s.take_start();
    let (second, open, _) = s.take_start();
    s.complete(first, refused(older()));
    s.answer_fetch(Vec::new());
    assert!(
        s.take_call(|c| matches!(c, Call::NotifyIfTasksNotRunning { .. }))
            .is_none()
    );
    s.complete(second, CallOutcome::Done(CallReply::Empty));
    assert_eq!(s.status().workers[0].running, 1);
    assert_eq!(s.update(&w, &open, ReportedStatus::done()).1, Ok(()));
}

#[test]
fn losing_it_before_its_tasks_are_known_again_holds_everything_back() {
    let (mut s, w, runs) = at_work(2);
    s.update(&w, &runs[0], ReportedStatus::error_backoff("x"))
        .1
        .expect("known");
    s.advance(secs(2));
    let (call, _, _) = s.take_start();
    let begun = s.now;
    s.complete(call, refused(older()));
    // The loss comes no earlier than by the worker's own timers: it may receive the new association a heartbeat gap later.
    s.advance(secs(175));
    assert_eq!(health(&mut s).0, Health::New);
    s.advance(secs(1));
    assert_eq!(
        health(&mut s).0,
        Health::MustDie,
        "{:?}",
        s.now.since(begun)
    );
    // Tasks that were known there are lost as usual. The other scheduler's tasks are unknown.
    assert_eq!(s.durable.hold_back, secs(66));
    let (_, lost) = s.durable.statuses.values().last().expect("stored");
    assert_eq!(lost.safety_seconds, 66);
    let other = worker("v", 2, 20);
    s.join(&other);
    s.advance(secs(50));
    assert!(s.starts().is_empty());
    let why = s.status().initial_wait.expect("held back");
    assert!(why.contains("before its running tasks were known"), "{why}");
}

#[test]
fn what_a_restart_finds_does_not_depend_on_it() {
    let (s, w, runs) = at_work(1);
    let mut s = s.restart(options());
    s.load(one_job(1, RETRY));
    s.heartbeat(&w, WorkerSetId::default()).expect("recorded");
    let fetch = s.take_call(|c| matches!(c, Call::GetRunningTasks { .. }));
    s.complete(fetch.expect("asked").0, refused(older()));
    assert_eq!(health(&mut s), (Health::New, 0), "it is asked again");
    s.advance(secs(1));
    s.answer_fetch(runs);
    assert_eq!(s.status().workers[0].running, 1);
}
