//! Departure of instances that are lost, replaced or say goodbye, and the loss of their tasks.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    Health, InvocationId, RecordSeq, ReportedStatus, Shard, Story, Time, WorkerDescription,
    WorkerId,
};
use brasserie_scheduler_engine::{Eligibility, Task};

use super::{Scheduler, task_key};
use crate::news::{KnownWorker, LostTasks, MAX_NAMED_TASKS, News};
use crate::pool::remote::{Departure, OwnTimers, safety_wait};
use crate::record::{EndedTask, KeptStory, LeftCause, LeftInstance, Record};
use crate::waits::safety::LostRun;

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
            .pool
            .with_lock(&successor.machine_lock)
            .filter(|w| w.id() != successor.id && w.health() != Health::MustDie)
            .map(|w| w.shard().clone())
            .collect();
        for shard in associated {
            let twin = self.pool.get(&shard);
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
            .wait
            .expected_where(|id, instance| is_predecessor(id, &instance.machine_lock))
        {
            self.bury_expected(worker, LeftCause::Replaced);
        }
    }

    /// Loses the instance of a shard, which can run tasks no longer, or none after the usual safety wait. Returns the record of the
    /// loss, unless the instance was lost before.
    pub(super) fn lose(
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
        let ours = self.options.timeouts;
        let wall = self.wall;
        let lock = self.pool.get(shard);
        let lock = lock.map(|remote| remote.description().machine_lock.clone());
        let departed = self.pool.lose((now, wall), shard, cause, &ours)?;
        if let Some(lock) = lock {
            self.artifacts.lose(now, &lock);
        }
        let worker = departed.known.id;
        let timers = timers.or(departed.earlier_timers);
        self.engine
            .set_eligibility(departed.index, Eligibility::Gone);
        let upcoming = self.outbox.next_record();
        let (runs, mut ended) = self.lose_runs(now, shard, (cause, timers), upcoming);
        let hold_back = if departed.runs_unknown && !sabotage::on(Sabotage::NoHoldBack) {
            safety_wait(now, &ours, departed.timeouts.suicide_task_kill_wait, timers)
        } else {
            Duration::ZERO
        };
        let lost = lost_tasks(&ended);
        let is_apart = |_: &mut EndedTask| sabotage::on(Sabotage::LeaveRecordBeforeBackoff);
        let apart: Vec<EndedTask> = ended.extract_if(.., is_apart).collect();
        let seq = self.outbox.persist(Record::WorkerLeft {
            worker,
            cause,
            wall,
            tasks: ended,
            hold_back,
        });
        for task in apart {
            self.outbox.persist(Record::TaskEnded(task));
        }
        assert_eq!(
            seq, upcoming,
            "Invariant: ending a run on a shard that is lost records nothing"
        );
        if let Some(remote) = self.pool.get_mut(shard) {
            remote.note_left(Departure {
                at: now,
                heard_at: None,
                runs,
                why: Arc::clone(&why),
            });
        }
        self.note_left(departed.known, (cause, why), lost, hold_back);
        self.wait.hold_back(now, worker, hold_back);
        self.wait.returned(worker);
        Some(seq)
    }

    /// Ends the runs of a worker that has left, with the record `upcoming`. Returns them, and the new statuses of their tasks.
    fn lose_runs(
        &mut self,
        now: Time,
        shard: &Shard,
        (cause, timers): (LeftCause, Option<OwnTimers>),
        upcoming: RecordSeq,
    ) -> (Vec<(Task, InvocationId)>, Vec<EndedTask>) {
        let mut ended: Vec<EndedTask> = Vec::new();
        let runs = self.runs.on_shard(shard);
        // The runs are handled one after the other, because the status of a task's earlier run affects that of its later one.
        for &run in &runs {
            if let Some(lost) = self.lose_run(now, run, shard, cause, timers) {
                self.end_run(now, run, (lost.invocation, lost.status.clone()), upcoming);
                ended.push(lost);
            }
        }
        (runs, ended)
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
            self.notices.news(News::Left {
                worker,
                cause,
                why,
                lost,
                hold_back,
            });
        }
    }

    /// Forgets dead workers that are past their time.
    pub(super) fn forget_the_dead(&mut self, now: Time) {
        while let Some(index) = self.pool.forget_dead(now) {
            self.engine.remove_worker(index);
        }
    }

    /// Handles the goodbye of an instance that holds no shard here: nothing needs to wait for it any more.
    pub(super) fn goodbye_of_a_stranger(&mut self, worker: WorkerId) -> Option<RecordSeq> {
        self.pool.note_left(worker, None);
        if !self.wait.expects(worker) {
            return None;
        }
        Some(self.bury_expected(worker, LeftCause::CleanExit))
    }

    /// Loses a recorded instance that holds no shard.
    pub(super) fn bury_expected(&mut self, worker: WorkerId, cause: LeftCause) -> RecordSeq {
        let is_forgotten = cause == LeftCause::Forgotten;
        let wall = self.wall;
        let recorded = self.wait.recorded(worker);
        let left = recorded.map(|instance| LeftInstance {
            shard: instance.shard.clone(),
            wall,
        });
        if let Some(known) = recorded.map(|instance| KnownWorker::of(worker, instance)) {
            let why = "a later worker instance has its data directory".into();
            self.note_left(known, (cause, why), LostTasks::default(), Duration::ZERO);
        }
        self.wait.returned(worker);
        if !(is_forgotten && sabotage::on(Sabotage::TakeBackTheForgotten)) {
            self.pool.note_left(worker, left);
        }
        if is_forgotten && sabotage::on(Sabotage::ForgetInMemory) {
            return self.outbox.last_record();
        }
        // The pool reports a holder of a shard once it is forgotten, because it may repeat a completion until then.
        if !self.pool.holds_a_shard(worker) {
            self.runs.left(worker);
        }
        self.outbox.persist(Record::WorkerLeft {
            worker,
            cause,
            wall,
            tasks: Vec::new(),
            hold_back: Duration::ZERO,
        })
    }

    /// Loses a run on a lost worker, and begins its safety wait. Returns the task's status.
    fn lose_run(
        &mut self,
        now: Time,
        (task, invocation): (Task, InvocationId),
        shard: &Shard,
        cause: LeftCause,
        timers: Option<OwnTimers>,
    ) -> Option<EndedTask> {
        let run = self.runs.find(task, invocation)?;
        let (text, safety) = match cause {
            LeftCause::CleanExit => (
                "its worker has exited, with all its processes",
                Duration::ZERO,
            ),
            LeftCause::Lost => (
                "its worker was lost",
                safety_wait(now, &self.options.timeouts, run.kill_wait, timers),
            ),
            LeftCause::Replaced => (
                "its worker was replaced by a new instance",
                safety_wait(now, &self.options.timeouts, run.kill_wait, timers),
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
            story: Story::lost(),
            shard: shard.clone(),
            queued: run.queued,
        };
        match safety.is_zero() {
            true => self.safety.over(task, invocation),
            false => self
                .safety
                .raise(task, LostRun::Known(invocation), now + safety),
        }
        let end = (invocation, &reported);
        let (of, status) = self.view().closing_status(now, task, end, next_backoff);
        let key = task_key(&self.engine, task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation: of,
            status,
            story: (of == invocation).then(|| Box::new(story)),
            outputs: Vec::new(),
        })
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

fn lost_tasks(ended: &[EndedTask]) -> LostTasks {
    let named = ended.iter().take(MAX_NAMED_TASKS);
    let waits = ended.iter().map(|end| end.status.safety_seconds);
    LostTasks {
        count: ended.len(),
        named: named.map(EndedTask::key).collect(),
        wait: Duration::from_secs(waits.max().unwrap_or_default().into()),
    }
}
