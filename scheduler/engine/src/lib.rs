//! Decides which tasks may run where.
//!
//! Components own their state, and import only those before them in this list:
//!
//! * `names`: ids of names, and which names are in use;
//! * `forest`: nodes, and the filters that say on which nodes a job may run;
//! * `slots`: resources, their limits, and the slots in use;
//! * `pool`: workers, and jobs in groups with the same demand on a worker;
//! * `tasks`: settings and links of jobs, last statuses, running tasks, waits;
//! * `queues`: the state of each task, which tasks may be tried, and where the others wait;
//! * `placement`: the policies that choose the next job;
//! * `refresh`, `reclaim`: work in slices, for a node table on its way into force and for names that nothing refers to any more.
//!
//! [`Engine`] alone sees all of them. Its files follow its interface: an event changes a component and passes on what follows for others;
//! a query changes nothing.

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

pub use engine::{Advice, Engine, HasBegun, NodePresence, TakeBackReasons};
pub use forest::{
    MAX_NODES, NameTaken, NodeError, NodeTable, NodeTableBuilder, Row, SourceTime, TimesGiven,
};
pub use reason::{Lack, LateBy, Need, Reason, Refusers, RunWait};
pub use types::{
    AdoptOutcome, Allowance, Allowances, Counts, Due, Eligibility, Histogram, HoldBack, Judged,
    MachineLimits, NearWorker, NodesOwner, OutputSpace, Placement, Restart, Task, TaskState,
    Timeliness, Tries, WorkFound, WorkerIndex, WorkerResources,
};
