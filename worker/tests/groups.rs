//! Tests tasks in control groups of the present kernel, started by a runner. Each test has a subtree of its own in every hierarchy. A
//! test prints the abilities that the machine lacks as unproven.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use brasserie_common::task::CGroupOptions;
use brasserie_common::{
    Arguments, EndedBy, Ending, Fault, InvocationId, JobName, KillMethod, KillRequest, NodeName,
    TaskSubprocessOptions, Time, WallTime,
};
use brasserie_worker::groups::mounts::{Version, parse_mounts};
use brasserie_worker::groups::{Ability, Capabilities, FREEZE_TIMEOUT, Groups, GroupsConfig, Tag};
use brasserie_worker::logs::{LogConfig, LogStore};
use brasserie_worker::process::{
    ProcessRunner, RunKey, Runner, RunnerConfig, SpawnRequest, TaskEnd,
};

/// The longest wait of any test; only a failing one reaches it.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(5);

static NEXT: AtomicI64 = AtomicI64::new(1);

struct Bench {
    runner: ProcessRunner,
    ends: Receiver<TaskEnd>,
    capabilities: Capabilities,
    /// The parent of all of the test's groups, by its path in each hierarchy.
    root: String,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = format!("/brasserie-test-{}-{number}", std::process::id());
        let clock = Arc::new(|| WallTime::from_secs(1_700_000_000));
        let logs = LogStore::open(LogConfig::new(dir.path().join("logs")), clock).expect("logs");
        let groups = GroupsConfig {
            shard: "a/b:c".to_owned(),
            tag: Tag(9),
            places: dir.path().join("cgroups"),
            root: Some(root.clone()),
            freeze_timeout: FREEZE_TIMEOUT,
            keeper: None,
        };
        let capabilities = Groups::open(groups.clone()).capabilities();
        let config = RunnerConfig {
            groups: Some(groups),
            ..RunnerConfig::new(dir.path().to_owned(), "here".to_owned(), Arc::new(logs))
        };
        let (sender, ends) = mpsc::channel();
        let sink = move |end: TaskEnd| drop(sender.send(end));
        let runner = ProcessRunner::start(config, sink).expect("a runner");
        Bench {
            runner,
            ends,
            capabilities,
            root,
            dir,
        }
    }

    fn start(&self, command: &[&str], cgroups: CGroupOptions) -> RunKey {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let node = NodeName::try_from(format!("n{number}")).expect("a name");
        let own = i64::from(std::process::id()) << 20 | number;
        let key = RunKey {
            invocation: InvocationId::new(1_700_000_000, own),
            job: JobName::try_from("job").expect("a name"),
            node: node.clone(),
        };
        let request = SpawnRequest {
            key: key.clone(),
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            argument: "{}".to_owned(),
            path_to_node: vec![node],
            options: TaskSubprocessOptions {
                arguments: Arguments::None,
                cgroups,
                ..TaskSubprocessOptions::default()
            },
            cuda_devices: Vec::new(),
            fence: None,
            not_after: Time::NEVER,
            association: brasserie_worker_core::AssociationIndex::FIRST,
            asked: Instant::now(),
            inputs: None,
        };
        self.runner.spawn(request).expect("accepted");
        key
    }

    fn end(&self) -> TaskEnd {
        self.ends.recv_timeout(PATIENCE).expect("it ends")
    }

    fn script(&self, text: &str, cgroups: CGroupOptions) -> TaskEnd {
        self.start(&["/bin/sh", "-c", text], cgroups);
        self.end()
    }

    fn trees(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string("/proc/self/mountinfo").expect("readable");
        let mounts = parse_mounts(&text);
        let trees = mounts.iter().filter_map(|mount| mount.locate(&self.root));
        trees.filter(|tree| tree.is_dir()).collect()
    }

    /// Asserts that no process and no group of the task is left.
    fn assert_gone(&self, key: &RunKey) {
        assert_eq!(alive(key), [0; 0], "processes of {key}");
        let groups: Vec<PathBuf> = self.trees().iter().flat_map(|tree| below(tree)).collect();
        let named = |path: &PathBuf| path.to_string_lossy().contains("00000009");
        assert!(!groups.iter().any(named), "{groups:?}");
    }

    fn lacks(&self, what: &str, ability: impl Fn(&Capabilities) -> &Ability) -> bool {
        match ability(&self.capabilities) {
            Ability::Enforced(_) => false,
            Ability::Missing(why) => {
                println!("UNPROVEN on this machine: {what}: {why}");
                true
            }
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let give_up = Instant::now() + PATIENCE;
        for tree in self.trees() {
            let mut groups = below(&tree);
            groups.reverse();
            groups.push(tree);
            for group in groups {
                while fs::remove_dir(&group).is_err() && group.exists() && Instant::now() < give_up
                {
                    thread::sleep(LOOK);
                }
            }
        }
        drop(fs::remove_dir_all(self.dir.path()));
    }
}

