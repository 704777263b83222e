//! The groups of one task, which are made, entered, watched, killed and removed together.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, SysconfVar, sysconf};

use super::files::{self, FileError, open_to_write};
use super::killing::{self, Dir, Freezing, Racy};
use super::mounts::Version;
use super::plan::{GroupLimits, GroupOwner, Setting, Spot};
use super::{GroupError, GroupUsage, OutOfMemory, v1, v2};

/// The pause between two checks of groups that are being emptied. Each wait is four times the last one, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const WAIT_FACTOR: u32 = 4;
/// The longest pause. A process that lives longer hangs in a device or a file system, and frequent checks are not worthwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// The page size if the system does not report it, in bytes.
const USUAL_PAGE: u64 = 4096;
const PROCS: &str = "cgroup.procs";

/// A task's groups.
///
/// ```text
/// made --the child writes itself in--> populated --kill steps--> empty --removed--> (gone)
/// ```
///
/// If dropped earlier, it removes empty groups and leaves the others to the worker's next start.
#[derive(Debug)]
pub struct TaskGroup {
    dirs: Vec<Dir>,
    /// The `cgroup.procs` files, open while the child is being started.
    joins: Vec<File>,
    limits: GroupLimits,
    racy: Racy,
    freezing: Freezing,
    freeze_timeout: Duration,
    wait: Duration,
}

/// Whether processes of a task are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptying {
    /// The groups are empty and removed.
    Gone,
    /// Processes may be left. The caller checks again after this time.
    Again(Duration),
}

impl TaskGroup {
    /// Makes all groups. Errors with one message that names everything that failed, and then leaves no group behind.
    pub(super) fn make(
        spots: &[Spot],
        name: &str,
        limits: GroupLimits,
        racy: Racy,
        freeze_timeout: Duration,
    ) -> Result<Self, GroupError> {
        let mut group = TaskGroup {
            dirs: Vec::new(),
            joins: Vec::new(),
            limits,
            racy,
            freezing: Freezing::default(),
            freeze_timeout,
            wait: FIRST_WAIT,
        };
        let mut errors = Vec::new();
        for spot in spots {
            if let Err(error) = group.add(spot, name) {
                errors.push(error);
            }
        }
        match GroupError::of_all(errors) {
            Some(error) => Err(error),
            None => Ok(group),
        }
    }

