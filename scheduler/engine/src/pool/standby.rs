//! Tasks that stand by: a worker has them although its slots are in use, and starts the first that fits when a task ends there.
//!
//! A task that stands by is running to everything else. Its slots are charged, so a worker with such tasks has no room for others. This
//! module repeats the worker's own choice, in the same order, to know how many tasks stand by there and which of them come first. The
//! worker decides: what it starts may differ, because calls to it may overtake each other. Its answers to starts say which tasks stand by and
//! in which order. A task that has begun although it seems to stand by is noticed at the latest when it is taken back: its worker refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::fingerprint::Shape;
use brasserie_common_config::{JobConfig, Shared};

use super::work_need::ExpectedRunTime;
use crate::bit_tree::BitTree;
use crate::slots::ResourceName;
use crate::types::{QueuePlace, Task};

/// The work that may stand by at a worker for each short task that executes there, besides one task each. A scheduler answers and a message
/// arrives in less time, even on a busy machine.
const WORK_PER_SHORT_TASK: Duration = Duration::from_millis(20);

/// The most tasks that stand by at one worker, however short they are.
pub(crate) const MAX_STANDBY: usize = 64;

/// The time that a task stands by before it is taken back, if another worker could start it. Short tasks have started by then.
pub(crate) const TAKE_BACK_AFTER: Duration = Duration::from_millis(25);

/// One task that stands by.
#[derive(Clone, Debug)]
pub(crate) struct StandbyTask {
    pub task: Task,
    pub place: QueuePlace,
    /// The earliest time of a take-back.
    pub due: Time,
    /// Its slots on the worker.
    pub slots: Vec<(ResourceName, i32)>,
    /// The configuration of its job when it was sent, or first known to stand by. `None`: no configuration was known then.
    pub config: Option<Shared<JobConfig>>,
    /// `None`: its run time is unknown, or too long to stand by on purpose.
    pub expected: Option<ExpectedRunTime>,
    /// The task may not start here any more, so it is taken back whether or not another worker could start it.
    pub is_unwanted: bool,
    /// A take-back is under way.
    pub is_asked: bool,
}

/// The tasks that stand by at one worker, by their places in its queue, and the short tasks that execute there. Tasks whose worker has not
/// answered yet come last, in the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standby {
    tasks: Vec<StandbyTask>,
    /// Tasks that count as begun although the worker has not said so, by their places in its queue.
    guessed: BTreeSet<(QueuePlace, Task)>,
    /// The sum of the expected run times.
    micros: u64,
    /// The short tasks of the worker, whether they stand by or execute.
    short: usize,
    /// The slots on the worker that these tasks hold.
    short_slots: BTreeMap<ResourceName, i64>,
}

impl Standby {
    pub(crate) fn tasks(&self) -> &[StandbyTask] {
        &self.tasks
    }

    /// Counts a short task that the worker received, with its slots there.
    pub(crate) fn note_short(&mut self, slots: &[(ResourceName, i32)]) {
        self.short += 1;
        for (name, amount) in slots {
            *self.short_slots.entry(*name).or_default() += i64::from(*amount);
        }
    }

    /// Stops counting a short task, which has ended.
    pub(crate) fn forget_short(&mut self, slots: &[(ResourceName, i32)]) {
        self.short = self.short.saturating_sub(1);
        for (name, amount) in slots {
            if let Some(sum) = self.short_slots.get_mut(name) {
                *sum -= i64::from(*amount);
            }
        }
    }

    /// Returns the slots of a resource that short tasks hold. They become free soon.
    pub(crate) fn short_slots(&self, name: ResourceName) -> i64 {
        self.short_slots.get(&name).copied().unwrap_or(0)
    }

    /// Counts a task as begun, although the worker has not said so.
    pub(crate) fn guess_begun(&mut self, place: QueuePlace, task: Task) {
        self.guessed.insert((place, task));
    }

    /// Forgets a guess about a task, which need not exist: the worker has spoken, or the task has ended.
    pub(crate) fn forget_guess(&mut self, place: QueuePlace, task: Task) {
        self.guessed.remove(&(place, task));
    }

    /// Returns the last task in the queue that counts as begun although the worker has not said so.
    pub(crate) fn last_guess(&self) -> Option<Task> {
        self.guessed.last().map(|(_, task)| *task)
    }

