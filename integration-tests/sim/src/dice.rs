//! Random draws from one seed, with one stream for each purpose, so that an extra draw of one module changes no other stream.

use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};

/// The purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RandomStream {
    Swarm = 1,
    Network,
    Disks,
    Processes,
    Faults,
    Workload,
    Order,
    Identities,
    Variants,
    Turns,
    Orphans,
    /// The rarer kinds of work of a run.
    Work,
    Gates,
    Machines,
    Limits,
    Rooms,
    WorkFetch,
    /// Declarations of operators about workers.
    Operator,
    /// The number of runs that share a generation of fences.
    Fences,
    /// How long completions of missing jobs and nodes are kept.
    Retention,
    /// Tasks that stand by at workers whose slots are in use.
    Standby,
    /// Jobs with outputs and inputs, the stores of workers, and their faults.
    Artifacts,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct Dice(Rng);

/// The distance between streams of one seed. It is odd, so streams never meet modulo 2^64.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Dice {
    pub fn new(seed: u64, stream: RandomStream) -> Self {
        let mixed = seed
            .wrapping_mul(STRIDE)
            .wrapping_add((stream as u64).wrapping_mul(0x1234_5678_9ABC_DEF1));
        Dice(Rng::new(mixed, Purpose::Placement))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn next_i64(&mut self) -> i64 {
        self.0.next_i64()
    }

    /// Returns a uniform number in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// Returns true with this probability in parts per thousand.
    pub fn per_mille(&mut self, chance: u32) -> bool {
        chance > 0 && self.0.below(1000) < chance as usize
    }

    /// Returns a uniform duration, both ends included.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_nanos() + 1;
        let drawn = (u128::from(self.next_u64()) * span) >> 64;
        least + Duration::from_nanos(u64::try_from(drawn).unwrap_or(u64::MAX))
    }

    /// Returns a duration that is mostly near `least` and rarely near `most`, by the fourth power of a uniform draw.
    pub fn skewed(&mut self, least: Duration, most: Duration) -> Duration {
        let x = self.0.below(1 << 20) as f64 / f64::from(1 << 20);
        least + most.saturating_sub(least).mul_f64(x * x * x * x)
    }

    /// Returns a uniform duration between a fifth and nine fifths of `mean`.
    pub fn around(&mut self, mean: Duration) -> Duration {
        self.between(mean / 5, mean / 5 * 9)
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.0.below(items.len()))
    }
}
