//! The scheduler core: workers and their health, running tasks, durable records, and the decision when a task may start.
//!
//! The crate performs no input or output. A shell passes [`Event`]s to [`Scheduler::handle`], calls [`Scheduler::handle_timeout`] once a
//! turn, drains [`Scheduler::poll_effect`], and sleeps until [`Scheduler::poll_timeout`] or the next event.

#![deny(clippy::iter_over_hash_type)]

mod artifacts;
mod bulk_changes;
mod calls;
pub mod credits;
mod estimates;
mod fences;
pub mod files;
mod jobs;
mod news;
mod nodes;
mod notices;
mod options;
mod orders;
mod orphans;
mod owners;
mod pool;
mod record;
mod refusal;
mod retention;
mod runs;
mod scheduler;
mod slots;
mod store_size;
mod times;
mod waits;
mod work_requests;

pub use artifacts::LocalityCounts;
pub use brasserie_scheduler_slots::{Replication, SlotStrategy};
pub use calls::{Call, CallReply, KilledTask, RunTaskCall};
pub use jobs::{
    ConfigInForce, ConfigOrigin, ExpectedVersion, FileText, HoldId, HoldState, JobChange,
    JobChanged, JobRefusal, MAX_HELD_JOBS, MAX_JOB_BYTES, MAX_NAMED_NODES, MAX_SAVED_JOBS,
    NeededOutputs, OutputHold, ReadBy, SourceInForce,
};
pub use news::{
    ConfigTexts, DecommissionNews, KnownWorker, LostTasks, MissedOutputs, News, NewsKind, Severity,
};
pub use nodes::has_same_nodes;
pub use notices::LACKS_INPUT;
pub use options::Options;
pub use orders::{
    AfterDecommission, Decommission, Exit, ExitWay, LostOutputs, MAX_ORDERS, MAX_REASON_BYTES,
    OrderCall, OrderRequest, OrderStage, OrderStatus, WorkLeft, WorkerOrder,
};
pub use owners::{NotOwner, Owned, Owner, check_owner, owner_of};
pub use record::{
    ClusterId, DeletionNumber, Durable, EndedTask, Forgotten, ForgottenTask, GivenStretch,
    GivenTimes, InstanceRecord, ItemName, JobVersion, KeptConfig, KeptStory, LeftCause,
    LeftInstance, MAX_LEFT, Record, SavedJob, Trim,
};
pub use refusal::{ForgetRefusal, MAX_REPLY_WAIT, OrderRefusal, Rejection};
pub use retention::Retention;
pub use scheduler::Scheduler;
pub use scheduler::effect::{Effect, ExitReason, MissingInstance, Reply};
pub use scheduler::event::{
    CursorPlace, Event, FileList, OutputCursor, OutputList, Query, ShellReport, SlotsCall,
    StatusUpdate, TaskCursor, TaskList,
};
pub use scheduler::files::{FileOrigin, FilePage, ListedFile, MAX_LISTED_FILES};
pub use scheduler::history::{History, HistoryNames, PastEnd};
pub use scheduler::plan::{
    ExcessiveInputs, JobPlan, KeptSet, LevelChanges, Listed, MAX_PLANNED_NODES, NodeChanges,
    OrphanPlan, Plan, PlannedKill, Proposal, ProposedInputs, ProposedNodes, TasksPlan, Total,
    WhatIf,
};
pub use scheduler::questions::MAX_ANSWER_WAIT;
pub use scheduler::view::listing::{ListedTask, TaskPage};
pub use scheduler::view::nothing_starts::STORE_FAILS;
pub use scheduler::view::outputs::{
    ListedOutput, ListedSet, MAX_LISTED_OUTPUTS, OutputHolder, OutputPage, OutputState,
};
pub use scheduler::view::{
    Answer, ClusterStatus, EndedTaskView, Histograms, JobHistogram, JobStatus, JobTotals,
    LevelHistogram, LogPeers, LostLogs, MAX_LISTED_JOBS, RunningTaskView, WorkerStatus,
};
pub use slots::{NoSlots, ReservedSlots, SlotPlace, SlotsRequest, WorkerWithSlots};
pub use store_size::{StoreGrowth, StoreSize, StoreStatus};
pub use work_requests::WorkCounts;
