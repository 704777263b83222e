//! Requests of operators to a scheduler, at any time.

use std::time::Duration;

use brasserie_common::{Health, JobName, Shard, TaskKey, WorkerId};

use super::{Cluster, Due, FIRST};
use crate::event_log::{FaultKind, HistoryOf, TaskId, WorkerPlace};
use crate::hosts::scheduler::SchedulerInput;
use brasserie_scheduler_core::{AfterDecommission, Answer, OrderRequest, Query};

/// The number of jobs whose history may be deleted: all present jobs and some that are gone.
const RECENT_JOBS: usize = 7;

/// The number of ended workers that an operator still remembers.
const RECENT_WORKERS: usize = 8;
/// Declarations per thousand that name a living worker by mistake.
const MISTAKEN: u32 = 300;

/// The range of deadlines of decommissions.
const SHORT_DEADLINE: Duration = Duration::from_secs(5);
const LONG_DEADLINE: Duration = Duration::from_secs(900);
/// The time between two tries to end all orders.
const BETWEEN_ORDERS: Duration = Duration::from_secs(5);

/// A worker process that has ended.
#[derive(Clone, Debug)]
pub(super) struct EndedWorker {
    place: WorkerPlace,
    shard: Shard,
    worker: WorkerId,
}

impl Cluster {
    pub(super) fn remember_ended(&mut self, place: WorkerPlace, worker: WorkerId) {
        let shard = self.shard_of(place);
        if self.ended_workers.len() == RECENT_WORKERS {
            self.ended_workers.remove(0);
        }
        self.ended_workers.push(EndedWorker {
            place,
            shard,
            worker,
        });
    }

    fn shard_of(&self, place: WorkerPlace) -> Shard {
        let name = format!("shard{}", self.swarm.places[usize::from(place.0)].shard);
        Shard::try_from(name).expect("Invariant: a short name without NUL")
    }

    /// Declares a worker dead: one that is dead with all its tasks, or by mistake one that has just answered.
    pub(super) fn operator_forgets_worker(&mut self) -> bool {
        let chosen = match self.chance.per_mille(MISTAKEN) {
            true => self.one_that_answers(),
            false => self.one_that_is_dead(),
        };
        let Some((shard, worker)) = chosen else {
            return false;
        };
        self.drive_scheduler(FIRST, SchedulerInput::ForgetWorker { shard, worker });
        true
    }

    /// Chooses a worker that may rightly be declared dead: its process and every process of its tasks are dead.
    fn one_that_is_dead(&mut self) -> Option<(Shard, WorkerId)> {
        let is_dead = |ended: &&EndedWorker| {
            // A successor starts only when no process is left.
            let has_successor = self.worker(ended.place).worker().is_some();
            has_successor || self.processes.of(ended.place).next().is_none()
        };
        let dead: Vec<EndedWorker> = self.ended_workers.iter().filter(is_dead).cloned().collect();
        let chosen = self.chance.pick(&dead)?;
        Some((chosen.shard.clone(), chosen.worker))
    }

    /// Chooses a living worker that this scheduler or an earlier one has answered less than the shortest loss time ago, by every clock of
    /// the world.
    fn one_that_answers(&mut self) -> Option<(Shard, WorkerId)> {
        let machine = self.scheduler_post(FIRST).machine;
        let (now, _) = self.clocks_of(machine);
        let core = self.scheduler(FIRST).core()?;
        let answer = core.answer(now, &Query::Status);
        let Answer::Status(status) = answer else {
            return None;
        };
        let loss = self.swarm.shortest.lose_unhealthy_worker_after;
        let here = status
            .workers
            .iter()
            .filter(|w| w.health != Health::MustDie)
            .filter(|w| w.since_heartbeat.is_some_and(|ago| ago < loss / 2))
            .map(|w| (w.shard.clone(), w.id));
        let away = core
            .unanswered()
            .filter(|(_, since)| now < *since + loss / 2);
        let away = away.filter_map(|(id, _)| {
            let host = self.workers.iter().find(|host| host.worker() == Some(id))?;
            Some((self.shard_of(host.place()), id))
        });
        let answers: Vec<(Shard, WorkerId)> = here.chain(away).collect();
        self.chance.pick(&answers).cloned()
    }

    /// Gives an order about some worker, in any state.
    pub(super) fn operator_orders(&mut self) -> bool {
        let place = self.any_place();
        let shard = self.shard_of(place);
        let reason = "the operator wants it".into();
        let deadline = match self.stores.per_mille(300) {
            true => Some(self.stores.skewed(SHORT_DEADLINE, LONG_DEADLINE)),
            false => None,
        };
        let then = match self.stores.per_mille(300) {
            true => AfterDecommission::Idle,
            false => AfterDecommission::Exit,
        };
        let order = match self.stores.below(5) {
            0 => OrderRequest::Exclude { reason },
            1 | 2 => OrderRequest::Decommission {
                reason,
                deadline,
                then,
            },
            _ => OrderRequest::Recommission,
        };
        self.drive_scheduler(FIRST, SchedulerInput::Order { shard, order });
        true
    }

    /// Ends all orders, again and again until the scheduler has none.
    pub(super) fn operator_recommissions(&mut self) {
        let machine = self.scheduler_post(FIRST).machine;
        let (now, _) = self.clocks_of(machine);
        let core = self.scheduler(FIRST).core();
        let answer = core.map(|core| core.answer(now, &Query::Status));
        let orders = match answer {
            Some(Answer::Status(status)) if status.orders.is_empty() => return,
            Some(Answer::Status(status)) => status.orders,
            _ => Vec::new(),
        };
        for order in orders {
            let (shard, order) = (order.shard, OrderRequest::Recommission);
            self.drive_scheduler(FIRST, SchedulerInput::Order { shard, order });
        }
        let again = Due::Mischief(FaultKind::OperatorOrders);
        self.queue.push(self.now + BETWEEN_ORDERS, again);
    }

    pub(super) fn operator_forgives(&mut self) -> bool {
        let jobs = &self.workload.config().jobs;
        let names: Vec<JobName> = jobs.iter().map(|job| job.name.clone()).collect();
        let Some(job) = self.chance.pick(&names).cloned() else {
            return false;
        };
        self.drive_scheduler(FIRST, SchedulerInput::Forgive(job));
        true
    }

    pub(super) fn operator_kill(&mut self) -> bool {
        let mut keys: Vec<TaskKey> = Vec::new();
        for at in 0..self.workers.len() {
            let place = self.workers[at].place();
            let tasks = self.processes.of(place);
            keys.extend(
                tasks
                    .filter(|p| !p.run.task.is_healthcheck())
                    .map(|p| p.key.clone()),
            );
        }
        let Some(key) = self.chance.pick(&keys).cloned() else {
            return false;
        };
        self.drive_scheduler(FIRST, SchedulerInput::Kill(key));
        true
    }

    /// Deletes the history of a present or recent job, mostly of all of its tasks.
    pub(super) fn operator_forgets(&mut self) -> bool {
        let jobs = self.workload.config().jobs.iter();
        let number = |name: &JobName| TaskId::from_names(name.as_str(), "n0").job;
        let last = jobs.map(|job| number(&job.name)).max().unwrap_or(0);
        let back = self.chance.below(RECENT_JOBS);
        let job = last.saturating_sub(u16::try_from(back).unwrap_or(0));
        let node = match self.chance.per_mille(300) {
            true => self.chance.pick(self.workload.node_numbers()).copied(),
            false => None,
        };
        let of = HistoryOf { job, node };
        self.drive_scheduler(FIRST, SchedulerInput::Forget(of));
        true
    }
}
