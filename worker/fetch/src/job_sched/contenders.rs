//! The tasks that take part in the choice, in the order of their arrival and with validated numbers, and those of them that are in danger
//! of missing their deadlines.

use std::cmp::Ordering;

use super::super::amounts::amount;
use super::super::types::{PerType, ProcessorType, Task, TaskStage};
use super::SchedulingInput;

/// The position of a contender; earlier arrivals have lower places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContenderPlace(usize);

/// All tasks of known associations and processor types.
pub(super) struct Contenders<'a>(Vec<Contender<'a>>);

pub(super) struct Contender<'a> {
    pub task: &'a Task,
    /// The type that the task counts as.
    pub of_type: ProcessorType,
    pub cpus: f64,
    pub cards: Option<(ProcessorType, f64)>,
    /// The fraction of the worker's computing power that it uses.
    pub fraction_of_host: f64,
    remaining: f64,
    is_ending: bool,
    is_held_back: bool,
}

impl<'a> Contenders<'a> {
    pub fn new(input: &SchedulingInput<'a>) -> Self {
        let there = |task: &&Task| {
            let of_type = task.usage.processor_type();
            task.association.0 < input.associations.len()
                && input.processors.types().any(|known| known == of_type)
        };
        let mut tasks: Vec<&Task> = input.tasks.iter().filter(there).collect();
        tasks.sort_by_key(|task| (task.received, task.number));
        let contenders = tasks.into_iter();
        Contenders(contenders.map(|task| Contender::new(input, task)).collect())
    }

    pub fn all(&self) -> impl Iterator<Item = (ContenderPlace, &Contender<'a>)> {
        let all = self.0.iter().enumerate();
        all.map(|(place, contender)| (ContenderPlace(place), contender))
    }

    pub fn get(&self, place: ContenderPlace) -> &Contender<'a> {
        &self.0[place.0]
    }

    /// Returns an empty set of contenders.
    pub fn marks(&self) -> ContenderSet {
        ContenderSet(vec![false; self.0.len()])
    }
}

/// A set of contenders.
#[derive(Default)]
pub(super) struct ContenderSet(Vec<bool>);

impl ContenderSet {
    pub fn has(&self, place: ContenderPlace) -> bool {
        self.0[place.0]
    }

    pub fn add(&mut self, place: ContenderPlace) {
        self.0[place.0] = true;
    }
}

impl<'a> Contender<'a> {
    fn new(input: &SchedulingInput<'a>, task: &'a Task) -> Self {
        let host = input.processors.peak();
        let of_type = task.usage.processor_type();
        let cards = task.usage.cards.map(|(of, much)| (of, amount(much)));
        Contender {
            task,
            of_type,
            cpus: amount(task.usage.cpus),
            cards: cards.filter(|_| of_type != ProcessorType::CPU),
            fraction_of_host: amount(task.usage.peak(input.processors) / host),
            remaining: amount(task.remaining),
            is_ending: input.ending.contains(&task.number),
            is_held_back: !task.stage.is_executing() && input.held_back.contains(&task.number),
        }
    }

    pub fn is_executing(&self) -> bool {
        self.task.stage.is_executing()
    }

    /// Returns whether the choice may start, stop or continue the task now.
    pub fn can_run(&self) -> bool {
        self.could_run() && !self.is_held_back
    }

    /// Returns whether the task waits for something besides processors.
    pub fn is_held_back(&self) -> bool {
        self.is_held_back
    }

    /// Returns whether the task could run if it had processors and were not held back.
    pub fn could_run(&self) -> bool {
        let has_inputs = match self.task.stage {
            TaskStage::Queued | TaskStage::Executing { .. } | TaskStage::Preempted { .. } => true,
            TaskStage::WaitingForInputs { .. } => false,
        };
        has_inputs && !self.is_ending
    }

    pub fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub fn has_begun(&self) -> bool {
        match self.task.stage {
            TaskStage::Executing { .. } | TaskStage::Preempted { .. } => true,
            TaskStage::Queued | TaskStage::WaitingForInputs { .. } => false,
        }
    }

    /// Returns the rank of the task's stage; a lower rank loses less if the task goes on.
    pub fn nomination_rank(&self) -> u8 {
        match self.task.stage {
            TaskStage::Executing { .. } => 0,
            TaskStage::Preempted { has_process: true } => 1,
            TaskStage::Preempted { has_process: false } => 2,
            TaskStage::Queued | TaskStage::WaitingForInputs { .. } => 3,
        }
    }

    /// Orders by deadline, tasks without one last; then started tasks first, then the shorter remaining time first.
    pub fn by_deadline(&self, other: &Contender<'_>) -> Ordering {
        let deadline = |of: &Contender<'_>| (of.task.deadline.is_none(), of.task.deadline);
        let begun = |of: &Contender<'_>| !of.has_begun();
        deadline(self)
            .cmp(&deadline(other))
            .then(begun(self).cmp(&begun(other)))
            .then(self.remaining.total_cmp(&other.remaining))
    }
}

/// A task on the run list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunListEntry {
    pub place: ContenderPlace,
    pub reason: Reason,
}

/// The reason for listing a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Deadline,
    Priority,
    /// The task runs, and its time slice is not over.
    Slice,
}

/// The number of tasks in danger of missing their deadlines, by association and type.
pub(super) type InDanger = Vec<PerType<u32>>;

/// Counts the tasks in danger of missing their deadlines. A task that cannot run does not count, whatever the simulation says, because
/// running other tasks by deadline does not help it.
///
/// BOINC counts a task for some time after its simulation no longer names it, so that two tasks do not displace each other in turn. The
/// simulation here does not depend on which task runs, and such a memory only violated shares.
pub(super) fn in_danger(input: &SchedulingInput<'_>, contenders: &Contenders<'_>) -> InDanger {
    let mut counts = vec![input.processors.table(&0_u32); input.associations.len()];
    let all = contenders.all().map(|(_, contender)| contender);
    for contender in all.filter(|one| one.can_run() && input.outlook.misses(one.task.number)) {
        let count = &mut counts[contender.task.association.0][contender.of_type];
        *count = count.saturating_add(1);
    }
    counts
}
