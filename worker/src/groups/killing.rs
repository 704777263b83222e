//! Ends all processes in groups, one step at a time, so that the caller never waits.
//!
//! | the group | the method |
//! |---|---|
//! | version 2 with `cgroup.kill` | that file kills all processes at once, whatever they do |
//! | version 2 before Linux 5.14, without that file | freeze, then SIGKILL to each: frozen processes die, too |
//! | a freezer of version 1 | freeze, SIGKILL to each, thaw: no process can start another meanwhile; after the timeout also if it is not frozen |
//! | `pids.max` of version 1 | write 0 into it, then SIGKILL to each, repeated until no process is left |
//! | none of these | SIGKILL to each, repeated until no process is left: only if that is allowed |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use super::files::{self, tree};
use super::mounts::Version;
use super::{v1, v2};

/// The folder of one control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dir {
    pub path: PathBuf,
    pub version: Version,
}

/// Whether SIGKILL may go to process ids that were read a moment ago and may belong to other processes by now, if nothing stops the
/// processes. A freezer that missed its timeout, and `pids.max`, permit it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Racy {
    Allowed,
    Forbidden,
}

/// The progress of a freezer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freezing {
    /// The time at which the freezing began.
    since: Option<Instant>,
}

impl Dir {
    /// Returns an existing group. Its files show its version.
    pub fn found(path: PathBuf) -> Self {
        let version = match files::exists(&path, v2::EVENTS) {
            true => Version::Two,
            false => Version::One,
        };
        Dir { path, version }
    }

    /// Returns whether no process is in the group or below it. A group that is gone is empty.
    pub fn is_empty(&self) -> bool {
        match self.version {
            Version::Two => !v2::is_populated(&self.path).unwrap_or(false),
            Version::One => tree(&self.path).iter().all(|group| is_bare(group)),
        }
    }

    /// Returns the processes in the group and below it.
    pub fn processes(&self) -> BTreeSet<Pid> {
        let groups = tree(&self.path);
        let texts = groups.iter().filter_map(|g| files::read(g, "cgroup.procs"));
        let mut found: BTreeSet<i32> = BTreeSet::new();
        for text in texts {
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        // An id of 0 stands for a process that is invisible here. As arguments of `kill`, ids below 2 would mean groups or the machine's
        // first process.
        found.retain(|pid| *pid > 1);
        found.into_iter().map(Pid::from_raw).collect()
    }

    /// Removes the group with all groups below it. Returns whether it is gone.
    pub fn remove(&self) -> bool {
        for group in tree(&self.path) {
            match std::fs::remove_dir(&group) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // A process that is just dying still counts.
                Err(_) => return false,
            }
        }
        true
    }
}

/// Returns whether no process is directly in the group. Reading one byte suffices.
fn is_bare(group: &Path) -> bool {
    use std::io::Read;
    let mut byte = [0];
    let file = std::fs::File::open(group.join("cgroup.procs"));
    !matches!(file.and_then(|mut file| file.read(&mut byte)), Ok(1..))
}

/// Kills the processes in these groups, all of one task, as far as possible without a wait. The caller repeats the step until all groups
/// are empty. `freezing` keeps the progress between steps. `freeze_timeout` limits the time that a freezer of version 1 gets.
pub fn step(
    dirs: &[Dir],
    racy: Racy,
    freezing: &mut Freezing,
    freeze_timeout: Duration,
    now: Instant,
) {
    let left: Vec<&Dir> = dirs.iter().filter(|dir| !dir.is_empty()).collect();
    if left.is_empty() {
        return;
    }
    let unified = left.iter().filter(|dir| dir.version == Version::Two);
    let killed = unified
        .filter(|dir| v2::kill(&dir.path) || freeze_and_kill(dir))
        .count();
    if killed > 0 {
        return;
    }
    let freezer = left.iter().find(|dir| v1::is_freezer(&dir.path));
    if let Some(freezer) = freezer {
        return kill_frozen(freezer, freezing, freeze_timeout, now);
    }
    let closed = dirs
        .iter()
        .filter(|dir| v1::forbid_forks(&dir.path))
        .count();
    if closed > 0 || racy == Racy::Allowed {
        kill_each(left.into_iter().flat_map(Dir::processes));
    }
}

/// Freezes a group of version 2 and kills its processes. Returns whether the group can be frozen. Freezing takes moments, in which
/// processes may still start others: the next step kills those.
pub(super) fn freeze_and_kill(dir: &Dir) -> bool {
    if v2::freeze(&dir.path).is_err() {
        return false;
    }
    kill_each(dir.processes());
    true
}

/// Freezes a group of version 1. Once the group is frozen, or `timeout` is over, kills its processes and thaws it.
fn kill_frozen(freezer: &Dir, freezing: &mut Freezing, timeout: Duration, now: Instant) {
    let path = &freezer.path;
    let read = || files::read(path, v1::FREEZER_STATE).unwrap_or_default();
    // A freezer gets at least one step: the kernel needs microseconds to freeze processes that run.
    let has_begun = freezing.since.is_some() || read().trim() != v1::THAWED;
    if freezing.since.is_none() && v1::set_freezer(path, v1::FROZEN).is_ok() {
        freezing.since = Some(now);
    }
    let is_early =
        !has_begun || now.saturating_duration_since(freezing.since.unwrap_or(now)) < timeout;
    match read().trim() {
        v1::FREEZING if is_early => return,
        // A process that hangs in the kernel keeps the group from freezing. The others are frozen and need not wait for it.
        v1::FROZEN | v1::FREEZING => kill_each(freezer.processes()),
        _ => {}
    }
    // Signals to frozen processes take effect when they thaw.
    freezing.since = None;
    if let Err(error) = v1::set_freezer(path, v1::THAWED) {
        tracing::debug!("{error}");
    }
}

fn kill_each(pids: impl IntoIterator<Item = Pid>) {
    // Somebody may have moved this process into a task's group by mistake.
    let own = getpid();
    for pid in pids.into_iter().filter(|pid| *pid != own) {
        // A process that refuses the signal is either gone, or another user's; the next step shows which.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn processes_of_a_group_that_does_not_freeze_die_after_the_timeout() {
        // Plain files play a freezer that stays at `FREEZING`, as one does whose process hangs in the kernel.
        let dir = tempfile::tempdir().expect("a folder");
        let mut task = Command::new("sleep").arg("60").spawn().expect("a process");
        let state = dir.path().join(v1::FREEZER_STATE);
        fs::write(&state, v1::FREEZING).expect("written");
        fs::write(dir.path().join("cgroup.procs"), format!("{}\n", task.id())).expect("written");
        let freezer = Dir::found(dir.path().to_owned());
        let (begun, timeout) = (Instant::now(), Duration::from_secs(10));
        let mut freezing = Freezing { since: Some(begun) };
        let mut step_after = |waited| {
            let dirs = std::slice::from_ref(&freezer);
            step(
                dirs,
                Racy::Forbidden,
                &mut freezing,
                timeout,
                begun + waited,
            );
        };
        step_after(timeout / 2);
        assert_eq!(fs::read_to_string(&state).expect("read"), v1::FREEZING);
        assert_eq!(task.try_wait().expect("our child"), None);
        step_after(timeout);
        assert!(
            fs::read_to_string(&state)
                .expect("read")
                .starts_with(v1::THAWED)
        );
        let status = task.wait().expect("our child");
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(9)
        );
    }
}
