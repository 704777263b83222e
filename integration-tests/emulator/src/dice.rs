//! Random numbers of the emulator: one seed with one stream for each purpose, so that an extra draw in one place changes no other.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// The purpose of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The worker's availability.
    Worker = 1,
    /// The schedulers' availability.
    Schedulers,
    /// The arrivals of tasks, and the choices among jobs.
    Supply,
    /// The run times of tasks, and their estimates.
    Tasks,
    /// The worker's backoffs.
    Backoff,
    /// The state of the workers when a storm begins.
    Storm,
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Creates stream `number` of this purpose.
    pub fn new(seed: u64, stream: Stream, number: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(((stream as u64) << 32) + number as u64);
        Dice(rng)
    }

    /// Returns a random number, uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (-self.unit()).ln_1p()
    }

    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        // The Box-Muller method. The draws happen even for a deviation of 0, so that the deviation changes no other draw.
        let radius = (-2.0 * (-self.unit()).ln_1p()).sqrt();
        let angle = std::f64::consts::TAU * self.unit();
        mean + deviation * radius * angle.cos()
    }

    /// Returns the index of a random item, with probabilities proportional to the weights; `None` if all weights are 0.
    pub fn weighted(&mut self, weights: impl Iterator<Item = f64> + Clone) -> Option<usize> {
        let sum: f64 = weights.clone().sum();
        let mut drawn = self.unit() * sum;
        let mut last = None;
        for (place, weight) in weights.enumerate().filter(|(_, weight)| *weight > 0.0) {
            if drawn < weight {
                return Some(place);
            }
            drawn -= weight;
            last = Some(place);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dice() -> Dice {
        Dice::new(7, Stream::Tasks, 0)
    }

    fn mean(draws: &[f64]) -> f64 {
        draws.iter().sum::<f64>() / draws.len() as f64
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |stream, number| Dice::new(7, stream, number).unit();
        assert_eq!(first(Stream::Tasks, 0), first(Stream::Tasks, 0));
        assert_ne!(first(Stream::Tasks, 0), first(Stream::Tasks, 1));
        assert_ne!(first(Stream::Tasks, 0), first(Stream::Supply, 0));
    }

    #[test]
    fn distributions_have_their_moments() {
        let mut dice = dice();
        let draws: Vec<f64> = (0..100_000).map(|_| dice.normal(10.0, 2.0)).collect();
        let deviations: Vec<f64> = draws.iter().map(|x| (x - 10.0) * (x - 10.0)).collect();
        assert!((mean(&draws) - 10.0).abs() < 0.05);
        assert!((mean(&deviations).sqrt() - 2.0).abs() < 0.05);
        let draws: Vec<f64> = (0..100_000).map(|_| dice.exponential(5.0)).collect();
        assert!((mean(&draws) - 5.0).abs() < 0.1);
        assert!(draws.iter().all(|x| *x >= 0.0));
    }

    #[test]
    fn weights_are_heeded() {
        let mut dice = dice();
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            counts[dice.weighted([1.0, 0.0, 3.0].into_iter()).unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!((2300..2700).contains(&counts[0]), "{counts:?}");
        assert_eq!(dice.weighted([0.0].into_iter()), None);
        assert_eq!(dice.weighted(std::iter::empty()), None);
    }
}
