//! Runs the keeper: starts the program, passes signals on, reaps orphans, enforces the program's lease, and ends the processes that the
//! program leaves behind.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use brasserie_common::Time;
use brasserie_common_runtime::{Clock, log_writer, telemetry};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::blocking;
use super::lease::LeaseLedger;
use super::leases::{LeaseVerdict, Parts};
use super::rounds::{round_pause, signal_all_of};
use super::start::Start;
use super::{
    FORWARDED, KeeperError, KeeperPolicy, Received, guarded_signals, next_signal, say, start,
};
use crate::groups::places;
use crate::marker::Marker;
use crate::proc_table::{self, ProcessEntry};

/// The period at which the keeper checks without a signal. SIGCHLD normally wakes it; this covers a parent that had SIGCHLD ignored.
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// The period at which the keeper reports a process that does not die.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(5);
/// Exit code when the program did not end its tasks in time. A worker that is out of touch for too long has the same.
const LAPSED_CODE: i32 = 1;
/// Exit code when the program's own is not known.
const UNKNOWN_CODE: i32 = 1;
/// Exit code of a Rust program whose main thread has panicked.
const PANIC_CODE: i32 = 101;
/// The exit code of a program that a signal ended is this number plus the signal's number, as in shells.
const SIGNAL_CODE_BASE: i32 = 128;

/// The stage of the program's life.
///
/// ```text
/// Guarding --the program is gone-----------------------> Sweeping --no child is left--> (exit)
///    |  \------kill time is over------------------------/  /
///    \--term time is over--> Warned --kill time is over, --/
///                                     the program is gone
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GuardStage {
    /// The program runs.
    Guarding,
    /// The program's lease is over: the keeper has stopped the program and sent its tasks SIGTERM.
    Warned { kill_at: Time },
    /// The keeper kills the processes that the program left behind.
    Sweeping {
        code: i32,
        complain_at: Instant,
        /// The number of rounds since a process was reaped.
        rounds: u32,
    },
}

/// Whether a round of reaping left children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Children {
    Some,
    None,
}

struct Guard {
    program: Pid,
    /// The name of the program, for messages.
    name: String,
    /// Whether the end of the program was reported, so that its operator expects to read what became of the tasks.
    is_end_reported: bool,
    /// Whether the program was reaped. Until then, its process id is its own.
    reaped: Reaped,
    signals: SignalFd,
    ledger: LeaseLedger,
    timer: TimerFd,
    stage: GuardStage,
    /// The enforcement for a program with several schedulers.
    parts: Parts,
    /// The life pipe, which ends with this process. A program in a namespace has no other way to notice that.
    _life: Option<OwnedFd>,
}

/// Whether the program was reaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reaped {
    No,
    Yes,
}

/// Runs the program to its end and returns the exit code. Then no process that it started is alive.
pub(super) fn run(arguments: &[OsString], policy: &KeeperPolicy) -> Result<i32, KeeperError> {
    telemetry::set_format(policy.log_format);
    let setup = |what| move |error| KeeperError::Setup { what, error };
    let mask = guarded_signals();
    mask.thread_block().map_err(setup("block signals"))?;
    let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
    let signals = SignalFd::with_flags(&mask, flags).map_err(setup("read signals"))?;
    proc_table::proc().map_err(KeeperError::Proc)?;
    prctl::set_child_subreaper(true).map_err(setup("adopt orphans"))?;
    prctl::set_name(c"brasserie-keeper").map_err(setup("name itself"))?;
    let marker = Marker::new(getpid(), Clock.seed());
    let ledger = LeaseLedger::new().map_err(setup("make a lease"))?;
    let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
    // This clock expires at once when a machine wakes up after the time.
    let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, flags).map_err(setup("make a timer"))?;
    let begun = match start::start(arguments, policy, &marker, &ledger, &signals)? {
        Start::Begun(begun) => begun,
        Start::Interrupted(signal) => return Ok(SIGNAL_CODE_BASE + signal as i32),
    };
    let program = begun.program;
    // The other threads start only now: earlier ones would keep the capability that this thread has given up.
    log_writer::stderr();
    blocking::thread();
    let guard = Guard {
        program,
        name: name_of(arguments),
        is_end_reported: false,
        reaped: Reaped::No,
        signals,
        ledger,
        timer,
        stage: GuardStage::Guarding,
        parts: Parts::new(marker, program, begun.life.is_some()),
        _life: begun.life,
    };
    guard.keep()
}

