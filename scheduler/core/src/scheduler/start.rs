//! Starts of tasks: their placement in each turn, the calls that start them, and the outcomes of these calls.

use std::time::Duration;

use brasserie_common::ids::InstanceId;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::{
    CallOutcome, Fence, InvocationId, RefusalCode, ReportedStatus, Shard, Time, WallTime, WorkerId,
};
use brasserie_scheduler_engine::{
    Advice, Due, Engine, Judged, NearWorker, Placement, Task, Tries, WorkerIndex,
};

use super::artifacts::{RunOrigin, outputs_since};
use super::inputs::{Inputs, InputsCheck, TRY_FOR_EACH};
use super::{Scheduler, View, task_key};
use crate::artifacts::Artifacts;
use crate::calls::{CallDraft, CallPurpose, CallReply};
use crate::jobs::Jobs;
use crate::news::News;
use crate::notices::StartTrouble;
use crate::pool::Pool;
use crate::pool::remote::Remote;
use crate::runs::{Run, RunState};

/// The most placements of one turn: enough to fill a large pool quickly, and few enough that a turn takes milliseconds and does not delay
/// heartbeats.
const MAX_STARTS_PER_TURN: usize = 256;

/// The most failed attempts of one turn, counting tasks that are tried in vain and checks of workers' deadlines, each by the length of its
/// simulation. At a few microseconds each they take no longer than a turn's starts. A new node table may cause millions of attempts.
const MAX_TRIES_PER_TURN: u32 = 1000;

/// The time of one try at most. The tries of a turn take 20 ms at most, and one task with the most inputs uses them up.
const TIME_OF_TRY: Duration = Duration::from_micros(20);

/// The inputs of a task that cost one try.
const INPUTS_PER_TRY: usize = (TIME_OF_TRY.as_micros() / TRY_FOR_EACH.as_micros()) as usize;

/// The components that know the work of each worker, and which ones hold inputs.
struct PlacementAdvice<'a> {
    now: Time,
    pool: &'a mut Pool,
    artifacts: &'a Artifacts,
    jobs: &'a Jobs,
}

impl Advice for PlacementAdvice<'_> {
    fn judge(&mut self, worker: WorkerIndex, due: Due) -> Judged {
        self.pool.keeps_deadlines(self.now, worker, due)
    }

    fn nearest(&mut self, engine: &Engine, task: Task) -> (Vec<NearWorker>, u32) {
        let (near, inputs) = self.inputs(engine).nearest(task);
        let near = near.into_iter();
        let workers = near.flat_map(|(lock, bytes)| {
            let indices = self.pool.with_lock(&lock).map(Remote::index);
            let near = indices.map(|worker| NearWorker { worker, bytes });
            near.collect::<Vec<NearWorker>>()
        });
        let tries = inputs / INPUTS_PER_TRY;
        (workers.collect(), u32::try_from(tries).unwrap_or(u32::MAX))
    }

    fn has_inputs(&mut self, engine: &Engine, task: Task) -> bool {
        self.inputs(engine).are_there(task)
    }
}

impl PlacementAdvice<'_> {
    fn inputs<'a>(&'a self, engine: &'a Engine) -> Inputs<'a> {
        Inputs {
            engine,
            artifacts: self.artifacts,
            jobs: self.jobs,
            pool: self.pool,
        }
    }
}

impl Scheduler {
    /// Returns the next task to start and its worker, such that all tasks of the worker keep their deadlines. `None` also if no tries are
    /// left.
    pub(super) fn place(&mut self, now: Time, tries: &mut Tries) -> Option<Placement> {
        let mut advice = PlacementAdvice {
            now,
            pool: &mut self.pool,
            artifacts: &self.artifacts,
            jobs: &self.jobs,
        };
        self.engine.place_within(now, tries, &mut advice)
    }

    /// Starts tasks. Called once a turn, after everything else.
    pub(super) fn start_tasks(&mut self, now: Time) {
        self.more_to_place = false;
        self.pass_on_space(now);
        if !self.view().why_nothing_starts(now).is_empty() {
            return;
        }
        let mut tries = Tries::new(MAX_TRIES_PER_TURN);
        for _ in 0..MAX_STARTS_PER_TURN {
            if !self.view().may_issue_fences() {
                return;
            }
            match self.place(now, &mut tries) {
                Some(placement) => self.start(now, placement),
                None => {
                    self.more_to_place = !tries.are_left();
                    return;
                }
            }
        }
        self.more_to_place = true;
    }

