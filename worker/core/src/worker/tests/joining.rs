//! Tests of heartbeats, health, associations and bindings.

use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{CallOutcome, Health, RefusalCode, ReportedStatus, WorkerId, WorkerSetId};

use crate::effect::{Effect, ExitReason};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::{Event, HeartbeatTrouble, LifeStage};

#[test]
fn joining_takes_a_handful_of_turns_and_no_time() {
    let mut rig = Rig::new();
    assert_eq!(rig.next_timer(), Some(0));
    assert_eq!(rig.wait(0), [heartbeat(&rig, 1, WorkerSetId::default())]);
    let effects = rig.heartbeat_answered(1, 1, 1, Health::New);
    assert_eq!(effects, [heartbeat(&rig, 2, set(1, 1))]);
    assert_eq!(rig.fetch(1), [listed(vec![])]);
    let check = healthcheck(1, 7, HEALTHCHECK_NEW_WORKER_NODE);
    let spawn = spawned(check.clone());
    assert_eq!(rig.run(check.clone()), [spawn, accepted()]);
    let done = ReportedStatus::done();
    assert_eq!(
        rig.end_healthcheck(check.clone(), done.clone()),
        [report(3, 1, check.task, done)]
    );
    let effects = rig.heartbeat_answered(2, 1, 1, Health::Unhealthy);
    assert_eq!(effects, [heartbeat(&rig, 4, set(1, 1))]);
    assert_eq!(rig.acknowledge(3), []);
    // The healthcheck was acknowledged while this heartbeat was in flight, but the worker has no reason for haste any more.
    assert_eq!(rig.heartbeat_answered(4, 1, 1, Health::Healthy), []);
    assert_eq!(rig.own().health(), Health::Healthy);
    assert_eq!(rig.own().bound_to(), Some(scheduler(1)));
    assert_eq!(rig.next_timer(), Some(15_000));
    assert_eq!(rig.wait(14_999), []);
    assert_eq!(rig.wait(1), [heartbeat(&rig, 5, set(1, 1))]);
}

#[test]
fn an_acknowledged_healthcheck_hurries_a_worker_that_is_not_healthy() {
    let mut rig = Rig::new();
    rig.wait(0);
    rig.heartbeat_answered(1, 1, 1, Health::New);
    rig.heartbeat_answered(2, 1, 1, Health::New);
    assert_eq!(rig.next_timer(), Some(15_000));
    rig.run(healthcheck(1, 7, ""));
    rig.end_healthcheck(healthcheck(1, 7, ""), ReportedStatus::done());
    assert_eq!(rig.acknowledge(3), [heartbeat(&rig, 4, set(1, 1))]);
    // A failed healthcheck shows nothing.
    rig.heartbeat_answered(4, 1, 1, Health::New);
    rig.run(healthcheck(1, 8, ""));
    rig.end_healthcheck(healthcheck(1, 8, ""), ReportedStatus::failed());
    assert_eq!(rig.acknowledge(5), []);
}

#[test]
fn a_lost_connection_makes_a_healthy_worker_ask_at_once() {
    let mut rig = Rig::joined();
    rig.wait(3000);
    let effects = rig.hear(lost_connection());
    assert_eq!(effects, [heartbeat(&rig, 5, set(1, 1))]);
    // Another instance has answered, so joining continues without a wait.
    let effects = rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(effects, [heartbeat(&rig, 6, set(2, 1))]);
    // The same instance has answered, and changes nothing.
    let mut rig = Rig::joined();
    rig.hear(lost_connection());
    assert_eq!(rig.heartbeat_answered(5, 1, 1, Health::Healthy), []);
    assert_eq!(rig.own().health(), Health::Healthy);
    assert_eq!(rig.next_timer(), Some(15_000));
}

