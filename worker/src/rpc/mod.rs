//! Thrift at the worker: the calls that schedulers make here, and the two that the worker makes.

pub(crate) mod client;
mod requests;
pub(crate) mod service;

pub(crate) use client::SchedulerClient;
pub(crate) use service::{Arrival, Lanes, Waiting, WorkerService};
