//! Draws the runs in which tasks have artifacts, and the faults of stores in these.

use std::time::Duration;

use super::{Swarm, Variant};
use crate::dice::{Dice, RandomStream};
use crate::event_log::FaultKind;

/// The runs in which tasks have artifacts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ArtifactWorlds {
    Always,
    Never,
    #[default]
    Mixed,
}

/// The artifacts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactPlan;

/// Runs per thousand in which tasks have artifacts, with [`ArtifactWorlds::Mixed`].
const MIXED: u32 = 300;

/// The faults of stores, and the number of each in one run.
const FAULTS: [(FaultKind, u32); 5] = [
    (FaultKind::DisksLost, 6),
    (FaultKind::CopyDamaged, 30),
    (FaultKind::CopyMissing, 20),
    (FaultKind::DiskFull, 10),
    (FaultKind::OperatorOrders, 20),
];

impl Swarm {
    /// Adds artifacts to the runs of some seeds. No other parameter of a run changes.
    pub fn with_artifacts(mut self, seed: u64, worlds: ArtifactWorlds) -> Self {
        // A stream of its own, of which the world takes other numbers.
        let dice = &mut Dice::new(!seed, RandomStream::Artifacts);
        let is_chosen = dice.per_mille(MIXED);
        let has_some = match worlds {
            ArtifactWorlds::Always => true,
            ArtifactWorlds::Never => false,
            ArtifactWorlds::Mixed => is_chosen,
        };
        // Nothing else happens in runs in which workers must join in time.
        if !has_some || self.variant == Variant::Turnover {
            return self;
        }
        self.artifacts = Some(ArtifactPlan);
        for (kind, count) in FAULTS {
            if dice.per_mille(400) {
                let mean = dice.around(self.fault_phase / count);
                self.faults
                    .push((kind, mean.max(Duration::from_millis(100))));
            }
        }
        self
    }
}
