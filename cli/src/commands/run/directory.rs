//! Where a run keeps its state: a folder of the user's, locked, or a temporary one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use brasserie_common_runtime::files::DataDir;
use brasserie_common_runtime::telemetry;
use tempfile::TempDir;

use crate::Ending;

/// The folder, held for the life of the run.
pub(super) enum Directory {
    /// The lock lasts as long as the value.
    Kept(DataDir),
    Temporary(TempDir),
}

impl Directory {
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        match path {
            Some(path) => Ok(Directory::Kept(DataDir::open(path)?)),
            None => {
                let folder = tempfile::Builder::new()
                    .prefix("brasserie-run-")
                    .tempdir()
                    .context("cannot make a temporary folder for statuses and logs; --data-dir DIR names another")?;
                Ok(Directory::Temporary(folder))
            }
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        match self {
            Directory::Kept(folder) => folder.path().to_owned(),
            Directory::Temporary(folder) => folder.path().to_owned(),
        }
    }

    /// A temporary folder goes after success, and stays for a look after anything else.
    pub(super) fn close(self, ending: Ending) -> Result<()> {
        let Directory::Temporary(folder) = self else {
            return Ok(());
        };
        if ending == Ending::Success {
            folder.close().context("cannot remove the temporary folder")
        } else {
            let path = folder.keep();
            telemetry::print_error(&format!(
                "brasserie: statuses and logs are kept in {0}; --data-dir {0} goes on from there",
                path.display()
            ));
            Ok(())
        }
    }
}
