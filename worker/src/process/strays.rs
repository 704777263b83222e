//! Finds and ends orphans: processes whose parents among a task's processes have died. A process that has also left its task's process
//! group would survive the task's end. So the worker's program is a child subreaper: the kernel makes it the parent of each orphan. There
//! the worker finds orphans, ends them with their task, and reaps them.
//!
//! Orphans become children of the first thread of this process, which starts no processes itself. Tasks are children of the supervising
//! thread, and so are processes that a task's first process makes as its own siblings (CLONE_PARENT). The siblings' children become
//! orphans when their parents die, so rounds of killing reach all generations. A listed process keeps its number until it is reaped here,
//! so no signal can hit another process.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::{Pid, getpid, getsid};

use super::inbox::RunNumber;
use super::marks::LimitMarks;
use super::task::{EndStage, TaskProcess};
use crate::marker::marker;
use crate::pid_namespace::host_pid;
use crate::proc_table::{self, ProcessEntry};

/// The pause between two checks while tasks run. Orphans of a running task are left alone: the check only reaps the dead ones before they
/// use up the machine's process numbers. Without orphans, a check is one system call.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// The pause between two rounds of killing, as in the keeper's sweep.
pub(super) const ROUND: Duration = Duration::from_millis(10);
/// The largest part of the list of orphans that is read: a hundred thousand numbers. The others appear when these are gone.
const MAX_LIST_BYTES: usize = 1 << 20;
/// The time for which one check reads the list of orphans again, as long as some of them died meanwhile. Tasks start and end on the same
/// thread, and must not wait longer.
const LONGEST_LOOK: Duration = Duration::from_millis(20);
/// The variable that names the run to which a process belongs.
const INVOCATION: &str = "BRASSERIE_INVOCATION=";

/// The program that ends orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanHandling {
    /// The runner. This is only for a program whose first thread starts no processes, with one runner in it.
    Adopt,
    /// An ancestor of this process.
    Leave,
}

/// The task to which an orphan belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrphanOwner {
    Task(RunNumber),
    /// Its task has ended: the orphan appeared too late to be ended with it.
    Ended,
    /// It has left its session and carries neither mark. Its task started before the task with this number.
    Unknown {
        before: RunNumber,
    },
}

#[derive(Clone, Copy, Debug)]
struct OrphanProcess {
    session: Pid,
    owner: OrphanOwner,
    /// Whether it was killed. It is dead once it can be reaped.
    is_dying: bool,
}

/// The known orphans.
pub(super) struct Strays {
    /// The list of the first thread's children. `None`: orphans are not ended here.
    list: Option<File>,
    /// The list of the children of the supervising thread, which runs the checks.
    siblings: Option<File>,
    known: BTreeMap<Pid, OrphanProcess>,
    /// The tasks of processes that were reaped after the list was last read: the list may lack other processes of these tasks. `None`: an
    /// unknown task.
    unsettled: Vec<Option<RunNumber>>,
    marks: LimitMarks,
    text: Vec<u8>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrphanFinding {
    Nothing,
    /// All orphans may live.
    Tolerated,
    /// Some were killed, or may not have been listed: another check is needed soon.
    Killed,
}

impl Strays {
    pub(super) fn new(orphans: OrphanHandling) -> io::Result<Self> {
        let list = match orphans {
            OrphanHandling::Leave => None,
            OrphanHandling::Adopt => {
                prctl::set_child_subreaper(true)?;
                let thread = std::process::id();
                // Some kernels are built without this list. Then orphans live until the keeper ends them with the worker.
                File::open(format!("/proc/self/task/{thread}/children"))
                    .inspect_err(|error| {
                        tracing::warn!("cannot list orphans of tasks, which live as long as this worker: {error}");
                    })
                    .ok()
            }
        };
        Ok(Strays {
            list,
            siblings: None,
            known: BTreeMap::new(),
            unsettled: Vec::new(),
            marks: LimitMarks::new(marker().as_ref()),
            text: Vec::new(),
        })
    }

    pub(super) fn marks(&self) -> LimitMarks {
        self.marks
    }

