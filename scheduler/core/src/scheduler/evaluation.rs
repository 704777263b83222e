//! The evaluation of workers: their health, and the calls that are due to them. These ask for running tasks, check health, and ask about
//! unsure runs.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CallOutcome, Health, InvocationId, Shard, Time, WorkerId};
use brasserie_scheduler_engine::Task;

use super::Scheduler;
use crate::calls::{CallDraft, CallPurpose, CallReply, NewWorker};
use crate::pool::remote::{Evaluated, Evaluation};
use crate::record::LeftCause;

impl Scheduler {
    pub(super) fn evaluate_due_workers(&mut self, now: Time) {
        for shard in self.pool.due(now) {
            self.evaluate(now, &shard);
        }
    }

    /// Evaluates every worker after a change that concerns all.
    pub(super) fn evaluate_all(&mut self, now: Time) {
        let all: Vec<Shard> = self.pool.iter().map(|w| w.shard().clone()).collect();
        for shard in all {
            self.evaluate(now, &shard);
        }
    }

    /// Evaluates every worker that was permitted by another worker's echo. Called once a turn.
    pub(super) fn evaluate_permitted(&mut self, now: Time) {
        for shard in self.pool.take_permitted() {
            self.evaluate(now, &shard);
        }
    }

    /// Evaluates one worker: adopts the state of its health model, and performs the calls that are due.
    pub(super) fn evaluate(&mut self, now: Time, shard: &Shard) {
        let Evaluated {
            news,
            poke,
            index,
            eligibility,
        } = match self.pool.evaluate(now, &self.options.timeouts, shard) {
            None => return,
            Some(Evaluation::Lost(why)) => {
                self.request_suicide(now, shard, &why);
                self.lose(now, shard, LeftCause::Lost, why);
                return;
            }
            Some(Evaluation::Alive(evaluated)) => evaluated,
        };
        if let Some(news) = news {
            self.notices.news(news);
        }
        if let Some(remote) = self.pool.get(shard) {
            let lock = &remote.description().machine_lock;
            self.artifacts
                .set_excluded(now, lock, remote.gets_no_artifacts());
            self.artifacts.set_trusted(lock, remote.keeps_artifacts());
        }
        self.engine.set_eligibility(index, eligibility);
        self.credit().update(now, shard);
        if self.outbox.may_call() {
            self.fetch_if_due(now, shard);
            self.healthcheck_if_due(now, shard, poke);
            self.ask_about_unsure_if_due(now, shard);
            self.orphans.note_evaluated(shard);
        }
        self.plan_wake(now, shard, poke);
    }

    fn plan_wake(&mut self, now: Time, shard: &Shard, poke: bool) {
        let timeouts = self.options.timeouts;
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        let calls = self.outbox.may_call().then(|| {
            let question_at = self.runs.next_question(shard, &timeouts);
            let orphan_at = self.orphans.next_due(shard, now);
            [question_at, orphan_at]
        });
        let wake = remote.next_wake(now, &timeouts, poke, calls);
        self.pool.wake_at(shard, wake);
    }

    fn fetch_if_due(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        if !remote.is_fetch_due(now) {
            return;
        }
        let (worker, peer) = (remote.id(), remote.address().clone());
        let purpose = CallPurpose::Fetch {
            shard: shard.clone(),
            worker,
        };
        let call = self.call(now, peer, CallDraft::GetRunningTasks { worker }, purpose);
        if let Some(remote) = self.pool.get_mut(shard) {
            remote.note_fetch_sent(call);
        }
    }

    /// Handles the answer to `getRunningTasks`. Only the open fetch of this instance counts: a late or repeated answer would mark tasks as
    /// running that have ended since.
    pub(super) fn fetched(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        outcome: CallOutcome<CallReply>,
    ) {
        // Fences count even if the rest of the answer is outdated.
        if let CallOutcome::Done(CallReply::RunningTasks(tasks)) = &outcome {
            let upcoming = self.outbox.next_record();
            if let Some(raised) = self.fences.reported(tasks, upcoming) {
                self.outbox.persist(raised);
            }
        }
        let any = sabotage::on(Sabotage::ApplyLateRunningTasks);
        let remote = self.pool.get_mut(shard);
        let Some(remote) = remote.filter(|remote| remote.id() == worker || any) else {
            return;
        };
        if remote.health() != Health::New {
            return;
        }
        match outcome {
            CallOutcome::Done(CallReply::RunningTasks(tasks)) => {
                remote.note_fetched(now);
                let index = remote.index();
                self.adopt_tasks(now, shard, index, tasks);
                self.wait.returned(worker);
            }
            CallOutcome::Done(CallReply::Empty | CallReply::Accepted { .. })
            | CallOutcome::Refused(..)
            | CallOutcome::NotSent(_)
            | CallOutcome::Unknown(_) => remote.retry_fetch(now),
        }
        self.evaluate(now, shard);
    }

