//! The long-tail policy: picks the job with the fewest tasks left that could start, so that nearly finished jobs finish. Among equals, it
//! picks the older job.

use brasserie_common::JobId;

use super::{Candidates, Policy};

#[derive(Clone, Copy, Debug)]
pub(super) struct LongTail;

impl Policy for LongTail {
    fn pick(&mut self, candidates: &Candidates<'_>) -> Option<JobId> {
        candidates
            .iter()
            .min_by_key(|job| (candidates.eligible(*job), job.0))
    }

    fn started(&mut self, _job: JobId) {}

    fn cursor(&self) -> u32 {
        0
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}
