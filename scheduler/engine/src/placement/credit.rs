//! Credit of pull workers: the tasks that they may be sent beyond the slots that they have.
//!
//! The scheduler core counts how much a worker requested and how much of it is left. This module only reads that, together with the
//! worker's slots.

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::work::MAX_PROCESSOR_TYPES;
use brasserie_common::{
    Card, CardChoice, CardNeed, CardUse, Estimate, GpuShare, NodeId, Processor,
};
use brasserie_common_config::{JobConfig, ResourceId};

use super::demands::Refusal;
use super::runs::RunCards;
use super::workers::{Pool, Worker};
use crate::types::{Allowance, Allowances, Due, WorkerIndex};

/// The properties of a group of jobs that matter for work requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorkNeed {
    /// Whether its tasks may be queued at a worker.
    pub(crate) bufferable: bool,
    /// Present if its tasks have deadlines.
    pub(crate) due: Option<Due>,
}

impl WorkNeed {
    /// Returns the properties of a job. `learned` is the run time of its tasks, for jobs without an estimate of their own.
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

    /// Returns whether a task would miss its deadline on a worker without other work.
    pub(crate) fn is_late_anywhere(&self) -> bool {
        self.due.is_some_and(|due| due.estimate > due.bound)
    }

    /// Returns why a pull worker with this credit gets no such task, if it does not.
    pub(crate) fn refusal(&self, allowance: Option<&Allowance>) -> Option<Refusal> {
        let allowance = allowance.filter(|allowance| match self.bufferable {
            true => allowance.bufferable,
            false => allowance.immediate,
        });
        let Some(allowance) = allowance else {
            return Some(Refusal::NotAsked);
        };
        // A worker without a delay meets the deadline.
        let delay = allowance.estimated_delay;
        let is_late = |due: Due| delay > 0.0 && delay + due.estimate > due.bound;
        self.due.is_some_and(is_late).then_some(Refusal::Late)
    }
}

/// A job's learned run time, in steps of a tenth, so that jobs share groups and rarely change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LearnedStep(i32);

impl LearnedStep {
    const BASE: f64 = 1.1;

    pub(crate) fn of(seconds: f64) -> Self {
        // A cast of a float saturates, and makes 0 of NaN.
        LearnedStep((seconds.ln() / Self::BASE.ln()).round() as i32)
    }

    fn seconds(self) -> f64 {
        Self::BASE.powi(self.0)
    }
}

impl Worker {
    /// Iterates over the types of processors that a task may count as, in order of preference: its GPU models, or else the CPU. A task that
    /// may use any GPU may count as each model of the worker, up to the number of types that a request may name.
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

    /// Returns the type of processors that a task counts as when it is sent now. This is the first type for which a pull worker requested
    /// such a task, or else the first of all.
    pub(crate) fn processor_of(&self, work: &WorkNeed, cards: &CardNeed) -> Processor {
        let allowances = self.allowances.as_ref();
        let is_asked_for = |of: &Processor| {
            allowances.is_some_and(|allowances| work.refusal(allowances.of(of)).is_none())
        };
        let first = || self.processors_of(cards).next();
        let asked_for = self.processors_of(cards).find(is_asked_for);
        asked_for.or_else(first).unwrap_or(Processor::Cpu)
    }

    /// Returns why the worker's credit does not allow such a task, if it does not. A worker without credit takes tasks for which it has
    /// slots.
    pub(crate) fn asked_for(&self, work: &WorkNeed, cards: &CardNeed) -> Option<Refusal> {
        let allowances = self.allowances.as_ref()?;
        work.refusal(allowances.of(&self.processor_of(work, cards)))
    }

    /// Returns whether the worker chooses the GPUs of a task when the task begins. The scheduler then does not know which GPUs are in use.
    pub(crate) fn chooses_cards(&self) -> bool {
        let choice = self.allowances.as_ref().map(Allowances::cards);
        choice == Some(CardChoice::Worker)
    }

    /// Returns the GPUs of a task that the worker has room for.
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
        // A task that names a model counts as that model, whatever GPUs it gets. Any other task counts as the model that it gets.
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

    /// Chooses GPUs for a task, given the use of each GPU. A pull worker may have requested work for some models only. Then a task that may
    /// use any GPU gets GPUs of the first such model with room, or else of several of them.
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
            // The task names its models, or does not go there in any case.
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

    /// Returns the model that a task's GPUs count as: that of the first.
    pub(crate) fn model_of(&self, gpus: &[GpuShare]) -> Option<Arc<str>> {
        let has = gpus.first()?;
        let mut listed = self.resources.cards.iter();
        let card = listed.find(|card| card.device == has.device)?;
        Some(Arc::clone(&card.model))
    }

    /// Returns how much the worker wants tasks of a demand, as a sort key. Workers that want instances come first, then those that lack
    /// most work.
    pub(crate) fn wants(&self, work: &WorkNeed, cards: &CardNeed) -> (bool, u64) {
        let processor = self.processor_of(work, cards);
        let allowance = self.allowances.as_ref().and_then(|all| all.of(&processor));
        allowance.map_or((false, 0), |left| {
            // The bits of numbers that are not negative sort as the numbers do.
            let secs = left.instance_secs.max(0.0).to_bits();
            (left.instances > 0.0, secs)
        })
    }

    /// Returns whether the worker's slots of a resource limit only what runs at once, because the worker queues further tasks.
    pub(crate) fn queues_for(&self, id: ResourceId) -> bool {
        let is_cpus = self.allowances.is_some() && self.cpu_slots == Some(id);
        is_cpus || (self.chooses_cards() && self.card_slots.contains(&id))
    }
}

impl Pool {
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
}
