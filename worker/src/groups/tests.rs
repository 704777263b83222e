//! Tests groups with real processes on the present kernel, each test in a subtree of its own. A test prints the abilities that the
//! machine lacks as unproven.

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

use super::files::{field, number};
use super::mounts::{Version, parse_mounts};
use super::plan::{Controller, GroupOwner, PARENT, Setting, Spot};
use super::*;

/// The longest wait of any test; only a failing one reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(2);

/// The test's own group in each hierarchy.
struct Ground {
    root: String,
    dir: tempfile::TempDir,
}

impl Ground {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ground {
            root: format!("/brasserie-unit-{}-{number}", std::process::id()),
            dir: tempfile::tempdir().expect("a folder"),
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join(places::FILE)
    }

    fn open(&self) -> Groups {
        Groups::open(GroupsConfig {
            shard: "a/b:c".to_owned(),
            tag: Tag(7),
            places: self.file(),
            root: Some(self.root.clone()),
            freeze_timeout: FREEZE_TIMEOUT,
            keeper: None,
        })
    }

    /// Returns the subtree in each hierarchy.
    fn trees(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string("/proc/self/mountinfo").expect("readable");
        let mounts = parse_mounts(&text);
        let places = mounts.iter().filter_map(|mount| mount.locate(&self.root));
        places.filter(|place| place.is_dir()).collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // A failing test may have left groups.
        places::remove_leftovers(&self.file(), PATIENCE);
        let give_up = Instant::now() + PATIENCE;
        for tree in self.trees() {
            let dir = killing::Dir::found(tree);
            while !dir.remove() && Instant::now() < give_up {
                thread::sleep(LOOK);
            }
        }
    }
}

#[test]
fn all_slices_that_are_missing_are_named_together() {
    let dir = tempfile::tempdir().expect("a folder");
    let there = dir.path().join("pids").join("slice");
    fs::create_dir_all(&there).expect("made");
    let options = CGroupOptions {
        root: dir.path().display().to_string(),
        slice: "slice".to_owned(),
        subsystems: ["cpu", "pids", "memory"].map(str::to_owned).to_vec(),
        ..CGroupOptions::default()
    };
    let error = named(&options).expect_err("two are missing").to_string();
    for missing in ["cpu/slice", "memory/slice"] {
        assert!(error.contains(missing), "{error}");
    }
    assert!(!error.contains("pids"), "{error}");
}

/// Prints a missing ability, so that nobody takes silence for a proof. Returns whether it is missing.
fn lacks(what: &str, ability: &Ability) -> bool {
    match ability {
        Ability::Enforced(_) => false,
        Ability::Missing(why) => {
            println!("UNPROVEN on this machine: {what}: {why}");
            true
        }
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "never so: {what}");
        thread::sleep(LOOK);
    }
}

fn shell(script: &str) -> Child {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", script])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // The process group lets a failing test end all of it.
    command.process_group(0);
    command.spawn().expect("started")
}

/// Starts a shell that continues once it is in the group.
fn shell_in(group: &TaskGroup, script: &str) -> Child {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("read go; {script}"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.process_group(0);
    let mut child = command.spawn().expect("started");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("small"));
    group.take_in(pid).expect("taken in");
    drop(child.stdin.take());
    child
}

/// Empties the group as a supervisor does.
fn empty(group: &mut TaskGroup) {
    let give_up = Instant::now() + PATIENCE;
    while let Emptying::Again(wait) = group.empty() {
        assert!(Instant::now() < give_up, "it never became empty");
        thread::sleep(wait.min(Duration::from_millis(50)));
    }
}

fn wait_of(mut child: Child) -> ExitStatus {
    child.wait().expect("waited for")
}

fn options() -> CGroupOptions {
    CGroupOptions {
        pids_max: 40,
        ..CGroupOptions::default()
    }
}

fn make(groups: &mut Groups, options: &CGroupOptions) -> TaskGroup {
    let group = groups.create(
        options,
        WallTime::from_secs(1_700_000_000),
        AssociationIndex::FIRST,
    );
    group.expect("made").expect("asked for")
}

/// Makes a group in the hierarchy of version 2 alone, whatever controllers that has.
fn unified_only(groups: &Groups) -> Option<TaskGroup> {
    let unified = groups.facts.unified.as_ref()?;
    let spot = Spot {
        parent: unified.own.clone().ok()?.join(PARENT),
        version: Version::Two,
        owner: GroupOwner::Worker,
        settings: Vec::new(),
    };
    let limits = GroupLimits::default();
    let racy = Racy::Forbidden;
    let made = TaskGroup::make(&[spot], "x:0:y:1", limits, racy, FREEZE_TIMEOUT);
    Some(made.expect("made"))
}

const FAMILY: &str = "setsid sleep 1000 & (sleep 1000 & sleep 1000) & while :; do :; done";

