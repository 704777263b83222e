//! Computes how many tasks a worker can run at once, from the limits of descriptors and processes.

use std::fs;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use brasserie_common::worker::TaskRoom;
use nix::sys::resource::{Resource, getrlimit};

use crate::groups::mounts::{Version, chain, parse_membership, parse_mounts};

/// The worker's descriptors for each task: three pipes, one that reports the end, and two for output files. Control groups keep none
/// open.
pub(crate) const DESCRIPTORS_A_TASK: u64 = 6;
/// The worker's descriptors for everything else: logs, connections, the directory, and the other ends of the pipes of a task that is just
/// being started.
pub(crate) const DESCRIPTORS_OF_OUR_OWN: u64 = 256;
/// The threads of the worker, its keeper, and other programs of the machine.
pub(crate) const PROCESSES_OF_OUR_OWN: u64 = 128;
/// The threads that a worker may still start, to wait for its disk.
const THREADS_TO_COME: u64 = 32;

/// The limits that bound the number of tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskCountLimits {
    /// The worker's limit of open files.
    pub(crate) descriptors: u64,
    /// The worker's own control group and its ancestors, as far as they limit processes.
    groups: Vec<GroupOfProcesses>,
    /// The limit of processes of the worker's user; root has none.
    pub(crate) user: Option<u64>,
    pub(crate) pid_max: Option<u64>,
    pub(crate) threads_max: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupOfProcesses {
    path: PathBuf,
    most: u64,
    /// The current number of processes and threads in the group.
    now: u64,
}

impl TaskCountLimits {
    /// Reads the limits. `descriptors` is the number that the worker will have after raising its limit.
    pub(crate) fn look(descriptors: u64) -> Self {
        let number = |path| read_number(Path::new(path));
        let user = match nix::unistd::geteuid().is_root() {
            true => None,
            false => getrlimit(Resource::RLIMIT_NPROC).ok().map(|(soft, _)| soft),
        };
        TaskCountLimits {
            descriptors,
            groups: groups(),
            user,
            pid_max: number("/proc/sys/kernel/pid_max"),
            threads_max: number("/proc/sys/kernel/threads-max"),
        }
    }

    /// Reads the limits, with the present descriptor limit of this process.
    pub(crate) fn of_this_process() -> Self {
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft);
        TaskCountLimits::look(descriptors)
    }

    /// Returns the number of tasks by the tightest limit, and the name of that limit. The number is at least one: the kernel enforces the
    /// limits, and the part that is subtracted for other uses is an estimate.
    pub(crate) fn room(&self) -> TaskRoom {
        let descriptors = self.descriptors;
        let by_descriptors =
            descriptors.saturating_sub(DESCRIPTORS_OF_OUR_OWN) / DESCRIPTORS_A_TASK;
        let text = format!("open files: {descriptors}, {DESCRIPTORS_A_TASK} a task");
        let mut bounds = vec![(by_descriptors, text)];
        for group in &self.groups {
            let taken = group.now.saturating_add(THREADS_TO_COME);
            let path = group.path.display();
            let text = format!("processes of its control group {path}: {}", group.most);
            bounds.push((group.most.saturating_sub(taken), text));
        }
        for (name, limit) in [
            ("processes of its user", self.user),
            ("kernel.pid_max", self.pid_max),
            ("kernel.threads-max", self.threads_max),
        ] {
            if let Some(limit) = limit {
                let most = limit.saturating_sub(PROCESSES_OF_OUR_OWN);
                bounds.push((most, format!("{name}: {limit}")));
            }
        }
        let least = bounds.into_iter().min_by_key(|(most, _)| *most);
        let (most, limited_by) = least.unwrap_or_default();
        // The wire format has a signed 32-bit number.
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let most = NonZeroU32::new(most.min(i32::MAX.cast_unsigned()));
        TaskRoom {
            most: most.unwrap_or(NonZeroU32::MIN),
            limited_by: limited_by.into(),
        }
    }
}

/// Returns the control groups of this process and all its ancestors that limit processes, in any hierarchy.
fn groups() -> Vec<GroupOfProcesses> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let mounts = parse_mounts(&text("/proc/self/mountinfo"));
    let own = parse_membership(&text("/proc/self/cgroup"));
    let folders = [Version::One, Version::Two].map(|version| chain(&mounts, &own, version, PIDS));
    let folders = folders.iter().flatten();
    folders.filter_map(|folder| bound_of(folder)).collect()
}

/// The name of the controller.
const PIDS: &str = "pids";

/// Returns the limit and the current count of the group. `None` if its file contains `max` or does not exist.
fn bound_of(folder: &Path) -> Option<GroupOfProcesses> {
    Some(GroupOfProcesses {
        most: read_number(&folder.join("pids.max"))?,
        now: read_number(&folder.join("pids.current"))?,
        path: folder.to_owned(),
    })
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> TaskCountLimits {
        TaskCountLimits {
            descriptors: 32_768,
            groups: Vec::new(),
            user: None,
            pid_max: Some(4_194_304),
            threads_max: Some(500_000),
        }
    }

    fn told(seen: &TaskCountLimits) -> String {
        seen.room().to_string()
    }

    #[test]
    fn the_least_limit_counts_and_is_named() {
        let usual = seen();
        assert_eq!(told(&usual), "5418 at most, by open files: 32768, 6 a task");
        let group = |most, now| GroupOfProcesses {
            path: "/sys/fs/cgroup/a".into(),
            most,
            now,
        };
        let grouped = TaskCountLimits {
            groups: vec![group(4096, 12), group(512, 12)],
            ..seen()
        };
        assert_eq!(
            told(&grouped),
            "468 at most, by processes of its control group /sys/fs/cgroup/a: 512"
        );
        let user = TaskCountLimits {
            user: Some(1000),
            ..seen()
        };
        assert_eq!(told(&user), "872 at most, by processes of its user: 1000");
    }

    #[test]
    fn there_is_room_for_one_and_for_no_more_than_can_be_said() {
        let poor = TaskCountLimits {
            descriptors: 20,
            ..seen()
        };
        assert_eq!(told(&poor), "1 at most, by open files: 20, 6 a task");
        let endless = TaskCountLimits {
            descriptors: u64::MAX,
            pid_max: None,
            threads_max: None,
            ..seen()
        };
        assert_eq!(endless.room().most.get(), i32::MAX.cast_unsigned());
    }

    #[test]
    fn groups_without_a_bound_bound_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("it");
        assert_eq!(bound_of(folder.path()), None);
        write("pids.max", "max\n");
        write("pids.current", "7\n");
        assert_eq!(bound_of(folder.path()), None);
        write("pids.max", "30\n");
        let bound = bound_of(folder.path()).expect("one");
        assert_eq!((bound.most, bound.now), (30, 7));
    }

    #[test]
    fn this_machine_has_room() {
        let seen = TaskCountLimits::of_this_process();
        assert!(seen.descriptors > 0 && seen.pid_max.is_some(), "{seen:?}");
        assert!(seen.room().most.get() >= 1);
    }
}
