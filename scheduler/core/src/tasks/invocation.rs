//! One run from its placement to its accepted end.

use brasserie_common::ids::InstanceId;
use brasserie_common::resources::NodeResources;
use brasserie_common::status::StoredStatus;
use brasserie_common::{
    CallOutcome, Health, InvocationId, RecordSeq, ReportedStatus, RequestId, RunningTask, Shard,
    TaskKey, Time,
};
use brasserie_scheduler_engine::{AdoptOutcome, Placement, Restart, Task, WorkerIndex};

use super::{Run, RunState};
use crate::calls::Purpose;
use crate::effect::{Call, CallReply, Rejection, Reply};
use crate::event::StatusUpdate;
use crate::record::{EndedTask, Record};
use crate::scheduler::Scheduler;

impl Scheduler {
    /// The engine has marked the task running; from here on so does everything else, before the call leaves.
    pub(crate) fn start(&mut self, now: Time, placement: Placement) {
        let Placement {
            task,
            worker: index,
        } = placement;
        let rand = self.draw_invocation();
        let invocation = InvocationId(InstanceId {
            start_time: self.wall().as_secs(),
            rand,
        });
        let shard = self
            .workers()
            .shard_of(index)
            .cloned()
            .expect("Invariant: the engine places on announced workers");
        let remote = self
            .workers_mut()
            .get_mut(&shard)
            .expect("Invariant: an announced worker stays in the pool");
        remote.start_sent();
        let (worker, sequence, peer) = (remote.id(), remote.sequence(), remote.address().clone());
        let run = Run {
            invocation,
            shard: shard.clone(),
            next_backoff: self.engine().next_backoff(task),
            kill_wait: self.options().timeouts.suicide_task_kill_wait,
            since: now,
            state: RunState::Starting,
        };
        self.tasks_mut().begin(task, run);
        let call = Call::RunTask {
            worker,
            index,
            task,
            invocation,
            sequence,
        };
        self.call(
            now,
            peer,
            call,
            Purpose::Start {
                shard: shard.clone(),
                task,
                invocation,
            },
        );
        self.evaluate(now, &shard);
    }

    pub(crate) fn start_completed(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        invocation: InvocationId,
        outcome: CallOutcome<CallReply>,
    ) {
        if let Some(remote) = self.workers_mut().get_mut(shard) {
            remote.start_settled();
        }
        let is_current =
            |run: &Run| run.invocation == invocation && run.state == RunState::Starting;
        if self.tasks().run(task).is_some_and(is_current) {
            match outcome {
                CallOutcome::Done(_) => self.tasks_mut().make_running(task),
                CallOutcome::Unknown(_) => self.tasks_mut().make_unsure(task),
                CallOutcome::Refused(_, text) | CallOutcome::NotSent(text) => {
                    self.never_started(now, shard, task, invocation, &text);
                }
            }
        }
        self.evaluate(now, shard);
    }

    /// It certainly did not start, so its last status stands: a refusal is no run, and consumes no step of the backoff.
    fn never_started(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        invocation: InvocationId,
        text: &str,
    ) {
        let run = self
            .tasks()
            .run(task)
            .map(|run| run.next_backoff)
            .unwrap_or_default();
        let old = self.engine().previous_status(task).cloned();
        let status = old.unwrap_or_else(|| {
            StoredStatus::after(
                None,
                &ReportedStatus::never_started(text),
                run,
                0,
                self.wall(),
            )
        });
        self.tasks_mut().end(now, task, invocation, None);
        // It was ready to run, so its backoff is over; the worker's busy mark keeps it from being tried again at once.
        self.engine_mut()
            .end(now, task, status, Some(now), Restart::AtOnce);
        if let Some(remote) = self.workers_mut().get_mut(shard) {
            remote.mark_busy(now);
        }
        let key = self.task_key(task);
        self.tasks_mut().note_problem(now, format!(
            "worker `{shard}` did not start {} on {}: {text}",
            key.job, key.node
        ));
    }

    /// What a worker runs that has just associated.
    pub(crate) fn adopt_tasks(
        &mut self,
        now: Time,
        shard: &Shard,
        index: WorkerIndex,
        tasks: Vec<RunningTask>,
    ) {
        for listed in tasks {
            if !listed.is_healthcheck() {
                self.adopt(now, shard, index, listed);
            }
        }
    }

    fn adopt(&mut self, now: Time, shard: &Shard, index: WorkerIndex, listed: RunningTask) {
        let task = Task {
            job: self.engine_mut().intern_job(&listed.job),
            node: self.engine_mut().intern_node(&listed.node),
        };
        // A stored end beats a listed run of the same invocation: the worker only lacks the acknowledgement.
        if self.tasks().ended(task) == Some(listed.invocation) {
            return;
        }
        if let Some(run) = self.tasks().run(task) {
            let text = format!(
                "worker `{shard}` lists {} on {} as run {}, but worker `{}` has it as run {}",
                listed.job, listed.node, listed.invocation, run.shard, run.invocation
            );
            self.tasks_mut().note_problem(now, text);
            return;
        }
        let charges: Vec<NodeResources> = listed.resources;
        match self.engine_mut().adopt_running(task, index, &charges) {
            AdoptOutcome::Adopted => {}
            AdoptOutcome::AdoptedWithUnknownCharges(unknown) => {
                let text = format!(
                    "{} on {} holds unknown slots: {}",
                    listed.job,
                    listed.node,
                    unknown.join(", ")
                );
                self.tasks_mut().note_problem(now, text);
            }
            AdoptOutcome::AlreadyRunning(_) | AdoptOutcome::UnknownWorker => return,
        }
        let run = Run {
            invocation: listed.invocation,
            shard: shard.clone(),
            next_backoff: listed.next_backoff,
            kill_wait: listed.suicide_kill_wait,
            since: now,
            state: RunState::Running,
        };
        self.tasks_mut().begin(task, run);
    }

