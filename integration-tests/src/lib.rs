//! Shared code of end-to-end tests, benchmarks and attacks on the servers. This crate depends on every crate, and no crate on it.

pub mod chaos;
pub mod e2e;
pub mod fake_worker;
pub mod hostile;
pub mod output;
pub mod sabotage;
