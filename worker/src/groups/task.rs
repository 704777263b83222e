//! The groups of one task: made together, entered together, watched and killed as one, removed together.

use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::unistd::{Pid, SysconfVar, sysconf};

use super::files::{self, FileError, open_to_write};
use super::killing::{self, Dir, Freezing, Racy};
use super::mounts::Version;
use super::plan::{Limits, Owner, Setting, Spot};
use super::{GroupError, GroupUsage, OutOfMemory, v1, v2};

/// Between two looks at groups that are being emptied: each wait is four times the last one, up to the longest.
const FIRST_WAIT: Duration = Duration::from_millis(10);
const WAIT_FACTOR: u32 = 4;
/// What hangs in a device or a file system for long is not worth more looks.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// What every machine that we know has, should it not say.
const USUAL_PAGE: u64 = 4096;
const PROCS: &str = "cgroup.procs";

/// A task's groups.
///
/// ```text
/// made --the child writes itself in--> populated --kill steps--> empty --removed--> (gone)
/// ```
///
/// Dropped before that, it removes what is empty and leaves the rest to the worker's next start.
#[derive(Debug)]
pub struct TaskGroup {
    dirs: Vec<Dir>,
    /// Open while the child is being started.
    joins: Vec<File>,
    limits: Limits,
    racy: Racy,
    freezing: Freezing,
    freeze_timeout: Duration,
    wait: Duration,
}

/// Whether processes of a task are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptying {
    /// Its groups are empty and removed.
    Gone,
    /// Look again after so long.
    Again(Duration),
}

impl TaskGroup {
    /// Tries all of them, so that one message names everything that is wrong; then nothing of them is left.
    pub(super) fn make(
        spots: &[Spot],
        name: &str,
        limits: Limits,
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
            (Err(error), Owner::Worker) if error.kind() == std::io::ErrorKind::NotFound => {
                fs::create_dir_all(&path).map_err(FileError::of("make", &path))?;
            }
            (Err(error), Owner::Worker | Owner::Administrator) => {
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
            // As it always was there: the administrator's release agent may tidy up after us.
            (Version::One, Owner::Administrator) => {
                files::write(&path, "notify_on_release", "1")?;
            }
            (Version::One | Version::Two, Owner::Worker | Owner::Administrator) => {}
        }
        for setting in &spot.settings {
            apply(&path, spot.version, *setting)?;
        }
        Ok(())
    }

    /// A process that writes `0` into each of these is in the task's groups, with everything that it ever starts.
    pub fn joins(&self) -> Vec<BorrowedFd<'_>> {
        self.joins.iter().map(AsFd::as_fd).collect()
    }

    /// Nobody joins any more.
    pub fn close_joins(&mut self) {
        self.joins.clear();
    }

    /// Moves a process that runs already.
    pub fn take_in(&self, pid: Pid) -> Result<(), GroupError> {
        for dir in &self.dirs {
            files::write(&dir.path, PROCS, &pid.to_string())?;
        }
        Ok(())
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Its folders.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|dir| dir.path.clone()).collect()
    }

    /// Stops all of its processes, whatever they do; it takes effect soon: [`TaskGroup::is_frozen`].
    pub fn freeze(&self) -> Result<(), GroupError> {
        match self.freezer() {
            Some(dir) if dir.version == Version::Two => Ok(v2::freeze(&dir.path)?),
            Some(dir) => Ok(v1::set_freezer(&dir.path, v1::FROZEN)?),
            None => Err(GroupError::NoFreezer),
        }
    }

    /// Lets them go on.
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

    /// Whether no process is in any of them.
    pub fn is_empty(&self) -> bool {
        self.dirs.iter().all(Dir::is_empty)
    }

    /// Does what ends all of its processes, as far as that goes without waiting.
    pub fn kill(&mut self) {
        killing::step(
            &self.dirs,
            self.racy,
            &mut self.freezing,
            self.freeze_timeout,
            Instant::now(),
        );
    }

    /// The end of the task: kills whoever is left, and removes the groups once nobody is.
    pub fn empty(&mut self) -> Emptying {
        if !self.is_empty() {
            self.kill();
        }
        if self.is_empty() && self.remove() {
            return Emptying::Gone;
        }
        Emptying::Again(self.next_wait())
    }

    /// How long to wait for a kill before the next one.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.wait;
        self.wait = (wait * WAIT_FACTOR).min(LONGEST_WAIT);
        wait
    }

    /// Whether all of them are gone.
    fn remove(&mut self) -> bool {
        self.joins.clear();
        self.dirs.retain(|dir| !dir.remove());
        self.dirs.is_empty()
    }

    /// The processes in them.
    pub fn processes(&self) -> Vec<Pid> {
        let all = self.dirs.iter().flat_map(Dir::processes);
        let unique: std::collections::BTreeSet<Pid> = all.collect();
        unique.into_iter().collect()
    }

    /// What was used so far, as far as the groups count it.
    pub fn usage(&self) -> GroupUsage {
        usage(&self.dirs)
    }

    /// To read the same elsewhere, while the task runs.
    pub fn meter(&self) -> Meter {
        Meter(self.dirs.clone())
    }

    /// Whether the kernel killed any of its processes for want of memory, and whose limit that was.
    pub fn out_of_memory(&self) -> Option<OutOfMemory> {
        let told = self.dirs.iter().find_map(|dir| match dir.version {
            Version::One => v1::out_of_memory(&dir.path),
            Version::Two => v2::out_of_memory(&dir.path),
        })?;
        // Without a limit of its own it was not that one.
        match self.limits.memory_bytes {
            Some(_) => Some(told),
            None => Some(OutOfMemory::Elsewhere),
        }
    }
}

/// Reads what a task's groups count. Of groups that are gone it reads nothing.
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
