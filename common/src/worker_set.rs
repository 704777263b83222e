//! The id of a set of workers: a commutative hash of its members, and a version that orders sets of one scheduler.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::ids::{SchedulerId, WorkerId};

/// Order-independent hash of 64-bit values: a sum and an xor, both removable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SetHash {
    pub add_all: i64,
    pub xor_all: i64,
}

impl SetHash {
    fn add(&mut self, value: i64) {
        self.add_all = self.add_all.wrapping_add(value);
        self.xor_all ^= value;
    }

    fn remove(&mut self, value: i64) {
        self.add_all = self.add_all.wrapping_sub(value);
        self.xor_all ^= value;
    }
}

/// Content hash of a set of worker instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerSetHash {
    pub start_time: SetHash,
    pub rand: SetHash,
    pub num_workers: i32,
}

impl WorkerSetHash {
    pub fn add(&mut self, worker: WorkerId) {
        self.start_time.add(worker.0.start_time);
        self.rand.add(worker.0.rand);
        self.num_workers += 1;
    }

    /// The worker must be a member.
    pub fn remove(&mut self, worker: WorkerId) {
        assert!(
            self.num_workers > 0,
            "Invariant: only members are removed from a worker set"
        );
        self.start_time.remove(worker.0.start_time);
        self.rand.remove(worker.0.rand);
        self.num_workers -= 1;
    }
}

/// A set as one scheduler numbered it. Versions of different schedulers are unrelated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerSetId {
    pub scheduler: SchedulerId,
    /// Wraps around; compare with [`version_order`] only.
    pub version: i64,
    pub hash: WorkerSetHash,
}

/// Order of two versions modulo 2^64: by the sign of their distance. `None` at distance 2^63, where there is none.
pub fn version_order(a: i64, b: i64) -> Option<Ordering> {
    let distance = a.wrapping_sub(b);
    if distance == i64::MIN {
        None
    } else {
        Some(distance.cmp(&0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_wrap() {
        assert_eq!(version_order(i64::MIN, i64::MAX), Some(Ordering::Greater));
        assert_eq!(version_order(0, i64::MIN), None);
        assert_eq!(version_order(1, 1), Some(Ordering::Equal));
    }

    proptest! {
        #[test]
        fn removal_inverts_addition_in_any_order(mut ids in proptest::collection::vec((any::<i64>(), any::<i64>()), 0..20)) {
            let mut hash = WorkerSetHash::default();
            for &(s, r) in &ids {
                hash.add(WorkerId::new(s, r));
            }
            ids.reverse();
            for &(s, r) in &ids {
                hash.remove(WorkerId::new(s, r));
            }
            prop_assert_eq!(hash, WorkerSetHash::default());
        }
    }
}
