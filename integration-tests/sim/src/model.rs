//! The reference models that the laws compare against: the live processes, what each scheduler received, the content of each directory.
//!
//! Each model sees every [`crate::event_log::Happening`] once and keeps only what its laws need. Models decide nothing.

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
