//! Laws of requests whose outlook comes from the simulation.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::profile::{Buffer, Profile};
use super::super::super::rr_sim::SimulationInput;
use super::super::super::types::{AssociationIndex, ProcessorType, ProcessorUsage, TaskStage};
use super::super::{FetchRequest, Source};
use super::rig::{CPU, FetchRig, at, types};

prop_compose! {
    fn source()(
        refusals in [0_u8..8, 0..8, 0..8],
        unacknowledged in 0_usize..9,
        min_rpc_time in select(vec![0.0, 1000.0, 1000.5]),
        correction in select(vec![1.0, 0.01, 0.5, 80.0]),
        pairs in [(0_u8..6, select(vec![0.0, 1000.0, 1001.0])), (0..6, select(vec![0.0, 1001.0]))],
    ) -> Source {
        let mut source = Source::new(&FetchRig::new(1, &[1]).processors);
        let [suspended, list_pending, no_more_work] = refusals.map(|one| one == 0);
        (source.suspended, source.list_pending) = (suspended, list_pending);
        source.no_more_work = no_more_work;
        source.unacknowledged = unacknowledged;
        source.min_rpc_time = at(min_rpc_time);
        source.correction = correction;
        for (index, (no_apps, backed_off)) in pairs.into_iter().enumerate() {
            let pair = &mut source.of_type[ProcessorType(index)];
            pair.no_apps = no_apps == 0;
            pair.backed_off_until = at(backed_off);
        }
        source
    }
}

prop_compose! {
    /// Generates a worker with CPUs and one GPU model, schedulers of any kind, and tasks for a while.
    fn scene()(
        (cpus, cards) in (1_u32..6, 1_u32..3),
        schedulers in vec((source(), select(vec![0.0, 100.0, 250.0]), 0.1..10.0_f64, limits()), 1..4),
        tasks in vec((0_usize..4, 0_u32..2, 0.1..40.0_f64, option::weighted(0.3, 1_u32..3), 0_u8..10, option::of(1000.0..1060.0_f64)), 0..16),
        asked in [option::weighted(0.1, 0_usize..4), option::weighted(0.1, 0..4)],
    ) -> FetchRig {
        let mut scene = FetchRig::new(cpus, &[cards]);
        scene.profile = Profile { max_runnable: 4, buffer: Buffer::Common, ..Profile::CLUSTER };
        // A counted scheduler always has a positive `rec`, because otherwise the unit of `rec` would matter.
        scene.rec[0] = 1.0;
        for (source, share, rec, (limit, limit_of_job)) in schedulers {
            let of = scene.associate(share, rec);
            scene.sources[of.0] = source;
            scene.associations[of.0].max_concurrent = limit;
            scene.associations[of.0].max_concurrent_of_jobs = limit_of_job.map(|at| (0, at)).into_iter().collect();
        }
        for (index, asked) in asked.into_iter().enumerate() {
            scene.outstanding[ProcessorType(index)] = asked.map(AssociationIndex);
        }
        for (of, job, remaining, of_cards, stage, deadline) in tasks {
            let task = scene.task(AssociationIndex(of), remaining);
            task.job = job;
            task.deadline = deadline.map(at);
            if let Some(much) = of_cards {
                task.usage = ProcessorUsage { cpus: 0.5, cards: Some((ProcessorType(1), f64::from(much))) };
            }
            task.stage = match stage {
                0 => TaskStage::WaitingForInputs { stalled: true },
                1 => TaskStage::WaitingForInputs { stalled: false },
                2 | 3 => TaskStage::Executing { since: at(999.0) },
                _ => TaskStage::Queued,
            };
        }
        expect(&mut scene);
        scene
    }
}

fn limits() -> impl Strategy<Value = (Option<u32>, Option<u32>)> {
    (
        option::weighted(0.2, 0_u32..4),
        option::weighted(0.2, 0_u32..4),
    )
}

