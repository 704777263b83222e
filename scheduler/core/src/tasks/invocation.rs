//! The life of one run, from its placement to its accepted completion.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ids::InstanceId;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::story::{Ending, Fault};
use brasserie_common::{
    BackoffDuration, CallOutcome, EndedBy, Health, InvocationId, JobId, Kill, KillRequest,
    Principal, RecordSeq, RefusalCode, ReportedStatus, RequestId, Shard, Story, TaskKey, Time,
    WorkerId,
};
use brasserie_scheduler_engine::{Placement, Restart, Task};

use super::stories::kept;
use super::{Run, RunState, StartTrouble, kill_request};
use crate::calls::{Call, CallReply, KilledTask, Purpose};
use crate::news::News;
use crate::record::{EndedTask, KeptStory, Record};
use crate::refusal::Rejection;
use crate::scheduler::Scheduler;
use crate::scheduler::effect::Reply;
use crate::scheduler::event::StatusUpdate;
use crate::scheduler::replies::HeldReply;

/// The wait of a task that ended as incomplete, or in an error without backoff, before a configuration was loaded; the default of
/// `working_wait`. Without it, a task that ends at once would start as fast as the machine permits.
const WORKING_WAIT: Duration = Duration::from_millis(500);

impl Scheduler {
    /// Starts a placed task. The engine has marked the task running; everything else is marked here before the call leaves.
    pub(crate) fn start(&mut self, now: Time, placement: Placement) {
        let Placement {
            task,
            worker: index,
        } = placement;
        let invocation = self.new_invocation(task);
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
        if sabotage::on(Sabotage::RecordAtFirstTask) {
            let record = remote.association();
            self.persist(record);
        }
        let run = Run {
            invocation,
            shard: shard.clone(),
            next_backoff: self.engine().next_backoff(task),
            kill_wait: self.options().timeouts.suicide_task_kill_wait,
            since: now,
            confirmed: None,
            queued: self.queued(task),
            sent_for: self.spend_credit(now, &shard, (task, invocation)),
            fence: self.next_fence(),
            state: RunState::Starting,
        };
        self.tasks_mut().begin(task, run);
        self.note_run_again(task, &shard);
        self.send_start(now, &shard, task, invocation);
        if sabotage::on(Sabotage::MarkRunningAfterSending) {
            let trouble = Some((StartTrouble::Refused, ""));
            self.never_started(now, &shard, task, invocation, trouble);
        }
        self.evaluate(now, &shard);
    }

    fn note_run_again(&mut self, task: Task, on: &Shard) {
        let status = self.engine().previous_status(task);
        if let Some(status) = status.filter(|status| status.is_overwriteable()) {
            self.note_news(News::RunsAgain {
                task: self.task_key(task),
                on: on.clone(),
                before: status.lost_on().map(str::to_owned),
                status: status.to_string(),
            });
        }
    }

    /// Sends the call that starts a run. Called once for each run.
    fn send_start(&mut self, now: Time, shard: &Shard, task: Task, invocation: InvocationId) {
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let call = Call::RunTask {
            worker,
            index: remote.index(),
            task,
            invocation,
            sequence: remote.sequence(),
        };
        let purpose = Purpose::Start {
            shard: shard.clone(),
            worker,
            task,
            invocation,
        };
        self.call(now, peer, call, purpose);
    }

    /// Draws an invocation for the task. It is later than the invocation of the task's stored or last deleted completion, even if the wall
    /// clock went back. So the order of two runs is known when a worker reports both.
    pub(crate) fn new_invocation(&mut self, task: Task) -> InvocationId {
        let drawn = InvocationId(InstanceId {
            start_time: self.wall().as_secs(),
            rand: self.draw_invocation(),
        });
        match self.tasks().last_ended(task) {
            Some(last) if drawn <= last => InvocationId(InstanceId {
                start_time: last.0.start_time.saturating_add(1),
                ..drawn.0
            }),
            Some(_) | None => drawn,
        }
    }

