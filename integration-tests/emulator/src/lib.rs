//! Emulates work fetch: the worker's own policies against simulated tasks, networks and schedulers, in simulated time.
//!
//! A [`Scenario`] describes a worker and its schedulers with their jobs. [`run`](run::run) plays it deterministically for one seed and
//! returns an [`Outcome`](outcome::Outcome): the figures of merit and the data behind them. [`storm`] is another experiment, with many
//! workers and one scheduler that returns from an outage.

#![deny(clippy::iter_over_hash_type)]

pub mod availability;
pub mod client;
pub mod dice;
pub mod figures;
mod machine;
pub mod matrix;
pub mod oracle;
pub mod outcome;
pub mod output;
pub mod promises;
pub mod run;
pub mod scenario;
pub mod server;
pub mod storm;

pub use scenario::Scenario;
