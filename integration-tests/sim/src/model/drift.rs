//! The true time that passes while a drifting clock counts a duration.

use std::time::Duration;

use crate::view::World;

/// Returns the least true time in which any clock of this world counts `local`.
pub fn at_least(world: &World<'_>, local: Duration) -> Duration {
    local * 1000 / (1000 + world.drift_per_mille)
}

/// Returns the most true time in which any clock of this world counts `local`.
pub fn at_most(world: &World<'_>, local: Duration) -> Duration {
    // No world has a clock that stands still; such a clock would never count anything.
    local * 1000 / 1000_u32.saturating_sub(world.drift_per_mille).max(1)
}
