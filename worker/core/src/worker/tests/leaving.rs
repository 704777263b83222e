//! Tests of suicide and shutdown.

use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{CallOutcome, EndedBy, Health, RefusalCode, ReportedStatus, StatusBits};

use crate::effect::{Call, Effect, ExitReason, Goodbye};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::{Event, LifeStage};

fn exit(reason: ExitReason) -> Effect {
    Effect::Exit { reason }
}

fn killed() -> ReportedStatus {
    ReportedStatus::incomplete_backoff("killed")
}

fn goodbye(rig: &Rig, call: u64) -> Effect {
    beat(rig, call, set(1, 1), Goodbye::TasksAreDead)
}

#[test]
fn suicide_kills_once_reports_on_and_exits_with_the_last_process() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.start("b", 2);
    assert_eq!(
        rig.suicide(1, OWN),
        [kill("a", 1, 700), kill("b", 2, 700), accepted()]
    );
    assert_eq!(rig.own().life_stage(), LifeStage::Dying);
    // No heartbeat leaves, nothing is killed twice, and nothing starts.
    assert_eq!(rig.wait(20_000), []);
    for effects in [
        rig.suicide(1, OWN),
        rig.fetch(1),
        rig.kill(1, "a", 1),
        rig.run(run(1, 0, task("c", 3))),
        rig.run(healthcheck(1, 8, "")),
    ] {
        assert_eq!(refusal(&effects).0, RefusalCode::Unhealthy);
    }
    let denied = ReportedStatus::was_not_running();
    assert_eq!(
        rig.notify(1, 1, vec![task("a", 1), task("d", 4)]),
        [accepted(), report(5, 1, task("d", 4), denied)]
    );
    assert_eq!(
        rig.end("a", 1, killed()),
        [report(6, 1, task("a", 1), killed())]
    );
    rig.acknowledge(5);
    rig.acknowledge(6);
    assert!(rig.own().tasks_may_live_until().is_some());
    assert_eq!(
        rig.end("b", 2, killed()),
        [report(7, 1, task("b", 2), killed())]
    );
    assert_eq!(rig.own().tasks_may_live_until(), None, "nothing is left");
    assert_eq!(rig.acknowledge(7), [goodbye(&rig, 8)]);
    assert_eq!(rig.own().life_stage(), LifeStage::Dying);
    assert_eq!(refusal(&rig.fetch(1)).0, RefusalCode::Unhealthy);
    assert_eq!(
        rig.heartbeat_answered(8, 1, 1, Health::MustDie),
        [exit(ExitReason::SuicideRequested)]
    );
    assert_eq!(rig.own().life_stage(), LifeStage::Gone);
    assert_eq!(rig.worker.poll_timeout(), None);
    assert_eq!(rig.wait(60_000), []);
    assert_eq!(
        refusal(&rig.run(run(1, 0, task("c", 5)))).0,
        RefusalCode::Unhealthy
    );
}

#[test]
fn suicide_without_processes_says_goodbye_at_once() {
    let mut rig = Rig::joined();
    assert_eq!(rig.suicide(1, OWN), [accepted(), goodbye(&rig, 5)]);
    assert_eq!(
        rig.completed(5, not_sent()),
        [exit(ExitReason::SuicideRequested)]
    );
}

#[test]
fn a_dead_worker_waits_a_second_for_acknowledgements_and_one_for_the_goodbye() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.suicide(1, OWN);
    assert_eq!(rig.end("a", 1, killed()).len(), 1);
    assert_eq!(rig.wait(999), []);
    assert_eq!(rig.wait(1), [goodbye(&rig, 6)]);
    assert_eq!(rig.wait(999), []);
    assert_eq!(rig.wait(1), [exit(ExitReason::SuicideRequested)]);
    // The scheduler has not fetched the tasks, so the worker waits for no acknowledgement from it.
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    rig.heartbeat_answered(5, 2, 1, Health::New);
    rig.suicide(2, OWN);
    assert_eq!(rig.end("a", 1, killed()), []);
    assert_eq!(
        rig.heartbeat_answered(6, 2, 1, Health::New),
        [beat(&rig, 7, set(2, 1), Goodbye::TasksAreDead)]
    );
}

