//! The worker's data directory. It has one user at a time and an identity that survives restarts. When a worker takes it over, no process
//! of its predecessor is alive.
//!
//! | name | holds |
//! |---|---|
//! | `lock` | locked exclusively while a worker uses the directory |
//! | `worker.json` | machine-lock number, last start time, marker and boot id of the last user |
//! | `groups` | process groups of running tasks, and the PID namespace in which their numbers count |
//! | `cgroups` | locations of the tasks' control groups ([`crate::groups::places`]); only if there were any |
//! | `jobs/` | working directories of tasks |
//! | `logs/` | output of tasks |
//! | `output/` | output of tasks that want it in files |
//!
//! A predecessor that was killed together with its keeper leaves tasks behind. The successor finds them in three ways: by the limit that
//! marks tasks and follows from the marker ([`crate::process::LimitMarks`]), by the marker in the environment, which all descendants of a
//! worker inherit, and by the list of process groups. [`leftovers`] explains when a number in the list certainly belongs to a task. A
//! process that may belong to a task, but not certainly, is not killed, and the worker does not start.
//!
//! No task can slip in between: a child that is just being started still has the descriptor of the lock until it executes its program. So
//! the lock becomes free only when the child carries the marker. One gap remains, microseconds wide, unless control groups close it:
//! worker and keeper are both killed at the instant at which a task has cleared its environment and the worker has not yet listed it.

mod groups;
mod leftovers;
mod namespace;
mod state;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use brasserie_common::worker::MachinePortLock;
use brasserie_common::{InstanceId, Time, WallTime, WorkerId};
use brasserie_common_runtime::files::Owner;
use brasserie_common_runtime::{Clock, DataDir, DataDirError, FileId, PinnedFile};
use parking_lot::Mutex;

pub(crate) use groups::{GroupList, HeldUntil, ListedGroup, Slot};
use groups::{Header, NamespaceLifetime};
pub use leftovers::LeftoverError;
pub(crate) use leftovers::{Numbers, Search};
use leftovers::{Original, SameBoot};
use namespace::PidNamespace;
use state::{DirectoryState, LockNumber};

use crate::groups::places;
use crate::marker::Marker;
use crate::pid_namespace::{WorkerNamespace, own_pid};
pub use crate::process::{JOBS, USERS};
use crate::variables::SWEPT_VARIABLE;

/// The time that killed processes of a predecessor's control groups get to disappear.
pub(crate) const LEFTOVER_PATIENCE: Duration = Duration::from_secs(10);

/// The folder of task logs.
const LOGS: &str = "logs";

/// The time to wait for a locked directory. A starting process needs milliseconds until it executes its program, and a person who has
/// started a second worker should learn it soon.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two attempts to lock the directory.
const LOCK_RETRY: Duration = Duration::from_millis(10);

/// The shortest pause between two instances of one process, after the first one.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause between two instances, even if the clock was set back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The reason why a worker cannot use a directory.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("cannot use {}: {error}", path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} cannot be understood: {reason}. If this directory is not a worker's, choose another --data-dir; if it is, end all tasks \
         of that worker on this machine and remove `worker.json` and `jobs` from the directory", path.display())]
    Malformed { path: PathBuf, reason: String },
    #[error("{} is missing, but a worker has used the directory, and without the file its successor cannot find all tasks that still \
         run. Put the file back; or end all tasks of that worker on this machine and remove `jobs` from the directory", path.display())]
    Missing { path: PathBuf },
    #[error("{} is of version {found}, and this program knows only up to {}: use the newer brasserie-worker again", path.display(), state::VERSION)]
    Newer { path: PathBuf, found: u64 },
    #[error(transparent)]
    Leftover(#[from] LeftoverError),
    #[error("{} was used or locked by another worker while this one was starting; start this one again", path.display())]
    NotSwept { path: PathBuf },
    #[error("cannot read the name of this machine: {0}")]
    Hostname(io::Error),
}

