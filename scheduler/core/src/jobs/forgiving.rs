//! Forgiving a task, and forgetting how it ended.

use std::time::Duration;

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
        match self.forgiven(now, task, seq) {
            Some(ended) => Fate::Forgiven(ended),
            None => Fate::Untouched,
        }
    }

    fn forgiven(&mut self, now: Time, task: Task, seq: RecordSeq) -> Option<EndedTask> {
        let invocation = self.tasks().ended(task)?;
        let old = self.engine().previous_status(task)?;
        let status = old.forgiven()?;
        let safe_at = now + Duration::from_secs(u64::from(status.safety_seconds));
        let not_before = match self.engine().waits_until(task) {
            _ if sabotage::on(Sabotage::ForgiveSafetyToo) => now,
            Some(until) => until.min(safe_at),
            // Nobody counted its safety wait, as it was never to run again.
            None if old.is_failed() => safe_at,
            None => now,
        };
        self.tasks_mut().note_end(task, invocation, seq);
        // Held, since it must not run before this is durable, nor before its end is, if that was not yet.
        let restart = Restart::HeldUntilReleased;
        self.engine_mut()
            .restate(now, task, status.clone(), Some(not_before), restart);
        let key = self.task_key(task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status,
        })
    }

    /// Forgets how the task ended, and remembers up to which run: so a late repeat of an end is no news. What runs, and what was lost
    /// and may still be alive, is left alone: to forget the wait for that would start it twice.
    pub(super) fn delete_end(&mut self, now: Time, task: Task, seq: RecordSeq) -> Fate {
        if self.tasks().run(task).is_some() {
            return Fate::Runs;
        }
        let old = self.engine().previous_status(task);
        let (Some(invocation), Some(old)) = (self.tasks().ended(task), old) else {
            return Fate::Untouched;
        };
        let safety = Duration::from_secs(u64::from(old.safety_seconds));
        if old.is_done() && self.wall() < old.time + safety {
            // Another run of it was lost. While it is done, nobody waits for that one's end.
            return Fate::MaybeAlive(None);
        }
        if old.safety_seconds > 0 && !old.is_done() {
            let waits = self.engine().waits_until(task);
            if old.is_failed() {
                // Nobody counts its wait. From now on somebody does.
                return Fate::MaybeAlive(self.forgiven(now, task, seq));
            }
            if waits.is_some_and(|until| until > now) {
                return Fate::MaybeAlive(None);
            }
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
