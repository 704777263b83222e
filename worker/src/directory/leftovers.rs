//! Ends what a predecessor left running: finds, freezes, kills, and waits until all of it is gone.

use std::collections::HashMap;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, SysconfVar, getpid, sysconf};

use super::groups::ListedGroup;
use crate::containment::Init;
use crate::keeper::Marker;
use crate::keeper::processes::{self, Life, Process, StartTicks};

/// How long killed processes may take to be gone. The kernel needs microseconds; what takes longer hangs in a device or a
/// file system, and nobody knows how long.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks: longer than a process needs to die, shorter than anybody notices.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Clock ticks a second when the system does not say: that of every architecture we know.
const USUAL_TICKS: u64 = 100;
const MILLIS_PER_SECOND: u64 = 1000;

/// Why the directory cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum LeftoverError {
    #[error("cannot list this machine's processes: {0}. Is /proc mounted?")]
    List(io::Error),
    #[error(
        "tasks of the last worker that used this directory are still alive {} s after they were killed (process ids {}). \
         They hang in a device or a file system: wait until it answers, or restart the machine", PATIENCE.as_secs(), list(pids)
    )]
    Survives { pids: Vec<Pid> },
    #[error(
        "the last worker that used this directory (process {init}) has let go of it, but the kernel has not yet ended every process          in its PID namespace after {} s. One of them hangs in a device or a file system: wait until it answers, or restart the          machine", PATIENCE.as_secs()
    )]
    Namespace { init: Pid },
}

fn list(pids: &[Pid]) -> String {
    pids.iter()
        .map(Pid::to_string)
        .collect::<Vec<_>>()
        .join(", ")
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

/// Ends every process that carries the marker, leads or belongs to a listed group, or descends from such a process.
pub(super) fn end(marker: Option<&Marker>, listed: &[ListedGroup]) -> Result<(), LeftoverError> {
    if marker.is_none() && listed.is_empty() {
        return Ok(());
    }
    let give_up = Instant::now() + PATIENCE;
    let mut search = Search::new(marker.map(Marker::entry), listed);
    loop {
        // Frozen processes start no others, so this ends with all of them known.
        while let Some(fresh) = search.look()? {
            for pid in fresh {
                let _ = kill(pid, Signal::SIGSTOP);
            }
            if Instant::now() >= give_up {
                break;
            }
        }
        let alive = search.alive();
        if alive.is_empty() {
            return Ok(());
        }
        if Instant::now() >= give_up {
            return Err(LeftoverError::Survives { pids: alive });
        }
        tracing::info!(processes = %list(&alive), "ending what the last worker in this directory left running");
        for pid in alive {
            // Another user's process refuses, and is then reported as surviving.
            let _ = kill(pid, Signal::SIGKILL);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Looks for processes by their marks.
pub(crate) struct Search {
    entry: Option<Vec<u8>>,
    /// Groups whose leader was seen to be the listed one, or that are still to be seen.
    listed: Vec<ListedGroup>,
    groups: Vec<Pid>,
    /// Whatever was found once stays found, also when its parent has died and its ancestry with it.
    found: HashMap<Pid, StartTicks>,
    nanos_per_tick: u64,
}

impl Search {
    /// `entry`: of the environment, with its name.
    pub(crate) fn new(entry: Option<Vec<u8>>, listed: &[ListedGroup]) -> Self {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok().flatten();
        let ticks = ticks.and_then(|t| u64::try_from(t).ok()).filter(|t| *t > 0);
        Search {
            entry,
            listed: listed.to_vec(),
            groups: Vec::new(),
            found: HashMap::new(),
            nanos_per_tick: MILLIS_PER_SECOND * 1_000_000 / ticks.unwrap_or(USUAL_TICKS),
        }
    }

    /// Processes that were not known before, `None` if there are none.
    pub(crate) fn look(&mut self) -> Result<Option<Vec<Pid>>, LeftoverError> {
        let table: HashMap<Pid, Process> = processes::all()
            .map_err(LeftoverError::List)?
            .into_iter()
            .map(|process| (process.pid, process))
            .collect();
        self.verify_groups(&table);
        let spared = own_ancestry(&table);
        let mut fresh = Vec::new();
        loop {
            let more: Vec<&Process> = table
                .values()
                .filter(|p| !spared.contains(&p.pid) && !self.knows(p) && self.is_leftover(p))
                .collect();
            if more.is_empty() {
                break;
            }
            for process in more {
                self.found.insert(process.pid, process.start);
                fresh.push(process.pid);
            }
        }
        Ok((!fresh.is_empty()).then_some(fresh))
    }

    /// Those that are listed by now, and no others: a number whose group is gone may be a stranger's.
    pub(crate) fn list(&mut self, listed: &[ListedGroup]) {
        self.listed = listed.to_vec();
        self.groups.clear();
    }

    fn verify_groups(&mut self, table: &HashMap<Pid, Process>) {
        let (nanos_per_tick, groups) = (self.nanos_per_tick, &mut self.groups);
        self.listed.retain(|listed| {
            let Some(leader) = table.get(&listed.group) else { return true };
            // Its own leader had the number when it was listed; whoever started later is a stranger.
            let started = leader.start.0.saturating_mul(nanos_per_tick);
            if started <= listed.listed.as_nanos() {
                tracing::info!(group = %listed.group, invocation = %listed.invocation, "a task of the last worker still runs");
                groups.push(listed.group);
            }
            false
        });
    }

    fn knows(&self, process: &Process) -> bool {
        self.found.get(&process.pid) == Some(&process.start)
    }

    fn is_leftover(&self, process: &Process) -> bool {
        self.groups.contains(&process.group)
            || self.groups.contains(&process.pid)
            || self.found.contains_key(&process.parent)
            || self
                .entry
                .as_ref()
                .is_some_and(|entry| processes::environment_has(process.pid, entry))
    }

    /// Of those that were found.
    pub(crate) fn alive(&mut self) -> Vec<Pid> {
        self.found.retain(|pid, start| {
            processes::find(*pid).is_some_and(|p| p.start == *start && p.life == Life::Alive)
        });
        self.found.keys().copied().collect()
    }
}

/// This process and those above it: a task may have started the successor of its own worker.
fn own_ancestry(table: &HashMap<Pid, Process>) -> Vec<Pid> {
    let mut line = vec![getpid()];
    while let Some(parent) = line.last().and_then(|pid| table.get(pid)).map(|p| p.parent)
        && !line.contains(&parent)
    {
        line.push(parent);
    }
    line
}
