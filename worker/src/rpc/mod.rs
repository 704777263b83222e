//! The worker's Thrift calls: those from schedulers to this worker, and those from this worker to schedulers.

pub(crate) mod client;
mod requests;
pub(crate) mod service;
mod statuses;

use brasserie_common::CallOutcome;
use brasserie_thrift::rpc::{CallResult, Unknown};
use thrift::ApplicationErrorKind;

pub(crate) use client::SchedulerClient;
pub(crate) use service::{CallArrival, Lanes, WaitingCaller, WorkerService};
pub(crate) use statuses::{Done, Telling, status_arguments};

/// Converts the result of a call; `read` converts the answer.
fn outcome<R, T>(
    result: CallResult<R>,
    read: impl FnOnce(R) -> Result<T, String>,
) -> CallOutcome<T> {
    match result {
        CallResult::Done(result) => match read(result) {
            Ok(reply) => CallOutcome::Done(reply),
            Err(text) => CallOutcome::Unknown(text),
        },
        CallResult::NotSent(reason) => CallOutcome::NotSent(reason.to_string()),
        CallResult::Unknown(reason) => CallOutcome::Unknown(reason.to_string()),
    }
}

/// Returns whether this is the text of an outcome by which a peer that knows the call has rejected it.
pub(crate) fn is_rejection(text: &str) -> bool {
    let rejection = Unknown::Exception {
        kind: ApplicationErrorKind::InternalError,
        message: String::new(),
    };
    text.starts_with(&rejection.to_string())
}
