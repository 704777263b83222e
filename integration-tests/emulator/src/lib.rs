//! Figures of merit of work fetch: the worker's own policies against simulated tasks, networks and schedulers, in simulated time.
//!
//! A [`Scenario`] says what there is: a worker, and schedulers with their jobs. [`run`](run::run) plays it, under one seed and always the
//! same way, and gives an [`Outcome`](outcome::Outcome): the figures of merit and what they come from. [`storm`] is another experiment, of many
//! workers and one scheduler that comes back.

#![deny(clippy::iter_over_hash_type)]

pub mod availability;
pub mod client;
pub mod dice;
pub mod figures;
pub mod lanes;
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
