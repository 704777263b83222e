//! The demand of a group of jobs on a worker.

use std::collections::BTreeSet;

use brasserie_common::{CardNeed, CardUse, Shard};
use brasserie_common_config::{Config, JobConfig, LevelId, ResourceId};

use super::limits::over_fixed_limits;
use super::work_need::{LearnedStep, OutputNeed, OutputSize, Refusal, WorkNeed};
use super::worker::{PoolWorker, WorkerPresence};
use crate::bit_tree::BitTree;
use crate::forest::filter::CompiledFilter;
use crate::slots::{Slots, is_met, need_of};
use crate::types::{Eligibility, OutputSpace};

/// The running tasks with which a worker is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Its own.
    Present,
    /// None: the question is whether the worker could ever take a task.
    Idle,
}

/// The demand of a group of jobs on a worker.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// Equal for jobs with the same demand.
    pub key: String,
    /// Number of jobs in the group; 0: the entry is vacant, and nothing fits.
    pub jobs: usize,
    /// Needs, by index in the plan's list of worker resources.
    pub needs: Vec<i32>,
    /// Needs, by index in the plan's list of root resources.
    pub root_needs: Vec<i32>,
    /// Whether the root meets `root_needs` now.
    pub root_has_room: bool,
    /// Needed GPUs, besides the slots that stand for them.
    pub cards: CardNeed,
    /// Properties that matter for pull workers.
    pub work: WorkNeed,
    filter: Option<CompiledFilter>,
    /// Name of a job of the group, because the result of the filter may depend on it.
    job: String,
    pub host: Option<String>,
    pub needs_worker_command: bool,
    /// Whether tasks of the group may stand by.
    pub may_stand_by: bool,
    /// Eligible workers with room. If it is empty, no job of the group can start anything.
    pub fits: BitTree,
    /// Workers where a task of the group may stand by.
    pub standby_at: BitTree,
    /// Pull workers where its tasks would miss deadlines or make others miss theirs, as far as checked.
    pub late: BitTree,
    /// Workers that choose GPUs and had none for a task of the group that may not be queued. Something must change there first.
    pub turned_down: BitTree,
    /// Bytes that a worker must have for the outputs of a task; `None` for tasks without outputs.
    pub output_bytes: Option<u64>,
    /// Workers that lately had no space for the inputs or outputs of a task of the group.
    pub full_at: BTreeSet<Shard>,
    /// Workers that would have room if they were idle and eligible.
    pub feasible: BitTree,
    /// Whether the needs exceed a limit of the configuration that holds for every worker.
    pub over_fixed_limits: bool,
    /// Jobs of the group with a ready task.
    pub active: BitTree,
    /// Tasks of the group that lack nothing but slots. Invariant: the sum of [`Pool::counted`] over its jobs.
    pub could_start: u64,
}

impl Demand {
    /// Checks the conditions that depend neither on running tasks nor on health.
    pub(super) fn accepts(&self, worker: &PoolWorker) -> Result<(), Refusal> {
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
        slots: &Slots,
        (job, learned, outputs): (&JobConfig, Option<LearnedStep>, &OutputNeed),
        filter: Option<&CompiledFilter>,
    ) -> Self {
        let needs_at = |level| -> Vec<i32> {
            let ids = slots.at(level).iter();
            ids.map(|id| need_of(&job.resources, *id)).collect()
        };
        let needs = needs_at(config.worker_level());
        let work = WorkNeed::of(job, learned);
        Demand {
            key: String::new(),
            jobs: 1,
            over_fixed_limits: over_fixed_limits(config, slots.of_workers(), &needs),
            needs,
            root_needs: needs_at(LevelId::INSTANCE),
            root_has_room: true,
            // A job whose GPU needs are invalid has errors, and is never placed.
            cards: config.card_need(job).unwrap_or_default(),
            may_stand_by: work.is_short && may_stand_by(config, slots, job),
            work,
            filter: filter.cloned(),
            job: job.name.to_string(),
            host: job.host_placement.clone().filter(|h| !h.is_empty()),
            needs_worker_command: job.command.is_empty(),
            output_bytes: (!job.outputs.is_empty()).then(|| outputs.size.bytes()),
            full_at: outputs.full_at.clone(),
            fits: BitTree::default(),
            standby_at: BitTree::default(),
            late: BitTree::default(),
            turned_down: BitTree::default(),
            feasible: BitTree::default(),
            active: BitTree::default(),
            could_start: 0,
        }
    }

    /// Returns whether a worker has the GPUs while these are in use. For a worker that lists none, only slots count. A worker that chooses
    /// GPUs checks their use when the task begins.
    fn finds_cards(&self, worker: &PoolWorker, used: &CardUse) -> bool {
        if self.cards.is_nothing() || worker.resources.cards.is_empty() {
            return true;
        }
        match worker.chooses_cards() {
            true => self.could_have_cards(worker),
            false => worker.pack(&self.work, &self.cards, used).is_some(),
        }
    }

