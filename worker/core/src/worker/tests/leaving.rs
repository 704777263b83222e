//! Suicide and shutdown.

use brasserie_common::{Health, RefusalCode, ReportedStatus, StatusBits};

use crate::effect::{Call, Effect, ExitReason, Goodbye};
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
    assert_eq!(rig.worker.life_stage(), LifeStage::Dying);
    // No heartbeats, no second kill, nothing new.
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
    rig.acknowledge(6);
    let effects = rig.end("b", 2, killed());
    assert_eq!(effects.first(), Some(&exit(ExitReason::SuicideRequested)));
    assert_eq!(rig.worker.life_stage(), LifeStage::Gone);
    assert_eq!(rig.worker.poll_timeout(), None);
    assert_eq!(rig.wait(60_000), []);
    assert_eq!(
        refusal(&rig.run(run(1, 0, task("c", 5)))).0,
        RefusalCode::Unhealthy
    );
}

#[test]
fn suicide_without_processes_is_immediate() {
    let mut rig = Rig::joined();
    assert_eq!(
        rig.suicide(1, OWN),
        [accepted(), exit(ExitReason::SuicideRequested)]
    );
}

#[test]
fn suicide_is_for_the_associated_scheduler_to_ask() {
    let mut rig = Rig::joined();
    assert_eq!(refusal(&rig.suicide(2, OWN)).0, RefusalCode::WrongId);
    assert_eq!(rig.worker.life_stage(), LifeStage::Running);
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
    assert_eq!(rig.worker.health(), Health::MustDie);
    let effects = rig.end("a", 1, killed());
    assert!(effects.contains(&exit(ExitReason::MustDie)));
}

#[test]
fn shutdown_ends_tasks_reports_them_says_goodbye_and_exits() {
    let mut rig = Rig::joined();
    rig.start("a", 1);
    rig.start("b", 2);
    assert_eq!(
        rig.hear(Event::Shutdown),
        [kill("a", 1, 5000), kill("b", 2, 5000)]
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
    // A task that was killed may run elsewhere at once; its own word stays what it is.
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
    assert_eq!(rig.hear(Event::Shutdown), [kill("a", 1, 0)]);
    assert_eq!(rig.hear(Event::Shutdown), []);
    // Nor does a suicide have anything to add.
    assert_eq!(rig.suicide(1, OWN), [accepted()]);
}

#[test]
fn a_suicide_during_shutdown_brings_its_own_wait() {
    let mut rig = Rig::with(|o| o.shutdown_kill_wait = std::time::Duration::from_secs(3600)).join();
    rig.start("a", 1);
    assert_eq!(rig.hear(Event::Shutdown), [kill("a", 1, 3_600_000)]);
    assert_eq!(rig.suicide(1, OWN), [kill("a", 1, 700), accepted()]);
    assert_eq!(rig.hear(Event::Shutdown), [kill("a", 1, 0)]);
    let effects = rig.end("a", 1, killed());
    assert_eq!(effects.first(), Some(&exit(ExitReason::SuicideRequested)));
}

#[test]
fn without_a_scheduler_there_is_nobody_to_say_goodbye_to() {
    let mut rig = Rig::new();
    rig.wait(0);
    assert_eq!(rig.hear(Event::Shutdown), [exit(ExitReason::Shutdown)]);
    assert_eq!(rig.hear(Event::Shutdown), []);
}
