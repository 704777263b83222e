//! Tests of the overview of a worker's work fetch.

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::work_overview::{Asks, AssociationFacts, Overview};
use brasserie_common::{Health, ReportedStatus, RequestId};
use brasserie_worker_fetch::Profile;

use super::fetching::fetch_work;
use crate::effect::{Effect, Reply};
use crate::worker::rig::*;
use crate::{Event, WorkFetch};

/// Returns the overview of the work fetch.
pub(super) fn look(rig: &mut Rig) -> Option<Box<Overview>> {
    let request = RequestId(77);
    let effects = rig.hear(Event::ShowWorkFetch { request });
    let answers: Vec<_> = effects
        .into_iter()
        .filter_map(|effect| match effect {
            Effect::Reply {
                request: RequestId(77),
                reply: Ok(Reply::WorkFetch(overview)),
            } => Some(overview),
            _ => None,
        })
        .collect();
    let [answer] = <[_; 1]>::try_from(answers).expect("one answer");
    answer
}

#[test]
fn a_worker_that_takes_what_it_is_sent_says_so() {
    assert_eq!(look(&mut Rig::joined()), None);
}

#[test]
fn a_look_counts_what_runs_what_waits_and_what_is_not_acknowledged() {
    let work_fetch = WorkFetch::new(Profile::CLUSTER, 1);
    let mut rig = Rig::with(|options| options.work_fetch = Some(work_fetch)).join();
    rig.hear(Event::UsableResources(UsablePhysicalResources {
        cpu_cores: 2.0,
        ..UsablePhysicalResources::default()
    }));
    for (node, number) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        let mut run = run(1, 0, task(node, number));
        run.task.work.bufferable = true;
        run.task.work.est_duration = Some(1.0);
        rig.run(run);
    }
    // A failed run says nothing about the run times of other tasks.
    rig.end("a", 1, ReportedStatus::failed());
    let overview = look(&mut rig).expect("it fetches work");
    assert_eq!(overview.profile, "cluster");
    assert_eq!(
        (overview.of_type.len(), overview.of_type[0].instances),
        (1, 2.0)
    );
    let [association] = &overview.of_association[..] else {
        panic!("one scheduler: {overview:?}");
    };
    let expected = AssociationFacts {
        shard: rig.own().description().shard.clone(),
        scheduler: Some(scheduler(1)),
        health: Health::Healthy,
        running: 2,
        executing: 2,
        stopped: 0,
        waiting: 2,
        unacknowledged: 1,
    };
    assert_eq!(association.facts, Some(expected));
    assert_eq!(association.of_type[0].runnable, 4);
    assert_eq!(association.of_type[0].queued, 4.0);
    // The request for an overview changes nothing.
    assert_eq!(look(&mut rig), Some(overview));
}

/// Returns a worker with one processor whose reports of completions are in flight without outcomes.
fn with_ends_on_their_way() -> Rig {
    let work_fetch = WorkFetch::new(Profile::CLUSTER, 1);
    let mut rig = Rig::with(|options| options.work_fetch = Some(work_fetch)).join();
    for (node, number) in [("a", 1), ("b", 2), ("c", 3)] {
        rig.run(run(1, 0, task(node, number)));
        rig.end(node, number, ReportedStatus::done());
    }
    rig
}

/// Returns why the only scheduler is not asked.
fn reason(rig: &mut Rig) -> Option<String> {
    let overview = look(rig).expect("it fetches work");
    overview.of_association[0].reason.clone()
}

/// Returns when the only scheduler is asked for an operator's wish.
fn asks(rig: &mut Rig) -> Asks {
    let effects = rig.hear(fetch_work(None));
    let mut wishes = effects.into_iter().filter_map(|effect| match effect {
        Effect::Reply {
            reply: Ok(Reply::WorkWishes(wishes)),
            ..
        } => Some(wishes),
        _ => None,
    });
    wishes.next().expect("an answer").remove(0).asks
}

#[test]
fn who_does_not_answer_is_said_not_to_and_not_what_follows_from_it() {
    let mut rig = with_ends_on_their_way();
    let choked = Some("too many ended tasks unacknowledged");
    assert_eq!(reason(&mut rig).as_deref(), choked);
    // The next heartbeats fail, while the worker still considers itself HEALTHY.
    rig.wait(20_000);
    let beat = rig.last_beat();
    rig.completed(beat, not_sent());
    assert_eq!(rig.own().health(), Health::Healthy);
    let why = reason(&mut rig).expect("there is nobody");
    let start = "has not answered for 20s: ";
    assert!(
        why.starts_with(start) && why.ends_with("connection refused"),
        "{why}"
    );
    let Asks::Later { left: _, why: told } = asks(&mut rig) else {
        panic!("it is asked in vain");
    };
    assert_eq!(told, format!("it {why}"));
    // The reason stays the same once the worker considers itself UNHEALTHY.
    rig.wait(200_000);
    assert_ne!(rig.own().health(), Health::Healthy);
    let why = reason(&mut rig).expect("there is nobody");
    assert!(why.starts_with("has not answered for 220s: "), "{why}");
    // The scheduler is back, and has not acknowledged anything yet.
    let beat = rig.last_beat();
    rig.heartbeat_answered(beat, 1, 1, Health::Unhealthy);
    let unhealthy = Some("does not take the worker for healthy");
    assert_eq!(reason(&mut rig).as_deref(), unhealthy);
    assert!(
        matches!(asks(&mut rig), Asks::Later { why, .. } if why.starts_with("it does not take the worker for healthy"))
    );
}

#[test]
fn who_has_never_answered_is_said_not_to_have() {
    let work_fetch = WorkFetch::new(Profile::CLUSTER, 1);
    let mut rig = Rig::with(|options| options.work_fetch = Some(work_fetch));
    assert_eq!(reason(&mut rig).as_deref(), Some("has not answered yet"));
    rig.wait(0);
    let beat = rig.last_beat();
    rig.completed(beat, refused());
    let why = reason(&mut rig).expect("it is refused");
    assert!(
        why.starts_with("has not given an answer that counts: ") && why.ends_with("not now"),
        "{why}"
    );
}

#[test]
fn who_leaves_says_so() {
    let mut rig = with_ends_on_their_way();
    rig.run(run(1, 0, task("d", 4)));
    rig.hear(Event::Drain);
    assert_eq!(reason(&mut rig).as_deref(), Some("no more work wanted"));
    rig.hear(Event::Shutdown);
    let ends = Some("the worker takes no more work for it: it drains, or ends");
    assert_eq!(reason(&mut rig).as_deref(), ends);
}