/// A directory in use by this process, in which no process of an earlier user is left.
#[derive(Debug)]
pub struct WorkerDirectory {
    dir: DataDir,
    identity: Identity,
    groups: Arc<Mutex<GroupList>>,
    instances: Arc<Instances>,
    pinned: Vec<PinnedFile>,
}

/// The source of instances for the directory's users. Each instance begins in a later second than any before it.
#[derive(Debug)]
pub(crate) struct Instances {
    file: PathBuf,
    dealt: Mutex<Dealt>,
    clock: Clock,
}

#[derive(Debug)]
struct Dealt {
    /// The state as it is stored.
    state: DirectoryState,
    /// The time at which the last instance was made.
    at: Time,
}

/// A further instance, or the wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Further {
    New(WorkerId),
    /// The wait until the instance's start second.
    NotBefore(Duration),
}

/// The names and identifiers of a worker that uses the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The machine lock, the same for every worker that ever uses this very directory on this machine.
    pub machine_lock: MachinePortLock,
    /// The worker instance. It starts at least a second later than that of every earlier user.
    pub instance: WorkerId,
}

impl Identity {
    /// Returns the machine lock number `at`: the first one, or one of those that follow it. No other directory has them.
    pub(crate) fn machine_lock_of(&self, at: usize) -> MachinePortLock {
        MachinePortLock {
            hostname: Arc::clone(&self.machine_lock.hostname),
            port: LockNumber::behind(self.machine_lock.port, at),
        }
    }
}

impl WorkerDirectory {
    /// Locks the directory, ends the leftover processes of a predecessor, and stores the new identity durably. Blocks, at most for
    /// [`leftovers::PATIENCE`] and two disk syncs.
    pub fn open(
        path: &Path,
        marker: Option<&Marker>,
        clock: Clock,
    ) -> Result<Self, DirectoryError> {
        let dir = lock(path)?;
        let file = state::path(dir.path());
        let before = DirectoryState::load(&file)?;
        if before.is_none() && dir.path().join(JOBS).exists() {
            return Err(DirectoryError::Missing { path: file });
        }
        let boot = state::boot_id();
        if let Some(before) = &before {
            end_predecessor(dir.path(), before, &boot, marker)?;
        }
        let groups = GroupList::create(dir.path(), header(clock))?;
        let pin = |path: PathBuf| PinnedFile::at(path.clone()).map_err(io_error(&path));
        let pinned = vec![
            pin(dir.path().to_owned())?,
            pin(dir.path().join(groups::FILE))?,
        ];
        let directory = FileId::at(dir.path()).map_err(io_error(dir.path()))?;
        let lock_file = LockNumber::file_of(dir.path())?;
        let lock_number = match before.as_ref().map(|b| b.lock_number) {
            Some(number) if number.file == lock_file => number,
            Some(_) | None => LockNumber::draw(clock.seed(), lock_file),
        };
        let last_start = before.as_ref().map_or(i64::MIN, |b| b.last_start_time);
        let schedulers = before.map_or_else(Vec::new, |b| b.schedulers);
        let instances = Instances {
            file,
            dealt: Mutex::new(Dealt {
                state: DirectoryState::new(
                    lock_number,
                    last_start,
                    boot,
                    marker,
                    schedulers,
                    directory,
                ),
                at: clock.now(),
            }),
            clock,
        };
        let instance = instances.next()?;
        let hostname = hostname()?;
        let identity = Identity {
            machine_lock: MachinePortLock {
                hostname: hostname.into(),
                port: lock_number.number,
            },
            instance,
        };
        Ok(WorkerDirectory {
            dir,
            identity,
            groups: Arc::new(Mutex::new(groups)),
            instances: Arc::new(instances),
            pinned,
        })
    }

