//! The worker protocol machine: its association with a scheduler, the tasks it runs for it, and when it must end itself.
//!
//! The crate is pure. A shell feeds [`Event`]s to [`Worker::handle`], calls [`Worker::handle_timeout`] once a turn, drains
//! [`Worker::poll_effect`], and sleeps until [`Worker::poll_timeout`] or the next event.

mod effect;
mod event;

pub use effect::{Call, CallReply, Effect, ExitReason, Goodbye, Refusal, Reply};
pub use event::{Event, RunTask};
