//! `brasserie worker forget`: an operator declares worker instances dead, so that nothing waits for them any more.
//!
//! The declaration is a record like that of any other departure ([`LeftCause::Forgotten`]), and counts as their certain death: the initial
//! wait no longer waits for them, their loss causes no hold-back, and their tasks have no safety backoff. An instance that returns
//! nevertheless has left, so it is asked to die. If the instance was lost before, the waits that remain because it may be alive end. The
//! operator is responsible for the rest: the machine or the process is dead, and no process of its tasks is alive.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{
    Health, InvocationId, Principal, RecordSeq, RequestId, Shard, Time, Timeouts, WorkerId,
};
use brasserie_scheduler_engine::{Restart, Task};

use super::remote::{Left, Remote};
use crate::news::{KnownWorker, News};
use crate::record::{EndedTask, LeftCause, Record};
use crate::refusal::ForgetRefusal;
use crate::scheduler::Scheduler;
use crate::scheduler::effect::{MissingInstance, Reply};
use crate::scheduler::replies::HeldReply;

/// The most worker names in one refusal: enough to find a typing mistake, in a few lines.
const MAX_NAMED: usize = 20;

/// The time since which the scheduler has run without a pause. Messages that workers sent during a pause may not have been read yet, so the
/// silence of workers counts from the end of the pause at the earliest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Awake {
    /// The end of the last pause. A start is no pause: the initial wait knows what earlier schedulers may have received.
    since: Option<Time>,
    last_turn: Time,
    /// The time between two turns above which it was a pause: a quarter of the loss time. A turn is due after half of this.
    longest_gap: Duration,
}

impl Awake {
    pub(crate) fn new(now: Time, ours: Timeouts) -> Self {
        Awake {
            since: None,
            last_turn: now,
            longest_gap: ours.lose_unhealthy_worker_after / 4,
        }
    }

    pub(crate) fn turn(&mut self, now: Time) {
        if now > self.last_turn + self.longest_gap && !sabotage::on(Sabotage::ForgetAfterAPause) {
            self.since = Some(now);
        }
        self.last_turn = now;
    }

    pub(crate) fn next_turn(self) -> Time {
        self.last_turn + self.longest_gap / 2
    }
}

impl Scheduler {
    /// Declares the confirmed instances dead, all or none. The answer waits for the records, even if another call has written them. A
    /// repeated call changes nothing.
    pub(crate) fn forget_worker(
        &mut self,
        now: Time,
        (request, from): (RequestId, Principal),
        shard: &Shard,
        confirmed: &[WorkerId],
    ) {
        let outcome = self.may_forget(now, shard, confirmed);
        if let Ok(dead) = &outcome {
            for instance in dead.iter().filter(|dead| confirmed.contains(&dead.id)) {
                let worker = KnownWorker {
                    shard: shard.clone(),
                    hostname: instance.hostname.clone(),
                    id: instance.id,
                };
                let by = from.clone();
                self.note_news(News::DeclaredDead { worker, by });
                self.declare_dead(now, shard, instance.id);
            }
        }
        let after = outcome.is_ok().then(|| self.last_record());
        let reply = Reply::WorkerForgotten(outcome);
        self.reply_after(now, (request, after), reply, HeldReply::Declaration);
    }

    /// Returns the confirmed instances, or all candidates if none is confirmed. Errors unless each may be declared dead.
    fn may_forget(
        &self,
        now: Time,
        shard: &Shard,
        confirmed: &[WorkerId],
    ) -> Result<Vec<MissingInstance>, ForgetRefusal> {
        if let Some(error) = self.store_error() {
            return Err(ForgetRefusal::StoreFails(error.to_owned()));
        }
        let is_over =
            |id: &WorkerId| self.workers().has_left(*id) && self.waits_for(now, *id).is_none();
        let not_over: Vec<WorkerId> = confirmed
            .iter()
            .copied()
            .filter(|id| !is_over(id))
            .collect();
        if !confirmed.is_empty() && not_over.is_empty() {
            return Ok(Vec::new());
        }
        let candidates = self.candidates(shard)?;
        let not_a_candidate = |id: &&WorkerId| !candidates.contains(id);
        if let Some(&instance) = not_over.iter().find(not_a_candidate) {
            let shard = shard.clone();
            return Err(ForgetRefusal::Changed { shard, instance });
        }
        let selected = candidates
            .into_iter()
            .filter(|id| not_over.is_empty() || not_over.contains(id));
        selected
            .map(|id| {
                if !is_over(&id) {
                    self.check_silence(now, shard, id)?;
                }
                Ok(self.missing_instance(now, id))
            })
            .collect()
    }

