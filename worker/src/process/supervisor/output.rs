//! The supervisor's reading: passes task output to the log or a file, at the pace that its writer and the task's rate allow.

use std::cmp::Reverse;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use brasserie_common::Output;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::{Supervisor, Timer};
use crate::logs::{LogRoom, Share, TaskTag};
use crate::output::files_of;
use crate::process::RunKey;
use crate::process::events::{self, TaskEvent};
use crate::process::inbox::RunNumber;
use crate::process::pipes::{Pipe, PipeKind};
use crate::process::task::{Declared, Destination, Telling};

/// The largest number of bytes of one read: the default capacity of a pipe.
pub(super) const READ_BYTES: usize = 64 * 1024;

impl Supervisor {
    /// Returns the destination of this run's output. When a file is finished, an event is logged.
    pub(super) fn destination(
        &self,
        key: &Arc<RunKey>,
        tag: &TaskTag,
        output: Output,
    ) -> Destination {
        if output == Output::Log {
            return Destination::Log(Share::default());
        }
        let files = files_of(&self.output_dir, key.invocation, &key.job, &key.node);
        let logs = Arc::clone(&self.config.logs);
        let host = self.config.worker_host.clone();
        let (key, tag) = (Arc::clone(key), tag.clone());
        Destination::Files(self.outputs.run(files, move |stream, written| {
            let event = TaskEvent::OutputWritten { stream, written };
            events::log(&logs, &host, &key, &tag, event, &mut Vec::new());
        }))
    }

    /// Reads once; the kernel reports the pipe again if there is more.
    pub(super) fn read_pipe(&mut self, number: RunNumber, kind: PipeKind) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        let mut most = READ_BYTES;
        if kind != PipeKind::Status {
            let now = Instant::now();
            let room = task.room(&self.config.logs);
            if let Some(until) = task.rate.blocked_until(now, room) {
                // A full log must not delay the end of a task that has no more output.
                if task.pipes[kind.index()].fd().is_some_and(is_drained) {
                    task.close(kind, &self.config.logs, &self.epoll);
                    return;
                }
                if !task.any_paused() {
                    self.timers.push(Reverse((until, number, Timer::Resume)));
                }
                pause(&self.epoll, &mut task.pipes[kind.index()]);
                return;
            }
            most = task.rate.read_size(READ_BYTES);
        }
        self.read_once(number, kind, most);
    }

    /// Reads at most `most` bytes. Returns whether more may be readable.
    pub(super) fn read_once(&mut self, number: RunNumber, kind: PipeKind, most: usize) -> bool {
        let Some(task) = self.tasks.get_mut(&number) else {
            return false;
        };
        let Some(fd) = task.pipes[kind.index()].fd() else {
            return false;
        };
        let result = nix::unistd::read(fd, &mut self.read_buffer[..most]);
        match result {
            Ok(0) => task.close(kind, &self.config.logs, &self.epoll),
            Ok(count) => task.consume(kind, &self.read_buffer[..count], &self.config.logs),
            Err(Errno::EAGAIN | Errno::EINTR) => return false,
            Err(error) => {
                task.close(kind, &self.config.logs, &self.epoll);
                let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
                let message = format!("reading {kind:?} failed: {}", error.desc());
                self.log(&key, &tag, TaskEvent::PipeError { message: &message });
            }
        }
        self.declare_split(number);
        self.declare_later(number);
        matches!(result, Ok(1..))
    }

    fn declare_split(&mut self, number: RunNumber) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        let Declared::Due(kind) = task.split else {
            return;
        };
        task.split = Declared::Yes;
        let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
        let limit = crate::logs::MAX_LINE_BYTES;
        let message = format!(
            "a line on {kind:?} is longer than {limit} bytes: such lines are stored in pieces"
        );
        self.log(&key, &tag, TaskEvent::LineSplit { message: &message });
    }

    /// Returns whether a task's output has to stay in its pipe until the log's writer has caught up.
    pub(super) fn waits_for_log(&mut self, number: RunNumber) -> bool {
        let Some(task) = self.tasks.get_mut(&number) else {
            return false;
        };
        let room = task.room(&self.config.logs);
        room == LogRoom::Full && task.rate.blocked_until(Instant::now(), room).is_some()
    }

    /// Schedules the report of drops, at the latest an interval after they happened.
    fn declare_later(&mut self, number: RunNumber) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        if task.telling == Telling::Due {
            return;
        }
        if let Some(due) = task.rate.tells_at() {
            task.telling = Telling::Due;
            self.timers.push(Reverse((due, number, Timer::Declare)));
        }
    }

    /// Logs the dropped lines. `now` is `None` if the task is over, and then everything is reported.
    pub(super) fn declare_dropped(&mut self, number: RunNumber, now: Option<Instant>) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.telling = Telling::Nothing;
        let Some(dropped) = task.rate.take_dropped(now) else {
            return;
        };
        let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
        self.log(&key, &tag, TaskEvent::LinesDropped { dropped });
    }

    pub(super) fn watch_pipes(&mut self, number: RunNumber) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        for kind in PipeKind::ALL {
            let slot = &mut task.pipes[kind.index()];
            *slot = match mem::replace(slot, Pipe::Closed) {
                Pipe::Unwatched(fd) | Pipe::Paused(fd) => {
                    let event =
                        EpollEvent::new(EpollFlags::EPOLLIN, number.0 << 2 | kind.index() as u64);
                    match self.epoll.add(&fd, event) {
                        Ok(()) => Pipe::Watched(fd),
                        Err(error) => {
                            // The kernel has no memory or watches left: without closing its pipe the task would hang for ever.
                            tracing::error!(task = %task.key, "cannot watch {kind:?}, its output is lost: {}", error.desc());
                            Pipe::Closed
                        }
                    }
                }
                other @ (Pipe::Watched(_) | Pipe::Closed) => other,
            };
        }
    }
}

/// Returns whether every writer is gone and everything was read.
fn is_drained(pipe: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut polled, PollTimeout::ZERO);
    polled[0].revents().is_some_and(|state| {
        state.contains(PollFlags::POLLHUP) && !state.contains(PollFlags::POLLIN)
    })
}

fn pause(epoll: &Epoll, pipe: &mut Pipe) {
    *pipe = match mem::replace(pipe, Pipe::Closed) {
        Pipe::Watched(fd) => {
            // Changing the watched events would not suffice: the kernel reports a hang-up on a watched pipe in any case.
            let _ = epoll.delete(&fd);
            Pipe::Paused(fd)
        }
        Pipe::Unwatched(fd) => Pipe::Paused(fd),
        other @ (Pipe::Paused(_) | Pipe::Closed) => other,
    };
}
