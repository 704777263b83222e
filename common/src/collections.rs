//! Hash containers whose order does not depend on the process, and whose keys a peer cannot force to collide.
//!
//! [`SeededMap`] has a keyed hash: use it for names. [`IdMap`] is fast and unkeyed: use it for small ids that this program assigns. Neither
//! may be iterated where the order could become visible (`iter_over_hash_type` is denied in the pure crates).

#![expect(
    clippy::disallowed_types,
    reason = "the one place that wraps the standard containers with a hasher of ours"
)]

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// A map from names.
pub type SeededMap<K, V> = std::collections::HashMap<K, V, SeededState>;
/// A set of names.
pub type SeededSet<K> = std::collections::HashSet<K, SeededState>;
/// A map from ids that this program assigns.
pub type IdMap<K, V> = std::collections::HashMap<K, V, rustc_hash::FxBuildHasher>;
/// A set of ids that this program assigns.
pub type IdSet<K> = std::collections::HashSet<K, rustc_hash::FxBuildHasher>;

/// A builder of keyed hashers. `Default` is for simulations and tests; programs pass their seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeededState(pub u64);

impl BuildHasher for SeededState {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, !self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_change_the_hash_and_nothing_else_does() {
        assert_eq!(SeededState(1).hash_one("x"), SeededState(1).hash_one("x"));
        assert_ne!(SeededState(1).hash_one("x"), SeededState(2).hash_one("x"));
    }
}
