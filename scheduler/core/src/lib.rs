//! The scheduler core: workers and their health, running tasks, durable records, and the decision when a task may start.
//!
//! The crate performs no input or output. A shell passes [`Event`]s to [`Scheduler::handle`], calls [`Scheduler::handle_timeout`] once a
//! turn, drains [`Scheduler::poll_effect`], and sleeps until [`Scheduler::poll_timeout`] or the next event.

#![deny(clippy::iter_over_hash_type)]

mod calls;
pub mod credits;
mod effect;
mod estimates;
mod event;
mod fences;
mod history;
mod jobs;
mod listing;
mod news;
mod plan;
mod questions;
mod reconcile;
mod record;
mod refusal;
mod replies;
mod retention;
mod scheduler;
mod store_size;
mod tasks;
mod times;
mod view;
mod workers;

pub use calls::{Message, RunTaskMessage};
pub use effect::{
    Call, CallReply, Effect, ExitReason, KilledTask, MissingInstance, NewWorker, Reply,
};
pub use event::{ConfigOrigin, Event, ExpectedVersion, FileText, JobChange, StatusUpdate};
pub use history::{History, HistoryNames, PastEnd};
pub use jobs::{
    ConfigInForce, JobChanged, JobRefusal, MAX_HELD_JOBS, MAX_JOB_BYTES, MAX_NAMED_NODES,
    MAX_SAVED_JOBS, ReadBy, SourceInForce,
};
pub use listing::{CursorPlace, ListedTask, TaskCursor, TaskList, TaskPage};
pub use news::{KnownWorker, LostTasks, News, NewsKind, Severity};
pub use plan::{
    JobPlan, LevelChanges, Listed, MAX_PLANNED_NODES, NodeChanges, OrphanPlan, Plan, PlannedKill,
    Proposal, ProposedNodes, TasksPlan, Total, WhatIf,
};
pub use questions::MAX_ANSWER_WAIT;
pub use reconcile::has_same_nodes;
pub use record::{
    ClusterId, DeletionNumber, Durable, EndedTask, Forgotten, ForgottenTask, GivenStretch,
    GivenTimes, InstanceRecord, ItemName, JobVersion, KeptConfig, KeptStory, LeftCause,
    LeftInstance, MAX_LEFT, Record, SavedJob, Trim,
};
pub use refusal::{ForgetRefusal, MAX_REPLY_WAIT, Rejection};
pub use retention::Retention;
pub use scheduler::{Options, STORE_FAILS, Scheduler};
pub use store_size::{StoreGrowth, StoreSize, StoreStatus};
pub use view::{
    Answer, ClusterStatus, EndedTaskView, Histograms, JobHistogram, JobStatus, JobTotals,
    LevelHistogram, LogPeers, LostLogs, MAX_LISTED_JOBS, Query, RunningTaskView, WorkerStatus,
};
pub use workers::asking::WorkCounts;