#[test]
fn a_connection_lost_with_a_heartbeat_on_its_way_wants_another_answer() {
    let mut rig = Rig::joined();
    assert_eq!(rig.wait(15_000), [heartbeat(&rig, 5, set(1, 1))]);
    assert_eq!(rig.hear(lost_connection()), []);
    // This may be the last answer of an instance that is gone.
    let effects = rig.heartbeat_answered(5, 1, 1, Health::Healthy);
    assert_eq!(effects, [heartbeat(&rig, 6, set(1, 1))]);
    assert_eq!(rig.heartbeat_answered(6, 1, 1, Health::Healthy), []);
    assert_eq!(rig.next_timer(), Some(15_000));
}

#[test]
fn losses_do_not_quicken_the_retries_of_failing_heartbeats() {
    for outcome in [lost(), refused(), not_sent()] {
        let mut rig = Rig::joined();
        rig.hear(lost_connection());
        for call in 5..9 {
            // Each attempt loses its connection, too. The loss is reported before or after the outcome of the call.
            assert_eq!(rig.hear(lost_connection()), []);
            assert_eq!(rig.completed(call, outcome.clone()), []);
            assert_eq!(rig.hear(lost_connection()), []);
            assert_eq!(rig.wait(999), []);
            assert_eq!(rig.wait(1), [heartbeat(&rig, call + 1, set(1, 1))]);
        }
        // The scheduler is back, so the next loss counts again.
        assert_eq!(rig.heartbeat_answered(9, 1, 1, Health::Healthy), []);
        let effects = rig.hear(lost_connection());
        assert_eq!(effects, [heartbeat(&rig, 10, set(1, 1))]);
    }
}

#[test]
fn a_peer_that_closes_after_each_answer_is_asked_twenty_times_a_second() {
    let mut rig = Rig::joined();
    let mut sent: Vec<u64> = Vec::new();
    let mut effects = Vec::new();
    for millisecond in 0..3000 {
        effects.extend(rig.hear(lost_connection()));
        for effect in std::mem::take(&mut effects) {
            if let Effect::Call { id, .. } = effect {
                sent.push(millisecond);
                assert_eq!(rig.heartbeat_answered(id.0, 1, 1, Health::Healthy), []);
            }
        }
        effects = rig.wait(1);
    }
    for (i, at) in sent.iter().enumerate() {
        let in_second = sent[i..].iter().take_while(|other| **other < at + 1000);
        assert!(in_second.count() <= 20);
    }
    assert!(sent.len() >= 48, "{}", sent.len());
}

#[test]
fn a_worker_that_leaves_for_good_ignores_a_lost_connection() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.suicide(1, OWN);
    assert_eq!(rig.own().life_stage(), LifeStage::Dying);
    assert_eq!(rig.hear(lost_connection()), []);
    assert_eq!(rig.wait(60_000), []);
}

#[test]
fn a_worker_in_a_hurry_sends_twenty_heartbeats_a_second() {
    let mut rig = Rig::new();
    let mut sent: Vec<u64> = Vec::new();
    let mut call = 1;
    let mut effects = rig.wait(0);
    for millisecond in 0..5000 {
        // Each answer names a new set, so each requests another heartbeat at once.
        while let Some(Effect::Call { .. }) = effects.pop() {
            sent.push(millisecond);
            effects = rig.heartbeat_answered(call, 1, call as i64, Health::New);
            call += 1;
        }
        effects = rig.wait(1);
    }
    for (i, at) in sent.iter().enumerate() {
        let in_second = sent[i..].iter().take_while(|other| **other < at + 1000);
        assert!(in_second.count() <= 20);
    }
    assert!(sent.len() >= 80, "{}", sent.len());
    assert_eq!(sent[..4], [0, 0, 0, 0]);
}

#[test]
fn a_failed_heartbeat_is_retried_after_a_second() {
    for outcome in [lost(), refused(), not_sent()] {
        let mut rig = Rig::new();
        rig.wait(0);
        assert_eq!(rig.completed(1, outcome), []);
        assert!(rig.own().heartbeat_trouble().is_some());
        assert_eq!(rig.wait(999), []);
        let again = rig.wait(1);
        assert_eq!(again, [heartbeat(&rig, 2, WorkerSetId::default())]);
        rig.heartbeat_answered(2, 1, 1, Health::New);
        assert_eq!(rig.own().heartbeat_trouble(), None);
    }
}