#[test]
fn version_two_freezes_kills_and_tells_emptiness() {
    let ground = Ground::new();
    let groups = ground.open();
    let kill = groups.capabilities().kill;
    let Some(mut group) = unified_only(&groups).filter(|_| kill == Ability::Enforced(Version::Two))
    else {
        println!("UNPROVEN on this machine: kill, freeze and emptiness of version 2: {kill}");
        return;
    };
    assert!(group.is_empty());
    let child = shell_in(&group, FAMILY);
    until("all four are there", || group.processes().len() >= 4);
    assert!(!group.is_empty());
    group.freeze().expect("frozen");
    until("frozen", || group.is_frozen());
    group.thaw().expect("thawed");
    until("thawed", || !group.is_frozen());
    // Frozen processes die, too.
    group.freeze().expect("frozen");
    empty(&mut group);
    assert_eq!(wait_of(child).signal(), Some(9));
    assert!(group.paths().is_empty());
    // The following steps are those for kernels that cannot kill whole groups.
    let mut group = unified_only(&groups).expect("as above");
    let child = shell_in(&group, "while :; do setsid sleep 1000 & sleep 0.01; done");
    until("some are there", || group.processes().len() >= 10);
    let dir = killing::Dir::found(group.paths().remove(0));
    until("it is empty", || {
        assert!(killing::freeze_and_kill(&dir));
        dir.is_empty()
    });
    assert_eq!(wait_of(child).signal(), Some(9));
    empty(&mut group);
}

#[test]
fn version_one_freezes_and_kills_by_its_freezer() {
    let ground = Ground::new();
    let mut groups = ground.open();
    groups.facts.unified = None;
    let found = groups.facts.legacy.get(&Controller::Freezer);
    if !found.is_some_and(Result::is_ok) || lacks("pids", &groups.capabilities().pids) {
        println!("UNPROVEN on this machine: the freezer of version 1: {found:?}");
        return;
    }
    let mut group = make(&mut groups, &options());
    assert_eq!(group.paths().len(), 2);
    let child = shell_in(&group, FAMILY);
    until("all four are there", || group.processes().len() >= 4);
    group.freeze().expect("frozen");
    until("frozen", || group.is_frozen());
    group.thaw().expect("thawed");
    until("thawed", || !group.is_frozen());
    group.freeze().expect("frozen");
    let paths = group.paths();
    empty(&mut group);
    assert_eq!(wait_of(child).signal(), Some(9));
    assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
}

#[test]
fn version_one_without_a_freezer_forbids_forks_and_kills_each() {
    let ground = Ground::new();
    let mut groups = ground.open();
    groups.facts.unified = None;
    groups.facts.legacy.remove(&Controller::Freezer);
    if lacks("pids of version 1", &groups.capabilities().pids) {
        return;
    }
    let mut group = make(&mut groups, &options());
    assert_eq!(group.paths().len(), 1);
    // The shell never stops starting others, each in a session of its own.
    let child = shell_in(&group, "while :; do setsid sleep 1000 & done");
    until("some are there", || group.processes().len() >= 10);
    empty(&mut group);
    // The shell dies by the kill, or because it was refused a fork before.
    assert!(!wait_of(child).success());
}

#[test]
fn limits_are_set_read_back_and_kept_to() {
    let ground = Ground::new();
    let mut groups = ground.open();
    let all = groups.capabilities();
    if lacks("memory", &all.memory) || lacks("cpu", &all.cpu_quota) || lacks("pids", &all.pids) {
        return;
    }
    let asked = CGroupOptions {
        // The number is not a whole number of pages.
        memory_limit_in_bytes: (64 << 20) + 1,
        cpu_shares: 6,
        cpu_quota_milli: 10,
        pids_max: 5,
        ..CGroupOptions::default()
    };
    let mut group = make(&mut groups, &asked);
    let paths = group.paths();
    let read = |name: &str| paths.iter().find_map(|dir| number(dir, name));
    let memory = read("memory.limit_in_bytes").or_else(|| read("memory.max"));
    assert!(memory.is_some_and(|m| m > 64 << 20 && m <= (64 << 20) + (1 << 20)));
    let weight = read("cpu.shares").or_else(|| read("cpu.weight"));
    assert_eq!(weight, Some(6));
    assert_eq!(read("pids.max"), Some(5));
    let child = shell_in(&group, "while :; do :; done");
    let throttled = || {
        let texts = paths.iter().filter_map(|dir| files::read(dir, "cpu.stat"));
        texts
            .into_iter()
            .any(|text| field(&text, "nr_throttled") > Some(0))
    };
    until("a hundredth of a core is too little for it", throttled);
    let used = group.usage();
    assert!(used.memory_bytes.is_some(), "{used:?}");
    assert!(used.memory_peak_bytes >= used.memory_bytes, "{used:?}");
    assert_eq!(group.out_of_memory(), None);
    empty(&mut group);
    assert_eq!(wait_of(child).signal(), Some(9));
}

