//! Tests of statuses until the right scheduler instance has acknowledged them.

use brasserie_common::{Health, ReportedStatus};

use crate::effect::{Call, Effect};
use crate::worker::rig::*;

fn with_end() -> Rig {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    let effects = rig.end("a", 1, ReportedStatus::done());
    assert_eq!(effects, [end(5, 1)]);
    rig
}

fn end(call: u64, n: i64) -> Effect {
    report(call, n, task("a", 1), ReportedStatus::done())
}

#[test]
fn a_lost_acknowledgement_is_asked_for_again() {
    for outcome in [lost(), refused(), not_sent()] {
        let mut rig = with_end();
        assert_eq!(rig.completed(5, outcome), []);
        assert_eq!(rig.wait(999), []);
        // A heartbeat leaves, too, because the instance that does not acknowledge may be another one.
        assert_eq!(rig.wait(1), [heartbeat(&rig, 6, set(1, 1)), end(7, 1)]);
        assert_eq!(rig.acknowledge(7), []);
        assert_eq!(rig.heartbeat_answered(6, 1, 1, Health::Healthy), []);
        assert_eq!(rig.own().unacknowledged_reports(), 0);
        assert_eq!(rig.wait(10_000), []);
    }
}

#[test]
fn a_report_without_outcome_is_given_up_and_sent_again() {
    let mut rig = with_end();
    assert_eq!(rig.wait(10_999), []);
    assert_eq!(rig.wait(1), [heartbeat(&rig, 6, set(1, 1)), end(7, 1)]);
    // The late outcome of the first call is dropped; the second call counts.
    assert_eq!(rig.acknowledge(5), []);
    assert_eq!(rig.own().unacknowledged_reports(), 1);
    rig.acknowledge(7);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}

#[test]
fn a_report_that_is_refused_again_and_again_leaves_every_eight_seconds() {
    let mut rig = with_end();
    let mut call = 5;
    for seconds in [1, 2, 4, 8, 8, 8] {
        rig.completed(call, refused());
        let is_end = |effects: Vec<Effect>| {
            let calls = effects.into_iter().filter_map(|effect| match effect {
                Effect::Call {
                    id,
                    call: Call::UpdateStatus { .. },
                    ..
                } => Some(id.0),
                _ => None,
            });
            calls.last()
        };
        let mut left = None;
        let mut waited = 0;
        while left.is_none() {
            left = is_end(rig.wait(500));
            waited += 500;
        }
        assert_eq!(waited, seconds * 1000);
        call = left.unwrap();
    }
    rig.acknowledge(call);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}

#[test]
fn a_refused_report_stalls_no_other() {
    let mut rig = with_end();
    rig.completed(5, refused());
    rig.start("b", 2);
    let failed = ReportedStatus::failed();
    let effects = rig.end("b", 2, failed.clone());
    assert_eq!(effects, [report(6, 1, task("b", 2), failed)]);
}

#[test]
fn an_unreachable_scheduler_is_not_tried_for_each_report() {
    let mut rig = with_end();
    rig.start("b", 2);
    rig.completed(5, not_sent());
    let failed = ReportedStatus::failed();
    assert_eq!(rig.end("b", 2, failed.clone()), []);
    let effects = rig.wait(1000);
    let second = report(7, 1, task("b", 2), failed);
    assert_eq!(effects, [heartbeat(&rig, 6, set(1, 1)), second, end(8, 1)]);
}

#[test]
fn refusals_bring_the_next_heartbeat_forward_and_never_put_it_off() {
    let mut rig = with_end();
    // The heartbeat is due in 600 ms, before the retry.
    rig.sleep(14_400);
    rig.completed(5, refused());
    assert_eq!(rig.wait(599), []);
    assert_eq!(rig.wait(1), [heartbeat(&rig, 6, set(1, 1))]);
    rig.heartbeat_answered(6, 1, 1, Health::Healthy);
    assert_eq!(rig.wait(400), [end(7, 1)]);
    // One heartbeat leaves per second, however many reports are refused.
    rig.start("b", 2);
    let failed = ReportedStatus::failed();
    rig.end("b", 2, failed.clone());
    rig.completed(7, refused());
    rig.wait(300);
    rig.completed(8, refused());
    assert_eq!(rig.wait(699), []);
    assert_eq!(rig.wait(1), [heartbeat(&rig, 9, set(1, 1))]);
    assert_eq!(rig.heartbeat_answered(9, 1, 1, Health::Healthy), []);
    assert_eq!(rig.wait(300), [report(10, 1, task("b", 2), failed)]);
    assert_eq!(rig.acknowledge(10), []);
    // This was the second refusal of the report in a row.
    assert_eq!(rig.wait(700), [end(11, 1)]);
    rig.acknowledge(11);
    assert_eq!(rig.wait(13_999), []);
    assert_eq!(rig.wait(1), [heartbeat(&rig, 12, set(1, 1))]);
}

#[test]
fn a_report_to_an_earlier_scheduler_brings_no_heartbeat_forward() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()), [end(6, 1)]);
    rig.heartbeat_answered(5, 2, 1, Health::New);
    rig.heartbeat_answered(7, 2, 1, Health::New);
    assert_eq!(rig.completed(6, refused()), []);
    assert_eq!(rig.next_timer(), Some(15_000));
}

/// Ends this many tasks, and returns how many of their completions have left.
fn sent_of(rig: &mut Rig, ends: i64) -> usize {
    for i in 0..ends {
        rig.start(&i.to_string(), i);
    }
    let end = |i: i64| rig.end(&i.to_string(), i, ReportedStatus::done()).len();
    (0..ends).map(end).sum()
}

