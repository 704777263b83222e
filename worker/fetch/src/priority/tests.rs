//! Tests of the priority formulas and of laws that hold for all of them.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::num::f64::ANY;
use proptest::prelude::*;

use super::super::types::{Association, AssociationIndex};
use super::Priorities;

fn with_shares(shares: &[f64]) -> Vec<Association> {
    let one = |share: &f64| Association {
        share: *share,
        max_concurrent: None,
        max_concurrent_of_jobs: BTreeMap::new(),
    };
    shares.iter().map(one).collect()
}

fn all_counted(shares: &[f64], rec: &[f64]) -> Priorities {
    Priorities::new(&with_shares(shares), rec, &vec![true; shares.len()])
}

fn each(of: &Priorities, count: usize) -> Vec<f64> {
    (0..count).map(|at| of.of(AssociationIndex(at))).collect()
}

#[test]
fn what_was_got_is_weighed_with_the_share() {
    for (shares, rec, expected) in [
        // No scheduler has received anything.
        (vec![100.0, 100.0], vec![0.0, 0.0], vec![0.0, 0.0]),
        // Each has received its share.
        (vec![100.0, 300.0], vec![1.0, 3.0], vec![-1.0, -1.0]),
        // One has received everything.
        (vec![100.0, 300.0], vec![5.0, 0.0], vec![-4.0, 0.0]),
        // The scheduler without a share is below all others.
        (
            vec![100.0, 300.0, 0.0],
            vec![2.0, 2.0, 4.0],
            vec![-1.0, -1.0 / 3.0, -1000.5],
        ),
        // No scheduler has a share.
        (vec![0.0, 0.0], vec![1.0, 2.0], vec![0.0, 0.0]),
        (vec![], vec![], vec![]),
        // Invalid numbers count as 0.
        (
            vec![f64::NAN, -5.0, 100.0],
            vec![1.0, f64::INFINITY, f64::NAN],
            vec![-1000.0, -1001.0, 0.0],
        ),
    ] {
        let priorities = all_counted(&shares, &rec);
        assert_eq!(
            each(&priorities, shares.len()),
            expected,
            "{shares:?} {rec:?}"
        );
    }
}

#[test]
fn those_that_are_not_counted_are_weighed_with_those_that_are() {
    let associations = with_shares(&[100.0, 100.0, 200.0]);
    let counted = [true, true, false];
    let priorities = Priorities::new(&associations, &[1.0, 3.0, 8.0], &counted);
    assert_eq!(each(&priorities, 3), [-0.5, -1.5, -2.0]);
}

#[test]
fn where_nobody_is_counted_all_are_equal() {
    let associations = with_shares(&[100.0, 0.0]);
    let mut priorities = Priorities::new(&associations, &[4.0, 5.0], &[]);
    assert_eq!(each(&priorities, 2), [0.0, 0.0]);
    assert_eq!(
        priorities.in_order(),
        [AssociationIndex(0), AssociationIndex(1)]
    );
    priorities.bump(AssociationIndex(0), 0.0);
    assert_eq!(each(&priorities, 2), [-4.0, 0.0]);
}

#[test]
fn what_is_planned_counts_as_a_24th_of_all_by_its_part_of_the_worker() {
    let mut priorities = all_counted(&[100.0, 100.0], &[12.0, 12.0]);
    priorities.bump(AssociationIndex(0), 0.5);
    // 12 + 24 / 24 / 2 of 24, for half of the shares.
    assert_eq!(each(&priorities, 2), [-12.5 / 24.0 * 2.0, -1.0]);
    assert_eq!(
        priorities.in_order(),
        [AssociationIndex(1), AssociationIndex(0)]
    );

    let mut fresh = all_counted(&[100.0, 100.0], &[0.0, 0.0]);
    fresh.bump(AssociationIndex(0), 1.0);
    assert_eq!(each(&fresh, 2), [-2.0 / 24.0, 0.0]);
}

#[test]
fn one_that_is_not_there_comes_last() {
    let mut priorities = all_counted(&[100.0, 0.0], &[1.0, 1.0]);
    let before = priorities.clone();
    let nobody = AssociationIndex(2);
    priorities.bump(nobody, 1.0);
    priorities.count_as_got(nobody, 1.0);
    assert_eq!(priorities, before);
    assert_eq!(priorities.of(nobody), f64::NEG_INFINITY);
    assert_eq!(priorities.debt(nobody), 0.0);
}

