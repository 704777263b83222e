//! The choice of the job whose task is tried next.

pub(crate) mod needs;
pub(crate) mod policy;
