//! Transitions of a task: load, completion, hold, wait, release. Each one touches that task and its dependents.

use brasserie_common::Time;
use brasserie_common::status::StoredStatus;

use super::Engine;
use crate::queues::states::Reach;
use crate::tasks::runs::{PlacedRun, RunPath};
use crate::types::{HoldBack, Restart, Task};

impl Engine {
    /// Loads a status from the store at startup, possibly before the configuration and the nodes.
    pub fn load_status(
        &mut self,
        now: Time,
        task: Task,
        status: StoredStatus,
        not_before: Option<Time>,
    ) {
        if !self.knows(task) {
            return;
        }
        // The task may already be held back because a worker may be running it; the later time counts.
        let until = not_before.max(self.tasks.waits().get(task));
        self.set_status(now, task, status, until, Restart::AtOnce);
    }

    /// Completes a run: frees its slots and records its status.
    pub fn end(
        &mut self,
        now: Time,
        task: Task,
        status: StoredStatus,
        not_before: Option<Time>,
        restart: Restart,
    ) {
        if !self.knows(task) {
            return;
        }
        let run = self.stop(task);
        self.set_status(now, task, status, not_before, restart);
        self.offer_slots_of(run);
    }

    /// Undoes a placement whose run never began: frees its slots and keeps the task's status.
    pub fn never_began(
        &mut self,
        now: Time,
        task: Task,
        not_before: Option<Time>,
        restart: Restart,
    ) {
        if !self.knows(task) {
            return;
        }
        let run = self.stop(task);
        self.set_wait(now, task, not_before, restart);
        self.offer_slots_of(run);
    }

    fn offer_slots_of(&mut self, run: Option<PlacedRun>) {
        match run {
            Some(PlacedRun {
                worker,
                path: RunPath::Row(row),
                ..
            }) => self.offer_path(worker, row),
            Some(PlacedRun {
                worker,
                path: RunPath::Unknown | RunPath::Nodes(_),
                charges,
                ..
            }) => self.offer_freed(worker, &charges),
            None => {}
        }
    }

    /// Replaces the status of a task; ignored while the task runs.
    pub fn restate(
        &mut self,
        now: Time,
        task: Task,
        status: StoredStatus,
        not_before: Option<Time>,
        restart: Restart,
    ) {
        if self.knows(task) && !self.is_running(task) {
            self.set_status(now, task, status, not_before, restart);
        }
    }

    /// Removes the status and the wait of a task; ignored while the task runs. The task may start again once it is released.
    pub fn forget_status(&mut self, task: Task) {
        if self.knows(task) && !self.is_running(task) {
            self.tasks.remove_status(task);
            self.tasks.locality_mut().forget(task);
            self.tasks
                .waits_mut()
                .set_restart(task, None, Restart::HeldUntilReleased);
            self.refresh(task, Reach::Dependents);
        }
    }

    /// Records the status of a further run of a running task. The caller passes the waits when the last run completes.
    pub fn note_status(&mut self, task: Task, status: StoredStatus) {
        if self.knows(task) && self.is_running(task) {
            self.tasks.set_status(task, status);
            self.refresh(task, Reach::Dependents);
        }
    }

    /// Keeps a task from starting until it is released.
    pub fn hold(&mut self, task: Task) {
        if self.knows(task) && self.tasks.waits_mut().hold(task) {
            self.refresh(task, Reach::Own);
        }
    }

    /// Ends a hold; other obstacles stay.
    pub fn release(&mut self, now: Time, task: Task) {
        if self.tasks.waits_mut().release(task) {
            self.expire(now);
            self.refresh(task, Reach::Own);
        }
    }

    /// Keeps tasks that may be running unseen from starting before `until`. A later time that is already set stays.
    pub fn hold_back_unknown(&mut self, which: HoldBack<'_>, until: Time) {
        match which {
            HoldBack::All => self.tasks.waits_mut().hold_all(until),
            HoldBack::Tasks(tasks) => {
                for &task in tasks {
                    if self.knows(task) && !self.is_running(task) {
                        let until = self.tasks.waits().get(task).max(Some(until));
                        self.tasks.waits_mut().set(task, until);
                        self.refresh(task, Reach::Own);
                    }
                }
            }
        }
    }

    /// Returns when the task's wait ends, if it waits.
    pub fn waits_until(&self, task: Task) -> Option<Time> {
        self.tasks.waits().get(task)
    }

    /// Returns when [`Engine::handle_timeout`] has work next.
    pub fn poll_timeout(&self) -> Option<Time> {
        let first = [self.tasks.waits().next(), self.tasks.locality().next()];
        let first = first.into_iter().flatten().min();
        first.filter(|time| *time < Time::NEVER)
    }

    /// Ends the waits that are over.
    pub fn handle_timeout(&mut self, now: Time) {
        self.expire(now);
    }

    pub(super) fn expire(&mut self, now: Time) {
        self.tasks.waits_mut().end_hold_of_all(now);
        while let Some(task) = self.tasks.waits_mut().pop(now) {
            self.refresh(task, Reach::Own);
        }
        while let Some(task) = self.tasks.locality_mut().pop(now) {
            self.refresh(task, Reach::Own);
        }
    }

    /// Returns whether this engine assigned both ids. Marks the node as in use, because the caller may keep it.
    pub(super) fn knows(&mut self, task: Task) -> bool {
        self.node_names.mark(task.node.0);
        task.job.index() < self.tasks.len() && self.node_names.has(task.node.0)
    }

    /// Updates a task in all columns, and through it the tasks that depend on it.
    pub(super) fn refresh(&mut self, task: Task, reach: Reach) {
        if let Some(forest) = self.forest.as_deref() {
            let changed = self.queues.refresh(forest, &self.tasks, task, reach);
            self.settle_queues();
            if !changed.is_empty() {
                self.rebuild_columns_of(self.tasks.with_dependents(changed));
            }
        }
        self.refresh_next(task, reach);
    }

    fn set_status(
        &mut self,
        now: Time,
        task: Task,
        status: StoredStatus,
        not_before: Option<Time>,
        restart: Restart,
    ) {
        self.tasks.set_status(task, status);
        self.tasks.locality_mut().forget(task);
        // The retention age of the status counts from now.
        self.tasks.note_missing(task.job, None);
        self.node_names.note_present(task.node.0);
        self.set_wait(now, task, not_before, restart);
    }

    fn set_wait(&mut self, now: Time, task: Task, not_before: Option<Time>, restart: Restart) {
        let until = not_before.filter(|until| *until > now);
        self.tasks.waits_mut().set_restart(task, until, restart);
        self.refresh(task, Reach::Dependents);
    }

    /// Removes a run from all tables.
    fn stop(&mut self, task: Task) -> Option<PlacedRun> {
        let run = self.tasks.stop(task)?;
        self.count_ready(task.job);
        for charge in &run.charges {
            self.slots.free(*charge);
        }
        self.pool.give_cards_back(run.worker, &run.cards.gpus);
        self.leave_worker(task, &run);
        Some(run)
    }
}
