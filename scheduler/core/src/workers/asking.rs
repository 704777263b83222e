//! Pull workers: the handling of their work requests, and the time of the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::Intake;
use brasserie_common::{
    GpuShare, Health, InvocationId, Processor, RequestId, Shard, Time, WorkReply, WorkRequest,
    WorkRequestSeq, WorkVerdict, WorkerId,
};
use brasserie_scheduler_engine::{Placement, Task, WorkFound};

use super::remote::Remote;
use crate::credits::{
    Apps, Asked, Class, Credits, DEFERRED_DELAY, Found, Heard, Known, NotSent, Piece, Readiness,
    Relief, Sent, Turns,
};
use crate::refusal::Rejection;
use crate::scheduler::Scheduler;
use crate::scheduler::effect::Reply;

/// How long an answer waits until all tasks that may start have started. After that, the answer says that verdicts are pending.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The most requests that wait for answers. Each worker has one on its way, so more mean that a peer repeats them.
const MAX_WAITING: usize = 32_768;

/// Requests without an answer, and workers whose credits have no verdicts yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asking {
    waiting: Vec<Waiting>,
    /// The workers with pending credits. Invariant: each worker whose credits are pending is in here.
    pending: BTreeSet<Shard>,
    turns: Turns,
    counts: WorkCounts,
}

/// The counts of work requests since this scheduler started, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCounts {
    /// The requests of known workers.
    pub requests: u64,
    pub looked_at: u64,
    /// The requests that were repeated, or arrived after a newer one.
    pub repeated: u64,
    /// The requests of workers that could get no tasks.
    pub not_ready: u64,
    /// The requests that came too soon after the previous one.
    pub too_soon: u64,
    /// The requests beyond the limit for all workers.
    pub too_many: u64,
    /// The runs that workers did not list although they had accepted them.
    pub missing_runs: u64,
}

impl WorkCounts {
    fn count(&mut self, heard: Heard) {
        self.requests += 1;
        *match heard {
            Heard::ToLookAt => &mut self.looked_at,
            Heard::Stale | Heard::Repeated => &mut self.repeated,
            Heard::NotReady => &mut self.not_ready,
            Heard::TooSoon => &mut self.too_soon,
            Heard::TooMany => &mut self.too_many,
        } += 1;
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    request: RequestId,
    shard: Shard,
    worker: WorkerId,
    work: WorkRequest,
    until: Time,
}

impl Asking {
    /// Returns when the next request must be answered, even if more tasks may start.
    pub(crate) fn next_answer(&self) -> Option<Time> {
        self.waiting.iter().map(|waiting| waiting.until).min()
    }

    /// Returns the time of the next free turn, for fingerprints.
    pub(crate) fn next_turn(&self) -> Time {
        self.turns.next()
    }

    /// Returns the turns used since the last [`Scheduler::answer_requests`], for fingerprints.
    pub(crate) fn used_turns(&self) -> u32 {
        self.turns.used()
    }

    /// Iterates over the requests that wait for answers, for fingerprints.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (RequestId, &Shard, WorkRequestSeq)> {
        let all = self.waiting.iter();
        all.map(|waiting| (waiting.request, &waiting.shard, waiting.work.seq))
    }
}

/// An owned [`Piece`].
struct OwnPiece {
    processor: Processor,
    usage: f64,
    estimate: f64,
    class: Class,
    bound: Option<Duration>,
}

impl OwnPiece {
    fn piece(&self) -> Piece<'_> {
        Piece::new(
            &self.processor,
            self.usage,
            self.estimate,
            self.class,
            self.bound,
        )
    }
}

fn found_of(found: &BTreeMap<Processor, WorkFound>, processor: &Processor) -> Found {
    found.get(processor).map_or(Found::NOTHING, |found| Found {
        candidates: found.ready,
        late: found.late,
        apps: Apps::Some,
    })
}

impl Scheduler {
    /// Returns the counts of work requests.
    pub fn work_counts(&self) -> WorkCounts {
        self.asking.counts
    }

