//! Tests of each rule of credits. `random` checks random histories against a plain reference, and `view` checks the texts for people.

mod coming_back;
mod random;
mod turned_down;
mod view;

use std::sync::Arc;

use brasserie_common::work::{DEFAULT_ESTIMATE, MAX_KNOWN_TASKS};
use brasserie_common::{KnownTask, SchedulerId, WorkDemand, WorkerId};
use brasserie_scheduler_engine::{Allowance, Due, Timeliness};

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

/// Returns a demand for these seconds, instances and idle instances, of a worker with four.
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
        low_water: 0.0,
        cards: Default::default(),
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

fn bufferable(processor: &Processor, estimate: f64) -> TaskWork<'_> {
    TaskWork::new(processor, 1.0, estimate, TaskClass::Bufferable, None)
}

fn immediate(processor: &Processor) -> TaskWork<'_> {
    TaskWork::new(processor, 1.0, 60.0, TaskClass::Immediate, None)
}

fn within<'a>(processor: &'a Processor, estimate: f64, bound: u64) -> TaskWork<'a> {
    let bound = Some(Duration::from_secs(bound));
    TaskWork::new(processor, 1.0, estimate, TaskClass::Bufferable, bound)
}

fn take(credits: &mut Credits, now: Time, request: &WorkRequest) -> WorkReply {
    take_with(credits, now, request, &patient(), &[])
}

