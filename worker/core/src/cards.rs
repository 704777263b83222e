//! The cards that tasks were given, against those that the machine has and what runs on them.

use brasserie_common::{CardConflict, RunningTask};

use crate::association::Association;
use crate::machine::Machine;

impl Association {
    /// The scheduler chooses the cards, by what it knows; what really runs is known here. If the two differ, as after a card has failed,
    /// the task is none the worse for it: it may run elsewhere, or later.
    pub(crate) fn check_cards(
        &self,
        machine: &Machine,
        task: &RunningTask,
    ) -> Result<(), CardConflict> {
        let has = |device: &str| {
            let mut cards = self.description.usable.gpus.iter();
            cards.any(|card| card.pci_bus_id == device)
        };
        machine.card_use().check(&task.gpus, has)
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
