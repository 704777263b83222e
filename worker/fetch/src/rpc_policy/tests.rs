//! Tests of the contact policy: single transitions, and comparisons with a plain second implementation.

use std::time::Duration;

use brasserie_common::{EndedBy, Fault};
use proptest::prelude::*;

use super::super::profile::TaskErrors;
use super::*;

const DAY: f64 = 86_400.0;
const VOLUNTEER: Profile = Profile::VOLUNTEER;

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

fn terms(profile: &Profile, u: f64) -> Terms<'_> {
    Terms { profile, u }
}

fn story(fault: Fault, ended_by: Option<EndedBy>) -> Story {
    Story {
        ended_by,
        fault,
        ..Story::exited(1)
    }
}

/// Returns the seconds from `now` until the scheduler may be contacted.
fn wait(policy: &RpcPolicy, now: Time) -> f64 {
    let wait = policy.wait(now);
    wait.map_or(0.0, |wait| wait.until.since(now).as_secs_f64())
}

/// Fails `times` requests, each as early as possible, and returns the time of the last failure.
fn fail_often(policy: &mut RpcPolicy, mut now: Time, times: u32, u: f64) -> Time {
    for _ in 0..times {
        now = now.max(policy.min_rpc_time());
        policy.rpc_failed(now, terms(&VOLUNTEER, u));
    }
    now
}

#[test]
fn what_a_former_instance_did_not_serve_or_want_holds_little_up() {
    let soon = VOLUNTEER.fetch_period / 2.0;
    let mut failed = RpcPolicy::new();
    let now = fail_often(&mut failed, at(0.0), 8, 1.0);
    assert!(wait(&failed, now) > soon);
    failed.scheduler_replaced(now, terms(&VOLUNTEER, 0.5));
    assert_eq!(wait(&failed, now), soon);
    let mut delayed = RpcPolicy::new();
    delayed.delayed(now, 3600.0);
    delayed.scheduler_replaced(now, terms(&VOLUNTEER, 0.5));
    assert_eq!(
        (wait(&delayed, now), delayed.delayed_until()),
        (soon, Time::ZERO)
    );
    // A shorter wait stays, and so does a wait for a failed task.
    let mut short = RpcPolicy::new();
    short.delayed(now, 1.0);
    short.scheduler_replaced(now, terms(&VOLUNTEER, 0.5));
    assert_eq!(wait(&short, now), 1.0);
    let mut broken = RpcPolicy::new();
    let fault = story(Fault::Worker, None);
    broken.task_failed(now, TaskNumber(1), &fault, terms(&VOLUNTEER, 1.0));
    let before = wait(&broken, now);
    broken.scheduler_replaced(now, terms(&VOLUNTEER, 0.0));
    assert_eq!(wait(&broken, now), before);
    assert!(before > 0.0);
}

/// `(n, from, to)`: the wait in seconds after the n-th failure in a row.
const TABLE: [(u32, f64, f64); 12] = [
    (1, 60.0, 120.0),
    (2, 120.0, 240.0),
    (3, 240.0, 480.0),
    (4, 480.0, 960.0),
    (5, 960.0, 1920.0),
    (6, 1920.0, 3840.0),
    (7, 3840.0, 7680.0),
    (8, 7200.0, 14_400.0),
    (9, 7200.0, 14_400.0),
    (10, 7200.0, 14_400.0),
    (11, 7200.0, 14_400.0),
    (12, 7200.0, 14_400.0),
];

#[test]
fn each_failure_waits_by_the_table() {
    for (n, from, to) in TABLE {
        for (u, expected) in [(0.0, from), (1.0, to)] {
            let mut policy = RpcPolicy::new();
            let now = fail_often(&mut policy, at(5.0), n, u);
            assert_eq!(wait(&policy, now), expected, "failure {n}");
            assert_eq!(policy.failures(), n);
            let wait = policy.wait(now).unwrap();
            assert_eq!(wait.cause, WaitCause::RpcFailed { failures: n });
            // The wait ends at exactly this nanosecond.
            assert!(policy.is_backed_off(wait.until - Duration::from_nanos(1)));
            assert!(!policy.is_backed_off(wait.until));
        }
    }
}

