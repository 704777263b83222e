//! The id of a set of workers: a commutative hash of its members, a version that orders the sets of one scheduler, and whether that
//! scheduler had left its initial wait when it gave the id.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::ids::{SchedulerId, WorkerId};

/// An order-independent hash of 64-bit values: a sum and an xor. Members can be removed from both.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
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

/// An order-independent digest of worker instances: the sum of their SHA-256 modulo 2^256. Unlike with [`SetHash`], no two sets collide by
/// accident. A deliberate collision is possible; authentication must prevent that.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SetDigest {
    /// Most significant limb first.
    limbs: [u64; 4],
}

impl SetDigest {
    /// The digest of the empty set.
    pub const EMPTY: SetDigest = SetDigest { limbs: [0; 4] };

    fn hash_of(worker: WorkerId) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(worker.0.start_time.to_be_bytes());
        hasher.update(worker.0.rand.to_be_bytes());
        hasher.finalize().into()
    }

    pub fn from_be_bytes(bytes: [u8; 32]) -> Self {
        let mut limbs = [0; 4];
        for (limb, bytes) in limbs.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *limb = u64::from_be_bytes(*bytes);
        }
        SetDigest { limbs }
    }

    pub fn to_be_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (bytes, limb) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.limbs) {
            *bytes = limb.to_be_bytes();
        }
        bytes
    }

    /// Adds the hash of a member.
    pub fn include(&mut self, hash: [u8; 32]) {
        let mut carry = false;
        let other = SetDigest::from_be_bytes(hash).limbs;
        for (limb, other) in self.limbs.iter_mut().zip(other).rev() {
            let (sum, over) = limb.overflowing_add(other);
            let (sum, again) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, over || again);
        }
    }

    /// Removes the hash of a member.
    pub fn exclude(&mut self, hash: [u8; 32]) {
        let mut borrow = false;
        let other = SetDigest::from_be_bytes(hash).limbs;
        for (limb, other) in self.limbs.iter_mut().zip(other).rev() {
            let (rest, under) = limb.overflowing_sub(other);
            let (rest, again) = rest.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (rest, under || again);
        }
    }
}

/// The content hash of a set of worker instances. Compare sets with [`WorkerSetHash::same_set`]. Equality of the values also distinguishes
/// an id that a peer without the digest returned from the id it received.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WorkerSetHash {
    pub start_time: SetHash,
    pub rand: SetHash,
    pub num_workers: i32,
    /// `None` from a peer that does not know the digest.
    pub digest: Option<SetDigest>,
}

impl WorkerSetHash {
    /// The empty set, with a digest. (The default is no set at all, which a worker names that knows no scheduler.)
    pub const NOBODY: WorkerSetHash = WorkerSetHash {
        start_time: SetHash {
            add_all: 0,
            xor_all: 0,
        },
        rand: SetHash {
            add_all: 0,
            xor_all: 0,
        },
        num_workers: 0,
        digest: Some(SetDigest::EMPTY),
    };

    pub fn add(&mut self, worker: WorkerId) {
        self.start_time.add(worker.0.start_time);
        self.rand.add(worker.0.rand);
        self.num_workers += 1;
        if let Some(digest) = &mut self.digest {
            digest.include(SetDigest::hash_of(worker));
        }
    }

    /// Removes a worker, which must be a member.
    pub fn remove(&mut self, worker: WorkerId) {
        assert!(
            self.num_workers > 0,
            "Invariant: only members are removed from a worker set"
        );
        self.start_time.remove(worker.0.start_time);
        self.rand.remove(worker.0.rand);
        self.num_workers -= 1;
        if let Some(digest) = &mut self.digest {
            digest.exclude(SetDigest::hash_of(worker));
        }
    }

    /// Compares what both sides have: also the digests if both have one.
    pub fn same_set(&self, other: &WorkerSetHash) -> bool {
        let same_digest = match (self.digest, other.digest) {
            (Some(own), Some(theirs)) => own == theirs,
            (Some(_) | None, None) | (None, Some(_)) => true,
        };
        let plain = |hash: &WorkerSetHash| (hash.num_workers, hash.start_time, hash.rand);
        same_digest && plain(self) == plain(other)
    }
}

