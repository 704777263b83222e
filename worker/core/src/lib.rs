//! The worker's side of the protocol: its associations with schedulers, the tasks that it runs for them, and the conditions under which it
//! must end itself.
//!
//! The crate performs no input or output. A shell passes [`Event`]s to [`Worker::handle`], calls [`Worker::handle_timeout`] once a turn,
//! drains [`Worker::poll_effect`], and sleeps until [`Worker::poll_timeout`] or the next event.

#![deny(clippy::iter_over_hash_type)]

mod association;
mod cards;
mod config;
mod delivery;
mod effect;
mod event;
mod fetching;
mod heartbeat;
mod invocations;
mod jobs;
mod limits;
mod machine;
mod passing;
mod piece;
mod preemption;
mod queue;
mod reports;
mod requests;
mod suicide;
mod tasks;
mod timer;
mod turn;
mod whereabouts;
mod worker;

pub use association::{Association, HeartbeatTrouble, LifeStage};
pub use brasserie_worker_fetch::{AssociationIndex, Preemption, Profile, SavedJob, SavedState};
pub use config::{AssociationOptions, MemberList, Options, WorkFetch};
pub use effect::{Call, Effect, ExitReason, Goes, Goodbye, Refusal, Reply};
pub use event::{CallReply, Event, RunTask};
pub use worker::Worker;
