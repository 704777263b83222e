//! Tests of a pull worker: when it requests work, for which processors, and how it handles the answers.

use std::time::Duration;

use brasserie_common::work_overview::{Asks, WorkWish};
use brasserie_common::{
    CallOutcome, Health, Principal, Processor, ReportPolicy, ReportedStatus, RequestId,
    ServiceAddress, WorkReply, WorkRequest, WorkVerdict,
};
use brasserie_worker_fetch::Profile;

use crate::effect::{Effect, Refusal, Reply};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::{Event, WorkFetch};

/// Returns a worker with one processor, whose scheduler has one member.
fn rig() -> Rig {
    rig_of(1)
}

/// Returns a worker whose scheduler has this many members.
fn rig_of(members: u16) -> Rig {
    let member = |port| ServiceAddress {
        host: "scheduler".into(),
        port,
    };
    let mut rig = Rig::with(|options| {
        options.work_fetch = Some(WorkFetch::new(Profile::CLUSTER, 1));
        options.associations[0].members = (1..=members).map(member).collect();
    })
    .join();
    // The first check for a scheduler to ask was before the association.
    rig.wait(500);
    rig
}

/// Returns a worker that may ask for a buffer, since the first task of its scheduler has completed successfully in its estimated second.
/// The scheduler has not answered the first request.
fn rig_after_first_completion() -> Rig {
    let mut rig = rig();
    let mut first = run(1, 0, task("first", 0));
    first.task.work.est_duration = Some(1.0);
    rig.run(first);
    rig.wait(1000);
    rig.end("first", 0, ReportedStatus::done());
    rig.acknowledge(rig.last_status);
    assert_eq!(rig.work_requests.len(), 1);
    rig
}

fn last(rig: &Rig) -> WorkRequest {
    let last = rig.work_requests.last();
    last.expect("it has asked").1.clone()
}

fn answer(rig: &mut Rig, verdict: WorkVerdict) -> Vec<Effect> {
    answer_with_delay(rig, verdict, Duration::ZERO)
}

fn answer_with_delay(rig: &mut Rig, verdict: WorkVerdict, delay: Duration) -> Vec<Effect> {
    let (call, request) = rig.work_requests.last().expect("it has asked").clone();
    let reply = WorkReply::same_for_all(&request, verdict, delay);
    let reply = CallReply::Work(Box::new(reply));
    rig.completed(call.0, CallOutcome::Done(reply))
}

#[test]
fn whoever_is_met_is_asked() {
    let rig = rig();
    let request = last(&rig);
    assert_eq!(request.worker, OWN);
    assert_eq!(request.scheduler, scheduler(1));
    assert_eq!(request.known, Some(Vec::new()));
    assert_eq!(request.linger, Duration::from_secs(120));
    // The cluster profile sets this value, so that the scheduler judges lateness as the worker does.
    assert_eq!(request.low_water, 10.0);
    let of_cpu = &request.demands[0];
    assert_eq!(
        (of_cpu.processor.clone(), of_cpu.idle),
        (Processor::Cpu, 1.0)
    );
    assert_eq!(rig.work_requests.len(), 1);
}

#[test]
fn what_came_and_what_is_not_acknowledged_is_known() {
    let mut rig = rig();
    let mut first = run(1, 0, task("a", 1));
    first.task.work.est_duration = Some(8.0);
    rig.run(first);
    rig.run(run(1, 0, task("b", 2)));
    rig.end("b", 2, ReportedStatus::done());
    answer(&mut rig, WorkVerdict::Granted(2));
    rig.wait(500);
    assert_eq!(rig.work_requests.len(), 2);
    let request = last(&rig);
    let known = request.known.expect("a list");
    let known: Vec<_> = known
        .iter()
        .map(|one| (one.invocation, one.remaining.is_some_and(|left| left > 7.0)))
        .collect();
    assert_eq!(known, [(invocation(1), true), (invocation(2), false)]);
}

#[test]
fn who_has_an_idle_processor_asks_as_soon_as_the_scheduler_lets_it() {
    let mut rig = rig();
    rig.run(run(1, 0, task("a", 1)));
    answer_with_delay(&mut rig, WorkVerdict::Granted(1), Duration::from_millis(20));
    rig.wait(7);
    rig.end("a", 1, ReportedStatus::done());
    rig.wait(12);
    assert_eq!(rig.work_requests.len(), 1);
    rig.wait(10);
    assert_eq!(rig.work_requests.len(), 2);
    assert_eq!(last(&rig).demands[0].idle, 1.0);
}