/// Whether the scheduler that gave a set id knew all workers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Standing {
    /// The scheduler was in its own initial wait, or is a peer that does not say: workers that run tasks may be missing from the set.
    #[default]
    Unsettled,
    /// The scheduler had left its initial wait: the set has every worker that may run tasks. Only such ids count for consensus.
    Settled,
}

/// A set as one scheduler numbered it. Versions of different schedulers are unrelated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WorkerSetId {
    pub scheduler: SchedulerId,
    /// Wraps around; compare with [`version_order`] only.
    pub version: i64,
    pub hash: WorkerSetHash,
    pub standing: Standing,
}

/// Returns the order of two versions modulo 2^64, by the sign of their distance; `None` at distance 2^63, where there is none.
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
        assert_eq!(version_order(i64::MAX - 1, 0), Some(Ordering::Greater));
        assert_eq!(version_order(0, i64::MAX), Some(Ordering::Less));
    }

    #[test]
    fn a_digest_is_the_sha256_of_both_halves_big_end_first() {
        let mut hash = WorkerSetHash::NOBODY;
        hash.add(WorkerId::new(1, -1));
        let bytes = hash.digest.unwrap().to_be_bytes();
        let expected = Sha256::digest([
            0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255, 255, 255, 255, 255,
        ]);
        assert_eq!(bytes.as_slice(), expected.as_slice());
        // The sum carries from the least significant limb.
        hash.add(WorkerId::new(1, -1));
        let twice = hash.digest.unwrap().to_be_bytes();
        assert_eq!(twice[31], bytes[31].wrapping_mul(2));
        assert_eq!(
            twice[30],
            bytes[30].wrapping_mul(2) | u8::from(bytes[31] > 127)
        );
    }

    #[test]
    fn sets_compare_by_what_both_sides_know() {
        let (a, b) = (WorkerId::new(1, 2), WorkerId::new(3, 4));
        let mut hash = WorkerSetHash::NOBODY;
        hash.add(a);
        let bare = WorkerSetHash {
            digest: None,
            ..hash
        };
        assert!(hash.same_set(&hash) && hash.same_set(&bare) && bare.same_set(&hash));
        let mut other = hash;
        other.add(b);
        assert!(!hash.same_set(&other) && !bare.same_set(&other));
        // The sums, xors and number are equal by accident; only the digest differs.
        let collision = WorkerSetHash {
            digest: other.digest,
            ..hash
        };
        assert!(!hash.same_set(&collision) && bare.same_set(&collision));
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn removal_inverts_addition_in_any_order(mut ids in proptest::collection::vec((any::<i64>(), any::<i64>()), 0..20)) {
            for empty in [WorkerSetHash::default(), WorkerSetHash::NOBODY] {
                let mut hash = empty;
                for &(s, r) in &ids {
                    hash.add(WorkerId::new(s, r));
                }
                ids.reverse();
                for &(s, r) in &ids {
                    hash.remove(WorkerId::new(s, r));
                }
                prop_assert_eq!(hash, empty);
            }
        }

        #[test]
        fn digests_keep_their_bytes_and_add_in_any_order(bytes in any::<[u8; 32]>(), a in any::<(i64, i64)>(), b in any::<(i64, i64)>()) {
            let digest = SetDigest::from_be_bytes(bytes);
            prop_assert_eq!(digest.to_be_bytes(), bytes);
            let (a, b) = (WorkerId::new(a.0, a.1), WorkerId::new(b.0, b.1));
            let (mut one, mut other) = (digest, digest);
            one.include(SetDigest::hash_of(a));
            one.include(SetDigest::hash_of(b));
            other.include(SetDigest::hash_of(b));
            other.include(SetDigest::hash_of(a));
            prop_assert_eq!(one, other);
        }
    }
}
