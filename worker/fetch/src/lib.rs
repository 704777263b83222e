//! The policies of work fetch: which scheduler the worker asks for work, when and for how much, and which of its tasks run first.
//!
//! All policies are pure functions of plain values: the caller passes in the time and the random numbers. Instants are
//! [`Time`](brasserie_common::Time)s. Spans and amounts of work are seconds, and amounts of processors are instances. Both are `f64`,
//! because the policies only weigh them. Slots and GPUs, whose counts must be exact, are counted elsewhere.
//!
//! The crate knows neither the protocol nor the tasks' processes. `worker/core` passes associations and tasks to it and carries out its
//! decisions.

#![deny(clippy::iter_over_hash_type)]

mod amounts;
mod backoff;
mod busy;
mod contact_state;
mod credit;
mod driver;
mod estimates;
mod fetch;
mod fetcher;
mod job_sched;
mod members;
mod outlook;
mod pair_backoff;
mod priority;
mod profile;
mod reaction;
mod reason;
mod rec;
mod report;
mod rpc_policy;
mod rr_sim;
mod saved_state;
mod task_errors;
mod types;
mod wait;

pub use backoff::exponential_backoff;
pub use brasserie_common::ReportPolicy;
pub use contact_state::{ContactState, FetchReply, ReplyKind, SavedContact, away};
pub use driver::{
    Candidate, CheckEvent, Computing, Contact, ContactDriver, Decision, ListReason, RequestedWork,
    RoundInputs,
};
pub use estimates::{Estimates, Lengths, SavedEstimate, TaskProgress, remaining};
pub use fetch::{
    AssociationReason, Demand, FetchInput, FetchRequest, PairReason, Source, SourcePair, Survey,
};
pub use fetcher::{
    AssociationOverview, AssociationState, Fetcher, FetcherInput, FetcherStep, FixedTasks, Leaves,
    Overview, PairOverview, Request, Saved, Setup, TaskResult, TypeOverview,
};
pub use job_sched::{Preemption, Schedule, SchedulingInput};
pub use members::{Attempt, ListChange, Members};
pub use outlook::{AssociationOutlook, Outlook, PairOutlook, TypeOutlook};
pub use pair_backoff::{PairBackoff, PairBackoffs, SavedPair, SentRequest, TypeReply};
pub use priority::Priorities;
pub use profile::{Buffer, FirstAsked, Precedence, Profile, TaskErrors};
pub use reaction::Reaction;
pub use reason::{RpcReason, Wish};
pub use rec::{Accounting, SavedRec, update_average};
pub use report::{Circumstances, Overdue, ReportContent, ReportReason, Reporting, Unreported};
pub use rpc_policy::{ListReading, RpcPolicy, SavedRpc, SavedWait, Terms};
pub use rr_sim::SimulationInput;
pub use saved_state::{SavedJob, SavedScheduler, SavedState, SavedStateError};
pub use task_errors::is_infrastructure_failure;
pub use types::{
    Association, AssociationIndex, Associations, PerType, ProcessorKind, ProcessorType,
    ProcessorUsage, Processors, Task, TaskNumber, TaskStage,
};
pub use wait::{Wait, WaitCause};