    /// Handles a `requestWork` call, or a request in a heartbeat, whose answer is part of the heartbeat's.
    pub(crate) fn request_work(
        &mut self,
        now: Time,
        request: Option<RequestId>,
        work: WorkRequest,
    ) {
        let taken = self.take_request(now, &work);
        let Some(request) = request else {
            return;
        };
        // The list of known runs has been compared, and the answer does not need it.
        let work = WorkRequest {
            known: None,
            ..work
        };
        match taken {
            Ok(shard) if self.asking.waiting.len() < MAX_WAITING => {
                self.asking.waiting.push(Waiting {
                    request,
                    shard,
                    worker: work.worker,
                    work,
                    until: now + ANSWER_WITHIN,
                });
            }
            Ok(_) => {
                let verdict = WorkVerdict::Deferred;
                let reply = WorkReply::same_for_all(&work, verdict, ANSWER_WITHIN);
                self.reply(request, Reply::Work(Ok(Box::new(reply))));
            }
            Err(rejection) => self.reply(request, Reply::Work(Err(rejection))),
        }
    }

    fn take_request(&mut self, now: Time, work: &WorkRequest) -> Result<Shard, Rejection> {
        let ours = self.id();
        if work.scheduler != ours {
            return Err(Rejection::WrongScheduler {
                theirs: work.scheduler,
                ours,
            });
        }
        let shard = self.workers().shard_with(work.worker).cloned();
        let shard = shard.ok_or(Rejection::UnknownWorker {
            worker: work.worker,
        })?;
        let readiness = self.readiness(now, &shard);
        let policy = self.options().work.clone();
        let mut turns = std::mem::take(&mut self.asking.turns);
        let remote = self.workers_mut().get_mut(&shard);
        let heard = remote.map(|remote| {
            let rules = (&policy, &mut turns);
            remote.credits.hear(now, rules, readiness, work)
        });
        self.asking.turns = turns;
        let heard = heard.ok_or(Rejection::UnknownWorker {
            worker: work.worker,
        })?;
        self.asking.counts.count(heard);
        self.begin_learning();
        if heard == Heard::ToLookAt {
            self.look_at_request(now, &shard, work);
        }
        let remote = self.workers().get(&shard);
        if remote.is_some_and(|remote| remote.credits.is_pending()) {
            self.asking.pending.insert(shard.clone());
        }
        self.evaluate(now, &shard);
        Ok(shard)
    }

    /// Returns whether any task may start at present. If none may, a lack of candidates means nothing.
    fn may_start_something(&self, now: Time) -> bool {
        let config = self.engine().config();
        config.is_some_and(|config| config.enabled) && self.why_nothing_starts(now).is_empty()
    }

    fn readiness(&self, now: Time, shard: &Shard) -> Readiness {
        let remote = self.workers().get(shard);
        let may_work = remote.is_some_and(|remote| remote.may_have_credit());
        match may_work && self.may_start_something(now) {
            true => Readiness::MayWork,
            false => Readiness::MayNot,
        }
    }

    /// Compares a request's list of runs with the known runs. Stale and deferred requests are not compared.
    fn look_at_request(&mut self, now: Time, shard: &Shard, work: &WorkRequest) {
        let known = Known::of(work);
        let running = self.runs_on(now, shard, &known);
        let sent = running.iter().map(|(invocation, piece, since)| Sent {
            invocation: *invocation,
            piece: piece.as_ref().map(OwnPiece::piece),
            acknowledged: *since,
        });
        let policy = self.options().work.clone();
        // Runs that the request does not list cost time, too.
        Credits::charge_look(&policy, &mut self.asking.turns, work, running.len());
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        let credits = &mut remote.credits;
        let missing = credits.look_at(now, &policy, (work, &known), sent);
        self.asking.counts.missing_runs += missing.len() as u64;
        if let Some(first) = missing.first() {
            let count = missing.len();
            let text = format!(
                "worker `{shard}` asks for work and does not list {count} runs that it has taken, the first {first}"
            );
            self.note_problem(now, &text);
        }
    }

    /// Returns all runs that may be on a shard, as pieces of work where needed, with the time at which the worker confirmed each.
    fn runs_on(
        &self,
        now: Time,
        shard: &Shard,
        known: &Known,
    ) -> Vec<(InvocationId, Option<OwnPiece>, Option<Time>)> {
        let on_shard = self.tasks().on_shard(shard);
        let runs = on_shard.into_iter().filter_map(|(task, invocation)| {
            let run = self.tasks().find(task, invocation)?;
            let since = run.confirmed;
            let piece = known.is_weighed(invocation).then(|| {
                let piece = self.piece_of(shard, task);
                let left = |bound: Duration| bound.saturating_sub(now.since(run.since));
                OwnPiece {
                    bound: piece.bound.map(left),
                    ..piece
                }
            });
            Some((invocation, piece, since))
        });
        runs.collect()
    }

