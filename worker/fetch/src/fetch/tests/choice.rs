//! Tests of the choice of the scheduler and the types.

use super::super::super::profile::{Buffer, FirstAsked};
use super::super::super::types::{
    AssociationIndex, ProcessorKind, ProcessorUsage, Processors, TaskStage,
};
use super::rig::{A, B, CARDS, CPU, FetchRig, at, types};

/// Returns a worker with one CPU and one GPU, and two schedulers of which the first has the higher priority.
fn two() -> FetchRig {
    let mut scene = FetchRig::new(1, &[1]);
    scene.associate(100.0, 1.0);
    scene
}

#[test]
fn work_is_fetched_below_the_low_mark_and_then_up_to_the_high_mark() {
    for (saturated, asked) in [
        (0.0, Some(30.0)),
        (9.5, Some(20.5)),
        (10.0, None),
        (29.0, None),
        (1000.0, None),
        (f64::NAN, Some(30.0)),
        (f64::NEG_INFINITY, Some(30.0)),
    ] {
        let mut scene = FetchRig::new(1, &[]);
        scene.saturate(CPU, saturated);
        // NaN and infinity have no corresponding shortfall.
        if !saturated.is_finite() {
            scene.outlook.of_type[CPU].shortfall = 30.0;
        }
        let request = scene.survey().choose();
        let secs = request.map(|request| request.of_type[CPU].secs);
        assert_eq!(secs, asked, "{saturated}");
    }
}

#[test]
fn whoever_is_asked_for_one_type_is_asked_for_the_others_that_are_below_the_high_mark() {
    for (of_cpu, of_cards, asked) in [
        (0.0, 0.0, Some(vec![0, 1])),
        (5.0, 29.9, Some(vec![0, 1])),
        (5.0, 30.0, Some(vec![0])),
        (29.9, 5.0, Some(vec![0, 1])),
        (30.0, 5.0, Some(vec![1])),
        (10.0, 10.0, None),
    ] {
        let mut scene = two();
        scene.saturate(CPU, of_cpu);
        scene.saturate(CARDS, of_cards);
        let asked = asked.map(|types| (A, types));
        assert_eq!(scene.chosen(), asked, "{of_cpu} {of_cards}");
    }
}

#[test]
fn the_highest_priority_is_asked_first() {
    let mut scene = two();
    assert_eq!(scene.chosen(), Some((A, vec![0, 1])));
    scene.rec = vec![2.0, 1.0];
    assert_eq!(scene.chosen(), Some((B, vec![0, 1])));
    scene.associations[0].share = 300.0;
    assert_eq!(scene.chosen(), Some((A, vec![0, 1])));
    // A scheduler without a share comes after all others.
    scene.associations[0].share = 0.0;
    scene.rec = vec![0.0, 100.0];
    assert_eq!(scene.survey().in_order(), [B, A]);
    assert_eq!(scene.chosen(), Some((B, vec![0, 1])));
}

/// Otherwise the scheduler in turn would also take the CPU that a GPU task needs.
#[test]
fn whoever_has_work_for_idle_cards_is_asked_before_whose_turn_it_is() {
    for (first_asked, cpu, card, asked) in [
        // The scheduler in turn would take the CPU but has no GPU work.
        (FirstAsked::ForIdleCards, 0.0, 0.0, Some((B, vec![1]))),
        (FirstAsked::InTurn, 0.0, 0.0, Some((A, vec![0]))),
        // A GPU that will only later be idle has time.
        (FirstAsked::ForIdleCards, 0.0, 5.0, Some((A, vec![0]))),
        (FirstAsked::ForIdleCards, 40.0, 0.0, Some((B, vec![1]))),
    ] {
        let mut scene = two();
        scene.sources[A.0].of_type[CARDS].no_apps = true;
        scene.profile.first_asked = first_asked;
        scene.saturate(CPU, cpu);
        scene.saturate(CARDS, card);
        assert_eq!(scene.chosen(), asked, "{first_asked:?} {cpu} {card}");
    }
    // No type waits for a scheduler that has no work.
    let mut scene = two();
    scene.sources[A.0].of_type[CARDS].no_apps = true;
    scene.back_off(B, CARDS);
    assert_eq!(scene.chosen(), Some((A, vec![0])));
}

