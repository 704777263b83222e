//! Demands of jobs on workers, in groups of jobs with the same demand.

use brasserie_common::{CardNeed, CardUse, JobId};
use brasserie_common_config::{Config, JobConfig, LevelId, ResourceId};

use super::bit_tree::BitTree;
use super::credit::{LearnedStep, WorkNeed};
use super::resources::{Ledger, SlotPlan, is_met, need_of};
use super::worker_limits::over_fixed_limits;
use super::workers::{Pool, Presence, Worker};
use crate::forest::filter::CompiledFilter;
use crate::types::Eligibility;

/// Whether a group of jobs existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Known,
    New,
}

/// The demand of a group of jobs on a worker.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Equal for jobs with the same demand.
    pub(super) key: String,
    /// Number of jobs in the group; 0: the entry is vacant, and nothing fits.
    pub(crate) jobs: usize,
    /// Needs, by index in the plan's list of worker resources.
    pub(crate) needs: Vec<i32>,
    /// Needs, by index in the plan's list of root resources.
    pub(super) root_needs: Vec<i32>,
    /// Whether the root meets `root_needs` now.
    pub(super) root_has_room: bool,
    /// Needed GPUs, besides the slots that stand for them.
    pub(crate) cards: CardNeed,
    /// Properties that matter for pull workers.
    pub(crate) work: WorkNeed,
    filter: Option<CompiledFilter>,
    /// Name of a job of the group, because the result of the filter may depend on it.
    job: String,
    pub(crate) host: Option<String>,
    pub(crate) needs_worker_command: bool,
    /// Eligible workers with room. If it is empty, no job of the group can start anything.
    pub(crate) fits: BitTree,
    /// Pull workers where its tasks would miss deadlines or make others miss theirs, as far as checked.
    pub(crate) late: BitTree,
    /// Workers that choose GPUs and had none for a task of the group that may not be queued. Something must change there first.
    pub(crate) turned_down: BitTree,
    /// Workers that would have room if they were idle and eligible.
    pub(crate) feasible: BitTree,
    /// Whether the needs exceed a limit of the configuration that holds for every worker.
    pub(crate) over_fixed_limits: bool,
    /// Jobs of the group with a ready task.
    pub(crate) active: BitTree,
    /// Tasks of the group that lack nothing but slots. Invariant: the sum of [`Pool::counted`] over its jobs.
    pub(crate) could_start: u64,
}

/// The reason why a worker cannot take a task now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Ineligible,
    Draining,
    Filtered,
    OtherHost,
    NoCommand,
    /// The first resource that is short, and its limit there.
    Short(ResourceId, i32),
    /// There are slots, but no GPUs to assign.
    Cards,
    /// The worker runs as many tasks as it can.
    Full,
    /// The pull worker has not requested such a task, or its credit is used up.
    NotAsked,
    /// The task would miss its deadline, by the worker's report of its own work.
    Late,
    /// The worker chooses GPUs, and had none for such a task a moment ago.
    TurnedDown,
}

impl Demand {
    /// Checks the conditions that depend neither on running tasks nor on health.
    pub(super) fn accepts(&self, worker: &Worker) -> Result<(), Refusal> {
        let hostname = &*worker.resources.hostname;
        if self.host.as_ref().is_some_and(|h| h != hostname) {
            return Err(Refusal::OtherHost);
        }
        if let Some(filter) = &self.filter
            && !filter.passes_name(&self.job, hostname)
        {
            return Err(Refusal::Filtered);
        }
        if self.needs_worker_command && !worker.resources.has_worker_command {
            return Err(Refusal::NoCommand);
        }
        Ok(())
    }

    /// Creates the demand of one job, without a check of any worker.
    pub(crate) fn new(
        config: &Config,
        plan: &SlotPlan,
        job: &JobConfig,
        learned: Option<LearnedStep>,
        filter: Option<&CompiledFilter>,
    ) -> Self {
        let needs_at = |level| -> Vec<i32> {
            let ids = plan.at(level).iter();
            ids.map(|id| need_of(&job.resources, *id)).collect()
        };
        let needs = needs_at(config.worker_level());
        Demand {
            key: String::new(),
            jobs: 1,
            over_fixed_limits: over_fixed_limits(config, plan.at(config.worker_level()), &needs),
            needs,
            root_needs: needs_at(LevelId::INSTANCE),
            root_has_room: true,
            // A job whose GPU needs are invalid has errors, and is never placed.
            cards: config.card_need(job).unwrap_or_default(),
            work: WorkNeed::of(job, learned),
            filter: filter.cloned(),
            job: job.name.to_string(),
            host: job.host_placement.clone().filter(|h| !h.is_empty()),
            needs_worker_command: job.command.is_empty(),
            fits: BitTree::default(),
            late: BitTree::default(),
            turned_down: BitTree::default(),
            feasible: BitTree::default(),
            active: BitTree::default(),
            could_start: 0,
        }
    }

