//! Tests of the texts about requests for people.

use super::*;

/// Returns a result with five ready tasks, of which one would be late.
fn five(_: &Processor) -> PlacementResult {
    PlacementResult {
        candidates: 5,
        late: 1,
        apps: Apps::Some,
    }
}

fn shown(credits: &Credits, now: Time) -> String {
    let asked = credits.asked(now, five);
    asked.map_or_else(|| "nobody asked".to_owned(), |asked| asked.to_string())
}

/// Returns the reasons for a task that may be queued, and for one that may not.
fn why(credits: &Credits, now: Time) -> [String; 2] {
    [TaskClass::Bufferable, TaskClass::Immediate].map(|class| {
        let why = credits.why_not_sent(now, &CPU, class);
        why.map_or_else(|| "it is".to_owned(), |why| why.to_string())
    })
}

fn asks(credits: &mut Credits, demands: Vec<WorkDemand>) {
    take(credits, at(0), &request(1, demands));
    credits.end_pass(at(0), five);
}

#[test]
fn whoever_never_asked_has_nothing_to_show() {
    let credits = Credits::default();
    assert_eq!(shown(&credits, at(0)), "nobody asked");
    assert_eq!(why(&credits, at(0)), ["it is", "it is"]);
    let credits = Credits::new(Supply::AsAsked);
    assert_eq!(shown(&credits, at(0)), "nobody asked");
    let not_yet = "asks for the work that it wants, and has not yet";
    assert_eq!(why(&credits, at(0)), [not_yet, not_yet]);
}

#[test]
fn what_is_left_falls_with_each_task_and_ends_with_the_time() {
    let mut credits = Credits::default();
    let of_cards = demand(gpu(), [0.0; 3]);
    asks(&mut credits, vec![demand(CPU, [90.0, 2.0, 1.0]), of_cards]);
    assert_eq!(
        shown(&credits, at(1500)),
        "asked for work 1500ms ago, and gets for 118s more: CPU 90 s of work, or for 2 instances, 1 idle \
         (0 sent, 5 ready, 1 would be late); H100 nothing (0 sent, 5 ready, 1 would be late)"
    );
    assert_eq!(why(&credits, at(1500)), ["it is", "it is"]);
    credits.spend(at(2000), (run(1), &bufferable(&CPU, 60.5)));
    assert_eq!(
        shown(&credits, at(2000)),
        "asked for work 2s ago, and gets for 118s more: CPU 29.5 s of work, or for 1 instance (1 sent, 5 ready, 1 would be \
         late); H100 nothing (0 sent, 5 ready, 1 would be late)"
    );
    assert_eq!(
        why(&credits, at(2000)),
        [
            "it is",
            "asked for work 2s ago, and has no idle CPU for this task, which may not wait there (`bufferable`)"
        ]
    );
    credits.spend(at(3000), (run(2), &bufferable(&CPU, 60.5)));
    assert_eq!(
        why(&credits, at(3000))[0],
        "asked for work 3s ago, and was sent 2 tasks, all that it wanted for CPU"
    );
    credits.expire(at(120_001));
    assert_eq!(
        shown(&credits, at(130_000)),
        "asked for work 130s ago, which is over: CPU nothing (2 sent, 5 ready, 1 would be late); H100 nothing (0 sent, 5 \
         ready, 1 would be late)"
    );
    assert_eq!(
        why(&credits, at(130_000)),
        [
            "asked for work 130s ago, and that is over: it asks again when it needs more",
            "asked for work 130s ago, and that is over: this task may not wait there (`bufferable`), and is sent when it asks \
             for an idle CPU"
        ]
    );
}

#[test]
fn only_what_is_idle_is_wanted() {
    let mut credits = Credits::default();
    asks(&mut credits, vec![demand(CPU, [0.0, 0.0, 2.0])]);
    let text = shown(&credits, at(0));
    assert!(
        text.contains(": CPU work for 2 idle instances (0 sent"),
        "{text}"
    );
    assert_eq!(
        why(&credits, at(0)),
        [
            "asked for work 0s ago, and has all that it wanted for CPU",
            "it is"
        ]
    );
}

#[test]
fn a_worker_may_have_enough_or_what_it_wants_may_be_on_its_way() {
    let mut credits = Credits::default();
    asks(&mut credits, vec![demand(CPU, [0.0; 3])]);
    let [why_not, _] = why(&credits, at(0));
    assert_eq!(
        why_not,
        "asked for work 0s ago, and wanted none for CPU: it has enough"
    );
    let sent = Sent {
        invocation: run(1),
        task_work: Some(bufferable(&CPU, 60.0)),
        acknowledged: None,
    };
    let wanted = request(2, vec![demand(CPU, [30.0, 1.0, 0.0])]);
    take_with(&mut credits, at(0), &wanted, &patient(), &[sent]);
    credits.end_pass(at(0), five);
    let [why_not, _] = why(&credits, at(0));
    assert_eq!(
        why_not,
        "asked for work 0s ago, and what it wanted for CPU is on its way"
    );
}

#[test]
fn a_worker_may_not_have_asked_for_a_type() {
    let mut credits = Credits::default();
    asks(&mut credits, vec![demand(gpu(), [90.0, 1.0, 1.0])]);
    let [may_wait, may_not] = why(&credits, at(2000));
    let text = "asked for work 2s ago, and not for CPU: it does not ask for that type";
    assert_eq!([may_wait.as_str(), may_not.as_str()], [text; 2]);
    // The next request will not mention the type either.
    let text = "asked for work 130s ago, and not for CPU: it does not ask for that type";
    assert_eq!(why(&credits, at(130_000)), [text; 2]);
}
