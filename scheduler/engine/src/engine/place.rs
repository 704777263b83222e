//! Starts tasks: one placement at a time, until no task can start.

use brasserie_common::{JobId, NodeId, Time};
use brasserie_common_config::{Config, JobConfig, LevelId};

use super::Engine;
use crate::forest::Forest;
use crate::placement::policy::Candidates;
use crate::pool::Tier;
use crate::pool::standby::Claims;
use crate::queues::states::{Reach, Structure, structure};
use crate::queues::wait_lists::WaitKey;
use crate::tasks::locality::LocalityWait;
use crate::tasks::runs::PlacedRun;
use crate::types::{
    Due, Judged, NearWorker, Placement, QueuePlace, Task, Timeliness, Tries, WorkerIndex,
};

/// The result of trying a task.
enum Attempt {
    Started(Placement),
    /// The task waits for slots of a node, for a host, or for a worker with its inputs.
    Waits,
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

/// How a worker is searched for a task: the tries, the workers that are considered, and the caller's advice.
type Search<'a> = (&'a mut Tries, Tier<'a>, &'a mut dyn Advice);

/// The caller's knowledge of workers.
pub trait Advice {
    /// Judges whether a worker's tasks meet their deadlines with one more task.
    fn judge(&mut self, worker: WorkerIndex, due: Due) -> Judged;

    /// Returns the workers near the inputs of a task: those with the most bytes first, and then those without any. The first with room gets
    /// the task. Also returns the number of [`Tries`] that take as long as a start of the task. The engine does not ask again while the task waits
    /// for one of these workers.
    fn nearest(&mut self, engine: &Engine, task: Task) -> (Vec<NearWorker>, u32);

    /// Returns whether a task that is started now finds its inputs. The engine asks before a wait for a worker with most of them begins.
    fn has_inputs(&mut self, engine: &Engine, task: Task) -> bool;
}

/// Advice about deadlines alone.
impl<F: FnMut(WorkerIndex, Due) -> Judged> Advice for F {
    fn judge(&mut self, worker: WorkerIndex, due: Due) -> Judged {
        self(worker, due)
    }

    fn nearest(&mut self, _: &Engine, _: Task) -> (Vec<NearWorker>, u32) {
        (Vec::new(), 0)
    }

    fn has_inputs(&mut self, _: &Engine, _: Task) -> bool {
        true
    }
}

impl Engine {
    /// Starts one task on one worker: marks it running and charges its slots. `None` if nothing can start until something changes.
    ///
    /// Invariants that make `None` true without a scan: an eligible task is ready or in a wait list. If a place has room for tasks of one
    /// job that wait there, the first of them is ready, or the place is open. A job with ready tasks is a candidate exactly if it runs
    /// fewer tasks than its own limit, and the root and some worker have room for one. Without such a job, a short task may stand by.
    pub fn place(&mut self, now: Time) -> Option<Placement> {
        self.place_within(now, &mut Tries::endless(), &mut |_: WorkerIndex, _: Due| {
            Judged::UNSEEN
        })
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
        advice: &mut dyn Advice,
    ) -> Option<Placement> {
        self.expire(now);
        let config = self.config.clone()?;
        if !config.enabled || self.tasks.waits().all_held_until().is_some() || self.forest.is_none()
        {
            return None;
        }
        while tries.are_left() {
            self.call_in_turn();
            let Some(job) = self.pick(Tier::Room) else {
                if self.wake_more_waiters() {
                    continue;
                }
                return self.place_on_standby((now, &config), tries);
            };
            let placement =
                self.place_job((now, &config), job, (&mut *tries, Tier::Room, &mut *advice));
            if placement.is_some() {
                return placement;
            }
        }
        None
    }

