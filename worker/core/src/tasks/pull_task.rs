//! The progress of a task of a pull worker, and what its policies need to know of it.

use std::time::Duration;

use brasserie_common::{Card, GpuShare, Processor, RunningTask, TaskSubprocessOptions, Time};
use brasserie_worker_fetch::{
    AssociationIndex, Lengths, ProcessorType, ProcessorUsage, Task, TaskNumber, TaskProgress,
    TaskStage, remaining,
};

use crate::machine::{cpus_of, model_of, processor_of};

/// The scale of processors and GPUs, which are counted in thousandths.
const WHOLE: f64 = 1000.0;
/// The longest wait in seconds that the backlog counts for a task, so that sums do not overflow.
const LONGEST: f64 = 1e9;

/// One task of a pull worker, as its policies see it.
///
/// ```text
///   waits --its turn--> executes <--> is stopped
/// ```
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PullTask {
    pub number: TaskNumber,
    pub job: u32,
    /// The run time in seconds that the scheduler says.
    pub given: Option<f64>,
    /// The processor type that the task counts as.
    pub processor: Processor,
    cpus: f64,
    cards: f64,
    received: Time,
    pub deadline: Option<Time>,
    state: PullState,
    /// The wait before it began.
    waited: Duration,
    /// How long it was stopped, without the current stop.
    stopped: Duration,
    /// The task was asked to end, so the policies neither stop nor resume it any more.
    is_ending: bool,
    /// Seconds of execution before the last stop.
    executed: f64,
    /// The task's part of the backlog while it is queued, in instance-milliseconds.
    pub backlog: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PullState {
    Waits,
    Executes { since: Time },
    IsStopped { since: Time },
}

impl PullTask {
    /// Returns the data of a task that was just accepted and waits. `backlog` is the part of the backlog that one instance gives it, in
    /// seconds.
    pub(crate) fn new(
        now: Time,
        (number, job): (TaskNumber, u32),
        (task, options): (&RunningTask, &TaskSubprocessOptions),
        machine: &[Card],
        backlog: f64,
    ) -> Self {
        let processor = processor_of(task, machine);
        let milli: f64 = task.gpus.iter().map(|share| f64::from(share.milli)).sum();
        let wanted = task.gpus_wanted.as_ref();
        let wanted = wanted.map_or(0.0, |wanted| wanted.need.amount());
        let (cpus, cards) = (cpus_of(task) as f64 / WHOLE, milli / WHOLE + wanted);
        let instances = match processor {
            Processor::Cpu => cpus,
            Processor::Cards(_) => cards,
        };
        let seconds = backlog * instances;
        PullTask {
            number,
            job,
            given: task.work.est_duration,
            processor,
            cpus,
            cards,
            received: now,
            deadline: options.deadline.map(|left| now + left),
            state: PullState::Waits,
            waited: Duration::ZERO,
            stopped: Duration::ZERO,
            is_ending: false,
            executed: 0.0,
            // A float cast saturates. The smallest queued task counts as 1.
            backlog: ((seconds.min(LONGEST) * 1000.0) as u64).max(1),
        }
    }

    pub(crate) fn waits(&self) -> bool {
        self.state == PullState::Waits
    }

    pub(crate) fn executes(&self) -> bool {
        match self.state {
            PullState::Executes { .. } => true,
            PullState::Waits | PullState::IsStopped { .. } => false,
        }
    }

    /// Returns the time from its acceptance until it began.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the total time for which it was stopped in favour of others.
    pub(crate) fn stopped(&self, now: Time) -> Duration {
        let last = match self.state {
            PullState::IsStopped { since } => now.since(since),
            PullState::Waits | PullState::Executes { .. } => Duration::ZERO,
        };
        self.stopped + last
    }

    /// Records the GPUs that the task gets, of the machine's `cards`. From now on it counts as their model.
    pub(crate) fn set_cards(&mut self, own: &[GpuShare], cards: &[Card]) {
        if let Some(model) = model_of(own, cards) {
            self.processor = Processor::Cards(model);
        }
    }

    pub(crate) fn begin(&mut self, now: Time) {
        if self.waits() {
            self.waited = now.since(self.received);
        }
        self.stopped = self.stopped(now);
        self.state = PullState::Executes { since: now };
    }

    pub(crate) fn is_stopped(&self) -> bool {
        match self.state {
            PullState::IsStopped { .. } => true,
            PullState::Waits | PullState::Executes { .. } => false,
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Records that the task was asked to end. Returns whether it is stopped and was not asked before.
    pub(crate) fn record_kill(&mut self) -> bool {
        let was_ending = std::mem::replace(&mut self.is_ending, true);
        !was_ending && self.is_stopped()
    }

    pub(crate) fn stop(&mut self, now: Time) {
        self.executed = self.executed(now);
        self.state = PullState::IsStopped { since: now };
    }

    /// Returns the seconds for which it has executed.
    pub(crate) fn executed(&self, now: Time) -> f64 {
        let last = match self.state {
            PullState::Executes { since } => now.since(since).as_secs_f64(),
            PullState::Waits | PullState::IsStopped { .. } => 0.0,
        };
        self.executed + last
    }

    /// Returns the task in the form for policies. `estimate` is the total run time of such a task in seconds.
    pub(crate) fn for_policies(
        &self,
        now: Time,
        association: AssociationIndex,
        (lengths, estimate): (Lengths, f64),
        type_of_cards: Option<ProcessorType>,
    ) -> Task {
        let progress = TaskProgress {
            elapsed: self.executed(now),
            done: None,
        };
        Task {
            number: self.number,
            association,
            job: self.job,
            usage: ProcessorUsage {
                cpus: self.cpus,
                cards: type_of_cards.map(|of| (of, self.cards)),
            },
            remaining: remaining(lengths, estimate, progress),
            received: self.received,
            deadline: self.deadline,
            stage: match self.state {
                PullState::Waits => TaskStage::Queued,
                PullState::Executes { since } => TaskStage::Executing { since },
                PullState::IsStopped { .. } => TaskStage::Preempted { has_process: true },
            },
        }
    }
}
