//! Completions of runs: the reports of workers, the statuses that are stored, and the end of a run in every component.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::story::{Ending, Fault};
use brasserie_common::{
    BackoffDuration, Health, InvocationId, JobId, LeftOutput, RecordSeq, ReportedStatus, RequestId,
    Shard, Story, TaskKey, TaskOutput, Time,
};
use brasserie_scheduler_engine::Task;

use super::effect::Reply;
use super::event::StatusUpdate;
use super::ledger::not_before;
use super::replies::HeldReply;
use super::{Scheduler, View, task_key};
use crate::news::News;
use crate::notices::StartTrouble;
use crate::record::{EndedTask, KeptStory, Record};
use crate::refusal::Rejection;

impl Scheduler {
    /// Handles an `updateStatus` call.
    pub(super) fn update_status(&mut self, now: Time, request: RequestId, update: &StatusUpdate) {
        match self.accept_status(now, update) {
            Ok(after) => {
                let reply = Reply::UpdateStatus(Ok(()));
                let held = HeldReply::Status(update.invocation);
                self.outbox.reply_after(now, (request, after), reply, held);
            }
            Err(rejection) => self
                .outbox
                .reply(request, Reply::UpdateStatus(Err(rejection))),
        }
    }

    /// Handles a status up to its acknowledgement. Returns the record that the acknowledgement waits for.
    fn accept_status(
        &mut self,
        now: Time,
        update: &StatusUpdate,
    ) -> Result<Option<RecordSeq>, Rejection> {
        self.view().check_status(update)?;
        if update.job.as_str() != HEALTHCHECK_JOB {
            return self.end_reported(now, update);
        }
        if let Some(remote) = self.pool.get_mut(&update.shard) {
            remote.note_healthcheck_result(now, update.invocation, &update.status);
        }
        self.evaluate(now, &update.shard);
        Ok(None)
    }

    /// Handles a completion that a worker reports. Returns the record that the acknowledgement waits for. An acknowledged report is stored
    /// or has no effect; any other report is refused, and the worker keeps it.
    fn end_reported(
        &mut self,
        now: Time,
        update: &StatusUpdate,
    ) -> Result<Option<RecordSeq>, Rejection> {
        let job = self.engine.find_job(update.job.as_str());
        let node = self.engine.find_node(update.node.as_str());
        let (Some(job), Some(node)) = (job, node) else {
            return unknown_run(update);
        };
        let task = Task { job, node };
        let reported = self.runs.find(task, update.invocation);
        if reported.is_none() && self.runs.is_deleted(task, update.invocation) {
            // The completion was accepted before it was deleted, or a deleted one superseded it.
            return Ok(self.runs.pending_record(task));
        }
        match reported.or_else(|| self.runs.run(task)) {
            Some(run) if run.invocation == update.invocation && run.shard == update.shard => {
                self.credit()
                    .note_cards(&update.shard, update.invocation, &update.gpus);
                // Freed slots may start other tasks in this turn.
                let end = (update.invocation, &update.status);
                let left = (update.story.clone(), update.outputs.clone());
                Ok(self.end_as(now, task, key_of(update), end, left))
            }
            Some(_) => self.end_of_another(task, update),
            None => self.end_again(now, task, update),
        }
    }

    /// Handles a report while another run of the task is known: a repeat, "was not running" about an old run, or a completion that comes
    /// too late.
    fn end_of_another(
        &mut self,
        task: Task,
        update: &StatusUpdate,
    ) -> Result<Option<RecordSeq>, Rejection> {
        self.end_safety_wait(task, update);
        let ended = self.runs.ended(task);
        let is_final = |s: &StoredStatus| s.is_done() && !s.is_overwriteable();
        if ended.is_some()
            && self
                .engine
                .previous_status(task)
                .as_ref()
                .is_some_and(is_final)
        {
            // The stored status is final, so this report changes nothing.
            return Ok(self.runs.pending_record(task));
        }
        if ended < Some(update.invocation) {
            return unknown_run(update);
        }
        let is_untaken = if ended == Some(update.invocation) {
            self.view().is_provisional(task)
        } else {
            // An accepted `done` would have kept the task from running again.
            update.status.is_done()
        };
        if is_untaken && !update.status.is_overwriteable() {
            return Err(Rejection::Superseded {
                run: run_text(update),
            });
        }
        Ok(self.runs.pending_record(task))
    }