    /// Returns the number of remaining processes of a task. It includes dying processes of an unknown owner if this task may have started
    /// them. It is at least one if orphans of this task may appear and die too fast for a check to see them all.
    pub(super) fn of(&self, number: RunNumber) -> usize {
        let is_its = |orphan: &&OrphanProcess| match orphan.owner {
            OrphanOwner::Task(owner) => owner == number,
            OrphanOwner::Unknown { before } => orphan.is_dying && number < before,
            OrphanOwner::Ended => false,
        };
        let known = self.known.values().filter(is_its).count();
        known.max(usize::from(self.may_miss(number)))
    }

    fn may_miss(&self, number: RunNumber) -> bool {
        let is_its = |of: &Option<RunNumber>| of.is_none_or(|of| of == number);
        self.unsettled.iter().any(is_its)
    }

    /// Reaps the dead, finds the tasks of the living, and kills those that must not live: the orphans of tasks that have ended, are
    /// `over`, or are in their last stage. `next` is the number of the next task.
    pub(super) fn look(
        &mut self,
        tasks: &HashMap<RunNumber, TaskProcess>,
        over: Option<RunNumber>,
        next: RunNumber,
    ) -> OrphanFinding {
        let mut listed = self.listed(tasks);
        self.unsettled.clear();
        if listed.is_empty() {
            self.known.clear();
            return OrphanFinding::Nothing;
        }
        let mut whose = Whose::new(tasks, &self.known, self.marks);
        let until = Instant::now() + LONGEST_LOOK;
        loop {
            let known = std::mem::take(&mut self.known);
            self.unsettled.clear();
            for pid in listed {
                let orphan = known.get(&pid).copied();
                if is_alive(pid) {
                    let orphan = orphan.or_else(|| whose.find(pid, next));
                    self.known.extend(orphan.map(|orphan| (pid, orphan)));
                    continue;
                }
                // The kernel hands over the children of a process before the process can be reaped, but maybe after the list was read.
                let owner = match orphan {
                    Some(orphan) => Some(orphan.owner),
                    // Floods of processes arrive here: the mark needs one file, other signs need more.
                    None => whose
                        .by_mark(pid)
                        .or_else(|| whose.owner(&proc_table::find(pid)?)),
                };
                self.unsettled.push(match owner {
                    Some(OrphanOwner::Task(number)) => Some(number),
                    Some(OrphanOwner::Ended | OrphanOwner::Unknown { .. }) | None => None,
                });
                // The process is dead, and no other code reaps it.
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            if self.unsettled.is_empty() || Instant::now() >= until {
                break;
            }
            whose.add(&self.known);
            listed = self.listed(tasks);
        }
        let mut found = match over.is_some_and(|over| self.may_miss(over)) {
            true => OrphanFinding::Killed,
            false => OrphanFinding::Tolerated,
        };
        let lives = |number: RunNumber, task: &TaskProcess| {
            over != Some(number) && !matches!(task.stage, EndStage::Swept | EndStage::Emptying)
        };
        for (pid, orphan) in &mut self.known {
            let may_live = match orphan.owner {
                OrphanOwner::Ended => false,
                OrphanOwner::Task(number) => tasks.get(&number).is_some_and(|t| lives(number, t)),
                // Any of these tasks may have started the process. When one ends, its next run must not meet the process.
                OrphanOwner::Unknown { before } => {
                    let mut owners = tasks.iter().filter(|(n, _)| **n < before).peekable();
                    owners.peek().is_some() && owners.all(|(n, task)| lives(*n, task))
                }
            };
            if !may_live {
                found = OrphanFinding::Killed;
                orphan.is_dying = true;
                end(*pid);
            }
        }
        found
    }

    fn listed(&mut self, tasks: &HashMap<RunNumber, TaskProcess>) -> Vec<Pid> {
        let Some(list) = &self.list else {
            return Vec::new();
        };
        let mut pids = children(list, &mut self.text);
        if self.siblings.is_none() {
            self.siblings = File::open("/proc/thread-self/children").ok();
        }
        if let Some(list) = &self.siblings {
            let own = children(list, &mut self.text);
            let leaders: HashSet<Pid> = tasks.values().map(|task| task.pid).collect();
            pids.extend(own.into_iter().filter(|pid| !leaders.contains(pid)));
        }
        pids
    }
}

/// Reads a list of children.
fn children(list: &File, text: &mut Vec<u8>) -> Vec<Pid> {
    text.resize(MAX_LIST_BYTES.min(text.len().max(4096)), 0);
    let mut length = 0;
    loop {
        match list.read_at(&mut text[length..], length as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => length += count,
        }
        if length == text.len() {
            if length == MAX_LIST_BYTES {
                break;
            }
            text.resize(2 * length, 0);
        }
    }
    let text = String::from_utf8_lossy(&text[..length]);
    // The last number may be cut off; every whole one ends in a space.
    let whole = text.rsplit_once(' ').map_or("", |(whole, _)| whole);
    let numbers = whole.split_ascii_whitespace();
    numbers
        .filter_map(|number| number.parse().ok().map(Pid::from_raw))
        .collect()
}

/// Returns whether a child has not ended. Does not reap it.
fn is_alive(pid: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::StillAlive))
}

