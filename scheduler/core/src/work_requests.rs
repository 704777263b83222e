//! Work requests of pull workers: the ones without an answer, the workers whose credits have no verdicts yet, and counts.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{
    RequestId, Shard, Time, WorkReply, WorkRequest, WorkRequestSeq, WorkVerdict, WorkerId,
};

use crate::credits::{Heard, Turns};

/// How long an answer waits until all tasks that may start have started. After that, the answer says that verdicts are pending.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The most requests that wait for answers. Each worker has one on its way, so more mean that a peer repeats them.
const MAX_WAITING: usize = 32_768;

/// Requests without an answer, and workers whose credits have no verdicts yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkRequests {
    waiting: Vec<WaitingRequest>,
    /// The workers with pending credits. Invariant: each worker whose credits are pending is in here.
    pending: BTreeSet<Shard>,
    turns: Turns,
    counts: WorkCounts,
}

/// The counts of work requests since this scheduler started, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// The requests of known workers.
    pub requests: u64,
    pub looked_at: u64,
    /// The requests that were repeated, or arrived after a newer one.
    pub repeated: u64,
    /// The requests of workers that could get no tasks.
    pub not_ready: u64,
    /// The requests that came too soon after the previous one.
    pub too_soon: u64,
    /// The requests beyond the limit for all workers.
    pub too_many: u64,
    /// The runs that workers did not list although they had accepted them.
    pub missing_runs: u64,
}

impl WorkCounts {
    fn count(&mut self, heard: Heard) {
        self.requests += 1;
        *match heard {
            Heard::ToLookAt => &mut self.looked_at,
            Heard::Stale | Heard::Repeated => &mut self.repeated,
            Heard::NotReady => &mut self.not_ready,
            Heard::TooSoon => &mut self.too_soon,
            Heard::TooMany => &mut self.too_many,
        } += 1;
    }
}

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub struct WaitingRequest {
    pub request: RequestId,
    pub shard: Shard,
    pub worker: WorkerId,
    pub work: WorkRequest,
    /// When the request is answered at the latest.
    pub until: Time,
}

impl WorkRequests {
    /// Counts a request by its first evaluation.
    pub(crate) fn count(&mut self, heard: Heard) {
        self.counts.count(heard);
    }

    /// Counts runs that a worker did not list although it had accepted them.
    pub(crate) fn count_missing_runs(&mut self, count: usize) {
        self.counts.missing_runs += count as u64;
    }

    pub(crate) fn counts(&self) -> WorkCounts {
        self.counts
    }

    /// Returns the turns of all workers' requests.
    pub(crate) fn turns_mut(&mut self) -> &mut Turns {
        &mut self.turns
    }

    /// Lets a request wait for its answer. Returns the answer if too many wait.
    pub(crate) fn wait(
        &mut self,
        now: Time,
        request: RequestId,
        shard: Shard,
        work: WorkRequest,
    ) -> Result<(), WorkReply> {
        if self.waiting.len() >= MAX_WAITING {
            let verdict = WorkVerdict::Deferred;
            return Err(WorkReply::same_for_all(&work, verdict, ANSWER_WITHIN));
        }
        self.waiting.push(WaitingRequest {
            request,
            shard,
            worker: work.worker,
            work,
            until: now + ANSWER_WITHIN,
        });
        Ok(())
    }

    /// Removes and returns the requests that wait.
    pub(crate) fn take_waiting(&mut self) -> Vec<WaitingRequest> {
        std::mem::take(&mut self.waiting)
    }

    /// Lets a request wait again.
    pub(crate) fn put_back(&mut self, waiting: WaitingRequest) {
        self.waiting.push(waiting);
    }

    /// Notes that the credits of a worker are pending.
    pub(crate) fn note_pending(&mut self, shard: &Shard) {
        self.pending.insert(shard.clone());
    }

    pub(crate) fn is_pending(&self, shard: &Shard) -> bool {
        self.pending.contains(shard)
    }

    /// Removes and returns the workers whose credits are pending.
    pub(crate) fn take_pending(&mut self) -> BTreeSet<Shard> {
        std::mem::take(&mut self.pending)
    }

    /// Returns when the next request must be answered, even if more tasks may start.
    pub(crate) fn next_answer(&self) -> Option<Time> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Returns the time of the next free turn, for fingerprints.
    pub(crate) fn next_turn(&self) -> Time {
        self.turns.next()
    }

    /// Returns the turns used since requests were last answered, for fingerprints.
    pub(crate) fn used_turns(&self) -> u32 {
        self.turns.used()
    }

    /// Iterates over the requests that wait for answers, for fingerprints.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (RequestId, &Shard, WorkRequestSeq)> {
        let all = self.waiting.iter();
        all.map(|waiting| (waiting.request, &waiting.shard, waiting.work.seq))
    }
}
