//! The PID namespace in which the process numbers of a group list count. It does not decide what follows from another one: see
//! [`super::leftovers`].

use std::fs;
use std::os::unix::fs::MetadataExt;

use brasserie_common::Time;
use nix::unistd::{Pid, getpid, getppid};

use super::leftovers::nanos_per_tick;
use crate::keeper::processes::{self, Process, StartTicks};

/// Inode of the machine's first PID namespace: the kernel's `PROC_PID_INIT_INO`. It lives as long as the machine.
const INITIAL_INODE: u64 = 0xEFFF_FFFC;
/// Stands for a first process that cannot be seen (`hidepid`).
const UNSEEN: StartTicks = StartTicks(u64::MAX);
const INIT: Pid = Pid::from_raw(1);

/// One PID namespace of one boot. The kernel gives the inode of a namespace that is gone to a later one, but not together with the
/// start of its first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PidNamespace {
    pub inode: u64,
    /// When its first process started. That process ends last: the kernel kills all others first.
    pub init: StartTicks,
}

impl PidNamespace {
    /// That of this process. `None` if `/proc` does not say, or shows another namespace than ours: its numbers are not those that
    /// signals take.
    pub(crate) fn of_this_process() -> Option<Self> {
        proc_is_ours().then_some(())?;
        let inode = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let init = processes::find(INIT).map_or(UNSEEN, |init| init.start);
        Some(PidNamespace { inode, init })
    }

    /// The machine's first one, from which the processes of all others can be seen.
    pub(crate) fn is_initial(self) -> bool {
        self.inode == INITIAL_INODE
    }

    /// Whether its first process certainly started after this time.
    pub(crate) fn began_after(self, time: Time) -> bool {
        self.init != UNSEEN && self.init.0.saturating_mul(nanos_per_tick()) > time.as_nanos()
    }

    /// Its first process, if it can be seen from here and lives.
    pub(crate) fn first_process(self) -> Vec<Process> {
        let mut all = processes::all().unwrap_or_default();
        all.retain(|process| {
            let file = fs::metadata(format!("/proc/{}/ns/pid", process.pid));
            process.start == self.init && file.is_ok_and(|file| file.ino() == self.inode)
        });
        all
    }

    /// Processes that can be seen from here and are in this namespace, or may be.
    pub(crate) fn visible(self) -> Vec<Pid> {
        let all = processes::all().unwrap_or_default();
        let inside = all.iter().map(|process| process.pid).filter(|pid| {
            match fs::metadata(format!("/proc/{pid}/ns/pid")) {
                Ok(file) => file.ino() == self.inode,
                // Another user's. One that has a single number is in our own namespace.
                Err(_) => levels(&pid.to_string()).is_some_and(|levels| levels > 1),
            }
        });
        inside.collect()
    }
}

/// Whether the namespace of this process ends with this process or with its keeper, so that none of their tasks outlives them.
pub(crate) fn ends_with_worker() -> bool {
    getpid() == INIT || (crate::keeper::marker().is_some() && getppid() == INIT)
}

/// Whether the process ids that `/proc` shows are those that signals take.
pub(crate) fn proc_is_ours() -> bool {
    levels("self").is_none_or(|levels| levels == 1)
}

/// In how many namespaces a process has a number, from that of `/proc` inwards.
fn levels(process: &str) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Kernels that do not say it have no line.
    Some(numbers.map_or(1, |numbers| numbers.split_ascii_whitespace().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_the_namespace_that_it_names() {
        let own = PidNamespace::of_this_process().expect("proc shows this namespace");
        assert!(own.visible().contains(&getpid()));
        let another = PidNamespace { inode: 1, ..own };
        assert!(!another.visible().contains(&getpid()));
        assert!(!ends_with_worker());
    }
}