    /// Places a task at a worker without room, where it stands by. Called while no task can start at once.
    fn place_on_standby(
        &mut self,
        (now, config): (Time, &Config),
        tries: &mut Tries,
    ) -> Option<Placement> {
        if !self.places_on_standby {
            return None;
        }
        let mut claims = Claims::default();
        while tries.are_left() && self.pool.has_standby_room(&claims) {
            let job = self.pick(Tier::Standby(&claims))?;
            // Only tasks with deadlines are judged, and none of them stands by.
            let advice = &mut |_: WorkerIndex, _: Due| Judged::UNSEEN;
            let tier = Tier::Standby(&claims);
            let placement = self.place_job((now, config), job, (&mut *tries, tier, advice));
            if placement.is_some() {
                return placement;
            }
            let demand = self.tasks.job(job).demand;
            claims.add(demand, self.pool.feasible(demand));
        }
        None
    }

    fn pick(&mut self, tier: Tier<'_>) -> Option<JobId> {
        self.policy.pick(&Candidates {
            pool: &self.pool,
            tier,
            tasks: &self.tasks,
            columns: self.queues.columns(),
        })
    }

    fn place_job(
        &mut self,
        (now, config): (Time, &Config),
        id: JobId,
        (tries, tier, advice): Search<'_>,
    ) -> Option<Placement> {
        let job_config = &self.tasks.job(id).config.clone()?;
        while tries.are_left() {
            let position = self.queues.first_ready(id)?;
            let order = self.forest.as_deref()?.order(job_config.level_for_tasks);
            let task = (id, order[position as usize]);
            let attempt = self.attempt(
                (now, config),
                job_config,
                task,
                (&mut *tries, tier, &mut *advice),
            );
            self.settle_queues();
            match attempt {
                Attempt::Started(placement) => {
                    // The next forest may lack a row of this task and still have rows of its dependents.
                    self.refresh_next(placement.task, Reach::Dependents);
                    self.policy.started(id);
                    return Some(placement);
                }
                Attempt::Waits => tries.take(1),
                // The check took its tries.
                Attempt::Late => {}
                Attempt::NoWorker => return None,
            }
        }
        None
    }

    fn attempt(
        &mut self,
        (now, config): (Time, &Config),
        job_config: &JobConfig,
        (id, canonical): (JobId, u32),
        (tries, tier, advice): Search<'_>,
    ) -> Attempt {
        let mut waits_at = Vec::new();
        let mut next = Some(canonical);
        while let Some(row) = next {
            let Some(forest) = self.forest.as_deref() else {
                return Attempt::NoWorker;
            };
            next = forest.next_replica(row);
            let has_replicas = forest.has_replicas();
            if has_replicas && structure(forest, &self.tasks, id, row) != Structure::Open {
                continue;
            }
            waits_at.push(
                match self.slots.first_short(forest, &job_config.resources, row) {
                    Some(short) if forest.level(short) == Some(LevelId::INSTANCE) => {
                        // The policy then no longer picks the job.
                        self.check_root();
                        return Attempt::NoWorker;
                    }
                    Some(short) => WaitKey::Node(forest.canonical(short)),
                    None => {
                        let host = required_host(forest, job_config, row);
                        let near = self.near(now, job_config, (id, canonical, host), &mut *advice);
                        tries.take(near.1);
                        match self.find_worker_for(
                            config,
                            (id, host, &near.0),
                            (&mut *tries, tier, &mut *advice),
                        ) {
                            Ok(worker) => {
                                let to = (job_config, host, &near);
                                let task = (id, canonical);
                                if self.wait_for_nearer(now, task, to, (worker, &mut *advice)) {
                                    return Attempt::Waits;
                                }
                                let at = (worker, tier);
                                let placement = self.start(now, (id, job_config), row, at);
                                return placement.map_or(Attempt::NoWorker, Attempt::Started);
                            }
                            Err(NoWorker::OnHost(host)) => WaitKey::Host(host),
                            // The policy then no longer picks the job: its demand fits nowhere, or its workers are claimed.
                            Err(NoWorker::Anywhere) => return Attempt::NoWorker,
                            Err(NoWorker::Late) => return Attempt::Late,
                        }
                    }
                },
            );
        }
        self.make_wait((id, canonical), &waits_at);
        Attempt::Waits
    }