#[test]
fn a_heartbeat_without_outcome_is_given_up_and_its_late_answer_dropped() {
    let mut rig = Rig::new();
    rig.wait(0);
    assert_eq!(rig.wait(10_999), []);
    let again = rig.wait(1);
    assert_eq!(again, [heartbeat(&rig, 2, WorkerSetId::default())]);
    assert_eq!(rig.heartbeat_answered(1, 1, 1, Health::Healthy), []);
    assert_eq!(rig.own().scheduler(), None);
}

#[test]
fn answers_of_another_protocol_or_about_a_foreign_set_do_not_associate() {
    let mut other_version = response(1, 1, Health::New);
    other_version.protocol_version = -1;
    let mut foreign_set = response(1, 1, Health::New);
    foreign_set.worker_set = set(2, 1);
    let troubles = [
        HeartbeatTrouble::ProtocolVersion { theirs: -1 },
        HeartbeatTrouble::ForeignWorkerSet {
            scheduler: scheduler(1),
            of: scheduler(2),
        },
    ];
    for (response, trouble) in [other_version, foreign_set].into_iter().zip(troubles) {
        let mut rig = Rig::new();
        rig.wait(0);
        let reply = CallReply::Heartbeat(Box::new(response));
        assert_eq!(rig.completed(1, CallOutcome::Done(reply)), []);
        assert_eq!(rig.own().scheduler(), None);
        assert_eq!(rig.own().heartbeat_trouble(), Some(&trouble));
        rig.wait(1000);
        rig.heartbeat_answered(2, 1, 1, Health::New);
        assert_eq!(rig.own().scheduler(), Some(scheduler(1)));
    }
}

#[test]
fn the_worker_set_never_goes_back() {
    let mut rig = Rig::joined();
    rig.wait(15_000);
    // A new set id is echoed at once.
    let effects = rig.heartbeat_answered(5, 1, 7, Health::Healthy);
    assert_eq!(effects, [heartbeat(&rig, 6, set(1, 7))]);
    rig.heartbeat_answered(6, 1, 7, Health::Healthy);
    let mut call = 7;
    for heard in [6, 7, 7_i64.wrapping_add(i64::MIN)] {
        rig.wait(15_000);
        assert_eq!(rig.heartbeat_answered(call, 1, heard, Health::Healthy), []);
        assert_eq!(rig.own().worker_set(), set(1, 7));
        call += 1;
    }
    rig.wait(15_000);
    rig.heartbeat_answered(call, 2, 3, Health::New);
    assert_eq!(rig.own().worker_set(), set(2, 3));
}

#[test]
fn however_often_the_set_changes_heartbeats_at_most_double() {
    let mut rig = Rig::joined();
    let start = rig.beats.len();
    let mut call = 5;
    let mut effects = Vec::new();
    for _ in 0..40 * 15 {
        effects.extend(rig.wait(1000));
        while let Some(Effect::Call { id, .. }) = effects.pop() {
            assert_eq!(id.0, call);
            // The set has changed again.
            effects = rig.heartbeat_answered(call, 1, call as i64, Health::Healthy);
            call += 1;
        }
        // The worker stays HEALTHY. Only the results of healthchecks matter here.
        let now = rig.now();
        rig.worker.associations[0].session.good_healthcheck(now);
    }
    assert_eq!(rig.beats.len() - start, 2 * 40);
}

#[test]
fn a_healthcheck_makes_a_healthy_worker_send_back_the_set_twice() {
    let mut rig = Rig::joined();
    rig.wait(3000);
    rig.run(healthcheck(1, 8, ""));
    rig.end_healthcheck(healthcheck(1, 8, ""), ReportedStatus::done());
    assert_eq!(rig.acknowledge(5), [heartbeat(&rig, 6, set(1, 1))]);
    let effects = rig.heartbeat_answered(6, 1, 2, Health::Healthy);
    assert_eq!(effects, [heartbeat(&rig, 7, set(1, 2))]);
    // Only one echo leaves at once. The next ordinary heartbeat or healthcheck brings the next one.
    assert_eq!(rig.heartbeat_answered(7, 1, 3, Health::Healthy), []);
    rig.run(healthcheck(1, 9, ""));
    rig.end_healthcheck(healthcheck(1, 9, ""), ReportedStatus::done());
    assert_eq!(rig.acknowledge(8), [heartbeat(&rig, 9, set(1, 3))]);
    assert_eq!(rig.heartbeat_answered(9, 1, 3, Health::Healthy), []);
    assert_eq!(rig.next_timer(), Some(15_000));
}