impl Guard {
    fn keep(mut self) -> Result<i32, KeeperError> {
        loop {
            let children = self.reap();
            self.enforce(Clock.now());
            let pause = match (self.stage, children) {
                (GuardStage::Sweeping { code, .. }, Children::None) => {
                    self.sweep_groups();
                    if self.is_end_reported {
                        say(&format!(
                            "every process that {} had started is dead",
                            self.name
                        ));
                    }
                    return Ok(code);
                }
                (GuardStage::Sweeping { rounds, .. }, Children::Some) => {
                    self.sweep();
                    round_pause(rounds)
                }
                (GuardStage::Guarding | GuardStage::Warned { .. }, _) => IDLE_LOOK,
            };
            self.wait(pause);
            self.forward();
        }
    }

    fn reap(&mut self) -> Children {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => return Children::Some,
                Ok(WaitStatus::Exited(pid, code)) => {
                    let is_unexpected = self.is_own_end(pid) && code == PANIC_CODE;
                    self.ended(pid, code);
                    if is_unexpected {
                        self.report_end(&format!("ended with exit code {code}, as after a panic"));
                    }
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    let is_unexpected = self.is_own_end(pid);
                    self.ended(pid, SIGNAL_CODE_BASE + signal as i32);
                    if is_unexpected {
                        self.report_end(&format!("was killed by {signal}"));
                    }
                }
                Ok(_) | Err(Errno::EINTR) => {}
                // A process was reaped that a signal without a name here (a real-time one) had ended.
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

    /// Returns whether the end of this process is one of the program that the keeper has not caused, and so has not reported.
    fn is_own_end(&self, pid: Pid) -> bool {
        pid == self.program && self.stage == GuardStage::Guarding
    }

    /// Reports an end that the program cannot have reported itself.
    fn report_end(&mut self, how: &str) {
        self.is_end_reported = true;
        say(&format!(
            "{} (process {}) {how}; killing every process that it has started",
            self.name, self.program
        ));
    }

    fn ended(&mut self, pid: Pid, code: i32) {
        if let GuardStage::Sweeping { rounds, .. } = &mut self.stage {
            *rounds = 0;
        }
        // The process is an orphan, or the program was reported twice.
        if pid != self.program || self.reaped == Reaped::Yes {
            return;
        }
        self.reaped = Reaped::Yes;
        match self.stage {
            GuardStage::Guarding => self.sweep_from_now(code),
            GuardStage::Warned { .. } => self.sweep_from_now(LAPSED_CODE),
            GuardStage::Sweeping { .. } => {}
        }
    }

    fn sweep_from_now(&mut self, code: i32) {
        let complain_at = Instant::now() + COMPLAINT_INTERVAL;
        self.stage = GuardStage::Sweeping {
            code,
            complain_at,
            rounds: 0,
        };
    }

    /// Performs the actions that the program has failed to perform in time.
    fn enforce(&mut self, now: Time) {
        // The terms are read in every stage, because that also silences the bell.
        let all = self.ledger.read();
        let schedulers = self.ledger.schedulers();
        if schedulers > 1 && self.stage == GuardStage::Guarding {
            let places = self.ledger.places();
            return match self.parts.enforce(&all[..schedulers], places, now) {
                LeaseVerdict::Alive { until } => self.arm(until),
                LeaseVerdict::Hangs => {
                    self.end_program("the worker does not react to the death of its tasks");
                    self.arm(Time::NEVER);
                }
            };
        }
        let terms = all[0];
        let due = match self.stage {
            GuardStage::Sweeping { .. } => return self.arm(Time::NEVER),
            GuardStage::Warned { kill_at } => kill_at,
            GuardStage::Guarding => {
                if terms.term_at() <= now && now < terms.kill_at() {
                    self.warn(terms.kill_at());
                    terms.kill_at()
                } else {
                    terms.first()
                }
            }
        };
        if due <= now {
            self.end_program("the worker's tasks should be dead by now");
            return self.arm(Time::NEVER);
        }
        self.arm(due);
    }

    fn warn(&mut self, kill_at: Time) {
        self.stage = GuardStage::Warned { kill_at };
        // If the program still runs, it must start nothing more, and must not reap the processes that are about to get a signal.
        let _ = kill(self.program, Signal::SIGSTOP);
        for task in self.below(&[self.program]) {
            signal_all_of(&task, Signal::SIGTERM);
        }
        say(
            "the worker did not end its tasks in time (it may be stopped, or hang); sent them SIGTERM",
        );
    }

    /// Kills the program. No signal handler and no SIGSTOP prevents its death, and it can start nothing more.
    fn end_program(&mut self, why: &str) {
        let _ = kill(self.program, Signal::SIGKILL);
        self.sweep_from_now(LAPSED_CODE);
        say(&format!("{why}; killing the worker and all its tasks"));
    }

    fn arm(&self, at: Time) {
        let set = match at {
            Time::NEVER => self.timer.unset(),
            at => {
                let at = TimeSpec::from_duration(Duration::from_nanos(at.as_nanos()));
                let flags = TimerSetTimeFlags::TFD_TIMER_ABSTIME;
                self.timer.set(Expiration::OneShot(at), flags)
            }
        };
        // Invariant: the descriptor is a timer and the time is valid, so there is no error.
        set.expect("a timer can be set");
    }

    fn below(&self, parents: &[Pid]) -> Vec<ProcessEntry> {
        let mut children = proc_table::all().unwrap_or_default();
        children.retain(|process| parents.contains(&process.parent));
        children
    }

    /// Kills every process in the control groups of the program's tasks at once, before any of them can start another. The groups of a
    /// successor in the same directory are spared: their names contain its process id.
    ///
    /// A file lists the groups' locations, and the kernel may block a writer to a group's files: so this waits only a moment.
    fn sweep_groups(&self) {
        if let Some(places) = self.ledger.places() {
            let program = self.program;
            let _ = blocking::run(move || places::sweep(&places, program));
        }
    }

    /// Kills every child with its process group. It signals only children: their ids stay theirs until this process reaps them, so no
    /// other process is hit. The children's own children become this process's when their parent dies. If the killed program hangs in the
    /// kernel, it keeps its children and does not reap them, so they are safe to signal, too.
    fn sweep(&mut self) {
        self.sweep_groups();
        let mut parents = vec![getpid()];
        if self.reaped == Reaped::No {
            parents.push(self.program);
        }
        let children = self.below(&parents);
        for child in &children {
            signal_all_of(child, Signal::SIGKILL);
        }
        let now = Instant::now();
        let GuardStage::Sweeping {
            complain_at,
            rounds,
            ..
        } = &mut self.stage
        else {
            return;
        };
        *rounds = rounds.saturating_add(1);
        if *complain_at <= now {
            *complain_at = now + COMPLAINT_INTERVAL;
            let ids: Vec<String> = children.iter().map(|c| c.pid.to_string()).collect();
            say(&format!(
                "still waiting for processes that do not die: {} (do they hang in a file system or a device, or have they other rights, as by sudo?)",
                ids.join(", ")
            ));
        }
    }

    fn wait(&self, pause: Duration) {
        let mut fds = [self.signals.as_fd(), self.timer.as_fd(), self.ledger.bell()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let timeout = PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX);
        // The caller checks everything again, whether a signal interrupted the call or not.
        let _ = poll(&mut fds, timeout);
    }

    fn forward(&self) {
        while let Some(Received {
            kind,
            is_from_kernel,
        }) = next_signal(&self.signals)
        {
            match self.stage {
                // A signal from a terminal has reached the program directly.
                GuardStage::Guarding if FORWARDED.contains(&kind) && !is_from_kernel => {
                    let _ = kill(self.program, kind);
                }
                GuardStage::Guarding | GuardStage::Warned { .. } | GuardStage::Sweeping { .. } => {}
            }
        }
    }
}

/// Returns the file name of the program.
fn name_of(arguments: &[OsString]) -> String {
    let path = arguments.first().map(Path::new);
    let name = path.and_then(Path::file_name).unwrap_or_default();
    name.to_string_lossy().into_owned()
}