#[test]
fn debt_is_the_inverse() {
    let priorities = all_counted(&[100.0, 300.0, 0.0, 400.0], &[2.0, 2.0, 4.0, 0.0]);
    let debts: Vec<_> = (0..4)
        .map(|at| priorities.debt(AssociationIndex(at)))
        .collect();
    assert_eq!(debts, [0.5, 1.5, 0.0, f64::INFINITY]);
}

integration_tests_properties::properties! {
    256;

    /// A scheduler that has more than its share has it at the expense of others.
    #[test]
    fn weighed_with_the_shares_all_priorities_add_up_to_minus_one(
        places in vec((0.0..1000.0_f64, 0.001..1000.0_f64), 1..6),
    ) {
        let (rec, shares): (Vec<_>, Vec<_>) = places.into_iter().unzip();
        let rec: Vec<f64> = rec.into_iter().map(|rec: f64| rec + 0.001).collect();
        let sum: f64 = shares.iter().sum();
        let priorities = each(&all_counted(&shares, &rec), shares.len());
        let weighed: f64 = priorities.iter().zip(&shares).map(|(of, share)| of * share / sum).sum();
        prop_assert!((weighed + 1.0).abs() < 1e-9, "{weighed}");
    }

    /// Scaling by a power of two is exact.
    #[test]
    fn a_scale_of_all_rec_or_all_shares_changes_nothing(
        places in vec((0.0..1000.0_f64, 0.001..1000.0_f64, any::<bool>()), 1..6),
        bumped in 0_usize..6,
        power in -20_i32..20,
    ) {
        let shares: Vec<_> = places.iter().map(|(share, ..)| *share).collect();
        let rec: Vec<_> = places.iter().map(|(_, rec, _)| *rec).collect();
        let mut counted: Vec<_> = places.iter().map(|(.., counted)| *counted).collect();
        counted[0] = true;
        let scaled = |all: &[f64]| all.iter().map(|one| one * 2_f64.powi(power)).collect::<Vec<_>>();
        let computed = |shares: &[f64], rec: &[f64]| {
            let mut priorities = Priorities::new(&with_shares(shares), rec, &counted);
            priorities.bump(AssociationIndex(bumped), 0.25);
            each(&priorities, places.len())
        };
        let plain = computed(&shares, &rec);
        prop_assert_eq!(&plain, &computed(&scaled(&shares), &rec));
        prop_assert_eq!(&plain, &computed(&shares, &scaled(&rec)));
    }

    #[test]
    fn the_order_is_that_of_debts(places in vec((0.1..1000.0_f64, 0.0..1000.0_f64), 1..8)) {
        let shares: Vec<_> = places.iter().map(|(share, _)| *share).collect();
        let rec: Vec<_> = places.iter().map(|(_, rec)| *rec).collect();
        let priorities = all_counted(&shares, &rec);
        let debts: Vec<_> = priorities.in_order().into_iter().map(|one| priorities.debt(one)).collect();
        // Debts decrease, up to rounding.
        prop_assert!(debts.windows(2).all(|pair| pair[0] >= pair[1] * (1.0 - 1e-12)), "{debts:?}");
    }

    #[test]
    fn nothing_from_outside_makes_a_priority_that_is_no_number_or_above_zero(
        places in vec((ANY, ANY, any::<bool>()), 0..6),
        bumps in vec((0_usize..7, ANY, ANY), 0..6),
    ) {
        let shares: Vec<_> = places.iter().map(|(share, ..)| *share).collect();
        let rec: Vec<_> = places.iter().map(|(_, rec, _)| *rec).collect();
        let counted: Vec<_> = places.iter().map(|(.., counted)| *counted).collect();
        let mut priorities = Priorities::new(&with_shares(&shares), &rec, &counted);
        for (of, fraction, amount) in bumps {
            priorities.bump(AssociationIndex(of), fraction);
            priorities.count_as_got(AssociationIndex(of), amount);
        }
        for priority in each(&priorities, places.len()) {
            prop_assert!(priority.is_finite() && priority <= 0.0, "{priority}");
        }
        for at in 0..places.len() {
            prop_assert!(priorities.debt(AssociationIndex(at)) >= 0.0);
        }
        prop_assert_eq!(priorities.in_order().len(), places.len());
    }
}
