//! A test rig: a worker with tasks for a choice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::Time;

use super::super::super::outlook::{AssociationOutlook, Outlook, PairOutlook, TypeOutlook};
use super::super::super::profile::Profile;
use super::super::super::types::{
    Association, AssociationIndex, ProcessorKind, ProcessorType, ProcessorUsage, Processors, Task,
    TaskNumber, TaskStage,
};
use super::super::contenders::{Contenders, Reason};
use super::super::run_list;
use super::super::{Preemption, Schedule, SchedulingInput};

#[derive(Clone, Debug)]
pub struct SchedulingRig {
    pub now: Time,
    pub profile: Profile,
    pub preemption: Preemption,
    pub processors: Processors,
    pub associations: Vec<Association>,
    pub rec: Vec<f64>,
    pub tasks: Vec<Task>,
    pub ending: BTreeSet<TaskNumber>,
    pub held_back: BTreeSet<TaskNumber>,
    pub outlook: Outlook,
}

pub const CARDS: ProcessorType = ProcessorType(1);

/// Returns the instant this many seconds after the start.
pub fn at(secs: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(secs)
}

pub fn kind(name: &str, instances: u32) -> ProcessorKind {
    ProcessorKind {
        name: name.to_owned(),
        instances,
        relative_speed: 1.0,
        availability: 1.0,
    }
}

pub fn cpus(cpus: f64) -> ProcessorUsage {
    ProcessorUsage { cpus, cards: None }
}

pub fn cards(cpus: f64, cards: f64) -> ProcessorUsage {
    ProcessorUsage {
        cpus,
        cards: Some((CARDS, cards)),
    }
}

impl SchedulingRig {
    /// Creates a scene 1000 s after the start, with one association.
    pub fn new(cpus: u32, models_of_cards: &[u32]) -> Self {
        let card = |instances: &u32| kind("card", *instances);
        let models = models_of_cards.iter().map(card).collect();
        let processors = Processors::new(kind("CPU", cpus), models);
        let mut scene = SchedulingRig {
            now: at(1000.0),
            profile: Profile::CLUSTER,
            preemption: Preemption::Off,
            outlook: Outlook {
                of_type: processors.table(&TypeOutlook::default()),
                of_association: Vec::new(),
                misses: BTreeSet::new(),
            },
            processors,
            associations: Vec::new(),
            rec: Vec::new(),
            tasks: Vec::new(),
            ending: BTreeSet::new(),
            held_back: BTreeSet::new(),
        };
        scene.associate(100.0, 0.0);
        scene
    }

    pub fn associate(&mut self, share: f64, rec: f64) -> &mut Association {
        self.associations.push(Association {
            share,
            max_concurrent: None,
            max_concurrent_of_jobs: BTreeMap::new(),
        });
        self.rec.push(rec);
        self.outlook.of_association.push(AssociationOutlook {
            of_type: self.processors.table(&PairOutlook::default()),
            limited_at: None,
        });
        self.associations.last_mut().unwrap()
    }

    /// Adds a task of the first association that arrived recently, after the others.
    pub fn task(&mut self, number: u64, usage: ProcessorUsage) -> &mut Task {
        self.tasks.push(Task {
            number: TaskNumber(number),
            association: AssociationIndex(0),
            job: 0,
            usage,
            remaining: 100.0,
            received: at(990.0 + number as f64 / 1000.0),
            deadline: None,
            stage: TaskStage::Queued,
        });
        self.tasks.last_mut().unwrap()
    }

    /// Makes the outlook say that this task is late.
    pub fn miss(&mut self, number: u64) {
        let number = TaskNumber(number);
        let task = self.tasks.iter().find(|task| task.number == number);
        let task = task.unwrap();
        let outlook = &mut self.outlook.of_association[task.association.0];
        outlook.of_type[task.usage.processor_type()].deadlines_missed += 1;
        self.outlook.misses.insert(number);
    }

    pub fn nobody_misses(&mut self) {
        self.outlook.misses.clear();
        for outlook in &mut self.outlook.of_association {
            outlook.of_type = self.processors.table(&PairOutlook::default());
        }
    }

    pub fn hand(&self) -> SchedulingInput<'_> {
        SchedulingInput {
            now: self.now,
            profile: &self.profile,
            preemption: self.preemption,
            processors: &self.processors,
            associations: &self.associations,
            rec: &self.rec,
            tasks: &self.tasks,
            ending: &self.ending,
            held_back: &self.held_back,
            outlook: &self.outlook,
        }
    }

    pub fn choose(&self) -> Schedule {
        self.hand().choose()
    }

    /// Applies a schedule to the tasks.
    pub fn carry_out(&mut self, schedule: &Schedule) {
        for task in &mut self.tasks {
            if schedule.start.contains(&task.number) || schedule.resume.contains(&task.number) {
                task.stage = TaskStage::Executing { since: self.now };
            } else if schedule.preempt.contains(&task.number) {
                task.stage = STOPPED;
            }
        }
    }

    /// Returns the listed tasks in order, with their reasons.
    pub fn listed(&self) -> Vec<(u64, Reason)> {
        let hand = self.hand();
        let contenders = Contenders::new(&hand);
        let list = run_list::make(&hand, &contenders);
        let entries = list.entries().iter();
        entries
            .map(|entry| (contenders.get(entry.place).task.number.0, entry.reason))
            .collect()
    }

    pub fn listed_numbers(&self) -> Vec<u64> {
        self.listed()
            .into_iter()
            .map(|(number, _)| number)
            .collect()
    }
}

pub fn numbers(tasks: &[TaskNumber]) -> Vec<u64> {
    tasks.iter().map(|task| task.0).collect()
}

pub fn executing(since: f64) -> TaskStage {
    TaskStage::Executing { since: at(since) }
}

pub const STOPPED: TaskStage = TaskStage::Preempted { has_process: true };
pub const LOST: TaskStage = TaskStage::Preempted { has_process: false };

pub const NOBODY: [u64; 0] = [];
