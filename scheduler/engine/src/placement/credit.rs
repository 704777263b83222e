//! Workers that ask for work: what they may be sent beyond the slots that they have.
//!
//! How much a worker asked for, and what is left of it, is counted elsewhere. Here it is only looked at, in the same place as its slots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use brasserie_common::work::MAX_PROCESSOR_TYPES;
use brasserie_common::{
    Card, CardChoice, CardNeed, CardUse, Estimate, GpuShare, JobId, NodeId, Processor,
};
use brasserie_common_config::{Config, JobConfig, ResourceId};

use super::demands::{Group, Refusal};
use super::running::RunCards;
use super::wait_lists::WaitKey;
use super::workers::{Pool, Worker};
use crate::engine::Engine;
use crate::types::{Allowance, Allowances, Due, Eligibility, Task, WorkFound, WorkerIndex};

/// What a group of jobs is as work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorkNeed {
    /// Its tasks may wait at a worker.
    pub(crate) bufferable: bool,
    /// If its tasks have deadlines.
    pub(crate) due: Option<Due>,
}

impl WorkNeed {
    /// `learned`: how long its tasks took, if nothing else is known.
    pub(crate) fn of(job: &JobConfig, learned: Option<LearnedStep>) -> Self {
        let given = job.est_duration.map(|est| est.as_secs_f64());
        let estimate = Estimate::of(given, learned.map(LearnedStep::seconds));
        WorkNeed {
            bufferable: job.bufferable,
            due: job.deadline().map(|bound| Due {
                estimate: estimate.seconds,
                bound: bound.as_secs_f64(),
            }),
        }
    }

    /// Whether it would miss its deadline on a worker that has nothing else to do.
    pub(crate) fn is_late_anywhere(&self) -> bool {
        self.due.is_some_and(|due| due.estimate > due.bound)
    }

    /// Why a worker that asks for work gets no such task.
    pub(crate) fn refusal(&self, allowance: Option<&Allowance>) -> Option<Refusal> {
        let allowance = allowance.filter(|allowance| match self.bufferable {
            true => allowance.bufferable,
            false => allowance.immediate,
        });
        let Some(allowance) = allowance else {
            return Some(Refusal::NotAsked);
        };
        // Who waits for nobody is in time.
        let delay = allowance.estimated_delay;
        let is_late = |due: Due| delay > 0.0 && delay + due.estimate > due.bound;
        self.due.is_some_and(is_late).then_some(Refusal::Late)
    }
}

/// What was learned of a job, in steps of a tenth: so jobs share groups, and change them seldom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LearnedStep(i32);

impl LearnedStep {
    const BASE: f64 = 1.1;

    fn of(seconds: f64) -> Self {
        // A cast of a float saturates, and of no number is 0.
        LearnedStep((seconds.ln() / Self::BASE.ln()).round() as i32)
    }

    fn seconds(self) -> f64 {
        Self::BASE.powi(self.0)
    }
}

