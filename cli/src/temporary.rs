//! Temporary folders with files that the program did not write.

use std::io;
use std::path::{Path, PathBuf};

use brasserie_worker::remove_tree;
use tempfile::TempDir;

/// A folder that is deleted when it is dropped, with everything in it, however deep that is.
pub(crate) struct TemporaryFolder {
    path: PathBuf,
    is_kept: bool,
}

impl From<TempDir> for TemporaryFolder {
    fn from(folder: TempDir) -> Self {
        TemporaryFolder {
            path: folder.keep(),
            is_kept: false,
        }
    }
}

impl TemporaryFolder {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder where it is.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }

    /// Deletes the folder now.
    pub(crate) fn close(mut self) -> io::Result<()> {
        self.is_kept = true;
        remove_tree(&self.path)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Nobody waits for the result, and the folder is one for temporary files.
            let _ = remove_tree(&self.path);
        }
    }
}
