//! The values of columns: ids and durations as SQLite has them, and the error for values that this program did not write.

use std::fmt::Display;
use std::time::Duration;

use brasserie_common::InstanceId;
use brasserie_scheduler_core::DeletionNumber;
use rusqlite::Row;

use super::error::StoreError;

pub(super) fn deletion(row: &Row<'_>, column: usize) -> rusqlite::Result<DeletionNumber> {
    let number: i64 = row.get(column)?;
    Ok(DeletionNumber(number.cast_unsigned()))
}

pub(super) fn instance_id(row: &Row<'_>, first_column: usize) -> rusqlite::Result<InstanceId> {
    Ok(InstanceId {
        start_time: row.get(first_column)?,
        rand: row.get(first_column + 1)?,
    })
}

/// Saturates at 292 years.
pub(super) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

pub(super) fn damaged<E: Display>(table: &'static str) -> impl Fn(E) -> StoreError {
    move |error| StoreError::Damaged {
        table,
        what: error.to_string(),
    }
}
