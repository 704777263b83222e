//! Where tasks work: a folder for each job, and for each user with whose rights tasks of the job run.
//!
//! No folder ever changes hands, and none that somebody else can write to is above one: so nobody finds what another user left
//! there, nor can he put a link where the worker expects a folder.

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

use super::accounts::{Accounts, Chosen};
use super::command::{StartFailure, c_string};
use super::launch::Refused;
use crate::directory::JOBS;
use crate::file_name::file_name;

/// Folders that are known to exist; more jobs than this at once only cost a `mkdir` a start.
const KNOWN: usize = 4096;
/// Everybody may pass through, and see nothing.
const PASSAGE: u32 = 0o711;
/// For its owner alone.
const PRIVATE: u32 = 0o700;
/// For its owner alone; the worker, whose group it has, can enter it also without the right to pass over modes.
const ENTERED: u32 = 0o710;

/// All folders of a worker's tasks.
pub(super) struct Folders {
    /// Of jobs whose tasks have the worker's rights.
    jobs: PathBuf,
    /// In it a folder for each user, and therein one for each job.
    users: PathBuf,
    own: Uid,
    group: Gid,
    known: HashMap<(JobName, Owner), CString>,
}

/// Who can write to a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Worker,
    User(Uid),
    /// The directory is the job's `cwd`, which the worker neither creates nor owns.
    Job,
}

/// Where one task works.
#[derive(Clone, Debug)]
pub(super) struct WorkingDir {
    path: CString,
    owner: Owner,
}

impl WorkingDir {
    /// Returns the job's `cwd`.
    pub(super) fn given(path: &str) -> Result<Self, StartFailure> {
        Ok(WorkingDir {
            path: c_string("the working directory", path.as_bytes())?,
            owner: Owner::Job,
        })
    }

    /// Returns whether the directory is the job's `cwd`.
    pub(super) fn is_given(&self) -> bool {
        self.owner == Owner::Job
    }

    pub(super) fn path(&self) -> &CStr {
        &self.path
    }

    /// Whether a start failed because somebody removed it.
    pub(super) fn is_lost(&self, refused: Refused) -> bool {
        refused.error == Errno::ENOENT && !self.is_given() && !as_path(&self.path).is_dir()
    }
}

impl Folders {
    /// Other users must reach theirs, which no folder of the worker keeps them from afterwards.
    pub(super) fn open(data_dir: &Path, accounts: &Accounts) -> io::Result<Self> {
        let data_dir = std::path::absolute(data_dir)?;
        let (jobs, users) = (data_dir.join(JOBS), data_dir.join("users"));
        fs::create_dir_all(&jobs)?;
        let own = geteuid();
        if accounts.names_others_than(own) {
            keep_out_of_reach(&data_dir, &users)?;
            let mode = fs::metadata(&data_dir)?.mode();
            if mode & 0o011 != 0o011 {
                fs::set_permissions(&data_dir, Permissions::from_mode(mode & 0o7777 | 0o011))?;
            }
            passage(&users)?;
        }
        Ok(Folders {
            jobs,
            users,
            own,
            group: getegid(),
            known: HashMap::new(),
        })
    }

    /// Made if it is not there.
    pub(super) fn of(
        &mut self,
        job: &JobName,
        chosen: Option<&Chosen>,
    ) -> Result<WorkingDir, StartFailure> {
        let owner = match chosen {
            Some(chosen) if chosen.user != self.own => Owner::User(chosen.user),
            Some(_) | None => Owner::Worker,
        };
        let key = (job.clone(), owner);
        if let Some(path) = self.known.get(&key) {
            let path = path.clone();
            return Ok(WorkingDir { path, owner });
        }
        let name = file_name(job.as_str());
        let path = match owner {
            Owner::Worker | Owner::Job => self.jobs.join(name),
            Owner::User(user) => self.users.join(user.to_string()).join(name),
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

    /// Makes it, if it is not there.
    pub(super) fn make(&self, dir: &WorkingDir) -> Result<(), StartFailure> {
        let path = as_path(&dir.path);
        let made = match dir.owner {
            Owner::Worker => fs::create_dir_all(path),
            Owner::User(user) => self.make_for(path, user),
            Owner::Job => Ok(()),
        };
        made.map_err(|e| {
            let path = path.display();
            StartFailure::of_worker(format!("cannot create the working directory {path}: {e}"))
        })
    }

    fn make_for(&self, path: &Path, user: Uid) -> io::Result<()> {
        passage(&self.users)?;
        if let Some(above) = path.parent() {
            passage(above)?;
        }
        create(path, PRIVATE)?;
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
        // Just made, or a start was cut off here. Nobody else can put anything in its place.
        fs::set_permissions(path, Permissions::from_mode(ENTERED))?;
        lchown(path, Some(user.as_raw()), Some(self.group.as_raw()))
    }
}

/// What is in it is nobody else's business, logs and output among it, even where the directory itself was open to all.
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

/// A folder of the worker's own that others may pass through.
fn passage(path: &Path) -> io::Result<()> {
    match create(path, PASSAGE)? {
        // The mask of this process may have taken something away.
        Made::Now => fs::set_permissions(path, Permissions::from_mode(PASSAGE)),
        Made::Before => Ok(()),
    }
}

enum Made {
    Now,
    Before,
}

fn create(path: &Path, mode: u32) -> io::Result<Made> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(Made::Now),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Made::Before),
        Err(error) => Err(error),
    }
}

fn as_path(text: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(text.to_bytes()))
}
