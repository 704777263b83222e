//! Tests identities over restarts and copies, and leftovers of real processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use brasserie_common::{InvocationId, Time};
use brasserie_common_runtime::Clock;
use brasserie_worker_core::AssociationIndex;
use nix::unistd::Pid;

use super::groups::ListedGroup;
use super::*;
use crate::proc_table::{self, ProcessLife};

fn open(path: &Path) -> WorkerDirectory {
    WorkerDirectory::open(path, None, Clock).expect("the directory opens")
}

fn long_sleep() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000").stdin(Stdio::null());
    command
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

fn was_killed(mut child: Child) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let killed = matches!(child.try_wait(), Ok(Some(status)) if status.signal() == Some(9));
    if !killed {
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
    }
    killed
}

#[test]
fn one_directory_keeps_its_machine_lock_and_never_repeats_a_start_time() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let first = open(&path).identity().clone();
    let second = open(&path).identity().clone();
    assert_eq!(first.machine_lock, second.machine_lock);
    assert!(first.machine_lock.port >= 65_536);
    assert!(!first.machine_lock.hostname.is_empty());
    assert!(second.instance.0.start_time > first.instance.0.start_time);
    assert_ne!(first.instance.0.rand, second.instance.0.rand);
}

#[test]
fn every_further_instance_begins_in_a_second_of_its_own_which_successors_know() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let directory = open(&path);
    let mut last = directory.identity().instance;
    for _ in 0..5 {
        let next = directory.instances().next().expect("stored");
        assert!(next.0.start_time > last.0.start_time);
        assert_ne!(next.0.rand, last.0.rand);
        last = next;
    }
    drop(directory);
    assert!(open(&path).identity().instance.0.start_time > last.0.start_time);
}

#[test]
fn further_instances_come_a_second_apart_and_never_from_the_future() {
    let parent = tempfile::tempdir().expect("a folder");
    let directory = open(&parent.path().join("w"));
    let instances = directory.instances();
    // A worker with several schedulers does the same at its start.
    let mut asked = Clock.now();
    let mut last = instances.next().expect("stored");
    for _ in 0..2 {
        let (next, asked_for_it) = loop {
            let now = Clock.now();
            match instances.further().expect("stored") {
                Further::New(id) => break (id, now),
                Further::NotBefore(pause) => {
                    assert!(!pause.is_zero() && pause <= LONGEST_PAUSE, "{pause:?}");
                    thread::sleep(pause);
                }
            }
        };
        assert!(next.0.start_time > last.0.start_time);
        assert!(next.0.start_time <= Clock.wall().as_secs());
        assert!(Clock.now().since(asked) >= SHORTEST_PAUSE);
        (last, asked) = (next, asked_for_it);
    }
}

#[test]
fn a_further_instance_waits_for_its_second_and_no_longer_than_a_minute() {
    let now = WallTime::from_secs(1000);
    for (last, since, waits) in [
        // The last instance is old.
        (500, 400_000, 0),
        // The clock has reached the next second, but the last instance was made 0, 400 or 1000 ms ago.
        (999, 0, 1000),
        (999, 400, 600),
        (999, 1000, 0),
        // The start times run ahead of the clock.
        (1000, 1000, 1000),
        (1009, 1000, 10_000),
        // The clock was set back by a minute and by years, or the file contains nonsense.
        (1060, 0, 60_000),
        (99_999, 0, 60_000),
        (99_999, 59_000, 1000),
        (99_999, 60_000, 0),
        (i64::MAX, 60_000, 0),
        (i64::MIN, 0, 1000),
    ] {
        let since = Duration::from_millis(since);
        let waits = Duration::from_millis(waits);
        assert_eq!(pause(last, now, since), waits, "{last} {since:?}");
    }
}

