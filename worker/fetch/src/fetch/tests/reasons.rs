//! Tests of each reason against a request, alone and in the order of precedence.

use super::super::super::profile::Profile;
use super::super::super::types::TaskStage;
use super::super::{AssociationReason, PairReason, Source};
use super::rig::{A, B, CARDS, CPU, FetchRig, at};

type Change = fn(&mut FetchRig);

/// The reasons in their order.
const OF_ASSOCIATION: [(AssociationReason, Change); 7] = [
    (AssociationReason::Suspended, |scene| {
        scene.sources[0].suspended = true;
    }),
    (AssociationReason::ListPending, |scene| {
        scene.sources[0].list_pending = true;
    }),
    (AssociationReason::NoMoreWork, |scene| {
        scene.sources[0].no_more_work = true;
    }),
    (AssociationReason::InputsStalled, |scene| {
        scene.task(A, 1.0).stage = TaskStage::WaitingForInputs { stalled: true };
    }),
    (AssociationReason::TooManyUnacknowledged, |scene| {
        scene.sources[0].unacknowledged = 9;
    }),
    (AssociationReason::TooManyRunnable, |scene| {
        for _ in 0..=scene.profile.max_runnable {
            scene.task(A, 0.0);
        }
    }),
    (AssociationReason::MinRpcTime, |scene| {
        scene.sources[0].min_rpc_time = at(1000.001);
    }),
];

/// The reasons for the CPU in their order.
const OF_PAIR: [(PairReason, Change); 4] = [
    (PairReason::NoApps, |scene| {
        scene.sources[0].of_type[CPU].no_apps = true;
    }),
    (PairReason::ZeroShare, |scene| {
        scene.associations[0].share = 0.0;
        scene.saturate(CPU, 2.001);
    }),
    (PairReason::MaxConcurrent, |scene| {
        scene.outlook.of_association[0].limited_at = Some(30.001);
    }),
    (PairReason::BackedOff, |scene| scene.back_off(A, CPU)),
];

/// Returns a worker with two CPUs and four GPUs, and two schedulers.
fn scene() -> FetchRig {
    let mut scene = FetchRig::new(2, &[4]);
    scene.associate(100.0, 0.0);
    scene
}

#[test]
fn nothing_speaks_against_a_scheduler_of_which_nothing_is_known() {
    let scene = scene();
    let survey = scene.survey();
    for of in [A, B] {
        assert_eq!(survey.reason(of), None);
        assert_eq!(survey.pair_reason(of, CPU), None);
        assert_eq!(survey.pair_reason(of, CARDS), None);
    }
}

#[test]
fn each_reason_keeps_the_scheduler_from_being_asked() {
    for (reason, bring_about) in OF_ASSOCIATION {
        let mut scene = scene();
        bring_about(&mut scene);
        assert_eq!(scene.survey().reason(A), Some(reason));
        assert_eq!(scene.survey().reason(B), None);
        assert_eq!(scene.chosen(), Some((B, vec![0, 1])), "{reason}");
    }
}

#[test]
fn each_reason_keeps_the_type_from_being_asked_for() {
    for (reason, bring_about) in OF_PAIR {
        let mut scene = scene();
        scene.saturate(CARDS, 1000.0);
        bring_about(&mut scene);
        assert_eq!(scene.survey().reason(A), None);
        assert_eq!(scene.survey().pair_reason(A, CPU), Some(reason));
        assert_eq!(scene.survey().pair_reason(B, CPU), None);
        assert_eq!(scene.chosen(), Some((B, vec![0])), "{reason}");
    }
    // Most reasons concern one type, but limits concern all.
    for (reason, bring_about) in OF_PAIR {
        let mut scene = scene();
        bring_about(&mut scene);
        let of_cards = (reason == PairReason::MaxConcurrent).then_some(reason);
        assert_eq!(scene.survey().pair_reason(A, CARDS), of_cards);
    }
}

#[test]
fn the_first_reason_is_told() {
    for (index, (first, bring_about)) in OF_ASSOCIATION.iter().enumerate() {
        let mut scene = scene();
        for (_, bring_about) in &OF_ASSOCIATION[index + 1..] {
            bring_about(&mut scene);
        }
        bring_about(&mut scene);
        assert_eq!(scene.survey().reason(A), Some(*first));
    }
    for (index, (first, bring_about)) in OF_PAIR.iter().enumerate() {
        let mut scene = scene();
        for (_, bring_about) in &OF_PAIR[index + 1..] {
            bring_about(&mut scene);
        }
        bring_about(&mut scene);
        assert_eq!(scene.survey().pair_reason(A, CPU), Some(*first));
    }
}

