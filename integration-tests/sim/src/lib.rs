//! A simulated cluster: the real cores in one thread, with one seed and one virtual clock, on machines, a network, disks and processes that
//! fail in every way that we know of. The laws of [`laws`] check each step.
//!
//! The crate performs no input or output: one seed gives one history. [`run::run_seed`] plays one seed; the `simulate` program plays
//! thousands.

#![deny(clippy::iter_over_hash_type)]

pub mod artifact_events;
pub mod clock;
pub mod cluster;
pub mod coverage;
pub mod dice;
pub mod disk;
pub mod event_log;
mod event_types;
pub mod hosts;
pub mod laws;
pub mod liveness;
pub mod model;
pub mod network;
pub mod processes;
pub mod queue;
pub mod report;
pub mod run;
#[cfg(feature = "sabotage")]
pub mod sabotage;
pub mod search;
pub mod store;
pub mod swarm;
pub mod trace;
pub mod view;
pub mod workload;