impl Worker {
    /// The types of processors that a task may count as, the first ones first: its cards, else the CPU. Whoever may use any cards may count
    /// as each model that there is, of as many as a request may name.
    pub(crate) fn processors_of<'a>(
        &'a self,
        cards: &'a CardNeed,
    ) -> impl Iterator<Item = Processor> + 'a {
        let named = cards.models().next();
        let listed = &self.resources.cards;
        let is_any = named.is_none() && !cards.is_nothing();
        let mut seen: Vec<&str> = Vec::new();
        let any = listed
            .iter()
            .filter(move |_| is_any)
            .filter_map(move |card| {
                let is_new = seen.len() < MAX_PROCESSOR_TYPES && !seen.contains(&&*card.model);
                is_new.then(|| {
                    seen.push(&card.model);
                    &*card.model
                })
            });
        let models = named
            .into_iter()
            .chain(any)
            .map(|model| Processor::Cards(model.into()));
        let is_of_cpu = cards.is_nothing() || (named.is_none() && listed.is_empty());
        is_of_cpu
            .then_some(Processor::Cpu)
            .into_iter()
            .chain(models)
    }

    /// The type of processors that a task counts as that goes there now: the first for which it asked for such a task, if it asks.
    pub(crate) fn processor_of(&self, work: &WorkNeed, cards: &CardNeed) -> Processor {
        let allowances = self.allowances.as_ref();
        let is_asked_for = |of: &Processor| {
            allowances.is_some_and(|allowances| work.refusal(allowances.of(of)).is_none())
        };
        let first = || self.processors_of(cards).next();
        let asked_for = self.processors_of(cards).find(is_asked_for);
        asked_for.or_else(first).unwrap_or(Processor::Cpu)
    }

    /// What it asked for lets it take such a task; whoever does not ask takes what there are slots for.
    pub(crate) fn asked_for(&self, work: &WorkNeed, cards: &CardNeed) -> Option<Refusal> {
        let allowances = self.allowances.as_ref()?;
        work.refusal(allowances.of(&self.processor_of(work, cards)))
    }

    /// Whether it chooses the cards of a task as that begins. Then what is in use there is not known here, and nothing is said of it.
    pub(crate) fn chooses_cards(&self) -> bool {
        let choice = self.allowances.as_ref().map(Allowances::cards);
        choice == Some(CardChoice::Worker)
    }

    /// The cards of a task that has room there.
    pub(crate) fn cards_for(&self, work: &WorkNeed, need: &CardNeed) -> RunCards {
        if need.is_nothing() || self.resources.cards.is_empty() {
            return RunCards::default();
        }
        let counts_as = match self.processor_of(work, need) {
            Processor::Cards(model) if self.allowances.is_some() => Some(model),
            Processor::Cards(_) | Processor::Cpu => None,
        };
        if self.chooses_cards() {
            return RunCards {
                need: Some(need.clone()),
                counts_as,
                gpus: Box::default(),
            };
        }
        let shares = self.pack(work, need, &self.card_use);
        let gpus = shares.expect("Invariant: a worker that fits has the cards");
        // What names a model counts as that one, whatever else it has; any other as what it has.
        let of_any = counts_as
            .as_ref()
            .filter(|_| need.models().next().is_none());
        let has = of_any.and_then(|_| self.model_of(&gpus));
        RunCards {
            gpus: gpus.into(),
            counts_as: has.or(counts_as),
            need: None,
        }
    }

    /// The cards that are chosen here for a task, if so much of them is taken. If its worker asked for some models, whoever may use any gets
    /// cards of the first of these that has room, or else of several of them.
    pub(crate) fn pack(
        &self,
        work: &WorkNeed,
        need: &CardNeed,
        used: &CardUse,
    ) -> Option<Vec<GpuShare>> {
        let cards = &self.resources.cards;
        let Some(allowances) = &self.allowances else {
            return need.pack(cards, used);
        };
        let is_asked_for = |of: &Processor| work.refusal(allowances.of(of)).is_none();
        let of_any = need.models().next().is_none();
        let models = self.processors_of(need).filter(|_| of_any);
        let models: Vec<Processor> = models.filter(is_asked_for).collect();
        if models.is_empty() {
            // They are named, or it is not sent there in any case.
            return need.pack(cards, used);
        }
        let is_of = |card: &Card, of: &Processor| match of {
            Processor::Cards(model) => card.model == *model,
            Processor::Cpu => false,
        };
        let of_one = |model| need.pack_among(cards, used, |card| is_of(card, model));
        let is_of_any = |card: &Card| models.iter().any(|model| is_of(card, model));
        let alone = models.iter().find_map(of_one);
        alone.or_else(|| need.pack_among(cards, used, is_of_any))
    }

    /// The model of cards that a task has of it: that of the first.
    fn model_of(&self, gpus: &[GpuShare]) -> Option<Arc<str>> {
        let has = gpus.first()?;
        let mut listed = self.resources.cards.iter();
        let card = listed.find(|card| card.device == has.device)?;
        Some(Arc::clone(&card.model))
    }

    /// How much it wants of the tasks of a demand, in an order: whoever wants instances goes first, then whoever lacks most work.
    pub(crate) fn wants(&self, work: &WorkNeed, cards: &CardNeed) -> (bool, u64) {
        let processor = self.processor_of(work, cards);
        let allowance = self.allowances.as_ref().and_then(|all| all.of(&processor));
        allowance.map_or((false, 0), |left| {
            // Of numbers that are not negative the bits are in the same order.
            let secs = left.instance_secs.max(0.0).to_bits();
            (left.instances > 0.0, secs)
        })
    }

    /// Whether its slots of a resource bound what runs there at once, and not what it was sent: it has a queue for those that wait.
    pub(crate) fn queues_for(&self, id: ResourceId) -> bool {
        let is_cpus = self.allowances.is_some() && self.cpu_slots == Some(id);
        is_cpus || (self.chooses_cards() && self.card_slots.contains(&id))
    }
}

