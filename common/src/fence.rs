//! Fencing tokens: numbers that increase with every run of a task, for storage that refuses writes with a smaller one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of lower bits of a [`Fence`], which count the runs of one generation.
const COUNTER_BITS: u32 = 31;

/// The upper 32 of the 63 bits of the fences that a scheduler gives out. A new generation is larger than all that the scheduler knows, and
/// at least the Unix second of the scheduler's start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FenceGeneration(pub u32);

impl FenceGeneration {
    /// Returns the generation of a scheduler that starts at this Unix second. A time before 1970 or after 2106 gives 0: such a clock is
    /// wrong, and no generation could follow the largest one.
    pub fn of_second(seconds: i64) -> Self {
        FenceGeneration(u32::try_from(seconds).unwrap_or(0))
    }

    pub fn next(self) -> Self {
        FenceGeneration(self.0.saturating_add(1))
    }
}

/// The fencing token of one run: positive, and larger than those of all earlier runs of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(i64);

impl Fence {
    /// The largest counter of a generation; the smallest is 1.
    pub const MAX_COUNTER: u32 = (1 << COUNTER_BITS) - 1;

    /// Returns `None` if `number` is not positive.
    pub fn from_wire(number: i64) -> Option<Self> {
        (number > 0).then_some(Fence(number))
    }

    /// Returns the fence of the run with this number in its generation. Clamps `counter` to at least 1 and at most [`Fence::MAX_COUNTER`].
    pub fn new(generation: FenceGeneration, counter: u32) -> Self {
        let counter = counter.clamp(1, Fence::MAX_COUNTER);
        Fence((i64::from(generation.0) << COUNTER_BITS) | i64::from(counter))
    }

    pub fn generation(self) -> FenceGeneration {
        // Invariant: 63 bits without the 31 counter bits leave 32 bits, which fit a `u32`.
        FenceGeneration(u32::try_from(self.0 >> COUNTER_BITS).unwrap_or(u32::MAX))
    }

    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_positive_and_orders_by_generation_then_counter() {
        let fence = |generation, counter| Fence::new(FenceGeneration(generation), counter);
        let in_order = [
            fence(0, 1),
            fence(0, Fence::MAX_COUNTER),
            fence(1, 1),
            fence(1, 2),
            fence(1_700_000_000, 1),
            fence(u32::MAX, Fence::MAX_COUNTER),
        ];
        assert!(
            in_order.is_sorted_by(|one, other| one < other),
            "{in_order:?}"
        );
        assert_eq!(in_order[5].get(), i64::MAX);
        assert_eq!(in_order[3].generation(), FenceGeneration(1));
        assert_eq!(in_order[5].generation(), FenceGeneration(u32::MAX));
        assert_eq!([Fence::from_wire(0), Fence::from_wire(-1)], [None, None]);
        assert_eq!(Fence::from_wire(fence(7, 3).get()), Some(fence(7, 3)));
    }

    #[test]
    fn a_generation_begins_in_a_second_unless_the_clock_is_wrong() {
        let of = |seconds| FenceGeneration::of_second(seconds).0;
        assert_eq!([of(-1), of(0), of(7), of(1 << 32)], [0, 0, 7, 0]);
    }
}
