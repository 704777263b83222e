//! Waits of tasks: backoffs and safety waits, earliest first, for each job and over all jobs; holds of tasks, and of all tasks.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::ops::Bound;

use brasserie_common::collections::{IdMap, IdSet};
use brasserie_common::fingerprint::Shape;
use brasserie_common::{JobId, NodeId, Time};

use crate::types::{Restart, Task};

#[derive(Clone, Debug, Default)]
struct JobWaits {
    until: IdMap<NodeId, Time>,
    queue: BTreeSet<(Time, NodeId)>,
}

/// The waits and holds that keep tasks from starting.
///
/// Invariant: `heads` has each job with waits exactly once, with its earliest wait.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waits {
    jobs: IdMap<JobId, JobWaits>,
    heads: BTreeSet<(Time, JobId)>,
    /// Tasks that do not start until they are released.
    held: IdSet<Task>,
    /// No task starts before this time.
    barrier: Option<Time>,
}

impl Waits {
    /// Returns when the task's wait ends, if it waits.
    pub(crate) fn get(&self, task: Task) -> Option<Time> {
        self.jobs.get(&task.job)?.until.get(&task.node).copied()
    }

    /// Replaces the task's wait.
    pub(crate) fn set(&mut self, task: Task, until: Option<Time>) {
        if until.is_none() && self.get(task).is_none() {
            return;
        }
        let waits = self.jobs.entry(task.job).or_default();
        let head = waits.queue.first().map(|(time, _)| *time);
        if let Some(before) = waits.until.remove(&task.node) {
            waits.queue.remove(&(before, task.node));
        }
        if let Some(time) = until {
            waits.until.insert(task.node, time);
            waits.queue.insert((time, task.node));
        }
        let new_head = waits.queue.first().map(|(time, _)| *time);
        if new_head.is_none() {
            self.jobs.remove(&task.job);
        }
        if head != new_head {
            if let Some(time) = head {
                self.heads.remove(&(time, task.job));
            }
            if let Some(time) = new_head {
                self.heads.insert((time, task.job));
            }
        }
    }

    pub(crate) fn next_of(&self, job: JobId) -> Option<Time> {
        self.jobs.get(&job)?.queue.first().map(|(time, _)| *time)
    }

    /// Iterates over the job's waits behind `after`, earliest first.
    pub(crate) fn after(
        &self,
        job: JobId,
        after: Option<(Time, NodeId)>,
    ) -> impl Iterator<Item = (Time, NodeId)> + '_ {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let waits = self.jobs.get(&job).into_iter();
        waits.flat_map(move |waits| waits.queue.range((after, Bound::Unbounded)).copied())
    }

    /// Returns when the first wait ends.
    pub(crate) fn next(&self) -> Option<Time> {
        let first = self.heads.first().map(|(time, _)| *time);
        match (first, self.barrier) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Keeps a task from starting until it is released. Returns whether that is new.
    pub(crate) fn hold(&mut self, task: Task) -> bool {
        self.held.insert(task)
    }

    /// Ends a hold. Returns whether there was one.
    pub(crate) fn release(&mut self, task: Task) -> bool {
        self.held.remove(&task)
    }

    pub(crate) fn is_held(&self, task: Task) -> bool {
        self.held.contains(&task)
    }

    /// Iterates over the tasks that do not start until they are released.
    pub(crate) fn held(&self) -> impl Iterator<Item = Task> + '_ {
        self.held.iter().copied()
    }

    /// Replaces the wait and the hold of a task.
    pub(crate) fn set_restart(&mut self, task: Task, until: Option<Time>, restart: Restart) {
        self.set(task, until);
        match restart {
            Restart::AtOnce => self.held.remove(&task),
            Restart::HeldUntilReleased => self.held.insert(task),
        };
    }

    /// Keeps all tasks from starting before a time. A later time that is already set stays.
    pub(crate) fn hold_all(&mut self, until: Time) {
        self.barrier = self.barrier.max(Some(until));
    }

    /// Returns the time before which no task starts.
    pub(crate) fn all_held_until(&self) -> Option<Time> {
        self.barrier
    }

    /// Ends the wait of all tasks, if it is over.
    pub(crate) fn end_hold_of_all(&mut self, now: Time) {
        if self.barrier.is_some_and(|until| until <= now) {
            self.barrier = None;
        }
    }

    /// Returns about how many bytes a copy takes. Each wait is in a map and in a tree, whose nodes are two thirds full.
    pub(crate) fn bytes(&self) -> usize {
        let jobs = self.heads.iter().filter_map(|(_, job)| self.jobs.get(job));
        let waits: usize = jobs.map(|waits| waits.until.capacity()).sum();
        let (in_map, in_tree) = (
            size_of::<(NodeId, Time)>() + 1,
            size_of::<(Time, NodeId)>() * 3 / 2,
        );
        waits * (in_map + in_tree) + self.held.capacity() * (size_of::<Task>() + 1)
    }

    /// Writes the held tasks into a hash, then each task's wait, in the order in which they end.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let mut held: Vec<Task> = self.held().collect();
        held.sort_unstable();
        s.put(held);
        let jobs: BTreeSet<JobId> = self.heads.iter().map(|(_, job)| *job).collect();
        s.each(jobs, |s, job| {
            s.put(job);
            let queue = self.jobs.get(&job).map(|waits| &waits.queue);
            s.each(queue.into_iter().flatten(), |s, (until, node)| {
                s.deadline(*until);
                s.put(node);
            });
        });
    }

    /// Removes one wait that is over. Returns its task.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Task> {
        let (time, job) = *self.heads.first()?;
        if time > now {
            return None;
        }
        let node = self.jobs.get(&job)?.queue.first()?.1;
        let task = Task { job, node };
        self.set(task, None);
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(job: u32, node: u32) -> Task {
        Task {
            job: JobId(job),
            node: NodeId(node),
        }
    }

    #[test]
    fn pops_in_order_of_time_and_keeps_the_heads() {
        let mut waits = Waits::default();
        let at = Time::from_nanos;
        waits.set(task(1, 1), Some(at(30)));
        waits.set(task(1, 2), Some(at(10)));
        waits.set(task(2, 1), Some(at(20)));
        waits.set(task(1, 1), Some(at(15)));
        assert_eq!(waits.next(), Some(at(10)));
        assert_eq!(waits.next_of(JobId(2)), Some(at(20)));
        assert_eq!(waits.pop(at(9)), None);
        let popped: Vec<_> = std::iter::from_fn(|| waits.pop(at(20))).collect();
        assert_eq!(popped, [task(1, 2), task(1, 1), task(2, 1)]);
        assert_eq!(waits.next(), None);
        assert_eq!(waits.get(task(1, 1)), None);
    }
}