    /// Returns a task as a piece of work at a worker.
    fn piece_of(&self, shard: &Shard, task: Task) -> OwnPiece {
        let index = self.workers().get(shard).map(|remote| remote.index());
        let config = self.engine().config();
        let job = self.engine().job_config(task.job);
        let (Some(index), Some(config), Some(job)) = (index, config, job) else {
            // The task's job is gone, so it counts as using a processor for an unknown time.
            return OwnPiece {
                processor: Processor::Cpu,
                usage: 1.0,
                // Zero stands for an unknown duration.
                estimate: 0.0,
                class: Class::Immediate,
                bound: None,
            };
        };
        let (processor, usage) = self.engine().work_of(config, (job, task), index);
        OwnPiece {
            processor,
            usage,
            estimate: self.estimate(task.job).seconds,
            class: match job.bufferable {
                true => Class::Bufferable,
                false => Class::Immediate,
            },
            bound: job.deadline(),
        }
    }

    /// Charges a task that was marked running on a worker to the worker's credit, if it is a pull worker.
    pub(crate) fn spend_credit(
        &mut self,
        now: Time,
        shard: &Shard,
        (task, run): (Task, InvocationId),
    ) -> Option<WorkRequestSeq> {
        let uses_credits = |remote: &Remote| remote.credits.are_used();
        if !self.workers().get(shard).is_some_and(uses_credits) {
            return None;
        }
        let piece = self.piece_of(shard, task);
        let remote = self.workers_mut().get_mut(shard)?;
        remote.credits.spend(now, (run, &piece.piece()))
    }

    /// Charges a task that a plan would start as if it had started.
    pub(crate) fn spend_planned(&mut self, now: Time, placement: Placement) {
        let Placement { task, worker } = placement;
        let Some(shard) = self.workers().shard_of(worker).cloned() else {
            return;
        };
        let run = self.new_invocation(task);
        self.spend_credit(now, &shard, (task, run));
        let remote = self.workers().get(&shard);
        if remote.is_some_and(|remote| remote.credits.are_used()) {
            self.look_at_credit(now, &shard);
        }
    }

    /// Notes which GPUs a run had, as its worker reports at its completion. The worker may have chosen them.
    pub(crate) fn had_cards(&mut self, shard: &Shard, run: InvocationId, gpus: &[GpuShare]) {
        let index = self.workers().get(shard).map(|remote| remote.index());
        let had = index.and_then(|index| self.engine().processor_of_cards(index, gpus));
        if let Some((had, remote)) = had.zip(self.workers_mut().get_mut(shard)) {
            remote.credits.ran_on(run, had);
        }
    }

    /// Returns the idle instances of a completed run to the credit, so that another task may be sent in this turn.
    pub(crate) fn give_back(&mut self, now: Time, shard: &Shard, run: InvocationId) {
        let remote = self.workers_mut().get_mut(shard);
        if remote.is_some_and(|remote| remote.credits.give_back(now, run)) {
            self.look_at_credit(now, shard);
        }
        self.relieve(now, shard, run);
    }

    /// Returns the credit of a run that never began because its worker chooses GPUs and had none free. Similar tasks are not sent there for
    /// a while. The engine still counts the run as running.
    pub(crate) fn turned_down(
        &mut self,
        now: Time,
        shard: &Shard,
        (task, run): (Task, InvocationId),
    ) {
        let remote = self.workers_mut().get_mut(shard);
        if remote.is_some_and(|remote| remote.credits.turned_down(now, run)) {
            self.engine_mut().note_turned_down(task);
        }
    }

    /// Permits similar tasks to be sent to the worker again after a run has ended there.
    pub(crate) fn may_take_again(&mut self, shard: &Shard) {
        if let Some(remote) = self.workers_mut().get_mut(shard)
            && remote.credits.forget_turned_down()
        {
            let index = remote.index();
            self.engine_mut().forget_turned_down(index);
        }
    }

    /// Permits another try for tasks that would have been late at the worker, after a run has ended or never begun there.
    pub(crate) fn relieve(&mut self, now: Time, shard: &Shard, run: InvocationId) {
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        let index = remote.index();
        match remote.credits.ended(now, run) {
            Relief::MoreTime => self.engine_mut().forget_late(index),
            Relief::Nothing => {}
        }
    }

