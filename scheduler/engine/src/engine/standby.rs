//! Standing by: which tasks a worker starts next by itself, and which are taken back because another worker could start them.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, Time};

use super::Engine;
use crate::pool::standby::{PATIENCE, ShortRun, Standby, StandbyTask, TakeBack};
use crate::queues::states::{Structure, structure};
use crate::slots::ResourceName;
use crate::tasks::runs::PlacedRun;
use crate::types::{Task, WorkerIndex};

/// A task that stands by at a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyPlace {
    pub worker: WorkerIndex,
    /// The number of tasks that stand by there before it.
    pub before: usize,
}

impl Engine {
    /// Returns where a task stands by, as far as the scheduler knows. `None` if it has begun or does not run.
    pub fn standby_place(&self, task: Task) -> Option<StandbyPlace> {
        let worker = self.tasks.run(task)?.worker;
        let before = self.pool.get_any(worker)?.standby.position(task)?;
        Some(StandbyPlace { worker, before })
    }

    /// Places no further task at a worker without room.
    pub fn stop_standby(&mut self) {
        self.places_on_standby = false;
    }

    /// Returns whether any task stands by.
    pub fn has_standby(&self) -> bool {
        self.pool.standing_by().next().is_some()
    }

    /// Returns the number of tasks that stand by at a worker.
    pub fn standby_count(&self, worker: WorkerIndex) -> usize {
        let slot = self.pool.get_any(worker);
        slot.map_or(0, |slot| slot.standby.tasks().len())
    }

    /// Returns the expected run time of a job's tasks, if they may stand by.
    pub(super) fn short_run(&self, id: JobId) -> Option<ShortRun> {
        let job = self.tasks.job(id);
        let config = job.config.as_deref();
        let config = config.filter(|_| self.pool.may_stand_by(job.demand))?;
        ShortRun::of(config, job.learned)
    }

    /// Counts a short task that a worker has received.
    pub(super) fn note_short(&mut self, worker: WorkerIndex, short: Option<ShortRun>) {
        if short.is_some() {
            self.pool.change_standby(worker, Standby::note_short);
        }
    }

    /// Forgets a run that has ended, and counts as begun what its worker starts in its slots.
    pub(super) fn leave_worker(&mut self, task: Task, run: &PlacedRun) {
        self.pool.leave_standby(run.worker, task);
        if run.short.is_some() {
            self.pool.change_standby(run.worker, Standby::forget_short);
        }
        self.begin_standby(run.worker);
    }

    /// Notes that an adopted task stands by at its worker, as the worker says.
    pub fn note_standby(&mut self, now: Time, task: Task) {
        let Some((worker, short)) = self.tasks.run(task).map(|run| (run.worker, run.short)) else {
            return;
        };
        self.stand_by(now, task, short);
        self.offer_worker(worker);
    }

    /// Notes that a running task stands by at its worker.
    pub(super) fn stand_by(&mut self, now: Time, task: Task, run: Option<ShortRun>) {
        let Some((worker, slots)) = self.slots_on_worker(task) else {
            return;
        };
        let one = StandbyTask {
            task,
            due: now + PATIENCE,
            slots,
            run,
            take_back: TakeBack::IfElsewhere,
        };
        self.pool.stand_by(worker, one);
    }

    /// Returns a running task's worker and its slots there.
    fn slots_on_worker(&self, task: Task) -> Option<(WorkerIndex, Vec<(ResourceName, i32)>)> {
        let run = self.tasks.run(task)?;
        let node = self.pool.get_any(run.worker)?.node;
        let own = run.charges.iter().filter(|charge| charge.node == node);
        let own = own.filter(|charge| charge.amount > 0);
        let slots = own.map(|charge| (charge.resource, charge.amount));
        Some((run.worker, slots.collect()))
    }

