//! One running task as the supervisor holds it: its process, its pipes, how far its end has come, what was sent to it.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::logs::LogStream;
use brasserie_common::{EndedBy, StatusFrom};
use nix::errno::Errno;
use nix::sys::epoll::Epoll;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::pipes::{LineSplitter, Pipe, PipeKind, StatusCollector, Tail};
use super::rate::{Admitted, RateLimit};
use super::{ProcessExit, RunKey, Signalled};
use crate::logs::{LinePart, LogStore, Share, TaskTag};

/// How far the end of a task has come.
///
/// ```text
/// Running --child exited, pipes open--> Lingering --LINGER--> Swept --LINGER--> (over)
/// Running --child exited, pipes closed--> (over)
/// Lingering, Swept --pipes closed--> (over)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The direct child runs.
    Running,
    /// The child has exited and is kept unreaped, so that its process group's number stays ours; a descendant still
    /// holds a pipe.
    Lingering,
    /// The whole group got SIGKILL; whoever still holds a pipe has left the group.
    Swept,
}

pub(super) struct Task {
    pub key: Arc<RunKey>,
    pub tag: TaskTag,
    pub pid: Pid,
    /// `None` once the child has exited.
    pub pidfd: Option<OwnedFd>,
    pub pipes: [Pipe; 3],
    pub stage: Stage,
    /// The strongest signal that its group got.
    pub sent: Signalled,
    /// The strongest one that came while the child still ran: what the final status goes by.
    pub signalled: Signalled,
    /// When SIGKILL is due.
    pub kill_at: Option<Instant>,
    /// Its end waits so long at most for the death of processes that it left behind.
    pub held_until: Option<Instant>,
    /// Whose signal came first while the child still ran.
    pub ended_by: Option<EndedBy>,
    /// From the request to its process.
    pub starting: Duration,
    pub status_from: StatusFrom,
    pub status: StatusCollector,
    pub tail: Tail,
    pub rate: RateLimit,
    /// What of its output waits for the log's writer.
    pub share: Share,
    pub started: Instant,
    pub splitters: [LineSplitter; 2],
    pub telling: Telling,
    /// Whether the split of a long line was declared, which happens once a task.
    pub split: Declared,
}

/// Whether a timer runs that tells of dropped lines.
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

impl Task {
    pub(super) fn pipes_closed(&self) -> bool {
        !self.pipes.iter().any(Pipe::is_open)
    }

    pub(super) fn any_paused(&self) -> bool {
        self.pipes
            .iter()
            .any(|pipe| matches!(pipe, Pipe::Paused(_)))
    }

    /// Takes what was read from a pipe.
    pub(super) fn consume(&mut self, kind: PipeKind, bytes: &[u8], logs: &LogStore) {
        self.deliver(
            kind,
            logs,
            |splitter, piece| splitter.feed(bytes, piece),
            |status| status.feed(bytes),
        );
    }

    /// The end of a pipe: what is left is a line.
    pub(super) fn close(&mut self, kind: PipeKind, logs: &LogStore, epoll: &Epoll) {
        let pipe = &mut self.pipes[kind.index()];
        if let Pipe::Watched(fd) = pipe {
            // A child that is just being started holds a copy until it runs its program, and would keep the pipe in there.
            let _ = epoll.delete(fd);
        }
        *pipe = Pipe::Closed;
        self.deliver(kind, logs, |splitter, piece| splitter.finish(piece), |_| {});
    }

    fn deliver(
        &mut self,
        kind: PipeKind,
        logs: &LogStore,
        lines: impl FnOnce(&mut LineSplitter, &mut dyn FnMut(&[u8], LinePart)),
        status: impl FnOnce(&mut StatusCollector),
    ) {
        let stream = match kind {
            PipeKind::Stdout => LogStream::Stdout,
            PipeKind::Stderr => LogStream::Stderr,
            PipeKind::Status => return status(&mut self.status),
        };
        let Task {
            splitters,
            tag,
            tail,
            rate,
            share,
            split,
            ..
        } = self;
        let room = logs.room(share);
        let mut batch = logs.batch(tag, share);
        lines(&mut splitters[kind.index()], &mut |piece, part| {
            match rate.admit(piece.len(), room) {
                Admitted::Log => {
                    batch.append(stream, part, piece);
                }
                Admitted::Drop => {}
            }
            if kind == PipeKind::Stderr {
                tail.push(piece);
            }
            if part == LinePart::Continued && *split == Declared::No {
                *split = Declared::Due(kind);
            }
        });
    }

    /// How the child ended, without reaping it; `None` while it runs.
    pub(super) fn exit_of_zombie(&self) -> Option<ProcessExit> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        match waitid(Id::Pid(self.pid), flags) {
            Ok(WaitStatus::Exited(_, code)) => Some(ProcessExit::Code(code)),
            Ok(WaitStatus::Signaled(_, signal, _)) => Some(ProcessExit::Signal(signal as i32)),
            Ok(_) => None,
            // Somebody else has taken it, or (EINVAL) a real-time signal that has no name here ended it.
            Err(_) => Some(ProcessExit::Unknown),
        }
    }

    /// Sends a signal to the whole process group, each kind once. Only a signal to a child that still ran counts as ours:
    /// one that came too late must not change the status.
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
        let alive = self.stage == Stage::Running && self.exit_of_zombie().is_none();
        self.signal_group(signal);
        if alive {
            self.signalled = wanted;
            self.ended_by.get_or_insert(by);
        }
    }

    /// Invariant: called before the child is reaped, so that neither number can belong to anybody else.
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
}
