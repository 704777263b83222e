//! The declared exception of a worker, which promises that nothing happened.

use brasserie_common::RefusalCode;

use crate::generated::worker::{BistroWorkerException, BistroWorkerExceptionCode};

/// What a worker throws for a refusal.
pub fn worker_exception(code: RefusalCode, message: impl Into<String>) -> BistroWorkerException {
    let code = match code {
        RefusalCode::Unhealthy => Some(BistroWorkerExceptionCode::UNHEALTHY),
        RefusalCode::WrongId => Some(BistroWorkerExceptionCode::WRONG_ID),
        RefusalCode::OldSequence => Some(BistroWorkerExceptionCode::OLD_SEQUENCE),
        RefusalCode::Duplicate => Some(BistroWorkerExceptionCode::DUPLICATE),
        RefusalCode::Busy => Some(BistroWorkerExceptionCode::BUSY),
        RefusalCode::Draining => Some(BistroWorkerExceptionCode::DRAINING),
        RefusalCode::Unspecified => None,
    };
    BistroWorkerException {
        message: Some(message.into()),
        code,
    }
}

/// What a worker's exception means; a code that a newer peer invented is as good as none.
pub fn refusal(exception: BistroWorkerException) -> (RefusalCode, String) {
    let code = match exception.code {
        Some(BistroWorkerExceptionCode::UNHEALTHY) => RefusalCode::Unhealthy,
        Some(BistroWorkerExceptionCode::WRONG_ID) => RefusalCode::WrongId,
        Some(BistroWorkerExceptionCode::OLD_SEQUENCE) => RefusalCode::OldSequence,
        Some(BistroWorkerExceptionCode::DUPLICATE) => RefusalCode::Duplicate,
        Some(BistroWorkerExceptionCode::BUSY) => RefusalCode::Busy,
        Some(BistroWorkerExceptionCode::DRAINING) => RefusalCode::Draining,
        Some(BistroWorkerExceptionCode(_)) | None => RefusalCode::Unspecified,
    };
    (code, exception.message.unwrap_or_default())
}