#[test]
fn a_kill_for_want_of_memory_is_told_with_its_cause() {
    let ground = Ground::new();
    let mut groups = ground.open();
    if lacks("memory", &groups.capabilities().memory) {
        return;
    }
    let asked = CGroupOptions {
        memory_limit_in_bytes: 32 << 20,
        ..CGroupOptions::default()
    };
    let mut group = make(&mut groups, &asked);
    let child = shell_in(&group, "exec tail /dev/zero");
    assert_eq!(wait_of(child).signal(), Some(9));
    assert_eq!(group.out_of_memory(), Some(OutOfMemory::OwnLimit));
    let peak = group.usage().memory_peak_bytes;
    assert!(
        peak.is_none_or(|peak| peak > 16 << 20 && peak <= 33 << 20),
        "{peak:?}"
    );
    empty(&mut group);
}

#[test]
fn what_a_dead_worker_left_is_ended_and_nobody_elses() {
    let ground = Ground::new();
    let mut groups = ground.open();
    if lacks("pids", &groups.capabilities().pids) {
        return;
    }
    let group = make(&mut groups, &options());
    let paths = group.paths();
    let child = shell_in(&group, FAMILY);
    until("all four are there", || group.processes().len() >= 4);
    // A killed worker leaves its groups like this.
    std::mem::forget(group);
    let mut bystander = shell("exec sleep 1000");
    places::sweep(&ground.file(), Pid::from_raw(1));
    assert!(paths.iter().all(|path| path.exists()), "another's");
    let left = places::remove_leftovers(&ground.file(), PATIENCE);
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(wait_of(child).signal(), Some(9));
    assert!(paths.iter().all(|path| !path.exists()), "{paths:?}");
    assert!(bystander.try_wait().expect("looked at").is_none());
    bystander.kill().expect("killed");
    wait_of(bystander);
}

#[test]
fn a_keeper_ends_them_in_rounds() {
    let ground = Ground::new();
    let mut groups = ground.open();
    if lacks("pids", &groups.capabilities().pids) {
        return;
    }
    let group = make(&mut groups, &options());
    let paths = group.paths();
    let child = shell_in(&group, "while :; do setsid sleep 1000 & done");
    until("some are there", || group.processes().len() >= 10);
    std::mem::forget(group);
    until("all groups are gone", || {
        places::sweep(&ground.file(), nix::unistd::getpid());
        paths.iter().all(|path| !path.exists())
    });
    assert!(!wait_of(child).success());
}

#[test]
fn groups_below_a_tasks_own_go_with_it() {
    let ground = Ground::new();
    let mut groups = ground.open();
    if lacks("pids", &groups.capabilities().pids) {
        return;
    }
    let mut group = make(&mut groups, &options());
    let inner: Vec<PathBuf> = group
        .paths()
        .iter()
        .map(|path| path.join("inner"))
        .collect();
    for dir in &inner {
        fs::create_dir(dir).expect("made");
    }
    let child = shell("exec sleep 1000");
    for dir in &inner {
        files::write(dir, "cgroup.procs", &child.id().to_string()).expect("moved");
    }
    assert!(!group.is_empty());
    empty(&mut group);
    assert_eq!(wait_of(child).signal(), Some(9));
    assert!(inner.iter().all(|dir| !dir.exists()));
}

#[test]
fn what_cannot_be_made_leaves_nothing_and_says_everything() {
    let ground = Ground::new();
    let mut groups = ground.open();
    if lacks("pids", &groups.capabilities().pids) {
        return;
    }
    let parent = groups.facts.legacy.get(&Controller::Pids).cloned();
    let parent = parent.and_then(Result::ok).unwrap_or_else(|| {
        let unified = groups.facts.unified.clone().expect("one of them");
        unified.own.expect("usable")
    });
    let spot = |parent: &Path, setting| Spot {
        parent: parent.to_owned(),
        version: killing::Dir::found(parent.to_owned()).version,
        owner: GroupOwner::Administrator,
        settings: vec![setting],
    };
    let spots = [
        spot(&parent, Setting::Shares(4)),
        spot(Path::new("/nowhere"), Setting::Pids(1)),
    ];
    let limits = GroupLimits::default();
    let made = TaskGroup::make(&spots, "x:0:y:2", limits, Racy::Forbidden, FREEZE_TIMEOUT);
    let text = made.expect_err("refused").to_string();
    assert!(text.contains("cpu.") && text.contains("/nowhere"), "{text}");
    assert!(!parent.join("x:0:y:2").exists());
    let missing = CGroupOptions {
        root: "/sys/fs/cgroup".to_owned(),
        slice: "no/such/slice".to_owned(),
        subsystems: vec!["pids".to_owned()],
        ..CGroupOptions::default()
    };
    let error = groups
        .create(&missing, WallTime(0), AssociationIndex::FIRST)
        .expect_err("refused");
    assert!(error.to_string().contains("no/such/slice"), "{error}");
    for name in ["", "..", "a/b"] {
        let strange = CGroupOptions {
            subsystems: vec![name.to_owned()],
            ..missing.clone()
        };
        let error = groups
            .create(&strange, WallTime(0), AssociationIndex::FIRST)
            .expect_err("refused");
        assert!(matches!(error, GroupError::Subsystem(_)), "{error}");
    }
}
