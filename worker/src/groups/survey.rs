//! Inspects this machine's control groups, and prepares the worker's own group for those of its tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, Pid, access, getpid};

use super::files::{self, FileError};
use super::mounts::{Membership, Mount, Version, parse_membership, parse_mounts};
use crate::marker::marker;
use crate::variables::GROUP_VARIABLE;

use super::plan::{Controller, Facts, PARENT, Unified};

/// The child group for the worker itself, since a group of version 2 that hands out controllers may hold no processes.
const OWN_LEAF: &str = "worker";
const PROCS: &str = "cgroup.procs";
const SUBTREE: &str = "cgroup.subtree_control";
/// The controllers that task groups of version 2 get if possible: for limits, and `io` to count.
const HANDED_OUT: [&str; 4] = ["memory", "cpu", "pids", "io"];

/// Collects the facts. In a hierarchy of version 2 that has controllers, moves this process and its keeper into a leaf of its group, so
/// that the group can hand them out. Changes nothing else.
///
/// `root` is the group to use instead of the process's own, by its path in each hierarchy.
pub(super) fn facts(root: Option<&str>, keeper: Option<Pid>) -> Facts {
    look(root, |own| hand_out(own, keeper))
}

/// Collects the facts without changes: controllers that could be handed out count as handed out.
pub(super) fn seen() -> Facts {
    look(None, |own| {
        Ok(controllers(&words(own, "cgroup.controllers")))
    })
}

/// Moves the keeper, which calls this before it starts its program in a namespace, out of its own group if that can hand out controllers.
/// The program could neither see nor move the keeper. Returns the group that the keeper has left. `None` if there is nothing to hand out,
/// or another process is in the group, which the program then reports.
pub(crate) fn leave_own_group() -> Option<String> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let mounts = parse_mounts(&text("/proc/self/mountinfo"));
    let mounts: Vec<&Mount> = mounts
        .iter()
        .filter(|mount| mount.version == Version::Two)
        .collect();
    let place = parse_membership(&text("/proc/self/cgroup")).unified?;
    let own = usable(&mounts, &place, false).ok()?;
    let had = words(&own, "cgroup.controllers");
    if !HANDED_OUT.iter().any(|name| had.contains(*name)) {
        return None;
    }
    make_room(&own, None).ok().map(|()| place)
}

fn look(
    root: Option<&str>,
    hand_out: impl FnOnce(&Path) -> Result<BTreeSet<Controller>, String>,
) -> Facts {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    let mounts = parse_mounts(&text("/proc/self/mountinfo"));
    let mut own = parse_membership(&text("/proc/self/cgroup"));
    if let Ok(left) = std::env::var(GROUP_VARIABLE)
        && marker().is_some()
    {
        own.unified = Some(left);
    }
    let kernel = kernel_version(&text("/proc/sys/kernel/osrelease"));
    let unified = unified(&mounts, &own, root, hand_out);
    let legacy = legacy(&mounts, &own, root);
    Facts {
        mounts,
        kernel,
        unified,
        legacy,
    }
}

fn legacy(
    mounts: &[Mount],
    own: &Membership,
    root: Option<&str>,
) -> BTreeMap<Controller, Result<PathBuf, String>> {
    let mut found = BTreeMap::new();
    for controller in Controller::ALL {
        let name = controller.as_str();
        let has = |m: &&Mount| m.version == Version::One && m.controllers.contains(name);
        let own = root.or_else(|| own.legacy.get(name).map(String::as_str));
        let mounts: Vec<&Mount> = mounts.iter().filter(has).collect();
        if let (Some(own), false) = (own, mounts.is_empty()) {
            found.insert(controller, usable(&mounts, own, root.is_some()));
        }
    }
    found
}

fn unified(
    mounts: &[Mount],
    own: &Membership,
    root: Option<&str>,
    hand_out: impl FnOnce(&Path) -> Result<BTreeSet<Controller>, String>,
) -> Option<Unified> {
    let mounts: Vec<&Mount> = mounts
        .iter()
        .filter(|mount| mount.version == Version::Two)
        .collect();
    let place = root.or(own.unified.as_deref())?;
    if mounts.is_empty() {
        return None;
    }
    let own = usable(&mounts, place, root.is_some());
    let controllers = match &own {
        Ok(own) => hand_out(own),
        Err(why) => Err(why.clone()),
    };
    Some(Unified { own, controllers })
}