    /// Returns the instances of a worker that the initial wait expects. If there are none, returns the holder of the shard, or the last
    /// instance that has left it.
    fn candidates(&self, shard: &Shard) -> Result<Vec<WorkerId>, ForgetRefusal> {
        let is_away = |id: WorkerId| self.workers().shard_with(id).is_none();
        let expected = self
            .initial_wait()
            .expected_where(|id, instance| instance.shard == *shard && is_away(id));
        if !expected.is_empty() {
            return Ok(expected);
        }
        match self.workers().get(shard) {
            Some(holder) => Ok(vec![holder.id()]),
            None => match self.workers().last_left(shard) {
                Some(left) => Ok(vec![left]),
                None => Err(ForgetRefusal::Unknown {
                    shard: shard.clone(),
                    known: self.names_to_forget(),
                }),
            },
        }
    }

    fn names_to_forget(&self) -> Vec<Shard> {
        let all = self.initial_wait().expected_where(|_, _| true);
        let expected = all.into_iter().filter_map(|id| {
            let recorded = self.initial_wait().recorded(id);
            recorded.map(|instance| instance.shard.clone())
        });
        let alive = |w: &&Remote| w.health() != Health::MustDie;
        let here = self.workers().iter().filter(alive);
        let names: BTreeSet<Shard> = expected.chain(here.map(|w| w.shard().clone())).collect();
        names.into_iter().take(MAX_NAMED).collect()
    }

    /// Returns the time until a declaration about the instance is accepted if it stays silent.
    pub(crate) fn forget_accepted_in(
        &self,
        now: Time,
        shard: &Shard,
        instance: WorkerId,
    ) -> Duration {
        match self.check_silence(now, shard, instance) {
            Err(
                ForgetRefusal::Answered { accepted_in, .. }
                | ForgetRefusal::AnsweredBefore { accepted_in, .. }
                | ForgetRefusal::Paused { accepted_in, .. },
            ) => accepted_in,
            Ok(()) | Err(_) => Duration::ZERO,
        }
    }

    /// Errors if the instance has answered within the loss time: it may be alive, whatever the operator says.
    fn check_silence(
        &self,
        now: Time,
        shard: &Shard,
        instance: WorkerId,
    ) -> Result<(), ForgetRefusal> {
        if sabotage::on(Sabotage::ForgetTheLiving) {
            return Ok(());
        }
        let ours = self.options().timeouts;
        let recorded = self.initial_wait().longest_timeouts(instance, ours);
        let holder = self.workers().shard_with(instance);
        let holder = holder.and_then(|shard| self.workers().get(shard));
        // The instance may still use the timeouts of an earlier scheduler.
        let told = holder.map_or(recorded, |holder| recorded.longest(&holder.timeouts()));
        let loss = told.lose_unhealthy_worker_after;
        let answered = self.heard_at(instance).map(|at| (at + loss, at));
        let paused = self.awake().since.map(|awake| (awake + loss, awake));
        let silence = self.initial_wait().silence_of(instance);
        let silence = silence.filter(|silence| silence.heard_at.is_none());
        let before = silence.map(|silence| {
            let counts_answers = !sabotage::on(Sabotage::ForgetSoonAfterARestart);
            let lost_at = counts_answers.then(|| silence.answered_until + loss);
            let accepted_at = silence.heard_by.max(lost_at.unwrap_or(Time::ZERO));
            (accepted_at, silence.answered_until)
        });
        // The last of the three times decides when a declaration is accepted.
        let last = [answered, paused, before].into_iter().flatten().max();
        let Some((accepted_at, since)) = last.filter(|(accepted_at, _)| now < *accepted_at) else {
            return Ok(());
        };
        let (shard, ago) = (shard.clone(), now.since(since));
        let accepted_in = accepted_at.since(now);
        Err(if last == answered {
            ForgetRefusal::Answered {
                shard,
                instance,
                ago,
                accepted_in,
            }
        } else if last == paused {
            ForgetRefusal::Paused {
                shard,
                instance,
                ago,
                accepted_in,
            }
        } else {
            ForgetRefusal::AnsweredBefore {
                shard,
                instance,
                ago,
                accepted_in,
            }
        })
    }

    fn heard_at(&self, instance: WorkerId) -> Option<Time> {
        let expected = self.initial_wait().silence_of(instance);
        let holder = self.workers().shard_with(instance);
        let holder = holder.and_then(|shard| self.workers().get(shard));
        let model = holder.map(|holder| &holder.model);
        let heard = [
            expected.and_then(|silence| silence.heard_at),
            model.and_then(|model| model.last_heartbeat()),
            model.and_then(|model| model.last_acknowledged_healthcheck()),
            self.left(instance).and_then(|left| left.heard_at),
        ];
        heard.into_iter().flatten().max()
    }

    /// Returns the remaining facts about an instance that has left and whose shard is not taken.
    fn left(&self, instance: WorkerId) -> Option<&Left> {
        let shard = self.workers().shard_with(instance)?;
        self.workers().get(shard)?.left.as_ref()
    }

