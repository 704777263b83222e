//! Identifies the PID namespace in which the process numbers of a group list count. [`super::leftovers`] decides what another namespace
//! means.

use std::fs;
use std::os::unix::fs::MetadataExt;

use brasserie_common::Time;
use nix::unistd::{Pid, getpid, getppid};

use crate::proc_table::{self, ProcessEntry, StartTicks, nanos_per_tick};

/// Inode of the machine's first PID namespace: the kernel's `PROC_PID_INIT_INO`. It lives as long as the machine.
const INITIAL_INODE: u64 = 0xEFFF_FFFC;
/// The start of a first process that cannot be seen (`hidepid`).
const UNSEEN: StartTicks = StartTicks(u64::MAX);
const INIT: Pid = Pid::from_raw(1);

/// One PID namespace of one boot. The kernel may give the inode of a namespace that is gone to a later one, but not together with the
/// same start of the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PidNamespace {
    pub inode: u64,
    /// The start of its first process. That process ends last: the kernel kills all others first.
    pub init: StartTicks,
}

impl PidNamespace {
    /// Returns the namespace of this process. `None` if `/proc` does not show it, or shows another one: then its numbers are not those
    /// that signals take.
    pub(crate) fn of_this_process() -> Option<Self> {
        proc_is_ours().then_some(())?;
        let inode = fs::metadata("/proc/self/ns/pid").ok()?.ino();
        let init = proc_table::find(INIT).map_or(UNSEEN, |init| init.start);
        Some(PidNamespace { inode, init })
    }

    /// Returns whether it is the machine's first namespace, from which the processes of all others are visible.
    pub(crate) fn is_initial(self) -> bool {
        self.inode == INITIAL_INODE
    }

    /// Returns whether its first process certainly started after this time.
    pub(crate) fn began_after(self, time: Time) -> bool {
        self.init != UNSEEN && self.init.0.saturating_mul(nanos_per_tick()) > time.as_nanos()
    }

    /// Returns its first process, if that is visible from here and alive.
    pub(crate) fn first_process(self) -> Vec<ProcessEntry> {
        let mut all = proc_table::all().unwrap_or_default();
        all.retain(|process| {
            let file = fs::metadata(format!("/proc/{}/ns/pid", process.pid));
            process.start == self.init && file.is_ok_and(|file| file.ino() == self.inode)
        });
        all
    }

    /// Returns the visible processes that are in this namespace, or may be.
    pub(crate) fn visible(self) -> Vec<Pid> {
        let all = proc_table::all().unwrap_or_default();
        let inside = all.iter().map(|process| process.pid).filter(|pid| {
            match fs::metadata(format!("/proc/{pid}/ns/pid")) {
                Ok(file) => file.ino() == self.inode,
                // The process belongs to another user. A process with a single number is in our own namespace.
                Err(_) => levels(&pid.to_string()).is_some_and(|levels| levels > 1),
            }
        });
        inside.collect()
    }
}

/// Returns whether the namespace of this process ends with this process or with its keeper, so that none of their tasks outlives them.
pub(crate) fn ends_with_worker() -> bool {
    getpid() == INIT || (crate::marker::marker().is_some() && getppid() == INIT)
}

/// Returns whether the process ids that `/proc` shows are those that signals take.
pub(crate) fn proc_is_ours() -> bool {
    levels("self").is_none_or(|levels| levels == 1)
}

/// Returns the number of namespaces in which a process has a number, from that of `/proc` inwards.
fn levels(process: &str) -> Option<usize> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Old kernels have no such line.
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
