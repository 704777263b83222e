//! The folders of runs with artifacts: one for each run, with its inputs and, unless the job has a `cwd` and thus no outputs, its working
//! directory.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use brasserie_common_artifacts::TaskUser;
use rustix::fs::{Mode, OFlags};

use crate::process::{Accounts, PASSAGE, PRIVATE, SpawnRequest, create_folder};

/// The folder of all runs with artifacts, below the data directory.
pub(crate) const RUNS: &str = "runs";

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
        if let Err(error) = remove_all(&root) {
            tracing::warn!(
                "cannot delete {} of an earlier worker: {error}",
                root.display()
            );
        }
        Ok(RunFolders { root, accounts })
    }

    /// Makes the folder of a run. The error is a message.
    pub(crate) fn make(&self, request: &SpawnRequest) -> Result<RunFolder, String> {
        let options = &request.options;
        let user = self.accounts.user_of(options)?;
        let root = self.root.join(folder_name(request));
        let made = self.make_for(&root, user, options.working_directory.as_deref());
        let made = made.inspect_err(|_| drop(remove_all(&root)));
        made.map_err(|error| {
            format!(
                "cannot make the folder {} of the run: {error}",
                root.display()
            )
        })
    }

    fn make_for(&self, root: &Path, user: TaskUser, cwd: Option<&str>) -> io::Result<RunFolder> {
        create_folder(&self.root, PASSAGE)?;
        // A folder of this name is left of a run that could not be deleted.
        remove_all(root)?;
        create_folder(root, PRIVATE)?;
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

/// Returns the name of the folder of a run: letters, digits and `-`, because tasks put its path into shell commands and formats. Only one
/// scheduler's invocations differ from each other, so the name begins with the association.
fn folder_name(request: &SpawnRequest) -> String {
    let invocation = request.key.invocation.to_string();
    format!("{}-{}", request.association.0, invocation.replace(':', "-"))
}

impl RunFolder {
    /// Makes a folder for inputs, and those above it, for the user of the run.
    pub(super) fn make_below_inputs(&self, folder: &Path) -> io::Result<()> {
        let mut made = self.inputs.clone();
        for part in folder.components() {
            made.push(part);
            create_for(&made, self.user)?;
        }
        Ok(())
    }

    /// Lets the user of the run pass through to its folders. Until then nobody but the worker can change what is in them, so no link can be
    /// put where the worker writes.
    pub(super) fn hand_over(&self) -> io::Result<()> {
        fs::set_permissions(&self.root, Permissions::from_mode(PASSAGE))
    }

    /// Opens the working directory, which the run may have replaced by anything. Every process of the run is dead.
    pub(super) fn open_work(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY
            | OFlags::DIRECTORY
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.work, flags, Mode::empty())?)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        remove_all(&self.root)
    }
}

/// Deletes a folder with everything in it, also folders that a run has made read-only. Every process of the run is dead.
fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(path)?;
            fs::remove_dir_all(path)
        }
        removed => removed,
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Makes all folders below a path writable for their owner.
fn unlock(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
    for entry in fs::read_dir(path)? {
        unlock(&entry?.path())?;
    }
    Ok(())
}

/// Makes a folder that only the user may enter. No other user can write to the folder above it.
fn create_for(path: &Path, user: TaskUser) -> io::Result<()> {
    create_folder(path, PRIVATE)?;
    match user == TaskUser::of_this_process() {
        true => Ok(()),
        false => lchown(path, Some(user.uid), Some(user.gid)),
    }
}