#[test]
fn a_worker_that_must_end_its_tasks_says_why() {
    let why = |rig: &Rig| rig.own().why_it_ends().map(str::to_owned);
    let mut rig = Rig::joined();
    assert_eq!(why(&rig), None);
    rig.suicide(1, OWN);
    let text = "the scheduler has requested it: it was lost";
    assert_eq!(why(&rig).as_deref(), Some(text));

    let mut rig = Rig::joined();
    rig.wait(15_000);
    let answer = HeartbeatResponse {
        why_must_die: Some("another one has its shard".into()),
        ..response(1, 1, Health::MustDie)
    };
    let reply = CallReply::Heartbeat(Box::new(answer));
    rig.completed(rig.last_beat(), CallOutcome::Done(reply));
    let text = "the scheduler has declared this worker lost: another one has its shard";
    assert_eq!(why(&rig).as_deref(), Some(text));

    let mut rig = Rig::joined();
    rig.wait(1_000_000);
    let text = why(&rig).expect("its own timers have run out");
    let heartbeat = "; the last heartbeat that it answered was sent ";
    assert!(text.contains(heartbeat), "{text}");
}

#[test]
fn a_worker_set_that_comes_after_a_later_one_is_noted() {
    let mut rig = Rig::joined();
    for (version, older) in [(3, None), (2, Some(2)), (3, Some(2)), (4, Some(2))] {
        rig.wait(15_000);
        rig.heartbeat_answered(rig.last_beat(), 1, version, Health::Healthy);
        let noted = rig.own().older_set().map(|set| set.version);
        assert_eq!(noted, older);
        assert_eq!(rig.own().worker_set().version, version.max(3));
    }
}

#[test]
fn suicide_is_for_the_associated_scheduler_to_ask() {
    let mut rig = Rig::joined();
    assert_eq!(
        refusal(&rig.suicide(2, OWN)).0,
        RefusalCode::BoundTo(scheduler(1))
    );
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
}

#[test]
fn a_scheduler_that_says_must_die_is_obeyed() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    assert_eq!(
        rig.heartbeat_answered(5, 1, 1, Health::MustDie),
        [kill("a", 1, 700)]
    );
    assert_eq!(rig.own().health(), Health::MustDie);
    rig.end("a", 1, killed());
    assert_eq!(rig.acknowledge(6), [goodbye(&rig, 7)]);
    assert_eq!(
        rig.heartbeat_answered(7, 1, 1, Health::MustDie),
        [exit(ExitReason::MustDie)]
    );
}

#[test]
fn shutdown_ends_tasks_reports_them_says_goodbye_and_exits() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.start("b", 2);
    assert_eq!(
        rig.hear(Event::Shutdown),
        [
            kill_by(EndedBy::Shutdown, "a", 1, 5000),
            kill_by(EndedBy::Shutdown, "b", 2, 5000)
        ]
    );
    assert_eq!(
        refusal(&rig.run(run(1, 0, task("c", 3)))).0,
        RefusalCode::Draining
    );
    assert_eq!(
        refusal(&rig.run(healthcheck(1, 8, ""))).0,
        RefusalCode::Draining
    );
    assert_eq!(rig.fetch(1).len(), 1);
    // Heartbeats go on.
    assert_eq!(rig.wait(15_000), [heartbeat(&rig, 5, set(1, 1))]);
    rig.heartbeat_answered(5, 1, 1, Health::Healthy);
    // A killed task may run elsewhere at once. A status that the task wrote itself stays.
    let effects = rig.end("a", 1, killed());
    let Some(Effect::Call {
        call: Call::UpdateStatus { status, .. },
        ..
    }) = effects.first()
    else {
        panic!("{effects:?}");
    };
    assert_eq!(status.bits(), StatusBits::INCOMPLETE);
    assert_eq!(status.exception(), Some("killed"));
    let done = ReportedStatus::done();
    assert_eq!(
        rig.end("b", 2, done.clone()),
        [report(7, 1, task("b", 2), done)]
    );
    assert_eq!(rig.acknowledge(6), []);
    assert_eq!(rig.acknowledge(7), [goodbye(&rig, 8)]);
    assert_eq!(
        rig.heartbeat_answered(8, 1, 1, Health::Healthy),
        [exit(ExitReason::Shutdown)]
    );
}

#[test]
fn shutdown_waits_for_acknowledgements_and_the_goodbye_but_not_for_long() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.hear(Event::Shutdown);
    assert_eq!(rig.end("a", 1, ReportedStatus::done()).len(), 1);
    assert_eq!(rig.wait(1999), []);
    assert_eq!(rig.wait(1), [goodbye(&rig, 6)]);
    assert_eq!(rig.wait(999), []);
    assert_eq!(rig.wait(1), [exit(ExitReason::Shutdown)]);
}

