//! Waits that keep tasks from starting while a run that the scheduler cannot see may be alive.

pub mod initial_wait;
pub mod pauses;
pub mod safety;
