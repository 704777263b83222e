//! Laws of every simulation.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::num::f64::ANY;
use proptest::option;
use proptest::prelude::*;

use super::super::super::outlook::AssociationOutlook;
use super::plain::{line_by_line, second_by_second};
use super::*;

fn any_stage() -> impl Strategy<Value = TaskStage> {
    prop_oneof![
        4 => Just(TaskStage::Queued),
        1 => Just(TaskStage::WaitingForInputs { stalled: false }),
        1 => Just(TaskStage::WaitingForInputs { stalled: true }),
        1 => Just(TaskStage::Executing { since: now() }),
        1 => Just(TaskStage::Preempted { has_process: true }),
    ]
}

fn any_usage() -> impl Strategy<Value = ProcessorUsage> {
    let cpus = prop_oneof![4 => Just(1.0), 1 => Just(0.5), 1 => Just(2.0), 1 => Just(3.0)];
    let cards = option::weighted(0.3, prop_oneof![Just(0.5), Just(1.0), Just(2.0)]);
    (cpus, cards).prop_map(|(cpus, cards)| ProcessorUsage {
        cpus,
        cards: cards.map(|much| (CARDS, much)),
    })
}

prop_compose! {
    fn any_task()(
        association in 0_usize..3,
        job in 0_u32..3,
        usage in any_usage(),
        remaining in 0.0..100.0_f64,
        age in 0_u64..5,
        deadline in option::of(-20.0..200.0_f64),
        stage in any_stage(),
    ) -> Task {
        let task = Task {
            association: AssociationIndex(association),
            job,
            usage,
            received: now() - Duration::from_secs(age),
            stage,
            ..super::task(0, remaining)
        };
        match deadline {
            Some(seconds) => due(seconds, task),
            None => task,
        }
    }
}

prop_compose! {
    fn any_association()(
        share in prop_oneof![4 => 1.0..1000.0_f64, 1 => Just(0.0)],
        max_concurrent in option::weighted(0.2, 0_u32..4),
        of_jobs in prop_oneof![
            4 => Just(BTreeMap::new()),
            1 => (0_u32..3, 0_u32..3).prop_map(|(job, most)| BTreeMap::from([(job, most)])),
        ],
    ) -> Association {
        Association { share, max_concurrent, max_concurrent_of_jobs: of_jobs }
    }
}

prop_compose! {
    fn any_case()(
        tasks in vec(any_task(), 0..20),
        associations in vec(any_association(), 3),
        rec in vec(prop_oneof![1 => Just(0.0), 4 => 0.0..10.0_f64], 3),
        cpus in 1_u32..5,
        cards in 1_u32..3,
        availability in prop_oneof![Just(1.0), Just(0.5)],
        work_buffer_additional in prop_oneof![2 => Just(20.0), 1 => Just(490.0)],
    ) -> Case {
        let number = |(number, task): (usize, Task)| Task {
            number: TaskNumber(number as u64),
            ..task
        };
        let mut cpu = kind(cpus, 1.0);
        cpu.availability = availability;
        Case {
            processors: Processors::new(cpu, vec![kind(cards, 0.2)]),
            associations,
            rec,
            tasks: tasks.into_iter().enumerate().map(number).collect(),
            profile: Profile { work_buffer_additional, ..Profile::CLUSTER },
        }
    }
}

prop_compose! {
    /// Generates a case with one association, CPUs only and whole seconds, all received at once. Deadlines are between seconds, so that
    /// rounding decides nothing.
    fn plain_case()(
        tasks in vec((1_u32..40, 1_u32..3, option::of(0_u32..150)), 0..20),
        cpus in 1_u32..5,
        work_buffer_additional in prop_oneof![Just(0.0), Just(20.0), Just(990.0)],
    ) -> Case {
        let tasks = tasks.into_iter().enumerate().map(|(number, (remaining, cpus, deadline))| {
            let task = on(f64::from(cpus), task(number as u64, f64::from(remaining)));
            match deadline {
                Some(seconds) => due(f64::from(seconds) + 0.5, task),
                None => task,
            }
        });
        let mut case = Case::new(tasks.collect());
        case.processors = Processors::new(kind(cpus, 1.0), vec![]);
        case.profile.work_buffer_additional = work_buffer_additional;
        case
    }
}

fn is_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * (1.0 + one.abs())
}

