//! The supervisor's checks for orphans: when they take place, and which tasks wait for their orphans to die. An orphan here is a process
//! whose parent has died. [`Strays`](crate::process::strays::Strays) finds and kills orphans.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::Supervisor;
use super::ends::LINGER;
use crate::process::ProcessExit;
use crate::process::events::TaskEvent;
use crate::process::inbox::RunNumber;
use crate::process::strays::{LOOK, OrphanFinding, OrphanHandling, ROUND};
use crate::process::task::EndStage;

/// The period at which a task's log reports that its orphans do not die.
const COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

impl Supervisor {
    /// Schedules a check at this time at the latest.
    pub(super) fn schedule_check(&mut self, at: Instant) {
        if self.config.orphans == OrphanHandling::Adopt {
            let sooner = self.next_check.map_or(at, |due| due.min(at));
            self.next_check = Some(sooner);
        }
    }

    /// Reaps dead orphans, kills those whose tasks have ended, schedules the next check, and ends the tasks whose orphans are gone.
    pub(super) fn check_orphans(&mut self, now: Instant) {
        self.next_check = None;
        let found = self.strays.look(&self.tasks, None, self.inbox.next());
        match found {
            OrphanFinding::Killed => self.schedule_check(now + ROUND),
            OrphanFinding::Tolerated => self.schedule_check(now + LOOK),
            OrphanFinding::Nothing if self.tasks.is_empty() => {}
            OrphanFinding::Nothing => self.schedule_check(now + LOOK),
        }
        for number in std::mem::take(&mut self.waiting_for_orphans) {
            self.finish_if_over(number);
        }
    }

    /// Kills the orphans of a task that is over. Returns whether the task must wait, because a killed process cannot be reaped yet. Such a
    /// process may still write in a system call, so the task keeps its slot until the process is reaped, however long that takes.
    pub(super) fn kill_orphans_of(&mut self, number: RunNumber) -> bool {
        if self.config.orphans == OrphanHandling::Leave {
            return false;
        }
        let found = self
            .strays
            .look(&self.tasks, Some(number), self.inbox.next());
        let now = Instant::now();
        if found == OrphanFinding::Killed {
            self.schedule_check(now + ROUND);
        }
        let left = self.strays.of(number);
        let Some(task) = self.tasks.get_mut(&number).filter(|_| left > 0) else {
            return false;
        };
        // Processes that remain in the process group must die, too: they could start more processes while the task waits.
        task.signal_group(Signal::SIGKILL);
        let is_first = task.complain_at.is_none();
        let complain_at = *task.complain_at.get_or_insert(now + LINGER);
        let is_late = complain_at <= now;
        if is_late {
            task.complain_at = Some(now + COMPLAINT_INTERVAL);
        }
        let stage = std::mem::replace(&mut task.stage, EndStage::Swept);
        let exit = task.exit_of_zombie().unwrap_or(ProcessExit::Unknown);
        let (key, tag) = (Arc::clone(&task.key), task.tag.clone());
        if stage == EndStage::Running {
            let message = exit.to_string();
            self.log(&key, &tag, TaskEvent::ProcessExited { message: &message });
        }
        if is_first || is_late {
            let message = match is_late {
                false => {
                    format!("{left} of its processes had left its process group; they are killed")
                }
                true => format!(
                    "{left} of its processes do not die (they may hang in a file system or a device, or have rights that this worker lacks); the task keeps its slot until they are dead"
                ),
            };
            self.log(&key, &tag, TaskEvent::StraysKilled { message: &message });
        }
        self.waiting_for_orphans.push(number);
        true
    }
}