#[test]
fn the_wait_doubles_no_more_than_ten_times() {
    // The maximum is so large that only the number of doublings limits the wait.
    let profile = Profile {
        rpc_backoff_max: 1e9,
        ..VOLUNTEER
    };
    let mut policy = RpcPolicy::new();
    for failure in 1..=12 {
        let now = at(5.0).max(policy.min_rpc_time());
        policy.rpc_failed(now, terms(&profile, 1.0));
        let expected = 60.0 * 2_f64.powi(failure.min(10));
        assert_eq!(wait(&policy, now), expected, "failure {failure}");
    }
    assert_eq!(60.0 * 2_f64.powi(10), 61_440.0);
}

#[test]
fn ten_failures_and_what_follows() {
    let mut policy = RpcPolicy::new();
    let mut now = fail_often(&mut policy, at(0.0), 9, 1.0);
    assert_eq!(policy.list_due(), None);
    // The list is due at once after the tenth failure, while requests wait by the table.
    now = fail_often(&mut policy, now, 1, 1.0);
    assert_eq!(policy.list_due(), Some(now));
    assert_eq!(wait(&policy, now), 14_400.0);
    // A list without new members is no failure, and the wait stays.
    policy.list_read(now, ListReading::Unchanged, terms(&VOLUNTEER, 0.0));
    assert_eq!((policy.failures(), policy.list_failures()), (10, 0));
    assert_eq!((policy.list_due(), wait(&policy, now)), (None, 14_400.0));
    // The list is due again after ten more failures.
    now = fail_often(&mut policy, now, 9, 0.0);
    assert_eq!((policy.failures(), policy.list_due()), (19, None));
    assert_eq!(wait(&policy, now), 7200.0);
    now = fail_often(&mut policy, now, 1, 0.0);
    assert_eq!((policy.failures(), policy.list_due()), (20, Some(now)));
    // The list cannot be read: one more failure, whose wait applies if it is longer.
    policy.list_read(now, ListReading::Failed, terms(&VOLUNTEER, 0.5));
    assert_eq!((policy.failures(), policy.list_failures()), (21, 1));
    assert_eq!((policy.list_due(), wait(&policy, now)), (None, 10_800.0));
    let cause = WaitCause::ListFailed { failures: 21 };
    assert_eq!(policy.wait(now).unwrap().cause, cause);
    // Two more failed readings follow.
    now = fail_often(&mut policy, now, 9, 0.0);
    policy.list_read(now, ListReading::Failed, terms(&VOLUNTEER, 0.0));
    assert_eq!((policy.failures(), policy.list_failures()), (31, 2));
    assert_eq!(wait(&policy, now), 7200.0);
    now = fail_often(&mut policy, now, 9, 0.0);
    assert_eq!((policy.failures(), policy.list_due()), (40, Some(now)));
    policy.list_read(now, ListReading::Failed, terms(&VOLUNTEER, 0.0));
    // Requests and list wait for a day after the third failed reading in a row.
    assert_eq!((policy.failures(), policy.list_failures()), (40, 3));
    assert_eq!(wait(&policy, now), DAY);
    assert_eq!(policy.list_due(), Some(now + Duration::from_secs(86_400)));
    let cause = WaitCause::ListFailedAgain { readings: 3 };
    assert_eq!(policy.wait(now).unwrap().cause, cause);
    // Each further reading follows after another day.
    for readings in 4..8 {
        now = now + Duration::from_secs(86_400);
        assert_eq!(policy.list_due(), Some(now));
        policy.list_read(now, ListReading::Failed, terms(&VOLUNTEER, 0.0));
        assert_eq!(
            (wait(&policy, now), policy.list_failures()),
            (DAY, readings)
        );
    }
    // A new member ends all waits.
    policy.list_read(now, ListReading::NewMember, terms(&VOLUNTEER, 0.0));
    assert_eq!((policy.failures(), policy.list_failures()), (0, 0));
    assert_eq!((wait(&policy, now), policy.list_due()), (0.0, None));
}

