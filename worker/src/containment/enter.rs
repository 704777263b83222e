//! The keeper's part of entering a PID namespace: starts the stages, adopts PID 1, and receives the result.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, pipe2};

use super::NamespaceMethod;
use super::stage::{STAGE_NAME, StageInstructions, give_up_here};
use crate::THIS_PROGRAM;
use crate::variables::STAGE_VARIABLE;

/// The time that both stages may take; they need milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// The size of the read buffer for reports; all reports together have a few hundred bytes.
const REPORT_BYTES: usize = 512;

/// A worker that is PID 1 of a namespace, and a child of this process.
#[derive(Debug)]
pub(crate) struct Entered {
    pub program: Pid,
    /// The writing end of the life pipe. It closes when this process ends, and the worker detects that.
    pub life: OwnedFd,
}

/// Starts the program (its name, then its arguments) as PID 1 of a new PID namespace. `command` sets the program's environment. After an
/// error, which is a message for people, no process of the attempt is left.
pub(crate) fn enter(
    program: &[OsString],
    command: impl FnOnce(&mut Command),
    way: NamespaceMethod,
    why: &str,
) -> Result<Entered, String> {
    let failed = |error: Errno| error.desc().to_owned();
    let (reader, report) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).map_err(failed)?;
    let (watched, life) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
    for inherited in [&report, &watched] {
        fcntl(inherited, FcntlArg::F_SETFD(FdFlag::empty())).map_err(failed)?;
    }
    let number = |fd: &OwnedFd| fd.as_raw_fd().unsigned_abs();
    let part = StageInstructions::Outer {
        report: number(&report),
        life: number(&watched),
        way,
        why: why.to_owned(),
    };
    let mut outer = Command::new(THIS_PROGRAM);
    command(&mut outer);
    outer
        .arg0(STAGE_NAME)
        .args(program)
        .env(STAGE_VARIABLE, part.encode());
    let mut outer = outer
        .spawn()
        .map_err(|error| format!("its first stage cannot be started: {error}"))?;
    drop((report, watched));
    let mut report = StageMessages {
        pipe: File::from(reader),
        text: String::new(),
        give_up: Instant::now() + PATIENCE,
    };
    let adopted = adopt(&mut outer, &mut report);
    // The first stage has exited or hangs. Once it is dead, the second stage is a child of this process.
    let _ = outer.kill();
    let _ = outer.wait();
    let inner = adopted?;
    let mut life = File::from(life);
    let begun = life
        .write_all(&[1])
        .map_err(|error| error.to_string())
        .and_then(|()| report.line("ready"));
    match begun {
        Ok(_) => {
            // This process makes no other namespace.
            let _ = give_up_here();
            Ok(Entered {
                program: inner,
                life: life.into(),
            })
        }
        Err(error) => {
            let _ = kill(inner, Signal::SIGKILL);
            let _ = waitpid(inner, None);
            Err(error)
        }
    }
}

fn adopt(outer: &mut Child, report: &mut StageMessages) -> Result<Pid, String> {
    let number = report.line("pid ")?;
    // The first stage is about to exit.
    outer
        .wait()
        .map_err(|error| format!("its first stage cannot be waited for: {error}"))?;
    let number = number
        .parse()
        .map_err(|_| format!("a stage says `{number}`"))?;
    Ok(Pid::from_raw(number))
}

/// The reader of the stages' messages.
struct StageMessages {
    pipe: File,
    text: String,
    give_up: Instant,
}

impl StageMessages {
    /// Returns the rest of the next line, which must begin with `wanted`. Errors with the reason if the stage reports a failure.
    fn line(&mut self, wanted: &str) -> Result<String, String> {
        loop {
            if let Some((line, rest)) = self.text.split_once('\n') {
                let (line, rest) = (line.to_owned(), rest.to_owned());
                self.text = rest;
                return match (line.strip_prefix(wanted), line.strip_prefix("failed ")) {
                    (Some(rest), _) => Ok(rest.to_owned()),
                    (None, Some(why)) => Err(why.to_owned()),
                    (None, None) => Err(format!("a stage reported `{line}`")),
                };
            }
            self.wait()?;
            let mut bytes = [0; REPORT_BYTES];
            match self.pipe.read(&mut bytes) {
                Ok(0) => return Err("a stage ended without a report".to_owned()),
                Ok(count) => self
                    .text
                    .push_str(&String::from_utf8_lossy(&bytes[..count])),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn wait(&self) -> Result<(), String> {
        let left = self.give_up.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!(
                "its stages have not finished within {} s",
                PATIENCE.as_secs()
            ));
        }
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(error) => Err(error.desc().to_owned()),
        }
    }
}
