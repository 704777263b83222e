//! Adoption of the runs that a worker lists when it associates, and further runs of tasks that already run.

use std::sync::Arc;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    InvocationId, LeftOutput, ReportedStatus, RunningTask, Shard, Story, TaskKey, Time,
};
use brasserie_scheduler_engine::{Task, WorkerIndex};

use super::ledger::{Adoption, MAX_FURTHER_RUNS};
use super::standby::note_listed;
use super::{Scheduler, View, task_key};
use crate::news::News;
use crate::runs::{Run, RunState};

/// The end of a run that a worker lists.
struct ListedEnd {
    task: Task,
    key: TaskKey,
    invocation: InvocationId,
    status: ReportedStatus,
    story: Option<Arc<Story>>,
    outputs: Vec<LeftOutput>,
}

impl Scheduler {
    /// Compares the runs that a worker lists after it has associated, for the first time or again, with the known runs. A run that is
    /// listed and known is running. A run that is known and not listed is unsure, because the call may have crossed the list. A run that is
    /// listed and unknown is adopted.
    pub(super) fn adopt_tasks(
        &mut self,
        now: Time,
        shard: &Shard,
        index: WorkerIndex,
        tasks: Vec<RunningTask>,
    ) {
        let known = self.runs.on_shard(shard);
        let mut listed_runs = Vec::new();
        let mut ended = Vec::new();
        for listed in tasks {
            if !listed.is_healthcheck() {
                let task = Task {
                    job: self.engine.intern_job(&listed.job),
                    node: self.engine.intern_node(&listed.node),
                };
                listed_runs.push((task, listed.invocation));
                ended.extend(self.adopt(now, shard, index, task, listed));
            }
        }
        // Ends free slots, so they follow once all charges are known.
        for ended in ended {
            let end = (ended.invocation, &ended.status);
            self.end_as(
                now,
                ended.task,
                ended.key,
                end,
                (ended.story, ended.outputs),
            );
        }
        listed_runs.sort_unstable();
        for (task, invocation) in known {
            // A run whose call has no outcome yet becomes unsure by that outcome, if at all.
            let is_running = |run: &Run| run.state == RunState::Running;
            if listed_runs.binary_search(&(task, invocation)).is_err()
                && self.runs.find(task, invocation).is_some_and(is_running)
            {
                self.runs.make_unsure(task, invocation, None);
            }
        }
    }

    /// Compares one listed run. Returns its end, if it has ended and counts.
    fn adopt(
        &mut self,
        now: Time,
        shard: &Shard,
        index: WorkerIndex,
        task: Task,
        listed: RunningTask,
    ) -> Option<ListedEnd> {
        let invocation = listed.invocation;
        let has_ended = listed.ended.is_some();
        // The worker still needs an acknowledgement, and gets it when it reports the completion itself.
        let ended = listed.ended.clone().map(|status| ListedEnd {
            task,
            key: listed.key(),
            invocation,
            status,
            story: listed.story.clone(),
            outputs: listed.outputs.clone(),
        });
        let is_known = self.runs.find(task, invocation).is_some();
        if is_known {
            if !self.check_is_there(now, shard, task, &listed) {
                return None;
            }
            self.runs.confirm(now, task, invocation);
            let is_it = |run: &Run| run.invocation == invocation;
            if self.runs.run(task).is_some_and(is_it) {
                self.engine.learn_gpus(task, &listed.gpus);
                let stated = listed.worker_slots.as_deref();
                note_listed(&mut self.engine, now, task, stated.filter(|_| !has_ended));
            }
        } else {
            // A stored completion beats a listed run of the same invocation: the worker only lacks the acknowledgement. "Lost" is no such
            // completion: the worker was unreachable and still runs the task.
            let is_ended = self.runs.ended(task) == Some(invocation)
                && !sabotage::on(Sabotage::DropOnAnyAcknowledgement);
            // So is the same end, which the worker only repeats.
            let was_returned = listed.ended == Some(ReportedStatus::taken_back());
            if is_ended && (was_returned || !self.view().is_provisional(task)) {
                return None;
            }
            if self.view().is_of_deleted_history(task, &listed) {
                return None;
            }
            self.adopt_unknown(now, (shard, index), task, listed);
            if !has_ended && self.runs.find(task, invocation).is_some() {
                self.pin_inputs(now, task, invocation);
                self.reserve_for_run(now, (shard, invocation), task);
            }
            self.check_adopted(now, (task, invocation), shard);
        }
        ended
    }

    /// Checks whether the known run is on this shard, and notes a problem if it is not. One run on two workers means a false report or a
    /// copied identity, and the run stays with the worker that reported it first.
    fn check_is_there(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        listed: &RunningTask,
    ) -> bool {
        let known = self.runs.find(task, listed.invocation);
        let elsewhere = known.map(|run| run.shard.clone()).filter(|on| on != shard);
        let Some(on) = elsewhere else { return true };
        let text = format!(
            "worker `{shard}` lists {} on {} as run {}, which worker `{on}` has",
            listed.job, listed.node, listed.invocation
        );
        self.notices.problem(now, &text);
        false
    }

    fn adopt_unknown(
        &mut self,
        now: Time,
        (shard, index): (&Shard, WorkerIndex),
        task: Task,
        listed: RunningTask,
    ) {
        let TaskKey { job, node } = listed.key();
        let run = listed.invocation;
        match self.ledger().adopt(now, (shard, index), task, listed) {
            Adoption::Adopted | Adoption::Refused => {}
            Adoption::HoldsUnknown(unknown) => {
                let unknown = unknown.join(", ");
                let text = format!("{job} on {node} holds unknown slots: {unknown}");
                self.notices.problem(now, &text);
            }
            Adoption::Beside(first) => {
                let workers = [first, shard.clone()];
                let task = task_key(&self.engine, task);
                self.notices.news(News::RunsTwice { task, workers });
            }
            Adoption::TooMany => {
                let text = format!(
                    "worker `{shard}` lists {job} on {node} as run {run}, but {MAX_FURTHER_RUNS} further runs of it are known already"
                );
                self.notices.problem(now, &text);
            }
        }
    }
}

impl View<'_> {
    /// Returns whether a listed run belongs to a deleted history. Either it is the run whose completion was deleted, and the worker only
    /// lacks the acknowledgement; or it is an earlier run that has ended. An earlier run that still runs counts as running, whatever was
    /// deleted.
    fn is_of_deleted_history(&self, task: Task, listed: &RunningTask) -> bool {
        let is_last = self.runs.last_deleted(task) == Some(listed.invocation);
        let is_deleted = self.runs.is_deleted(task, listed.invocation);
        is_last || (is_deleted && listed.ended.is_some())
    }
}
