//! Chance: one seed, one stream a purpose, so that an extra draw in one room moves no other.

use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};

/// What a stream of the simulator is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
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
    /// Which of the rarer kinds of work a run has.
    Work,
    Gates,
    Machines,
    Limits,
    Rooms,
    WorkFetch,
    /// What operators say of workers.
    Operator,
    /// How many runs share a generation of fences.
    Fences,
    /// How long completions of what is gone are kept.
    Retention,
}

/// One stream.
#[derive(Clone, Debug)]
pub struct Dice(Rng);

/// Streams of one seed lie this far apart; odd, so that they never meet modulo 2^64.
const STRIDE: u64 = 0x9E37_79B9_7F4A_7C15;

impl Dice {
    pub fn new(seed: u64, stream: Stream) -> Self {
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

    /// Uniform in `0..bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// True so often in a thousand times.
    pub fn per_mille(&mut self, chance: u32) -> bool {
        chance > 0 && self.0.below(1000) < chance as usize
    }

    /// Uniform, both ends included.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = most.saturating_sub(least).as_nanos() + 1;
        let drawn = (u128::from(self.next_u64()) * span) >> 64;
        least + Duration::from_nanos(u64::try_from(drawn).unwrap_or(u64::MAX))
    }

    /// Mostly near `least`, rarely near `most`: the fourth power of a uniform draw.
    pub fn skewed(&mut self, least: Duration, most: Duration) -> Duration {
        let x = self.0.below(1 << 20) as f64 / f64::from(1 << 20);
        least + most.saturating_sub(least).mul_f64(x * x * x * x)
    }

    /// Around `mean`, from a fifth to nine fifths of it.
    pub fn around(&mut self, mean: Duration) -> Duration {
        self.between(mean / 5, mean / 5 * 9)
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        items.get(self.0.below(items.len()))
    }
}