/// Sets the outlook to the simulation's result.
fn expect(scene: &mut FetchRig) {
    let situation = SimulationInput {
        now: scene.now,
        processors: &scene.processors,
        associations: &scene.associations,
        rec: &scene.rec,
        tasks: &scene.tasks,
        profile: &scene.profile,
    };
    scene.outlook = situation.outlook();
}

fn asked(request: &FetchRequest) -> Vec<ProcessorType> {
    types(request).into_iter().map(ProcessorType).collect()
}

fn requests(scene: &FetchRig) -> Vec<FetchRequest> {
    let survey = scene.survey();
    let all = (0..scene.associations.len()).map(AssociationIndex);
    let others = all.filter_map(|of| survey.piggyback(of));
    others.chain(survey.choose()).collect()
}

/// Returns whether the scheduler may be asked now, computed independently of the implementation.
fn may_be_asked(scene: &FetchRig, of: AssociationIndex) -> bool {
    let source = &scene.sources[of.0];
    let its = || scene.tasks.iter().filter(|task| task.association == of);
    let stalled = TaskStage::WaitingForInputs { stalled: true };
    let runnable = its().filter(|task| task.stage != stalled).count();
    let instances = scene
        .processors
        .types()
        .map(|of_type| scene.processors.instances(of_type));
    let most = instances.fold(0.0, f64::max);
    !source.suspended
        && !source.list_pending
        && !source.no_more_work
        && its().all(|task| task.stage != stalled)
        && source.unacknowledged as f64 <= 2.0 * most
        && runnable <= scene.profile.max_runnable
        && source.min_rpc_time <= scene.now
}

