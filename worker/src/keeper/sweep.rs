//! Ends the leftover processes of the last worker in the data directory, before a program starts in a PID namespace, from which it could
//! not see them. A separate process does so, because a disk or a task that does not die may block it. Meanwhile the keeper waits for that
//! process and for signals.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use brasserie_common_runtime::telemetry;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;

use super::{FORWARDED, KeeperError, KeeperPolicy, StartedBy, next_signal, say};
use crate::THIS_PROGRAM;
use crate::containment::stage::{FAILED, STAGE_NAME, SWEEP};
use crate::directory::WorkerDirectory;
use crate::marker::{Marker, marker};
use crate::variables::{ARGUMENTS_VARIABLE, MARKER_VARIABLE, STAGE_VARIABLE};

/// The result of the sweep.
pub(super) enum Sweep {
    /// Nothing is left. The text names the last user of the directory for the program.
    Done(String),
    /// A signal arrived first.
    Interrupted(Signal),
}

/// Starts the process and waits for it. A process that does not end after a signal is left behind.
pub(super) fn run(
    arguments: &[OsString],
    marker: &Marker,
    signals: &SignalFd,
    started_by: StartedBy,
) -> Result<Sweep, KeeperError> {
    let mut sweeper = Command::new(THIS_PROGRAM)
        .arg0(STAGE_NAME)
        .args(arguments)
        .env_remove(ARGUMENTS_VARIABLE)
        .env(MARKER_VARIABLE, marker.as_str())
        .env(STAGE_VARIABLE, SWEEP)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(KeeperError::Spawn)?;
    let mut answer = sweeper.stdout.take().expect("it is piped");
    let mut text = Vec::new();
    loop {
        let mut fds =
            [signals.as_fd(), answer.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        // Both are checked below, whether a signal interrupted the call or not.
        let _ = poll(&mut fds, PollTimeout::NONE);
        let has_answer = fds[1].any() == Some(true);
        while let Some(signal) = next_signal(signals) {
            if FORWARDED.contains(&signal.kind) {
                let _ = sweeper.kill();
                match started_by {
                    StartedBy::Operator => say(&format!(
                        "{} came while process {} ended what the last worker in the data directory left running",
                        signal.kind,
                        sweeper.id()
                    )),
                    // The run itself sends the signal, and reports why it ends.
                    StartedBy::Run => {}
                }
                return Ok(Sweep::Interrupted(signal.kind));
            }
        }
        let mut bytes = [0; 4096];
        if has_answer {
            match answer.read(&mut bytes) {
                // The last thread of the process has exited.
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(KeeperError::Spawn(error)),
            }
        }
    }
    let status = sweeper.wait().map_err(KeeperError::Spawn)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    match (status.success(), text.is_empty()) {
        (true, _) => Ok(Sweep::Done(text)),
        (false, false) => Err(KeeperError::Sweep(text)),
        (false, true) => Err(KeeperError::Sweep(format!(
            "the process that ends what the last worker in the data directory left running failed: {status}"
        ))),
    }
}

/// Ends the leftover processes in the data directory that `policy` names, and answers on standard output. Returns the exit code.
pub(super) fn play(policy: impl FnOnce() -> KeeperPolicy) -> i32 {
    let _ = prctl::set_name(c"brasserie-sweep");
    let watched = prctl::set_pdeathsig(Signal::SIGKILL);
    // The keeper may have died earlier.
    if watched.is_err() || marker().is_none() {
        return FAILED;
    }
    let policy = policy();
    // The worker itself reports an invalid log filter.
    let log = telemetry::init(policy.started_by.verbosity(), policy.log_format).ok();
    let swept = policy.data_dir.as_deref().map(WorkerDirectory::sweep);
    let (text, code) = match swept.transpose() {
        Ok(user) => (user.unwrap_or_default(), 0),
        Err(error) => (error.to_string(), FAILED),
    };
    drop(log);
    let answered = io::stdout().write_all(text.as_bytes());
    let answered = answered.and_then(|()| io::stdout().flush());
    answered.map_or(FAILED, |()| code)
}
