//! Departure of instances that are lost, replaced or say goodbye, and the loss of their tasks.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::health::timeouts::whole_secs;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::status::StoredStatus;
use brasserie_common::{
    Health, InvocationId, RecordSeq, ReportedStatus, Shard, Story, Time, Timeouts,
    WorkerDescription, WorkerId,
};
use brasserie_scheduler_engine::{Eligibility, Restart, Task};

use super::remote::{Left, OwnTimers, Remote};
use crate::news::{KnownWorker, LostTasks, MAX_NAMED_TASKS, News};
use crate::record::{EndedTask, KeptStory, LeftCause, LeftInstance, Record};
use crate::scheduler::Scheduler;
use crate::tasks::Lost;

impl Scheduler {
    /// Loses the earlier holders of the successor's machine lock. One instance holds a machine lock at a time. So an earlier holder is dead
    /// with all its processes, whatever its shard, and even if this scheduler has never met it. Of two instances that began in one second,
    /// the last one to arrive wins, as on one shard. A later holder would have caused the refusal of the successor.
    pub(super) fn bury_predecessors(&mut self, now: Time, successor: &WorkerDescription) {
        let why = replaced_by(successor);
        let is_predecessor = |id: WorkerId, lock: &brasserie_common::MachinePortLock| {
            *lock == successor.machine_lock && id.0.start_time < successor.id.0.start_time
        };
        let associated: Vec<Shard> = self
            .workers()
            .with_lock(&successor.machine_lock)
            .filter(|w| w.id() != successor.id && w.health() != Health::MustDie)
            .map(|w| w.shard().clone())
            .collect();
        for shard in associated {
            let twin = self.workers().get(&shard);
            let twin = twin.filter(|w| w.id().0.start_time == successor.id.0.start_time);
            match twin.map(|w| w.timers_from(now)) {
                // Either may be the other's successor, as on one shard, so this one may be alive.
                Some(timers) => {
                    self.request_suicide(now, &shard, &why);
                    let why = Arc::clone(&why);
                    self.lose_with(now, &shard, (LeftCause::Replaced, why), Some(timers));
                }
                None => {
                    self.lose(now, &shard, LeftCause::Replaced, Arc::clone(&why));
                }
            }
        }
        for worker in self
            .initial_wait()
            .expected_where(|id, instance| is_predecessor(id, &instance.machine_lock))
        {
            self.bury_expected(worker, LeftCause::Replaced);
        }
    }

    /// Loses the instance of a shard, which can run tasks no longer, or none after the usual safety backoff. Returns the record of the
    /// loss, unless the instance was lost before.
    pub(crate) fn lose(
        &mut self,
        now: Time,
        shard: &Shard,
        cause: LeftCause,
        why: Arc<str>,
    ) -> Option<RecordSeq> {
        self.lose_with(now, shard, (cause, why), None)
    }

    /// Loses the worker. `why` is for the log. `timers` are the ones by which the worker may still live; its tasks wait until they run out.
    pub(super) fn lose_with(
        &mut self,
        now: Time,
        shard: &Shard,
        (cause, why): (LeftCause, Arc<str>),
        timers: Option<OwnTimers>,
    ) -> Option<RecordSeq> {
        let timers = timers.or_else(|| self.timers_of_the_deaf(shard, cause));
        let remote = self.workers_mut().get_mut(shard)?;
        if remote.health() == Health::MustDie {
            return None;
        }
        let (worker, index, longest) = (remote.id(), remote.index(), remote.timeouts());
        let known = remote.known();
        // The worker's tasks were never fetched, so any task might run there, unless the worker has never known a scheduler.
        let runs_unknown =
            remote.health() == Health::New && remote.knew_a_scheduler() && cause == LeftCause::Lost;
        remote.must_die(now);
        // Credits are cleared before verdicts are fixed, so that the answer says that the request was not evaluated.
        remote.credits.clear();
        if cause == LeftCause::CleanExit {
            remote.note_goodbye();
        }
        self.workers_mut().wake_at(shard, None);
        // The worker's own timers have ended it by then, whatever made it leave. It has no completion to report any more, and its tasks may
        // have run elsewhere, so the shard's facts are useless. That the instance has left is remembered for longer.
        let forgotten_at = now + longest.longest(&self.options().timeouts).min_safe_wait();
        let wall = self.wall();
        self.workers_mut().leave_set(worker, forgotten_at, wall);
        self.engine_mut().set_eligibility(index, Eligibility::Gone);
        // The runs are handled one after the other, because the status of a task's earlier run affects that of its later one.
        let upcoming = self.next_record();
        let mut ended: Vec<EndedTask> = Vec::new();
        let runs = self.tasks().on_shard(shard);
        for &(task, invocation) in &runs {
            let run = (task, invocation);
            if let Some(lost) = self.lose_task(now, run, shard, cause, timers) {
                self.end_run(now, run, (lost.invocation, lost.status.clone()), upcoming);
                ended.push(lost);
            }
        }
        let hold_back = if runs_unknown && !sabotage::on(Sabotage::NoHoldBack) {
            self.lost_task_safety(now, longest.suicide_task_kill_wait, timers)
        } else {
            Duration::ZERO
        };
        let lost = self.lost_tasks(&ended);
        let is_apart = |_: &mut EndedTask| sabotage::on(Sabotage::LeaveRecordBeforeBackoff);
        let apart: Vec<EndedTask> = ended.extract_if(.., is_apart).collect();
        let seq = self.persist(Record::WorkerLeft {
            worker,
            cause,
            wall,
            tasks: ended,
            hold_back,
        });
        for task in apart {
            self.persist(Record::TaskEnded(task));
        }
        assert_eq!(
            seq, upcoming,
            "Invariant: ending a run on a shard that is lost records nothing"
        );
        if let Some(remote) = self.workers_mut().get_mut(shard) {
            remote.left = Some(Left {
                at: now,
                heard_at: None,
                runs,
                why: Arc::clone(&why),
            });
        }
        self.note_left(known, (cause, why), lost, hold_back);
        self.initial_wait_mut().hold_back(now, worker, hold_back);
        self.initial_wait_mut().returned(worker);
        Some(seq)
    }

