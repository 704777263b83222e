//! Waits of tasks for workers that have most bytes of their inputs. The engine decides who waits; this file keeps the waits.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use brasserie_common::Time;
use brasserie_common::fingerprint::Shape;

use crate::types::{Task, WorkerIndex};

/// The wait of a task for workers with more bytes of its inputs than any other worker that could start it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalityWait {
    /// The workers with the most bytes. Each of them ends the wait when it has free slots.
    pub workers: Vec<WorkerIndex>,
    /// Bytes of the inputs at each of these workers.
    pub bytes: u64,
    /// The number of tries that a start of the task costs, because all its inputs are looked up.
    pub cost: u32,
    pub until: Time,
}

impl LocalityWait {
    /// The most workers of one wait. Others with as many bytes do not end it.
    pub(crate) const MOST_WORKERS: usize = 8;
}

/// All such waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalityWaits {
    /// When each task could first have started at another worker. Kept until its status changes, so that a task waits once.
    since: BTreeMap<Task, Time>,
    waiting: BTreeMap<Task, LocalityWait>,
    /// The waits of tasks that got ready because a worker had room. If that is taken before they start, the same wait goes on: to find the
    /// workers, all inputs of a task are looked up.
    woken: BTreeMap<Task, LocalityWait>,
    /// Invariant: the pairs of `waiting`, and below the ends of its waits.
    by_worker: BTreeMap<WorkerIndex, BTreeSet<(Time, Task)>>,
    ends: BTreeSet<(Time, Task)>,
    /// Workers that may have room for more of the tasks that wait for them.
    with_more: BTreeSet<WorkerIndex>,
}

impl LocalityWaits {
    pub(crate) fn get(&self, task: Task) -> Option<&LocalityWait> {
        self.waiting.get(&task)
    }

    pub(crate) fn is_waiting(&self, task: Task) -> bool {
        !self.waiting.is_empty() && self.waiting.contains_key(&task)
    }

    /// Returns the wait of a task that got ready because a worker had room, if its time is not over.
    pub(crate) fn woken(&self, now: Time, task: Task) -> Option<&LocalityWait> {
        let wait = self.woken.get(&task);
        wait.filter(|wait| now < wait.until)
    }

    /// Returns when the task could first have started at another worker; `None` if it has not waited since its status changed.
    pub(crate) fn began(&self, task: Task) -> Option<Time> {
        self.since.get(&task).copied()
    }

    /// Returns when the task could first have started at another worker, which is now if that is new.
    pub(crate) fn since(&mut self, now: Time, task: Task) -> Time {
        *self.since.entry(task).or_insert(now)
    }

    pub(crate) fn begin(&mut self, task: Task, wait: LocalityWait) {
        self.end(task);
        for worker in &wait.workers {
            let tasks = self.by_worker.entry(*worker).or_default();
            tasks.insert((wait.until, task));
        }
        self.ends.insert((wait.until, task));
        self.waiting.insert(task, wait);
    }

    /// Ends the wait of a task. It need not wait.
    pub(crate) fn end(&mut self, task: Task) {
        self.take(task);
        self.woken.remove(&task);
    }

    /// Ends the wait of a task for which a worker may have room, and remembers it.
    pub(crate) fn wake(&mut self, task: Task) {
        if let Some(wait) = self.take(task) {
            self.woken.insert(task, wait);
        }
    }

    fn take(&mut self, task: Task) -> Option<LocalityWait> {
        let wait = self.waiting.remove(&task)?;
        let key = (wait.until, task);
        self.ends.remove(&key);
        for worker in &wait.workers {
            if let Some(tasks) = self.by_worker.get_mut(worker) {
                tasks.remove(&key);
                if tasks.is_empty() {
                    self.by_worker.remove(worker);
                }
            }
        }
        Some(wait)
    }

    /// Ends the wait of a task, which waits anew if it is to start again.
    pub(crate) fn forget(&mut self, task: Task) {
        self.end(task);
        self.since.remove(&task);
    }

    /// Returns the tasks that wait for a worker, those first that have waited longest of their time.
    pub(crate) fn at(&self, worker: WorkerIndex) -> impl Iterator<Item = Task> + '_ {
        let tasks = self.by_worker.get(&worker);
        tasks.into_iter().flatten().map(|(_, task)| *task)
    }

    /// Notes that a worker may have room for more of the tasks that wait for it.
    pub(crate) fn wake_more_at(&mut self, worker: WorkerIndex) {
        self.with_more.insert(worker);
    }

    /// Takes one such worker.
    pub(crate) fn take_worker_with_more(&mut self) -> Option<WorkerIndex> {
        self.with_more.pop_first()
    }

    /// Iterates over the tasks that have waited since their status changed.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = Task> + '_ {
        self.since.keys().copied()
    }

    /// Returns when the first wait ends.
    pub(crate) fn next(&self) -> Option<Time> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Removes one wait that is over. Returns its task.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Task> {
        let (until, task) = *self.ends.first()?;
        if until > now {
            return None;
        }
        self.end(task);
        Some(task)
    }

    /// Ends all waits. Forgets the tasks that are not wanted any more; the others do not wait longer than before. Returns all that waited.
    pub(crate) fn end_all(&mut self, is_wanted: impl Fn(Task) -> bool) -> Vec<Task> {
        self.since.retain(|task, _| is_wanted(*task));
        self.by_worker.clear();
        self.ends.clear();
        self.with_more.clear();
        self.woken.clear();
        std::mem::take(&mut self.waiting).into_keys().collect()
    }

    /// Writes the waits into a hash.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.since, |s, (task, since)| {
            s.put(task);
            s.deadline(*since);
        });
        for waits in [&self.waiting, &self.woken] {
            s.each(waits, |s, (task, wait)| {
                s.put((task, &wait.workers, wait.bytes, wait.cost));
                s.deadline(wait.until);
            });
        }
        s.each(&self.with_more, |s, worker| s.put(worker));
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::{JobId, NodeId};

    use super::*;

    #[test]
    fn a_task_waits_once() {
        let (job, node) = (JobId(0), NodeId(1));
        let [a, b] = [node, NodeId(2)].map(|node| Task { job, node });
        let at = Time::from_nanos;
        let worker = WorkerIndex(3);
        let mut waits = LocalityWaits::default();
        for (task, first) in [(a, 5), (b, 2)] {
            let until = waits.since(at(first), task) + std::time::Duration::from_nanos(10);
            let workers = vec![worker, WorkerIndex(4)];
            let bytes = 7;
            waits.begin(
                task,
                LocalityWait {
                    workers,
                    bytes,
                    cost: 0,
                    until,
                },
            );
        }
        assert_eq!(waits.at(worker).collect::<Vec<_>>(), [b, a]);
        assert_eq!((waits.next(), waits.pop(at(11))), (Some(at(12)), None));
        assert_eq!((waits.pop(at(12)), waits.next()), (Some(b), Some(at(15))));
        assert_eq!(waits.since(at(20), b), at(2));
        waits.forget(b);
        assert_eq!(waits.since(at(20), b), at(20));
        assert_eq!(waits.end_all(|task| task != a), [a]);
        assert_eq!(waits.since(at(30), a), at(30));
        assert_eq!((waits.next(), waits.at(worker).count()), (None, 0));
    }
}
