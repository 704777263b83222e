//! How much true time passes while a wrong clock counts something.

use std::time::Duration;

use crate::view::World;

/// The least true time in which any clock of this world counts `local`.
pub fn at_least(world: &World<'_>, local: Duration) -> Duration {
    local * 1000 / (1000 + world.drift_per_mille)
}

/// The most true time in which any clock of this world counts `local`.
pub fn at_most(world: &World<'_>, local: Duration) -> Duration {
    // A clock that stood still would count nothing in any time; no world has one.
    local * 1000 / 1000_u32.saturating_sub(world.drift_per_mille).max(1)
}