#[test]
fn a_list_that_cannot_be_read_at_all_makes_a_day_at_the_third_time() {
    let mut policy = RpcPolicy::new();
    let mut now = at(1.0);
    for expected in [60.0, 120.0, DAY, DAY] {
        policy.list_read(now, ListReading::Failed, terms(&VOLUNTEER, 0.0));
        assert_eq!(wait(&policy, now), expected);
        assert_eq!(policy.wish(), Some(Wish::Init));
        now = policy.min_rpc_time();
    }
    // The interval in the cluster's profile is five minutes.
    let cluster = Profile::CLUSTER;
    let mut policy = RpcPolicy::new();
    for expected in [1.0, 2.0, 300.0] {
        policy.list_read(now, ListReading::Failed, terms(&cluster, 0.0));
        assert_eq!(wait(&policy, now), expected);
        now = policy.min_rpc_time();
    }
}

#[test]
fn failing_tasks_do_not_put_the_list_off() {
    let mut policy = RpcPolicy::new();
    for _ in 0..3 {
        policy.list_read(at(0.0), ListReading::Failed, terms(&VOLUNTEER, 0.0));
    }
    assert_eq!(policy.list_due(), Some(at(DAY)));
    let failure = story(Fault::Task, None);
    assert!(policy.task_failed(at(3600.0), TaskNumber(1), &failure, terms(&VOLUNTEER, 0.0)));
    assert_eq!(policy.list_due(), Some(at(DAY)));
    assert_eq!(policy.min_rpc_time(), at(DAY + 3600.0));
}

#[test]
fn a_later_time_is_never_made_an_earlier_one() {
    let now = at(100.0);
    let mut policy = RpcPolicy::new();
    policy.replied(now, 5000.0, 0.0);
    policy.rpc_failed(now, terms(&VOLUNTEER, 1.0));
    assert_eq!(wait(&policy, now), 5000.0);
    assert_eq!(policy.wait(now).unwrap().cause, WaitCause::RequestDelay);
    policy.deferred(now, 4999.0, &VOLUNTEER);
    assert_eq!(wait(&policy, now), 5000.0);
    policy.deferred(now, 5001.0, &VOLUNTEER);
    assert_eq!(wait(&policy, now), 5001.0);
    assert_eq!(policy.failures(), 1);
    // A good reply ends all waits except the delay that it asks for.
    policy.replied(now, 7.5, 0.0);
    assert_eq!((wait(&policy, now), policy.failures()), (7.5, 0));
    policy.replied(now, 0.0, 0.0);
    assert_eq!(policy.min_rpc_time(), Time::ZERO);
    for nonsense in [-1.0, f64::NAN, f64::NEG_INFINITY] {
        policy.replied(now, nonsense, nonsense);
        assert_eq!((wait(&policy, now), policy.next_rpc_time()), (0.0, None));
    }
    policy.replied(now, f64::INFINITY, f64::INFINITY);
    assert!(policy.min_rpc_time() < Time::NEVER && policy.next_rpc_time() < Some(Time::NEVER));
}

#[test]
fn the_end_of_a_backoff_is_noticed_once() {
    let mut policy = RpcPolicy::new();
    assert!(!policy.notice_end(at(0.0)));
    policy.rpc_failed(at(0.0), terms(&VOLUNTEER, 0.0));
    assert!(!policy.notice_end(at(59.999)));
    assert!(policy.notice_end(at(60.0)));
    assert!(!policy.notice_end(at(60.0)) && !policy.awaits_end());
    // A wait that is cut short ends then.
    policy.rpc_failed(at(60.0), terms(&VOLUNTEER, 0.0));
    policy.update(at(61.0));
    assert!(policy.notice_end(at(61.0)) && !policy.notice_end(at(62.0)));
}

#[test]
fn a_wish_that_is_served_in_vain_stays_or_not() {
    for wish in Wish::ALL {
        let stays = (wish >= Wish::Init && wish < Wish::User).then_some(wish);
        for list in [false, true] {
            let mut policy = RpcPolicy::new();
            policy.begin(RpcReason::Wished(Wish::Init));
            policy.replied(at(0.0), 0.0, 0.0);
            assert_eq!(policy.wish(), None);
            policy.ask(wish);
            policy.begin(RpcReason::Wished(wish));
            assert_eq!(policy.save(at(0.0)).wish, Some(wish));
            match list {
                true => policy.list_read(at(0.0), ListReading::Failed, terms(&VOLUNTEER, 0.0)),
                false => policy.rpc_failed(at(0.0), terms(&VOLUNTEER, 0.0)),
            }
            assert_eq!(policy.wish(), stays);
        }
    }
}

