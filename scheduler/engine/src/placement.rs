//! Placement: which tasks may start, and on which worker.

pub(crate) mod bit_tree;
mod choose;
pub(crate) mod credit;
pub(crate) mod demands;
pub(crate) mod eligible;
mod in_turn;
pub(crate) mod needs;
pub(crate) mod policy;
pub(crate) mod resources;
mod running;
mod runs;
mod start;
pub(crate) mod wait_lists;
pub(crate) mod worker_limits;
pub(crate) mod workers;

pub(crate) use eligible::{Dependency, Structure};
pub(crate) use running::{Run, RunPath};
pub(crate) use runs::Runs;
