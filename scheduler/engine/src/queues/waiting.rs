//! Ready and waiting tasks: how tasks join and leave wait lists.

use std::collections::hash_map::IntoIter;

use brasserie_common::JobId;
use brasserie_common_config::LevelId;

use super::columns::Parked;
use super::wait_lists::{WaitKey, WaitLists, Waiters};
use super::{NextInLine, Queues};
use crate::forest::Forest;
use crate::forest::below::Below;
use crate::tasks::Tasks;
use crate::types::TaskState;

impl Queues {
    /// Returns the position of the job's first ready task.
    pub(crate) fn first_ready(&self, id: JobId) -> Option<u32> {
        let first = self.of(id).ready.first()?;
        Some(first as u32)
    }

    pub(crate) fn is_ready(&self, id: JobId, position: u32) -> bool {
        self.of(id).ready.contains(position as usize)
    }

    /// Makes a task ready. It stays in its wait list.
    pub(crate) fn make_ready(&mut self, id: JobId, position: u32) {
        self.columns[id.index()].ready.insert(position as usize);
        self.touch(id);
    }

    /// Makes all eligible tasks of a job ready that is in no wait list.
    pub(crate) fn requeue(&mut self, id: JobId) {
        self.columns[id.index()].requeue();
        self.touch(id);
    }

    /// Marks a task running. [`Queues::leave`] must follow.
    pub(crate) fn start(&mut self, forest: &Forest, tasks: &Tasks, id: JobId, canonical: u32) {
        let position = forest.position(canonical);
        let columns = &mut self.columns[id.index()];
        columns.set_state(position, TaskState::Running);
        columns.clear_eligible(position);
        self.count_again(forest, tasks, id, canonical);
    }

