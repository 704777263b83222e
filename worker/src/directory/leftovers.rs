//! Ends a predecessor's leftover processes: finds, freezes and kills them, and waits until all of them are gone.
//!
//! # When a process certainly belongs to a listed task
//!
//! The worker starts each task in its own session and process group. Their number is the process id of the task's first process, the
//! leader. The kernel gives a number to a new process only while no process, group or session has it. A process enters an existing
//! session only by being forked in it. A number counts in one PID namespace of one boot.
//!
//! Let `g` be the number of a group that was listed at the time `listed`. Let `held` be the last time at which the worker certainly held
//! the number, because it had not reaped the leader. From the facts above follows:
//!
//! 1. A process with the id `g` that had started at `listed` is the leader, since no other process had the number then. All processes of
//!    session or group `g` belong to the task.
//! 2. A process of session `g` that had started at `held` belongs to the task: until then the session with this number was the task's. The
//!    process also kept the number from being reused, so the whole session belongs to the task.
//! 3. If a process with the id `g` started after `listed`, the number was free at some time, and its session is a stranger's.
//! 4. A group `g` in another session than `g` is a stranger's, because no group crosses sessions.
//! 5. Otherwise session `g` has no leader, and its members all started after `held`. They belong to the task, or to a stranger that got
//!    the number later. Nothing can distinguish these, so no member is killed, and the directory is not taken over.
//!
//! Start times count in ticks of 10 ms. Rule 2 rounds them up. Rule 1 rounds them down, so it is wrong if the kernel gives out all other
//! numbers within one tick. There may be as few as 32,768 numbers (`kernel.pid_max`).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use brasserie_common::Time;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid};

use super::groups::{self, LeftGroups, ListedGroup, NamespaceLifetime};
use super::namespace::{PidNamespace, proc_is_ours};
use crate::marker::Marker;
use crate::pid_namespace::Init;
use crate::proc_table::environments::Environments;
use crate::proc_table::{self, ProcessEntry, ProcessLife, StartTicks, nanos_per_tick};
use crate::process::LimitMarks;

/// The time that killed processes get to disappear. The kernel needs microseconds. A process that takes longer hangs in a device or a
/// file system, for an unknown time.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two scans: longer than a process needs to die, shorter than anybody notices.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The largest number of immediate scans. Each may find processes that others started before the last scan stopped them.
const MOST_LOOKS: usize = 20;
/// The largest number of processes or groups that a message names.
const MOST_NAMED: usize = 20;

/// The reason why the directory cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    #[error("cannot list this machine's processes: {0}. Is /proc mounted?")]
    List(io::Error),
    #[error(
        "tasks of the last worker that used this directory are still alive {} s after they were killed (process ids {}). \
         If they hang in a device or a file system, wait until it answers, or restart the machine. If they have other rights than this worker \
         (sudo, a set-uid program), end them as their user or as root", PATIENCE.as_secs(), list(pids)
    )]
    Survives { pids: Vec<Pid> },
    #[error(
        "this directory is a copy of the data directory of a worker, of which these processes are alive: {}. None of them was killed. Start \
         this worker in an empty directory. If the directory was moved and not copied, end these processes and start the worker again",
        list(pids)
    )]
    Copied { pids: Vec<Pid> },
    #[error(
        "these processes may be tasks of the last worker that used this directory: {}. Their environments cannot be read: they hang in the \
         kernel, or the system refuses a thread that would read them. None of them was killed. Wait until they continue, or end them (a device or a file system may have \
         to answer first), or restart the machine; then start the worker again",
        list(named)
    )]
    Unreadable { named: Vec<String> },
    #[error(
        "the last worker that used this directory (process {init}) has released it, but the kernel has not yet ended every process in its PID namespace after {} s. One of them hangs in a device or a file system: wait until it answers, or restart the machine", PATIENCE.as_secs()
    )]
    Namespace { init: Pid },
    #[error(
        "these processes may be tasks of the last worker that used this directory, which was killed together with its keeper: {}. Their \
         session has the number of a listed task, but its first process is gone and they started later than that worker's last entry, so \
         they may as well be another program. None of them was killed. End those that are tasks, or, if none is, remove {}; then start \
         the worker again", list(named), file.display()
    )]
    Unclear { named: Vec<String>, file: PathBuf },
    #[error(
        "the last worker that used this directory ran in another PID namespace (pid:[{inode}]) and was killed while tasks ran there \
         (process groups {} of that namespace). This worker cannot see whether they still live, and killed nothing. Start it in that \
         namespace, which ends them, or end them, or wait until that namespace (container) is gone; in the last two cases remove {}, \
         then start the worker again", list(groups), file.display()
    )]
    Elsewhere {
        inode: u64,
        groups: Vec<Pid>,
        file: PathBuf,
    },
    #[error(
        "the last worker that used this directory ran in another container (PID namespace) while this one existed, and was killed while \
         tasks ran there (process groups {}). The kernel kills them, but this worker cannot see whether the last of them is dead: one may \
         hang in a device or a file system. Wait until that container is gone, remove {}, then start the worker again", list(groups), file.display()
    )]
    Unseen { groups: Vec<Pid>, file: PathBuf },
    #[error(
        "/proc shows another PID namespace than the one of this worker, so tasks of the last worker that used this directory cannot be \
         found: mount a /proc of this namespace (unshare --mount-proc does)"
    )]
    ForeignProc,
}

