//! The declared exception of a worker, which promises that the call had no effect.

use brasserie_common::{InstanceId, RefusalCode, SchedulerId};

use crate::generated::worker::{BistroWorkerException, BistroWorkerExceptionCode};

/// Returns the exception that a worker throws for a refusal.
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

/// Returns the meaning of a worker's exception. An unknown code of a newer peer counts as no code.
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

/// The end of the text by which a method without a declared exception reports a binding.
const BOUND: &str = " [bound to ";

/// Returns the refusal text of a method that declares no exception. The original's peers display it; peers of this project parse it.
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

/// Returns the scheduler instance at the end of such a text. If there is one, the text is a refusal, and the call had no effect.
pub fn bound_of(text: &str) -> Option<SchedulerId> {
    let (_, id) = text.strip_suffix(']')?.rsplit_once(BOUND)?;
    let (start_time, rand) = id.split_once(':')?;
    Some(SchedulerId(InstanceId {
        start_time: start_time.parse().ok().filter(|start| *start >= 0)?,
        rand: u64::from_str_radix(rand, 16).ok()?.cast_signed(),
    }))
}