/// Returns a worker that has asked for its buffer while a task ran on its only processor. Its scheduler has only tasks that may not be
/// queued, and answers LIMITED before or after the completion of the running task.
fn told_limited_while_busy(
    report: Option<ReportPolicy>,
    ends: ReportedStatus,
    is_told_before: bool,
) -> Rig {
    let mut rig = rig_after_first_completion();
    let mut short = run(1, 0, task("a", 1));
    short.task.work.est_duration = Some(1.0);
    short.task.work.report = report;
    rig.run(short);
    answer(&mut rig, WorkVerdict::Granted(1));
    rig.wait(10);
    assert_eq!(last(&rig).demands[0].idle, 0.0);
    if is_told_before {
        answer(&mut rig, WorkVerdict::Limited);
        rig.wait(400);
        assert_eq!(rig.work_requests.len(), 2);
    }
    rig.end("a", 1, ends);
    if !is_told_before {
        answer(&mut rig, WorkVerdict::Limited);
    }
    rig
}

/// The next task normally follows by itself, but the worker does not wait long for it. An earlier answer for a busy processor is no reason
/// to leave it idle.
#[test]
fn who_was_told_limited_while_all_was_busy_asks_again_if_nothing_follows_an_end() {
    for is_told_before in [true, false] {
        let done = ReportedStatus::done();
        let mut rig = told_limited_while_busy(None, done, is_told_before);
        rig.wait(90);
        assert_eq!(rig.work_requests.len(), 2);
        rig.wait(20);
        assert_eq!(rig.work_requests.len(), 3);
        assert_eq!(last(&rig).demands[0].idle, 1.0);
        // The same answer for an idle processor ends the requests.
        answer(&mut rig, WorkVerdict::Limited);
        rig.wait(400);
        assert_eq!(rig.work_requests.len(), 3);
    }
}

#[test]
fn what_follows_an_end_is_not_asked_for() {
    for is_told_before in [true, false] {
        let done = ReportedStatus::done();
        let mut rig = told_limited_while_busy(None, done, is_told_before);
        rig.wait(90);
        rig.run(run(1, 0, task("b", 2)));
        rig.wait(300);
        assert_eq!(rig.work_requests.len(), 2);
    }
}

#[test]
fn nothing_follows_an_end_that_leaves_nothing_idle_at_the_scheduler() {
    let never_ran = ReportedStatus::incomplete_backoff("the worker is full");
    for (report, ends) in [
        (Some(ReportPolicy::Lazy), ReportedStatus::done()),
        (None, never_ran),
    ] {
        for is_told_before in [true, false] {
            let mut rig = told_limited_while_busy(report, ends.clone(), is_told_before);
            rig.wait(10);
            assert_eq!(rig.work_requests.len(), 3);
            assert_eq!(last(&rig).demands[0].idle, 1.0);
        }
    }
}

#[test]
fn who_is_put_off_asks_when_the_scheduler_wants_it_to() {
    let mut rig = rig();
    answer_with_delay(&mut rig, WorkVerdict::Deferred, Duration::from_secs(1));
    rig.wait(900);
    assert_eq!(rig.work_requests.len(), 1);
    rig.wait(200);
    assert_eq!(rig.work_requests.len(), 2);
}

#[test]
fn the_more_tasks_are_here_the_longer_it_is_until_the_next_look_at_them() {
    let mut rig = rig_after_first_completion();
    answer(&mut rig, WorkVerdict::Granted(1000));
    for number in 1..=1000 {
        let mut short = run(1, 0, task(&format!("t{number}"), number));
        short.task.work.bufferable = true;
        short.task.work.est_duration = Some(0.001);
        rig.run(short);
    }
    rig.wait(30);
    answer(&mut rig, WorkVerdict::Granted(1));
    // The worker has just checked.
    let asked = rig.work_requests.len();
    assert_eq!(last(&rig).known.expect("a list").len(), 1000);
    answer(&mut rig, WorkVerdict::Granted(1));
    rig.wait(19);
    assert_eq!(rig.work_requests.len(), asked);
    rig.wait(20);
    assert_eq!(rig.work_requests.len(), asked + 1);
}

#[test]
fn no_second_request_leaves_before_the_first_is_answered_or_given_up() {
    let mut rig = rig();
    // This is the deadline of calls.
    rig.wait(9_999);
    assert_eq!(rig.work_requests.len(), 1);
    rig.wait(2_000);
    rig.wait(2_000);
    assert_eq!(rig.work_requests.len(), 2);
    let numbers: Vec<u64> = rig.work_requests.iter().map(|(_, one)| one.seq.0).collect();
    assert!(numbers[1] > numbers[0]);
}