fn list(all: &[impl ToString]) -> String {
    let mut names: Vec<String> = all
        .iter()
        .take(MOST_NAMED)
        .map(ToString::to_string)
        .collect();
    if let Some(more) = all.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

/// Waits until the PID namespace of the last user is gone with every process in it.
pub(super) fn wait_for_namespace(init: &Init) -> Result<(), LeftoverError> {
    let give_up = Instant::now() + PATIENCE;
    while init.is_alive() {
        if Instant::now() >= give_up {
            return Err(LeftoverError::Namespace { init: init.pid() });
        }
        thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

/// Whether the machine has run without restart since the list was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SameBoot {
    Yes,
    /// The system does not report its boot.
    Unknown,
}

/// Listed groups, and the reliability of their numbers here.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    groups: Vec<ListedGroup>,
    /// A time at which the worker held all of the numbers.
    held: Time,
    trust: Trust,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The numbers count in this namespace and this boot.
    Certain,
    /// The list does not say where its numbers count, so none of these processes is killed.
    Unsure,
}

impl Numbers {
    fn none() -> Self {
        Numbers {
            groups: Vec::new(),
            held: Time::from_nanos(0),
            trust: Trust::Certain,
        }
    }

    /// Returns the groups of a living worker in a namespace of its own, by their numbers in its keeper's namespace.
    pub(crate) fn translated(left: LeftGroups) -> Self {
        Numbers {
            held: left
                .header
                .map_or(Time::from_nanos(0), |header| header.held),
            groups: left.groups,
            trust: Trust::Certain,
        }
    }

    /// Returns the groups of a living worker, for its keeper; none if the worker lives in another namespace.
    pub(crate) fn of_living_worker(left: LeftGroups) -> Self {
        let own = PidNamespace::of_this_process();
        match left.header {
            Some(header) if Some(header.namespace) == own => Numbers {
                groups: left.groups,
                held: header.held,
                trust: Trust::Certain,
            },
            Some(_) | None => Numbers::none(),
        }
    }
}

/// The location of the listed processes.
enum Whereabouts {
    Here(Numbers),
    /// The listed processes are dead as soon as `last` are. These must certainly be killed.
    Gone {
        last: Vec<ProcessEntry>,
    },
    /// The listed processes are in this namespace, which may still exist and cannot be searched from here.
    Elsewhere {
        inode: u64,
        groups: Vec<Pid>,
    },
    /// The listed processes are in a namespace that the kernel has ended or is ending, and that is invisible from here.
    Unseen {
        groups: Vec<Pid>,
    },
}

/// Locates the listed processes. `own` is the namespace of this process.
fn whereabouts(left: LeftGroups, own: Option<PidNamespace>, boot: SameBoot) -> Whereabouts {
    let gone = Whereabouts::Gone { last: Vec::new() };
    if left.groups.is_empty() {
        return gone;
    }
    let (Some(header), Some(own), SameBoot::Yes) = (left.header, own, boot) else {
        return Whereabouts::Here(Numbers {
            held: left
                .header
                .map_or(Time::from_nanos(0), |header| header.held),
            groups: left.groups,
            trust: Trust::Unsure,
        });
    };
    let theirs = header.namespace;
    if theirs == own {
        return Whereabouts::Here(Numbers {
            groups: left.groups,
            held: header.held,
            trust: Trust::Certain,
        });
    }
    let groups: Vec<Pid> = left.groups.iter().map(|listed| listed.group).collect();
    match header.lifetime {
        // The directory's lock is free, so that worker has ended and the kernel kills the rest. The first process ends last.
        NamespaceLifetime::Worker => {
            let last = theirs.first_process();
            let listed = left.groups.iter().map(|listed| listed.listed);
            let lived = listed.fold(header.held, Time::max);
            // A restarted container begins when every process of the former one is gone. A container that ran at the same time proves
            // nothing.
            let is_certain = !last.is_empty() || own.is_initial() || own.began_after(lived);
            match is_certain {
                true => Whereabouts::Gone { last },
                false => Whereabouts::Unseen { groups },
            }
        }
        NamespaceLifetime::Shared if own.is_initial() && theirs.visible().is_empty() => gone,
        NamespaceLifetime::Shared => Whereabouts::Elsewhere {
            inode: theirs.inode,
            groups,
        },
    }
}

/// Whether the directory is the one that its files name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Original {
    Yes,
    Copy,
}