integration_tests_properties::properties! {
    512;

    #[test]
    fn nobody_is_chosen_who_may_not_be_asked_and_nothing_without_need(scene in scene()) {
        let Some(request) = scene.survey().choose() else {
            return Ok(());
        };
        let of = request.association;
        prop_assert!(may_be_asked(&scene, of), "{request:?}");
        let pair = |of_type| scene.sources[of.0].of_type[of_type];
        let saturated = |of_type| scene.outlook.of_type[of_type].saturated;
        let asked = asked(&request);
        // Additional types may be backed off, but the type that triggers the request must not be.
        let is_need = |of_type: &ProcessorType| {
            pair(*of_type).backed_off_until <= scene.now && saturated(*of_type) < scene.profile.low_water()
        };
        prop_assert!(asked.iter().any(is_need), "{request:?}");
        for of_type in asked {
            prop_assert!(!pair(of_type).no_apps);
            prop_assert!(saturated(of_type) < scene.profile.high_water());
        }
    }

    #[test]
    fn where_all_are_busy_beyond_the_low_mark_nobody_is_chosen(scene in scene()) {
        let mut scene = scene;
        for of_type in scene.processors.types() {
            let saturated = &mut scene.outlook.of_type[of_type].saturated;
            *saturated = saturated.max(scene.profile.low_water());
        }
        prop_assert_eq!(scene.survey().choose(), None);
    }

    /// Where tasks are short relative to the buffer, requests for parts stop at two buffers, and a filled part is not asked for again.
    #[test]
    fn parts_end_with_two_buffers(mut scene in scene()) {
        scene.profile.buffer = Buffer::InParts;
        for of_type in scene.processors.types() {
            let saturated = &mut scene.outlook.of_type[of_type].saturated;
            *saturated = saturated.max(scene.profile.low_water());
        }
        let here = |scene: &FetchRig, of_type: ProcessorType| -> f64 {
            let tasks = scene.tasks.iter().filter(|task| task.usage.processor_type() == of_type);
            let waiting = tasks.filter(|task| !matches!(task.stage, TaskStage::Executing { .. }));
            waiting.map(|task| task.remaining * task.usage.of(of_type)).sum()
        };
        let mut asked_before = BTreeSet::new();
        while let Some(request) = scene.survey().choose() {
            prop_assert!(may_be_asked(&scene, request.association), "{request:?}");
            let correction = scene.sources[request.association.0].correction;
            for of_type in asked(&request) {
                prop_assert!(asked_before.insert((request.association, of_type)));
                let secs = request.of_type[of_type].secs * correction;
                for _ in 0..100 {
                    let task = scene.task(request.association, secs / 100.0);
                    if of_type != CPU {
                        task.usage = ProcessorUsage { cpus: 0.0, cards: Some((of_type, 1.0)) };
                    }
                }
                let most = 2.0 * scene.processors.instances(of_type) * scene.profile.high_water();
                prop_assert!(here(&scene, of_type) <= most * (1.0 + 1e-9));
            }
        }
    }

    /// Successive requests go to different schedulers, and at most one request is out for each type.
    #[test]
    fn at_most_one_request_is_out_for_a_type(scene in scene()) {
        let mut scene = scene;
        let mut asked_before = BTreeSet::new();
        let (mut of_types, mut rounds) = (BTreeSet::new(), 0);
        for (of_type, asked) in scene.outstanding.iter() {
            asked_before.extend(*asked);
            of_types.extend(asked.map(|_| of_type));
        }
        while let Some(request) = scene.survey().choose() {
            rounds += 1;
            prop_assert!(rounds <= 2, "there are two types");
            prop_assert!(asked_before.insert(request.association));
            for of_type in asked(&request) {
                prop_assert!(of_types.insert(of_type));
                scene.outstanding[of_type] = Some(request.association);
            }
        }
    }

    /// A request is at most the shortfall in the scheduler's seconds, unless it is the smallest possible one.
    #[test]
    fn no_more_seconds_are_asked_for_than_are_missing(scene in scene()) {
        for request in requests(&scene) {
            let correction = scene.sources[request.association.0].correction;
            for (of_type, demand) in request.of_type.iter() {
                let instances = scene.processors.instances(of_type);
                let missing = scene.outlook.of_type[of_type].shortfall;
                prop_assert!(demand.secs * correction <= missing * (1.0 + 1e-9) || demand.secs <= 1.0, "{demand:?}");
                prop_assert!(missing <= instances * scene.profile.high_water() * (1.0 + 1e-9));
                for amount in [demand.secs, demand.instances, demand.idle, demand.estimated_delay] {
                    prop_assert!(amount >= 0.0 && amount.is_finite(), "{demand:?}");
                }
                prop_assert!(demand.instances <= instances && demand.idle <= instances);
            }
        }
    }

    #[test]
    fn a_scale_of_all_shares_changes_nothing(scene in scene(), shares in -8_i32..8) {
        let mut other = scene.clone();
        for association in &mut other.associations {
            association.share *= f64::from(shares).exp2();
        }
        expect(&mut other);
        prop_assert_eq!(requests(&other), requests(&scene));
    }

    /// A request is enough: once its work has arrived, in pieces that fill gaps, no scheduler is asked again, however wrong its estimates
    /// are.
    #[test]
    fn what_was_asked_for_is_enough(
        cpus in 1_u32..6,
        tasks in vec(0.1..40.0_f64, 0..12),
        correction in select(vec![1.0, 0.01, 0.3, 100.0]),
    ) {
        let mut scene = FetchRig::new(cpus, &[]);
        scene.sources[0].correction = correction;
        for remaining in tasks {
            scene.task(AssociationIndex(0), remaining);
        }
        expect(&mut scene);
        let Some(request) = scene.survey().choose() else {
            prop_assert!(scene.outlook.of_type[CPU].saturated >= scene.profile.low_water());
            return Ok(());
        };
        let pieces = 100 * cpus;
        for _ in 0..pieces {
            let secs = request.of_type[CPU].secs * correction / f64::from(pieces);
            scene.task(AssociationIndex(0), secs);
        }
        scene.profile.max_runnable = usize::MAX;
        expect(&mut scene);
        prop_assert_eq!(scene.survey().choose(), None);
        prop_assert!(scene.outlook.of_type[CPU].saturated >= scene.profile.low_water());
    }
}