    /// Starts a placed task. The engine has marked the task running; everything else is marked here before the call leaves.
    pub(super) fn start(&mut self, now: Time, placement: Placement) {
        let Placement {
            task,
            worker: index,
        } = placement;
        let invocation = self.new_invocation(task);
        let shard = self
            .pool
            .shard_of(index)
            .cloned()
            .expect("Invariant: the engine places on announced workers");
        let inputs = self.check_inputs(now, (task, invocation), &shard);
        let remote = self
            .pool
            .get_mut(&shard)
            .expect("Invariant: an announced worker stays in the pool");
        // A call leaves, and the worker's credit is spent, only if the inputs are there.
        let leaves = matches!(inputs, InputsCheck::Present);
        if leaves {
            remote.start_sent();
        }
        if sabotage::on(Sabotage::RecordAtFirstTask) {
            let record = remote.association();
            self.outbox.persist(record);
        }
        let run = Run {
            invocation,
            shard: shard.clone(),
            next_backoff: self.engine.next_backoff(task),
            kill_wait: self.options.timeouts.suicide_task_kill_wait,
            since: now,
            confirmed: None,
            outputs_since: outputs_since(now, RunOrigin::Started, self.engine.job_config(task.job)),
            queued: self.view().queued(now, task),
            sent_for: match leaves {
                true => self.credit().spend(now, &shard, (task, invocation)),
                false => None,
            },
            fence: self.issue_fence(),
            state: RunState::Starting,
            start_failure: None,
        };
        self.runs.begin(task, run);
        match inputs {
            InputsCheck::Present => {}
            InputsCheck::Lacking { again, why } => {
                return self.give_up_start(now, &shard, (task, invocation), (again, why));
            }
            InputsCheck::Final(status) => {
                return self.fail_start(now, &shard, (task, invocation), &status);
            }
        }
        self.reserve_for_run(now, (&shard, invocation), task);
        self.note_run_again(task, &shard);
        self.send_start(now, &shard, task, invocation);
        if sabotage::on(Sabotage::MarkRunningAfterSending) {
            let trouble = Some((StartTrouble::Refused, ""));
            self.never_started(now, &shard, task, invocation, trouble);
        }
        self.evaluate(now, &shard);
    }

    fn note_run_again(&mut self, task: Task, on: &Shard) {
        let status = self.engine.previous_status(task);
        let ran = |status: &StoredStatus| status.is_overwriteable() && !status.was_taken_back();
        if let Some(status) = status.filter(ran) {
            self.notices.news(News::RunsAgain {
                task: task_key(&self.engine, task),
                on: on.clone(),
                before: status.lost_on().map(str::to_owned),
                status: status.to_string(),
            });
        }
    }

    /// Sends the call that starts a run. Called once for each run.
    fn send_start(&mut self, now: Time, shard: &Shard, task: Task, invocation: InvocationId) {
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let call = CallDraft::RunTask {
            worker,
            index: remote.index(),
            task,
            invocation,
            sequence: remote.sequence(),
        };
        let purpose = CallPurpose::Start {
            shard: shard.clone(),
            worker,
            task,
            invocation,
        };
        self.call(now, peer, call, purpose);
    }

    /// Draws an invocation for the task. It is later than the invocation of the task's stored or last deleted completion, even if the wall
    /// clock went back. So the order of two runs is known when a worker reports both.
    pub(super) fn new_invocation(&mut self, task: Task) -> InvocationId {
        let drawn = InvocationId(InstanceId {
            start_time: self.wall.as_secs(),
            rand: self.invocation_ids.next_i64(),
        });
        match self.runs.last_ended(task) {
            Some(last) if drawn <= last => InvocationId(InstanceId {
                start_time: last.0.start_time.saturating_add(1),
                ..drawn.0
            }),
            Some(_) | None => drawn,
        }
    }

