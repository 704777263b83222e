//! Returns free pages of the database file to the file system, in small steps between the writes of records.
//!
//! SQLite's incremental vacuum moves the last pages of the file into free pages and truncates the file. Each step is a transaction in the
//! same file: a crash leaves the state before or after the step, and the file keeps its device and inode.

use rusqlite::{Connection, Error, ErrorCode};

use super::error::StoreError;

/// The value of `PRAGMA auto_vacuum` for an incremental vacuum.
const INCREMENTAL: i64 = 2;

/// Limit for the pages of one step: a megabyte, which takes some ten milliseconds with its sync.
const PAGES_A_STEP: i64 = 256;

/// A file with fewer free pages is not compacted, because it would soon grow again.
const MIN_FREE_PAGES: i64 = 256;

/// The state of compaction. It begins when a quarter of the file is free and ends at a sixteenth, so that a file with changing rows does
/// not shrink and grow all the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Compaction {
    #[default]
    Idle,
    UnderWay,
}

/// The number of pages of the database file.
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
    /// Updates the state and returns whether a step is due.
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

/// Enables the incremental vacuum in an empty file. Does not change a file with content, where this would need a rewrite.
pub(super) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let pages: i64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    match pages {
        0 => connection.pragma_update(None, "auto_vacuum", INCREMENTAL),
        _ => Ok(()),
    }
}

/// Rewrites the file of an older release to enable the incremental vacuum, unless it is enabled. The rewrite takes seconds for millions of
/// completions, and temporarily needs the size of the file once more on disk.
pub(super) fn convert(connection: &Connection) -> rusqlite::Result<()> {
    let mode: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
    if mode == INCREMENTAL {
        return Ok(());
    }
    connection.pragma_update(None, "auto_vacuum", INCREMENTAL)?;
    connection.execute_batch("VACUUM")
}

/// Returns at most [`PAGES_A_STEP`] free pages to the file system.
pub(super) fn step(connection: &Connection) -> Result<(), StoreError> {
    let mut statement =
        connection.prepare_cached(&format!("PRAGMA incremental_vacuum({PAGES_A_STEP})"))?;
    // The statement frees one page for each row that is read.
    let mut rows = statement.query(())?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Truncates the file after the last step. If a reader still needs the log, a later checkpoint truncates it.
pub(super) fn truncate(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", (), |_| Ok(()))
}

/// Returns whether another program has locked the file, so that the same connection may try again.
pub(super) fn is_busy(error: &StoreError) -> bool {
    let StoreError::Sqlite(Error::SqliteFailure(failure, _)) = error else {
        return false;
    };
    matches!(
        failure.code,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked
    )
}
