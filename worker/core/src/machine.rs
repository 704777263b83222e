//! The machine that all associations share: its processors and GPUs, their use, and the queue of the tasks that wait for them.

mod admission;
mod gpu_waiters;
mod queue;

use std::sync::Arc;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::worker::TaskRoom;
use brasserie_common::{
    Card, CardUse, GpuShare, Processor, RunningTask, TaskKey, WorkerDescription,
};
use brasserie_worker_fetch::AssociationIndex;

use self::gpu_waiters::MachineUse;
use self::queue::TaskQueue;
pub(crate) use admission::{Begin, Obstacle};
#[cfg(test)]
pub(crate) use gpu_waiters::MOST_OVERTAKEN;
pub(crate) use queue::QueueFilter;

/// One processor, in thousandths.
const WHOLE_CPU: u64 = 1000;

/// More processors than any machine has.
const MOST_CPUS: u64 = 1_000_000;

/// The position of a task in the queue.
pub(crate) type Place = i64;

/// The association and the key of a queued task.
pub(crate) type QueuedTask = (AssociationIndex, TaskKey);

/// Whether tasks may wait for resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queueing {
    /// Schedulers push tasks by slots. A task begins at once or is refused, or stands by for slots ([`RunningTask::worker_slots`]).
    ForSlots,
    /// This is a pull worker: a task may wait if its scheduler permits it.
    IfPermitted,
}

/// The resources of the machine, their use, and the tasks that wait for them.
///
/// Invariant: the counts are those of the tasks with a process, and the queue holds exactly the accepted tasks without one.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// The GPUs of the machine, each once.
    cards: Vec<Card>,
    /// Thousandths of a processor, at least one processor.
    all_cpus: u64,
    /// The maximum number of tasks with a process.
    most_tasks: Option<TaskRoom>,
    queueing: Queueing,
    /// The number of tasks with a process, without healthchecks.
    live_but_healthchecks: usize,
    /// The GPUs that tasks with a process use.
    card_use: CardUse,
    /// Thousandths of a processor that executing tasks use, without healthchecks.
    busy_cpus: u64,
    /// The number of tasks whose processes are stopped in favour of others.
    stopped: usize,
    queue: TaskQueue,
}

impl Machine {
    /// Returns a machine without tasks.
    pub(crate) fn new(description: &WorkerDescription, queueing: Queueing) -> Self {
        let mut machine = Machine {
            cards: Vec::new(),
            all_cpus: WHOLE_CPU,
            most_tasks: description.room.clone(),
            queueing,
            live_but_healthchecks: 0,
            card_use: CardUse::default(),
            busy_cpus: 0,
            stopped: 0,
            queue: TaskQueue::default(),
        };
        machine.set_usable(&description.usable);
        machine
    }

    /// Sets the resources of the machine.
    pub(crate) fn set_usable(&mut self, usable: &UsablePhysicalResources) {
        self.cards.clear();
        for card in &usable.gpus {
            // A GPU that is listed twice counts once.
            if !self
                .cards
                .iter()
                .any(|known| *known.device == *card.pci_bus_id)
            {
                self.cards.push(Card {
                    device: card.pci_bus_id.as_str().into(),
                    model: card.name.as_str().into(),
                });
            }
        }
        // A float cast saturates, and NaN becomes 0. A machine that reports no processors counts as one processor.
        self.all_cpus = ((usable.cpu_cores * WHOLE_CPU as f64) as u64).max(WHOLE_CPU);
    }

    /// Returns the GPUs of the machine, each once.
    pub(crate) fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// Returns the use of the GPUs.
    pub(crate) fn card_use(&self) -> &CardUse {
        &self.card_use
    }

    /// Returns whether a part of any GPU is free. Returns true if the machine has no GPUs, because tasks that need one then have nothing to
    /// wait for.
    pub(crate) fn has_free_cards(&self) -> bool {
        let mut cards = self.cards.iter();
        self.cards.is_empty() || cards.any(|card| self.card_use.free(&card.device) > 0)
    }

