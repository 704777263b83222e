//! Tests of limits of concurrent tasks, for associations and for jobs.

use std::collections::BTreeSet;

use super::*;

#[test]
fn an_association_runs_no_more_at_once_than_its_limit() {
    let tasks = (0..4).map(|number| of_job(number as u32, task(number, 10.0)));
    let mut case = Case::new(tasks.collect()).with_two();
    case.processors = Processors::new(kind(4, 1.0), vec![]);
    case.associations[0].max_concurrent = Some(2);
    let outlook = case.outlook();
    let (shortfall, idle, saturated) = of_type(&outlook, CPU);
    assert!((shortfall - (4.0 * 30.0 - 40.0)).abs() < 1e-9);
    assert_eq!((idle, saturated), (2.0, 0.0));
    let limited = outlook.of(AssociationIndex(0));
    // The association is at its limit until 20, and then could use two more for ten seconds.
    assert!((limited.of_type[CPU].limited_shortfall - 20.0).abs() < 1e-9);
    assert!(
        limited
            .limited_at
            .is_some_and(|at| (10.0..20.0).contains(&at))
    );
    let other = outlook.of(AssociationIndex(1));
    assert_eq!(
        (other.of_type[CPU].limited_shortfall, other.limited_at),
        (0.0, None)
    );
}

#[test]
fn what_a_limit_leaves_is_counted_with_the_largest_task() {
    let mut case = Case::new(queue([on(3.0, task(1, 10.0)), on(1.0, task(2, 10.0))]));
    case.processors = Processors::new(kind(8, 1.0), vec![kind(1, 1.0)]);
    case.associations[0].max_concurrent = Some(2);
    let outlook = case.outlook();
    let limited = |of: ProcessorType| outlook.of(AssociationIndex(0)).of_type[of].limited_shortfall;
    // Six CPUs could be used, and four are for ten seconds.
    assert!((limited(CPU) - (2.0 * 10.0 + 6.0 * 20.0)).abs() < 1e-9);
    // The usage of GPU tasks is unknown and counts as one, and there are no more GPUs.
    assert!((limited(CARDS) - 30.0).abs() < 1e-9);
}

#[test]
fn a_limit_that_holds_beyond_the_buffer_is_told_so() {
    let mut case = Case::new((0..9).map(|number| task(number, 10.0)).collect());
    case.associations[0].max_concurrent = Some(1);
    let limited_at = case.outlook().of(AssociationIndex(0)).limited_at;
    assert!(limited_at.is_some_and(|at| at > 30.0), "{limited_at:?}");
}

#[test]
fn a_jobs_limit_lets_other_jobs_pass() {
    let tasks = [(1, 7), (2, 7), (3, 7), (4, 8)];
    let tasks = tasks.map(|(number, job)| of_job(job, task(number, 10.0)));
    let mut case = Case::new(tasks.to_vec());
    case.associations[0].max_concurrent_of_jobs = BTreeMap::from([(7, 1), (9, 0)]);
    let outlook = case.outlook();
    let (shortfall, idle, saturated) = of_type(&outlook, CPU);
    assert!((shortfall - 20.0).abs() < 1e-9, "{shortfall}");
    assert_eq!(idle, 0.0);
    assert!((saturated - 10.0).abs() < 1e-9);
    let association = outlook.of(AssociationIndex(0));
    // The association's other jobs could use all idle CPUs.
    assert_eq!(association.of_type[CPU].limited_shortfall, shortfall);
    assert!(association.limited_at.is_some_and(|at| at >= 20.0 - 1e-9));
}

#[test]
fn a_limit_of_none_lets_nothing_run() {
    let late = || {
        vec![
            due(-1.0, task(1, 10.0)),
            due(-1.0, of_job(5, task(2, 10.0))),
        ]
    };
    let mut of_all = Case::new(late());
    of_all.associations[0].max_concurrent = Some(0);
    assert_eq!(of_type(&of_all.outlook(), CPU), (60.0, 2.0, 0.0));
    assert_eq!(missed(&of_all.outlook()), [0_u64; 0]);
    let mut of_one = Case::new(late());
    of_one.associations[0].max_concurrent_of_jobs = BTreeMap::from([(5, 0)]);
    assert_eq!(of_one.outlook().misses, BTreeSet::from([TaskNumber(1)]));
}

/// Limits of one task per job do not keep a large machine from being fully used.
#[test]
fn many_jobs_with_limits_keep_many_processors_busy() {
    let (jobs, of_each) = (500_u32, 40_u32);
    let tasks = (0..jobs * of_each).map(|number| {
        let task = task(u64::from(number), 0.01);
        of_job(number / of_each, task)
    });
    let mut case = Case::new(tasks.collect());
    case.processors = Processors::new(kind(256, 1.0), vec![]);
    case.associations[0].max_concurrent_of_jobs = (0..jobs).map(|job| (job, 1)).collect();
    let (shortfall, idle, _) = of_type(&case.outlook(), CPU);
    assert_eq!(idle, 0.0);
    let work = f64::from(jobs * of_each) * 0.01;
    assert!(
        (shortfall - (256.0 * 30.0 - work)).abs() < 1e-6,
        "{shortfall}"
    );
}
