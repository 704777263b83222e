//! Decides which tasks may run where: the forest, statuses, placement and explanations.

#![deny(clippy::iter_over_hash_type)]

mod bit_tree;
mod engine;
mod forest;
mod names;
mod placement;
mod pool;
mod queues;
mod reason;
mod reclaim;
mod refresh;
mod slots;
mod tasks;
mod types;
mod work;

pub use engine::{Engine, Presence};
pub use forest::{
    MAX_NODES, NameTaken, NodeError, NodeTable, NodeTableBuilder, Row, SourceTime, TimesGiven,
};
pub use reason::{Lack, LateBy, Need, Reason, Refusers, RunWait};
pub use types::{
    AdoptOutcome, Allowance, Allowances, Counts, Due, Eligibility, Histogram, HoldBack, Judged,
    MachineLimits, NodesOf, Placement, Restart, Task, TaskState, Timeliness, Tries, WorkFound,
    WorkerIndex, WorkerResources,
};
