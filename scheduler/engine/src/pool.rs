//! The pool of workers, and the jobs in groups with the same demand. So "does any worker have room for this job" is one lookup, and a freed
//! slot costs one check for each distinct demand.

pub(crate) mod demand;
pub(crate) mod limits;
pub(crate) mod standby;
pub(crate) mod work_need;
pub(crate) mod worker;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use brasserie_common::collections::{IdMap, SeededMap};
use brasserie_common::fingerprint::Shape;
use brasserie_common::{CardUse, GpuShare, JobId, NodeId, Shard, Time};
use brasserie_common_config::{Config, JobConfig, WorkerSelector};

use demand::{Demand, Load};
use standby::{Claims, Standby, StandbyTask};
use work_need::{LearnedStep, OutputNeed, Refusal};
use worker::{PoolWorker, RunCards, WorkerPresence};

use crate::bit_tree::BitTree;
use crate::forest::filter::CompiledFilter;
use crate::slots::Slots;
use crate::types::{
    Allowances, Due, Eligibility, NearWorker, OutputSpace, Task, WorkerIndex, WorkerResources,
};

/// Whether a group of jobs existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Known,
    New,
}

/// Whether a job has a task that may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HasReady {
    Yes,
    No,
}

/// The workers that are considered for a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tier<'a> {
    /// Those with room: the task starts at once.
    Room,
    /// Those where the task may stand by, without those that are claimed. Jobs whose tasks cannot stand by are candidates, too: they claim
    /// their workers.
    Standby(&'a Claims),
}

impl Tier<'_> {
    fn admits(self, index: usize, demand: &Demand) -> bool {
        match self {
            Tier::Room => !demand.fits.is_empty(),
            Tier::Standby(claims) => {
                let has_worker = match demand.may_stand_by {
                    true => !demand.standby_at.is_empty(),
                    false => !demand.feasible.is_empty(),
                };
                demand.fits.is_empty() && !claims.include(index) && has_worker
            }
        }
    }
}

/// All workers and demands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    workers: Vec<PoolWorker>,
    by_shard: SeededMap<Shard, u32>,
    by_host: IdMap<NodeId, BTreeSet<u32>>,
    unused: Vec<u32>,
    present: usize,
    demands: Vec<Demand>,
    groups: SeededMap<String, usize>,
    /// Indices of demands without jobs.
    vacant: Vec<usize>,
    /// Tasks of each job, by job id, that its group's `could_start` includes.
    counted: Vec<u32>,
    /// The worker with which the next round-robin choice begins.
    cursor: usize,
    /// Workers where tasks stand by.
    standing_by: BTreeSet<u32>,
    /// Those of them with a task that may not start any more.
    unwanted: BTreeSet<u32>,
    /// Tasks that were taken back for another worker and have not started there, with the times at which they were asked for.
    returning: BTreeMap<Task, Time>,
    /// The number of tasks that stand by, by job.
    standby_jobs: BTreeMap<JobId, usize>,
}

impl Pool {
    pub(crate) fn get(&self, worker: WorkerIndex) -> Option<&PoolWorker> {
        self.workers
            .get(worker.index())
            .filter(|w| w.presence == WorkerPresence::Present)
    }

    /// Returns a worker, even one that is gone but still charged.
    pub(crate) fn get_any(&self, worker: WorkerIndex) -> Option<&PoolWorker> {
        self.workers.get(worker.index())
    }

    pub(crate) fn find(&self, shard: &str) -> Option<WorkerIndex> {
        self.by_shard.get(shard).copied().map(WorkerIndex)
    }

    pub(crate) fn present(&self) -> impl Iterator<Item = (WorkerIndex, &PoolWorker)> {
        self.workers
            .iter()
            .enumerate()
            .filter(|(_, w)| w.presence == WorkerPresence::Present)
            .map(|(i, w)| (WorkerIndex(u32::try_from(i).unwrap_or(u32::MAX)), w))
    }