    fn note_left(
        &mut self,
        worker: KnownWorker,
        (cause, why): (LeftCause, Arc<str>),
        lost: LostTasks,
        hold_back: Duration,
    ) {
        // The operator's declaration is already in the news.
        if cause != LeftCause::Forgotten {
            self.note_news(News::Left {
                worker,
                cause,
                why,
                lost,
                hold_back,
            });
        }
    }

    fn lost_tasks(&self, ended: &[EndedTask]) -> LostTasks {
        let named = ended.iter().take(MAX_NAMED_TASKS);
        let waits = ended.iter().map(|end| end.status.safety_seconds);
        LostTasks {
            count: ended.len(),
            named: named.map(EndedTask::key).collect(),
            wait: Duration::from_secs(waits.max().unwrap_or_default().into()),
        }
    }

    /// Forgets dead workers that are past their time.
    pub(crate) fn forget_the_dead(&mut self, now: Time) {
        while let Some(index) = self.workers_mut().forget_dead(now) {
            self.engine_mut().remove_worker(index);
        }
    }

    /// Returns the timers of an instance that never showed that it received this scheduler's answers. It may believe in its health by an
    /// earlier scheduler's answer for one gap after this scheduler's clock began, and then use that scheduler's longer timeouts. So its own
    /// timers end it later.
    fn timers_of_the_deaf(&self, shard: &Shard, cause: LeftCause) -> Option<OwnTimers> {
        self.workers()
            .get(shard)
            .filter(|_| cause == LeftCause::Lost)
            .and_then(Remote::timers_before_ours)
    }

    /// Handles the goodbye of an instance that holds no shard here: nothing needs to wait for it any more.
    pub(super) fn goodbye_of_a_stranger(&mut self, worker: WorkerId) -> Option<RecordSeq> {
        self.workers_mut().note_left(worker, None);
        if !self.initial_wait().expects(worker) {
            return None;
        }
        Some(self.bury_expected(worker, LeftCause::CleanExit))
    }

    /// Loses a recorded instance that holds no shard.
    pub(super) fn bury_expected(&mut self, worker: WorkerId, cause: LeftCause) -> RecordSeq {
        let is_forgotten = cause == LeftCause::Forgotten;
        let wall = self.wall();
        let recorded = self.initial_wait().recorded(worker);
        let left = recorded.map(|instance| LeftInstance {
            shard: instance.shard.clone(),
            wall,
        });
        if let Some(known) = recorded.map(|instance| KnownWorker::of(worker, instance)) {
            let why = "a later worker instance has its data directory".into();
            self.note_left(known, (cause, why), LostTasks::default(), Duration::ZERO);
        }
        self.initial_wait_mut().returned(worker);
        if !(is_forgotten && sabotage::on(Sabotage::TakeBackTheForgotten)) {
            self.workers_mut().note_left(worker, left);
        }
        if is_forgotten && sabotage::on(Sabotage::ForgetInMemory) {
            return self.last_record();
        }
        self.persist(Record::WorkerLeft {
            worker,
            cause,
            wall,
            tasks: Vec::new(),
            hold_back: Duration::ZERO,
        })
    }

