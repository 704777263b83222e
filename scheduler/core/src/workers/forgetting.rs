//! `brasserie worker forget`: an operator declares worker instances dead, so that nothing waits for them any more.
//!
//! The declaration is a record like that of any other leaving ([`LeftCause::Forgotten`]), and holds as their certain death: the
//! initial wait is over for them, their loss holds nothing back, and their tasks have no safety backoff. An instance that
//! returns all the same has left, so it is told to die. The operator answers for the rest: the machine or the process is dead,
//! and no process of its tasks is alive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::time::format_duration;
use brasserie_common::{Health, RequestId, SchedulerId, Shard, Time, WorkerId};

use super::remote::Remote;
use crate::effect::Reply;
use crate::record::LeftCause;
use crate::replies::{HeldReply, MAX_REPLY_WAIT};
use crate::scheduler::Scheduler;

/// Worker names in one refusal: enough to find a typing mistake, short enough for a few lines.
const MAX_NAMED: usize = 20;

/// One worker instance that an operator may declare dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingInstance {
    pub id: WorkerId,
    pub hostname: Arc<str>,
    /// Tasks that this scheduler knows to run there; those of an instance that has not returned since a restart are unknown.
    pub running: usize,
    /// Since this scheduler last received a heartbeat or a healthcheck's result of it; `None`: it never has.
    pub silent_for: Option<Duration>,
}

/// Why nobody is declared dead; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetRefusal {
    /// Not a promise that nothing happened, unlike all others.
    #[error(
        "the store has not synced this declaration for {} s, so whether it lasts is not known; look again once `brasserie status` \
         shows no error of the store",
        MAX_REPLY_WAIT.as_secs()
    )]
    NotDurableYet,
    #[error(
        "worker `{shard}` (instance {instance}) last answered {} ago, so it may be alive: end it, or try again in {}, if it \
         stays silent",
        seconds(*.ago),
        seconds(*.accepted_in)
    )]
    Answered {
        shard: Shard,
        instance: WorkerId,
        ago: Duration,
        accepted_in: Duration,
    },
    #[error(
        "worker `{shard}` (instance {instance}) may still report to this scheduler, which has only just started: try again in \
         {}, if it stays silent",
        seconds(*.accepted_in)
    )]
    TooSoon {
        shard: Shard,
        instance: WorkerId,
        accepted_in: Duration,
    },
    #[error(
        "worker `{shard}` (instance {instance}) is lost already: nothing waits for it but the tasks that it ran, each until its \
         safety backoff is over"
    )]
    Lost { shard: Shard, instance: WorkerId },
    #[error("no worker is called `{shard}` here; {}", known_names(.known))]
    Unknown { shard: Shard, known: Vec<Shard> },
    #[error(
        "instance {instance} is not a missing one of worker `{shard}` (any more): look again with `brasserie status`, then repeat \
         the command"
    )]
    Changed { shard: Shard, instance: WorkerId },
    #[error("the store cannot write, so no declaration would last: {0}")]
    StoreFails(String),
    #[error("this scheduler has stepped down for the newer instance {newer}")]
    SteppedDown { newer: SchedulerId },
}

fn known_names(known: &[Shard]) -> String {
    let names: Vec<String> = known.iter().map(|shard| format!("`{shard}`")).collect();
    match names.is_empty() {
        true => "it knows none".to_owned(),
        false => format!("it knows {}", names.join(", ")),
    }
}

/// Rounded up, so that who waits for it has waited long enough.
fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    format_duration(Duration::from_secs(whole))
}

impl Scheduler {
    /// Declares the confirmed instances dead, all or none. The answer waits for the records, also where another call has written
    /// them: a repeat changes nothing.
    pub(crate) fn forget_worker(
        &mut self,
        now: Time,
        request: RequestId,
        shard: &Shard,
        confirmed: &[WorkerId],
    ) {
        let outcome = self.may_forget(now, shard, confirmed);
        if let Ok(dead) = &outcome {
            for instance in dead.iter().filter(|dead| confirmed.contains(&dead.id)) {
                self.declare_dead(now, shard, instance.id);
            }
        }
        let after = outcome.is_ok().then(|| self.last_record());
        let reply = Reply::WorkerForgotten(outcome);
        self.reply_after(now, (request, after), reply, HeldReply::Declaration);
    }