#[test]
fn what_is_wished_meanwhile_is_for_the_next_talk() {
    let mut policy = RpcPolicy::new();
    policy.begin(RpcReason::Wished(Wish::Init));
    policy.ask(Wish::User);
    policy.ask(Wish::Scheduler);
    policy.replied(at(0.0), 0.0, 0.0);
    assert_eq!(policy.wish(), Some(Wish::User));
    // The contact for a wish follows once the list was read for it.
    policy.begin(RpcReason::Wished(Wish::User));
    assert_eq!(policy.wish(), None);
    policy.list_read(at(0.0), ListReading::NewMember, terms(&VOLUNTEER, 0.0));
    assert_eq!(policy.wish(), Some(Wish::User));
    // An abandoned operation also keeps its wish.
    policy.begin(RpcReason::Wished(Wish::User));
    policy.abandoned();
    assert_eq!((policy.wish(), policy.failures()), (Some(Wish::User), 0));
    // A deferral is an answer, so the user's wish is done.
    policy.begin(RpcReason::Wished(Wish::User));
    policy.deferred(at(0.0), 300.0, &VOLUNTEER);
    assert_eq!((policy.wish(), wait(&policy, at(0.0))), (None, 300.0));
    // The first contact stays to be made. Without a delay in the reply, it waits for the fetch period.
    let mut policy = RpcPolicy::new();
    policy.ask(Wish::Init);
    policy.begin(RpcReason::Wished(Wish::Init));
    policy.deferred(at(0.0), 0.0, &VOLUNTEER);
    let until = VOLUNTEER.fetch_period;
    assert_eq!(
        (policy.wish(), wait(&policy, at(0.0))),
        (Some(Wish::Init), until)
    );
}

#[test]
fn the_user_makes_all_waits_end() {
    let mut policy = RpcPolicy::new();
    for _ in 0..3 {
        policy.list_read(at(0.0), ListReading::Failed, terms(&VOLUNTEER, 0.0));
    }
    policy.update(at(9.0));
    assert_eq!(policy.wish(), Some(Wish::User));
    assert_eq!(
        (wait(&policy, at(9.0)), policy.list_due()),
        (0.0, Some(at(9.0)))
    );
    // The counts of failures stay.
    assert_eq!((policy.failures(), policy.list_failures()), (2, 3));
    policy.begin(RpcReason::Wished(Wish::User));
    policy.replied(at(10.0), 0.0, 0.0);
    assert_eq!((policy.failures(), policy.list_failures()), (0, 0));
    assert_eq!(policy.list_due(), None);
}

#[test]
fn the_user_ends_no_wait_that_the_scheduler_asked_for() {
    let mut policy = RpcPolicy::new();
    policy.replied(at(0.0), 30.0, 0.0);
    for _ in 0..10 {
        policy.rpc_failed(at(1.0), terms(&VOLUNTEER, 0.0));
    }
    policy.update(at(5.0));
    assert_eq!(wait(&policy, at(5.0)), 25.0);
    assert_eq!(policy.delayed_until(), at(30.0));
    // Later the scheduler's delay is over, so the update ends the remaining wait.
    policy.rpc_failed(at(6.0), terms(&VOLUNTEER, 0.0));
    policy.update(at(31.0));
    assert_eq!(wait(&policy, at(31.0)), 0.0);
    // The scheduler's delay survives a restart of the worker.
    policy.delayed(at(40.0), 60.0);
    let saved = policy.save(at(50.0));
    let mut restored = RpcPolicy::restore(at(0.0), &saved, &VOLUNTEER);
    restored.update(at(1.0));
    assert_eq!(wait(&restored, at(1.0)), 49.0);
}

