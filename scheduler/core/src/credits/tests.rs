//! Each rule of credits by itself; `random` holds random histories against a plain reference.

mod random;

use std::sync::Arc;

use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::{KnownTask, SchedulerId, WorkDemand, WorkerId};

use super::*;

const CPU: Processor = Processor::Cpu;

fn at(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn gpu() -> Processor {
    Processor::Cards(Arc::from("H100"))
}

fn run(number: i64) -> InvocationId {
    InvocationId::new(1000, number)
}

/// So many seconds, instances, idle ones, of four.
fn demand(processor: Processor, amounts: [f64; 3]) -> WorkDemand {
    let [instance_secs, instances, idle] = amounts;
    WorkDemand {
        instance_secs,
        instances,
        idle,
        ..WorkDemand::none(processor, 4.0)
    }
}

fn request(seq: u64, demands: Vec<WorkDemand>) -> WorkRequest {
    WorkRequest {
        worker: WorkerId::new(1, 1),
        scheduler: SchedulerId::new(1, 1),
        seq: WorkRequestSeq(seq),
        demands,
        known: Some(Vec::new()),
        linger: Duration::from_secs(120),
    }
}

fn knows(request: WorkRequest, runs: &[i64]) -> WorkRequest {
    let known = runs.iter().map(|number| KnownTask {
        invocation: run(*number),
        remaining: None,
        deadline: None,
    });
    WorkRequest {
        known: Some(known.collect()),
        ..request
    }
}

fn bufferable(processor: &Processor, estimate: f64) -> Piece<'_> {
    Piece::new(processor, 1.0, estimate, Class::Bufferable, None)
}

fn immediate(processor: &Processor) -> Piece<'_> {
    Piece::new(processor, 1.0, 60.0, Class::Immediate, None)
}

fn within<'a>(processor: &'a Processor, estimate: f64, bound: u64) -> Piece<'a> {
    let bound = Some(Duration::from_secs(bound));
    Piece::new(processor, 1.0, estimate, Class::Bufferable, bound)
}

fn take(credits: &mut Credits, now: Time, request: &WorkRequest) -> WorkReply {
    take_with(credits, now, request, &Policy::default(), &[])
}

