//! Tests of reported statuses and of the transitions between statuses.

use super::*;
use crate::backoff::{AfterLast, BackoffPolicy};
use proptest::prelude::*;

fn step(seconds: u32, no_more_backoffs: bool) -> BackoffDuration {
    BackoffDuration {
        no_more_backoffs,
        seconds,
        times: u32::from(seconds != 0),
    }
}

fn stored(reported: &ReportedStatus, next: BackoffDuration) -> StoredStatus {
    StoredStatus::after(None, reported, next, WallTime(0))
}

#[test]
fn labels_have_the_documented_sums() {
    for (label, sum) in [
        ("done", 4),
        ("incomplete", 8),
        ("incomplete_backoff", 584),
        ("backoff", 96),
        ("error_backoff", 96),
        ("failed", 16),
    ] {
        assert_eq!(
            ReportedStatus::try_parse(label, StatusSource::Task).map(|s| s.bits.0),
            Ok(sum),
            "{label}"
        );
    }
    assert_eq!(ReportedStatus::was_not_running().bits.0, 1056);
    let shard = Shard::try_from("s").unwrap();
    assert_eq!(
        ReportedStatus::worker_lost(&shard, "x", step(5, false))
            .bits
            .0,
        3168
    );
}

#[test]
fn json_forms_are_read() {
    let s = ReportedStatus::try_parse(
        r#"{"result":"done","data":{"a":1,"__bistro_saved_backoff":9}}"#,
        StatusSource::Task,
    )
    .unwrap();
    assert_eq!(
        s.data().and_then(|d| d.get("a")).and_then(Value::as_u64),
        Some(1)
    );
    assert_eq!(s.data().map(|d| d.len()), Some(1));
    let s = ReportedStatus::try_parse(r#"{"result_bits":"96"}"#, StatusSource::Task).unwrap();
    assert_eq!(s.bits.0, 96);
}

#[test]
fn each_unreadable_status_says_why() {
    use StatusError as E;
    type Expected = fn(&E) -> bool;
    let cases: &[(&str, Expected)] = &[
        ("Done", |e| matches!(e, E::NeitherLabelNorJson(_))),
        ("3", |e| matches!(e, E::NotAnObject)),
        (r#"{"result":"done","data":3}"#, |e| {
            matches!(e, E::DataNotAnObject)
        }),
        (r#"{"result":3}"#, |e| matches!(e, E::ResultNotAString)),
        (r#"{"result":"won"}"#, |e| matches!(e, E::UnknownLabel(_))),
        (r#"{}"#, |e| matches!(e, E::NoResult)),
        (r#"{"result_bits":4.5}"#, |e| {
            matches!(e, E::BitsNotAnInteger(_))
        }),
        (r#"{"result_bits":12}"#, |e| {
            matches!(e, E::NotOneResult(12))
        }),
        (r#"{"result_bits":2}"#, |e| matches!(e, E::NotOneResult(2))),
        (r#"{"result_bits":1056}"#, |e| {
            matches!(e, E::ForbiddenBits(1056))
        }),
        (r#"{"result_bits":132}"#, |e| {
            matches!(e, E::ForbiddenBits(132))
        }),
        (r#"{"result_bits":2080}"#, |e| {
            matches!(e, E::ForbiddenBits(2080))
        }),
    ];
    for (text, expected) in cases {
        let error = ReportedStatus::try_parse(text, StatusSource::Task).unwrap_err();
        assert!(expected(&error), "{text}: {error}");
        let lenient = ReportedStatus::parse(text, StatusSource::Task);
        assert_eq!(lenient.bits.0, 96, "{text}");
        assert!(
            lenient
                .exception()
                .is_some_and(|e| e.contains(&error.to_string())),
            "{text}"
        );
    }
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(MAX_STATUS_BYTES));
    assert!(matches!(
        ReportedStatus::try_parse(&long, StatusSource::Task),
        Err(E::TooLong(_))
    ));
}

#[test]
fn a_worker_may_report_was_not_running() {
    let wire = ReportedStatus::was_not_running().to_wire();
    assert_eq!(
        ReportedStatus::try_parse(&wire, StatusSource::Worker),
        Ok(ReportedStatus::was_not_running())
    );
}