    /// Returns whether a worker has the GPUs while these are in use. For a worker that lists none, only slots count. A worker that chooses
    /// GPUs checks their use when the task begins.
    fn finds_cards(&self, worker: &Worker, used: &CardUse) -> bool {
        if self.cards.is_nothing() || worker.resources.cards.is_empty() {
            return true;
        }
        match worker.chooses_cards() {
            true => self.could_have_cards(worker),
            false => worker.pack(&self.work, &self.cards, used).is_some(),
        }
    }

    /// Returns whether the worker would have the GPUs if all of them were free, whatever it requested.
    fn could_have_cards(&self, worker: &Worker) -> bool {
        let cards = &worker.resources.cards;
        self.cards.is_nothing()
            || cards.is_empty()
            || self.cards.pack(cards, &CardUse::default()).is_some()
    }

    /// Returns why a worker cannot take a task now, by the same conditions as [`Demand::look_at`].
    pub(crate) fn refusal(
        &self,
        worker: &Worker,
        plan: &SlotPlan,
        level: &[ResourceId],
        (ledger, cards): (&Ledger, &CardUse),
    ) -> Option<Refusal> {
        if let Err(refusal) = self.accepts(worker) {
            return Some(refusal);
        }
        let slots = level.iter().zip(&worker.limits).zip(&self.needs);
        for ((id, limit), need) in slots {
            if worker.queues_for(*id) && *need <= *limit {
                continue;
            }
            if !is_met(*need, *limit, ledger.used(worker.node, plan.name(*id))) {
                return Some(Refusal::Short(*id, *limit));
            }
        }
        if !self.finds_cards(worker, cards) {
            return Some(Refusal::Cards);
        }
        match worker.eligibility {
            Eligibility::Eligible if worker.is_full() => Some(Refusal::Full),
            Eligibility::Eligible => worker.asked_for(&self.work, &self.cards),
            Eligibility::Ineligible | Eligibility::Gone => Some(Refusal::Ineligible),
            Eligibility::Draining => Some(Refusal::Draining),
        }
    }

    /// Computes whether a worker can serve the demand. Returns whether it newly fits.
    pub(super) fn look_at(
        &mut self,
        i: usize,
        worker: &Worker,
        plan: &SlotPlan,
        level: &[ResourceId],
        ledger: &Ledger,
    ) -> bool {
        let present = worker.presence == Presence::Present;
        let acceptable = present && self.accepts(worker).is_ok();
        let met_by = |used: &dyn Fn(ResourceId) -> i64| {
            let all = level.iter().zip(&worker.limits).zip(&self.needs);
            all.into_iter()
                .all(|((id, limit), need)| is_met(*need, *limit, used(*id)))
        };
        let is_feasible = acceptable && met_by(&|_| 0) && self.could_have_cards(worker);
        let now = |id| match worker.queues_for(id) {
            true => 0,
            false => ledger.used(worker.node, plan.name(id)),
        };
        let is_eligible = worker.eligibility == Eligibility::Eligible;
        let fits = acceptable
            && is_eligible
            && !worker.is_full()
            && worker.asked_for(&self.work, &self.cards).is_none()
            && !self.late.contains(i)
            && !self.turned_down.contains(i)
            && met_by(&now)
            && self.finds_cards(worker, &worker.card_use);
        match is_feasible {
            true => self.feasible.insert(i),
            false => self.feasible.remove(i),
        }
        match fits {
            true => {
                let is_new = !self.fits.contains(i);
                self.fits.insert(i);
                is_new
            }
            false => {
                self.fits.remove(i);
                false
            }
        }
    }
}

impl Pool {
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
        plan: &SlotPlan,
        (job, learned): (&JobConfig, Option<LearnedStep>),
        filter: Option<&CompiledFilter>,
    ) -> (usize, Group) {
        let mut demand = Demand::new(config, plan, job, learned, filter);
        let per_job = filter.is_some_and(CompiledFilter::is_per_job);
        let key = format!(
            "{:?} {:?} {:?} {:?} {} {:?} {:?} {:?}",
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
            demand.late = BitTree::default();
            demand.turned_down = BitTree::default();
            demand.feasible = BitTree::default();
            self.groups.remove(&demand.key);
            self.vacant.push(group);
        }
    }

    /// Sets how many tasks of a job lack nothing but slots.
    pub(crate) fn count(&mut self, job: JobId, group: usize, tasks: u32) {
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
    pub(crate) fn update_demand(
        &mut self,
        demand: usize,
        plan: &SlotPlan,
        level: &[ResourceId],
        ledger: &Ledger,
    ) {
        let demand = &mut self.demands[demand];
        for (i, slot) in self.workers.iter().enumerate() {
            demand.look_at(i, slot, plan, level, ledger);
        }
    }
}
