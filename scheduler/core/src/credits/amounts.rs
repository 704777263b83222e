//! The quantities of a credit: the work of a task, and the amounts left of a request for one type of processors.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::{Processor, WorkDemand};

/// The longest estimate in seconds, thirty years, so that sums stay finite.
const MAX_ESTIMATE: f64 = 1e9;
/// The most instance-seconds of a request that asks for seconds: 28 days of one processor. A request for instances is not bounded by
/// seconds as long as instances are left: each task takes the instances that it uses, however long it runs.
const MAX_INSTANCE_SECS: f64 = 28.0 * 86_400.0;
/// The most instances of one type, more than any worker has or any task takes.
const MAX_INSTANCES: f64 = 1e6;

/// Whether a task may be queued at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskClass {
    /// The task may be queued at a worker until processors are free. It holds nothing elsewhere that others could use.
    Bufferable,
    /// The task may not be queued. It is sent only for processors that are idle.
    Immediate,
}

/// The work of one task: `usage` instances for `estimate` seconds, to be over within `bound` seconds. All numbers are finite, and the estimate
/// is above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskWork<'a> {
    processor: &'a Processor,
    usage: f64,
    estimate: f64,
    class: TaskClass,
    bound: Option<f64>,
}

impl<'a> TaskWork<'a> {
    /// Creates the work of a task. `processor` is the type of the task's GPUs if it takes any, else the CPU, and `usage` the number of
    /// instances. `estimate` is the run time in seconds. `bound` is the time in which the task must be over.
    pub fn new(
        processor: &'a Processor,
        usage: f64,
        estimate: f64,
        class: TaskClass,
        bound: Option<Duration>,
    ) -> Self {
        let estimate = match estimate.is_finite() && estimate > 0.0 {
            true => estimate.min(MAX_ESTIMATE),
            false => DEFAULT_ESTIMATE,
        };
        TaskWork {
            processor,
            usage: sound(usage).min(MAX_INSTANCES),
            estimate,
            class,
            bound: bound.map(|bound| bound.as_secs_f64()),
        }
    }

    pub fn processor(&self) -> &'a Processor {
        self.processor
    }

    pub fn class(&self) -> TaskClass {
        self.class
    }

    pub(super) fn usage(&self) -> f64 {
        self.usage
    }

    pub(super) fn estimate(&self) -> f64 {
        self.estimate
    }

    /// Returns the work in instance-seconds.
    pub(super) fn work(&self) -> f64 {
        self.estimate * self.usage
    }

    pub(super) fn bound(&self) -> Option<f64> {
        self.bound
    }
}

/// The amounts left of a request for one type of processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Amounts {
    /// The work left to send, in instance-seconds.
    pub secs: f64,
    /// The number of instances left for which the worker wants work, idle or not.
    pub instances: f64,
    /// The number of idle instances left; negative if tasks were sent beyond them, which are queued at the worker.
    pub idle: f64,
    /// Seconds after the request before which no other task can begin. Grows with each task.
    pub delay: f64,
    /// The number of instances that the worker has; at least 1.
    pub there: f64,
    /// The number of instances for which tasks are queued at the worker. `None`: the end of a run makes no instance idle again.
    pub waiting: Option<f64>,
    pub asked: AskedFor,
}

/// The requested amounts, which limit returned credit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AskedFor {
    pub secs: f64,
    pub instances: f64,
    pub delay: f64,
}

impl Amounts {
    pub(super) fn of(demand: &WorkDemand) -> Self {
        let asked = AskedFor {
            secs: sound(demand.instance_secs).min(MAX_INSTANCE_SECS),
            instances: sound(demand.instances).min(MAX_INSTANCES),
            delay: sound(demand.estimated_delay).min(MAX_ESTIMATE),
        };
        Amounts {
            secs: asked.secs,
            instances: asked.instances,
            idle: sound(demand.idle).min(MAX_INSTANCES),
            delay: asked.delay,
            there: sound(demand.there).clamp(1.0, MAX_INSTANCES),
            waiting: demand
                .waiting
                .map(|waiting| sound(waiting).min(MAX_INSTANCES)),
            asked,
        }
    }

    pub(super) fn are_left(&self) -> bool {
        self.are_left_for(TaskClass::Bufferable) || self.are_left_for(TaskClass::Immediate)
    }

    pub(super) fn are_left_for(&self, class: TaskClass) -> bool {
        let is_left = |amount: f64| match sabotage::on(Sabotage::SendForNothing) {
            true => amount >= 0.0,
            false => amount > 0.0,
        };
        match class {
            TaskClass::Bufferable => is_left(self.instances) || is_left(self.secs),
            TaskClass::Immediate => is_left(self.idle),
        }
    }

    /// Returns the seconds left of the delay at this time after the request, in steps of a second. Zero once it is over.
    pub(super) fn delay_left(&self, since: Duration) -> f64 {
        match since.as_secs_f64() >= self.delay {
            true => 0.0,
            // The whole seconds are below the delay, which is finite.
            false => self.delay - since.as_secs() as f64,
        }
    }

    /// Returns the end of the delay, counted from the request.
    pub(super) fn delay_end(&self) -> Duration {
        Duration::try_from_secs_f64(self.delay).unwrap_or(Duration::MAX)
    }

    /// Subtracts a task that is sent at this time after the request, and lengthens the delay by its work.
    pub(super) fn spend(&mut self, task_work: &TaskWork<'_>, since: Duration) {
        let work = task_work.work();
        self.secs = spent(self.secs, work);
        self.instances = spent(self.instances, task_work.usage);
        self.idle = spent(self.idle, task_work.usage);
        self.delay = self.delay.max(since.as_secs_f64()) + work / self.there;
    }

    /// Gives back the instances of a run that has ended. Queued tasks take them first; the others are idle again. Returns whether `idle` has grown.
    pub(super) fn give_back(&mut self, usage: f64) -> bool {
        let Some(waiting) = &mut self.waiting else {
            return false;
        };
        let (before, left) = (self.idle, usage - *waiting);
        *waiting = (*waiting - usage).max(0.0);
        // Idle instances never exceed those that the worker has. A negative number stands for tasks sent since that are queued.
        self.idle = before.max((before + left.max(0.0)).min(self.there));
        self.idle > before
    }
}

/// The largest rounding error of a sum of floats that stands for zero. No task is sent for it.
const ROUNDING: f64 = 1e-8;

fn spent(amount: f64, by: f64) -> f64 {
    let left = amount - by;
    match left.abs() < ROUNDING {
        true => 0.0,
        false => left,
    }
}

/// Returns the number if it is finite and not negative, else 0.
pub(super) fn sound(number: f64) -> f64 {
    match number.is_finite() {
        true => number.max(0.0),
        false => 0.0,
    }
}
