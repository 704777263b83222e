//! What jobs demand of workers, in groups of jobs that demand the same.

use brasserie_common::{CardNeed, CardUse, JobId};
use brasserie_common_config::{Config, JobConfig, LevelId, ResourceId};

use super::bit_tree::BitTree;
use super::credit::{LearnedStep, WorkNeed};
use super::resources::{Ledger, SlotPlan, is_met, need_of};
use super::worker_limits::over_fixed_limits;
use super::workers::{Pool, Presence, Worker};
use crate::forest::filter::CompiledFilter;
use crate::types::Eligibility;

/// Whether somebody was in a group of jobs before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Known,
    New,
}

/// What a group of jobs demands of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Equal for jobs that demand the same.
    pub(super) key: String,
    /// How many jobs demand it; none: it is vacant, and nothing fits.
    pub(super) jobs: usize,
    /// By position in the plan's list of worker resources.
    pub(crate) needs: Vec<i32>,
    /// By position in the plan's list of resources of the root.
    pub(super) root_needs: Vec<i32>,
    /// The root has them now.
    pub(super) root_has_room: bool,
    /// Cards of the worker, beside the slots that stand for them.
    pub(crate) cards: CardNeed,
    /// What it is to workers that ask for work.
    pub(crate) work: WorkNeed,
    filter: Option<CompiledFilter>,
    /// The filter's outcome may depend on it.
    job: String,
    pub(crate) host: Option<String>,
    pub(crate) needs_worker_command: bool,
    /// Eligible workers with room. Empty: no job of the group can start anything.
    pub(crate) fits: BitTree,
    /// Workers that ask for work, and where its tasks would be late, or make others late, as far as was looked.
    pub(crate) late: BitTree,
    /// Workers that choose cards and had none for a task of it that may not wait: something must change there first.
    pub(crate) turned_down: BitTree,
    /// Workers that would have room if they were idle and eligible.
    pub(crate) feasible: BitTree,
    /// Even the limits of the configuration are too low for it.
    pub(crate) over_fixed_limits: bool,
    /// Jobs of the group with a task that is ready.
    pub(crate) active: BitTree,
    /// Tasks of its jobs that could start but for slots. Invariant: the sum of what [`Pool::counted`] has of them.
    pub(super) could_start: u64,
}

/// Why a worker cannot take a task now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Ineligible,
    Draining,
    Filtered,
    OtherHost,
    NoCommand,
    /// First resource that is short, and its limit there.
    Short(ResourceId, i32),
    /// There are slots, but no cards that could be given.
    Cards,
    /// It runs as many tasks as it can.
    Full,
    /// It asks for what it gets, and has not asked for such a task, or has got what it asked for.
    NotAsked,
    /// By what it says of its own work the task would come too late.
    Late,
    /// It chooses cards, and had none for such a task a moment ago.
    TurnedDown,
}

impl Demand {
    /// Conditions that do not depend on what runs or on health.
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

    /// Of one job; nobody has looked at workers for it.
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
            // Who takes slots that are no cards has errors, and is never placed.
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

    /// Whether a worker has the cards, if so much of them is taken. Of one that lists none only slots count, and one that chooses them
    /// itself looks at what is taken when the task begins.
    fn finds_cards(&self, worker: &Worker, used: &CardUse) -> bool {
        if self.cards.is_nothing() || worker.resources.cards.is_empty() {
            return true;
        }
        match worker.chooses_cards() {
            true => self.could_have_cards(worker),
            false => worker.pack(&self.work, &self.cards, used).is_some(),
        }
    }

    /// Whether it would have them if nothing of them were taken, and whatever it asks for.
    fn could_have_cards(&self, worker: &Worker) -> bool {
        let cards = &worker.resources.cards;
        self.cards.is_nothing()
            || cards.is_empty()
            || self.cards.pack(cards, &CardUse::default()).is_some()
    }

    /// Why a worker cannot take a task now, from the same conditions as [`Demand::look_at`].
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
            Eligibility::Ineligible => Some(Refusal::Ineligible),
            Eligibility::Draining => Some(Refusal::Draining),
        }
    }

    /// Computes whether a worker can serve it; returns whether it has become a new chance.
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
    /// Forgets all groups of jobs.
    pub(crate) fn clear_demands(&mut self) {
        self.demands.clear();
        self.groups.clear();
        self.vacant.clear();
        self.counted.clear();
    }

    /// The group of a job, and whether nobody was in it before: then [`Pool::update_demand`] follows, once the workers have their limits.
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

    /// A job leaves its group, which ends with the last one.
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

    /// So many tasks of a job of a group could start but for slots.
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

    /// Computes which workers can serve a demand that is new.
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