#[test]
fn every_association_has_a_lock_of_its_own_which_no_port_can_be() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let directory = open(&path);
    let mut identity = directory.identity().clone();
    for number in [identity.machine_lock.port, i32::MAX - 3] {
        identity.machine_lock.port = number;
        assert_eq!(identity.machine_lock_of(0), identity.machine_lock);
        let locks = (0..16).map(|at| identity.machine_lock_of(at).port);
        let locks: std::collections::BTreeSet<i32> = locks.collect();
        assert_eq!(locks.len(), 16);
        assert!(locks.iter().all(|lock| *lock >= 65_536), "{locks:?}");
    }
}

#[test]
fn a_scheduler_keeps_its_lock_whatever_others_come_and_go() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let places = |called: &[&str]| {
        let called: Vec<String> = called.iter().map(|one| (*one).to_owned()).collect();
        let directory = open(&path);
        directory.instances().lock_places(&called).expect("stored")
    };
    assert_eq!(places(&["a"]), [0]);
    assert_eq!(places(&["a", "b"]), [0, 1]);
    assert_eq!(places(&["b", "a"]), [1, 0]);
    assert_eq!(places(&["b"]), [1]);
    // A new scheduler gets no lock of an absent one, which may come back.
    assert_eq!(places(&["b", "c"]), [1, 2]);
    assert_eq!(places(&["c", "a", "b"]), [2, 0, 1]);
    // But a new scheduler in the place of an absent one counts as that one with a new address.
    assert_eq!(places(&["moved", "b"]), [0, 1]);
    assert_eq!(places(&["a", "b"]), [0, 1]);
}

#[test]
fn locks_are_distinct_however_many_schedulers_there_have_been() {
    let mut known = Vec::new();
    for turn in 0..40 {
        let called: Vec<String> = (0..16).map(|at| format!("s{}", turn * 11 + at)).collect();
        let (places, after) = state::lock_places(&known, &called);
        let distinct: std::collections::BTreeSet<usize> = places.iter().copied().collect();
        assert_eq!((places.len(), distinct.len()), (16, 16));
        assert!(after.len() <= 64 && distinct.iter().all(|place| *place < 64));
        // The assignment is stable.
        assert_eq!(state::lock_places(&after, &called), (places, after.clone()));
        known = after;
    }
}

#[test]
fn a_start_time_in_the_future_is_exceeded_without_waiting() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    open(&path);
    let file = state::path(&path);
    let mut state = DirectoryState::load(&file).expect("read").expect("stored");
    state.last_start_time = 99_999_999_999;
    state.store(&file).expect("stored");
    assert_eq!(
        open(&path).identity().instance.0.start_time,
        100_000_000_000
    );
}

#[test]
fn a_copied_directory_draws_its_own_number() {
    let parent = tempfile::tempdir().expect("a folder");
    let (one, two) = (parent.path().join("one"), parent.path().join("two"));
    let original = open(&one).identity().machine_lock.clone();
    fs::create_dir(&two).expect("created");
    for name in ["lock", "worker.json"] {
        fs::copy(one.join(name), two.join(name)).expect("copied");
    }
    assert_ne!(open(&two).identity().machine_lock, original);
    assert_eq!(open(&one).identity().machine_lock, original);
}

#[test]
fn a_second_worker_is_refused() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let _first = open(&path);
    let error = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
    assert!(error.to_string().contains("in use"), "{error}");
}

#[test]
fn files_of_newer_or_other_programs_are_refused_by_name() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    open(&path);
    let file = state::path(&path);
    for (text, part) in [
        ("{\"version\": 2}", "version 2"),
        ("{\"version\": 1}", "lock_number"),
        ("rubbish", "cannot be understood"),
    ] {
        fs::write(&file, text).expect("written");
        let error = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
        let shown = error.to_string();
        assert!(
            shown.contains(part) && shown.contains("worker.json"),
            "{shown}"
        );
    }
    let good = LockNumber::draw(0, LockNumber::file_of(&path).expect("the lock file"));
    let low = LockNumber {
        number: 6789,
        ..good
    };
    let here = FileId::at(&path).expect("the directory");
    DirectoryState::new(low, 1, String::new(), None, Vec::new(), here)
        .store(&file)
        .expect("stored");
    assert!(WorkerDirectory::open(&path, None, Clock).is_err());
    // No second instance could follow this one, because each has to be later than the last.
    DirectoryState::new(good, i64::MAX, String::new(), None, Vec::new(), here)
        .store(&file)
        .expect("stored");
    let error = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
    assert!(error.to_string().contains("last_start_time"), "{error}");
}

