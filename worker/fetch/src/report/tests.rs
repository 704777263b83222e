//! Tests of each rule for due reports, and of the time of the next one.

use proptest::prelude::*;

use super::*;

const A: AssociationIndex = AssociationIndex(0);
const B: AssociationIndex = AssociationIndex(1);
const DAY: u64 = 86_400;

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// A completion may wait until exactly the limit.
fn just_after(time: Time) -> Time {
    time + Duration::from_nanos(1)
}

fn end(association: AssociationIndex, task: u64, ended: u64) -> Unreported {
    Unreported {
        association,
        task: TaskNumber(task),
        told: ReportContent::End,
        policy: None,
        ended: at(ended),
        deadline: None,
    }
}

fn reporting<'a>(of: &'a [Circumstances], unreported: &'a [Unreported]) -> Reporting<'a> {
    Reporting {
        profile: &Profile::VOLUNTEER,
        circumstances: of,
        unreported,
    }
}

fn fires(reporting: &Reporting<'_>, now: Time) -> Option<(AssociationIndex, ReportReason)> {
    let overdue = reporting.overdue(now);
    overdue.map(|overdue| (overdue.association, overdue.reason))
}

#[test]
fn ends_wait_for_an_hour_at_most() {
    let of = [Circumstances::default()];
    let ends = [end(A, 1, 1000), end(A, 2, 500)];
    let reporting = reporting(&of, &ends);
    assert_eq!(reporting.overdue(at(4100)), None);
    assert_eq!(reporting.next_due(at(600)), Some(just_after(at(4100))));
    let overdue = Overdue {
        association: A,
        reason: ReportReason::Delay,
        task: TaskNumber(2),
    };
    assert_eq!(reporting.overdue(just_after(at(4100))), Some(overdue));
}

#[test]
fn sixty_three_wait_and_the_next_takes_them_along() {
    let of = [Circumstances::default(); 2];
    let mut ends: Vec<Unreported> = (0..63).map(|task| end(A, task, 100)).collect();
    ends.extend((100..163).map(|task| end(B, task, 100)));
    assert_eq!(reporting(&of, &ends).overdue(at(100)), None);
    ends.push(end(B, 163, 100));
    let overdue = reporting(&of, &ends).overdue(at(100)).unwrap();
    assert_eq!(
        (overdue.association, overdue.reason),
        (B, ReportReason::Count)
    );
    assert_eq!(overdue.task, TaskNumber(163));
}

/// A fixed cushion of a day would make each completion with a deadline of a day or less be reported alone.
#[test]
fn a_completion_waits_for_half_of_the_time_to_its_deadline() {
    const HOUR: u64 = 3600;
    let of = [Circumstances::default()];
    let patient = Profile {
        work_buffer_min: 60.0,
        ..Profile::VOLUNTEER
    };
    let stocked = Profile {
        report_delay: 20.0 * DAY as f64,
        work_buffer_min: 3.0 * DAY as f64,
        ..Profile::VOLUNTEER
    };
    // Each row: seconds from the completion to its deadline, and to its report.
    for (profile, left, waits, reason) in [
        (&patient, 12 * HOUR, HOUR, ReportReason::Delay),
        (&patient, 2 * HOUR + 1, HOUR, ReportReason::Delay),
        (&patient, 2 * HOUR - 60, HOUR - 60, ReportReason::Deadline),
        (&patient, HOUR, 0, ReportReason::Deadline),
        // The low water mark is always kept.
        (&stocked, 10 * DAY, 7 * DAY, ReportReason::Deadline),
    ] {
        let ends = [Unreported {
            deadline: Some(at(DAY + left)),
            ..end(A, 1, DAY)
        }];
        let rule = Reporting {
            profile,
            ..reporting(&of, &ends)
        };
        let due = just_after(at(DAY + waits));
        assert_eq!(rule.next_due(at(DAY)), Some(due), "{left}");
        assert_eq!(fires(&rule, due), Some((A, reason)), "{left}");
        assert_eq!(rule.overdue(at(DAY + waits)), None, "{left}");
    }
    // A completion does not wait after its deadline, not even at time zero.
    let ends = [Unreported {
        deadline: Some(Time::ZERO),
        ..end(A, 1, 0)
    }];
    assert_eq!(
        fires(&reporting(&of, &ends), Time::ZERO),
        Some((A, ReportReason::Deadline))
    );
}

#[test]
fn the_first_rule_that_applies_is_told() {
    let ends = [Unreported {
        deadline: Some(at(5000)),
        ..end(A, 1, 1000)
    }];
    let full = Profile {
        report_at_once: 1,
        ..Profile::VOLUNTEER
    };
    let now = at(4700);
    let mut of = [Circumstances {
        wants_no_more_work: true,
        ..Circumstances::default()
    }];
    let mut told = Vec::new();
    let mut note = |of: &[Circumstances], profile, ends: &[Unreported]| {
        let reporting = Reporting {
            profile,
            ..reporting(of, ends)
        };
        told.push(fires(&reporting, now).map(|(_, reason)| reason));
    };
    note(&of, &full, &ends);
    of[0].wants_no_more_work = false;
    note(&of, &full, &ends);
    let no_deadline = [end(A, 1, 1000)];
    note(&of, &full, &no_deadline);
    let recent = [end(A, 1, 2000)];
    note(&of, &full, &recent);
    note(&of, &Profile::VOLUNTEER, &recent);
    assert_eq!(
        told,
        [
            Some(ReportReason::NoMoreWork),
            Some(ReportReason::Deadline),
            Some(ReportReason::Delay),
            Some(ReportReason::Count),
            None,
        ]
    );
}

