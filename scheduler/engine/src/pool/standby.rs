//! Tasks that stand by: a worker has them although its slots are in use, and starts the first that fits when a task ends there.
//!
//! A task that stands by is running to everything else. Its slots are charged, so a worker with such tasks has no room for others. This
//! module repeats the worker's own choice, in the same order, to know how many tasks stand by there and which of them come first. The
//! worker decides: what it starts may differ for as long as a report is under way.

use std::collections::BTreeSet;
use std::hash::Hasher;
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::fingerprint::Shape;
use brasserie_common_config::JobConfig;

use super::work_need::LearnedStep;
use crate::bit_tree::BitTree;
use crate::slots::ResourceName;
use crate::types::Task;

/// Tasks that take longer do not stand by: the time that a slot is empty between two of them hardly counts.
const LONGEST_TASK: Duration = Duration::from_secs(1);

/// The work that may stand by at a worker for each short task that executes there, besides one task each. A scheduler answers and a message
/// arrives in less time, even on a busy machine.
const WORK_PER_LANE: Duration = Duration::from_millis(20);

/// The most tasks that stand by at one worker, however short they are.
pub(crate) const MAX_STANDBY: usize = 64;

/// The time that a task stands by before it is taken back, if another worker could start it. Short tasks have started by then.
pub(crate) const PATIENCE: Duration = Duration::from_millis(25);

/// The expected run time of a task that may stand by, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShortRun(u32);

impl ShortRun {
    /// Returns the run time that a job's tasks are known to have. `None` if it is not known, or too long to stand by.
    pub(crate) fn of(job: &JobConfig, learned: Option<LearnedStep>) -> Option<Self> {
        let given = job.est_duration.map(|est| est.as_secs_f64());
        let seconds = given.or(learned.map(LearnedStep::seconds))?;
        let is_short = seconds >= 0.0 && seconds <= LONGEST_TASK.as_secs_f64();
        // The number is a million at most, so the cast is exact enough.
        is_short.then(|| ShortRun((seconds * 1e6).ceil() as u32))
    }

    fn micros(self) -> u64 {
        u64::from(self.0)
    }
}

/// Whether a take-back of a task is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum TakeBack {
    /// Another worker may start it from its time on.
    IfElsewhere,
    /// The task may not start any more.
    InAnyCase,
    Sent,
}

/// One task that stands by.
#[derive(Clone, Debug)]
pub(crate) struct StandbyTask {
    pub task: Task,
    /// The earliest time of a take-back.
    pub due: Time,
    /// Its slots on the worker.
    pub slots: Vec<(ResourceName, i32)>,
    /// `None`: its run time is unknown, because an earlier scheduler sent it.
    pub run: Option<ShortRun>,
    pub take_back: TakeBack,
}

/// The tasks that stand by at one worker, in the order in which they were sent, and the short tasks that execute there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standby {
    tasks: Vec<StandbyTask>,
    /// The sum of the expected run times.
    micros: u64,
    /// The short tasks of the worker, whether they stand by or execute.
    short: usize,
}

impl Standby {
    pub(crate) fn tasks(&self) -> &[StandbyTask] {
        &self.tasks
    }

    /// Counts a short task that the worker received.
    pub(crate) fn note_short(&mut self) {
        self.short += 1;
    }

    /// Stops counting a short task, which has ended.
    pub(crate) fn forget_short(&mut self) {
        self.short = self.short.saturating_sub(1);
    }

    /// Adds a task behind the others.
    pub(crate) fn push(&mut self, task: StandbyTask) {
        self.micros += task.run.map_or(0, ShortRun::micros);
        self.tasks.push(task);
    }

    /// Removes a task, which starts or ends. `None` if it does not stand by here.
    pub(crate) fn remove(&mut self, task: Task) -> Option<StandbyTask> {
        let at = self.position(task)?;
        let removed = self.tasks.remove(at);
        self.micros -= removed.run.map_or(0, ShortRun::micros);
        Some(removed)
    }

    /// Returns how many tasks stand by before this one. `None` if it does not stand by here.
    pub(crate) fn position(&self, task: Task) -> Option<usize> {
        self.tasks.iter().position(|one| one.task == task)
    }

    pub(crate) fn get_mut(&mut self, task: Task) -> Option<&mut StandbyTask> {
        self.tasks.iter_mut().find(|one| one.task == task)
    }

    /// Marks the chosen tasks for a take-back, because they may not start any more.
    pub(crate) fn return_all(&mut self, is_chosen: impl Fn(Task) -> bool) {
        let all = self.tasks.iter_mut();
        for one in all.filter(|one| one.take_back == TakeBack::IfElsewhere && is_chosen(one.task)) {
            one.take_back = TakeBack::InAnyCase;
            one.due = Time::ZERO;
        }
    }

    /// Returns whether a task stands by that may not start any more, and that nobody has asked for yet.
    pub(crate) fn has_unwanted(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|one| one.take_back == TakeBack::InAnyCase)
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
        let lanes = self.short.saturating_sub(standing_by);
        let most = WORK_PER_LANE.as_micros() as u64 * lanes as u64;
        standing_by < MAX_STANDBY && (standing_by < lanes || self.micros < most)
    }

    /// Writes the state for fingerprints.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.put(self.short);
        s.each(&self.tasks, |s, one| {
            s.put((
                one.task.job,
                one.task.node,
                &one.slots,
                one.run,
                one.take_back,
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

    pub(crate) fn leave(&self, worker: usize) -> bool {
        !self.workers.contains(&worker)
    }
}
