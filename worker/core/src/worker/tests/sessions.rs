//! Tests of held completions: what holds them, what releases them, and that none is lost.

use std::time::Duration;

use brasserie_common::{
    CallId, Health, ReportPolicy, ReportedStatus, ServiceAddress, WorkReply, WorkVerdict,
};
use brasserie_worker_fetch::Profile;

use crate::effect::{Call, Effect, Goes, Reply};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::worker::tests::fetching::fetch_work;
use crate::{Event, WorkFetch};

/// Returns a profile that holds completions for a short time.
fn lazy() -> Profile {
    Profile {
        report: ReportPolicy::Lazy,
        report_delay: 20.0,
        report_cushion: 30.0,
        ..Profile::CLUSTER
    }
}

/// Returns a worker that requests nothing, because its processor is busy for as long as it plans ahead.
fn busy(profile: Profile) -> Rig {
    let mut rig = Rig::with(|options| {
        options.work_fetch = Some(WorkFetch::new(profile, 1));
        options.associations[0].members = vec![ServiceAddress {
            host: "scheduler".into(),
            port: 1,
        }];
    })
    .join();
    rig.wait(500);
    let mut long = run(1, 0, task("long", 1000));
    long.task.work.est_duration = Some(10_000.0);
    rig.run(long);
    let (call, request) = rig.work_requests.last().expect("it has asked").clone();
    let reply = WorkReply::same_for_all(&request, WorkVerdict::Granted(1), Duration::ZERO);
    let reply = CallReply::Work(Box::new(reply));
    rig.completed(call.0, brasserie_common::CallOutcome::Done(reply));
    quiet(&mut rig, 6_000);
    rig
}

/// Starts and ends a task.
fn ended_as(rig: &mut Rig, number: i64, says: Option<ReportPolicy>) -> Vec<Effect> {
    let node = format!("n{number}");
    let mut wanted = run(1, 0, task(&node, number));
    wanted.task.work.report = says;
    let effects = rig.run(wanted);
    assert!(
        matches!(
            effects[..],
            [Effect::Spawn { .. }, Effect::Reply { reply: Ok(_), .. }]
        ),
        "{effects:?}"
    );
    rig.end(&node, number, ReportedStatus::done())
}

fn ended(rig: &mut Rig, number: i64) -> Vec<Effect> {
    ended_as(rig, number, None)
}

/// Returns the statuses among these effects: the call, the run, and how it is sent.
fn told(effects: &[Effect]) -> Vec<(CallId, i64, Goes)> {
    let calls = effects.iter().filter_map(|effect| match effect {
        Effect::Call {
            id,
            call: Call::UpdateStatus { task, goes, .. },
            ..
        } => Some((*id, task.invocation.0.rand, *goes)),
        _ => None,
    });
    calls.collect()
}

fn runs(effects: &[Effect]) -> Vec<i64> {
    told(effects).into_iter().map(|(_, run, _)| run).collect()
}

/// Checks that no completion and no request leaves in this time.
fn quiet(rig: &mut Rig, millis: u64) {
    let asked = rig.work_requests.len();
    let effects = rig.wait(millis);
    assert_eq!(told(&effects), []);
    assert_eq!(rig.work_requests.len(), asked);
}

#[test]
fn an_end_goes_when_it_has_waited_as_long_as_it_may() {
    let mut rig = busy(lazy());
    assert_eq!(ended(&mut rig, 1), []);
    assert_eq!(rig.own().unacknowledged_reports(), 1);
    quiet(&mut rig, 12_000);
    // The second completion leaves with the first, although it has not waited as long.
    assert_eq!(ended(&mut rig, 2), []);
    quiet(&mut rig, 8_000);
    // The worker checks every five seconds.
    let asked = rig.work_requests.len();
    let effects = rig.wait(5_500);
    let told = told(&effects);
    let together = |(_, run, goes): &(CallId, i64, Goes)| (*run, *goes);
    assert_eq!(
        told.iter().map(together).collect::<Vec<_>>(),
        [(1, Goes::Together), (2, Goes::Together)]
    );
    // The request that leaves at the same time comes after them.
    assert_eq!(rig.work_requests.len(), asked + 1);
    let request = rig.work_requests[asked].0;
    for (call, ..) in told {
        assert!(call < request);
        rig.acknowledge(call.0);
    }
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}

#[test]
fn ends_that_may_wait_go_together() {
    let mut rig = busy(Profile {
        report_delay: 1e6,
        ..lazy()
    });
    for number in 1..=63 {
        assert_eq!(ended(&mut rig, number), []);
    }
    quiet(&mut rig, 7_000);
    let effects = [ended(&mut rig, 64), rig.wait(600)].concat();
    assert_eq!(runs(&effects), (1..=64).collect::<Vec<i64>>());
}

#[test]
fn an_end_with_a_deadline_goes_in_time() {
    let mut rig = busy(Profile {
        report_delay: 1e6,
        ..lazy()
    });
    let mut wanted = run(1, 0, task("n1", 1));
    wanted.options.deadline = Some(Duration::from_secs(42));
    rig.run(wanted);
    assert_eq!(told(&rig.end("n1", 1, ReportedStatus::done())), []);
    // The completion is due half a minute before the deadline, and leaves with the next check.
    quiet(&mut rig, 11_900);
    assert_eq!(runs(&rig.wait(5_700)), [1]);
}