    /// Loses a run on a lost worker, and sets its floor. Returns the task's status.
    fn lose_task(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        shard: &Shard,
        cause: LeftCause,
        timers: Option<OwnTimers>,
    ) -> Option<EndedTask> {
        let run = self.tasks().find(task, invocation)?;
        let (text, safety) = match cause {
            LeftCause::CleanExit => (
                "its worker has exited, with all its processes",
                Duration::ZERO,
            ),
            LeftCause::Lost => (
                "its worker was lost",
                self.lost_task_safety(now, run.kill_wait, timers),
            ),
            LeftCause::Replaced => (
                "its worker was replaced by a new instance",
                self.lost_task_safety(now, run.kill_wait, timers),
            ),
            LeftCause::DidNotReturn => ("its worker did not return", Duration::ZERO),
            LeftCause::Forgotten => (
                "an operator has declared its worker dead (`brasserie worker forget`)",
                Duration::ZERO,
            ),
        };
        let reported = ReportedStatus::worker_lost(shard, text, run.next_backoff);
        let next_backoff = run.next_backoff;
        let story = KeptStory {
            story: Story::lost(now.since(run.since)),
            shard: shard.clone(),
            queued: run.queued,
        };
        let floors = self.tasks_mut().floors_mut();
        match safety.is_zero() {
            true => floors.over(task, invocation),
            false => floors.raise(task, Lost::Run(invocation), now + safety),
        }
        let end = (invocation, &reported);
        let (of, status) = self.closing_status(now, task, end, next_backoff);
        let key = self.task_key(task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation: of,
            status,
            story: (of == invocation).then(|| Box::new(story)),
        })
    }

    /// Returns the safety wait of a lost task, counted from `now`.
    fn lost_task_safety(
        &self,
        now: Time,
        kill_wait: Duration,
        timers: Option<OwnTimers>,
    ) -> Duration {
        if sabotage::on(Sabotage::RestartLostAtConfiguredBackoff) {
            return Duration::ZERO;
        }
        let usual = self.options().timeouts.lost_task_min_backoff(kill_wait);
        let until_its_timers_ended_it = timers.map(|timers| {
            let suicide_task_kill_wait = timers.timeouts.suicide_task_kill_wait.max(kill_wait);
            let wait = Timeouts {
                suicide_task_kill_wait,
                ..timers.timeouts
            }
            .min_safe_wait();
            // Whole seconds, as they are stored, rounded up so that no wait gets shorter.
            whole_secs((timers.evidence_until + wait).since(now))
        });
        usual.max(until_its_timers_ended_it.unwrap_or_default())
    }

    /// Ends a run in every table. The task starts again no earlier than its status permits and its record is durable, and not while another
    /// run of it is known. `of` is the run whose completion is stored.
    pub(crate) fn end_run(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        (of, status): (InvocationId, StoredStatus),
        seq: RecordSeq,
    ) {
        self.orphans_mut().forget((task, invocation));
        let not_before = self.not_before(now, &status);
        let not_before = not_before.map(|at| match status.safety_seconds {
            1.. if sabotage::on(Sabotage::IgnoreSafetyBackoff) => now,
            _ => at,
        });
        if status.is_failed() {
            let (task, status) = (self.task_key(task), status.to_string());
            self.note_news(News::Failed { task, status });
        }
        let is_of_the_task = !status.is_incomplete_backoff() && !status.is_overwriteable();
        let shard = self.tasks().find(task, invocation);
        let shard = shard.map(|run| run.shard.clone());
        let is_beside = self
            .tasks()
            .run(task)
            .is_some_and(|run| run.invocation != invocation);
        if is_beside {
            self.end_beside((task, invocation), of, seq, not_before);
            self.engine_mut().note_status(task, status);
        } else {
            self.tasks_mut().end(now, task, of, Some(seq));
            let restart = Restart::HeldUntilReleased;
            self.engine_mut()
                .end(now, task, status, not_before, restart);
            self.promote(task);
        }
        let Some(shard) = shard else {
            return;
        };
        self.may_take_again(&shard);
        match is_of_the_task {
            true => self.give_back(now, &shard, invocation),
            // A machine on which every run fails requests less and less work, and returned credit would undo that. A run that never began
            // has left nothing idle.
            false => self.relieve(now, &shard, invocation),
        }
    }
}

/// Returns the reason for the departure of an instance whose shard or data directory `successor` has taken.
pub(super) fn replaced_by(successor: &WorkerDescription) -> Arc<str> {
    let host = &successor.machine_lock.hostname;
    format!(
        "worker instance {} on host {host} has taken its place",
        successor.id
    )
    .into()
}
