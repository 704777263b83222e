//! Workers that ask for work: what they may be sent beyond the slots that they have.
//!
//! How much a worker asked for, and what is left of it, is counted elsewhere. Here it is only looked at, in the same place as its slots.

use std::collections::BTreeMap;

use brasserie_common::work::DEFAULT_ESTIMATE;
use brasserie_common::{CardNeed, Processor};
use brasserie_common_config::{Config, JobConfig, ResourceId};

use super::demands::Refusal;
use super::workers::Worker;
use crate::engine::Engine;
use crate::statuses::gate::Gate;
use crate::types::{Allowance, Allowances, Eligibility, WorkFound, WorkerIndex};

/// What a group of jobs is as work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WorkNeed {
    /// Its tasks may wait at a worker.
    pub(crate) bufferable: bool,
    /// For how many seconds it may wait and be in time: what its deadline leaves beside what it takes, as far as its job says.
    pub(crate) slack: Option<f64>,
}

impl WorkNeed {
    pub(crate) fn of(job: &JobConfig) -> Self {
        let estimate = job.est_duration.map(|est| est.as_secs_f64());
        let estimate = estimate.unwrap_or(DEFAULT_ESTIMATE);
        WorkNeed {
            bufferable: job.bufferable,
            slack: job.deadline().map(|bound| bound.as_secs_f64() - estimate),
        }
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
        let is_late = |slack| delay > 0.0 && delay > slack;
        self.slack.is_some_and(is_late).then_some(Refusal::Late)
    }
}

/// The type of processors that a task counts as on a worker: its cards, else the CPU.
pub(crate) fn processor_of(cards: &CardNeed, worker: &Worker) -> Processor {
    if cards.is_nothing() {
        return Processor::Cpu;
    }
    let any = worker.resources.cards.first();
    let named = cards.models().next();
    let model = named.or(any.map(|card| &*card.model));
    model.map_or(Processor::Cpu, |model| Processor::Cards(model.into()))
}

impl Worker {
    /// What it asked for lets it take such a task; whoever does not ask takes what there are slots for.
    pub(crate) fn asked_for(&self, work: &WorkNeed, cards: &CardNeed) -> Option<Refusal> {
        let allowances = self.allowances.as_ref()?;
        work.refusal(allowances.of(&processor_of(cards, self)))
    }

    /// How much it wants of the tasks of a demand, in an order: whoever wants instances goes first, then whoever lacks most work.
    pub(crate) fn wants(&self, cards: &CardNeed) -> (bool, u64) {
        let processor = processor_of(cards, self);
        let allowance = self.allowances.as_ref().and_then(|all| all.of(&processor));
        allowance.map_or((false, 0), |left| {
            // Of numbers that are not negative the bits are in the same order.
            let secs = left.instance_secs.max(0.0).to_bits();
            (left.instances > 0.0, secs)
        })
    }

    /// Whether its slots of a resource bound what runs there at once, and not what it was sent: it has a queue for those that wait.
    pub(crate) fn queues_for(&self, id: ResourceId) -> bool {
        self.allowances.is_some() && self.cpu_slots == Some(id)
    }
}

impl Engine {
    /// What a worker may be sent that asks for work, by the types of its processors; `None`: it does not ask.
    pub fn set_allowances(&mut self, worker: WorkerIndex, allowances: Option<Allowances>) {
        if self.pool.set_allowances(worker, allowances) {
            self.offer_worker(worker);
        }
    }

    /// Whether it may get tasks now, as it was said last.
    pub fn is_eligible(&self, worker: WorkerIndex) -> bool {
        let slot = self.pool.get(worker);
        slot.is_some_and(|slot| slot.eligibility == Eligibility::Eligible)
    }

    /// The type of processors that a job's tasks count as on a worker, and how many of these one keeps busy.
    pub fn work_of(
        &self,
        config: &Config,
        job: &JobConfig,
        worker: WorkerIndex,
    ) -> (Processor, f64) {
        let cards = config.card_need(job).unwrap_or_default();
        let slot = self.pool.get_any(worker);
        match slot.map(|slot| processor_of(&cards, slot)) {
            Some(Processor::Cards(model)) => (Processor::Cards(model), cards.amount()),
            Some(Processor::Cpu) | None => (Processor::Cpu, config.cpus_of(job)),
        }
    }

    /// What there is for a worker that asks for work, by the types of processors that jobs use there: tasks that are ready, whether or
    /// not there is room for them, and those of them that would come too late.
    pub fn work_found(&self, worker: WorkerIndex) -> BTreeMap<Processor, WorkFound> {
        let mut found = BTreeMap::new();
        let Some(slot) = self.pool.get(worker) else {
            return found;
        };
        for id in &self.configured {
            let job = &self.jobs[id.index()];
            let Some(demand) = self.pool.demands.get(job.demand) else {
                continue;
            };
            let of_type = found.entry(processor_of(&demand.cards, slot));
            let of_type: &mut WorkFound = of_type.or_default();
            let columns = &self.columns[id.index()];
            if !job.can_run || columns.gate != Gate::Open {
                continue;
            }
            let ready = u64::from(columns.eligible);
            of_type.ready += ready;
            if slot.asked_for(&demand.work, &demand.cards) == Some(Refusal::Late) {
                of_type.late += ready;
            }
        }
        found
    }
}
