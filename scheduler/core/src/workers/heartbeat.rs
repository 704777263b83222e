//! Heartbeats: joining, refreshing, replacing and leaving.

use std::time::Duration;

use brasserie_common::health::Health;
use brasserie_common::status::StoredStatus;
use brasserie_common::worker::{HeartbeatResponse, PROTOCOL_VERSION};
use brasserie_common::{
    RecordSeq, ReportedStatus, RequestId, Shard, Time, Timeouts, WorkerDescription, WorkerId,
    WorkerSetId,
};
use brasserie_scheduler_engine::{Eligibility, Restart, Task, WorkerResources};

use super::remote::Remote;
use super::replacement::{Bump, Decision, Incumbent, Newcomer, decide};
use crate::calls::Purpose;
use crate::effect::{Call, Rejection, Reply};
use crate::record::{EndedTask, InstanceRecord, LeftCause, Record};
use crate::scheduler::Scheduler;

impl Scheduler {
    pub(crate) fn heartbeat(
        &mut self,
        now: Time,
        request: RequestId,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) {
        let shard = worker.shard.clone();
        match self.accept_heartbeat(now, worker, worker_set, goodbye) {
            Ok(after) => {
                let response = self.heartbeat_response(now, &shard);
                // What it may get can depend on what it has just been told.
                self.evaluate(now, &shard);
                self.reply(request, after, Reply::Heartbeat(Ok(Box::new(response))));
            }
            Err(rejection) => self.reply(request, None, Reply::Heartbeat(Err(rejection))),
        }
    }

    /// The record that the answer must wait for: our own instance's, and that of a new association, so that no later heartbeat
    /// finds it missing.
    fn accept_heartbeat(
        &mut self,
        now: Time,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) -> Result<Option<RecordSeq>, Rejection> {
        if worker.protocol_version != PROTOCOL_VERSION {
            return Err(Rejection::ProtocolVersion {
                theirs: worker.protocol_version,
                ours: PROTOCOL_VERSION,
            });
        }
        if worker.shard.as_str().is_empty() {
            return Err(Rejection::EmptyName("BistroWorker.shard"));
        }
        let own_record = RecordSeq::default().next();
        self.witness(now, worker_set);
        let shard = worker.shard.clone();
        // Not the stored health but that of this very moment.
        self.evaluate(now, &shard);
        let bump = if self.options().allow_bump_unhealthy_worker {
            Bump::Unhealthy
        } else {
            Bump::OnlyLost
        };
        let decision = self
            .workers()
            .get(&shard)
            .map(|c| decide(c.description(), c.health(), &worker, bump));
        match decision {
            None => Ok(Some(self.associate(now, worker, worker_set))),
            Some(Decision::Refresh) if goodbye => {
                self.lose(now, &shard, LeftCause::CleanExit);
                Ok(Some(own_record))
            }
            Some(Decision::Refresh) => {
                self.refresh(now, worker, worker_set);
                Ok(Some(own_record))
            }
            Some(Decision::Lost) => {
                if !goodbye {
                    self.request_suicide(now, &shard);
                }
                Ok(Some(own_record))
            }
            Some(Decision::Replace { cause, incumbent }) => {
                self.displace(now, &shard, cause, incumbent);
                Ok(Some(self.associate(now, worker, worker_set)))
            }
            Some(Decision::Refuse {
                rejection,
                newcomer,
            }) => {
                match newcomer {
                    Newcomer::MustDie => {
                        let call = Call::RequestSuicide { worker: worker.id };
                        self.call(now, worker.address, call, Purpose::Suicide);
                    }
                    Newcomer::IsDead => {}
                }
                Err(rejection)
            }
        }
    }

    fn displace(&mut self, now: Time, shard: &Shard, cause: LeftCause, incumbent: Incumbent) {
        match incumbent {
            Incumbent::IsDead => self.lose(now, shard, cause),
            Incumbent::MustDie => self.request_suicide(now, shard),
            Incumbent::MustDieUnhealthy => {
                self.request_suicide(now, shard);
                let until_its_timers_ended_it = self.options().timeouts.min_safe_wait();
                self.lose_with(now, shard, cause, until_its_timers_ended_it);
            }
        }
    }