fn take_with(
    credits: &mut Credits,
    now: Time,
    request: &WorkRequest,
    policy: &RequestPolicy,
    running: &[Sent<'_>],
) -> WorkReply {
    hear(credits, now, policy, Readiness::MayWork, request, running).0
}

/// Returns a policy without limits on the rate of requests.
fn patient() -> RequestPolicy {
    RequestPolicy {
        min_request_interval: Duration::ZERO,
        max_requests_per_second: 0,
        ..RequestPolicy::default()
    }
}

/// Handles a request as a scheduler does. Returns the answer and the missing runs.
fn hear(
    credits: &mut Credits,
    now: Time,
    policy: &RequestPolicy,
    readiness: Readiness,
    request: &WorkRequest,
    running: &[Sent<'_>],
) -> (WorkReply, Vec<InvocationId>) {
    let heard = credits.hear(now, (policy, &mut Turns::default()), readiness, request);
    let known = KnownRuns::of(request);
    let missing = match heard {
        Heard::ToLookAt => {
            let running = running.iter().copied();
            credits.look_at(now, policy, (request, &known), running)
        }
        _ => Vec::new(),
    };
    let reply = match heard {
        Heard::Stale => WorkReply::same_for_all(request, WorkVerdict::Stale, Duration::ZERO),
        _ => credits.reply().expect("a request was heard"),
    };
    (reply, missing)
}

/// Why no such task may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NoCredit {
    Spent,
    Late,
}

/// Decides by the allowance, as placement does.
fn eligible(credits: &Credits, now: Time, task_work: &TaskWork<'_>) -> Result<(), NoCredit> {
    let Some(allowance) = credits.allowance(now, task_work.processor()) else {
        return Ok(());
    };
    let may = match task_work.class() {
        TaskClass::Bufferable => allowance.bufferable,
        TaskClass::Immediate => allowance.immediate,
    };
    let delay = allowance.estimated_delay;
    let is_late = |bound| delay > 0.0 && delay + task_work.estimate() > bound;
    match may {
        false => Err(NoCredit::Spent),
        true if task_work.bound().is_some_and(is_late) => Err(NoCredit::Late),
        true => Ok(()),
    }
}

/// Sends such tasks while there is credit, at most a hundred. Returns their number.
fn fill(credits: &mut Credits, now: Time, task_work: &TaskWork<'_>) -> usize {
    let mut sent = 0;
    while sent < 100 && eligible(credits, now, task_work).is_ok() {
        credits.spend(now, (run(9), task_work));
        sent += 1;
    }
    sent
}

fn found(candidates: u64, late: u64) -> PlacementResult {
    PlacementResult {
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

/// The requested seconds are a sum that was rounded up.
#[test]
fn what_rounding_leaves_of_a_request_brings_no_task() {
    let mut credits = Credits::default();
    let wanted = 66.000_000_000_000_01;
    take(
        &mut credits,
        at(0),
        &request(1, vec![demand(CPU, [wanted, 0.0, 0.0])]),
    );
    for (number, estimate) in (0..).zip([2.0, 60.0, 2.0, 2.0]) {
        let task_work = bufferable(&CPU, estimate);
        assert_eq!(eligible(&credits, at(0), &task_work), Ok(()));
        credits.spend(at(0), (run(number), &task_work));
    }
    let next = bufferable(&CPU, 60.0);
    assert_eq!(eligible(&credits, at(0), &next), Err(NoCredit::Spent));
}

#[test]
fn a_request_is_exceeded_by_less_than_one_task() {
    let mut credits = Credits::default();
    let two_and_a_half_hours = request(1, vec![demand(CPU, [9000.0, 2.0, 2.0])]);
    take(&mut credits, at(0), &two_and_a_half_hours);
    let task_work = bufferable(&CPU, 3600.0);
    let mut left = Vec::new();
    while eligible(&credits, at(0), &task_work).is_ok() {
        assert_eq!(
            credits.spend(at(0), (run(9), &task_work)),
            Some(WorkRequestSeq(1))
        );
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
    let task_work = immediate(&CPU);
    assert_eq!(fill(&mut credits, at(0), &task_work), 2);
    let before = credits.clone();
    let reply = take(&mut credits, at(5), &one);
    assert_eq!(reply.verdicts, [(CPU, WorkVerdict::Granted(2))]);
    assert_eq!(credits, before);
    assert_eq!(eligible(&credits, at(5), &task_work), Err(NoCredit::Spent));
    // The credit is long over, and the repeated request asks for more under the same number.
    let more = request(1, vec![demand(CPU, [1e6, 50.0, 50.0])]);
    take(&mut credits, at(200_000), &more);
    assert_eq!(
        eligible(&credits, at(200_000), &task_work),
        Err(NoCredit::Spent)
    );
}

#[test]
fn a_copy_from_an_earlier_association_sets_no_credit() {
    let mut credits = Credits::default();
    let one = request(1, vec![demand(CPU, [100.0, 2.0, 2.0])]);
    take(&mut credits, at(0), &one);
    credits.begin_anew();
    assert!(credits.are_used());
    take(&mut credits, at(5), &one);
    let task_work = immediate(&CPU);
    assert_eq!(eligible(&credits, at(5), &task_work), Err(NoCredit::Spent));
    let two = request(2, vec![demand(CPU, [100.0, 2.0, 2.0])]);
    take(&mut credits, at(6), &two);
    assert_eq!(fill(&mut credits, at(6), &task_work), 2);
}

#[test]
fn who_says_that_it_will_ask_gets_nothing_before() {
    let mut credits = Credits::new(Supply::AsAsked);
    let task_work = immediate(&CPU);
    assert_eq!(fill(&mut credits, at(0), &task_work), 0);
    assert_eq!(credits.allowance(at(0), &CPU), Some(Allowance::NOTHING));
    credits.begin_anew();
    assert_eq!(fill(&mut credits, at(0), &task_work), 0);
    let one = request(1, vec![demand(CPU, [100.0, 2.0, 2.0])]);
    take(&mut credits, at(0), &one);
    assert_eq!(fill(&mut credits, at(0), &task_work), 2);
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
    assert_eq!(eligible(&credits, at(0), &immediate(&CPU)), spent);
    assert_eq!(verdicts(&credits), []);
}

#[test]
fn tasks_that_cross_with_the_request_are_charged() {
    let sent = |number| Sent {
        invocation: run(number),
        task_work: Some(bufferable(&CPU, 60.0)),
        acknowledged: None,
    };
    let mut credits = Credits::default();
    let asks = knows(request(1, vec![demand(CPU, [0.0, 3.0, 3.0])]), &[1]);
    let policy = patient();
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
    // A request without a list is accepted as complete.
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
    assert_eq!(eligible(&credits, at(0), &immediate(&other)), spent);
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
        let is = |task_work: &TaskWork<'_>| eligible(&credits, at(0), task_work).is_ok();
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
    assert_eq!(credits.spend(at(0), (run(9), &immediate(&CPU))), None);
    assert_eq!(credits.reply(), None);
    credits.clear();
    credits.end_pass(at(0), |_| found(0, 0));
    assert_eq!(credits, Credits::default());
}

#[test]
fn lingering_begins_with_the_request_and_a_limit_is_still_good() {
    let asks = request(1, vec![demand(CPU, [0.0, 9.0, 9.0])]);
    let task_work = immediate(&CPU);
    let mut credits = Credits::default();
    take(&mut credits, at(0), &asks);
    credits.end_pass(at(10), |_| found(0, 0));
    assert_eq!(verdicts(&credits), [WorkVerdict::NoWork]);
    assert_eq!(credits.next_change(at(0)), Some(at(120_000)));
    // A task that becomes ready now starts at once, and a repetition of the request reports it.
    assert_eq!(eligible(&credits, at(120_000), &task_work), Ok(()));
    credits.spend(at(120_000), (run(9), &task_work));
    assert_eq!(verdicts(&credits), [WorkVerdict::Granted(1)]);
    let spent = Err(NoCredit::Spent);
    assert_eq!(eligible(&credits, at(120_001), &task_work), spent);
    credits.expire(at(120_001));
    assert_eq!(credits.next_change(at(0)), None);
    assert_eq!(verdicts(&credits), [WorkVerdict::Granted(1)]);
}

#[test]
fn without_lingering_the_credit_ends_with_the_pass() {
    let asks = WorkRequest {
        linger: Duration::ZERO,
        ..request(1, vec![demand(CPU, [0.0, 9.0, 9.0])])
    };
    let task_work = immediate(&CPU);
    let mut credits = Credits::default();
    take(&mut credits, at(0), &asks);
    assert!(credits.is_pending());
    // The placement may come later than the request.
    assert_eq!(eligible(&credits, at(700), &task_work), Ok(()));
    credits.end_pass(at(700), |_| found(0, 0));
    assert_eq!(
        eligible(&credits, at(700), &task_work),
        Err(NoCredit::Spent)
    );
    assert_eq!(verdicts(&credits), [WorkVerdict::NoWork]);
}

#[test]
fn a_worker_that_wants_to_linger_for_ever_lingers_for_as_long_as_allowed() {
    let asks = WorkRequest {
        linger: Duration::MAX,
        ..request(1, vec![demand(CPU, [0.0, 9.0, 9.0])])
    };
    let policy = RequestPolicy {
        max_linger: Duration::from_secs(60),
        ..patient()
    };
    let mut credits = Credits::default();
    take_with(&mut credits, at(0), &asks, &policy, &[]);
    credits.end_pass(at(0), |_| found(0, 0));
    assert_eq!(credits.next_change(at(0)), Some(at(60_000)));
}

#[test]
fn what_no_pass_looked_at_is_deferred_in_the_end() {
    let mut credits = Credits::default();
    take(
        &mut credits,
        at(0),
        &request(1, vec![demand(CPU, [0.0, 9.0, 9.0])]),
    );
    let task_work = immediate(&CPU);
    assert_eq!(credits.next_change(at(0)), Some(at(30_000)));
    credits.expire(at(30_000));
    assert_eq!(verdicts(&credits), [WorkVerdict::Pending]);
    assert_eq!(
        eligible(&credits, at(30_001), &task_work),
        Err(NoCredit::Spent)
    );
    credits.end_pass(at(30_001), |_| found(3, 0));
    assert_eq!(verdicts(&credits), [WorkVerdict::Deferred]);
}

#[test]
fn the_verdict_is_what_the_pass_found() {
    let no_apps = PlacementResult {
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
        credits.spend(at(0), (run(9), &immediate(&Processor::named("A100"))));
        credits.end_pass(at(0), |_| found);
        assert!(!credits.is_pending());
        let reply = credits.reply().unwrap();
        assert_eq!(reply.verdicts[0], (CPU, verdict), "{found:?}");
        assert_eq!(reply.verdicts[1].1, WorkVerdict::Granted(1));
        assert_eq!(
            reply.no_apps.len(),
            if found.apps == Apps::None { 3 } else { 0 }
        );
        // The verdict is fixed once; a later placement does not change it.
        credits.end_pass(at(1), |_| self::found(0, 0));
        assert_eq!(credits.reply().unwrap(), reply);
    }
}

#[test]
fn who_may_get_nothing_is_deferred_and_loses_its_credit() {
    let mut credits = Credits::default();
    let wants = || vec![demand(CPU, [0.0, 4.0, 4.0])];
    take(&mut credits, at(0), &request(1, wants()));
    let policy = patient();
    let asks = request(2, wants());
    let (reply, _) = hear(&mut credits, at(1), &policy, Readiness::MayNot, &asks, &[]);
    assert_eq!(reply.verdicts, [(CPU, WorkVerdict::Deferred)]);
    assert_eq!(reply.request_delay, Duration::from_secs(1));
    let task_work = immediate(&CPU);
    assert_eq!(eligible(&credits, at(1), &task_work), Err(NoCredit::Spent));
    // The request was received, so an older one that arrives later is stale.
    let late = take(&mut credits, at(1), &request(1, wants()));
    assert_eq!(late.verdicts, [(CPU, WorkVerdict::Stale)]);
    take(&mut credits, at(2), &request(3, wants()));
    assert_eq!(eligible(&credits, at(2), &task_work), Ok(()));
    credits.clear();
    assert_eq!(eligible(&credits, at(2), &task_work), Err(NoCredit::Spent));
    assert_eq!(verdicts(&credits), [WorkVerdict::Deferred]);
}

/// A worker that requests work before it is healthy does not wait as long as after an answer.
#[test]
fn what_nobody_looks_at_costs_no_interval() {
    let policy = RequestPolicy {
        min_request_interval: Duration::from_secs(60),
        ..patient()
    };
    let wants = || vec![demand(CPU, [0.0, 4.0, 4.0])];
    let mut credits = Credits::default();
    let mut ask = |seq, second: u64, readiness| {
        let asks = request(seq, wants());
        let (reply, _) = hear(
            &mut credits,
            at(second * 1000),
            &policy,
            readiness,
            &asks,
            &[],
        );
        (reply.verdicts[0].1, reply.request_delay.as_secs())
    };
    let not_yet = (WorkVerdict::Deferred, 1);
    assert_eq!(ask(1, 0, Readiness::MayNot), not_yet);
    assert_eq!(ask(2, 1, Readiness::MayNot), not_yet);
    assert_eq!(ask(3, 2, Readiness::MayWork), (WorkVerdict::Pending, 61));
    // The delay is the rest of the interval since the last accepted request.
    assert_eq!(ask(4, 22, Readiness::MayNot), (WorkVerdict::Deferred, 41));
    assert_eq!(ask(5, 63, Readiness::MayWork).0, WorkVerdict::Pending);
}

#[test]
fn requests_that_come_too_soon_are_put_off() {
    let rows = [
        // The interval and the delay, both in milliseconds.
        (1, 1.01),
        (100, 101.0),
        (999, 1008.99),
        (1000, 2000.0),
        (5000, 6000.0),
        (99_000, 100_000.0),
        (100_000, 101_000.0),
        (200_000, 202_000.0),
        (1_000_000_000, 172_800_000.0),
    ];
    for (interval, delay) in rows {
        let policy = RequestPolicy {
            min_request_interval: Duration::from_millis(interval),
            ..patient()
        };
        let mut credits = Credits::default();
        let mut ask = |seq, millis| {
            let asks = request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]);
            take_with(&mut credits, at(millis), &asks, &policy, &[])
        };
        let delay = Duration::from_micros((delay * 1000.0) as u64);
        let first = ask(1, 0);
        let expected = (vec![(CPU, WorkVerdict::Pending)], delay);
        assert_eq!((first.verdicts, first.request_delay), expected);
        let second = ask(2, interval - 1);
        let expected = (vec![(CPU, WorkVerdict::Deferred)], delay);
        assert_eq!((second.verdicts, second.request_delay), expected);
        // The interval counts from the last accepted request, so a hasty worker is not deferred for ever.
        let third = ask(3, interval);
        assert_eq!(third.verdicts, [(CPU, WorkVerdict::Pending)]);
        let fourth = ask(4, interval * 2 - 1);
        assert_eq!(fourth.verdicts, [(CPU, WorkVerdict::Deferred)]);
    }
    // The delay of the longest interval is not cut.
    let policy = RequestPolicy {
        min_request_interval: RequestPolicy::MAX_REQUEST_INTERVAL,
        ..patient()
    };
    let delay = policy.request_delay(Duration::ZERO);
    assert_eq!(delay, RequestPolicy::MAX_REQUEST_INTERVAL.mul_f64(1.01));
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

/// Simulates workers that request work whenever they may, all beginning at once. Returns when each was first accepted, and the most
/// requests accepted within any second.
fn storm(workers: usize, per_second: u32) -> (Vec<Time>, usize) {
    let policy = RequestPolicy {
        max_requests_per_second: per_second,
        ..patient()
    };
    let mut turns = Turns::default();
    let mut all = vec![(Credits::default(), at(0), 0, None); workers];
    let mut looks = Vec::new();
    let begin = at(5000);
    all.iter_mut().for_each(|worker| worker.1 = begin);
    while all.iter().any(|worker| worker.3.is_none()) {
        let next = all.iter_mut().min_by_key(|worker| worker.1);
        let (credits, now, seq, looked) = next.expect("a worker");
        *seq += 1;
        let asks = request(*seq, vec![demand(CPU, [0.0, 1.0, 1.0])]);
        // Each request comes in a turn of its own.
        turns.pass_on();
        let rules = (&policy, &mut turns);
        let heard = credits.hear(*now, rules, Readiness::MayWork, &asks);
        let reply = credits.reply().expect("it was heard");
        match heard {
            Heard::ToLookAt => {
                looks.push(*now);
                looked.get_or_insert(*now);
                // The worker does not come back in this test before all have had their turns.
                *now = *now + Duration::from_secs(1);
            }
            Heard::TooMany => {
                assert_eq!(reply.verdicts, [(CPU, WorkVerdict::Deferred)]);
                assert!(!reply.request_delay.is_zero());
                *now = *now + reply.request_delay;
            }
            other => panic!("{other:?}"),
        }
    }
    looks.sort();
    let within = |first: usize| {
        let until = looks[first] + Duration::from_secs(1);
        looks[first..].iter().filter(|at| **at < until).count()
    };
    let most = (0..looks.len()).map(within).max();
    let first = all.iter().map(|worker| worker.3.expect("all were"));
    (first.collect(), most.expect("there were some"))
}

#[test]
fn workers_that_come_back_at_once_get_their_turns_one_after_the_other() {
    let (first, most) = storm(1000, 100);
    // Accepted are the unused turns of the quiet second before, then one after the other, for ten seconds. Workers that have had their turn
    // and request again each second take none from those that wait.
    assert!(most <= 201, "{most}");
    let last = first.iter().max().expect("a worker");
    assert!(*last <= at(5000) + Duration::from_secs(10), "{last:?}");
    // There is no limit.
    let (first, most) = storm(300, 0);
    assert_eq!((first, most), (vec![at(5000); 300], 300));
}

#[test]
fn whoever_asks_before_its_turn_keeps_it_and_takes_no_other() {
    let policy = RequestPolicy {
        max_requests_per_second: 1,
        ..patient()
    };
    let mut turns = Turns::default();
    let asks = |seq| request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]);
    let mut hear = |credits: &mut Credits, now, seq| {
        let rules = (&policy, &mut turns);
        let heard = credits.hear(now, rules, Readiness::MayWork, &asks(seq));
        let delay = credits.reply().expect("it was heard").request_delay;
        (heard, delay.as_millis())
    };
    let [mut one, mut two] = [Credits::default(), Credits::default()];
    assert_eq!(hear(&mut one, at(0), 1), (Heard::ToLookAt, 0));
    assert_eq!(hear(&mut one, at(0), 2), (Heard::TooMany, 1000));
    assert_eq!(hear(&mut one, at(400), 3), (Heard::TooMany, 600));
    assert_eq!(hear(&mut one, at(400), 3), (Heard::Repeated, 600));
    assert_eq!(hear(&mut two, at(400), 1), (Heard::TooMany, 1600));
    assert_eq!(hear(&mut one, at(1000), 4), (Heard::ToLookAt, 0));
    // The turn is reserved for a while; a later one is not used in its place.
    assert_eq!(hear(&mut one, at(2000), 5), (Heard::TooMany, 1000));
    assert_eq!(hear(&mut two, at(4000), 2), (Heard::ToLookAt, 0));
    // A worker that comes too late takes a free turn, if there is one.
    assert_eq!(hear(&mut two, at(4000), 3), (Heard::ToLookAt, 0));
    assert_eq!(hear(&mut two, at(4000), 4), (Heard::TooMany, 1000));
    assert_eq!(hear(&mut one, at(5001), 6), (Heard::TooMany, 999));
    assert_eq!(hear(&mut two, at(7001), 5), (Heard::ToLookAt, 0));
    assert_eq!(hear(&mut one, at(7001), 7), (Heard::ToLookAt, 0));
}

/// Handles all requests of one moment, in order. Each entry of `all` has the number of listed runs. Returns the results.
fn come(turns: &mut Turns, now: Time, all: &mut [(Credits, usize)]) -> Vec<Heard> {
    let policy = RequestPolicy {
        max_requests_per_second: 1000,
        ..patient()
    };
    let all = all.iter_mut().map(|(credits, runs)| {
        let listed: Vec<i64> = (1..).take(*runs).collect();
        let seq = credits.newest_seq().map_or(1, |seq| seq.0 + 1);
        let asks = knows(request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]), &listed);
        credits.hear(now, (&policy, &mut *turns), Readiness::MayWork, &asks)
    });
    all.collect()
}

