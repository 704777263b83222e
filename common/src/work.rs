//! Work requests of a worker, and the scheduler's answers, by type of processor.
//!
//! Amounts of work are seconds and amounts of processors are instances, both `f64` because they are weighed, not counted. All are finite
//! and not negative.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::{InvocationId, SchedulerId, WorkerId};

/// The processor types that one request may name, and the verdicts of its answer: more than any machine has GPU models.
pub const MAX_PROCESSOR_TYPES: usize = 32;
/// The runs that one request may list: more than a worker takes.
pub const MAX_KNOWN_TASKS: usize = 131_072;
/// The run time in seconds of a task without any estimate.
pub const DEFAULT_ESTIMATE: f64 = 60.0;

/// A type of processor: the CPU, or one GPU model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Processor {
    Cpu,
    Cards(Arc<str>),
}

impl Processor {
    const CPU: &'static str = "CPU";

    /// Returns the type of this name. A GPU model named `CPU` cannot be expressed.
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

impl From<String> for Processor {
    fn from(name: String) -> Self {
        Processor::named(&name)
    }
}

impl From<Processor> for String {
    fn from(processor: Processor) -> Self {
        processor.as_str().to_owned()
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The number of a request within an association, higher than those of all earlier ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WorkRequestSeq(pub u64);

/// The properties of a task as a piece of work, which a scheduler sends to its worker.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkTerms {
    /// The estimated run time in seconds; above 0.
    pub est_duration: Option<f64>,
    /// The request for which the task was sent, if any.
    pub request: Option<WorkRequestSeq>,
    /// The number of CPUs that the task keeps busy, if the scheduler states it; finite, and not negative.
    pub cpus: Option<f64>,
    /// The task may be queued at the worker until processors are free, because no other task needs its node resources meanwhile.
    pub bufferable: bool,
    /// The job's report policy, if it states one.
    pub report: Option<ReportPolicy>,
}

/// When the completion of a task is reported to its scheduler. Only a worker that requests work holds reports back for longer than a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReportPolicy {
    Immediate,
    /// Together with others, or when the report is due.
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

    /// Parses a policy. An unknown word counts as one that does not delay reports.
    pub fn named(word: &str) -> Self {
        let mut all = ReportPolicy::ALL.into_iter();
        let named = all.find(|policy| policy.as_str() == word);
        named.unwrap_or(ReportPolicy::Immediate)
    }
}

/// The amount of work that a worker wants for one type of its processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkDemand {
    pub processor: Processor,
    /// The number of instances that the worker has; at least 1.
    #[serde(rename = "instances")]
    pub there: f64,
    /// The missing work in instance-seconds: the amount that keeps all instances busy until the end of the work buffer.
    #[serde(rename = "wants_instance_sec")]
    pub instance_secs: f64,
    /// The number of instances for which the worker wants work, idle or not.
    #[serde(rename = "wants_instances")]
    pub instances: f64,
    /// The number of instances that are idle now.
    pub idle: f64,
    /// How long all instances are taken by tasks with near deadlines, in seconds.
    #[serde(rename = "estimated_delay_sec")]
    pub estimated_delay: f64,
    /// The number of instances for which tasks are queued; `None` if completions do not make instances idle again.
    #[serde(skip)]
    pub waiting: Option<f64>,
}

impl WorkDemand {
    /// Returns an empty demand for `there` processors.
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

/// A run that a worker has, until its completion is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownTask {
    pub invocation: InvocationId,
    /// The remaining run time in seconds, if the worker states it.
    pub remaining: Option<f64>,
    /// Seconds until the run must be over; `None` for no deadline.
    pub deadline: Option<f64>,
}

/// The content of `requestWork`, or of the request in a heartbeat.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkRequest {
    pub worker: WorkerId,
    pub scheduler: SchedulerId,
    pub seq: WorkRequestSeq,
    /// One for each type of processor that the worker has.
    pub demands: Vec<WorkDemand>,
    /// All runs of this scheduler's tasks; `None` if the worker does not list them.
    pub known: Option<Vec<KnownTask>>,
    /// How long the request stays good. It stays good until it has its verdicts in any case.
    pub linger: Duration,
    /// Seconds before their deadlines by which tasks should be over.
    pub low_water: f64,
    pub cards: CardChoice,
}

/// The side that chooses the GPUs of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CardChoice {
    /// The scheduler, when it sends the task.
    #[default]
    Scheduler,
    /// The worker, when the task begins. Until then the task may be queued.
    Worker,
}

/// The result of a work request for one type of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkVerdict {
    /// This many tasks were sent for the request.
    Granted(u32),
    /// No task of the type is ready.
    NoWork,
    /// Tasks are ready, but no capacity is free for them, or the worker did not ask for their kind.
    Limited,
    /// Tasks are ready, but none of them would meet its deadline.
    Deadline,
    /// No job uses the type.
    NoApps,
    /// The request was not examined.
    Deferred,
    /// A newer request exists.
    Stale,
    /// The verdict is not known yet.
    Pending,
}

/// Formats the verdict for people.
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

/// The answer to a work request.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkReply {
    pub seq: WorkRequestSeq,
    /// The verdicts of the types for which the worker wanted something.
    pub verdicts: Vec<(Processor, WorkVerdict)>,
    /// The earliest time of the next request, from the answer on.
    pub request_delay: Duration,
    /// The worker's types that no job uses, requested or not.
    pub no_apps: Vec<Processor>,
    /// The latest time of the next request, from the answer on.
    pub next_contact: Option<Duration>,
}

impl WorkReply {
    /// Returns an answer with the same verdict for every requested type.
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