#[test]
fn a_used_directory_that_lacks_its_state_is_refused() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    open(&path);
    fs::create_dir(path.join(JOBS)).expect("made as by a worker");
    fs::remove_file(state::path(&path)).expect("removed");
    let error = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
    let shown = error.to_string();
    assert!(shown.contains("worker.json is missing"), "{shown}");
    // The message names this remedy.
    fs::remove_dir(path.join(JOBS)).expect("removed");
    open(&path);
}

#[test]
fn a_copy_of_a_directory_kills_nothing_of_the_original() {
    let parent = tempfile::tempdir().expect("a folder");
    let [path, copy] = ["w", "copy"].map(|name| parent.path().join(name));
    let marker = Marker::from_text("1:marker-of-an-original");
    let original = WorkerDirectory::open(&path, Some(&marker), Clock).expect("opened");
    let mut task = long_sleep()
        .env("BRASSERIE_KEPT", marker.as_str())
        .spawn()
        .expect("started");
    let copied = Command::new("cp").arg("-a").args([&path, &copy]).status();
    assert!(copied.expect("cp").success());
    let error = WorkerDirectory::open(&copy, None, Clock).expect_err("refused");
    let named = format!("alive: {}. None", task.id());
    assert!(error.to_string().contains(&named), "{error}");
    assert_eq!(task.try_wait().expect("ours"), None, "it was killed");
    task.kill().expect("ours");
    task.wait().expect("ours");
    WorkerDirectory::open(&copy, None, Clock).expect("nothing of it is alive");
    drop(original);
}

#[test]
fn the_successor_ends_what_carries_the_marker_and_its_descendants() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let marker = Marker::from_text("1:marker-of-this-test");
    drop(WorkerDirectory::open(&path, Some(&marker), Clock).expect("opened"));
    let marked = long_sleep()
        .env("BRASSERIE_KEPT", marker.as_str())
        .process_group(0)
        .spawn()
        .expect("started");
    let mut family = Command::new("sh");
    // The child clears its environment, and is found by its parent.
    family
        .args(["-c", "env -i sleep 1000 & echo $!; wait"])
        .stdout(Stdio::piped());
    let mut family = family
        .env("BRASSERIE_KEPT", marker.as_str())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let output = family.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let bare: i32 = line.trim().parse().expect("an id");
    let mut stranger = long_sleep().spawn().expect("started");
    WorkerDirectory::open(&path, None, Clock).expect("opened after ending the marked one");
    assert!(was_killed(marked) && was_killed(family));
    let bare = crate::proc_table::find(Pid::from_raw(bare));
    assert!(bare.is_none_or(|p| p.life == crate::proc_table::ProcessLife::Zombie));
    assert!(matches!(stranger.try_wait(), Ok(None)), "strangers live on");
    stranger.kill().expect("killed");
    stranger.wait().expect("ended");
}