fn take_with(
    credits: &mut Credits,
    now: Time,
    request: &WorkRequest,
    policy: &Policy,
    running: &[Sent<'_>],
) -> WorkReply {
    let running = running.iter().copied();
    let taken = credits.on_request(now, policy, Readiness::MayWork, request, running);
    taken.reply
}

/// Sends such tasks as long as there is credit, but no more than a hundred; gives how many.
fn fill(credits: &mut Credits, now: Time, piece: &Piece<'_>) -> usize {
    let mut sent = 0;
    while sent < 100 && credits.eligible(now, piece).is_ok() {
        credits.spend(now, piece);
        sent += 1;
    }
    sent
}

fn found(candidates: u64, late: u64) -> Found {
    Found {
        candidates,
        late,
        apps: Apps::Some,
    }
}

fn verdicts(credits: &Credits) -> Vec<WorkVerdict> {
    let reply = credits.reply().expect("a request was heard");
    reply
        .verdicts
        .into_iter()
        .map(|(_, verdict)| verdict)
        .collect()
}

#[test]
fn a_request_is_exceeded_by_less_than_one_task() {
    let mut credits = Credits::default();
    let two_and_a_half_hours = request(1, vec![demand(CPU, [9000.0, 2.0, 2.0])]);
    take(&mut credits, at(0), &two_and_a_half_hours);
    let piece = bufferable(&CPU, 3600.0);
    let mut left = Vec::new();
    while credits.eligible(at(0), &piece).is_ok() {
        assert_eq!(credits.spend(at(0), &piece), Some(WorkRequestSeq(1)));
        let of_cpu = credits.newest.as_ref().unwrap().of(&CPU).unwrap();
        left.push((of_cpu.amounts.secs, of_cpu.amounts.instances));
    }
    assert_eq!(left, [(5400.0, 1.0), (1800.0, 0.0), (-1800.0, -1.0)]);
    assert_eq!(verdicts(&credits), [WorkVerdict::Granted(3)]);
}

#[test]
fn a_copy_of_a_request_refills_nothing() {
    let mut credits = Credits::default();
    let one = request(1, vec![demand(CPU, [100.0, 2.0, 2.0])]);
    take(&mut credits, at(0), &one);
    let piece = immediate(&CPU);
    assert_eq!(fill(&mut credits, at(0), &piece), 2);
    let before = credits.clone();
    let reply = take(&mut credits, at(5), &one);
    assert_eq!(reply.verdicts, [(CPU, WorkVerdict::Granted(2))]);
    assert_eq!(credits, before);
    assert_eq!(credits.eligible(at(5), &piece), Err(NoCredit::Spent));
    // Not even when the credit is long over, or it asks for more under the same number.
    let more = request(1, vec![demand(CPU, [1e6, 50.0, 50.0])]);
    take(&mut credits, at(200_000), &more);
    assert_eq!(credits.eligible(at(200_000), &piece), Err(NoCredit::Spent));
}

#[test]
fn an_older_request_is_stale_and_changes_nothing() {
    let mut credits = Credits::default();
    take(
        &mut credits,
        at(0),
        &request(7, vec![demand(CPU, [1.0, 1.0, 1.0])]),
    );
    let before = credits.clone();
    let reply = take(
        &mut credits,
        at(0),
        &request(6, vec![demand(CPU, [9e9, 9.0, 9.0])]),
    );
    assert_eq!(reply.verdicts, [(CPU, WorkVerdict::Stale)]);
    assert_eq!(reply.seq, WorkRequestSeq(6));
    assert_eq!(credits, before);
}

#[test]
fn a_newer_request_takes_the_place_of_the_credit() {
    let mut credits = Credits::default();
    take(
        &mut credits,
        at(0),
        &request(1, vec![demand(CPU, [0.0, 4.0, 4.0])]),
    );
    take(
        &mut credits,
        at(0),
        &request(2, vec![demand(CPU, [0.0, 1.0, 1.0])]),
    );
    assert_eq!(fill(&mut credits, at(0), &immediate(&CPU)), 1);
    take(&mut credits, at(0), &request(3, Vec::new()));
    let spent = Err(NoCredit::Spent);
    assert_eq!(credits.eligible(at(0), &immediate(&CPU)), spent);
    assert_eq!(verdicts(&credits), []);
}

#[test]
fn tasks_that_cross_with_the_request_are_charged() {
    let sent = |number| Sent {
        invocation: run(number),
        piece: bufferable(&CPU, 60.0),
        acknowledged: None,
    };
    let mut credits = Credits::default();
    let asks = knows(request(1, vec![demand(CPU, [0.0, 3.0, 3.0])]), &[1]);
    let policy = Policy::default();
    take_with(
        &mut credits,
        at(0),
        &asks,
        &policy,
        &[sent(1), sent(2), sent(3)],
    );
    // Two of three are on their way.
    assert_eq!(fill(&mut credits, at(0), &immediate(&CPU)), 1);
    let asks = knows(request(2, vec![demand(CPU, [0.0, 2.0, 2.0])]), &[1]);
    take_with(
        &mut credits,
        at(0),
        &asks,
        &policy,
        &[sent(1), sent(2), sent(3)],
    );
    assert_eq!(fill(&mut credits, at(0), &immediate(&CPU)), 0);
    credits.end_pass(at(0), |_| found(5, 0));
    assert_eq!(
        verdicts(&credits),
        [WorkVerdict::Deferred],
        "no reason to wait long"
    );
    // Who does not say what it has is taken at its word.
    let asks = WorkRequest {
        known: None,
        ..request(3, vec![demand(CPU, [0.0, 2.0, 2.0])])
    };
    take_with(
        &mut credits,
        at(0),
        &asks,
        &policy,
        &[sent(1), sent(2), sent(3)],
    );
    assert_eq!(fill(&mut credits, at(0), &immediate(&CPU)), 2);
}

#[test]
fn a_task_counts_for_its_own_type_only() {
    let mut credits = Credits::default();
    let both = vec![demand(CPU, [0.0, 2.0, 2.0]), demand(gpu(), [0.0, 1.0, 1.0])];
    take(&mut credits, at(0), &request(1, both));
    assert_eq!(fill(&mut credits, at(0), &immediate(&gpu())), 1);
    assert_eq!(fill(&mut credits, at(0), &immediate(&CPU)), 2);
    let other = Processor::named("A100");
    let spent = Err(NoCredit::Spent);
    assert_eq!(credits.eligible(at(0), &immediate(&other)), spent);
    let granted = [(CPU, 2), (gpu(), 1)].map(|(of, n)| (of, WorkVerdict::Granted(n)));
    assert_eq!(credits.reply().unwrap().verdicts, granted);
}

#[test]
fn tasks_that_may_not_wait_are_sent_for_idle_processors_only() {
    let rows: [([f64; 3], bool, bool); 6] = [
        ([0.0, 0.0, 0.0], false, false),
        ([1.0, 0.0, 0.0], true, false),
        ([0.0, 1.0, 0.0], true, false),
        ([100.0, 4.0, 0.0], true, false),
        ([0.0, 1.0, 1.0], true, true),
        ([0.0, 0.0, 1.0], false, true),
    ];
    for (amounts, may_wait, may_not) in rows {
        let mut credits = Credits::default();
        take(&mut credits, at(0), &request(1, vec![demand(CPU, amounts)]));
        let is = |piece: &Piece<'_>| credits.eligible(at(0), piece).is_ok();
        let pair = (is(&bufferable(&CPU, 1.0)), is(&immediate(&CPU)));
        assert_eq!(pair, (may_wait, may_not), "{amounts:?}");
        let allowance = credits.allowance(at(0), &CPU).expect("it asks");
        assert_eq!((allowance.bufferable, allowance.immediate), pair);
    }
}

#[test]
fn who_never_asked_is_not_held_to_credit() {
    let mut credits = Credits::default();
    assert!(!credits.are_used());
    assert_eq!(credits.allowance(at(0), &CPU), None);
    assert_eq!(fill(&mut credits, at(0), &immediate(&CPU)), 100);
    assert_eq!(credits.spend(at(0), &immediate(&CPU)), None);
    assert_eq!(credits.reply(), None);
    credits.clear();
    credits.end_pass(at(0), |_| found(0, 0));
    assert_eq!(credits, Credits::default());
}

#[test]
fn lingering_begins_with_the_request_and_a_limit_is_still_good() {
    let asks = request(1, vec![demand(CPU, [0.0, 9.0, 9.0])]);
    let piece = immediate(&CPU);
    let mut credits = Credits::default();
    take(&mut credits, at(0), &asks);
    credits.end_pass(at(10), |_| found(0, 0));
    assert_eq!(verdicts(&credits), [WorkVerdict::NoWork]);
    assert_eq!(credits.next_change(), Some(at(120_000)));
    // What comes now starts at once, and is told if the request is repeated.
    assert_eq!(credits.eligible(at(120_000), &piece), Ok(()));
    credits.spend(at(120_000), &piece);
    assert_eq!(verdicts(&credits), [WorkVerdict::Granted(1)]);
    let spent = Err(NoCredit::Spent);
    assert_eq!(credits.eligible(at(120_001), &piece), spent);
    credits.expire(at(120_001));
    assert_eq!(credits.next_change(), None);
    assert_eq!(verdicts(&credits), [WorkVerdict::Granted(1)]);
}

#[test]
fn without_lingering_the_credit_ends_with_the_pass() {
    let asks = WorkRequest {
        linger: Duration::ZERO,
        ..request(1, vec![demand(CPU, [0.0, 9.0, 9.0])])
    };
    let piece = immediate(&CPU);
    let mut credits = Credits::default();
    take(&mut credits, at(0), &asks);
    assert!(credits.is_pending());
    // The pass may come later than the request.
    assert_eq!(credits.eligible(at(700), &piece), Ok(()));
    credits.end_pass(at(700), |_| found(0, 0));
    assert_eq!(credits.eligible(at(700), &piece), Err(NoCredit::Spent));
    assert_eq!(verdicts(&credits), [WorkVerdict::NoWork]);
}

#[test]
fn a_worker_that_wants_to_linger_for_ever_lingers_for_as_long_as_allowed() {
    let asks = WorkRequest {
        linger: Duration::MAX,
        ..request(1, vec![demand(CPU, [0.0, 9.0, 9.0])])
    };
    let policy = Policy {
        max_linger: Duration::from_secs(60),
        ..Policy::default()
    };
    let mut credits = Credits::default();
    take_with(&mut credits, at(0), &asks, &policy, &[]);
    credits.end_pass(at(0), |_| found(0, 0));
    assert_eq!(credits.next_change(), Some(at(60_000)));
}

#[test]
fn what_no_pass_looked_at_is_deferred_in_the_end() {
    let mut credits = Credits::default();
    take(
        &mut credits,
        at(0),
        &request(1, vec![demand(CPU, [0.0, 9.0, 9.0])]),
    );
    let piece = immediate(&CPU);
    assert_eq!(credits.next_change(), Some(at(30_000)));
    credits.expire(at(30_000));
    assert_eq!(verdicts(&credits), [WorkVerdict::Pending]);
    assert_eq!(credits.eligible(at(30_001), &piece), Err(NoCredit::Spent));
    credits.end_pass(at(30_001), |_| found(3, 0));
    assert_eq!(verdicts(&credits), [WorkVerdict::Deferred]);
}

#[test]
fn the_verdict_is_what_the_pass_found() {
    let no_apps = Found {
        apps: Apps::None,
        ..found(0, 0)
    };
    let rows = [
        (found(0, 0), WorkVerdict::NoWork),
        (found(3, 0), WorkVerdict::Limited),
        (found(3, 2), WorkVerdict::Limited),
        (found(3, 3), WorkVerdict::Deadline),
        (no_apps, WorkVerdict::NoApps),
    ];
    for (found, verdict) in rows {
        let mut credits = Credits::default();
        let wants = vec![
            demand(CPU, [1.0, 1.0, 1.0]),
            demand(gpu(), [0.0, 0.0, 0.0]),
            demand(Processor::named("A100"), [9.0, 9.0, 9.0]),
        ];
        let reply = take(&mut credits, at(0), &request(4, wants));
        let pending = [
            (CPU, WorkVerdict::Pending),
            (Processor::named("A100"), WorkVerdict::Pending),
        ];
        assert_eq!(reply.verdicts, pending);
        credits.spend(at(0), &immediate(&Processor::named("A100")));
        credits.end_pass(at(0), |_| found);
        assert!(!credits.is_pending());
        let reply = credits.reply().unwrap();
        assert_eq!(reply.verdicts[0], (CPU, verdict), "{found:?}");
        assert_eq!(reply.verdicts[1].1, WorkVerdict::Granted(1));
        assert_eq!(
            reply.no_apps.len(),
            if found.apps == Apps::None { 3 } else { 0 }
        );
        // It is said once: a later pass says nothing else.
        credits.end_pass(at(1), |_| self::found(0, 0));
        assert_eq!(credits.reply().unwrap(), reply);
    }
}

#[test]
fn who_may_get_nothing_is_deferred_and_loses_its_credit() {
    let mut credits = Credits::default();
    let wants = || vec![demand(CPU, [0.0, 4.0, 4.0])];
    take(&mut credits, at(0), &request(1, wants()));
    let policy = Policy::default();
    let taken = credits.on_request(
        at(1),
        &policy,
        Readiness::MayNot,
        &request(2, wants()),
        Vec::new(),
    );
    assert_eq!(taken.reply.verdicts, [(CPU, WorkVerdict::Deferred)]);
    assert_eq!(taken.reply.request_delay, Duration::from_secs(1));
    let piece = immediate(&CPU);
    assert_eq!(credits.eligible(at(1), &piece), Err(NoCredit::Spent));
    // It was heard, so what comes later and was sent earlier is stale.
    let late = take(&mut credits, at(1), &request(1, wants()));
    assert_eq!(late.verdicts, [(CPU, WorkVerdict::Stale)]);
    take(&mut credits, at(2), &request(3, wants()));
    assert_eq!(credits.eligible(at(2), &piece), Ok(()));
    credits.clear();
    assert_eq!(credits.eligible(at(2), &piece), Err(NoCredit::Spent));
    assert_eq!(verdicts(&credits), [WorkVerdict::Deferred]);
}

#[test]
fn requests_that_come_too_soon_are_put_off() {
    let rows = [
        (5, 6.0),
        (99, 100.0),
        (100, 101.0),
        (200, 202.0),
        (1_000_000, 172_800.0),
    ];
    for (interval, delay) in rows {
        let policy = Policy {
            min_request_interval: Duration::from_secs(interval),
            ..Policy::default()
        };
        let mut credits = Credits::default();
        let mut ask = |seq, millis| {
            let asks = request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]);
            take_with(&mut credits, at(millis), &asks, &policy, &[])
        };
        let delay = Duration::from_secs_f64(delay);
        let first = ask(1, 0);
        let expected = (vec![(CPU, WorkVerdict::Pending)], delay);
        assert_eq!((first.verdicts, first.request_delay), expected);
        let second = ask(2, interval * 1000 - 1);
        let expected = (vec![(CPU, WorkVerdict::Deferred)], delay);
        assert_eq!((second.verdicts, second.request_delay), expected);
        // It counts from the last one, whatever became of it.
        let third = ask(3, interval * 1000);
        assert_eq!(third.verdicts, [(CPU, WorkVerdict::Deferred)]);
        let fourth = ask(4, interval * 2000);
        assert_eq!(fourth.verdicts, [(CPU, WorkVerdict::Pending)]);
    }
    let mut credits = Credits::default();
    for seq in 1..4 {
        let reply = take(
            &mut credits,
            at(0),
            &request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]),
        );
        assert_eq!(reply.request_delay, Duration::ZERO, "as often as it likes");
    }
}

