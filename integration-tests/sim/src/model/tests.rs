//! Tests of the models against the real code, where there is some.

use std::time::Duration;

use brasserie_common::{WorkerId, WorkerSetHash};
use brasserie_scheduler_core::LeftCause;

use super::directories::RecordedState;
use super::worker_sets::{Sums, WorkerSets};
use crate::event_log::{Happening, SetMark};
use crate::laws::trial;

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
    let one = RecordedState::default();
    let mut other = RecordedState::default();
    assert!(one.same_as(&other));
    other.hold_back = Duration::from_secs(1);
    assert!(!one.same_as(&other));
    let unrelated: Happening = Happening::FaultsOver;
    let mut sets = WorkerSets::default();
    sets.note(&unrelated);
    assert!(sets.get(trial::sid(1)).is_none());
}