fn assert_close(one: &Outlook, other: &Outlook, case: &Case) {
    assert_eq!(one.misses, other.misses, "{case:#?}");
    for of_type in case.processors.types() {
        let of = |outlook: &Outlook| {
            let it = outlook.of_type[of_type];
            [it.shortfall, it.idle_now, it.saturated, it.busy]
        };
        let all = of(one).into_iter().zip(of(other));
        assert!(
            all.clone().all(|(one, other)| is_close(one, other)),
            "{all:?} {case:#?}"
        );
        for (one, other) in one.of_association.iter().zip(&other.of_association) {
            let of = |association: &AssociationOutlook| {
                let pair = association.of_type[of_type];
                let counts = [pair.deadlines_missed, pair.runnable].map(f64::from);
                let amounts = [pair.used_by_all, pair.queued, pair.limited_shortfall];
                let limited_at = association.limited_at.unwrap_or(-1.0);
                counts
                    .into_iter()
                    .chain(amounts)
                    .chain([limited_at])
                    .collect::<Vec<_>>()
            };
            let all: Vec<_> = of(one).into_iter().zip(of(other)).collect();
            assert!(
                all.iter().all(|(one, other)| is_close(*one, *other)),
                "{all:?} {case:#?}"
            );
        }
    }
}

/// Returns the simulated seconds until the end of the simulation.
fn simulated_seconds(case: &Case) -> f64 {
    let situation = case.situation();
    let mut simulation = Simulation::new(&situation);
    simulation.run();
    simulation.elapsed
}

