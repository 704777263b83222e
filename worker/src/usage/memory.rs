//! Measures how much memory this process and its tasks may use: the machine's memory on the nodes that this process may use, limited by
//! every control group of this process and its ancestors, of either version.

use std::path::{Path, PathBuf};

use super::{BYTES_PER_MIB, read};
use crate::groups::mounts::{Membership, Mount, Version, chain, parse_membership, parse_mounts};

const KIB_PER_MIB: f64 = 1024.0;
/// The largest accepted node number: more than any machine has. A set with a larger number is ignored.
const MAX_NODES: u32 = 4096;

/// Returns the usable memory in MiB; 0 if nothing of it can be read.
pub(super) fn usable_mb(root: &Path) -> f64 {
    let machine = read(&root.join("proc/meminfo")).and_then(|text| total_mb(&text));
    let groups = Groups::of(root);
    let nodes = groups.nodes();
    let limits = [
        machine,
        groups.unified_limit_mb(),
        groups.legacy_limit_mb(),
        nodes.and_then(|set| nodes_mb(root, &set)),
    ];
    limits
        .into_iter()
        .flatten()
        .reduce(f64::min)
        .unwrap_or_default()
}

fn total_mb(meminfo: &str) -> Option<f64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    kib(line)
}

fn kib(text: &str) -> Option<f64> {
    let kib: f64 = text.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / KIB_PER_MIB)
}

/// The mounted hierarchies, and the groups of this process in them.
struct Groups<'a> {
    root: &'a Path,
    mounts: Vec<Mount>,
    own: Membership,
}

impl<'a> Groups<'a> {
    fn of(root: &'a Path) -> Self {
        let text = |name: &str| read(&root.join(name)).unwrap_or_default();
        Groups {
            root,
            mounts: parse_mounts(&text("proc/self/mountinfo")),
            own: parse_membership(&text("proc/self/cgroup")),
        }
    }

    /// Returns the visible folders of this process's group and its ancestors. In version 1 the hierarchy is that of `controller`.
    fn folders(&self, version: Version, controller: &str) -> Vec<PathBuf> {
        let folders = chain(&self.mounts, &self.own, version, controller);
        let below_root = |folder: PathBuf| {
            let folder = folder.strip_prefix("/").unwrap_or(&folder);
            self.root.join(folder)
        };
        folders.into_iter().map(below_root).collect()
    }

    /// Returns the smallest `memory.max` of the group and its ancestors.
    fn unified_limit_mb(&self) -> Option<f64> {
        let folders = self.folders(Version::Two, "memory");
        let limits = folders
            .iter()
            .filter_map(|folder| bytes(&folder.join("memory.max")));
        limits.reduce(f64::min).map(|bytes| bytes / BYTES_PER_MIB)
    }

    /// Returns the smallest limit of version 1. There a group's limit binds the groups below it only if its `use_hierarchy` says so.
    fn legacy_limit_mb(&self) -> Option<f64> {
        let mut least = None;
        for folder in self.folders(Version::One, "memory") {
            let is_own = least.is_none();
            let binds = || bytes(&folder.join("memory.use_hierarchy")) == Some(1.0);
            if is_own || binds() {
                let limit = bytes(&folder.join("memory.limit_in_bytes"));
                least = [least, limit].into_iter().flatten().reduce(f64::min);
            }
        }
        least.map(|bytes| bytes / BYTES_PER_MIB)
    }

    /// Returns the set of memory nodes that this process may use, in the kernel's format.
    fn nodes(&self) -> Option<String> {
        let sets = [
            (Version::Two, "cpuset.mems.effective"),
            (Version::One, "cpuset.effective_mems"),
        ];
        sets.into_iter().find_map(|(version, file)| {
            let folders = self.folders(version, "cpuset");
            let texts = folders.iter().filter_map(|folder| read(&folder.join(file)));
            texts
                .map(|text| text.trim().to_owned())
                .find(|text| !text.is_empty())
        })
    }
}

fn bytes(path: &Path) -> Option<f64> {
    read(path)?.trim().parse().ok()
}

/// Returns the memory of the nodes in `set`.
fn nodes_mb(root: &Path, set: &str) -> Option<f64> {
    let nodes = numbers(set)?;
    let of_node = |node: u32| {
        let file = format!("sys/devices/system/node/node{node}/meminfo");
        let text = read(&root.join(file))?;
        let start = format!("Node {node} MemTotal:");
        let line = text.lines().find_map(|line| line.strip_prefix(&start))?;
        kib(line)
    };
    // If one node cannot be read, the sum is unknown.
    nodes.into_iter().map(of_node).sum()
}

