//! The scheduler shell: passes network, file and timer input to the scheduler core, and persists the core's records.
//!
//! ```text
//!   workers, people --Thrift--> rpc --+                       +--> store (SQLite, its own thread)
//!   browsers ---------HTTP----> http -+--inbox--> driver -----+--> rpc::workers (calls)
//!   config file, scripts --> sources -+          (the core)   +--> answers
//! ```

mod answered;
mod audit;
pub mod config;
mod driver;
mod files;
mod http;
mod inbox;
mod news;
mod perform;
mod program;
mod rpc;
mod security;
pub mod sources;
mod start;
pub mod store;
mod turns;

pub use brasserie_scheduler_core::{LACKS_INPUT, STORE_FAILS};
pub use files::input_fault;
pub use inbox::Stopped;
pub use program::run;
pub use security::{
    AuthorityCreation, IdentityExamination, PlainPeers, SecurityError, examine_identity,
};
pub use sources::{ConfigSource, Periods};
pub use start::{
    DirectoryOrigin, EndError, NewCluster, SchedulerHandle, StartError, StartOptions, start,
};
