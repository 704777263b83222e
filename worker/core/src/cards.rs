//! The cards that tasks were given, or want, against those that the machine has and what runs on them.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    CardConflict, CardUse, CardsWanted, GpuShare, RunningTask, WorkerDescription,
};

use crate::association::Association;
use crate::machine::Machine;

impl Association {
    /// A scheduler that chooses cards knows of its own tasks only: it is not told of those that tasks of others have, which it would choose
    /// in vain again and again.
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

    /// The cards with which a task can begin now. If its scheduler has chosen them, it has by what it knows; what really runs is known
    /// here. If the two differ, as after a card has failed, the task is none the worse for it: it may run elsewhere, or later.
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

    /// The cards that are kept for another.
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

    /// How programs call the cards of a task that was accepted.
    pub(crate) fn cuda_devices(&self, task: &RunningTask) -> Vec<String> {
        let cards = &self.description.usable.gpus;
        let of_share = |device: &str| {
            let at = cards.iter().position(|card| card.pci_bus_id == device)?;
            let name = &cards[at].cuda_device;
            // Programs are told to count cards as they are listed here.
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