/// Ends every process that carries the marker, certainly belongs to a listed group, or descends from such a process. Errors if others may
/// be tasks.
pub(super) fn end(
    marker: Option<&Marker>,
    left: LeftGroups,
    boot: SameBoot,
    file: PathBuf,
    original: Original,
) -> Result<(), LeftoverError> {
    if marker.is_none() && left.groups.is_empty() {
        return Ok(());
    }
    if !proc_is_ours() {
        return Err(LeftoverError::ForeignProc);
    }
    let mut elsewhere = None;
    let mut search = match whereabouts(left, PidNamespace::of_this_process(), boot) {
        Whereabouts::Here(numbers) => Search::new(numbers),
        Whereabouts::Gone { last } => Search::new(Numbers::none()).with(&last),
        Whereabouts::Elsewhere { inode, groups } => {
            let file = file.clone();
            elsewhere = Some(LeftoverError::Elsewhere {
                inode,
                groups,
                file,
            });
            Search::new(Numbers::none())
        }
        Whereabouts::Unseen { groups } => {
            let file = file.clone();
            elsewhere = Some(LeftoverError::Unseen { groups, file });
            Search::new(Numbers::none())
        }
    };
    let signs = marker.map(|marker| Signs {
        limits: LimitMarks::of_predecessor(marker),
        environments: Environments::with(marker.entry()),
    });
    match original {
        Original::Yes => end_found(&mut search, signs)?,
        Original::Copy => expect_none(&mut search, signs)?,
    }
    let named = names(&search.unclear);
    match elsewhere {
        Some(error) => Err(error),
        None if !named.is_empty() => Err(LeftoverError::Unclear { named, file }),
        None => Ok(()),
    }
}

/// The marks by which a process reveals that a worker, or a descendant of one, started it.
struct Signs {
    limits: LimitMarks,
    environments: Environments,
}

impl Signs {
    /// Returns the processes that carry the limits. Never hangs.
    fn by_limits(&self, mut unknown: Vec<ProcessEntry>) -> Vec<ProcessEntry> {
        unknown.retain(|process| self.limits.are_on(process.pid));
        unknown
    }
}

fn end_found(search: &mut Search, mut signs: Option<Signs>) -> Result<(), LeftoverError> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        // The limits come first, because reading an environment may hang.
        search.freeze(&mut |unknown| match &signs {
            Some(signs) => signs.by_limits(unknown),
            None => Vec::new(),
        })?;
        search.kill();
        search.freeze(&mut |unknown| match &mut signs {
            Some(signs) => signs.environments.find(unknown, give_up),
            None => Vec::new(),
        })?;
        let alive = search.kill();
        let unreadable = signs.as_ref().map(|signs| signs.environments.unreadable());
        let unreadable = unreadable.unwrap_or_default();
        if alive.is_empty() && unreadable.is_empty() {
            return Ok(());
        }
        if Instant::now() >= give_up {
            return Err(match alive.is_empty() {
                true => LeftoverError::Unreadable {
                    named: names(&unreadable),
                },
                false => LeftoverError::Survives { pids: alive },
            });
        }
        tracing::info!(processes = %list(&alive), "ending what the last worker in this directory left running");
        thread::sleep(LOOK_AGAIN);
    }
}

/// Errors if any process is found. Kills nothing: the processes belong to the worker whose directory was copied.
fn expect_none(search: &mut Search, mut signs: Option<Signs>) -> Result<(), LeftoverError> {
    let until = Instant::now() + PATIENCE;
    search.look(&mut |unknown| match &mut signs {
        Some(signs) => {
            let mut found = signs.by_limits(unknown.clone());
            found.extend(signs.environments.find(unknown, until));
            found
        }
        None => Vec::new(),
    })?;
    let pids = search.alive();
    match pids.is_empty() {
        true => Ok(()),
        false => Err(LeftoverError::Copied { pids }),
    }
}

