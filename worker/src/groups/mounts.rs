//! Parses the control-group hierarchies and the group of a process in each, from `/proc/self/mountinfo` and `/proc/self/cgroup`. Performs
//! no input or output.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The path of the mount.
    pub point: PathBuf,
    /// The group at the mount's top: `/` except in containers.
    pub root: String,
    pub version: Version,
    /// The controllers that share a hierarchy of version 1, or `name=...` if it has none.
    pub controllers: BTreeSet<String>,
}

/// The version of the kernel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    One,
    Two,
}

/// The groups of a process, by their paths below the root of each hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    pub unified: Option<String>,
    /// The paths in hierarchies of version 1, by controller.
    pub legacy: BTreeMap<String, String>,
}

/// Parses the hierarchies of a `mountinfo`. Omits other file systems and invalid lines.
pub fn parse_mounts(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_mount).collect()
}

fn parse_mount(line: &str) -> Option<Mount> {
    // The number of optional fields between the two halves varies.
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (unescape(place.next()?), unescape(place.next()?));
    let mut kind = kind.split(' ');
    let version = match kind.next()? {
        "cgroup" => Version::One,
        "cgroup2" => Version::Two,
        _ => return None,
    };
    let options = kind.nth(1).unwrap_or_default();
    let controllers = match version {
        Version::Two => BTreeSet::new(),
        Version::One => options.split(',').map(str::to_owned).collect(),
    };
    Some(Mount {
        point: PathBuf::from(point),
        root,
        version,
        controllers,
    })
}

/// Decodes a field, in which spaces and similar characters are a backslash and three octal digits.
fn unescape(field: &str) -> String {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = (first == b'\\').then(|| after.get(..3)).flatten();
        let code = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Parses the groups in a `/proc/PID/cgroup`.
pub fn parse_membership(text: &str) -> Membership {
    let mut own = Membership::default();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        // The group was removed while the process stayed in it.
        let path = path.strip_suffix(" (deleted)").unwrap_or(path).to_owned();
        if number == "0" && controllers.is_empty() {
            own.unified = Some(path);
            continue;
        }
        for controller in controllers.split(',').filter(|name| !name.is_empty()) {
            own.legacy.insert(controller.to_owned(), path.clone());
        }
    }
    own
}

impl Mount {
    /// Returns the path of a group of this hierarchy; `None` if it lies outside of what is mounted here.
    pub fn locate(&self, group: &str) -> Option<PathBuf> {
        let group = Path::new(group);
        // The path of a group above the namespace's own root contains `..`.
        if group.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let below = group.strip_prefix(&self.root).ok()?;
        Some(self.point.join(below))
    }
}