    /// Counts the tasks as begun that a worker starts by itself in the slots that it has now, in the worker's order.
    pub(super) fn begin_standby(&mut self, worker: WorkerIndex) {
        let Some(slot) = self.pool.get_any(worker) else {
            return;
        };
        let fits = |one: &&StandbyTask| {
            one.slots.iter().all(|(name, amount)| {
                let executing = slot.standby.used(*name);
                let limit = self.worker_limit(worker, *name);
                limit.is_none_or(|(limit, used)| {
                    used - executing + i64::from(*amount) <= i64::from(limit)
                })
            })
        };
        let next = slot.standby.tasks().iter().find(fits).map(|one| one.task);
        if let Some(task) = next {
            self.pool.leave_standby(worker, task);
            self.begin_standby(worker);
        }
    }

    /// Returns a worker's slots of a resource, and how many of them are in use. `None` if the resource is not configured for workers.
    fn worker_limit(&self, worker: WorkerIndex, name: ResourceName) -> Option<(i32, i64)> {
        let slot = self.pool.get_any(worker)?;
        let id = self.slots.find(name)?;
        let at = self.slots.of_workers().iter().position(|of| *of == id)?;
        Some((*slot.limits.get(at)?, self.slots.used(slot.node, id)))
    }

    /// Returns the slots of a worker, as it must know them to start tasks that stand by. `None` if no task may stand by there.
    pub fn standby_slots(&self, worker: WorkerIndex) -> Option<Vec<(&str, i32)>> {
        let slot = self.pool.get(worker)?;
        let is_on = self.config.as_ref()?.standby;
        if !is_on || !slot.resources.takes_standby || slot.allowances.is_some() {
            return None;
        }
        let all = self.slots.of_workers().iter().zip(&slot.limits);
        let named = all.map(|(id, limit)| (self.slots.text(self.slots.name(*id)), *limit));
        Some(named.collect())
    }

    /// Returns tasks that must be taken back now, at most `most`: those that may not start any more, and those that have stood by for
    /// [`PATIENCE`] although another worker could start them. The caller asks each task's worker to return it, and reports the outcome:
    /// the task's end, or [`Engine::take_back_failed`].
    pub fn begin_take_backs(
        &mut self,
        now: Time,
        reasons: TakeBackReasons,
        most: usize,
    ) -> Vec<Task> {
        let mut due = self.take_backs(reasons);
        due.retain(|(time, ..)| *time <= now);
        due.truncate(most);
        for (_, task, worker) in &due {
            self.change_task_on_standby(*worker, *task, |one| one.take_back = TakeBack::Sent);
        }
        due.into_iter().map(|(_, task, _)| task).collect()
    }

    fn change_task_on_standby(
        &mut self,
        worker: WorkerIndex,
        task: Task,
        change: impl FnOnce(&mut StandbyTask),
    ) {
        self.pool.change_standby(worker, |standby| {
            if let Some(one) = standby.get_mut(task) {
                change(one);
            }
        });
    }

    /// Returns when [`Engine::begin_take_backs`] has a task next, unless something else happens before.
    pub fn take_back_due(&self, reasons: TakeBackReasons) -> Option<Time> {
        self.take_backs(reasons).first().map(|(due, ..)| *due)
    }

    /// Returns the tasks to be taken back, and when, the earliest first. For tasks that another worker could start, at most as many
    /// take-backs are under way as workers have room.
    fn take_backs(&self, reasons: TakeBackReasons) -> Vec<(Time, Task, WorkerIndex)> {
        let is_elsewhere = |job: JobId| self.pool.count_fits(self.tasks.job(job).demand, 1) > 0;
        let may_move = reasons == TakeBackReasons::All
            && self.pool.standby_jobs().any(is_elsewhere)
            && !sabotage::on(Sabotage::NeverTakeBack);
        let mut due: Vec<(Time, Task, WorkerIndex)> = Vec::new();
        for (worker, standby) in self.pool.unwanted() {
            let tasks = standby.tasks().iter();
            let unwanted = tasks.filter(|one| one.take_back == TakeBack::InAnyCase);
            due.extend(unwanted.map(|one| (one.due, one.task, worker)));
        }
        if may_move {
            due.extend(self.take_backs_for_others());
        }
        due.sort_unstable();
        due
    }

