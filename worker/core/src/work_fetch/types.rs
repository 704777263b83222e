//! What all policies speak of: processors, schedulers that a worker is attached to, tasks that are there.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use brasserie_common::Time;

/// A kind of processors: the CPU, or one model of graphics cards. Its place in a worker's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessorType(pub usize);

impl ProcessorType {
    pub const CPU: ProcessorType = ProcessorType(0);
}

/// All processors of one type.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorKind {
    /// For people: `CPU`, or the model of the cards.
    pub name: String,
    pub instances: u32,
    /// What one instance is worth beside one of the CPU, in what is accounted.
    pub relative_speed: f64,
    /// The part of the time in which it can work, of (0, 1].
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

    /// The CPU first.
    pub fn types(&self) -> impl DoubleEndedIterator<Item = ProcessorType> + use<> {
        (0..self.0.0.len()).map(ProcessorType)
    }

    pub fn instances(&self, of: ProcessorType) -> f64 {
        f64::from(self.0[of].instances)
    }

    /// What all of them are worth in a second.
    pub fn peak(&self) -> f64 {
        let kinds = self.0.0.iter();
        kinds
            .map(|kind| f64::from(kind.instances) * kind.relative_speed)
            .sum()
    }

    /// A table with this in each place.
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

/// Something for each type of processors; made by [`Processors::table`], so that it has as many places.
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

/// A scheduler that the worker is attached to: its place in the worker's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationIndex(pub usize);

impl AssociationIndex {
    /// The only one of a worker with a single scheduler.
    pub const FIRST: AssociationIndex = AssociationIndex(0);
}

/// What the worker's operator has said of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Association {
    /// Of the worker, beside the other shares; 0: only what the others leave.
    pub share: f64,
    /// How many of its tasks run at once.
    pub max_concurrent: Option<u32>,
    /// The same of single jobs, by their numbers.
    pub max_concurrent_of_jobs: BTreeMap<u32, u32>,
}

impl Association {
    /// Whether the operator limits how many of its tasks, or of some of them, run at once.
    pub fn is_limited(&self) -> bool {
        self.max_concurrent.is_some() || !self.max_concurrent_of_jobs.is_empty()
    }
}

/// All of them, by their index.
pub type Associations = [Association];

/// What a task keeps busy while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    pub cpus: f64,
    /// At most one type of cards, and how much of them.
    pub cards: Option<(ProcessorType, f64)>,
}

impl Usage {
    /// The type that the task counts as: its cards', else the CPU.
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

    /// Of the type that it counts as.
    pub fn of_its_type(&self) -> f64 {
        self.of(self.processor_type())
    }

    /// What it is worth in a second.
    pub fn peak(&self, processors: &Processors) -> f64 {
        // Of cards that the worker does not have nothing is known.
        let cards = self.cards.and_then(|(of, amount)| {
            let kind = processors.0.0.get(of.0)?;
            Some(amount * kind.relative_speed)
        });
        let cards = cards.unwrap_or(0.0);
        self.cpus * processors[ProcessorType::CPU].relative_speed + cards
    }
}

/// Tells the tasks of a worker apart, whoever gave them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskNumber(pub u64);

/// A task that is at the worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub number: TaskNumber,
    pub association: AssociationIndex,
    /// Of the scheduler's jobs: tells them apart within the association.
    pub job: u32,
    pub usage: Usage,
    /// Seconds of run time that it still takes, as far as anybody can tell, with its processors always available.
    pub remaining: f64,
    pub received: Time,
    /// By the worker's own clock; without one it never comes late.
    pub deadline: Option<Time>,
    pub stage: Stage,
}

/// ```text
/// Queued --> WaitingForInputs --> Executing <--> Preempted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Queued,
    /// It is not here yet, what it reads; with `stalled`, nobody knows when it will be.
    WaitingForInputs {
        stalled: bool,
    },
    Executing {
        since: Time,
    },
    /// It has begun, and is stopped; with a process, or without one where it has to begin anew.
    Preempted {
        has_process: bool,
    },
}

impl Stage {
    pub fn is_executing(self) -> bool {
        match self {
            Stage::Executing { .. } => true,
            Stage::Queued | Stage::WaitingForInputs { .. } | Stage::Preempted { .. } => false,
        }
    }
}