    /// Ends the leftover processes of a predecessor, on behalf of a worker that is about to start in a namespace. The worker could not
    /// see processes outside of its namespace, so the keeper calls this. Returns the value of [`SWEPT_VARIABLE`] for the worker, which
    /// names the last user of the directory. Does nothing in a directory that is in use; the worker reports that later. Blocks, at most
    /// for [`leftovers::PATIENCE`] and [`LEFTOVER_PATIENCE`].
    pub(crate) fn sweep(path: &Path) -> Result<String, DirectoryError> {
        let dir = match lock(path) {
            Err(DataDirError::InUse { .. }) => return Ok(String::new()),
            result => result?,
        };
        let Some(before) = DirectoryState::load(&state::path(dir.path()))? else {
            return Ok(String::new());
        };
        let boot = state::boot_id();
        if same_boot(&before, &boot).is_some() {
            end_predecessor(dir.path(), &before, &boot, None)?;
            if before.init.is_none() {
                places::remove_leftovers(&dir.path().join(places::FILE), LEFTOVER_PATIENCE);
            }
        }
        Ok(before.user())
    }

    /// Returns the absolute path.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the folder of task logs, and creates it if it is missing.
    pub fn logs(&self) -> Result<PathBuf, DirectoryError> {
        Ok(self.dir.folder(LOGS)?)
    }

    /// Returns the path of the folder of task logs, which may not exist.
    pub(crate) fn log_folder(&self) -> PathBuf {
        self.path().join(LOGS)
    }

    /// Returns the files that must be at their paths when a task starts: the directory, and the list of process groups. A successor could
    /// not find a task that was started without them.
    pub(crate) fn pinned(&self) -> &[PinnedFile] {
        &self.pinned
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the source of further instances for this process.
    pub(crate) fn instances(&self) -> Arc<Instances> {
        Arc::clone(&self.instances)
    }

    /// Returns the list of process groups, which must record every start and end of a task.
    pub(crate) fn groups(&self) -> Arc<Mutex<GroupList>> {
        Arc::clone(&self.groups)
    }
}

/// Ends the leftover processes of the directory's last user. `boot` is the present boot id.
fn end_predecessor(
    dir: &Path,
    before: &DirectoryState,
    boot: &str,
    marker: Option<&Marker>,
) -> Result<(), DirectoryError> {
    let Some(boot) = same_boot(before, boot) else {
        return Ok(());
    };
    let directory = FileId::at(dir).map_err(io_error(dir))?;
    let original = match before.directory {
        Some(original) if original != directory => Original::Copy,
        Some(_) | None => Original::Yes,
    };
    if let Some(init) = &before.init
        && init.is_seen()
    {
        if original == Original::Copy && init.is_alive() {
            let pids = vec![init.pid()];
            return Err(LeftoverError::Copied { pids }.into());
        }
        // The kernel kills everything in the namespace when its PID 1 dies. But the lock of this directory becomes free a moment earlier,
        // and PID 1 lives on as long as a process of the namespace hangs in the kernel. Numbers in the list count in that namespace.
        return Ok(leftovers::wait_for_namespace(init)?);
    }
    if WorkerNamespace::of_this_process().is_some() {
        let swept = std::env::var(SWEPT_VARIABLE).unwrap_or_default();
        return match swept == before.user() {
            true => Ok(()),
            false => Err(DirectoryError::NotSwept {
                path: dir.to_owned(),
            }),
        };
    }
    let left = GroupList::read(dir)?;
    // A predecessor in this very process has this process's own marker. It ended in good order, and its marker is also on everything else
    // of this process.
    let old_marker = before.marker().filter(|old| marker != Some(old));
    let file = leftovers::file(dir);
    Ok(leftovers::end(
        old_marker.as_ref(),
        left,
        boot,
        file,
        original,
    )?)
}

impl Instances {
    /// Assigns a machine lock to each of these schedulers, as an argument for [`Identity::machine_lock_of`]. Blocks for a disk sync if an
    /// assignment is new.
    pub(crate) fn lock_places(&self, called: &[String]) -> Result<Vec<usize>, DirectoryError> {
        let mut dealt = self.dealt.lock();
        let (places, schedulers) = state::lock_places(&dealt.state.schedulers, called);
        if schedulers != dealt.state.schedulers {
            let after = dealt.state.with_schedulers(schedulers);
            after.store(&self.file)?;
            dealt.state = after;
        }
        Ok(places)
    }

