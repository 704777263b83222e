//! What people see of a worker's work fetch.

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::work_overview::{AssociationFacts, Overview};
use brasserie_common::{Health, ReportedStatus, RequestId};

use crate::effect::{Effect, Reply};
use crate::work_fetch::Profile;
use crate::worker::rig::*;
use crate::{Event, WorkFetch};

/// The answer to whoever looks.
fn look(rig: &mut Rig) -> Option<Box<Overview>> {
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
    // It fails: how long it took says nothing of the others.
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
        waiting: 2,
        unacknowledged: 1,
    };
    assert_eq!(association.facts, Some(expected));
    assert_eq!(association.of_type[0].runnable, 4);
    assert_eq!(association.of_type[0].queued, 4.0);
    // Nothing is another for having been looked at.
    assert_eq!(look(&mut rig), Some(overview));
}