    pub(super) fn start_completed(
        &mut self,
        now: Time,
        (shard, worker): (&Shard, WorkerId),
        task: Task,
        invocation: InvocationId,
        outcome: CallOutcome<CallReply>,
    ) {
        // A successor on the shard has calls of its own.
        if let Some(remote) = self.pool.instance_mut(shard, worker) {
            remote.start_settled();
        }
        let is_starting = |run: &Run| run.state == RunState::Starting;
        if self.runs.find(task, invocation).is_some_and(is_starting) {
            match outcome {
                CallOutcome::Done(reply) => {
                    self.runs.confirm(now, task, invocation);
                    if let CallReply::Accepted { queued_at } = reply {
                        self.engine.note_standby(now, task, queued_at);
                    }
                    let job = self.engine.job_name(task.job).clone();
                    self.notices.start_accepted(shard, &job);
                }
                CallOutcome::Unknown(_) if sabotage::on(Sabotage::RetrySentInvocation) => {
                    self.send_start(now, shard, task, invocation);
                }
                // The call may have arrived twice, and the refusal may answer the repetition.
                CallOutcome::Unknown(why) | CallOutcome::Refused(RefusalCode::Duplicate, why)
                    if !sabotage::on(Sabotage::UnknownIsFailure) =>
                {
                    self.runs.make_unsure(task, invocation, Some(why.into()));
                }
                // This is no problem: the worker obeys a request to drain, and a heartbeat that says so, or its goodbye, is on its way.
                CallOutcome::Refused(RefusalCode::Draining, _) => {
                    self.never_started(now, shard, task, invocation, None);
                }
                CallOutcome::Refused(RefusalCode::Busy, text) => {
                    self.credit().refund(now, shard, (task, invocation));
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
        self.orphans.forget((task, invocation));
        self.artifacts.unpin(now, invocation);
        self.ledger().never_began(now, (task, invocation), None);
        // The worker's busy mark prevents an immediate retry on that worker.
        self.credit().relieve(now, shard, invocation);
        if let Some(remote) = self.pool.get_mut(shard) {
            remote.mark_busy(now);
        }
        if let Some((trouble, why)) = trouble {
            let of = (shard, task_key(&self.engine, task));
            self.notices.start_problem(now, of, trouble, why);
        }
    }

    /// Undoes a start of which no call has left, because the task cannot have its inputs. It is tried again a while later.
    fn give_up_start(
        &mut self,
        now: Time,
        shard: &Shard,
        run: (Task, InvocationId),
        (again, problem): (Duration, Option<(String, String)>),
    ) {
        self.ledger().never_began(now, run, Some(now + again));
        if let Some((cause, why)) = problem {
            let task = task_key(&self.engine, run.0);
            self.notices.lacking_input(now, task, (cause, &why));
        }
        self.evaluate(now, shard);
    }

    /// Ends a run of which no call has left, because the task can never have its inputs.
    fn fail_start(
        &mut self,
        now: Time,
        shard: &Shard,
        (task, invocation): (Task, InvocationId),
        status: &ReportedStatus,
    ) {
        let key = task_key(&self.engine, task);
        self.end_as(now, task, key, (invocation, status), (None, Vec::new()));
        self.evaluate(now, shard);
    }

    /// Issues the fence of a run that starts now, or `None` when all are used up.
    fn issue_fence(&mut self) -> Option<Fence> {
        let upcoming = self.outbox.next_record();
        let (fence, raised) = self.fences.issue(upcoming);
        if let Some(raised) = raised {
            self.outbox.persist(raised);
        }
        fence
    }
}

impl View<'_> {
    /// Returns how long the task has been ready, by its last completion, the completions for which it waited on its node, and the changes
    /// of its job and of the nodes, and at least as long as it has waited for a worker near its inputs. Returns `None` if one is unknown: if the
    /// task has no completion any more, or waited for whole jobs.
    pub(super) fn queued(&self, now: Time, task: Task) -> Option<Duration> {
        let job = self.engine.job_config(task.job)?;
        let previous = self.engine.previous_status(task);
        let was_forgotten = previous.is_none() && self.runs.last_deleted(task).is_some();
        if was_forgotten || !job.run_only_after_all_nodes_are_done_for.is_empty() {
            return None;
        }
        let changed = WallTime::from_secs(job.modify_time);
        let over = previous.map(|status| {
            let wait = status.backoff_seconds.max(status.safety_seconds);
            status.time + Duration::from_secs(u64::from(wait))
        });
        let waited_for = job.depends_on.iter().filter_map(|on| {
            let (job, node) = (self.engine.find_job(on.as_str())?, task.node);
            let status = self.engine.previous_status(Task { job, node })?;
            Some(status.time)
        });
        let since = waited_for.max().max(over).max(Some(changed));
        let since = since.max(self.configured_since.get(&task.job).copied());
        let since = since.max(Some(self.nodes.since()?))?;
        let queued = self.wall.as_millis().checked_sub(since.as_millis())?;
        let queued = Duration::from_millis(u64::try_from(queued).unwrap_or(0));
        let near = self.engine.locality_wait_began(task);
        Some(queued.max(near.map(|began| now.since(began)).unwrap_or_default()))
    }

    /// Returns whether the current generation of fences is durable.
    fn may_issue_fences(&self) -> bool {
        self.outbox.is_persisted(self.fences.recorded())
    }
}
