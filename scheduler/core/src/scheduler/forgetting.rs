//! `brasserie worker forget`: an operator declares worker instances dead, so that nothing waits for them any more.
//!
//! The declaration is a record like that of any other departure ([`LeftCause::Forgotten`]), and counts as their certain death: the initial
//! wait no longer waits for them, their loss causes no hold-back, and their tasks have no safety wait. An instance that returns
//! nevertheless has left, so it is asked to die. If the instance was lost before, the waits that remain because it may be alive end. The
//! operator is responsible for the rest: the machine or the process is dead, and no process of its tasks is alive.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Health, Principal, RecordSeq, RequestId, Shard, Time, WorkerId};

use super::effect::{MissingInstance, Reply};
use super::replies::HeldReply;
use super::{Scheduler, View};
use crate::news::{KnownWorker, News};
use crate::pool::remote::Remote;
use crate::record::{LeftCause, Record};
use crate::refusal::ForgetRefusal;

/// The most worker names in one refusal: enough to find a typing mistake, in a few lines.
const MAX_NAMED: usize = 20;

impl Scheduler {
    /// Declares the confirmed instances dead, all or none. The answer waits for the records, even if another call has written them. A
    /// repeated call changes nothing.
    pub(super) fn forget_worker(
        &mut self,
        now: Time,
        (request, from): (RequestId, Principal),
        shard: &Shard,
        confirmed: &[WorkerId],
    ) {
        let outcome = self.view().may_forget(now, shard, confirmed);
        if let Ok(dead) = &outcome {
            for instance in dead.iter().filter(|dead| confirmed.contains(&dead.id)) {
                let worker = KnownWorker {
                    shard: shard.clone(),
                    hostname: instance.hostname.clone(),
                    id: instance.id,
                };
                let by = from.clone();
                self.notices.news(News::DeclaredDead { worker, by });
                self.declare_dead(now, shard, instance.id);
            }
        }
        let after = outcome.is_ok().then(|| self.outbox.last_record());
        let reply = Reply::WorkerForgotten(outcome);
        self.outbox
            .reply_after(now, (request, after), reply, HeldReply::Declaration);
    }

    fn declare_dead(&mut self, now: Time, shard: &Shard, instance: WorkerId) {
        let holder = self.pool.get(shard).filter(|w| w.id() == instance);
        let recorded = match holder.map(Remote::health) {
            None => Some(self.bury_expected(instance, LeftCause::Forgotten)),
            Some(Health::MustDie) => self.end_waits_for(now, shard),
            Some(Health::New | Health::Unhealthy | Health::Healthy) => {
                let why = "an operator has declared it dead".into();
                self.lose(now, shard, LeftCause::Forgotten, why)
            }
        };
        if let Some(recorded) = recorded {
            self.wait.note_declared_dead(recorded);
        }
    }

    /// Ends all waits for the instance of this shard, which has left and is now known to be dead with all its tasks. Returns the last
    /// record about it.
    fn end_waits_for(&mut self, now: Time, shard: &Shard) -> Option<RecordSeq> {
        let holder = self.pool.get_mut(shard)?;
        let id = holder.id();
        let (left_at, runs) = holder.take_lost_runs()?;
        let seq = self.outbox.next_record();
        let mut tasks = Vec::new();
        for (task, run) in runs {
            if self.safety.until_of(now, task, run).is_some() {
                self.safety.over(task, run);
                tasks.extend(self.ledger().shorten_wait(now, task, (run, left_at), seq));
            }
        }
        if !tasks.is_empty() {
            self.outbox.persist(Record::TasksForgiven { tasks });
        }
        if let Some(end) = self.wait.end_hold_back_of(id) {
            self.hold_backs_ended(now, &end);
        }
        Some(self.outbox.last_record())
    }
}

