//! The plain reference that the laws compare with: who runs what in truth, what each scheduler was told, what each directory holds.
//!
//! Every part sees each [`crate::event_log::Happening`] once and keeps just what its laws ask for; nothing here decides anything.

pub mod associations;
pub mod card_needs;
pub mod directories;
pub mod drift;
pub mod executions;
pub mod left;
pub mod machines;
pub mod rates;
pub mod runs;
pub mod worker_sets;

#[cfg(test)]
mod tests;
