//! The credit of pull workers: what tasks spend of it, and what completions return.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{GpuShare, InvocationId, Processor, Shard, Time, WorkRequestSeq};
use brasserie_scheduler_engine::{Engine, Placement, Task, WorkFound};

use super::{Scheduler, View};
use crate::credits::{Apps, NotSent, PlacementResult, Relief, RequestView, TaskClass, TaskWork};
use crate::estimates::Estimates;
use crate::pool::Pool;
use crate::pool::remote::Remote;

/// An owned [`TaskWork`].
pub(super) struct OwnTaskWork {
    pub processor: Processor,
    pub usage: f64,
    pub estimate: f64,
    pub class: TaskClass,
    pub bound: Option<Duration>,
}

impl OwnTaskWork {
    pub(super) fn task_work(&self) -> TaskWork<'_> {
        TaskWork::new(
            &self.processor,
            self.usage,
            self.estimate,
            self.class,
            self.bound,
        )
    }
}

pub(super) fn found_of(
    found: &BTreeMap<Processor, WorkFound>,
    processor: &Processor,
) -> PlacementResult {
    found
        .get(processor)
        .map_or(PlacementResult::NOTHING, |found| PlacementResult {
            candidates: found.ready,
            late: found.late,
            apps: Apps::Some,
        })
}

/// The parts that know of credit. A worker's credits decide which tasks the engine may place on it.
pub(super) struct Credit<'a> {
    engine: &'a mut Engine,
    pool: &'a mut Pool,
    estimates: &'a Estimates,
}

impl Scheduler {
    pub(super) fn credit(&mut self) -> Credit<'_> {
        Credit {
            engine: &mut self.engine,
            pool: &mut self.pool,
            estimates: &self.estimates,
        }
    }

    /// Charges a task that a plan would start as if it had started.
    pub(super) fn spend_planned(&mut self, now: Time, placement: Placement) {
        let Placement { task, worker, .. } = placement;
        let Some(shard) = self.pool.shard_of(worker).cloned() else {
            return;
        };
        let run = self.new_invocation(task);
        self.credit().spend(now, &shard, (task, run));
        let remote = self.pool.get(&shard);
        if remote.is_some_and(|remote| remote.credits().are_used()) {
            self.credit().update(now, &shard);
        }
    }
}