    /// Sets the tasks that the worker may be sent now; none if it may get no tasks. Part of each evaluation of a worker.
    pub(crate) fn look_at_credit(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        // A former holder of the shard may have requested work. Its requests do not bind this one.
        if !remote.may_have_credit() && !sabotage::on(Sabotage::CreditOfTheSick) {
            remote.credits.clear();
        }
        remote.credits.expire(now);
        let takes_again = remote.credits.expire_turned_down(now);
        let (index, allowances) = (remote.index(), remote.credits.allowances(now));
        self.engine_mut().set_allowances(index, allowances);
        if takes_again {
            self.engine_mut().forget_turned_down(index);
        }
    }

    /// Fixes verdicts and answers requests. Called once a turn, after tasks have started.
    pub(crate) fn answer_requests(&mut self, now: Time) {
        self.asking.turns.pass_on();
        if !self.more_to_place {
            for shard in std::mem::take(&mut self.asking.pending) {
                self.end_pass(now, &shard);
            }
        }
        let waiting = std::mem::take(&mut self.asking.waiting);
        for waiting in waiting {
            let is_pending = self.asking.pending.contains(&waiting.shard);
            let is_newest = self.is_newest(&waiting);
            if is_pending && is_newest && now < waiting.until {
                self.asking.waiting.push(waiting);
                continue;
            }
            let reply = self.answer_to(&waiting);
            self.reply(waiting.request, Reply::Work(Ok(Box::new(reply))));
        }
    }

    /// Refuses all waiting requests, because another scheduler instance has taken over.
    pub(crate) fn refuse_requests(&mut self, rejection: &Rejection) {
        for waiting in std::mem::take(&mut self.asking.waiting) {
            let reply = Reply::Work(Err(rejection.clone()));
            self.reply(waiting.request, reply);
        }
    }

    fn end_pass(&mut self, now: Time, shard: &Shard) {
        let may_start = self.may_start_something(now);
        let Some(remote) = self.workers().get(shard) else {
            return;
        };
        let index = remote.index();
        if may_start && remote.may_have_credit() && !self.engine().is_eligible(index) {
            // The worker is busy for a moment. No task could be sent there, whatever it had requested.
            self.asking.pending.insert(shard.clone());
            return;
        }
        let found = self.engine().work_found(index);
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        if may_start {
            remote
                .credits
                .end_pass(now, |processor| found_of(&found, processor));
        } else {
            remote.credits.clear();
        }
        self.evaluate(now, shard);
    }

    /// Returns the state of a worker's newest request, for people.
    pub(crate) fn asked(&self, now: Time, remote: &Remote) -> Option<Asked> {
        let found = self.engine().work_found(remote.index());
        let found = |processor: &Processor| found_of(&found, processor);
        remote.credits.asked(now, found)
    }

    /// Returns why a task is not sent to a pull worker although there is no other obstacle, for people.
    pub(crate) fn why_not_sent(&self, now: Time, shard: &Shard, task: Task) -> Option<NotSent> {
        let piece = self.piece_of(shard, task);
        let credits = &self.workers().get(shard)?.credits;
        credits.why_not_sent(now, &piece.processor, piece.class)
    }

    fn is_newest(&self, waiting: &Waiting) -> bool {
        let remote = self.workers().get(&waiting.shard);
        remote.is_some_and(|remote| {
            remote.id() == waiting.worker && remote.credits.newest() == Some(waiting.work.seq)
        })
    }

    /// Returns the answer to the newest request, or a stale verdict for an older one.
    fn answer_to(&self, waiting: &Waiting) -> WorkReply {
        let remote = self.workers().get(&waiting.shard);
        let remote = remote.filter(|remote| remote.id() == waiting.worker);
        let reply = remote.and_then(|remote| remote.credits.reply());
        match reply {
            Some(reply) if reply.seq == waiting.work.seq => reply,
            Some(_) => WorkReply::same_for_all(&waiting.work, WorkVerdict::Stale, Duration::ZERO),
            None => WorkReply::same_for_all(&waiting.work, WorkVerdict::Deferred, DEFERRED_DELAY),
        }
    }
}

impl super::remote::Remote {
    /// Returns whether the worker may have credit: while it is HEALTHY and accepts tasks. A worker that is busy for a moment keeps its
    /// credit.
    fn may_have_credit(&self) -> bool {
        let is_open = match self.description.intake {
            Intake::Open => true,
            Intake::Draining => false,
        };
        is_open && self.health() == Health::Healthy
    }
}
