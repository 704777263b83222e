//! Wakes waiting tasks when slots or workers become free, and keeps the pool in step with the queues.
//!
//! Jobs that wait at a crowded place are woken one at a time, in the order of the policy. So a freed slot does not cost a check by each of
//! ten thousand jobs.

use std::collections::BTreeSet;

use brasserie_common::JobId;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common_config::{JobConfig, LevelId};

use super::Engine;
use crate::pool::HasReady;
use crate::queues::NextInLine;
use crate::queues::gates::Gate;
use crate::queues::states::Reach;
use crate::queues::wait_lists::WaitKey;
use crate::slots::Charge;
use crate::types::{Eligibility, Task, WorkerIndex};

/// The most jobs at a place that are woken at once, which is cheaper for a few. One in tests, so that they cover both ways.
const FEW_JOBS: usize = if cfg!(test) { 1 } else { 16 };

/// The most open places at a time. Each one costs a check for every start, which adds up where no worker has room. Beyond this number, all
/// jobs that wait at one of them are woken.
const MAX_OPEN: usize = if cfg!(test) { 2 } else { 64 };

/// The most tasks at a time that a worker with freed slots wakes that wait for it because of their inputs. Each is tried at once. The next
/// ones follow when these have been tried, if the worker still has room.
const MOST_WOKEN: usize = 16;

/// The next job to wake at an open place.
enum Next {
    /// A job, and the rank of its first task there.
    Job(JobId, usize),
    /// The place has room for some jobs, but no worker has room for these.
    NoWorker,
    Nobody,
}

impl Engine {
    /// Does what a change of the queues has left to do: makes tasks ready that have come to the front of a wait list, if there is room for
    /// them now, and counts the ready tasks of changed jobs in the pool.
    pub(super) fn settle_queues(&mut self) {
        for next in self.queues.take_next_in_line() {
            if !self.queues.is_ready(next.job, next.position) && self.has_room(next) {
                self.queues.make_ready(next.job, next.position);
            }
        }
        for id in self.queues.take_touched() {
            self.count_ready(id);
        }
    }

    fn has_room(&self, next: NextInLine) -> bool {
        match (next.key, self.forest.as_deref()) {
            (WaitKey::Node(row), Some(forest)) => {
                let needs = self.tasks.needs(next.job);
                !self.slots.is_short(forest, needs, row)
            }
            (WaitKey::Host(host), Some(_)) => {
                let demand = self.tasks.job(next.job).demand;
                self.pool.host_has_room(host, demand)
            }
            (WaitKey::Node(_) | WaitKey::Host(_), None) => false,
        }
    }

    /// Updates in the pool whether the job has tasks to try, and how many of its tasks lack nothing but slots.
    pub(super) fn count_ready(&mut self, id: JobId) {
        let (job, columns) = (self.tasks.job(id), self.queues.of(id));
        let is_open = job.config.is_some() && columns.gate == Gate::Open;
        let may_start = match sabotage::on(Sabotage::IgnoreMaxRunning) {
            true => u32::MAX,
            false => job.may_start(),
        };
        let could_start = match is_open && job.can_run {
            true => columns.eligible.min(may_start),
            false => 0,
        };
        let has_ready = match columns.ready.is_empty() || !is_open || may_start == 0 {
            true => HasReady::No,
            false => HasReady::Yes,
        };
        self.pool.set_ready(id, job.demand, could_start, has_ready);
    }

    /// Updates for which jobs the root has slots left.
    pub(super) fn check_root(&mut self) {
        if let Some(forest) = self.forest.as_deref()
            && !self.slots.at(LevelId::INSTANCE).is_empty()
        {
            let slots = &self.slots;
            self.pool
                .set_root_room(|needs| slots.root_has_slots(forest, needs));
        }
    }

    /// Wakes tasks that wait for slots of a node, after some were freed.
    pub(super) fn offer_node(&mut self, row: u32) {
        let level = self.forest.as_deref().and_then(|forest| forest.level(row));
        match level {
            Some(LevelId::INSTANCE) => self.check_root(),
            Some(level) if !self.slots.at(level).is_empty() => self.offer_place(row),
            Some(_) | None => {}
        }
    }

