//! The folders of runs with artifacts: one for each run, with its inputs and, unless the job has a `cwd` and thus no outputs, its working
//! directory.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::time::readable_duration;
use brasserie_common_artifacts::{TaskUser, remove_tree};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};

use crate::process::{Accounts, PASSAGE, PRIVATE, SpawnRequest, create_folder};

/// The folder of all runs with artifacts, below the data directory.
pub(crate) const RUNS: &str = "runs";

/// The time between two attempts to delete what could not be deleted. Its cause lasts until a person removes it, and each attempt reads all
/// that is left.
pub(super) const REMOVE_AGAIN: Duration = Duration::from_secs(600);

/// The folders of a worker's runs.
#[derive(Clone, Debug)]
pub(crate) struct RunFolders {
    root: PathBuf,
    accounts: Accounts,
    left: LeftFolders,
}

/// The folders of runs that have ended, or never began, that could not be deleted yet. Clones are the same.
#[derive(Clone, Debug, Default)]
struct LeftFolders(Arc<Mutex<BTreeSet<PathBuf>>>);

/// The folder of one run. Dropping it deletes nothing: call [`RunFolder::remove`].
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    pub root: PathBuf,
    /// The folder with the run's inputs.
    pub inputs: PathBuf,
    /// The working directory.
    pub work: PathBuf,
    pub user: TaskUser,
    left: LeftFolders,
}

impl RunFolders {
    /// Opens the folder of runs, and deletes what an earlier worker has left there: none of its processes is alive.
    pub(crate) fn open(data_dir: &Path, accounts: Accounts) -> io::Result<Self> {
        let root = std::path::absolute(data_dir)?.join(RUNS);
        let left = LeftFolders::default();
        if let Err(error) = remove_tree(&root) {
            tracing::warn!(
                "cannot delete {} of an earlier worker, and tries again every {}: {error}",
                root.display(),
                readable_duration(REMOVE_AGAIN)
            );
            let entries = fs::read_dir(&root).into_iter().flatten().flatten();
            left.0.lock().extend(entries.map(|entry| entry.path()));
        }
        Ok(RunFolders {
            root,
            accounts,
            left,
        })
    }

    /// Deletes what could not be deleted before.
    pub(super) fn remove_left(&self) {
        let left = self.left.0.lock().clone();
        for path in left {
            if remove_tree(&path).is_ok() {
                tracing::info!("deleted {}, which was left of a run", path.display());
                self.left.0.lock().remove(&path);
            }
        }
    }

    /// Makes the folder of a run. The error is a message.
    pub(crate) fn make(&self, request: &SpawnRequest) -> Result<RunFolder, String> {
        let options = &request.options;
        let user = self.accounts.user_of(options)?;
        let root = self.root.join(folder_name(request));
        let made = self.make_for(&root, user, options.working_directory.as_deref());
        let made = made.inspect_err(|_| self.left.remove(&root));
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
        remove_tree(root)?;
        self.left.0.lock().remove(root);
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
            left: self.left.clone(),
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

    /// Deletes the folder. If that fails, the worker tries again later. Every process of the run is dead.
    pub(super) fn remove(&self) {
        self.left.remove(&self.root);
    }
}

impl LeftFolders {
    fn remove(&self, path: &Path) {
        if let Err(error) = remove_tree(path) {
            tracing::warn!(
                "cannot delete the folder {} of a run that has ended, and tries again every {}: {error}",
                path.display(),
                readable_duration(REMOVE_AGAIN)
            );
            self.0.lock().insert(path.to_owned());
        }
    }
}

/// Makes a folder that only the user may enter. No other user can write to the folder above it.
fn create_for(path: &Path, user: TaskUser) -> io::Result<()> {
    create_folder(path, PRIVATE)?;
    match user == TaskUser::of_this_process() {
        true => Ok(()),
        false => lchown(path, Some(user.uid), Some(user.gid)),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use std::time::Instant;

    use brasserie_common::{InvocationId, JobName, NodeName, TaskSubprocessOptions, Time};
    use brasserie_worker_core::AssociationIndex;
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::geteuid;

    use super::*;
    use crate::process::RunKey;

    fn request() -> SpawnRequest {
        SpawnRequest {
            key: RunKey {
                invocation: InvocationId::new(1, 2),
                job: JobName::try_from("job").expect("a name"),
                node: NodeName::try_from("node").expect("a name"),
            },
            command: vec!["true".to_owned()],
            argument: String::new(),
            path_to_node: Vec::new(),
            options: TaskSubprocessOptions::default(),
            cuda_devices: Vec::new(),
            not_after: Time::NEVER,
            fence: None,
            association: AssociationIndex::FIRST,
            asked: Instant::now(),
            inputs: None,
        }
    }

    fn names_in(folder: &Path) -> usize {
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Mounts a disk in a folder, for this thread alone.
    fn keep_busy(folder: &Path) {
        let none = None::<&str>;
        fs::create_dir(folder).expect("a folder");
        unshare(CloneFlags::CLONE_NEWNS).expect("root may");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("root may");
        mount(Some("none"), folder, Some("tmpfs"), MsFlags::empty(), none).expect("root may");
    }

    #[test]
    fn a_folder_that_cannot_be_deleted_is_deleted_later() {
        if !geteuid().is_root() {
            eprintln!(
                "unproven: the removal of the folder of a run with a mounted disk needs root"
            );
            return;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().to_owned();
        let test = move || {
            let open = || RunFolders::open(&data, Accounts::default()).expect("a folder");
            let runs = data.join(RUNS);
            let folders = open();
            let run = folders.make(&request()).expect("a folder");
            let busy = run.work.join("busy");
            keep_busy(&busy);
            run.remove();
            folders.remove_left();
            assert_eq!(names_in(&runs), 1);
            // A successor has the same difficulty.
            let successor = open();
            umount2(&busy, MntFlags::MNT_DETACH).expect("ours");
            assert_eq!(names_in(&runs), 1);
            successor.remove_left();
            assert_eq!(names_in(&runs), 0);
        };
        thread::spawn(test).join().expect("no panic");
    }
}