/// Returns the groups below a folder, outer groups first.
fn below(tree: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(tree).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.push(entry.path());
            found.extend(below(&entry.path()));
        }
    }
    found
}

/// Returns the processes that were started with the run's own environment, in any group or session.
fn alive(key: &RunKey) -> Vec<i32> {
    let entry = format!("BRASSERIE_INVOCATION={}", key.invocation);
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").expect("readable").flatten() {
        let id = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let environment = fs::read(process.path().join("environ")).unwrap_or_default();
        if let Some(id) = id
            && environment
                .split(|b| *b == 0)
                .any(|e| e == entry.as_bytes())
        {
            found.push(id);
        }
    }
    found
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < give_up, "never so: {what}");
        thread::sleep(LOOK);
    }
}

fn pids(most: i64) -> CGroupOptions {
    CGroupOptions {
        pids_max: most,
        ..CGroupOptions::default()
    }
}

#[test]
fn a_memory_limit_is_enforced_and_told_with_the_peak() {
    let bench = Bench::new();
    if bench.lacks("memory", |all| &all.memory) {
        return;
    }
    let limit: i64 = 48 << 20;
    let cgroups = CGroupOptions {
        memory_limit_in_bytes: limit,
        ..CGroupOptions::default()
    };
    let key = bench.start(&["tail", "/dev/zero"], cgroups.clone());
    let end = bench.end();
    assert_eq!(end.story.ending, Ending::Signalled(9));
    assert_eq!(end.story.ended_by, Some(EndedBy::MemoryLimit));
    assert_eq!(end.story.fault, Fault::Task);
    let peak = end.story.peak_memory_bytes.expect("told");
    assert!(peak > 24 << 20 && peak <= 49 << 20, "{peak}");
    assert_eq!(
        end.status.exception(),
        Some("the task was killed by signal 9 (SIGKILL), as it reached its memory limit")
    );
    bench.assert_gone(&key);
    // The end names a part that died at the limit if the task fails by it, and not if the task continues.
    let end = bench.script("tail /dev/zero; exit 3", cgroups.clone());
    assert_eq!(end.story.ended_by, Some(EndedBy::MemoryLimit), "{end:?}");
    if bench.capabilities.memory == Ability::Enforced(Version::One) {
        let end = bench.script("tail /dev/zero; true", cgroups);
        assert_eq!(end.story.ended_by, None);
        assert!(end.status.bits() == brasserie_common::ReportedStatus::done().bits());
    }
}

#[test]
fn a_quota_throttles() {
    let bench = Bench::new();
    if bench.lacks("cpu quota", |all| &all.cpu_quota) {
        return;
    }
    let cgroups = CGroupOptions {
        cpu_quota_milli: 10,
        ..CGroupOptions::default()
    };
    let key = bench.start(&["/bin/sh", "-c", "while :; do :; done"], cgroups);
    until("it was throttled", || {
        let groups = bench.trees().into_iter().flat_map(|tree| below(&tree));
        let texts = groups.filter_map(|group| fs::read_to_string(group.join("cpu.stat")).ok());
        let mut lines = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.any(|line| line.strip_prefix("nr_throttled ").is_some_and(|n| n != "0"))
    });
    let request = KillRequest {
        method: KillMethod::Kill,
        wait: Duration::ZERO,
    };
    bench
        .runner
        .kill(&key, request, EndedBy::Operator)
        .expect("runs");
    let end = bench.end();
    assert_eq!(end.story.ended_by, Some(EndedBy::Operator));
    bench.assert_gone(&key);
}

