//! Computes a worker's slots from the configuration and its machine's report, and a task's machine limits.

use brasserie_common::Card;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common_config::{
    Config, Enforcement, PhysicalKind, PhysicalResource, ResourceId, ResourceLimit,
};

use crate::types::{MachineLimits, WorkerResources};

const BYTES_PER_MB: f64 = 1_048_576.0;

/// CPU shares of a task that took one core. The kernel accepts no fewer than 2, so a core counts as 2.
const SHARES_PER_CORE: i16 = 2;
/// The unit for a limit of CPU time is a thousandth of a core.
const MILLI_PER_CORE: f64 = 1000.0;

/// Returns a worker's slots of a resource, without the overrides for this worker.
pub(super) fn slots_of(config: &Config, id: ResourceId, worker: &WorkerResources) -> i32 {
    let resource = &config.resources[id.index()];
    let slots = match resource.limit {
        ResourceLimit::Fixed(limit) => measured_slots(config, id, worker).unwrap_or(limit),
        ResourceLimit::ReportedCores => slots_for_cores(worker.cpu_cores),
    };
    let model = config.card_model(id);
    let is_of = |card: &&Card| model.is_some_and(|model| *card.model == *model);
    let cards = worker.cards.iter().filter(is_of).count();
    slots.saturating_add(i32::try_from(cards).unwrap_or(i32::MAX))
}

/// Returns the slots for some cores. A machine that reports a fraction of a core still runs one task.
fn slots_for_cores(cores: f64) -> i32 {
    if cores > 0.0 {
        // A float cast saturates, as a limit should.
        (cores as i32).max(1)
    } else {
        i32::MAX
    }
}

/// Returns the slots of a resource that stands for something physical; `None` if it does not, or the machine does not report it.
fn measured_slots(config: &Config, id: ResourceId, worker: &WorkerResources) -> Option<i32> {
    let mut entries = config.physical_resources.iter();
    let entry = entries.find(|p| p.logical_resource == id)?;
    let amount = match entry.kind {
        PhysicalKind::RamMb => worker.memory_mb,
        PhysicalKind::CpuCore => worker.cpu_cores,
        PhysicalKind::GpuCard => worker.cards.len() as f64,
    };
    let reserve = match sabotage::on(Sabotage::GiveAwayTheReserve) {
        true => 0.0,
        false => entry.physical_reserve_amount,
    };
    let slots = (amount - reserve) / entry.multiply_logical_by;
    // A float cast truncates and saturates.
    (amount > 0.0).then_some((slots as i32).max(0))
}

/// Returns whether a need exceeds a limit that every worker has, including future ones.
pub(super) fn over_fixed_limits(config: &Config, resources: &[ResourceId], needs: &[i32]) -> bool {
    let mut needs = resources.iter().zip(needs);
    needs.any(|(id, need)| config.is_above_limit(*id, *need))
}

/// Returns the machine limits of a task that took these slots of each worker resource.
pub(crate) fn machine_limits(config: &Config, taken: impl Fn(ResourceId) -> i32) -> MachineLimits {
    let mut limits = MachineLimits::default();
    for entry in &config.physical_resources {
        let amount = physical_amount(entry, taken(entry.logical_resource));
        match (entry.kind, entry.enforcement) {
            (PhysicalKind::RamMb, Enforcement::Hard) => {
                // Float casts saturate, and limits are at least 0.
                limits.memory_bytes = ((amount * BYTES_PER_MB).round() as i64).max(0);
            }
            (PhysicalKind::CpuCore, Enforcement::Soft) => {
                let cores = (amount.round() as i16).max(0);
                limits.cpu_shares = cores.saturating_mul(SHARES_PER_CORE);
            }
            (PhysicalKind::CpuCore, Enforcement::Hard) => {
                // 0 would mean no limit, which only a task without slots has.
                let least = i64::from(amount > 0.0);
                limits.cpu_quota_milli = ((amount * MILLI_PER_CORE).round() as i64).max(least);
            }
            (
                PhysicalKind::RamMb | PhysicalKind::CpuCore | PhysicalKind::GpuCard,
                Enforcement::None | Enforcement::Soft | Enforcement::Hard,
            ) => {}
        }
    }
    limits
}

fn physical_amount(entry: &PhysicalResource, slots: i32) -> f64 {
    f64::from(slots) * entry.multiply_logical_by
}
