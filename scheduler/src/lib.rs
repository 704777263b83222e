//! The scheduler shell: moves data between the world and the scheduler core.