#[test]
fn a_fork_bomb_is_refused_its_processes_and_ends() {
    let bench = Bench::new();
    if bench.lacks("pids", |all| &all.pids) {
        return;
    }
    let bomb = "f() { f | f & }; f; sleep 1";
    let key = bench.start(&["/bin/sh", "-c", bomb], pids(30));
    let end = bench.end();
    let refused = |line: &String| line.to_lowercase().contains("fork");
    assert!(end.story.last_lines.iter().any(refused), "{:?}", end.story);
    bench.assert_gone(&key);
}

#[test]
fn a_daemon_in_a_session_of_its_own_is_gone_at_the_end() {
    let bench = Bench::new();
    if bench.lacks("pids", |all| &all.pids) {
        return;
    }
    let started = bench.dir.path().join("started");
    let script = format!(
        "setsid sh -c 'trap \"\" TERM HUP; echo > {}; while :; do sleep 1000; done' >/dev/null 2>&1 </dev/null 3>&- 4>&- & \
         while ! [ -e {} ]; do sleep 0.01; done",
        started.display(),
        started.display()
    );
    let key = bench.start(&["/bin/sh", "-c", &script], pids(30));
    let end = bench.end();
    assert_eq!(end.story.ending, Ending::Exited(0), "{:?}", end.story);
    bench.assert_gone(&key);
    // A process that holds a pipe delays the end no longer than a pipeline may.
    let key = bench.start(&["/bin/sh", "-c", "setsid sleep 1000 & exit 0"], pids(30));
    let end = bench.end();
    assert_eq!(end.story.ending, Ending::Exited(0));
    bench.assert_gone(&key);
}

/// Returns the kernel's letter for the state of a process, and its parent; `None` if there is no such process.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    let mut fields = behind_the_name.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Returns whether each process is stopped, or waits in the kernel for a stopped one. A process that starts a program by `vfork`
/// continues when the new process executes it, and does not appear stopped before.
fn stand_still(processes: &[i32]) -> bool {
    let stats: Vec<Option<(char, i32)>> = processes.iter().map(|pid| stat(*pid)).collect();
    let is_stopped = |one: &Option<(char, i32)>| matches!(one, Some(('T', _)));
    let awaits_a_stopped_one = |pid: i32| {
        let mut all = stats.iter().filter(|one| is_stopped(one)).flatten();
        all.any(|(_, parent)| *parent == pid)
    };
    processes.iter().zip(&stats).all(|(pid, one)| match one {
        Some(('D', _)) => awaits_a_stopped_one(*pid),
        other => is_stopped(other),
    })
}