    /// Returns such a task of which the worker has said that it is behind a place in its queue.
    pub(crate) fn guess_behind(&self, place: QueuePlace) -> Option<Task> {
        let from_last = self.guessed.iter().rev();
        let mut behind = from_last.take_while(|(at, _)| *at > place);
        let known = behind.find(|(at, _)| *at != QueuePlace::Unknown);
        known.map(|(_, task)| *task)
    }

    /// Adds a task behind the others of its place.
    pub(crate) fn push(&mut self, task: StandbyTask) {
        self.micros += task.expected.map_or(0, ExpectedRunTime::micros);
        let at = self.tasks.partition_point(|one| one.place <= task.place);
        self.tasks.insert(at, task);
    }

    /// Gives a task the place that its worker says.
    pub(crate) fn move_to(&mut self, task: Task, place: QueuePlace) {
        if let Some(one) = self.remove(task) {
            self.push(StandbyTask { place, ..one });
        }
    }

    /// Removes a task, which starts or ends. `None` if it does not stand by here.
    pub(crate) fn remove(&mut self, task: Task) -> Option<StandbyTask> {
        let at = self.position(task)?;
        let removed = self.tasks.remove(at);
        self.micros -= removed.expected.map_or(0, ExpectedRunTime::micros);
        Some(removed)
    }

    /// Returns how many tasks stand by before this one. `None` if it does not stand by here.
    pub(crate) fn position(&self, task: Task) -> Option<usize> {
        self.tasks.iter().position(|one| one.task == task)
    }

    pub(crate) fn get_mut(&mut self, task: Task) -> Option<&mut StandbyTask> {
        self.tasks.iter_mut().find(|one| one.task == task)
    }

    /// Marks the chosen tasks as unwanted. They are taken back at once.
    pub(crate) fn mark_unwanted(&mut self, is_chosen: impl Fn(Task) -> bool) {
        let all = self.tasks.iter_mut();
        for one in all.filter(|one| !one.is_unwanted && is_chosen(one.task)) {
            one.is_unwanted = true;
            one.due = Time::ZERO;
        }
    }

    /// Returns whether an unwanted task stands by for which no take-back is under way.
    pub(crate) fn has_unwanted(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|one| one.is_unwanted && !one.is_asked)
    }

    /// Returns the slots of a resource that tasks hold which stand by.
    pub(crate) fn used(&self, name: ResourceName) -> i64 {
        let slots = self.tasks.iter().flat_map(|one| &one.slots);
        let of_name = slots.filter(|(resource, _)| *resource == name);
        of_name.map(|(_, amount)| i64::from(*amount)).sum()
    }

    /// Returns whether one more task may stand by. A worker that executes no short task has nothing that soon makes room.
    pub(crate) fn has_room(&self) -> bool {
        let standing_by = self.tasks.len();
        let short = self.tasks.iter().filter(|one| one.expected.is_some());
        let executing = self.short.saturating_sub(short.count());
        let most = WORK_PER_SHORT_TASK.as_micros() as u64 * executing as u64;
        standing_by < MAX_STANDBY && (standing_by < executing || self.micros < most)
    }

    /// Writes the state for fingerprints.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let short_slots = self.short_slots.iter().filter(|(_, sum)| **sum != 0);
        s.put((self.short, &self.guessed));
        s.each(short_slots, |s, sum| s.put(sum));
        s.each(&self.tasks, |s, one| {
            s.put((
                one.task.job,
                one.task.node,
                one.place,
                &one.slots,
                one.expected,
                (one.is_unwanted, one.is_asked),
            ));
            s.deadline(one.due);
        });
    }
}

/// The places that other jobs claim while tasks are chosen to stand by.
///
/// A job whose tasks cannot stand by waits for a free slot. If the policy picks that job, no task of another job may go ahead of it to the
/// workers that could run it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    demands: BTreeSet<usize>,
    workers: BTreeSet<usize>,
}

impl Claims {
    /// Claims the workers of a demand, and leaves out its jobs from now on.
    pub(crate) fn add(&mut self, demand: usize, workers: &BitTree) {
        self.demands.insert(demand);
        self.workers.extend(workers.iter());
    }

    pub(crate) fn include(&self, demand: usize) -> bool {
        self.demands.contains(&demand)
    }

    pub(crate) fn is_unclaimed(&self, worker: usize) -> bool {
        !self.workers.contains(&worker)
    }
}