    /// Returns a job's tasks below the place that one of them waits for; `None` if the forest does not have the place.
    pub(super) fn below<'f>(
        forest: &'f Forest,
        tasks: &Tasks,
        id: JobId,
        key: WaitKey,
    ) -> Option<Below<'f>> {
        let job = tasks.job(id);
        let canonical = match key {
            WaitKey::Node(row) => row,
            WaitKey::Host(host) => forest.row_of(job.host_level?, host)?,
        };
        Some(forest.below(job.level?, canonical))
    }

    /// Makes a task wait at a place, and with it all tasks of its job there that are ready and in no list, because they lack the same.
    /// A task without replicas waits at one place at most.
    pub(crate) fn wait_together(
        &mut self,
        forest: &Forest,
        tasks: &Tasks,
        (id, canonical): (JobId, u32),
        key: WaitKey,
    ) {
        let position = forest.position(canonical);
        let below = Self::below(forest, tasks, id, key);
        // Invariant: keys are made from the task's own path.
        let below = below.expect("a place in the forest");
        let rank = below.rank(position).expect("a task below it");
        if self.of(id).is_parked(position) {
            if self.lists.contains(key, id, rank) {
                // The task was woken in vain.
                self.columns[id.index()].ready.remove(position as usize);
                return self.touch(id);
            }
            self.leave(forest, tasks, (id, canonical));
        }
        let place = parked_at(canonical, key);
        let columns = &mut self.columns[id.index()];
        let ranks = self.lists.ranks_mut(key, id, below.len());
        columns.ready.insert(position as usize);
        for rank in 0..below.len() {
            let position = below.position(rank);
            if columns.ready.contains(position as usize) && !columns.is_parked(position) {
                columns.ready.remove(position as usize);
                columns.set_parked(position, place);
                ranks.insert(rank);
            }
        }
        self.touch(id);
    }

    /// Makes one task wait, alone. It may wait at several places.
    pub(crate) fn wait_alone(
        &mut self,
        forest: &Forest,
        tasks: &Tasks,
        (id, canonical): (JobId, u32),
        key: WaitKey,
    ) {
        let position = forest.position(canonical);
        let below = Self::below(forest, tasks, id, key);
        // Invariant: as in `wait_together`.
        let below = below.expect("a place in the forest");
        let rank = below.rank(position).expect("a task below it");
        self.lists.ranks_mut(key, id, below.len()).insert(rank);
        self.columns[id.index()].set_parked(position, parked_at(canonical, key));
    }

    /// Removes a task from the ready ones and from every wait list. The next task of each list comes to its front.
    pub(crate) fn leave(&mut self, forest: &Forest, tasks: &Tasks, (id, canonical): (JobId, u32)) {
        let position = forest.position(canonical);
        let columns = &mut self.columns[id.index()];
        columns.ready.remove(position as usize);
        let here = columns.is_parked_at(position, Parked::Here);
        let above = columns.is_parked_at(position, Parked::Above);
        columns.clear_parked(position);
        if here {
            self.leave_list(id, position, WaitKey::Node(canonical), Below::One(position));
        }
        if above {
            self.leave_above(forest, tasks, (id, canonical));
        }
        self.touch(id);
    }

    /// Removes a task from the lists of its host and of the nodes above it.
    fn leave_above(&mut self, forest: &Forest, tasks: &Tasks, (id, canonical): (JobId, u32)) {
        let position = forest.position(canonical);
        let job = tasks.job(id);
        let level = job.level.unwrap_or_default();
        for row in forest.rows(canonical) {
            for over in forest.upward(row) {
                let over_level = forest.level(over);
                let place = forest.canonical(over);
                if over_level.is_some() && over_level == job.host_level {
                    let key = WaitKey::Host(forest.node(over));
                    self.leave_list(id, position, key, forest.below(level, place));
                }
                if over != row
                    && over_level != Some(LevelId::INSTANCE)
                    && let Some(below) = forest.indexed_below(level, place)
                {
                    self.leave_list(id, position, WaitKey::Node(place), below);
                }
            }
        }
    }

    fn leave_list(&mut self, id: JobId, position: u32, key: WaitKey, below: Below<'_>) {
        let rank = below.rank(position);
        let next = rank.and_then(|rank| self.lists.remove(key, id, rank));
        if let Some(Some(rank)) = next {
            self.next_in_line.push(NextInLine {
                key,
                job: id,
                position: below.position(rank),
            });
        }
    }

    /// Notes that the first task of each job that waits at a place may have room.
    pub(crate) fn offer(&mut self, forest: &Forest, tasks: &Tasks, key: WaitKey) {
        for (job, rank) in self.lists.firsts(key) {
            if let Some(below) = Self::below(forest, tasks, job, key) {
                let position = below.position(rank);
                self.next_in_line.push(NextInLine { key, job, position });
            }
        }
    }

    /// Notes that the first of a job's tasks that wait at a place may have room.
    pub(crate) fn offer_to(&mut self, forest: &Forest, tasks: &Tasks, key: WaitKey, job: JobId) {
        let first = self.lists.first(key, job);
        if let Some((rank, below)) = first.zip(Self::below(forest, tasks, job, key)) {
            let position = below.position(rank);
            self.next_in_line.push(NextInLine { key, job, position });
        }
    }

    /// Makes one of a job's tasks ready that wait at a place, by its rank there.
    pub(crate) fn call(
        &mut self,
        forest: &Forest,
        tasks: &Tasks,
        key: WaitKey,
        (id, rank): (JobId, usize),
    ) {
        if let Some(below) = Self::below(forest, tasks, id, key) {
            self.make_ready(id, below.position(rank));
        }
    }

    pub(crate) fn lists(&self) -> &WaitLists {
        &self.lists
    }

    /// Opens a node, see [`WaitLists::open`].
    pub(crate) fn open(&mut self, row: u32, most: usize) -> Option<u32> {
        self.lists.open(row, most)
    }

    pub(crate) fn close(&mut self, row: u32) {
        self.lists.close(row);
    }

    /// Removes all tasks of some jobs from the wait lists.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(JobId) -> bool) {
        self.lists.forget(is_gone);
    }

    /// Removes all wait lists. The caller gets them, to free them step by step.
    pub(crate) fn take_lists(&mut self) -> IntoIter<WaitKey, Waiters> {
        self.lists.take_all()
    }
}

/// Returns where a task waits, as its state byte says it.
fn parked_at(canonical: u32, key: WaitKey) -> Parked {
    if key == WaitKey::Node(canonical) {
        Parked::Here
    } else {
        Parked::Above
    }
}