    /// Iterates over the names of workers and their hosts, including workers that are gone but still charged.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.workers.iter().flat_map(|w| [w.node, w.host])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// Adds or updates a worker. A new worker is ineligible at first; a known one keeps its eligibility.
    pub(crate) fn upsert(
        &mut self,
        shard: &Shard,
        node: NodeId,
        host: NodeId,
        resources: WorkerResources,
    ) -> WorkerIndex {
        let index = match self.by_shard.get(shard) {
            Some(&index) => index,
            None => self.add(shard, node, host, &resources),
        };
        let worker = &mut self.workers[index as usize];
        if worker.presence == WorkerPresence::Gone {
            worker.presence = WorkerPresence::Present;
            worker.eligibility = Eligibility::Ineligible;
            self.present += 1;
        }
        if let Some(hosted) = self.by_host.get_mut(&worker.host) {
            hosted.remove(&index);
            if hosted.is_empty() {
                self.by_host.remove(&worker.host);
            }
        }
        if worker.host != host {
            // Tasks that wait for the new host must be woken, even if the worker had room all along.
            for demand in &mut self.demands {
                demand.fits.remove(index as usize);
            }
        }
        worker.host = host;
        worker.resources = resources;
        self.by_host.entry(host).or_default().insert(index);
        WorkerIndex(index)
    }

    fn add(
        &mut self,
        shard: &Shard,
        node: NodeId,
        host: NodeId,
        resources: &WorkerResources,
    ) -> u32 {
        let worker = PoolWorker {
            shard: shard.clone(),
            node,
            host,
            resources: resources.clone(),
            eligibility: Eligibility::Ineligible,
            presence: WorkerPresence::Gone,
            limits: Vec::new(),
            running: 0,
            card_use: CardUse::default(),
            allowances: None,
            cpu_slots: None,
            card_slots: Vec::new(),
            standby: Standby::default(),
            output_space: OutputSpace::Unknown,
        };
        let index = match self.unused.pop() {
            Some(index) => {
                self.workers[index as usize] = worker;
                index
            }
            None => {
                // Invariant: every worker holds a connection, so there are far fewer than 2^32.
                let index = u32::try_from(self.workers.len()).expect("fewer than 2^32 workers");
                self.workers.push(worker);
                index
            }
        };
        self.by_shard.insert(shard.clone(), index);
        index
    }

    pub(crate) fn remove(&mut self, worker: WorkerIndex) {
        let Some(slot) = self.workers.get_mut(worker.index()) else {
            return;
        };
        if slot.presence == WorkerPresence::Gone {
            return;
        }
        slot.presence = WorkerPresence::Gone;
        slot.eligibility = Eligibility::Ineligible;
        slot.allowances = None;
        slot.output_space = OutputSpace::Unknown;
        self.present -= 1;
        let host = slot.host;
        self.forget_late(worker);
        self.forget_turned_down(worker);
        if let Some(hosted) = self.by_host.get_mut(&host) {
            hosted.remove(&worker.0);
            if hosted.is_empty() {
                self.by_host.remove(&host);
            }
        }
        self.reclaim(worker);
    }

    /// Frees the entry of a worker that is gone and has no charges.
    fn reclaim(&mut self, worker: WorkerIndex) {
        let slot = &self.workers[worker.index()];
        if slot.presence == WorkerPresence::Gone && slot.running == 0 {
            let shard = slot.shard.clone();
            if self.by_shard.get(&shard) == Some(&worker.0) {
                self.by_shard.remove(&shard);
                self.unused.push(worker.0);
            }
        }
    }

    pub(crate) fn set_eligibility(&mut self, worker: WorkerIndex, eligibility: Eligibility) {
        if let Some(slot) = self.workers.get_mut(worker.index())
            && slot.presence == WorkerPresence::Present
        {
            slot.eligibility = eligibility;
        }
    }

