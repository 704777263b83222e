//! Needs of a group of jobs besides slots, and the reasons why a worker does not take its tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{Estimate, Shard};
use brasserie_common_config::{JobConfig, ResourceId};

use crate::types::{Allowance, Due};

/// Tasks that take longer do not stand by: the time that a slot is empty between two of them hardly counts.
const LONGEST_TASK: Duration = Duration::from_secs(1);

/// The properties of a group of jobs that matter for work requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorkNeed {
    /// Whether its tasks may be queued at a worker.
    pub bufferable: bool,
    /// Present if its tasks have deadlines.
    pub due: Option<Due>,
    /// Whether its tasks are known to be short.
    pub is_short: bool,
}

impl WorkNeed {
    /// Returns the properties of a job. `learned` is the run time of its tasks, for jobs without an estimate of their own.
    pub(crate) fn of(job: &JobConfig, learned: Option<LearnedStep>) -> Self {
        let given = job.est_duration.map(|est| est.as_secs_f64());
        let estimate = Estimate::of(given, learned.map(LearnedStep::seconds));
        WorkNeed {
            is_short: ExpectedRunTime::of(job, learned).is_some(),
            bufferable: job.bufferable,
            due: job.deadline().map(|bound| Due {
                estimate: estimate.seconds,
                bound: bound.as_secs_f64(),
            }),
        }
    }

    /// Returns whether a task would miss its deadline on a worker without other work.
    pub(crate) fn is_late_anywhere(&self) -> bool {
        self.due.is_some_and(|due| due.estimate > due.bound)
    }

    /// Returns why a pull worker with this credit gets no such task, if it does not.
    pub(crate) fn refusal(&self, allowance: Option<&Allowance>) -> Option<Refusal> {
        let allowance = allowance.filter(|allowance| match self.bufferable {
            true => allowance.bufferable,
            false => allowance.immediate,
        });
        let Some(allowance) = allowance else {
            return Some(Refusal::NotAsked);
        };
        // A worker without a delay meets the deadline.
        let delay = allowance.estimated_delay;
        let is_late = |due: Due| delay > 0.0 && delay + due.estimate > due.bound;
        self.due.is_some_and(is_late).then_some(Refusal::Late)
    }
}

/// The expected run time of a task that may stand by, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ExpectedRunTime(u32);

impl ExpectedRunTime {
    /// Returns the run time that a job's tasks are known to have. `None` if it is not known, or too long to stand by.
    pub(crate) fn of(job: &JobConfig, learned: Option<LearnedStep>) -> Option<Self> {
        let given = job.est_duration.map(|est| est.as_secs_f64());
        let seconds = given.or(learned.map(LearnedStep::seconds))?;
        let is_short = seconds >= 0.0 && seconds <= LONGEST_TASK.as_secs_f64();
        // The number is a million at most, so the cast is exact enough.
        is_short.then(|| ExpectedRunTime((seconds * 1e6).ceil() as u32))
    }

    pub(crate) fn micros(self) -> u64 {
        u64::from(self.0)
    }
}

/// A job's learned run time, in steps of a tenth, so that jobs share groups and rarely change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LearnedStep(i32);

impl LearnedStep {
    const BASE: f64 = 1.1;

    pub(crate) fn of(seconds: f64) -> Self {
        // A cast of a float saturates, and makes 0 of NaN.
        LearnedStep((seconds.ln() / Self::BASE.ln()).round() as i32)
    }

    pub(crate) fn seconds(self) -> f64 {
        Self::BASE.powi(self.0)
    }
}

/// The bytes that the outputs of a task are expected to take, rounded up to three binary digits, so that jobs share groups and rarely change
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OutputSize(u64);

impl OutputSize {
    pub(crate) fn of(bytes: u64) -> Self {
        let digits = u64::BITS - bytes.leading_zeros();
        let unit = 1_u64 << digits.saturating_sub(3);
        OutputSize(bytes.checked_next_multiple_of(unit).unwrap_or(bytes))
    }

    /// Returns the bytes; at least one, because a worker without space can take no output.
    pub(crate) fn bytes(self) -> u64 {
        self.0.max(1)
    }
}

/// The knowledge of the outputs of a job's tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OutputNeed {
    pub size: OutputSize,
    /// The workers that lately had no space for the inputs or outputs of a task, whatever they report. They get no task of the job.
    pub full_at: BTreeSet<Shard>,
}

/// The reason why a worker cannot take a task now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Ineligible,
    Draining,
    Barred,
    Filtered,
    OtherHost,
    NoCommand,
    /// The first resource that is short, and its limit there.
    Short(ResourceId, i32),
    /// There are slots, but no GPUs to assign.
    Cards,
    /// The worker runs as many tasks as it can.
    Full,
    /// The pull worker has not requested such a task, or its credit is used up.
    NotAsked,
    /// The task would miss its deadline, by the worker's report of its own work.
    Late,
    /// The worker chooses GPUs, and had none for such a task a moment ago.
    TurnedDown,
    /// None of the worker's healthy disks has space for the outputs of the task, or it lately had none for those of such a task.
    NoSpace,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_outputs_are_rounded_up_to_three_digits() {
        let rounded =
            [0, 1, 7, 8, 9, 1000, 1025, u64::MAX].map(|bytes| OutputSize::of(bytes).bytes());
        assert_eq!(rounded, [1, 1, 7, 8, 10, 1024, 1280, u64::MAX]);
    }
}
