//! What end-to-end tests, benchmarks and attacks on the servers share. It sees every crate; no crate sees it.

pub mod chaos;
pub mod e2e;
pub mod fake_worker;
pub mod hostile;
pub mod output;
pub mod sabotage;
