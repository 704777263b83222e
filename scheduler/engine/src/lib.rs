//! What may run where: the forest, statuses, placement and explanations.

#![deny(clippy::iter_over_hash_type)]

mod engine;
mod explain;
mod fingerprint;
mod forest;
mod names;
mod placement;
mod statuses;
mod types;
mod view;

pub use engine::Engine;
pub use explain::{Need, Reason};
pub use forest::{MAX_NODES, NodeError, NodeTable, NodeTableBuilder, Row};
pub use types::{
    AdoptOutcome, Counts, Eligibility, Histogram, HoldBack, Placement, Restart, Task, TaskState,
    WorkerIndex, WorkerResources,
};

#[cfg(test)]
mod tests;
