//! Converts the results of calls for the core.

use brasserie_common::CallOutcome;
use brasserie_thrift::rpc::CallResult;

/// Converts the result of a call; `read` converts the answer.
pub(super) fn outcome<R, T>(
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