fn askers(count: usize, runs: usize) -> Vec<(Credits, usize)> {
    vec![(Credits::default(), runs); count]
}

#[test]
fn a_request_that_lists_many_runs_takes_the_turns_of_several() {
    let mut turns = Turns::default();
    let now = at(5000);
    // The second before was quiet, so the long list takes its unused turns.
    let mut all = askers(1, 100_000);
    all.extend(askers(1, 99));
    let heard = come(&mut turns, now, &mut all);
    assert_eq!(heard, [Heard::ToLookAt, Heard::TooMany]);
    assert_eq!(turns.next(), at(5002));
    // A worker that lists more when its turn has come pays for it.
    turns.pass_on();
    all[1].1 = 10_000;
    let heard = come(&mut turns, at(5001), &mut all[1..]);
    assert_eq!(heard, [Heard::ToLookAt]);
    assert_eq!(turns.next(), at(5102));
    // A worker that lists nothing of its runs pays, too.
    let policy = RequestPolicy::default();
    let asks = request(1, Vec::new());
    Credits::charge_look(&policy, &mut turns, &asks, 500);
    assert_eq!(turns.next(), at(5107));
    Credits::charge_look(&policy, &mut turns, &asks, 99);
    assert_eq!(turns.next(), at(5107));
    // However few turns there are, other workers get theirs after ten seconds.
    let policy = RequestPolicy {
        max_requests_per_second: 1,
        ..policy
    };
    Credits::charge_look(&policy, &mut turns, &asks, 100_000);
    assert_eq!(turns.next(), at(15_107));
}

