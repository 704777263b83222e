//! How many slots a worker has, from the configuration and from what its machine reports.

use brasserie_common_config::{Config, PhysicalKind, ResourceId, ResourceLimit};

/// A machine that reports a fraction of a core still runs one task.
pub(super) fn slots_for_cores(cores: f64) -> i32 {
    if cores > 0.0 {
        // A float cast saturates, which is what a limit should do.
        (cores as i32).max(1)
    } else {
        i32::MAX
    }
}

/// Slots of a resource that stands for physical cores; `None` if it does not, or the machine does not say.
pub(super) fn measured_slots(config: &Config, id: ResourceId, cores: f64) -> Option<i32> {
    let entry = config
        .physical_resources
        .iter()
        .find(|p| p.kind == PhysicalKind::CpuCore && p.logical_resource == id)?;
    let slots = (cores - entry.physical_reserve_amount) / entry.multiply_logical_by;
    // A float cast truncates and saturates.
    (cores > 0.0).then_some((slots as i32).max(0))
}

/// Whether a need exceeds a limit that every worker has, whoever may still join.
pub(super) fn over_fixed_limits(config: &Config, resources: &[ResourceId], needs: &[i32]) -> bool {
    resources.iter().zip(needs).any(|(id, need)| {
        let fixed = match config.resources[id.index()].limit {
            ResourceLimit::Fixed(limit) => limit,
            ResourceLimit::ReportedCores => i32::MAX,
        };
        let replaced = config
            .worker_resources_override
            .values()
            .filter_map(|amounts| amounts.get(id))
            .any(|amount| amount >= need);
        let measured = config
            .physical_resources
            .iter()
            .any(|p| p.logical_resource == *id);
        *need > 0 && *need > fixed && !replaced && !measured
    })
}
