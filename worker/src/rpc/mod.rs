//! The worker's Thrift calls: those from schedulers to this worker, and those from this worker to schedulers.

pub(crate) mod client;
mod outcome;
mod requests;
pub(crate) mod service;
mod statuses;

pub(crate) use client::SchedulerClient;
pub(crate) use service::{Arrival, Lanes, Waiting, WorkerService};
pub(crate) use statuses::{Done, Telling, status_arguments};
