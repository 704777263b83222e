//! Starts tasks: one placement at a time, until no task can start.

use std::sync::Arc;

use brasserie_common::{JobId, NodeId, Time};
use brasserie_common_config::{Config, JobConfig, LevelId};

use super::eligible::Structure;
use super::{Engine, Reach};
use crate::forest::below::Below;
use crate::forest::index::Forest;
use crate::placement::policy::Candidates;
use crate::placement::wait_lists::{WaitKey, WaitLists};
use crate::slots::Charge;
use crate::statuses::columns::Parked;
use crate::tasks::runs::Run;
use crate::types::{Due, Judged, Placement, Task, TaskState, Timeliness, Tries, WorkerIndex};

/// The result of trying a task.
enum Attempt {
    Started(Placement),
    Parked,
    /// The chosen worker has too much work. Others may have less.
    Late,
    /// No worker has room for any task of the job. The task stays ready.
    NoWorker,
}

/// The reason why no worker takes a task.
enum NoWorker {
    /// No worker has room.
    Anywhere,
    /// No worker has room on the host where the task must run.
    OnHost(NodeId),
    /// A worker has room, but deadlines would be missed there.
    Late,
}

/// A callback that judges whether a worker's tasks meet their deadlines with one more task. The caller knows the work of each worker.
type KeepsDeadlines<'a> = &'a mut dyn FnMut(WorkerIndex, Due) -> Judged;

impl Engine {
    /// Starts one task on one worker: marks it running and charges its slots. `None` if nothing can start until something changes.
    ///
    /// Invariants that make `None` true without a scan: an eligible task is ready or in a wait list. If a place has room for tasks of one
    /// job that wait there, the first of them is ready, or the place is open. A job with ready tasks is a candidate exactly if it runs
    /// fewer tasks than its own limit, and the root and some worker have room for one.
    pub fn place(&mut self, now: Time) -> Option<Placement> {
        self.place_within(now, &mut Tries::endless(), &mut |_, _| Judged::UNSEEN)
    }

    /// Places a task as [`Engine::place`] does, but `None` may also mean that no tries are left. After a new node table no task is known to
    /// wait, and each node that lacks slots costs a try.
    ///
    /// A pull worker that is chosen for a task with a deadline is judged, which costs as many tries as the judge reports. If deadlines
    /// would be missed there, such tasks do not try it again until its next request or [`Engine::forget_late`].
    pub fn place_within(
        &mut self,
        now: Time,
        tries: &mut Tries,
        judge: KeepsDeadlines<'_>,
    ) -> Option<Placement> {
        self.expire(now);
        let config = self.config.clone()?;
        if !config.enabled || self.tasks.all_held_until().is_some() {
            return None;
        }
        let forest = self.forest.take()?;
        let placement = self.place_in(&forest, &config, tries, judge);
        self.forest = Some(forest);
        placement
    }

    fn place_in(
        &mut self,
        forest: &Forest,
        config: &Arc<Config>,
        tries: &mut Tries,
        judge: KeepsDeadlines<'_>,
    ) -> Option<Placement> {
        while tries.are_left() {
            self.call_in_turn(forest);
            let job = self.policy.pick(&Candidates {
                pool: &self.pool,
                tasks: &self.tasks,
                columns: &self.columns,
            })?;
            if let Some(placement) = self.place_job(forest, config, job, tries, judge) {
                self.policy.started(job);
                return Some(placement);
            }
        }
        None
    }

