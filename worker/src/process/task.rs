//! The state of one running task in the supervisor: its process, its pipes, the stage of its end, and the signals that it got.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::logs::LogStream;
use brasserie_common::{EndedBy, StatusFrom};
use nix::errno::Errno;
use nix::sys::epoll::Epoll;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, getpgid};

use super::pipes::{LineSplitter, Pipe, PipeKind, StatusCollector, StderrLines};
use super::rate::{Admitted, RateLimit};
use super::{ProcessExit, RunKey, Signalled};
use crate::groups::{Emptying, GroupUsage, OutOfMemory, TaskGroup};
use crate::logs::{LinePart, LogRoom, LogStore, Share, TaskTag};
use crate::output::{RunOutput, Stream, Streams};

/// The largest number of scans for processes to stop. Stopped processes start no others.
const MOST_LOOKS: usize = 20;

/// The stage of a task's end.
///
/// ```text
/// Running --child exited, pipes open--> Lingering --LINGER--> Swept --LINGER--> (over)
/// Running --child exited, pipes closed--> (over)
/// Lingering, Swept --pipes closed--> (over)
/// (over), but its control groups hold processes --> Emptying --they are empty--> (over)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndStage {
    /// The direct child runs.
    Running,
    /// The child has exited and is kept unreaped, so that no other process gets its process group's number. A descendant still holds a
    /// pipe.
    Lingering,
    /// The whole group and the control groups got SIGKILL; a process that still holds a pipe has left them.
    Swept,
    /// Everything else has ended; the remaining processes in the control groups are being killed.
    Emptying,
}

pub(super) struct TaskProcess {
    pub key: Arc<RunKey>,
    pub tag: TaskTag,
    pub pid: Pid,
    /// `None` once the child has exited.
    pub pidfd: Option<OwnedFd>,
    pub pipes: [Pipe; 3],
    pub stage: EndStage,
    /// Whether the task is stopped for others; see [`TaskProcess::stop`].
    pub is_stopped: bool,
    /// The strongest signal that its group got.
    pub sent: Signalled,
    /// The strongest signal that was sent while the child still ran. The final status depends on it.
    pub signalled: Signalled,
    /// The time at which SIGKILL is due.
    pub kill_at: Option<Instant>,
    /// The time at which the log next reports that the end waits for processes that do not die; `None` as long as it has not waited.
    pub complain_at: Option<Instant>,
    /// The reason of the first signal while the child still ran.
    pub ended_by: Option<EndedBy>,
    /// The time from the request to its process.
    pub starting: Duration,
    pub status_from: StatusFrom,
    pub status: StatusCollector,
    pub tail: StderrLines,
    /// Its control groups, if it asked for any.
    pub group: Option<TaskGroup>,
    /// The usage in the last check of its control groups.
    pub counted: GroupUsage,
    pub out_of_memory: Option<OutOfMemory>,
    pub rate: RateLimit,
    pub destination: Destination,
    pub started: Instant,
    pub splitters: [LineSplitter; 2],
    pub telling: Telling,
    /// Whether the split of a long line was logged, which happens once per task.
    pub split: Declared,
}

/// The destination of the task's output.
#[derive(Debug)]
pub(super) enum Destination {
    /// The log, with the task's share of the log writer's queue.
    Log(Share),
    /// Files, which are finished when this is dropped.
    Files(RunOutput),
}

impl Destination {
    pub(super) fn files(&self) -> Option<&Streams<PathBuf>> {
        match self {
            Destination::Log(_) => None,
            Destination::Files(files) => Some(files.files()),
        }
    }
}

/// Whether a timer runs that reports dropped lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    Nothing,
    Due,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    No,
    /// A long line was split; its event is still to be written.
    Due(PipeKind),
    Yes,
}

impl TaskProcess {
    pub(super) fn pipes_closed(&self) -> bool {
        !self.pipes.iter().any(Pipe::is_open)
    }

    pub(super) fn any_paused(&self) -> bool {
        self.pipes
            .iter()
            .any(|pipe| matches!(pipe, Pipe::Paused(_)))
    }

