//! The declared exception of a worker, which promises that nothing happened.

use brasserie_common::{InstanceId, RefusalCode, SchedulerId};

use crate::generated::worker::{BistroWorkerException, BistroWorkerExceptionCode};

/// What a worker throws for a refusal.
pub fn worker_exception(code: RefusalCode, message: impl Into<String>) -> BistroWorkerException {
    let bound = match code {
        RefusalCode::BoundTo(scheduler) => Some(scheduler.into()),
        RefusalCode::Unhealthy
        | RefusalCode::WrongId
        | RefusalCode::OldSequence
        | RefusalCode::Duplicate
        | RefusalCode::Busy
        | RefusalCode::Draining
        | RefusalCode::Unspecified => None,
    };
    let code = match code {
        RefusalCode::Unhealthy => Some(BistroWorkerExceptionCode::UNHEALTHY),
        RefusalCode::WrongId | RefusalCode::BoundTo(_) => Some(BistroWorkerExceptionCode::WRONG_ID),
        RefusalCode::OldSequence => Some(BistroWorkerExceptionCode::OLD_SEQUENCE),
        RefusalCode::Duplicate => Some(BistroWorkerExceptionCode::DUPLICATE),
        RefusalCode::Busy => Some(BistroWorkerExceptionCode::BUSY),
        RefusalCode::Draining => Some(BistroWorkerExceptionCode::DRAINING),
        RefusalCode::Unspecified => None,
    };
    BistroWorkerException {
        message: Some(message.into()),
        code,
        bound,
    }
}

/// What a worker's exception means; a code that a newer peer invented is as good as none.
pub fn refusal(exception: BistroWorkerException) -> (RefusalCode, String) {
    let bound = exception
        .bound
        .and_then(|id| SchedulerId::try_from(id).ok());
    let code = match exception.code {
        Some(BistroWorkerExceptionCode::UNHEALTHY) => RefusalCode::Unhealthy,
        Some(BistroWorkerExceptionCode::WRONG_ID) => {
            bound.map_or(RefusalCode::WrongId, RefusalCode::BoundTo)
        }
        Some(BistroWorkerExceptionCode::OLD_SEQUENCE) => RefusalCode::OldSequence,
        Some(BistroWorkerExceptionCode::DUPLICATE) => RefusalCode::Duplicate,
        Some(BistroWorkerExceptionCode::BUSY) => RefusalCode::Busy,
        Some(BistroWorkerExceptionCode::DRAINING) => RefusalCode::Draining,
        Some(BistroWorkerExceptionCode(_)) | None => RefusalCode::Unspecified,
    };
    (code, exception.message.unwrap_or_default())
}

/// How a refusal is told by a method that declares no exception: its text ends so.
const BOUND: &str = " [bound to ";

/// The text for a method that declares no exception; the original's peers show it, ours read it.
pub fn undeclared_refusal(code: RefusalCode, message: &str) -> String {
    match code {
        RefusalCode::BoundTo(scheduler) => format!("{message}{BOUND}{scheduler}]"),
        RefusalCode::Unhealthy
        | RefusalCode::WrongId
        | RefusalCode::OldSequence
        | RefusalCode::Duplicate
        | RefusalCode::Busy
        | RefusalCode::Draining
        | RefusalCode::Unspecified => message.to_owned(),
    }
}

/// The scheduler instance that such a text ends with: then it is a refusal, and nothing happened.
pub fn bound_of(text: &str) -> Option<SchedulerId> {
    let (_, id) = text.strip_suffix(']')?.rsplit_once(BOUND)?;
    let (start_time, rand) = id.split_once(':')?;
    Some(SchedulerId(InstanceId {
        start_time: start_time.parse().ok().filter(|start| *start >= 0)?,
        rand: u64::from_str_radix(rand, 16).ok()?.cast_signed(),
    }))
}
