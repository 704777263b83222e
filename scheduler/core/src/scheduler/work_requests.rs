//! Work requests of pull workers: their acceptance, and the time of the answers.

use std::time::Duration;

use brasserie_common::{
    InvocationId, Principal, RequestId, Shard, Time, WorkReply, WorkRequest, WorkVerdict,
};

use super::credit::{OwnTaskWork, found_of, task_work_of};
use super::effect::Reply;
use super::{Scheduler, View};
use crate::credits::{Credits, DEFERRED_DELAY, Heard, KnownRuns, Readiness, Sent};
use crate::refusal::Rejection;
use crate::work_requests::{WaitingRequest, WorkCounts};

impl Scheduler {
    /// Returns the counts of work requests.
    pub fn work_counts(&self) -> WorkCounts {
        self.work_requests.counts()
    }

    /// Handles a `requestWork` call, or a request in a heartbeat, whose answer is part of the heartbeat's.
    pub(super) fn request_work(
        &mut self,
        now: Time,
        (request, from): (Option<RequestId>, &Principal),
        work: WorkRequest,
    ) {
        let taken = self.take_request(now, from, &work);
        let Some(request) = request else {
            return;
        };
        // The list of known runs has been compared, and the answer does not need it.
        let work = WorkRequest {
            known: None,
            ..work
        };
        let refused = match taken {
            Ok(shard) => self
                .work_requests
                .wait(now, request, shard, work)
                .map_err(Ok),
            Err(rejection) => Err(Err(rejection)),
        };
        if let Err(answer) = refused {
            let reply = Reply::Work(answer.map(Box::new));
            self.outbox.reply(request, reply);
        }
    }

    fn take_request(
        &mut self,
        now: Time,
        from: &Principal,
        work: &WorkRequest,
    ) -> Result<Shard, Rejection> {
        let ours = self.id;
        if work.scheduler != ours {
            return Err(Rejection::WrongScheduler {
                theirs: work.scheduler,
                ours,
            });
        }
        let shard = self.pool.shard_with(work.worker).cloned();
        let shard = shard.ok_or(Rejection::UnknownWorker {
            worker: work.worker,
        })?;
        from.check_shard("requestWork", &shard)?;
        let readiness = self.view().readiness(now, &shard);
        let rules = (&self.options.work, self.work_requests.turns_mut());
        let remote = self.pool.get_mut(&shard);
        let heard = remote.map(|remote| remote.credits_mut().hear(now, rules, readiness, work));
        let heard = heard.ok_or(Rejection::UnknownWorker {
            worker: work.worker,
        })?;
        self.work_requests.count(heard);
        self.estimates.begin_learning();
        if heard == Heard::ToLookAt {
            self.compare_request(now, &shard, work);
        }
        let remote = self.pool.get(&shard);
        if remote.is_some_and(|remote| remote.credits().is_pending()) {
            self.work_requests.note_pending(&shard);
        }
        self.evaluate(now, &shard);
        Ok(shard)
    }

    /// Compares a request's list of runs with the known runs. Stale and deferred requests are not compared.
    fn compare_request(&mut self, now: Time, shard: &Shard, work: &WorkRequest) {
        let known = KnownRuns::of(work);
        let running = self.view().runs_on(now, shard, &known);
        let sent = running.iter().map(|(invocation, task_work, since)| Sent {
            invocation: *invocation,
            task_work: task_work.as_ref().map(OwnTaskWork::task_work),
            acknowledged: *since,
        });
        let policy = &self.options.work;
        // Runs that the request does not list cost time, too.
        Credits::charge_look(policy, self.work_requests.turns_mut(), work, running.len());
        let Some(remote) = self.pool.get_mut(shard) else {
            return;
        };
        let credits = remote.credits_mut();
        let missing = credits.look_at(now, policy, (work, &known), sent);
        self.work_requests.count_missing_runs(missing.len());
        if let Some(first) = missing.first() {
            let count = missing.len();
            let text = format!(
                "worker `{shard}` asks for work and does not list {count} runs that it has taken, the first {first}"
            );
            self.notices.problem(now, &text);
        }
    }