    /// Returns a new instance at once, stored durably, for a worker that starts. Blocks for a disk sync.
    pub(crate) fn next(&self) -> Result<WorkerId, DirectoryError> {
        self.deal(&mut self.dealt.lock())
    }

    /// Returns a new instance to replace one that has ended. An association whose scheduler answers MUST_DIE each time gets one instance
    /// a second, and no start second lies in the future. Blocks for a disk sync.
    pub(crate) fn further(&self) -> Result<Further, DirectoryError> {
        let mut dealt = self.dealt.lock();
        let last = dealt.state.last_start_time;
        let since = self.clock.now().since(dealt.at);
        let pause = pause(last, self.clock.wall(), since);
        match pause.is_zero() {
            true => self.deal(&mut dealt).map(Further::New),
            false => Ok(Further::NotBefore(pause)),
        }
    }

    fn deal(&self, dealt: &mut Dealt) -> Result<WorkerId, DirectoryError> {
        let last = dealt.state.last_start_time;
        // A file with a later start time than [`state`] allows is refused, so there is always a later second.
        let start_time = self.clock.wall().as_secs().max(last.saturating_add(1));
        let after = dealt.state.used_at(start_time);
        after.store(&self.file)?;
        dealt.state = after;
        dealt.at = self.clock.now();
        let rand = self.clock.seed().cast_signed();
        Ok(WorkerId(InstanceId { start_time, rand }))
    }
}

/// Compares the boot of the last user with the present one. `None` if they differ: then none of its processes is alive, and its process
/// ids belong to others.
fn same_boot(before: &DirectoryState, boot: &str) -> Option<SameBoot> {
    match before.boot_id.as_str() {
        before if before.is_empty() || boot.is_empty() => Some(SameBoot::Unknown),
        before => (before == boot).then_some(SameBoot::Yes),
    }
}

/// Returns the header for this process's list, or `None` if `/proc` does not show the namespace.
fn header(clock: Clock) -> Option<Header> {
    let lifetime = match namespace::ends_with_worker() {
        true => NamespaceLifetime::Worker,
        false => NamespaceLifetime::Shared,
    };
    PidNamespace::of_this_process().map(|namespace| Header {
        namespace,
        lifetime,
        held: clock.now(),
    })
}

/// Returns the wait before a further instance, if the last one began in second `last` and was made `since` ago.
fn pause(last: i64, wall: WallTime, since: Duration) -> Duration {
    let own = WallTime::from_secs(last.saturating_add(1));
    let until_then = wall.until(own).min(LONGEST_PAUSE.saturating_sub(since));
    until_then.max(SHORTEST_PAUSE.saturating_sub(since))
}

/// Takes the lock. A child that a killed predecessor was just starting may hold the lock for a moment.
fn lock(path: &Path) -> Result<DataDir, DataDirError> {
    let give_up = Instant::now() + LOCK_PATIENCE;
    let holder = own_pid().as_raw().unsigned_abs();
    loop {
        match DataDir::open_as(path, holder) {
            Err(DataDirError::InUse { .. }) if Instant::now() < give_up => {
                thread::sleep(LOCK_RETRY);
            }
            result => return result?.of(Owner::Worker),
        }
    }
}

/// Returns this machine's name.
pub fn hostname() -> Result<String, DirectoryError> {
    match nix::unistd::gethostname() {
        Ok(name) => Ok(name.to_string_lossy().into_owned()),
        Err(error) => Err(DirectoryError::Hostname(error.into())),
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> DirectoryError {
    move |error| DirectoryError::Io {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests;