#[test]
fn the_goodbye_lets_the_heartbeat_before_it_come_back() {
    let mut rig = Rig::joined();
    assert_eq!(rig.wait(15_000), [heartbeat(&rig, 5, set(1, 1))]);
    assert_eq!(rig.hear(Event::Shutdown), []);
    let mut unanswered = rig.clone();
    assert_eq!(
        rig.heartbeat_answered(5, 1, 1, Health::Healthy),
        [goodbye(&rig, 6)]
    );
    assert_eq!(rig.completed(6, not_sent()), [exit(ExitReason::Shutdown)]);
    assert_eq!(unanswered.wait(1000), [exit(ExitReason::Shutdown)]);
}

#[test]
fn a_second_shutdown_does_not_wait_and_a_third_changes_nothing() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.hear(Event::Shutdown);
    assert_eq!(
        rig.hear(Event::Shutdown),
        [kill_by(EndedBy::Shutdown, "a", 1, 0)]
    );
    assert_eq!(rig.hear(Event::Shutdown), []);
    // A suicide adds nothing either.
    assert_eq!(rig.suicide(1, OWN), [accepted()]);
}

#[test]
fn a_suicide_during_shutdown_brings_its_own_wait() {
    let mut rig = Rig::with(|o| o.shutdown_kill_wait = std::time::Duration::from_secs(3600)).join();
    rig.start("a", 1);
    assert_eq!(
        rig.hear(Event::Shutdown),
        [kill_by(EndedBy::Shutdown, "a", 1, 3_600_000)]
    );
    assert_eq!(rig.suicide(1, OWN), [kill("a", 1, 700), accepted()]);
    assert_eq!(
        rig.hear(Event::Shutdown),
        [kill_by(EndedBy::Shutdown, "a", 1, 0)]
    );
    rig.end("a", 1, killed());
    assert_eq!(rig.acknowledge(5), [goodbye(&rig, 6)]);
    assert_eq!(
        rig.wait(1000),
        [exit(ExitReason::SuicideRequested)],
        "and not as one that was shut down"
    );
}

#[test]
fn without_a_scheduler_there_is_nobody_to_say_goodbye_to() {
    let mut rig = Rig::new();
    rig.wait(0);
    assert_eq!(rig.hear(Event::Shutdown), [exit(ExitReason::Shutdown)]);
    assert_eq!(rig.hear(Event::Shutdown), []);
}

#[test]
fn nobody_counts_on_the_death_of_a_worker_without_association() {
    let mut rig = Rig::new();
    assert_eq!(rig.left_to_live(), None);
    rig.wait(0);
    rig.fetch(1);
    assert_eq!(rig.left_to_live(), None);
    rig.heartbeat_answered(1, 1, 1, Health::New);
    assert_eq!(rig.left_to_live(), Some(495_000));
    rig.hear(Event::Shutdown);
    assert_eq!(rig.left_to_live(), None, "it runs nothing and says goodbye");
}

#[test]
fn the_time_left_to_live_follows_from_health() {
    let mut rig = Rig::joined();
    // A heartbeat may be 75 s old, and the worker then UNHEALTHY for 495 s.
    assert_eq!(rig.left_to_live(), Some(570_000));
    rig.wait(20_000);
    assert_eq!(rig.left_to_live(), Some(550_000));
    rig.heartbeat_answered(5, 1, 1, Health::Healthy);
    assert_eq!(rig.left_to_live(), Some(565_000), "it left 5 s ago");
    rig.start("a", 1);
    assert_eq!(rig.own().kill_wait(), Duration::from_millis(700));
    let effects = rig.wait(10_000);
    assert_eq!(rig.left_to_live(), Some(555_000));
    // The scheduler says that the worker is UNHEALTHY since that heartbeat left.
    rig.serve(effects, 1, Health::Unhealthy);
    assert_eq!(rig.left_to_live(), Some(495_000));
}

/// Plays good healthchecks and answers heartbeats with this state, for some minutes.
fn is_fine_but_told(rig: &mut Rig, state: Health, minutes: i64) {
    for minute in 0..minutes {
        let check = healthcheck(1, 9 + minute, "");
        rig.run(check.clone());
        let effects = rig.end_healthcheck(check, ReportedStatus::done());
        rig.serve(effects, 1, state);
        for _ in 0..4 {
            let effects = rig.wait(15_000);
            rig.serve(effects, 1, state);
        }
    }
}

#[test]
fn a_worker_held_back_from_its_first_health_may_live_until_it_is_not_fine() {
    let mut rig = Rig::new();
    rig.wait(0);
    rig.heartbeat_answered(1, 1, 1, Health::New);
    rig.heartbeat_answered(2, 1, 1, Health::Unhealthy);
    is_fine_but_told(&mut rig, Health::Unhealthy, 20);
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
    // The last healthcheck is 60 s old and may be 125 s old. The last heartbeat has just left and may be 75 s old.
    assert_eq!(rig.left_to_live(), Some(65_000));
}