#[test]
fn something_else_is_done_after_some_looks() {
    let mut turns = Turns::default();
    let mut all = askers(300, 0);
    let heard = come(&mut turns, at(5000), &mut all);
    assert_eq!(heard[..256], [Heard::ToLookAt; 256]);
    assert_eq!(heard[256..], [Heard::TooMany; 44]);
    let delay = all[299].0.reply().map(|reply| reply.request_delay);
    assert_eq!(delay, Some(Duration::from_millis(20)));
    // These workers keep their turns.
    turns.pass_on();
    let heard = come(&mut turns, at(5020), &mut all[256..]);
    assert_eq!(heard, [Heard::ToLookAt; 44]);
    // A long request is accepted if it is the first.
    let mut turns = Turns::default();
    let heard = come(&mut turns, at(5000), &mut askers(2, 30_000));
    assert_eq!(heard, [Heard::ToLookAt, Heard::TooMany]);
}

#[test]
fn invented_requests_push_no_turn_further_than_ten_minutes() {
    let policy = RequestPolicy {
        max_requests_per_second: 1,
        ..patient()
    };
    let mut turns = Turns::default();
    let mut all = vec![Credits::default(); 2000];
    let mut hear = |credits: &mut Credits, now, seq| {
        let asks = request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]);
        let heard = credits.hear(now, (&policy, &mut turns), Readiness::MayWork, &asks);
        let delay = credits.reply().expect("it was heard").request_delay;
        (heard, delay)
    };
    let delays = all.iter_mut().map(|credits| hear(credits, at(0), 1).1);
    assert_eq!(delays.max(), Some(Duration::from_secs(600)));
    // A worker with the longest delay has no reserved turn. When it comes again, it takes a free one, and all together take as many as
    // there are.
    let held = |all: &[Credits]| all.iter().filter(|one| one.turn.is_some()).count();
    assert_eq!(held(&all), 600);
    let late = at(600_000);
    let again = all.iter_mut().map(|credits| hear(credits, late, 2).0);
    let looked_at = again.filter(|heard| *heard == Heard::ToLookAt).count();
    // Only those are accepted whose turns were a moment ago.
    assert_eq!(looked_at, 3);
    assert_eq!(held(&all), 600);
}