    fn healthcheck_if_due(&mut self, now: Time, shard: &Shard, poke: bool) {
        let poke = (poke, self.pool.set());
        let wall_seconds = self.wall.as_secs();
        let timeouts = self.options.timeouts;
        if let Some(remote) = self.pool.get_mut(shard)
            && let Some(invocation) =
                remote.begin_due_healthcheck(now, wall_seconds, &timeouts, poke)
        {
            self.send_healthcheck(now, shard, invocation);
        }
    }

    /// Asks a few workers for an extra heartbeat with its echo, if another worker waits for nothing else. A healthcheck makes a worker send
    /// a heartbeat.
    pub(super) fn ask_for_echoes(&mut self, now: Time) {
        let wall_seconds = self.wall.as_secs();
        let timeouts = self.options.timeouts;
        for shard in self.pool.choose_to_ask(now) {
            if let Some(remote) = self.pool.get_mut(&shard) {
                let invocation = remote.begin_healthcheck(now, wall_seconds, &timeouts);
                self.send_healthcheck(now, &shard, invocation);
            }
        }
    }

    fn send_healthcheck(&mut self, now: Time, shard: &Shard, invocation: InvocationId) {
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        let new_worker = if remote.health() == Health::New {
            NewWorker::Yes
        } else {
            NewWorker::No
        };
        let (worker, index, peer) = (remote.id(), remote.index(), remote.address().clone());
        let call = CallDraft::Healthcheck {
            worker,
            index,
            invocation,
            new_worker,
        };
        let purpose = CallPurpose::Healthcheck {
            shard: shard.clone(),
            worker,
            invocation,
        };
        self.call(now, peer, call, purpose);
    }

    /// Handles the answer to a healthcheck's request.
    pub(super) fn healthcheck_sent(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        invocation: InvocationId,
        outcome: &CallOutcome<CallReply>,
    ) {
        let Some(remote) = self.pool.instance_mut(shard, worker) else {
            return;
        };
        remote.note_healthcheck_sent(now, invocation, outcome);
        match outcome {
            CallOutcome::Done(_) => {}
            CallOutcome::Refused(..) | CallOutcome::NotSent(_) | CallOutcome::Unknown(_) => {
                self.evaluate(now, shard);
            }
        }
    }

    fn ask_about_unsure_if_due(&mut self, now: Time, shard: &Shard) {
        let timeouts = self.options.timeouts;
        let next = self.runs.next_question(shard, &timeouts);
        if next.is_none_or(|at| at > now) {
            return;
        }
        let tasks = self.runs.next_unsure(shard);
        let Some(remote) = self.pool.get_mut(shard) else {
            return;
        };
        let sequence = if sabotage::on(Sabotage::AskWithoutRaising) {
            remote.sequence()
        } else {
            remote.next_sequence()
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let call = CallDraft::NotifyIfTasksNotRunning {
            worker,
            tasks: tasks.clone(),
            sequence,
        };
        let purpose = CallPurpose::Notify {
            shard: shard.clone(),
            worker,
            tasks,
        };
        let id = self.call(now, peer, call, purpose);
        self.runs.question_sent(shard, now, id);
    }

    /// Handles the answer to a question about unsure runs.
    pub(super) fn notified(
        &mut self,
        now: Time,
        shard: &Shard,
        worker: WorkerId,
        tasks: &[(Task, InvocationId)],
        outcome: &CallOutcome<CallReply>,
    ) {
        if self.pool.instance_mut(shard, worker).is_none() {
            return;
        }
        self.runs.question_closed(shard);
        if matches!(outcome, CallOutcome::Done(_)) {
            self.runs.become_sure(shard, tasks);
        }
        self.evaluate(now, shard);
    }
}
