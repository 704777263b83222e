//! Makes the working directories of tasks: a folder for each job, and one for each user whose rights tasks of the job have.
//!
//! No folder ever changes its owner, and no other user can write to a folder above it. So no user finds files of another user there, or
//! can put a link where the worker expects a folder.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use brasserie_common::JobName;
use nix::errno::Errno;
use nix::unistd::{Gid, Uid, getegid, geteuid};

use super::accounts::{Accounts, ChosenRights};
use super::launch::Refused;
use super::refusals::{StartFailure, c_string};
use brasserie_common::file_name::file_name;

/// The folder of working directories. A worker makes it after it has stored `worker.json`.
pub const JOBS: &str = "jobs";
/// The folder of working directories of tasks with the rights of other users, one for each user.
pub const USERS: &str = "users";
/// The number of folders that are remembered as existing. With more jobs at once, a start only costs another `mkdir`.
const KNOWN: usize = 4096;
/// The mode of a folder that everybody may pass through, and nobody but its owner may list.
pub(crate) const PASSAGE: u32 = 0o711;
/// The mode of a folder that only its owner may enter.
pub(crate) const PRIVATE: u32 = 0o700;
/// The mode of a folder for its owner and its group. The worker has that group, so it can enter the folder without the right to ignore
/// modes.
const ENTERED: u32 = 0o710;

/// All folders of a worker's tasks.
pub(super) struct Folders {
    /// The folder of jobs whose tasks have the worker's rights.
    jobs: PathBuf,
    /// The folder of users, each of which has a folder for each job.
    users: PathBuf,
    own: Uid,
    group: Gid,
    known: HashMap<(JobName, FolderOwner), CString>,
}

/// The user that can write to a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FolderOwner {
    Worker,
    User(Uid),
    /// The directory is the job's `cwd`, which the worker neither creates nor owns.
    Job,
}

/// The working directory of a task.
#[derive(Clone, Debug)]
pub(super) struct WorkingDir {
    path: CString,
    owner: FolderOwner,
}

impl WorkingDir {
    /// Returns the job's `cwd`.
    pub(super) fn given(path: &str) -> Result<Self, StartFailure> {
        Ok(WorkingDir {
            path: c_string("the working directory", path.as_bytes())?,
            owner: FolderOwner::Job,
        })
    }

    /// Returns whether the directory is the job's `cwd`.
    pub(super) fn is_given(&self) -> bool {
        self.owner == FolderOwner::Job
    }

    pub(super) fn path(&self) -> &CStr {
        &self.path
    }

    /// Returns whether a start failed because somebody removed the directory.
    pub(super) fn is_lost(&self, refused: Refused) -> bool {
        refused.error == Errno::ENOENT && !self.is_given() && !as_path(&self.path).is_dir()
    }
}

impl Folders {
    /// Opens the folders. If tasks may have other users, restricts the data directory's contents and makes the folder of users passable.
    pub(super) fn open(data_dir: &Path, accounts: &Accounts) -> io::Result<Self> {
        let data_dir = std::path::absolute(data_dir)?;
        let (jobs, users) = (data_dir.join(JOBS), data_dir.join(USERS));
        fs::create_dir_all(&jobs).map_err(|error| {
            let message = format!("cannot create the folder {}: {error}", jobs.display());
            io::Error::new(error.kind(), message)
        })?;
        let own = geteuid();
        if accounts.names_others_than(own) {
            keep_out_of_reach(&data_dir, &users)?;
            let mode = fs::metadata(&data_dir)?.mode();
            if mode & 0o011 != 0o011 {
                fs::set_permissions(&data_dir, Permissions::from_mode(mode & 0o7777 | 0o011))?;
            }
            create_folder(&users, PASSAGE)?;
        }
        Ok(Folders {
            jobs,
            users,
            own,
            group: getegid(),
            known: HashMap::new(),
        })
    }

    /// Returns the working directory of a task, and makes it if it is missing.
    pub(super) fn of(
        &mut self,
        job: &JobName,
        chosen: Option<&ChosenRights>,
    ) -> Result<WorkingDir, StartFailure> {
        let owner = match chosen {
            Some(chosen) if chosen.user != self.own => FolderOwner::User(chosen.user),
            Some(_) | None => FolderOwner::Worker,
        };
        let key = (job.clone(), owner);
        if let Some(path) = self.known.get(&key) {
            let path = path.clone();
            return Ok(WorkingDir { path, owner });
        }
        let name = file_name(job.as_str());
        let path = match owner {
            FolderOwner::Worker | FolderOwner::Job => self.jobs.join(name),
            FolderOwner::User(user) => self.users.join(user.to_string()).join(name),
        };
        let path = c_string("the working directory", path.as_os_str().as_bytes())?;
        let dir = WorkingDir { path, owner };
        self.make(&dir)?;
        if self.known.len() >= KNOWN {
            self.known.clear();
        }
        self.known.insert(key, dir.path.clone());
        Ok(dir)
    }

    /// Makes the directory if it is missing.
    pub(super) fn make(&self, dir: &WorkingDir) -> Result<(), StartFailure> {
        let path = as_path(&dir.path);
        let made = match dir.owner {
            FolderOwner::Worker => fs::create_dir_all(path),
            FolderOwner::User(user) => self.make_for(path, user),
            FolderOwner::Job => Ok(()),
        };
        made.map_err(|e| {
            let path = path.display();
            StartFailure::of_worker(format!("cannot create the working directory {path}: {e}"))
        })
    }

    fn make_for(&self, path: &Path, user: Uid) -> io::Result<()> {
        create_folder(&self.users, PASSAGE)?;
        if let Some(above) = path.parent() {
            create_folder(above, PASSAGE)?;
        }
        create_folder(path, PRIVATE)?;
        let found = fs::symlink_metadata(path)?;
        let owner = Uid::from_raw(found.uid());
        if !found.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        if owner == user {
            return Ok(());
        }
        if owner != self.own {
            let text = format!("it belongs to the user {owner}; move it away");
            return Err(io::Error::other(text));
        }
        // The folder is new, or an earlier start was interrupted here. No other user can put anything in its place.
        fs::set_permissions(path, Permissions::from_mode(ENTERED))?;
        lchown(path, Some(user.as_raw()), Some(self.group.as_raw()))
    }
}

/// Restricts everything in the data directory to the worker's user, logs and output included, even if the directory itself was open to
/// all.
fn keep_out_of_reach(data_dir: &Path, users: &Path) -> io::Result<()> {
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if !about.is_symlink() && entry.path() != users {
            let mode = about.mode() & PRIVATE;
            fs::set_permissions(entry.path(), Permissions::from_mode(mode))?;
        }
    }
    Ok(())
}

/// Makes a folder of the worker's own, if it is missing.
pub(crate) fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    match create_new_folder(path, mode) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Makes a folder of the worker's own. Errors if something is there.
pub(crate) fn create_new_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)?;
    // The file mode mask of this process may have removed bits.
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn as_path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}