#[test]
fn what_leaves_at_once_takes_along_what_waits() {
    let (lazy, immediate) = (Some(ReportPolicy::Lazy), Some(ReportPolicy::Immediate));
    for (profile, policy, told, leaves) in [
        (Profile::VOLUNTEER, None, ReportContent::End, false),
        (Profile::VOLUNTEER, immediate, ReportContent::End, true),
        (Profile::VOLUNTEER, lazy, ReportContent::NotRunning, true),
        (Profile::CLUSTER, None, ReportContent::End, true),
        (Profile::CLUSTER, lazy, ReportContent::End, false),
        (Profile::CLUSTER, lazy, ReportContent::NotRunning, true),
    ] {
        let end = Unreported {
            policy,
            told,
            ..end(A, 1, 0)
        };
        assert_eq!(end.leaves_at_once(&profile), leaves, "{end:?}");
    }
    let of = [Circumstances::default(); 2];
    let at_once = |association, task| Unreported {
        policy: immediate,
        ..end(association, task, 0)
    };
    let ends = [at_once(A, 1), end(B, 2, 0)];
    assert_eq!(reporting(&of, &ends).overdue(at(1)), None);
    let ends = [at_once(A, 1), end(B, 2, 0), at_once(B, 3)];
    assert_eq!(
        fires(&reporting(&of, &ends), at(1)),
        Some((B, ReportReason::Immediate))
    );
}

#[test]
fn who_may_not_be_talked_to_is_skipped() {
    let due = [end(A, 1, 0), end(B, 2, 0)];
    let now = at(4000);
    let free = Circumstances::default();
    let open = |of: Circumstances| {
        let of = [of, free];
        fires(&reporting(&of, &due), now).map(|(association, _)| association)
    };
    assert_eq!(open(free), Some(A));
    let until = |min_rpc_time| Circumstances {
        min_rpc_time,
        ..free
    };
    assert_eq!(open(until(now)), Some(A));
    assert_eq!(open(until(just_after(now))), Some(B));
    let suspended = Circumstances {
        is_suspended: true,
        ..free
    };
    assert_eq!(open(suspended), Some(B));
    // Reports are due when the scheduler may be contacted again.
    let of = [until(at(9000)), suspended];
    assert_eq!(reporting(&of, &due).next_due(now), Some(at(9000)));
    assert_eq!(reporting(&[suspended; 2], &due).next_due(now), None);
    // Reports to an unknown scheduler are ignored.
    assert_eq!(reporting(&[], &due).overdue(now), None);
    assert_eq!(reporting(&of, &[]).next_due(now), None);
}

/// Applies the rules one by one, in their order, as a second implementation.
fn plainly(reporting: &Reporting<'_>, now: Time) -> Option<(AssociationIndex, ReportReason)> {
    let second = |time: Time| time.since(Time::ZERO).as_secs_f64();
    let mut ready = [0; 2];
    for end in reporting.unreported {
        let of = reporting.circumstances[end.association.0];
        let held = |end: &&Unreported| !end.leaves_at_once(reporting.profile);
        let mut its = reporting.unreported.iter();
        let closed = now < of.min_rpc_time
            || of.is_suspended
            || !its.any(|other| other.association == end.association && held(&other));
        if closed {
            continue;
        }
        let left = |at: Time| (second(at) - second(end.ended)).max(0.0);
        let cushion = |at| (left(at) / 2.0).clamp(3600.0, 86_400.0).max(8640.0);
        let reason = if of.wants_no_more_work {
            ReportReason::NoMoreWork
        } else if end.leaves_at_once(reporting.profile) {
            ReportReason::Immediate
        } else if end
            .deadline
            .is_some_and(|at| second(now) > second(at) - cushion(at))
        {
            ReportReason::Deadline
        } else if second(now) > second(end.ended) + 3600.0 {
            ReportReason::Delay
        } else {
            ready[end.association.0] += 1;
            if ready[end.association.0] < 64 {
                continue;
            }
            ReportReason::Count
        };
        return Some((end.association, reason));
    }
    None
}

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let rare = || proptest::bool::weighted(0.1);
    (0_u64..100_000, rare(), rare()).prop_map(|(min, is_suspended, no_more)| Circumstances {
        min_rpc_time: at(min / 2),
        is_suspended,
        wants_no_more_work: no_more,
    })
}

fn unreported() -> impl Strategy<Value = Unreported> {
    let deadline = proptest::option::weighted(0.3, 0_u64..400_000);
    let at_once = proptest::bool::weighted(0.05);
    (0_usize..2, 0_u64..100_000, deadline, at_once).prop_map(|(of, ended, deadline, at_once)| {
        Unreported {
            policy: at_once.then_some(ReportPolicy::Immediate),
            deadline: deadline.map(at),
            ..end(AssociationIndex(of), ended, ended)
        }
    })
}

integration_tests_properties::properties! {
    256;

    #[test]
    fn it_does_what_the_rules_say_and_knows_when_it_will(
        of in [circumstances(), circumstances()],
        ends in proptest::collection::vec(unreported(), 0..90),
        now in 0_u64..100_000,
        looks in proptest::collection::vec(0.0_f64..1.0, 8),
    ) {
        let reporting = reporting(&of, &ends);
        let now = at(now);
        prop_assert_eq!(fires(&reporting, now), plainly(&reporting, now));
        match reporting.next_due(now) {
            None => prop_assert_eq!(fires(&reporting, at(1 << 40)), None),
            Some(due) => {
                prop_assert!(fires(&reporting, due).is_some());
                for look in looks {
                    let before = now + due.since(now).mul_f64(look);
                    prop_assert!(before >= due || fires(&reporting, before).is_none());
                }
                if due > now {
                    prop_assert_eq!(fires(&reporting, due - Duration::from_nanos(1)), None);
                }
            }
        }
    }
}