    fn place_job(
        &mut self,
        forest: &Forest,
        config: &Arc<Config>,
        id: JobId,
        tries: &mut Tries,
        judge: KeepsDeadlines<'_>,
    ) -> Option<Placement> {
        let job_config = &self.tasks.job(id).config.clone()?;
        while tries.are_left() {
            let position = self.columns[id.index()].ready.first()? as u32;
            let judged = (&mut *tries, &mut *judge as KeepsDeadlines<'_>);
            match self.attempt(forest, config, job_config, (id, position), judged) {
                Attempt::Started(placement) => return Some(placement),
                Attempt::Parked => tries.take(1),
                // The check took its tries.
                Attempt::Late => {}
                Attempt::NoWorker => return None,
            }
        }
        None
    }

    fn attempt(
        &mut self,
        forest: &Forest,
        config: &Config,
        job_config: &JobConfig,
        (id, position): (JobId, u32),
        (tries, judge): (&mut Tries, KeepsDeadlines<'_>),
    ) -> Attempt {
        let level = job_config.level_for_tasks;
        let canonical = forest.order(level)[position as usize];
        let mut waits_at = None;
        let mut more = Vec::new();
        for row in forest.rows(canonical) {
            let job = self.tasks.job(id);
            if forest.has_replicas() && self.structure(forest, job, id, row) != Structure::Open {
                continue;
            }
            let key = match self.slots.first_short(forest, &job_config.resources, row) {
                Some(short) if forest.level(short) == Some(LevelId::INSTANCE) => {
                    // The policy then no longer picks the job.
                    self.look_at_root(forest);
                    return Attempt::NoWorker;
                }
                Some(short) => WaitKey::Node(forest.canonical(short)),
                None => match self.find_worker_for(
                    forest,
                    config,
                    job_config,
                    (id, row),
                    (tries, judge),
                ) {
                    Ok(worker) => {
                        let placement = self.start(forest, config, job_config, id, row, worker);
                        return Attempt::Started(placement);
                    }
                    Err(NoWorker::OnHost(host)) => WaitKey::Host(host),
                    // The policy then no longer picks the job, because its demand fits nowhere.
                    Err(NoWorker::Anywhere) => return Attempt::NoWorker,
                    Err(NoWorker::Late) => return Attempt::Late,
                },
            };
            match waits_at {
                None => waits_at = Some(key),
                Some(_) => more.push(key),
            }
        }
        match waits_at {
            Some(key) if !forest.has_replicas() => {
                self.wait_together(forest, id, position, canonical, key);
            }
            Some(_) | None => {
                self.unready(forest, id, position, canonical);
                for key in waits_at.into_iter().chain(more) {
                    self.park(forest, id, position, canonical, key);
                }
            }
        }
        Attempt::Parked
    }

    /// Returns a worker with room, or else why there is none. Checks of deadlines cost tries.
    fn find_worker_for(
        &mut self,
        forest: &Forest,
        config: &Config,
        job_config: &JobConfig,
        (id, row): (JobId, u32),
        (tries, judge): (&mut Tries, KeepsDeadlines<'_>),
    ) -> Result<WorkerIndex, NoWorker> {
        let host = self.required_host(forest, job_config, row);
        let demand = self.tasks.job(id).demand;
        let chosen = self.pool.select(demand, host, (config, &self.slots));
        let worker = chosen.ok_or(host.map_or(NoWorker::Anywhere, NoWorker::OnHost))?;
        let due = self.pool.due_at(demand, worker);
        let judged = due.map_or(Judged::UNSEEN, |due| judge(worker, due));
        match judged.timeliness {
            Timeliness::InTime => {
                tries.take(judged.tries);
                Ok(worker)
            }
            Timeliness::Late => {
                // A failed check costs at least one try, or placing might not end.
                tries.take(judged.tries.max(1));
                self.pool.note_late(demand, worker);
                Err(NoWorker::Late)
            }
        }
    }

    /// Updates for which jobs the root has slots left.
    pub(super) fn look_at_root(&mut self, forest: &Forest) {
        if !self.slots.at(LevelId::INSTANCE).is_empty() {
            let slots = &self.slots;
            self.pool
                .set_root_room(|needs| slots.root_has_slots(forest, needs));
        }
    }

    /// Returns the host that a task of the job must run on because of its place in the forest. A fixed host is part of the job's demand.
    pub(super) fn required_host(
        &self,
        forest: &Forest,
        job_config: &JobConfig,
        row: u32,
    ) -> Option<NodeId> {
        if job_config
            .host_placement
            .as_ref()
            .is_some_and(|h| !h.is_empty())
        {
            return None;
        }
        let level = job_config.level_for_host_placement?;
        forest
            .upward(row)
            .find(|above| forest.level(*above) == Some(level))
            .map(|above| forest.node(above))
    }

    fn start(
        &mut self,
        forest: &Forest,
        config: &Config,
        job_config: &JobConfig,
        id: JobId,
        row: u32,
        worker: WorkerIndex,
    ) -> Placement {
        let canonical = forest.canonical(row);
        let position = forest.position(canonical);
        let task = Task {
            job: id,
            node: forest.node(canonical),
        };
        let run = self.make_run(forest, config, (id, job_config), row, worker);
        for charge in &run.charges {
            self.slots.charge(*charge);
        }
        self.pool.take_cards(worker, &run.cards.gpus);
        self.tasks.start(task, run);
        self.pool.task_started(worker);
        let columns = &mut self.columns[id.index()];
        columns.set_state(position, TaskState::Running);
        columns.clear_eligible(position);
        self.count_again(forest, id, canonical);
        self.look_at_root(forest);
        self.offer_worker_in(forest, worker);
        self.unready(forest, id, position, canonical);
        // The next forest may lack a row of this task and still have rows of its dependents.
        self.refresh_next(task, Reach::Dependents);
        Placement { task, worker }
    }

    fn make_run(
        &self,
        forest: &Forest,
        config: &Config,
        (id, job_config): (JobId, &JobConfig),
        row: u32,
        worker: WorkerIndex,
    ) -> Run {
        let mut charges = Vec::with_capacity(config.resources.len());
        let needs = &job_config.resources;
        self.slots.add_path(forest, needs, row, &mut charges);
        if let Some(slot) = self.pool.get_any(worker) {
            self.slots.add_worker(slot.node, needs, &mut charges);
        }
        Run {
            worker,
            path: self.path_of_run(forest, row),
            charges,
            cards: self.pool.cards_for(worker, self.tasks.job(id).demand),
        }
    }

    /// Returns a job's tasks below the place that one of them waits for; `None` if the forest does not have the place.
    pub(super) fn below<'f>(
        &self,
        forest: &'f Forest,
        id: JobId,
        key: WaitKey,
    ) -> Option<Below<'f>> {
        let job = self.tasks.job(id);
        let canonical = match key {
            WaitKey::Node(row) => row,
            WaitKey::Host(host) => forest.row_of(job.host_level?, host)?,
        };
        Some(forest.below(job.level?, canonical))
    }

    /// Makes a task wait at a place, and with it all tasks of its job there that are ready and in no list, because they lack the same.
    /// A task without replicas waits at one place at most.
    fn wait_together(
        &mut self,
        forest: &Forest,
        id: JobId,
        position: u32,
        canonical: u32,
        key: WaitKey,
    ) {
        let below = self.below(forest, id, key);
        // Invariant: keys are made from the task's own path.
        let below = below.expect("a place in the forest");
        let rank = below.rank(position).expect("a task below it");
        if self.columns[id.index()].is_parked(position) {
            if self.lists.contains(key, id, rank) {
                // The task was woken in vain.
                self.columns[id.index()].ready.remove(position as usize);
                self.sync_active(id);
                return;
            }
            self.unready(forest, id, position, canonical);
        }
        let place = parked_at(canonical, key);
        let columns = &mut self.columns[id.index()];
        let ranks = self.lists.ranks_mut(key, id, below.len());
        columns.ready.insert(position as usize);
        for rank in 0..below.len() {
            let position = below.position(rank);
            if columns.ready.contains(position as usize) && !columns.is_parked(position) {
                columns.ready.remove(position as usize);
                columns.set_parked(position, place);
                ranks.insert(rank);
            }
        }
        self.sync_active(id);
    }

    /// Makes one task wait, alone.
    fn park(&mut self, forest: &Forest, id: JobId, position: u32, canonical: u32, key: WaitKey) {
        let below = self.below(forest, id, key);
        // Invariant: as in `wait_together`.
        let below = below.expect("a place in the forest");
        let rank = below.rank(position).expect("a task below it");
        self.lists.ranks_mut(key, id, below.len()).insert(rank);
        self.columns[id.index()].set_parked(position, parked_at(canonical, key));
    }

    /// Removes a task from the ready ones and from every wait list, and wakes the next task in each list.
    pub(super) fn unready(&mut self, forest: &Forest, id: JobId, position: u32, canonical: u32) {
        let columns = &mut self.columns[id.index()];
        columns.ready.remove(position as usize);
        let here = columns.is_parked_at(position, Parked::Here);
        let above = columns.is_parked_at(position, Parked::Above);
        columns.clear_parked(position);
        let (level, host_level) = {
            let job = self.tasks.job(id);
            (job.level.unwrap_or_default(), job.host_level)
        };
        let mut left = Vec::new();
        let mut leave = |lists: &mut WaitLists, key: WaitKey, below: Below<'_>| {
            let rank = below.rank(position);
            let next = rank.and_then(|rank| lists.remove(key, id, rank));
            left.extend(next.map(|next| (key, next.map(|rank| below.position(rank)))));
        };
        if here {
            leave(
                &mut self.lists,
                WaitKey::Node(canonical),
                Below::One(position),
            );
        }
        if above {
            for row in forest.rows(canonical) {
                for over in forest.upward(row) {
                    let over_level = forest.level(over);
                    let place = forest.canonical(over);
                    if over_level.is_some() && over_level == host_level {
                        let key = WaitKey::Host(forest.node(over));
                        leave(&mut self.lists, key, forest.below(level, place));
                    }
                    let may_wait = over_level.is_some_and(|over| !self.slots.at(over).is_empty());
                    if over != row && may_wait && over_level != Some(LevelId::INSTANCE) {
                        leave(
                            &mut self.lists,
                            WaitKey::Node(place),
                            forest.below(level, place),
                        );
                    }
                }
            }
        }
        for (key, next) in left {
            if let Some(next) = next {
                self.wake(forest, key, id, next);
            }
        }
        self.sync_active(id);
    }

