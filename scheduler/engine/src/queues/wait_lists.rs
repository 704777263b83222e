//! Wait lists: tasks that lack only slots of one node, or a worker on one host.

use std::collections::BTreeSet;
use std::collections::hash_map::IntoIter;

use brasserie_common::collections::IdMap;
use brasserie_common::{JobId, NodeId};

use crate::bit_tree::BitTree;

/// The place where a task waits. The root is no such place: a job that its slots keep from starting is no candidate at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum WaitKey {
    /// Slots of a node, by its canonical row.
    Node(u32),
    /// A worker with room on the host of this name.
    Host(NodeId),
}

/// One job's tasks that wait at one place, by their rank below it.
#[derive(Clone, Debug)]
pub(crate) enum Ranks {
    /// All ranks are below 64.
    Few(u64),
    Many(Box<BitTree>),
}

impl Ranks {
    fn with_room(len: usize) -> Self {
        if len <= u64::BITS as usize {
            Ranks::Few(0)
        } else {
            Ranks::Many(Box::new(BitTree::with_room(len)))
        }
    }

    pub(crate) fn insert(&mut self, rank: usize) {
        match self {
            Ranks::Few(bits) => *bits |= 1 << rank,
            Ranks::Many(tree) => tree.insert(rank),
        }
    }

    fn remove(&mut self, rank: usize) {
        match self {
            Ranks::Few(bits) => *bits &= !(1 << rank),
            Ranks::Many(tree) => tree.remove(rank),
        }
    }

    fn contains(&self, rank: usize) -> bool {
        match self {
            Ranks::Few(bits) => bits & (1 << rank) != 0,
            Ranks::Many(tree) => tree.contains(rank),
        }
    }

    fn first(&self) -> Option<usize> {
        match self {
            Ranks::Few(0) => None,
            Ranks::Few(bits) => Some(bits.trailing_zeros() as usize),
            Ranks::Many(tree) => tree.first(),
        }
    }
}

#[derive(Clone, Debug)]
struct WaitingJob {
    job: JobId,
    ranks: Ranks,
}

/// The tasks that wait at one place, by job.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiters(Vec<WaitingJob>);

impl Waiters {
    fn find(&self, job: JobId) -> Result<usize, usize> {
        self.0.binary_search_by_key(&job, |waiting| waiting.job)
    }
}

/// Waiting tasks, by place and job. One job's tasks all need the same at one place, so if the first does not fit, none does.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitLists {
    places: IdMap<WaitKey, Waiters>,
    /// Nodes that may have room for some of the tasks that wait there and were not woken.
    open: BTreeSet<u32>,
}

impl WaitLists {
    /// Returns one job's list at a place below which it has `len` tasks. The caller must insert a task.
    pub(crate) fn ranks_mut(&mut self, key: WaitKey, job: JobId, len: usize) -> &mut Ranks {
        let waiters = self.places.entry(key).or_default();
        let at = waiters.find(job).unwrap_or_else(|at| {
            let ranks = Ranks::with_room(len);
            if waiters.0.is_empty() {
                // A single job may have millions of places with one entry each.
                waiters.0.reserve_exact(1);
            }
            waiters.0.insert(at, WaitingJob { job, ranks });
            at
        });
        &mut waiters.0[at].ranks
    }

    pub(crate) fn contains(&self, key: WaitKey, job: JobId, rank: usize) -> bool {
        self.places.get(&key).is_some_and(|waiters| {
            waiters
                .find(job)
                .is_ok_and(|at| waiters.0[at].ranks.contains(rank))
        })
    }

    /// Returns the rank of the first of a job's tasks that wait at a place.
    pub(crate) fn first(&self, key: WaitKey, job: JobId) -> Option<usize> {
        let waiters = self.places.get(&key)?;
        waiters.0[waiters.find(job).ok()?].ranks.first()
    }

