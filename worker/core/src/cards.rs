//! The choice and check of GPUs for tasks, against the GPUs of the machine and their use.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CardConflict, CardUse, CardsWanted, GpuShare, RunningTask, WorkerDescription,
};

use crate::association::Association;
use crate::machine::Machine;

impl Association {
    /// Returns the description for a heartbeat. A scheduler that chooses GPUs knows only its own tasks. So the description omits GPUs that
    /// tasks of other schedulers use, which this scheduler would otherwise choose in vain again and again.
    pub(crate) fn described_on(&self, machine: &Machine) -> WorkerDescription {
        let mut description = self.description.clone();
        let has_others = self.options.associations.len() > 1;
        if has_others && self.options.work_fetch.is_none() {
            let mut own = CardUse::default();
            for (_, task) in self.tasks.iter().filter(|(_, task)| task.is_live()) {
                own.take(&task.running.gpus);
            }
            let is_free = |device: &str| machine.card_use().free(device) == own.free(device);
            let cards = &mut description.usable.gpus;
            cards.retain(|card| is_free(&card.pci_bus_id));
        }
        description
    }

    /// Returns the GPUs with which a task can begin now. A scheduler that has chosen the GPUs may have outdated data, as after a GPU has
    /// failed. A task that is refused for that loses nothing: it may run elsewhere, or later.
    pub(crate) fn cards_for(
        &self,
        machine: &Machine,
        task: &RunningTask,
    ) -> Result<Vec<GpuShare>, CardConflict> {
        match &task.gpus_wanted {
            Some(wanted) if task.gpus.is_empty() => self.choose_cards(machine, task, wanted),
            Some(_) | None => {
                let has = |device: &str| machine.cards.iter().any(|card| *card.device == *device);
                machine.card_use().check(&task.gpus, has)?;
                let kept = self.kept_from(machine, task);
                let mut own = task.gpus.iter();
                match own.find(|share| kept.contains(&share.device)) {
                    Some(share) => Err(CardConflict::Kept(share.device.clone())),
                    None => Ok(task.gpus.clone()),
                }
            }
        }
    }

    fn choose_cards(
        &self,
        machine: &Machine,
        task: &RunningTask,
        CardsWanted { need, counts_as }: &CardsWanted,
    ) -> Result<Vec<GpuShare>, CardConflict> {
        let mut used = match sabotage::on(Sabotage::ChooseCardsBlindly) {
            true => CardUse::default(),
            false => machine.card_use().clone(),
        };
        used.take_all_of(&self.kept_from(machine, task));
        let model = counts_as.as_deref();
        if let Some(chosen) = need.pack_of(model, &machine.cards, &used) {
            return Ok(chosen);
        }
        Err(match need.pack(&machine.cards, &CardUse::default()) {
            Some(_) => CardConflict::InUse(need.clone()),
            None => CardConflict::TooFew(need.clone()),
        })
    }

    /// Returns the GPUs that are reserved for another task.
    fn kept_from(&self, machine: &Machine, task: &RunningTask) -> Vec<std::sync::Arc<str>> {
        let keeper = machine.queue.keeper();
        let is_it = keeper.is_some_and(|(_, (of, key))| {
            *of == self.index && key.job == task.job && key.node == task.node
        });
        match is_it || !task.takes_cards() {
            true => Vec::new(),
            false => machine.kept_cards(),
        }
    }

    /// Returns the names that programs use for the GPUs of an accepted task.
    pub(crate) fn cuda_devices(&self, task: &RunningTask) -> Vec<String> {
        let cards = &self.description.usable.gpus;
        let of_share = |device: &str| {
            let at = cards.iter().position(|card| card.pci_bus_id == device)?;
            let name = &cards[at].cuda_device;
            // Programs number GPUs in the order in which the worker lists them.
            Some(if name.is_empty() {
                at.to_string()
            } else {
                name.clone()
            })
        };
        let shares = task.gpus.iter();
        shares.filter_map(|share| of_share(&share.device)).collect()
    }
}