    /// Returns whether the worker would have the GPUs if all of them were free, whatever it requested.
    fn could_have_cards(&self, worker: &PoolWorker) -> bool {
        let cards = &worker.resources.cards;
        self.cards.is_nothing()
            || cards.is_empty()
            || self.cards.pack(cards, &CardUse::default()).is_some()
    }

    /// Returns whether a worker has space for the outputs of a task, as far as it is known.
    fn has_space(&self, worker: &PoolWorker) -> bool {
        let needed = self.output_bytes.unwrap_or(0);
        let is_enough = match worker.output_space {
            OutputSpace::Unknown => true,
            OutputSpace::Awaited => needed <= OutputSize::default().bytes(),
            OutputSpace::Bytes(space) => needed <= space,
        };
        is_enough && !self.full_at.contains(&worker.shard)
    }

    /// Returns why a worker cannot take a task now, by the same conditions as [`Demand::check_worker`].
    pub(crate) fn refusal(
        &self,
        worker: &PoolWorker,
        slots: &Slots,
        load: Load,
    ) -> Option<Refusal> {
        if let Err(refusal) = self.accepts(worker) {
            return Some(refusal);
        }
        let used = |id| match load {
            Load::Present => slots.used(worker.node, id),
            Load::Idle => 0,
        };
        let needs = slots.of_workers().iter().zip(&worker.limits);
        for ((id, limit), need) in needs.zip(&self.needs) {
            let is_queued = worker.queues_for(*id) && *need <= *limit;
            if !is_queued && !is_met(*need, *limit, used(*id)) {
                return Some(Refusal::Short(*id, *limit));
            }
        }
        let idle = CardUse::default();
        let cards = match load {
            Load::Present => &worker.card_use,
            Load::Idle => &idle,
        };
        if !self.finds_cards(worker, cards) {
            return Some(Refusal::Cards);
        }
        match worker.eligibility {
            Eligibility::Eligible if !self.has_space(worker) => Some(Refusal::NoSpace),
            Eligibility::Eligible if worker.is_full() => Some(Refusal::Full),
            Eligibility::Eligible => worker.asked_for(&self.work, &self.cards),
            Eligibility::Ineligible | Eligibility::Gone => Some(Refusal::Ineligible),
            Eligibility::Draining => Some(Refusal::Draining),
            Eligibility::Barred => Some(Refusal::Barred),
        }
    }

    /// Computes whether a worker can serve the demand. Returns whether it newly fits.
    pub(super) fn check_worker(&mut self, i: usize, worker: &PoolWorker, slots: &Slots) -> bool {
        let present = worker.presence == WorkerPresence::Present;
        let acceptable = present && self.accepts(worker).is_ok();
        let met_by = |used: &dyn Fn(ResourceId) -> i64| {
            let all = slots.of_workers().iter().zip(&worker.limits);
            all.zip(&self.needs)
                .all(|((id, limit), need)| is_met(*need, *limit, used(*id)))
        };
        let is_feasible = acceptable && met_by(&|_| 0) && self.could_have_cards(worker);
        let now = |id| match worker.queues_for(id) {
            true => 0,
            false => slots.used(worker.node, id),
        };
        let is_eligible = worker.eligibility == Eligibility::Eligible;
        let fits = acceptable
            && is_eligible
            && self.has_space(worker)
            && !worker.is_full()
            && worker.asked_for(&self.work, &self.cards).is_none()
            && !self.late.contains(i)
            && !self.turned_down.contains(i)
            && met_by(&now)
            && self.finds_cards(worker, &worker.card_use);
        let stands_by = self.may_stand_by
            && is_feasible
            && is_eligible
            && self.has_space(worker)
            && !worker.is_full()
            && worker.takes_standby()
            // A task behind one that is not short would wait long, and other tasks would find no room meanwhile.
            && met_by(&|id| slots.used(worker.node, id) - worker.standby.short_slots(slots.name(id)));
        for (is_in, tree) in [
            (is_feasible, &mut self.feasible),
            (stands_by, &mut self.standby_at),
        ] {
            match is_in {
                true => tree.insert(i),
                false => tree.remove(i),
            }
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

/// Returns whether tasks of a job may stand by at a worker: they hold nothing that another task could use meanwhile, and have no deadline.
/// The job may say of its slots itself that nothing else needs them (`bufferable`).
fn may_stand_by(config: &Config, slots: &Slots, job: &JobConfig) -> bool {
    let levels = (0_u16..).map(LevelId).take(config.levels.len());
    let mut others = levels.filter(|level| *level != config.worker_level());
    let holds_only_worker_slots = others.all(|level| {
        let mut ids = slots.at(level).iter();
        ids.all(|id| need_of(&job.resources, *id) <= 0)
    });
    config.standby
        && (job.bufferable || holds_only_worker_slots)
        && job.max_running.is_none()
        && job.level_for_host_placement.is_none()
        // The time until a deadline passes on standby, too.
        && job.deadline().is_none()
        && config.card_need(job).is_ok_and(|cards| cards.is_nothing())
}
