//! Forgiving a task, and forgetting how it ended.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{RecordSeq, Time};
use brasserie_scheduler_engine::{Restart, Task};

use super::slices::Fate;
use crate::record::{EndedTask, ForgottenTask};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// One that runs has an end to come, whose backoff was settled when it began. The status stays that of the same run, so that
    /// a repeat of its end is known as one, and "lost" can still be replaced by the true end.
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
        // Held, since it must not run before this is durable, nor before its end is, if that was not yet.
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

    /// Forgets how the task ended, and remembers up to which run: so a late repeat of an end is no news. What runs, and what was lost
    /// and may still be alive, is left alone: to forget the wait for that would start it twice.
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
