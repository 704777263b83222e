//! A test rig: a worker, its schedulers, and the outlook of its tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::Time;

use super::super::super::job_sched::Preemption;
use super::super::super::outlook::{AssociationOutlook, Outlook, PairOutlook, TypeOutlook};
use super::super::super::profile::Profile;
use super::super::super::types::{
    Association, AssociationIndex, PerType, ProcessorKind, ProcessorType, ProcessorUsage,
    Processors, Task, TaskNumber, TaskStage,
};
use super::super::{Demand, FetchInput, FetchRequest, Source, Survey};

#[derive(Clone, Debug)]
pub struct FetchRig {
    pub now: Time,
    pub profile: Profile,
    pub preemption: Preemption,
    pub processors: Processors,
    pub associations: Vec<Association>,
    pub sources: Vec<Source>,
    pub rec: Vec<f64>,
    pub tasks: Vec<Task>,
    pub outlook: Outlook,
    pub outstanding: PerType<Option<AssociationIndex>>,
}

pub const CPU: ProcessorType = ProcessorType::CPU;
pub const CARDS: ProcessorType = ProcessorType(1);
pub const A: AssociationIndex = AssociationIndex(0);
pub const B: AssociationIndex = AssociationIndex(1);

/// Returns the instant this many seconds after the start.
pub fn at(secs: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(secs)
}

fn kind(name: &str, instances: u32) -> ProcessorKind {
    ProcessorKind {
        name: name.to_owned(),
        instances,
        relative_speed: 1.0,
        availability: 1.0,
    }
}

impl FetchRig {
    /// Creates a scene 1000 s after the start, with marks of 10 and 30 s, one association and no tasks.
    pub fn new(cpus: u32, cards: &[u32]) -> Self {
        let models = cards.iter().map(|cards| kind("card", *cards));
        let processors = Processors::new(kind("CPU", cpus), models.collect());
        let mut scene = FetchRig {
            now: at(1000.0),
            profile: Profile::CLUSTER,
            preemption: Preemption::Off,
            outlook: Outlook {
                of_type: processors.table(&TypeOutlook::default()),
                of_association: Vec::new(),
                misses: BTreeSet::new(),
            },
            outstanding: processors.table(&None),
            processors,
            associations: Vec::new(),
            sources: Vec::new(),
            rec: Vec::new(),
            tasks: Vec::new(),
        };
        for of_type in scene.processors.types() {
            scene.saturate(of_type, 0.0);
        }
        scene.associate(100.0, 0.0);
        scene
    }

    pub fn associate(&mut self, share: f64, rec: f64) -> AssociationIndex {
        self.associations.push(Association {
            share,
            max_concurrent: None,
            max_concurrent_of_jobs: BTreeMap::new(),
        });
        self.rec.push(rec);
        self.sources.push(Source::new(&self.processors));
        self.outlook.of_association.push(AssociationOutlook {
            of_type: self.processors.table(&PairOutlook::default()),
            limited_at: None,
        });
        AssociationIndex(self.associations.len() - 1)
    }

    /// Sets the outlook of a type: all instances are busy for `secs` seconds and then idle.
    pub fn saturate(&mut self, of_type: ProcessorType, secs: f64) {
        let instances = self.processors.instances(of_type);
        let outlook = &mut self.outlook.of_type[of_type];
        outlook.saturated = secs;
        outlook.shortfall = instances * (self.profile.high_water() - secs).max(0.0);
        outlook.idle_now = if secs > 0.0 { 0.0 } else { instances };
    }

    pub fn pair(&mut self, of: AssociationIndex, of_type: ProcessorType) -> &mut PairOutlook {
        &mut self.outlook.of_association[of.0].of_type[of_type]
    }

    /// Adds a CPU task, without changing the outlook.
    pub fn task(&mut self, of: AssociationIndex, remaining: f64) -> &mut Task {
        self.tasks.push(Task {
            number: TaskNumber(self.tasks.len() as u64),
            association: of,
            job: 0,
            usage: ProcessorUsage {
                cpus: 1.0,
                cards: None,
            },
            remaining,
            received: self.now,
            deadline: None,
            stage: TaskStage::Queued,
        });
        self.tasks.last_mut().unwrap()
    }

    /// Backs the pair off, as after a request without work.
    pub fn back_off(&mut self, of: AssociationIndex, of_type: ProcessorType) {
        self.sources[of.0].of_type[of_type].backed_off_until = at(1001.0);
    }

    pub fn survey(&self) -> Survey<'_> {
        Survey::new(FetchInput {
            now: self.now,
            profile: &self.profile,
            preemption: self.preemption,
            processors: &self.processors,
            associations: &self.associations,
            sources: &self.sources,
            rec: &self.rec,
            tasks: &self.tasks,
            outlook: &self.outlook,
            outstanding: &self.outstanding,
        })
    }

    /// Returns the chosen scheduler and types.
    pub fn chosen(&self) -> Option<(AssociationIndex, Vec<usize>)> {
        let request = self.survey().choose()?;
        Some((request.association, types(&request)))
    }

    /// Returns the types of a request to a scheduler that is contacted anyway.
    pub fn piggybacked(&self, of: AssociationIndex) -> Vec<usize> {
        let request = self.survey().piggyback(of);
        request.map_or_else(Vec::new, |request| types(&request))
    }

    /// Returns the request's demand for the CPU.
    pub fn demand(&self, of: AssociationIndex) -> Demand {
        let request = self.survey().piggyback(of);
        request.map_or_else(Demand::default, |request| request.of_type[CPU])
    }
}

pub fn types(request: &FetchRequest) -> Vec<usize> {
    let of_type = request.of_type.iter();
    let asked = of_type.filter(|(of_type, _)| request.asks_for(*of_type));
    asked.map(|(of_type, _)| of_type.0).collect()
}
