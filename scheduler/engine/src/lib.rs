//! Decides which tasks may run where: the forest, statuses, placement and explanations.

#![deny(clippy::iter_over_hash_type)]

mod depends;
mod engine;
mod explain;
mod fingerprint;
mod forest;
mod histogram;
mod names;
mod placement;
mod presence;
mod reclaim;
mod reconfigure;
mod refresh;
mod statuses;
mod types;
mod view;
mod weight;
mod work;

pub use engine::Engine;
pub use explain::{Lack, LateBy, Need, Reason, Refusers, RunWait};
pub use forest::{
    MAX_NODES, NameTaken, NodeError, NodeTable, NodeTableBuilder, Row, SourceTime, TimesGiven,
};
pub use presence::Presence;
pub use types::{
    AdoptOutcome, Allowance, Allowances, Counts, Due, Eligibility, Histogram, HoldBack, Judged,
    MachineLimits, NodesOf, Placement, Restart, Task, TaskState, Timeliness, Tries, WorkFound,
    WorkerIndex, WorkerResources,
};

#[cfg(test)]
mod tests;
