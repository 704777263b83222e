//! Ends that were deleted, while a worker may still repeat them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::Bound;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, NodeId, WallTime, WorkerId};
use brasserie_scheduler_engine::Task;

use crate::record::{DeletionNumber, Durable, Forgotten};

/// Tasks that are dropped in one turn when nobody can repeat their ends any more: about a millisecond.
const DROPPED_A_TURN: usize = 4096;

/// Up to which run of each task ends were deleted, and who may repeat them: the worker instances that were there then.
#[derive(Clone, Debug, Default)]
pub(super) struct DeletedEnds {
    by_task: BTreeMap<Task, Forgotten>,
    /// The same tasks.
    by_number: BTreeSet<(DeletionNumber, Task)>,
    last: DeletionNumber,
    /// The last deletion before each recorded instance came.
    since: BTreeMap<WorkerId, DeletionNumber>,
    /// How many instances have each number of `since`.
    instances: BTreeMap<DeletionNumber, usize>,
    /// Whoever was there at deletions up to this one has left.
    settled: DeletionNumber,
    told: Told,
}

/// How far the engine was told of which nodes there is something to remember.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// The engine's number for the time that it asked.
    cycle: u64,
    /// All tasks up to this one.
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
        // What an earlier scheduler has not dropped yet.
        let first = ends.instances.keys().next().copied();
        ends.settled = first.unwrap_or_default();
        ends
    }

    /// The number of the deletion that comes next.
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

    /// The next deletion is recorded.
    pub(super) fn record(&mut self) -> DeletionNumber {
        self.last = self.next_number();
        self.last
    }

    /// The deletion after which an instance came first; it may be known from earlier.
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

    /// It is not heard again.
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

    /// Whether something is remembered that nobody can repeat.
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

    /// Some more of the nodes of these tasks; none when all were told in this cycle. What comes meanwhile, the engine knows of
    /// anyway: it is told of each task whose end is deleted.
    pub(super) fn next_nodes(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        if self.told.cycle != cycle {
            self.told = Told { cycle, after: None };
        }
        let after = self.told.after.map_or(Bound::Unbounded, Bound::Excluded);
        let tasks = self.by_task.range((after, Bound::Unbounded));
        let tasks: Vec<Task> = tasks.map(|(task, _)| *task).take(limit).collect();
        self.told.after = tasks.last().copied().or(self.told.after);
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
            told: _,
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
