//! The keeper: a small process around a program that runs tasks, so that no task outlives the program, not even when the program is
//! killed with `kill -9`.
//!
//! ```text
//!   started by hand, systemd, a test
//!     brasserie-keeper      (exec of the same file under this name; child subreaper; one thread acts, others log and read)
//!       brasserie-worker    (parent death signal: SIGTERM)
//!         task, task, ...   (own process groups; a process that leaves them still has the keeper as its last ancestor)
//! ```
//!
//! The keeper passes SIGTERM, SIGINT, SIGHUP and SIGQUIT on, except those that a terminal sent to the whole foreground group. When the
//! program is gone, the keeper kills every process that is left below it, and then exits with the program's code. If instead the keeper
//! is killed, the program gets SIGTERM and ends its tasks itself. If both are killed at the same moment, the kernel ends the tasks of a
//! program in a PID namespace ([`crate::containment`]). Without a namespace, the tasks live until the worker's next start in its
//! directory ends those that it finds ([`crate::directory`]).
//!
//! A worker that is stopped (SIGSTOP, a debugger, a frozen control group) or hangs cannot end its tasks when its scheduler gives them to
//! other workers. So it stores the time until which they may live ([`lease`]). If the worker does not renew that time, the keeper stops
//! the worker for good and sends its tasks SIGTERM. After the kill wait, it sends SIGKILL to all of them and to the worker, which SIGCONT
//! cannot revive then. [`brasserie_common::health::timeouts`] explains how late that may be, and why it is in time.
//!
//! A worker with several schedulers has a lease for each of them. If only one lease expires, the keeper leaves the worker alone, and ends
//! only the tasks of that scheduler (`parts`), by the marks by which a successor would find them. The worker itself hangs, and is ended,
//! if all leases have expired, all its tasks are dead, and it does not notice for five seconds.
//!
//! The keeper cannot help if it is stopped together with the worker while the tasks continue (a signal to both, or a control group with
//! both and without the tasks). When it continues, it acts at once. While the machine sleeps, tasks sleep too. After the sleep they live
//! no longer than the keeper needs to act, since its clock counts the sleep.
//!
//! `brasserie run` has a keeper without a lease. It starts a worker program with a keeper of its own, which has a lease.

mod blocking;
mod guard;
pub mod lease;
mod leases;
mod rounds;
mod start;
mod sweep;

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, parent_id};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use brasserie_common_runtime::log_writer::{self, FLUSH_LIMIT};
use brasserie_common_runtime::telemetry;
use brasserie_common_runtime::{LogFormat, Verbosity};
use lease::LeaseLedger;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_encode};

use crate::THIS_PROGRAM;
use crate::containment::{Contain, stage};
use crate::marker::{Marker, marker};
use crate::pid_namespace::WorkerNamespace;
use crate::variables::{
    ARGUMENTS_VARIABLE, CONTAINMENT_VARIABLE, LEASE_VARIABLE, MARKER_VARIABLE, SWEPT_VARIABLE,
};

/// The keeper's whole command line. It must not contain the name of a program that people end with `pkill -f`.
pub const KEEPER_NAME: &str = "brasserie-keeper";
/// The signals that people and service managers send to end a program.
const FORWARDED: [Signal; 4] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// The reason why a program cannot run under a keeper.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error(
        "cannot start {KEEPER_NAME}, which ends the tasks if this program is killed: {0}. It runs {THIS_PROGRAM}; is /proc mounted?"
    )]
    Exec(io::Error),
    #[error("{KEEPER_NAME} cannot {what}: {error}")]
    Setup { what: &'static str, error: Errno },
    #[error("{KEEPER_NAME} cannot start the program: {0}")]
    Spawn(io::Error),
    #[error("cannot open the lease of {KEEPER_NAME}: {0}. Is /proc mounted?")]
    Lease(io::Error),
    #[error(
        "{KEEPER_NAME} cannot open /proc, where it finds the processes to kill: {0}. Is /proc mounted?"
    )]
    Proc(io::Error),
    #[error("{KEEPER_NAME} ended while this program was starting")]
    Gone,
    #[error(
        "--contain pid-namespace is not available here: {0}. Leave the flag out, or use --contain process-groups, which guarantees less"
    )]
    Containment(String),
    /// A [`crate::directory::DirectoryError`] in another process.
    #[error("{0}")]
    Sweep(String),
    #[error(
        "cannot watch {KEEPER_NAME}, whose death must end this program: {0}. Is /proc mounted, and does a sandbox forbid pidfd_open?"
    )]
    Life(io::Error),
}

