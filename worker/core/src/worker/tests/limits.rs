//! Tests of timeout and deadline: the status of a run that they end, and the fingerprints of states with limits.

use std::time::Duration;

use brasserie_common::{EndedBy, KillMethod, KillRequest, ReportedStatus, Story};

use crate::Event;
use crate::effect::{Call, Effect};
use crate::worker::rig::*;

/// Returns the reported status of a run that was ended for this reason, if its process had this status.
fn ended(by: Option<EndedBy>, said: ReportedStatus) -> ReportedStatus {
    let mut rig = Rig::joined();
    let mut wanted = run(1, 0, task("a", 1));
    wanted.options.timeout = Some(Duration::from_secs(90));
    wanted.options.deadline = Some(Duration::from_millis(1500));
    rig.run(wanted);
    let story = Story {
        ended_by: by,
        ..Story::exited(0)
    };
    let effects = rig.hear(Event::TaskEnded {
        task: key("a"),
        invocation: invocation(1),
        status: said,
        story: Box::new(story),
    });
    match effects.as_slice() {
        [
            Effect::Call {
                call: Call::UpdateStatus { status, .. },
                ..
            },
        ] => status.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_error_says_that_time_was_over_and_how_much_there_was() {
    let wrong = || ReportedStatus::error_backoff("killed");
    let text = |by| ended(by, wrong()).exception().map(str::to_owned);
    let timed_out = text(Some(EndedBy::Timeout));
    assert_eq!(timed_out.as_deref(), Some("timed out after 90s; killed"));
    assert_eq!(
        text(Some(EndedBy::Deadline)).as_deref(),
        Some("its deadline passed, 1500ms after its worker got it; killed")
    );
    for other in [None, Some(EndedBy::Operator), Some(EndedBy::Suicide)] {
        assert_eq!(ended(other, wrong()), wrong(), "{other:?}");
    }
    // A status that the task wrote itself stays.
    let by = Some(EndedBy::Timeout);
    assert_eq!(ended(by, ReportedStatus::done()), ReportedStatus::done());
}

#[test]
fn term_alone_is_followed_by_a_kill_after_the_wait_of_the_job_or_of_the_worker() {
    let kill_of = |asked: Option<KillRequest>| {
        let mut rig = Rig::joined();
        let mut wanted = run(1, 0, task("a", 1));
        wanted.options.deadline = Some(Duration::ZERO);
        wanted.options.limit_kill = asked;
        // The deadline has expired at once, and the process must still be ended.
        let effects = rig.run(wanted);
        let found = effects.into_iter().find_map(|effect| match effect {
            Effect::Kill { kill, .. } => Some(kill),
            Effect::Reply { .. }
            | Effect::Call { .. }
            | Effect::Spawn { .. }
            | Effect::Suspend { .. }
            | Effect::Resume { .. }
            | Effect::NewInstance { .. }
            | Effect::Exit { .. } => None,
        });
        found.expect("a kill")
    };
    let asked = |method, millis| {
        let wait = Duration::from_millis(millis);
        Some(KillRequest { method, wait })
    };
    // The task's own kill wait is 700 ms.
    let by = EndedBy::Deadline;
    assert_eq!(kill_of(None), term_wait_kill(700, by));
    assert_eq!(kill_of(asked(KillMethod::Term, 0)), term_wait_kill(700, by));
    assert_eq!(kill_of(asked(KillMethod::Term, 5)), term_wait_kill(5, by));
    let wait_kill = asked(KillMethod::TermWaitKill, 0);
    assert_eq!(kill_of(wait_kill), term_wait_kill(0, by));
    let kill = kill_of(asked(KillMethod::Kill, 3)).request;
    assert_eq!(Some(kill), asked(KillMethod::Kill, 3));
}

#[test]
fn how_much_time_is_left_tells_states_apart_and_the_time_of_day_does_not() {
    let state = |late, started: bool, waited| {
        let mut rig = Rig::shifted(late).join();
        let mut wanted = run(1, 0, task("a", 1));
        wanted.options.timeout = Some(Duration::from_secs(60));
        rig.run(wanted);
        if started {
            rig.hear(Event::TaskStarted {
                task: key("a"),
                invocation: invocation(1),
            });
        }
        rig.wait(waited);
        rig.worker.fingerprint()
    };
    assert_eq!(state(0, true, 0), state(5000, true, 0));
    assert_ne!(state(0, true, 0), state(0, false, 0));
    assert_ne!(state(0, true, 0), state(0, true, 1000));
}
