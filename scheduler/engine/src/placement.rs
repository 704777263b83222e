//! Placement: which jobs are tried next, and where their tasks wait.

pub(crate) mod needs;
pub(crate) mod policy;
pub(crate) mod wait_lists;
