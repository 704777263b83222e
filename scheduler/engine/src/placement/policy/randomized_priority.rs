//! The randomized-priority policy: draws each job with a probability proportional to its priority. Jobs of priority 0 or less take turns
//! while no other job is a candidate.

use brasserie_common::JobId;
use brasserie_common::rng::Rng;

use super::{Candidates, Policy};

#[derive(Clone, Debug)]
pub(super) struct RandomizedPriority {
    rng: Rng,
    /// The cursor for jobs without a positive priority.
    next: u32,
}

impl RandomizedPriority {
    pub(super) fn new(rng: Rng) -> Self {
        RandomizedPriority { rng, next: 0 }
    }
}

impl Policy for RandomizedPriority {
    fn pick(&mut self, candidates: &Candidates<'_>) -> Option<JobId> {
        let weight = |job: JobId| candidates.priority(job).max(0.0);
        let total: f64 = candidates.iter().map(weight).sum();
        if total <= 0.0 || !total.is_finite() {
            return candidates.next_from(JobId(self.next));
        }
        // 53 random bits are all that a float of [0, 1) can hold.
        let unit = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut left = unit * total;
        let mut last = None;
        for job in candidates.iter().filter(|job| weight(*job) > 0.0) {
            last = Some(job);
            left -= weight(job);
            if left < 0.0 {
                break;
            }
        }
        last
    }

    fn started(&mut self, job: JobId) {
        self.next = job.0.saturating_add(1);
    }

    fn cursor(&self) -> u32 {
        self.next
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}