    /// Makes the first of a job's tasks that wait at a place ready, if there is room for it now.
    pub(super) fn wake(&mut self, forest: &Forest, key: WaitKey, id: JobId, first: u32) {
        if self.columns[id.index()].ready.contains(first as usize) {
            return;
        }
        let has_room = match key {
            WaitKey::Node(row) => {
                let needs = self.tasks.needs(id);
                !self.slots.is_short(forest, needs, row)
            }
            WaitKey::Host(host) => {
                let demand = self.tasks.job(id).demand;
                self.pool.host_has_room(host, demand)
            }
        };
        if has_room {
            self.columns[id.index()].ready.insert(first as usize);
            self.sync_active(id);
        }
    }

    /// Wakes each job that waits at a place.
    pub(super) fn wake_all(&mut self, forest: &Forest, key: WaitKey) {
        let Some(waiters) = self.lists.take(key) else {
            return;
        };
        for (job, rank) in waiters.firsts() {
            if let Some(below) = self.below(forest, job, key) {
                self.wake(forest, key, job, below.position(rank));
            }
        }
        self.lists.put_back(key, waiters);
    }

    /// Wakes tasks that wait for slots of a node, after some were freed.
    pub(super) fn offer_node(&mut self, forest: &Forest, row: u32) {
        match forest.level(row) {
            Some(LevelId::INSTANCE) => self.look_at_root(forest),
            Some(level) if !self.slots.at(level).is_empty() => self.offer_place(forest, row),
            Some(_) | None => {}
        }
    }