impl View<'_> {
    /// Returns the confirmed instances, or all candidates if none is confirmed. Errors unless each may be declared dead.
    fn may_forget(
        &self,
        now: Time,
        shard: &Shard,
        confirmed: &[WorkerId],
    ) -> Result<Vec<MissingInstance>, ForgetRefusal> {
        if let Some(error) = self.outbox.store_error() {
            return Err(ForgetRefusal::StoreFails(error.to_owned()));
        }
        let is_over = |id: &WorkerId| self.pool.has_left(*id) && self.waits_for(now, *id).is_none();
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
        let is_away = |id: WorkerId| self.pool.shard_with(id).is_none();
        let expected = self
            .wait
            .expected_where(|id, instance| instance.shard == *shard && is_away(id));
        if !expected.is_empty() {
            return Ok(expected);
        }
        match self.pool.get(shard) {
            Some(holder) => Ok(vec![holder.id()]),
            None => match self.pool.last_left(shard) {
                Some(left) => Ok(vec![left]),
                None => Err(ForgetRefusal::Unknown {
                    shard: shard.clone(),
                    known: self.names_to_forget(),
                }),
            },
        }
    }

    fn names_to_forget(&self) -> Vec<Shard> {
        let all = self.wait.expected_where(|_, _| true);
        let expected = all.into_iter().filter_map(|id| {
            let recorded = self.wait.recorded(id);
            recorded.map(|instance| instance.shard.clone())
        });
        let alive = |w: &&Remote| w.health() != Health::MustDie;
        let here = self.pool.iter().filter(alive);
        let names: BTreeSet<Shard> = expected.chain(here.map(|w| w.shard().clone())).collect();
        names.into_iter().take(MAX_NAMED).collect()
    }

    /// Returns the time until a declaration about the instance is accepted if it stays silent.
    pub(super) fn forget_accepted_in(
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
        let ours = self.options.timeouts;
        let recorded = self.wait.longest_timeouts(instance, ours);
        let holder = self.pool.holder(instance);
        // The instance may still use the timeouts of an earlier scheduler.
        let told = holder.map_or(recorded, |holder| recorded.longest(&holder.timeouts()));
        let loss = told.lose_unhealthy_worker_after;
        let answered = self.heard_at(instance).map(|at| (at + loss, at));
        let paused = self.pauses.last_end().map(|awake| (awake + loss, awake));
        let silence = self.wait.silence_of(instance);
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
        let expected = self.wait.silence_of(instance);
        let expected = expected.and_then(|silence| silence.heard_at);
        expected.max(self.pool.holder(instance).and_then(Remote::heard_at))
    }

    /// Returns the time since the instance left, by the wall clock if it left under an earlier scheduler.
    fn left_for(&self, now: Time, instance: WorkerId) -> Option<Duration> {
        let here = self
            .pool
            .holder(instance)
            .and_then(Remote::left)
            .map(|left| now.since(left.at));
        let earlier = || {
            let left = self.pool.left_instance(instance)?;
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
        let runs = self
            .pool
            .holder(instance)
            .and_then(Remote::left)
            .into_iter()
            .flat_map(|left| &left.runs);

        let safety = runs.filter_map(|(task, run)| self.safety.until_of(now, *task, *run));
        let hold_back = self.wait.hold_back_of(instance);
        let until = safety.chain(hold_back).max();
        until.map(|until| until.since(now))
    }

    fn missing_instance(&self, now: Time, id: WorkerId) -> MissingInstance {
        let holder = self.pool.holder(id);
        let lock = match holder {
            Some(holder) => Some(&holder.description().machine_lock),
            None => self
                .wait
                .recorded(id)
                .map(|instance| &instance.machine_lock),
        };
        MissingInstance {
            id,
            hostname: lock.map(|lock| lock.hostname.clone()).unwrap_or_default(),
            running: holder.map_or(0, |holder| self.runs.counts_on(holder.shard()).0),
            silent_for: self.heard_at(id).map(|at| now.since(at)),
            left_for: self.left_for(now, id),
            waits_for: self.waits_for(now, id),
        }
    }
}
