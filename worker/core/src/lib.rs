//! The worker's side of the protocol: its associations with schedulers, the tasks that it runs for them, and the conditions under which it
//! must end itself.
//!
//! The crate performs no input or output. A shell passes [`Event`]s to [`Worker::handle`], calls [`Worker::handle_timeout`] once a turn,
//! drains [`Worker::poll_effect`], and sleeps until [`Worker::poll_timeout`] or the next event.
//!
//! [`Worker`] alone sees all components: the sessions with the schedulers, their tasks and reports, the machine, and the work fetch. No
//! component calls another one. Each returns what must become of the others.

#![deny(clippy::iter_over_hash_type)]

mod config;
mod effect;
mod event;
mod fetching;
mod heartbeat;
mod invocations;
mod machine;
mod members;
mod reports;
mod session;
mod tasks;
mod timer;
mod worker;

pub use brasserie_worker_fetch::{AssociationIndex, Preemption, Profile, SavedJob, SavedState};
pub use config::{AssociationOptions, MemberList, Options, WorkFetch};
pub use effect::{Call, Effect, ExitReason, Goes, Goodbye, Refusal, Reply};
pub use event::{CallReply, DrainRequest, Event, RunTask};
pub use session::{DrainCaller, HeartbeatTrouble, LifeStage};
pub use worker::{Association, Worker};