    /// Updates which demands a changed worker can serve, and wakes tasks that wait for its host.
    pub(super) fn offer_worker(&mut self, worker: WorkerIndex) {
        let opened = self.pool.update(worker, &self.slots);
        if !opened.is_empty()
            && let Some(host) = self.pool.get(worker).map(|w| w.host)
        {
            self.wake_all(WaitKey::Host(host));
        }
        self.wake_waiters_for(worker, !opened.is_empty());
    }

    /// Ends the waits of some tasks that wait for a worker with their inputs, after it has got room, or of all if it can take none of them.
    fn wake_waiters_for(&mut self, worker: WorkerIndex, has_opened: bool) {
        let slot = self.pool.get(worker);
        let is_eligible = slot.is_some_and(|slot| slot.eligibility == Eligibility::Eligible);
        if is_eligible && !has_opened {
            return;
        }
        let most = if is_eligible { MOST_WOKEN } else { usize::MAX };
        let tasks = self.tasks.locality().at(worker);
        let may_start = |task: &Task| {
            let demand = self.tasks.job(task.job).demand;
            !is_eligible || self.pool.fits(demand, worker)
        };
        let woken: Vec<Task> = tasks.filter(may_start).take(most).collect();
        if woken.len() == most {
            self.tasks.locality_mut().wake_more_at(worker);
        }
        if is_eligible {
            for task in &woken {
                self.tasks.locality_mut().wake(*task);
            }
            self.refresh_all(woken);
        } else {
            self.end_locality_waits(woken);
        }
    }

    /// Wakes the next tasks that wait for a worker that has woken as many as it may at a time. Returns false if there is no such worker.
    pub(super) fn wake_more_waiters(&mut self) -> bool {
        let Some(worker) = self.tasks.locality_mut().take_worker_with_more() else {
            return false;
        };
        self.wake_waiters_for(worker, true);
        self.settle_queues();
        true
    }

    fn end_locality_waits(&mut self, tasks: Vec<Task>) {
        for task in &tasks {
            self.tasks.locality_mut().end(*task);
        }
        self.refresh_all(tasks);
    }

    fn refresh_all(&mut self, tasks: Vec<Task>) {
        for task in tasks {
            self.refresh(task, Reach::Own);
        }
    }

    /// Has each task that waits for a worker with its inputs judge that anew, after the configuration or the nodes have changed.
    pub(super) fn recheck_locality(&mut self) {
        let forest = self.forest.as_deref();
        let is_wanted = |task: Task| {
            let job = self.tasks.settings(task.job);
            let job = job.filter(|job| !job.locality_wait.is_zero());
            let row = |job: &JobConfig| forest?.row_of(job.level_for_tasks, task.node);
            job.is_some_and(|job| row(job).is_some())
        };
        let wanted = self
            .tasks
            .locality()
            .tasks()
            .filter(|task| is_wanted(*task));
        let wanted: BTreeSet<Task> = wanted.collect();
        let waiting = self
            .tasks
            .locality_mut()
            .end_all(|task| wanted.contains(&task));
        self.end_locality_waits(waiting);
    }

    /// Wakes tasks that wait for slots of a path of the forest in force.
    pub(super) fn offer_path(&mut self, worker: WorkerIndex, row: u32) {
        let mut next = Some(row);
        while let (Some(row), Some(forest)) = (next, self.forest.as_deref()) {
            next = forest.parent(row);
            let canonical = forest.canonical(row);
            self.offer_node(canonical);
        }
        // The count is lowered first, because that alone may make room for another task.
        self.pool.task_ended(worker);
        self.offer_worker(worker);
    }

    /// Wakes tasks that wait for freed slots.
    pub(super) fn offer_freed(&mut self, worker: WorkerIndex, charges: &[Charge]) {
        let mut last = None;
        for charge in charges.iter().filter(|charge| charge.amount != 0) {
            let Some(row) = self.charged_row(*charge) else {
                continue;
            };
            // Charges on one node are adjacent.
            if last.replace(row) != Some(row) {
                self.offer_node(row);
            }
        }
        self.pool.task_ended(worker);
        self.offer_workers(worker, charges);
    }