#[test]
fn a_hundred_reports_are_on_their_way_at_once() {
    let mut rig = Rig::joined();
    assert_eq!(sent_of(&mut rig, 150), 100);
    // One report takes the place of the acknowledged one, and the window grows by one.
    assert_eq!(rig.acknowledge(5).len(), 2);
    // A healthcheck overtakes them.
    rig.run(healthcheck(1, 8, ""));
    let effects = rig.end_healthcheck(healthcheck(1, 8, ""), ReportedStatus::done());
    assert_eq!(effects.len(), 1);
}

#[test]
fn more_are_on_their_way_while_all_are_acknowledged_and_a_hundred_after_one_that_is_not() {
    let mut rig = Rig::joined();
    assert_eq!(sent_of(&mut rig, 4000), 100);
    let (mut acknowledged, mut sent) = (0, 100);
    while sent < 3000 {
        acknowledged += 1;
        sent += rig.acknowledge(4 + acknowledged).len() as u64;
        assert!(sent - acknowledged <= 1024);
    }
    assert_eq!(sent - acknowledged, 1024);
    // An unacknowledged report is replaced by none until fewer than a hundred are in flight.
    assert_eq!(rig.completed(5 + acknowledged, refused()), []);
    let left = (2..=925).map(|n| rig.acknowledge(4 + acknowledged + n).len());
    assert_eq!(left.sum::<usize>(), 2);
}

#[test]
fn an_acknowledgement_of_an_earlier_scheduler_does_not_count() {
    let mut rig = with_end();
    // Scheduler 2 has fetched the tasks. The completion that scheduler 1 received is listed as unacknowledged.
    assert_eq!(rig.fetch(2).len(), 1);
    assert_eq!(rig.acknowledge(5), []);
    assert_eq!(rig.own().unacknowledged_reports(), 1);
    rig.wait(15_000);
    let effects = rig.heartbeat_answered(6, 2, 1, Health::New);
    // The scheduler refuses statuses while the worker is NEW, so the completion leaves at once after that.
    assert_eq!(effects, [heartbeat(&rig, 7, set(2, 1))]);
    assert_eq!(
        rig.heartbeat_answered(7, 2, 1, Health::Unhealthy),
        [heartbeat(&rig, 8, set(2, 1)), end(9, 2)]
    );
    rig.acknowledge(9);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
}

#[test]
fn a_report_refused_because_of_a_new_association_leaves_again_with_new() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()), [end(6, 1)]);
    assert_eq!(rig.completed(6, refused()), []);
    let effects = rig.heartbeat_answered(5, 1, 1, Health::New);
    assert_eq!(effects, [heartbeat(&rig, 7, set(1, 1))]);
    assert_eq!(
        rig.heartbeat_answered(7, 1, 1, Health::Unhealthy),
        [heartbeat(&rig, 8, set(1, 1)), end(9, 1)]
    );
    // Earlier evidence of health does not count; the scheduler's next answer does.
    assert_eq!(rig.own().health(), Health::Unhealthy);
    rig.heartbeat_answered(8, 1, 1, Health::Healthy);
    assert_eq!(rig.own().health(), Health::Healthy);
}

#[test]
fn nothing_is_reported_to_a_scheduler_that_has_not_fetched() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()), [end(6, 1)]);
    rig.heartbeat_answered(5, 2, 1, Health::Unhealthy);
    rig.heartbeat_answered(7, 2, 1, Health::Unhealthy);
    // The instance that is still bound cannot acknowledge a completion for the other one.
    assert_eq!(rig.acknowledge(6), []);
    assert_eq!(rig.own().unacknowledged_reports(), 1);
    assert_eq!(rig.wait(10_000), []);
    let mut ended = with_story(task("a", 1));
    ended.ended = Some(ReportedStatus::done());
    assert_eq!(
        rig.fetch(2),
        [
            listed(vec![ended]),
            heartbeat(&rig, 8, set(2, 1)),
            end(9, 2)
        ]
    );
}

#[test]
fn answers_of_a_question_die_with_the_scheduler_that_asked() {
    let mut rig = Rig::joined();
    rig.wait(15_000);
    assert_eq!(rig.notify(1, 1, vec![task("a", 1)]).len(), 2);
    rig.fetch(2);
    rig.heartbeat_answered(5, 2, 1, Health::Unhealthy);
    assert_eq!(rig.own().unacknowledged_reports(), 0);
    assert_eq!(rig.acknowledge(6), []);
    assert_eq!(rig.completed(6, lost()), []);
    // The new scheduler asks its own question.
    let denied = ReportedStatus::was_not_running();
    assert_eq!(
        rig.notify(2, 1, vec![task("a", 1)]),
        [accepted(), report(8, 2, task("a", 1), denied)]
    );
}

#[test]
fn answers_of_the_wrong_kind_count_for_nothing() {
    let mut rig = with_end();
    assert_eq!(rig.heartbeat_answered(5, 1, 1, Health::MustDie), []);
    assert_eq!(rig.own().unacknowledged_reports(), 1);
    assert_eq!(rig.wait(1000), [heartbeat(&rig, 6, set(1, 1)), end(7, 1)]);
    rig.acknowledge(7);
    assert_eq!(rig.acknowledge(6), []);
    assert!(rig.own().heartbeat_trouble().is_some());
    assert_eq!(rig.wait(1000), [heartbeat(&rig, 8, set(1, 1))]);
}

#[test]
fn what_a_dying_worker_has_to_say_does_not_wait_for_its_state() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.start("b", 2);
    rig.wait(15_000);
    rig.fetch(2);
    rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()), []);
    let effects = rig.suicide(2, OWN);
    assert_eq!(effects, [kill("b", 2, 700), accepted(), end(7, 2)]);
}