/// The parent of a worker program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartedBy {
    /// A person or a service manager.
    #[default]
    Operator,
    /// `brasserie run`. The worker logs only warnings. At the end of its standard input it ends its tasks and itself, so that it does not
    /// outlive the run.
    Run,
}

impl StartedBy {
    /// Returns the log level of the worker.
    pub(crate) fn verbosity(self) -> Verbosity {
        match self {
            StartedBy::Operator => Verbosity::Info,
            StartedBy::Run => Verbosity::WarningsOnly,
        }
    }
}

/// The keeper's choices for a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeeperPolicy {
    pub contain: Contain,
    /// The program's data directory. A predecessor outside of any namespace may have left processes behind, which a program in a
    /// namespace could not see.
    pub data_dir: Option<PathBuf>,
    /// The program's parent, which decides the log level.
    pub started_by: StartedBy,
    pub log_format: LogFormat,
    /// Whether the program makes control groups below the keeper's own, which the keeper then has to leave.
    pub uses_own_group: bool,
}

/// A descriptor that becomes readable, or whose other end closes, when the keeper of this process dies. It is the keeper's pidfd, or a
/// pipe whose other end only the keeper has: in a PID namespace the keeper has no pid. It is open from the start, because later there may
/// be no free descriptor. `getppid` is unreliable: the kernel changes the parent of one thread after the other, and a thread of the dying
/// keeper may become the parent.
static DEATH: OnceLock<OwnedFd> = OnceLock::new();

/// Returns whether the keeper of this process is alive; `true` if it has none.
pub(crate) fn keeper_lives() -> bool {
    DEATH
        .get()
        .is_none_or(|death| !is_told(death, PollTimeout::ZERO))
}

/// Calls `tell` on a thread of its own once the keeper of this process is dead; never if it has none.
pub(crate) fn on_keeper_death(tell: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let Some(death) = DEATH.get() else {
        return Ok(());
    };
    let watch = move || {
        while !is_told(death, PollTimeout::NONE) {}
        tell();
    };
    let thread = std::thread::Builder::new().name("keeper-watch".to_owned());
    thread.spawn(watch).map(drop)
}

fn is_told(death: &OwnedFd, wait: PollTimeout) -> bool {
    let mut polled = [PollFd::new(death.as_fd(), PollFlags::POLLIN)];
    match poll(&mut polled, wait) {
        Ok(told) => told > 0,
        Err(Errno::EINTR) => false,
        // `poll` fails if the limit of open files is 0. The program then ends its tasks, because nothing else might.
        Err(_) => true,
    }
}

fn watch_keeper(marker: &Marker) -> Result<(), KeeperError> {
    let death = match WorkerNamespace::of_this_process() {
        Some(namespace) => namespace.open_life().map_err(KeeperError::Life)?.into(),
        None => {
            let keeper = marker
                .keeper()
                .and_then(|keeper| i32::try_from(keeper).ok());
            let keeper = keeper.and_then(rustix::process::Pid::from_raw);
            let keeper = keeper.ok_or(KeeperError::Gone)?;
            rustix::process::pidfd_open(keeper, rustix::process::PidfdFlags::empty()).map_err(
                |error| match error {
                    rustix::io::Errno::SRCH => KeeperError::Gone,
                    error => KeeperError::Life(error.into()),
                },
            )?
        }
    };
    DEATH.get_or_init(|| death);
    Ok(())
}

/// Does the same as [`crate::become_keeper_or_continue`], with containment according to `policy`. The keeper and its sweep process call
/// `policy` with the program's arguments. The program's signals stay blocked until it calls [`hear_signals`]: PID 1 of a namespace loses signals that arrive before
/// it has handlers for them.
pub(crate) fn become_keeper_with(
    policy: impl Fn(&[OsString]) -> KeeperPolicy,
) -> Result<(), KeeperError> {
    let marker = marker();
    stage::play_if_asked(marker.is_some(), |arguments| {
        sweep::play(|| policy(arguments))
    });
    if let Some(marker) = marker {
        return be_kept(&marker);
    }
    match arguments_after_exec() {
        Some(arguments) => {
            let code = guard::run(&arguments, &policy(&arguments))?;
            log_writer::stderr().flush(FLUSH_LIMIT);
            std::process::exit(code);
        }
        None => Err(exec_keeper()),
    }
}