#[test]
fn a_worker_that_was_healthy_dies_by_the_word_of_the_scheduler_however_fine_it_is() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    is_fine_but_told(&mut rig, Health::Unhealthy, 8);
    // The first such answer was 480 s ago.
    assert_eq!(rig.left_to_live(), Some(15_000));
    rig.wait(15_000);
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
    assert_eq!(rig.wait(1), [kill("a", 1, 700)]);
    // A better answer in time keeps the worker alive.
    let mut rig = Rig::joined();
    is_fine_but_told(&mut rig, Health::Unhealthy, 8);
    is_fine_but_told(&mut rig, Health::Healthy, 1);
    assert_eq!(rig.own().health(), Health::Healthy);
    assert_eq!(rig.own().life_stage(), LifeStage::Running);
}

#[test]
fn a_word_of_health_without_a_known_healthcheck_counts_from_the_sending_of_its_heartbeat() {
    let mut rig = Rig::new();
    rig.wait(0);
    rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::New);
    rig.fetch(1);
    let check = healthcheck(1, 7, HEALTHCHECK_NEW_WORKER_NODE);
    rig.run(check.clone());
    rig.end_healthcheck(check, ReportedStatus::done());
    let status = rig.last_status;
    rig.wait(9000);
    let sent = *rig.beats.last().unwrap();
    let on_the_way = rig.now().since(sent);
    assert!(on_the_way > Duration::ZERO);
    rig.heartbeat_answered(rig.last_beat(), 1, 1, Health::Healthy);
    assert_eq!(rig.own().health(), Health::Unhealthy);
    let own = Duration::from_secs(495) + Duration::from_nanos(1);
    assert_eq!(rig.own().tasks_may_live_until(), Some(sent + own));
    rig.acknowledge(status);
    assert!(rig.own().tasks_may_live_until() >= Some(sent + own));
}

#[test]
fn a_suicide_that_is_noticed_late_leaves_no_more_than_the_rest_of_the_wait() {
    for (late, wait) in [(0, 700), (300, 400), (699, 1), (700, 0), (90_000, 0)] {
        let mut rig = Rig::joined();
        rig.start("a", 1);
        let due = rig.own().tasks_may_live_until().unwrap();
        rig.worker.handle_timeout(due + Duration::from_millis(late));
        let effects: Vec<_> = std::iter::from_fn(|| rig.worker.poll_effect()).collect();
        assert_eq!(effects.first(), Some(&kill("a", 1, wait)), "{late}");
        assert_eq!(rig.own().tasks_may_live_until(), Some(due));
    }
}

#[test]
fn who_is_told_to_die_has_the_whole_wait_because_its_own_time_is_not_over() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    let own = rig.own().tasks_may_live_until().unwrap();
    // The time that the answer took does not matter.
    rig.sleep(9_000);
    let now = rig.now();
    assert_eq!(
        rig.heartbeat_answered(5, 1, 1, Health::MustDie).first(),
        Some(&kill("a", 1, 700))
    );
    assert_eq!(rig.own().tasks_may_live_until(), Some(now));
    assert!(now < own);
    // An answer after the worker's own time finds a worker that is dying since that time.
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.wait(15_000);
    let own = rig.own().tasks_may_live_until().unwrap();
    rig.sleep(600_000);
    let effects = rig.heartbeat_answered(5, 1, 1, Health::MustDie);
    assert_eq!(effects.first(), Some(&kill("a", 1, 0)));
    assert_eq!(rig.own().tasks_may_live_until(), Some(own));
}

#[test]
fn the_kill_wait_is_the_shortest_of_all_processes() {
    let mut rig = Rig::joined();
    let patient = |node, invocation, millis| {
        let mut run = run(1, 0, task(node, invocation));
        run.task.suicide_kill_wait = Duration::from_millis(millis);
        run
    };
    rig.run(patient("a", 1, 900));
    assert_eq!(rig.own().kill_wait(), Duration::from_millis(900));
    rig.run(patient("b", 2, 50));
    assert_eq!(rig.own().kill_wait(), Duration::from_millis(50));
    rig.run(patient("c", 3, 800));
    rig.end("b", 2, ReportedStatus::done());
    rig.end("a", 1, ReportedStatus::done());
    assert_eq!(rig.own().kill_wait(), Duration::from_millis(50));
    rig.end("c", 3, ReportedStatus::done());
    rig.run(patient("d", 4, 800));
    assert_eq!(rig.own().kill_wait(), Duration::from_millis(800));
}
