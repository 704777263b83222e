//! Containment: the way in which a worker makes sure that none of its tasks' processes outlives it. This module chooses between a PID
//! namespace and process groups, and reports the choice. It does not end processes: the keeper ([`crate::keeper`]) and the runner
//! ([`crate::process`]) do.
//!
//! ```text
//!   brasserie-keeper            host's PID namespace; holds the lease; reaps the worker
//!     brasserie-worker          PID 1 of a PID namespace: when it dies, the kernel kills every process of the namespace
//!       task, task, ...
//! ```
//!
//! Two stages of the same program stand between the keeper and the worker for a few milliseconds ([`stage`]). The first one makes the
//! namespaces and exits, so that the kernel makes the keeper the parent of the second one. The second one is already PID 1. It mounts
//! `/proc`, gives `CAP_SYS_ADMIN` up, and executes the worker.

mod enter;
pub(crate) mod stage;

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::OnceLock;

use nix::fcntl::OFlag;
use nix::unistd::{Pid, Uid, geteuid, getpid};

pub(crate) use enter::enter;
pub(crate) use stage::give_up_here;

use crate::keeper::processes::{self, Life, Process};

/// The variable with a worker's containment. The keeper or the stage sets it, and no task inherits it.
pub(crate) const CONTAINMENT_VARIABLE: &str = "BRASSERIE_CONTAINMENT";
/// The variable with the instructions of a stage.
pub(crate) const STAGE_VARIABLE: &str = "BRASSERIE_STAGE";
/// The file that lists the capabilities of this process, and the bit of `CAP_SYS_ADMIN`.
const STATUS: &str = "/proc/self/status";
const SYS_ADMIN_BIT: u32 = 21;

/// The value of `--contain`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Contain {
    /// A PID namespace if this process has CAP_SYS_ADMIN and the machine allows it, else process groups.
    #[default]
    Auto,
    /// Always a PID namespace; without one the worker does not start. A user without CAP_SYS_ADMIN also gets a user namespace.
    PidNamespace,
    /// No namespace.
    ProcessGroups,
}

impl fmt::Display for Contain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contain::Auto => "auto",
            Contain::PidNamespace => "pid-namespace",
            Contain::ProcessGroups => "process-groups",
        })
    }
}

/// The kind of containment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The worker is PID 1 of a PID namespace; the kernel kills its tasks when it dies.
    PidNamespace,
    /// The keeper, or the next worker in the directory, finds tasks by process groups, marks and descent.
    ProcessGroups,
}

/// The containment of a worker, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    pub kind: Kind,
    /// The reason, as a message.
    pub why: String,
}

impl Containment {
    pub(crate) fn process_groups(why: impl Into<String>) -> Self {
        Containment {
            kind: Kind::ProcessGroups,
            why: why.into(),
        }
    }

    /// Returns the containment of the worker in this process.
    pub(crate) fn of_this_process() -> Self {
        let told = std::env::var(CONTAINMENT_VARIABLE).unwrap_or_default();
        match Told::parse(&told) {
            Some(Told::Namespace(namespace)) if namespace.is_ours() => Containment {
                kind: Kind::PidNamespace,
                why: namespace.why,
            },
            Some(Told::Groups { why }) if crate::keeper::marker().is_some() => {
                Containment::process_groups(why)
            }
            Some(_) | None => Containment::process_groups("the worker has no keeper of its own"),
        }
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::PidNamespace => "pid-namespace",
            Kind::ProcessGroups => "process-groups",
        };
        write!(f, "{kind}: {}", self.why)
    }
}

/// The way to make a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The process has `CAP_SYS_ADMIN`.
    Direct,
    /// The process enters a user namespace that maps the user to itself.
    UserNamespace,
}

/// The containment to try, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Namespace { way: Way, why: &'static str },
    Groups { why: &'static str },
}

/// The rights of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Powers {
    pub is_root: bool,
    pub has_sys_admin: bool,
}

impl Powers {
    pub(crate) fn of_this_process() -> Self {
        let status = fs::read_to_string(STATUS).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        let effective = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
        Powers {
            is_root: geteuid() == Uid::from_raw(0),
            has_sys_admin: effective.unwrap_or(0) >> SYS_ADMIN_BIT & 1 == 1,
        }
    }
}

/// Returns the containment to try. Errors with a message if the machine cannot satisfy the request.
pub(crate) fn choose(asked: Contain, powers: Powers) -> Result<Choice, &'static str> {
    let direct = Choice::Namespace {
        way: Way::Direct,
        why: "the worker is started with CAP_SYS_ADMIN",
    };
    Ok(match (asked, powers.has_sys_admin, powers.is_root) {
        (Contain::ProcessGroups, _, _) => Choice::Groups {
            why: "--contain process-groups asks for it",
        },
        (Contain::Auto | Contain::PidNamespace, true, _) => direct,
        (Contain::Auto, false, true) => Choice::Groups {
            why: "the worker runs as root without CAP_SYS_ADMIN, which a PID namespace takes",
        },
        (Contain::PidNamespace, false, true) => {
            return Err(
                "this process runs as root without CAP_SYS_ADMIN, which a PID namespace takes",
            );
        }
        (Contain::Auto, false, false) => Choice::Groups {
            why: "the worker is started without CAP_SYS_ADMIN, and a user namespace would hide the owners of files from tasks and \
                  disable set-uid programs; --contain pid-namespace accepts that",
        },
        (Contain::PidNamespace, false, false) => Choice::Namespace {
            way: Way::UserNamespace,
            why: "--contain pid-namespace asks for it; tasks are in a user namespace, too, in which set-uid programs have no effect",
        },
    })
}