    /// Returns the tasks that other workers could start, as many for each demand as workers have room that no take-back is under way for.
    fn take_backs_for_others(&self) -> Vec<(Time, Task, WorkerIndex)> {
        let mut by_demand: BTreeMap<usize, (usize, Vec<(Time, Task, WorkerIndex)>)> =
            BTreeMap::new();
        for (worker, standby) in self.pool.standing_by() {
            for one in standby.tasks() {
                let demand = self.tasks.job(one.task.job).demand;
                let (sent, waiting) = by_demand.entry(demand).or_default();
                match one.take_back {
                    TakeBack::InAnyCase => {}
                    TakeBack::IfElsewhere => waiting.push((one.due, one.task, worker)),
                    TakeBack::Sent => *sent += 1,
                }
            }
        }
        let mut due = Vec::new();
        for (demand, (sent, mut waiting)) in by_demand {
            let room = self.pool.count_fits(demand, sent + waiting.len());
            waiting.sort_unstable();
            waiting.truncate(room.saturating_sub(sent));
            due.extend(waiting);
        }
        due
    }

    /// Marks for a take-back the tasks that stand by and may not start any more, after the configuration or the nodes have changed.
    pub(super) fn check_standby(&mut self) {
        let workers: Vec<WorkerIndex> = self.pool.standing_by().map(|(at, _)| at).collect();
        for worker in workers {
            let tasks = self.pool.get_any(worker).map(|slot| slot.standby.tasks());
            let tasks = tasks.into_iter().flatten().map(|one| one.task);
            let gone: BTreeSet<Task> = tasks.filter(|task| !self.may_still_start(*task)).collect();
            self.return_standby(worker, |task| gone.contains(&task));
        }
    }

    /// Marks for a take-back the chosen tasks that stand by at a worker.
    pub(super) fn return_standby(&mut self, worker: WorkerIndex, is_chosen: impl Fn(Task) -> bool) {
        self.pool
            .change_standby(worker, |standby| standby.return_all(is_chosen));
    }

    /// Returns whether the job and the nodes in force let a task start.
    fn may_still_start(&self, task: Task) -> bool {
        let job = self.tasks.job(task.job);
        if self.config.as_ref().is_some_and(|config| !config.enabled) {
            return false;
        }
        let (Some(level), Some(forest)) = (job.level, self.forest.as_deref()) else {
            return job.config.is_some();
        };
        let mut row = forest.row_of(level, task.node);
        while let Some(at) = row {
            if structure(forest, &self.tasks, task.job, at) == Structure::Open {
                return job.can_run;
            }
            row = forest.next_replica(at);
        }
        false
    }

    /// Notes that a task's worker did not return it. It has begun, or it may be asked for again later.
    pub fn take_back_failed(&mut self, now: Time, task: Task, has_begun: HasBegun) {
        let Some(worker) = self.tasks.run(task).map(|run| run.worker) else {
            return;
        };
        match has_begun {
            HasBegun::Yes => self.pool.leave_standby(worker, task),
            HasBegun::Unknown => self.change_task_on_standby(worker, task, |one| {
                one.take_back = TakeBack::IfElsewhere;
                one.due = now + PATIENCE;
            }),
        }
        if !self.may_still_start(task) {
            self.change_task_on_standby(worker, task, |one| one.take_back = TakeBack::InAnyCase);
        }
        self.offer_worker(worker);
    }
}

/// The reasons for which tasks are taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakeBackReasons {
    /// They may not start any more.
    #[default]
    Unwanted,
    /// That, or another worker could start them.
    All,
}

/// Whether a task that a worker did not return has begun there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HasBegun {
    Yes,
    Unknown,
}
