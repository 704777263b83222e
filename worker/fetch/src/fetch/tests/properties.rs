//! Laws of every request for arbitrary inputs.

use proptest::collection::vec;
use proptest::num::f64::ANY;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::super::super::outlook::{PairOutlook, TypeOutlook};
use super::super::super::profile::Buffer;
use super::super::super::types::{AssociationIndex, ProcessorType, ProcessorUsage, TaskStage};
use super::super::{AssociationReason, FetchRequest, PairReason, Source};
use super::rig::{A, CARDS, CPU, FetchRig, at, types};

/// Values for the first three types.
type OfTypes<T> = [T; 3];

/// Generates a plausible amount, and sometimes any number.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => select(vec![0.0, 0.5, 1.0, 2.0, 5.0, 15.0, 29.0, 100.0, 1e9]),
        1 => ANY,
    ]
}

fn of_type() -> impl Strategy<Value = TypeOutlook> {
    let numbers = (number(), number(), number(), number());
    numbers.prop_map(|(shortfall, idle_now, saturated, busy)| TypeOutlook {
        shortfall,
        idle_now,
        saturated,
        busy,
    })
}

#[derive(Clone, Debug)]
struct Scheduler {
    share: f64,
    rec: f64,
    limit: Option<u32>,
    limited_at: Option<f64>,
    source: (bool, bool, bool, usize, f64, f64),
    pairs: OfTypes<(bool, f64, f64, f64)>,
}

fn scheduler() -> impl Strategy<Value = Scheduler> {
    let rarely = || proptest::bool::weighted(0.1);
    let instant = || select(vec![0.0, 0.0, 0.0, 1000.0, 1001.0]);
    let limits = (
        option::weighted(0.2, 0_u32..9),
        option::weighted(0.2, number()),
    );
    let correction = prop_oneof![4 => Just(1.0), 1 => ANY];
    let source = (
        rarely(),
        rarely(),
        rarely(),
        0_usize..12,
        instant(),
        correction,
    );
    let pair = || (rarely(), instant(), number(), number());
    let pairs = (pair(), pair(), pair()).prop_map(|(one, two, three)| [one, two, three]);
    (number(), number(), limits, source, pairs).prop_map(
        |(share, rec, (limit, limited_at), source, pairs)| Scheduler {
            share,
            rec,
            limit,
            limited_at,
            source,
            pairs,
        },
    )
}

impl Scheduler {
    fn add_to(&self, scene: &mut FetchRig) {
        let of = scene.associate(self.share, self.rec);
        scene.associations[of.0].max_concurrent = self.limit;
        scene.outlook.of_association[of.0].limited_at = self.limited_at;
        let mut source = Source::new(&scene.processors);
        let unacknowledged;
        let min_rpc_time;
        (
            source.suspended,
            source.list_pending,
            source.no_more_work,
            unacknowledged,
            min_rpc_time,
            source.correction,
        ) = self.source;
        source.unacknowledged = unacknowledged;
        source.min_rpc_time = at(min_rpc_time);
        for (index, (no_apps, backed_off, used_by_all, limited)) in (0..).zip(self.pairs) {
            let pair = &mut source.of_type[ProcessorType(index)];
            pair.no_apps = no_apps;
            pair.backed_off_until = at(backed_off);
            *scene.pair(of, ProcessorType(index)) = PairOutlook {
                used_by_all,
                limited_shortfall: limited,
                ..PairOutlook::default()
            };
        }
        scene.sources[of.0] = source;
    }
}

