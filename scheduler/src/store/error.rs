//! The errors of the store, worded for an operator.

use std::path::{Path, PathBuf};

use brasserie_common::SchedulerId;
use brasserie_common_runtime::{FileChange, FileError};

/// Why the store cannot be opened or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the store {}: {error}", path.display())]
    Open {
        path: PathBuf,
        error: rusqlite::Error,
    },
    #[error("cannot sync the folder of the store {}: {error}", path.display())]
    SyncFolder {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(
        "the store {} was written by a newer version of this program (its format is {found}, this program knows up to {known}): \
         start the newer version{}",
        path.display(), put_back(copy.as_deref())
    )]
    Newer {
        path: PathBuf,
        found: i64,
        known: i64,
        /// The copy of an earlier format that this program knows.
        copy: Option<PathBuf>,
    },
    #[error("{} is a SQLite file, but not a store of this program", path.display())]
    Foreign { path: PathBuf },
    #[error("cannot convert the store {} from format {from} to {to}: {error}. Nothing was changed", path.display())]
    Migrate {
        path: PathBuf,
        from: i64,
        to: i64,
        error: rusqlite::Error,
    },
    #[error("cannot keep a copy of the store as {} before changing its format: {error}. Nothing was changed", copy.display())]
    Backup {
        copy: PathBuf,
        error: rusqlite::Error,
    },
    #[error(
        "the store is damaged: table `{table}` holds {what}. Restore a backup of the data directory"
    )]
    Damaged { table: &'static str, what: String },
    #[error(
        "the store in {} cannot be read, because a scheduler has begun to write to it: try again", path.display()
    )]
    Changing { path: PathBuf },
    #[error("cannot inspect the store's file {}: {error}", path.display())]
    Inspect {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(
        "{} {change} while this scheduler used it. Put the very same file back, as by mounting its disk again; otherwise stop this \
         scheduler, restore a backup of its data directory and start once with --after-restoring-a-backup, or start on a new data \
         directory without --new-cluster", path.display()
    )]
    NotTheSame { path: PathBuf, change: FileChange },
    #[error(
        "{} {change} while this scheduler used it. The scheduler saves what was in it; nothing but the scheduler may change its data \
         directory", path.display()
    )]
    LogNotTheSame { path: PathBuf, change: FileChange },
    #[error(
        "the store {} holds the records of another cluster or lacks those of this scheduler: another copy was put in its place. Stop this \
         scheduler, restore a backup of its data directory and start once with --after-restoring-a-backup", path.display()
    )]
    OfAnother { path: PathBuf },
    #[error(
        "cannot copy the log of the store {} into its database file, because something else uses the store: a query of this scheduler, which \
         will end, or another program. If the error stays, end that program", path.display()
    )]
    CheckpointBusy { path: PathBuf },
    #[error("{0}")]
    ReadMarker(FileError),
    #[error("cannot write {}, which marks the data directory as used: {error}", path.display())]
    WriteMarker {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(
        "a scheduler has used the data directory of {}, but this file {what}: which tasks are done, and which workers may run tasks, is \
         lost. Restore a backup of the directory and start once with --after-restoring-a-backup. Without a backup, move the directory away \
         and start on a new one without --new-cluster: nothing starts during the safe wait, then every task runs again", path.display()
    )]
    Lost { path: PathBuf, what: &'static str },
    #[error(
        "{} {what}, and the last scheduler of this data directory did not exit cleanly, so its latest records are lost, unless \
         sqlite3 or a former release has opened the store since and removed the file. Put the file back, or start once with \
         --after-restoring-a-backup: nothing starts during the safe wait, and tasks whose completions are lost run again", path.display()
    )]
    LogLost { path: PathBuf, what: &'static str },
    #[error(
        "the store {} does not know scheduler instance {scheduler}, which used this data directory last: an older copy has taken its place. \
         If it is a backup, start once with --after-restoring-a-backup", path.display()
    )]
    Older {
        path: PathBuf,
        scheduler: SchedulerId,
    },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error("cannot encode a record: {0}")]
    Encode(#[from] serde_json::Error),
    #[error("cannot start the store's thread: {0}")]
    Thread(std::io::Error),
    #[error("the store's thread ended unexpectedly")]
    WriterDied,
}

/// The program whose flags a message may name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsedBy {
    #[default]
    SchedulerProgram,
    /// `brasserie run`, which has no flag for a restored backup.
    Run,
}

impl StoreError {
    /// Returns the message for the operator of this program.
    pub fn text_for(&self, used_by: UsedBy) -> String {
        match used_by {
            UsedBy::SchedulerProgram => self.to_string(),
            UsedBy::Run => self.text_for_run(),
        }
    }

    fn text_for_run(&self) -> String {
        let from_anew = "choose another --data-dir, where every task runs again";
        match self {
            StoreError::NotTheSame { path, change } => format!(
                "{} {change} while this run used it. Put the very same file back, as by mounting its disk again; otherwise end the run and \
                 {from_anew}",
                path.display()
            ),
            StoreError::LogNotTheSame { path, change } => format!(
                "{} {change} while this run used it. The run saves what was in it; nothing but the run may change its data directory",
                path.display()
            ),
            StoreError::OfAnother { path } => format!(
                "the store {} holds the records of another run or lacks those of this one: another copy was put in its place. End the run, \
                 and restore its whole data directory from one backup, or {from_anew}",
                path.display()
            ),
            StoreError::Lost { path, what } => format!(
                "an earlier run has used the store {}, but this file {what}: which tasks are done is lost. Restore the whole data directory \
                 of the run from a backup, or {from_anew}",
                path.display()
            ),
            StoreError::LogLost { path, what } => format!(
                "{} {what}, and the last run in this data directory did not end in good order, so its latest records are lost. Put the file \
                 back, or {from_anew}",
                path.display()
            ),
            StoreError::Older { path, .. } => format!(
                "the store {} does not know the last run in this data directory: an older copy has taken its place. Restore the whole data \
                 directory of the run from one backup, or {from_anew}",
                path.display()
            ),
            StoreError::Open { .. }
            | StoreError::SyncFolder { .. }
            | StoreError::Newer { .. }
            | StoreError::Foreign { .. }
            | StoreError::Migrate { .. }
            | StoreError::Backup { .. }
            | StoreError::Damaged { .. }
            | StoreError::Changing { .. }
            | StoreError::Inspect { .. }
            | StoreError::CheckpointBusy { .. }
            | StoreError::ReadMarker(_)
            | StoreError::WriteMarker { .. }
            | StoreError::Sqlite(_)
            | StoreError::Encode(_)
            | StoreError::Thread(_)
            | StoreError::WriterDied => self.to_string(),
        }
    }
}

fn put_back(copy: Option<&Path>) -> String {
    let text = |copy: &Path| {
        format!(
            ", or put back the copy {} that an upgrade has kept (docs/src/operate/upgrade.md)",
            copy.display()
        )
    };
    copy.map_or_else(String::new, text)
}
