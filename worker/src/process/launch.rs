//! The plan of a child's start and its possible failures: the types between the code that prepares a start and the audited code that
//! performs it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fs;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::resource::Resource;
use nix::unistd::{Gid, Pid, Uid};

use super::DescriptorLimit;

/// The period at which this process's signal handlers are read: a program installs them when it starts. See [`Handled`].
const HANDLERS_INTERVAL: Duration = Duration::from_secs(1);
/// The highest signal number of the kernel.
const LAST_SIGNAL: c_int = 64;

/// The plan of a child's start.
///
/// Invariant: none of the descriptors is 0, 1, 2 or `status_number`, so that no `dup2` overwrites a source that a later one needs;
/// [`super::command::Reserved`] ensures that.
pub(super) struct Launch<'a> {
    pub program: &'a CStr,
    pub argv: &'a [CString],
    /// `NAME=value` entries; the second list is appended to the first.
    pub environment: [&'a [CString]; 2],
    pub working_dir: &'a CStr,
    /// Whether the child enters the working directory with the account's rights and not with the worker's.
    pub enters_as_account: bool,
    pub stdin: BorrowedFd<'a>,
    pub stdout: BorrowedFd<'a>,
    pub stderr: BorrowedFd<'a>,
    pub status: BorrowedFd<'a>,
    pub status_number: RawFd,
    /// The `cgroup.procs` files of control groups that the child joins first, open for writing.
    pub joins: &'a [BorrowedFd<'a>],
    /// The limit of open files with which this process was started. If it cannot be set, the task has this process's present limit.
    pub descriptors: Option<Limit>,
    /// The mark by which the task's descendants are recognised. If it cannot be set, their environment may still identify them.
    pub mark: Option<Limit>,
    /// The limits without which the child does not start.
    pub limits: &'a [Limit],
    pub account: Option<&'a Account>,
}

/// A limit of the kernel on one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub resource: Resource,
    pub soft: u64,
    pub hard: u64,
}

impl Limit {
    /// The kernel's value for no limit.
    pub(super) const INFINITY: u64 = libc::RLIM_INFINITY;
}

impl From<DescriptorLimit> for Limit {
    fn from(limit: DescriptorLimit) -> Self {
        Limit {
            resource: Resource::RLIMIT_NOFILE,
            soft: limit.soft,
            hard: limit.hard,
        }
    }
}

/// The rights that a child has instead of this process's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub user: Uid,
    pub group: Gid,
    /// The supplementary groups: all groups of the user.
    pub groups: Vec<Gid>,
}

/// A running child for which no other code waits.
pub(super) struct Child {
    pub pid: Pid,
    /// Readable once the child has exited.
    pub pidfd: OwnedFd,
}

/// A failed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub step: LaunchStep,
    pub error: Errno,
}

/// A step of a start, in the order in which a child takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaunchStep {
    /// Making the process, with a descriptor to watch it.
    Create,
    /// Joining its control groups.
    Join,
    /// Making its session, and so its process group.
    Lead,
    /// Placing its descriptors.
    Redirect,
    Limit(Resource),
    WorkingDirectory,
    /// Giving up the groups, the group and the user of the worker, and the ways to regain them.
    Account,
    Execute,
}

impl LaunchStep {
    /// Returns the number by which a child reports the step: the child shares this process's memory, so a number is safest. The second
    /// byte holds the limit's resource.
    pub(super) fn code(self) -> u64 {
        match self {
            LaunchStep::Create => 0,
            LaunchStep::Join => 1,
            LaunchStep::Lead => 2,
            LaunchStep::Redirect => 3,
            LaunchStep::Limit(resource) => 4 | (resource as u64) << 8,
            LaunchStep::WorkingDirectory => 5,
            LaunchStep::Account => 6,
            LaunchStep::Execute => 7,
        }
    }
}

/// The way in which children are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpawnMethod {
    /// A clone that borrows this process's memory until it executes its program, followed by the steps of this module.
    Clone,
    /// `posix_spawn` of the C library, if a kernel or a filter of system calls forbids the clone. It supports fewer steps.
    PosixSpawn,
}

impl Launch<'_> {
    pub(super) fn redirections(&self) -> [(RawFd, RawFd); 4] {
        [
            (self.stdin.as_raw_fd(), libc::STDIN_FILENO),
            (self.stdout.as_raw_fd(), libc::STDOUT_FILENO),
            (self.stderr.as_raw_fd(), libc::STDERR_FILENO),
            (self.status.as_raw_fd(), self.status_number),
        ]
    }
}

/// Returns the strings as a list that ends in a null pointer, for `execve` and `posix_spawn`. These do not write to the strings; the type
/// is historical.
pub(super) fn pointers(lists: [&[CString]; 2]) -> Vec<*mut c_char> {
    let texts = lists.into_iter().flatten();
    let pointers = texts.map(|text| text.as_ptr().cast_mut());
    pointers.chain([ptr::null_mut()]).collect()
}

/// The signals that this process handles or ignores. A child that borrows its memory must not run its handlers, and a program must not
/// start with signals ignored.
///
/// Reading them costs as much as a tenth of a start, so it happens once a second. A handler that was installed since then matters only to
/// a signal in the microseconds between the child's unblocking and its program. The signals that people, terminals and service managers
/// send to groups are always reset.
pub(super) struct Handled {
    signals: Vec<c_int>,
    looked: Instant,
}

impl Handled {
    const ALWAYS: [c_int; 6] = [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGCHLD,
    ];

    pub(super) fn look(now: Instant) -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Handled {
            signals: Handled::listed(&status),
            looked: now,
        }
    }

    pub(super) fn at(&mut self, now: Instant) -> &[c_int] {
        if now.saturating_duration_since(self.looked) >= HANDLERS_INTERVAL {
            *self = Handled::look(now);
        }
        &self.signals
    }

    /// Parses the signals from `/proc/self/status`. Missing lines mean all signals.
    fn listed(status: &str) -> Vec<c_int> {
        let mask = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        };
        let handled = match (mask("SigIgn:"), mask("SigCgt:")) {
            (Some(ignored), Some(caught)) => ignored | caught,
            (None, _) | (_, None) => u64::MAX,
        };
        (1..=LAST_SIGNAL)
            .filter(|signal| handled >> (signal - 1) & 1 == 1 || Handled::ALWAYS.contains(signal))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_and_caught_signals_are_handled_and_those_of_terminals_always() {
        let status = "Name:\tx\nSigBlk:\t0000000000000040\nSigIgn:\t0000000000001000\nSigCgt:\t0000000100000800\n";
        assert_eq!(Handled::listed(status), [1, 2, 3, 12, 13, 15, 17, 33]);
        assert_eq!(Handled::listed("").len(), 64);
        assert!(
            Handled::look(Instant::now())
                .signals
                .contains(&libc::SIGPIPE)
        );
    }

    #[test]
    fn steps_have_codes_of_their_own() {
        let steps = [
            LaunchStep::Create,
            LaunchStep::Join,
            LaunchStep::Lead,
            LaunchStep::Redirect,
            LaunchStep::Limit(Resource::RLIMIT_CPU),
            LaunchStep::Limit(Resource::RLIMIT_AS),
            LaunchStep::WorkingDirectory,
            LaunchStep::Account,
            LaunchStep::Execute,
        ];
        let codes: std::collections::BTreeSet<u64> =
            steps.map(LaunchStep::code).into_iter().collect();
        assert_eq!(codes.len(), steps.len());
    }
}