/// Returns the folder in which groups can be made. Makes a missing group if an option named it.
fn usable(mounts: &[&Mount], group: &str, is_named: bool) -> Result<PathBuf, String> {
    let Some(dir) = mounts.iter().find_map(|mount| mount.locate(group)) else {
        return Err(format!(
            "the worker's control group {group} is outside of what is mounted here"
        ));
    };
    if is_named && !dir.is_dir() {
        fs::create_dir(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
    }
    match access(&dir, AccessFlags::W_OK | AccessFlags::X_OK) {
        Ok(()) => Ok(dir),
        Err(error) => Err(format!(
            "no group can be made in {}: {}",
            dir.display(),
            error.desc()
        )),
    }
}

/// Hands controllers out, and returns those that groups below `own/brasserie` have from now on.
fn hand_out(own: &Path, keeper: Option<Pid>) -> Result<BTreeSet<Controller>, String> {
    let had = words(own, "cgroup.controllers");
    let wanted: Vec<&str> = HANDED_OUT
        .into_iter()
        .filter(|name| had.contains(*name))
        .collect();
    if wanted.is_empty() {
        return Ok(BTreeSet::new());
    }
    make_room(own, keeper)?;
    let parent = own.join(PARENT);
    enable(own, &wanted).map_err(|error| error.to_string())?;
    if !parent.is_dir() {
        let made = fs::create_dir(&parent);
        made.map_err(|error| FileError::of("make", &parent)(error).to_string())?;
    }
    enable(&parent, &wanted).map_err(|error| error.to_string())?;
    Ok(controllers(&words(&parent, SUBTREE)))
}

fn controllers(names: &BTreeSet<String>) -> BTreeSet<Controller> {
    let all = Controller::ALL.into_iter();
    all.filter(|c| names.contains(c.as_str())).collect()
}

fn enable(group: &Path, controllers: &[&str]) -> Result<(), FileError> {
    let on = words(group, SUBTREE);
    for name in controllers.iter().filter(|name| !on.contains(**name)) {
        files::write(group, SUBTREE, &format!("+{name}"))?;
    }
    Ok(())
}

/// Moves this process and its keeper out of the group. Errors if another process is in it. The root group may hold processes, and stays
/// as it is.
fn make_room(own: &Path, keeper: Option<Pid>) -> Result<(), String> {
    if !files::exists(own, "cgroup.events") {
        return Ok(());
    }
    let inside = files::read(own, PROCS).unwrap_or_default();
    let inside: Vec<i32> = inside.lines().filter_map(|l| l.parse().ok()).collect();
    let ours = |pid: &i32| {
        *pid == getpid().as_raw() || keeper.is_some_and(|keeper| keeper.as_raw() == *pid)
    };
    if let Some(stranger) = inside.iter().find(|pid| !ours(pid)) {
        return Err(format!(
            "{} also holds the process {stranger}, so it cannot hand out its controllers: give the worker a group of its own \
             (systemd: `Delegate=yes`), or name one with --cgroup-root",
            own.display()
        ));
    }
    if inside.is_empty() {
        return Ok(());
    }
    let leaf = own.join(OWN_LEAF);
    if !leaf.is_dir() {
        let made = fs::create_dir(&leaf);
        made.map_err(|error| FileError::of("make", &leaf)(error).to_string())?;
    }
    for pid in inside {
        files::write(&leaf, PROCS, &pid.to_string()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn words(dir: &Path, name: &str) -> BTreeSet<String> {
    let text = files::read(dir, name).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the first two numbers of a kernel release; 0 for each that is missing.
pub(crate) fn kernel_version(release: &str) -> (u32, u32) {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (number(), number())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_begin_with_two_numbers() {
        assert_eq!(kernel_version("6.18.44-fc-v595\n"), (6, 18));
        assert_eq!(kernel_version("3.10.0-1160.el7.x86_64"), (3, 10));
        assert_eq!(kernel_version("5.15-rc1"), (5, 15));
        assert_eq!(kernel_version("strange"), (0, 0));
        assert_eq!(kernel_version(""), (0, 0));
    }

    /// Ordinary folders replace the hierarchy: the written files and values do not depend on a kernel.
    #[test]
    fn a_delegated_group_is_left_and_hands_its_controllers_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let own = dir.path();
        let put = |name: &str, text: &str| {
            let path = own.join(name);
            fs::create_dir_all(path.parent().expect("below")).expect("made");
            fs::write(path, text).expect("written");
        };
        put("cgroup.events", "populated 1\n");
        put("cgroup.controllers", "cpuset cpu io memory pids\n");
        put(SUBTREE, "");
        put("worker/cgroup.procs", "");
        put("brasserie/cgroup.subtree_control", "memory cpu pids io\n");
        put(PROCS, &format!("{}\n", getpid()));
        let given = hand_out(own, None).expect("handed out");
        assert_eq!(
            given,
            [Controller::Memory, Controller::Cpu, Controller::Pids].into()
        );
        let moved = files::read(&own.join(OWN_LEAF), PROCS).expect("there");
        assert_eq!(moved, getpid().to_string());
        assert!(files::read(own, SUBTREE).is_some_and(|text| text.starts_with('+')));
        // A keeper moves, too; any other process prevents all changes.
        put(PROCS, "4194305\n");
        hand_out(own, Some(Pid::from_raw(4_194_305))).expect("handed out");
        let error = hand_out(own, None).expect_err("a stranger");
        assert!(
            error.contains("4194305") && error.contains("--cgroup-root"),
            "{error}"
        );
        put("cgroup.controllers", "hugetlb\n");
        assert_eq!(hand_out(own, None), Ok(BTreeSet::new()));
    }
}