#[test]
fn the_successor_ends_listed_groups_but_no_stranger_with_the_same_number() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let directory = open(&path);
    let task = long_sleep()
        .env_clear()
        .process_group(0)
        .spawn()
        .expect("started");
    let stranger = long_sleep()
        .env_clear()
        .process_group(0)
        .spawn()
        .expect("started");
    let invocation = InvocationId::new(1, 2);
    let groups = directory.groups();
    groups.lock().add(ListedGroup {
        group: pid(&task),
        listed: Clock.now(),
        invocation,
        association: AssociationIndex::FIRST,
    });
    let long_ago = Time::from_nanos(1);
    groups.lock().add(ListedGroup {
        group: pid(&stranger),
        listed: long_ago,
        invocation,
        association: AssociationIndex::FIRST,
    });
    drop((directory, groups));
    open(&path);
    assert!(was_killed(task));
    assert!(!was_killed(stranger), "it started after the listed one");
}

/// A session whose leader has started a process without environment and has died. The process cannot outlive the test.
struct Orphaned {
    session: Pid,
    process: Pid,
}

impl Orphaned {
    /// Starts it. `list` runs while the leader lives, as a worker lists a task.
    fn start(list: impl FnOnce(Pid)) -> Self {
        let mut leader = Command::new("setsid");
        leader.args([
            "sh",
            "-c",
            "env -i sleep 1000 </dev/null >/dev/null 2>&1 & echo $!; read end",
        ]);
        leader.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leader = leader.spawn().expect("started");
        let session = pid(&leader);
        let mut line = String::new();
        let output = leader.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        list(session);
        let process = Pid::from_raw(line.trim().parse().expect("an id"));
        let name = || fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        while name() != "sleep\n" {
            assert!(proc_table::find(process).is_some(), "it lives");
            thread::yield_now();
        }
        drop(leader.stdin.take());
        leader.wait().expect("it ends");
        let orphan = proc_table::find(process).expect("it lives");
        assert_eq!((orphan.group, orphan.session), (session, session));
        assert_eq!(proc_table::find(session), None, "its leader is gone");
        Orphaned { session, process }
    }

    fn is_alive(&self) -> bool {
        proc_table::find(self.process)
            .is_some_and(|found| found.life == ProcessLife::Alive && found.session == self.session)
    }
}

