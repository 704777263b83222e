//! Reads the machine's processes from `/proc`: parents, groups and start times.

pub(crate) mod environments;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use nix::dir::Dir;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use nix::unistd::{Pid, SysconfVar, sysconf};

/// The clock ticks a second if the system does not report them: the number of every architecture we know.
const USUAL_TICKS: u64 = 100;
const PROC: &str = "/proc";

/// The largest part of `/proc/PID/stat` that is read: the line has 52 numbers and a name of at most 64 bytes.
const MAX_STAT_BYTES: u64 = 4096;
/// The largest part of `/proc/PID/status` that is read: it names all supplementary groups, of which the kernel allows 65,536.
const MAX_STATUS_BYTES: u64 = 1 << 20;
/// The largest part of an environment that is searched, in bytes. The kernel's own limit for arguments and environment together is 6 MiB
/// with the default stack limit of 8 MiB.
const MAX_ENVIRONMENT_BYTES: u64 = 8 << 20;

/// One process. Its id and start together identify it for as long as the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessEntry {
    pub pid: Pid,
    pub parent: Pid,
    pub group: Pid,
    pub session: Pid,
    pub start: StartTicks,
    pub life: ProcessLife,
}

/// The time at which a process started, in kernel ticks since the machine's start; counts suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StartTicks(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessLife {
    Alive,
    /// The process runs no code and only waits for its parent to reap it.
    Zombie,
}

/// Returns `/proc` as it was mounted when this process first opened it. A later mount over it hides no process from a keeper.
pub(crate) fn proc() -> io::Result<&'static OwnedFd> {
    static FOLDER: OnceLock<OwnedFd> = OnceLock::new();
    match FOLDER.get() {
        Some(folder) => Ok(folder),
        None => {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
            let opened = open(PROC, flags, Mode::empty())?;
            Ok(FOLDER.get_or_init(|| opened))
        }
    }
}

/// Returns the numeric names in a folder below this `/proc`.
fn numbers(proc: BorrowedFd<'_>, folder: &str) -> io::Result<Vec<i32>> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut folder = Dir::openat(proc, folder, flags, Mode::empty())?;
    let mut numbers = Vec::new();
    for entry in folder.iter() {
        let entry = entry?;
        let name = entry.file_name().to_str();
        numbers.extend(name.ok().and_then(|name| name.parse::<i32>().ok()));
    }
    Ok(numbers)
}

/// Returns all visible processes. Some may be gone when this returns, and newer ones may be missing.
pub(crate) fn all() -> io::Result<Vec<ProcessEntry>> {
    let all = numbers(proc()?.as_fd(), ".")?
        .into_iter()
        .map(Pid::from_raw);
    Ok(all.filter_map(find).collect())
}

/// Returns one process, if it exists.
pub(crate) fn find(pid: Pid) -> Option<ProcessEntry> {
    find_in(proc().ok()?.as_fd(), pid)
}

/// Does the same as [`find`], with a `/proc` that may belong to another PID namespace.
pub(crate) fn find_in(proc: BorrowedFd<'_>, pid: Pid) -> Option<ProcessEntry> {
    let text = read_in(proc, &format!("{pid}/stat"), MAX_STAT_BYTES)?;
    let mut process = parse(pid, &text)?;
    // If the main thread has exited while others run, the process looks like a zombie. One of those threads may still end a PID
    // namespace.
    if process.life == ProcessLife::Zombie && thread_count(proc, pid) > 1 {
        process.life = ProcessLife::Alive;
    }
    Some(process)
}

/// Returns the process groups of a PID namespace: their numbers there, and their numbers here. `init` is its PID 1, a child of a process
/// of this namespace. Everything in the namespace descends from it.
pub(crate) fn groups_below(init: Pid) -> HashMap<Pid, Pid> {
    let table: HashMap<Pid, ProcessEntry> = all()
        .unwrap_or_default()
        .into_iter()
        .map(|process| (process.pid, process))
        .collect();
    let is_below = |process: &&ProcessEntry| {
        let mut at = **process;
        // No line of ancestors is longer than the number of processes. Process ids may be reused while this reads.
        (0..table.len()).any(|_| {
            let parent = at.parent;
            at = *table.get(&parent).unwrap_or(&at);
            parent == init
        })
    };
    let below = table.values().filter(is_below);
    below
        .filter_map(|process| {
            let status = read(&format!("{}/status", process.pid), MAX_STATUS_BYTES)?;
            group_there(&status).map(|group| (group, process.group))
        })
        .collect()
}