#[test]
fn what_is_just_not_too_much_is_no_reason() {
    let mut scene = scene();
    // This is twice the instances of the type with most.
    scene.sources[0].unacknowledged = 8;
    scene.sources[0].min_rpc_time = scene.now;
    scene.sources[0].of_type[CPU].backed_off_until = scene.now;
    scene.outlook.of_association[0].limited_at = Some(30.0);
    scene.task(A, 1.0).stage = TaskStage::WaitingForInputs { stalled: false };
    for _ in 0..999 {
        scene.task(A, 0.0);
    }
    scene.associations[0].share = 0.0;
    scene.saturate(CPU, 2.0);
    assert_eq!(scene.survey().reason(A), None);
    assert_eq!(scene.survey().pair_reason(A, CPU), None);
    scene.outlook.of_association[0].limited_at = Some(f64::NAN);
    assert_eq!(scene.survey().pair_reason(A, CPU), None);
}

#[test]
fn a_volunteers_machine_asks_nobody_of_whom_more_than_a_thousand_tasks_can_run() {
    for (queued, reason) in [
        (1000, None),
        (1001, Some(AssociationReason::TooManyRunnable)),
    ] {
        let mut scene = scene();
        scene.profile = Profile::VOLUNTEER;
        for _ in 0..queued {
            scene.task(A, 0.0);
        }
        assert_eq!(scene.survey().reason(A), reason, "{queued}");
    }
}

#[test]
fn without_a_share_it_must_be_nearly_dry_whatever_the_marks_are() {
    // Each row: the low water mark, the time of a fetch, and the limit up to which the scheduler is asked.
    for (work_buffer_min, fetch_time, up_to) in [
        (10.0, 2.0, 2.0),
        (1.0, 2.0, 1.0),
        (0.0, 2.0, 0.0),
        (8640.0, 180.0, 180.0),
    ] {
        let mut scene = scene();
        scene.profile.work_buffer_min = work_buffer_min;
        scene.profile.fetch_time = fetch_time;
        scene.associations[0].share = 0.0;
        for (saturated, reason) in [(up_to, None), (up_to + 0.001, Some(PairReason::ZeroShare))] {
            scene.saturate(CPU, saturated);
            assert_eq!(scene.survey().pair_reason(A, CPU), reason, "{saturated}");
        }
    }
}

#[test]
fn of_a_scheduler_that_is_not_known_nothing_is_wanted() {
    let mut scene = scene();
    scene.sources.truncate(1);
    scene.outlook.of_association.clear();
    scene.rec.clear();
    let survey = scene.survey();
    assert_eq!(survey.reason(B), Some(AssociationReason::Suspended));
    assert_eq!((survey.piggyback(B), survey.initial(B)), (None, None));
    let nobody = super::super::super::types::AssociationIndex(9);
    assert_eq!(survey.reason(nobody), Some(AssociationReason::Suspended));
    assert_eq!(
        (survey.piggyback(nobody), survey.initial(nobody)),
        (None, None)
    );
    assert_eq!(scene.chosen(), Some((A, vec![0, 1])));
}

#[test]
fn reasons_are_told_in_the_words_that_operators_of_volunteers_machines_know() {
    let told: Vec<String> = OF_ASSOCIATION
        .iter()
        .map(|(reason, _)| reason.to_string())
        .collect();
    assert_eq!(
        told,
        [
            "suspended",
            "member list fetch pending",
            "no more work wanted",
            "some input is stalled",
            "too many ended tasks unacknowledged",
            "too many runnable tasks",
            "scheduler RPC backoff",
        ]
    );
    let told: Vec<String> = OF_PAIR
        .iter()
        .map(|(reason, _)| reason.to_string())
        .collect();
    assert_eq!(
        told,
        [
            "no job uses this type",
            "zero share",
            "max concurrent tasks reached",
            "backed off",
        ]
    );
    let scene = scene();
    assert_eq!(scene.sources[0], Source::new(&scene.processors));
}
