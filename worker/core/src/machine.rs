//! The machine that all associations share: its resources, their use, and the queue of the tasks that wait for them.

use std::sync::Arc;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::{Card, CardUse, RefusalCode, RunningTask};
use brasserie_worker_fetch::AssociationIndex;

use crate::fetching::Fetching;
use crate::passing::Scene;
use crate::queue::{Queue, WHOLE_CPU, cpus_of};

/// The resources of the machine, their use, and the tasks that wait for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// The GPUs of the machine, each once.
    pub(crate) cards: Vec<Card>,
    /// Thousandths of a processor, at least one processor.
    all_cpus: u64,
    /// The number of tasks with a process, without healthchecks.
    live_but_healthchecks: usize,
    /// The GPUs that tasks with a process use.
    card_use: CardUse,
    /// Thousandths of a processor that executing tasks use, without healthchecks.
    busy_cpus: u64,
    /// The number of tasks whose processes are stopped in favour of others.
    stopped: usize,
    pub(crate) queue: Queue,
    /// `None`: the worker does not fetch work.
    pub(crate) fetching: Option<Box<Fetching>>,
}

impl Machine {
    /// Returns a machine without tasks.
    pub(crate) fn new(usable: &UsablePhysicalResources, fetching: Option<Box<Fetching>>) -> Self {
        let mut machine = Machine {
            fetching,
            ..Machine::default()
        };
        machine.set_usable(usable);
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

    /// Returns thousandths of a processor.
    pub(crate) fn all_cpus(&self) -> u64 {
        self.all_cpus
    }

    /// Returns the GPUs that are reserved for the task that was overtaken too often.
    pub(crate) fn kept_cards(&self) -> Vec<Arc<str>> {
        self.queue.kept_cards(&self.cards, &self.card_use)
    }

    /// Returns the number of tasks with a process, without healthchecks.
    pub(crate) fn live_but_healthchecks(&self) -> usize {
        self.live_but_healthchecks
    }

    /// Returns the use of the GPUs.
    pub(crate) fn card_use(&self) -> &CardUse {
        &self.card_use
    }

    /// Records that a task was refused.
    pub(crate) fn refuses(&mut self, of: AssociationIndex, code: RefusalCode) {
        if code == RefusalCode::Busy
            && let Some(fetching) = &mut self.fetching
        {
            fetching.refused(of);
        }
    }

    /// Returns whether a part of any GPU is free. Returns true if the machine has no GPUs, because tasks that need one then have nothing to
    /// wait for.
    pub(crate) fn has_free_cards(&self) -> bool {
        let mut cards = self.cards.iter();
        self.cards.is_empty() || cards.any(|card| self.card_use.free(&card.device) > 0)
    }

    /// Returns the thousandths of a processor in use.
    pub(crate) fn busy_cpus(&self) -> u64 {
        self.busy_cpus
    }

    /// Counts a task whose process begins.
    pub(crate) fn lives(&mut self, task: &RunningTask) {
        if !task.gpus.is_empty() {
            let scene = Scene {
                cards: &self.cards,
                used: &self.card_use,
                busy_cpus: self.busy_cpus,
                all_cpus: self.all_cpus,
            };
            self.queue.note_begin(scene, &task.gpus);
        }
        if !task.is_healthcheck() {
            self.live_but_healthchecks += 1;
            self.busy_cpus += cpus_of(task);
        }
        self.card_use.take(&task.gpus);
    }

    /// Notes that a process is stopped, which frees its processors for other tasks.
    pub(crate) fn stops(&mut self, task: &RunningTask) {
        self.busy_cpus -= cpus_of(task);
        self.stopped += 1;
    }

    pub(crate) fn goes_on(&mut self, task: &RunningTask) {
        self.busy_cpus += cpus_of(task);
        self.stopped -= 1;
    }

    /// Returns the number of processes that are stopped in favour of others.
    pub(crate) fn stopped(&self) -> usize {
        self.stopped
    }

    /// Stops counting a task whose process is gone.
    pub(crate) fn is_dead(&mut self, task: &RunningTask) {
        if !task.is_healthcheck() {
            self.live_but_healthchecks -= 1;
            self.busy_cpus -= cpus_of(task);
        }
        self.card_use.give_back(&task.gpus);
    }
}