#[test]
fn a_verdict_may_come_with_a_heartbeat() {
    let mut rig = rig();
    let asked = last(&rig);
    answer(&mut rig, WorkVerdict::Pending);
    rig.wait(900);
    assert_eq!(rig.work_requests.len(), 1);
    let mut response = response(1, 1, Health::Healthy);
    let reply = WorkReply::same_for_all(&asked, WorkVerdict::NoWork, Duration::from_secs(7));
    response.work = Some(Box::new(reply));
    // The next heartbeat is not due yet.
    let beat = rig.beats.len();
    while rig.beats.len() == beat {
        let before = rig.work_requests.len();
        rig.wait(500);
        if rig.work_requests.len() > before {
            // The worker repeats the same request.
            assert_eq!(last(&rig).seq, asked.seq);
            answer(&mut rig, WorkVerdict::Pending);
        }
    }
    let call = rig.last_beat();
    rig.completed(
        call,
        CallOutcome::Done(CallReply::Heartbeat(Box::new(response))),
    );
    let asked_so_far = rig.work_requests.len();
    rig.wait(6_500);
    assert_eq!(rig.work_requests.len(), asked_so_far);
    rig.wait(1_000);
    assert!(last(&rig).seq > asked.seq);
}

#[test]
fn a_new_scheduler_instance_is_asked_anew_and_answers_of_the_old_mean_nothing() {
    let mut rig = rig();
    let (old_call, old) = rig.work_requests[0].clone();
    rig.hear(lost_connection());
    let call = rig.last_beat();
    rig.heartbeat_answered(call, 2, 1, Health::New);
    rig.wait(600);
    let new = last(&rig);
    assert_eq!((old.scheduler, new.scheduler), (scheduler(1), scheduler(2)));
    assert!(new.seq > old.seq);
    let reply = WorkReply::same_for_all(&old, WorkVerdict::Granted(1), Duration::ZERO);
    rig.completed(
        old_call.0,
        CallOutcome::Done(CallReply::Work(Box::new(reply))),
    );
    rig.wait(3_000);
    assert_eq!(last(&rig).seq, new.seq);
}

#[test]
fn a_worker_that_drains_asks_for_nothing() {
    let mut rig = rig();
    rig.run(run(1, 0, task("a", 1)));
    answer(&mut rig, WorkVerdict::Granted(1));
    rig.hear(Event::Drain);
    rig.end("a", 1, ReportedStatus::done());
    let asked = rig.work_requests.len();
    rig.wait(20_000);
    assert_eq!(rig.work_requests.len(), asked);
}

/// Returns the operator's wish that the scheduler at this port be asked for work, or all schedulers.
pub(super) fn fetch_work(port: Option<u16>) -> Event {
    Event::FetchWork {
        request: RequestId(9),
        from: Principal::Own,
        scheduler: port.map(|port| ServiceAddress {
            host: "scheduler".into(),
            port,
        }),
    }
}

/// Returns the answer to the operator's wish that the scheduler at this port, or all, be asked.
fn wish(rig: &mut Rig, port: Option<u16>) -> Result<Vec<WorkWish>, Refusal> {
    let replies = rig.hear(fetch_work(port)).into_iter().filter_map(|effect| {
        let Effect::Reply { reply, .. } = effect else {
            return None;
        };
        Some(reply.map(|reply| match reply {
            Reply::WorkWishes(wishes) => wishes,
            other => panic!("{other:?}"),
        }))
    });
    let [reply] = <[_; 1]>::try_from(replies.collect::<Vec<_>>()).expect("one answer");
    reply
}

/// Returns the backoffs that the wish ended, and when the only scheduler is asked.
fn only_wish(rig: &mut Rig) -> (Vec<String>, Asks) {
    let wishes = wish(rig, None).expect("it fetches work");
    let [wish] = <[_; 1]>::try_from(wishes).expect("one scheduler");
    (wish.ended, wish.asks)
}

#[test]
fn the_operator_ends_what_the_worker_waits_for_of_its_own_accord() {
    let mut rig = rig();
    answer(&mut rig, WorkVerdict::NoWork);
    rig.wait(500);
    answer(&mut rig, WorkVerdict::NoWork);
    let asked = rig.work_requests.len();
    let (ended, asks) = only_wish(&mut rig);
    assert_eq!(asks, Asks::Now);
    assert!(
        matches!(&ended[..], [pair] if pair.starts_with("CPU: backed off, ")),
        "{ended:?}"
    );
    rig.wait(500);
    assert_eq!(rig.work_requests.len(), asked + 1);
    // A request for a wish alone begins no backoff.
    let (ended, asks) = only_wish(&mut rig);
    assert!(ended.is_empty(), "{ended:?}");
    let under_way = matches!(&asks, Asks::Later { left: None, why } if why.contains("is not answered: it is asked again"));
    assert!(under_way, "{asks:?}");
}

