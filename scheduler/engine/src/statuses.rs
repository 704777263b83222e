//! Task statuses: how runs completed, how long tasks wait, and how a change reaches dependent tasks.

pub(crate) mod column;
pub(crate) mod columns;
pub(crate) mod gate;
pub(crate) mod job;
pub(crate) mod tally;
pub(crate) mod waits;
