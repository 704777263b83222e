//! Tests of the requested amounts.

use super::super::super::job_sched::Preemption;
use super::super::{Demand, PairReason};
use super::rig::{A, B, CARDS, CPU, FetchRig};

/// Returns a worker with four CPUs that are busy for five seconds, less than the low water mark.
fn scene() -> FetchRig {
    let mut scene = FetchRig::new(4, &[]);
    scene.saturate(CPU, 5.0);
    scene
}

#[test]
fn seconds_are_what_is_missing_until_the_high_mark() {
    let mut scene = scene();
    scene.pair(A, CPU).used_by_all = 4.0;
    let expected = Demand {
        secs: 100.0,
        instances: 0.0,
        idle: 0.0,
        estimated_delay: 0.0,
    };
    assert_eq!(scene.demand(A), expected);
    scene.outlook.of_type[CPU].busy = 3.0;
    scene.outlook.of_type[CPU].idle_now = 0.5;
    let expected = Demand {
        instances: 0.5,
        idle: 0.5,
        estimated_delay: 3.0,
        ..expected
    };
    assert_eq!(scene.demand(A), expected);
}

#[test]
fn instances_are_what_is_missing_of_its_share_or_what_idles() {
    // Each row: the two shares, the use by its tasks, the idle instances, and the requested instances.
    for (shares, used, idle, instances) in [
        ([100.0, 100.0], 0.0, 0.0, 2.0),
        ([100.0, 100.0], 1.5, 0.0, 0.5),
        ([100.0, 100.0], 3.0, 0.0, 0.0),
        ([100.0, 100.0], 3.0, 1.0, 1.0),
        ([300.0, 100.0], 0.0, 1.0, 3.0),
        ([300.0, 0.0], 0.0, 0.0, 4.0),
        ([f64::INFINITY, 100.0], 0.0, 0.0, 4.0),
        ([100.0, f64::NAN], f64::NAN, f64::NAN, 4.0),
        ([100.0, 100.0], f64::INFINITY, -1.0, 0.0),
    ] {
        let mut scene = scene();
        scene.associate(0.0, 0.0);
        for (association, share) in scene.associations.iter_mut().zip(shares) {
            association.share = share;
        }
        scene.outlook.of_type[CPU].idle_now = idle;
        scene.pair(A, CPU).used_by_all = used;
        assert_eq!(
            scene.demand(A).instances,
            instances,
            "{shares:?} {used} {idle}"
        );
    }
}

#[test]
fn a_share_is_one_of_those_that_can_be_asked_for_the_type() {
    let mut scene = FetchRig::new(4, &[4]);
    scene.associate(300.0, 0.0);
    let share = |scene: &FetchRig, of, of_type| scene.survey().fetchable_share(of, of_type);
    assert_eq!((share(&scene, A, CPU), share(&scene, B, CPU)), (0.25, 0.75));
    scene.sources[1].of_type[CPU].no_apps = true;
    assert_eq!((share(&scene, A, CPU), share(&scene, B, CPU)), (1.0, 3.0));
    assert_eq!(
        (share(&scene, A, CARDS), share(&scene, B, CARDS)),
        (0.25, 0.75)
    );
    scene.sources[1].list_pending = true;
    assert_eq!(
        (share(&scene, A, CARDS), share(&scene, B, CARDS)),
        (1.0, 3.0)
    );
    // No scheduler can be asked.
    scene.sources[0].suspended = true;
    assert_eq!(
        (share(&scene, A, CARDS), share(&scene, B, CARDS)),
        (1.0, 1.0)
    );
}

/// The scheduler that is not asked has three times the share of the other one.
#[test]
fn a_scheduler_that_is_not_asked_may_have_nothing() {
    let mut scene = FetchRig::new(4, &[]);
    scene.associate(300.0, 0.0);
    let may_have = |scene: &FetchRig| [A, B].map(|of| scene.survey().may_have(of, CPU));
    assert_eq!(may_have(&scene), [0.25, 0.75]);
    scene.back_off(B, CPU);
    assert_eq!(may_have(&scene), [1.0, 0.0]);
    scene.sources[0].no_more_work = true;
    assert_eq!(may_have(&scene), [0.0, 0.0]);
}

/// If one of hundreds of schedulers could fill the buffer, each would wait days for its next turn.
#[test]
fn of_many_schedulers_none_is_asked_for_more_than_eight_times_its_part() {
    for (schedulers, secs, instances) in [(1, 1200.0, 40.0), (8, 1200.0, 40.0), (40, 240.0, 8.0)] {
        let mut scene = FetchRig::new(40, &[]);
        for _ in 1..schedulers {
            scene.associate(100.0, 0.0);
        }
        let demand = scene.demand(A);
        let told = (demand.secs, demand.instances, demand.idle);
        assert_eq!(told, (secs, instances, instances), "{schedulers}");
    }
    // Each request is for at least one task.
    let mut scene = FetchRig::new(4, &[]);
    for _ in 0..999 {
        scene.associate(100.0, 0.0);
    }
    let demand = scene.demand(A);
    assert_eq!((demand.secs, demand.idle), (1.0, 1.0));
}