    /// Ends the safety wait for a lost run that has reported its own completion. Other lost runs may still be alive.
    fn end_safety_wait(&mut self, task: Task, update: &StatusUpdate) {
        if !update.status.is_overwriteable() && self.runs.ended(task) >= Some(update.invocation) {
            self.safety.over(task, update.invocation);
        }
    }

    /// Handles a report while no run of the task is known: a repeat, which waits for the first report's record, or the actual completion
    /// after "lost" or "was not running".
    fn end_again(
        &mut self,
        now: Time,
        task: Task,
        update: &StatusUpdate,
    ) -> Result<Option<RecordSeq>, Rejection> {
        self.end_safety_wait(task, update);
        let ended = self.runs.ended(task);
        let is_done = |s: &StoredStatus| s.is_done() && !s.is_overwriteable();
        if ended.is_some()
            && self
                .engine
                .previous_status(task)
                .as_ref()
                .is_some_and(is_done)
        {
            return Ok(self.runs.pending_record(task));
        }
        // Runs of a task are ordered, so no completion of a later run was ever accepted, and this report is no repeat.
        if ended < Some(update.invocation) {
            return unknown_run(update);
        }
        // A `done` of an earlier run that counted as lost is accepted, too.
        let is_same =
            ended == Some(update.invocation) || sabotage::on(Sabotage::AnyRunReplacesProvisional);
        let is_news = if is_same {
            self.view().is_provisional(task)
        } else {
            update.status.is_done()
        };
        if !is_news || update.status.is_overwriteable() {
            return Ok(self.runs.pending_record(task));
        }
        if sabotage::on(Sabotage::AnyRunReplacesProvisional)
            && let Some(ended) = ended
        {
            self.safety.over(task, ended);
        }
        let end = (update.invocation, &update.status);
        let (invocation, status) = self
            .view()
            .closing_status(now, task, end, update.next_backoff);
        let kept = kept(update.story.clone(), &update.shard, None);
        let kept = kept.filter(|_| invocation == update.invocation);
        let left = match invocation == update.invocation && status.is_done() {
            true => update.outputs.clone(),
            false => Vec::new(),
        };
        let outputs = left.iter().map(|left| left.output.clone()).collect();
        self.record_outputs(now, (&key_of(update), invocation), &update.shard, left);
        let seq = self.record_end(key_of(update), (invocation, &status), kept, outputs);
        let not_before = not_before(&self.engine, now, &status);
        self.ledger()
            .restate(now, task, (invocation, status), not_before, seq);
        Ok(Some(seq))
    }

    /// Ends a run of the task with the status that its worker reports.
    pub(super) fn end_as(
        &mut self,
        now: Time,
        task: Task,
        key: TaskKey,
        end: (InvocationId, &ReportedStatus),
        (story, left): (Option<Arc<Story>>, Vec<LeftOutput>),
    ) -> Option<RecordSeq> {
        self.learn(task.job, end.1, story.as_deref());
        let run = self.runs.find(task, end.0)?;
        let (next_backoff, shard) = (run.next_backoff, run.shard.clone());
        let start_failure = run.start_failure.clone();
        let kept = kept(story.clone(), &shard, run.queued);
        self.note_problem_of(now, &shard, task, (end.1, story.as_deref()));
        let lacks_space = story.as_deref().is_some_and(could_not_keep)
            || story.as_deref().is_some_and(could_not_start)
                && self.view().lacks_space_for_inputs(task, &shard);
        if lacks_space {
            self.note_no_space(now, &shard, &key.job);
        }
        self.safety.over(task, end.0);
        let (of, mut status) = self.view().closing_status(now, task, end, next_backoff);
        if let Some(why) = start_failure
            && of == end.0
            && *end.1 == ReportedStatus::was_not_running()
        {
            status = status.explained(&format!(
                "`{shard}` does not run it, and its start failed: {why}"
            ));
        }
        // A story is stored only with the completion of its own run. A task that was taken back has not run.
        let kept = kept.filter(|_| of == end.0 && !status.was_taken_back());
        let is_success = of == end.0 && status.is_done();
        match is_success {
            true => self.note_consumed(now, task),
            false => self.artifacts.run_failed(&key),
        }
        let left = if is_success { left } else { Vec::new() };
        let outputs = left.iter().map(|left| left.output.clone()).collect();
        self.record_outputs(now, (&key, of), &shard, left);
        let seq = self.record_end(key, (of, &status), kept, outputs);
        self.end_run(now, (task, end.0), (of, status), seq);
        Some(seq)
    }

