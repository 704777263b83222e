//! What is weighed: a task as a piece of work, and what is left of a worker's wish for one type of processors.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::{Processor, WorkDemand};

/// A task that takes longer counts as if it took this: thirty years, so that sums stay finite.
const MAX_ESTIMATE: f64 = 1e9;
/// What a request that asks for seconds gets at most, however many: 28 days of one processor. One that asks for instances is not bounded by
/// seconds, as long as instances are left: each task takes what it uses of them, however long it is.
const MAX_INSTANCE_SECS: f64 = 28.0 * 86_400.0;
/// More than any worker has of one type, or a task takes.
const MAX_INSTANCES: f64 = 1e6;

/// Where a task may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// At a worker, until processors are free: it holds nothing elsewhere that others could use.
    Bufferable,
    /// Nowhere: it is sent only for processors that are idle.
    Immediate,
}

/// A task as a piece of work. All its numbers are finite, and the estimate is above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    processor: &'a Processor,
    usage: f64,
    estimate: f64,
    class: Class,
    bound: Option<f64>,
}

impl<'a> Piece<'a> {
    /// `processor`: of its cards if it takes any, else the CPU, and `usage`: how many of these. `estimate`: seconds of run time.
    /// `bound`: in which time it must be over.
    pub fn new(
        processor: &'a Processor,
        usage: f64,
        estimate: f64,
        class: Class,
        bound: Option<Duration>,
    ) -> Self {
        let estimate = match estimate.is_finite() && estimate > 0.0 {
            true => estimate.min(MAX_ESTIMATE),
            false => DEFAULT_ESTIMATE,
        };
        Piece {
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

    pub fn class(&self) -> Class {
        self.class
    }

    pub(super) fn usage(&self) -> f64 {
        self.usage
    }

    pub(super) fn estimate(&self) -> f64 {
        self.estimate
    }

    /// Seconds of one instance.
    pub(super) fn work(&self) -> f64 {
        self.estimate * self.usage
    }

    pub(super) fn bound(&self) -> Option<f64> {
        self.bound
    }
}

/// What is left of a wish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Amounts {
    pub(super) secs: f64,
    pub(super) instances: f64,
    pub(super) idle: f64,
    /// Grows with each task: until so many seconds after the request no other can begin.
    pub(super) delay: f64,
    pub(super) there: f64,
    /// For how many tasks wait at the worker; `None`: no instance is idle again by the end of a run.
    pub(super) waiting: Option<f64>,
    pub(super) asked: AskedFor,
}

/// What nothing gives back more of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AskedFor {
    pub(super) secs: f64,
    pub(super) instances: f64,
    pub(super) delay: f64,
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
        self.are_left_for(Class::Bufferable) || self.are_left_for(Class::Immediate)
    }

    pub(super) fn are_left_for(&self, class: Class) -> bool {
        let is_left = |amount: f64| match sabotage::on(Sabotage::SendForNothing) {
            true => amount >= 0.0,
            false => amount > 0.0,
        };
        match class {
            Class::Bufferable => is_left(self.instances) || is_left(self.secs),
            Class::Immediate => is_left(self.idle),
        }
    }

    /// How much of the delay is left so long after the request, in steps of a second: nothing once it is over.
    pub(super) fn delay_left(&self, since: Duration) -> f64 {
        match since.as_secs_f64() >= self.delay {
            true => 0.0,
            // A span of seconds below the delay, which is finite.
            false => self.delay - since.as_secs() as f64,
        }
    }

    /// When it is over, from the request on.
    pub(super) fn delay_end(&self) -> Duration {
        Duration::try_from_secs_f64(self.delay).unwrap_or(Duration::MAX)
    }

    /// So long after the request.
    pub(super) fn spend(&mut self, piece: &Piece<'_>, since: Duration) {
        let work = piece.work();
        self.secs = spent(self.secs, work);
        self.instances = spent(self.instances, piece.usage);
        self.idle = spent(self.idle, piece.usage);
        self.delay = self.delay.max(since.as_secs_f64()) + work / self.there;
    }

    /// A run that took so many instances has ended: those who wait have them, or they are idle again. Whether any are.
    pub(super) fn give_back(&mut self, usage: f64) -> bool {
        let Some(waiting) = &mut self.waiting else {
            return false;
        };
        let (before, left) = (self.idle, usage - *waiting);
        *waiting = (*waiting - usage).max(0.0);
        // No more are ever idle than there are. Below nothing are those that are taken by tasks that wait, which were sent since.
        self.idle = before.max((before + left.max(0.0)).min(self.there));
        self.idle > before
    }
}

/// Sums of floats that come to nothing leave such parts of it, for which nothing is to be sent.
const ROUNDING: f64 = 1e-8;

fn spent(amount: f64, by: f64) -> f64 {
    let left = amount - by;
    match left.abs() < ROUNDING {
        true => 0.0,
        false => left,
    }
}

/// Finite, and not negative.
pub(super) fn sound(number: f64) -> f64 {
    match number.is_finite() {
        true => number.max(0.0),
        false => 0.0,
    }
}
