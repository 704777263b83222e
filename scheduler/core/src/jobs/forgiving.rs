//! Forgiving a task's failures, and deleting its completion.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{RecordSeq, Time};
use brasserie_scheduler_engine::{Restart, Task};

use super::slices::Fate;
use crate::record::{EndedTask, ForgottenTask};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Forgives a task. A running task is left alone, because the backoff of its completion was set when it began. The status stays that of
    /// the same run, so that a repeated report is recognized, and the actual completion can still replace "lost".
    pub(super) fn forgive(&mut self, now: Time, task: Task, seq: RecordSeq) -> Fate {
        if self.tasks().run(task).is_some() {
            return Fate::Untouched;
        }
        let Some(invocation) = self.tasks().ended(task) else {
            return Fate::Untouched;
        };
        let old = self.engine().previous_status(task);
        let Some(status) = old.and_then(|old| old.forgiven()) else {
            return Fate::Untouched;
        };
        let floor = self.tasks().floors().until(now, task);
        let floor = floor.filter(|_| !sabotage::on(Sabotage::ForgiveSafetyToo));
        self.tasks_mut().note_end(task, invocation, seq);
        // Held: the task must not run before this record is durable, nor before its completion is.
        let restart = Restart::HeldUntilReleased;
        self.engine_mut()
            .restate(now, task, status.clone(), floor, restart);
        let key = self.task_key(task);
        Fate::Forgiven(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status,
            story: None,
        })
    }

    /// Forgives the task if it has failed for good. The backoff of another task goes on.
    pub(super) fn forgive_failed(&mut self, now: Time, task: Task, seq: RecordSeq) -> Fate {
        let status = self.engine().previous_status(task);
        match status.is_some_and(|status| status.is_failed()) {
            true => self.forgive(now, task, seq),
            false => Fate::Untouched,
        }
    }

    /// Forgets the task's completion and remembers its run, so that a late report of it is ignored. A running task, and one with a lost run
    /// that may still be alive, is left alone: to forget that wait would run the task twice.
    pub(super) fn delete_end(&mut self, now: Time, task: Task, seq: RecordSeq) -> Fate {
        if self.tasks().run(task).is_some() {
            return Fate::Runs;
        }
        let Some(invocation) = self.tasks().ended(task) else {
            return Fate::Untouched;
        };
        if self.tasks().floors().until(now, task).is_some() {
            return Fate::MaybeAlive;
        }
        self.tasks_mut().forget_end(task, invocation, seq);
        self.engine_mut().forget_status(task);
        if sabotage::on(Sabotage::StartBeforeDeletionIsDurable) {
            self.engine_mut().release(now, task);
        }
        let key = self.task_key(task);
        Fate::Forgotten(ForgottenTask {
            job: key.job,
            node: key.node,
            up_to: invocation,
        })
    }
}