/// Returns a worker with two CPUs, and a scheduler B with three times the share of A.
fn three_to_one() -> FetchRig {
    let mut scene = FetchRig::new(2, &[]);
    scene.associate(300.0, 1.0);
    scene.rec[0] = 1.0;
    scene.saturate(CPU, 20.0);
    scene
}

#[test]
fn whose_own_part_runs_dry_is_asked_though_others_have_work_here() {
    // B's part is one and a half CPUs: 15 seconds up to 45.
    for (own, others, asked) in [
        (0, 40, Some(45.0)),
        (14, 26, Some(31.0)),
        (15, 25, None),
        // The waiting work is limited to two buffers of 60 seconds each.
        (10, 90, Some(20.0)),
        (10, 110, None),
    ] {
        let mut scene = three_to_one();
        for (of, tasks) in [(A, others), (B, own)] {
            for _ in 0..tasks {
                scene.task(of, 1.0);
            }
        }
        let request = scene.survey().choose();
        let secs = request.map(|request| (request.association, request.of_type[CPU].secs));
        assert_eq!(secs, asked.map(|secs| (B, secs)), "{own} {others}");
        // B is not asked if it has received more than its share.
        let got = std::mem::replace(&mut scene.rec[1], 9.0);
        assert_eq!(scene.chosen(), None);
        scene.rec[1] = got;
        scene.profile.buffer = Buffer::Common;
        assert_eq!(scene.chosen(), None);
    }
    // B is not asked if a task is longer than the low water mark, or if no task of A waits.
    for (remaining, stage) in [
        (11.0, TaskStage::Queued),
        (9.0, TaskStage::Executing { since: at(999.0) }),
    ] {
        let mut scene = three_to_one();
        scene.task(A, remaining).stage = stage;
        assert_eq!(scene.chosen(), None);
    }
}

#[test]
fn nobody_is_asked_for_a_part_against_a_reason() {
    let spoil: [fn(&mut FetchRig); 5] = [
        |scene| scene.associations[1].share = 0.0,
        |scene| scene.associations[1].max_concurrent = Some(9),
        |scene| scene.sources[1].min_rpc_time = at(1001.0),
        |scene| scene.sources[1].of_type[CPU].backed_off_until = at(1001.0),
        |scene| scene.outstanding[CPU] = Some(A),
    ];
    for spoil in spoil {
        let mut scene = three_to_one();
        scene.task(A, 9.0);
        assert_eq!(scene.chosen(), Some((B, vec![0])));
        spoil(&mut scene);
        assert_eq!(scene.chosen(), None);
    }
}

#[test]
fn queued_work_counts_as_received() {
    let mut scene = two();
    scene.rec = vec![1.0, 1.0];
    scene.task(A, 3600.0);
    // The task takes one CPU for an hour, which is one half-life. A share is half of this.
    let expected = -(1.0 + std::f64::consts::LN_2);
    let error = scene.survey().priority(A) - expected;
    assert!(error.abs() < 1e-9, "{error}");
    assert_eq!(scene.survey().priority(B), -1.0);
    assert_eq!(scene.survey().in_order(), [B, A]);
    // A GPU counts with its relative speed.
    let mut scene = two();
    scene.rec = vec![1.0, 1.0];
    scene.processors = Processors::new(kind("CPU", 1.0), vec![kind("card", 4.0)]);
    let usage = ProcessorUsage {
        cpus: 0.5,
        cards: Some((CARDS, 1.0)),
    };
    scene.task(A, 800.0).usage = usage;
    let error = scene.survey().priority(A) - expected;
    assert!(error.abs() < 1e-9, "{error}");
    // Tasks of unknown schedulers, and tasks that no processor here can run, do not count.
    scene.task(AssociationIndex(9), 15.0);
    scene.task(B, 15.0).usage.cards = Some((super::super::ProcessorType(9), 1.0));
    assert_eq!(scene.survey().priority(B), -1.0);
}