/// Returns the group of a process by its number one namespace further in than this one.
fn group_there(status: &[u8]) -> Option<Pid> {
    let text = String::from_utf8_lossy(status);
    let numbers = text.lines().find_map(|line| line.strip_prefix("NSpgid:"))?;
    let number = numbers.split_ascii_whitespace().nth(1)?;
    number.parse().ok().map(Pid::from_raw)
}

/// Returns whether the process was started with this entry in its environment; false if that is not readable.
pub(crate) fn environment_has(pid: Pid, entry: &[u8]) -> bool {
    read(&format!("{pid}/environ"), MAX_ENVIRONMENT_BYTES)
        .is_some_and(|block| block.split(|b| *b == 0).any(|e| e == entry))
}

fn thread_count(proc: BorrowedFd<'_>, pid: Pid) -> usize {
    numbers(proc, &format!("{pid}/task")).map_or(0, |threads| threads.len())
}

/// Reads a file below `/proc`.
fn read(path: &str, max_bytes: u64) -> Option<Vec<u8>> {
    read_in(proc().ok()?.as_fd(), path, max_bytes)
}

fn read_in(proc: BorrowedFd<'_>, path: &str, max_bytes: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let file = File::from(openat(proc, path, flags, Mode::empty()).ok()?);
    file.take(max_bytes).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns the fields of `/proc/PID/stat` after the name. The name itself may contain spaces, parentheses and bytes that are no text.
pub(crate) fn stat_fields(stat: &[u8]) -> Option<Vec<&str>> {
    let name_end = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    Some(rest.split_ascii_whitespace().collect())
}

fn parse(pid: Pid, stat: &[u8]) -> Option<ProcessEntry> {
    let fields = stat_fields(stat)?;
    let number = |at: usize| fields.get(at)?.parse::<i64>().ok();
    let id = |at: usize| Some(Pid::from_raw(i32::try_from(number(at)?).ok()?));
    Some(ProcessEntry {
        pid,
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        start: StartTicks(u64::try_from(number(19)?).ok()?),
        life: match *fields.first()? {
            "Z" | "X" | "x" => ProcessLife::Zombie,
            _ => ProcessLife::Alive,
        },
    })
}

/// Returns the nanoseconds of one tick, the unit of start times.
pub(crate) fn nanos_per_tick() -> u64 {
    let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
    let ticks = ticks.and_then(|t| u64::try_from(t).ok()).filter(|t| *t > 0);
    1_000_000_000 / ticks.unwrap_or(USUAL_TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_itself_with_its_parent_and_group() {
        let me = find(nix::unistd::getpid()).expect("this process");
        assert_eq!(me.parent, nix::unistd::getppid());
        assert_eq!(me.group, nix::unistd::getpgrp());
        assert_eq!(me.life, ProcessLife::Alive);
        assert!(all().expect("listed").contains(&me));
    }

    #[test]
    fn names_with_parentheses_and_spaces_do_not_shift_the_fields() {
        let line = b"7 (a) b) Z 3 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0";
        let process = parse(Pid::from_raw(7), line).expect("parsed");
        assert_eq!(process.parent, Pid::from_raw(3));
        assert_eq!(process.session, Pid::from_raw(7));
        assert_eq!(process.start, StartTicks(4711));
        assert_eq!(process.life, ProcessLife::Zombie);
    }

    #[test]
    fn groups_in_a_namespace_have_a_second_number() {
        let status = b"Name:\tsh\nNSpid:\t710\t5\t1\nNSpgid:\t700\t4\t0\nNSsid:\t1\t1\n";
        assert_eq!(group_there(status), Some(Pid::from_raw(4)));
        assert_eq!(group_there(b"NSpgid:\t700\n"), None);
    }

    #[test]
    fn half_lines_are_no_process() {
        for bad in [&b""[..], b"7 (a", b"7 (a) S 3", b"7 (a) S x y"] {
            assert_eq!(parse(Pid::from_raw(7), bad), None);
        }
    }

    #[test]
    fn environments_are_searched_by_whole_entries() {
        let me = nix::unistd::getpid();
        let (name, value) = std::env::vars().next().expect("some variable");
        assert!(environment_has(me, format!("{name}={value}").as_bytes()));
        assert!(!environment_has(me, format!("{name}={value}x").as_bytes()));
    }
}