integration_tests_properties::properties! {
    512;

    #[test]
    fn it_is_the_plain_simulation_line_by_line(case in any_case()) {
        assert_close(&case.outlook(), &line_by_line(&case), &case);
    }

    #[test]
    fn it_is_the_plain_simulation_second_by_second(case in plain_case()) {
        let outlook = case.outlook();
        let (shortfall, saturated, misses) = second_by_second(&case);
        prop_assert!(is_close(outlook.of_type[CPU].shortfall, shortfall), "{outlook:?} {shortfall}");
        // A step beyond the end of the buffer is longer than a second.
        let end = case.profile.high_water();
        prop_assert!(is_close(outlook.of_type[CPU].saturated.min(end), saturated), "{outlook:?} {saturated}");
        prop_assert_eq!(missed(&outlook), misses.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_less_than_nothing_and_saturated_ends_with_the_last_task(case in any_case()) {
        let outlook = case.outlook();
        let ends = simulated_seconds(&case);
        for (of_type, it) in outlook.of_type.iter() {
            let all = case.processors.instances(of_type);
            let most = all * case.profile.high_water();
            prop_assert!((0.0..=most + 1e-6).contains(&it.shortfall));
            prop_assert!((0.0..=all).contains(&it.idle_now));
            prop_assert!((0.0..=ends).contains(&it.saturated));
            prop_assert!(it.busy >= 0.0);
        }
    }

    /// The shortfall and the work of the tasks within the buffer add up to the capacity.
    #[test]
    fn what_is_missing_is_what_no_task_does(case in any_case()) {
        let mut case = case;
        for task in &mut case.tasks {
            task.usage = ProcessorUsage { cpus: 1.0, cards: None };
        }
        let situation = case.situation();
        let takes_part = case.tasks.iter().filter(|task| situation.is_simulated(task));
        let availability = case.processors[CPU].availability;
        let work: f64 = takes_part.map(|task| task.remaining / availability).sum();
        let all = case.processors.instances(CPU) * case.profile.high_water();
        let shortfall = case.outlook().of_type[CPU].shortfall;
        prop_assert!(shortfall >= all - work - 1e-6, "{shortfall} {all} {work}");
        if simulated_seconds(&case) <= case.profile.high_water() && case.associations.iter().all(|one| !one.is_limited()) {
            prop_assert!(is_close(shortfall, all - work), "{shortfall} {all} {work}");
        }
    }

    /// The outlook depends only on the situation, which is not changed, and not on the order of its tasks.
    #[test]
    fn the_same_instant_gives_the_same_outlook_however_tasks_are_listed(
        (case, listed) in any_case().prop_flat_map(|case| {
            let shuffled = Just(case.tasks.clone()).prop_shuffle();
            (Just(case), shuffled)
        }),
    ) {
        let outlook = case.outlook();
        prop_assert_eq!(&outlook, &case.outlook());
        prop_assert_eq!(outlook, Case { tasks: listed, ..case }.outlook());
    }

    #[test]
    fn one_more_at_the_end_of_the_only_queue_never_adds_to_the_shortfall(
        case in any_case(), remaining in 0.0..100.0_f64,
    ) {
        let mut before = case;
        for task in &mut before.tasks {
            task.association = AssociationIndex(0);
            // A GPU task that does not fit would be skipped, so a smaller one at the end could add to the shortfall.
            task.usage.cards = None;
        }
        let mut after = before.clone();
        let last = before.tasks.len() as u64;
        after.tasks.push(Task { received: now() + Duration::from_secs(1), ..task(last, remaining) });
        let shortfall = |case: &Case| case.outlook().of_type[CPU].shortfall;
        prop_assert!(shortfall(&after) <= shortfall(&before) + 1e-6);
    }

    #[test]
    fn a_scale_of_all_shares_changes_nothing(case in any_case(), power in -8_i32..8) {
        let mut scaled = case.clone();
        for association in &mut scaled.associations {
            association.share *= 2_f64.powi(power);
        }
        prop_assert_eq!(case.outlook(), scaled.outlook());
    }

    #[test]
    fn a_scale_of_all_rec_changes_nothing(case in any_case(), power in -8_i32..8) {
        let mut scaled = case.clone();
        for rec in &mut scaled.rec {
            *rec *= 2_f64.powi(power);
        }
        prop_assert_eq!(case.outlook(), scaled.outlook());
    }

    /// The simulation depends on no unit of time.
    #[test]
    fn a_scale_of_all_spans_scales_what_comes_of_them(case in any_case(), power in 0_u32..6) {
        let factor = 2_u32.pow(power);
        let scale = f64::from(factor);
        let mut scaled = case.clone();
        for task in &mut scaled.tasks {
            task.remaining *= scale;
            task.deadline = task.deadline.map(|at| match at >= now() {
                true => now() + at.since(now()) * factor,
                false => now() - now().since(at) * factor,
            });
        }
        let profile = &mut scaled.profile;
        for span in [
            &mut profile.work_buffer_min,
            &mut profile.work_buffer_additional,
            &mut profile.fetch_time,
            &mut profile.rec_half_life,
        ] {
            *span *= scale;
        }
        let mut expected = case.outlook();
        for of_type in case.processors.types() {
            let it = &mut expected.of_type[of_type];
            for span in [&mut it.shortfall, &mut it.saturated, &mut it.busy] {
                *span *= scale;
            }
            for association in &mut expected.of_association {
                let pair = &mut association.of_type[of_type];
                pair.queued *= scale;
                pair.limited_shortfall *= scale;
            }
        }
        for association in &mut expected.of_association {
            association.limited_at = association.limited_at.map(|at| at * scale);
        }
        assert_close(&expected, &scaled.outlook(), &scaled);
    }

    /// The bound for the end of all tasks is never exceeded.
    #[test]
    fn no_simulation_goes_on_beyond_its_bound(case in any_case()) {
        let mut case = case;
        // All tasks are late, so that all are simulated.
        case.tasks = case.tasks.into_iter().map(|task| due(-1.0, task)).collect();
        let situation = case.situation();
        let mut simulation = Simulation::new(&situation);
        let bound = simulation.latest.seconds(&case.processors);
        simulation.run();
        prop_assert!(simulation.elapsed <= bound * (1.0 + 1e-9), "{} {bound}", simulation.elapsed);
    }

    /// The length of the simulation does not affect the outlook.
    #[test]
    fn deadlines_that_are_met_change_nothing(case in any_case(), far in 1e4..1e6_f64) {
        let mut without = case;
        for task in &mut without.tasks {
            task.deadline = None;
        }
        let mut with = without.clone();
        with.tasks = with.tasks.into_iter().map(|task| due(far, task)).collect();
        prop_assert_eq!(without.outlook(), with.outlook());
    }

    #[test]
    fn what_could_not_be_in_time_alone_misses(case in any_case()) {
        let mut case = case;
        for association in &mut case.associations {
            *association = super::association(association.share);
        }
        let outlook = case.outlook();
        for task in &case.tasks {
            let deadline = case.situation().deadline(task).unwrap_or(f64::INFINITY);
            let is_late = task.remaining > deadline - case.profile.low_water();
            if is_late && case.situation().is_simulated(task) {
                prop_assert!(outlook.misses(task.number), "{task:?}");
            }
        }
    }

    #[test]
    fn nothing_that_comes_from_outside_is_more_than_it_can_take(
        case in any_case(), numbers in vec(ANY, 24), instances in prop_oneof![Just(0), Just(u32::MAX)],
    ) {
        let mut case = case;
        let mut numbers = numbers.into_iter().cycle();
        let mut any = || numbers.next().unwrap();
        for task in &mut case.tasks {
            task.remaining = any();
            task.usage = ProcessorUsage { cpus: any(), cards: Some((CARDS, any())) };
        }
        for (association, rec) in case.associations.iter_mut().zip(&mut case.rec) {
            (association.share, *rec) = (any(), any());
        }
        let mut cpu = kind(instances, any());
        cpu.availability = any();
        case.processors = Processors::new(cpu, vec![kind(2, any())]);
        case.profile.work_buffer_min = any();
        case.profile.work_buffer_additional = any();
        case.profile.rec_half_life = any();
        for (_, it) in case.outlook().of_type.iter() {
            for amount in [it.shortfall, it.idle_now, it.saturated, it.busy] {
                prop_assert!(amount.is_finite() && amount >= 0.0, "{it:?}");
            }
        }
    }
}