    /// Returns whether more of the task's output may be read.
    pub(super) fn room(&self, logs: &LogStore) -> LogRoom {
        match &self.destination {
            Destination::Log(share) => logs.room(share),
            Destination::Files(files) => files.room(),
        }
    }

    /// Processes bytes that were read from a pipe.
    pub(super) fn consume(&mut self, kind: PipeKind, bytes: &[u8], logs: &LogStore) {
        let stream = match kind {
            PipeKind::Stdout => Stream::Stdout,
            PipeKind::Stderr => Stream::Stderr,
            PipeKind::Status => return self.status.feed(bytes),
        };
        if let Destination::Files(files) = &self.destination {
            match self.rate.admit_to_file(files.room()) {
                Admitted::Keep => files.append(stream, bytes),
                Admitted::Drop => files.leave_out(stream, bytes.len()),
            }
        }
        self.lines(stream, logs, |splitter, piece| splitter.feed(bytes, piece));
    }

    /// Closes a pipe: the rest is a line.
    pub(super) fn close(&mut self, kind: PipeKind, logs: &LogStore, epoll: &Epoll) {
        let pipe = &mut self.pipes[kind.index()];
        if let Pipe::Watched(fd) = pipe {
            // A child that is just being started holds a copy until it runs its program, and would keep the pipe in the epoll.
            let _ = epoll.delete(fd);
        }
        *pipe = Pipe::Closed;
        let stream = match kind {
            PipeKind::Stdout => Stream::Stdout,
            PipeKind::Stderr => Stream::Stderr,
            PipeKind::Status => return,
        };
        self.lines(stream, logs, |splitter, piece| splitter.finish(piece));
    }

    /// Passes lines to the log if they go there. The last lines of stderr are kept with any destination.
    fn lines(
        &mut self,
        stream: Stream,
        logs: &LogStore,
        split: impl FnOnce(&mut LineSplitter, &mut dyn FnMut(&[u8], LinePart)),
    ) {
        let TaskProcess {
            splitters: [stdout, stderr],
            destination,
            tag,
            tail,
            rate,
            split: declared,
            ..
        } = self;
        let (splitter, kind, log_stream) = match stream {
            Stream::Stdout => (stdout, PipeKind::Stdout, LogStream::Stdout),
            Stream::Stderr => (stderr, PipeKind::Stderr, LogStream::Stderr),
        };
        let share = match (destination, stream) {
            (Destination::Log(share), _) => share,
            (Destination::Files(_), Stream::Stdout) => return,
            (Destination::Files(_), Stream::Stderr) => {
                return split(splitter, &mut |piece, _| tail.push(piece));
            }
        };
        let room = logs.room(share);
        let mut batch = logs.batch(tag, share);
        split(splitter, &mut |piece, part| {
            match rate.admit(piece.len(), room) {
                Admitted::Keep => {
                    batch.append(log_stream, part, piece);
                }
                Admitted::Drop => {}
            }
            if stream == Stream::Stderr {
                tail.push(piece);
            }
            if part == LinePart::Continued && *declared == Declared::No {
                *declared = Declared::Due(kind);
            }
        });
    }