#[test]
fn health_counts_from_sending_and_the_limit_is_still_good() {
    let mut rig = Rig::joined();
    // The next heartbeat is answered nine seconds late. The gap of 75 s counts from 15 s, when it left.
    rig.wait(24_000);
    rig.heartbeat_answered(5, 1, 1, Health::Healthy);
    rig.sleep(75_000 + 15_000 - 24_000);
    rig.hear(Event::WallClock(Default::default()));
    assert_eq!(rig.own().health(), Health::Healthy);
    rig.sleep(1);
    rig.hear(Event::WallClock(Default::default()));
    assert_eq!(rig.own().health(), Health::Unhealthy);
}

#[test]
fn a_healthcheck_counts_from_its_acceptance() {
    let mut rig = Rig::new();
    rig.wait(0);
    rig.heartbeat_answered(1, 1, 1, Health::New);
    rig.run(healthcheck(1, 7, ""));
    rig.sleep(100_000);
    rig.end_healthcheck(healthcheck(1, 7, ""), ReportedStatus::done());
    rig.heartbeat_answered(2, 1, 1, Health::New);
    rig.acknowledge(3);
    // The limit is 125 s from the acceptance, so 25 s are left. Heartbeats go on.
    rig.wait(1000);
    rig.heartbeat_answered(4, 1, 1, Health::Healthy);
    rig.heartbeat_answered(5, 1, 1, Health::Healthy);
    assert_eq!(rig.own().health(), Health::Healthy);
    rig.sleep(24_001);
    rig.wait(0);
    assert_eq!(rig.own().health(), Health::Unhealthy);
}

#[test]
fn the_first_health_comes_from_the_scheduler_alone() {
    let mut rig = Rig::new();
    rig.wait(0);
    rig.heartbeat_answered(1, 1, 1, Health::New);
    rig.heartbeat_answered(2, 1, 1, Health::Unhealthy);
    // The first health is withheld for longer than the loss time. The worker is not lost for that, and no timer stays due.
    for minute in 0..20 {
        let check = healthcheck(1, 7 + minute, "");
        assert_eq!(rig.run(check.clone()).len(), 2);
        let effects = rig.end_healthcheck(check, ReportedStatus::done());
        rig.serve(effects, 1, Health::Unhealthy);
        for _ in 0..4 {
            let effects = rig.wait(15_000);
            rig.serve(effects, 1, Health::Unhealthy);
        }
    }
    assert_eq!(rig.own().health(), Health::Unhealthy);
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
    // When healthchecks end, the whole loss time counts.
    assert_eq!(
        rig.wait(126_000).last(),
        Some(&Effect::Exit {
            reason: ExitReason::MustDie
        })
    );
}

#[test]
fn after_the_first_health_the_worker_recovers_by_itself() {
    let mut rig = Rig::joined();
    for _ in 0..9 {
        let effects = rig.wait(15_000);
        rig.serve(effects, 1, Health::Healthy);
    }
    // The healthcheck is too old now, whatever the scheduler says.
    assert_eq!(rig.own().health(), Health::Unhealthy);
    rig.run(healthcheck(1, 8, ""));
    let effects = rig.end_healthcheck(healthcheck(1, 8, ""), ReportedStatus::done());
    rig.serve(effects, 1, Health::Healthy);
    assert_eq!(rig.own().health(), Health::Healthy);
}

