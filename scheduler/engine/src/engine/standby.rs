//! Standing by: which tasks a worker starts next by itself, and which are taken back because another worker could start them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{JobId, Time};
use brasserie_common_config::ResourceId;

use super::Engine;
use crate::pool::standby::{MAX_STANDBY, Standby, StandbyTask, TAKE_BACK_AFTER};
use crate::pool::work_need::ExpectedRunTime;
use crate::queues::states::{Structure, structure};
use crate::slots::ResourceName;
use crate::tasks::runs::PlacedRun;
use crate::types::{QueuePlace, Task, WorkerIndex};

/// The time for which a task that was taken back keeps the room of a worker: it starts as soon as its record is on disk.
const RETURN_TIME: Duration = Duration::from_millis(200);
/// The most tasks that are known to stand by at a worker; more count as begun. A scheduler sends far fewer, so only a broken worker names more.
const MAX_KNOWN_STANDBY: usize = 16 * MAX_STANDBY;

impl Engine {
    /// Returns how many tasks stand by before a task at its worker, as far as the scheduler knows. `None` if the task has begun or does not
    /// run.
    pub fn standby_rank(&self, task: Task) -> Option<usize> {
        let worker = self.tasks.run(task)?.worker;
        self.pool.get_any(worker)?.standby.position(task)
    }