fn kind(name: &str, relative_speed: f64) -> ProcessorKind {
    ProcessorKind {
        name: name.to_owned(),
        instances: 1,
        relative_speed,
        availability: 1.0,
    }
}

#[test]
fn only_those_that_can_be_asked_count_for_priorities() {
    let mut scene = two();
    scene.rec = vec![1.0, 3.0];
    assert_eq!(scene.survey().priority(A), -0.5);
    scene.sources[1].no_more_work = true;
    assert_eq!(scene.survey().priority(A), -1.0);
    // A scheduler that is only full still counts.
    scene.sources[1].no_more_work = false;
    scene.sources[1].unacknowledged = 100;
    assert_eq!(scene.survey().priority(A), -0.5);
    scene.sources[1].min_rpc_time = at(1001.0);
    assert_eq!(scene.survey().priority(A), -1.0);
}

#[test]
fn a_type_is_left_to_a_better_source() {
    // A can be asked for the CPU, but that has enough for now. So B is only asked for GPU work.
    let mut scene = two();
    scene.saturate(CPU, 15.0);
    scene.back_off(A, CARDS);
    assert_eq!(scene.chosen(), Some((B, vec![1])));
    // If A cannot be asked for the CPU, B is.
    scene.sources[0].of_type[CPU].no_apps = true;
    assert_eq!(scene.chosen(), Some((B, vec![0, 1])));
}

#[test]
fn types_after_the_first_that_is_needed_are_open() {
    // A's limits leave it no CPU work. The scan of A has not yet reached the GPUs.
    let mut scene = two();
    scene.associations[0].max_concurrent = Some(1);
    scene.pair(A, CPU).limited_shortfall = 0.0;
    scene.saturate(CARDS, 15.0);
    assert_eq!(scene.chosen(), Some((B, vec![0])));
    // A is needed for the CPU, and the GPUs are not assigned to another scheduler, so A is asked for both.
    scene.pair(A, CPU).limited_shortfall = 5.0;
    scene.pair(A, CARDS).limited_shortfall = 5.0;
    assert_eq!(scene.chosen(), Some((A, vec![0, 1])));
}

#[test]
fn a_backed_off_type_is_asked_for_only_beside_another() {
    let mut scene = FetchRig::new(1, &[1]);
    scene.back_off(A, CPU);
    scene.saturate(CARDS, 15.0);
    assert_eq!(scene.chosen(), None);
    scene.saturate(CARDS, 5.0);
    assert_eq!(scene.chosen(), Some((A, vec![0, 1])));
    // A better source for a type takes precedence.
    let mut scene = two();
    scene.back_off(B, CPU);
    scene.sources[0].of_type[CARDS].no_apps = true;
    scene.saturate(CPU, 15.0);
    assert_eq!(scene.chosen(), Some((B, vec![1])));
    // Only a backoff is ignored in this way.
    let mut scene = FetchRig::new(1, &[1]);
    scene.sources[0].of_type[CPU].no_apps = true;
    assert_eq!(scene.chosen(), Some((A, vec![1])));
}

#[test]
fn without_a_share_only_what_idles_is_asked_for() {
    let mut scene = FetchRig::new(4, &[]);
    scene.associations[0].share = 0.0;
    let request = scene.survey().choose().unwrap();
    let demand = request.of_type[CPU];
    assert_eq!(
        (demand.secs, demand.instances, demand.idle),
        (1.0, 1.0, 1.0)
    );
    scene.saturate(CPU, 1.0);
    assert_eq!(scene.survey().choose(), None);
    // An idle type is also no reason to ask for another type that is backed off.
    let mut scene = FetchRig::new(1, &[1]);
    scene.associations[0].share = 0.0;
    scene.saturate(CPU, 1.0);
    scene.back_off(A, CARDS);
    assert_eq!(scene.chosen(), None);
    // Schedulers with shares come first. The one without is asked when they have nothing.
    let mut scene = two();
    scene.associations[0].share = 0.0;
    assert_eq!(scene.chosen(), Some((B, vec![0, 1])));
    scene.back_off(B, CPU);
    scene.back_off(B, CARDS);
    assert_eq!(scene.chosen(), Some((A, vec![0, 1])));
}