    /// Fixes verdicts and answers requests. Called once a turn, after tasks have started.
    pub(super) fn answer_requests(&mut self, now: Time) {
        self.work_requests.turns_mut().pass_on();
        if !self.more_to_place {
            for shard in self.work_requests.take_pending() {
                self.end_pass(now, &shard);
            }
        }
        let waiting = self.work_requests.take_waiting();
        for waiting in waiting {
            let is_pending = self.work_requests.is_pending(&waiting.shard);
            let is_newest = self.view().is_newest(&waiting);
            if is_pending && is_newest && now < waiting.until {
                self.work_requests.put_back(waiting);
                continue;
            }
            let reply = self.view().answer_to(&waiting);
            self.outbox
                .reply(waiting.request, Reply::Work(Ok(Box::new(reply))));
        }
    }

    /// Refuses all waiting requests, because another scheduler instance has taken over.
    pub(super) fn refuse_requests(&mut self, rejection: &Rejection) {
        for waiting in self.work_requests.take_waiting() {
            let reply = Reply::Work(Err(rejection.clone()));
            self.outbox.reply(waiting.request, reply);
        }
    }

    fn end_pass(&mut self, now: Time, shard: &Shard) {
        let may_start = self.view().may_start_something(now);
        let Some(remote) = self.pool.get(shard) else {
            return;
        };
        let index = remote.index();
        if may_start && remote.may_have_credit() && !self.engine.is_eligible(index) {
            // The worker is busy for a moment. No task could be sent there, whatever it had requested.
            self.work_requests.note_pending(shard);
            return;
        }
        let found = self.engine.work_found(index);
        let Some(remote) = self.pool.get_mut(shard) else {
            return;
        };
        if may_start {
            remote
                .credits_mut()
                .end_pass(now, |processor| found_of(&found, processor));
        } else {
            remote.credits_mut().clear();
        }
        self.evaluate(now, shard);
    }
}

impl View<'_> {
    /// Returns whether any task may start at present. If none may, a lack of candidates means nothing.
    fn may_start_something(&self, now: Time) -> bool {
        let config = self.engine.config();
        config.is_some_and(|config| config.enabled) && self.why_nothing_starts(now).is_empty()
    }

    fn readiness(&self, now: Time, shard: &Shard) -> Readiness {
        let remote = self.pool.get(shard);
        let may_work = remote.is_some_and(|remote| remote.may_have_credit());
        match may_work && self.may_start_something(now) {
            true => Readiness::MayWork,
            false => Readiness::MayNot,
        }
    }

    /// Returns all runs that may be on a shard, with their tasks' work where needed, with the time at which the worker confirmed each.
    fn runs_on(
        &self,
        now: Time,
        shard: &Shard,
        known: &KnownRuns,
    ) -> Vec<(InvocationId, Option<OwnTaskWork>, Option<Time>)> {
        let on_shard = self.runs.on_shard(shard);
        let runs = on_shard.into_iter().filter_map(|(task, invocation)| {
            let run = self.runs.find(task, invocation)?;
            let since = run.confirmed;
            let task_work = known.is_weighed(invocation).then(|| {
                let task_work =
                    task_work_of((&self.engine, &self.pool, &self.estimates), shard, task);
                let left = |bound: Duration| bound.saturating_sub(now.since(run.since));
                OwnTaskWork {
                    bound: task_work.bound.map(left),
                    ..task_work
                }
            });
            Some((invocation, task_work, since))
        });
        runs.collect()
    }

    fn is_newest(&self, waiting: &WaitingRequest) -> bool {
        let remote = self.pool.get(&waiting.shard);
        remote.is_some_and(|remote| {
            remote.id() == waiting.worker && remote.credits().newest_seq() == Some(waiting.work.seq)
        })
    }

    /// Returns the answer to the newest request, or a stale verdict for an older one.
    fn answer_to(&self, waiting: &WaitingRequest) -> WorkReply {
        let remote = self.pool.get(&waiting.shard);
        let remote = remote.filter(|remote| remote.id() == waiting.worker);
        let reply = remote.and_then(|remote| remote.credits().reply());
        match reply {
            Some(reply) if reply.seq == waiting.work.seq => reply,
            Some(_) => WorkReply::same_for_all(&waiting.work, WorkVerdict::Stale, Duration::ZERO),
            None => WorkReply::same_for_all(&waiting.work, WorkVerdict::Deferred, DEFERRED_DELAY),
        }
    }
}
