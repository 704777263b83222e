//! The commands, one module each.

pub(crate) mod artifact;
pub(crate) mod audit;
pub(crate) mod ca;
pub(crate) mod config;
pub(crate) mod context;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod job;
pub(crate) mod logs;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod status;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod worker;
