//! The sizes of workers' machines as the workers report them, and the slots that result.

use std::collections::BTreeMap;

use brasserie_common::WorkerId;
use brasserie_common_config::{CARD_PREFIX, Config, PhysicalKind};

use crate::event_log::{Happening, MachineSize};
use crate::workload::USUAL_CORES;

/// The machine size of each worker instance.
#[derive(Clone, Debug, Default)]
pub struct MachineSizes {
    sizes: BTreeMap<WorkerId, MachineSize>,
    /// The cores of workers that request work.
    cores: BTreeMap<WorkerId, f64>,
}

impl MachineSizes {
    pub fn note(&mut self, happening: &Happening) {
        if let Happening::WorkerDeclared { worker, size } = happening {
            self.sizes.insert(*worker, size.clone());
        }
        if let Happening::FetchesWork { worker, cpus } = happening {
            self.cores.insert(*worker, *cpus);
        }
    }

    pub fn get(&self, worker: WorkerId) -> Option<&MachineSize> {
        self.sizes.get(&worker)
    }

    /// Returns the number of CPUs of a worker that requests work.
    pub fn cpus(&self, worker: WorkerId) -> Option<f64> {
        self.cores.get(&worker).copied()
    }

    /// Returns a worker's slots of the resource with this number. `limit` is the configured number of slots.
    pub fn slots(&self, worker: WorkerId, config: &Config, number: usize, limit: i32) -> i64 {
        let nothing = MachineSize::default();
        let size = self.get(worker).unwrap_or(&nothing);
        let mut slots = i64::from(limit);
        let mut looks_at_cards = false;
        for entry in &config.physical_resources {
            let has = match entry.kind {
                PhysicalKind::RamMb => f64::from(size.memory_mb),
                PhysicalKind::GpuCard => f64::from(size.all_cards()),
                PhysicalKind::CpuCore => self.cpus(worker).unwrap_or(USUAL_CORES),
            };
            looks_at_cards |= entry.kind == PhysicalKind::GpuCard;
            if entry.logical_resource.index() == number && has > 0.0 {
                let whole = (has - entry.physical_reserve_amount) / entry.multiply_logical_by;
                slots = (whole.floor() as i64).max(0);
            }
        }
        let name = &config.resources[number].name;
        let model = name.strip_prefix(CARD_PREFIX).filter(|_| looks_at_cards);
        let cards = model.and_then(|model| size.cards.get(model));
        slots + i64::from(cards.copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common_config::{ParseOptions, parse};

    #[test]
    fn what_a_machine_says_takes_the_place_of_the_limit_and_models_come_on_top() {
        let text = r#"{"bistro_settings": {"nodes": {"levels": ["l"]}, "resources": {"worker":
            {"mem": {"default": 0, "limit": 7}, "GPU: K40": {"default": 0, "limit": 1}, "gpu": {"default": 0, "limit": 0}}},
            "physical_resources": {"ram_mb": {"logical_resource": "mem", "multiply_logical_by": 512, "physical_reserve_amount": 300},
                "gpu_card": {"logical_resource": "gpu"}}}}"#;
        let config = parse(text, ParseOptions::default()).unwrap().config;
        let number = |name: &str| config.resource(name).unwrap().index();
        let cards = [("K40".to_owned(), 2), ("H100".to_owned(), 1)].into();
        let mut machines = MachineSizes::default();
        machines.note(&Happening::WorkerDeclared {
            worker: WorkerId::new(1, 1),
            size: MachineSize {
                memory_mb: 1323,
                cards,
                ..MachineSize::default()
            },
        });
        let slots = |worker, name, limit| machines.slots(worker, &config, number(name), limit);
        let (big, silent) = (WorkerId::new(1, 1), WorkerId::new(2, 2));
        assert_eq!(slots(big, "mem", 7), 1);
        assert_eq!(slots(big, "gpu", 0), 3);
        assert_eq!(slots(big, "GPU: K40", 1), 3);
        assert_eq!(slots(silent, "mem", 7), 7);
        assert_eq!(slots(silent, "GPU: K40", 1), 1);
    }
}