/// Parses a set such as `0,2-4`.
fn numbers(set: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in set.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_NODES {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::machine_of as machine;

    const MEM: (&str, &str) = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:  2097152 kB\n");
    const UNIFIED: (&str, &str) = (
        "proc/self/mountinfo",
        "35 24 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const LEGACY: (&str, &str) = (
        "proc/self/mountinfo",
        "30 25 0:25 / /sys/fs/cgroup/cpu,memory rw - cgroup cgroup rw,cpu,memory\n\
         31 25 0:26 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
    );

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let group = ("proc/self/cgroup", "1:cpu:/x\n0::/a/b\n");
        let root = machine(&[
            MEM,
            UNIFIED,
            group,
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ]);
        assert_eq!(usable_mb(root.path()), 1024.0);
        assert_eq!(usable_mb(machine(&[MEM, UNIFIED, group]).path()), 2048.0);
    }

    #[test]
    fn a_limit_of_version_1_counts_as_far_as_it_binds() {
        let group = ("proc/self/cgroup", "4:cpu,memory:/a/b\n0::/\n");
        let limit = |folder: &str, mb: u64| {
            let file = format!("sys/fs/cgroup/cpu,memory/{folder}memory.limit_in_bytes");
            (file, (mb << 20).to_string())
        };
        let binds = |folder: &str| {
            let file = format!("sys/fs/cgroup/cpu,memory/{folder}memory.use_hierarchy");
            (file, "1\n".to_owned())
        };
        let none = (
            "sys/fs/cgroup/cpu,memory/memory.limit_in_bytes".to_owned(),
            "9223372036854771712".to_owned(),
        );
        let usable = |more: &[(String, String)]| {
            let mut files = vec![MEM, LEGACY, group];
            files.extend(
                more.iter()
                    .map(|(name, text)| (name.as_str(), text.as_str())),
            );
            usable_mb(machine(&files).path())
        };
        assert_eq!(usable(&[none.clone(), limit("a/b/", 1000)]), 1000.0);
        assert_eq!(usable(&[limit("a/b/", 1000), limit("a/", 500)]), 1000.0);
        assert_eq!(
            usable(&[limit("a/b/", 1000), limit("a/", 500), binds("a/")]),
            500.0
        );
        // If the group is invisible here, the top of the mount counts.
        assert_eq!(usable(&[limit("", 700), binds("")]), 700.0);
        assert_eq!(usable(&[none]), 2048.0);
    }

    #[test]
    fn memory_of_other_nodes_is_not_ours() {
        let node = |n: u32, kb: u64| {
            let file = format!("sys/devices/system/node/node{n}/meminfo");
            (
                file,
                format!("Node {n} MemTotal:  {kb} kB\nNode {n} MemFree: 1 kB\n"),
            )
        };
        let nodes = [node(0, 1 << 20), node(1, 1 << 19), node(2, 1 << 18)];
        let usable = |mounts, groups: &str, file: &str, set: &str| {
            let mut files = vec![MEM, mounts, ("proc/self/cgroup", groups), (file, set)];
            files.extend(
                nodes
                    .iter()
                    .map(|(name, text)| (name.as_str(), text.as_str())),
            );
            usable_mb(machine(&files).path())
        };
        let old = "sys/fs/cgroup/cpuset/x/cpuset.effective_mems";
        assert_eq!(usable(LEGACY, "3:cpuset:/x\n", old, "1-2\n"), 768.0);
        let new = "sys/fs/cgroup/x/cpuset.mems.effective";
        assert_eq!(usable(UNIFIED, "0::/x/y\n", new, "0,2\n"), 1280.0);
        // The set contains an unreadable node, or is invalid.
        assert_eq!(usable(UNIFIED, "0::/x\n", new, "0,7\n"), 2048.0);
        assert_eq!(usable(UNIFIED, "0::/x\n", new, "2-1\n"), 2048.0);
        assert_eq!(usable(UNIFIED, "0::/x\n", new, "0-4000000000\n"), 2048.0);
    }

    #[test]
    fn sets_of_numbers() {
        assert_eq!(numbers("0"), Some(vec![0]));
        assert_eq!(numbers("4-5,0,4"), Some(vec![0, 4, 5]));
        for odd in ["", "1,", "-1", "1-2-3", "x", "5-4", "99999"] {
            assert_eq!(numbers(odd), None, "{odd}");
        }
    }

    #[test]
    fn unreadable_means_unknown() {
        assert_eq!(usable_mb(machine(&[]).path()), 0.0);
        let odd = [
            ("proc/meminfo", "MemTotal: many kB\n"),
            ("proc/self/cgroup", ""),
        ];
        assert_eq!(usable_mb(machine(&odd).path()), 0.0);
    }
}