    /// Requests that a completion be made durable.
    fn record_end(
        &mut self,
        key: TaskKey,
        (invocation, status): (InvocationId, &StoredStatus),
        story: Option<Box<KeptStory>>,
        outputs: Vec<TaskOutput>,
    ) -> RecordSeq {
        self.outbox.persist(Record::TaskEnded(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status: status.clone(),
            story,
            outputs,
        }))
    }

    /// Ends a run in every component. `of` is the run whose completion is stored.
    pub(super) fn end_run(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        (of, status): (InvocationId, StoredStatus),
        seq: RecordSeq,
    ) {
        self.orphans.forget((task, invocation));
        self.artifacts.unpin(now, invocation);
        if status.is_failed() {
            let (task, status) = (task_key(&self.engine, task), status.to_string());
            self.notices.news(News::Failed { task, status });
        }
        let is_of_the_task = !status.is_incomplete_backoff() && !status.is_overwriteable();
        let mut ledger = self.ledger();
        let Some(shard) = ledger.end(now, (task, invocation), (of, status), seq) else {
            return;
        };
        let mut credit = self.credit();
        credit.permit_again(&shard);
        match is_of_the_task {
            true => credit.give_back(now, &shard, invocation),
            // A machine on which every run fails requests less and less work, and returned credit would undo that. A run that never began
            // has left nothing idle.
            false => credit.relieve(now, &shard, invocation),
        }
    }

    /// Notes a problem if the task got no process, or if its worker could not keep its outputs: `brasserie logs` shows nothing then. Any
    /// other process clears the job's problems.
    fn note_problem_of(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        (status, story): (&ReportedStatus, Option<&Story>),
    ) {
        let Some(Story {
            ending,
            fault,
            ended_by,
            ..
        }) = story
        else {
            return;
        };
        match ending {
            // The process has succeeded, and nobody has ended it.
            Ending::Exited(0) if *fault == Fault::Worker && ended_by.is_none() => {
                let of = (shard, task_key(&self.engine, task));
                let why = status.exception().unwrap_or("its log has the reason");
                self.notices
                    .start_problem(now, of, StartTrouble::Outputs, why);
            }
            Ending::NotStarted(_) if *fault == Fault::Nobody => {}
            Ending::NotStarted(why) => {
                let of = (shard, task_key(&self.engine, task));
                self.notices
                    .start_problem(now, of, StartTrouble::Failed, why);
            }
            Ending::Exited(_) | Ending::Signalled(_) | Ending::Unknown => {
                let job = self.engine.job_name(task.job).clone();
                self.notices.process_ran(shard, &job);
            }
        }
    }

    /// Learns from a completed run, so that the engine and workers know how long the job's tasks take.
    fn learn(&mut self, job: JobId, status: &ReportedStatus, story: Option<&Story>) {
        if self.engine.job_config(job).is_some()
            && let Some(seconds) = self.estimates.learn(job, status, story)
        {
            self.engine.set_learned(job, Some(seconds));
        }
    }
}

