//! Limits of the work that puts a node table into force: the length of its slices, and data that is freed in slices.

pub(crate) mod disposal;
pub(crate) mod slices;