#[test]
fn requests_are_bounded() {
    let huge = WorkDemand {
        there: 2.0,
        ..demand(CPU, [1e300, 0.0, 0.0])
    };
    let cards = WorkDemand {
        there: 3.0,
        ..demand(gpu(), [0.0, 0.0, 0.0])
    };
    let mut credits = Credits::default();
    take(
        &mut credits,
        at(0),
        &request(1, vec![huge.clone(), cards.clone()]),
    );
    // 28 days.
    let long = bufferable(&CPU, 86_400.0);
    assert_eq!(fill(&mut credits, at(0), &long), 28);
    let policy = Policy {
        card_weight: 2.0,
        ..Policy::default()
    };
    let asks = request(2, vec![huge, cards]);
    take_with(&mut credits, at(0), &asks, &policy, &[]);
    let nothing = Piece::new(&CPU, 0.0, 1.0, Class::Bufferable, None);
    assert_eq!(fill(&mut credits, at(0), &nothing), 10 * (2 + 2 * 3));
}

#[test]
fn numbers_that_are_none_do_no_harm() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
        let wants = WorkDemand {
            processor: CPU,
            there: bad,
            instance_secs: bad,
            instances: 2.0,
            idle: bad,
            estimated_delay: bad,
        };
        let mut credits = Credits::default();
        take(&mut credits, at(0), &request(1, vec![wants.clone(), wants]));
        // As long as nobody can tell.
        let piece = Piece::new(&CPU, 1.0, bad, Class::Bufferable, None);
        assert_eq!(piece.estimate(), DEFAULT_ESTIMATE);
        assert_eq!(fill(&mut credits, at(0), &piece), 2, "{bad}");
        let piece = Piece::new(&CPU, bad, f64::MAX, Class::Bufferable, None);
        credits.spend(at(0), &piece);
        let allowance = credits.allowance(at(0), &CPU).expect("it asks");
        assert!(allowance.estimated_delay.is_finite());
    }
}

