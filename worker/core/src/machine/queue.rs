//! The queue of tasks that wait until processors and GPUs are free, of all schedulers.
//!
//! A pull worker queues tasks whose scheduler permits it, because no other task needs their node resources meanwhile. Any other worker queues
//! tasks with `workerSlots` until slots are free.
//! The scheduler takes a queued task for a running one, from its acceptance to the acknowledgement of its completion, with all guarantees of a
//! running task.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use brasserie_common::{Card, CardUse, GpuShare, RunningTask, TaskKey};
use brasserie_worker_fetch::AssociationIndex;

use super::gpu_waiters::{GpuWaiters, MachineUse};
use super::{Place, QueuedTask};

/// The queued tasks, in the order in which they begin.
///
/// Invariant: `with_cards` holds exactly the tasks of `order` that need GPUs.
#[derive(Clone, Debug, Default)]
pub(super) struct TaskQueue {
    order: BTreeMap<Place, QueuedTask>,
    /// The queued tasks that need GPUs.
    with_cards: GpuWaiters,
    last: Place,
}

/// A choice among the queued tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueFilter {
    All,
    /// Those that need GPUs.
    ForCards,
}

impl TaskQueue {
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds a task behind all others, and returns its place.
    pub(super) fn add(&mut self, waiting: QueuedTask, task: &RunningTask) -> Place {
        self.last += 1;
        let place = self.last;
        self.order.insert(place, waiting);
        if task.takes_cards() {
            self.with_cards.insert(place, task);
        }
        place
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.order.remove(&place);
        self.with_cards.remove(place);
    }

    /// Moves a task to the front of the queue, and returns its new position.
    pub(super) fn move_to_front(&mut self, place: Place) -> Place {
        let first = self.order.first_key_value();
        let new = first.map_or(place, |(first, _)| first - 1);
        if let Some(waiting) = self.order.remove(&place) {
            self.order.insert(new, waiting);
        }
        self.with_cards.replace(place, new);
        new
    }

    /// Returns the queued tasks of one association, in order.
    pub(super) fn in_order_of(&self, whose: AssociationIndex) -> impl Iterator<Item = &TaskKey> {
        let own = self.order.values().filter(move |(of, _)| *of == whose);
        own.map(|(_, key)| key)
    }

    /// Returns the next task behind a position.
    pub(super) fn next_behind(
        &self,
        place: Place,
        who: QueueFilter,
    ) -> Option<(Place, QueuedTask)> {
        let behind = (Bound::Excluded(place), Bound::Unbounded);
        let next = match who {
            QueueFilter::All => self.order.range(behind).next().map(|(place, _)| *place),
            QueueFilter::ForCards => self.with_cards.next_behind(place),
        };
        next.and_then(|next| Some((next, self.order.get(&next)?.clone())))
    }

    /// Returns the task that was overtaken so often that it reserves GPUs.
    pub(super) fn reserver(&self) -> Option<&QueuedTask> {
        self.order.get(&self.with_cards.reserver()?)
    }

    /// Returns the GPUs that this task reserves.
    pub(super) fn reserved(&self, cards: &[Card], used: &CardUse) -> Vec<Arc<str>> {
        self.with_cards.reserved(cards, used)
    }

    /// Counts whom a task overtakes that is no longer queued and is about to begin with these GPUs.
    pub(super) fn count_overtaken(&mut self, now: MachineUse<'_>, taken: &[GpuShare]) {
        self.with_cards.count_overtaken(now, taken);
    }

    /// Returns how often a task that waits for GPUs was overtaken.
    pub(super) fn overtaken(&self, place: Place) -> u32 {
        self.with_cards.overtaken(place)
    }

    /// Returns the number of tasks that begin before this one.
    pub(super) fn rank(&self, place: Place) -> usize {
        self.order.range(..place).count()
    }
}
