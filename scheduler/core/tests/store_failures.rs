//! Tests of a store that fails or stands still: every wait for it is bounded, and nothing is acknowledged before it is durable.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::Duration;

use brasserie_common::{
    CallOutcome, JobName, Principal, ReportedStatus, RequestId, WorkerDescription, WorkerId,
    WorkerSetId,
};
use brasserie_scheduler_core::{
    Answer, Call, CallReply, Durable, Event, JobChange, JobRefusal, MAX_ANSWER_WAIT,
    MAX_REPLY_WAIT, Query, Rejection, Reply,
};
use support::*;

const MOMENT: Duration = Duration::from_millis(1);

/// A HEALTHY worker that runs a task, and a store that does not sync from now on.
fn running() -> (Script, WorkerDescription, brasserie_common::RunningTask) {
    let mut s = Script::with_config(one_job(3, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    let (call, task, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    s.sync_at_once = false;
    (s, w, task)
}

fn fails(s: &mut Script) {
    s.event(Event::StoreFailed {
        message: "the disk is full".to_owned(),
    });
}

/// Returns the id of the next heartbeat's or status's request.
fn next_request(s: &mut Script) -> RequestId {
    RequestId(s.request().0 + 1)
}

/// Returns all replies to this request, oldest first.
fn said(s: &Script, request: RequestId) -> Vec<&Reply> {
    let of = s.replies.iter().filter(|(id, _, _)| *id == request);
    of.map(|(_, _, reply)| reply).collect()
}

#[test]
fn statuses_are_refused_at_once_while_the_store_fails_and_leave_nothing_behind() {
    let (mut s, w, task) = running();
    fails(&mut s);
    let records = s.records.len();
    for _ in 0..1000 {
        let (after, result) = s.update(&w, &task, ReportedStatus::done());
        assert_eq!(after, None);
        let why = result.unwrap_err().to_string();
        assert!(why.contains("the disk is full"), "{why}");
        assert!(why.contains("send it again"), "{why}");
    }
    assert_eq!(s.records.len(), records, "each would wait for the store");
    assert_eq!(s.replies, [], "each has its answer");
    s.event(Event::StoreRecovered);
    let (after, result) = s.update(&w, &task, ReportedStatus::done());
    assert_eq!((after.is_some(), result), (true, Ok(())));
}

#[test]
fn healthchecks_are_taken_while_the_store_fails() {
    let (mut s, w, _) = running();
    fails(&mut s);
    for _ in 0..20 {
        s.advance(Duration::from_secs(10));
        s.echo(&w);
        while let Some((call, message)) = s.take_call(|call| matches!(call, Call::Healthcheck(_))) {
            let Call::Healthcheck(run) = message else {
                panic!("a healthcheck is a runTask");
            };
            s.complete(call, CallOutcome::Done(CallReply::Empty));
            let (_, result) = s.update(&w, &run.task, ReportedStatus::done());
            assert_eq!(result, Ok(()));
        }
    }
    let status = s.status();
    assert_eq!(status.workers[0].health, brasserie_common::Health::Healthy);
}

#[test]
fn a_reply_that_waits_for_too_long_is_a_refusal_and_the_repeat_is_acknowledged_once_it_is_durable()
{
    let (mut s, w, task) = running();
    let first = next_request(&mut s);
    assert!(s.update(&w, &task, ReportedStatus::done()).0.is_some());
    s.advance(MAX_REPLY_WAIT - MOMENT);
    assert_eq!(
        said(&s, first),
        Vec::<&Reply>::new(),
        "its record may still come"
    );
    s.advance(MOMENT);
    let refusal = Reply::UpdateStatus(Err(Rejection::NotDurableYet));
    assert_eq!(said(&s, first), [&refusal]);
    let error = "it has not synced a record for seconds";
    assert!(s.status().errors.iter().any(|e| e.contains(error)));
    // No call waits from now on.
    let again = s.update(&w, &task, ReportedStatus::done());
    assert!(
        matches!(again, (None, Err(Rejection::StoreFails { .. }))),
        "{again:?}"
    );
    s.advance(2 * MAX_REPLY_WAIT);
    assert_eq!(said(&s, first), [&refusal], "it is answered once");
    s.sync();
    assert_eq!(s.status().errors, Vec::<String>::new());
    let (after, result) = s.update(&w, &task, ReportedStatus::done());
    assert_eq!((after, result), (None, Ok(())));
}

#[test]
fn one_reply_for_each_run_waits() {
    let (mut s, w, task) = running();
    let mut requests = Vec::new();
    for _ in 0..20 {
        requests.push(next_request(&mut s));
        let (after, result) = s.update(&w, &task, ReportedStatus::done());
        assert_eq!((after.is_some(), result), (true, Ok(())));
        s.advance(MOMENT);
    }
    let latest = requests.pop().unwrap();
    for earlier in requests {
        let repeated = Reply::UpdateStatus(Err(Rejection::Repeated));
        assert_eq!(said(&s, earlier), [&repeated]);
    }
    assert_eq!(said(&s, latest), Vec::<&Reply>::new());
    s.sync();
    s.advance(2 * MAX_REPLY_WAIT);
    assert_eq!(
        said(&s, latest),
        Vec::<&Reply>::new(),
        "the shell sent its reply"
    );
}

#[test]
fn a_newcomer_is_refused_in_bounded_time_and_taken_once_it_is_recorded() {
    let (mut s, ..) = running();
    let newcomer = worker("x", 2, 11);
    let first = next_request(&mut s);
    s.heartbeat(&newcomer, WorkerSetId::default()).unwrap();
    s.advance(MAX_REPLY_WAIT);
    let refusal = Reply::Heartbeat(Err(Rejection::NotDurableYet));
    assert_eq!(said(&s, first), [&refusal]);
    s.sync();
    let again = next_request(&mut s);
    s.heartbeat(&newcomer, WorkerSetId::default()).unwrap();
    s.advance(MAX_REPLY_WAIT);
    assert_eq!(said(&s, again), Vec::<&Reply>::new());
}

#[test]
fn a_store_that_stands_still_shows_although_no_reply_waits_for_it() {
    let (mut s, ..) = running();
    // The worker is lost. No reply waits for the record of that.
    let records = s.records.len();
    while s.records.len() == records {
        s.advance(Duration::from_secs(1));
    }
    assert_eq!(s.status().errors, Vec::<String>::new());
    s.advance(MAX_REPLY_WAIT);
    let error = "it has not synced a record for seconds";
    assert!(s.status().errors.iter().any(|e| e.contains(error)));
    s.sync();
    assert_eq!(s.status().errors, Vec::<String>::new());
}

#[test]
fn a_store_that_stands_still_shows_although_a_worker_repeats_its_report() {
    let (mut s, w, task) = running();
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    // Each repeat replaces the one before, so no reply has waited for long.
    let pause = MAX_REPLY_WAIT / 2;
    for _ in 0..2 {
        s.advance(pause);
        let _ = s.update(&w, &task, ReportedStatus::done());
    }
    let error = "it has not synced a record for seconds";
    assert!(s.status().errors.iter().any(|e| e.contains(error)));
}

#[test]
fn newcomers_are_refused_at_once_while_the_store_fails_and_leave_nothing_behind() {
    let (mut s, w, _) = running();
    fails(&mut s);
    let records = s.records.len();
    for life in 1..1000_i32 {
        // The newcomers are a new worker and a successor of the running one.
        let mut successor = w.clone();
        successor.id = WorkerId::new(w.id.0.start_time + i64::from(life), 1);
        for newcomer in [worker("x", life, 11), successor] {
            let refused = s.heartbeat(&newcomer, WorkerSetId::default());
            assert!(
                matches!(refused, Err(Rejection::StoreFails { .. })),
                "{refused:?}"
            );
        }
    }
    assert_eq!(s.records.len(), records, "each would wait for the store");
    s.heartbeat(&w, WorkerSetId::default()).unwrap();
    s.event(Event::StoreRecovered);
    let newcomer = worker("x", 1000, 11);
    s.heartbeat(&newcomer, WorkerSetId::default()).unwrap();
}

fn change(s: &mut Script, job: &str, change: JobChange) -> RequestId {
    let request = s.request();
    s.event(Event::ChangeJob {
        request,
        from: Principal::Own,
        job: JobName::try_from(job).expect("a good name"),
        change,
    });
    request
}

#[test]
fn a_change_whose_record_does_not_come_is_told_to_be_in_doubt() {
    let mut s = Script::with_config(one_job(1, ""));
    s.sync_at_once = false;
    let request = change(&mut s, "j", JobChange::Pause);
    s.advance(MAX_REPLY_WAIT);
    let refusal = Reply::JobChanged(Err(JobRefusal::NotDurableYet));
    assert_eq!(said(&s, request).last(), Some(&&refusal));
    // The change takes effect anyway.
    s.sync();
    assert_eq!(
        s.status().jobs[0].hold,
        Some(brasserie_common::Hold::Paused)
    );
}

#[test]
fn a_change_of_many_tasks_keeps_nobody_waiting_for_its_next_slice() {
    let mut s = Script::new(options(), Durable::default());
    s.load(one_job(3000, ""));
    let w = worker("w", 1, 10);
    s.join(&w);
    fail_all(&mut s, &w, 3000);
    s.sync_at_once = false;
    let first = change(&mut s, "j", JobChange::Forgive);
    let second = change(&mut s, "j", JobChange::Forgive);
    s.advance(MAX_REPLY_WAIT - MOMENT);
    assert_eq!((said(&s, first).len(), said(&s, second).len()), (0, 0));
    s.advance(MOMENT);
    let refusal = Reply::JobChanged(Err(JobRefusal::NotDurableYet));
    assert_eq!(said(&s, first), [&refusal]);
    assert_eq!(said(&s, second), [&refusal]);
    // The change completes once the store recovers, and no caller gets a second answer.
    for _ in 0..10 {
        s.sync();
    }
    assert_eq!(s.status().jobs[0].counts.failed, 0);
    assert_eq!((said(&s, first).len(), said(&s, second).len()), (1, 1));
}

/// Makes every task of the job fail for good, durably.
fn fail_all(s: &mut Script, w: &WorkerDescription, tasks: usize) {
    let mut ended = 0;
    while ended < tasks {
        s.advance(MOMENT);
        while let Some((call, message)) = s.take_call(|call| matches!(call, Call::RunTask(_))) {
            let Call::RunTask(run) = message else {
                panic!("a start is a runTask");
            };
            s.complete(call, CallOutcome::Done(CallReply::Empty));
            assert_eq!(s.update(w, &run.task, ReportedStatus::failed()).1, Ok(()));
            ended += 1;
        }
    }
}

/// Asks a question. Returns the request, and whether its answer waits for a record.
fn ask(s: &mut Script, query: Query) -> (RequestId, bool) {
    let request = s.request();
    let from = Principal::Own;
    s.event(Event::Query {
        request,
        from,
        query,
    });
    let reply = s.replies.iter().find(|(id, _, _)| *id == request);
    (request, reply.is_some_and(|(_, after, _)| after.is_some()))
}

fn is_marked(reply: &Reply) -> bool {
    let Reply::Answer(answer) = reply else {
        panic!("an answer, not {reply:?}");
    };
    match &**answer {
        Answer::Status(status) => {
            let mut errors = status.errors.iter();
            errors.any(|error| error.contains("1 completion(s) shown here are not yet on disk"))
        }
        Answer::Unknown(why) => why.contains("completions that are not yet on disk"),
        other => panic!("a status or no histogram, not {other:?}"),
    }
}

fn histograms() -> Query {
    Query::Histograms {
        jobs: Vec::new(),
        samples: 1,
    }
}

#[test]
fn answers_that_show_completions_leave_when_these_are_durable() {
    let (mut s, w, task) = running();
    for query in [Query::Status, histograms()] {
        assert!(!ask(&mut s, query).1, "nothing is pending");
    }
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    let done = |reply: &Reply| match reply {
        Reply::Answer(answer) => match &**answer {
            Answer::Status(status) => status.jobs[0].counts.done,
            other => panic!("a status, not {other:?}"),
        },
        other => panic!("an answer, not {other:?}"),
    };
    for query in [Query::Status, histograms()] {
        let (request, waits) = ask(&mut s, query.clone());
        assert!(
            waits,
            "{query:?} shows a completion that a crash would lose"
        );
        assert_eq!(said(&s, request).len(), 1);
        if query == Query::Status {
            assert_eq!(done(said(&s, request)[0]), 1);
            assert!(!is_marked(said(&s, request)[0]), "it waits instead");
        }
    }
    // These answers show no completions, or mark them. Answers to probes never wait.
    let (job, node) = (task.job.as_str().to_owned(), task.node.as_str().to_owned());
    let explain = Query::Explain { job, node };
    for query in [Query::NothingStarts, Query::Config, explain] {
        assert!(!ask(&mut s, query).1);
    }
    s.sync();
    let replies = s.replies.len();
    s.advance(2 * MAX_ANSWER_WAIT);
    assert_eq!(s.replies.len(), replies, "the shell sent them");
    assert!(!ask(&mut s, Query::Status).1);
}

#[test]
fn an_answer_that_waits_for_too_long_is_marked_and_nobody_waits_any_more() {
    let (mut s, w, task) = running();
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    let (status, _) = ask(&mut s, Query::Status);
    let (histogram, _) = ask(&mut s, histograms());
    s.advance(MAX_ANSWER_WAIT - MOMENT);
    assert_eq!((said(&s, status).len(), said(&s, histogram).len()), (1, 1));
    s.advance(MOMENT);
    for request in [status, histogram] {
        let said = said(&s, request);
        assert_eq!(said.len(), 2, "answered once more, at once");
        assert!(is_marked(said[1]), "{said:?}");
    }
    for query in [Query::Status, histograms()] {
        let (request, waits) = ask(&mut s, query);
        assert!(!waits && is_marked(said(&s, request)[0]));
    }
    // Statuses of tasks are still accepted, because the store is only slow.
    let (after, result) = s.update(&w, &task, ReportedStatus::done());
    assert_eq!((after.is_some(), result), (true, Ok(())));
    s.sync();
    let (request, waits) = ask(&mut s, Query::Status);
    assert!(!waits && !is_marked(said(&s, request)[0]));
}

#[test]
fn answers_that_wait_are_marked_at_once_when_the_store_fails() {
    let (mut s, w, task) = running();
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    let (early, waits) = ask(&mut s, Query::Status);
    assert!(waits);
    fails(&mut s);
    assert!(is_marked(said(&s, early)[1]));
    let (later, waits) = ask(&mut s, Query::Status);
    assert!(!waits && is_marked(said(&s, later)[0]));
    s.event(Event::StoreRecovered);
    s.sync();
    let (request, _) = ask(&mut s, Query::Status);
    assert!(!is_marked(said(&s, request)[0]));
}

#[test]
fn a_mark_counts_no_error_that_is_tried_again() {
    let (mut s, w, task) = running();
    let (call, other, _) = s.take_start();
    s.complete(call, CallOutcome::Done(CallReply::Empty));
    let error = ReportedStatus::error_backoff("no");
    assert_eq!(s.update(&w, &other, error).1, Ok(()));
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    fails(&mut s);
    let (request, _) = ask(&mut s, Query::Status);
    assert!(is_marked(said(&s, request)[0]));
}

#[test]
fn few_answers_wait_at_once() {
    let (mut s, w, task) = running();
    assert_eq!(s.update(&w, &task, ReportedStatus::done()).1, Ok(()));
    let asked: Vec<_> = (0..1000).map(|_| ask(&mut s, Query::Status)).collect();
    let waiting = asked
        .iter()
        .filter(|(request, waits)| *waits && said(&s, *request).len() == 1);
    assert!(waiting.count() < 100, "the shell would hold each answer");
    // Each of the others has its answer, with a mark.
    for (request, waits) in asked {
        let said = said(&s, request);
        let held = waits && said.len() == 1;
        assert!(held || is_marked(said[said.len() - 1]), "{said:?}");
    }
}
