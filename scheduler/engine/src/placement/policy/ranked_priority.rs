//! The ranked-priority policy: picks the job of the highest priority until it has nothing left to start. Among equals, it picks the older
//! job.

use brasserie_common::JobId;

use super::{Candidates, Policy};

#[derive(Clone, Copy, Debug)]
pub(super) struct RankedPriority;

impl Policy for RankedPriority {
    fn pick(&mut self, candidates: &Candidates<'_>) -> Option<JobId> {
        let rank = |job: &JobId| (candidates.priority(*job), std::cmp::Reverse(job.0));
        candidates.iter().max_by(|a, b| {
            let (a, b) = (rank(a), rank(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        })
    }

    fn started(&mut self, _job: JobId) {}

    fn cursor(&self) -> u32 {
        0
    }

    fn boxed_clone(&self) -> Box<dyn Policy> {
        Box::new(*self)
    }
}
