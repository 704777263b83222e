//! Placement: which tasks may start, and on which worker.

pub(crate) mod bit_tree;
pub(crate) mod credit;
pub(crate) mod demands;
pub(crate) mod needs;
pub(crate) mod policy;
pub(crate) mod resources;
mod runs;
pub(crate) mod wait_lists;
pub(crate) mod worker_limits;
pub(crate) mod workers;

pub(crate) use runs::{Run, RunCards, RunPath, Runs};