#[test]
fn a_list_is_not_read_again_while_heartbeats_are_answered() {
    let mut policy = RpcPolicy::new();
    let mut now = fail_often(&mut policy, at(0.0), 9, 0.0);
    policy.heartbeat_answered();
    now = fail_often(&mut policy, now, 1, 0.0);
    assert_eq!((policy.failures(), policy.list_due()), (10, None));
    assert_eq!(wait(&policy, now), 7200.0);
    // An answer counts only if it comes after the last failure.
    now = fail_often(&mut policy, now, 10, 0.0);
    assert_eq!(policy.list_due(), Some(now));
    policy.heartbeat_answered();
    assert_eq!((policy.list_due(), wait(&policy, now)), (None, 7200.0));
    // A good reply before the failures does not count as an answered heartbeat.
    let eager = Profile {
        list_fetch_after: 1,
        ..VOLUNTEER
    };
    policy.replied(now, 0.0, 0.0);
    policy.rpc_failed(now, terms(&eager, 0.0));
    assert_eq!(policy.list_due(), Some(now));
}

#[test]
fn only_ends_that_count_are_failures() {
    let end = story(Fault::Task, None);
    for (task_errors, counts) in [
        (TaskErrors::Off, false),
        (TaskErrors::Infrastructure, false),
        (TaskErrors::Any, true),
    ] {
        let profile = Profile {
            task_errors,
            ..VOLUNTEER
        };
        let mut policy = RpcPolicy::new();
        let counted = policy.task_failed(at(0.0), TaskNumber(7), &end, terms(&profile, 0.0));
        assert_eq!(counted, counts, "{task_errors:?}");
        assert_eq!(policy.failures(), u32::from(counts));
        assert_eq!(policy.is_backed_off(at(0.0)), counts);
    }
}

#[test]
fn a_task_counts_once_and_in_the_same_row_as_requests() {
    let mut policy = RpcPolicy::new();
    let end = story(Fault::Task, None);
    let mut now = at(0.0);
    policy.rpc_failed(now, terms(&VOLUNTEER, 0.0));
    assert!(policy.task_failed(now, TaskNumber(1), &end, terms(&VOLUNTEER, 0.0)));
    assert_eq!((policy.failures(), wait(&policy, now)), (2, 120.0));
    assert_eq!(
        policy.wait(now).unwrap().cause,
        WaitCause::TaskFailed { failures: 2 }
    );
    assert!(!policy.task_failed(now, TaskNumber(1), &end, terms(&VOLUNTEER, 0.0)));
    assert_eq!(policy.failures(), 2);
    // A failed task does not affect the wish.
    assert_eq!(policy.wish(), Some(Wish::Init));
    // If every task crashes, the worker asks for less and less, until a reply arrives.
    for number in 2..10 {
        now = policy.min_rpc_time();
        assert!(policy.task_failed(now, TaskNumber(number), &end, terms(&VOLUNTEER, 0.0)));
    }
    assert_eq!((policy.failures(), wait(&policy, now)), (10, 7200.0));
    assert_eq!(policy.list_due(), Some(now));
    policy.replied(now, 0.0, 0.0);
    assert_eq!((policy.failures(), wait(&policy, now)), (0, 0.0));
    // The number of a task that is gone stands for another task.
    policy.task_gone(TaskNumber(1));
    assert!(policy.task_failed(now, TaskNumber(1), &end, terms(&VOLUNTEER, 0.0)));
    assert!(!policy.task_failed(now, TaskNumber(2), &end, terms(&VOLUNTEER, 0.0)));
}

#[test]
fn the_scheduler_says_when_it_wants_to_be_talked_to() {
    let mut policy = RpcPolicy::new();
    policy.replied(at(10.0), 0.0, 600.0);
    assert_eq!(policy.next_rpc_time(), Some(at(610.0)));
    policy.replied(at(20.0), 0.0, 0.0);
    assert_eq!(policy.next_rpc_time(), None);
    policy.clock_went_back(at(30.0));
    assert_eq!(policy.next_rpc_time(), Some(at(30.0)));
}

#[test]
fn people_read_what_waits_and_why() {
    let mut policy = RpcPolicy::new();
    assert_eq!(policy.explain(at(0.0)), ["RPC pending: first contact"]);
    policy.replied(at(0.0), 0.0, 600.0);
    policy.begin(RpcReason::NeedWork);
    let now = fail_often(&mut policy, at(0.0), 10, 1.0);
    assert_eq!(
        policy.explain(now + Duration::from_secs(1)),
        [
            "minimum RPC time: 14399s from now: random exponential backoff after RPCs to all of the scheduler's members have failed (10 failures in a row)",
            "scheduler list: read now: 10 failures in a row",
            "next RPC: now: the scheduler wants to be contacted then at the latest",
            "RPC pending: first contact",
        ]
    );
}

