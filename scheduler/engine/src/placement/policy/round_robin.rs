//! The round-robin policy: picks one task of each job in turn, with a cursor that persists from event to event.

use brasserie_common::JobId;

use super::{Candidates, Policy};

#[derive(Clone, Debug, Default)]
pub(super) struct RoundRobin {
    next: u32,
}

impl Policy for RoundRobin {
    fn pick(&mut self, candidates: &Candidates<'_>) -> Option<JobId> {
        candidates.next_from(JobId(self.next))
    }

    fn in_turn(&self) -> Option<JobId> {
        Some(JobId(self.next))
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