    /// Updates which demands a changed worker can serve, and wakes tasks that wait for its host.
    pub(super) fn offer_worker(&mut self, worker: WorkerIndex) {
        match self.forest.take() {
            Some(forest) => {
                self.offer_worker_in(&forest, worker);
                self.forest = Some(forest);
            }
            None => {
                self.update_worker(worker);
            }
        }
    }

    fn update_worker(&mut self, worker: WorkerIndex) -> Vec<u32> {
        self.pool.update(worker, &self.slots)
    }

    fn offer_worker_in(&mut self, forest: &Forest, worker: WorkerIndex) {
        let opened = self.update_worker(worker);
        if opened.is_empty() {
            return;
        }
        let Some(host) = self.pool.get(worker).map(|w| w.host) else {
            return;
        };
        self.wake_all(forest, WaitKey::Host(host));
    }

    /// Returns the canonical row that a charge belongs to in the forest in force.
    pub(super) fn charged_row(&self, charge: Charge) -> Option<u32> {
        let id = self.slots.find(charge.resource)?;
        let level = self.config.as_ref()?.resources.get(id.index())?.level;
        self.forest.as_ref()?.row_of(level, charge.node)
    }
}

/// Returns where a task waits, as its state byte says it.
fn parked_at(canonical: u32, key: WaitKey) -> Parked {
    if key == WaitKey::Node(canonical) {
        Parked::Here
    } else {
        Parked::Above
    }
}
