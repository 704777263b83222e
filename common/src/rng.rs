//! Randomness for cores: one seed with one stream for each purpose, so that an extra draw in one place changes no other stream.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The purpose of a stream of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The random half of instance ids.
    InstanceIds,
    /// The random half of invocation ids.
    InvocationIds,
    /// `node_order: random`, and the job that goes first.
    Placement,
    /// The draws of the policy `randomized_priority`.
    Policy,
    /// Jitter of backoffs.
    Backoff,
    /// The order in which equal peers are asked for artifacts.
    PeerOrder,
}

/// One stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Rng(ChaCha8Rng);

impl Rng {
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(match purpose {
            Purpose::InstanceIds => 1,
            Purpose::InvocationIds => 2,
            Purpose::Placement => 3,
            Purpose::Backoff => 4,
            Purpose::Policy => 5,
            Purpose::PeerOrder => 6,
        });
        Rng(rng)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn next_i64(&mut self) -> i64 {
        self.next_u64().cast_signed()
    }

    /// Returns a uniform number in `0..bound`; 0 if `bound` is 0. Uses multiply-shift: the bias is below 2^-32 for every bound in use.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = u128::from(self.next_u64()) * (bound as u128);
        (wide >> 64) as usize
    }

    /// Shuffles with Fisher-Yates.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |p| Rng::new(5, p).next_u64();
        assert_eq!(draw(Purpose::Placement), draw(Purpose::Placement));
        let all = [
            Purpose::InstanceIds,
            Purpose::InvocationIds,
            Purpose::Placement,
            Purpose::Policy,
            Purpose::Backoff,
            Purpose::PeerOrder,
        ];
        let different: BTreeSet<u64> = all.into_iter().map(draw).collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Rng::new(1, Purpose::Placement).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
