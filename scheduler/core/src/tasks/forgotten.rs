//! Ends that were deleted, while a worker may still repeat them.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::ops::Bound;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{InvocationId, NodeId, WallTime};
use brasserie_scheduler_engine::Task;

/// Up to which run of each task ends were deleted.
#[derive(Clone, Debug, Default)]
pub(super) struct Forgotten {
    up_to: BTreeMap<Task, InvocationId>,
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

impl Forgotten {
    pub(super) fn remember(&mut self, task: Task, up_to: InvocationId) {
        let known = self.up_to.entry(task).or_insert(up_to);
        *known = (*known).max(up_to);
    }

    pub(super) fn get(&self, task: Task) -> Option<InvocationId> {
        self.up_to.get(&task).copied()
    }

    /// Some more of the nodes of these tasks; none when all were told in this cycle. What comes meanwhile, the engine knows of
    /// anyway: it is told of each task whose end is deleted.
    pub(super) fn next_nodes(&mut self, cycle: u64, limit: usize) -> Vec<NodeId> {
        if self.told.cycle != cycle {
            self.told = Told { cycle, after: None };
        }
        let after = self.told.after.map_or(Bound::Unbounded, Bound::Excluded);
        let tasks = self.up_to.range((after, Bound::Unbounded));
        let tasks: Vec<Task> = tasks.map(|(task, _)| *task).take(limit).collect();
        self.told.after = tasks.last().copied().or(self.told.after);
        tasks.into_iter().map(|task| task.node).collect()
    }

    pub(super) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>, wall: WallTime) {
        let Forgotten { up_to, told: _ } = self;
        s.each(up_to, |s, (task, up_to)| {
            s.put(task);
            s.invocation(*up_to);
            s.put(up_to.0.start_time.saturating_sub(wall.as_secs()).max(0));
        });
    }
}
