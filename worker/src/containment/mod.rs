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
use std::fs;

use nix::unistd::{Uid, geteuid};

pub(crate) use enter::enter;
pub(crate) use stage::give_up_here;

use crate::pid_namespace::ContainmentVariable;
use crate::variables::CONTAINMENT_VARIABLE;

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
pub enum ContainmentKind {
    /// The worker is PID 1 of a PID namespace; the kernel kills its tasks when it dies.
    PidNamespace,
    /// The keeper, or the next worker in the directory, finds tasks by process groups, marks and descent.
    ProcessGroups,
}

/// The containment of a worker, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    pub kind: ContainmentKind,
    /// The reason, as a message.
    pub why: String,
}

impl Containment {
    pub(crate) fn process_groups(why: impl Into<String>) -> Self {
        Containment {
            kind: ContainmentKind::ProcessGroups,
            why: why.into(),
        }
    }

    /// Returns the containment of the worker in this process.
    pub(crate) fn of_this_process() -> Self {
        let told = std::env::var(CONTAINMENT_VARIABLE).unwrap_or_default();
        match ContainmentVariable::parse(&told) {
            Some(ContainmentVariable::Namespace(namespace)) if namespace.is_ours() => Containment {
                kind: ContainmentKind::PidNamespace,
                why: namespace.why,
            },
            Some(ContainmentVariable::Groups { why }) if crate::marker::marker().is_some() => {
                Containment::process_groups(why)
            }
            Some(_) | None => Containment::process_groups("the worker has no keeper of its own"),
        }
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ContainmentKind::PidNamespace => "pid-namespace",
            ContainmentKind::ProcessGroups => "process-groups",
        };
        write!(f, "{kind}: {}", self.why)
    }
}

/// The way to make a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceMethod {
    /// The process has `CAP_SYS_ADMIN`.
    Direct,
    /// The process enters a user namespace that maps the user to itself.
    UserNamespace,
}

/// The containment to try, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    Namespace {
        way: NamespaceMethod,
        why: &'static str,
    },
    Groups {
        why: &'static str,
    },
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
        way: NamespaceMethod::Direct,
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
            way: NamespaceMethod::UserNamespace,
            why: "--contain pid-namespace asks for it; tasks are in a user namespace, too, in which set-uid programs have no effect",
        },
    })
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
            assert_eq!(
                way(Contain::Auto, capable),
                Ok(Some(NamespaceMethod::Direct))
            );
            assert_eq!(
                way(Contain::PidNamespace, capable),
                Ok(Some(NamespaceMethod::Direct))
            );
            assert_eq!(way(Contain::ProcessGroups, capable), Ok(None));
            assert_eq!(way(Contain::Auto, powers(is_root, false)), Ok(None));
        }
        let user = way(Contain::PidNamespace, powers(false, false));
        assert_eq!(user, Ok(Some(NamespaceMethod::UserNamespace)));
        let why = way(Contain::PidNamespace, powers(true, false)).expect_err("impossible");
        assert!(why.contains("CAP_SYS_ADMIN"), "{why}");
    }
}
