//! A running program, its output, and its end.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{LOOK, wait_for};

/// Limit for the end of a killed program. It ends within milliseconds, and its keeper with its tasks soon after.
const END_PATIENCE: Duration = Duration::from_secs(20);

/// The process name of a keeper's helpers.
const STAGE_NAME: &str = "brasserie-stage";

/// A program started by a test. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    /// The executable, which distinguishes the program from the keeper above it.
    file: PathBuf,
}

impl Process {
    /// Starts a program with all output going to `log`.
    ///
    /// # Panics
    /// If it cannot be started.
    pub(super) fn start(name: &str, command: Command, log: &Path) -> Self {
        let file = PathBuf::from(command.get_program());
        Self::start_through(name, command, &file, log, None)
    }

    /// Starts a command that finally executes the program in `file`. Standard error may go elsewhere.
    ///
    /// # Panics
    /// If it cannot be started.
    pub(super) fn start_through(
        name: &str,
        mut command: Command,
        file: &Path,
        log: &Path,
        errors: Option<Stdio>,
    ) -> Self {
        let output = File::options()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(log)
            .expect("a log file in a temporary folder");
        let copy = || Stdio::from(output.try_clone().expect("a descriptor is free"));
        let errors = errors.unwrap_or_else(copy);
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        command.stdin(Stdio::null()).stderr(errors).stdout(output);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Process {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            file,
        }
    }

    /// Returns the id of the started process: a worker's keeper, or a scheduler itself.
    pub fn id(&self) -> Pid {
        as_pid(self.child.id())
    }

    /// Returns the id of the program: the child of the keeper, if it has one.
    ///
    /// # Panics
    /// If the keeper does not start it in time.
    pub fn program(&self) -> Pid {
        let what = format!("the program below the keeper of {}", self.name);
        wait_for(&what, || self.program_now())
    }

    /// Returns the program if it runs now. A keeper may be about to start it, or to end.
    pub fn program_now(&self) -> Option<Pid> {
        if !self.has_keeper() {
            return Some(self.id());
        }
        let same_file = |pid: &Pid| {
            fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|file| file == self.file)
        };
        // A worker in a PID namespace has helper processes below its keeper for a moment.
        let is_program = |pid: &Pid| {
            let line = command_line(*pid);
            same_file(pid) && line.first().is_some_and(|name| name != STAGE_NAME)
        };
        children_of(self.id()).into_iter().find(is_program)
    }

    /// Returns everything that it has printed.
    pub fn output(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until its output contains this text.
    ///
    /// # Panics
    /// If the text does not appear in time.
    pub fn wait_for_output(&self, text: &str) {
        wait_for(&format!("`{text}` in the output of {}", self.name), || {
            self.output().contains(text).then_some(())
        });
    }

    /// Sends a signal to the started process, like a person or a service manager.
    pub fn signal(&self, signal: Signal) {
        // The process may have ended by itself.
        let _ = kill(self.id(), signal);
    }

    /// Sends a signal to the program itself, but not to its keeper.
    ///
    /// # Panics
    /// If the keeper does not start it in time.
    pub fn signal_program(&self, signal: Signal) {
        // The program may have ended by itself.
        let _ = kill(self.program(), signal);
    }

    /// Kills the program itself with SIGKILL. A keeper above it ends its remaining processes.
    pub fn kill_program(&mut self) {
        let _ = kill(self.program(), Signal::SIGKILL);
        self.wait();
    }

    /// Kills the program and its keeper with SIGKILL, so that neither notices the other's death.
    ///
    /// # Panics
    /// If there is no program, or the keeper does not end in time.
    pub fn kill_with_keeper(&mut self) {
        let program = self.program();
        self.signal(Signal::SIGSTOP);
        kill(program, Signal::SIGKILL).expect("the program below the keeper");
        self.signal(Signal::SIGKILL);
        self.wait();
    }

    /// Returns its exit status, if it has ended.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .expect("one's own child can be waited for")
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    pub fn wait(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        wait_for(&what, || self.ended())
    }

    /// Kills the children first. So a keeper can end the tasks of a killed program, and a tracer its traced program.
    fn end(&mut self) -> io::Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        for pid in children_of(self.id()) {
            let _ = kill(pid, Signal::SIGKILL);
        }
        if !self.has_keeper() {
            self.child.kill()?;
        }
        let killed = Instant::now();
        while self.child.try_wait()?.is_none() {
            if killed.elapsed() > END_PATIENCE {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "it was killed, but does not end",
                ));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn has_keeper(&self) -> bool {
        command_line(self.id())
            .first()
            .is_some_and(|name| name.ends_with("brasserie-keeper"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("{} could not be ended: {error}", self.name);
        }
    }
}

pub(super) fn as_pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).expect("process ids fit 31 bits"))
}

/// Returns the arguments of a running process; empty if there is no such process.
pub fn command_line(pid: Pid) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Returns the children of a process.
pub fn children_of(parent: Pid) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .map(Pid::from_raw);
    pids.filter(|&pid| parent_of(pid) == Some(parent)).collect()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may contain brackets and spaces. State and parent follow it.
    let rest = stat.rsplit_once(')')?.1;
    rest.split_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .map(Pid::from_raw)
}

/// Returns the resident memory of a process; `None` if it is gone.
pub fn resident_bytes(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// Returns the processor time of all threads of a process; `None` if it is gone.
pub fn used_processor_time(pid: Pid) -> Option<Duration> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // The first number is the nanoseconds on a processor.
    let of_thread = |thread: PathBuf| -> Option<u64> {
        let text = fs::read_to_string(thread.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    let used = threads
        .flatten()
        .filter_map(|entry| of_thread(entry.path()));
    Some(Duration::from_nanos(used.sum()))
}