    /// Removes a task. Returns the first of the job's tasks that still wait there; the outer `None` if the task was not there.
    pub(crate) fn remove(
        &mut self,
        key: WaitKey,
        job: JobId,
        rank: usize,
    ) -> Option<Option<usize>> {
        let waiters = self.places.get_mut(&key)?;
        let at = waiters.find(job).ok()?;
        let ranks = &mut waiters.0[at].ranks;
        if !ranks.contains(rank) {
            return None;
        }
        ranks.remove(rank);
        let first = ranks.first();
        if first.is_none() {
            waiters.0.remove(at);
            if waiters.0.is_empty() {
                self.places.remove(&key);
            }
        }
        Some(first)
    }

    pub(crate) fn jobs_at(&self, key: WaitKey) -> usize {
        self.places.get(&key).map_or(0, |waiters| waiters.0.len())
    }

    /// Iterates over the jobs that wait at a place, each with its first task: by id from `start` on, then from the beginning.
    pub(crate) fn in_turn(
        &self,
        key: WaitKey,
        start: JobId,
    ) -> impl Iterator<Item = (JobId, usize)> {
        let all = self.places.get(&key).map_or(&[][..], |waiters| &waiters.0);
        let at = all.partition_point(|waiting| waiting.job < start);
        let (before, after) = all.split_at(at);
        let ordered = after.iter().chain(before);
        ordered.filter_map(|waiting| Some((waiting.job, waiting.ranks.first()?)))
    }

    /// Opens a node. If too many are open, closes one and returns it. The caller must then wake all jobs that wait there.
    pub(crate) fn open(&mut self, row: u32, most: usize) -> Option<u32> {
        self.open.insert(row);
        if self.open.len() > most {
            self.open.pop_first()
        } else {
            None
        }
    }

    pub(crate) fn close(&mut self, row: u32) {
        self.open.remove(&row);
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(crate) fn open_rows(&self) -> Vec<u32> {
        self.open.iter().copied().collect()
    }

    /// Iterates over the jobs that wait at a place, by id, each with the rank of its first task.
    pub(crate) fn firsts(&self, key: WaitKey) -> impl Iterator<Item = (JobId, usize)> {
        self.in_turn(key, JobId(0))
    }

    /// Returns the wanted places where tasks wait, in a fixed order.
    pub(crate) fn keys(&self, is_wanted: impl Fn(WaitKey) -> bool) -> Vec<WaitKey> {
        let keys = self.places.keys().copied();
        let mut keys: Vec<WaitKey> = keys.filter(|key| is_wanted(*key)).collect();
        keys.sort_unstable();
        keys
    }

    /// Removes all tasks of some jobs.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(JobId) -> bool) {
        self.places.retain(|_, waiters| {
            waiters.0.retain(|waiting| !is_gone(waiting.job));
            !waiters.0.is_empty()
        });
    }

    /// Returns the number of places where tasks wait.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// Removes all lists. The caller gets them, to free them step by step.
    pub(crate) fn take_all(&mut self) -> IntoIter<WaitKey, Waiters> {
        self.open.clear();
        // About as many tasks wait again soon, and a map that grows is copied as a whole.
        let room = IdMap::with_capacity_and_hasher(self.places.len(), Default::default());
        std::mem::replace(&mut self.places, room).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_first_of_each_job_whatever_the_number_of_tasks() {
        let mut lists = WaitLists::default();
        let key = WaitKey::Node(7);
        for (job, len, rank) in [(2, 64, 63), (1, 65, 64), (1, 65, 3), (2, 64, 0)] {
            lists.ranks_mut(key, JobId(job), len).insert(rank);
        }
        assert_eq!(
            lists.firsts(key).collect::<Vec<_>>(),
            [(JobId(1), 3), (JobId(2), 0)]
        );
        assert!(lists.contains(key, JobId(1), 64) && !lists.contains(key, JobId(2), 64 - 2));
        assert_eq!(lists.remove(key, JobId(1), 5), None);
        assert_eq!(lists.remove(key, JobId(1), 3), Some(Some(64)));
        assert_eq!(lists.remove(key, JobId(1), 64), Some(None));
        lists.forget(|job| job == JobId(2));
        assert!(lists.keys(|_| true).is_empty());
    }
}