/// Estimates a hundred times too low would bring a hundred times the work that the worker can do.
#[test]
fn before_a_task_has_succeeded_one_task_is_asked_for_each_instance() {
    let mut scene = scene();
    scene.sources[0].is_tried = false;
    let demand = scene.demand(A);
    assert_eq!((demand.secs, demand.instances), (1.0, 4.0));
    scene.pair(A, CPU).used_by_all = 4.0;
    // Each instance has a task. The worker asks again once an instance is idle or a task has completed.
    assert_eq!(scene.demand(A), Demand::default());
    // A task that stops another need not wait for a completion.
    scene.preemption = Preemption::Suspend;
    assert_eq!((scene.demand(A).secs, scene.demand(A).idle), (1.0, 0.0));
    scene.preemption = Preemption::Off;
    scene.outlook.of_type[CPU].idle_now = 1.0;
    assert_eq!(scene.demand(A).secs, 1.0);
    scene.outlook.of_type[CPU].idle_now = 0.0;
    scene.sources[0].is_tried = true;
    assert_eq!(scene.demand(A).secs, 100.0);
}

#[test]
fn nobody_is_asked_for_more_instances_than_there_are() {
    // The sum of the shares does not include the scheduler's own share.
    let mut scene = FetchRig::new(4, &[]);
    scene.associate(1.0, 0.0);
    scene.back_off(A, CPU);
    scene.outlook.of_type[CPU].idle_now = 0.0;
    assert_eq!(
        scene.survey().pair_reason(A, CPU),
        Some(PairReason::BackedOff)
    );
    assert_eq!(scene.survey().fetchable_share(A, CPU), 100.0);
    assert_eq!(scene.demand(A).instances, 4.0);
}

#[test]
fn seconds_are_those_of_the_scheduler() {
    for (correction, secs) in [
        (1.0, 100.0),
        // Its tasks take a hundred times its estimates, or a hundredth.
        (100.0, 1.0),
        (0.01, 10_000.0),
        // An invalid factor has no effect.
        (0.0, 100.0),
        (-1.0, 100.0),
        (f64::NAN, 100.0),
        // The result would round to nothing.
        (f64::INFINITY, 1e-28),
        (1e32, 1e-28),
    ] {
        let mut scene = scene();
        scene.sources[0].correction = correction;
        assert_eq!(scene.demand(A).secs, secs, "{correction}");
    }
    let mut scene = scene();
    scene.sources[0].correction = 1e30;
    scene.outlook.of_type[CPU].shortfall = 1e-20;
    assert_eq!(scene.demand(A).secs, 1.0);
}

#[test]
fn instances_without_seconds_are_asked_for_with_one() {
    let mut scene = scene();
    scene.outlook.of_type[CPU].shortfall = 0.0;
    let demand = scene.demand(A);
    assert_eq!((demand.secs, demand.instances), (1.0, 4.0));
    // Nothing is asked for if neither seconds nor instances are missing.
    scene.pair(A, CPU).used_by_all = 4.0;
    scene.outlook.of_type[CPU].busy = 3.0;
    assert_eq!(scene.survey().piggyback(A), None);
    assert_eq!(scene.survey().choose(), None);
}

#[test]
fn with_limits_it_is_what_they_leave() {
    let mut scene = scene();
    scene.associations[0].max_concurrent = Some(3);
    scene.outlook.of_type[CPU].idle_now = 4.0;
    scene.pair(A, CPU).limited_shortfall = 7.0;
    scene.task(A, 10.0);
    let expected = Demand {
        secs: 7.0,
        instances: 0.0,
        // One task of the scheduler is already here.
        idle: 2.0,
        estimated_delay: 0.0,
    };
    assert_eq!(scene.demand(A), expected);
    for _ in 0..4 {
        scene.task(A, 10.0);
    }
    assert_eq!(scene.demand(A).idle, 0.0);
    // A limit of one scheduler does not change the total shortfall.
    scene.associate(100.0, 1.0);
    scene.pair(A, CPU).limited_shortfall = 0.0;
    scene.outlook.of_type[CPU].idle_now = 0.0;
    assert_eq!(scene.survey().piggyback(A), None);
    let request = scene.survey().choose().unwrap();
    assert_eq!((request.association, request.of_type[CPU].secs), (B, 100.0));
}

#[test]
fn limits_of_jobs_alone_say_nothing_of_those_of_others() {
    let mut scene = scene();
    scene.associations[0].max_concurrent_of_jobs = [(1, 1)].into();
    scene.outlook.of_type[CPU].idle_now = 4.0;
    scene.pair(A, CPU).limited_shortfall = 7.0;
    scene.task(A, 10.0);
    let demand = scene.demand(A);
    assert_eq!(
        (demand.secs, demand.instances, demand.idle),
        (7.0, 0.0, 4.0)
    );
}