    /// Sets a worker's credit. Returns whether it changed.
    pub(crate) fn set_allowances(
        &mut self,
        worker: WorkerIndex,
        allowances: Option<Allowances>,
    ) -> bool {
        let slot = self.workers.get_mut(worker.index());
        let slot = slot.filter(|slot| slot.presence == WorkerPresence::Present);
        let Some(slot) = slot.filter(|slot| slot.allowances != allowances) else {
            return false;
        };
        let request = |of: &Option<Allowances>| of.as_ref().and_then(Allowances::request);
        let is_anew = request(&slot.allowances) != request(&allowances);
        slot.allowances = allowances;
        let may_turn_down = request(&slot.allowances).is_some() && slot.chooses_cards();
        if is_anew {
            self.forget_late(worker);
        }
        if !may_turn_down {
            self.forget_turned_down(worker);
        }
        true
    }

    /// Sets the space that a worker has for the outputs of a task. Returns whether that is new.
    pub(crate) fn set_output_space(&mut self, worker: WorkerIndex, space: OutputSpace) -> bool {
        let slot = self.workers.get_mut(worker.index());
        let slot = slot.filter(|slot| slot.presence == WorkerPresence::Present);
        slot.is_some_and(|slot| std::mem::replace(&mut slot.output_space, space) != space)
    }

    pub(crate) fn task_started(&mut self, worker: WorkerIndex) {
        if let Some(slot) = self.workers.get_mut(worker.index()) {
            slot.running += 1;
        }
    }

    pub(crate) fn task_ended(&mut self, worker: WorkerIndex) {
        if let Some(slot) = self.workers.get_mut(worker.index()) {
            slot.running = slot.running.saturating_sub(1);
            self.reclaim(worker);
        }
    }

    /// Changes what stands by at a worker, even at one that is gone but still charged.
    pub(crate) fn change_standby<T>(
        &mut self,
        worker: WorkerIndex,
        change: impl FnOnce(&mut Standby) -> T,
    ) -> Option<T> {
        let standby = &mut self.workers.get_mut(worker.index())?.standby;
        let sets = |standby: &Standby| (!standby.tasks().is_empty(), standby.has_unwanted());
        let before = sets(standby);
        let result = change(standby);
        let (stands_by, is_unwanted) = sets(standby);
        for (was_in, is_in, set) in [
            (before.0, stands_by, &mut self.standing_by),
            (before.1, is_unwanted, &mut self.unwanted),
        ] {
            if was_in == is_in {
                continue;
            }
            match is_in {
                true => set.insert(worker.0),
                false => set.remove(&worker.0),
            };
        }
        Some(result)
    }

    /// Adds a task that stands by at a worker, behind the others of its place.
    pub(crate) fn stand_by(&mut self, worker: WorkerIndex, task: StandbyTask) {
        let job = task.task.job;
        if self
            .change_standby(worker, |standby| standby.push(task))
            .is_some()
        {
            *self.standby_jobs.entry(job).or_insert(0) += 1;
        }
    }

    /// Removes a task, which starts or ends, from those that stand by at a worker. It need not be one of them.
    pub(crate) fn leave_standby(&mut self, worker: WorkerIndex, task: Task) {
        let removed = self.change_standby(worker, |standby| standby.remove(task));
        let Some(removed) = removed.flatten() else {
            return;
        };
        if removed.is_asked && !removed.is_unwanted {
            self.returning.insert(task, removed.due);
        }
        if let Some(count) = self.standby_jobs.get_mut(&task.job) {
            *count -= 1;
            if *count == 0 {
                self.standby_jobs.remove(&task.job);
            }
        }
    }

    /// Notes that a task has started, or that it no longer needs the room for which it was taken back.
    pub(crate) fn has_returned(&mut self, task: Task) {
        self.returning.remove(&task);
    }

    /// Forgets tasks that were asked for until this time.
    pub(crate) fn forget_returning(&mut self, until: Time) {
        self.returning.retain(|_, asked| *asked > until);
    }

