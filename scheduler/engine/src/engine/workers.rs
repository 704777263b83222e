//! Workers that join and leave, and the slots and GPUs that running tasks hold.

use std::collections::BTreeSet;

use brasserie_common::resources::{NodeResources, ResourceAmount};
use brasserie_common::{CardsWanted, GpuShare, JobId, NodeId, NodeName, Shard, Time};

use super::Engine;
use crate::pool::Pool;
use crate::pool::worker::RunCards;
use crate::queues::states::Reach;
use crate::slots::{Charge, ChargeGroup};
use crate::tasks::runs::{PlacedRun, RunPath};
use crate::types::{
    AdoptOutcome, Eligibility, OutputSpace, QueuePlace, Task, WorkerIndex, WorkerResources,
};

impl Engine {
    /// Adds a worker, or updates its description. A new worker is ineligible until [`Engine::set_eligibility`].
    pub fn upsert_worker(&mut self, shard: &Shard, resources: WorkerResources) -> WorkerIndex {
        let known = self.pool.find(shard.as_str());
        if let Some(worker) = known
            && self
                .pool
                .get(worker)
                .is_some_and(|w| w.resources == resources)
        {
            return worker;
        }
        let before = self.pool.infeasible();
        let node = self.intern_text(shard.as_str());
        let host = self.intern_text(&resources.hostname);
        let worker = self.pool.upsert(shard, node, host, resources);
        if let Some(config) = self.config.clone() {
            let limits = |pool: &Pool| pool.get(worker).map(|slot| slot.limits.clone());
            let former = limits(&self.pool);
            self.pool.set_limits(worker, &config, &self.slots);
            if known.is_some() && former != limits(&self.pool) {
                self.mark_unwanted(worker, |_| true);
            }
        }
        self.offer_worker(worker);
        self.after_pool_change(&before);
        worker
    }

    /// Sets whether a worker may get tasks. Ignored for a worker that is not present.
    pub fn set_eligibility(&mut self, worker: WorkerIndex, eligibility: Eligibility) {
        self.pool.set_eligibility(worker, eligibility);
        self.offer_worker(worker);
    }

    /// Sets the space that a worker has for the outputs of a task. Ignored for a worker that is not present.
    pub fn set_output_space(&mut self, worker: WorkerIndex, space: OutputSpace) {
        if self.pool.set_output_space(worker, space) {
            self.offer_worker(worker);
        }
    }

    /// Removes a worker. Tasks that run there keep their charges until they complete.
    pub fn remove_worker(&mut self, worker: WorkerIndex) {
        let before = self.pool.infeasible();
        self.pool.remove(worker);
        self.offer_worker(worker);
        self.after_pool_change(&before);
    }

    /// Returns the worker of a shard. After [`Engine::remove_worker`] the shard keeps it while tasks are charged to it. Meanwhile it gets
    /// no tasks, and settings for it are ignored.
    pub fn find_worker(&self, shard: &str) -> Option<WorkerIndex> {
        self.pool.find(shard)
    }

    /// Rebuilds the columns of jobs that became feasible or infeasible: a rare event that touches all of their tasks.
    fn after_pool_change(&mut self, before: &[bool]) {
        let after = self.pool.infeasible();
        if after == before {
            return;
        }
        let is_other = |id: &&JobId| {
            let demand = self.tasks.job(**id).demand;
            after.get(demand) != before.get(demand)
        };
        let changed = self
            .tasks
            .configured()
            .iter()
            .filter(is_other)
            .copied()
            .collect();
        self.rebuild_jobs(changed, &BTreeSet::new());
    }

    /// Interns a text as a node name, and an invalid one as the empty name.
    fn intern_text(&mut self, text: &str) -> NodeId {
        match NodeName::try_from(text) {
            Ok(name) => self.intern_node(&name),
            Err(_) => self.intern_node(&NodeName::default()),
        }
    }

    pub fn is_running(&self, task: Task) -> bool {
        self.tasks.is_running(task)
    }

    /// Returns since when a task has waited for a worker that has more of its inputs, while it could have started elsewhere; `None` if it has
    /// not.
    pub fn locality_wait_began(&self, task: Task) -> Option<Time> {
        self.tasks.locality().began(task)
    }

    pub fn running_on(&self, task: Task) -> Option<WorkerIndex> {
        self.tasks.run(task).map(|run| run.worker)
    }

    /// Returns the number of running tasks.
    pub fn running_count(&self) -> usize {
        self.tasks.runs().len()
    }

    /// Returns the slots that a running task holds: first on the nodes of its path, root first, then on its worker's shard. Empty if the
    /// task does not run.
    pub fn charges(&self, task: Task) -> Vec<NodeResources> {
        let mut all: Vec<NodeResources> = Vec::new();
        let charges = self.tasks.run(task).map_or(&[][..], |run| &run.charges);
        for charge in charges {
            let amount = ResourceAmount {
                name: self.slots.text(charge.resource).to_owned(),
                amount: charge.amount,
            };
            match (charge.group, all.last_mut()) {
                (ChargeGroup::Continues, Some(last)) => last.resources.push(amount),
                (ChargeGroup::Continues | ChargeGroup::Opens, _) => all.push(NodeResources {
                    node: self.node_name(charge.node),
                    resources: vec![amount],
                }),
            }
        }
        all
    }

    /// Returns the GPUs that a running task holds. Empty if it does not run.
    pub fn gpus(&self, task: Task) -> &[GpuShare] {
        self.tasks.run(task).map_or(&[], |run| &run.cards.gpus)
    }

