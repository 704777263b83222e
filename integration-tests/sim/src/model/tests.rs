//! Tests of the models against the real code, where there is some.

use std::time::Duration;

use brasserie_common::{Time, WorkerId, WorkerSetHash};
use brasserie_scheduler_core::LeftCause;

use super::directories::State;
use super::rates::Rate;
use super::worker_sets::{Sums, WorkerSets};
use crate::event_log::{Happening, SetMark};
use crate::invariants::trial;

#[test]
fn a_rate_counts_any_span_of_its_window() {
    let mut rate = Rate::default();
    let second = Duration::from_secs(1);
    let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
    for millis in [0, 100, 200] {
        assert!(!rate.exceeds(at(millis), 3, second), "{millis}");
    }
    assert!(rate.exceeds(at(999), 3, second));
    assert!(!rate.exceeds(at(1100), 3, second));
    assert!(rate.exceeds(at(1199), 3, second));
}

#[test]
fn sums_are_those_of_the_real_hash() {
    let mut sets = WorkerSets::default();
    sets.note(&trial::started(1));
    let mut real = WorkerSetHash::default();
    for n in [3, -7, i64::MAX] {
        sets.note(&trial::associated(1, 1, n));
        real.add(WorkerId::new(n, n));
        let history = sets.get(trial::sid(1)).unwrap();
        assert!(history.step_of(Sums::from(&real)).is_some(), "{n}");
    }
    sets.note(&trial::left(1, 2, -7, LeftCause::Lost, 0));
    real.remove(WorkerId::new(-7, -7));
    let history = sets.get(trial::sid(1)).unwrap();
    assert_eq!(history.step_of(Sums::from(&real)), Some(4));
    assert!(history.contains_at(trial::wid(-7), 3) && !history.contains_at(trial::wid(-7), 4));
    let mark = SetMark {
        hash: real,
        ..trial::set(1, 1, &[])
    };
    assert_eq!(Sums::from(&mark.hash).members, 2);
}

#[test]
fn states_are_the_same_whoever_wrote_them() {
    let one = State::default();
    let mut other = State::default();
    assert!(one.same_as(&other));
    other.hold_back = Duration::from_secs(1);
    assert!(!one.same_as(&other));
    let unrelated: Happening = Happening::FaultsOver;
    let mut sets = WorkerSets::default();
    sets.note(&unrelated);
    assert!(sets.get(trial::sid(1)).is_none());
}
