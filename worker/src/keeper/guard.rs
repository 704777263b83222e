//! The keeper at work: starts the program, passes signals on, reaps orphans, and ends what the program leaves behind.

use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use brasserie_common_runtime::Clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::{FORWARDED, KeeperError, Marker, guarded_signals, kept_program, processes};

/// How often the keeper looks although no signal came: SIGCHLD wakes it, this only heals a parent that had it ignored.
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// Between two rounds of the sweep: a killed process is gone within microseconds, and each round reaches one more
/// generation of descendants, so that even ten generations take a tenth of a second.
const SWEEP_ROUND: Duration = Duration::from_millis(10);
/// How often it is said that something cannot be killed.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(5);
/// Exit code when the program's own is not known.
const UNKNOWN_CODE: i32 = 1;
/// What shells add to the number of the signal that ended a program.
const SIGNAL_CODE_BASE: i32 = 128;

/// How far the program's life has come.
///
/// ```text
/// Guarding --the program is gone--> Sweeping --no child is left--> (exit)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The program runs.
    Guarding,
    /// Whatever it left behind is killed.
    Sweeping { code: i32, complain_at: Instant },
}

/// What a round of reaping found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Children {
    Some,
    None,
}

struct Guard {
    program: Pid,
    signals: SignalFd,
    stage: Stage,
}

/// Runs the program to its end and returns the code to exit with; nothing that it started is alive then.
pub(super) fn run(arguments: &[OsString]) -> Result<i32, KeeperError> {
    let setup = |what| move |error| KeeperError::Setup { what, error };
    let mask = guarded_signals();
    mask.thread_block().map_err(setup("block signals"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&mask, flags).map_err(setup("read signals"))?;
    prctl::set_child_subreaper(true).map_err(setup("adopt orphans"))?;
    prctl::set_name(c"brasserie-keeper").map_err(setup("name itself"))?;
    let marker = Marker(format!("{}:{:016x}", getpid(), Clock.seed()));
    let child = kept_program(arguments, &marker)
        .spawn()
        .map_err(KeeperError::Spawn)?;
    let program = Pid::from_raw(i32::try_from(child.id()).expect("process ids fit 31 bits"));
    let guard = Guard {
        program,
        signals,
        stage: Stage::Guarding,
    };
    guard.keep()
}

impl Guard {
    fn keep(mut self) -> Result<i32, KeeperError> {
        loop {
            let children = self.reap();
            let pause = match (self.stage, children) {
                (Stage::Sweeping { code, .. }, Children::None) => return Ok(code),
                (Stage::Sweeping { .. }, Children::Some) => {
                    self.sweep();
                    SWEEP_ROUND
                }
                (Stage::Guarding, _) => IDLE_LOOK,
            };
            self.wait(pause);
            self.forward();
        }
    }

    fn reap(&mut self) -> Children {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return Children::Some,
                Ok(WaitStatus::Exited(pid, code)) => self.ended(pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.ended(pid, SIGNAL_CODE_BASE + signal as i32);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                // Somebody ended by a signal without a name here (a real-time one) was reaped.
                Err(Errno::EINVAL) => {
                    if kill(self.program, None) == Err(Errno::ESRCH) {
                        self.ended(self.program, UNKNOWN_CODE);
                    }
                }
                Err(_) => {
                    self.ended(self.program, UNKNOWN_CODE);
                    return Children::None;
                }
            }
        }
    }

    fn ended(&mut self, pid: Pid, code: i32) {
        match self.stage {
            Stage::Guarding if pid == self.program => {
                let complain_at = Instant::now() + COMPLAINT_INTERVAL;
                self.stage = Stage::Sweeping { code, complain_at };
            }
            // An orphan, or the program again.
            Stage::Guarding | Stage::Sweeping { .. } => {}
        }
    }

    /// Kills every child. Only children: their ids stay theirs until this process reaps them, so that no stranger is ever
    /// hit; their own children become ours with their death.
    fn sweep(&mut self) {
        let me = getpid();
        let mut children = processes::all().unwrap_or_default();
        children.retain(|process| process.parent == me);
        for child in &children {
            // It can only be gone already, or be a set-user-id program that we may not signal.
            let _ = kill(child.pid, Signal::SIGKILL);
        }
        let now = Instant::now();
        if let Stage::Sweeping { complain_at, .. } = &mut self.stage
            && *complain_at <= now
        {
            *complain_at = now + COMPLAINT_INTERVAL;
            let ids: Vec<String> = children.iter().map(|c| c.pid.to_string()).collect();
            // Not `eprintln!`, which panics if nobody reads any more: the sweep must go on.
            let _ = writeln!(
                std::io::stderr(),
                "brasserie-keeper: still waiting for processes that do not die: {} (do they hang in a file system or a device?)",
                ids.join(", ")
            );
        }
    }

    fn wait(&self, pause: Duration) {
        let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
        // Interrupted or not: the caller looks again.
        let _ = poll(&mut fds, timeout);
    }

    fn forward(&self) {
        while let Ok(Some(info)) = self.signals.read_signal() {
            let signal = i32::try_from(info.ssi_signo)
                .ok()
                .and_then(|number| Signal::try_from(number).ok());
            // A positive code is the kernel's: a terminal signals the whole foreground group, the program included.
            let from_kernel = info.ssi_code > 0;
            match (signal, self.stage) {
                (Some(signal), Stage::Guarding) if FORWARDED.contains(&signal) && !from_kernel => {
                    let _ = kill(self.program, signal);
                }
                (_, Stage::Guarding | Stage::Sweeping { .. }) => {}
            }
        }
    }
}
