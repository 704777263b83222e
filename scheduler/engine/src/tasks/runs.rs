//! The table of running tasks. Entries keep their index, so that slices can visit all of them while tasks start and complete.

use brasserie_common::NodeId;
use brasserie_common::collections::IdMap;

use crate::forest::Forest;
use crate::pool::work_need::ExpectedRunTime;
use crate::pool::worker::RunCards;
use crate::slots::Charge;
use crate::types::{QueuePlace, Task, WorkerIndex};

/// One running task.
#[derive(Clone, Debug)]
pub(crate) struct PlacedRun {
    pub worker: WorkerIndex,
    pub path: RunPath,
    pub charges: Vec<Charge>,
    pub cards: RunCards,
    /// Its expected run time, if that is short and known.
    pub expected: Option<ExpectedRunTime>,
    pub place: QueuePlace,
}

/// The nodes that a run was placed along.
#[derive(Clone, Debug)]
pub(crate) enum RunPath {
    /// The run was adopted.
    Unknown,
    /// The path up from this row of the forest in force.
    Row(u32),
    /// The path in a forest that is no longer in force, root first.
    Nodes(Box<[NodeId]>),
}

impl PlacedRun {
    /// Stores the path as node ids, so that it survives changes of the forest. The run's charges are then looked up by name.
    pub(super) fn keep_path(&mut self, forest: &Forest) {
        match self.path {
            RunPath::Row(row) => self.path = RunPath::Nodes(forest.path(row)),
            RunPath::Unknown | RunPath::Nodes(_) => {}
        }
    }
}

/// Invariant: `ids` has the index of each entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunTable {
    entries: Vec<Option<(Task, PlacedRun)>>,
    free: Vec<u32>,
    ids: IdMap<Task, u32>,
}

impl RunTable {
    /// Returns the number of allocated entries, used or not.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn contains_key(&self, task: &Task) -> bool {
        self.ids.contains_key(task)
    }

    pub(crate) fn get(&self, task: &Task) -> Option<&PlacedRun> {
        let index = *self.ids.get(task)?;
        let entry = self.entries[index as usize].as_ref();
        entry.map(|(_, run)| run)
    }

    pub(super) fn get_mut(&mut self, task: &Task) -> Option<&mut PlacedRun> {
        let index = *self.ids.get(task)?;
        let entry = self.entries[index as usize].as_mut();
        entry.map(|(_, run)| run)
    }

    /// Inserts the run of a task that does not run yet.
    pub(super) fn insert(&mut self, task: Task, run: PlacedRun) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // Invariant: 2^32 runs need more memory than any supported machine has.
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 runs")
        });
        self.entries[index as usize] = Some((task, run));
        self.ids.insert(task, index);
    }

    pub(super) fn remove(&mut self, task: &Task) -> Option<PlacedRun> {
        let index = self.ids.remove(task)?;
        self.free.push(index);
        self.entries[index as usize].take().map(|(_, run)| run)
    }

    /// Iterates in no meaningful order, but always in the same one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Task, &PlacedRun)> {
        let entries = self.entries.iter().flatten();
        entries.map(|(task, run)| (*task, run))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = Task> + '_ {
        self.iter().map(|(task, _)| task)
    }

    /// Returns the same as [`RunTable::at_mut`], with the task.
    pub(crate) fn at(&self, index: usize) -> Option<Option<&(Task, PlacedRun)>> {
        self.entries.get(index).map(Option::as_ref)
    }

    /// Returns the run at an index, if there is one; `None` behind the last index.
    pub(super) fn at_mut(&mut self, index: usize) -> Option<Option<&mut PlacedRun>> {
        let entry = self.entries.get_mut(index)?;
        Some(entry.as_mut().map(|(_, run)| run))
    }
}
