//! What the associations share: the one machine that the tasks of all of them run on, and the queue in which they wait for it.

use std::sync::Arc;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::{Card, CardUse, RefusalCode, RunningTask};

use crate::fetching::Fetching;
use crate::passing::Scene;
use crate::queue::{Queue, WHOLE_CPU, cpus_of};
use crate::work_fetch::AssociationIndex;

/// What is taken of the machine, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
    /// As it lists them, each once.
    pub(crate) cards: Vec<Card>,
    /// In thousandths; 1 at least.
    all_cpus: u64,
    /// Tasks with a process, without healthchecks.
    live_but_healthchecks: usize,
    /// By those with a process.
    card_use: CardUse,
    /// The same of processors, in thousandths, without healthchecks.
    busy_cpus: u64,
    /// Tasks whose processes are stopped for others.
    stopped: usize,
    pub(crate) queue: Queue,
    /// `None`: the worker takes what it is sent.
    pub(crate) fetching: Option<Box<Fetching>>,
}

impl Machine {
    /// Of which nothing is taken.
    pub(crate) fn new(usable: &UsablePhysicalResources, fetching: Option<Box<Fetching>>) -> Self {
        let mut machine = Machine {
            fetching,
            ..Machine::default()
        };
        machine.set_usable(usable);
        machine
    }

    /// What it offers.
    pub(crate) fn set_usable(&mut self, usable: &UsablePhysicalResources) {
        self.cards.clear();
        for card in &usable.gpus {
            // One that is listed twice is one.
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
        // A float cast saturates, and what is no number is 0: then there is one, as a machine that reports nothing has some.
        self.all_cpus = ((usable.cpu_cores * WHOLE_CPU as f64) as u64).max(WHOLE_CPU);
    }

    /// In thousandths of a processor.
    pub(crate) fn all_cpus(&self) -> u64 {
        self.all_cpus
    }

    /// The cards that are kept for who was passed too often.
    pub(crate) fn kept_cards(&self) -> Vec<Arc<str>> {
        self.queue.kept_cards(&self.cards, &self.card_use)
    }

    /// How many tasks have a process, without healthchecks.
    pub(crate) fn live_but_healthchecks(&self) -> usize {
        self.live_but_healthchecks
    }

    /// What is taken of the cards.
    pub(crate) fn card_use(&self) -> &CardUse {
        &self.card_use
    }

    /// A task is refused.
    pub(crate) fn refuses(&mut self, of: AssociationIndex, code: RefusalCode) {
        if code == RefusalCode::Busy
            && let Some(fetching) = &mut self.fetching
        {
            fetching.refused(of);
        }
    }

    /// Whether anything is free of any card, or there is none to wait for.
    pub(crate) fn has_free_cards(&self) -> bool {
        let mut cards = self.cards.iter();
        self.cards.is_empty() || cards.any(|card| self.card_use.free(&card.device) > 0)
    }

    /// In thousandths of a processor.
    pub(crate) fn busy_cpus(&self) -> u64 {
        self.busy_cpus
    }

    /// The task has a process from now on.
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

    /// Its process is stopped: others may have its processors.
    pub(crate) fn stops(&mut self, task: &RunningTask) {
        self.busy_cpus -= cpus_of(task);
        self.stopped += 1;
    }

    pub(crate) fn goes_on(&mut self, task: &RunningTask) {
        self.busy_cpus += cpus_of(task);
        self.stopped -= 1;
    }

    /// How many processes are stopped for others.
    pub(crate) fn stopped(&self) -> usize {
        self.stopped
    }

    /// It has none any more.
    pub(crate) fn is_dead(&mut self, task: &RunningTask) {
        if !task.is_healthcheck() {
            self.live_but_healthchecks -= 1;
            self.busy_cpus -= cpus_of(task);
        }
        self.card_use.give_back(&task.gpus);
    }
}
