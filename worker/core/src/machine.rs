//! What the associations share: the one machine that the tasks of all of them run on, and the queue in which they wait for it.

use brasserie_common::{CardUse, RunningTask};

use crate::fetching::Fetching;
use crate::queue::{Queue, cpus_of};

/// What is taken of the machine, and who waits for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machine {
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
    pub(crate) fn new(fetching: Option<Box<Fetching>>) -> Self {
        Machine {
            fetching,
            ..Machine::default()
        }
    }

    /// How many tasks have a process, without healthchecks.
    pub(crate) fn live_but_healthchecks(&self) -> usize {
        self.live_but_healthchecks
    }

    /// What is taken of the cards.
    pub(crate) fn card_use(&self) -> &CardUse {
        &self.card_use
    }

    /// In thousandths of a processor.
    pub(crate) fn busy_cpus(&self) -> u64 {
        self.busy_cpus
    }

    /// The task has a process from now on.
    pub(crate) fn lives(&mut self, task: &RunningTask) {
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