impl Drop for Orphaned {
    fn drop(&mut self) {
        if self.is_alive() {
            let _ = nix::sys::signal::kill(self.process, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// Opens a directory whose last user has listed the session at the time `listed`.
fn listing(parent: &Path, session: Pid, listed: Time) -> WorkerDirectory {
    let directory = open(&parent.join("w"));
    directory.groups().lock().add(ListedGroup {
        group: session,
        listed,
        invocation: InvocationId::new(1, 2),
        association: AssociationIndex::FIRST,
    });
    directory
}

/// Waits until a running process is older than one tick of the clock that counts starts.
fn a_tick_later() -> Time {
    thread::sleep(Duration::from_millis(25));
    Clock.now()
}

fn says_until_when_it_held(directory: &WorkerDirectory, held: Time) {
    let groups = directory.groups();
    let groups = groups.lock();
    groups
        .held()
        .store(held.as_nanos(), std::sync::atomic::Ordering::Release);
    groups.held_until().expect("a second descriptor").write();
}

#[test]
fn the_successor_ends_a_listed_group_whose_leader_is_dead() {
    let parent = tempfile::tempdir().expect("a folder");
    let mut directory = None;
    let task = Orphaned::start(|session| {
        let listed = listing(parent.path(), session, Time::from_nanos(1));
        says_until_when_it_held(&listed, a_tick_later());
        directory = Some(listed);
    });
    drop(directory);
    assert!(task.is_alive());
    open(&parent.path().join("w"));
    assert!(!task.is_alive(), "the successor begins, and a task lives");
}

#[test]
fn processes_that_may_not_be_tasks_are_named_and_not_killed() {
    let parent = tempfile::tempdir().expect("a folder");
    let long_ago = Time::from_nanos(1);
    let mut directory = None;
    // Nothing proves that the number was still held when the process started.
    let process = Orphaned::start(|session| {
        let listed = listing(parent.path(), session, long_ago);
        says_until_when_it_held(&listed, Time::from_nanos(2));
        directory = Some(listed);
    });
    drop(directory);
    let path = parent.path().join("w");
    for _ in 0..2 {
        let refused = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
        let shown = refused.to_string();
        let named = format!("{} (sleep)", process.process);
        let file = path.join("groups").display().to_string();
        assert!(shown.contains(&named) && shown.contains(&file), "{shown}");
        assert!(process.is_alive());
    }
    // The message tells the operator to do this.
    fs::remove_file(path.join("groups")).expect("removed");
    open(&path);
    assert!(process.is_alive());
}

#[test]
fn numbers_of_a_namespace_that_is_gone_name_nobody() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let another = |lifetime, inode| {
        let header = header(Clock).expect("proc says where we are");
        let namespace = PidNamespace {
            inode,
            ..header.namespace
        };
        Some(Header {
            namespace,
            lifetime,
            ..header
        })
    };
    let mut stranger = long_sleep().process_group(0).spawn().expect("started");
    let directory = open(&path);
    let relist = |header| {
        let mut list = GroupList::create(&path, header).expect("created");
        list.add(ListedGroup {
            group: pid(&stranger),
            listed: Clock.now(),
            invocation: InvocationId::new(1, 2),
            association: AssociationIndex::FIRST,
        });
    };
    let own = PidNamespace::of_this_process().expect("known");
    drop(directory);
    if own.is_initial() {
        // None of its processes is visible: the kernel has killed everything in the namespace.
        relist(another(NamespaceLifetime::Worker, 1));
        drop(open(&path));
    }
    // The namespace may be alive and invisible from here: it may be the machine's own, or that of a container.
    relist(another(NamespaceLifetime::Shared, 1));
    if !own.is_initial() {
        let refused = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
        let shown = refused.to_string();
        let group = stranger.id().to_string();
        assert!(
            shown.contains("pid:[1]") && shown.contains(&group),
            "{shown}"
        );
    }
    // An earlier version did not say where its numbers count.
    relist(None);
    let refused = WorkerDirectory::open(&path, None, Clock).expect_err("refused");
    let named = format!("{} (sleep)", stranger.id());
    assert!(refused.to_string().contains(&named), "{refused}");
    assert!(matches!(stranger.try_wait(), Ok(None)), "it lives on");
    stranger.kill().expect("killed");
    stranger.wait().expect("ended");
}

#[test]
fn marks_of_another_boot_mean_nothing() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let marker = Marker::from_text("1:marker-of-another-boot");
    drop(WorkerDirectory::open(&path, Some(&marker), Clock).expect("opened"));
    let file = state::path(&path);
    let mut state = DirectoryState::load(&file).expect("read").expect("stored");
    state.boot_id = "another".to_owned();
    state.store(&file).expect("stored");
    let innocent = long_sleep()
        .env("BRASSERIE_KEPT", marker.as_str())
        .spawn()
        .expect("started");
    open(&path);
    assert!(!was_killed(innocent));
}

#[test]
fn a_predecessor_in_the_same_process_is_not_searched_by_the_common_marker() {
    let parent = tempfile::tempdir().expect("a folder");
    let path = parent.path().join("w");
    let marker = Marker::from_text("1:marker-of-this-process");
    drop(WorkerDirectory::open(&path, Some(&marker), Clock).expect("opened"));
    let neighbour = long_sleep()
        .env("BRASSERIE_KEPT", marker.as_str())
        .spawn()
        .expect("started");
    WorkerDirectory::open(&path, Some(&marker), Clock).expect("opened");
    assert!(!was_killed(neighbour));
}

#[test]
fn what_cannot_be_killed_is_named() {
    let pids = vec![Pid::from_raw(11), Pid::from_raw(12)];
    let text = DirectoryError::from(LeftoverError::Survives { pids }).to_string();
    assert!(
        text.contains("11, 12") && text.contains("restart the machine"),
        "{text}"
    );
}