fn scene() -> impl Strategy<Value = FetchRig> {
    let processors = (0_u32..6, 0_u32..3, 0_u32..3);
    let outlook = (of_type(), of_type(), of_type());
    let task = (
        0_usize..4,
        number(),
        number(),
        option::of((1_usize..3, number())),
        any::<bool>(),
    );
    let asked = || option::weighted(0.2, 0_usize..4);
    let outstanding = (asked(), asked(), asked());
    (
        processors,
        outlook,
        vec(scheduler(), 0..4),
        vec(task, 0..12),
        outstanding,
    )
        .prop_map(
            |((cpus, cards, others), outlook, schedulers, tasks, outstanding)| {
                let mut scene = FetchRig::new(cpus, &[cards, others]);
                scene.profile.buffer = Buffer::Common;
                let outlook = [outlook.0, outlook.1, outlook.2];
                let outstanding = [outstanding.0, outstanding.1, outstanding.2];
                for ((of_type, outlook), asked) in
                    scene.processors.types().zip(outlook).zip(outstanding)
                {
                    scene.outlook.of_type[of_type] = outlook;
                    scene.outstanding[of_type] = asked.map(AssociationIndex);
                }
                for scheduler in &schedulers {
                    scheduler.add_to(&mut scene);
                }
                for (of, remaining, cpus, cards, stalled) in tasks {
                    let task = scene.task(AssociationIndex(of), remaining);
                    task.usage = ProcessorUsage {
                        cpus,
                        cards: cards.map(|(of, much)| (ProcessorType(of), much)),
                    };
                    if stalled {
                        task.stage = TaskStage::WaitingForInputs { stalled: of == 3 };
                    }
                }
                scene
            },
        )
}

fn amount(of: f64) -> f64 {
    if of >= 1e-30 { of.min(1e30) } else { 0.0 }
}

/// Returns all requests that the scene can produce.
fn requests(scene: &FetchRig) -> Vec<FetchRequest> {
    let survey = scene.survey();
    let all = (0..=scene.associations.len()).map(AssociationIndex);
    let talked_to = all.flat_map(|of| [survey.piggyback(of), survey.initial(of)]);
    talked_to.chain([survey.choose()]).flatten().collect()
}

/// Returns the types that are nearly dry although a scheduler with a share and without limits can be asked for them.
fn must_be_asked_for(scene: &FetchRig) -> Vec<ProcessorType> {
    let survey = scene.survey();
    let must_be = |of_type: &ProcessorType| {
        let of_type = *of_type;
        let outlook = scene.outlook.of_type[of_type];
        let open =
            scene.processors.instances(of_type) > 0.0 && scene.outstanding[of_type].is_none();
        let is_dry =
            amount(outlook.saturated) < scene.profile.low_water() && outlook.shortfall > 1.0;
        let could = survey.in_order().iter().any(|of| {
            let association = &scene.associations[of.0];
            let free = association.max_concurrent.is_none() && amount(association.share) > 0.0;
            let asked = scene
                .outstanding
                .iter()
                .any(|(_, asked)| asked == &Some(*of));
            let speaks_against = survey.reason(*of).is_some();
            let is_full = survey.has_stock(*of, of_type);
            free && !asked
                && !is_full
                && !speaks_against
                && survey.pair_reason(*of, of_type).is_none()
        });
        open && is_dry && could
    };
    scene.processors.types().filter(must_be).collect()
}

#[test]
fn a_share_that_is_no_amount_is_none() {
    let mut scene = FetchRig::new(1, &[1]);
    scene.outstanding[CARDS] = Some(A);
    let other = scene.associate(1.0, 0.0);
    scene.outlook.of_type[CPU].shortfall = 100.0;
    scene.outlook.of_type[CPU].idle_now = 0.0;
    assert_eq!(must_be_asked_for(&scene), vec![CPU]);
    assert_eq!(
        scene.survey().choose().map(|request| request.association),
        Some(other)
    );
    scene.associations[other.0].share = f64::MIN_POSITIVE;
    assert_eq!(scene.survey().choose(), None);
    assert_eq!(must_be_asked_for(&scene), vec![]);
}