fn be_kept(marker: &Marker) -> Result<(), KeeperError> {
    let setup = |what| move |error| KeeperError::Setup { what, error };
    prctl::set_pdeathsig(Signal::SIGTERM).map_err(setup("watch its own parent"))?;
    watch_keeper(marker)?;
    // The keeper may have died before the signal was requested, and its process id may be another process's by now.
    let is_ours =
        WorkerNamespace::of_this_process().is_some() || marker.keeper() == Some(parent_id());
    if !is_ours || !keeper_lives() {
        return Err(KeeperError::Gone);
    }
    // The exec of a link leaves the link's name as the name of the process.
    if let Some(name) = std::env::args_os().next() {
        let base = name
            .as_bytes()
            .rsplit(|b| *b == b'/')
            .next()
            .unwrap_or_default();
        if let Ok(name) = CString::new(base) {
            prctl::set_name(&name).map_err(setup("name itself"))?;
        }
    }
    Ok(())
}

/// Unblocks this thread's signals. The keeper blocked them, because it reads its own signals from a descriptor.
pub(crate) fn hear_signals() -> Result<(), KeeperError> {
    let unblocked = guarded_signals().thread_unblock();
    unblocked.map_err(|error| KeeperError::Setup {
        what: "unblock signals",
        error,
    })
}

/// Turns this process into the keeper. Returns only after an error.
fn exec_keeper() -> KeeperError {
    let encoded: Vec<String> = std::env::args_os()
        .map(|a| percent_encode(a.as_bytes(), NON_ALPHANUMERIC).to_string())
        .collect();
    let value = format!("{}:{}", std::process::id(), encoded.join(" "));
    let error = Command::new(THIS_PROGRAM)
        .arg0(KEEPER_NAME)
        .env(ARGUMENTS_VARIABLE, value)
        .exec();
    KeeperError::Exec(error)
}

/// Returns the program's command line if this process is the result of [`exec_keeper`]: an exec keeps the process id.
fn arguments_after_exec() -> Option<Vec<OsString>> {
    let value = std::env::var(ARGUMENTS_VARIABLE).ok()?;
    let (id, arguments) = value.split_once(':')?;
    (id.parse() == Ok(std::process::id())).then(|| arguments.split(' ').map(decode).collect())
}

fn decode(text: &str) -> OsString {
    OsString::from_vec(percent_decode(text.as_bytes()).collect())
}

/// Returns the command that starts the program without a namespace.
fn kept_program(arguments: &[OsString]) -> Command {
    let mut command = Command::new(THIS_PROGRAM);
    command
        .arg0(
            arguments
                .first()
                .map_or(OsStr::new(""), OsString::as_os_str),
        )
        .args(arguments.iter().skip(1));
    command
}

/// Sets the variables that the program reads.
fn tell_kept(command: &mut Command, marker: &Marker, ledger: &LeaseLedger) {
    command
        .env_remove(ARGUMENTS_VARIABLE)
        .env_remove(CONTAINMENT_VARIABLE)
        .env_remove(SWEPT_VARIABLE)
        .env(MARKER_VARIABLE, marker.as_str())
        .env(LEASE_VARIABLE, ledger.numbers());
}

fn guarded_signals() -> SigSet {
    FORWARDED.into_iter().chain([Signal::SIGCHLD]).collect()
}

/// A signal to the keeper.
struct Received {
    kind: Signal,
    /// Whether the kernel sent it: for a terminal, which signals the whole foreground group, or because a child has ended.
    is_from_kernel: bool,
}

/// Returns the next pending signal. Skips signals without a name.
fn next_signal(signals: &SignalFd) -> Option<Received> {
    while let Ok(Some(info)) = signals.read_signal() {
        let number = i32::try_from(info.ssi_signo).ok();
        if let Some(kind) = number.and_then(|number| Signal::try_from(number).ok()) {
            // The kernel sends a positive code.
            let is_from_kernel = info.ssi_code > 0;
            return Some(Received {
                kind,
                is_from_kernel,
            });
        }
    }
    None
}

/// Queues a line for the log thread. The caller acts first: the line must be true when it is printed.
fn say(text: &str) {
    telemetry::print_error(&format!("{KEEPER_NAME}: {text}"));
}