#[test]
fn a_task_must_make_its_deadline_where_others_wait() {
    // What there is of delay, the estimate, the bound; whether it may go.
    let rows = [
        (0.0, 100.0, 50, true),
        (10.0, 40.0, 50, true),
        (10.0, 40.1, 50, false),
        (50.0, 0.1, 50, false),
    ];
    for (delay, estimate, bound, may) in rows {
        let wants = WorkDemand {
            estimated_delay: delay,
            ..demand(CPU, [1000.0, 4.0, 4.0])
        };
        let asks = WorkRequest {
            known: None,
            ..request(1, vec![wants])
        };
        let mut credits = Credits::default();
        take(&mut credits, at(0), &asks);
        let piece = within(&CPU, estimate, bound);
        let expected = if may { Ok(()) } else { Err(NoCredit::Late) };
        assert_eq!(
            credits.eligible(at(0), &piece),
            expected,
            "{delay} {estimate}"
        );
        // Who has none is never late.
        assert_eq!(credits.eligible(at(0), &bufferable(&CPU, estimate)), Ok(()));
    }
}

#[test]
fn what_is_sent_delays_what_follows() {
    let mut credits = Credits::default();
    let asks = WorkRequest {
        known: None,
        ..request(1, vec![demand(CPU, [1000.0, 4.0, 4.0])])
    };
    take(&mut credits, at(0), &asks);
    // A hundred seconds on four CPUs.
    credits.spend(at(0), &bufferable(&CPU, 100.0));
    let allowance = credits.allowance(at(0), &CPU).expect("it asks");
    assert_eq!(allowance.estimated_delay, 25.0);
    assert_eq!(credits.eligible(at(0), &within(&CPU, 5.0, 30)), Ok(()));
    let late = Err(NoCredit::Late);
    assert_eq!(credits.eligible(at(0), &within(&CPU, 5.1, 30)), late);
}