#[test]
fn an_error_without_retries_left_is_failed() {
    let s = stored(&ReportedStatus::error_backoff("x"), step(60, true));
    assert!(s.is_failed() && !s.bits.has(StatusBits::ERROR));
    assert!(s.configured_backoff().no_more_backoffs);
}

#[test]
fn a_claimed_incomplete_with_advancing_backoff_cannot_hurt() {
    let s = ReportedStatus::try_parse(r#"{"result_bits":72}"#, StatusSource::Task).unwrap();
    assert!(stored(&s, step(60, true)).is_failed());
}

#[test]
fn incomplete_backoff_keeps_the_previous_wait() {
    let old = stored(&ReportedStatus::error_backoff("x"), step(30, false));
    let s = StoredStatus::after(
        Some(&old),
        &ReportedStatus::incomplete_backoff("killed"),
        step(60, false),
        WallTime(0),
    );
    assert_eq!(s.backoff_seconds, 30);
    assert_eq!(
        stored(
            &ReportedStatus::incomplete_backoff("killed"),
            step(15, false)
        )
        .backoff_seconds,
        15
    );
}

#[test]
fn a_lost_task_waits_the_safety_time_but_advances_by_its_configured_step() {
    let shard = Shard::try_from("s").unwrap();
    let lost = ReportedStatus::worker_lost(&shard, "gone", step(5, false));
    let s = stored(&lost, step(5, false)).waiting_at_least(66);
    assert_eq!(
        (
            s.backoff_seconds,
            s.safety_seconds,
            s.configured_backoff().seconds
        ),
        (66, 66, 5)
    );
    let json = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<StoredStatus>(&json).unwrap(), s);
}

#[test]
fn was_not_running_keeps_the_step_and_the_data_of_the_status_before_but_not_its_error() {
    let text = r#"{"result": "error_backoff", "data": {"exception": "x", "kept": 1}}"#;
    let old = ReportedStatus::parse(text, StatusSource::Worker);
    let old = stored(&old, step(30, false));
    assert_eq!(old.exception(), Some("x"));
    let not_run = |old: &StoredStatus| {
        StoredStatus::after(
            Some(old),
            &ReportedStatus::was_not_running(),
            step(60, false),
            WallTime(0),
        )
    };
    let once = not_run(&old);
    assert_eq!((once.backoff_seconds, once.uses_backoff()), (0, false));
    assert_eq!(once.configured_backoff(), step(30, false));
    // The text belongs to another run.
    assert_eq!(once.exception(), None);
    assert!(
        once.data
            .as_ref()
            .is_some_and(|data| data.contains_key("kept"))
    );
    let again = not_run(&once);
    assert_eq!(again.configured_backoff(), step(30, false));
    assert!(again.is_overwriteable());
    // There is no earlier step to save.
    let fresh = not_run(&stored(&ReportedStatus::incomplete(), step(15, false)));
    assert_eq!(
        (fresh.configured_backoff(), fresh.data),
        (step(0, false), None)
    );
}