impl Pool {
    /// What has to be in time if a task of a demand goes to a worker that asks for work. Cards are not weighed so.
    pub(super) fn due_at(&self, demand: usize, worker: WorkerIndex) -> Option<Due> {
        let demand = &self.demands[demand];
        let asks = self.get(worker)?.allowances.is_some();
        demand
            .work
            .due
            .filter(|_| asks && demand.cards.is_nothing())
    }

    /// Tasks of a demand would come too late there, or make others late: until it asks anew, or has less to do, none of them goes there.
    pub(super) fn note_late(&mut self, demand: usize, worker: WorkerIndex) {
        let demand = &mut self.demands[demand];
        demand.late.insert(worker.index());
        demand.fits.remove(worker.index());
    }

    /// Where there are workers with room for a demand, each once.
    fn hosts_with_room(&self, demand: usize) -> BTreeSet<NodeId> {
        let fits = self.demands.get(demand).map(|demand| demand.fits.iter());
        let workers = fits.into_iter().flatten();
        let on = workers.filter_map(|worker| {
            let index = WorkerIndex(u32::try_from(worker).ok()?);
            Some(self.get(index)?.host)
        });
        on.collect()
    }

    /// Something changed there, or may have. Whether there was anything to forget.
    pub(super) fn forget_turned_down(&mut self, worker: WorkerIndex) -> bool {
        let mut was_turned_down = false;
        for demand in &mut self.demands {
            was_turned_down |= demand.turned_down.contains(worker.index());
            demand.turned_down.remove(worker.index());
        }
        was_turned_down
    }

    /// It asks anew, has less to do, or is another one. Whether there was anything to forget.
    pub(super) fn forget_late(&mut self, worker: WorkerIndex) -> bool {
        let mut was_late = false;
        for demand in &mut self.demands {
            was_late |= demand.late.contains(worker.index());
            demand.late.remove(worker.index());
        }
        was_late
    }
}

impl Engine {
    /// How long tasks of a job took that ended well, in seconds, for jobs that do not say how long they take. Costs nothing while it is
    /// about the same.
    pub fn set_learned(&mut self, id: JobId, seconds: Option<f64>) {
        let learned = seconds.map(LearnedStep::of);
        let Some(job) = self.jobs.get_mut(id.index()) else {
            return;
        };
        let before = std::mem::replace(&mut job.learned, learned);
        let left = job.demand;
        let counts = |job: &JobConfig| job.deadline().is_some() && job.est_duration.is_none();
        if before == learned || !job.config.as_deref().is_some_and(counts) {
            return;
        }
        let Some(config) = self.config.clone() else {
            return;
        };
        if self.join_pool(id, &config) == Group::New {
            self.look_at_demand(id, &config);
        }
        self.pool.leave(id, left);
        match self.jobs[id.index()].host_level {
            // Those who wait for a host may have a look.
            Some(_) => self.wake_where_it_fits(id),
            None => self.sync_active(id),
        }
    }

    /// The first of a job's tasks that wait for a host may have a look, on each host that has room: no more of them than there are
    /// workers, however many wait.
    fn wake_where_it_fits(&mut self, id: JobId) {
        let Some(forest) = self.forest.take() else {
            return;
        };
        for host in self.pool.hosts_with_room(self.jobs[id.index()].demand) {
            let key = WaitKey::Host(host);
            let first = self.lists.first(key, id);
            if let Some((rank, below)) = first.zip(self.below(&forest, id, key)) {
                self.wake(&forest, key, id, below.position(rank));
            }
        }
        self.forest = Some(forest);
        self.sync_active(id);
    }

    /// What a worker may be sent that asks for work, by the types of its processors; `None`: it does not ask. Ignored for
    /// a worker that is not there.
    pub fn set_allowances(&mut self, worker: WorkerIndex, allowances: Option<Allowances>) {
        if self.pool.set_allowances(worker, allowances) {
            self.offer_worker(worker);
        }
    }