    pub(crate) fn has_free_processors(&self) -> bool {
        self.busy_cpus < self.all_cpus
    }

    // ---- processes ----

    /// Counts a task whose process begins.
    pub(crate) fn count_begin(&mut self, task: &RunningTask) {
        if !task.gpus.is_empty() {
            let now = MachineUse {
                cards: &self.cards,
                used: &self.card_use,
                busy_cpus: self.busy_cpus,
                all_cpus: self.all_cpus,
            };
            self.queue.count_overtaken(now, &task.gpus);
        }
        if !task.is_healthcheck() {
            self.live_but_healthchecks += 1;
            self.busy_cpus += cpus_of(task);
        }
        self.card_use.take(&task.gpus);
    }

    /// Counts a process that is stopped, which frees its processors for other tasks.
    pub(crate) fn count_stop(&mut self, task: &RunningTask) {
        self.busy_cpus -= cpus_of(task);
        self.stopped += 1;
    }

    /// Counts a stopped process that executes again.
    pub(crate) fn count_resume(&mut self, task: &RunningTask) {
        self.busy_cpus += cpus_of(task);
        self.stopped -= 1;
    }

    /// Stops counting a task whose process is gone. A stopped one must be counted as resumed first.
    pub(crate) fn count_end(&mut self, task: &RunningTask) {
        if !task.is_healthcheck() {
            self.live_but_healthchecks -= 1;
            self.busy_cpus -= cpus_of(task);
        }
        self.card_use.give_back(&task.gpus);
    }

    /// Returns the number of processes that are stopped in favour of others.
    pub(crate) fn stopped(&self) -> usize {
        self.stopped
    }

    // ---- the queue ----

    /// Returns the number of queued tasks.
    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Adds a task behind all others, and returns its place.
    pub(crate) fn enqueue(&mut self, waiting: QueuedTask, task: &RunningTask) -> Place {
        self.queue.add(waiting, task)
    }

    pub(crate) fn dequeue(&mut self, place: Place) {
        self.queue.remove(place);
    }

    /// Moves a task to the front of the queue, and returns its new place.
    pub(crate) fn move_to_front(&mut self, place: Place) -> Place {
        self.queue.move_to_front(place)
    }

    /// Returns the queued tasks of one association, in order.
    pub(crate) fn queued_of(&self, of: AssociationIndex) -> Vec<TaskKey> {
        self.queue.in_order_of(of).cloned().collect()
    }

    /// Returns the number of queued tasks of one association.
    pub(crate) fn count_queued_of(&self, of: AssociationIndex) -> usize {
        self.queue.in_order_of(of).count()
    }

    /// Returns the next queued task behind a place.
    pub(crate) fn next_behind(
        &self,
        place: Place,
        who: QueueFilter,
    ) -> Option<(Place, QueuedTask)> {
        self.queue.next_behind(place, who)
    }

    /// Returns the queued task that was overtaken so often that it reserves GPUs.
    pub(crate) fn reserver(&self) -> Option<&QueuedTask> {
        self.queue.reserver()
    }

    /// Returns the number of tasks that begin before the one at this place, and how often it was overtaken, for fingerprints.
    pub(crate) fn rank_and_overtaken(&self, place: Place) -> (usize, u32) {
        (self.queue.rank(place), self.queue.overtaken(place))
    }
}

/// Returns the thousandths of a processor that the task uses. The default is one processor.
pub(crate) fn cpus_of(task: &RunningTask) -> u64 {
    // A float cast saturates. No task counts as more than any machine has, so that sums do not overflow.
    task.work.cpus.map_or(WHOLE_CPU, |cpus| {
        ((cpus * WHOLE_CPU as f64) as u64).min(MOST_CPUS * WHOLE_CPU)
    })
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

/// Returns the model of the first of these GPUs; `None` if the machine has no such GPU.
pub(crate) fn model_of(shares: &[GpuShare], cards: &[Card]) -> Option<Arc<str>> {
    let device = &shares.first()?.device;
    let card = cards.iter().find(|card| card.device == *device)?;
    Some(Arc::clone(&card.model))
}