#[test]
fn the_word_of_the_scheduler_stands_and_dates_from_the_sending() {
    let mut rig = Rig::joined();
    rig.wait(24_000);
    let effects = rig.heartbeat_answered(5, 1, 1, Health::Unhealthy);
    assert_eq!(effects, [heartbeat(&rig, 6, set(1, 1))]);
    assert_eq!(rig.own().health(), Health::Unhealthy);
    // The heartbeat left after 15 s. The worker must be gone 495 s later.
    rig.wait(15_000 + 495_000 - 24_000);
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
    rig.wait(1);
    assert_eq!(rig.own().life_stage(), LifeStage::Dying);
}

#[test]
fn a_new_association_counts_from_the_first_heartbeat_that_may_have_made_it() {
    // The answers to the heartbeats of 0 s and 11 s are lost. The scheduler counts from the receipt of either.
    let mut rig = Rig::new();
    rig.wait(22_000);
    rig.heartbeat_answered(3, 1, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000 - 22_000));
    // A refusal shows that the scheduler does not count yet. An association by a heartbeat in flight begins no earlier.
    let mut rig = Rig::new();
    rig.wait(11_000);
    rig.completed(2, refused());
    rig.wait(1000);
    rig.heartbeat_answered(3, 1, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000 - 1000));
    // A heartbeat that was not sent was not received, so the count begins with the answered one.
    let mut rig = Rig::new();
    rig.wait(0);
    rig.completed(1, not_sent());
    rig.wait(1000);
    rig.heartbeat_answered(2, 1, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000));
}

#[test]
fn a_new_association_counts_no_longer_than_the_scheduler_says() {
    // The answers to the heartbeats of 0 s and 11 s are lost. The scheduler received only that of 11 s, at 12 s.
    let answer = |rig: &mut Rig, so_long| {
        let said = HeartbeatResponse {
            not_healthy_for: Some(Duration::from_secs(so_long)),
            ..response(1, 1, Health::New)
        };
        let reply = CallReply::Heartbeat(Box::new(said));
        rig.completed(3, CallOutcome::Done(reply));
    };
    let mut rig = Rig::new();
    rig.wait(22_000);
    answer(&mut rig, 10);
    assert_eq!(rig.left_to_live(), Some(495_000 - 10_000));
    // The scheduler received neither.
    let mut rig = Rig::new();
    rig.wait(22_000);
    answer(&mut rig, 0);
    assert_eq!(rig.left_to_live(), Some(495_000));
    // The scheduler cannot have received a heartbeat before the first one.
    let mut rig = Rig::new();
    rig.wait(22_000);
    answer(&mut rig, 1_000_000_000_000);
    assert_eq!(rig.left_to_live(), Some(495_000 - 22_000));
}

#[test]
fn a_new_scheduler_may_have_met_a_worker_that_hears_of_it_late() {
    let mut rig = Rig::joined();
    // Heartbeats leave at 15 s and 26 s. The third one, at 37 s, is answered.
    rig.wait(37_000);
    rig.heartbeat_answered(7, 2, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000 - 22_000));
    // The association with scheduler 3 cannot have begun before the last answered heartbeat left. Lost heartbeats may still arrive.
    rig.heartbeat_answered(8, 2, 1, Health::New);
    rig.wait(15_000);
    rig.heartbeat_answered(9, 3, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000 - 15_000));
    // Lost heartbeats do not count forever.
    let mut rig = Rig::joined();
    rig.wait(15_000);
    assert_eq!(rig.completed(5, lost()), []);
    for _ in 0..50 {
        let effects = rig.wait(15_000);
        rig.serve(effects, 1, Health::Healthy);
        let now = rig.now();
        rig.worker.associations[0].session.good_healthcheck(now);
    }
    let effects = rig.wait(15_000);
    let [Effect::Call { id, .. }] = effects[..] else {
        panic!("{effects:?}");
    };
    let sent = *rig.beats.last().unwrap();
    rig.heartbeat_answered(id.0, 2, 1, Health::New);
    let own = Duration::from_secs(495) + Duration::from_nanos(1);
    assert_eq!(rig.own().tasks_may_live_until(), Some(sent + own));
}

#[test]
fn an_association_begun_anew_counts_from_the_first_heartbeat_that_may_have_met_it() {
    let mut rig = Rig::joined();
    rig.wait(37_000);
    rig.heartbeat_answered(7, 1, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000 - 22_000));
}

