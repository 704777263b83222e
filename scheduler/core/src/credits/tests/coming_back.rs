//! Tests of idle instances that come back with the ends of runs.

use super::*;

/// Returns a request for idle instances of four, while this many tasks are queued.
fn standing(seq: u64, idle: f64, waiting: f64) -> WorkRequest {
    let demand = WorkDemand {
        waiting: Some(waiting),
        ..demand(CPU, [0.0, 0.0, idle])
    };
    request(seq, vec![demand])
}

fn spend(credits: &mut Credits, number: i64, task_work: &TaskWork<'_>) {
    credits.spend(at(0), (run(number), task_work));
}

fn may_send(credits: &Credits) -> bool {
    eligible(credits, at(0), &immediate(&CPU)).is_ok()
}

#[test]
fn each_end_leaves_room_for_one_task_with_no_request_between() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &standing(1, 1.0, 0.0));
    for number in 0..50 {
        assert!(may_send(&credits), "{number}");
        spend(&mut credits, number, &immediate(&CPU));
        assert!(!may_send(&credits), "{number}");
        assert!(credits.give_back(at(0), run(number)));
        // The instances come back only once, and not from a run that never began.
        assert!(!credits.give_back(at(0), run(number)));
        spend(&mut credits, 100 + number, &immediate(&CPU));
        credits.ended(at(0), run(100 + number));
        assert!(!may_send(&credits), "{number}");
        take(
            &mut credits,
            at(0),
            &standing(2 + number.cast_unsigned(), 1.0, 0.0),
        );
    }
}

#[test]
fn nothing_comes_back_to_who_does_not_say_what_waits() {
    let mut credits = Credits::default();
    let one = request(1, vec![demand(CPU, [0.0, 0.0, 1.0])]);
    take(&mut credits, at(0), &one);
    spend(&mut credits, 1, &immediate(&CPU));
    assert!(!credits.give_back(at(0), run(1)));
    assert!(!may_send(&credits));
}

#[test]
fn those_who_wait_come_first() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &standing(1, 2.0, 0.0));
    spend(&mut credits, 1, &immediate(&CPU));
    spend(&mut credits, 2, &immediate(&CPU));
    // One task is queued, and the other two are counted.
    take_with(
        &mut credits,
        at(0),
        &knows(standing(2, 0.0, 1.0), &[1, 2]),
        &patient(),
        &[1, 2].map(|number| Sent {
            invocation: run(number),
            task_work: None,
            acknowledged: None,
        }),
    );
    assert!(!credits.give_back(at(0), run(1)));
    assert!(!may_send(&credits));
    assert!(credits.give_back(at(0), run(2)));
    assert!(may_send(&credits));
}

#[test]
fn what_was_sent_to_wait_comes_first_too() {
    let mut credits = Credits::default();
    let demand = WorkDemand {
        waiting: Some(0.0),
        ..demand(CPU, [1000.0, 0.0, 1.0])
    };
    take(&mut credits, at(0), &request(1, vec![demand]));
    for number in 1..=3 {
        spend(&mut credits, number, &bufferable(&CPU, 10.0));
    }
    // One task runs, and two are queued.
    for (number, is_room) in [(1, false), (2, false), (3, true)] {
        credits.give_back(at(0), run(number));
        assert_eq!(may_send(&credits), is_room, "{number}");
    }
}

#[test]
fn what_was_idle_already_does_not_come_back_again() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &standing(1, 1.0, 0.0));
    spend(&mut credits, 1, &immediate(&CPU));
    // The completion of the run is on its way, and its instance is among the idle ones.
    let known = KnownTask {
        invocation: run(1),
        remaining: Some(0.0),
        deadline: None,
    };
    let again = WorkRequest {
        known: Some(vec![known]),
        ..standing(2, 1.0, 0.0)
    };
    let sent = Sent {
        invocation: run(1),
        task_work: None,
        acknowledged: None,
    };
    take_with(&mut credits, at(0), &again, &patient(), &[sent]);
    spend(&mut credits, 2, &immediate(&CPU));
    assert!(!credits.give_back(at(0), run(1)));
    assert!(!may_send(&credits));
}

#[test]
fn nothing_comes_back_when_the_credit_is_over() {
    let over: [fn(&mut Credits) -> Time; 2] = [
        |_| at(121_000),
        |credits| {
            credits.clear();
            at(0)
        },
    ];
    for end in over {
        let mut credits = Credits::default();
        take(&mut credits, at(0), &standing(1, 1.0, 0.0));
        spend(&mut credits, 1, &immediate(&CPU));
        credits.end_pass(at(0), |_| found(1, 0));
        let now = end(&mut credits);
        assert!(!credits.give_back(now, run(1)));
        assert!(eligible(&credits, now, &immediate(&CPU)).is_err());
    }
}

/// Returns a request for two models of GPUs, with this many idle ones of each, and no queued tasks.
fn of_two(seq: u64, idle: [f64; 2]) -> WorkRequest {
    let [a, b] = idle.map(|idle| WorkDemand {
        waiting: Some(0.0),
        ..demand(CPU, [0.0, 0.0, idle])
    });
    let b = WorkDemand {
        processor: Processor::named("B"),
        ..b
    };
    let a = WorkDemand {
        processor: Processor::named("A"),
        ..a
    };
    request(seq, vec![a, b])
}

/// Returns for A and B whether tasks that may not be queued may be sent.
fn idle(credits: &Credits) -> [bool; 2] {
    ["A", "B"].map(|model| {
        let of = Processor::named(model);
        eligible(credits, at(0), &immediate(&of)).is_ok()
    })
}

#[test]
fn instances_are_idle_again_of_the_type_that_their_worker_counted() {
    let (a, b) = (Processor::named("A"), Processor::named("B"));
    // The run was sent as A, and had B. Its worker has counted that, or has not yet.
    for (is_listed, idle_after) in [(true, [false, true]), (false, [true, false])] {
        let mut credits = Credits::default();
        take(&mut credits, at(0), &of_two(1, [1.0, 0.0]));
        credits.spend(at(0), (run(1), &immediate(&a)));
        if is_listed {
            let next = knows(of_two(2, [0.0, 0.0]), &[1]);
            let sent = Sent {
                invocation: run(1),
                task_work: None,
                acknowledged: None,
            };
            take_with(&mut credits, at(0), &next, &patient(), &[sent]);
        }
        assert_eq!(idle(&credits), [false, false]);
        credits.ran_on(run(1), b.clone());
        assert!(credits.give_back(at(0), run(1)));
        assert_eq!(idle(&credits), idle_after);
    }
}
