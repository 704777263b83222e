//! One worker: its slots, its GPUs, and its credit if it is a pull worker.
//!
//! The scheduler core counts how much work a pull worker requested and how much of it is left. This module only reads that, together with
//! the worker's slots.

use std::sync::Arc;

use brasserie_common::work::MAX_PROCESSOR_TYPES;
use brasserie_common::{Card, CardChoice, CardNeed, CardUse, GpuShare, NodeId, Processor, Shard};
use brasserie_common_config::{Config, ResourceId};

use super::limits::slots_of;
use super::standby::Standby;
use super::work_need::{Refusal, WorkNeed};
use crate::slots::Slots;
use crate::types::{Allowances, Eligibility, OutputSpace, WorkerResources};

/// The GPUs of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunCards {
    /// GPUs that the engine chose or the worker reported.
    pub gpus: Box<[GpuShare]>,
    /// Needed GPUs, if the worker chooses them.
    pub need: Option<CardNeed>,
    /// The model that the run counts as, if its worker is a pull worker.
    pub counts_as: Option<Arc<str>>,
}

/// The worker of one shard.
#[derive(Clone, Debug)]
pub(crate) struct PoolWorker {
    pub shard: Shard,
    /// The shard's name as a node name, as charges have it.
    pub node: NodeId,
    /// The host's name as a node name, as host placement compares it.
    pub host: NodeId,
    pub resources: WorkerResources,
    pub eligibility: Eligibility,
    pub presence: WorkerPresence,
    /// Slots, by index in the plan's list of worker resources.
    pub limits: Vec<i32>,
    pub running: u32,
    /// Use of its GPUs by running tasks, whether or not the worker still lists them.
    pub card_use: CardUse,
    /// Its credit, if it is a pull worker.
    pub allowances: Option<Allowances>,
    /// The resource whose slots are its processors.
    pub cpu_slots: Option<ResourceId>,
    /// Resources whose slots are all of its GPUs, without a reserve.
    pub card_slots: Vec<ResourceId>,
    pub standby: Standby,
    pub output_space: OutputSpace,
}

/// Whether an entry of the table of workers is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkerPresence {
    Present,
    /// Removed. The entry is kept while tasks are charged to it, and reused afterwards.
    Gone,
}

impl PoolWorker {
    /// Returns whether the worker runs as many tasks as it can. Tasks of its predecessors that are charged to it count, too.
    pub(crate) fn is_full(&self) -> bool {
        let room = self.resources.room.as_ref();
        room.is_some_and(|room| self.running >= room.most.get())
    }

    /// Returns whether one more task may stand by. A pull worker requests the work that it queues.
    pub(super) fn takes_standby(&self) -> bool {
        self.resources.takes_standby && self.allowances.is_none() && self.standby.has_room()
    }

    /// Computes the limits from the configuration and the worker's report.
    pub(super) fn set_limits(&mut self, config: &Config, slots: &Slots) {
        let r = &self.resources;
        let keys = [
            format!("{}:{}", r.hostname, r.port),
            r.hostname.to_string(),
            self.shard.to_string(),
        ];
        let replaced = keys
            .iter()
            .find_map(|key| config.worker_resources_override.get(key));
        self.limits = slots
            .of_workers()
            .iter()
            .map(|id| {
                replaced
                    .and_then(|r| r.get(id))
                    .copied()
                    .unwrap_or_else(|| slots_of(config, *id, r))
            })
            .collect();
        self.cpu_slots = config.cpu_slots().map(|(id, _)| id);
        let level = config.worker_level();
        let card_slots = config.card_slots().filter(|entry| {
            let resource = &config.resources[entry.logical_resource.index()];
            entry.physical_reserve_amount <= 0.0 && resource.level == level
        });
        let all = card_slots.map(|entry| entry.logical_resource).into_iter();
        let all = all.chain(config.card_models().map(|(id, _)| id));
        let has_cards = !self.resources.cards.is_empty();
        let is_replaced = |id: &ResourceId| replaced.is_some_and(|r| r.get(id).is_some());
        self.card_slots = all.filter(|id| has_cards && !is_replaced(id)).collect();
    }

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
