//! Deleted completions, remembered while a worker may still report them again.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::Bound;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, NodeId, WallTime, WorkerId};
use brasserie_scheduler_engine::Task;

use crate::record::{DeletionNumber, Durable, Forgotten};

/// The most tasks that are dropped in one turn when no worker can repeat their completions any more. Takes about a millisecond.
const DROPPED_A_TURN: usize = 4096;

/// The run up to which each task's completions were deleted, and the worker instances that may repeat them: those that were associated
/// then.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletedEnds {
    by_task: BTreeMap<Task, Forgotten>,
    /// The same tasks, ordered by the number of the deletion.
    by_number: BTreeSet<(DeletionNumber, Task)>,
    last: DeletionNumber,
    /// The last deletion before each recorded instance associated.
    since: BTreeMap<WorkerId, DeletionNumber>,
    /// The number of instances for each value of `since`.
    instances: BTreeMap<DeletionNumber, usize>,
    /// Every instance that was associated at deletions up to this one has left.
    settled: DeletionNumber,
    reported: ReportedDeletions,
}

/// The progress of reporting the nodes of deleted completions to the engine.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedDeletions {
    /// The engine's number for the cycle in which it asked.
    cycle: u64,
    /// All tasks up to this one are reported.
    after: Option<Task>,
}

impl DeletedEnds {
    pub(super) fn new(durable: &Durable) -> Self {
        let mut ends = DeletedEnds {
            last: durable.last_deletion(),
            ..DeletedEnds::default()
        };
        for (&worker, instance) in &durable.instances {
            ends.put_since(worker, instance.since);
        }
        // Deletions that an earlier scheduler has not dropped yet are dropped here.
        let first = ends.instances.keys().next().copied();
        ends.settled = first.unwrap_or_default();
        ends
    }

    /// Returns the number of the next deletion.
    pub(super) fn next_number(&self) -> DeletionNumber {
        DeletionNumber(self.last.0 + 1)
    }

    pub(super) fn last(&self) -> DeletionNumber {
        self.last
    }

    pub(super) fn len(&self) -> usize {
        self.by_task.len()
    }

    /// Forgets the deletions up to this one, whose reports no worker repeats.
    pub(super) fn settle(&mut self, number: DeletionNumber) {
        self.settled = self.settled.max(number);
    }

    /// Counts the next deletion, which is recorded now.
    pub(super) fn record(&mut self) -> DeletionNumber {
        self.last = self.next_number();
        self.last
    }

    /// Returns the last deletion before the instance first associated, which may be known from an earlier scheduler.
    pub(super) fn associated(&mut self, worker: WorkerId) -> DeletionNumber {
        if let Some(since) = self.since.get(&worker) {
            return *since;
        }
        self.put_since(worker, self.last);
        self.last
    }

    fn put_since(&mut self, worker: WorkerId, since: DeletionNumber) {
        self.since.insert(worker, since);
        *self.instances.entry(since).or_default() += 1;
    }

    /// Notes that an instance has left for good and reports nothing any more.
    pub(super) fn left(&mut self, worker: WorkerId) {
        let Some(since) = self.since.remove(&worker) else {
            return;
        };
        if let Some(count) = self.instances.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                self.instances.remove(&since);
            }
        }
        let first = self.instances.keys().next().copied();
        self.settled = self.settled.max(first.unwrap_or(self.last));
    }

    pub(super) fn remember(&mut self, task: Task, of: Forgotten) {
        let known = self.by_task.entry(task).or_insert(of);
        self.by_number.remove(&(known.number, task));
        known.add(of);
        self.by_number.insert((known.number, task));
    }

    pub(super) fn get(&self, task: Task) -> Option<InvocationId> {
        self.by_task.get(&task).map(|of| of.up_to)
    }

    /// Returns whether a deletion is remembered that no worker can undo any more.
    pub(super) fn is_drop_due(&self) -> bool {
        let oldest = self.by_number.first();
        oldest.is_some_and(|(number, _)| *number <= self.settled)
    }

    pub(super) fn drop_some(&mut self) {
        for _ in 0..DROPPED_A_TURN {
            if !self.is_drop_due() {
                return;
            }
            if let Some((_, task)) = self.by_number.pop_first() {
                self.by_task.remove(&task);
            }
        }
    }

    /// Returns more of the nodes of these tasks; none once all were returned in this cycle. Runs that are added meanwhile need no report:
    /// the engine knows each task whose completion is deleted.
    pub(super) fn next_nodes(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        if self.reported.cycle != cycle {
            self.reported = ReportedDeletions { cycle, after: None };
        }
        let after = self
            .reported
            .after
            .map_or(Bound::Unbounded, Bound::Excluded);
        let tasks = self.by_task.range((after, Bound::Unbounded));
        let tasks: Vec<Task> = tasks.map(|(task, _)| *task).take(limit).collect();
        self.reported.after = tasks.last().copied().or(self.reported.after);
        tasks.into_iter().map(|task| task.node).collect()
    }

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, wall: WallTime) {
        let DeletedEnds {
            by_task,
            by_number: _,
            last,
            since,
            instances: _,
            settled,
            reported: _,
        } = self;
        s.put((last, settled));
        s.each(since, |s, (worker, since)| {
            s.worker(*worker);
            s.put(since);
        });
        s.each(by_task, |s, (task, Forgotten { up_to, number })| {
            s.put((task, number));
            s.invocation(*up_to);
            s.put(up_to.0.start_time.saturating_sub(wall.as_secs()).max(0));
        });
    }
}