#[test]
fn one_with_limits_is_asked_while_they_leave_something() {
    let mut scene = two();
    scene.profile.first_asked = FirstAsked::InTurn;
    scene.associations[0].max_concurrent_of_jobs = [(3, 1)].into();
    // A could also be asked for GPU work, so B is not asked for it until necessary.
    assert_eq!(scene.chosen(), Some((B, vec![0])));
    scene.outstanding[CPU] = Some(B);
    let other = scene.associate(100.0, 2.0);
    assert_eq!(scene.chosen(), Some((other, vec![1])));
    scene.outstanding[CPU] = None;
    scene.pair(A, CARDS).limited_shortfall = 1.0;
    assert_eq!(scene.chosen(), Some((A, vec![1])));
}

#[test]
fn the_second_is_asked_when_the_first_has_nothing() {
    let mut scene = two();
    let first = scene.survey().choose().unwrap();
    assert_eq!((first.association, types(&first)), (A, vec![0, 1]));
    // While A searches, no other scheduler is asked for the same types.
    scene.outstanding = scene.processors.table(&Some(A));
    assert_eq!(scene.survey().choose(), None);
    // A has nothing, so B is asked at once.
    scene.outstanding = scene.processors.table(&None);
    scene.back_off(A, CPU);
    scene.back_off(A, CARDS);
    assert_eq!(scene.chosen(), Some((B, vec![0, 1])));
    // If B has nothing either, no scheduler is left.
    scene.back_off(B, CPU);
    scene.back_off(B, CARDS);
    assert_eq!(scene.chosen(), None);
}

/// Tasks of other schedulers would always go before the tight ones without preemption, whose scheduler would get almost nothing.
#[test]
fn a_scheduler_turned_down_for_its_deadlines_is_asked_first_when_an_instance_is_idle() {
    let mut scene = FetchRig::new(1, &[]);
    scene.associate(100.0, 1.0);
    scene.saturate(CPU, 5.0);
    scene.back_off(A, CPU);
    assert_eq!(scene.chosen(), Some((B, vec![0])));
    scene.sources[0].of_type[CPU].turned_down = true;
    assert_eq!(scene.chosen(), None);
    // An instance must not stay idle for the sake of A.
    let mut idle = scene.clone();
    idle.saturate(CPU, 0.0);
    assert_eq!(idle.chosen(), Some((B, vec![0])));
    // A is asked after its backoff, and B before A if B has received less.
    scene.now = at(1001.0);
    assert_eq!(scene.chosen(), Some((A, vec![0])));
    scene.now = at(1000.0);
    scene.rec = vec![2.0, 1.0];
    assert_eq!(scene.chosen(), Some((B, vec![0])));
}

#[test]
fn a_scheduler_whose_tasks_fit_into_no_gpu_is_not_asked_without_end() {
    let mut scene = FetchRig::new(1, &[2]);
    scene.saturate(CPU, 40.0);
    scene.saturate(CARDS, 0.0);
    scene.outlook.of_type[CARDS].idle_now = 0.5;
    for waiting in [0, 1, 2] {
        assert_eq!(scene.chosen().is_some(), waiting < 2, "{waiting}");
        scene.task(A, 100.0).usage.cards = Some((CARDS, 1.0));
    }
    // Another scheduler may have a task that fits.
    scene.associate(100.0, 1.0);
    assert_eq!(scene.chosen(), Some((B, vec![1])));
}