    /// Returns the workers near the inputs of a task, and the cost in tries. A task that has waited for some of them goes on with these, as long
    /// as one of them has room or lacks only free slots. That costs nothing while all lack free slots, because the task then does not start.
    fn near(
        &mut self,
        now: Time,
        job: &JobConfig,
        (id, canonical, host): (JobId, u32, Option<NodeId>),
        advice: &mut dyn Advice,
    ) -> (Vec<NearWorker>, u32) {
        let forest = self.forest.as_deref().filter(|_| !job.inputs.is_empty());
        let Some(forest) = forest else {
            return (Vec::new(), 0);
        };
        let node = forest.node(canonical);
        let task = Task { job: id, node };
        let demand = self.tasks.job(id).demand;
        if let Some(wait) = self.tasks.locality().woken(now, task) {
            let (bytes, mut workers) = (wait.bytes, wait.workers.iter());
            let near = workers.clone().map(|&worker| NearWorker { worker, bytes });
            if workers.clone().any(|one| self.pool.fits(demand, *one)) {
                return (near.collect(), wait.cost);
            }
            if workers.any(|one| self.pool.is_only_in_use((*one, host), demand, &self.slots)) {
                return (near.collect(), 0);
            }
        }
        // The task waits for other workers from now on, if for any.
        self.tasks.locality_mut().end(task);
        advice.nearest(self, task)
    }

    /// Has a task wait for the workers with most bytes of its inputs, if they have more than the one that could start it now, and lack only
    /// free slots. Returns whether it waits, which it does once, for `locality_wait` at most.
    fn wait_for_nearer(
        &mut self,
        now: Time,
        (id, canonical): (JobId, u32),
        (job_config, host, (near, cost)): (&JobConfig, Option<NodeId>, &(Vec<NearWorker>, u32)),
        (worker, advice): (WorkerIndex, &mut dyn Advice),
    ) -> bool {
        let (longest, demand) = (job_config.locality_wait, self.tasks.job(id).demand);
        let Some(forest) = self.forest.as_deref().filter(|_| !longest.is_zero()) else {
            return false;
        };
        let node = forest.node(canonical);
        let task = Task { job: id, node };
        let here = near.iter().find(|one| one.worker == worker);
        let here = here.map_or(0, |one| one.bytes);
        let nearer = near.iter().filter(|one| one.bytes > here).filter(|one| {
            let at = (one.worker, host);
            self.pool.is_only_in_use(at, demand, &self.slots)
        });
        let mut nearer = nearer.peekable();
        let Some(bytes) = nearer.peek().map(|first| first.bytes) else {
            return false;
        };
        let equal = nearer.take_while(|one| one.bytes == bytes);
        let equal = equal.take(LocalityWait::MOST_WORKERS);
        let workers: Vec<WorkerIndex> = equal.map(|one| one.worker).collect();
        let since = self.tasks.locality().began(task).unwrap_or(now);
        let former = self.tasks.locality().woken(now, task);
        let cost = former.map_or(*cost, |former| former.cost);
        let goes_on = former.is_some();
        if since + longest <= now || !(goes_on || advice.has_inputs(self, task)) {
            return false;
        }
        let until = self.tasks.locality_mut().since(now, task) + longest;
        let wait = LocalityWait {
            workers,
            bytes,
            cost,
            until,
        };
        self.tasks.locality_mut().begin(task, wait);
        self.refresh(task, Reach::Own);
        true
    }

    /// Makes a task wait at the places that lack slots for it: one for each replica.
    fn make_wait(&mut self, task: (JobId, u32), places: &[WaitKey]) {
        let (Some(forest), tasks) = (self.forest.as_deref(), &self.tasks) else {
            return;
        };
        match places {
            [key, ..] if !forest.has_replicas() => {
                self.queues.wait_together(forest, tasks, task, *key);
            }
            _ => {
                self.queues.leave(forest, tasks, task);
                for key in places {
                    self.queues.wait_alone(forest, tasks, task, *key);
                }
            }
        }
    }