#[test]
fn the_operator_does_not_end_what_the_scheduler_has_asked_for() {
    let mut rig = rig();
    answer_with_delay(&mut rig, WorkVerdict::Deferred, Duration::from_secs(30));
    let asked = rig.work_requests.len();
    rig.wait(10_000);
    let (ended, asks) = only_wish(&mut rig);
    assert!(ended.is_empty(), "{ended:?}");
    let Asks::Later {
        left: Some(left),
        why,
    } = asks
    else {
        panic!("{asks:?}");
    };
    assert_eq!(why, "requested by the scheduler");
    assert_eq!(left, Duration::from_secs(20));
    rig.wait(19_000);
    assert_eq!(rig.work_requests.len(), asked);
    rig.wait(1_500);
    assert_eq!(rig.work_requests.len(), asked + 1);
}

#[test]
fn the_operator_hears_why_nobody_is_asked() {
    let named = wish(&mut rig(), Some(1)).expect("it has this one");
    assert_eq!(named.len(), 1);
    let refused = wish(&mut rig(), Some(2)).expect_err("it has no such scheduler");
    assert_eq!(
        refused.message,
        "it has no scheduler at scheduler:2; it has scheduler:1"
    );
    let refused = wish(&mut Rig::joined(), None).expect_err("it takes what it is sent");
    assert!(
        refused.message.contains("--work-fetch"),
        "{}",
        refused.message
    );
    let mut old = rig();
    let call = old.work_requests[0].0;
    old.completed(call.0, CallOutcome::Done(CallReply::NoSuchCall));
    let never = |rig: &mut Rig| match only_wish(rig) {
        (ended, Asks::Never { why }) if ended.is_empty() => why,
        other => panic!("{other:?}"),
    };
    assert!(never(&mut old).contains("takes no requests"));
    let mut draining = rig();
    draining.hear(Event::Drain);
    assert!(never(&mut draining).contains("drains"));
    // A scheduler that has never answered is asked as soon as it does.
    let mut alone = Rig::with(|options| {
        options.work_fetch = Some(WorkFetch::new(Profile::CLUSTER, 1));
    });
    let asks = only_wish(&mut alone).1;
    let later =
        matches!(&asks, Asks::Later { left: None, why } if why == "it has not answered yet");
    assert!(later, "{asks:?}");
}

#[test]
fn work_fetch_is_shown_or_said_to_be_off() {
    let request = brasserie_common::RequestId(9);
    let shown = |rig: &mut Rig| match &rig.hear(Event::ShowWorkFetch { request })[..] {
        [
            Effect::Reply {
                reply: Ok(Reply::WorkFetch(shown)),
                ..
            },
        ] => shown.clone(),
        other => panic!("{other:?}"),
    };
    let overview = shown(&mut rig()).expect("it fetches work");
    assert_eq!(overview.of_type[0].name, "CPU");
    assert!(overview.of_association[0].request.is_some());
    assert_eq!(shown(&mut Rig::joined()), None);
}

#[test]
fn a_member_that_knows_no_requests_says_nothing_of_the_others() {
    let mut rig = rig_of(2);
    let (call, first) = rig.work_requests[0].clone();
    rig.completed(call.0, CallOutcome::Done(CallReply::NoSuchCall));
    rig.wait(10);
    assert_eq!(rig.work_requests.len(), 2);
    assert_eq!(last(&rig), first, "the other is asked for the same");
    answer(&mut rig, WorkVerdict::Deferred);
    rig.wait(10_000);
    assert!(rig.work_requests.len() > 2);
    // If no member knows requests, the scheduler takes none.
    for _ in 0..2 {
        let (call, _) = rig.work_requests.last().expect("it has asked").clone();
        rig.completed(call.0, CallOutcome::Done(CallReply::NoSuchCall));
        rig.wait(10);
    }
    let asked = rig.work_requests.len();
    rig.wait(15_000);
    assert_eq!(rig.work_requests.len(), asked);
}

#[test]
fn a_scheduler_that_takes_no_requests_is_left_alone_until_it_is_another() {
    let mut rig = rig();
    let call = rig.work_requests[0].0;
    rig.completed(call.0, CallOutcome::Done(CallReply::NoSuchCall));
    for _ in 0..200 {
        rig.wait(500);
    }
    assert_eq!(rig.work_requests.len(), 1);
    rig.hear(lost_connection());
    let beat = rig.last_beat();
    rig.heartbeat_answered(beat, 2, 1, Health::New);
    for _ in 0..10 {
        rig.wait(500);
    }
    assert_eq!(rig.work_requests.len(), 2);
}