#[test]
fn while_one_looks_for_one_type_others_are_asked_for_the_rest() {
    let mut scene = two();
    scene.outstanding[CPU] = Some(A);
    assert_eq!(scene.chosen(), Some((B, vec![1])));
    // A scheduler that searches is not asked for more, because the new request would replace the first one.
    assert_eq!(scene.piggybacked(A), Vec::<usize>::new());
    assert_eq!(scene.survey().initial(A), None);
    let initial = scene.survey().initial(B).unwrap();
    assert_eq!(types(&initial), [1]);
    scene.outstanding[CARDS] = Some(B);
    assert_eq!(scene.chosen(), None);
    assert_eq!(scene.piggybacked(B), Vec::<usize>::new());
}

#[test]
fn who_is_talked_to_anyway_is_asked_for_what_is_below_the_high_mark() {
    for (of_cpu, of_cards, asked) in [
        (0.0, 0.0, vec![0, 1]),
        (15.0, 29.9, vec![0, 1]),
        (15.0, 30.0, vec![0]),
        (30.0, 100.0, vec![]),
    ] {
        let mut scene = two();
        scene.saturate(CPU, of_cpu);
        scene.saturate(CARDS, of_cards);
        assert_eq!(scene.piggybacked(A), asked, "{of_cpu} {of_cards}");
    }
}

#[test]
fn who_is_talked_to_anyway_is_not_asked_for_what_a_better_source_may_have() {
    type Change = fn(&mut FetchRig);
    let rows: [(Change, Vec<usize>); 6] = [
        (|_| {}, vec![]),
        (|scene| scene.rec = vec![1.0, 1.0], vec![0, 1]),
        (|scene| scene.rec = vec![2.0, 1.0], vec![0, 1]),
        (|scene| scene.sources[0].unacknowledged = 100, vec![0, 1]),
        // B is asked for GPU work only while A is backed off.
        (|scene| scene.back_off(A, CARDS), vec![1]),
        (|scene| scene.sources.truncate(1), vec![]),
    ];
    for (index, (change, asked)) in rows.into_iter().enumerate() {
        let mut scene = two();
        change(&mut scene);
        assert_eq!(scene.piggybacked(B), asked, "row {index}");
    }
}

#[test]
fn who_is_talked_to_anyway_may_be_backed_off() {
    let mut scene = FetchRig::new(1, &[1]);
    scene.back_off(A, CPU);
    assert_eq!(scene.piggybacked(A), [0, 1]);
    scene.sources[0].min_rpc_time = at(2000.0);
    assert_eq!(scene.piggybacked(A), [0, 1]);
    scene.sources[0].of_type[CPU].no_apps = true;
    assert_eq!(scene.piggybacked(A), [1]);
    scene.sources[0].no_more_work = true;
    assert_eq!(scene.piggybacked(A), Vec::<usize>::new());
}

#[test]
fn the_first_time_one_task_of_each_type_is_asked_for() {
    let mut scene = FetchRig::new(2, &[1, 0]);
    scene.saturate(CPU, 1000.0);
    scene.saturate(CARDS, 0.0);
    let request = scene.survey().initial(A).unwrap();
    assert_eq!(types(&request), [0, 1]);
    for (of_type, demand) in request.of_type.iter() {
        // The request is for at most one idle instance, whatever is idle.
        let idle = f64::from(u8::from(of_type == CARDS));
        assert_eq!((demand.instances, demand.idle), (0.0, idle));
        assert!(demand.secs <= 1.0);
    }
    // The caller checks whether a scheduler is suspended.
    scene.sources[0].suspended = true;
    assert!(scene.survey().initial(A).is_some());
    scene.sources[0].no_more_work = true;
    assert_eq!(scene.survey().initial(A), None);
    scene.sources[0].no_more_work = false;
    scene.associations[0].share = 0.0;
    assert_eq!(scene.survey().initial(A), None);
}

#[test]
fn what_is_not_there_is_not_asked_for() {
    let mut scene = FetchRig::new(0, &[1, 0]);
    assert_eq!(scene.chosen(), Some((A, vec![1])));
    scene.saturate(CARDS, 100.0);
    assert_eq!(scene.chosen(), None);
    scene.associations.clear();
    assert_eq!(scene.chosen(), None);
    assert_eq!(FetchRig::new(0, &[]).chosen(), None);
}
