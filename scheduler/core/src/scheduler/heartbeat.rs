//! Heartbeats: association, refreshing, replacement and departure of workers.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::health::Health;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::{HeartbeatResponse, Intake, PROTOCOL_VERSION};
use brasserie_common::{
    Card, MachinePortLock, Principal, RecordSeq, RequestId, SchedulerId, Shard, Time, Timeouts,
    WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_scheduler_engine::{Eligibility, WorkerResources};

use super::effect::Reply;
use super::leaving::replaced_by;
use super::replies::HeldReply;
use super::{Scheduler, View};
use crate::news::News;
use crate::pool::remote::Remote;
use crate::pool::replacement::{Bump, Decision, Incumbent, Newcomer, decide};
use crate::record::{LeftCause, OWN_RECORD, Record};
use crate::refusal::Rejection;

impl Scheduler {
    pub(super) fn heartbeat(
        &mut self,
        now: Time,
        (request, from): (RequestId, &Principal),
        worker: WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) {
        let (shard, id) = (worker.shard.clone(), worker.id);
        let hostname = Arc::clone(&worker.machine_lock.hostname);
        let machine = from.identity().and_then(|worker| worker.from.machine());
        let accepted = self.view().check_machine(&worker, machine);
        let accepted =
            accepted.and_then(|()| self.accept_heartbeat(now, worker, worker_set, goodbye));
        match accepted {
            Ok(after) => {
                if let Some(remote) = self.pool.instance_mut(&shard, id) {
                    remote.note_machine(machine);
                }
                let waits = after.is_some_and(|seq| !self.outbox.is_persisted(seq));
                let response = self.heartbeat_response(now, (&shard, id), waits);
                // The worker's eligibility can depend on this answer.
                self.evaluate(now, &shard);
                let reply = Reply::Heartbeat(Ok(Box::new(response)));
                self.outbox
                    .reply_after(now, (request, after), reply, HeldReply::Heartbeat);
            }
            Err(rejection) => {
                self.note_refusal(now, &shard, &hostname, &rejection);
                self.outbox.reply(request, Reply::Heartbeat(Err(rejection)));
            }
        }
    }

    /// Handles a heartbeat up to its answer. Returns the record that the answer waits for: that of this scheduler instance, of a new
    /// association, so that no later heartbeat finds it missing, or of a wait that begins anew.
    fn accept_heartbeat(
        &mut self,
        now: Time,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) -> Result<Option<RecordSeq>, Rejection> {
        check_description(&worker)?;
        self.wait.note_heard(worker.id, now);
        if let Some(holder) = self.pool.instance_mut(&worker.shard, worker.id) {
            holder.note_heard_after_leaving(now);
        }
        let waits_anew = self.witness(now, worker.id, worker_set);
        let recorded = self.accept_instance(now, worker, worker_set, goodbye)?;
        let after = recorded.filter(|_| !sabotage::on(Sabotage::InstanceRecordAfterSending));
        Ok(Some(after.unwrap_or(OWN_RECORD)).max(waits_anew))
    }

    /// Notes a problem for a lasting refusal, because no table of `status` has a refused worker.
    fn note_refusal(&mut self, now: Time, shard: &Shard, hostname: &str, rejection: &Rejection) {
        // Other rejections are temporary, are shown elsewhere, or answer late messages of dead processes.
        let lasts = matches!(
            rejection,
            Rejection::ShardTaken { .. }
                | Rejection::ProtocolVersion { .. }
                | Rejection::IdentityChanged { .. }
                | Rejection::PoolFull { .. }
                | Rejection::OtherMachine { .. }
        );
        if lasts {
            let text = format!("worker `{shard}` on host {hostname} is refused: {rejection}");
            self.notices.problem(now, &text);
        }
    }

    /// Handles the instance of a heartbeat. Returns the record that the answer must wait for, if there is a new one.
    fn accept_instance(
        &mut self,
        now: Time,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) -> Result<Option<RecordSeq>, Rejection> {
        let shard = worker.shard.clone();
        self.view().check_identity(&worker)?;
        // The decision uses the health at this moment, not the stored one.
        self.evaluate(now, &shard);
        let is_holder = self.pool.shard_with(worker.id).is_some();
        if goodbye && !is_holder {
            return Ok(self.goodbye_of_a_stranger(worker.id));
        }
        let takes_back = sabotage::on(Sabotage::TakeBackTheLost);
        if self.pool.has_left(worker.id) && !takes_back {
            // The instance is never accepted again, not even on a shard that has become free, because its tasks may run elsewhere.
            if !goodbye {
                let why = self.view().why_it_left(&shard, worker.id);
                self.ask_to_die(now, (worker.shard, worker.id, worker.address), &why);
            }
            return Ok(None);
        }
        let bump = if self.options.allow_bump_unhealthy_worker {
            Bump::Unhealthy
        } else {
            Bump::OnlyLost
        };
        let decision = self
            .pool
            .get(&shard)
            .map(|c| decide(c.description(), c.health(), &worker, bump))
            .filter(|decision| *decision != Decision::Lost || !takes_back);
        match decision {
            None => {
                self.view().check_newcomer(worker.id)?;
                Ok(Some(self.associate(now, worker, worker_set)?))
            }
            Some(Decision::Refresh) if goodbye => {
                let why = "it said goodbye".into();
                Ok(self.lose(now, &shard, LeftCause::CleanExit, why))
            }
            Some(Decision::Refresh) => {
                self.refresh(now, worker, worker_set);
                // The first answer may have been abandoned. This one has the same content, so it waits for the same record.
                let remote = self.pool.get(&shard);
                Ok(remote.and_then(Remote::record_to_come))
            }
            Some(Decision::Lost) => Ok(None),
            Some(Decision::Replace { cause, incumbent }) => {
                self.view().check_newcomer(worker.id)?;
                self.displace(now, &worker, cause, incumbent);
                Ok(Some(self.associate(now, worker, worker_set)?))
            }
            Some(Decision::Refuse {
                rejection,
                newcomer,
            }) => {
                match newcomer {
                    Newcomer::MustDie => {
                        let why = rejection.to_string().into();
                        self.ask_to_die(now, (worker.shard, worker.id, worker.address), &why);
                    }
                    Newcomer::IsDead => {}
                }
                Err(rejection)
            }
        }
    }

    fn displace(
        &mut self,
        now: Time,
        newcomer: &WorkerDescription,
        cause: LeftCause,
        incumbent: Incumbent,
    ) {
        let (shard, why) = (&newcomer.shard, replaced_by(newcomer));
        match incumbent {
            Incumbent::IsDead => {
                self.lose(now, shard, cause, why);
            }
            Incumbent::MustDie => self.request_suicide(now, shard, &why),
            Incumbent::MustDieUnhealthy | Incumbent::MayLive => {
                self.request_suicide(now, shard, &why);
                let timers = self.pool.get(shard).map(|w| w.timers_from(now));
                let timers = timers.filter(|_| !sabotage::on(Sabotage::BumpWithUsualBackoff));
                self.lose_with(now, shard, (cause, why), timers);
            }
        }
    }

    fn refresh(&mut self, now: Time, worker: WorkerDescription, worker_set: WorkerSetId) {
        let shard = worker.shard.clone();
        self.pool.hear_echo(&worker, &worker_set);
        self.engine.upsert_worker(&shard, resources_of(&worker));
        let is_known_elsewhere = ![SchedulerId::default(), self.id].contains(&worker_set.scheduler);
        if let Some(remote) = self.pool.get_mut(&shard) {
            let before = remote.description().intake;
            remote.refresh(now, worker);
            if is_known_elsewhere {
                remote.note_known_elsewhere();
            }
            let drains = (before, remote.description().intake) == (Intake::Open, Intake::Draining);
            if let Some(known) = drains.then(|| remote.known()) {
                self.notices.news(News::Draining(known));
            }
        }
        self.evaluate(now, &shard);
    }

    /// Associates a new instance with a shard that is free or whose holder was displaced.
    fn associate(
        &mut self,
        now: Time,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
    ) -> Result<RecordSeq, Rejection> {
        self.bury_predecessors(now, &worker);
        if self.pool.get(&worker.shard).is_none() {
            match self.pool.make_room() {
                Ok(None) => {}
                Ok(Some(index)) => self.engine.remove_worker(index),
                Err(limit) => return Err(Rejection::PoolFull { limit }),
            }
        }
        let (shard, id) = (worker.shard.clone(), worker.id);
        // The worker may never receive the timeouts of this scheduler, and keep those that an earlier one sent.
        let timeouts = self.wait.longest_timeouts(worker.id, self.options.timeouts);
        let seq = self.outbox.next_record();
        let index = self.engine.upsert_worker(&shard, resources_of(&worker));
        if worker.takes_standby {
            self.estimates.begin_learning();
        }
        self.engine.set_eligibility(index, Eligibility::Ineligible);
        let since = self.runs.associated(worker.id);
        let recorded = (seq, timeouts, since);
        let mut remote = Remote::new(now, worker.clone(), index, worker_set, recorded);
        self.outbox
            .persist(if sabotage::on(Sabotage::RecordAtFirstTask) {
                Record::HoldBack {
                    wait: Duration::ZERO,
                }
            } else {
                remote.association()
            });
        if self.wait.expects(worker.id) {
            remote.note_known_elsewhere();
        }
        remote.refresh(now, worker);
        self.notices.news(News::Joined(remote.known()));
        self.notices.another_instance(&shard);
        self.artifacts
            .associated(now, &remote.description().machine_lock);
        self.pool.insert(remote, seq);
        self.apply_order(now, &shard);
        self.orders.check_soon();
        if !sabotage::on(Sabotage::BoundAfterTheAnswer) {
            self.wait.note_answered(id);
        }
        self.evaluate(now, &shard);
        Ok(seq)
    }

    fn heartbeat_response(
        &mut self,
        now: Time,
        (shard, worker): (&Shard, WorkerId),
        waits: bool,
    ) -> HeartbeatResponse {
        let t: Timeouts = self.options.timeouts;
        let worker_set = self.pool.set();
        let (state, not_healthy_for, work) = match self.pool.instance_mut(shard, worker) {
            Some(remote) => {
                remote.tell(now, worker_set, waits);
                let work = remote.credits().reply().map(Box::new);
                (remote.health(), remote.not_healthy_for(now), work)
            }
            // The instance has left, and the answer says so.
            None => (Health::MustDie, None, None),
        };
        let why_must_die =
            (state == Health::MustDie).then(|| self.view().why_it_left(shard, worker));
        HeartbeatResponse {
            scheduler: self.id,
            max_healthcheck_gap: t.max_healthcheck_gap(),
            heartbeat_grace_period: t.heartbeat_grace_period,
            lose_unhealthy_worker_after: t.lose_unhealthy_worker_after,
            worker_check_interval: t.worker_check_interval,
            worker_state: state,
            not_healthy_for,
            protocol_version: PROTOCOL_VERSION,
            worker_set,
            why_must_die,
            work,
            request_delay: None,
            uses_artifacts: self.artifacts.are_used(),
        }
    }
}

impl View<'_> {
    /// Checks the identity of a worker. An instance has one shard and one machine lock for life, and a machine lock has one instance at a
    /// time, the latest. A heartbeat that contradicts this is a delayed message of a dead process, or wrong.
    fn check_identity(&self, worker: &WorkerDescription) -> Result<(), Rejection> {
        let known = self.pool.holder(worker.id);
        let same_as = |shard: &Shard, lock: &MachinePortLock| {
            if *shard == worker.shard && *lock == worker.machine_lock {
                return Ok(());
            }
            Err(Rejection::IdentityChanged {
                instance: worker.id,
                shard: shard.as_str().to_owned(),
                lock: format!("{}:{}", lock.hostname, lock.port),
            })
        };
        if let Some(known) = known {
            return same_as(known.shard(), &known.description().machine_lock);
        }
        if let Some(recorded) = self.wait.recorded(worker.id) {
            same_as(&recorded.shard, &recorded.machine_lock)?;
        }
        let of_lock = self.pool.with_lock(&worker.machine_lock).map(Remote::id);
        let expected = self
            .wait
            .expected_where(|_, instance| instance.machine_lock == worker.machine_lock);
        let later = of_lock
            .chain(expected)
            .find(|id| id.0.start_time > worker.id.0.start_time);
        match later {
            Some(successor) => Err(Rejection::StaleInstance { successor }),
            None => Ok(()),
        }
    }

    /// Errors if a worker claims the machine lock of another instance that is healthy on another machine. A lock proves that its former holder
    /// is dead, but only to those who hold it: a stolen key names any lock.
    fn check_machine(
        &self,
        worker: &WorkerDescription,
        machine: Option<IpAddr>,
    ) -> Result<(), Rejection> {
        let Some(theirs) = machine else {
            return Ok(());
        };
        let others = self.pool.with_lock(&worker.machine_lock);
        let mut others =
            others.filter(|known| known.id() != worker.id && known.health() == Health::Healthy);
        let elsewhere = others.find_map(|known| {
            let ours = known.machine().filter(|ours| *ours != theirs)?;
            Some((known, ours))
        });
        match elsewhere {
            Some((known, ours)) => Err(Rejection::OtherMachine {
                shard: known.shard().as_str().to_owned(),
                incumbent: known.id(),
                theirs,
                ours,
            }),
            None => Ok(()),
        }
    }

    /// Checks whether a new instance may associate. A suicide request that is still on its way would end it later, with its tasks. While
    /// the store cannot write, the records of workers that restart repeatedly would accumulate.
    fn check_newcomer(&self, worker: WorkerId) -> Result<(), Rejection> {
        if self.calls.is_asked_to_die(worker) {
            return Err(Rejection::AskedToDie { instance: worker });
        }
        match self.outbox.store_error() {
            Some(why) => Err(Rejection::StoreFails {
                why: why.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the reason why an instance that has left can never return, for its log.
    fn why_it_left(&self, shard: &Shard, worker: WorkerId) -> Arc<str> {
        let holder = self.pool.get(shard).filter(|w| w.id() == worker);
        let why = holder.and_then(Remote::left).map(|left| &left.why);
        why.cloned().unwrap_or_else(|| {
            "this scheduler, or an earlier one of its data directory, has lost or replaced it and has given its tasks to others".into()
        })
    }
}

/// The most GPUs of one worker that are used, more than any machine has. It bounds the cost of a longer list.
const MAX_CARDS: usize = 1024;

fn resources_of(worker: &WorkerDescription) -> WorkerResources {
    let mut seen = BTreeSet::new();
    // GPUs with the same name are one GPU, however often a worker lists it. A GPU without a name cannot be assigned.
    let listed = worker.usable.gpus.iter().take(MAX_CARDS);
    let cards = listed
        .filter(|card| !card.pci_bus_id.is_empty())
        .filter(|card| seen.insert(&card.pci_bus_id))
        .map(|card| Card {
            device: card.pci_bus_id.as_str().into(),
            model: card.name.as_str().into(),
        });
    let cards = cards.collect();
    WorkerResources {
        hostname: worker.machine_lock.hostname.clone(),
        port: worker.machine_lock.port,
        cpu_cores: worker.usable.cpu_cores,
        memory_mb: worker.usable.memory_mb,
        cards,
        has_worker_command: worker.has_worker_command,
        room: worker.room.clone(),
        takes_standby: worker.takes_standby,
    }
}

/// Checks the parts of a description that do not depend on the scheduler's state.
fn check_description(worker: &WorkerDescription) -> Result<(), Rejection> {
    if worker.protocol_version != PROTOCOL_VERSION {
        return Err(Rejection::ProtocolVersion {
            theirs: worker.protocol_version,
            ours: PROTOCOL_VERSION,
        });
    }
    if worker.shard.as_str().is_empty() {
        return Err(Rejection::EmptyName("BistroWorker.shard"));
    }
    Ok(())
}