#[test]
fn a_sleeping_machine_wakes_up_unhealthy_or_dead() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.sleep(100_000);
    let effects = rig.run(run(1, 0, task("b", 2)));
    assert!(
        matches!(&effects[..], [Effect::Reply { reply: Err(refusal), .. }, ..] if refusal.code == RefusalCode::Unhealthy)
    );
    assert_eq!(rig.own().health(), Health::Unhealthy);
    // The worker is HEALTHY for 75 s, and lost after 495 s more. Changes during the sleep are dated to when they were due.
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.sleep(75_000 + 495_000 + 1);
    let effects = rig.run(run(1, 0, task("b", 2)));
    let Effect::Reply {
        reply: Err(refusal),
        ..
    } = &effects[1]
    else {
        panic!("{effects:?}");
    };
    assert_eq!(refusal.code, RefusalCode::Unhealthy);
    // The suicide was due a millisecond ago, less the nanoseconds by which the limits are exceeded.
    let Effect::Kill { kill, .. } = &effects[0] else {
        panic!("{effects:?}");
    };
    let left = Duration::from_millis(699) + Duration::from_nanos(2);
    assert_eq!((kill.request.wait, effects.len()), (left, 2));
    assert_eq!(rig.own().life_stage(), LifeStage::Dying);
    rig.end("a", 1, ReportedStatus::failed());
    assert_eq!(
        rig.wait(2000).last(),
        Some(&Effect::Exit {
            reason: ExitReason::MustDie
        })
    );
}

#[test]
fn without_answers_the_worker_ends_before_the_scheduler_gives_its_tasks_away() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    let mut effects = Vec::new();
    let mut waited = 0;
    while effects.last() != Some(&kill("a", 1, 700)) {
        effects = rig.wait(1000);
        waited += 1;
    }
    assert_eq!(waited, 75 + 495 + 1);
    assert!(Duration::from_secs(waited) < Duration::from_secs(75 + 500));
}

#[test]
fn a_worker_that_never_met_a_scheduler_lives_on() {
    let mut rig = Rig::new();
    for call in 1..2000 {
        rig.wait(1000);
        rig.completed(call, not_sent());
    }
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
}

#[test]
fn a_restarted_scheduler_finds_the_running_tasks_and_a_new_association() {
    let mut rig = Rig::joined();
    rig.notify(1, 5, vec![]);
    rig.start_at(5, "a", 1);
    rig.start_at(5, "b", 2);
    assert_eq!(rig.wait(15_000), [heartbeat(&rig, 5, set(1, 1))]);
    let failed = ReportedStatus::failed();
    let effects = rig.end("b", 2, failed.clone());
    assert_eq!(effects, [report(6, 1, task("b", 2), failed.clone())]);
    // The worker echoes the old set until the new scheduler has sent one.
    let effects = rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(effects, [heartbeat(&rig, 7, set(2, 1))]);
    assert_eq!(rig.own().health(), Health::New);
    assert_eq!(rig.own().scheduler(), Some(scheduler(2)));
    assert_eq!(rig.own().bound_to(), Some(scheduler(1)));
    assert_eq!(rig.completed(6, lost()), []);
    let mut ended = with_story(task("b", 2));
    ended.ended = Some(failed.clone());
    assert_eq!(rig.fetch(2), [listed(vec![task("a", 1), ended])]);
    assert_eq!(rig.own().bound_to(), Some(scheduler(2)));
    // The completion leaves as soon as the scheduler accepts it.
    assert_eq!(
        rig.heartbeat_answered(7, 2, 1, Health::Unhealthy),
        [
            heartbeat(&rig, 8, set(2, 1)),
            report(9, 2, task("b", 2), failed)
        ]
    );
    // The sequence numbers began anew with the association.
    assert_eq!(rig.notify(2, 1, vec![task("a", 1)]), [accepted()]);
}