/// A wait that the backoff lists three times serves three errors; kills and losses between them change nothing.
#[test]
fn errors_with_equal_waits_are_counted() {
    let policy = BackoffPolicy::new(&[10, 10, 10], AfterLast::Fail).unwrap();
    let next = |old: Option<&StoredStatus>| {
        policy.next(
            old.map(StoredStatus::configured_backoff)
                .unwrap_or_default(),
        )
    };
    let end = |old: Option<&StoredStatus>, reported: &ReportedStatus| {
        StoredStatus::after(old, reported, next(old), WallTime(0))
    };
    let error = ReportedStatus::error_backoff("x");
    // A kill that is not the task's fault uses up no wait.
    let killed = end(None, &ReportedStatus::incomplete_backoff("killed"));
    assert_eq!(
        (killed.backoff_seconds, killed.configured_backoff().times),
        (10, 0)
    );
    let first = end(Some(&killed), &error);
    assert_eq!(first.configured_backoff(), step(10, false));
    assert_eq!(first, end(None, &error), "one error is the usual case");
    let killed = end(Some(&first), &ReportedStatus::incomplete_backoff("killed"));
    assert_eq!(killed.configured_backoff(), step(10, false));
    // A lost run counts as an error; its own completion replaces it.
    let shard = Shard::try_from("s").unwrap();
    let lost = end(
        Some(&first),
        &ReportedStatus::worker_lost(&shard, "gone", next(Some(&first))),
    );
    let lost = lost.waiting_at_least(66);
    let twice = BackoffDuration {
        times: 2,
        ..step(10, false)
    };
    assert_eq!(lost.configured_backoff(), twice);
    let second = StoredStatus::after(Some(&lost), &error, next(Some(&first)), WallTime(0));
    assert_eq!(second.configured_backoff(), twice);
    let not_run = end(Some(&second), &ReportedStatus::was_not_running());
    assert_eq!(not_run.configured_backoff(), twice);
    let json = serde_json::to_string(&second).unwrap();
    let second: StoredStatus = serde_json::from_str(&json).unwrap();
    let third = end(Some(&second), &error);
    assert_eq!(
        (third.is_failed(), third.configured_backoff().times),
        (false, 3)
    );
    assert!(end(Some(&third), &error).is_failed());
    // A completion without an error resets the count, and so does `forgive`.
    assert_eq!(
        end(Some(&third), &ReportedStatus::incomplete()).configured_backoff(),
        step(0, false)
    );
    assert_eq!(
        third.forgiven().unwrap().configured_backoff(),
        step(0, false)
    );
    // A task cannot set the count itself.
    let text = r#"{"result": "error_backoff", "data": {"__brasserie_backoff_times": 9}}"#;
    let claimed = end(None, &ReportedStatus::parse(text, StatusSource::Task));
    assert_eq!(claimed.configured_backoff(), step(10, false));
}

#[test]
fn what_is_forgiven_begins_anew_and_stays_safe() {
    let failed = stored(&ReportedStatus::failed(), step(15, false));
    let forgiven = failed.forgiven().unwrap();
    assert_eq!(
        (forgiven.bits, forgiven.forgiven()),
        (StatusBits::ERROR, None)
    );
    // The retries were used up.
    let failed = stored(&ReportedStatus::error_backoff("x"), step(60, true));
    let forgiven = failed.forgiven().unwrap();
    assert_eq!(forgiven.configured_backoff(), step(0, false));
    assert_eq!(
        (forgiven.backoff_seconds, forgiven.exception()),
        (0, Some("x"))
    );
    // The task was lost: the safety wait stays, whatever the step was.
    let shard = Shard::try_from("s").unwrap();
    for (seconds, no_more) in [(5, false), (500, false), (60, true)] {
        let next = step(seconds, no_more);
        let lost = ReportedStatus::worker_lost(&shard, "gone", next);
        let lost = stored(&lost, next).waiting_at_least(66);
        let forgiven = lost.forgiven().unwrap();
        assert!(forgiven.is_overwriteable() && !forgiven.is_failed());
        assert_eq!(
            (forgiven.backoff_seconds, forgiven.safety_seconds),
            (66, 66)
        );
        assert_eq!(forgiven.configured_backoff(), step(0, false));
        assert_eq!((forgiven.time, forgiven.forgiven()), (lost.time, None));
    }
    // Another run set a safety wait below the step.
    let floored = stored(&ReportedStatus::error_backoff("x"), step(100, false));
    let forgiven = floored.waiting_at_least(30).forgiven().unwrap();
    assert_eq!(
        (forgiven.backoff_seconds, forgiven.safety_seconds),
        (30, 30)
    );
    assert_eq!(forgiven.configured_backoff(), step(0, false));
    for whole in [ReportedStatus::done(), ReportedStatus::incomplete()] {
        assert_eq!(stored(&whole, step(15, false)).forgiven(), None);
    }
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn parsing_never_panics_and_valid_bits_survive_the_wire(text in ".{0,80}", bits in 0u16..4096) {
        let _ = ReportedStatus::parse(&text, StatusSource::Task);
        let wire = format!("{{\"result_bits\":{bits}}}");
        if let Ok(s) = ReportedStatus::try_parse(&wire, StatusSource::Worker) {
            prop_assert_eq!(s.bits().0, bits);
            prop_assert_eq!(ReportedStatus::try_parse(&s.to_wire(), StatusSource::Worker), Ok(s));
        }
    }
}
