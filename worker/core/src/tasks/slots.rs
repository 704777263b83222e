//! The slots that the tasks of one association use on the worker, as their scheduler charges them.

use std::collections::BTreeMap;

use brasserie_common::RunningTask;
use brasserie_common::resources::ResourceAmount;

/// The slots in use on the worker, by resource.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotsInUse(BTreeMap<String, i64>);

impl SlotsInUse {
    /// Counts the slots of a task that begins.
    pub(super) fn take(&mut self, task: &RunningTask) {
        for slot in charged_here(task) {
            *self.0.entry(slot.name.clone()).or_insert(0) += i64::from(slot.amount);
        }
    }

    /// Stops counting the slots of a task that has begun.
    pub(super) fn give_back(&mut self, task: &RunningTask) {
        for slot in charged_here(task) {
            if let Some(used) = self.0.get_mut(&slot.name) {
                *used -= i64::from(slot.amount);
                if *used == 0 {
                    self.0.remove(&slot.name);
                }
            }
        }
    }

    /// Returns whether the tasks that have begun leave room for a task under its [`RunningTask::worker_slots`]. A resource without a limit
    /// there is not limited.
    pub(super) fn have_room_for(&self, task: &RunningTask) -> bool {
        let Some(limits) = &task.worker_slots else {
            return true;
        };
        charged_here(task).all(|slot| {
            let used = self.0.get(&slot.name).copied().unwrap_or(0);
            let mut limits = limits.iter().filter(|limit| limit.name == slot.name);
            limits.all(|limit| used + i64::from(slot.amount) <= i64::from(limit.amount))
        })
    }
}

/// Returns whether a task uses slots of nodes other than its worker.
pub(crate) fn is_charged_elsewhere(task: &RunningTask) -> bool {
    let others = task.resources.iter();
    let mut others = others.filter(|on| on.node.as_str() != task.shard.as_str());
    others.any(|on| on.resources.iter().any(|slot| slot.amount > 0))
}

/// Iterates over the slots that a task uses on its worker.
fn charged_here(task: &RunningTask) -> impl Iterator<Item = &ResourceAmount> {
    let own = task.resources.iter();
    let own = own.filter(|on| on.node.as_str() == task.shard.as_str());
    own.flat_map(|on| &on.resources)
        .filter(|slot| slot.amount > 0)
}
