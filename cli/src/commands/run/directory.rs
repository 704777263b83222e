//! Where a run keeps its state: a folder of the user's, locked, or a temporary one.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use brasserie_common_runtime::files::DataDir;
use brasserie_common_runtime::telemetry;
use brasserie_scheduler::SchedulerHandle;
use tempfile::TempDir;

use super::settings::RunConfig;
use crate::Ending;
use crate::data_dir::RunRecord;

/// The folder, held for the life of the run.
pub(super) struct Directory {
    folder: Folder,
    /// What other commands are told; `None`: there is no scheduler yet.
    record: Option<RunRecord>,
}

enum Folder {
    /// The lock lasts as long as the value.
    Kept(DataDir),
    Temporary(TempDir),
}

impl Directory {
    pub(super) fn open(path: Option<&Path>) -> Result<Self> {
        let folder = match path {
            Some(path) => Folder::Kept(DataDir::open(path)?),
            None => Folder::Temporary(
                tempfile::Builder::new()
                    .prefix("brasserie-run-")
                    .tempdir()
                    .context("cannot make a temporary folder for statuses and logs; --data-dir DIR names another")?,
            ),
        };
        Ok(Directory {
            folder,
            record: None,
        })
    }

    /// Lets other commands find the scheduler of the run.
    pub(super) fn record(&mut self, run: &RunConfig, scheduler: &SchedulerHandle) -> Result<()> {
        let (address, id) = (scheduler.thrift_address(), scheduler.id());
        let record = RunRecord::new(address, id, &run.file, run.text.clone());
        record.write(&self.path())?;
        self.record = Some(record);
        Ok(())
    }

    pub(super) fn path(&self) -> PathBuf {
        match &self.folder {
            Folder::Kept(folder) => folder.path().to_owned(),
            Folder::Temporary(folder) => folder.path().to_owned(),
        }
    }

    /// A temporary folder goes after success, and stays for a look after anything else.
    pub(super) fn close(self, ending: Ending) -> Result<()> {
        let path = self.path();
        if let Some(record) = self.record {
            record.ended().write(&path)?;
        }
        let Folder::Temporary(folder) = self.folder else {
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