impl Credit<'_> {
    /// Charges a task that was marked running on a worker to the worker's credit, if it is a pull worker.
    pub(super) fn spend(
        &mut self,
        now: Time,
        shard: &Shard,
        (task, run): (Task, InvocationId),
    ) -> Option<WorkRequestSeq> {
        let uses_credits = |remote: &Remote| remote.credits().are_used();
        if !self.pool.get(shard).is_some_and(uses_credits) {
            return None;
        }
        let task_work = task_work_of((self.engine, self.pool, self.estimates), shard, task);
        let remote = self.pool.get_mut(shard)?;
        remote
            .credits_mut()
            .spend(now, (run, &task_work.task_work()))
    }

    /// Notes which GPUs a run had, as its worker reports at its completion. The worker may have chosen them.
    pub(super) fn note_cards(&mut self, shard: &Shard, run: InvocationId, gpus: &[GpuShare]) {
        let index = self.pool.get(shard).map(|remote| remote.index());
        let had = index.and_then(|index| self.engine.processor_of_cards(index, gpus));
        if let Some((had, remote)) = had.zip(self.pool.get_mut(shard)) {
            remote.credits_mut().ran_on(run, had);
        }
    }

    /// Returns the idle instances of a completed run to the credit, so that another task may be sent in this turn.
    pub(super) fn give_back(&mut self, now: Time, shard: &Shard, run: InvocationId) {
        let remote = self.pool.get_mut(shard);
        if remote.is_some_and(|remote| remote.credits_mut().give_back(now, run)) {
            self.update(now, shard);
        }
        self.relieve(now, shard, run);
    }

    /// Returns the credit of a run that never began because its worker chooses GPUs and had none free. Similar tasks are not sent there for
    /// a while. The engine still counts the run as running.
    pub(super) fn refund(&mut self, now: Time, shard: &Shard, (task, run): (Task, InvocationId)) {
        let remote = self.pool.get_mut(shard);
        if remote.is_some_and(|remote| remote.credits_mut().turned_down(now, run)) {
            self.engine.note_turned_down(task);
        }
    }

    /// Permits similar tasks to be sent to the worker again after a run has ended there.
    pub(super) fn permit_again(&mut self, shard: &Shard) {
        if let Some(remote) = self.pool.get_mut(shard)
            && remote.credits_mut().forget_turned_down()
        {
            let index = remote.index();
            self.engine.forget_turned_down(index);
        }
    }

    /// Permits another try for tasks that would have been late at the worker, after a run has ended or never begun there.
    pub(super) fn relieve(&mut self, now: Time, shard: &Shard, run: InvocationId) {
        let Some(remote) = self.pool.get_mut(shard) else {
            return;
        };
        let index = remote.index();
        match remote.credits_mut().ended(now, run) {
            Relief::MoreTime => self.engine.forget_late(index),
            Relief::Nothing => {}
        }
    }

    /// Sets the tasks that the worker may be sent now; none if it may get no tasks. Part of each evaluation of a worker.
    pub(super) fn update(&mut self, now: Time, shard: &Shard) {
        let Some(remote) = self.pool.get_mut(shard) else {
            return;
        };
        // A former holder of the shard may have requested work. Its requests do not bind this one.
        if !remote.may_have_credit() && !sabotage::on(Sabotage::CreditOfTheSick) {
            remote.credits_mut().clear();
        }
        remote.credits_mut().expire(now);
        let takes_again = remote.credits_mut().expire_turned_down(now);
        let (index, allowances) = (remote.index(), remote.credits().allowances(now));
        self.engine.set_allowances(index, allowances);
        if takes_again {
            self.engine.forget_turned_down(index);
        }
    }
}

impl View<'_> {
    /// Returns the state of a worker's newest request, for people.
    pub(super) fn asked(&self, now: Time, remote: &Remote) -> Option<RequestView> {
        let found = self.engine.work_found(remote.index());
        let found = |processor: &Processor| found_of(&found, processor);
        remote.credits().asked(now, found)
    }

    /// Returns why a task is not sent to a pull worker although there is no other obstacle, for people.
    pub(super) fn why_not_sent(&self, now: Time, shard: &Shard, task: Task) -> Option<NotSent> {
        let task_work = task_work_of((&self.engine, &self.pool, &self.estimates), shard, task);
        let credits = self.pool.get(shard)?.credits();
        credits.why_not_sent(now, &task_work.processor, task_work.class)
    }
}

/// Returns the work of a task at a worker.
pub(super) fn task_work_of(
    (engine, pool, estimates): (&Engine, &Pool, &Estimates),
    shard: &Shard,
    task: Task,
) -> OwnTaskWork {
    let index = pool.get(shard).map(|remote| remote.index());
    let config = engine.config();
    let job = engine.job_config(task.job);
    let (Some(index), Some(config), Some(job)) = (index, config, job) else {
        // The task's job is gone, so it counts as using a processor for an unknown time.
        return OwnTaskWork {
            processor: Processor::Cpu,
            usage: 1.0,
            // Zero stands for an unknown duration.
            estimate: 0.0,
            class: TaskClass::Immediate,
            bound: None,
        };
    };
    let (processor, usage) = engine.work_of(config, (job, task), index);
    OwnTaskWork {
        processor,
        usage,
        estimate: estimates.estimate(task.job, Some(job)).seconds,
        class: match job.bufferable {
            true => TaskClass::Bufferable,
            false => TaskClass::Immediate,
        },
        bound: job.deadline(),
    }
}