    /// `updateStatus`.
    pub(crate) fn update_status(&mut self, now: Time, request: RequestId, update: &StatusUpdate) {
        match self.accept_status(now, update) {
            Ok(after) => self.reply(request, after, Reply::UpdateStatus(Ok(()))),
            Err(rejection) => self.reply(request, None, Reply::UpdateStatus(Err(rejection))),
        }
    }

    fn accept_status(
        &mut self,
        now: Time,
        update: &StatusUpdate,
    ) -> Result<Option<RecordSeq>, Rejection> {
        let ours = self.id();
        if update.scheduler != ours {
            return Err(Rejection::WrongScheduler {
                theirs: update.scheduler,
                ours,
            });
        }
        let shard = update.shard.as_str().to_owned();
        let Some(remote) = self.workers_mut().get_mut(&update.shard) else {
            return Err(Rejection::UnknownShard { shard });
        };
        if remote.id() != update.worker {
            return Err(Rejection::WrongWorker {
                shard,
                theirs: update.worker,
                ours: remote.id(),
            });
        }
        if Self::is_healthcheck(update.job.as_str()) {
            if update.status.is_done() {
                remote.healthcheck_done(update.invocation);
            } else {
                remote.healthcheck_failed(update.invocation);
            }
            self.evaluate(now, &update.shard);
            return Ok(None);
        }
        if remote.health() == Health::New {
            return Err(Rejection::StillNew);
        }
        if update.job.as_str().is_empty() {
            return Err(Rejection::EmptyName("updateStatus.running_task.job"));
        }
        Ok(self.end_reported(now, update))
    }

    /// The end that a worker reports, against what is known of the task. Gives the record that the acknowledgement waits for.
    fn end_reported(&mut self, now: Time, update: &StatusUpdate) -> Option<RecordSeq> {
        let job = self.engine().find_job(update.job.as_str())?;
        let node = self.engine().find_node(update.node.as_str())?;
        let task = Task { job, node };
        match self.tasks().run(task) {
            Some(run) if run.invocation == update.invocation && run.shard == update.shard => {
                let status = self.status_after(task, update, run.next_backoff);
                let seq = self.record_end(update, &status);
                self.end_run(now, task, update.invocation, status, Some(seq));
                // Freed slots may start other tasks in this very turn.
                Some(seq)
            }
            // Another run of the task is under way: an old message, or "was not running" about an old run.
            Some(_) => None,
            None => self.end_again(now, task, update),
        }
    }

    /// Nothing runs: a repeat, which waits for the first one's record, or the true end after "lost" or "was not running".
    fn end_again(&mut self, now: Time, task: Task, update: &StatusUpdate) -> Option<RecordSeq> {
        if self.tasks().ended(task) != Some(update.invocation) {
            return None;
        }
        let is_provisional = self
            .engine()
            .previous_status(task)
            .is_some_and(StoredStatus::is_overwriteable);
        if !is_provisional || update.status.is_overwriteable() {
            return self.tasks().pending_record(task);
        }
        let status = self.status_after(task, update, update.next_backoff);
        let seq = self.record_end(update, &status);
        let not_before = self.tasks().not_before(now, &status);
        self.tasks_mut()
            .end(now, task, update.invocation, Some(seq));
        self.engine_mut().restate(
            now,
            task,
            status,
            not_before,
            Restart::HeldUntilReleased,
        );
        Some(seq)
    }

    fn status_after(
        &self,
        task: Task,
        update: &StatusUpdate,
        next: brasserie_common::BackoffDuration,
    ) -> StoredStatus {
        StoredStatus::after(
            self.engine().previous_status(task),
            &update.status,
            next,
            0,
            self.wall(),
        )
    }

    fn record_end(&mut self, update: &StatusUpdate, status: &StoredStatus) -> RecordSeq {
        self.persist(Record::TaskEnded(EndedTask {
            job: update.job.clone(),
            node: update.node.clone(),
            invocation: update.invocation,
            status: status.clone(),
        }))
    }

    /// An operator wants a running task ended, by its job's own method.
    pub(crate) fn kill_task(&mut self, now: Time, request: RequestId, key: TaskKey) {
        let found = self.find_run(&key);
        let Some((task, invocation, shard)) = found else {
            let rejection = Rejection::NotRunning(format!("{} on {}", key.job, key.node));
            return self.reply(request, None, Reply::KillTask(Err(rejection)));
        };
        let job_kill = self
            .engine()
            .job_config(task.job)
            .map(|job| job.kill_subprocess);
        let kill = job_kill
            .or_else(|| self.engine().config().map(|c| c.kill_subprocess))
            .unwrap_or_default();
        let Some(remote) = self.workers().get(&shard) else {
            return;
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        self.call(
            now,
            peer,
            Call::KillTask {
                worker,
                task,
                invocation,
                kill,
            },
            Purpose::Kill { request },
        );
    }

    fn find_run(&self, key: &TaskKey) -> Option<(Task, InvocationId, Shard)> {
        let job = self.engine().find_job(key.job.as_str())?;
        let node = self.engine().find_node(key.node.as_str())?;
        let task = Task { job, node };
        let run = self.tasks().run(task)?;
        Some((task, run.invocation, run.shard.clone()))
    }
}

impl super::Tasks {
    fn make_running(&mut self, task: Task) {
        if let Some(run) = self.runs.get_mut(&task) {
            run.state = RunState::Running;
        }
    }
}