    /// Returns when the first of these tasks was asked for.
    pub(crate) fn returning_since(&self) -> Option<Time> {
        self.returning.values().min().copied()
    }

    /// Iterates over the tasks that were taken back for another worker and have not started there.
    pub(crate) fn returning(&self) -> impl Iterator<Item = Task> {
        self.returning.keys().copied()
    }

    /// Iterates over the jobs of which tasks stand by.
    pub(crate) fn standby_jobs(&self) -> impl Iterator<Item = JobId> {
        self.standby_jobs.keys().copied()
    }

    /// Iterates over the workers with a task that stands by and may not start any more.
    pub(crate) fn unwanted(&self) -> impl Iterator<Item = (WorkerIndex, &Standby)> {
        self.standby_of(&self.unwanted)
    }

    /// Iterates over the workers where tasks stand by.
    pub(crate) fn standing_by(&self) -> impl Iterator<Item = (WorkerIndex, &Standby)> {
        self.standby_of(&self.standing_by)
    }

    fn standby_of(&self, workers: &BTreeSet<u32>) -> impl Iterator<Item = (WorkerIndex, &Standby)> {
        let workers = workers.iter().map(|index| WorkerIndex(*index));
        workers.filter_map(|index| Some((index, &self.get_any(index)?.standby)))
    }

    /// Returns whether tasks of a demand may stand by.
    pub(crate) fn may_stand_by(&self, demand: usize) -> bool {
        let demand = self.demands.get(demand);
        demand.is_some_and(|demand| demand.may_stand_by)
    }

    /// Iterates over the workers with room for a demand.
    pub(crate) fn with_room(&self, demand: usize) -> impl Iterator<Item = usize> {
        let demand = self.demands.get(demand);
        demand.into_iter().flat_map(|demand| demand.fits.iter())
    }

    pub(crate) fn take_cards(&mut self, worker: WorkerIndex, gpus: &[GpuShare]) {
        if let Some(slot) = self.workers.get_mut(worker.index()) {
            slot.card_use.take(gpus);
        }
    }

    /// Frees GPUs. Must come before [`Pool::task_ended`], which may free the worker's entry.
    pub(crate) fn give_cards_back(&mut self, worker: WorkerIndex, gpus: &[GpuShare]) {
        if let Some(slot) = self.workers.get_mut(worker.index()) {
            slot.card_use.give_back(gpus);
        }
    }

    /// Returns the GPUs for a task of a demand that the worker has room for.
    pub(crate) fn cards_for(&self, worker: WorkerIndex, demand: usize) -> RunCards {
        let demand = &self.demands[demand];
        let slot = self.get_any(worker);
        slot.map_or_else(RunCards::default, |slot| {
            slot.cards_for(&demand.work, &demand.cards)
        })
    }

    /// Computes a worker's limits from the configuration and its report.
    pub(crate) fn set_limits(&mut self, worker: WorkerIndex, config: &Config, slots: &Slots) {
        if let Some(slot) = self.workers.get_mut(worker.index()) {
            slot.set_limits(config, slots);
        }
    }

    /// Recomputes which demands a worker can serve. Returns the demands that newly fit.
    pub(crate) fn update(&mut self, worker: WorkerIndex, slots: &Slots) -> Vec<u32> {
        let Some(slot) = self.workers.get(worker.index()) else {
            return Vec::new();
        };
        let mut opened = Vec::new();
        for (d, demand) in self.demands.iter_mut().enumerate() {
            if demand.jobs > 0 && demand.check_worker(worker.index(), slot, slots) {
                opened.push(u32::try_from(d).unwrap_or(u32::MAX));
            }
        }
        opened
    }

    /// Sets for each demand whether the root meets its needs.
    pub(crate) fn set_root_room(&mut self, has_room: impl Fn(&[i32]) -> bool) {
        for demand in &mut self.demands {
            demand.root_has_room = has_room(&demand.root_needs);
        }
    }