    fn add(&mut self, spot: &Spot, name: &str) -> Result<(), GroupError> {
        let path = spot.parent.join(name);
        match (fs::create_dir(&path), spot.owner) {
            (Ok(()), _) => {}
            (Err(error), GroupOwner::Worker) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(&path).map_err(FileError::of("make", &path))?;
            }
            (Err(error), GroupOwner::Worker | GroupOwner::Administrator) => {
                return Err(FileError::of("make", &path)(error).into());
            }
        }
        self.dirs.push(Dir {
            path: path.clone(),
            version: spot.version,
        });
        let procs = path.join(PROCS);
        let join = open_to_write(&procs).map_err(FileError::of("open", &procs))?;
        self.joins.push(join);
        match (spot.version, spot.owner) {
            // The original Bistro did the same: the administrator's release agent may remove the empty group.
            (Version::One, GroupOwner::Administrator) => {
                files::write(&path, "notify_on_release", "1")?;
            }
            (Version::One | Version::Two, GroupOwner::Worker | GroupOwner::Administrator) => {}
        }
        for setting in &spot.settings {
            apply(&path, spot.version, *setting)?;
        }
        Ok(())
    }

    /// Returns the files that let a process join. A process that writes `0` into each is in the task's groups, with all its descendants.
    pub fn joins(&self) -> Vec<BorrowedFd<'_>> {
        self.joins.iter().map(AsFd::as_fd).collect()
    }

    /// Closes the files: no further process joins.
    pub fn close_joins(&mut self) {
        self.joins.clear();
    }

    /// Moves a running process into the groups.
    pub fn take_in(&self, pid: Pid) -> Result<(), GroupError> {
        for dir in &self.dirs {
            files::write(&dir.path, PROCS, &pid.to_string())?;
        }
        Ok(())
    }

    pub fn limits(&self) -> GroupLimits {
        self.limits
    }

    /// Returns the folders of the groups.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| dir.path.clone()).collect()
    }

    /// Stops all of the task's processes, whatever they do. It takes effect soon: see [`TaskGroup::is_frozen`].
    pub fn freeze(&self) -> Result<(), GroupError> {
        match self.freezer() {
            Some(dir) if dir.version == Version::Two => Ok(v2::freeze(&dir.path)?),
            Some(dir) => Ok(v1::set_freezer(&dir.path, v1::FROZEN)?),
            None => Err(GroupError::NoFreezer),
        }
    }

    /// Continues frozen processes.
    pub fn thaw(&self) -> Result<(), GroupError> {
        match self.freezer() {
            Some(dir) if dir.version == Version::Two => Ok(v2::thaw(&dir.path)?),
            Some(dir) => Ok(v1::set_freezer(&dir.path, v1::THAWED)?),
            None => Err(GroupError::NoFreezer),
        }
    }

    pub fn is_frozen(&self) -> bool {
        self.freezer().is_some_and(|dir| match dir.version {
            Version::Two => v2::is_frozen(&dir.path),
            Version::One => files::read(&dir.path, v1::FREEZER_STATE)
                .is_some_and(|state| state.trim() == v1::FROZEN),
        })
    }

    fn freezer(&self) -> Option<&Dir> {
        let mut dirs = self.dirs.iter();
        dirs.find(|dir| dir.version == Version::Two || v1::is_freezer(&dir.path))
    }

    /// Returns whether no process is in any of the groups.
    pub fn is_empty(&self) -> bool {
        self.dirs.iter().all(Dir::is_empty)
    }

    /// Performs the kill steps that need no wait.
    pub fn kill(&mut self) {
        killing::step(
            &self.dirs,
            self.racy,
            &mut self.freezing,
            self.freeze_timeout,
            Instant::now(),
        );
    }

    /// Kills the remaining processes, and removes the groups once they are empty.
    pub fn empty(&mut self) -> Emptying {
        if !self.is_empty() {
            self.kill();
        }
        if self.is_empty() && self.remove() {
            return Emptying::Gone;
        }
        Emptying::Again(self.next_wait())
    }

    /// Returns the wait before the next kill step.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * WAIT_FACTOR).min(LONGEST_WAIT);
        wait
    }

    /// Removes empty groups. Returns whether all are gone.
    fn remove(&mut self) -> bool {
        self.joins.clear();
        self.dirs.retain(|dir| !dir.remove());
        self.dirs.is_empty()
    }

    /// Returns the processes in the groups.
    pub fn processes(&self) -> Vec<Pid> {
        let all = self.dirs.iter().flat_map(Dir::processes);
        let unique: std::collections::BTreeSet<Pid> = all.collect();
        unique.into_iter().collect()
    }

    /// Returns the usage so far that the groups count.
    pub fn usage(&self) -> GroupUsage {
        usage(&self.dirs)
    }

    /// Returns a reader of the same counts, for use elsewhere while the task runs.
    pub fn meter(&self) -> Meter {
        Meter(self.dirs.clone())
    }

    /// Returns the limit because of which the kernel killed any of the task's processes for memory, or `None`.
    pub fn out_of_memory(&self) -> Option<OutOfMemory> {
        let told = self.dirs.iter().find_map(|dir| match dir.version {
            Version::One => v1::out_of_memory(&dir.path),
            Version::Two => v2::out_of_memory(&dir.path),
        })?;
        // A task without a memory limit reached another limit.
        match self.limits.memory_bytes {
            Some(_) => Some(told),
            None => Some(OutOfMemory::Elsewhere),
        }
    }
}

/// A reader of the counts of a task's groups. For groups that are gone it returns nothing.
#[derive(Clone, Debug)]
pub struct Meter(Vec<Dir>);

impl Meter {
    pub fn usage(&self) -> GroupUsage {
        usage(&self.0)
    }
}

fn usage(dirs: &[Dir]) -> GroupUsage {
    let each = dirs.iter().map(|dir| match dir.version {
        Version::One => v1::usage(&dir.path),
        Version::Two => v2::usage(&dir.path),
    });
    each.fold(GroupUsage::default(), GroupUsage::or)
}

impl Drop for TaskGroup {
    fn drop(&mut self) {
        self.remove();
    }
}

fn apply(dir: &std::path::Path, version: Version, setting: Setting) -> Result<(), GroupError> {
    match version {
        Version::One => v1::apply(dir, setting, page_bytes()),
        Version::Two => v2::apply(dir, setting, page_bytes()),
    }
}

fn page_bytes() -> u64 {
    let told = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
    told.and_then(|bytes| u64::try_from(bytes).ok())
        .filter(|bytes| *bytes > 0)
        .unwrap_or(USUAL_PAGE)
}
