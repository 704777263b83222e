//! Thrift in both directions: the calls that the scheduler serves, and its calls to workers.

pub(crate) mod answers;
mod artifact_pages;
mod artifacts;
mod auditing;
mod changing;
mod export;
mod files;
mod forgetting;
mod identities;
mod import;
mod job_pages;
mod jobs;
mod logs;
mod ordering;
mod plans;
pub(crate) mod pool;
pub(crate) mod render;
pub(crate) mod service;
mod statuses;
mod work;
pub(crate) mod workers;
