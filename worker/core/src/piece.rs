//! The data of a task for the policies of a pull worker.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Card, GpuShare, Processor, RunningTask, TaskSubprocessOptions, Time};
use brasserie_worker_fetch::{
    AssociationIndex, Lengths, ProcessorType, Progress, Stage, Task, TaskNumber, Usage, remaining,
};

use crate::fetching::Fetching;
use crate::queue::cpus_of;

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
pub(crate) struct Piece {
    pub(crate) number: TaskNumber,
    pub(crate) job: u32,
    /// The run time in seconds that the scheduler says.
    pub(crate) given: Option<f64>,
    /// The processor type that the task counts as.
    pub(crate) processor: Processor,
    cpus: f64,
    cards: f64,
    received: Time,
    pub(crate) deadline: Option<Time>,
    doing: Doing,
    /// The wait before it began.
    waited: Duration,
    /// How long it was stopped, without the current stop.
    stopped: Duration,
    /// The task was asked to end, so the policies neither stop nor resume it any more.
    is_ending: bool,
    /// Seconds of execution before the last stop.
    executed: f64,
    /// The task's part of the backlog while it is queued, in instance-milliseconds.
    pub(crate) backlog: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Waits,
    Executes { since: Time },
    IsStopped { since: Time },
}

impl Piece {
    /// Returns the data of a task that was just accepted and waits.
    pub(crate) fn new(
        fetching: &mut Fetching,
        of: AssociationIndex,
        task: &RunningTask,
        options: &TaskSubprocessOptions,
        machine: &[Card],
        now: Time,
    ) -> Self {
        let (number, job) = fetching.numbers(of, &task.job);
        let given = task.work.est_duration;
        let processor = processor_of(task, machine);
        let milli: f64 = task.gpus.iter().map(|share| f64::from(share.milli)).sum();
        let wanted = task.gpus_wanted.as_ref();
        let wanted = wanted.map_or(0.0, |wanted| wanted.need.amount());
        let (cpus, cards) = (cpus_of(task) as f64 / WHOLE, milli / WHOLE + wanted);
        let instances = match processor {
            Processor::Cpu => cpus,
            Processor::Cards(_) => cards,
        };
        let seconds = fetching.backlog(fetching.estimate(of, job, given)) * instances;
        Piece {
            number,
            job,
            given,
            processor,
            cpus,
            cards,
            received: now,
            deadline: options.deadline.map(|left| now + left),
            doing: Doing::Waits,
            waited: Duration::ZERO,
            stopped: Duration::ZERO,
            is_ending: false,
            executed: 0.0,
            // A float cast saturates. The smallest queued task counts as 1.
            backlog: ((seconds.min(LONGEST) * 1000.0) as u64).max(1),
        }
    }

    pub(crate) fn waits(&self) -> bool {
        self.doing == Doing::Waits
    }

    pub(crate) fn executes(&self) -> bool {
        match self.doing {
            Doing::Executes { .. } => true,
            Doing::Waits | Doing::IsStopped { .. } => false,
        }
    }

    /// Returns the time from its acceptance until it began.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the total time for which it was stopped in favour of others.
    pub(crate) fn stopped(&self, now: Time) -> Duration {
        let last = match self.doing {
            Doing::IsStopped { since } => now.since(since),
            Doing::Waits | Doing::Executes { .. } => Duration::ZERO,
        };
        self.stopped + last
    }

    /// Records the GPUs that the task gets, of the machine's `cards`. From now on it counts as their model.
    pub(crate) fn has_cards(&mut self, own: &[GpuShare], cards: &[Card]) {
        if let Some(model) = model_of(own, cards) {
            self.processor = Processor::Cards(model);
        }
    }

    pub(crate) fn begin(&mut self, now: Time) {
        if self.waits() {
            self.waited = now.since(self.received);
        }
        self.stopped = self.stopped(now);
        self.doing = Doing::Executes { since: now };
    }

    pub(crate) fn is_stopped(&self) -> bool {
        match self.doing {
            Doing::IsStopped { .. } => true,
            Doing::Waits | Doing::Executes { .. } => false,
        }
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Records that the task was asked to end. Returns whether it is stopped and was not asked before.
    pub(crate) fn note_kill(&mut self) -> bool {
        let was_ending = std::mem::replace(&mut self.is_ending, true);
        !was_ending && self.is_stopped()
    }

    pub(crate) fn stop(&mut self, now: Time) {
        self.executed = self.executed(now);
        self.doing = Doing::IsStopped { since: now };
    }

    /// Returns the seconds for which it has executed.
    pub(crate) fn executed(&self, now: Time) -> f64 {
        let last = match self.doing {
            Doing::Executes { since } => now.since(since).as_secs_f64(),
            Doing::Waits | Doing::IsStopped { .. } => 0.0,
        };
        self.executed + last
    }

    /// Returns the task in the form for policies. `estimate` is the total run time of such a task in seconds.
    pub(crate) fn task(
        &self,
        now: Time,
        association: AssociationIndex,
        (lengths, estimate): (Lengths, f64),
        type_of_cards: Option<ProcessorType>,
    ) -> Task {
        let progress = Progress {
            elapsed: self.executed(now),
            done: None,
        };
        Task {
            number: self.number,
            association,
            job: self.job,
            usage: Usage {
                cpus: self.cpus,
                cards: type_of_cards.map(|of| (of, self.cards)),
            },
            remaining: remaining(lengths, estimate, progress),
            received: self.received,
            deadline: self.deadline,
            stage: match self.doing {
                Doing::Waits => Stage::Queued,
                Doing::Executes { since } => Stage::Executing { since },
                Doing::IsStopped { .. } => Stage::Preempted { has_process: true },
            },
        }
    }
}

/// Returns the model of the task's GPUs, or the CPU if the machine has no such GPUs. Until the GPUs are chosen, returns the model that the
/// task is to count as.
pub(crate) fn processor_of(task: &RunningTask, cards: &[Card]) -> Processor {
    let wanted = task.gpus_wanted.as_ref().filter(|_| task.takes_cards());
    let model = match wanted.filter(|_| task.gpus.is_empty()) {
        None => model_of(&task.gpus, cards),
        Some(wanted) => {
            let counted = wanted.counts_as.as_deref();
            let named = counted.or_else(|| wanted.need.models().next());
            let mut of_name = cards.iter().filter(|card| named == Some(&*card.model));
            let card = of_name.next().or(cards.first());
            card.map(|card| Arc::clone(&card.model))
        }
    };
    model.map_or(Processor::Cpu, Processor::Cards)
}

fn model_of(shares: &[GpuShare], cards: &[Card]) -> Option<Arc<str>> {
    let device = &shares.first()?.device;
    let card = cards.iter().find(|card| card.device == *device)?;
    Some(Arc::clone(&card.model))
}