/// The signs by which an orphan's task is found.
struct Whose<'a> {
    /// Sessions and groups of running tasks, and of orphans whose tasks are known.
    groups: HashMap<Pid, OrphanOwner>,
    tasks: &'a HashMap<RunNumber, TaskProcess>,
    marks: LimitMarks,
    own_session: Pid,
}

impl<'a> Whose<'a> {
    fn new(
        tasks: &'a HashMap<RunNumber, TaskProcess>,
        known: &BTreeMap<Pid, OrphanProcess>,
        marks: LimitMarks,
    ) -> Self {
        let of_tasks = tasks
            .iter()
            .map(|(number, task)| (task.pid, OrphanOwner::Task(*number)));
        let mut whose = Whose {
            groups: of_tasks.collect(),
            tasks,
            marks,
            own_session: getsid(None).unwrap_or(getpid()),
        };
        whose.add(known);
        whose
    }

    /// Adds orphans whose sessions identify the tasks of other processes.
    fn add(&mut self, known: &BTreeMap<Pid, OrphanProcess>) {
        let is_known =
            |orphan: &&OrphanProcess| !matches!(orphan.owner, OrphanOwner::Unknown { .. });
        for orphan in known.values().filter(is_known) {
            self.groups.entry(orphan.session).or_insert(orphan.owner);
        }
    }

    fn find(&self, pid: Pid, next: RunNumber) -> Option<OrphanProcess> {
        let process = proc_table::find(pid)?;
        // Every task has sessions of its own. A process in the worker's session descends from a program that the worker runs for itself,
        // such as `nvidia-smi`, so it belongs to no task.
        if process.session == self.own_session {
            return None;
        }
        let owner = self.owner(&process).unwrap_or_else(|| {
            tracing::warn!(
                    process = %host_pid(pid),
                    "the worker has adopted a process without a task's marks; it kills the process when the first task that may have started it ends"
                );
            OrphanOwner::Unknown { before: next }
        });
        Some(OrphanProcess {
            session: process.session,
            owner,
            is_dying: false,
        })
    }

    fn owner(&self, process: &ProcessEntry) -> Option<OrphanOwner> {
        let by_group = [process.group, process.session]
            .iter()
            .find_map(|group| self.groups.get(group).copied());
        let pid = process.pid;
        by_group.or_else(|| self.by_mark(pid).or_else(|| self.by_environment(pid)))
    }

    fn by_mark(&self, pid: Pid) -> Option<OrphanOwner> {
        let number = self.marks.task_of(pid)?;
        Some(match self.tasks.contains_key(&number) {
            true => OrphanOwner::Task(number),
            false => OrphanOwner::Ended,
        })
    }

    fn by_environment(&self, pid: Pid) -> Option<OrphanOwner> {
        let block = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let entry = block
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(INVOCATION.as_bytes()))?;
        let running = self
            .tasks
            .iter()
            .find(|(_, task)| task.key.invocation.to_string().as_bytes() == entry);
        Some(running.map_or(OrphanOwner::Ended, |(number, _)| OrphanOwner::Task(*number)))
    }
}

/// Kills the process, with its whole group if it leads one.
fn end(pid: Pid) {
    // A process that refuses the signal is gone already, or a set-user-id program.
    let _ = kill(pid, Signal::SIGKILL);
    let _ = proc_table::find(pid)
        .filter(|process| process.group == pid)
        .map(|_| kill(Pid::from_raw(-pid.as_raw()), Signal::SIGKILL));
}
