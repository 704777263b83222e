//! Who waits for slots where: tasks that could start but for one node's slots, or for a worker on one host.

use std::collections::BTreeSet;

use brasserie_common::collections::IdMap;
use brasserie_common::{JobId, NodeId};

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WaitKey {
    /// Slots of a node, by its canonical row.
    Node(u32),
    /// A worker with room on the host of this name.
    Host(NodeId),
}

/// Positions of waiting tasks by what they wait for and by job. One job's tasks all need the same at one place, so if the
/// first does not fit, none does.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitLists {
    waiting: IdMap<(WaitKey, JobId), BTreeSet<u32>>,
    jobs: IdMap<WaitKey, BTreeSet<JobId>>,
}

impl WaitLists {
    pub(crate) fn park(&mut self, key: WaitKey, job: JobId, position: u32) {
        let list = self.waiting.entry((key, job)).or_default();
        if list.is_empty() {
            self.jobs.entry(key).or_default().insert(job);
        }
        list.insert(position);
    }

    /// Whether it was there.
    pub(crate) fn unpark(&mut self, key: WaitKey, job: JobId, position: u32) -> bool {
        let Some(list) = self.waiting.get_mut(&(key, job)) else {
            return false;
        };
        let was = list.remove(&position);
        if list.is_empty() {
            self.waiting.remove(&(key, job));
            if let Some(jobs) = self.jobs.get_mut(&key) {
                jobs.remove(&job);
                if jobs.is_empty() {
                    self.jobs.remove(&key);
                }
            }
        }
        was
    }

    pub(crate) fn first(&self, key: WaitKey, job: JobId) -> Option<u32> {
        self.waiting.get(&(key, job))?.first().copied()
    }

    pub(crate) fn jobs_at(&self, key: WaitKey) -> Vec<JobId> {
        self.jobs
            .get(&key)
            .map(|jobs| jobs.iter().copied().collect())
            .unwrap_or_default()
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.jobs.clear();
    }
}
