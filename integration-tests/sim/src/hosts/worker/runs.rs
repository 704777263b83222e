//! Runs on their way through the desk of a worker process.

use std::sync::Arc;

use brasserie_common::{InvocationId, TaskKey};
use brasserie_worker_core::{Event, RunTask};

use super::{WorkerOutput, WorkerTurn, story_of};
use crate::hosts::desk::{Desk, DeskMoment, DeskOutput, RunEnd};

impl WorkerTurn<'_> {
    /// Calls the desk, if the worker has one.
    pub(super) fn with_desk<T>(
        &mut self,
        call: impl FnOnce(&mut Desk, &mut DeskMoment<'_>) -> T,
    ) -> Option<T> {
        let own = self.process.own();
        let association = (own.description().shard.clone(), own.instance());
        let tasks_may_live_until = own.tasks_may_live_until();
        let (Some(desk), Some(store)) = (&mut self.process.desk, self.store.as_deref_mut()) else {
            return None;
        };
        let mut moment = DeskMoment {
            now: self.now,
            store,
            tasks_may_live_until,
            association,
            place: self.place,
            log: self.log,
        };
        Some(call(desk, &mut moment))
    }

    pub(super) fn leads(&self, task: &TaskKey, invocation: InvocationId) -> bool {
        let desk = self.process.desk.as_ref();
        desk.is_some_and(|desk| desk.leads(task, invocation))
    }

    /// Starts a run, or gives it to the desk if it has artifacts.
    pub(super) fn spawn(&mut self, run: Arc<RunTask>) {
        if run.options.artifacts.is_none() {
            return self.out.push(WorkerOutput::Spawn { run });
        }
        self.with_desk(|desk, at| desk.begin(run, at));
    }

    /// Tells the core the outputs of a run, and returns the end.
    pub(super) fn run_ended(&mut self, end: RunEnd) -> Event {
        let RunEnd {
            task,
            invocation,
            status,
            outputs,
        } = end;
        if !outputs.is_empty() {
            let run = (task.clone(), invocation);
            let taken = Event::OutputsTaken { run, outputs };
            self.process.core.handle(self.now, taken);
        }
        Event::TaskEnded {
            story: Box::new(story_of(invocation)),
            task,
            invocation,
            status,
        }
    }

    /// Lets the desk perform what is due, and passes its orders on.
    pub(super) fn poll_desk(&mut self) {
        let orders = self.with_desk(|desk, at| desk.poll(at));
        for order in orders.into_iter().flatten() {
            self.out.push(match order {
                DeskOutput::Start(run) => WorkerOutput::Spawn { run },
                order => WorkerOutput::Desk(order),
            });
        }
    }
}