    /// Returns the child's exit without reaping it; `None` while it runs.
    pub(super) fn exit_of_zombie(&self) -> Option<ProcessExit> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid), flags) {
            Ok(WaitStatus::Exited(_, code)) => Some(ProcessExit::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(ProcessExit::Signal(signal as i32)),
            Ok(_) => None,
            // Something else has reaped the child, or (EINVAL) a real-time signal without a name here ended it.
            Err(_) => Some(ProcessExit::Unknown),
        }
    }

    /// Sends a signal to the whole process group, each kind once. A signal counts as the worker's only if the child still ran: a late one
    /// must not change the status.
    pub(super) fn signal(&mut self, wanted: Signalled, by: EndedBy) {
        let signal = match wanted {
            Signalled::No => return,
            Signalled::Term => Signal::SIGTERM,
            Signalled::Kill => Signal::SIGKILL,
        };
        if self.sent >= wanted {
            return;
        }
        self.sent = wanted;
        let alive = self.stage == EndStage::Running && self.exit_of_zombie().is_none();
        self.signal_group(signal);
        // Stopped processes receive nothing but SIGKILL.
        self.go_on();
        match wanted {
            Signalled::No => {}
            Signalled::Term => self.signal_strays(Signal::SIGTERM),
            Signalled::Kill => self.kill_groups(),
        }
        if alive {
            self.signalled = wanted;
            self.ended_by.get_or_insert(by);
        }
    }

    /// Stops the process group, and the processes of its control groups that have left the process group. Does so only if the child still
    /// runs and its end was not requested.
    pub(super) fn stop(&mut self) {
        let may_stop = self.stage == EndStage::Running && self.sent == Signalled::No;
        if may_stop && self.exit_of_zombie().is_none() {
            self.is_stopped = true;
            self.signal_group(Signal::SIGSTOP);
            self.stop_strays();
        }
    }

    /// Continues stopped processes.
    pub(super) fn go_on(&mut self) {
        if std::mem::take(&mut self.is_stopped) && self.stage == EndStage::Running {
            self.signal_group(Signal::SIGCONT);
            self.signal_strays(Signal::SIGCONT);
        }
    }

    /// Signals the process group.
    ///
    /// Invariant: called before the child is reaped, so that neither number can belong to another process.
    pub(super) fn signal_group(&self, signal: Signal) {
        let group = kill(Pid::from_raw(-self.pid.as_raw()), signal);
        let result = match group {
            // The child has left its own group; it must not escape that way.
            Err(Errno::ESRCH) => kill(self.pid, signal),
            other => other,
        };
        match result {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => {
                tracing::warn!(task = %self.key, "cannot send {signal}: {}", error.desc())
            }
        }
    }

    /// Signals the processes of its control groups that have left its process group.
    fn signal_strays(&self, signal: Signal) {
        for pid in self.strays() {
            // A process that refuses the signal is gone or another user's; the kill that ends the task reaches it.
            let _ = kill(pid, signal);
        }
    }

    /// Stops those processes, until a scan finds no other: a process may have started another before it was stopped.
    fn stop_strays(&self) {
        let mut stopped = BTreeSet::new();
        for _ in 0..MOST_LOOKS {
            let mut strays = self.strays();
            strays.retain(|pid| stopped.insert(*pid));
            if strays.is_empty() {
                return;
            }
            for pid in strays {
                // A process that refuses the signal is gone or another user's.
                let _ = kill(pid, Signal::SIGSTOP);
            }
        }
    }

    fn strays(&self) -> Vec<Pid> {
        let mut all: Vec<Pid> = self.group.iter().flat_map(TaskGroup::processes).collect();
        all.retain(|pid| getpgid(Some(*pid)).is_ok_and(|group| group != self.pid));
        all
    }

    /// Performs one step towards the end of all processes in its control groups.
    pub(super) fn kill_groups(&mut self) {
        if let Some(group) = &mut self.group {
            group.kill();
        }
    }

    /// Records the counts of its control groups, kills the remaining processes in them, and removes them. Returns the wait before the
    /// next step, or `None` if the groups are removed.
    pub(super) fn empty_groups(&mut self) -> Option<Duration> {
        let group = self.group.as_mut()?;
        self.counted = group.usage().or(self.counted);
        self.out_of_memory = group.out_of_memory().or(self.out_of_memory);
        match group.empty() {
            Emptying::Gone => {
                self.group = None;
                None
            }
            Emptying::Again(wait) => Some(wait),
        }
    }

    /// Returns the reason why the worker ended the task, or the kernel, which kills for lack of memory without notice.
    pub(super) fn ended_by(&self, exit: ProcessExit) -> Option<EndedBy> {
        let by_kernel = match (exit, self.out_of_memory) {
            (ProcessExit::Code(0), _) | (_, None) => None,
            (_, Some(OutOfMemory::OwnLimit)) => Some(EndedBy::MemoryLimit),
            (_, Some(OutOfMemory::Elsewhere)) => Some(EndedBy::OutOfMemory),
        };
        self.ended_by.or(by_kernel)
    }
}