    /// Returns the time since the instance left, by the wall clock if it left under an earlier scheduler.
    fn left_for(&self, now: Time, instance: WorkerId) -> Option<Duration> {
        let here = self.left(instance).map(|left| now.since(left.at));
        let earlier = || {
            let left = self.workers().left_instance(instance)?;
            let millis = self
                .wall()
                .as_millis()
                .saturating_sub(left.wall.as_millis());
            Some(Duration::from_millis(u64::try_from(millis).unwrap_or(0)))
        };
        here.or_else(earlier)
    }

    /// Returns how long a task or a hold-back still waits because this instance, which has left, may run tasks.
    fn waits_for(&self, now: Time, instance: WorkerId) -> Option<Duration> {
        let runs = self.left(instance).into_iter().flat_map(|left| &left.runs);
        let floors = self.tasks().floors();
        let floors = runs.filter_map(|(task, run)| floors.until_of(now, *task, *run));
        let hold_back = self.initial_wait().hold_back_of(instance);
        let until = floors.chain(hold_back).max();
        until.map(|until| until.since(now))
    }

    fn missing_instance(&self, now: Time, id: WorkerId) -> MissingInstance {
        let holder = self.workers().shard_with(id);
        let holder = holder.and_then(|shard| self.workers().get(shard));
        let lock = match holder {
            Some(holder) => Some(&holder.description().machine_lock),
            None => self
                .initial_wait()
                .recorded(id)
                .map(|instance| &instance.machine_lock),
        };
        MissingInstance {
            id,
            hostname: lock.map(|lock| lock.hostname.clone()).unwrap_or_default(),
            running: holder.map_or(0, |holder| self.tasks().counts_on(holder.shard()).0),
            silent_for: self.heard_at(id).map(|at| now.since(at)),
            left_for: self.left_for(now, id),
            waits_for: self.waits_for(now, id),
        }
    }

    fn declare_dead(&mut self, now: Time, shard: &Shard, instance: WorkerId) {
        let holder = self.workers().get(shard).filter(|w| w.id() == instance);
        let recorded = match holder.map(Remote::health) {
            None => Some(self.bury_expected(instance, LeftCause::Forgotten)),
            Some(Health::MustDie) => self.end_waits_for(now, shard),
            Some(Health::New | Health::Unhealthy | Health::Healthy) => {
                let why = "an operator has declared it dead".into();
                self.lose(now, shard, LeftCause::Forgotten, why)
            }
        };
        if let Some(recorded) = recorded {
            self.initial_wait_mut().note_declared_dead(recorded);
        }
    }

    /// Ends all waits for the instance of this shard, which has left and is now known to be dead with all its tasks. Returns the last
    /// record about it.
    fn end_waits_for(&mut self, now: Time, shard: &Shard) -> Option<RecordSeq> {
        let holder = self.workers_mut().get_mut(shard)?;
        let id = holder.id();
        let left = holder.left.as_mut()?;
        let (left_at, runs) = (left.at, std::mem::take(&mut left.runs));
        let seq = self.next_record();
        let mut tasks = Vec::new();
        for (task, run) in runs {
            if self.tasks().floors().until_of(now, task, run).is_some() {
                self.tasks_mut().floors_mut().over(task, run);
                tasks.extend(self.shorten_wait(now, task, (run, left_at), seq));
            }
        }
        if !tasks.is_empty() {
            self.persist(Record::TasksForgiven { tasks });
        }
        self.end_hold_back_of(now, id);
        Some(self.last_record())
    }

    /// Shortens the wait of a completed task to its configured backoff and the floors of its other lost runs.
    fn shorten_wait(
        &mut self,
        now: Time,
        task: Task,
        (run, left_at): (InvocationId, Time),
        seq: RecordSeq,
    ) -> Option<EndedTask> {
        if self.tasks().run(task).is_some() {
            return None;
        }
        let invocation = self.tasks().ended(task)?;
        let old = self.engine().previous_status(task);
        let old = old.filter(|old| !old.is_done())?;
        let floors = self.tasks().floors();
        let status = old.with_safety_of(floors.seconds(now, task));
        let ended_at = if invocation == run { left_at } else { now };
        let not_before = (!status.is_failed()).then(|| {
            let backoff = Duration::from_secs(u64::from(status.backoff_seconds));
            let floor = floors.until(now, task);
            (ended_at + backoff).max(floor.unwrap_or(now))
        });
        self.tasks_mut().note_end(task, invocation, seq);
        let restart = Restart::HeldUntilReleased;
        self.engine_mut()
            .restate(now, task, status.clone(), not_before, restart);
        let key = self.task_key(task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation,
            status,
            story: None,
        })
    }

    /// Returns whether the declarations of operators are durable. Until then no task starts that depends on them.
    pub(crate) fn declarations_are_durable(&self) -> bool {
        let recorded = self.initial_wait().declared_dead();
        recorded.is_none_or(|seq| self.is_persisted(seq))
            || sabotage::on(Sabotage::StartBeforeForgetIsDurable)
    }
}
