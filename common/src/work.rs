//! What a worker asks a scheduler for, and what it is told: work, by the types of its processors.
//!
//! Spans of work are seconds and amounts of processors are instances, both `f64`: they are weighed, not counted. All of them are finite
//! and not negative.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::{InvocationId, SchedulerId, WorkerId};

/// Types of processors that one request may name, and verdicts of its answer: more than any machine has cards of different models.
pub const MAX_PROCESSOR_TYPES: usize = 32;
/// Runs that one request may list: more than a worker takes.
pub const MAX_KNOWN_TASKS: usize = 131_072;
/// Seconds that a task is taken to run of which nobody can tell anything.
pub const DEFAULT_ESTIMATE: f64 = 60.0;

/// A type of processors: the CPU, or one model of graphics cards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Processor {
    Cpu,
    Cards(Arc<str>),
}

impl Processor {
    const CPU: &'static str = "CPU";

    /// The type of this name. A model of cards that calls itself `CPU` is none.
    pub fn named(name: &str) -> Self {
        match name {
            Processor::CPU => Processor::Cpu,
            model => Processor::Cards(model.into()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Processor::Cpu => Processor::CPU,
            Processor::Cards(model) => model,
        }
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which request of an association; each has a higher one than all before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkRequestSeq(pub u64);

/// What a scheduler says to its worker of a task as a piece of work.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkTerms {
    /// Seconds of run time that it takes, as far as the scheduler can tell; above 0.
    pub est_duration: Option<f64>,
    /// For which request it was sent; none: for no request.
    pub request: Option<WorkRequestSeq>,
    /// How many CPUs it keeps busy, if the scheduler tells; finite, and not negative.
    pub cpus: Option<f64>,
    /// It may wait at the worker until processors are free: what it holds elsewhere is not missed.
    pub bufferable: bool,
    /// What its job says of when its end is told, if it does.
    pub report: Option<ReportPolicy>,
}

/// When the end of a task is told to its scheduler. Only a worker that asks for work ever holds one back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportPolicy {
    Immediate,
    /// Together with others, or when it must.
    Lazy,
}

impl ReportPolicy {
    pub const ALL: [ReportPolicy; 2] = [ReportPolicy::Immediate, ReportPolicy::Lazy];

    pub fn as_str(self) -> &'static str {
        match self {
            ReportPolicy::Immediate => "immediate",
            ReportPolicy::Lazy => "lazy",
        }
    }

    /// A word that is not known asks for something, but not for an end to be held back.
    pub fn named(word: &str) -> Self {
        let mut all = ReportPolicy::ALL.into_iter();
        let named = all.find(|policy| policy.as_str() == word);
        named.unwrap_or(ReportPolicy::Immediate)
    }
}

/// How much work a worker wants for one type of its processors.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkDemand {
    pub processor: Processor,
    /// How many it has, 1 at least.
    pub there: f64,
    /// What is missing to keep all of them busy until the end of its buffer.
    pub instance_secs: f64,
    /// For how many it wants work, whether or not they are idle.
    pub instances: f64,
    /// How many are idle at this moment.
    pub idle: f64,
    /// For how long all of them are taken by tasks with near deadlines.
    pub estimated_delay: f64,
    /// For how many tasks wait there, if instances are to be idle again when runs end.
    pub waiting: Option<f64>,
}

impl WorkDemand {
    /// Nothing, for so many processors.
    pub fn none(processor: Processor, there: f64) -> Self {
        WorkDemand {
            processor,
            there,
            instance_secs: 0.0,
            instances: 0.0,
            idle: 0.0,
            estimated_delay: 0.0,
            waiting: None,
        }
    }

    pub fn wants_something(&self) -> bool {
        self.instance_secs > 0.0 || self.instances > 0.0 || self.idle > 0.0
    }
}

/// A run that a worker has: until its end is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownTask {
    pub invocation: InvocationId,
    /// Seconds of run time that it still takes, if the worker tells.
    pub remaining: Option<f64>,
    /// Seconds until it must have run to its end; `None`: whenever.
    pub deadline: Option<f64>,
}

/// `requestWork`, or what rides in a heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkRequest {
    pub worker: WorkerId,
    pub scheduler: SchedulerId,
    pub seq: WorkRequestSeq,
    /// One for each type that the worker has.
    pub demands: Vec<WorkDemand>,
    /// All runs of this scheduler's tasks; `None`: the worker does not say.
    pub known: Option<Vec<KnownTask>>,
    /// How long the request stays good, and until it has its verdicts in any case.
    pub linger: Duration,
    /// Seconds: tasks should have run to their ends so long before their deadlines.
    pub low_water: f64,
    pub cards: CardChoice,
}

/// Who chooses which of its worker's cards a task gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CardChoice {
    /// As it sends the task.
    #[default]
    Scheduler,
    /// As the task begins; until then it may wait.
    Worker,
}

/// What became of a wish for work, for one type of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkVerdict {
    /// So many tasks were sent for it.
    Granted(u32),
    /// No task of the type is ready.
    NoWork,
    /// Some are, but there is no room for them, or they are of a kind that the worker did not ask for.
    Limited,
    /// Some are, but none of them would make its deadline.
    Deadline,
    /// No job uses the type.
    NoApps,
    /// It was not looked at.
    Deferred,
    /// There was a newer request.
    Stale,
    /// Not known yet.
    Pending,
}

/// For people.
impl fmt::Display for WorkVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            WorkVerdict::Granted(1) => "1 task was sent",
            WorkVerdict::Granted(tasks) => return write!(f, "{tasks} tasks were sent"),
            WorkVerdict::NoWork => "no task of the type is ready",
            WorkVerdict::Limited => "tasks are ready, but there is no room for them",
            WorkVerdict::Deadline => "tasks are ready, but none would make its deadline here",
            WorkVerdict::NoApps => "no job uses the type",
            WorkVerdict::Deferred => "it was not looked at",
            WorkVerdict::Stale => "there was a newer request",
            WorkVerdict::Pending => "not known yet",
        })
    }
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkReply {
    pub seq: WorkRequestSeq,
    /// Of the types for which the worker wanted something.
    pub verdicts: Vec<(Processor, WorkVerdict)>,
    /// The next request comes no earlier.
    pub request_delay: Duration,
    /// Of the worker's types, those that no job uses, whether or not it wanted something for them.
    pub no_apps: Vec<Processor>,
    /// The next request comes no later.
    pub next_contact: Option<Duration>,
}

impl WorkReply {
    /// The same verdict for whatever was wanted.
    pub fn same_for_all(
        request: &WorkRequest,
        verdict: WorkVerdict,
        request_delay: Duration,
    ) -> Self {
        let wanted = request.demands.iter().filter(|d| d.wants_something());
        WorkReply {
            seq: request.seq,
            verdicts: wanted.map(|d| (d.processor.clone(), verdict)).collect(),
            request_delay,
            no_apps: Vec::new(),
            next_contact: None,
        }
    }
}
