//! Which control groups there are, and whether this process may make its own; and whether systemd gives them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::{Finding, Verdict};

const TOPIC: &str = "control groups";

/// One hierarchy: where this process is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hierarchy {
    /// Controllers of a hierarchy of the first version; `None`: the second one.
    controllers: Option<Vec<String>>,
    own_group: PathBuf,
}

/// The whole of the question; whoever knows more of control groups replaces this.
pub(super) fn control_groups() -> Finding {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let all = hierarchies(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let may_write = |path: &Path| access(path, AccessFlags::W_OK).is_ok();
    let of_v2 = |path: &Path| fs::read_to_string(path.join("cgroup.controllers")).ok();
    found(&all, may_write, of_v2)
}

fn found(
    all: &[Hierarchy],
    may_write: impl Fn(&Path) -> bool,
    of_v2: impl Fn(&Path) -> Option<String>,
) -> Finding {
    if all.is_empty() {
        let text = "none are mounted: tasks cannot be held to memory or processors";
        return Finding::new(TOPIC, Verdict::Limited, text);
    }
    let (mut have, mut closed) = (Vec::new(), Vec::new());
    for hierarchy in all {
        let name = match &hierarchy.controllers {
            Some(controllers) => format!("v1 {}", controllers.join(",")),
            None => {
                let controllers = of_v2(&hierarchy.own_group).unwrap_or_default();
                match controllers.trim() {
                    "" => "v2 without controllers".to_owned(),
                    controllers => format!("v2 {}", controllers.replace(' ', ",")),
                }
            }
        };
        match may_write(&hierarchy.own_group) {
            true => have.push(name),
            false => closed.push(name),
        }
    }
    have.sort();
    closed.sort();
    let verdict = match have.is_empty() {
        true => Verdict::Limited,
        false => Verdict::Fine,
    };
    let mut parts = Vec::new();
    if !have.is_empty() {
        parts.push(format!("may be used: {}", have.join("; ")));
    }
    if !closed.is_empty() {
        let names = closed.join("; ");
        parts.push(format!(
            "not writable here: {names} (`Delegate=yes` of the unit)"
        ));
    }
    Finding::new(TOPIC, verdict, parts.join("; "))
}

/// The mounts of `mountinfo` that hold a group of `/proc/self/cgroup`.
fn hierarchies(mountinfo: &str, own: &str) -> Vec<Hierarchy> {
    // `ID:CONTROLLERS:PATH`; the second version has neither a number nor controllers.
    let groups: BTreeMap<&str, &str> = own
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?))
        })
        .collect();
    let mut all = Vec::new();
    for line in mountinfo.lines() {
        // `ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS... - TYPE SOURCE SUPER-OPTIONS`
        let Some((mount, kind)) = line.split_once(" - ") else {
            continue;
        };
        let mut mount = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (mount.next(), mount.next()) else {
            continue;
        };
        let mut kind = kind.split(' ');
        let (controllers, path) = match kind.next() {
            Some("cgroup2") => (None, groups.get("")),
            Some("cgroup") => {
                let options = kind.nth(1).unwrap_or_default();
                let of = groups.iter().find(|(names, _)| {
                    !names.is_empty()
                        && names.split(',').all(|n| options.split(',').any(|o| o == n))
                });
                let Some((names, path)) = of else {
                    continue;
                };
                let names = names.split(',').map(str::to_owned).collect();
                (Some(names), Some(path))
            }
            Some(_) | None => continue,
        };
        let Some(path) = path else {
            continue;
        };
        // In a container the mount shows a part of the tree only.
        let below = path
            .strip_prefix(root.trim_end_matches('/'))
            .unwrap_or(path);
        all.push(Hierarchy {
            controllers,
            own_group: Path::new(point).join(below.trim_start_matches('/')),
        });
    }
    all
}

/// `place` is there while it runs.
pub(super) fn systemd(place: &Path) -> Finding {
    match place.exists() {
        true => {
            let text = "runs; the unit brasserie-worker@.service starts a worker and gives it control groups";
            Finding::new("systemd", Verdict::Fine, text)
        }
        false => {
            let text = "does not run: somebody else must start a worker again";
            Finding::new("systemd", Verdict::Limited, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
29 23 0:26 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate
30 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
31 23 0:28 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
32 23 0:29 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
33 1 8:1 / / rw - ext4 /dev/sda1 rw
nonsense";
    const OWN: &str = "5:memory:/docker/1/worker\n4:cpu,cpuacct:/\n0::/system.slice/w.service\n";

    #[test]
    fn each_hierarchy_is_found_with_our_group_in_it() {
        let found: Vec<_> = hierarchies(MOUNTS, OWN)
            .into_iter()
            .map(|h| (h.controllers.map(|c| c.join(",")), h.own_group))
            .collect();
        let want = [
            (None, "/sys/fs/cgroup/unified/system.slice/w.service"),
            (Some("cpu,cpuacct"), "/sys/fs/cgroup/cpu,cpuacct/"),
            (Some("memory"), "/sys/fs/cgroup/memory/worker"),
        ];
        let want: Vec<_> = want
            .iter()
            .map(|(names, path)| (names.map(str::to_owned), PathBuf::from(path)))
            .collect();
        assert_eq!(found, want);
        assert_eq!(hierarchies("", ""), []);
    }

    #[test]
    fn what_may_be_written_may_be_used() {
        let all = hierarchies(MOUNTS, OWN);
        let v2 = |_: &Path| Some("memory pids\n".to_owned());
        let every = super::found(&all, |_| true, v2);
        assert_eq!(every.verdict, Verdict::Fine);
        let text = "may be used: v1 cpu,cpuacct; v1 memory; v2 memory,pids";
        assert_eq!(every.text, text);
        let none = super::found(&all, |_| false, |_| None);
        assert_eq!(none.verdict, Verdict::Limited);
        assert!(none.text.contains("v2 without controllers"), "{none:?}");
        assert_eq!(super::found(&[], |_| true, v2).verdict, Verdict::Limited);
    }

    #[test]
    fn systemd_is_where_its_folder_is() {
        assert_eq!(systemd(Path::new("/")).verdict, Verdict::Fine);
        assert_eq!(systemd(Path::new("/nowhere")).verdict, Verdict::Limited);
    }
}
