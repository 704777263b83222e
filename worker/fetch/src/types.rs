//! The common types of all policies: processors, schedulers that a worker is attached to, and tasks at the worker.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use brasserie_common::Time;

/// A type of processors: the CPU, or one GPU model. The value is its index in the worker's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorType(pub usize);

impl ProcessorType {
    pub const CPU: ProcessorType = ProcessorType(0);
}

/// All processors of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorKind {
    /// The name for messages: `CPU`, or the GPU model.
    pub name: String,
    pub instances: u32,
    /// The computing power of one instance relative to a CPU, for accounting.
    pub relative_speed: f64,
    /// The fraction of the time in which the processors can work, in (0, 1].
    pub availability: f64,
}

/// The processors of a worker, the CPU first.
#[derive(Clone, Debug, PartialEq)]
pub struct Processors(PerType<ProcessorKind>);

impl Processors {
    pub fn new(cpu: ProcessorKind, cards: Vec<ProcessorKind>) -> Self {
        let mut all = vec![cpu];
        all.extend(cards);
        Processors(PerType(all))
    }

    /// Returns all types, the CPU first.
    pub fn types(&self) -> impl DoubleEndedIterator<Item = ProcessorType> + use<> {
        (0..self.0.0.len()).map(ProcessorType)
    }

    pub fn instances(&self, of: ProcessorType) -> f64 {
        f64::from(self.0[of].instances)
    }

    /// Returns the computing power of all processors, in CPUs.
    pub fn peak(&self) -> f64 {
        let kinds = self.0.0.iter();
        kinds
            .map(|kind| f64::from(kind.instances) * kind.relative_speed)
            .sum()
    }

    /// Returns a table with this value for each type.
    pub fn table<T: Clone>(&self, of_each: &T) -> PerType<T> {
        PerType(vec![of_each.clone(); self.0.0.len()])
    }
}

impl Index<ProcessorType> for Processors {
    type Output = ProcessorKind;

    fn index(&self, of: ProcessorType) -> &ProcessorKind {
        &self.0[of]
    }
}

/// A value for each processor type. [`Processors::table`] creates it with the right size.
#[derive(Clone, Debug, PartialEq)]
pub struct PerType<T>(Vec<T>);

impl<T> PerType<T> {
    pub fn iter(&self) -> impl Iterator<Item = (ProcessorType, &T)> {
        let all = self.0.iter().enumerate();
        all.map(|(place, of_it)| (ProcessorType(place), of_it))
    }
}

impl<T> Index<ProcessorType> for PerType<T> {
    type Output = T;

    fn index(&self, of: ProcessorType) -> &T {
        &self.0[of.0]
    }
}

impl<T> IndexMut<ProcessorType> for PerType<T> {
    fn index_mut(&mut self, of: ProcessorType) -> &mut T {
        &mut self.0[of.0]
    }
}

/// A scheduler that the worker is attached to. The value is its index in the worker's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationIndex(pub usize);

impl AssociationIndex {
    /// The only association of a worker with a single scheduler.
    pub const FIRST: AssociationIndex = AssociationIndex(0);
}

/// The operator's settings for a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// The share of the worker, relative to the other shares; 0 if the scheduler only gets what the others leave.
    pub share: f64,
    /// Limit of its concurrently running tasks.
    pub max_concurrent: Option<u32>,
    /// The same limit for single jobs, by job number.
    pub max_concurrent_of_jobs: BTreeMap<u32, u32>,
}

impl Association {
    /// Returns whether the operator limits the concurrent tasks of the scheduler or of one of its jobs.
    pub fn is_limited(&self) -> bool {
        self.max_concurrent.is_some() || !self.max_concurrent_of_jobs.is_empty()
    }
}

/// All associations, by their index.
pub type Associations = [Association];

/// The processors that a task occupies while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessorUsage {
    pub cpus: f64,
    /// The GPU type, at most one, and the number of GPUs.
    pub cards: Option<(ProcessorType, f64)>,
}

impl ProcessorUsage {
    /// Returns the type that the task counts as: its GPU type, else the CPU.
    pub fn processor_type(&self) -> ProcessorType {
        self.cards.map_or(ProcessorType::CPU, |(of, _)| of)
    }

    pub fn of(&self, of: ProcessorType) -> f64 {
        match self.cards {
            _ if of == ProcessorType::CPU => self.cpus,
            Some((cards, amount)) if cards == of => amount,
            Some(_) | None => 0.0,
        }
    }

    /// Returns the usage of the type that the task counts as.
    pub fn of_its_type(&self) -> f64 {
        self.of(self.processor_type())
    }

    /// Returns the computing power that the task occupies, in CPUs.
    pub fn peak(&self, processors: &Processors) -> f64 {
        // The speed of GPUs that the worker does not have is unknown.
        let cards = self.cards.and_then(|(of, amount)| {
            let kind = processors.0.0.get(of.0)?;
            Some(amount * kind.relative_speed)
        });
        let cards = cards.unwrap_or(0.0);
        self.cpus * processors[ProcessorType::CPU].relative_speed + cards
    }
}

/// The number of a task, unique among all tasks of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNumber(pub u64);

/// A task at the worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub number: TaskNumber,
    pub association: AssociationIndex,
    /// The number of its job, unique within the association.
    pub job: u32,
    pub usage: ProcessorUsage,
    /// Estimated remaining run time in seconds, with its processors always available.
    pub remaining: f64,
    pub received: Time,
    /// The deadline on the worker's own clock. A task without one is never late.
    pub deadline: Option<Time>,
    pub stage: TaskStage,
}

/// The stage of a task at the worker.
///
/// ```text
/// Queued --> WaitingForInputs --> Executing <--> Preempted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStage {
    Queued,
    /// Its inputs have not arrived. With `stalled`, it is unknown when they will.
    WaitingForInputs {
        stalled: bool,
    },
    Executing {
        since: Time,
    },
    /// The task has started and is stopped. Without a process it must start anew.
    Preempted {
        has_process: bool,
    },
}

impl TaskStage {
    pub fn is_executing(self) -> bool {
        match self {
            TaskStage::Executing { .. } => true,
            TaskStage::Queued
            | TaskStage::WaitingForInputs { .. }
            | TaskStage::Preempted { .. } => false,
        }
    }
}