/// Returns the visible paths of a process's own group and its ancestors, nearest first. They are in the hierarchy of version 2, or in
/// that of version 1 that has this controller.
pub fn chain(
    mounts: &[Mount],
    own: &Membership,
    version: Version,
    controller: &str,
) -> Vec<PathBuf> {
    let group = match version {
        Version::One => own.legacy.get(controller),
        Version::Two => own.unified.as_ref(),
    };
    let mount = mounts.iter().find(|mount| {
        let has_it = version == Version::Two || mount.controllers.contains(controller);
        mount.version == version && has_it
    });
    let (Some(group), Some(mount)) = (group, mount) else {
        return Vec::new();
    };
    // If the group lies outside of the mount, the mount's top is still an ancestor.
    let own = mount.locate(group).unwrap_or_else(|| mount.point.clone());
    own.ancestors()
        .take_while(|folder| folder.starts_with(&mount.point))
        .map(Path::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian 12 under systemd.
    const UNIFIED_MOUNTS: &str = "\
24 29 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
36 24 0:31 / /sys/fs/pstore rw shared:10 - pstore pstore rw
";
    /// CentOS 7 and similar systems; the fields before the dash vary.
    const LEGACY_MOUNTS: &str = "\
25 18 0:20 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:8 - tmpfs tmpfs ro,mode=755
26 25 0:21 / /sys/fs/cgroup/systemd rw,nosuid shared:9 - cgroup cgroup rw,xattr,release_agent=/usr/lib/systemd/systemd-cgroups-agent,name=systemd
29 25 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:11 master:3 - cgroup cgroup rw,cpuacct,cpu
30 25 0:25 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
";
    /// Docker on a machine of version 1, without a namespace of groups.
    const CONTAINER_MOUNTS: &str = "\
700 699 0:30 /docker/0a1b /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:16 - cgroup cgroup rw,memory
";

    #[test]
    fn one_hierarchy_under_systemd() {
        let mounts = parse_mounts(UNIFIED_MOUNTS);
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].version, Version::Two);
        let own = parse_membership("0::/system.slice/brasserie-worker.service\n");
        let path = own.unified.expect("one place");
        assert_eq!(
            mounts[0].locate(&path),
            Some("/sys/fs/cgroup/system.slice/brasserie-worker.service".into())
        );
        assert!(own.legacy.is_empty());
    }

    #[test]
    fn a_hierarchy_for_each_controller() {
        let mounts = parse_mounts(LEGACY_MOUNTS);
        let points: Vec<&str> = mounts.iter().filter_map(|m| m.point.to_str()).collect();
        assert_eq!(
            points,
            [
                "/sys/fs/cgroup/systemd",
                "/sys/fs/cgroup/cpu,cpuacct",
                "/sys/fs/cgroup/memory"
            ]
        );
        assert!(mounts[1].controllers.contains("cpu") && mounts[1].controllers.contains("cpuacct"));
        assert!(mounts[0].controllers.contains("name=systemd"));
        let own = parse_membership("11:cpuacct,cpu:/a b:c\n4:memory:/\n1:name=systemd:/x\n");
        assert_eq!(own.unified, None);
        assert_eq!(own.legacy["cpu"], "/a b:c");
        assert_eq!(
            mounts[1].locate(&own.legacy["cpuacct"]),
            Some("/sys/fs/cgroup/cpu,cpuacct/a b:c".into())
        );
        assert_eq!(own.legacy["name=systemd"], "/x");
    }

    #[test]
    fn both_generations_at_once() {
        let own = parse_membership("4:memory:/process/7\n1:cpu:/\n0::/\n");
        assert_eq!(own.unified.as_deref(), Some("/"));
        assert_eq!(own.legacy["memory"], "/process/7");
        assert_eq!(own.legacy["cpu"], "/");
    }

    #[test]
    fn a_container_sees_its_part_alone() {
        let mounts = parse_mounts(CONTAINER_MOUNTS);
        let of = |path| mounts[0].locate(path);
        assert_eq!(of("/docker/0a1b"), Some("/sys/fs/cgroup/memory/".into()));
        assert_eq!(of("/docker/0a1b/x"), Some("/sys/fs/cgroup/memory/x".into()));
        assert_eq!(of("/docker/0a1bc"), None);
        assert_eq!(of("/system.slice"), None);
        assert_eq!(of("/docker/0a1b/../other"), None);
    }

    #[test]
    fn odd_characters_and_lines() {
        let line = r"1 2 0:3 / /mnt/a\040b\134c rw - cgroup2 none rw";
        let mounts = parse_mounts(line);
        assert_eq!(mounts[0].point, Path::new(r"/mnt/a b\c"));
        for broken in [
            "",
            "1 2 3",
            "1 2 0:3 / - cgroup2",
            "- - - -",
            r"1 2 3 \ \0 - cgroup",
        ] {
            assert!(
                parse_mounts(broken)
                    .iter()
                    .all(|m| m.version == Version::One)
            );
        }
        assert_eq!(parse_membership("x\n0:\n::\n"), Membership::default());
        let gone = parse_membership("0::/a (deleted)\n");
        assert_eq!(gone.unified.as_deref(), Some("/a"));
    }
}