    /// Returns for each demand whether no worker could ever serve it. In an empty pool, only limits that hold for every worker decide.
    pub(crate) fn infeasible(&self) -> Vec<bool> {
        (0..self.demands.len())
            .map(|d| self.is_infeasible(d))
            .collect()
    }

    pub(crate) fn is_infeasible(&self, demand: usize) -> bool {
        self.demands.get(demand).is_some_and(|d| {
            if self.is_empty() {
                d.over_fixed_limits
            } else {
                d.feasible.is_empty()
            }
        })
    }

    /// Returns whether the root and some worker have room for jobs of a demand.
    pub(crate) fn has_room_for(&self, demand: usize) -> bool {
        let demand = self.demands.get(demand);
        demand.is_some_and(|d| d.root_has_room && !d.fits.is_empty())
    }

    pub(crate) fn has_room_for_any(&self) -> bool {
        (0..self.demands.len()).any(|demand| self.has_room_for(demand))
    }

    pub(crate) fn host_has_room(&self, host: NodeId, demand: usize) -> bool {
        self.on_host(host)
            .any(|i| self.demands[demand].fits.contains(i as usize))
    }

    fn on_host(&self, host: NodeId) -> impl Iterator<Item = u32> + '_ {
        self.by_host.get(&host).into_iter().flatten().copied()
    }

    /// Chooses a worker where a task of a demand may stand by, in turn.
    pub(crate) fn select_standby(&mut self, demand: usize, claims: &Claims) -> Option<WorkerIndex> {
        let wanted = &self.demands[demand].standby_at;
        let first = wanted.next_cyclic(self.cursor)?;
        let mut chosen = first;
        while !claims.is_unclaimed(chosen) {
            chosen = wanted.next_cyclic(chosen + 1)?;
            if chosen == first {
                return None;
            }
        }
        self.cursor = chosen + 1;
        u32::try_from(chosen).ok().map(WorkerIndex)
    }

    /// Returns the workers that could run tasks of a demand if they were idle.
    pub(crate) fn feasible(&self, demand: usize) -> &BitTree {
        &self.demands[demand].feasible
    }

    /// Returns the first of these workers with room.
    pub(crate) fn first_fitting(
        &self,
        demand: usize,
        host: Option<NodeId>,
        workers: &[NearWorker],
    ) -> Option<WorkerIndex> {
        let fits = &self.demands[demand].fits;
        let workers = workers.iter().map(|near| near.worker);
        let mut fitting = workers.filter(|worker| fits.contains(worker.index()));
        fitting.find(|worker| self.is_on_host(*worker, host))
    }

    fn is_on_host(&self, worker: WorkerIndex, host: Option<NodeId>) -> bool {
        host.is_none_or(|host| self.workers[worker.index()].host == host)
    }

    /// Returns whether a worker has room for a demand.
    pub(crate) fn fits(&self, demand: usize, worker: WorkerIndex) -> bool {
        let demand = self.demands.get(demand);
        demand.is_some_and(|demand| demand.fits.contains(worker.index()))
    }

    /// Returns whether a worker lacks nothing but free slots or GPUs for a task of a demand, or a request for more work.
    pub(crate) fn is_only_in_use(
        &self,
        (worker, host): (WorkerIndex, Option<NodeId>),
        demand: usize,
        slots: &Slots,
    ) -> bool {
        let Some(slot) = self.get(worker).filter(|_| !self.fits(demand, worker)) else {
            return false;
        };
        let wanted = &self.demands[demand];
        let refusal = wanted.refusal(slot, slots, Load::Idle);
        let is_in_use = matches!(refusal, None | Some(Refusal::Full | Refusal::NotAsked));
        is_in_use && self.is_on_host(worker, host)
    }

    /// Chooses a worker with room, by the configured selector, and moves the cursor.
    pub(crate) fn select(
        &mut self,
        demand: usize,
        host: Option<NodeId>,
        (config, slots): (&Config, &Slots),
    ) -> Option<WorkerIndex> {
        let wanted = &self.demands[demand];
        let chosen = match (config.worker_selector, host) {
            (WorkerSelector::RoundRobin, None) => wanted.fits.next_cyclic(self.cursor),
            (WorkerSelector::RoundRobin, Some(host)) => {
                let fitting = || {
                    self.on_host(host)
                        .map(|i| i as usize)
                        .filter(|i| wanted.fits.contains(*i))
                };
                let after = fitting().find(|i| *i >= self.cursor);
                after.or_else(|| fitting().next())
            }
            // The lowest index wins among equals.
            (WorkerSelector::Busiest, _) => self.least(wanted, host, |worker| {
                leftover(config, slots, worker, wanted)
            }),
            (WorkerSelector::Neediest, _) => self.least(wanted, host, |worker| {
                Reverse(worker.wants(&wanted.work, &wanted.cards))
            }),
        }?;
        self.cursor = chosen + 1;
        u32::try_from(chosen).ok().map(WorkerIndex)
    }

    fn least<K: Ord>(
        &self,
        wanted: &Demand,
        host: Option<NodeId>,
        key: impl Fn(&PoolWorker) -> K,
    ) -> Option<usize> {
        let key = |i: &usize| key(&self.workers[*i]);
        match host {
            None => wanted.fits.iter().min_by_key(key),
            Some(host) => {
                let there = self.on_host(host).map(|i| i as usize);
                there.filter(|i| wanted.fits.contains(*i)).min_by_key(key)
            }
        }
    }

    /// Returns all entries, including those of workers that are gone.
    #[cfg(test)]
    pub(crate) fn workers(&self) -> &[PoolWorker] {
        &self.workers
    }

    pub(crate) fn demand(&self, demand: usize) -> Option<&Demand> {
        self.demands.get(demand)
    }

    /// Iterates over the demands of jobs.
    pub(crate) fn demands(&self) -> impl Iterator<Item = &Demand> {
        self.demands.iter().filter(|demand| demand.jobs > 0)
    }

    /// Forgets which jobs have a ready task.
    pub(crate) fn clear_active(&mut self) {
        for demand in &mut self.demands {
            demand.active = Default::default();
        }
    }

    /// Sets how many tasks of a job lack nothing but slots, and whether one of them may be tried.
    pub(crate) fn set_ready(&mut self, job: JobId, group: usize, tasks: u32, has_ready: HasReady) {
        self.count(job, group, tasks);
        let Some(demand) = self.demands.get_mut(group) else {
            return;
        };
        match has_ready {
            HasReady::Yes => demand.active.insert(job.index()),
            HasReady::No => demand.active.remove(job.index()),
        }
    }

    /// Notes that a worker that chooses GPUs had none for a task of a demand that may not be queued.
    pub(crate) fn note_turned_down(&mut self, demand: usize, worker: WorkerIndex) {
        if let Some(demand) = self.demands.get_mut(demand)
            && !demand.work.bufferable
        {
            demand.turned_down.insert(worker.index());
            demand.fits.remove(worker.index());
        }
    }

    /// Writes the workers into a hash. Limits and demands follow from the configuration.
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        s.each(&self.workers, |s, worker| {
            s.put((&worker.shard, worker.node, worker.host, worker.running));
            s.put(&worker.card_use);
            s.put((worker.eligibility, worker.presence));
            let resources = &worker.resources;
            s.put((resources.port, resources.cpu_cores.to_bits()));
            s.put((resources.memory_mb.to_bits(), &resources.cards));
            s.put((resources.has_worker_command, resources.takes_standby));
            worker.standby.shape(s);
            s.put(resources.room.as_ref().map(|room| room.most));
            s.put(worker.output_space);
        });
        s.each(&self.returning, |s, (task, asked)| {
            s.put((task.job, task.node));
            s.deadline(*asked);
        });
        s.put((&self.unused, self.cursor));
        let kept_away = |d: &&Demand| !d.late.is_empty() || !d.turned_down.is_empty();
        for demand in self.demands.iter().filter(kept_away) {
            s.put((&demand.key, demand.late.iter().collect::<Vec<_>>()));
            s.put(demand.turned_down.iter().collect::<Vec<_>>());
        }
    }

    /// Returns why a worker cannot take a task of a demand now, by the same conditions as [`Pool::update`].
    pub(crate) fn refusal(
        &self,
        (index, worker): (WorkerIndex, &PoolWorker),
        demand: usize,
        slots: &Slots,
    ) -> Option<Refusal> {
        let wanted = self.demands.get(demand)?;
        let refusal = wanted.refusal(worker, slots, Load::Present);
        let late = || wanted.late.contains(index.index()).then_some(Refusal::Late);
        let turned_down = || {
            let turned_down = wanted.turned_down.contains(index.index());
            turned_down.then_some(Refusal::TurnedDown)
        };
        refusal.or_else(late).or_else(turned_down)
    }

    /// Returns the first job with a ready task, from `start` on and then from the beginning, whose demand has room at the root and a worker
    /// in this tier.
    pub(crate) fn next_job(&self, tier: Tier<'_>, start: JobId) -> Option<JobId> {
        self.next_job_from(tier, start)
            .or_else(|| self.next_job_from(tier, JobId(0)))
    }

    pub(crate) fn next_job_from(&self, tier: Tier<'_>, start: JobId) -> Option<JobId> {
        let demands = self.demands.iter().enumerate();
        demands
            .filter(|(index, demand)| demand.root_has_room && tier.admits(*index, demand))
            .filter_map(|(_, demand)| demand.active.next_from(start.index()))
            .min()
            .and_then(|i| u32::try_from(i).ok())
            .map(JobId)
    }

    /// Returns whether a task of any demand may stand by now at a worker that is not claimed.
    pub(crate) fn has_standby_room(&self, claims: &Claims) -> bool {
        let mut demands = self.demands.iter();
        demands.any(|demand| {
            let mut workers = demand.standby_at.iter();
            !demand.active.is_empty() && workers.any(|worker| claims.is_unclaimed(worker))
        })
    }

    /// Returns the deadline to check before a task of a demand goes to a pull worker. Tasks with GPUs are not checked.
    pub(crate) fn due_at(&self, demand: usize, worker: WorkerIndex) -> Option<Due> {
        let demand = &self.demands[demand];
        let asks = self.get(worker)?.allowances.is_some();
        demand
            .work
            .due
            .filter(|_| asks && demand.cards.is_nothing())
    }

    /// Notes that tasks of a demand would miss deadlines at a worker. None of them goes there until the worker sends a new request or has
    /// less to do.
    pub(crate) fn note_late(&mut self, demand: usize, worker: WorkerIndex) {
        let demand = &mut self.demands[demand];
        demand.late.insert(worker.index());
        demand.fits.remove(worker.index());
    }

    /// Returns the hosts of the workers with room for a demand.
    pub(crate) fn hosts_with_room(&self, demand: usize) -> BTreeSet<NodeId> {
        let fits = self.demands.get(demand).map(|demand| demand.fits.iter());
        let workers = fits.into_iter().flatten();
        let on = workers.filter_map(|worker| {
            let index = WorkerIndex(u32::try_from(worker).ok()?);
            Some(self.get(index)?.host)
        });
        on.collect()
    }

    /// Forgets for which demands a worker lacked GPUs, because something may have changed there. Returns whether there were any.
    pub(crate) fn forget_turned_down(&mut self, worker: WorkerIndex) -> bool {
        let mut was_turned_down = false;
        for demand in &mut self.demands {
            was_turned_down |= demand.turned_down.contains(worker.index());
            demand.turned_down.remove(worker.index());
        }
        was_turned_down
    }

    /// Forgets for which demands deadlines would be missed at a worker, which sent a new request, has less to do, or was replaced. Returns
    /// whether there were any.
    pub(crate) fn forget_late(&mut self, worker: WorkerIndex) -> bool {
        let mut was_late = false;
        for demand in &mut self.demands {
            was_late |= demand.late.contains(worker.index());
            demand.late.remove(worker.index());
        }
        was_late
    }

    /// Removes all groups of jobs.
    pub(crate) fn clear_demands(&mut self) {
        self.demands.clear();
        self.groups.clear();
        self.vacant.clear();
        self.counted.clear();
    }

    /// Adds a job to its group. Returns the group, and whether it is new. If so, [`Pool::update_demand`] must follow once the workers have
    /// limits.
    pub(crate) fn join(
        &mut self,
        config: &Config,
        slots: &Slots,
        of: (&JobConfig, Option<LearnedStep>, &OutputNeed),
        filter: Option<&CompiledFilter>,
    ) -> (usize, Group) {
        let mut demand = Demand::new(config, slots, of, filter);
        let (job, ..) = of;
        let per_job = filter.is_some_and(CompiledFilter::is_per_job);
        let key = format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {} {:?} {:?} {:?}",
            demand.output_bytes,
            demand.full_at,
            demand.may_stand_by,
            demand.needs,
            demand.root_needs,
            demand.cards,
            demand.work,
            demand.needs_worker_command,
            job.host_placement,
            job.filters.get(&config.worker_level()),
            per_job.then_some(&job.name),
        );
        if let Some(&group) = self.groups.get(&key) {
            self.demands[group].jobs += 1;
            return (group, Group::Known);
        }
        demand.key.clone_from(&key);
        let group = match self.vacant.pop() {
            Some(group) => {
                self.demands[group] = demand;
                group
            }
            None => {
                self.demands.push(demand);
                self.demands.len() - 1
            }
        };
        self.groups.insert(key, group);
        (group, Group::New)
    }

    /// Removes a job from its group. The group ends with its last job.
    pub(crate) fn leave(&mut self, job: JobId, group: usize) {
        self.count(job, group, 0);
        let demand = &mut self.demands[group];
        demand.active.remove(job.index());
        demand.jobs -= 1;
        if demand.jobs == 0 {
            demand.fits = BitTree::default();
            demand.standby_at = BitTree::default();
            demand.late = BitTree::default();
            demand.turned_down = BitTree::default();
            demand.feasible = BitTree::default();
            self.groups.remove(&demand.key);
            self.vacant.push(group);
        }
    }

    /// Sets how many tasks of a job lack nothing but slots.
    fn count(&mut self, job: JobId, group: usize, tasks: u32) {
        if self.counted.len() <= job.index() {
            if tasks == 0 {
                return;
            }
            self.counted.resize(job.index() + 1, 0);
        }
        let Some(demand) = self.demands.get_mut(group) else {
            return;
        };
        let before = std::mem::replace(&mut self.counted[job.index()], tasks);
        demand.could_start = demand.could_start - u64::from(before) + u64::from(tasks);
    }

    /// Computes which workers can serve a new demand.
    pub(crate) fn update_demand(&mut self, demand: usize, slots: &Slots) {
        let demand = &mut self.demands[demand];
        for (i, slot) in self.workers.iter().enumerate() {
            demand.check_worker(i, slot, slots);
        }
    }
}

/// Returns the slots that would be free on a worker after the task, weighted. The busiest worker that fits has the least.
fn leftover(config: &Config, slots: &Slots, worker: &PoolWorker, demand: &Demand) -> i64 {
    let ids = slots.of_workers().iter();
    let all = ids.zip(&worker.limits).zip(&demand.needs);
    all.fold(0_i64, |sum, ((id, limit), need)| {
        let used = slots.used(worker.node, *id);
        let free = i64::from(*limit) - used - i64::from(*need);
        let weight = i64::from(config.resources[id.index()].weight);
        sum.saturating_add(free.saturating_mul(weight))
    })
}