#[test]
fn workers_that_were_cut_off_do_not_come_back_all_at_once() {
    let policy = RequestPolicy {
        max_requests_per_second: 100,
        ..patient()
    };
    let mut turns = Turns::default();
    let mut all = vec![Credits::default(); 1000];
    let mut come = |now, seq| {
        let asks = request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]);
        let heard = all.iter_mut().map(|credits| {
            let rules = (&policy, &mut turns);
            credits.hear(now, rules, Readiness::MayWork, &asks)
        });
        heard.filter(|heard| *heard == Heard::ToLookAt).count()
    };
    // The second before was quiet, if there was one.
    assert_eq!(come(at(5000), 1), 101);
    // All reserved turns are over.
    assert_eq!(come(at(125_000), 2), 101);
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
    // The limit is 28 days.
    let long = bufferable(&CPU, 86_400.0);
    assert_eq!(fill(&mut credits, at(0), &long), 28);
    let policy = RequestPolicy {
        card_weight: 2.0,
        tasks_per_processor: 10.0,
        ..patient()
    };
    let asks = request(2, vec![huge, cards]);
    take_with(&mut credits, at(0), &asks, &policy, &[]);
    let nothing = TaskWork::new(&CPU, 0.0, 1.0, TaskClass::Bufferable, None);
    assert_eq!(fill(&mut credits, at(0), &nothing), 10 * (2 + 2 * 3));
    // However many processors the worker reports, the tasks are no more than it could list.
    let many = WorkDemand {
        there: 1e5,
        ..demand(CPU, [1e300, 0.0, 0.0])
    };
    take(&mut credits, at(0), &request(3, vec![many]));
    let newest = credits.newest.as_ref().expect("a request");
    assert_eq!(newest.tasks_left as usize, MAX_KNOWN_TASKS);
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
            waiting: Some(bad),
        };
        let mut credits = Credits::default();
        take(&mut credits, at(0), &request(1, vec![wants.clone(), wants]));
        // An invalid estimate counts as unknown.
        let task_work = TaskWork::new(&CPU, 1.0, bad, TaskClass::Bufferable, None);
        assert_eq!(task_work.estimate(), DEFAULT_ESTIMATE);
        assert_eq!(fill(&mut credits, at(0), &task_work), 2, "{bad}");
        let task_work = TaskWork::new(&CPU, bad, f64::MAX, TaskClass::Bufferable, None);
        credits.spend(at(0), (run(9), &task_work));
        let allowance = credits.allowance(at(0), &CPU).expect("it asks");
        assert!(allowance.estimated_delay.is_finite());
    }
}

#[test]
fn a_task_must_make_its_deadline_where_others_wait() {
    // The delay, the estimate, the bound, and whether the task may be sent.
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
        let task_work = within(&CPU, estimate, bound);
        let expected = if may { Ok(()) } else { Err(NoCredit::Late) };
        assert_eq!(
            eligible(&credits, at(0), &task_work),
            expected,
            "{delay} {estimate}"
        );
        // A task without a deadline is never late.
        assert_eq!(
            eligible(&credits, at(0), &bufferable(&CPU, estimate)),
            Ok(())
        );
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
    credits.spend(at(0), (run(9), &bufferable(&CPU, 100.0)));
    let allowance = credits.allowance(at(0), &CPU).expect("it asks");
    assert_eq!(allowance.estimated_delay, 25.0);
    assert_eq!(eligible(&credits, at(0), &within(&CPU, 5.0, 30)), Ok(()));
    let late = Err(NoCredit::Late);
    assert_eq!(eligible(&credits, at(0), &within(&CPU, 5.1, 30)), late);
}

/// The remaining time of a task in seconds, and its deadline.
type Told = (f64, Option<f64>);

/// Returns the credits of a worker with one CPU and these tasks.
fn with_workload(tasks: &[Told]) -> Credits {
    with_workload_by(0.0, tasks, &patient())
}

fn with_workload_by(estimated_delay: f64, tasks: &[Told], policy: &RequestPolicy) -> Credits {
    with_workload_of(request(1, Vec::new()), estimated_delay, tasks, policy)
}

fn with_low_water(low_water: f64, tasks: &[Told]) -> Credits {
    let asks = WorkRequest {
        low_water,
        ..request(1, Vec::new())
    };
    with_workload_of(asks, 0.0, tasks, &patient())
}

fn with_workload_of(
    asks: WorkRequest,
    estimated_delay: f64,
    tasks: &[Told],
    policy: &RequestPolicy,
) -> Credits {
    let known = tasks.iter().zip(1..).map(|(task, number)| KnownTask {
        invocation: run(number),
        remaining: Some(task.0),
        deadline: task.1,
    });
    let wants = WorkDemand {
        there: 1.0,
        estimated_delay,
        ..demand(CPU, [1000.0, 1.0, 1.0])
    };
    let asks = WorkRequest {
        known: Some(known.collect()),
        demands: vec![wants],
        ..asks
    };
    let running: Vec<Sent<'_>> = (1..=tasks.len() as i64)
        .map(|number| Sent {
            invocation: run(number),
            task_work: Some(bufferable(&CPU, 1.0)),
            acknowledged: None,
        })
        .collect();
    let mut credits = Credits::default();
    take_with(&mut credits, at(0), &asks, policy, &running);
    credits
}

