//! Task statuses: what ended how, what waits until when, and how a change reaches the tasks that depend on it.

pub(crate) mod column;
pub(crate) mod columns;
pub(crate) mod gate;
pub(crate) mod job;
pub(crate) mod tally;
mod transitions;
pub(crate) mod waits;