    pub(crate) fn start_completed(
        &mut self,
        now: Time,
        (shard, worker): (&Shard, WorkerId),
        task: Task,
        invocation: InvocationId,
        outcome: CallOutcome<CallReply>,
    ) {
        // A successor on the shard has calls of its own.
        if let Some(remote) = self.workers_mut().instance_mut(shard, worker) {
            remote.start_settled();
        }
        let is_starting = |run: &Run| run.state == RunState::Starting;
        if self.tasks().find(task, invocation).is_some_and(is_starting) {
            match outcome {
                CallOutcome::Done(_) => {
                    self.tasks_mut().confirm(now, task, invocation);
                    let job = self.engine().job_name(task.job).clone();
                    self.tasks_mut().problems_mut().start_accepted(shard, &job);
                }
                CallOutcome::Unknown(_) if sabotage::on(Sabotage::RetrySentInvocation) => {
                    self.send_start(now, shard, task, invocation);
                }
                // The call may have arrived twice, and the refusal may answer the repetition.
                CallOutcome::Unknown(_) | CallOutcome::Refused(RefusalCode::Duplicate, _)
                    if !sabotage::on(Sabotage::UnknownIsFailure) =>
                {
                    self.tasks_mut().make_unsure(task, invocation);
                }
                // This is no problem: the worker obeys a request to drain, and a heartbeat that says so, or its goodbye, is on its way.
                CallOutcome::Refused(RefusalCode::Draining, _) => {
                    self.never_started(now, shard, task, invocation, None);
                }
                CallOutcome::Refused(RefusalCode::Busy, text) => {
                    self.turned_down(now, shard, (task, invocation));
                    let trouble = Some((StartTrouble::Race, &*text));
                    self.never_started(now, shard, task, invocation, trouble);
                }
                CallOutcome::Refused(RefusalCode::Unhealthy, text) => {
                    let trouble = Some((StartTrouble::Race, &*text));
                    self.never_started(now, shard, task, invocation, trouble);
                }
                CallOutcome::Refused(_, text)
                | CallOutcome::NotSent(text)
                | CallOutcome::Unknown(text) => {
                    let trouble = Some((StartTrouble::Refused, &*text));
                    self.never_started(now, shard, task, invocation, trouble);
                }
            }
        }
        self.evaluate(now, shard);
    }

    /// Undoes a start that certainly did not happen. A refusal is no run: it has no status and consumes no step of the backoff.
    fn never_started(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        invocation: InvocationId,
        trouble: Option<(StartTrouble, &str)>,
    ) {
        self.orphans_mut().forget((task, invocation));
        // The task's own backoff was over. But another run of the task may have been adopted meanwhile, and have ended or been lost.
        let floor = self.tasks().floors().until(now, task);
        let not_before = floor.max(self.tasks().wait_beside(task));
        let restart = match self.tasks().is_pending(task) {
            true => Restart::HeldUntilReleased,
            false => Restart::AtOnce,
        };
        self.tasks_mut().end(now, task, invocation, None);
        // The worker's busy mark prevents an immediate retry on that worker.
        self.engine_mut()
            .never_began(now, task, not_before, restart);
        self.promote(task);
        self.relieve(now, shard, invocation);
        if let Some(remote) = self.workers_mut().get_mut(shard) {
            remote.mark_busy(now);
        }
        if let Some((trouble, why)) = trouble {
            self.note_start_problem(now, shard, task, trouble, why);
        }
    }

    fn note_start_problem(
        &mut self,
        now: Time,
        shard: &Shard,
        task: Task,
        trouble: StartTrouble,
        why: &str,
    ) {
        let of = (shard, self.task_key(task));
        let problems = self.tasks_mut().problems_mut();
        let news = problems.note_start(now, of, trouble, why);
        self.note_problem_news(news);
    }