    /// A worker has less to do than when its deadlines were looked at: it is asked again for those tasks that were late there.
    pub fn forget_late(&mut self, worker: WorkerIndex) {
        if self.pool.forget_late(worker) {
            self.offer_worker(worker);
        }
    }

    /// A worker that chooses cards has none just now for a task that was placed there and may not wait: until
    /// [`Engine::forget_turned_down`] no such task goes there, as it would be sent in vain in place of others. Ignored if the worker was removed
    /// meanwhile, as another one may take its place, or chooses no more.
    pub fn note_turned_down(&mut self, task: Task) {
        let run = self.running.get(&task);
        let run = run.filter(|run| run.cards.need.is_some());
        let run = run.filter(|run| {
            let worker = self.pool.get(run.worker);
            worker.is_some_and(Worker::chooses_cards)
        });
        let job = self.jobs.get(task.job.index());
        if let Some((run, job)) = run.zip(job)
            && let Some(demand) = self.pool.demands.get_mut(job.demand)
            && !demand.work.bufferable
        {
            demand.turned_down.insert(run.worker.index());
            demand.fits.remove(run.worker.index());
        }
    }

    /// A run has ended at a worker, or it is long enough ago that it had no cards: it is asked again.
    pub fn forget_turned_down(&mut self, worker: WorkerIndex) {
        if self.pool.forget_turned_down(worker) {
            self.offer_worker(worker);
        }
    }

    /// The type of processors that cards of a worker are: that of the first, as there is no task of several types.
    pub fn processor_of_cards(&self, worker: WorkerIndex, gpus: &[GpuShare]) -> Option<Processor> {
        let model = self.pool.get_any(worker)?.model_of(gpus)?;
        Some(Processor::Cards(model))
    }

    /// Whether it may get tasks now, as it was said last.
    pub fn is_eligible(&self, worker: WorkerIndex) -> bool {
        let slot = self.pool.get(worker);
        slot.is_some_and(|slot| slot.eligibility == Eligibility::Eligible)
    }

    /// The type of processors that a job's task counts as on a worker, and how many of these it keeps busy. One that was placed there counts
    /// as it did when it was.
    pub fn work_of(
        &self,
        config: &Config,
        (job, task): (&JobConfig, Task),
        worker: WorkerIndex,
    ) -> (Processor, f64) {
        let cards = config.card_need(job).unwrap_or_default();
        let run = self.running.get(&task).filter(|run| run.worker == worker);
        let slot = self.pool.get_any(worker);
        let of_run = run.and_then(|run| slot?.model_of(&run.cards.gpus));
        let counted = run.and_then(|run| run.cards.counts_as.clone());
        let of_run = counted.or(of_run);
        let learned = self.jobs.get(task.job.index()).and_then(|job| job.learned);
        let now = slot.map(|slot| slot.processor_of(&WorkNeed::of(job, learned), &cards));
        match of_run.map(Processor::Cards).or(now) {
            Some(Processor::Cards(model)) => (Processor::Cards(model), cards.amount()),
            Some(Processor::Cpu) | None => (Processor::Cpu, config.cpus_of(job)),
        }
    }

    /// What there is for a worker that asks for work, by the types of processors that jobs use there: tasks that are ready, whether or
    /// not there is room for them, and those of them that would come too late. Looks at each group of jobs, not at the jobs.
    pub fn work_found(&self, worker: WorkerIndex) -> BTreeMap<Processor, WorkFound> {
        let mut found = BTreeMap::new();
        let Some(slot) = self.pool.get(worker) else {
            return found;
        };
        let allowances = slot.allowances.as_ref();
        for demand in self.pool.demands.iter().filter(|demand| demand.jobs > 0) {
            let ready = demand.could_start;
            let is_late = demand.late.contains(worker.index());
            for processor in slot.processors_of(&demand.cards) {
                let refusal = allowances.map(|all| demand.work.refusal(all.of(&processor)));
                let of_type: &mut WorkFound = found.entry(processor).or_default();
                of_type.ready += ready;
                if is_late || refusal == Some(Some(Refusal::Late)) {
                    of_type.late += ready;
                }
            }
        }
        found
    }
}
