//! The file and its format: creates it, migrates an older format after a backup, and refuses other files with a reason.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_scheduler_core::{Durable, Record};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};

use super::compaction::{self, Compaction, Pages};
use super::error::StoreError;
use super::history::{Past, UnusedNames};
use super::identity::{Identity, LogFile};
use super::private;
use super::rows::{self, NameIds, OtherWrites, StoreOwner};

/// Bytes that the log keeps after all its records are in the database file.
const MAX_IDLE_LOG: i64 = 64 << 20;
/// Application id that marks the SQLite file of this program: "BRSR".
const APPLICATION_ID: i64 = 0x4252_5352;
/// How long a write waits while another program has the file locked. A longer wait is reported as a failure.
const BUSY_WAIT: Duration = Duration::from_secs(1);

/// A format, and the SQL that creates it from the one before.
pub(super) struct SchemaStep {
    /// The version of the file after this step.
    pub(super) to: i64,
    pub(super) sql: &'static str,
}

/// All formats in order; the last one is current. Released steps never change.
pub(super) const STEPS: &[SchemaStep] = &[
    SchemaStep {
        to: 1,
        sql: "
        CREATE TABLE meta (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            version INTEGER NOT NULL,
            cluster INTEGER,
            hold_back_ns INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        INSERT INTO meta (only, version) VALUES (1, 0);
        CREATE TABLE schedulers (
            start_time INTEGER NOT NULL,
            rand INTEGER NOT NULL,
            PRIMARY KEY (start_time, rand)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE instances (
            start_time INTEGER NOT NULL,
            rand INTEGER NOT NULL,
            shard TEXT NOT NULL,
            hostname TEXT NOT NULL,
            port INTEGER NOT NULL,
            heartbeat_period_ns INTEGER NOT NULL,
            timeouts TEXT NOT NULL,
            PRIMARY KEY (start_time, rand)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE nodes (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
        CREATE TABLE statuses (
            job_id INTEGER NOT NULL REFERENCES jobs,
            node_id INTEGER NOT NULL REFERENCES nodes,
            invocation_start INTEGER NOT NULL,
            invocation_rand INTEGER NOT NULL,
            bits INTEGER NOT NULL,
            time_ms INTEGER NOT NULL,
            backoff INTEGER NOT NULL,
            safety INTEGER NOT NULL,
            data TEXT,
            PRIMARY KEY (job_id, node_id)
        ) STRICT, WITHOUT ROWID;
    ",
    },
    SchemaStep {
        to: 2,
        sql: "
        CREATE TABLE left_instances (
            start_time INTEGER NOT NULL,
            rand INTEGER NOT NULL,
            PRIMARY KEY (start_time, rand)
        ) STRICT, WITHOUT ROWID;
    ",
    },
    SchemaStep {
        to: 3,
        sql: "
        ALTER TABLE meta ADD COLUMN last_job_version INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE saved_jobs (
            name TEXT PRIMARY KEY,
            version INTEGER NOT NULL,
            created_ms INTEGER NOT NULL,
            modified_ms INTEGER NOT NULL,
            text TEXT NOT NULL
        ) STRICT;
        CREATE TABLE paused_jobs (name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
    ",
    },
    SchemaStep {
        to: 4,
        sql: "
        CREATE TABLE schedule_items (name TEXT PRIMARY KEY, given TEXT NOT NULL) STRICT;
        CREATE TABLE config_file (
            only INTEGER PRIMARY KEY CHECK (only = 1),
            path TEXT NOT NULL,
            since_ms INTEGER NOT NULL,
            text TEXT NOT NULL
        ) STRICT;
        CREATE TABLE forgotten (
            job_id INTEGER NOT NULL REFERENCES jobs,
            node_id INTEGER NOT NULL REFERENCES nodes,
            up_to_start INTEGER NOT NULL,
            up_to_rand INTEGER NOT NULL,
            PRIMARY KEY (job_id, node_id)
        ) STRICT, WITHOUT ROWID;
    ",
    },
    SchemaStep {
        to: 5,
        // Each instance may have been present at any earlier deletion.
        sql: "
        ALTER TABLE instances ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE forgotten ADD COLUMN number INTEGER NOT NULL DEFAULT 1;
        CREATE INDEX forgotten_by_number ON forgotten (number);
        CREATE INDEX instances_by_since ON instances (since);
    ",
    },
    SchemaStep {
        to: 6,
        sql: "ALTER TABLE statuses ADD COLUMN story TEXT;",
    },
    SchemaStep {
        to: 7,
        // Schedulers of that release assigned no fences.
        sql: "ALTER TABLE meta ADD COLUMN fence_generation INTEGER NOT NULL DEFAULT 0;",
    },
    SchemaStep {
        to: 8,
        sql: "ALTER TABLE paused_jobs ADD COLUMN is_cancelled INTEGER NOT NULL DEFAULT 0;",
    },
    SchemaStep {
        to: 9,
        // Earlier releases did not record missing nodes.
        sql: "
        ALTER TABLE meta ADD COLUMN observed_s INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE nodes ADD COLUMN missing_since_s INTEGER;
    ",
    },
    SchemaStep {
        to: 10,
        // Earlier releases did not record missing jobs.
        sql: "ALTER TABLE jobs ADD COLUMN missing_since_s INTEGER;",
    },
    SchemaStep {
        to: 11,
        // Earlier releases recorded neither the name nor the time.
        sql: "
        ALTER TABLE left_instances ADD COLUMN shard TEXT;
        ALTER TABLE left_instances ADD COLUMN left_ms INTEGER;
    ",
    },
    SchemaStep {
        to: 12,
        // Earlier releases knew no outputs.
        sql: "
        CREATE TABLE outputs (
            job_id INTEGER NOT NULL REFERENCES jobs,
            node_id INTEGER NOT NULL REFERENCES nodes,
            invocation_start INTEGER NOT NULL,
            invocation_rand INTEGER NOT NULL,
            outputs TEXT NOT NULL,
            PRIMARY KEY (job_id, node_id)
        ) STRICT, WITHOUT ROWID;
    ",
    },
    SchemaStep {
        to: 13,
        // Earlier releases knew no orders.
        sql: "
        CREATE TABLE worker_orders (
            shard TEXT PRIMARY KEY,
            worker_order TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
    ",
    },
    SchemaStep {
        to: 14,
        // Earlier releases knew no owners.
        sql: "ALTER TABLE saved_jobs ADD COLUMN owner TEXT;",
    },
];

/// An open file in the current format.
#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
    names: NameIds,
    identity: Identity,
    log: LogFile,
    was_empty: bool,
    compaction: Compaction,
}

impl Database {
    /// Opens the file, or creates it.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, STEPS)
    }

    pub(super) fn open_with(path: &Path, steps: &[SchemaStep]) -> Result<Self, StoreError> {
        private::create(path)?;
        Self::open_as(path, steps)
    }

    /// Opens a file that must not be empty. Returns `None` and changes nothing if it is empty.
    pub(super) fn open_used(path: &Path, steps: &[SchemaStep]) -> Result<Option<Self>, StoreError> {
        if is_empty_file(path)? {
            return Ok(None);
        }
        let open_error = |error| StoreError::Open {
            path: path.to_owned(),
            error,
        };
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .map_err(open_error)?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
            .map_err(open_error)?;
        if version(&connection, path)? == 0 {
            return Ok(None);
        }
        drop(connection);
        Self::open_as(path, steps).map(Some)
    }

    /// Opens the file that was open before, and no other. Never creates a file, nor fills one that was emptied. The records of `owner` must
    /// be in it.
    pub(super) fn reopen(
        path: &Path,
        identity: &Identity,
        owner: Option<StoreOwner>,
    ) -> Result<Self, StoreError> {
        let of_another = || StoreError::OfAnother {
            path: path.to_owned(),
        };
        identity.check()?;
        let database = Self::open_used(path, STEPS)?.ok_or_else(of_another)?;
        if let Some(owner) = owner
            && !rows::is_of(&database.connection, owner)?
        {
            return Err(of_another());
        }
        Ok(database)
    }

    fn open_as(path: &Path, steps: &[SchemaStep]) -> Result<Self, StoreError> {
        private::tighten(path)?;
        let open_error = |error| StoreError::Open {
            path: path.to_owned(),
            error,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(open_error)?;
        configure(&connection).map_err(open_error)?;
        let known = steps.last().map_or(0, |step| step.to);
        let found = version(&connection, path)?;
        if found > known {
            return Err(StoreError::Newer {
                path: path.to_owned(),
                found,
                known,
                copy: (1..=known)
                    .rev()
                    .map(|format| copy_of(path, format))
                    .find(|copy| copy.exists()),
            });
        }
        if found < known {
            migrate(&mut connection, path, found, steps)?;
        }
        Ok(Database {
            path: path.to_owned(),
            names: NameIds::default(),
            connection,
            was_empty: found == 0,
            compaction: Compaction::default(),
            identity: Identity::of(path)?,
            log: LogFile::of(path)?,
        })
    }

    /// Returns whether the file had no tables before it was opened, or did not exist.
    pub(super) fn was_empty(&self) -> bool {
        self.was_empty
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(super) fn log(&self) -> &LogFile {
        &self.log
    }

    /// Loads everything in the file.
    #[cfg(test)]
    pub(super) fn load(&mut self) -> Result<Durable, StoreError> {
        let (mut durable, past) = self.load_apart()?;
        let (history, unused) = past.collect()?;
        history.add_to(&mut durable);
        self.drop_names(unused)?;
        Ok(durable)
    }

    /// See [`Store::drop_names`].
    ///
    /// [`Store::drop_names`]: super::Store::drop_names
    pub(super) fn drop_names(&mut self, unused: UnusedNames) -> Result<(), StoreError> {
        self.names.drop_later(&self.connection, unused)
    }

    /// Loads everything in the file, with the completions separately.
    pub(super) fn load_apart(&mut self) -> Result<(Durable, Past), StoreError> {
        let past = Past::read(&self.connection, &self.path)?;
        Ok((rows::load(&self.connection)?, past))
    }

    /// Enables compaction in the file of an earlier release. Without it the store works, but its file never shrinks.
    pub(super) fn convert(&self) {
        if let Err(error) = compaction::convert(&self.connection) {
            tracing::warn!(
                store = %self.path.display(), %error,
                "cannot rewrite the store so that its file can shrink: the rewrite needs free disk space of the file's size; the next start tries again"
            );
        }
    }

    pub(super) fn pages(&self) -> Result<Pages, StoreError> {
        Ok(Pages::of(&self.connection)?)
    }

    /// Returns whether [`Database::tidy`] has work to do.
    pub(super) fn is_tidying_due(&mut self) -> Result<bool, StoreError> {
        Ok(self.names.has_leavers() || self.compaction.is_due(self.pages()?))
    }

    /// Drops some unused rows or, if there are none, returns some free pages to the file system.
    pub(super) fn tidy(&mut self) -> Result<(), StoreError> {
        if self.names.has_leavers() {
            return self.write([].into_iter());
        }
        compaction::step(&self.connection)?;
        if !self.compaction.is_due(self.pages()?) {
            compaction::truncate(&self.connection)?;
        }
        self.check_files()
    }

    /// Copies the whole log into the database file and syncs it. The next write restarts the log. The log is not truncated, so that an
    /// empty log shows that it was emptied.
    pub(super) fn checkpoint(&self) -> Result<(), StoreError> {
        let busy: i64 = self
            .connection
            .query_row("PRAGMA wal_checkpoint(RESTART)", (), |row| row.get(0))?;
        if busy != 0 {
            return Err(StoreError::CheckpointBusy {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    /// Applies records in order and syncs them. After an `Ok` they survive a power failure, in the files at their paths.
    pub(super) fn write<'a>(
        &mut self,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<(), StoreError> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        self.names.begin(&transaction)?;
        let mut somebody_left = false;
        let mut other_writes = OtherWrites::Nothing;
        for record in records {
            other_writes = OtherWrites::Records;
            rows::apply(&transaction, &mut self.names, record)?;
            somebody_left |= matches!(record, Record::WorkerLeft { .. });
        }
        self.names.drop_some(&transaction, other_writes)?;
        if somebody_left {
            rows::forget_those_left_long_ago(&transaction)?;
        }
        transaction.commit()?;
        self.check_files()
    }

    /// Errors if the files with the committed data are no longer at their paths.
    fn check_files(&self) -> Result<(), StoreError> {
        self.identity.check()?;
        self.log.check()
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }
}

/// Returns whether the file has no bytes. Call this before SQLite opens the file, because SQLite then deletes the log of an empty database.
pub(super) fn is_empty_file(path: &Path) -> Result<bool, StoreError> {
    match path.metadata() {
        Ok(found) => Ok(found.len() == 0),
        Err(error) => Err(StoreError::Inspect {
            path: path.to_owned(),
            error,
        }),
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_WAIT)?;
    compaction::prepare(connection)?;
    // WAL mode: readers of other programs do not block the writer, and a commit needs one sync.
    connection.pragma_update(None, "journal_mode", "wal")?;
    // FULL: the log is synced before COMMIT returns. In WAL mode a lower setting loses acknowledged statuses.
    connection.pragma_update(None, "synchronous", "full")?;
    // Shrinks a log that was once long.
    connection.pragma_update(None, "journal_size_limit", MAX_IDLE_LOG)?;
    // References are valid without a check. Each transaction looks up the names that it refers to, and deletes only names without
    // references. A check by SQLite would scan all completions for each deleted name.
    connection.pragma_update(None, "foreign_keys", "off")?;
    // The log stays when a connection closes. So a missing log means that it was lost, and SQLite copies nothing from it unnoticed.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok(())
}

/// Returns the format version, 0 for a file that was just created.
fn version(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    let error = |error| StoreError::Open {
        path: path.to_owned(),
        error,
    };
    let application: i64 = connection
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .map_err(error)?;
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
        .map_err(error)?;
    if application != APPLICATION_ID {
        // A crash between the creation of the file and its first transaction leaves it empty.
        return if tables == 0 {
            Ok(0)
        } else {
            Err(StoreError::Foreign {
                path: path.to_owned(),
            })
        };
    }
    let found: Option<i64> = connection
        .query_row("SELECT version FROM meta", (), |row| row.get(0))
        .optional()
        .map_err(error)?;
    found.ok_or_else(|| StoreError::Damaged {
        table: "meta",
        what: "no row".to_owned(),
    })
}

/// Migrates in one transaction, so that a crash leaves the old format or the new one.
fn migrate(
    connection: &mut Connection,
    path: &Path,
    from: i64,
    steps: &[SchemaStep],
) -> Result<(), StoreError> {
    let to = steps.last().map_or(from, |step| step.to);
    if from > 0 {
        back_up(connection, path, from)?;
    }
    let error = |error| StoreError::Migrate {
        path: path.to_owned(),
        from,
        to,
        error,
    };
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Exclusive)
        .map_err(error)?;
    for step in steps.iter().filter(|step| step.to > from) {
        transaction.execute_batch(step.sql).map_err(error)?;
    }
    transaction
        .execute("UPDATE meta SET version = ?1", [to])
        .map_err(error)?;
    transaction
        .pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(error)?;
    transaction.commit().map_err(error)?;
    // Syncs the folder, so that the name of a new file is as durable as its content.
    let folder = path.parent().unwrap_or(Path::new("/"));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|error| StoreError::SyncFolder {
            path: path.to_owned(),
            error,
        })?;
    remove_copies_before(path, from);
    Ok(())
}

/// Returns the path of the copy that is kept of a store of this format after a migration.
fn copy_of(path: &Path, version: i64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".format-{version}"));
    PathBuf::from(name)
}

/// Backs up the store. The copy is complete and synced before it gets its name, so an unfinished copy is never mistaken for a backup.
fn back_up(connection: &Connection, path: &Path, version: i64) -> Result<(), StoreError> {
    let copy = copy_of(path, version);
    let mut unfinished = copy.clone().into_os_string();
    unfinished.push(".unfinished");
    let unfinished = PathBuf::from(unfinished);
    let io_error = |error: std::io::Error| StoreError::Backup {
        copy: copy.clone(),
        error: rusqlite::Error::ToSqlConversionFailure(Box::new(error)),
    };
    match std::fs::remove_file(&unfinished) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(io_error(error)),
    }
    // SQLite would create the file readable for everybody, but fills an existing empty file.
    private::create(&unfinished)?;
    let target = unfinished.to_string_lossy();
    connection
        .execute("VACUUM INTO ?1", [&*target])
        .map_err(|error| StoreError::Backup {
            copy: copy.clone(),
            error,
        })?;
    File::open(&unfinished)
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(&unfinished, &copy))
        .map_err(io_error)?;
    tracing::info!(copy = %copy.display(), "kept a copy of the store before changing its format");
    Ok(())
}

/// Removes the copies of earlier migrations. Each is as large as the store was, and nobody reverts two upgrades. A failure is only logged,
/// because the store works without this.
fn remove_copies_before(path: &Path, version: i64) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let prefix = format!("{}.format-", name.to_string_lossy());
    let entries = std::fs::read_dir(folder).inspect_err(|error| {
        tracing::warn!(folder = %folder.display(), %error, "cannot list earlier copies of the store");
    });
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(&prefix));
        let of = of.map(|of| of.strip_suffix(".unfinished").unwrap_or(of));
        let is_earlier = |of: i64| of < version;
        if !of.and_then(|of| of.parse().ok()).is_some_and(is_earlier) {
            continue;
        }
        let copy = entry.path();
        match std::fs::remove_file(&copy) {
            Ok(()) => {
                tracing::info!(copy = %copy.display(), "removed an earlier copy of the store")
            }
            Err(error) => {
                tracing::warn!(copy = %copy.display(), %error, "an earlier copy of the store cannot be removed");
            }
        }
    }
}
