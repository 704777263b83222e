//! Thrift in both directions: what others ask of the scheduler, and what it asks of workers.

pub(crate) mod answers;
mod export;
mod forgetting;
mod import;
mod job_pages;
mod jobs;
mod logs;
mod plans;
pub(crate) mod pool;
pub(crate) mod render;
pub(crate) mod service;
mod statuses;
mod work;
pub(crate) mod workers;