/// A function that returns those of the given processes that carry a mark.
type Marked<'a> = &'a mut dyn FnMut(Vec<ProcessEntry>) -> Vec<ProcessEntry>;

/// A search for processes by numbers, descent and marks.
pub(crate) struct Search {
    numbers: Numbers,
    /// The numbers that were certain at the last scan.
    certain: HashSet<Pid>,
    /// The processes that may belong to a listed task, at the last scan.
    unclear: Vec<Pid>,
    /// All processes that were ever found. They stay found when their parent has died and their ancestry is lost.
    found: HashMap<Pid, StartTicks>,
    nanos_per_tick: u64,
}

impl Search {
    pub(crate) fn new(numbers: Numbers) -> Self {
        Search {
            numbers,
            certain: HashSet::new(),
            unclear: Vec::new(),
            found: HashMap::new(),
            nanos_per_tick: nanos_per_tick(),
        }
    }

    /// Adds processes that were found by other means.
    fn with(mut self, found: &[ProcessEntry]) -> Self {
        let found = found.iter().map(|process| (process.pid, process.start));
        self.found.extend(found);
        self
    }

    /// Scans once. Returns the newly found processes, or `None` if there are none. `marked` returns those of the unknown processes whose
    /// environments carry the marker.
    pub(crate) fn look(&mut self, marked: Marked<'_>) -> Result<Option<Vec<Pid>>, LeftoverError> {
        let table: HashMap<Pid, ProcessEntry> = proc_table::all()
            .map_err(LeftoverError::List)?
            .into_iter()
            .map(|process| (process.pid, process))
            .collect();
        // A number that another process has now says nothing about that process's children.
        self.found.retain(|pid, start| {
            let there = table.get(pid);
            there.is_none_or(|process| process.start == *start)
        });
        self.verify_numbers(&table);
        let spared = own_ancestry(&table);
        let others = table.values().filter(|one| !spared.contains(&one.pid));
        let others: Vec<ProcessEntry> = others.copied().collect();
        let mut fresh = self.add_members(&others);
        let unknown = others.iter().filter(|one| !self.knows(one)).copied();
        for process in marked(unknown.collect()) {
            // The environment may have been read during an earlier scan.
            if others
                .iter()
                .any(|one| one.pid == process.pid && one.start == process.start)
            {
                self.found.insert(process.pid, process.start);
                fresh.push(process.pid);
            }
        }
        fresh.extend(self.add_members(&others));
        self.unclear
            .retain(|pid| !spared.contains(pid) && !self.found.contains_key(pid));
        Ok((!fresh.is_empty()).then_some(fresh))
    }

    /// Adds the members of certain groups and every descendant of found processes. Returns the processes that were not known.
    fn add_members(&mut self, processes: &[ProcessEntry]) -> Vec<Pid> {
        let mut fresh = Vec::new();
        loop {
            let before = fresh.len();
            for process in processes {
                if !self.knows(process) && self.is_leftover(process) {
                    self.found.insert(process.pid, process.start);
                    fresh.push(process.pid);
                }
            }
            if fresh.len() == before {
                return fresh;
            }
        }
    }

    /// Stops every process that it finds. Stopped processes start no others, so a few scans find all of them.
    pub(crate) fn freeze(&mut self, marked: Marked<'_>) -> Result<(), LeftoverError> {
        for _ in 0..MOST_LOOKS {
            let Some(fresh) = self.look(marked)? else {
                break;
            };
            for pid in fresh {
                let _ = kill(pid, Signal::SIGSTOP);
            }
        }
        Ok(())
    }

    /// Kills the found processes, and returns those that were alive.
    pub(crate) fn kill(&mut self) -> Vec<Pid> {
        let alive = self.alive();
        for pid in &alive {
            // The process of another user refuses the signal, and is then reported as a survivor.
            let _ = kill(*pid, Signal::SIGKILL);
        }
        alive
    }