    /// Handles an `updateStatus` call.
    pub(crate) fn update_status(&mut self, now: Time, request: RequestId, update: &StatusUpdate) {
        match self.accept_status(now, update) {
            Ok(after) => {
                let reply = Reply::UpdateStatus(Ok(()));
                let held = HeldReply::Status(update.invocation);
                self.reply_after(now, (request, after), reply, held);
            }
            Err(rejection) => self.reply(request, Reply::UpdateStatus(Err(rejection))),
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
                remote.healthcheck_done(now, update.invocation);
            } else {
                let why = update.status.exception();
                remote.healthcheck_failed(now, update.invocation, why);
            }
            self.evaluate(now, &update.shard);
            return Ok(None);
        }
        if remote.health() == Health::New && !sabotage::on(Sabotage::AcceptStatusInNew) {
            return Err(Rejection::StillNew);
        }
        if update.job.as_str().is_empty() {
            return Err(Rejection::EmptyName("updateStatus.running_task.job"));
        }
        if let Some(why) = self.store_error() {
            // While the store fails, accepted statuses would only fill memory, and their pending replies would exhaust the capacity for
            // calls. The worker keeps the status.
            let why = why.to_owned();
            return Err(Rejection::StoreFails { why });
        }
        self.end_reported(now, update)
    }

    /// Handles a completion that a worker reports. Returns the record that the acknowledgement waits for. An acknowledged report is stored
    /// or has no effect; any other report is refused, and the worker keeps it.
    fn end_reported(
        &mut self,
        now: Time,
        update: &StatusUpdate,
    ) -> Result<Option<RecordSeq>, Rejection> {
        let job = self.engine().find_job(update.job.as_str());
        let node = self.engine().find_node(update.node.as_str());
        let (Some(job), Some(node)) = (job, node) else {
            return unknown_run(update);
        };
        let task = Task { job, node };
        let reported = self.tasks().find(task, update.invocation);
        if reported.is_none() && self.tasks().is_forgotten(task, update.invocation) {
            // The completion was accepted before it was deleted, or a deleted one superseded it.
            return Ok(self.tasks().pending_record(task));
        }
        match reported.or_else(|| self.tasks().run(task)) {
            Some(run) if run.invocation == update.invocation && run.shard == update.shard => {
                self.had_cards(&update.shard, update.invocation, &update.gpus);
                // Freed slots may start other tasks in this turn.
                let end = (update.invocation, &update.status);
                Ok(self.end_as(now, task, key_of(update), end, update.story.clone()))
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
        self.is_dead(task, update);
        let ended = self.tasks().ended(task);
        let is_final = |s: &StoredStatus| s.is_done() && !s.is_overwriteable();
        if ended.is_some()
            && self
                .engine()
                .previous_status(task)
                .as_ref()
                .is_some_and(is_final)
        {
            // The stored status is final, so this report changes nothing.
            return Ok(self.tasks().pending_record(task));
        }
        if ended < Some(update.invocation) {
            return unknown_run(update);
        }
        let is_untaken = if ended == Some(update.invocation) {
            self.is_provisional(task)
        } else {
            // An accepted `done` would have kept the task from running again.
            update.status.is_done()
        };
        if is_untaken && !update.status.is_overwriteable() {
            return Err(Rejection::Superseded {
                run: run_text(update),
            });
        }
        Ok(self.tasks().pending_record(task))
    }

    /// Removes the floor of a lost run that has reported its own completion. Other lost runs may still be alive.
    fn is_dead(&mut self, task: Task, update: &StatusUpdate) {
        if !update.status.is_overwriteable() && self.tasks().ended(task) >= Some(update.invocation)
        {
            let floors = self.tasks_mut().floors_mut();
            floors.over(task, update.invocation);
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
        self.is_dead(task, update);
        let ended = self.tasks().ended(task);
        let is_done = |s: &StoredStatus| s.is_done() && !s.is_overwriteable();
        if ended.is_some()
            && self
                .engine()
                .previous_status(task)
                .as_ref()
                .is_some_and(is_done)
        {
            return Ok(self.tasks().pending_record(task));
        }
        // Runs of a task are ordered, so no completion of a later run was ever accepted, and this report is no repeat.
        if ended < Some(update.invocation) {
            return unknown_run(update);
        }
        // A `done` of an earlier run that counted as lost is accepted, too.
        let is_same =
            ended == Some(update.invocation) || sabotage::on(Sabotage::AnyRunReplacesProvisional);
        let is_news = if is_same {
            self.is_provisional(task)
        } else {
            update.status.is_done()
        };
        if !is_news || update.status.is_overwriteable() {
            return Ok(self.tasks().pending_record(task));
        }
        if sabotage::on(Sabotage::AnyRunReplacesProvisional)
            && let Some(ended) = ended
        {
            self.tasks_mut().floors_mut().over(task, ended);
        }
        let end = (update.invocation, &update.status);
        let (invocation, status) = self.closing_status(now, task, end, update.next_backoff);
        let kept = kept(update.story.clone(), &update.shard, None);
        let kept = kept.filter(|_| invocation == update.invocation);
        let seq = self.record_end(key_of(update), (invocation, &status), kept);
        let not_before = self.not_before(now, &status);
        self.tasks_mut().end(now, task, invocation, Some(seq));
        self.engine_mut()
            .restate(now, task, status, not_before, Restart::HeldUntilReleased);
        Ok(Some(seq))
    }

    /// Ends a run of the task with the status that its worker reports.
    pub(super) fn end_as(
        &mut self,
        now: Time,
        task: Task,
        key: TaskKey,
        end: (InvocationId, &ReportedStatus),
        story: Option<Arc<Story>>,
    ) -> Option<RecordSeq> {
        self.learn(task.job, end.1, story.as_deref());
        let run = self.tasks().find(task, end.0)?;
        let (next_backoff, shard) = (run.next_backoff, run.shard.clone());
        let kept = kept(story.clone(), &shard, run.queued);
        self.note_how_it_began(now, &shard, task, story.as_deref());
        self.tasks_mut().floors_mut().over(task, end.0);
        let (of, status) = self.closing_status(now, task, end, next_backoff);
        // A story is stored only with the completion of its own run.
        let kept = kept.filter(|_| of == end.0);
        let seq = self.record_end(key, (of, &status), kept);
        self.end_run(now, (task, end.0), (of, status), seq);
        Some(seq)
    }

    /// Notes a problem if the task got no process, because `brasserie logs` shows nothing then. A process clears the job's problems.
    fn note_how_it_began(&mut self, now: Time, shard: &Shard, task: Task, story: Option<&Story>) {
        let Some(Story { ending, fault, .. }) = story else {
            return;
        };
        match ending {
            Ending::NotStarted(_) if *fault == Fault::Nobody => {}
            Ending::NotStarted(why) => {
                self.note_start_problem(now, shard, task, StartTrouble::Failed, why);
            }
            Ending::Exited(_) | Ending::Signalled(_) | Ending::Unknown => {
                let job = self.engine().job_name(task.job).clone();
                self.tasks_mut().problems_mut().has_run(shard, &job);
            }
        }
    }

    /// Returns whether the stored status is "lost" or "was not running", which only a completion of the same run replaces.
    pub(super) fn is_provisional(&self, task: Task) -> bool {
        self.engine()
            .previous_status(task)
            .is_some_and(|status| status.is_overwriteable())
    }

    /// Returns the status to store after a run has ended with `reported`, and the run to store it for.
    ///
    /// A run that is earlier than the stored completion was already reported or abandoned, and only its worker did not know. Its status
    /// replaces a later one only if it is DONE, and nothing replaces DONE. The status is stored as the completion of the latest completed
    /// run, so that its deletion covers all runs. The stored wait covers every run of the task that may be alive.
    pub(crate) fn closing_status(
        &self,
        now: Time,
        task: Task,
        (invocation, reported): (InvocationId, &ReportedStatus),
        next_backoff: BackoffDuration,
    ) -> (InvocationId, StoredStatus) {
        let old = self.engine().previous_status(task);
        let old = old.as_ref();
        let floor = self.tasks().floors().seconds(now, task);
        let mut of = invocation;
        if let (Some(ended), Some(old)) = (self.tasks().ended(task), old)
            && ended != invocation
            && !sabotage::on(Sabotage::AnyRunReplacesProvisional)
        {
            of = of.max(ended);
            let is_final = old.is_done() && !old.is_overwriteable();
            if is_final || (invocation < ended && !reported.is_done()) {
                return (of, old.clone().waiting_at_least(floor));
            }
        }
        let status = StoredStatus::after(old, reported, next_backoff, self.wall());
        (of, status.waiting_at_least(floor))
    }

    /// Returns when a task with this status may start again; `None` if it may not.
    pub(crate) fn not_before(&self, now: Time, status: &StoredStatus) -> Option<Time> {
        if status.is_done() || status.is_failed() {
            return None;
        }
        Some(if status.uses_backoff() || status.safety_seconds > 0 {
            now + Duration::from_secs(u64::from(status.backoff_seconds))
        } else {
            let config = self.engine().config();
            now + config.map_or(WORKING_WAIT, |config| config.working_wait)
        })
    }

    fn record_end(
        &mut self,
        key: TaskKey,
        (invocation, status): (InvocationId, &StoredStatus),
        story: Option<Box<KeptStory>>,
    ) -> RecordSeq {
        self.persist(Record::TaskEnded(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status: status.clone(),
            story,
        }))
    }

    /// Kills a running task for an operator, by the method of the task's job.
    pub(crate) fn kill_task(
        &mut self,
        now: Time,
        (request, from): (RequestId, Principal),
        key: TaskKey,
    ) {
        let (task, invocation, shard) = match self.find_run(&key) {
            Ok(found) => found,
            Err(why) => {
                let rejection = Rejection::NotRunning(why);
                return self.reply(request, Reply::KillTask(Err(rejection)));
            }
        };
        let job = self.engine().job_config(task.job);
        let killed = KilledTask {
            shard: shard.clone(),
            invocation,
            request: self.kill_request(task.job),
            held: job.is_some_and(|job| job.hold.is_some()),
            unwanted: self.why_never_again(task),
            wait_seconds: self.wait_after_kill(now, task, invocation),
        };
        let kill = Kill {
            request: killed.request,
            by: EndedBy::Operator,
        };
        let Some(remote) = self.workers().get(&shard) else {
            let rejection = Rejection::UnknownShard {
                shard: shard.as_str().to_owned(),
            };
            return self.reply(request, Reply::KillTask(Err(rejection)));
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let what = format!(
            "requested a kill of {} on {} on worker `{shard}`",
            key.job, key.node
        );
        self.note_asked(from, what);
        self.call(
            now,
            peer,
            Call::KillTask {
                worker,
                task,
                invocation,
                kill,
            },
            Purpose::Kill {
                request,
                killed: Box::new(killed),
            },
        );
    }

    /// Returns how many seconds the task waits after this run if the run counts as incomplete.
    fn wait_after_kill(&self, now: Time, task: Task, invocation: InvocationId) -> u32 {
        let run = self.tasks().run(task);
        let next_backoff = run.map(|run| run.next_backoff).unwrap_or_default();
        let incomplete = ReportedStatus::incomplete_backoff("");
        let end = (invocation, &incomplete);
        let (_, status) = self.closing_status(now, task, end, next_backoff);
        status.backoff_seconds
    }

    /// Returns how runs of the job are killed: by its own method, or by that of the settings if the job is not configured.
    pub(crate) fn kill_request(&self, job: JobId) -> KillRequest {
        let engine = self.engine();
        let config = engine.config().map(|config| &**config);
        kill_request(config, engine.job_config(job))
    }

    fn find_run(&self, key: &TaskKey) -> Result<(Task, InvocationId, Shard), String> {
        let TaskKey { job, node } = key;
        let task = self.find_task(job.as_str(), node.as_str());
        let task = task.map_err(|unknown| {
            format!("{unknown}: `brasserie task list --state running` lists running tasks")
        })?;
        match self.tasks().run(task) {
            Some(run) => Ok((task, run.invocation, run.shard.clone())),
            None => Err(format!(
                "{job} on {node} does not run; `brasserie explain {job} {node}` says why"
            )),
        }
    }
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
