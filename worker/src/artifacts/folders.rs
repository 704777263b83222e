//! The folders of runs with artifacts: one for each run, with its inputs and, if the job names no `cwd`, its working directory.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use brasserie_common::TaskSubprocessOptions;
use brasserie_worker_artifacts::TaskUser;

use crate::file_name::file_name;
use crate::process::{Accounts, RunKey};

/// The folder of all runs with artifacts, below the data directory.
pub(crate) const RUNS: &str = "runs";
/// The mode of a folder that everybody may pass through, and nobody but its owner may list.
const PASSAGE: u32 = 0o711;
/// The mode of a folder that only its owner may enter.
const PRIVATE: u32 = 0o700;

/// The folders of a worker's runs.
#[derive(Clone, Debug)]
pub(crate) struct RunFolders {
    root: PathBuf,
    accounts: Accounts,
}

/// The folder of one run. Dropping it deletes nothing: call [`RunFolder::remove`].
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    pub root: PathBuf,
    /// The folder with the run's inputs.
    pub inputs: PathBuf,
    /// The working directory.
    pub work: PathBuf,
    pub user: TaskUser,
}

impl RunFolders {
    /// Opens the folder of runs, and deletes what an earlier worker has left there: none of its processes is alive.
    pub(crate) fn open(data_dir: &Path, accounts: Accounts) -> io::Result<Self> {
        let root = std::path::absolute(data_dir)?.join(RUNS);
        match fs::remove_dir_all(&root) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        Ok(RunFolders { root, accounts })
    }

    /// Makes the folder of a run. The error is a message.
    pub(crate) fn make(
        &self,
        key: &RunKey,
        options: &TaskSubprocessOptions,
    ) -> Result<RunFolder, String> {
        let user = self.accounts.user_of(options)?;
        let root = self.root.join(file_name(&key.invocation.to_string()));
        let made = self.make_for(&root, user, options.working_directory.as_deref());
        made.map_err(|error| {
            format!(
                "cannot make the folder {} of the run: {error}",
                root.display()
            )
        })
    }

    fn make_for(&self, root: &Path, user: TaskUser, cwd: Option<&str>) -> io::Result<RunFolder> {
        create(&self.root, PASSAGE)?;
        create(root, PASSAGE)?;
        let inputs = root.join("inputs");
        create_for(&inputs, user)?;
        let work = match cwd {
            Some(cwd) => PathBuf::from(cwd),
            None => {
                let work = root.join("work");
                create_for(&work, user)?;
                work
            }
        };
        Ok(RunFolder {
            root: root.to_owned(),
            inputs,
            work,
            user,
        })
    }
}

impl RunFolder {
    /// Makes the folders in which an input has its place, for the user of the run.
    pub(super) fn make_below_inputs(&self, place: &Path) -> io::Result<()> {
        let mut above = self.inputs.clone();
        for part in place.parent().into_iter().flat_map(Path::components) {
            above.push(part);
            create_for(&above, self.user)?;
        }
        Ok(())
    }

    /// Opens the working directory. Every process of the run is dead.
    pub(crate) fn open_work(&self) -> io::Result<File> {
        File::open(&self.work)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }
}

/// Makes a folder of the worker's own, if it is missing.
fn create(path: &Path, mode: u32) -> io::Result<()> {
    match fs::DirBuilder::new().mode(mode).create(path) {
        // The file mode mask of this process may have removed bits.
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a folder that only the user may enter. No other user can write to the folder above it.
fn create_for(path: &Path, user: TaskUser) -> io::Result<()> {
    create(path, PRIVATE)?;
    match user == TaskUser::of_this_process() {
        true => Ok(()),
        false => lchown(path, Some(user.uid), Some(user.gid)),
    }
}
