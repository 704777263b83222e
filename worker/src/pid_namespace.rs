//! Reads what the stage wrote for this process about its PID namespace, and translates process ids to those of the keeper's namespace.
//! [`Init`] identifies the namespace for the next worker. `directory::namespace` identifies the namespace of a list of process groups, and
//! [`crate::containment`] chooses the namespace.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::OnceLock;

use nix::fcntl::OFlag;
use nix::unistd::{Pid, getpid};

use crate::proc_table::{self, ProcessEntry, ProcessLife};
use crate::variables::CONTAINMENT_VARIABLE;

/// The value of [`CONTAINMENT_VARIABLE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContainmentVariable {
    Groups { why: String },
    Namespace(WorkerNamespace),
}

/// The PID namespace of this process, and the descriptors that its stage left open for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerNamespace {
    /// Inode of the namespace.
    pub own: u64,
    /// Inode of the keeper's namespace.
    pub base: u64,
    /// Descriptor of the keeper's `/proc`.
    pub proc: u32,
    /// Descriptor of the life pipe, which ends with the keeper.
    pub life: u32,
    pub why: String,
}

impl fmt::Display for ContainmentVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContainmentVariable::Groups { why } => write!(f, "groups {why}"),
            ContainmentVariable::Namespace(n) => write!(
                f,
                "namespace {} {} {} {} {}",
                n.own, n.base, n.proc, n.life, n.why
            ),
        }
    }
}

impl ContainmentVariable {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        if kind == "groups" {
            return Some(ContainmentVariable::Groups {
                why: rest.to_owned(),
            });
        }
        let mut words = rest.splitn(5, ' ');
        let mut word = || words.next();
        let namespace = WorkerNamespace {
            own: word()?.parse().ok()?,
            base: word()?.parse().ok()?,
            proc: word()?.parse().ok()?,
            life: word()?.parse().ok()?,
            why: word()?.to_owned(),
        };
        (kind == "namespace").then_some(ContainmentVariable::Namespace(namespace))
    }
}

impl WorkerNamespace {
    /// Returns the namespace of which a stage made this process PID 1. A task does not inherit the variable, and a program that a task
    /// starts in a further namespace finds another inode.
    pub(crate) fn of_this_process() -> Option<Self> {
        static OWN: OnceLock<Option<WorkerNamespace>> = OnceLock::new();
        let find = || match ContainmentVariable::parse(&std::env::var(CONTAINMENT_VARIABLE).ok()?)?
        {
            ContainmentVariable::Namespace(namespace) => namespace.is_ours().then_some(namespace),
            ContainmentVariable::Groups { .. } => None,
        };
        OWN.get_or_init(find).clone()
    }

    pub(crate) fn is_ours(&self) -> bool {
        getpid().as_raw() == 1 && parent_id() == 0 && inode_here() == Some(self.own)
    }

    /// Returns the path of the keeper's `/proc`, in which processes have the numbers that people outside see.
    pub(crate) fn host_proc(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.proc))
    }

    /// Opens the pipe that ends with the keeper. The keeper has written one byte to it, and the stage before this program has read that
    /// byte. So the pipe is readable again only at its end.
    pub(crate) fn open_life(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlag::O_NONBLOCK.bits());
        options.open(format!("/proc/self/fd/{}", self.life))
    }
}

/// Returns the inode of this process's PID namespace.
pub(crate) fn inode_here() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid")
        .ok()
        .map(|about| about.ino())
}

/// Returns the inode of the keeper's PID namespace, in which people see this worker.
pub(crate) fn base_inode() -> Option<u64> {
    WorkerNamespace::of_this_process().map_or_else(inode_here, |namespace| Some(namespace.base))
}

/// Returns this process's number as its keeper and people outside see it.
pub(crate) fn own_pid() -> Pid {
    let Some(namespace) = WorkerNamespace::of_this_process() else {
        return getpid();
    };
    let link = fs::read_link(namespace.host_proc().join("self")).ok();
    let number = link.and_then(|link| link.to_str()?.parse().ok());
    number.map_or_else(getpid, Pid::from_raw)
}