    /// Returns a worker for a task, or else why there is none. Checks of deadlines cost tries.
    fn find_worker_for(
        &mut self,
        config: &Config,
        (id, host, near): (JobId, Option<NodeId>, &[NearWorker]),
        (tries, tier, advice): Search<'_>,
    ) -> Result<WorkerIndex, NoWorker> {
        let demand = self.tasks.job(id).demand;
        if let Tier::Standby(claims) = tier {
            let chosen = self.pool.select_standby(demand, claims);
            return chosen.ok_or(NoWorker::Anywhere);
        }
        let near = self.pool.first_fitting(demand, host, near);
        let chosen = near.or_else(|| self.pool.select(demand, host, (config, &self.slots)));
        let worker = chosen.ok_or(host.map_or(NoWorker::Anywhere, NoWorker::OnHost))?;
        let due = self.pool.due_at(demand, worker);
        let judged = due.map_or(Judged::UNSEEN, |due| advice.judge(worker, due));
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

    /// Marks a task running, and charges its slots. `None` without a forest.
    fn start(
        &mut self,
        now: Time,
        (id, job_config): (JobId, &JobConfig),
        row: u32,
        (worker, tier): (WorkerIndex, Tier<'_>),
    ) -> Option<Placement> {
        let forest = self.forest.as_deref()?;
        let canonical = forest.canonical(row);
        let task = Task {
            job: id,
            node: forest.node(canonical),
        };
        let run = self.make_run(forest, (id, job_config), row, worker);
        let expected = run.expected;
        for charge in &run.charges {
            self.slots.charge(*charge);
        }
        self.pool.take_cards(worker, &run.cards.gpus);
        self.tasks.start(task, run);
        self.tasks.locality_mut().end(task);
        self.pool.task_started(worker);
        self.note_short(task);
        self.pool.has_returned(task);
        match tier {
            Tier::Room => self.guess_begun(task),
            Tier::Standby(_) => {
                self.stand_by(now, task, expected);
                // Slots may be free that are too few for those before it.
                self.count_begun(worker);
            }
        }
        let forest = self.forest.as_deref()?;
        self.queues.start(forest, &self.tasks, id, canonical);
        self.check_root();
        self.offer_worker(worker);
        let forest = self.forest.as_deref()?;
        self.queues.leave(forest, &self.tasks, (id, canonical));
        Some(Placement { task, worker })
    }

    fn make_run(
        &self,
        forest: &Forest,
        (id, job_config): (JobId, &JobConfig),
        row: u32,
        worker: WorkerIndex,
    ) -> PlacedRun {
        let mut charges = Vec::with_capacity(self.slots.len());
        let needs = &job_config.resources;
        self.slots.add_path(forest, needs, row, &mut charges);
        if let Some(slot) = self.pool.get_any(worker) {
            self.slots.add_worker(slot.node, needs, &mut charges);
        }
        PlacedRun {
            worker,
            path: self.path_of_run(forest, row),
            charges,
            cards: self.pool.cards_for(worker, self.tasks.job(id).demand),
            expected: self.expected_run_time(id),
            place: QueuePlace::Unknown,
        }
    }
}

/// Returns the host that a task of the job must run on because of its place in the forest. A fixed host is part of the job's demand.
pub(super) fn required_host(forest: &Forest, job: &JobConfig, row: u32) -> Option<NodeId> {
    if job.host_placement.as_ref().is_some_and(|h| !h.is_empty()) {
        return None;
    }
    let level = job.level_for_host_placement?;
    forest
        .upward(row)
        .find(|above| forest.level(*above) == Some(level))
        .map(|above| forest.node(above))
}