integration_tests_properties::properties! {
    512;

    #[test]
    fn what_is_asked_for_is_an_amount(scene in scene()) {
        for request in requests(&scene) {
            prop_assert!(!types(&request).is_empty());
            for (of_type, demand) in request.of_type.iter() {
                for amount in [demand.secs, demand.instances, demand.idle, demand.estimated_delay] {
                    prop_assert!(amount >= 0.0 && amount.is_finite(), "{demand:?}");
                }
                prop_assert!(demand.secs > 0.0 || *demand == super::super::super::Demand::default());
                prop_assert!(demand.secs == 0.0 || scene.processors.instances(of_type) > 0.0);
            }
        }
    }

    #[test]
    fn one_is_asked_for_a_type_at_a_time_and_answers_before_it_is_asked_again(scene in scene()) {
        for request in requests(&scene) {
            for (of_type, asked) in scene.outstanding.iter() {
                prop_assert!(asked.is_none() || !request.asks_for(of_type));
                prop_assert!(*asked != Some(request.association));
            }
        }
    }

    #[test]
    fn nobody_is_asked_against_a_reason_or_without_need(scene in scene()) {
        let survey = scene.survey();
        let profile = &scene.profile;
        let saturated = |of: ProcessorType| amount(scene.outlook.of_type[of].saturated);
        if let Some(request) = survey.choose() {
            let of = request.association;
            prop_assert_eq!(survey.reason(of), None);
            let asked: Vec<_> = types(&request).into_iter().map(ProcessorType).collect();
            for of_type in &asked {
                let reason = survey.pair_reason(of, *of_type);
                prop_assert!(reason.is_none() || reason == Some(PairReason::BackedOff));
                prop_assert!(saturated(*of_type) < profile.high_water());
            }
            let mut all = scene.processors.types();
            let needs = |of_type| saturated(of_type) < profile.low_water();
            let is_needed = all.any(|of_type| needs(of_type) && survey.pair_reason(of, of_type).is_none());
            prop_assert!(is_needed);
        }
        for of in (0..scene.associations.len()).map(AssociationIndex) {
            if let Some(request) = survey.piggyback(of) {
                let reason = survey.reason(of);
                prop_assert!(reason.is_none() || reason == Some(AssociationReason::MinRpcTime));
                for of_type in types(&request).into_iter().map(ProcessorType) {
                    let reason = survey.pair_reason(of, of_type);
                    prop_assert!(reason.is_none() || reason == Some(PairReason::BackedOff));
                    prop_assert!(saturated(of_type) < profile.high_water());
                }
            }
        }
    }

    /// A type that is nearly dry is asked for if possible. Of the schedulers without reasons against them, with a share and without limits,
    /// each type is asked of the first in order, or of one before it.
    #[test]
    fn what_is_needed_is_asked_for(scene in scene()) {
        let chosen = scene.survey().choose();
        prop_assert!(chosen.is_some() || must_be_asked_for(&scene).is_empty());
    }

    /// Requests for parts come after common ones, and never ask against a reason.
    #[test]
    fn parts_change_nothing_where_somebody_is_asked_for_all(mut scene in scene()) {
        let common = scene.survey().choose();
        scene.profile.buffer = Buffer::InParts;
        let survey = scene.survey();
        let chosen = survey.choose();
        if common.is_some() {
            prop_assert_eq!(chosen, common);
        } else if let Some(request) = chosen {
            let of = request.association;
            prop_assert_eq!(survey.reason(of), None);
            prop_assert!(scene.associations[of.0].max_concurrent.is_none());
            prop_assert!(scene.associations[of.0].share > 0.0);
            for (of_type, demand) in request.of_type.iter().filter(|(_, demand)| demand.secs > 0.0) {
                prop_assert_eq!(survey.pair_reason(of, of_type), None);
                prop_assert_eq!(scene.outstanding[of_type], None);
                prop_assert!(demand.secs.is_finite() && demand.estimated_delay.is_finite());
                prop_assert_eq!((demand.instances, demand.idle), (0.0, 0.0));
            }
        }
    }

    #[test]
    fn the_unit_of_shares_does_not_matter(mut scene in scene(), exponent in -8_i32..8) {
        // Invalid shares would be invalid in any unit, so they are replaced.
        for association in &mut scene.associations {
            if association.share != 0.0 && !(1e-3..1e12).contains(&association.share) {
                association.share = 100.0;
            }
        }
        let mut other = scene.clone();
        for association in &mut other.associations {
            association.share *= f64::from(exponent).exp2();
        }
        prop_assert_eq!(requests(&other), requests(&scene));
    }
}