    /// The instances that are meant, if each may be declared dead.
    fn may_forget(
        &self,
        now: Time,
        shard: &Shard,
        confirmed: &[WorkerId],
    ) -> Result<Vec<MissingInstance>, ForgetRefusal> {
        if let Some(error) = self.store_error() {
            return Err(ForgetRefusal::StoreFails(error.to_owned()));
        }
        let open: Vec<WorkerId> = confirmed
            .iter()
            .copied()
            .filter(|id| !self.workers().has_left(*id))
            .collect();
        if !confirmed.is_empty() && open.is_empty() {
            return Ok(Vec::new());
        }
        let missing = self.missing(shard)?;
        let stranger = |id: &&WorkerId| !missing.contains(id);
        if let Some(&instance) = open.iter().find(stranger) {
            let shard = shard.clone();
            return Err(ForgetRefusal::Changed { shard, instance });
        }
        let meant = missing
            .into_iter()
            .filter(|id| open.is_empty() || open.contains(id));
        meant
            .map(|id| {
                self.check_silence(now, shard, id)?;
                Ok(self.missing_instance(now, id))
            })
            .collect()
    }

    /// The instances of a worker that are waited for, and else the one that holds its shard.
    fn missing(&self, shard: &Shard) -> Result<Vec<WorkerId>, ForgetRefusal> {
        let is_away = |id: WorkerId| self.workers().shard_with(id).is_none();
        let expected = self
            .initial_wait()
            .expected_where(|id, instance| instance.shard == *shard && is_away(id));
        if !expected.is_empty() {
            return Ok(expected);
        }
        match self.workers().get(shard) {
            None => Err(ForgetRefusal::Unknown {
                shard: shard.clone(),
                known: self.names_to_forget(),
            }),
            Some(holder) if holder.health() == Health::MustDie => Err(ForgetRefusal::Lost {
                shard: shard.clone(),
                instance: holder.id(),
            }),
            Some(holder) => Ok(vec![holder.id()]),
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

    /// An instance that has answered within the loss time may be alive, whatever an operator says.
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
        let timeouts = self.initial_wait().longest_timeouts(instance, ours);
        let loss = timeouts.lose_unhealthy_worker_after;
        if let Some(at) = self.heard_at(instance)
            && now < at + loss
        {
            return Err(ForgetRefusal::Answered {
                shard: shard.clone(),
                instance,
                ago: now.since(at),
                accepted_in: (at + loss).since(now),
            });
        }
        let silence = self.initial_wait().silence_of(instance);
        match silence.filter(|silence| silence.heard_at.is_none() && now < silence.heard_by) {
            Some(silence) => Err(ForgetRefusal::TooSoon {
                shard: shard.clone(),
                instance,
                accepted_in: silence.heard_by.since(now),
            }),
            None => Ok(()),
        }
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
        ];
        heard.into_iter().flatten().max()
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
        }
    }

    fn declare_dead(&mut self, now: Time, shard: &Shard, instance: WorkerId) {
        let holds_it = self
            .workers()
            .get(shard)
            .is_some_and(|w| w.id() == instance);
        let recorded = match holds_it {
            true => self.lose(now, shard, LeftCause::Forgotten),
            false => Some(self.bury_expected(instance, LeftCause::Forgotten)),
        };
        if let Some(recorded) = recorded {
            self.initial_wait_mut().note_declared_dead(recorded);
        }
    }

    /// Whether what operators have declared is durable: until then nothing starts that rests on it.
    pub(crate) fn declarations_are_durable(&self) -> bool {
        let recorded = self.initial_wait().declared_dead();
        recorded.is_none_or(|seq| self.is_persisted(seq))
            || sabotage::on(Sabotage::StartBeforeForgetIsDurable)
    }
}