/// What a task still takes, and until when it must be over.
type Told = (f64, Option<f64>);

/// On one CPU, with these tasks.
fn with_workload(tasks: &[Told]) -> Credits {
    let known = tasks.iter().zip(1..).map(|(task, number)| KnownTask {
        invocation: run(number),
        remaining: Some(task.0),
        deadline: task.1,
    });
    let wants = WorkDemand {
        there: 1.0,
        ..demand(CPU, [1000.0, 1.0, 1.0])
    };
    let asks = WorkRequest {
        known: Some(known.collect()),
        ..request(1, vec![wants])
    };
    let running: Vec<Sent<'_>> = (1..=tasks.len() as i64)
        .map(|number| Sent {
            invocation: run(number),
            piece: bufferable(&CPU, 1.0),
            acknowledged: None,
        })
        .collect();
    let mut credits = Credits::default();
    take_with(&mut credits, at(0), &asks, &Policy::default(), &running);
    credits
}

#[test]
fn a_task_that_makes_another_one_late_stays_away() {
    let rows: [(&[Told], Piece<'_>, bool); 7] = [
        // Alone: in time, and not.
        (&[], within(&CPU, 10.0, 10), true),
        (&[], within(&CPU, 10.0, 9), false),
        // It would come before the other one, which has time, or has not.
        (&[(10.0, Some(30.0))], within(&CPU, 10.0, 20), true),
        (&[(10.0, Some(15.0))], within(&CPU, 10.0, 12), false),
        // One that is late already may not come later, but it may stay as it is.
        (&[(10.0, Some(5.0))], within(&CPU, 1.0, 4), false),
        (&[(10.0, Some(5.0))], within(&CPU, 1.0, 20), true),
        // Who has no deadline yields.
        (&[(100.0, None)], within(&CPU, 10.0, 10), true),
    ];
    for (tasks, piece, may) in rows {
        let mut credits = with_workload(tasks);
        let expected = if may { Ok(()) } else { Err(NoCredit::Late) };
        assert_eq!(
            credits.keeps_deadlines(at(0), &piece),
            expected,
            "{tasks:?}"
        );
    }
    // A task without a deadline comes last, and cards are not CPUs.
    let mut credits = with_workload(&[(10.0, Some(10.0))]);
    let gpu = gpu();
    for piece in [bufferable(&CPU, 1e6), within(&gpu, 100.0, 1)] {
        assert_eq!(credits.keeps_deadlines(at(0), &piece), Ok(()));
    }
}

#[test]
fn what_was_sent_meanwhile_counts_among_the_tasks() {
    let mut credits = with_workload(&[]);
    let piece = within(&CPU, 10.0, 10);
    assert_eq!(credits.keeps_deadlines(at(0), &piece), Ok(()));
    credits.spend(at(0), &piece);
    assert_eq!(credits.keeps_deadlines(at(0), &piece), Err(NoCredit::Late));
    // One that takes as long and is as urgent, or more so, is late for the same reason; an easier one is looked at.
    let late = Err(NoCredit::Late);
    assert_eq!(credits.keeps_deadlines(at(0), &within(&CPU, 11.0, 9)), late);
    assert_eq!(
        credits.keeps_deadlines(at(0), &within(&CPU, 10.0, 20)),
        Ok(())
    );
}

#[test]
fn a_worker_that_does_not_tell_what_its_tasks_take_is_asked_nothing_of() {
    let asks = knows(request(1, vec![demand(CPU, [1000.0, 1.0, 1.0])]), &[1]);
    let mut credits = Credits::default();
    take(&mut credits, at(0), &asks);
    let hopeless = within(&CPU, 100.0, 1);
    assert_eq!(credits.keeps_deadlines(at(0), &hopeless), Ok(()));
}

#[test]
fn a_run_that_a_worker_must_list_and_does_not_is_told() {
    let sent = |number, acknowledged| Sent {
        invocation: run(number),
        piece: bufferable(&CPU, 60.0),
        acknowledged,
    };
    let mut credits = Credits::default();
    let mut ask = |seq, now, known: &[i64], running: &[Sent<'_>]| {
        let asks = knows(request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]), known);
        let running = running.iter().copied();
        let policy = Policy::default();
        let taken = credits.on_request(now, &policy, Readiness::MayWork, &asks, running);
        (taken.missing, credits.violations())
    };
    // On its way, or only just there: the request was written before.
    let young = [sent(1, None), sent(2, Some(at(1000)))];
    assert_eq!(ask(1, at(2000), &[], &young), (vec![], 0));
    assert_eq!(ask(2, at(601_000), &[1], &young), (vec![], 0));
    // The one was listed before, the other has been there for longer than any message lives.
    assert_eq!(ask(3, at(601_001), &[], &young), (vec![run(1), run(2)], 2));
    // What has ended is in neither list.
    assert_eq!(ask(4, at(601_001), &[], &[]), (vec![], 2));
    assert_eq!(ask(5, at(601_001), &[7], &[sent(3, None)]), (vec![], 2));
}

#[test]
fn a_fingerprint_is_of_what_is_left_and_for_how_long() {
    use brasserie_common::fingerprint::{Shape, fingerprint_of};

    let state = |begin: u64, spends: usize, later: u64| {
        let mut credits = Credits::default();
        let asks = request(1, vec![demand(CPU, [0.0, 4.0, 4.0])]);
        take(&mut credits, at(begin), &asks);
        credits.end_pass(at(begin), |_| found(1, 0));
        for _ in 0..spends {
            credits.spend(at(begin), &immediate(&CPU));
        }
        fingerprint_of(|canon, hasher| {
            credits.shape(&mut Shape::new(at(begin + later), canon, hasher));
        })
    };
    assert_eq!(state(0, 1, 5), state(9000, 1, 5));
    assert_ne!(state(0, 1, 5), state(0, 2, 5));
    assert_ne!(state(0, 1, 5), state(0, 1, 6));
}