#[test]
fn a_task_that_makes_another_one_late_stays_away() {
    let rows: [(&[Told], TaskWork<'_>, bool); 10] = [
        // The CPU is free: the task meets its deadline. It is taken: the task does not.
        (&[], within(&CPU, 10.0, 10), true),
        (&[(1.0, Some(1.0))], within(&CPU, 10.0, 10), false),
        // The task could not meet its deadline anywhere, so it may be tried here, unless others become late.
        (&[], within(&CPU, 10.0, 9), true),
        (&[(1.0, Some(1.0))], within(&CPU, 10.0, 9), true),
        (&[(1.0, Some(10.0))], within(&CPU, 10.0, 9), false),
        // The task would come before the other one, which has time or has not.
        (&[(10.0, Some(30.0))], within(&CPU, 10.0, 20), true),
        (&[(10.0, Some(15.0))], within(&CPU, 10.0, 12), false),
        // A task that is late already may not become later, but it may stay as it is.
        (&[(10.0, Some(5.0))], within(&CPU, 1.0, 4), false),
        (&[(10.0, Some(5.0))], within(&CPU, 1.0, 20), true),
        // A task without a deadline yields.
        (&[(100.0, None)], within(&CPU, 10.0, 10), true),
    ];
    for (tasks, task_work, may) in rows {
        let mut credits = with_workload(tasks);
        assert_eq!(keeps(&mut credits, &task_work), may, "{tasks:?}");
    }
}

#[test]
fn a_worker_that_wants_its_tasks_done_before_their_deadlines_is_judged_so() {
    // The low water mark, the tasks, one more, and whether it may be sent.
    let rows: [(f64, &[Told], TaskWork<'_>, bool); 9] = [
        // The end is after 20 of 29 seconds, and of 19.
        (0.0, &[(10.0, Some(25.0))], within(&CPU, 10.0, 29), true),
        (10.0, &[(10.0, Some(25.0))], within(&CPU, 10.0, 29), false),
        (10.0, &[(10.0, Some(25.0))], within(&CPU, 10.0, 30), true),
        // The task would come first, and make the other one late: its end is after 20 of 25 seconds, and of 15.
        (0.0, &[(10.0, Some(25.0))], within(&CPU, 10.0, 24), true),
        (10.0, &[(10.0, Some(25.0))], within(&CPU, 10.0, 24), false),
        // The task cannot end so early anywhere, so it may be sent where it begins at once.
        (10.0, &[], within(&CPU, 10.0, 15), true),
        (10.0, &[(10.0, Some(90.0))], within(&CPU, 10.0, 15), true),
        (10.0, &[(5.0, Some(16.0))], within(&CPU, 10.0, 15), false),
        // The task cannot meet its deadline at all.
        (10.0, &[(5.0, Some(15.0))], within(&CPU, 20.0, 16), true),
    ];
    for (low_water, tasks, task_work, may) in rows {
        let mut credits = with_low_water(low_water, tasks);
        assert_eq!(
            keeps(&mut credits, &task_work),
            may,
            "{low_water} {tasks:?}"
        );
    }
    // A task that was sent meanwhile must end as early.
    let mut credits = with_low_water(10.0, &[]);
    credits.spend(at(0), (run(9), &within(&CPU, 10.0, 25)));
    assert!(!keeps(&mut credits, &within(&CPU, 10.0, 29)));
    assert!(keeps(&mut credits, &within(&CPU, 10.0, 30)));
}

fn keeps(credits: &mut Credits, task_work: &TaskWork<'_>) -> bool {
    keeps_at(credits, at(0), task_work)
}

fn keeps_at(credits: &mut Credits, now: Time, task_work: &TaskWork<'_>) -> bool {
    let due = Due {
        estimate: task_work.estimate(),
        bound: task_work.bound().expect("a deadline"),
    };
    credits.keeps_deadlines(now, due).timeliness == Timeliness::InTime
}

#[test]
fn a_worker_that_tells_what_it_has_is_not_judged_by_its_delay() {
    // The worker's delay, its tasks, the rule, and the delay that placement uses.
    let simulated = DeadlineRule::Simulated;
    let rows: [(f64, &[Told], DeadlineRule, f64); 8] = [
        (
            20.0,
            &[(15.0, Some(9.0)), (5.0, Some(12.0))],
            simulated,
            0.0,
        ),
        // Tasks of other schedulers, or unlisted ones, cause the delay.
        (
            20.5,
            &[(15.0, Some(9.0)), (5.0, Some(12.0))],
            simulated,
            20.5,
        ),
        // Tasks that meet their deadlines do not delay others.
        (
            20.0,
            &[(15.0, Some(90.0)), (5.0, Some(4.0))],
            simulated,
            20.0,
        ),
        (100.0, &[(1000.0, Some(1e6))], simulated, 100.0),
        (20.0, &[(15.0, None), (5.0, Some(50.0))], simulated, 20.0),
        (20.0, &[], simulated, 20.0),
        (0.0, &[], simulated, 0.0),
        (20.0, &[(20.0, Some(90.0))], DeadlineRule::Delayed, 20.0),
    ];
    for (delay, tasks, deadlines, goes_by) in rows {
        let policy = RequestPolicy {
            deadlines,
            ..patient()
        };
        let mut credits = with_workload_by(delay, tasks, &policy);
        let allowance = credits.allowance(at(0), &CPU).expect("it asks");
        assert_eq!(allowance.estimated_delay, goes_by, "{delay} {tasks:?}");
        let hopeless = keeps(&mut credits, &within(&CPU, 50.0, 50));
        let comes_first = |task: &Told| task.1.is_some_and(|deadline| deadline <= 50.0);
        let is_judged = deadlines == simulated && tasks.iter().any(comes_first);
        assert_eq!(hopeless, !is_judged);
    }
    // There are too many tasks to simulate, so the delay is used.
    let many: Vec<Told> = (0..257).map(|_| (1.0, Some(0.5))).collect();
    for (tasks, goes_by) in [(&many[..256], 0.0), (&many[..], 10.0)] {
        let credits = with_workload_by(10.0, tasks, &patient());
        let allowance = credits.allowance(at(0), &CPU).expect("it asks");
        assert_eq!(allowance.estimated_delay, goes_by);
    }
}

/// Returns the delay that placement uses for a worker with two CPUs and tasks that would all be late. Each task has its remaining time, the
/// part of a CPU that it uses, and whether it is listed.
fn delay_with(told: f64, tasks: &[(f64, f64, bool)]) -> f64 {
    let known = tasks.iter().zip(1..).filter(|((.., listed), _)| *listed);
    let known = known.map(|((remaining, ..), number)| KnownTask {
        invocation: run(number),
        remaining: Some(*remaining),
        deadline: Some(0.5),
    });
    let wants = WorkDemand {
        there: 2.0,
        estimated_delay: told,
        ..demand(CPU, [1000.0, 1.0, 1.0])
    };
    let asks = WorkRequest {
        known: Some(known.collect()),
        ..request(1, vec![wants])
    };
    let half = Some(Duration::from_millis(500));
    let running: Vec<Sent<'_>> = (tasks.iter().zip(1..))
        .map(|((remaining, usage, _), number)| Sent {
            invocation: run(number),
            task_work: Some(TaskWork::new(
                &CPU,
                *usage,
                *remaining,
                TaskClass::Bufferable,
                half,
            )),
            acknowledged: None,
        })
        .collect();
    let mut credits = Credits::default();
    take_with(&mut credits, at(0), &asks, &patient(), &running);
    // Tasks that are not listed are charged, which adds to the delay.
    let on_their_way = tasks.iter().filter(|(.., listed)| !listed);
    let charged: f64 = on_their_way
        .map(|(work, usage, _)| work * usage / 2.0)
        .sum();
    let allowance = credits.allowance(at(0), &CPU).expect("it asks");
    (allowance.estimated_delay - charged).max(0.0)
}

#[test]
fn only_what_the_worker_counts_itself_explains_its_delay() {
    // Both CPUs are taken for 20 s. If one of them is not, tasks of other schedulers cause the delay.
    assert_eq!(
        delay_with(20.0, &[(20.0, 1.0, true), (25.0, 1.0, true)]),
        0.0
    );
    assert_eq!(delay_with(20.0, &[(50.0, 1.0, true)]), 20.0);
    // The worker does not know yet of the task on its way.
    assert_eq!(
        delay_with(20.0, &[(20.0, 1.0, true), (25.0, 1.0, false)]),
        20.0
    );
    // A task that takes a part of a CPU keeps no other task from it.
    assert_eq!(
        delay_with(20.0, &[(20.0, 1.0, true), (25.0, 0.5, true)]),
        20.0
    );
}

#[test]
fn what_was_sent_meanwhile_counts_among_the_tasks() {
    let mut credits = with_workload(&[]);
    let task_work = within(&CPU, 10.0, 10);
    assert!(keeps(&mut credits, &task_work));
    credits.spend(at(0), (run(9), &task_work));
    assert!(!keeps(&mut credits, &task_work));
    // A task that takes as long and is as urgent, or more so, is late for the same reason; an easier one is simulated.
    assert!(!keeps(&mut credits, &within(&CPU, 11.0, 9)));
    assert!(keeps(&mut credits, &within(&CPU, 10.0, 20)));
    // GPUs are not CPUs, and a task without a deadline yields.
    credits.spend(at(0), (run(9), &within(&gpu(), 100.0, 1)));
    credits.spend(at(0), (run(9), &bufferable(&CPU, 1e6)));
    assert!(keeps(&mut credits, &within(&CPU, 10.0, 20)));
}

#[test]
fn a_run_that_ends_makes_room_for_others() {
    let mut credits = with_workload(&[(60.0, Some(100.0)), (10.0, Some(20.0)), (5.0, None)]);
    let task_work = within(&CPU, 40.0, 50);
    assert!(!keeps(&mut credits, &task_work));
    // A run without a deadline, or an unknown one, delayed no task.
    assert_eq!(credits.ended(at(0), run(3)), Relief::Nothing);
    assert_eq!(credits.ended(at(0), run(7)), Relief::Nothing);
    assert!(!keeps(&mut credits, &task_work));
    // The remaining job meets its deadline after the task. A sent run is dropped like a listed one.
    assert_eq!(credits.ended(at(0), run(1)), Relief::MoreTime);
    assert!(keeps(&mut credits, &task_work));
    credits.spend(at(0), (run(8), &task_work));
    assert!(!keeps(&mut credits, &task_work));
    assert_eq!(credits.ended(at(0), run(8)), Relief::MoreTime);
    assert_eq!(credits.ended(at(0), run(8)), Relief::Nothing);
    assert!(keeps(&mut credits, &task_work));
    // A worker with too many tasks to simulate may have refused some before.
    let many: Vec<Told> = (0..257).map(|_| (1.0, Some(1000.0))).collect();
    let mut credits = with_workload(&many);
    assert_eq!(credits.ended(at(0), run(1)), Relief::MoreTime);
    credits.clear();
    assert_eq!(credits.ended(at(0), run(2)), Relief::Nothing);
    assert_eq!(Credits::default().ended(at(0), run(1)), Relief::Nothing);
}

fn lingering(tasks: &[Told]) -> Credits {
    let mut credits = with_workload(tasks);
    credits.end_pass(at(0), |_| found(1, 0));
    credits
}

#[test]
fn time_that_passes_is_taken_off_what_runs() {
    // The tasks on one CPU, the milliseconds since they were reported, one more task, and whether it may be sent.
    let rows: [(&[Told], u64, TaskWork<'_>, bool); 9] = [
        (&[(60.0, Some(100.0))], 9999, within(&CPU, 50.0, 100), false),
        (
            &[(60.0, Some(100.0))],
            10_000,
            within(&CPU, 50.0, 100),
            true,
        ),
        // The deadline of the job comes nearer, too, and a task before the job would make it late.
        (&[(60.0, Some(80.0))], 10_000, within(&CPU, 21.0, 50), false),
        (&[(60.0, Some(80.0))], 10_000, within(&CPU, 20.0, 50), true),
        // A job that has used its time is assumed to end at once.
        (&[(60.0, Some(80.0))], 90_000, within(&CPU, 50.0, 50), true),
        // The job with the nearer deadline ran first, and then the other one for a while.
        (
            &[(20.0, Some(90.0)), (10.0, Some(15.0))],
            15_000,
            within(&CPU, 35.0, 50),
            true,
        ),
        (
            &[(20.0, Some(90.0)), (10.0, Some(15.0))],
            14_000,
            within(&CPU, 60.5, 75),
            false,
        ),
        (
            &[(20.0, Some(90.0)), (10.0, Some(15.0))],
            14_000,
            within(&CPU, 60.0, 76),
            true,
        ),
        (&[], 90_000, within(&CPU, 50.0, 50), true),
    ];
    for (tasks, millis, task_work, may) in rows {
        let mut credits = lingering(tasks);
        assert_eq!(
            keeps_at(&mut credits, at(millis), &task_work),
            may,
            "{tasks:?} {millis}"
        );
        // The result is the same in steps.
        let mut credits = lingering(tasks);
        (0..millis / 500).for_each(|step| {
            keeps_at(&mut credits, at(step * 500), &task_work);
        });
        assert_eq!(
            keeps_at(&mut credits, at(millis), &task_work),
            may,
            "{tasks:?} {millis}"
        );
    }
    // A task that is sent later is not assumed to have run before.
    let mut credits = lingering(&[]);
    let task_work = within(&CPU, 50.0, 60);
    assert!(keeps_at(&mut credits, at(50_000), &task_work));
    credits.spend(at(50_000), (run(8), &task_work));
    assert!(!keeps_at(&mut credits, at(50_000), &task_work));
    assert!(!keeps_at(&mut credits, at(89_000), &task_work));
    assert!(keeps_at(&mut credits, at(90_000), &task_work));
}

#[test]
fn a_delay_passes_and_its_end_is_waited_for() {
    let mut credits = with_workload_by(20.5, &[], &patient());
    credits.end_pass(at(0), |_| found(1, 1));
    let delay = |credits: &Credits, now| {
        let allowance = credits.allowance(now, &CPU).expect("it asks");
        allowance.estimated_delay
    };
    // The delay falls in steps of a second, until it is over.
    let rows = [
        (0, 20.5),
        (999, 20.5),
        (1000, 19.5),
        (20_499, 0.5),
        (20_500, 0.0),
    ];
    for (millis, left) in rows {
        assert_eq!(delay(&credits, at(millis)), left, "{millis}");
    }
    assert_eq!(credits.next_change(at(0)), Some(at(20_500)));
    assert_eq!(credits.next_change(at(20_500)), Some(at(20_500)));
    assert_eq!(credits.next_change(at(20_501)), Some(at(120_000)));
    // A task that is sent then adds to the delay left by then.
    credits.spend(at(30_000), (run(8), &bufferable(&CPU, 10.0)));
    assert_eq!(delay(&credits, at(30_000)), 10.0);
    assert_eq!(credits.next_change(at(30_000)), Some(at(40_000)));
    // The request ends before the delay does.
    credits.spend(at(30_000), (run(8), &bufferable(&CPU, 80.0)));
    assert_eq!(credits.next_change(at(30_000)), Some(at(120_000)));
}

#[test]
fn a_look_costs_by_the_tasks_that_are_simulated() {
    let cost = |credits: &mut Credits| credits.keeps_deadlines(at(0), DUE).tries;
    const DUE: Due = Due {
        estimate: 10.0,
        bound: 10.0,
    };
    let many = |count: usize| vec![(1.0, Some(1000.0)); count];
    for (count, tries) in [(0, 1), (7, 1), (8, 2), (256, 33), (257, 0)] {
        assert_eq!(cost(&mut with_workload(&many(count))), tries, "{count}");
    }
    // A task that is known to be late is not simulated again.
    let mut credits = with_workload(&vec![(1.0, Some(5.0)); 16]);
    assert_eq!([(); 2].map(|()| cost(&mut credits)), [3, 1]);
    assert_eq!(cost(&mut Credits::default()), 0);
}

#[test]
fn a_worker_that_does_not_tell_what_its_tasks_take_is_asked_nothing_of() {
    let asks = knows(request(1, vec![demand(CPU, [1000.0, 1.0, 1.0])]), &[1]);
    let mut credits = Credits::default();
    take(&mut credits, at(0), &asks);
    let hopeless = within(&CPU, 100.0, 1);
    assert!(keeps(&mut credits, &hopeless));
}

#[test]
fn a_run_costs_more_than_a_search_only_if_it_is_not_listed_or_has_a_deadline() {
    let mut asks = knows(request(1, Vec::new()), &[7, 3, 5]);
    let listed = asks.known.as_mut().expect("a list");
    (listed[1].remaining, listed[1].deadline) = (Some(1.0), Some(9.0));
    listed[2].remaining = Some(1.0);
    let known = KnownRuns::of(&asks);
    let weighed = (1..9).filter(|number| known.is_weighed(run(*number)));
    assert_eq!(weighed.collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8]);
    // A request without a list is accepted as complete.
    asks.known = None;
    assert!(!KnownRuns::of(&asks).is_weighed(run(1)));
}

#[test]
fn a_run_that_a_worker_must_list_and_does_not_is_told() {
    let sent = |number, acknowledged| Sent {
        invocation: run(number),
        task_work: Some(bufferable(&CPU, 60.0)),
        acknowledged,
    };
    let mut credits = Credits::default();
    let mut ask = |seq, now, known: &[i64], running: &[Sent<'_>]| {
        let asks = knows(request(seq, vec![demand(CPU, [0.0, 1.0, 1.0])]), known);
        let may = Readiness::MayWork;
        let (_, missing) = hear(&mut credits, now, &patient(), may, &asks, running);
        (missing, credits.violations())
    };
    // The runs are on their way or have just arrived; the request was written before.
    let young = [sent(1, None), sent(2, Some(at(1000)))];
    assert_eq!(ask(1, at(2000), &[], &young), (vec![], 0));
    assert_eq!(ask(2, at(601_000), &[1], &young), (vec![], 0));
    // One run was listed before, and the other has been there for longer than any message lives.
    assert_eq!(ask(3, at(601_001), &[], &young), (vec![run(1), run(2)], 2));
    // Each run is reported once, whether or not it is listed again meanwhile.
    assert_eq!(ask(4, at(601_001), &[], &young), (vec![], 2));
    assert_eq!(ask(5, at(601_001), &[1, 2], &young), (vec![], 2));
    assert_eq!(ask(6, at(601_001), &[2], &young), (vec![], 2));
    // A run that has ended is in neither list, and is forgotten.
    assert_eq!(ask(7, at(601_001), &[], &[]), (vec![], 2));
    assert_eq!(ask(8, at(601_001), &[7], &[sent(3, None)]), (vec![], 2));
    assert_eq!(credits.unlisted, []);
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
            credits.spend(at(begin), (run(9), &immediate(&CPU)));
        }
        fingerprint_of(|canon, hasher| {
            credits.shape(&mut Shape::new(at(begin + later), canon, hasher));
        })
    };
    assert_eq!(state(0, 1, 5), state(9000, 1, 5));
    assert_ne!(state(0, 1, 5), state(0, 2, 5));
    assert_ne!(state(0, 1, 5), state(0, 1, 6));
}