#[test]
fn an_older_scheduler_is_refused_and_told_whom_the_worker_is_bound_to() {
    let mut rig = Rig::joined();
    assert_eq!(rig.fetch(2), [listed(vec![])]);
    let (code, text) = refusal(&rig.fetch(1));
    assert_eq!(code, RefusalCode::BoundTo(scheduler(2)));
    assert!(
        text.contains(&format!("bound to {}", scheduler(2))),
        "{text}"
    );
    for effects in [
        rig.run(run(1, 0, task("a", 1))),
        rig.notify(1, 9, vec![]),
        rig.suicide(1, OWN),
        rig.run(healthcheck(1, 8, HEALTHCHECK_NEW_WORKER_NODE)),
    ] {
        assert_eq!(refusal(&effects).0, RefusalCode::BoundTo(scheduler(2)));
    }
    // The older scheduler's answers do not count either.
    rig.wait(15_000);
    assert_eq!(rig.heartbeat_answered(5, 1, 1, Health::MustDie), []);
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
    assert_eq!(
        rig.own().heartbeat_trouble(),
        Some(&HeartbeatTrouble::OldScheduler {
            answered: scheduler(1),
            newest: scheduler(2)
        })
    );
    // The newer scheduler may not start tasks before its first answer either.
    let effects = rig.run(run(2, 0, task("a", 2)));
    assert_eq!(refusal(&effects).0, RefusalCode::WrongId);
}

#[test]
fn a_scheduler_that_did_not_fetch_may_not_start_tasks() {
    let mut rig = Rig::joined();
    rig.wait(15_000);
    rig.heartbeat_answered(5, 2, 1, Health::Healthy);
    rig.run(healthcheck(2, 9, ""));
    let effects = rig.end_healthcheck(healthcheck(2, 9, ""), ReportedStatus::done());
    assert_eq!(effects.len(), 1);
    rig.acknowledge(7);
    assert_eq!(rig.own().health(), Health::Healthy);
    let (code, text) = refusal(&rig.run(run(2, 0, task("a", 1))));
    assert_eq!(code, RefusalCode::BoundTo(scheduler(1)));
    assert!(
        text.contains(&format!("bound to {}", scheduler(1))),
        "{text}"
    );
    rig.fetch(2);
    // The refused invocation stays refused; another one runs.
    assert_eq!(
        refusal(&rig.run(run(2, 0, task("a", 1)))).0,
        RefusalCode::Duplicate
    );
    assert_eq!(rig.run(run(2, 0, task("a", 2))).len(), 2);
}

#[test]
fn a_fetch_without_a_name_binds_whoever_answers_heartbeats() {
    // While no heartbeat is in flight, the worker binds to the associated scheduler.
    let mut rig = Rig::joined();
    rig.hear(fetch_event(None));
    assert_eq!(rig.own().bound_to(), Some(scheduler(1)));
    // While a heartbeat is in flight, the worker binds to the scheduler that answers it.
    let mut rig = Rig::new();
    rig.wait(0);
    rig.hear(fetch_event(None));
    assert_eq!(rig.own().bound_to(), None);
    rig.heartbeat_answered(1, 1, 1, Health::New);
    assert_eq!(rig.own().bound_to(), Some(scheduler(1)));
    let mut rig = Rig::joined();
    rig.wait(15_000);
    rig.hear(fetch_event(None));
    assert_eq!(rig.own().bound_to(), Some(scheduler(1)));
    rig.heartbeat_answered(5, 2, 1, Health::New);
    assert_eq!(rig.own().bound_to(), Some(scheduler(2)));
}

#[test]
fn requests_for_another_worker_instance_are_refused() {
    let mut rig = Rig::joined();
    let other = WorkerId::new(1, 1);
    let mut wanted = run(1, 0, task("a", 1));
    wanted.worker = other;
    let mut fetch = fetch_event(Some(scheduler(2)));
    if let Event::GetRunningTasks { worker, .. } = &mut fetch {
        *worker = other;
    }
    for effects in [rig.run(wanted), rig.hear(fetch), rig.suicide(1, other)] {
        let (code, text) = refusal(&effects);
        assert_eq!(code, RefusalCode::WrongId);
        assert!(text.contains(&OWN.to_string()), "{text}");
    }
    assert_eq!(rig.own().bound_to(), Some(scheduler(1)));
}