    /// Places no further task at a worker without room.
    pub fn disable_standby(&mut self) {
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
    pub(super) fn expected_run_time(&self, id: JobId) -> Option<ExpectedRunTime> {
        let job = self.tasks.job(id);
        let config = job.config.as_deref();
        let config = config.filter(|_| self.pool.may_stand_by(job.demand))?;
        ExpectedRunTime::of(config, job.learned)
    }

    /// Counts a task that a worker has received, if it is short.
    pub(super) fn note_short(&mut self, task: Task) {
        let run = self.tasks.run(task).filter(|run| run.expected.is_some());
        let Some((worker, slots)) = run.map(|run| (run.worker, self.slots_on_worker(run))) else {
            return;
        };
        self.pool
            .change_standby(worker, |standby| standby.note_short(&slots));
    }

    /// Forgets a run that has ended, and counts as begun what its worker starts in its slots.
    pub(super) fn leave_worker(&mut self, task: Task, run: &PlacedRun) {
        self.pool.leave_standby(run.worker, task);
        let slots = self.slots_on_worker(run);
        self.pool.change_standby(run.worker, |standby| {
            standby.forget_guess(run.place, task);
            if run.expected.is_some() {
                standby.forget_short(&slots);
            }
        });
        self.count_begun(run.worker);
    }

    /// Notes what a running task's worker says: the task stands by at a place of the worker's queue, or it has begun (`None`). Tasks that are
    /// noted at the same place stand by in the order of the calls. Ignored for a worker that does not take such tasks.
    pub fn note_standby(&mut self, now: Time, task: Task, place: Option<i64>) {
        let Some(worker) = self.tasks.run(task).map(|run| run.worker) else {
            return;
        };
        let slot = self.pool.get_any(worker);
        if !slot.is_some_and(|slot| slot.resources.takes_standby) {
            return;
        }
        let place = place.map_or(QueuePlace::Begun, QueuePlace::At);
        self.set_place(task, place);
        match (place, self.standby_rank(task)) {
            (QueuePlace::Begun, Some(_)) => {
                self.pool.leave_standby(worker, task);
                self.pool.has_returned(task);
            }
            (QueuePlace::Begun, None) => {}
            (QueuePlace::At(_) | QueuePlace::Unknown, Some(_)) => {
                let moves = |standby: &mut Standby| standby.move_to(task, place);
                self.pool.change_standby(worker, moves);
            }
            (QueuePlace::At(_) | QueuePlace::Unknown, None) => self.put_on_standby(now, task),
        }
        if place != QueuePlace::Begun {
            // The worker starts this task before those of which it has said that they are behind it.
            while let Some(later) = self.guess_at(worker, |one| one.guess_behind(place)) {
                self.put_on_standby(now, later);
            }
            self.find_overtaking(worker, task);
        }
        self.follow_worker(now, worker);
        self.offer_worker(worker);
    }

    /// Sets the place of a run in its worker's queue, and forgets what was guessed about it.
    fn set_place(&mut self, task: Task, place: QueuePlace) {
        if let Some((worker, before)) = self.tasks.run(task).map(|run| (run.worker, run.place)) {
            self.pool
                .change_standby(worker, |standby| standby.forget_guess(before, task));
            self.tasks.note_place(task, place);
        }
    }

    /// Notes that a task stands by that did not seem to. It is taken back at once if it may not start any more.
    fn put_on_standby(&mut self, now: Time, task: Task) {
        let Some(run) = self.tasks.run(task) else {
            return;
        };
        let (worker, place, expected) = (run.worker, run.place, run.expected);
        self.pool
            .change_standby(worker, |standby| standby.forget_guess(place, task));
        let slot = self.pool.get_any(worker);
        if slot.is_none_or(|slot| slot.standby.tasks().len() >= MAX_KNOWN_STANDBY) {
            return;
        }
        self.stand_by(now, task, expected);
        if !self.may_still_start(task) {
            self.mark_unwanted(worker, |one| one == task);
        }
    }

    /// Notes that a running task stands by at its worker.
    pub(super) fn stand_by(&mut self, now: Time, task: Task, expected: Option<ExpectedRunTime>) {
        let Some(run) = self.tasks.run(task) else {
            return;
        };
        let worker = run.worker;
        let one = StandbyTask {
            task,
            place: run.place,
            due: now + TAKE_BACK_AFTER,
            slots: self.slots_on_worker(run),
            config: self.tasks.job(task.job).config.clone(),
            expected,
            is_unwanted: false,
            is_asked: false,
        };
        self.pool.stand_by(worker, one);
    }

    /// Marks a task that stands by as unwanted, because its worker was told other slots than it has now.
    pub fn check_stated_slots(&mut self, task: Task, stated: &[(&str, i32)]) {
        let Some(worker) = self.tasks.run(task).map(|run| run.worker) else {
            return;
        };
        if self
            .standby_slots(worker)
            .is_some_and(|slots| slots != stated)
        {
            self.mark_unwanted(worker, |one| one == task);
        }
    }

    /// Returns the slots that a run holds on its worker.
    fn slots_on_worker(&self, run: &PlacedRun) -> Vec<(ResourceName, i32)> {
        let node = self.pool.get_any(run.worker).map(|slot| slot.node);
        let own = run.charges.iter();
        let own = own.filter(|charge| Some(charge.node) == node && charge.amount > 0);
        own.map(|charge| (charge.resource, charge.amount)).collect()
    }

    /// Counts the tasks as begun that a worker starts by itself in the slots that it has now, in the worker's order. Does nothing before the
    /// first configuration, which says what slots there are.
    pub(super) fn count_begun(&mut self, worker: WorkerIndex) {
        if self.config.is_none() {
            return;
        }
        while let Some(task) = self.next_to_begin(worker, |_| true) {
            self.pool.leave_standby(worker, task);
            self.guess_begun(task);
        }
    }

    /// Counts tasks as begun of which the worker has not said anything, because it had no room for a task that seems to have some.
    fn find_overtaking(&mut self, worker: WorkerIndex, task: Task) {
        let is_silent = |one: &StandbyTask| one.place == QueuePlace::Unknown;
        while self.config.is_some()
            && self.next_to_begin(worker, |_| true) == Some(task)
            && let Some(silent) = self.next_to_begin(worker, is_silent)
        {
            self.pool.leave_standby(worker, silent);
            self.guess_begun(silent);
        }
    }

    /// Counts a task as begun, although its worker has not said so.
    pub(super) fn guess_begun(&mut self, task: Task) {
        let Some((worker, place)) = self.tasks.run(task).map(|run| (run.worker, run.place)) else {
            return;
        };
        let slot = self.pool.get_any(worker);
        if slot.is_some_and(|slot| slot.resources.takes_standby) {
            self.pool
                .change_standby(worker, |standby| standby.guess_begun(place, task));
        }
    }

    /// Returns the first task among those that stand by at a worker which fits into the slots there.
    fn next_to_begin(
        &self,
        worker: WorkerIndex,
        among: impl Fn(&StandbyTask) -> bool,
    ) -> Option<Task> {
        let tasks = self.pool.get_any(worker)?.standby.tasks();
        let mut standing_by: BTreeMap<ResourceName, i64> = BTreeMap::new();
        for (name, amount) in tasks.iter().flat_map(|one| &one.slots) {
            *standing_by.entry(*name).or_default() += i64::from(*amount);
        }
        let left = |(name, standing_by): (&ResourceName, &i64)| {
            let limit = self.worker_limit(worker, *name);
            let left = limit.map(|(limit, used)| i64::from(limit) - (used - standing_by));
            (*name, left)
        };
        let left: BTreeMap<ResourceName, Option<i64>> = standing_by.iter().map(left).collect();
        // A resource that is not configured for workers is not limited.
        let fits = |(name, amount): &(ResourceName, i32)| {
            let left = left.get(name).copied().flatten();
            left.is_none_or(|left| i64::from(*amount) <= left)
        };
        let mut tasks = tasks.iter().filter(|one| among(one));
        let next = tasks.find(|one| one.slots.iter().all(fits));
        next.map(|one| one.task)
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
    /// [`TAKE_BACK_AFTER`] although another worker could start them. The caller asks each task's worker to return it, and reports the outcome:
    /// the task's end, or [`Engine::take_back_failed`].
    pub fn begin_take_backs(
        &mut self,
        now: Time,
        reasons: TakeBackReasons,
        most: usize,
    ) -> Vec<Task> {
        self.pool.forget_returning(now - RETURN_TIME);
        let mut due = self.take_backs(now, reasons);
        due.retain(|(time, ..)| *time <= now);
        due.truncate(most);
        for (_, task, worker) in &due {
            self.change_task_on_standby(*worker, *task, |one| {
                one.is_asked = true;
                one.due = now;
            });
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
    pub fn take_back_due(&self, now: Time, reasons: TakeBackReasons) -> Option<Time> {
        let next = self.take_backs(now, reasons).first().map(|(due, ..)| *due);
        let standing_by = self.pool.standing_by();
        let tasks = standing_by.flat_map(|(_, standby)| standby.tasks());
        let asked = tasks.filter(|one| one.is_asked).map(|one| one.due);
        let claimed = asked.chain(self.pool.returning_since());
        let free = claimed.map(|asked| asked + RETURN_TIME);
        next.into_iter().chain(free.filter(|at| *at > now)).min()
    }

    /// Returns the tasks to be taken back, and when, the earliest first. For tasks that another worker could start, at most as many
    /// take-backs are under way as there are workers with room.
    fn take_backs(&self, now: Time, reasons: TakeBackReasons) -> Vec<(Time, Task, WorkerIndex)> {
        let has_room = |job: JobId| {
            let mut workers = self.pool.with_room(self.tasks.job(job).demand);
            workers.next().is_some()
        };
        let may_move = reasons == TakeBackReasons::All
            && self.pool.standby_jobs().any(has_room)
            && !sabotage::on(Sabotage::NeverTakeBack);
        let mut due: Vec<(Time, Task, WorkerIndex)> = Vec::new();
        for (worker, standby) in self.pool.unwanted() {
            let tasks = standby.tasks().iter();
            let unwanted = tasks.filter(|one| one.is_unwanted && !one.is_asked);
            due.extend(unwanted.map(|one| (one.due, one.task, worker)));
        }
        if may_move {
            due.extend(self.take_backs_for_others(now));
        }
        due.sort_unstable();
        due
    }

    /// Returns the tasks that other workers could start, at most one for each worker with room that no take-back is under way for. A take-back
    /// whose task does not return soon keeps no room.
    fn take_backs_for_others(&self, now: Time) -> Vec<(Time, Task, WorkerIndex)> {
        let mut asked = Vec::new();
        let mut waiting = Vec::new();
        for (worker, standby) in self.pool.standing_by() {
            for one in standby.tasks() {
                match (one.is_asked, one.is_unwanted) {
                    (true, _) if now.since(one.due) >= RETURN_TIME => {}
                    (true, _) => asked.push((one.task, worker)),
                    (false, false) => waiting.push((one.due, one.task, worker)),
                    (false, true) => {}
                }
            }
        }
        waiting.sort_unstable();
        let mut claimed = BTreeSet::new();
        // Demands whose workers are all claimed. A worker where tasks stand by has no room itself.
        let mut used_up = BTreeSet::new();
        let mut claim = |task: Task, own: Option<WorkerIndex>| {
            let demand = self.tasks.job(task.job).demand;
            if used_up.contains(&demand) {
                return false;
            }
            let mut workers = self.pool.with_room(demand);
            let own = own.map(WorkerIndex::index);
            let other = workers.find(|worker| Some(*worker) != own && !claimed.contains(worker));
            if other.is_none() {
                used_up.insert(demand);
            }
            other.is_some_and(|worker| claimed.insert(worker))
        };
        for (task, worker) in asked {
            claim(task, Some(worker));
        }
        // These start as soon as their records are on disk.
        for task in self.pool.returning() {
            claim(task, None);
        }
        waiting.retain(|(_, task, worker)| claim(*task, Some(*worker)));
        waiting
    }

    /// Marks for a take-back the tasks that stand by and may not start any more, after the configuration or the nodes have changed.
    pub(super) fn check_standby(&mut self) {
        let workers: Vec<WorkerIndex> = self.pool.standing_by().map(|(at, _)| at).collect();
        for worker in workers {
            let tasks = self.pool.get_any(worker).map(|slot| slot.standby.tasks());
            let gone: BTreeSet<Task> = tasks
                .into_iter()
                .flatten()
                .filter(|one| !self.may_still_start(one.task) || self.has_changed(one))
                .map(|one| one.task)
                .collect();
            self.mark_unwanted(worker, |task| gone.contains(&task));
        }
    }

    /// Returns whether a task's job has another configuration than when the task was sent, so that it would start in another way or elsewhere.
    fn has_changed(&self, one: &StandbyTask) -> bool {
        one.config.is_some() && self.tasks.job(one.task.job).config != one.config
    }

    /// Marks the chosen tasks that stand by at a worker as unwanted.
    pub(super) fn mark_unwanted(&mut self, worker: WorkerIndex, is_chosen: impl Fn(Task) -> bool) {
        self.pool
            .change_standby(worker, |standby| standby.mark_unwanted(is_chosen));
    }

    /// Returns whether the job and the nodes in force let a task start.
    fn may_still_start(&self, task: Task) -> bool {
        let job = self.tasks.job(task.job);
        // The first configuration judges the tasks adopted before it.
        let Some(config) = self.config.as_ref() else {
            return true;
        };
        if !config.enabled || !config.standby {
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

    /// Corrects what counts as begun at a worker after a word of it. If more executes than fits, others have begun in the place of tasks that
    /// only count as begun: the last ones in its queue. Usually a task has ended, and its completion arrives soon.
    fn follow_worker(&mut self, now: Time, worker: WorkerIndex) {
        while self.executes_too_much(worker)
            && let Some(overtaken) = self.guess_at(worker, Standby::last_guess)
        {
            self.put_on_standby(now, overtaken);
        }
        self.count_begun(worker);
    }

    fn guess_at(
        &self,
        worker: WorkerIndex,
        choose: impl Fn(&Standby) -> Option<Task>,
    ) -> Option<Task> {
        choose(&self.pool.get_any(worker)?.standby)
    }

    /// Returns whether the tasks that count as begun at a worker hold more slots than it has.
    fn executes_too_much(&self, worker: WorkerIndex) -> bool {
        let Some(slot) = self.pool.get_any(worker) else {
            return false;
        };
        let is_over = |(id, limit): (&ResourceId, &i32)| {
            let executing =
                self.slots.used(slot.node, *id) - slot.standby.used(self.slots.name(*id));
            executing > i64::from(*limit)
        };
        let mut limits = self.slots.of_workers().iter().zip(&slot.limits);
        limits.any(is_over)
    }

    /// Notes that a task's worker did not return it. It has begun, or it may be asked for again later.
    pub fn take_back_failed(&mut self, now: Time, task: Task, has_begun: HasBegun) {
        let Some(worker) = self.tasks.run(task).map(|run| run.worker) else {
            return;
        };
        match has_begun {
            HasBegun::Yes => {
                self.pool.leave_standby(worker, task);
                self.pool.has_returned(task);
                self.set_place(task, QueuePlace::Begun);
                self.follow_worker(now, worker);
            }
            HasBegun::Unknown => self.change_task_on_standby(worker, task, |one| {
                one.is_asked = false;
                one.due = now + TAKE_BACK_AFTER;
            }),
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
