//! The supervisor's part for the ends of tasks: exits, lingering pipes, kills, deadlines.

use std::cmp::Reverse;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::story::fault_of;
use brasserie_common::{EndedBy, Ending, KillMethod, KillRequest, Story};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;

use super::output::READ_BYTES;
use super::{Supervisor, Timer};
use crate::process::ending::final_status;
use crate::process::events::TaskEvent;
use crate::process::inbox::RunNumber;
use crate::process::pipes::PipeKind;
use crate::process::task::EndStage;
use crate::process::{ProcessExit, Signalled, TaskEnd, Usage, spawn};

/// The time that descendants may hold a task's pipes after its process exited, before the group is killed; and then the time that a
/// killed group gets to close them. It suffices for the end of a shell pipeline. It is short enough that a forgotten background process
/// does not occupy a slot, however much it prints.
pub(in crate::process) const LINGER: Duration = Duration::from_secs(1);
/// The wait for empty control groups from which on it is logged: killed processes need milliseconds.
const HANGS: Duration = Duration::from_secs(2);
/// The number of reads of one pipe at its task's exit before others get a turn: the whole of an enlarged pipe (1 MiB).
const READS_AT_EXIT: usize = 17;

impl Supervisor {
    pub(super) fn exited(&mut self, number: RunNumber) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        task.pidfd = None;
        // The pipes bound the output that a dead task left in them, so the rate limit need not delay its end.
        task.rate.grant(2 * READ_BYTES);
        self.drain(number);
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        if task.pipes_closed() {
            return self.finish(number);
        }
        task.stage = EndStage::Lingering;
        let linger = Instant::now() + LINGER;
        // A kill with a wait promised that wait to the whole group.
        let until = task.kill_at.map_or(linger, |kill_at| kill_at.max(linger));
        self.timers.push(Reverse((until, number, Timer::Linger)));
        let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
        let message = task
            .exit_of_zombie()
            .unwrap_or(ProcessExit::Unknown)
            .to_string();
        self.log(&key, &tag, TaskEvent::ProcessExited { message: &message });
        self.watch_pipes(number);
    }

    /// Empties the pipes of a task that has exited, as far as they do not refill.
    fn drain(&mut self, number: RunNumber) {
        let Some(task) = self.tasks.get(&number) else {
            return;
        };
        let open: Vec<(PipeKind, &OwnedFd)> = PipeKind::ALL
            .into_iter()
            .filter_map(|kind| Some((kind, task.pipes[kind.index()].fd()?)))
            .collect();
        let mut polled: Vec<PollFd<'_>> = open
            .iter()
            .map(|(_, fd)| PollFd::new(fd.as_fd(), PollFlags::POLLIN))
            .collect();
        // One call serves all three; most tasks have written nothing, and then no read is needed at all.
        let _ = poll(&mut polled, PollTimeout::ZERO);
        let states: Vec<(PipeKind, PollFlags)> = open
            .iter()
            .zip(&polled)
            .map(|((kind, _), fd)| (*kind, fd.revents().unwrap_or(PollFlags::empty())))
            .collect();
        for (kind, state) in states {
            if state.contains(PollFlags::POLLIN) {
                let waits = kind != PipeKind::Status && self.waits_for_log(number);
                let reads = if waits { 0 } else { READS_AT_EXIT };
                (0..reads)
                    .take_while(|_| self.read_once(number, kind, READ_BYTES))
                    .for_each(drop);
            } else if state.contains(PollFlags::POLLHUP)
                && let Some(task) = self.tasks.get_mut(&number)
            {
                task.close(kind, &self.config.logs, &self.epoll);
            }
        }
    }

    pub(super) fn finish_if_over(&mut self, number: RunNumber) {
        if self
            .tasks
            .get(&number)
            .is_some_and(|task| task.stage != EndStage::Running && task.pipes_closed())
        {
            self.finish(number);
        }
    }

    /// Ends the task once its control groups are empty.
    ///
    /// Invariant: its child has exited and was not reaped yet.
    fn finish(&mut self, number: RunNumber) {
        let wait = self.tasks.get_mut(&number).and_then(|task| {
            if task.group.is_some() {
                task.signal_group(Signal::SIGKILL);
            }
            task.empty_groups()
        });
        match wait {
            Some(wait) => self.empty_later(number, wait),
            None if self.kill_orphans_of(number) => {}
            None => self.end(number),
        }
    }

    /// Schedules the next check. Processes need a moment to die, and some hang in the kernel: this thread does not wait for them.
    fn empty_later(&mut self, number: RunNumber, wait: Duration) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        if wait >= HANGS {
            tracing::warn!(task = %task.key, "its control groups are still not empty; its slot stays taken");
        }
        let before = std::mem::replace(&mut task.stage, EndStage::Emptying);
        let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
        let exit = task.exit_of_zombie().unwrap_or(ProcessExit::Unknown);
        let due = Instant::now() + wait;
        self.timers.push(Reverse((due, number, Timer::Groups)));
        if before == EndStage::Running {
            let message = exit.to_string();
            self.log(&key, &tag, TaskEvent::ProcessExited { message: &message });
        }
    }

    /// Checks control groups that are being killed or emptied.
    fn look_at_groups(&mut self, number: RunNumber, now: Instant) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        match task.stage {
            EndStage::Emptying => self.finish(number),
            EndStage::Running | EndStage::Lingering | EndStage::Swept => {
                task.kill_groups();
                self.kill_groups_again(number, now);
            }
        }
    }

    /// Schedules the next step of a kill, which may need several until the task ends.
    fn kill_groups_again(&mut self, number: RunNumber, now: Instant) {
        let group = self.tasks.get_mut(&number).and_then(|t| t.group.as_mut());
        if let Some(group) = group {
            let due = now + group.next_wait();
            self.timers.push(Reverse((due, number, Timer::Groups)));
        }
    }

    /// Reports the task's end: only its exit code is left.
    fn end(&mut self, number: RunNumber) {
        self.declare_dropped(number, None);
        let Some(mut task) = self.tasks.remove(&number) else {
            return;
        };
        // A process that is left in the group has closed all pipes; nothing else would ever end it.
        task.signal_group(Signal::SIGKILL);
        let (exit, usage) =
            spawn::reap(task.pid).unwrap_or((ProcessExit::Unknown, Usage::default()));
        if task.stage == EndStage::Running {
            self.log(
                &task.key,
                &task.tag,
                TaskEvent::ProcessExited {
                    message: &exit.to_string(),
                },
            );
        }
        let line = task.status.finish();
        let raw = line.text();
        self.log(&task.key, &task.tag, TaskEvent::PipesClosed { raw });
        let ended_by = task.ended_by(exit);
        let status = final_status(task.status_from, &line, exit, task.signalled, ended_by);
        self.log(
            &task.key,
            &task.tag,
            TaskEvent::GotStatus {
                raw,
                status: &status,
            },
        );
        self.inbox.forget(&task.key);
        let ending = Ending::from(exit);
        let story = Story {
            fault: fault_of(&ending, ended_by),
            ending,
            ended_by,
            waited: Duration::ZERO,
            starting: task.starting,
            ran: Some(task.started.elapsed()),
            // Groups also count processes that no parent reaped.
            cpu: (usage.user + usage.system).max(task.counted.cpu.unwrap_or_default()),
            peak_memory_bytes: task.counted.memory_peak_bytes.or(usage.max_resident_bytes),
            read_bytes: usage
                .read_bytes
                .max(task.counted.read_bytes.unwrap_or_default()),
            written_bytes: usage
                .written_bytes
                .max(task.counted.written_bytes.unwrap_or_default()),
            last_lines: task.tail.take(),
        };
        self.sink.ended(TaskEnd {
            key: task.key,
            status,
            story,
            signalled: task.signalled,
            raw_status: line.text().map(str::to_owned),
        });
    }

    pub(super) fn kill(
        &mut self,
        number: RunNumber,
        request: KillRequest,
        by: EndedBy,
        asked: Instant,
    ) {
        // A task that has ended meanwhile needs no kill.
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        match request.method {
            KillMethod::Kill => self.kill_now(number, by),
            KillMethod::Term => task.signal(Signalled::Term, by),
            KillMethod::TermWaitKill if request.wait.is_zero() => self.kill_now(number, by),
            KillMethod::TermWaitKill => {
                task.signal(Signalled::Term, by);
                // A wait beyond the range of time never ends.
                let Some(due) = asked.checked_add(request.wait) else {
                    return;
                };
                if task.kill_at.is_none_or(|earlier| due < earlier) {
                    task.kill_at = Some(due);
                    self.timers.push(Reverse((due, number, Timer::Kill(by))));
                }
            }
        }
    }

    fn kill_now(&mut self, number: RunNumber, by: EndedBy) {
        if let Some(task) = self.tasks.get_mut(&number)
            && task.sent < Signalled::Kill
        {
            task.signal(Signalled::Kill, by);
            self.kill_groups_again(number, Instant::now());
        }
    }

    pub(super) fn kill_all(&mut self, wait: Duration, by: EndedBy, asked: Instant) {
        let numbers: Vec<RunNumber> = self.tasks.keys().copied().collect();
        for number in numbers {
            self.kill(
                number,
                KillRequest {
                    method: KillMethod::TermWaitKill,
                    wait,
                },
                by,
                asked,
            );
        }
    }

    pub(super) fn run_timers(&mut self, now: Instant) {
        if self.next_check.is_some_and(|due| due <= now) {
            self.check_orphans(now);
        }
        while let Some(&(due, number)) = self.young.front()
            && (due <= now || !self.tasks.contains_key(&number))
        {
            self.young.pop_front();
            self.watch_pipes(number);
        }
        while let Some(&Reverse((due, number, timer))) = self.timers.peek()
            && (due <= now || !self.tasks.contains_key(&number))
        {
            self.timers.pop();
            match timer {
                Timer::Kill(by) => self.kill(
                    number,
                    KillRequest {
                        method: KillMethod::Kill,
                        wait: Duration::ZERO,
                    },
                    by,
                    now,
                ),
                Timer::Linger => self.lingered(number, now),
                Timer::Resume => self.watch_pipes(number),
                Timer::Declare => self.declare_dropped(number, Some(now)),
                Timer::Groups => self.look_at_groups(number, now),
            }
        }
    }

    fn lingered(&mut self, number: RunNumber, now: Instant) {
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        match task.stage {
            EndStage::Running | EndStage::Emptying => {}
            EndStage::Lingering => {
                task.signal_group(Signal::SIGKILL);
                task.kill_groups();
                task.stage = EndStage::Swept;
                self.timers
                    .push(Reverse((now + LINGER, number, Timer::Linger)));
                self.kill_groups_again(number, now);
                self.check_orphans(now);
            }
            EndStage::Swept if task.complain_at.is_some() => {}
            EndStage::Swept => self.abandon_pipes(number, now),
        }
    }

    /// Drains the pipes of a dead task without the rate limit, and closes the pipes that a descendant still holds.
    fn abandon_pipes(&mut self, number: RunNumber, now: Instant) {
        // A slow log must not cause loss of output.
        if self.waits_for_log(number) {
            self.timers
                .push(Reverse((now + LINGER, number, Timer::Linger)));
            return;
        }
        self.drain(number);
        let Some(task) = self.tasks.get_mut(&number) else {
            return;
        };
        if !task.pipes_closed() {
            for kind in PipeKind::ALL {
                if task.pipes[kind.index()].is_open() {
                    task.close(kind, &self.config.logs, &self.epoll);
                }
            }
            let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
            let message =
                "a descendant that left the process group holds a pipe; it was closed on this side";
            self.log(&key, &tag, TaskEvent::PipeError { message });
        }
        self.finish(number);
    }
}
