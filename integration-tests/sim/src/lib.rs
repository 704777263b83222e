//! A cluster of the real cores in one thread, under one seed and one virtual clock: machines, a network, disks and processes that fail
//! in every way that can be thought of, and the laws that must hold all the same.
//!
//! The crate is pure, like the cores: one seed gives one history. [`run::run_seed`] plays one; the `simulate` program plays thousands.

#![deny(clippy::iter_over_hash_type)]

pub mod clock;
pub mod cluster;
pub mod coverage;
pub mod dice;
pub mod disk;
pub mod event_log;
pub mod hosts;
pub mod invariants;
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
pub mod swarm;
pub mod trace;
pub mod view;
mod words;
pub mod workload;