    /// Returns the GPUs that a running task needs, if its worker chooses them.
    pub fn gpus_wanted(&self, task: Task) -> Option<CardsWanted> {
        let cards = &self.tasks.run(task)?.cards;
        Some(CardsWanted {
            need: cards.need.clone()?,
            counts_as: cards.counts_as.clone(),
        })
    }

    /// Records the GPUs that a worker has chosen for a running task.
    pub fn learn_gpus(&mut self, task: Task, gpus: &[GpuShare]) {
        let run = self.tasks.run(task);
        let Some(run) = run.filter(|run| run.cards.need.is_some()) else {
            return;
        };
        let worker = run.worker;
        let before = self.tasks.set_gpus(task, gpus).unwrap_or_default();
        self.pool.give_cards_back(worker, &before);
        self.pool.take_cards(worker, gpus);
        self.offer_worker(worker);
    }

    /// Marks a task running that a worker reports, with the charges and GPUs of its start, whether or not there is room for them now.
    /// `wanted` is its need of GPUs, if the worker has not chosen them yet.
    pub fn adopt_running(
        &mut self,
        task: Task,
        worker: WorkerIndex,
        charges: &[NodeResources],
        (gpus, wanted): (&[GpuShare], Option<&CardsWanted>),
    ) -> AdoptOutcome {
        if let Some(run) = self.tasks.run(task) {
            return AdoptOutcome::AlreadyRunning(run.worker);
        }
        if self.pool.get(worker).is_none() || !self.knows(task) {
            return AdoptOutcome::UnknownWorker;
        }
        let charges = self.read_charges(charges);
        let unknown = self.unknown_charges(task, worker, &charges);
        for charge in &charges {
            self.slots.charge(*charge);
        }
        self.pool.take_cards(worker, gpus);
        self.offer_workers(worker, &charges);
        let expected = self.expected_run_time(task.job);
        self.tasks.start(
            task,
            PlacedRun {
                worker,
                path: RunPath::Unknown,
                charges,
                cards: RunCards {
                    gpus: gpus.into(),
                    need: wanted.map(|wanted| wanted.need.clone()),
                    counts_as: wanted.and_then(|wanted| wanted.counts_as.clone()),
                },
                expected,
                place: QueuePlace::Unknown,
            },
        );
        self.pool.task_started(worker);
        self.note_short(task);
        self.tasks.waits_mut().set(task, None);
        self.tasks.locality_mut().end(task);
        self.refresh(task, Reach::Dependents);
        self.count_ready(task.job);
        self.offer_worker(worker);
        if unknown.is_empty() {
            AdoptOutcome::Adopted
        } else {
            AdoptOutcome::AdoptedWithUnknownCharges(unknown)
        }
    }

    /// Charges the slots of a further run of a running task, without making it the task's run.
    pub fn hold_slots(
        &mut self,
        worker: WorkerIndex,
        charges: &[NodeResources],
        gpus: &[GpuShare],
    ) {
        let charges = self.read_charges(charges);
        self.reclaim.hold_charges(&charges);
        self.pool.take_cards(worker, gpus);
        for charge in charges {
            self.slots.charge(charge);
        }
        self.pool.task_started(worker);
        self.offer_worker(worker);
    }

    /// Frees the slots of [`Engine::hold_slots`], given the same worker, charges and GPUs.
    pub fn release_slots(
        &mut self,
        worker: WorkerIndex,
        charges: &[NodeResources],
        gpus: &[GpuShare],
    ) {
        let charges = self.read_charges(charges);
        self.pool.give_cards_back(worker, gpus);
        self.reclaim.release_charges(&charges);
        for charge in &charges {
            self.slots.free(*charge);
        }
        self.offer_freed(worker, &charges);
    }

    /// Converts reported charges. Negative amounts, which no scheduler grants, count as 0.
    fn read_charges(&mut self, charges: &[NodeResources]) -> Vec<Charge> {
        let mut read = Vec::new();
        for on in charges {
            let node = self.intern_node(&on.node);
            for (i, amount) in on.resources.iter().enumerate() {
                read.push(Charge {
                    node,
                    resource: self.slots.intern(&amount.name),
                    amount: amount.amount.max(0),
                    group: if i == 0 {
                        ChargeGroup::Opens
                    } else {
                        ChargeGroup::Continues
                    },
                });
            }
        }
        read
    }

    /// Returns messages about charges that name no configured resource, or a node or worker without that resource. Empty before there are a
    /// configuration and nodes.
    pub(super) fn unknown_charges(
        &self,
        task: Task,
        worker: WorkerIndex,
        charges: &[Charge],
    ) -> Vec<String> {
        let (Some(config), Some(_)) = (&self.config, &self.forest) else {
            return Vec::new();
        };
        let mut unknown = Vec::new();
        for charge in charges.iter().filter(|charge| charge.amount > 0) {
            let what = format!(
                "{} on {} holds {} of `{}` on `{}`",
                self.job_name(task.job),
                self.node_text(task.node),
                charge.amount,
                self.slots.text(charge.resource),
                self.node_text(charge.node),
            );
            let Some(id) = self.slots.find(charge.resource) else {
                unknown.push(format!("{what}, but no such resource is configured"));
                continue;
            };
            let known = if config.resources[id.index()].level == config.worker_level() {
                self.pool
                    .get_any(worker)
                    .is_some_and(|w| w.node == charge.node)
            } else {
                self.charged_row(*charge).is_some()
            };
            if !known {
                unknown.push(format!("{what}, which has no such resource"));
            }
        }
        unknown
    }
}