    /// Replaces the listed numbers. A number whose group is gone may be a stranger's.
    pub(crate) fn list(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    /// Applies the module's rules anew at each scan. A certain number proves nothing once its last process is gone.
    fn verify_numbers(&mut self, table: &HashMap<Pid, ProcessEntry>) {
        let mut sessions: HashMap<Pid, Vec<&ProcessEntry>> = HashMap::new();
        for process in table.values() {
            sessions.entry(process.session).or_default().push(process);
        }
        let before = std::mem::take(&mut self.certain);
        self.unclear.clear();
        for listed in &self.numbers.groups {
            let members = sessions.get(&listed.group).map_or(&[][..], Vec::as_slice);
            let is_certain = match table.get(&listed.group) {
                Some(leader) => {
                    let started = leader.start.0.saturating_mul(self.nanos_per_tick);
                    if started > listed.listed.as_nanos() {
                        continue;
                    }
                    true
                }
                None => members.iter().any(|member| {
                    self.knows(member)
                        || self.started_by(member, listed.listed.max(self.numbers.held))
                }),
            };
            match self.numbers.trust {
                Trust::Certain if is_certain => {
                    self.certain.insert(listed.group);
                    if !before.contains(&listed.group) {
                        tracing::debug!(group = %listed.group, invocation = %listed.invocation, "a task of the last worker still runs");
                    }
                }
                Trust::Certain | Trust::Unsure => {
                    let leader = table.get(&listed.group);
                    let others = members.iter().copied().filter(|m| m.pid != listed.group);
                    let alive = leader.into_iter().chain(others);
                    let alive = alive.filter(|process| process.life == ProcessLife::Alive);
                    self.unclear.extend(alive.map(|process| process.pid));
                }
            }
        }
    }

    /// Returns whether the process had certainly started at `time`, despite the rounding of its start.
    fn started_by(&self, process: &ProcessEntry, time: Time) -> bool {
        let started_before = process
            .start
            .0
            .saturating_add(1)
            .saturating_mul(self.nanos_per_tick);
        started_before <= time.as_nanos()
    }

    fn knows(&self, process: &ProcessEntry) -> bool {
        self.found.get(&process.pid) == Some(&process.start)
    }

    fn is_leftover(&self, process: &ProcessEntry) -> bool {
        let numbers = [process.group, process.session, process.pid];
        numbers.iter().any(|number| self.certain.contains(number))
            || self.found.contains_key(&process.parent)
    }

    /// Returns the found processes that are alive.
    fn alive(&mut self) -> Vec<Pid> {
        self.found.retain(|pid, start| {
            proc_table::find(*pid)
                .is_some_and(|p| p.start == *start && p.life == ProcessLife::Alive)
        });
        self.found.keys().copied().collect()
    }
}

fn names(pids: &[Pid]) -> Vec<String> {
    let name = |pid: &Pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("{pid} ({})", name.trim_end().escape_debug())
    };
    pids.iter().map(name).collect()
}

/// Returns the path of the file that lists the groups.
pub(super) fn file(dir: &std::path::Path) -> PathBuf {
    dir.join(groups::FILE)
}

/// Returns this process and its ancestors: a task may have started the successor of its own worker.
fn own_ancestry(table: &HashMap<Pid, ProcessEntry>) -> Vec<Pid> {
    let mut line = vec![getpid()];
    while let Some(parent) = line.last().and_then(|pid| table.get(pid)).map(|p| p.parent)
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}

#[cfg(test)]
mod tests {
    use brasserie_common::InvocationId;
    use brasserie_worker_core::AssociationIndex;

    use super::groups::Header;
    use super::*;

    #[test]
    fn a_container_that_ran_beside_the_last_workers_does_not_take_its_tasks_for_dead() {
        let nanos_per_tick = nanos_per_tick();
        let header = Header {
            namespace: PidNamespace {
                inode: 1,
                init: StartTicks(50),
            },
            lifetime: NamespaceLifetime::Worker,
            held: Time::from_nanos(100 * nanos_per_tick),
        };
        let listed = ListedGroup {
            group: Pid::from_raw(7),
            listed: Time::from_nanos(200 * nanos_per_tick),
            invocation: InvocationId::new(1, 2),
            association: AssociationIndex::FIRST,
        };
        let is_gone = |groups: &[ListedGroup], own: PidNamespace| {
            let left = LeftGroups {
                groups: groups.to_vec(),
                header: Some(header),
            };
            match whereabouts(left, Some(own), SameBoot::Yes) {
                Whereabouts::Gone { last } => last.is_empty(),
                Whereabouts::Unseen { groups } => {
                    assert_eq!(groups, [listed.group]);
                    false
                }
                Whereabouts::Here(_) | Whereabouts::Elsewhere { .. } => panic!("not here"),
            }
        };
        let began_at = |ticks| PidNamespace {
            inode: 2,
            init: StartTicks(ticks),
        };
        // The last worker lived when the group was listed.
        assert!(is_gone(&[listed], began_at(201)));
        assert!(!is_gone(&[listed], began_at(200)));
        // The first process cannot be seen.
        assert!(!is_gone(&[listed], began_at(u64::MAX)));
        assert!(is_gone(&[], began_at(200)));
    }
}