#[test]
fn whatever_else_the_scheduler_is_talked_to_for_takes_them_along() {
    type Talk = fn(&mut Rig) -> Vec<Effect>;
    let talks: [(&str, Talk); 6] = [
        ("another end", |rig| {
            ended_as(rig, 9, Some(ReportPolicy::Immediate))
        }),
        ("a question", |rig| rig.notify(1, 1, vec![task("n1", 1)])),
        ("a kill that comes too late", |rig| rig.kill(1, "n1", 1)),
        ("a request for work", |rig| {
            rig.hear(fetch_work(None));
            rig.wait(500)
        }),
        ("drain", |rig| rig.hear(Event::Drain)),
        ("suicide", |rig| rig.suicide(1, OWN)),
    ];
    for (what, talk) in talks {
        let mut rig = busy(lazy());
        ended(&mut rig, 1);
        ended(&mut rig, 2);
        let effects = talk(&mut rig);
        let both: Vec<i64> = runs(&effects).into_iter().filter(|run| *run < 3).collect();
        assert_eq!(both, [1, 2], "{what}: {effects:?}");
    }
}

#[test]
fn a_worker_that_ends_waits_for_their_acknowledgement() {
    let mut rig = busy(lazy());
    ended(&mut rig, 1);
    assert_eq!(runs(&rig.hear(Event::Shutdown)), [1]);
    let effects = rig.end("long", 1000, ReportedStatus::done());
    assert_eq!(runs(&effects), [1000]);
    assert_eq!(rig.own().unacknowledged_reports(), 2);
}

#[test]
fn what_is_not_acknowledged_is_told_again() {
    for outcome in [lost(), refused(), not_sent()] {
        let mut rig = busy(lazy());
        ended(&mut rig, 1);
        ended(&mut rig, 2);
        let effects = ended_as(&mut rig, 3, Some(ReportPolicy::Immediate));
        let first = told(&effects);
        assert_eq!(first.len(), 3);
        for (call, ..) in &first[..2] {
            rig.completed(call.0, outcome.clone());
        }
        rig.acknowledge(first[2].0.0);
        assert_eq!(rig.own().unacknowledged_reports(), 2);
        let again = told(&rig.wait(1_000));
        let again: Vec<_> = again
            .into_iter()
            .map(|(call, run, goes)| {
                rig.acknowledge(call.0);
                (run, goes)
            })
            .collect();
        assert_eq!(again, [(1, Goes::Together), (2, Goes::Together)]);
        assert_eq!(rig.own().unacknowledged_reports(), 0);
    }
}

#[test]
fn who_takes_over_learns_of_them_twice() {
    let mut rig = busy(lazy());
    ended(&mut rig, 1);
    rig.hear(lost_connection());
    let beat = rig.last_beat();
    rig.heartbeat_answered(beat, 2, 1, Health::New);
    let listed = rig.fetch(2);
    let is_listed = listed.iter().any(|effect| match effect {
        Effect::Reply {
            reply: Ok(Reply::RunningTasks(tasks)),
            ..
        } => tasks
            .iter()
            .any(|task| task.invocation == invocation(1) && task.ended.is_some()),
        _ => false,
    });
    assert!(is_listed, "{listed:?}");
    // The completion is repeated as any other. Only the bound instance may acknowledge it.
    let beat = rig.last_beat();
    let effects = rig.heartbeat_answered(beat, 2, 1, Health::Unhealthy);
    let told = told(&[listed, effects, rig.wait(1_100)].concat());
    assert_eq!(told.len(), 1, "{told:?}");
    rig.acknowledge(told[0].0.0);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}

#[test]
fn the_job_says_or_else_the_profile() {
    use ReportPolicy::{Immediate, Lazy};
    for (report, says, is_held) in [
        (Immediate, None, false),
        (Immediate, Some(Lazy), true),
        (Immediate, Some(Immediate), false),
        (Lazy, None, true),
        (Lazy, Some(Lazy), true),
        (Lazy, Some(Immediate), false),
    ] {
        let mut rig = busy(Profile { report, ..lazy() });
        let at_once = runs(&ended_as(&mut rig, 1, says));
        assert_eq!(at_once.is_empty(), is_held, "{report:?} {says:?}");
    }
    // A worker that does not fetch work reports at once, whatever the job allows.
    let mut rig = Rig::joined();
    let effects = ended_as(&mut rig, 1, Some(Lazy));
    assert_eq!(runs(&effects), [1]);
}

#[test]
fn who_takes_no_requests_is_told_at_once() {
    let mut rig = busy(lazy());
    ended(&mut rig, 1);
    rig.hear(fetch_work(None));
    rig.wait(500);
    // This completion is held when the answer arrives.
    assert_eq!(told(&ended(&mut rig, 2)), []);
    let call = rig.work_requests.last().expect("it has asked").0;
    let outcome = brasserie_common::CallOutcome::Done(CallReply::NoSuchCall);
    let effects = rig.completed(call.0, outcome);
    assert_eq!(runs(&[effects, rig.wait(500)].concat()), [2]);
    assert_eq!(runs(&ended(&mut rig, 3)), [3]);
}
