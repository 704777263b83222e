//! Starting tasks: one placement at a time, until nothing that could start is left.

use std::sync::Arc;

use brasserie_common::{JobId, NodeId, Time};
use brasserie_common_config::{Config, JobConfig, ResourceId};

use super::Structure;
use super::policy::Candidates;
use super::resources::{Charge, ChargeGroup, Ledger, SlotPlan, is_met, need_of};
use super::running::Run;
use super::wait_lists::WaitKey;
use super::workers::{Demand, Worker};
use crate::engine::Engine;
use crate::forest::index::Forest;
use crate::types::{Placement, Task, TaskState, WorkerIndex};

/// What became of trying a task.
enum Attempt {
    Started(Placement),
    Parked,
    /// No worker has room for any task of the job. It stays ready.
    NoWorker,
}

impl Engine {
    /// Starts one task on one worker: it is then marked running and charged. `None`: nothing can start until something
    /// changes.
    ///
    /// Invariants that make `None` true without a scan: an eligible task is ready or in a wait list; of those of one job
    /// that wait at one place which has room for them, the first is ready.
    pub fn place(&mut self, now: Time) -> Option<Placement> {
        self.expire(now);
        let config = self.config.clone()?;
        if !config.enabled || self.barrier.is_some() {
            return None;
        }
        let forest = self.forest.take()?;
        let placement = self.place_in(&forest, &config);
        self.forest = Some(forest);
        placement
    }

    fn place_in(&mut self, forest: &Forest, config: &Arc<Config>) -> Option<Placement> {
        loop {
            let job = self.policy.pick(&Candidates {
                pool: &self.pool,
                jobs: &self.jobs,
                config,
            })?;
            if let Some(placement) = self.place_job(forest, config, job) {
                self.policy.started(job);
                return Some(placement);
            }
        }
    }

    fn place_job(&mut self, forest: &Forest, config: &Arc<Config>, id: JobId) -> Option<Placement> {
        let job_config = config.jobs.get(self.jobs[id.index()].config_index?)?;
        loop {
            let job = &self.jobs[id.index()];
            let position = job.ready.first()? as u32;
            match self.attempt(forest, config, job_config, id, position) {
                Attempt::Started(placement) => return Some(placement),
                Attempt::Parked => {}
                Attempt::NoWorker => return None,
            }
        }
    }

    fn attempt(
        &mut self,
        forest: &Forest,
        config: &Config,
        job_config: &JobConfig,
        id: JobId,
        position: u32,
    ) -> Attempt {
        let level = job_config.level_for_tasks;
        let canonical = forest.order(level)[position as usize];
        let mut waits_at = Vec::new();
        for row in forest.rows(canonical) {
            let job = &self.jobs[id.index()];
            if self.structure(forest, job, id, row) != Structure::Open {
                continue;
            }
            if let Some((short, _)) = self.first_short(forest, &job_config.resources, row) {
                waits_at.push(WaitKey::Node(forest.canonical(short)));
                continue;
            }
            let demand = job.demand;
            let host = self.required_host(forest, job_config, row);
            let (plan, ledger) = (&self.plan, &self.ledger);
            let chosen =
                self.pool
                    .select(demand, host, config.worker_selector, |worker, demand| {
                        leftover(config, plan, ledger, worker, demand)
                    });
            match (chosen, host) {
                (Some(worker), _) => {
                    return Attempt::Started(
                        self.start(forest, config, job_config, id, row, worker),
                    );
                }
                (None, Some(host)) => waits_at.push(WaitKey::Host(host)),
                // The policy then no longer picks the job, as its demand fits nowhere.
                (None, None) => return Attempt::NoWorker,
            }
        }
        self.unready(forest, id, position, canonical);
        for key in waits_at {
            self.lists.park(key, id, position);
            self.jobs[id.index()].set_parked(position);
        }
        Attempt::Parked
    }

    /// The nearest node of the path that is short of something.
    pub(crate) fn first_short(
        &self,
        forest: &Forest,
        needs: &[i32],
        row: u32,
    ) -> Option<(u32, ResourceId)> {
        forest.upward(row).find_map(|above| {
            let short = self.short_at(forest, needs, above)?;
            Some((above, short))
        })
    }

    fn short_at(&self, forest: &Forest, needs: &[i32], row: u32) -> Option<ResourceId> {
        let level = forest.level(row)?;
        let node = forest.node(row);
        self.plan.at(level).iter().copied().find(|&id| {
            let need = need_of(needs, id);
            need > 0
                && !is_met(
                    need,
                    self.plan.limit(id),
                    self.ledger.used(node, self.plan.name(id)),
                )
        })
    }

    /// The host that a task of the job must run on by its place in the forest. A fixed host is part of the job's demand.
    pub(crate) fn required_host(
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
        let run = self.make_run(forest, config, job_config, row, worker);
        for charge in &run.charges {
            self.ledger.charge(*charge);
        }
        self.running.insert(task, run);
        self.pool.task_started(worker);
        let job = &mut self.jobs[id.index()];
        job.running += 1;
        job.set_state(position, TaskState::Running);
        job.clear_eligible(position);
        self.offer_worker_in(forest, worker);
        self.unready(forest, id, position, canonical);
        Placement { task, worker }
    }

