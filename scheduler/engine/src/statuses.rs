//! Columns: the state of each task, and the gates of jobs that wait for others as a whole.

pub(crate) mod columns;
pub(crate) mod gate;
pub(crate) mod tally;