    /// Offers the worker of a run, and other workers that its charges name: a reported run may charge them.
    pub(super) fn offer_workers(&mut self, worker: WorkerIndex, charges: &[Charge]) {
        self.offer_worker(worker);
        for charge in charges {
            let named = self.pool.find(self.node_names.get(charge.node.0));
            if let Some(named) = named.filter(|named| *named != worker) {
                self.offer_worker(named);
            }
        }
    }

    /// Returns the canonical row that a charge belongs to in the forest in force.
    pub(super) fn charged_row(&self, charge: Charge) -> Option<u32> {
        let id = self.slots.find(charge.resource)?;
        let level = self.config.as_ref()?.resources.get(id.index())?.level;
        self.forest.as_ref()?.row_of(level, charge.node)
    }

    /// Wakes each job that waits at a place.
    pub(super) fn wake_all(&mut self, key: WaitKey) {
        if let Some(forest) = self.forest.as_deref() {
            self.queues.offer(forest, &self.tasks, key);
            self.settle_queues();
        }
    }

    /// Wakes jobs that wait at a node, because slots of it may have become free.
    pub(super) fn offer_place(&mut self, row: u32) {
        let key = WaitKey::Node(row);
        if self.policy.in_turn().is_none() || self.queues.lists().jobs_at(key) <= FEW_JOBS {
            return self.wake_all(key);
        }
        if let Some(row) = self.queues.open(row, MAX_OPEN) {
            self.wake_all(WaitKey::Node(row));
        }
    }

    /// Makes ready, for each open place, the job that the policy would take first there.
    pub(super) fn call_in_turn(&mut self) {
        if !self.queues.lists().has_open() {
            return;
        }
        let start = self.policy.in_turn();
        if start.is_some() && !self.pool.has_room_for_any() {
            return;
        }
        for row in self.queues.lists().open_rows() {
            let key = WaitKey::Node(row);
            let Some(start) = start else {
                self.queues.close(row);
                self.wake_all(key);
                continue;
            };
            let mut not_yet = Vec::new();
            match self.next_at(row, start, &mut not_yet) {
                Next::Job(id, rank) => self.call(key, (id, rank)),
                Next::NoWorker => {}
                Next::Nobody => self.queues.close(row),
            }
            for first in not_yet {
                self.call(key, first);
            }
        }
    }

    /// Makes one of a job's tasks ready that wait at a place, by its rank there.
    fn call(&mut self, key: WaitKey, first: (JobId, usize)) {
        if let Some(forest) = self.forest.as_deref() {
            self.queues.call(forest, &self.tasks, key, first);
            self.settle_queues();
        }
    }

    /// Returns the next task to make ready at a place that has resources.
    ///
    /// Adds to `not_yet` the tasks of jobs that wait for other jobs or run `max_running` tasks. The caller makes these ready too, because
    /// nothing wakes them when their job becomes a candidate.
    fn next_at(&self, row: u32, start: JobId, not_yet: &mut Vec<(JobId, usize)>) -> Next {
        let Some(forest) = self.forest.as_deref() else {
            return Next::Nobody;
        };
        let (Some(level), node) = (forest.level(row), forest.node(row)) else {
            return Next::Nobody;
        };
        let mut ids = self.slots.at(level).iter();
        let is_enough = |id| self.slots.has_slots(node, id, self.needs.least(id));
        if !ids.all(|id| is_enough(*id)) {
            return Next::Nobody;
        }
        let mut last = None;
        let mut answer = Next::Nobody;
        for (id, rank) in self.queues.lists().in_turn(WaitKey::Node(row), start) {
            let class = self.needs.class(id);
            let has_room = match last {
                Some((of, has_room)) if of == class => has_room,
                Some(_) | None => !self.slots.is_short(forest, self.tasks.needs(id), row),
            };
            last = Some((class, has_room));
            let job = self.tasks.job(id);
            let is_candidate = self.queues.of(id).gate == Gate::Open && job.may_start() > 0;
            if has_room && !is_candidate {
                not_yet.push((id, rank));
            } else if has_room {
                if self.pool.has_room_for(job.demand) {
                    return Next::Job(id, rank);
                }
                answer = Next::NoWorker;
            }
        }
        answer
    }
}