    fn make_run(
        &self,
        forest: &Forest,
        config: &Config,
        job_config: &JobConfig,
        row: u32,
        worker: WorkerIndex,
    ) -> Run {
        let mut path: Vec<u32> = forest.upward(row).collect();
        path.reverse();
        let mut charges = Vec::new();
        let mut add = |node: NodeId, ids: &[ResourceId]| {
            for (i, &id) in ids.iter().enumerate() {
                charges.push(Charge {
                    node,
                    resource: self.plan.name(id),
                    amount: need_of(&job_config.resources, id),
                    group: if i == 0 {
                        ChargeGroup::Opens
                    } else {
                        ChargeGroup::Continues
                    },
                });
            }
        };
        for &above in &path {
            if let Some(level) = forest.level(above) {
                add(forest.node(above), self.plan.at(level));
            }
        }
        if let Some(slot) = self.pool.get_any(worker) {
            add(slot.node, self.plan.at(config.worker_level()));
        }
        Run {
            worker,
            path: path.iter().map(|r| forest.node(*r)).collect(),
            charges,
        }
    }

    /// Takes a task out of the ready ones and of every wait list, and lets the next one there have a look.
    pub(crate) fn unready(&mut self, forest: &Forest, id: JobId, position: u32, canonical: u32) {
        let job = &mut self.jobs[id.index()];
        job.ready.remove(position as usize);
        let mut left = Vec::new();
        if job.is_parked(position) {
            job.clear_parked(position);
            for row in forest.rows(canonical) {
                for above in forest.upward(row) {
                    let keys = [
                        WaitKey::Node(forest.canonical(above)),
                        WaitKey::Host(forest.node(above)),
                    ];
                    left.extend(
                        keys.into_iter()
                            .filter(|key| self.lists.unpark(*key, id, position)),
                    );
                }
            }
        }
        for key in left {
            self.wake_first(forest, key, id);
        }
        self.sync_active(id);
    }

    /// Makes the first of a job's tasks that wait at a place ready, if there is room for it now.
    fn wake_first(&mut self, forest: &Forest, key: WaitKey, id: JobId) {
        let Some(position) = self.lists.first(key, id) else {
            return;
        };
        let job = &self.jobs[id.index()];
        let has_room = match key {
            WaitKey::Node(row) => {
                let needs = self.job_config(id).map_or(&[][..], |c| &c.resources);
                self.short_at(forest, needs, row).is_none()
            }
            WaitKey::Host(host) => self.pool.host_has_room(host, job.demand),
        };
        if has_room {
            self.jobs[id.index()].ready.insert(position as usize);
            self.sync_active(id);
        }
    }

    /// Slots of a node have been freed.
    pub(crate) fn offer_node(&mut self, row: u32) {
        let Some(forest) = self.forest.take() else {
            return;
        };
        let key = WaitKey::Node(row);
        for job in self.lists.jobs_at(key) {
            self.wake_first(&forest, key, job);
        }
        self.forest = Some(forest);
    }

    /// Something about a worker has changed.
    pub(crate) fn offer_worker(&mut self, worker: WorkerIndex) {
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
        let Some(config) = &self.config else {
            return Vec::new();
        };
        let level = self.plan.at(config.worker_level());
        self.pool.update(worker, &self.plan, level, &self.ledger)
    }

    fn offer_worker_in(&mut self, forest: &Forest, worker: WorkerIndex) {
        let opened = self.update_worker(worker);
        if opened.is_empty() {
            return;
        }
        let Some(host) = self.pool.get(worker).map(|w| w.host) else {
            return;
        };
        let key = WaitKey::Host(host);
        for job in self.lists.jobs_at(key) {
            self.wake_first(forest, key, job);
        }
    }

    /// The canonical row that a charge belongs to in the forest in force.
    pub(crate) fn charged_row(&self, charge: Charge) -> Option<u32> {
        let id = self.plan.find(charge.resource)?;
        let level = self.config.as_ref()?.resources.get(id.index())?.level;
        self.forest.as_ref()?.row_of(level, charge.node)
    }
}

/// What would be free on a worker after the task, weighed: the busiest fitting worker has the least.
fn leftover(
    config: &Config,
    plan: &SlotPlan,
    ledger: &Ledger,
    worker: &Worker,
    demand: &Demand,
) -> i64 {
    let ids = plan.at(config.worker_level());
    let slots = ids.iter().zip(&worker.limits).zip(&demand.needs);
    slots.fold(0_i64, |sum, ((id, limit), need)| {
        let used = ledger.used(worker.node, plan.name(*id));
        let free = i64::from(*limit) - used - i64::from(*need);
        let weight = i64::from(config.resources[id.index()].weight);
        sum.saturating_add(free.saturating_mul(weight))
    })
}
