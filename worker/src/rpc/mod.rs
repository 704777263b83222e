//! Thrift at the worker: the calls that schedulers make here, and those that the worker makes.

pub(crate) mod client;
mod requests;
pub(crate) mod service;
mod statuses;

pub(crate) use client::SchedulerClient;
pub(crate) use service::{Arrival, Lanes, Waiting, WorkerService};
pub(crate) use statuses::{Done, Telling, status_arguments};
