//! Returns free pages of the database file to the file system, a few in each step, while records are written in between.
//!
//! SQLite's incremental vacuum moves the last pages of the file into free ones and cuts the file off behind them. Each step is a transaction
//! of the same file: a crash leaves the state before or after it, and device and inode stay.

use rusqlite::{Connection, Error, ErrorCode};

use super::error::StoreError;

/// The value of `PRAGMA auto_vacuum` with which free pages can be returned step by step.
const INCREMENTAL: i64 = 2;

/// Pages of one step: a megabyte, so some ten milliseconds with its sync.
const PAGES_A_STEP: i64 = 256;

/// A file with fewer free pages is left alone: it would soon grow again.
const MIN_FREE_PAGES: i64 = 256;

/// Whether free pages are being returned. Begins when a quarter of the file is free and ends at a sixteenth, so that a file whose rows come
/// and go does not shrink and grow all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Compaction {
    #[default]
    Idle,
    UnderWay,
}

/// How many pages the database file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    all: i64,
    free: i64,
    bytes: i64,
}

impl Pages {
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        Ok(Pages {
            all: pragma("page_count")?,
            free: pragma("freelist_count")?,
            bytes: pragma("page_size")?,
        })
    }

    pub(super) fn free_bytes(self) -> u64 {
        (self.free * self.bytes).unsigned_abs()
    }
}

impl Compaction {
    /// Whether a step is due.
    pub(super) fn is_due(&mut self, pages: Pages) -> bool {
        let Pages { all, free, .. } = pages;
        let is_due = match self {
            Compaction::Idle => free >= MIN_FREE_PAGES && free > all / 4,
            Compaction::UnderWay => free > all / 16,
        };
        *self = match is_due {
            true => Compaction::UnderWay,
            false => Compaction::Idle,
        };
        is_due
    }
}

/// Makes the file of a new store one whose free pages can be returned. Leaves a file with content alone, as that would write to it.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    match pages {
        0 => connection.pragma_update(None, "auto_vacuum", INCREMENTAL),
        _ => Ok(()),
    }
}

/// Rewrites the file of an older release, so that its free pages can be returned. Does nothing if they can be already. Takes seconds for
/// millions of completions, and once more the size of the file on disk.
pub(super) fn convert(connection: &Connection) -> rusqlite::Result<()> {
    let mode: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
    if mode == INCREMENTAL {
        return Ok(());
    }
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
    connection.execute_batch("VACUUM")
}

/// Returns some free pages.
pub(super) fn step(connection: &Connection) -> Result<(), StoreError> {
    let mut statement =
        connection.prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES_A_STEP})"))?;
    // One row for each page.
    let mut rows = statement.query(())?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Truncates the file after the last step, unless a reader needs what is in the log; then a later checkpoint does.
pub(super) fn truncate(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()))
}

/// Whether another program holds the file for the moment, so that the same connection may try again.
pub(super) fn is_busy(error: &StoreError) -> bool {
    let StoreError::Sqlite(Error::SqliteFailure(failure, _)) = error else {
        return false;
    };
    matches!(
        failure.code,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked
    )
}
