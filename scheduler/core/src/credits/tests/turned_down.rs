//! Tests of tasks that a worker refused for want of GPUs.

use super::*;

/// Returns a request of a worker that chooses GPUs itself.
fn choosing(seq: u64, amounts: [f64; 3]) -> WorkRequest {
    WorkRequest {
        cards: CardChoice::Worker,
        ..request(seq, vec![demand(gpu(), amounts), demand(CPU, amounts)])
    }
}

fn amounts(credits: &Credits, of: &Processor) -> Amounts {
    let newest = credits.newest.as_ref().expect("a request");
    newest.of(of).expect("it was asked for").amounts
}

fn unlisted<'a>(number: i64, task_work: TaskWork<'a>) -> Sent<'a> {
    Sent {
        invocation: run(number),
        task_work: Some(task_work),
        acknowledged: None,
    }
}

#[test]
fn all_that_it_took_is_there_again_once() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &choosing(1, [90.0, 1.0, 1.0]));
    let before = amounts(&credits, &gpu());
    let tasks_left = |credits: &Credits| credits.newest.as_ref().map(|newest| newest.tasks_left);
    let tasks_before = tasks_left(&credits);
    for number in 0..3 {
        credits.spend(at(0), (run(number), &immediate(&gpu())));
        assert!(eligible(&credits, at(0), &immediate(&gpu())).is_err());
        assert!(credits.turned_down(at(0), run(number)));
        assert_eq!(amounts(&credits, &gpu()), before);
        assert_eq!(tasks_left(&credits), tasks_before);
        // The amounts come back only once.
        assert!(!credits.turned_down(at(0), run(number)));
        assert_eq!(amounts(&credits, &gpu()), before);
    }
    // The amounts that other tasks took meanwhile stay taken.
    let part = TaskWork::new(&CPU, 0.5, 10.0, TaskClass::Immediate, None);
    credits.spend(at(0), (run(7), &part));
    assert_eq!(amounts(&credits, &gpu()), before);
}

#[test]
fn only_what_may_not_wait_and_wants_cards_that_its_worker_chooses_is_there_again() {
    let of_scheduler = WorkRequest {
        cards: CardChoice::Scheduler,
        ..choosing(1, [90.0, 1.0, 1.0])
    };
    let of_worker = choosing(1, [90.0, 1.0, 1.0]);
    for (request, task_work) in [
        (&of_worker, bufferable(&gpu(), 10.0)),
        (&of_worker, immediate(&CPU)),
        (&of_scheduler, immediate(&gpu())),
    ] {
        let mut credits = Credits::default();
        take(&mut credits, at(0), request);
        credits.spend(at(0), (run(1), &task_work));
        let before = credits.clone();
        assert!(!credits.turned_down(at(0), run(1)));
        assert_eq!(credits, before);
    }
}

#[test]
fn sums_that_are_rounded_come_to_no_more_than_was_asked_for() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &choosing(1, [0.3, 0.3, 0.3]));
    let asked = amounts(&credits, &gpu());
    let of = gpu();
    let works = [0.1, 0.7, 0.2, 1.1].map(|n| TaskWork::new(&of, n, n, TaskClass::Immediate, None));
    for (number, task_work) in (0..).zip(&works) {
        credits.spend(at(0), (run(number), task_work));
    }
    for number in [2, 0, 3, 1] {
        credits.turned_down(at(0), run(number));
        let left = amounts(&credits, &gpu());
        assert!(left.secs <= asked.secs && left.instances <= asked.instances);
        assert!(left.delay >= asked.delay);
    }
    let left = amounts(&credits, &gpu());
    assert!(
        (left.secs - 0.3).abs() < 1e-9 && (left.idle - 0.3).abs() < 1e-9,
        "{left:?}"
    );
}

#[test]
fn what_was_on_its_way_when_the_request_came_is_there_again_too() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &choosing(1, [0.0, 0.0, 1.0]));
    credits.spend(at(0), (run(1), &immediate(&gpu())));
    let next = choosing(2, [0.0, 0.0, 1.0]);
    let of = gpu();
    let sent = unlisted(1, immediate(&of));
    take_with(&mut credits, at(10), &next, &patient(), &[sent]);
    assert!(eligible(&credits, at(10), &immediate(&gpu())).is_err());
    let tasks_left = |credits: &Credits| credits.newest.as_ref().map(|newest| newest.tasks_left);
    let tasks_before = tasks_left(&credits);
    assert!(credits.turned_down(at(20), run(1)));
    assert!(eligible(&credits, at(20), &immediate(&gpu())).is_ok());
    // The task was not sent for this request.
    assert_eq!(tasks_left(&credits), tasks_before);
    // The task is not on its way any more, so the verdict has another reason.
    credits.end_pass(at(20), |_| found(1, 0));
    assert_eq!(verdicts(&credits)[0], WorkVerdict::Limited);
}

#[test]
fn a_request_that_lists_it_or_is_over_gets_nothing_back() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &choosing(1, [0.0, 0.0, 1.0]));
    credits.spend(at(0), (run(1), &immediate(&gpu())));
    let next = knows(choosing(2, [0.0, 0.0, 0.5]), &[1]);
    let listed = Sent {
        invocation: run(1),
        task_work: None,
        acknowledged: None,
    };
    take_with(&mut credits, at(10), &next, &patient(), &[listed]);
    let before = amounts(&credits, &gpu());
    credits.turned_down(at(10), run(1));
    assert_eq!(amounts(&credits, &gpu()), before);

    credits.spend(at(10), (run(2), &immediate(&gpu())));
    credits.clear();
    let before = amounts(&credits, &gpu());
    credits.turned_down(at(10), run(2));
    assert_eq!(amounts(&credits, &gpu()), before);
    assert!(eligible(&credits, at(10), &immediate(&gpu())).is_err());
}

#[test]
fn it_stays_away_until_something_ends_there_or_for_five_seconds() {
    let mut credits = Credits::default();
    take(&mut credits, at(0), &choosing(1, [0.0, 0.0, 1.0]));
    assert!(!credits.forget_turned_down());
    credits.spend(at(0), (run(1), &immediate(&gpu())));
    credits.turned_down(at(1000), run(1));
    // Another refusal changes nothing: the first task must not wait for ever.
    credits.spend(at(2000), (run(2), &immediate(&gpu())));
    credits.turned_down(at(2000), run(2));
    assert_eq!(credits.next_change(at(2001)), Some(at(6000)));
    assert!(!credits.expire_turned_down(at(5999)));
    // The wait goes on, whatever happens to the request and the association.
    credits.begin_anew();
    assert_eq!(credits.next_change(at(2001)), Some(at(6000)));
    assert!(credits.expire_turned_down(at(6000)));
    assert_eq!(credits.next_change(at(6000)), None);
    assert!(!credits.expire_turned_down(at(6000)));

    take(&mut credits, at(7000), &choosing(2, [0.0, 0.0, 1.0]));
    credits.spend(at(7000), (run(3), &immediate(&gpu())));
    credits.turned_down(at(7000), run(3));
    assert!(credits.forget_turned_down());
    assert!(!credits.expire_turned_down(at(20_000)));
}