#[test]
fn a_stopped_task_stands_still_with_those_that_left_its_process_group() {
    let bench = Bench::new();
    if bench.lacks("pids", |all| &all.pids) {
        return;
    }
    let (ids, told) = (bench.dir.path().join("ids"), bench.dir.path().join("told"));
    // One process is in a session of its own and starts others all the time; the other is an orphan in another session.
    let script = format!(
        "setsid sh -c 'trap \"echo > {told}; exit\" TERM; echo $$ >> {ids}; while :; do sleep 0.01; done' & \
         (setsid sh -c 'echo $$ >> {ids}; exec sleep 1000' &); \
         trap 'while ! [ -e {told} ]; do sleep 0.01; done; exit 3' TERM; echo $$ >> {ids}; wait",
        told = told.display(),
        ids = ids.display(),
    );
    let key = bench.start(&["/bin/sh", "-c", &script], pids(30));
    let read = || -> Vec<i32> {
        let text = fs::read_to_string(&ids).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    until("all have started", || read().len() == 3);
    let listed = read();
    // The processes that they started are stopped, too.
    let all_stopped = || stand_still(&alive(&key));
    let is_stopped = |pid: &i32| matches!(stat(*pid), Some(('T', _)));
    let none_stopped = || !listed.iter().any(is_stopped);
    bench.runner.suspend(&key);
    until("all stand still", all_stopped);
    bench.runner.resume(&key);
    until("all go on", none_stopped);
    bench.runner.suspend(&key);
    until("all stand still again", all_stopped);
    let request = KillRequest {
        method: KillMethod::TermWaitKill,
        wait: PATIENCE,
    };
    bench
        .runner
        .kill(&key, request, EndedBy::Operator)
        .expect("runs");
    // Stopped processes would receive the signal only when they are dead.
    until("the one that left has heard of the end", || told.exists());
    let end = bench.end();
    assert_eq!(end.story.ending, Ending::Exited(3), "{:?}", end.story);
    bench.assert_gone(&key);
}

#[test]
fn the_child_is_inside_before_its_program_runs() {
    let bench = Bench::new();
    if bench.lacks("pids", |all| &all.pids) {
        return;
    }
    let out = bench.dir.path().join("where");
    let script = format!("cat /proc/self/cgroup > {}", out.display());
    let end = bench.script(&script, pids(5));
    assert_eq!(end.story.ending, Ending::Exited(0), "{:?}", end.story);
    let places = fs::read_to_string(&out).expect("written");
    let own = places.lines().filter(|line| line.contains(&bench.root));
    let own: Vec<&str> = own.collect();
    assert!(!own.is_empty(), "{places}");
    assert!(
        own.iter()
            .all(|line| line.contains("/brasserie/a%2Fb%3Ac:")),
        "{own:?}"
    );
    // A task that asks for no limits has no group.
    let end = bench.script(&script, CGroupOptions::default());
    assert_eq!(end.story.ending, Ending::Exited(0));
    let places = fs::read_to_string(&out).expect("written");
    assert!(!places.contains(&bench.root), "{places}");
}

#[test]
fn the_named_slices_are_used_as_they_always_were() {
    let bench = Bench::new();
    let root = Path::new("/sys/fs/cgroup");
    let slice = bench.root.trim_start_matches('/').to_owned();
    let is_there = |name: &str| root.join(name).join(&slice).is_dir();
    let legacy = bench.capabilities.memory == Ability::Enforced(Version::One);
    if !legacy || !is_there("memory") || !is_there("cpu") {
        println!(
            "UNPROVEN on this machine: slices of version 1 below {}",
            root.display()
        );
        return;
    }
    let out = bench.dir.path().join("where");
    let script = format!("cat /proc/self/cgroup > {}", out.display());
    let cgroups = CGroupOptions {
        root: root.to_string_lossy().into_owned(),
        slice: slice.clone(),
        subsystems: vec!["memory".to_owned(), "cpu".to_owned()],
        memory_limit_in_bytes: 64 << 20,
        pids_max: 10,
        ..CGroupOptions::default()
    };
    let end = bench.script(&script, cgroups.clone());
    assert_eq!(end.story.ending, Ending::Exited(0), "{:?}", end.story);
    let places = fs::read_to_string(&out).expect("written");
    let of = |name: &str| {
        let line = places
            .lines()
            .find(|line| line.contains(&format!(":{name}:")));
        line.expect("listed").to_owned()
    };
    for name in ["memory", "cpu"] {
        let line = of(name);
        assert!(line.contains(&format!(":/{slice}/a%2Fb%3Ac:")), "{line}");
    }
    // The worker's own groups have the controllers that the slices lack.
    assert!(
        of("pids").contains(&format!(":/{slice}/brasserie/")),
        "{places}"
    );
    let missing = CGroupOptions {
        slice: "no-such-slice".to_owned(),
        ..cgroups
    };
    let end = bench.script("true", missing);
    let Ending::NotStarted(why) = &end.story.ending else {
        panic!("it ran: {end:?}");
    };
    assert!(why.contains("no-such-slice"), "{why}");
    assert_eq!(end.story.fault, Fault::Worker);
    assert!(end.status.is_incomplete_backoff());
}

#[test]
fn a_runner_without_groups_refuses_who_asks_for_some() {
    let mut bench = Bench::new();
    let clock = Arc::new(|| WallTime::from_secs(1_700_000_000));
    let logs = LogStore::open(LogConfig::new(bench.dir.path().join("more")), clock).expect("logs");
    let config = RunnerConfig::new(
        bench.dir.path().join("other"),
        "here".to_owned(),
        Arc::new(logs),
    );
    let (sender, ends) = mpsc::channel();
    let sink = move |end: TaskEnd| drop(sender.send(end));
    bench.runner = ProcessRunner::start(config, sink).expect("a runner");
    bench.ends = ends;
    let end = bench.script("true", pids(5));
    assert!(matches!(end.story.ending, Ending::NotStarted(_)), "{end:?}");
    assert_eq!(end.story.fault, Fault::Worker);
    let end = bench.script("true", CGroupOptions::default());
    assert_eq!(end.story.ending, Ending::Exited(0));
}