/// A random event.
#[derive(Clone, Debug)]
enum Step {
    Wait(u32),
    Failed,
    ListFailed,
    ListUnchanged,
    ListNew,
    Replied(f64),
    Deferred(f64),
    TaskFailed,
    Update,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u32..20_000).prop_map(Step::Wait),
        12 => Just(Step::Failed),
        2 => Just(Step::ListFailed),
        1 => Just(Step::ListUnchanged),
        1 => Just(Step::ListNew),
        1 => (0.0_f64..5000.0).prop_map(Step::Replied),
        2 => (0.0_f64..5000.0).prop_map(Step::Deferred),
        3 => Just(Step::TaskFailed),
        1 => Just(Step::Update),
    ]
}

/// A plain second implementation of the rules: the end of the wait in seconds, failures, and failures of the list.
#[derive(Clone, Debug, Default)]
struct Plain {
    min_rpc_time: f64,
    /// The end of the delay that the scheduler asked for.
    delayed_until: f64,
    n: u32,
    list: u32,
}

impl Plain {
    fn fail(&mut self, now: f64, u: f64) {
        let delay = if self.list >= 3 {
            DAY
        } else {
            self.n += 1;
            (60.0 * 2_f64.powi(self.n.min(10) as i32)).min(14_400.0) * (0.5 + 0.5 * u)
        };
        self.min_rpc_time = self.min_rpc_time.max(now + delay);
    }

    fn step(&mut self, step: &Step, now: f64, u: f64) {
        match step {
            Step::Wait(_) => {}
            Step::Failed | Step::TaskFailed => self.fail(now, u),
            Step::ListFailed => {
                self.list += 1;
                self.fail(now, u);
            }
            Step::ListUnchanged => self.list = 0,
            Step::ListNew => *self = Plain::default(),
            Step::Replied(delay) => {
                *self = Plain {
                    min_rpc_time: now + delay,
                    delayed_until: now + delay,
                    ..Plain::default()
                };
            }
            Step::Deferred(delay) => {
                let delay = if *delay > 0.0 { *delay } else { 60.0 };
                self.delayed_until = self.delayed_until.max(now + delay);
                self.min_rpc_time = self.min_rpc_time.max(now + delay);
            }
            // The scheduler's delay stays.
            Step::Update => self.min_rpc_time = self.delayed_until,
        }
    }
}

fn apply(policy: &mut RpcPolicy, step: &Step, now: Time, u: f64, number: u64) {
    let up = terms(&VOLUNTEER, u);
    match step {
        Step::Wait(_) => {}
        Step::Failed => policy.rpc_failed(now, up),
        Step::ListFailed => policy.list_read(now, ListReading::Failed, up),
        Step::ListUnchanged => policy.list_read(now, ListReading::Unchanged, up),
        Step::ListNew => policy.list_read(now, ListReading::NewMember, up),
        Step::Replied(delay) => policy.replied(now, *delay, 0.0),
        Step::Deferred(delay) => policy.deferred(now, *delay, &VOLUNTEER),
        Step::TaskFailed => {
            policy.task_failed(now, TaskNumber(number), &story(Fault::Task, None), up);
        }
        Step::Update => policy.update(now),
    }
}