/// The value of [`CONTAINMENT_VARIABLE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Groups { why: String },
    Namespace(Namespace),
}

/// The PID namespace of this process, and the descriptors that its stage left open for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
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

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Told::Groups { why } => write!(f, "groups {why}"),
            Told::Namespace(n) => write!(
                f,
                "namespace {} {} {} {} {}",
                n.own, n.base, n.proc, n.life, n.why
            ),
        }
    }
}

impl Told {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        if kind == "groups" {
            return Some(Told::Groups {
                why: rest.to_owned(),
            });
        }
        let mut words = rest.splitn(5, ' ');
        let mut word = || words.next();
        let namespace = Namespace {
            own: word()?.parse().ok()?,
            base: word()?.parse().ok()?,
            proc: word()?.parse().ok()?,
            life: word()?.parse().ok()?,
            why: word()?.to_owned(),
        };
        (kind == "namespace").then_some(Told::Namespace(namespace))
    }
}

impl Namespace {
    /// Returns the namespace of which a stage made this process PID 1. A task does not inherit the variable, and a program that a task
    /// starts in a further namespace finds another inode.
    pub(crate) fn of_this_process() -> Option<Self> {
        static OWN: OnceLock<Option<Namespace>> = OnceLock::new();
        let find = || match Told::parse(&std::env::var(CONTAINMENT_VARIABLE).ok()?)? {
            Told::Namespace(namespace) => namespace.is_ours().then_some(namespace),
            Told::Groups { .. } => None,
        };
        OWN.get_or_init(find).clone()
    }

    fn is_ours(&self) -> bool {
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
    Namespace::of_this_process().map_or_else(inode_here, |namespace| Some(namespace.base))
}

/// Returns this process's number as its keeper and people outside see it.
pub(crate) fn own_pid() -> Pid {
    let Some(namespace) = Namespace::of_this_process() else {
        return getpid();
    };
    let link = fs::read_link(namespace.host_proc().join("self")).ok();
    let number = link.and_then(|link| link.to_str()?.parse().ok());
    number.map_or_else(getpid, Pid::from_raw)
}

/// Returns the number of one of this worker's processes as people outside see it, or its number here if it is gone.
pub(crate) fn host_pid(pid: Pid) -> Pid {
    let Some(namespace) = Namespace::of_this_process() else {
        return pid;
    };
    translate(&namespace, pid).unwrap_or(pid)
}

/// Translates a number with the kernel's help, from the information about a descriptor of the process.
fn translate(namespace: &Namespace, pid: Pid) -> Option<Pid> {
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
        let namespace = Namespace::of_this_process()?;
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
        found.is_some_and(|found| found.start.0 == self.start && found.life == Life::Alive)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.pid)
    }
}

/// Returns the process that has this number for the keeper and for people outside.
fn find_outside(pid: Pid) -> Option<Process> {
    match Namespace::of_this_process() {
        Some(namespace) => {
            let proc = File::open(namespace.host_proc()).ok()?;
            processes::find_in(proc.as_fd(), pid)
        }
        None => processes::find(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn powers(is_root: bool, has_sys_admin: bool) -> Powers {
        Powers {
            is_root,
            has_sys_admin,
        }
    }

    #[test]
    fn namespaces_are_chosen_where_they_change_nothing_for_tasks() {
        let way = |asked, powers| match choose(asked, powers) {
            Ok(Choice::Namespace { way, .. }) => Ok(Some(way)),
            Ok(Choice::Groups { .. }) => Ok(None),
            Err(why) => Err(why),
        };
        for is_root in [false, true] {
            let capable = powers(is_root, true);
            assert_eq!(way(Contain::Auto, capable), Ok(Some(Way::Direct)));
            assert_eq!(way(Contain::PidNamespace, capable), Ok(Some(Way::Direct)));
            assert_eq!(way(Contain::ProcessGroups, capable), Ok(None));
            assert_eq!(way(Contain::Auto, powers(is_root, false)), Ok(None));
        }
        let user = way(Contain::PidNamespace, powers(false, false));
        assert_eq!(user, Ok(Some(Way::UserNamespace)));
        let why = way(Contain::PidNamespace, powers(true, false)).expect_err("impossible");
        assert!(why.contains("CAP_SYS_ADMIN"), "{why}");
    }

    #[test]
    fn the_containment_variable_round_trips() {
        let namespace = Namespace {
            own: 4026532000,
            base: 4026531836,
            proc: 5,
            life: 7,
            why: "a reason of several words".to_owned(),
        };
        let groups = Told::Groups {
            why: "another reason".to_owned(),
        };
        for told in [Told::Namespace(namespace), groups] {
            assert_eq!(Told::parse(&told.to_string()), Some(told));
        }
        for bad in [
            "",
            "namespace",
            "namespace 1 2 3",
            "namespace a b c d e",
            "other 1 2 3 4 x",
        ] {
            assert_eq!(Told::parse(bad), None, "{bad}");
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
        let me = crate::keeper::processes::find(getpid()).expect("this process");
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
