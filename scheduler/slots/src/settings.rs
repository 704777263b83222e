//! Settings of slot allocation.

use std::num::NonZeroUsize;

use super::amounts::Weight;

/// The rule that turns disks into budgets of slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlotStrategy {
    /// Every available slot of every healthy disk counts alike.
    RoundRobin,
    /// Faster disks get more slots.
    LoadAware(LoadAware),
}

impl SlotStrategy {
    /// Parses the name of a strategy: `round-robin` or `load-aware`.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "round-robin" => Some(SlotStrategy::RoundRobin),
            "load-aware" => Some(SlotStrategy::LoadAware(LoadAware {
                // A copy is written before it is read.
                flush_time_weight: Weight::ONE,
                // Disks with much space would otherwise get more slots than fast ones.
                intra_group: IntraGroup::Even,
                ..LoadAware::default()
            })),
            _ => None,
        }
    }
}

/// Settings of the strategy that prefers fast disks. Disks are sorted by the sum of their weighted times, and form groups of equal size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadAware {
    pub disk_groups: NonZeroUsize,
    /// How much more a faster group gets than the next one; see [`GradientMode`].
    pub gradient: Weight,
    pub gradient_mode: GradientMode,
    pub intra_group: IntraGroup,
    pub flush_time_weight: Weight,
    pub fetch_time_weight: Weight,
    /// Nanoseconds for each active slot.
    pub active_slots_weight: Weight,
}

impl Default for LoadAware {
    fn default() -> Self {
        LoadAware {
            disk_groups: NonZeroUsize::new(5).expect("5 is not 0"),
            gradient: Weight::new(0.1).expect("0.1 is a weight"),
            gradient_mode: GradientMode::Steps,
            intra_group: IntraGroup::Space,
            flush_time_weight: Weight::ZERO,
            fetch_time_weight: Weight::ONE,
            active_slots_weight: Weight::ZERO,
        }
    }
}

/// The meaning of the gradient `G` between neighbouring groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GradientMode {
    /// The faster group gets `1 + G` times the slots of the slower one.
    Steps,
    /// The slower group gets `G` times the slots of the faster one.
    Ratio,
}

/// The division of a group's slots among its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntraGroup {
    /// Disks get slots in proportion to their available slots.
    Space,
    /// Disks get equal parts, but no more than their available slots.
    Even,
}

/// Whether offers repeat the defects of Celeborn's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compatibility {
    /// Offers have none of these defects.
    Corrected,
    /// Offers are those of Celeborn:
    ///
    /// * The surplus of a full group goes to every later group, not only to the next.
    /// * A location without a replica keeps the slot of its primary.
    /// * The best effort ignores the state of disks.
    /// * The best effort with racks gives a replica the disk of its primary, and may choose a worker without disks.
    Celeborn,
}

/// Settings of all offers of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlotSettings {
    pub strategy: SlotStrategy,
    /// The part of the workers with an interruption notice that counts as interrupted late, in percent. `None` ignores notices.
    pub late_interruptions: Option<u8>,
    pub compatibility: Compatibility,
}

impl SlotSettings {
    /// The settings of Celeborn, with its defects.
    pub fn celeborn(strategy: SlotStrategy) -> Self {
        SlotSettings {
            strategy,
            compatibility: Compatibility::Celeborn,
            ..SlotSettings::default()
        }
    }
}

impl Default for SlotSettings {
    fn default() -> Self {
        SlotSettings {
            strategy: SlotStrategy::RoundRobin,
            late_interruptions: None,
            compatibility: Compatibility::Corrected,
        }
    }
}

/// The replicas of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    None,
    /// Each artifact has a replica on another worker.
    OtherWorker,
    /// Each artifact has a replica on a worker of another rack, if possible.
    OtherRack,
}

impl Replication {
    /// Returns the locations of one artifact.
    pub fn copies(self) -> usize {
        match self {
            Replication::None => 1,
            Replication::OtherWorker | Replication::OtherRack => 2,
        }
    }
}