impl View<'_> {
    /// Checks whether a status may be handled: it names this scheduler and its worker, and the store can make it durable if it is not that
    /// of a healthcheck.
    fn check_status(&self, update: &StatusUpdate) -> Result<(), Rejection> {
        let ours = self.id;
        if update.scheduler != ours {
            return Err(Rejection::WrongScheduler {
                theirs: update.scheduler,
                ours,
            });
        }
        let shard = update.shard.as_str().to_owned();
        let Some(remote) = self.pool.get(&update.shard) else {
            return Err(Rejection::UnknownShard { shard });
        };
        if remote.id() != update.worker {
            return Err(Rejection::WrongWorker {
                shard,
                theirs: update.worker,
                ours: remote.id(),
            });
        }
        if update.job.as_str() == HEALTHCHECK_JOB {
            return Ok(());
        }
        if remote.health() == Health::New && !sabotage::on(Sabotage::AcceptStatusInNew) {
            return Err(Rejection::StillNew);
        }
        if update.job.as_str().is_empty() {
            return Err(Rejection::EmptyName("updateStatus.running_task.job"));
        }
        if let Some(why) = self.outbox.store_error() {
            // While the store fails, accepted statuses would only fill memory, and their pending replies would exhaust the capacity for
            // calls. The worker keeps the status.
            let why = why.to_owned();
            return Err(Rejection::StoreFails { why });
        }
        Ok(())
    }

    /// Returns whether the stored status is "lost", "was not running" or "taken back", which only a completion of the same run replaces.
    pub(super) fn is_provisional(&self, task: Task) -> bool {
        self.engine
            .previous_status(task)
            .is_some_and(|status| status.is_overwriteable())
    }

    /// Returns the status to store after a run has ended with `reported`, and the run to store it for.
    ///
    /// A run that is earlier than the stored completion was already reported or abandoned, and only its worker did not know. Its status
    /// replaces a later one only if it is DONE, and nothing replaces DONE. The status is stored as the completion of the latest completed
    /// run, so that its deletion covers all runs. The stored wait covers every run of the task that may be alive.
    pub(super) fn closing_status(
        &self,
        now: Time,
        task: Task,
        (invocation, reported): (InvocationId, &ReportedStatus),
        next_backoff: BackoffDuration,
    ) -> (InvocationId, StoredStatus) {
        let old = self.engine.previous_status(task);
        let old = old.as_ref();
        let safety = self.safety.seconds(now, task);
        let mut of = invocation;
        if let (Some(ended), Some(old)) = (self.runs.ended(task), old)
            && ended != invocation
            && !sabotage::on(Sabotage::AnyRunReplacesProvisional)
        {
            of = of.max(ended);
            let is_final = old.is_done() && !old.is_overwriteable();
            if is_final || (invocation < ended && !reported.is_done()) {
                return (of, old.clone().waiting_at_least(safety));
            }
        }
        let status = StoredStatus::after(old, reported, next_backoff, self.wall);
        (of, status.waiting_at_least(safety))
    }
}

/// Returns whether a run has succeeded and its worker could not keep its outputs: its disks are full, or fail.
fn could_not_keep(story: &Story) -> bool {
    story.ending == Ending::Exited(0) && story.fault == Fault::Worker && story.ended_by.is_none()
}

/// Returns whether a run has not started for a reason that may be a lack of space for its inputs.
fn could_not_start(story: &Story) -> bool {
    matches!(story.ending, Ending::NotStarted(_))
        && story.fault == Fault::System
        && story.ended_by.is_none()
}

/// Combines a worker's story with the facts that the scheduler knows.
pub(super) fn kept(
    story: Option<Arc<Story>>,
    shard: &Shard,
    queued: Option<Duration>,
) -> Option<Box<KeptStory>> {
    let kept = story.map(|story| KeptStory {
        story: Arc::unwrap_or_clone(story),
        shard: shard.clone(),
        queued,
    });
    kept.map(Box::new)
}

fn key_of(update: &StatusUpdate) -> TaskKey {
    TaskKey {
        job: update.job.clone(),
        node: update.node.clone(),
    }
}

fn run_text(update: &StatusUpdate) -> String {
    format!(
        "run {} of {} on {}",
        update.invocation, update.job, update.node
    )
}

/// Handles a completion of an unknown run. It is refused, since an acknowledgement would lose it. "Was not running" about such a run is
/// acknowledged.
fn unknown_run(update: &StatusUpdate) -> Result<Option<RecordSeq>, Rejection> {
    if update.status.is_overwriteable() {
        return Ok(None);
    }
    Err(Rejection::UnknownRun {
        run: run_text(update),
    })
}
