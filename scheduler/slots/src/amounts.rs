//! Amounts and identities that all modules of the crate share.

use std::fmt;
use std::ops::Add;
use std::sync::Arc;

/// An amount of disk space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    pub const ZERO: Bytes = Bytes(0);
    /// More than every disk holds: the capacity of a disk without a configured limit.
    pub const UNLIMITED: Bytes = Bytes(u64::MAX);

    pub const fn from_mib(mib: u64) -> Self {
        Bytes(mib << 20)
    }

    pub const fn from_gib(gib: u64) -> Self {
        Bytes(gib << 30)
    }

    /// Returns the difference; zero if `other` is larger.
    pub fn less(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }

    /// Returns how many artifacts of this size fit into the amount. An artifact of no size counts as one byte.
    pub fn slots_of(self, artifact: Bytes) -> u64 {
        self.0 / artifact.0.max(1)
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
}

/// A fraction in thousandths. Integers keep its multiples exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permille(pub u16);

impl Permille {
    pub const ALL: Permille = Permille(1000);

    /// Returns the fraction of a number, rounded down.
    pub fn of(self, number: u64) -> u64 {
        let product = u128::from(number) * u128::from(self.0) / 1000;
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

/// A factor that is finite and not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Weight(f64);

impl Weight {
    pub const ZERO: Weight = Weight(0.0);
    pub const ONE: Weight = Weight(1.0);

    /// Returns `None` if the factor is negative or not finite.
    pub fn new(factor: f64) -> Option<Self> {
        (factor.is_finite() && factor >= 0.0).then_some(Weight(factor))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

/// The caller's number for the machine lock of a worker. It outlives the worker's instances, as the data on the disks does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(pub u32);

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The rack of a worker. All workers whose rack is unknown count as one rack.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rack(Arc<str>);

impl Rack {
    /// An empty name stands for an unknown rack.
    pub fn new(name: &str) -> Self {
        Rack(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gibibyte_holds_16_artifacts_of_64_mebibytes() {
        assert_eq!(Bytes::from_gib(1).slots_of(Bytes::from_mib(64)), 16);
        let almost = Bytes::from_gib(1).less(Bytes(1));
        assert_eq!(almost.slots_of(Bytes::from_mib(64)), 15);
        assert_eq!(Bytes(7).slots_of(Bytes::ZERO), 7);
    }

    #[test]
    fn amounts_saturate() {
        assert_eq!(Bytes(3).less(Bytes(4)), Bytes::ZERO);
        assert_eq!(Bytes::UNLIMITED + Bytes(1), Bytes::UNLIMITED);
        assert_eq!(Permille(u16::MAX).of(u64::MAX), u64::MAX);
    }

    #[test]
    fn thousandths_round_down() {
        for (number, part) in [(0, 0), (3, 0), (4, 1), (10, 3), (13, 3), (14, 4)] {
            assert_eq!(Permille(300).of(number), part, "{number}");
        }
    }

    #[test]
    fn weights_are_finite_and_not_negative() {
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Weight::new(wrong), None, "{wrong}");
        }
        assert_eq!(Weight::new(0.0), Some(Weight::ZERO));
        assert_eq!(Weight::new(1.0), Some(Weight::ONE));
    }
}