    fn refresh(&mut self, now: Time, worker: WorkerDescription, worker_set: WorkerSetId) {
        let shard = worker.shard.clone();
        let echoed = Some(worker_set).filter(|set| set.scheduler == self.id());
        self.engine_mut()
            .upsert_worker(&shard, resources_of(&worker));
        if let Some(remote) = self.workers_mut().get_mut(&shard) {
            remote.refresh(now, worker, echoed);
        }
        self.evaluate(now, &shard);
    }

    /// A new instance takes a shard that is free or whose holder was displaced.
    fn associate(
        &mut self,
        now: Time,
        worker: WorkerDescription,
        worker_set: WorkerSetId,
    ) -> RecordSeq {
        self.bury_predecessors(now, &worker);
        let shard = worker.shard.clone();
        let instance = InstanceRecord {
            shard: shard.clone(),
            machine_lock: worker.machine_lock.clone(),
            heartbeat_period: worker.heartbeat_period,
            // It may never hear of ours, and keep what an earlier scheduler sent.
            timeouts: self
                .initial_wait()
                .longest_timeouts(worker.id, self.options().timeouts),
        };
        let seq = self.persist(Record::WorkerAssociated {
            worker: worker.id,
            instance,
        });
        let index = self
            .engine_mut()
            .upsert_worker(&shard, resources_of(&worker));
        self.engine_mut()
            .set_eligibility(index, Eligibility::Ineligible);
        let mut remote = Remote::new(now, worker.clone(), index, worker_set, seq);
        remote.refresh(now, worker, None);
        self.workers_mut().insert(remote, seq);
        self.evaluate(now, &shard);
        seq
    }

    /// A machine lock is held by one instance at a time, so an earlier holder is dead with all its processes, whichever shard
    /// it had, and whether or not this scheduler has met it.
    fn bury_predecessors(&mut self, now: Time, successor: &WorkerDescription) {
        let is_predecessor = |id: WorkerId, lock: &brasserie_common::MachinePortLock| {
            *lock == successor.machine_lock && id.0.start_time < successor.id.0.start_time
        };
        let associated: Vec<Shard> = self
            .workers()
            .iter()
            .filter(|w| {
                is_predecessor(w.id(), &w.description().machine_lock)
                    && w.health() != Health::MustDie
            })
            .map(|w| w.shard().clone())
            .collect();
        for shard in associated {
            self.lose(now, &shard, LeftCause::Replaced);
        }
        for worker in self
            .initial_wait()
            .expected_where(|id, instance| is_predecessor(id, &instance.machine_lock))
        {
            self.initial_wait_mut().returned(worker);
            self.persist(Record::WorkerLeft {
                worker,
                cause: LeftCause::Replaced,
                tasks: Vec::new(),
                hold_back: Duration::ZERO,
            });
        }
    }

    /// The instance of a shard can run nothing any more, or is taken to be unable to after the usual safety backoff.
    pub(crate) fn lose(&mut self, now: Time, shard: &Shard, cause: LeftCause) {
        self.lose_with(now, shard, cause, Duration::ZERO);
    }

    fn lose_with(&mut self, now: Time, shard: &Shard, cause: LeftCause, at_least: Duration) {
        let Some(remote) = self.workers_mut().get_mut(shard) else {
            return;
        };
        if remote.health() == Health::MustDie {
            return;
        }
        let (worker, index) = (remote.id(), remote.index());
        // Its tasks were never fetched, so any task might be there, unless it has never known a scheduler.
        let runs_unknown =
            remote.health() == Health::New && remote.knew_a_scheduler() && cause == LeftCause::Lost;
        remote.must_die(now);
        self.workers_mut().wake_at(shard, None);
        self.workers_mut().leave_set(worker);
        self.engine_mut()
            .set_eligibility(index, Eligibility::Ineligible);
        let ended: Vec<(Task, EndedTask)> = self
            .tasks()
            .on_shard(shard)
            .into_iter()
            .filter_map(|task| Some((task, self.lost_task(task, shard, cause, at_least)?)))
            .collect();
        let timeouts = self.options().timeouts;
        let hold_back = if runs_unknown {
            timeouts.lost_task_min_backoff(Duration::ZERO)
        } else {
            Duration::ZERO
        };
        let seq = self.persist(Record::WorkerLeft {
            worker,
            cause,
            tasks: ended.iter().map(|(_, ended)| ended.clone()).collect(),
            hold_back,
        });
        for (task, ended) in ended {
            self.end_run(now, task, ended.invocation, ended.status, Some(seq));
        }
        self.initial_wait_mut().hold_back(now, hold_back);
        self.initial_wait_mut().returned(worker);
    }