#[test]
fn nothing_that_is_saved_waits_for_longer_than_the_profile_ever_does() {
    let years = Duration::from_secs(1 << 40);
    let restored =
        |saved: &SavedRpc, profile: &Profile| RpcPolicy::restore(at(5.0), saved, profile);
    for (cause, cluster, volunteer) in [
        (WaitCause::RpcFailed { failures: 3 }, 60.0, 14_400.0),
        (WaitCause::ListFailed { failures: 3 }, 60.0, 14_400.0),
        (WaitCause::TaskFailed { failures: 3 }, 60.0, 14_400.0),
        (WaitCause::ListFailedAgain { readings: 3 }, 300.0, DAY),
        (WaitCause::RequestDelay, 2.0 * DAY, 2.0 * DAY),
    ] {
        let left = years;
        let saved = SavedRpc {
            wait: Some(SavedWait { left, cause }),
            next_contact: Some(years),
            failures: u32::MAX,
            list_failures: u32::MAX,
            list: Some(years),
            wish: None,
        };
        for (profile, most) in [(Profile::CLUSTER, cluster), (VOLUNTEER, volunteer)] {
            let mut policy = restored(&saved, &profile);
            assert_eq!(wait(&policy, at(5.0)), most, "{cause}");
            assert_eq!(policy.next_rpc_time(), Some(at(5.0 + 2.0 * DAY)));
            let list = most.max(profile.list_fetch_interval);
            assert_eq!(policy.list_due(), Some(at(5.0 + list)), "{cause}");
            // Failures continue to count from the saved number.
            policy.rpc_failed(at(6.0), terms(&profile, 0.5));
            assert!(policy.failures() >= MOST_FAILURES);
        }
    }
    // Values that the profile allows stay.
    let saved = SavedRpc {
        wait: Some(SavedWait {
            left: Duration::from_secs(59),
            cause: WaitCause::RpcFailed { failures: 9 },
        }),
        failures: 9,
        ..SavedRpc::default()
    };
    assert_eq!(restored(&saved, &Profile::CLUSTER).save(at(5.0)), saved);
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn it_does_what_the_rules_say(steps in proptest::collection::vec((step(), 0.0_f64..=1.0), 0..80)) {
        let (mut policy, mut plain) = (RpcPolicy::new(), Plain::default());
        let mut now = 0.0;
        for (number, (step, u)) in steps.iter().enumerate() {
            if let Step::Wait(seconds) = step {
                now += f64::from(*seconds);
            }
            let before = policy.clone();
            apply(&mut policy, step, at(now), *u, number as u64);
            plain.step(step, now, *u);
            prop_assert_eq!((policy.failures(), policy.list_failures()), (plain.n, plain.list));
            let wait = wait(&policy, at(now));
            prop_assert!((wait - (plain.min_rpc_time - now).max(0.0)).abs() < 1e-3, "{step:?} {wait}");
            // Every start of a wait is noticed, and only the known ways end one.
            let ends = matches!(step, Step::Replied(_) | Step::ListNew | Step::Update);
            prop_assert!(ends || policy.min_rpc_time() >= before.min_rpc_time());
            prop_assert!(policy.awaits_end() || !policy.is_backed_off(at(now)));
            prop_assert!(policy.list_due() <= Some(policy.min_rpc_time().max(at(now))));
            if let Step::Replied(_) = step {
                prop_assert_eq!(policy.failures(), 0);
            }
        }
    }

    #[test]
    fn what_is_restored_is_what_was_saved(
        steps in proptest::collection::vec((step(), 0.0_f64..=1.0), 0..60), started in 0_u32..1_000_000,
    ) {
        let mut policy = RpcPolicy::new();
        let mut now = 0.0;
        for (number, (step, u)) in steps.iter().enumerate() {
            if let Step::Wait(seconds) = step {
                now += f64::from(*seconds);
            }
            apply(&mut policy, step, at(now), *u, number as u64);
        }
        let saved = policy.save(at(now));
        let started = at(f64::from(started));
        let restored = RpcPolicy::restore(started, &saved, &VOLUNTEER);
        prop_assert_eq!(restored.save(started), saved);
        prop_assert_eq!(restored.is_backed_off(started), policy.is_backed_off(at(now)));
        // The end of a restored wait is noticed.
        prop_assert_eq!(restored.awaits_end(), restored.is_backed_off(started));
        prop_assert_eq!(restored.clone().notice_end(restored.min_rpc_time()), restored.awaits_end());
        // The same events have the same effect on both from here on.
        let (mut old, mut new) = (policy, restored);
        old.rpc_failed(at(now), terms(&VOLUNTEER, 0.3));
        new.rpc_failed(started, terms(&VOLUNTEER, 0.3));
        prop_assert_eq!(old.save(at(now)), new.save(started));
    }
}