/// Returns the number of one of this worker's processes as people outside see it, or its number here if it is gone.
pub(crate) fn host_pid(pid: Pid) -> Pid {
    let Some(namespace) = WorkerNamespace::of_this_process() else {
        return pid;
    };
    translate(&namespace, pid).unwrap_or(pid)
}

/// Translates a number with the kernel's help, from the information about a descriptor of the process.
fn translate(namespace: &WorkerNamespace, pid: Pid) -> Option<Pid> {
    use std::os::fd::AsRawFd;
    let number = rustix::process::Pid::from_raw(pid.as_raw())?;
    let flags = rustix::process::PidfdFlags::empty();
    let pidfd = rustix::process::pidfd_open(number, flags).ok()?;
    let about = format!("self/fdinfo/{}", pidfd.as_raw_fd());
    let text = fs::read_to_string(namespace.host_proc().join(about)).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    let number = number.trim().parse().ok().filter(|number| *number > 0)?;
    Some(Pid::from_raw(number))
}

/// PID 1 of a worker's namespace, as the next worker in the data directory recognises it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Init {
    /// The process's number in the namespace `base`.
    pid: i32,
    /// The time of the process's start, in kernel ticks since the machine's start.
    start: u64,
    /// Inode of the keeper's namespace.
    base: u64,
}

impl Init {
    /// Returns this process. `None` if it is not PID 1 of a worker's namespace.
    pub(crate) fn of_this_process() -> Option<Self> {
        let namespace = WorkerNamespace::of_this_process()?;
        let pid = own_pid();
        let found = find_outside(pid)?;
        Some(Init {
            pid: pid.as_raw(),
            start: found.start.0,
            base: namespace.base,
        })
    }

    /// Returns whether this process is in the namespace `base`, so that [`Init::is_alive`] is meaningful. The kernel gives an inode to
    /// another namespace only when every process below the old one is gone.
    pub(crate) fn is_seen(&self) -> bool {
        base_inode() == Some(self.base)
    }

    /// Returns whether the process is alive, and so perhaps others of its namespace. The kernel lets PID 1 become a zombie only when
    /// every other process of the namespace has been reaped.
    pub(crate) fn is_alive(&self) -> bool {
        let found = find_outside(Pid::from_raw(self.pid));
        found.is_some_and(|found| found.start.0 == self.start && found.life == ProcessLife::Alive)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.pid)
    }
}

/// Returns the process that has this number for the keeper and for people outside.
fn find_outside(pid: Pid) -> Option<ProcessEntry> {
    match WorkerNamespace::of_this_process() {
        Some(namespace) => {
            let proc = File::open(namespace.host_proc()).ok()?;
            proc_table::find_in(proc.as_fd(), pid)
        }
        None => proc_table::find(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_containment_variable_round_trips() {
        let namespace = WorkerNamespace {
            own: 4026532000,
            base: 4026531836,
            proc: 5,
            life: 7,
            why: "a reason of several words".to_owned(),
        };
        let groups = ContainmentVariable::Groups {
            why: "another reason".to_owned(),
        };
        for told in [ContainmentVariable::Namespace(namespace), groups] {
            assert_eq!(ContainmentVariable::parse(&told.to_string()), Some(told));
        }
        for bad in [
            "",
            "namespace",
            "namespace 1 2 3",
            "namespace a b c d e",
            "other 1 2 3 4 x",
        ] {
            assert_eq!(ContainmentVariable::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn outside_of_a_namespace_numbers_are_what_they_are() {
        assert_eq!(own_pid(), getpid());
        assert_eq!(host_pid(Pid::from_raw(1)), Pid::from_raw(1));
        assert_eq!(Init::of_this_process(), None);
        assert_eq!(base_inode(), inode_here());
    }

    #[test]
    fn an_init_is_known_by_its_number_its_start_and_its_namespace() {
        let me = crate::proc_table::find(getpid()).expect("this process");
        let init = Init {
            pid: me.pid.as_raw(),
            start: me.start.0,
            base: inode_here().expect("a namespace"),
        };
        assert!(init.is_alive());
        let later = Init {
            start: init.start + 1,
            ..init
        };
        let elsewhere = Init {
            base: init.base + 1,
            ..init
        };
        assert!(init.is_seen() && !later.is_alive() && !elsewhere.is_seen());
    }
}