    fn lost_task(
        &self,
        task: Task,
        shard: &Shard,
        cause: LeftCause,
        at_least: Duration,
    ) -> Option<EndedTask> {
        let run = self.tasks().run(task)?;
        let (text, safety) = match cause {
            LeftCause::CleanExit => (
                "its worker has exited, with all its processes",
                Duration::ZERO,
            ),
            LeftCause::Lost => ("its worker was lost", self.lost_task_safety(run.kill_wait)),
            LeftCause::Replaced => (
                "its worker was replaced by a new instance",
                self.lost_task_safety(run.kill_wait),
            ),
            LeftCause::DidNotReturn => ("its worker did not return", Duration::ZERO),
        };
        let reported = ReportedStatus::worker_lost(shard, text, run.next_backoff);
        let safety_seconds = u32::try_from(safety.max(at_least).as_secs()).unwrap_or(u32::MAX);
        let old = self.engine().previous_status(task);
        let status = StoredStatus::after(
            old,
            &reported,
            run.next_backoff,
            safety_seconds,
            self.wall(),
        );
        let key = self.task_key(task);
        Some(EndedTask {
            job: key.job,
            node: key.node,
            invocation: run.invocation,
            status,
        })
    }

    fn lost_task_safety(&self, kill_wait: Duration) -> Duration {
        self.options().timeouts.lost_task_min_backoff(kill_wait)
    }

    /// Ends a run in every table. The task starts again no earlier than its status allows and its record is durable.
    pub(crate) fn end_run(
        &mut self,
        now: Time,
        task: Task,
        invocation: brasserie_common::InvocationId,
        status: StoredStatus,
        seq: Option<RecordSeq>,
    ) {
        let not_before = self.tasks().not_before(now, &status);
        let restart = if seq.is_some() {
            Restart::HeldUntilReleased
        } else {
            Restart::AtOnce
        };
        self.tasks_mut().end(now, task, invocation, seq);
        self.engine_mut()
            .end(now, task, status, not_before, restart);
    }

    fn heartbeat_response(&mut self, now: Time, shard: &Shard) -> HeartbeatResponse {
        let t: Timeouts = self.options().timeouts;
        let worker_set = self.workers().set();
        let state = match self.workers_mut().get_mut(shard) {
            Some(remote) => {
                remote.tell(now, worker_set);
                remote.health()
            }
            None => Health::New,
        };
        HeartbeatResponse {
            scheduler: self.id(),
            max_healthcheck_gap: t.max_healthcheck_gap(),
            heartbeat_grace_period: t.heartbeat_grace_period,
            lose_unhealthy_worker_after: t.lose_unhealthy_worker_after,
            worker_check_interval: t.worker_check_interval,
            worker_state: state,
            protocol_version: PROTOCOL_VERSION,
            worker_set,
        }
    }

    /// A worker names the scheduler that it knew last: is that one of this directory's?
    fn witness(&mut self, now: Time, worker_set: WorkerSetId) {
        if worker_set.scheduler == self.id() || worker_set == WorkerSetId::default() {
            return;
        }
        self.initial_wait_mut().witness(now, worker_set.scheduler);
    }
}

fn resources_of(worker: &WorkerDescription) -> WorkerResources {
    WorkerResources {
        hostname: worker.machine_lock.hostname.clone(),
        port: worker.machine_lock.port,
        cpu_cores: worker.usable.cpu_cores,
        has_worker_command: worker.has_worker_command,
    }
}
