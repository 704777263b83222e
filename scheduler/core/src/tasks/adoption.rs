//! Comparison of the runs that a worker lists when it associates with the runs that the scheduler knows.

use brasserie_common::resources::NodeResources;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{RunningTask, Shard, TaskKey, Time};
use brasserie_scheduler_engine::{AdoptOutcome, Task, WorkerIndex};

use super::{Run, RunState};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Compares the runs that a worker lists after it has associated, for the first time or again, with the known runs. A run that is
    /// listed and known is running. A run that is known and not listed is unsure, because the call may have crossed the list. A run that is
    /// listed and unknown is adopted.
    pub(crate) fn adopt_tasks(
        &mut self,
        now: Time,
        shard: &Shard,
        index: WorkerIndex,
        tasks: Vec<RunningTask>,
    ) {
        let known = self.tasks().on_shard(shard);
        let mut listed_runs = Vec::new();
        for listed in tasks {
            if !listed.is_healthcheck() {
                let task = Task {
                    job: self.engine_mut().intern_job(&listed.job),
                    node: self.engine_mut().intern_node(&listed.node),
                };
                listed_runs.push((task, listed.invocation));
                self.adopt(now, shard, index, task, listed);
            }
        }
        listed_runs.sort_unstable();
        for (task, invocation) in known {
            // A run whose call has no outcome yet becomes unsure by that outcome, if at all.
            let is_running = |run: &Run| run.state == RunState::Running;
            if listed_runs.binary_search(&(task, invocation)).is_err()
                && self.tasks().find(task, invocation).is_some_and(is_running)
            {
                self.tasks_mut().make_unsure(task, invocation);
            }
        }
    }

    fn adopt(
        &mut self,
        now: Time,
        shard: &Shard,
        index: WorkerIndex,
        task: Task,
        listed: RunningTask,
    ) {
        let invocation = listed.invocation;
        let (key, ended) = (listed.key(), listed.ended.clone());
        let story = listed.story.clone();
        let is_known = self.tasks().find(task, invocation).is_some();
        if is_known {
            if !self.is_known_there(now, shard, task, &listed) {
                return;
            }
            self.tasks_mut().confirm(now, task, invocation);
            let is_it = |run: &Run| run.invocation == invocation;
            if self.tasks().run(task).is_some_and(is_it) {
                self.engine_mut().learn_gpus(task, &listed.gpus);
            }
        } else {
            // A stored completion beats a listed run of the same invocation: the worker only lacks the acknowledgement. "Lost" is no such
            // completion: the worker was unreachable and still runs the task.
            let is_ended = self.tasks().ended(task) == Some(invocation)
                && !sabotage::on(Sabotage::DropOnAnyAcknowledgement);
            if is_ended && !self.is_provisional(task) {
                return;
            }
            if self.is_of_deleted_history(task, &listed) {
                return;
            }
            if self.tasks().run(task).is_some() {
                self.adopt_beside(now, shard, task, listed);
            } else {
                self.adopt_alone(now, shard, index, task, listed);
            }
            self.reconcile_adopted(now, (task, invocation), shard);
        }
        // The worker still needs an acknowledgement, and gets it when it reports the completion itself.
        if let Some(status) = ended {
            self.end_as(now, task, key, (invocation, &status), story);
        }
    }

    /// Returns whether a listed run belongs to a deleted history. Either it is the run whose completion was deleted, and the worker only
    /// lacks the acknowledgement; or it is an earlier run that has ended. An earlier run that still runs counts as running, whatever was
    /// deleted.
    fn is_of_deleted_history(&self, task: Task, listed: &RunningTask) -> bool {
        let is_last = self.tasks().forgotten(task) == Some(listed.invocation);
        let is_forgotten = self.tasks().is_forgotten(task, listed.invocation);
        is_last || (is_forgotten && listed.ended.is_some())
    }

    /// Returns whether the known run is on this shard. One run on two workers means a false report or a copied identity, and the run stays
    /// with the worker that reported it first.
    fn is_known_there(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        listed: &RunningTask,
    ) -> bool {
        let known = self.tasks().find(task, listed.invocation);
        let elsewhere = known.map(|run| run.shard.clone()).filter(|on| on != shard);
        let Some(on) = elsewhere else { return true };
        let text = format!(
            "worker `{shard}` lists {} on {} as run {}, which worker `{on}` has",
            listed.job, listed.node, listed.invocation
        );
        self.note_problem(now, &text);
        false
    }

    fn adopt_alone(
        &mut self,
        now: Time,
        shard: &Shard,
        index: WorkerIndex,
        task: Task,
        listed: RunningTask,
    ) {
        let TaskKey { job, node } = listed.key();
        let mut charges: Vec<NodeResources> = listed.resources;
        let (mut gpus, wanted) = (listed.gpus, listed.gpus_wanted);
        if sabotage::on(Sabotage::AdoptWithoutCharges) {
            charges.clear();
            gpus.clear();
        }
        if sabotage::on(Sabotage::AdoptWithoutCards) {
            gpus.clear();
        }
        match self
            .engine_mut()
            .adopt_running(task, index, &charges, (&gpus, wanted.as_ref()))
        {
            AdoptOutcome::Adopted => {}
            AdoptOutcome::AdoptedWithUnknownCharges(unknown) => {
                let text = format!(
                    "{job} on {node} holds unknown slots: {}",
                    unknown.join(", ")
                );
                self.note_problem(now, &text);
            }
            AdoptOutcome::AlreadyRunning(_) | AdoptOutcome::UnknownWorker => return,
        }
        let run = Run {
            invocation: listed.invocation,
            shard: shard.clone(),
            next_backoff: listed.next_backoff,
            kill_wait: listed.suicide_kill_wait,
            since: now,
            confirmed: Some(now),
            queued: None,
            sent_for: listed.work.request,
            fence: listed.fence,
            state: RunState::Running,
        };
        self.tasks_mut().begin(task, run);
    }
}
